//! `compact`: as many passages as fit into one call; what does not fit goes
//! into further calls that improve the answer.
//!
//! The cheapest way and the default: nearly always one call.
//! Source: LlamaIndex' response mode of that name.

use super::{Answer, Generator, OnText, refine, settings::AnswerModel};
use crate::{Component, Context, Error, InputSize, ModelCalls, Passage};
use async_trait::async_trait;

pub(super) const VERSION: u32 = 3;

answer_settings! {
    /// Settings of `compact`.
    pub struct Config;
}

impl Component for Config {
    fn estimate_calls(&self, item: InputSize) -> Vec<ModelCalls<'_>> {
        // As long as the passages fit into one call.
        self.0.estimate_calls(item, 1)
    }
}

impl Config {
    pub(super) fn build(&self, cx: &Context<'_>) -> Result<Box<dyn Generator>, Error> {
        Ok(Box::new(Compact(self.0.answer_model("generator compact", cx)?)))
    }
}

struct Compact(AnswerModel);

#[async_trait]
impl Generator for Compact {
    async fn generate_streaming(
        &self,
        question: &str,
        passages: &[Passage],
        on_text: Option<OnText<'_>>,
    ) -> Result<Answer, Error> {
        let task = self.0.task(question);
        let (packs, dropped) = self.0.packs(passages, self.0.room(&task)?);
        // The generator `refine`, not the stage of that name.
        refine::answer(&self.0, &task, &packs, passages, dropped, on_text).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::tests::{ScriptedChat, passage};

    #[tokio::test]
    async fn everything_that_fits_is_one_call() {
        let script = ScriptedChat::new(4096, |_| "Blue [2].".to_owned());
        let generator = Config::default().build(&script.context()).unwrap();
        let answer = generator.generate("Which colour?", &[passage("The sky."), passage("It is blue.")]).await.unwrap();
        assert_eq!((answer.text.as_str(), answer.calls, answer.dropped_passages), ("Blue [2].", 1, 0));
        assert_eq!(answer.citations, [2]);
        let prompt = &script.prompts()[0];
        assert!(
            prompt.contains("id=\"1\"") && prompt.contains("id=\"2\"") && prompt.ends_with("Question: Which colour?")
        );
    }

    #[tokio::test]
    async fn what_does_not_fit_refines_the_answer() {
        let script = ScriptedChat::new(800, |_| "So [1].".to_owned());
        let generator = Config::default().build(&script.context()).unwrap();
        let passages = [passage(&"Some words here. ".repeat(20)), passage(&"Other words there. ".repeat(20))];
        let answer = generator.generate("What?", &passages).await.unwrap();
        assert_eq!((answer.calls, answer.dropped_passages), (2, 0));
        assert!(script.prompts()[1].contains("<draft>\nSo [1].\n</draft>"));
    }

    #[tokio::test]
    async fn a_budget_drops_what_is_beyond_it_and_says_so() {
        let script = ScriptedChat::new(4096, |_| "So [3] and [1].".to_owned());
        let settings = crate::generate::Settings { context_tokens: Some(80), ..Default::default() };
        let generator = Config(settings).build(&script.context()).unwrap();
        let passages = vec![passage(&"Some words here. ".repeat(20)); 3];
        let answer = generator.generate("What?", &passages).await.unwrap();
        assert_eq!((answer.calls, answer.dropped_passages), (1, 2));
        assert_eq!(
            (answer.text.as_str(), answer.citations.as_slice()),
            ("So and [1].", [1].as_slice()),
            "3 was not seen"
        );
    }
}
