//! The events of an answer, and what they hold.

use super::served::ServedPipeline;
use rag::{Answer, Passage};
use std::sync::Arc;

/// The events of one answer, in the order in which they are sent.
#[derive(Debug)]
pub(crate) enum AnswerEvent<P = ServedPipeline> {
    /// The passages were found. Each lane that is tried sends its own; the last ones count.
    Passages(Box<FoundPassages<P>>),
    /// The next piece of the text. All pieces together are the text of the answer.
    Text(String),
    /// The answer is complete.
    Done(Answer),
}

/// How an answer is delivered to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// Piece by piece, while it is written.
    Streamed,
    /// When it is complete.
    Whole,
}

/// The passages for a question.
#[derive(Debug)]
pub(crate) struct FoundPassages<P = ServedPipeline> {
    /// The pipeline that found them.
    pub(crate) served: Arc<P>,
    pub(crate) passages: Vec<Passage>,
    /// Remarks on the search, in sentences.
    pub(crate) remarks: Vec<String>,
}

/// An answer with its passages.
#[derive(Debug, Clone)]
pub(crate) struct SourcedAnswer {
    pub(crate) passages: Vec<Passage>,
    pub(crate) remarks: Vec<String>,
    pub(crate) answer: Answer,
}
