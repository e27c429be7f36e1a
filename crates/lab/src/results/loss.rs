//! Where the golden evidence of a question was lost in a trial, as data.

mod step;

pub use step::LossStep;

use rag::Span;
use serde::{Deserialize, Serialize};

/// How far down the chunks of a search are counted, to tell the rank of a chunk that was not
/// retrieved.
pub const RANKED_CHUNKS: usize = 1000;

/// The step at which a question's evidence was lost in a trial, or how the question ended if it was
/// not lost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QuestionLoss {
    /// The step.
    pub step: LossStep,
    /// The component that lost it, such as `bm25`; steps of `refine` that cannot be told apart are
    /// joined by `+`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
    /// Each piece of the question's evidence, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<EvidenceLoss>,
}

/// Where a piece of golden evidence was lost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EvidenceLoss {
    /// The step at which it was lost; none if the last passages hold it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<LossStep>,
    /// The component that lost it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
    /// The rank, from 1: of the passage with which the search held it, else of the chunk that holds
    /// it in a deeper search. None if it is in neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<usize>,
    /// How many passages the search gave.
    #[serde(default)]
    pub searched: usize,
    /// How many chunks a deeper search found, at most [`RANKED_CHUNKS`]. 0 if it was not needed or
    /// not possible: the retriever is a function of the user's own, or its index is gone.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub depth: usize,
    /// The chunk that holds most of it; only of evidence that was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<EvidenceChunk>,
}

/// A chunk that holds golden evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvidenceChunk {
    /// Its document's path.
    pub document: String,
    /// Its number within the document, from 0.
    pub number: u32,
    /// Where it lies in the document's text, in bytes.
    pub span: Span,
    /// The share of the evidence's bytes that it holds, from 0 to 1. Counted is the passage that the
    /// chunker makes of it, which may be larger than the chunk.
    pub share: f64,
    /// The terms that it shares with the question, as the BM25 index cuts them.
    #[serde(default)]
    pub shared_terms: Vec<String>,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}
