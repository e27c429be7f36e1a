//! `command`: a program of this machine, which reads questions and writes replies as lines of JSON.
//!
//! When to use it: for a pipeline in any language that needs no server. The program is started with the first question,
//! in the folder of the experiment file, and stays: load models and indexes once.
//!
//! ```toml
//! [systems.go]
//! command = { program = "./rag", args = ["--jsonl"], env = ["RAG_KEY"] }
//! version = "2025-11-03"
//! ```
//!
//! Each line of its standard input is a request, and each line that it writes to its standard output is the reply to
//! the request of the same `id`, in any order:
//!
//! ```text
//! {"id": 7, "question": "…", "messages": [{"role": "user", "content": "…"}], "seed": 0, "parameters": {"top_k": 3}}
//! {"id": 7, "answer": "…", "passages": [{"text": "…", "document": "a.md"}], "usage": {"cost_usd": 0.001}, "trace": "…"}
//! ```
//!
//! A passage is a text, or a table with `text`, `document`, `start`, `end`, `page` (from 1), `id` and `score`, of which
//! only `text` is needed. `usage` has `prompt_tokens`, `completion_tokens` and `cost_usd`. `messages` are those before
//! the question, oldest first, and the question. A program that cannot answer writes
//! `{"id": 7, "error": "why", "retry": true}`, with `retry` if the same request may work later.
//!
//! Nothing else may be written to standard output: logs belong on standard error, and each reply must be flushed as it
//! is written. A line that is no reply, or a reply to a question that was not asked or was answered before, ends the
//! program, because its replies could belong to other questions. It is started again with the next question, but not
//! after it ended three times in a row without a reply in between.
//!
//! The program gets only the variables `PATH`, `HOME`, `LANG` and `TMPDIR`, and those that `env` names. A program that
//! begins with `.` is found from the folder of the experiment file; a name without a folder is found on `PATH`.
//! The answers are asked for again if the program's file or its `args` change. If the code lies elsewhere, as with
//! `program = "python3"`, write `version = "…"`, and change it with the code.

mod program;

use super::{
    ServiceReply, System, SystemContext, SystemPrice, SystemQuestion, SystemReply, SystemSettings, VersionSource,
    common::{read_reply, usage_of_reply},
};
use crate::python::{check_concurrency, check_timeout};
use async_trait::async_trait;
use models::{Error, FunctionError, Identity, JsonService, Limits, Model, StatedUsage, system_section};
use program::Program;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

pub(super) const VERSION: u32 = 1;
/// The bytes of a larger program are no part of its identity.
const MAX_HASHED: u64 = 64 << 20;
/// The variables that every program gets.
const ENVIRONMENT: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];

/// Settings of `command`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The program: a path from the folder of the experiment file that begins with `.`, an absolute path, or a name
    /// that is found on `PATH`.
    pub program: String,
    /// Its arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// How many questions it gets at once, 1 to 256. Default 1; no part of any key.
    pub concurrency: usize,
    /// How long one reply may take, in seconds. Default 120; the first includes the start. No part of any key.
    pub timeout_seconds: f64,
    /// The longest line that it may write, in bytes. Default 16 MiB; no part of any key.
    pub max_response_bytes: usize,
    /// The names of variables that are passed on to it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            program: String::new(),
            args: Vec::new(),
            concurrency: 1,
            timeout_seconds: 120.0,
            max_response_bytes: 16 << 20,
            env: Vec::new(),
        }
    }
}

impl SystemSettings for Config {
    fn check(&self, _parameters: &BTreeMap<String, Vec<Value>>) -> Result<(), String> {
        let program = &self.program;
        let name = program.trim();
        if name.is_empty() {
            return Err("`program` is missing: the program that answers questions, such as `./rag`".to_owned());
        }
        if program.contains('/') && !program.starts_with('.') && !Path::new(program).is_absolute() {
            return Err(format!("`program`: write `./{program}` for a path from the folder of the experiment file"));
        }
        check_timeout(self.timeout_seconds).map_err(|mistake| mistake.to_string())?;
        check_concurrency(Some(self.concurrency)).map_err(|mistake| mistake.to_string())?;
        if self.max_response_bytes == 0 {
            return Err("`max_response_bytes` must be above 0".to_owned());
        }
        match self.env.iter().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
            Some(name) => {
                Err(format!("`env` names variables whose values are passed on, such as `RAG_KEY`; `{name}` is no name"))
            }
            None => Ok(()),
        }
    }

    fn identity(&self, cx: &SystemContext<'_>) -> Result<Identity, Error> {
        let mut hasher = blake3::Hasher::new();
        let mut add = |part: &[u8]| {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        };
        add(self.program.as_bytes());
        self.args.iter().for_each(|argument| add(argument.as_bytes()));
        if let Some(bytes) = self.bytes(cx.base) {
            add(b"file");
            add(&bytes);
        }
        let name =
            Path::new(&self.program).file_name().map_or(self.program.as_str().into(), |name| name.to_string_lossy());
        Ok(Identity {
            provider: "command".to_owned(),
            model: name.into_owned(),
            revision: format!("command:{}", hasher.finalize().to_hex()),
            parameters: json!({ "version": cx.version }),
        })
    }

    fn key_settings(&self) -> Value {
        json!({ "program": self.program, "args": self.args, "env": self.env })
    }

    fn runs_code(&self) -> bool {
        true
    }

    fn concurrency(&self) -> Option<usize> {
        Some(self.concurrency)
    }
}

