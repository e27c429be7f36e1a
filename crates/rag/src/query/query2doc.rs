//! `query2doc`: a chat model writes one passage that would answer the
//! question; the search by words gets the question several times and the
//! passage, the search by vectors gets both as one text.
//!
//! It pays most with `bm25` and `hybrid`: the passage brings words that the
//! documents use and the question lacks, and the repeated question keeps its
//! own words ahead. It does not pay where the model knows nothing of the field,
//! or where the question holds the one word that decides, such as an error
//! code. It asks the model once. `hyde` is a variant that leaves the words
//! alone.
//! Source: Wang, Yang and Wei, Query2doc: Query Expansion with Large Language
//! Models, 2023 (without its examples of passages, which are of another
//! corpus).

use super::{
    QueryWriter, SearchQuery, WrittenQueries,
    asker::{Asker, Conversation, ask_settings},
};
use crate::{
    Component, Context, Error, InputSize, ModelCalls,
    component::{ensure, settings},
};
use async_trait::async_trait;
use models::Message;

pub(super) const VERSION: u32 = 2;
const NAME: &str = "query query2doc";

const INSTRUCTIONS: &str = "Write a passage that answers the question, as it could stand in a document, in at most 80 \
                            words. If you are not sure of the answer, write the passage that is likeliest. Write \
                            nothing but the passage.";

settings! {
    /// Settings of `query2doc`.
    pub struct Config {
        /// The name of the chat model.
        pub model: String = String::new(),
        /// How often the question is repeated before the passage when words are
        /// searched. With more, the passage's words count less. Default 5.
        pub repeats: usize = 5,
        /// 0 (the default) always takes the likeliest word.
        pub temperature: f32 = 0.0,
        /// Makes a passage repeatable at a temperature above 0, if the model
        /// supports it. Default 0.
        pub seed: u64 = 0,
        /// The longest passage, in tokens; a longer one is not used. Default 256.
        pub max_tokens: u32 = 256,
    }
}

impl Config {
    ask_settings!();

    pub(super) fn build(&self, cx: &Context<'_>) -> Result<Box<dyn QueryWriter>, Error> {
        let reason = format!("repeats is {}, but must be between 1 and {MOST_REPEATS}", self.repeats);
        ensure(NAME, (1..=MOST_REPEATS).contains(&self.repeats), reason)?;
        Ok(Box::new(Query2doc { asker: self.ask_settings().asker(NAME, cx)?, repeats: self.repeats }))
    }
}

/// With more, the passage makes no difference.
const MOST_REPEATS: usize = 100;

impl Component for Config {
    fn estimate_calls(&self, item: InputSize) -> Vec<ModelCalls<'_>> {
        self.ask_settings().estimate_calls(item, 1)
    }
}

struct Query2doc {
    asker: Asker,
    repeats: usize,
}

#[async_trait]
impl QueryWriter for Query2doc {
    async fn write(&self, question: &str, history: &[Message]) -> Result<WrittenQueries, Error> {
        match self.asker.ask_text(INSTRUCTIONS, Conversation { question, history }, 0).await {
            Ok(passage) => {
                let words = format!("{} ", question.trim()).repeat(self.repeats) + &passage;
                let text = format!("{} {passage}", question.trim());
                Ok(WrittenQueries::of(vec![SearchQuery { words, ..text.into() }]))
            }
            Err(no_reply) => no_reply.search_unchanged(question),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::tests::ScriptedChat;

    #[tokio::test]
    async fn words_hold_the_question_five_times_and_the_text_once() {
        let script = ScriptedChat::new(4096, |_| "Ode built it.".to_owned());
        let written = Config::default().build(&script.context()).unwrap().write("Who?", &[]).await.unwrap();
        let (words, text) = ("Who? Who? Who? Who? Who? Ode built it.".to_owned(), "Who? Ode built it.".to_owned());
        assert_eq!(
            written,
            WrittenQueries::of(vec![SearchQuery { words, text, hypothetical_passages: Vec::new(), filter: None }])
        );
    }

    #[test]
    fn a_question_that_does_not_count_is_refused() {
        let error = Config { repeats: 0, ..Config::default() }.build(&Context::default()).err().unwrap();
        assert!(error.to_string().contains("between 1 and"), "{error}");
    }
}
