//! The answers of the provider, before limits and faults are applied.

use crate::draw::scramble;
use bytes::Bytes;

/// The same in every answer, so that equal requests have equal answers.
pub(crate) const CREATED: u64 = 1_767_225_600;

const WORDS: [&str; 32] = [
    "the", "limit", "of", "a", "request", "is", "kept", "by", "each", "bucket", "and", "when", "it", "was", "full",
    "then", "more", "answers", "came", "late", "but", "none", "were", "lost", "or", "paid", "twice", "in", "this",
    "long", "quiet", "run",
];

/// Why a request is refused, in the words of OpenAI's API.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    #[error("Invalid request body: {0}")]
    Body(#[from] serde_json::Error),
    #[error("Invalid '{parameter}': {reason}.")]
    Parameter { parameter: &'static str, reason: String },
}

impl RequestError {
    pub(crate) fn parameter(parameter: &'static str, reason: impl Into<String>) -> Self {
        Self::Parameter { parameter, reason: reason.into() }
    }
}

pub(crate) struct SimulatedReply {
    pub(crate) content: ReplyContent,
    pub(crate) usage: ReplyUsage,
}

pub(crate) enum ReplyContent {
    Json(Bytes),
    /// Events of a stream, ready to be sent.
    Events(Vec<Bytes>),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReplyUsage {
    pub(crate) prompt_tokens: u64,
    pub(crate) completion_tokens: u64,
}

impl ReplyUsage {
    pub(crate) fn total(self) -> u64 {
        self.prompt_tokens + self.completion_tokens
    }
}

/// Identifies a request body.
pub(crate) fn fingerprint(body: &[u8]) -> u128 {
    let hash = blake3::hash(body);
    let (first, _) = hash.as_bytes().split_at(16);
    first.iter().fold(0, |number, byte| (number << 8) | u128::from(*byte))
}

/// The n-th number that belongs to a fingerprint.
pub(crate) fn number(fingerprint: u128, n: u64) -> u64 {
    scramble(scramble(fingerprint as u64) ^ scramble((fingerprint >> 64) as u64) ^ n)
}

/// The n-th word that belongs to a fingerprint.
pub(crate) fn word(fingerprint: u128, n: u64) -> &'static str {
    WORDS[(number(fingerprint, n) % WORDS.len() as u64) as usize]
}

/// A rough count: a token is four bytes.
pub(crate) fn estimated_tokens(text: &str) -> u64 {
    (text.len() as u64).div_ceil(4)
}
