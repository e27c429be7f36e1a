//! `hybrid`: vectors and words search side by side, and the two lists are
//! joined.
//!
//! The best first choice: each side finds what the other is blind to. `rrf`
//! joins by ranks and has nothing to tune; `weighted` joins by scores, which
//! pays where one side is known to be better. Its `normalization` decides what
//! makes the two sides' scores comparable: `min_max` looks at the best and the
//! last hit only, so one that stands out squeezes all others together;
//! `z_score` and `dbsf` look at all hits, and pay where such hits are common;
//! `theoretical_minimum` keeps how bad a list is as a whole, which pays where
//! one side often finds nothing that fits. None of them pays where the
//! ranks say as much as the scores: then `rrf` is as good and needs no weight.
//!
//! Words are searched by `bm25`, with the same settings: `language`, `tokens`, `stemmer`, `stop_words`, `k1`, `b`.
//!
//! It needs an embedder, for the side of vectors: the experiment lists one under
//! `embedder`.

use super::{
    Retriever, WordSearch, bm25_search, check_candidates, check_top_k, check_word_search, dense_search, finds_top_k,
    fusion::{self, Scale},
    word_search,
};
use crate::{
    Component, Context, Error, Hit,
    analysis::{LanguageChoice, TextAnalysis, Tokens},
    component::{ensure, settings},
    corpus::{Corpus, Query},
    index::{IndexKind, Indexes},
    trace,
};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tracing::Instrument;

pub(super) const VERSION: u32 = 2;
const NAME: &str = "retriever hybrid";

settings! {
    /// Settings of `hybrid`.
    pub struct Config {
        /// The most chunks to return. Default 5.
        pub top_k: usize = 5,
        /// How many chunks each side puts forward. Default: four times `top_k`, at
        /// least 20.
        pub candidates: Option<usize> = None,
        /// How the two lists are joined. Default `rrf`.
        pub fusion: Fusion = Fusion::Rrf(Rrf::default()),
        /// The language of the texts: `auto`, or the English name of a language in lower case, such
        /// as `german`. `auto` detects the language of each document and each question. A
        /// question in an unclear language, such as one of a few words, is cut by the rules of
        /// all frequent languages of the corpus. `english` cuts texts exactly as LlamaIndex does:
        /// they are only lower-cased, not normalized (NFKC). Default `auto`.
        pub language: LanguageChoice = LanguageChoice::Auto,
        /// What counts as a term: `auto` (what fits the language), `words`, `bigrams` (pairs of
        /// characters in scripts without spaces, words elsewhere) or `ngrams` (runs of four
        /// characters of each word). Default `auto`.
        pub tokens: Tokens = Tokens::Auto,
        /// Whether words are stemmed (their endings are cut off), if the language has a Snowball
        /// stemmer. Default true.
        pub stemmer: bool = true,
        /// Whether stop words (words that nearly every text contains) are left out, if there is a
        /// list of them for the language. Default true.
        pub stop_words: bool = true,
        /// How much further occurrences of a term add to the score, from 0 (nothing) to 1000.
        /// Default 1.5.
        pub k1: f32 = 1.5,
        /// How strongly long chunks are penalised, from 0 (not at all) to 1. Default 0.75.
        pub b: f32 = 0.75,
    }
}

/// How ranked lists are joined.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fusion {
    /// Reciprocal rank fusion.
    Rrf(Rrf),
    /// A weighted sum of the scores, each list on a scale of its own.
    Weighted(Weighted),
}

settings! {
    /// Settings of `rrf`.
    pub struct Rrf {
        /// The larger, the less the first ranks stand out. Default 60.
        pub k: u32 = 60,
    }
}

settings! {
    /// Settings of `weighted`.
    pub struct Weighted {
        /// The share of the vectors, from 0 to 1; the words have the rest. Default 0.5.
        pub dense_weight: f32 = 0.5,
        /// What makes the two sides' scores comparable. Default `min_max`.
        #[serde(skip_serializing_if = "Normalization::is_default")]
        #[schemars(extend("default" = "min_max"))]
        pub normalization: Normalization = Normalization::MinMax,
    }
}

/// What makes scores of different scales comparable. A chunk that one side does
/// not put forward has 0 from that side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Normalization {
    /// The last hit is 0, the first is 1.
    #[default]
    MinMax,
    /// Standard deviations above the last hit.
    ZScore,
    /// Three standard deviations below the mean are 0, three above it 1.
    Dbsf,
    /// The least score that there can be is 0 (a cosine of -1, no shared word),
    /// the first hit is 1.
    TheoreticalMinimum,
}

const LEAST_COSINE: f64 = -1.0;
/// What BM25 gives where no word is shared.
const LEAST_BM25: f64 = 0.0;

impl Normalization {
    // Keys of experiments from before there was a choice stay as they were.
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The scales of cosines and of BM25.
    fn scales(self) -> [Scale; 2] {
        match self {
            Self::MinMax => [Scale::MinMax; 2],
            Self::ZScore => [Scale::ZScore; 2],
            Self::Dbsf => [Scale::Dbsf; 2],
            Self::TheoreticalMinimum => [Scale::From(LEAST_COSINE), Scale::From(LEAST_BM25)],
        }
    }
}

impl Component for Config {
    finds_top_k!(candidates);

    fn indexes(&self) -> Indexes {
        [IndexKind::Dense, IndexKind::Bm25].into()
    }

