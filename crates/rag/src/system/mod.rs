//! Systems: RAG pipelines that are not ours, asked as they are. Each kind is one file here and one line below.
//!
//! A system gets a question and replies with an answer, passages, or both. What it does between is its own matter:
//! it is no stage of a pipeline, and nothing here searches or ranks.

mod common;
mod endpoint;
mod guess;
mod path;
mod reply;
mod template;
#[cfg(test)]
mod testing;

pub use common::{ReplyMistake, read_reply, usage_of_reply};
pub(crate) use endpoint::HttpKind;
pub use guess::GuessedPaths;
pub(crate) use http::Config as HttpSettings;
pub use reply::{PassagePaths, UsagePaths};

use async_trait::async_trait;
use models::{
    EndpointAccess, Error, Identity, JsonService, Message, ServiceReply, StatedUsage, Usage, provider::ModelContext,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

/// The registry of systems, with the settings of each kind.
macro_rules! systems {
    ($( $Variant:ident => $module:ident ),+ $(,)?) => {
        store::registry! {
            /// How a system is asked, and its settings.
            #[derive(schemars::JsonSchema)]
            pub enum SystemConfig builds Arc<dyn System>, from &SystemContext<'_>, or Error {
                $( $Variant => $module ),+
            }
        }

        impl SystemConfig {
            /// The settings of the kind.
            pub fn settings(&self) -> &dyn SystemSettings {
                match self { $( Self::$Variant(config) => config ),+ }
            }

            /// The settings of the kind, to read the files that they name into them.
            pub fn settings_mut(&mut self) -> &mut dyn SystemSettings {
                match self { $( Self::$Variant(config) => config ),+ }
            }
        }
    };
}

systems! {
    Http => http,
    Openai => openai,
    Python => python,
    Command => command,
    Object => object,
}

/// What a system is built with.
#[derive(Debug, Clone, Copy)]
pub struct SystemContext<'a> {
    /// Its name under `[systems]`, for messages.
    pub name: &'a str,
    /// Reads variables.
    pub models: &'a ModelContext,
    /// Its version, once it is known: part of the identity.
    pub version: &'a str,
    /// The header of a reply that holds the version, in lower case.
    pub version_header: Option<&'a str>,
    /// What it costs, if the experiment states it.
    pub price: Option<SystemPrice>,
    /// The folder of the experiment file, for programs and files that the settings name.
    pub base: &'a Path,
}

/// What a system costs, as the experiment states it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SystemPrice {
    /// Dollars for one call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<f64>,
    /// Dollars for a million tokens read, as the reply counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<f64>,
    /// Dollars for a million tokens written, as the reply counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<f64>,
}

impl SystemPrice {
    /// Whether a call costs the same however many tokens it takes.
    pub fn is_of_calls_alone(&self) -> bool {
        self.input.unwrap_or_default() == 0.0 && self.output.unwrap_or_default() == 0.0
    }

    /// Dollars for a call that took these tokens; none if nothing is stated, or if a part of the price is for tokens and
    /// these are not known.
    pub fn cost_usd(&self, tokens: Option<Usage>) -> Option<f64> {
        if self.input.is_none() && self.output.is_none() {
            return self.call;
        }
        let Usage { prompt_tokens, completion_tokens, .. } = tokens?;
        let of = |count: u64, price: Option<f64>| count as f64 * price.unwrap_or_default() / 1e6;
        Some(self.call.unwrap_or_default() + of(prompt_tokens, self.input) + of(completion_tokens, self.output))
    }
}

/// A question, as a system gets it.
#[derive(Debug, Clone, Copy)]
pub struct SystemQuestion<'a> {
    /// Its id in the dataset.
    pub id: &'a str,
    /// Its text.
    pub text: &'a str,
    /// The messages before it, oldest first.
    pub history: &'a [Message],
    /// The seed of the system, with the number of the repeat added.
    pub seed: u64,
    /// The values of this trial's parameters.
    pub parameters: &'a BTreeMap<String, Value>,
}

