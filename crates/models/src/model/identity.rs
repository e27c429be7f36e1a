//! What decides a model's answers, and where they are computed.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Where a model computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In this process: calls cost no money, and what they give is kept as
    /// artifacts.
    Here,
    /// At an endpoint: calls leave this process, may cost money, and their
    /// answers are kept in the journal.
    Remote,
}

/// Everything that decides what a model answers: part of every task key and
/// call key. Secrets are never part of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// How the model is run: `onnx`, `llama.cpp`, `static`, `openai`, `anthropic`, …
    pub provider: String,
    /// The model's name: of the catalogue, a path, or as the endpoint knows it.
    pub model: String,
    /// The SHA-256 of the model's files, or the endpoint's base URL.
    pub revision: String,
    /// Settings that change the output (pooling, quantisation, token limit, …).
    pub parameters: serde_json::Value,
}

/// The parameter of a chat model's identity that says how long prompt and
/// answer may be together, in tokens.
pub(crate) const CONTEXT_LENGTH: &str = "context_length";
/// The parameter that says the version of the provider's code.
const VERSION: &str = "version";

impl Identity {
    /// With the version of the provider's code. The first version of what runs
    /// in this process is not written: keys were made before it was.
    pub(crate) fn of_version(mut self, version: u32, place: Place) -> Self {
        if (version > 1 || place == Place::Remote)
            && let Some(parameters) = self.parameters.as_object_mut()
        {
            parameters.insert(VERSION.to_owned(), version.into());
        }
        self
    }

    /// What decides the answer to one request. An endpoint is not told for how
    /// long a context a prompt was packed, so it answers equal prompts alike:
    /// what was paid is found again after that setting was changed.
    pub(crate) fn of_calls(&self) -> Cow<'_, Self> {
        let is_told = !self.is_remote() || self.parameters.get(CONTEXT_LENGTH).is_none();
        if is_told {
            return Cow::Borrowed(self);
        }
        let mut identity = self.clone();
        if let Some(parameters) = identity.parameters.as_object_mut() {
            parameters.remove(CONTEXT_LENGTH);
        }
        Cow::Owned(identity)
    }

    /// Where the model computes. Identities are kept in files and compared
    /// across versions, so this is no field of its own: what identifies a model
    /// at an endpoint is its address, and one of this process the contents of
    /// its files. Of a model that is configured, its settings say it.
    pub fn place(&self) -> Place {
        match self.revision.starts_with("http://") || self.revision.starts_with("https://") {
            true => Place::Remote,
            false => Place::Here,
        }
    }

    /// Whether calls leave this process.
    pub fn is_remote(&self) -> bool {
        self.place() == Place::Remote
    }
}
