//! `condense`: in a conversation, a chat model writes the last turn as a
//! question that can be understood by itself, and that is searched.
//!
//! It pays in every chat: "And how much is it?" finds nothing by itself. A
//! question without history is searched as it was asked, without a call, so it
//! makes no difference to golden questions that stand alone. Where there is
//! history it asks the model once. `join` does the same without a model. Later
//! stages get the new question too. Source: LlamaIndex's
//! CondensePlusContextChatEngine; Vakulenko et al., Question Rewriting for
//! Conversational Question Answering, 2020.

use super::{
    QueryWriter, WrittenQueries,
    asker::{Asker, Conversation, ask_settings},
};
use crate::{Component, Context, Error, InputSize, ModelCalls, component::settings};
use async_trait::async_trait;
use models::Message;

pub(super) const VERSION: u32 = 2;
const NAME: &str = "query condense";

const INSTRUCTIONS: &str = "Write the question so that it can be understood without the conversation before it: name \
                            what its pronouns and ellipses stand for, and change nothing else. If it already can, \
                            repeat it word for word. Do not answer it. Reply as {\"question\": \"...\"}.";

settings! {
    /// Settings of `condense`.
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
        Ok(Box::new(Condense(self.ask_settings().asker(NAME, cx)?)))
    }
}

impl Component for Config {
    fn rewrites_question(&self) -> bool {
        true
    }

    fn estimate_calls(&self, item: InputSize) -> Vec<ModelCalls<'_>> {
        self.ask_settings().estimate_calls(item, 1)
    }
}

struct Condense(Asker);

#[async_trait]
impl QueryWriter for Condense {
    async fn write(&self, question: &str, history: &[Message]) -> Result<WrittenQueries, Error> {
        if history.is_empty() {
            return Ok(WrittenQueries::of(vec![question.into()]));
        }
        match self.0.ask_question(INSTRUCTIONS, Conversation { question, history }).await {
            Ok(standalone) => Ok(WrittenQueries::of(vec![standalone.into()])),
            Err(no_reply) => no_reply.search_unchanged(question),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::tests::ScriptedChat;

    #[tokio::test]
    async fn the_last_turn_is_searched_as_a_question_of_its_own() {
        let script = ScriptedChat::new(4096, |_| r#"{"question": "How much is the mill?"}"#.to_owned());
        let writer = Config::default().build(&script.context()).unwrap();
        let history = [Message::user("Is the mill for sale?"), Message::assistant("Yes.")];
        let written = writer.write("And how much is it?", &history).await.unwrap();
        assert_eq!(written, WrittenQueries::of(vec!["How much is the mill?".into()]));
        let prompt = &script.prompts()[0];
        let expected = "<conversation>\n<message from=\"user\">\nIs the mill for sale?\n</message>\n<message \
                        from=\"assistant\">\nYes.\n</message>\n</conversation>\n<question>\nAnd how much is \
                        it?\n</question>\n";
        assert_eq!(prompt, expected);
    }

    #[tokio::test]
    async fn a_question_that_stands_alone_takes_no_call() {
        let script = ScriptedChat::new(4096, |_| unreachable!());
        let writer = Config::default().build(&script.context()).unwrap();
        assert_eq!(writer.write("Who?", &[]).await.unwrap(), WrittenQueries::of(vec!["Who?".into()]));
        assert!(script.requests().is_empty());
    }

    #[tokio::test]
    async fn a_question_that_is_repeated_is_its_own_form() {
        let script = ScriptedChat::new(4096, |_| r#"{"question": "Who?"}"#.to_owned());
        let writer = Config::default().build(&script.context()).unwrap();
        let written = writer.write("Who?", &[Message::user("Hello.")]).await.unwrap();
        assert_eq!(written, WrittenQueries::of(vec!["Who?".into()]));
    }
}