impl SystemQuestion<'_> {
    /// The messages before the question, and the question as the last message.
    pub(crate) fn messages(&self) -> Vec<Message> {
        self.history.iter().cloned().chain([Message::user(self.text)]).collect()
    }
}

/// What a system replied to a question.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SystemReply {
    /// The answer; none if the system writes none.
    pub answer: Option<String>,
    /// The passages, best first; none if the system returns none, which is another thing than finding nothing.
    pub passages: Option<Vec<ReplyPassage>>,
    /// Tokens and dollars, as far as they are known.
    pub usage: StatedUsage,
    /// The id under which the system's own tracing knows this reply.
    pub trace: Option<String>,
    /// The version that the reply names.
    pub version: Option<String>,
}

/// A passage of a reply.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReplyPassage {
    /// Its text; may be empty if the system returns ids alone.
    pub text: String,
    /// The document, as the system names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document: Option<String>,
    /// Where it begins in the document, in the unit of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
    /// Where it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
    /// The page, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
    /// The system's own id of the passage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The system's own score.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
}

/// Where a version is asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VersionSource {
    /// The address that is asked by GET, with the headers of the system.
    pub url: String,
    /// The path to the version in the reply, such as `build.git`. A reply that is no JSON is the version itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The header of replies to questions that holds the version too. If it names another version than the one that was
    /// asked for, that is told.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub header: String,
}

/// A system that can be asked.
#[async_trait]
pub trait System: Send + Sync {
    /// What is called.
    fn service(&self) -> Arc<dyn JsonService>;

    /// The request for a question, in the form that [`System::service`] takes.
    fn request(&self, question: &SystemQuestion<'_>) -> Value;

    /// What a reply says.
    ///
    /// # Errors
    /// The reply lacks what the settings look for, or repeats another question. The message names the setting.
    fn read(&self, question: &SystemQuestion<'_>, reply: &ServiceReply) -> Result<SystemReply, Error>;

    /// Asks for the version.
    ///
    /// # Errors
    /// The kind of system cannot be asked, or gave no version.
    async fn ask_version(&self, source: &VersionSource) -> Result<String, Error>;
}

/// What the settings of every kind of system say before the system is built.
pub trait SystemSettings {
    /// Checks everything that needs neither the system nor the environment.
    ///
    /// # Errors
    /// A sentence that names the key.
    fn check(&self, parameters: &BTreeMap<String, Vec<Value>>) -> Result<(), String>;

    /// The identity of the system, which decides its replies: where it is or which code it is, and its version.
    ///
    /// # Errors
    /// The settings cannot work.
    fn identity(&self, cx: &SystemContext<'_>) -> Result<Identity, Error>;

    /// The settings that decide what is sent and how replies are read, for keys. Secrets only by the names of their
    /// variables; no timeouts, limits or sizes.
    fn key_settings(&self) -> Value;

    /// Whether replies hold an answer.
    fn writes_answers(&self) -> bool {
        true
    }

    /// Whether replies hold passages.
    fn returns_passages(&self) -> bool {
        true
    }

    /// Whether the messages before a question are sent.
    fn sends_history(&self) -> bool {
        true
    }

    /// The parameters that are sent; none if every one is.
    fn parameters(&self) -> Option<BTreeSet<String>> {
        None
    }

    /// The endpoint that is called; none for a program of this machine.
    fn endpoint_access(&self) -> Option<EndpointAccess> {
        None
    }

    /// Whether code of the experiment's author runs on this machine.
    fn runs_code(&self) -> bool {
        false
    }

    /// Reads the files that the settings name into them.
    ///
    /// # Errors
    /// A file that cannot be read, or does not hold what is named.
    fn read_files(&mut self, _read: store::registry::ReadSettingsFile<'_>) -> Result<(), crate::FileError> {
        Ok(())
    }

    /// Calls at once at most, if the settings state it.
    fn concurrency(&self) -> Option<usize> {
        None
    }
}

#[cfg(test)]
mod fuzz_tests;
