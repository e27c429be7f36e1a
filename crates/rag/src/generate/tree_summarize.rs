//! `tree_summarize`: groups of passages are answered side by side, the answers
//! are joined by further calls until one is left.
//!
//! Use it for questions over much text (summaries, lists), where every passage
//! counts alike; for a few passages that fit one call it is the same as
//! `compact`. Source: LlamaIndex' response mode of that name.

use super::{
    Answer, Generator, OnText,
    settings::{AnswerModel, Draft, ReplyWatch, Tally},
    settled::says_nothing,
};
use crate::{Component, Context, Error, InputSize, ModelCalls, Passage, fence, generate::budget, prompt::PromptTask};
use async_trait::async_trait;
use futures::future::try_join_all;
use models::Message;

pub(super) const VERSION: u32 = 3;

answer_settings! {
    /// Settings of `tree_summarize`.
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
        Ok(Box::new(TreeSummarize(self.0.answer_model("generator tree_summarize", cx)?)))
    }
}

struct TreeSummarize(AnswerModel);

#[async_trait]
impl Generator for TreeSummarize {
    async fn generate_streaming(
        &self,
        question: &str,
        passages: &[Passage],
        on_text: Option<OnText<'_>>,
    ) -> Result<Answer, Error> {
        let task = self.0.task(question);
        let room = self.0.room(&task)?;
        let (packs, dropped) = self.0.packs(passages, room);
        let leaves = packs.iter().map(|pack| task.answer(pack)).collect();
        let mut tally = Tally::default();
        let watch = self.0.watch(on_text, passages, dropped);
        let mut drafts = self.ask_all(leaves, watch, &mut tally).await?;
        while drafts.len() > 1 {
            drafts = self.join(&task, drafts, room, watch, &mut tally).await?;
        }
        let draft = drafts.pop().unwrap_or_default();
        self.0.answer(question, &draft, (passages, dropped), tally)
    }
}

impl TreeSummarize {
    /// One level of the tree. Every group has at least two drafts (but for one
    /// left over), so each level is at most half as wide and the tree ends.
    async fn join(
        &self,
        task: &PromptTask<'_>,
        drafts: Vec<Draft>,
        room: usize,
        watch: Option<ReplyWatch<'_>>,
        tally: &mut Tally,
    ) -> Result<Vec<Draft>, Error> {
        let count = |text: &str| self.0.count(text);
        let frame = count(&fence::draft(""));
        let longest = (room / 2).saturating_sub(frame).max(1);
        let shorten = |draft: &Draft| {
            let end = fence::cut(&draft.text, longest, &count);
            fence::draft(&draft.text[..end])
        };
        let fenced: Vec<String> = drafts.iter().map(shorten).collect();
        let groups = budget::groups((0..drafts.len()).collect(), room, |&i| count(&fenced[i]));
        let groups = if groups.len() < drafts.len() {
            groups
        } else {
            (0..drafts.len()).collect::<Vec<_>>().chunks(2).map(<[usize]>::to_vec).collect()
        };
        let (alone, together): (Vec<_>, Vec<_>) = groups.into_iter().partition(|group| group.len() == 1);
        let requests =
            together.iter().map(|group| task.combine(&group.iter().map(|&i| fenced[i].as_str()).collect::<String>()));
        let watch = watch.filter(|_| alone.is_empty());
        let mut joined = self.ask_all(requests.collect(), watch, tally).await?;
        joined.extend(alone.iter().map(|group| drafts[group[0]].clone()));
        Ok(joined)
    }

    /// The replies that say something, in order. Calls overlap: a local model
    /// decodes them as one batch. Only a single request is watched.
    async fn ask_all(
        &self,
        requests: Vec<Vec<Message>>,
        watch: Option<ReplyWatch<'_>>,
        tally: &mut Tally,
    ) -> Result<Vec<Draft>, Error> {
        let watch = watch.filter(|_| requests.len() == 1);
        let replies = try_join_all(requests.into_iter().map(|messages| self.0.ask(messages, watch))).await?;
        let mut drafts = Vec::new();
        for (draft, cost) in replies {
            *tally += cost;
            drafts.push(draft);
        }
        drafts.retain(|draft| !says_nothing(&draft.text));
        Ok(drafts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{
        NO_ANSWER,
        tests::{ScriptedChat, passage},
    };

    fn passages(n: usize) -> Vec<Passage> {
        vec![passage(&"Some words here. ".repeat(20)); n]
    }

    #[tokio::test]
    async fn groups_are_answered_and_their_answers_joined() {
        let script =
            ScriptedChat::new(800, |call| ["Red [1].", "Green [2].", "Blue [3].", "All [1][2][3]."][call].to_owned());
        let generator = Config::default().build(&script.context()).unwrap();
        let answer = generator.generate("Which?", &passages(3)).await.unwrap();
        assert_eq!((answer.text.as_str(), answer.calls), ("All [1][2][3].", 4));
        assert!(script.prompts()[3].contains("Red [1].") && script.prompts()[3].contains("Blue [3]."));
    }

    #[tokio::test]
    async fn a_single_useful_draft_is_the_answer() {
        let script = ScriptedChat::new(800, |call| if call == 1 { "Green [2]." } else { NO_ANSWER }.to_owned());
        let generator = Config::default().build(&script.context()).unwrap();
        let answer = generator.generate("Which?", &passages(3)).await.unwrap();
        assert_eq!((answer.text.as_str(), answer.calls), ("Green [2].", 3));
    }

    #[tokio::test]
    async fn long_drafts_still_come_to_an_end() {
        let script = ScriptedChat::new(800, |_| "Very long words indeed. ".repeat(200));
        let generator = Config::default().build(&script.context()).unwrap();
        let answer = generator.generate("Which?", &passages(9)).await.unwrap();
        assert!(answer.calls <= 9 + 8, "{} calls", answer.calls);
    }
}
