//! `threshold`: passages with a low score are left out.
//!
//! It pays where many questions need one passage and some need many, and where
//! the scores mean the same for every question: those of a cross-encoder do,
//! those of BM25 and of reciprocal rank fusion do not. A score is that of the
//! last stage that ranked. At least `keep` passages stay.

use crate::{
    Component, Context, Error, Passage, PassageStep,
    component::{ensure, settings},
    corpus::{Corpus, Query},
};
use async_trait::async_trait;

pub(super) const VERSION: u32 = 1;
const NAME: &str = "refine threshold";

settings! {
    /// Settings of `threshold`.
    pub struct Config {
        /// The least score of a passage that stays. Default 0.
        pub least: f32 = 0.0,
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
        ensure(NAME, self.least.is_finite(), "least must be a number")?;
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl PassageStep for Config {
    async fn run(&self, _: Query<'_>, _: Corpus<'_>, passages: Vec<Passage>) -> Result<Vec<Passage>, Error> {
        let stays = |(i, passage): &(usize, Passage)| *i < self.keep || passage.score >= self.least;
        Ok(passages.into_iter().enumerate().filter(stays).map(|(_, passage)| passage).collect())
    }
}

#[cfg(test)]
mod tests {
    use crate::refine::tests::refined;
    use serde_json::json;

    #[tokio::test]
    async fn what_scores_low_is_left_out_but_the_best_stay() {
        // The scores are 1, 1/2 and 1/3.
        let count = async |settings| refined(json!({ "threshold": settings })).await.len();
        assert_eq!(count(json!({})).await, 3);
        assert_eq!(count(json!({ "least": 0.5 })).await, 2);
        assert_eq!(count(json!({ "least": 2.0 })).await, 1);
        assert_eq!(count(json!({ "least": 2.0, "keep": 2 })).await, 2);
    }
}
