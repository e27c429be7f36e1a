//! `python`: a function or an object of your own Python code, which answers questions.
//!
//! When to use it: for a pipeline in Python, as it is: your own code, a query engine of LlamaIndex, a chain of
//! LangChain. It runs in a process of its own, which is started once. The file's path is relative to the experiment
//! file; `module` names a module that is imported with the folder of the experiment file on `sys.path`:
//!
//! ```toml
//! [systems.mine]
//! python = { file = "rag.py", function = "answer" }
//!
//! [systems.app]
//! python = { module = "app.rag", function = "engine" }
//! version = "2025-11-03"
//! ```
//!
//! ```python
//! def answer(question, top_k=3):
//!     found = index.search(question, top_k)
//!     return {"answer": write(question, found), "passages": [{"text": hit.text, "document": hit.path} for hit in found]}
//! ```
//!
//! The function gets what its parameters name: `question`, `messages` (those before the question, oldest first, and the
//! question, each with `role` and `content`), `history` (the same without the question), `seed`, `id` (of the
//! question in the dataset), and the parameters of the trial by their names; with `**rest` it gets all of these
//! parameters. If it has neither `question` nor `messages` nor `history`, its first parameter gets the question.
//!
//! It returns a text, a dictionary with `answer`, `passages`, `usage` and `trace`, or the answer and the passages as a
//! pair. A passage is a text, or a dictionary with `text`, `document`, `start`, `end`, `page` (from 1), `id` and
//! `score`, of which only `text` is needed. `usage` has `prompt_tokens`, `completion_tokens` and `cost_usd`. Responses
//! and nodes of LlamaIndex, and documents, messages and the outputs of chains of LangChain are taken as they are. The
//! texts that a generator yields are joined; a dictionary at its end gives the rest.
//!
//! An object with `query` or `aquery`, or with `invoke` or `ainvoke`, is called by these methods, the asynchronous one
//! if it has both. A chat engine of LlamaIndex is called by `chat`, with the messages before the question, one question
//! after the other. A chain gets the question as a text, or as the field `input`, `question` or `query` if its input has
//! fields.
//!
//! An `async def` gets up to `concurrency` questions at once, 16 by default. Other functions get one after the other,
//! unless `concurrency` is set: then so many threads call it. A rate limit that it raises lowers how many questions it
//! gets at once; errors with a status of 500 or above, and connection errors, are tried again.
//!
//! Answers are asked for again if the file changes. What it imports does not count, nor does the code of a `module`:
//! write `version = "…"`, and change it with the code.

use super::{
    ServiceReply, System, SystemContext, SystemPrice, SystemQuestion, SystemReply, SystemSettings, VersionSource,
    common::{read_reply, usage_of_reply},
};
use crate::{
    FileError,
    python::{
        SystemFunction, SystemScript, SystemSignature, TIMEOUT_SECONDS, check_concurrency, check_timeout, read_source,
    },
};
use async_trait::async_trait;
use models::{EndpointLimits, Error, Identity, JsonService, Limits, Model, StatedUsage, system_section};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};
use store::registry::ReadSettingsFile;

pub(super) const VERSION: u32 = 1;
/// The arguments that every function may have; parameters of trials have other names.
const KNOWN: [&str; 5] = ["question", "messages", "history", "seed", "id"];

/// Settings of `python`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The file with the function, relative to the experiment file.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub file: String,
    /// What the file holds; filled in when the experiment is read, never by hand.
    #[schemars(skip)]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// The module with the function, such as `app.rag`, instead of a file.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub module: String,
    /// The function, or an object with `query` or `invoke`; the name may have dots. Default `answer`.
    pub function: String,
    /// The program that runs it. Default: the Python that started Reverie, else
    /// that of the active virtual environment, else `python3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interpreter: Option<String>,
    /// How long one reply may take, in seconds. Default 300; no part of any key.
    pub timeout_seconds: f64,
    /// How many questions it gets at once, 1 to 256: calls of an `async def`, or threads that call another function.
    /// Default 16 for the former, 1 for the latter; no part of any key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<usize>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            file: String::new(),
            source: String::new(),
            module: String::new(),
            function: "answer".to_owned(),
            interpreter: None,
            timeout_seconds: TIMEOUT_SECONDS,
            concurrency: None,
        }
    }
}

