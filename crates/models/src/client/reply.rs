//! The result of a call: as its model made it, and in the form that is stored.

use crate::{Error, ModelUsage, Usage};
use serde::{Serialize, de::DeserializeOwned};
use std::{fmt, sync::Arc, time::Instant};
use store::{JournalEntry, Key};

/// A finished call, as a model made it.
#[derive(Debug, Default)]
pub(super) struct CallAnswer {
    /// What the journal keeps, as JSON.
    pub(super) response: String,
    pub(super) usage: Usage,
    pub(super) cost_usd: f64,
    pub(super) seconds: f64,
    /// The parts that the journal keeps instead, each under its own key; `response` then has a line for each.
    pub(super) parts: Vec<AnswerPart>,
}

/// A part of an answer that has an entry of its own.
#[derive(Debug)]
pub(super) struct AnswerPart {
    pub(super) key: Key,
    pub(super) response: String,
    /// Its part of tokens and cost is in proportion to this.
    pub(super) weight: u64,
}

impl CallAnswer {
    /// An answer without response and cost, of a call that began at `started`.
    pub(super) fn new(usage: Usage, started: Instant) -> Self {
        Self { usage, seconds: started.elapsed().as_secs_f64(), ..Self::default() }
    }

    pub(super) fn used(&self) -> ModelUsage {
        ModelUsage {
            model: String::new(),
            calls: 1,
            prompt_tokens: self.usage.prompt_tokens,
            completion_tokens: self.usage.completion_tokens,
            cost_usd: self.cost_usd,
            seconds: self.seconds,
            cut_texts: self.usage.cut_texts,
            cut_tokens: self.usage.cut_tokens,
            windowed_texts: self.usage.windowed_texts,
            ..ModelUsage::default()
        }
    }
}

/// An answer in its stored form, and what its call used when it was made.
#[derive(Debug, Clone)]
pub(super) struct StoredAnswer {
    pub(super) response: Arc<str>,
    pub(super) used: ModelUsage,
}

impl From<CallAnswer> for StoredAnswer {
    fn from(answer: CallAnswer) -> Self {
        Self { used: answer.used(), response: answer.response.into() }
    }
}

impl From<JournalEntry> for StoredAnswer {
    fn from(entry: JournalEntry) -> Self {
        let used = ModelUsage {
            calls: 1,
            prompt_tokens: entry.prompt_tokens,
            completion_tokens: entry.completion_tokens,
            cost_usd: entry.cost_usd,
            seconds: entry.seconds,
            ..ModelUsage::default()
        };
        Self { response: entry.response.into(), used }
    }
}

/// The text that the journal keeps of a response: JSON.
pub(super) fn to_text(response: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(response).map_err(|error| unreadable(&error))
}

pub(super) fn from_text<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| unreadable(&error))
}

pub(super) fn unreadable(error: &dyn fmt::Display) -> Error {
    Error::KeptForm(error.to_string())
}
