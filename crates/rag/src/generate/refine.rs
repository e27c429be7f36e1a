//! `refine`: one call per passage; the first answers, each further one may
//! correct the answer or add to it.
//!
//! Use it where a small context or a weak model cannot take several passages
//! at once; it costs a call per passage, and a weak model may lose a good
//! answer on the way. Source: LlamaIndex' response mode of that name.

use super::{
    Answer, Generator, OnText,
    settings::{AnswerModel, Draft, Tally},
    settled::says_nothing,
};
use crate::{Component, Context, Error, InputSize, ModelCalls, Passage, prompt::PromptTask};
use async_trait::async_trait;

pub(super) const VERSION: u32 = 3;

answer_settings! {
    /// Settings of `refine`.
    pub struct Config;
}

impl Component for Config {
    fn estimate_calls(&self, item: InputSize) -> Vec<ModelCalls<'_>> {
        self.0.estimate_calls(item, item.passages.max(1))
    }
}

impl Config {
    pub(super) fn build(&self, cx: &Context<'_>) -> Result<Box<dyn Generator>, Error> {
        Ok(Box::new(Refine(self.0.answer_model("generator refine", cx)?)))
    }
}

struct Refine(AnswerModel);

#[async_trait]
impl Generator for Refine {
    async fn generate_streaming(
        &self,
        question: &str,
        passages: &[Passage],
        on_text: Option<OnText<'_>>,
    ) -> Result<Answer, Error> {
        let task = self.0.task(question);
        let (sources, dropped) = self.0.sources(passages, self.0.room(&task)?);
        let packs: Vec<String> = sources.into_iter().map(|source| source.text).collect();
        answer(&self.0, &task, &packs, passages, dropped, on_text).await
    }
}

/// Answers from the first pack of sources and refines with the others. Without
/// any pack there is no call, and the answer is `no_answer`.
pub(super) async fn answer(
    model: &AnswerModel,
    task: &PromptTask<'_>,
    packs: &[String],
    passages: &[Passage],
    dropped: u32,
    on_text: Option<OnText<'_>>,
) -> Result<Answer, Error> {
    let mut draft = Draft::default();
    let mut tally = Tally::default();
    let watch = model.watch(on_text, passages, dropped);
    for (number, pack) in (1..).zip(packs) {
        // Nothing is worth refining until something was answered.
        let messages = if says_nothing(&draft.text) { task.answer(pack) } else { task.refine(&draft.text, pack) };
        let (reply, cost) = model.ask(messages, watch.filter(|_| number == packs.len())).await?;
        tally += cost;
        if !says_nothing(&reply.text) {
            draft = reply;
        }
    }
    model.answer(task.question, &draft, (passages, dropped), tally)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{
        NO_ANSWER,
        tests::{ScriptedChat, passage},
    };

    #[tokio::test]
    async fn each_passage_is_a_call_and_an_empty_reply_keeps_the_answer() {
        let script = ScriptedChat::new(4096, |call| ["Blue [1].", "", NO_ANSWER][call].to_owned());
        let generator = Config::default().build(&script.context()).unwrap();
        let answer = generator.generate("Which?", &[passage("a"), passage("b"), passage("c")]).await.unwrap();
        assert_eq!((answer.text.as_str(), answer.calls), ("Blue [1].", 3));
        assert_eq!(answer.usage.prompt_tokens, 30);
        assert_eq!(answer.seconds, 1.5);
    }

    #[tokio::test]
    async fn until_something_is_answered_nothing_is_refined() {
        let script = ScriptedChat::new(4096, |call| [NO_ANSWER, "Green [2]."][call].to_owned());
        let generator = Config::default().build(&script.context()).unwrap();
        let answer = generator.generate("Which?", &[passage("a"), passage("b")]).await.unwrap();
        assert_eq!(answer.text, "Green [2].");
        assert!(!script.prompts()[1].contains("<draft>"));
    }
}