impl Config {
    /// What the source says about the function; none if it is in a module, an object, or not read yet.
    fn signature(&self) -> Option<SystemSignature> {
        SystemSignature::of(&self.file, &self.source, &self.function).ok().flatten()
    }

    /// Whether the function gets an argument of this name, as far as that is known.
    fn takes(&self, name: &str) -> bool {
        self.signature().is_none_or(|signature| signature.takes(name))
    }

    fn script<'a>(&'a self, base: &'a Path) -> SystemScript<'a> {
        SystemScript {
            file: &self.file,
            source: &self.source,
            module: &self.module,
            function: &self.function,
            interpreter: self.interpreter.as_deref(),
            timeout_seconds: self.timeout_seconds,
            concurrency: self.concurrency,
            base,
        }
    }

    fn check_settings(&self) -> Result<(), String> {
        let is_file = !self.file.is_empty() || !self.source.is_empty();
        match (is_file, self.module.is_empty()) {
            (true, false) => return Err("`file` and `module` are both there: a function is in one of them".to_owned()),
            (false, true) => return Err("`file` is missing: a file with the function, or `module`".to_owned()),
            _ => {}
        }
        let is_name = |name: &str| name.split('.').all(is_identifier);
        for (key, name) in [("module", &self.module), ("function", &self.function)] {
            let is_left_out = key == "module" && name.is_empty();
            if !is_left_out && !is_name(name) {
                return Err(format!("`{key}` must be a name of Python, not `{name}`"));
            }
        }
        check_timeout(self.timeout_seconds).map_err(|mistake| mistake.to_string())?;
        check_concurrency(self.concurrency).map_err(|mistake| mistake.to_string())?;
        if !self.source.is_empty() {
            SystemSignature::of(&self.file, &self.source, &self.function).map_err(|mistake| mistake.to_string())?;
        }
        Ok(())
    }

    pub(super) fn build(&self, cx: &SystemContext<'_>) -> Result<Arc<dyn System>, Error> {
        let refuse = |reason: String| Error::Config(format!("{} python: {reason}", system_section(cx.name)));
        self.check_settings().map_err(refuse)?;
        if self.module.is_empty() && self.source.trim().is_empty() {
            return Err(refuse(format!("the file {} is empty, or was not read", self.file)));
        }
        let function = SystemFunction::new(self.script(cx.base)).map_err(|mistake| refuse(mistake.to_string()))?;
        let at_once = function.at_once(self.signature().as_ref());
        let timeout_seconds = self.timeout_seconds;
        let service =
            PythonService { identity: self.identity(cx)?, function, at_once, timeout_seconds, price: cx.price };
        Ok(Arc::new(PythonSystem { name: cx.name.to_owned(), config: self.clone(), service: Arc::new(service) }))
    }
}

fn is_identifier(name: &str) -> bool {
    let mut characters = name.chars();
    characters.next().is_some_and(|first| first.is_alphabetic() || first == '_')
        && characters.all(|character| character.is_alphanumeric() || character == '_')
}

impl SystemSettings for Config {
    fn check(&self, parameters: &BTreeMap<String, Vec<Value>>) -> Result<(), String> {
        self.check_settings()?;
        if let Some(known) = parameters.keys().find(|name| KNOWN.contains(&name.as_str())) {
            return Err(format!("`parameters.{known}`: every function may have that argument; take another name"));
        }
        let Some(sent) = self.parameters() else { return Ok(()) };
        match parameters.keys().find(|name| !sent.contains(*name)) {
            None => Ok(()),
            Some(name) => Err(format!(
                "`parameters.{name}`: `{}` in {} has no parameter `{name}`",
                self.function,
                if self.file.is_empty() { "the source" } else { &self.file }
            )),
        }
    }

