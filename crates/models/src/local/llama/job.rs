//! A job of an [`LlamaEngine`](super::LlamaEngine) and its outcome.

use super::{sampler::Sampler, vocabulary::Vocabulary, writer::AnswerWriter};
use crate::{Error, Finish, OnPiece};
use llama_cpp_2::token::LlamaToken;
use std::{fmt, sync::Arc};
use tokio::sync::oneshot;

/// A request that was checked and is ready to run.
#[derive(Debug)]
pub(crate) struct LlamaJob {
    /// The conversation up to where the answer begins; never empty.
    pub(crate) prompt: Vec<LlamaToken>,
    /// What is asked for.
    pub(crate) goal: Goal,
    /// Kept until the job is done, since a grammar refers to it.
    pub(crate) vocabulary: Arc<Vocabulary>,
}

/// The kind of result that a job asks for.
#[derive(Debug)]
pub(crate) enum Goal {
    /// The probabilities of groups of tokens as the first token of the answer.
    Choices(Vec<Vec<i32>>),
    /// An answer in words.
    Text(Box<AnswerTask>),
}

/// An answer being written.
#[derive(Debug)]
pub(crate) struct AnswerTask {
    /// Chooses its tokens.
    pub(crate) sampler: Sampler,
    /// Puts its text together.
    pub(crate) writer: AnswerWriter,
    /// How many tokens it may have, at least 1.
    pub(crate) limit: usize,
    /// The reader of the answer while it is written.
    pub(crate) reader: Option<PieceReader>,
}

/// Takes the pieces of an answer.
#[derive(Clone)]
pub(crate) struct PieceReader(pub(crate) OnPiece);

impl PieceReader {
    pub(super) fn read(&self, piece: &str) {
        if !piece.is_empty() {
            (self.0)(piece);
        }
    }
}

impl fmt::Debug for PieceReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
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
