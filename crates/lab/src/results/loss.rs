//! Data types that say where a trial lost the golden evidence of a question.

mod step;

pub use step::LossStep;

use rag::Span;
use serde::{Deserialize, Serialize};

/// How many chunks a deeper search returns at most. It looks for the rank of a chunk that was not retrieved.
pub const RANKED_CHUNKS: usize = 1000;

/// The step at which a question's evidence was lost in a trial, or how the question ended if no
/// evidence was lost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QuestionLoss {
    /// The step.
    pub step: LossStep,
    /// The component that lost the evidence, such as `bm25`. If it may have been one of several steps
    /// of `refine`, their names are joined by `+`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
    /// If the search lost the evidence: the rank, from 1, by which a deeper search finds all pieces that were lost.
    /// None if it does not find them, and in results of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<usize>,
    /// What happened to each piece of the question's evidence, in the order of the dataset.
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
    /// The rank, from 1, of the passage with which the search held enough of it. If the search did
    /// not hold it, the rank of its chunk in a deeper search. None if neither found it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<usize>,
    /// The number of passages that the search returned.
    #[serde(default)]
    pub searched: usize,
    /// The number of chunks that a deeper search found, at most [`RANKED_CHUNKS`]. 0 if there was
    /// no deeper search: it was not needed or not possible, for example because the retriever is a
    /// user's function or its index is gone.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub depth: usize,
    /// The chunk that holds it: the one with the best rank, or without a rank the one that holds
    /// most of it. None for evidence that was not lost.
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
    /// Its range of bytes in the document's text.
    pub span: Span,
    /// The share of the evidence's bytes that it holds, from 0 to 1. What counts is the passage
    /// that the chunker makes of the chunk, which may be larger than the chunk.
    pub share: f64,
    /// The terms that it shares with the question, by the rules of the chunk's language.
    #[serde(default)]
    pub shared_terms: Vec<String>,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}