    fn identity(&self, cx: &SystemContext<'_>) -> Result<Identity, Error> {
        let mut hasher = blake3::Hasher::new();
        for part in [&self.module, &self.source, &self.function] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        let model = match self.module.as_str() {
            "" => self.function.clone(),
            module => format!("{module}:{}", self.function),
        };
        Ok(Identity {
            provider: "python".to_owned(),
            model,
            revision: format!("function:{}", hasher.finalize().to_hex()),
            parameters: json!({ "version": cx.version }),
        })
    }

    fn key_settings(&self) -> Value {
        json!({ "module": self.module, "function": self.function, "interpreter": self.interpreter })
    }

    fn sends_history(&self) -> bool {
        self.takes("messages") || self.takes("history")
    }

    fn parameters(&self) -> Option<BTreeSet<String>> {
        let signature = self.signature().filter(|signature| !signature.takes_more)?;
        Some(signature.names.into_iter().filter(|name| !KNOWN.contains(&name.as_str())).collect())
    }

    fn runs_code(&self) -> bool {
        true
    }

    fn read_files(&mut self, read: ReadSettingsFile<'_>) -> Result<(), FileError> {
        read_source(&self.file, &mut self.source, read)?;
        if !self.source.is_empty() {
            SystemSignature::of(&self.file, &self.source, &self.function)?;
        }
        Ok(())
    }

    fn concurrency(&self) -> Option<usize> {
        self.concurrency
    }
}

/// A function that is asked.
struct PythonSystem {
    name: String,
    config: Config,
    service: Arc<PythonService>,
}

struct PythonService {
    identity: Identity,
    function: SystemFunction,
    at_once: usize,
    timeout_seconds: f64,
    price: Option<SystemPrice>,
}

impl Model for PythonService {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn concurrency(&self) -> usize {
        self.at_once
    }

    fn limits(&self) -> Limits {
        // A rate limit that the function meets lowers how many questions it gets at once.
        let (maximum, known) = (self.at_once, EndpointLimits::default());
        Limits::Learned { maximum, known, timeout_seconds: self.timeout_seconds }
    }
}

#[async_trait]
impl JsonService for PythonService {
    async fn call(&self, request: &Value) -> Result<ServiceReply, Error> {
        let (body, took) = self.function.call(request.clone()).await?;
        Ok(ServiceReply { body, seconds: took.as_secs_f64(), ..ServiceReply::default() })
    }

    fn stated_usage(&self, reply: &ServiceReply) -> StatedUsage {
        usage_of_reply(&reply.body, self.price.as_ref())
    }

    fn price_of_call(&self) -> Option<f64> {
        self.price?.call
    }
}

#[async_trait]
impl System for PythonSystem {
    fn service(&self) -> Arc<dyn JsonService> {
        self.service.clone()
    }

    /// Arguments that the function does not have are left out, so that they are no part of the call's key.
    fn request(&self, question: &SystemQuestion<'_>) -> Value {
        let config = &self.config;
        let mut request = Map::new();
        request.insert("question".to_owned(), question.text.into());
        request.insert("parameters".to_owned(), json!(question.parameters));
        if config.sends_history() {
            request.insert("messages".to_owned(), json!(question.messages()));
        }
        if config.takes("seed") {
            request.insert("seed".to_owned(), question.seed.into());
        }
        // An object gets no id; a function in a module may.
        let has_id = config.signature().map_or(!config.module.is_empty(), |signature| signature.takes("id"));
        if has_id {
            request.insert("id".to_owned(), question.id.into());
        }
        Value::Object(request)
    }

    fn read(&self, _question: &SystemQuestion<'_>, reply: &ServiceReply) -> Result<SystemReply, Error> {
        read_reply(&reply.body, self.service.price.as_ref())
            .map_err(|mistake| self.service.function.unusable(format!("it returned what cannot be used: {mistake}")))
    }

    async fn ask_version(&self, _source: &VersionSource) -> Result<String, Error> {
        Err(Error::Config(format!(
            "{} a function cannot be asked for its version: write `version = \"…\"`, and change it with the code",
            system_section(&self.name)
        )))
    }
}

#[cfg(test)]
mod tests;
