//! A job of an [`LlamaEngine`](super::LlamaEngine) and its outcome.

use super::{sampler::Sampler, vocabulary::Vocabulary, writer::AnswerWriter};
use crate::{Error, Finish, OnPiece};
use llama_cpp_2::token::LlamaToken;
use std::sync::Arc;
use tokio::sync::oneshot;

/// A checked request.
pub(crate) struct LlamaJob {
    /// The conversation up to where the answer begins; never empty.
    pub(crate) prompt: Vec<LlamaToken>,
    pub(crate) goal: Goal,
    /// Kept until the job is done, since a grammar refers to it.
    pub(crate) vocabulary: Arc<Vocabulary>,
}

/// The kind of result that a job asks for.
pub(crate) enum Goal {
    /// The probabilities of groups of tokens as the first token of the answer.
    Choices(Vec<Vec<i32>>),
    /// An answer in words.
    Text(Box<AnswerTask>),
}

/// An answer being written.
pub(crate) struct AnswerTask {
    /// Chooses its tokens.
    pub(crate) sampler: Sampler,
    /// Puts its text together.
    pub(crate) writer: AnswerWriter,
    /// How many tokens it may have, at least 1.
    pub(crate) limit: usize,
    /// Takes the text while it is written.
    pub(crate) on_piece: Option<OnPiece>,
}

/// The result of a job.
#[derive(Debug, Default)]
pub(crate) struct JobOutcome {
    /// The answer.
    pub(crate) text: String,
    /// Why it ended; `None` for choices.
    pub(crate) finish: Option<Finish>,
    /// One probability per choice.
    pub(crate) choices: Vec<f64>,
    /// How many tokens of the prompt had been computed before.
    pub(crate) cached: usize,
    /// How many tokens were written.
    pub(crate) written: usize,
    /// How long it took, without the time in the queue.
    pub(crate) seconds: f64,
}

/// Where an outcome goes; closed when nobody waits for it any more.
pub(super) type OutcomeSender = oneshot::Sender<Result<JobOutcome, Error>>;

pub(super) fn ids(tokens: &[LlamaToken]) -> Vec<i32> {
    tokens.iter().map(|token| token.0).collect()
}
