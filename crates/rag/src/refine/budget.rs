//! `budget`: passages are kept, best first, up to a number of tokens.
//!
//! It pays where chunks differ in size or a pipeline may not exceed a cost for
//! each question, and it makes pipelines comparable: with `top_k` alone, larger
//! chunks win for nothing else than being larger. It does not pay where the
//! generator's own `context_tokens` bounds the same text already. The passage
//! that crosses the number is cut behind its last sentence that fits, or left
//! out if none fits; what comes after it is left out. The first passage is never
//! left out: it is cut behind a word where its first sentence is too long.
//! Tokens are those of `cl100k_base`, as for sizes of chunks; marks around the
//! passages and the question come on top.

use super::pieces::{beginning, some_beginning};
use crate::{
    Component, Context, Error, InputSize, Passage, PassageStep,
    chunk::TokenCounter,
    component::{ensure, settings},
    corpus::{Corpus, Query},
};
use async_trait::async_trait;

pub(super) const VERSION: u32 = 2;
const NAME: &str = "refine budget";
/// The least budget, in tokens: a character may need four.
const LEAST: usize = 16;

settings! {
    /// Settings of `budget`.
    pub struct Config {
        /// The most tokens of all passages together, at least 16. Default 2000.
        pub tokens: usize = 2000,
    }
}

impl Component for Config {
    fn estimate_output(&self, item: InputSize) -> InputSize {
        item.limit_tokens(self.tokens)
    }

    fn reads_chunks(&self) -> bool {
        false
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn PassageStep>, Error> {
        ensure(NAME, self.tokens >= LEAST, format!("tokens is {}, but must be at least {LEAST}", self.tokens))?;
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl PassageStep for Config {
    async fn run(&self, _: Query<'_>, _: Corpus<'_>, passages: Vec<Passage>) -> Result<Vec<Passage>, Error> {
        Ok(within(passages, self.tokens, TokenCounter::shared()))
    }
}

fn within(passages: Vec<Passage>, tokens: usize, counter: &TokenCounter) -> Vec<Passage> {
    let count = |text: &str| counter.count(text);
    let mut left = tokens;
    let mut kept: Vec<Passage> = Vec::with_capacity(passages.len());
    for passage in passages {
        if let Some(size) = counter.count_up_to(&passage.text, left) {
            left -= size;
            kept.push(passage);
            continue;
        }
        // Without the first passage there would be nothing.
        let cut = if kept.is_empty() { some_beginning } else { beginning };
        kept.extend(cut(&passage, left, &count));
        break;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{generate::tests::passage, refine::pieces::tests::assert_true};

    fn kept(texts: &[&str], tokens: usize) -> Vec<Passage> {
        let passages = texts.iter().map(|text| passage(text)).collect();
        within(passages, tokens, TokenCounter::shared())
    }

    #[test]
    fn the_passage_that_crosses_the_budget_ends_with_a_sentence_or_is_left_out() {
        let text = "The mill is old. It stands by the river. Nobody works there.";
        let tokens = TokenCounter::shared().count(text);
        assert_eq!(kept(&[text, text], 2 * tokens).len(), 2);
        let cut = kept(&[text, text, text], 2 * tokens - 1);
        assert_eq!(cut.len(), 2);
        assert_eq!(cut[1].text, "The mill is old. It stands by the river.");
        assert_true(&cut[1], text);
        assert_eq!(kept(&[text, text], tokens + 2).len(), 1, "no sentence fits");
    }

    #[test]
    fn the_first_passage_is_cut_behind_a_word_rather_than_left_out() {
        let text = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen \
                    seventeen eighteen";
        let cut = kept(&[text], 16);
        assert!(!cut[0].text.is_empty() && TokenCounter::shared().count(&cut[0].text) <= 16);
        assert_true(&cut[0], text);
        assert!(Config { tokens: 15 }.build(&Context::default()).is_err());
    }
}
