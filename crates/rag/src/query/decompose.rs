//! `decompose`: a chat model takes the question apart, each part is searched
//! beside the whole, and what they find is joined by reciprocal rank fusion.
//!
//! It pays for questions that compare or that need facts of several places:
//! "Which of the two mills is older?" becomes one question for each mill. It
//! does not pay for questions of one fact; the model is asked to leave those
//! as they are, which costs the call all the same. Parts that need each
//! other's answers stay unanswered: no search uses the result of another. It
//! asks the model once.
//! Source: Ferreira et al., Visconde: Multi-document QA with GPT-3 and Neural
//! Reranking, 2022.

use super::{
    QueryWriter, WrittenQueries,
    asker::{Asker, Conversation, ask_settings},
};
use crate::{
    Component, Context, Error, InputSize, ModelCalls,
    component::{ensure, settings},
};
use async_trait::async_trait;
use models::Message;

pub(super) const VERSION: u32 = 2;
const NAME: &str = "query decompose";

settings! {
    /// Settings of `decompose`.
    pub struct Config {
        /// The name of the chat model.
        pub model: String = String::new(),
        /// The most parts of a question. Default 4.
        pub most: usize = 4,
        /// 0 (the default) always takes the likeliest word.
        pub temperature: f32 = 0.0,
        /// Makes parts repeatable at a temperature above 0, if the model
        /// supports it. Default 0.
        pub seed: u64 = 0,
        /// The longest reply, in tokens; a longer one is not used. Default 256.
        pub max_tokens: u32 = 256,
    }
}

impl Config {
    ask_settings!();

    pub(super) fn build(&self, cx: &Context<'_>) -> Result<Box<dyn QueryWriter>, Error> {
        ensure(NAME, self.most >= 2, format!("most is {}, but must be at least 2", self.most))?;
        Ok(Box::new(Decompose { asker: self.ask_settings().asker(NAME, cx)?, most: self.most }))
    }
}

impl Component for Config {
    fn estimate_calls(&self, item: InputSize) -> Vec<ModelCalls<'_>> {
        self.ask_settings().estimate_calls(item, 1)
    }
}

struct Decompose {
    asker: Asker,
    most: usize,
}

#[async_trait]
impl QueryWriter for Decompose {
    async fn write(&self, question: &str, history: &[Message]) -> Result<WrittenQueries, Error> {
        let instructions = format!(
            "Decide whether the question needs facts that stand in several places. If so, write the 2 to {} simpler \
             questions that together lead to its answer, each of which can be understood by itself. If one fact \
             answers it, write none. Do not answer. Examples: {{\"queries\": [\"When was the mill at Ode built?\", \
             \"When was the mill at Rye built?\"]}} for \"Which of the mills at Ode and Rye is older?\", and \
             {{\"queries\": []}} for \"Who built the mill at Ode?\".",
            self.most
        );
        match self.asker.ask_list(&instructions, Conversation { question, history }, self.most).await {
            // Without parts, the question alone is searched.
            Ok(parts) => Ok(WrittenQueries::with_question(question, parts)),
            Err(no_reply) => no_reply.search_unchanged(question),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::tests::ScriptedChat;

    async fn written(reply: &'static str) -> WrittenQueries {
        let script = ScriptedChat::new(4096, move |_| reply.to_owned());
        Config { most: 2, ..Config::default() }.build(&script.context()).unwrap().write("A or B?", &[]).await.unwrap()
    }

    #[tokio::test]
    async fn the_whole_and_its_parts_are_searched() {
        let found = written(r#"{"queries": ["What is A?", "What is B?"]}"#).await;
        assert_eq!(found, WrittenQueries::of(["A or B?", "What is A?", "What is B?"].map(Into::into).to_vec()));
    }

    #[tokio::test]
    async fn a_question_that_needs_no_parts_is_no_fallback() {
        assert_eq!(written(r#"{"queries": []}"#).await, WrittenQueries::of(vec!["A or B?".into()]));
    }

    #[tokio::test]
    async fn more_parts_than_asked_for_are_not_what_was_asked_for() {
        let found = written(r#"{"queries": ["a", "b", "c"]}"#).await;
        assert!(found.fallback.unwrap().reason.contains("not what it was asked for"));
        assert_eq!(found.queries, ["A or B?".into()]);
    }

    #[test]
    fn one_part_is_refused() {
        let error = Config { most: 1, ..Config::default() }.build(&Context::default()).err().unwrap();
        assert!(error.to_string().contains("must be at least 2"), "{error}");
    }
}
