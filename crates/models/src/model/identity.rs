//! The identity of a model, which decides its answers, and where the model computes.

use super::LongTexts;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Where a model computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelPlace {
    /// In this process: calls cost no money. Answers of chat models are kept in
    /// the journal, vectors and scores as artifacts.
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

/// The scheme of an address that names a function of the program, such as a Python function, which this machine
/// serves as a chat model: see `remote/functions.rs`.
pub(crate) const FUNCTION_SCHEME: &str = "function:";
/// The scheme of an address that names a program of this machine, such as a RAG system that is started as a command.
pub const COMMAND_SCHEME: &str = "command:";
/// The parameter of a chat model's identity that holds the most tokens of
/// prompt and answer together.
pub(crate) const CONTEXT_LENGTH: &str = "context_length";
/// The parameter that says the version of the provider's code.
const VERSION: &str = "version";

impl Identity {
    /// Adds the version of the provider's code. Version 1 of a provider in this
    /// process is not added, because keys existed before versions did.
    pub(crate) fn of_version(mut self, version: u32, place: ModelPlace) -> Self {
        if (version > 1 || place == ModelPlace::Remote)
            && let Some(parameters) = self.parameters.as_object_mut()
        {
            parameters.insert(VERSION.to_owned(), version.into());
        }
        self
    }

    /// Adds the setting for long texts, unless it is the default.
    pub(crate) fn with_long_texts(mut self, long_texts: LongTexts) -> Self {
        if let Some(parameters) = self.parameters.as_object_mut() {
            long_texts.write_to(parameters);
        }
        self
    }

    /// The part of the identity that decides the answer to one request. An
    /// endpoint does not know for which context length a prompt was packed, so equal
    /// prompts get equal answers, and paid answers are found again after that setting
    /// was changed.
    pub(crate) fn of_calls(&self) -> Cow<'_, Self> {
        let leaves_out_context = self.is_remote() && self.parameters.get(CONTEXT_LENGTH).is_some();
        if !leaves_out_context {
            return Cow::Borrowed(self);
        }
        let mut identity = self.clone();
        if let Some(parameters) = identity.parameters.as_object_mut() {
            parameters.remove(CONTEXT_LENGTH);
        }
        Cow::Owned(identity)
    }

    /// Where the model computes. Identities are kept in files and compared
    /// across versions, so this is not a field of its own: a model at an
    /// endpoint is identified by its address, a function that stands for a
    /// model by its digest as an address, a command by its digest or its words as an address, a model of this
    /// process by the contents of its files. This place decides how
    /// calls are treated. [`ModelConfig::place`](crate::ModelConfig::place) says
    /// the same before there is an identity, from the provider: providers in `remote`
    /// always put an address here, those in `local` never do.
    pub fn place(&self) -> ModelPlace {
        let schemes = ["http://", "https://", FUNCTION_SCHEME, COMMAND_SCHEME];
        match schemes.iter().any(|scheme| self.revision.starts_with(scheme)) {
            true => ModelPlace::Remote,
            false => ModelPlace::Here,
        }
    }

    /// Whether calls leave this process.
    pub fn is_remote(&self) -> bool {
        self.place() == ModelPlace::Remote
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_functions_and_commands_are_remote_and_digests_of_files_are_not() {
        let place = |revision: &str| {
            let [provider, model, revision] = ["p", "m", revision].map(str::to_owned);
            Identity { provider, model, revision, parameters: serde_json::Value::Null }.place()
        };
        for revision in ["http://127.0.0.1:1/ask", "https://rag.example/ask", "function:1f", "command:./rag"] {
            assert_eq!(place(revision), ModelPlace::Remote, "{revision}");
        }
        for revision in ["", "1f", "httpx://h", "commands"] {
            assert_eq!(place(revision), ModelPlace::Here, "{revision}");
        }
    }
}