    fn text_analysis(&self) -> Option<TextAnalysis> {
        Some(word_search!(self).analysis)
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn Retriever>, Error> {
        check_top_k(NAME, self.top_k)?;
        let words = word_search!(self);
        check_word_search(NAME, &words)?;
        match &self.fusion {
            Fusion::Rrf(Rrf { k }) => ensure(NAME, *k > 0, "k must be at least 1")?,
            Fusion::Weighted(Weighted { dense_weight, .. }) => {
                let reason = format!("dense_weight is {dense_weight}, but a share is between 0 and 1");
                ensure(NAME, (0.0..=1.0).contains(dense_weight), reason)?;
            }
        }
        let candidates = check_candidates(NAME, self.top_k, self.candidates)?;
        Ok(Box::new(Hybrid { top_k: self.top_k, candidates, fusion: self.fusion.clone(), words }))
    }
}

struct Hybrid {
    top_k: usize,
    candidates: usize,
    fusion: Fusion,
    words: WordSearch,
}

#[async_trait]
impl Retriever for Hybrid {
    async fn retrieve(&self, queries: &[Query<'_>], corpus: &Corpus<'_>) -> Result<Vec<Vec<Hit>>, Error> {
        let mut found = self.retrieve_deeper(queries, corpus, self.candidates).await?;
        found.iter_mut().for_each(|hits| hits.truncate(self.top_k));
        Ok(found)
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
        let search = trace::stage("search", "dense");
        let dense = dense_search(NAME, queries, corpus, depth).instrument(search).await?;
        let bm25 =
            trace::stage("search", "bm25").in_scope(|| bm25_search(NAME, queries, corpus, depth, &self.words))?;
        let join = |(dense, bm25): (Vec<Hit>, Vec<Hit>)| match &self.fusion {
            Fusion::Rrf(Rrf { k }) => fusion::reciprocal_rank(&[&dense, &bm25], *k),
            Fusion::Weighted(Weighted { dense_weight, normalization }) => {
                let weight = f64::from(*dense_weight);
                let [cosines, words] = normalization.scales();
                fusion::weighted_sum(&[(&dense, weight, cosines), (&bm25, 1.0 - weight, words)])
            }
        };
        Ok(dense.into_iter().zip(bm25).map(join).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retrieve::tests::{Fixture, rows};

    fn found(fusion: Fusion, text: &str) -> Vec<u32> {
        let fixture = Fixture::new();
        let hybrid = Config { top_k: 3, fusion, ..Config::default() }.build(&Context::default()).unwrap();
        rows(&hybrid.retrieve_now(&[fixture.query(text, &[1.0, 0.0])], &fixture.corpus()).unwrap()[0])
    }

    #[test]
    fn both_sides_count() {
        // The vectors say 1, 2, 3, 4; the words say 3, 1, 2.
        assert_eq!(found(Fusion::Rrf(Rrf::default()), "cats running"), [1, 3, 2]);
    }

    #[test]
    fn the_weight_moves_from_words_to_vectors() {
        let weighted =
            |dense_weight| found(Fusion::Weighted(Weighted { dense_weight, ..Weighted::default() }), "cats running");
        assert_eq!(weighted(1.0)[..2], [1, 2]);
        assert_eq!(weighted(0.0)[0], 3);
    }

    const ALL: [Normalization; 4] =
        [Normalization::MinMax, Normalization::ZScore, Normalization::Dbsf, Normalization::TheoreticalMinimum];

    #[test]
    fn with_every_normalization_the_whole_weight_on_one_side_is_the_order_of_that_side() {
        for normalization in ALL {
            let weighted =
                |dense_weight| found(Fusion::Weighted(Weighted { dense_weight, normalization }), "cats running");
            assert_eq!(weighted(1.0)[..2], [1, 2], "{normalization:?}");
            assert_eq!(weighted(0.0)[0], 3, "{normalization:?}");
        }
    }

    #[test]
    fn with_every_normalization_equal_vectors_let_the_words_decide() {
        let fixture = Fixture::with_vectors(&[[1.0, 0.0]; 4]);
        for normalization in ALL {
            let fusion = Fusion::Weighted(Weighted { dense_weight: 0.5, normalization });
            let hybrid = Config { fusion, ..Config::default() }.build(&Context::default()).unwrap();
            let query = fixture.query("cats running", &[1.0, 0.0]);
            let hits = &hybrid.retrieve_now(&[query], &fixture.corpus()).unwrap()[0];
            assert_eq!(hits[0].row, 3, "{normalization:?}");
            assert!(hits.iter().all(|hit| hit.score.is_finite()), "{normalization:?}");
        }
    }

    #[test]
    fn the_default_normalization_is_not_written_so_that_keys_stay() {
        let written = |fusion: &Fusion| serde_json::to_string(fusion).unwrap();
        assert_eq!(written(&Fusion::Weighted(Weighted::default())), r#"{"weighted":{"dense_weight":0.5}}"#);
        let other =
            Fusion::Weighted(Weighted { normalization: Normalization::TheoreticalMinimum, ..Weighted::default() });
        let expected = r#"{"weighted":{"dense_weight":0.5,"normalization":"theoretical_minimum"}}"#;
        assert_eq!(written(&other), expected);
        assert_eq!(serde_json::from_str::<Fusion>(expected).unwrap(), other);
    }

    #[test]
    fn without_shared_words_the_vectors_decide() {
        assert_eq!(found(Fusion::Rrf(Rrf::default()), "zebra"), [1, 2, 3]);
    }

    #[test]
    fn impossible_settings_are_refused() {
        let refused = |config: Config| config.build(&Context::default()).err().unwrap().to_string();
        assert!(refused(Config { candidates: Some(3), ..Config::default() }).contains("candidates"));
        assert!(refused(Config { fusion: Fusion::Rrf(Rrf { k: 0 }), ..Config::default() }).contains("at least 1"));
        let heavy = Fusion::Weighted(Weighted { dense_weight: 2.0, ..Weighted::default() });
        assert!(refused(Config { fusion: heavy, ..Config::default() }).contains("share"));
    }
}
