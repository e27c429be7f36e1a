//! `score_gap`: passages behind the largest drop in the scores are left out.
//!
//! The number of passages follows from the question: a question with one good
//! passage gets one, a question with many gets many. It needs no threshold, so
//! it works for scores of any scale. It pays with scores that fall sharply
//! behind what is relevant, such as those of a cross-encoder, and saves tokens.
//! It does not pay with reciprocal rank fusion or `listwise`, whose scores fall
//! by the rank alone, or where an answer needs passages of different strength:
//! raise `keep` then. Equal scores have no drop, so nothing is left out.
//! Source: Taguchi, Maekawa and Bhutani, Efficient Context Selection for
//! Long-Context QA (adaptive-k), 2025.

use crate::{
    Component, Context, Error, Passage, PassageStep,
    component::{ensure, settings},
    corpus::{Corpus, Query},
};
use async_trait::async_trait;

pub(super) const VERSION: u32 = 1;
const NAME: &str = "refine score_gap";

settings! {
    /// Settings of `score_gap`.
    pub struct Config {
        /// How many passages stay at least, the best first. Default 1.
        pub keep: usize = 1,
    }
}

impl Component for Config {
    fn reads_chunks(&self) -> bool {
        false
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn PassageStep>, Error> {
        ensure(NAME, self.keep > 0, "keep must be at least 1")?;
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl PassageStep for Config {
    async fn run(&self, _: Query<'_>, _: Corpus<'_>, mut passages: Vec<Passage>) -> Result<Vec<Passage>, Error> {
        let mut largest = 0.0;
        let mut end = passages.len();
        for i in self.keep..passages.len() {
            let drop = passages[i - 1].score - passages[i].score;
            if drop > largest {
                (largest, end) = (drop, i);
            }
        }
        passages.truncate(end);
        Ok(passages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{generate::tests::passage, refine::tests::refined, rerank::tests::Fixture};
    use serde_json::json;

    async fn count(keep: usize, scores: &[f32]) -> usize {
        let fixture = Fixture::new();
        let passages = scores.iter().map(|&score| Passage { score, ..passage("x") }).collect();
        let step = Config { keep }.build(&Context::default()).unwrap();
        step.run(fixture.query(), fixture.corpus(), passages).await.unwrap().len()
    }

    #[tokio::test]
    async fn the_cut_is_at_the_largest_drop_behind_what_is_kept() {
        // The scores are 1, 1/2 and 1/3.
        assert_eq!(refined(json!("score_gap")).await.len(), 1);
        assert_eq!(refined(json!({ "score_gap": { "keep": 2 } })).await.len(), 2);
        assert_eq!(count(1, &[9.0, 8.5, 3.0, 2.5]).await, 2);
        assert_eq!(count(3, &[9.0, 8.5, 3.0, 2.5]).await, 3);
        assert_eq!(count(1, &[5.0, 4.0, 3.0]).await, 1, "the first of equal drops");
    }

    #[tokio::test]
    async fn without_a_drop_everything_stays() {
        assert_eq!(count(1, &[2.0, 2.0, 2.0]).await, 3);
        assert_eq!(count(1, &[f32::NAN, 2.0]).await, 2);
        assert_eq!(count(5, &[2.0, 1.0]).await, 2);
        assert!(Config { keep: 0 }.build(&Context::default()).is_err());
    }
}
