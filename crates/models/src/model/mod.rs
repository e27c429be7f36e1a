//! Models: a trait for each kind, and one for services that are asked in JSON; their inputs and outputs, the identities that
//! decide their answers, their limits, and their errors.

mod batch;
mod cap;
mod chat;
mod embedding;
mod error;
mod identity;
mod limits;
mod long_texts;
mod matrix;
mod rerank;
pub(crate) mod schema;
mod service;
pub(crate) mod visible;

pub use batch::{BatchEndpoint, BatchLine, BatchSettings, BatchState};
pub use cap::Cap;
pub use chat::{ChatModel, ChatRequest, ChatResponse, Finish, Message, OnPiece, OnRestart, Role};
pub use embedding::{EmbeddingModel, InputKind};
pub use error::{Absence, Cause, Error, ErrorReport, FunctionError, retriever_section, system_section};
pub use identity::{COMMAND_SCHEME, Identity, ModelPlace};
pub use limits::{EndpointLimits, Limits};
pub use long_texts::LongTexts;
pub use matrix::Matrix;
pub use rerank::RerankModel;
pub use service::{JsonService, ServiceReply, StatedUsage};

pub(crate) use error::{innermost, section};
pub(crate) use identity::{CONTEXT_LENGTH, FUNCTION_SCHEME};
pub(crate) use long_texts::refuse_long_texts;
pub(crate) use matrix::normalize_row;

use serde::{Deserialize, Serialize};

/// The methods of models of every kind.
pub trait Model: Send + Sync {
    /// Its identity, which decides its answers.
    fn identity(&self) -> &Identity;
    /// How many calls it serves best at once.
    fn concurrency(&self) -> usize {
        1
    }
    /// The last announcement of the provider's limits, from any answer or
    /// refusal; none for a model of this process. It is not part of an answer,
    /// because it must not be kept.
    fn rate_hints(&self) -> Option<executor::RateHints> {
        None
    }
    /// The account whose limit its calls count against: the name of the
    /// variable that holds the key, never the key itself; empty if there is no
    /// key.
    fn account(&self) -> &str {
        ""
    }
    /// How many calls it takes: a fixed number, unless the number has to be
    /// learned.
    fn limits(&self) -> Limits {
        Limits::Fixed(self.concurrency())
    }
}

/// Tokens spent by a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read.
    pub prompt_tokens: u64,
    /// Tokens among these from a shared prefix that was already computed.
    pub cached_tokens: u64,
    /// Tokens written.
    pub completion_tokens: u64,
    /// Texts, or pairs of a query and a passage, that were longer than the
    /// model's limit, so that it read only their beginning. Remote models do not
    /// report this number.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut_texts: u64,
    /// Tokens of these texts that the model did not read; not part of `prompt_tokens`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut_tokens: u64,
    /// Texts that were longer than the model's limit, and were read to their end
    /// in windows.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub windowed_texts: u64,
}

pub(crate) const fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Usage {
    /// Tokens read and written. Providers report these counts, so sums stop at
    /// the largest number instead of overflowing.
    pub fn total(&self) -> u64 {
        self.prompt_tokens.saturating_add(self.completion_tokens)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.prompt_tokens = self.prompt_tokens.saturating_add(other.prompt_tokens);
        self.cached_tokens = self.cached_tokens.saturating_add(other.cached_tokens);
        self.completion_tokens = self.completion_tokens.saturating_add(other.completion_tokens);
        self.cut_texts = self.cut_texts.saturating_add(other.cut_texts);
        self.cut_tokens = self.cut_tokens.saturating_add(other.cut_tokens);
        self.windowed_texts = self.windowed_texts.saturating_add(other.windowed_texts);
    }
}
