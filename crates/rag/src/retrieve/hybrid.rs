//! `hybrid`: vectors and words search side by side, and the two lists are
//! joined.
//!
//! The best first choice: each side finds what the other is blind to. `rrf`
//! joins by ranks and has nothing to tune; `weighted` joins by scores, which
//! pays where one side is known to be better.

use super::{Corpus, Query, Retriever, bm25_search, check_candidates, check_top_k, dense_search, fusion};
use crate::{
    Component, Context, Error, Hit,
    index::{IndexKind, Indexes},
};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub(super) const VERSION: u32 = 1;
const NAME: &str = "retriever hybrid";

/// Settings of `hybrid`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The most chunks to return. Default 5.
    pub top_k: usize,
    /// How many chunks each side puts forward. Default: four times `top_k`, at
    /// least 20.
    pub candidates: Option<usize>,
    /// How the two lists are joined. Default `rrf`.
    pub fusion: Fusion,
}

/// How ranked lists are joined.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fusion {
    /// Reciprocal rank fusion.
    Rrf(Rrf),
    /// A weighted sum of the scores, each list stretched to 0..1.
    Weighted(Weighted),
}

/// Settings of `rrf`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Rrf {
    /// The larger, the less the first ranks stand out. Default 60.
    pub k: u32,
}

/// Settings of `weighted`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Weighted {
    /// The share of the vectors, from 0 to 1; the words have the rest. Default 0.5.
    pub dense_weight: f32,
}

impl Default for Config {
    fn default() -> Self {
        Self { top_k: 5, candidates: None, fusion: Fusion::Rrf(Rrf::default()) }
    }
}

impl Default for Rrf {
    fn default() -> Self {
        Self { k: 60 }
    }
}

impl Default for Weighted {
    fn default() -> Self {
        Self { dense_weight: 0.5 }
    }
}

impl Component for Config {
    fn indexes(&self) -> Indexes {
        [IndexKind::Dense, IndexKind::Bm25].into()
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn Retriever>, Error> {
        check_top_k(NAME, self.top_k)?;
        let reason = match &self.fusion {
            Fusion::Rrf(Rrf { k: 0 }) => "k must be at least 1".to_owned(),
            Fusion::Weighted(Weighted { dense_weight }) if !(0.0..=1.0).contains(dense_weight) => {
                format!("dense_weight is {dense_weight}, but a share is between 0 and 1")
            }
            fusion => {
                let candidates = check_candidates(NAME, self.top_k, self.candidates)?;
                return Ok(Box::new(Hybrid { top_k: self.top_k, candidates, fusion: fusion.clone() }));
            }
        };
        Err(Error::Config { component: NAME, reason })
    }
}

struct Hybrid {
    top_k: usize,
    candidates: usize,
    fusion: Fusion,
}

#[async_trait]
impl Retriever for Hybrid {
    async fn retrieve(&self, queries: &[Query<'_>], corpus: &Corpus<'_>) -> Result<Vec<Vec<Hit>>, Error> {
        let dense = dense_search(NAME, queries, corpus, self.candidates)?;
        let bm25 = bm25_search(NAME, queries, corpus, self.candidates)?;
        let join = |(dense, bm25): (Vec<Hit>, Vec<Hit>)| {
            let mut hits = match &self.fusion {
                Fusion::Rrf(Rrf { k }) => fusion::reciprocal_rank(&[&dense, &bm25], *k),
                Fusion::Weighted(Weighted { dense_weight }) => {
                    let weight = f64::from(*dense_weight);
                    fusion::relative_score(&[(&dense, weight), (&bm25, 1.0 - weight)])
                }
            };
            hits.truncate(self.top_k);
            hits
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
        let hybrid = Config { top_k: 3, candidates: None, fusion }.build(&Context::default()).unwrap();
        rows(&hybrid.retrieve_now(&[fixture.query(text, &[1.0, 0.0])], &fixture.corpus()).unwrap()[0])
    }

    #[test]
    fn both_sides_count() {
        // The vectors say 1, 2, 3, 4; the words say 3, 1, 2.
        assert_eq!(found(Fusion::Rrf(Rrf::default()), "cats running"), [1, 3, 2]);
    }

    #[test]
    fn the_weight_moves_from_words_to_vectors() {
        let weighted = |dense_weight| found(Fusion::Weighted(Weighted { dense_weight }), "cats running");
        assert_eq!(weighted(1.0)[..2], [1, 2]);
        assert_eq!(weighted(0.0)[0], 3);
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
        let heavy = Fusion::Weighted(Weighted { dense_weight: 2.0 });
        assert!(refused(Config { fusion: heavy, ..Config::default() }).contains("share"));
    }
}