impl Config {
    /// The program as it is started.
    fn path(&self, base: &Path) -> PathBuf {
        let base = std::path::absolute(base).unwrap_or_else(|_| base.to_owned());
        if self.program.starts_with('.') { base.join(&self.program) } else { PathBuf::from(&self.program) }
    }

    /// What the program's file holds, if the settings give its path, and it can be read and is not too large.
    fn bytes(&self, base: &Path) -> Option<Vec<u8>> {
        let path = self.path(base);
        let metadata = path.is_absolute().then(|| path.metadata().ok()).flatten()?;
        (metadata.is_file() && metadata.len() < MAX_HASHED).then(|| std::fs::read(path).ok()).flatten()
    }

    pub(super) fn build(&self, cx: &SystemContext<'_>) -> Result<Arc<dyn System>, Error> {
        self.check(&BTreeMap::new()).map_err(|mistake| refuse(cx.name, &mistake))?;
        let service = CommandService {
            identity: self.identity(cx)?,
            program: Arc::new(Program::new(self, cx)),
            slots: tokio::sync::Semaphore::new(self.concurrency),
            concurrency: self.concurrency,
            price: cx.price,
        };
        Ok(Arc::new(CommandSystem { name: cx.name.to_owned(), service: Arc::new(service) }))
    }
}

fn refuse(system: &str, reason: &str) -> Error {
    Error::Config(format!("{} command: {reason}", system_section(system)))
}

/// A program that is asked.
struct CommandSystem {
    name: String,
    service: Arc<CommandService>,
}

struct CommandService {
    identity: Identity,
    program: Arc<Program>,
    /// Free slots for questions. Waiting for one does not count towards the time limit.
    slots: tokio::sync::Semaphore,
    concurrency: usize,
    price: Option<SystemPrice>,
}

impl Model for CommandService {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn concurrency(&self) -> usize {
        self.concurrency
    }

    fn limits(&self) -> Limits {
        Limits::Fixed(self.concurrency)
    }
}

#[async_trait]
impl JsonService for CommandService {
    async fn call(&self, request: &Value) -> Result<ServiceReply, Error> {
        // An error means that the semaphore is closed, which never happens.
        let _slot = self.slots.acquire().await;
        let (program, request, caller) = (self.program.clone(), request.clone(), crate::python::caller());
        let began = Instant::now();
        let called = tokio::task::spawn_blocking(move || program.ask(&request, caller)).await;
        let body = called.unwrap_or_else(|error| Err(self.program.failed(error.to_string(), false)))?;
        Ok(ServiceReply { body, seconds: began.elapsed().as_secs_f64(), ..ServiceReply::default() })
    }

    fn stated_usage(&self, reply: &ServiceReply) -> StatedUsage {
        usage_of_reply(&reply.body, self.price.as_ref())
    }

    fn price_of_call(&self) -> Option<f64> {
        self.price?.call
    }
}

#[async_trait]
impl System for CommandSystem {
    fn service(&self) -> Arc<dyn JsonService> {
        self.service.clone()
    }

    fn request(&self, question: &SystemQuestion<'_>) -> Value {
        json!({
            "question": question.text,
            "messages": question.messages(),
            "seed": question.seed,
            "parameters": question.parameters,
        })
    }

    fn read(&self, _question: &SystemQuestion<'_>, reply: &ServiceReply) -> Result<SystemReply, Error> {
        let service = &self.service;
        read_reply(&reply.body, service.price.as_ref())
            .map_err(|mistake| service.program.failed(format!("its reply cannot be used: {mistake}"), false))
    }

    async fn ask_version(&self, _source: &VersionSource) -> Result<String, Error> {
        Err(Error::Config(format!(
            "{} a program cannot be asked for its version: write `version = \"…\"`, and change it with the program",
            system_section(&self.name)
        )))
    }
}

#[cfg(test)]
mod tests;
