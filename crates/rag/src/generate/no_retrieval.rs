//! `no_retrieval`: the model answers from what it knows, without any source.
//!
//! The baseline that answers "do I need retrieval at all?". It reads no
//! passages, so it is one trial, whatever chunkers and retrievers are listed.
//! Metrics that look at passages do not apply to it.

use super::{
    Answer, Generator, OnText, PromptSettings,
    settings::{AnswerModel, Settings},
};
use crate::{
    Component, Context, Error, InputSize, ModelCalls, Passage,
    component::settings,
    prompt::{ANSWER_LANGUAGE, no_answer},
};
use async_trait::async_trait;
use models::Message;

pub(super) const VERSION: u32 = 3;
const NAME: &str = "generator no_retrieval";

settings! {
    /// Settings of `no_retrieval`.
    pub struct Config {
        /// The name of the chat model.
        pub model: String = String::new(),
        /// The longest answer, in tokens. Default 256.
        pub max_tokens: u32 = 256,
        /// 0 (the default) always takes the likeliest word.
        pub temperature: f32 = 0.0,
        /// Makes answers repeatable at a temperature above 0, if the model
        /// supports it. Default 0.
        pub seed: u64 = 0,
    }
}

impl Config {
    fn settings(&self) -> Settings {
        let Self { model, max_tokens, temperature, seed } = self.clone();
        Settings { model, max_tokens, temperature, seed, citations: false, ..Settings::default() }
    }

    pub(super) fn build(&self, cx: &Context<'_>) -> Result<Box<dyn Generator>, Error> {
        Ok(Box::new(FromMemory(self.settings().answer_model(NAME, cx)?)))
    }
}

impl PromptSettings for Config {}

impl Component for Config {
    fn estimate_calls(&self, item: InputSize) -> Vec<ModelCalls<'_>> {
        let nothing_found = InputSize { passages: 0, passage_tokens: 0, ..item };
        let settings = self.settings();
        settings
            .estimate_calls(nothing_found, 1)
            .into_iter()
            .map(|ask| ModelCalls { model: &self.model, ..ask })
            .collect()
    }

    fn reads_passages(&self) -> bool {
        false
    }
}

struct FromMemory(AnswerModel);

#[async_trait]
impl Generator for FromMemory {
    async fn generate_streaming(
        &self,
        question: &str,
        _: &[Passage],
        on_text: Option<OnText<'_>>,
    ) -> Result<Answer, Error> {
        let system = format!(
            "Answer the question from what you know, in one to three short sentences. {ANSWER_LANGUAGE} If you do not \
             know the answer, reply exactly: {}",
            no_answer(question)
        );
        let messages = vec![Message::system(system), Message::user(format!("Question: {}", question.trim()))];
        let (draft, tally) = self.0.ask(messages, self.0.watch(on_text, &[], 0)).await?;
        self.0.answer(question, &draft, (&[], 0), tally)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{
        NO_ANSWER,
        tests::{ScriptedChat, passage},
    };

    #[tokio::test]
    async fn the_model_sees_the_question_and_no_passage() {
        let script = ScriptedChat::new(4096, |_| "It is blue [1].".to_owned());
        let generator = Config::default().build(&script.context()).unwrap();
        let answer = generator.generate("Which colour?", &[passage("The sky is green.")]).await.unwrap();
        assert_eq!((answer.text.as_str(), answer.calls), ("It is blue.", 1));
        assert!(answer.citations.is_empty());
        assert!(script.prompts()[0].ends_with("Question: Which colour?") && !script.prompts()[0].contains("green"));
    }

    #[tokio::test]
    async fn a_model_that_does_not_know_gives_the_usual_words() {
        let script = ScriptedChat::new(4096, |_| "the sources do not answer this question".to_owned());
        let generator = Config::default().build(&script.context()).unwrap();
        assert_eq!(generator.generate("Which colour?", &[]).await.unwrap().text, NO_ANSWER);
    }
}
