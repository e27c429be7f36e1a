//! `multi_query`: a chat model writes the question in other words, all are
//! searched beside it, and what they find is joined by reciprocal rank fusion.
//!
//! It pays where people and documents use different words, and where one
//! search finds too little. It does not pay where the question already names
//! what the documents name: other wordings then push good hits down, and each
//! question costs one more call and more searches. It asks the model once.
//! Source: Rackauckas, RAG-Fusion, 2024 (four wordings); LangChain's
//! MultiQueryRetriever has three, as here.

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
const NAME: &str = "query multi_query";

settings! {
    /// Settings of `multi_query`.
    pub struct Config {
        /// The name of the chat model.
        pub model: String = String::new(),
        /// How many other wordings to ask for. Default 3.
        pub n: usize = 3,
        /// 0 (the default) always takes the likeliest word.
        pub temperature: f32 = 0.0,
        /// Makes wordings repeatable at a temperature above 0, if the model
        /// supports it. Default 0.
        pub seed: u64 = 0,
        /// The longest reply, in tokens; a longer one is not used. Default 256.
        pub max_tokens: u32 = 256,
    }
}

impl Config {
    ask_settings!();

    pub(super) fn build(&self, cx: &Context<'_>) -> Result<Box<dyn QueryWriter>, Error> {
        ensure(NAME, self.n > 0, "n must be at least 1")?;
        Ok(Box::new(MultiQuery { asker: self.ask_settings().asker(NAME, cx)?, n: self.n }))
    }
}

impl Component for Config {
    fn estimate_calls(&self, item: InputSize) -> Vec<ModelCalls<'_>> {
        self.ask_settings().estimate_calls(item, 1)
    }
}

struct MultiQuery {
    asker: Asker,
    n: usize,
}

#[async_trait]
impl QueryWriter for MultiQuery {
    async fn write(&self, question: &str, history: &[Message]) -> Result<WrittenQueries, Error> {
        let instructions = format!(
            "Write {} other wordings of the question for a search engine. Each asks for the same, with different \
             words or from another side, and can be understood by itself. Do not answer the question. Reply as \
             {{\"queries\": [\"...\"]}}.",
            self.n
        );
        match self.asker.ask_list(&instructions, Conversation { question, history }, self.n).await {
            Ok(wordings) if wordings.is_empty() => {
                Ok(WrittenQueries::as_asked(question, "the model wrote no other wording"))
            }
            Ok(wordings) => Ok(WrittenQueries::with_question(question, wordings)),
            Err(no_reply) => no_reply.search_unchanged(question),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::tests::ScriptedChat;

    #[tokio::test]
    async fn the_question_and_its_wordings_are_searched() {
        let reply = r#"{"queries": ["The mill's builder", "who built the mill", "Builder of the mill"]}"#;
        let script = ScriptedChat::new(4096, move |_| reply.to_owned());
        let writer = Config::default().build(&script.context()).unwrap();
        let written = writer.write("Who built the mill?", &[]).await.unwrap();
        let expected = ["Who built the mill?", "The mill's builder", "Builder of the mill"];
        assert_eq!(written, WrittenQueries::of(expected.map(Into::into).to_vec()), "a repetition is left out");
        let request = &script.requests()[0];
        assert_eq!(request.schema.as_ref().unwrap()["properties"]["queries"]["maxItems"], 3);
        assert!(request.messages[0].content.contains("3 other wordings"));
    }

    #[tokio::test]
    async fn an_empty_list_is_told() {
        let script = ScriptedChat::new(4096, |_| r#"{"queries": []}"#.to_owned());
        let written = Config::default().build(&script.context()).unwrap().write("Who?", &[]).await.unwrap();
        assert_eq!(written, WrittenQueries::as_asked("Who?", "the model wrote no other wording"));
    }

    #[test]
    fn no_wording_at_all_is_refused() {
        let error = Config { n: 0, ..Config::default() }.build(&Context::default()).err().unwrap();
        assert_eq!(error.to_string(), "query multi_query: n must be at least 1");
    }
}
