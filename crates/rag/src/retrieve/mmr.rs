//! `mmr`: near to the question, but not the same thing twice (maximal marginal
//! relevance).
//!
//! Use it where documents repeat themselves, so that five hits would be five
//! copies of one passage. Each next hit is the candidate with the highest
//! `lambda · cosine(question) − (1 − lambda) · highest cosine(chosen hits)`,
//! which is also its score. A cosine below 0 to what was chosen counts as 0:
//! no hit is more novel than an unrelated one, and scores fall from hit to hit.
//! Source: J. Carbonell and J. Goldstein, The Use of MMR, Diversity-Based
//! Reranking for Reordering Documents and Producing Summaries, SIGIR 1998.
//!
//! It needs an embedder: the experiment lists one under `embedder`. Without one,
//! take `bm25` and the step `dedupe`.

use super::{Retriever, check_candidates, check_top_k, dense_search, finds_top_k};
use crate::{
    Component, Context, Error, Hit,
    component::{ensure, settings},
    corpus::{Corpus, Query},
    index::{DenseIndex, IndexKind, Indexes},
};
use async_trait::async_trait;

pub(super) const VERSION: u32 = 1;
const NAME: &str = "retriever mmr";

settings! {
    /// Settings of `mmr`.
    pub struct Config {
        /// The most chunks to return. Default 5.
        pub top_k: usize = 5,
        /// How many of the nearest chunks are chosen from. Default: four times
        /// `top_k`, at least 20.
        pub candidates: Option<usize> = None,
        /// From 0 to 1: 1 is nearness alone, 0 is novelty alone. Default 0.5.
        pub lambda: f32 = 0.5,
    }
}

impl Component for Config {
    finds_top_k!(candidates);

    fn indexes(&self) -> Indexes {
        [IndexKind::Dense].into()
    }

    fn reads_chunk_vectors(&self) -> bool {
        true
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn Retriever>, Error> {
        check_top_k(NAME, self.top_k)?;
        let reason = format!("lambda is {}, but must be between 0 and 1", self.lambda);
        ensure(NAME, (0.0..=1.0).contains(&self.lambda), reason)?;
        let candidates = check_candidates(NAME, self.top_k, self.candidates)?;
        Ok(Box::new(Mmr { top_k: self.top_k, candidates, lambda: self.lambda }))
    }
}

struct Mmr {
    top_k: usize,
    candidates: usize,
    lambda: f32,
}

#[async_trait]
impl Retriever for Mmr {
    async fn retrieve(&self, queries: &[Query<'_>], corpus: &Corpus<'_>) -> Result<Vec<Vec<Hit>>, Error> {
        let found = dense_search(NAME, queries, corpus, self.candidates).await?;
        let index = corpus.index::<DenseIndex>(NAME)?;
        found.into_iter().map(|candidates| self.choose(candidates, index, corpus)).collect()
    }

    fn searched_candidates(&self) -> Option<usize> {
        Some(self.candidates)
    }

    async fn retrieve_deeper(
        &self,
        queries: &[Query<'_>],
        corpus: &Corpus<'_>,
        depth: usize,
    ) -> Result<Vec<Vec<Hit>>, Error> {
        dense_search(NAME, queries, corpus, depth).await
    }
}

impl Mmr {
    fn choose(&self, mut candidates: Vec<Hit>, index: &DenseIndex, corpus: &Corpus<'_>) -> Result<Vec<Hit>, Error> {
        let mut similarity = vec![0.0f32; candidates.len()];
        let mut chosen = Vec::new();
        while chosen.len() < self.top_k {
            let value = |i: usize| self.lambda * candidates[i].score - (1.0 - self.lambda) * similarity[i];
            let better = |i: usize, j: usize| {
                let order = value(i).total_cmp(&value(j)).then(candidates[j].row.cmp(&candidates[i].row));
                if order.is_gt() { i } else { j }
            };
            let Some(best) = (0..candidates.len()).reduce(|best, i| better(i, best)) else { break };
            let score = value(best);
            let row = candidates.remove(best).row;
            similarity.remove(best);
            chosen.push(Hit { row, score });
            let entries: Vec<u32> = candidates.iter().filter_map(|hit| corpus.entry(hit.row)).collect();
            let Some(entry) = corpus.entry(row) else { continue };
            for (known, new) in similarity.iter_mut().zip(index.scores(index.vector(entry), &entries)?) {
                *known = known.max(new);
            }
        }
        Ok(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retrieve::tests::{Fixture, rows};

    fn found(lambda: f32) -> Vec<Hit> {
        // From the question: 0.95, 0.95 (a copy), 0.6 to the other side.
        let side = |x: f32, sign: f32| [x, sign * (1.0 - x * x).sqrt()];
        let fixture = Fixture::with_vectors(&[side(0.95, 1.0), side(0.95, 1.0), side(0.6, -1.0), side(-1.0, 1.0)]);
        let mmr = Config { top_k: 3, candidates: None, lambda }.build(&Context::default()).unwrap();
        mmr.retrieve_now(&[fixture.query("", &[1.0, 0.0])], &fixture.corpus()).unwrap().remove(0)
    }

    #[test]
    fn a_copy_gives_way_to_something_new() {
        assert_eq!(rows(&found(0.5)), [1, 3, 2]);
        assert_eq!(rows(&found(1.0)), [1, 2, 3], "with lambda 1 only nearness counts");
    }

    #[test]
    fn the_score_is_the_marginal_relevance_and_falls() {
        let hits = found(0.5);
        assert!((hits[0].score - 0.475).abs() < 1e-6);
        let to_first = 0.95 * 0.6 - (1.0f32 - 0.95 * 0.95).sqrt() * 0.8;
        assert!((hits[1].score - (0.3 - 0.5 * to_first)).abs() < 1e-6);
        assert!(hits.is_sorted_by(|a, b| a.score >= b.score));
    }

    #[test]
    fn impossible_settings_are_refused() {
        assert!(Config { lambda: -0.1, ..Config::default() }.build(&Context::default()).is_err());
        assert!(Config { candidates: Some(1), ..Config::default() }.build(&Context::default()).is_err());
    }
}
