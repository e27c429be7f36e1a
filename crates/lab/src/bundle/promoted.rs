//! The vectors of a bundle that are in a database.

use crate::record::PromotedSearch;
use rag::{index::FilledCollection, vector_index::VectorIndexConfig};
use serde::{Deserialize, Serialize};

/// The index of a bundle in a database: where it is, and what it finds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PromotedIndex {
    /// Where the vectors are.
    #[serde(flatten)]
    pub collection: FilledCollection,
    /// The name by which other programs find the collection, also after the next promotion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// What the database found when it had been filled, beside an exact search.
    pub found: SearchAgreement,
}

/// What a search finds beside an exact one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SearchAgreement {
    /// How many searches were compared.
    pub searches: usize,
    /// How many chunks each of them is for.
    pub top: usize,
    /// The mean share of the nearest chunks that are found.
    pub recall: f64,
    /// How many searches find all of them.
    pub complete: usize,
}

/// A trial's vectors in a database, as a bundle keeps them.
#[derive(Debug, Clone)]
pub(crate) struct Promoted {
    pub(crate) config: VectorIndexConfig,
    pub(crate) index: PromotedIndex,
    /// The name of the artifact that says where the vectors are.
    pub(crate) artifact: String,
    pub(crate) expected: ExpectedHits,
}

impl Promoted {
    pub(super) fn search(&self) -> PromotedSearch<'_> {
        PromotedSearch { index: &self.config, artifact: &self.artifact }
    }
}

/// What an exact search found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ExpectedHits {
    pub(crate) top: usize,
    pub(crate) queries: ExpectedQueries,
    /// For each query the nearest entries, best first, with their scores.
    pub(crate) hits: Vec<Vec<(u32, f32)>>,
}

/// What was searched for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExpectedQueries {
    /// The golden questions.
    Questions,
    /// These entries themselves, because the trial writes its queries anew.
    Entries(Vec<u32>),
}
