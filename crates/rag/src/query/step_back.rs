//! `step_back`: a chat model writes a more general question, both are
//! searched, and what they find is joined by reciprocal rank fusion.
//!
//! It pays where an answer needs the rule behind a case: "May I return a
//! damaged kettle after 20 days?" also needs the conditions of returns. It
//! does not pay for questions of plain fact, where half of what is found is
//! then about the field in general. It asks the model once.
//! Source: Zheng et al., Take a Step Back, 2023.

use super::{
    QueryWriter, WrittenQueries,
    asker::{Asker, Conversation, ask_settings},
};
use crate::{Component, Context, Error, InputSize, ModelCalls, component::settings};
use async_trait::async_trait;
use models::Message;

pub(super) const VERSION: u32 = 2;
const NAME: &str = "query step_back";

const INSTRUCTIONS: &str = "Step back from the question: write one more general question, the answer to which holds \
                            the rule, the term or the background that the question rests on. Do not answer it. \
                            Example: from \"May I return a damaged kettle after 20 days?\" to \"What are the \
                            conditions for returning goods?\". Reply as {\"queries\": [\"...\"]}.";

settings! {
    /// Settings of `step_back`.
    pub struct Config {
        /// The name of the chat model.
        pub model: String = String::new(),
        /// 0 (the default) always takes the likeliest word.
        pub temperature: f32 = 0.0,
        /// Makes a question repeatable at a temperature above 0, if the model
        /// supports it. Default 0.
        pub seed: u64 = 0,
        /// The longest reply, in tokens; a longer one is not used. Default 128.
        pub max_tokens: u32 = 128,
    }
}

impl Config {
    ask_settings!();

    pub(super) fn build(&self, cx: &Context<'_>) -> Result<Box<dyn QueryWriter>, Error> {
        Ok(Box::new(StepBack(self.ask_settings().asker(NAME, cx)?)))
    }
}

impl Component for Config {
    fn estimate_calls(&self, item: InputSize) -> Vec<ModelCalls<'_>> {
        self.ask_settings().estimate_calls(item, 1)
    }
}

struct StepBack(Asker);

#[async_trait]
impl QueryWriter for StepBack {
    async fn write(&self, question: &str, history: &[Message]) -> Result<WrittenQueries, Error> {
        match self.0.ask_list(INSTRUCTIONS, Conversation { question, history }, 1).await {
            Ok(general) if general.is_empty() => {
                Ok(WrittenQueries::as_asked(question, "the model wrote no more general question"))
            }
            Ok(general) => Ok(WrittenQueries::with_question(question, general)),
            Err(no_reply) => no_reply.search_unchanged(question),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::tests::ScriptedChat;

    #[tokio::test]
    async fn the_question_and_the_more_general_one_are_searched() {
        let script = ScriptedChat::new(4096, |_| r#"{"queries": ["How are goods returned?"]}"#.to_owned());
        let writer = Config::default().build(&script.context()).unwrap();
        let written = writer.write("May I return it?", &[]).await.unwrap();
        assert_eq!(written, WrittenQueries::of(vec!["May I return it?".into(), "How are goods returned?".into()]));
    }
}
