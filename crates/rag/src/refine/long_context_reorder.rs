//! `long_context_reorder`: the best passages stand at both ends, the worst in
//! the middle.
//!
//! Models read the beginning and the end of a long context better than its
//! middle. It pays with ten passages or more and models that show this weakness;
//! with few passages, or a model that reads its whole window well, it changes
//! nothing or harms. Put it last: a later `budget` would cut off the second
//! best passage. Metrics that look at ranks (`ndcg`, `mrr`, and every metric
//! with `k`) judge this order, so their scores fall by design: compare answers.
//! Source: Liu et al., Lost in the Middle, 2023 (arXiv 2307.03172).

use crate::{
    Component, Context, Error, Passage, PassageStep,
    component::settings,
    corpus::{Corpus, Query},
};
use async_trait::async_trait;

pub(super) const VERSION: u32 = 1;

settings! {
    /// Settings of `long_context_reorder`: there are none.
    pub struct Config {}
}

impl Component for Config {
    fn reads_chunks(&self) -> bool {
        false
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn PassageStep>, Error> {
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl PassageStep for Config {
    async fn run(&self, _: Query<'_>, _: Corpus<'_>, passages: Vec<Passage>) -> Result<Vec<Passage>, Error> {
        let (mut front, mut back) = (Vec::with_capacity(passages.len()), Vec::new());
        for (i, passage) in passages.into_iter().enumerate() {
            if i % 2 == 0 { front.push(passage) } else { back.push(passage) }
        }
        front.extend(back.into_iter().rev());
        Ok(front)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{generate::tests::passage, rerank::tests::Fixture};

    #[tokio::test]
    async fn the_best_is_first_the_second_best_is_last_and_the_worst_in_the_middle() {
        let fixture = Fixture::new();
        for (n, order) in [(1, "1"), (2, "12"), (3, "132"), (6, "135642")] {
            let passages = (1..=n).map(|i| passage(&i.to_string())).collect();
            let ordered = Config {}.run(fixture.query(), fixture.corpus(), passages).await.unwrap();
            assert_eq!(ordered.iter().map(|passage| passage.text.as_str()).collect::<String>(), order);
        }
    }
}
