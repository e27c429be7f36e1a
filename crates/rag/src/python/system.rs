//! Whole systems in Python: a function or an object of the user's, in a file or in a module. `system.py` calls it and
//! brings what it returns into one form.

use super::{
    CONCURRENCY, Function, FunctionMistake, FunctionProcess, PLACES, Problem, ProcessSetup, caller, check_concurrency,
    check_timeout, definition::uses_name, find_definition, interpreter, lock, on_behalf_of_blocking, process_of,
};
use crate::python::FailureKind;
use models::{Error, FunctionError};
use serde::Serialize;
use serde_json::Value;
use std::{collections::BTreeSet, path::Path, sync::Arc, time::Duration};

/// What the process of a system is told besides what the process of every function is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct SystemSetup {
    /// Where the function is, if not in a file.
    module: Option<String>,
    /// Where its imports are looked for first.
    folders: Vec<String>,
    /// The absolute path of its file.
    path: String,
    /// How many threads call it, if it is no `async def`; one if there is no number.
    threads: Option<usize>,
}

/// A system, as settings name it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SystemScript<'a> {
    /// The file that it is from; empty if it is in a module.
    pub file: &'a str,
    /// The content of the file.
    pub source: &'a str,
    /// The module that it is from; empty if it is in a file.
    pub module: &'a str,
    /// The name of the function or object, which may have dots.
    pub function: &'a str,
    /// The program that runs it, unless it is the one of [`set_interpreter`](super::set_interpreter).
    pub interpreter: Option<&'a str>,
    /// How long a call may take.
    pub timeout_seconds: f64,
    /// How many calls run at once, if that is stated.
    pub concurrency: Option<usize>,
    /// The folder of the experiment file.
    pub base: &'a Path,
}

/// What the source of a function says about how it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SystemSignature {
    /// Whether calls run side by side by default.
    pub is_async: bool,
    /// The names of its parameters.
    pub names: BTreeSet<String>,
    /// Whether it takes arguments of any name.
    pub takes_more: bool,
}

impl SystemSignature {
    /// The signature of the function that `source` defines; none if it is defined elsewhere, is an object, or hides
    /// its parameters behind `*rest`.
    ///
    /// # Errors
    /// The source does not use the name at all.
    pub(crate) fn of(file: &str, source: &str, function: &str) -> Result<Option<Self>, FunctionMistake> {
        let first = function.split('.').next().unwrap_or_default();
        if !uses_name(source, first) {
            let file = if file.is_empty() { "the source" } else { file }.to_owned();
            return Err(FunctionMistake::NoFunction { file, function: function.to_owned() });
        }
        let Some(definition) = find_definition(source, function) else { return Ok(None) };
        if definition.takes_positions {
            return Ok(None);
        }
        let names = definition.parameters.into_iter().map(|parameter| parameter.name).collect();
        Ok(Some(Self { is_async: definition.is_async, names, takes_more: definition.takes_more }))
    }

    /// Whether it gets an argument of this name.
    pub(crate) fn takes(&self, name: &str) -> bool {
        self.names.contains(name)
    }
}

/// A system that can be called.
#[derive(Debug, Clone)]
pub(crate) struct SystemFunction(Arc<Function>);

impl SystemFunction {
    /// Nothing is started yet.
    ///
    /// # Errors
    /// Impossible limits.
    pub(crate) fn new(script: SystemScript<'_>) -> Result<Self, FunctionMistake> {
        check_timeout(script.timeout_seconds)?;
        check_concurrency(script.concurrency)?;
        let base = std::path::absolute(script.base).unwrap_or_else(|_| script.base.to_owned());
        let path = base.join(script.file);
        let mut folders = vec![base.display().to_string()];
        if let Some(folder) = path.parent().filter(|folder| !script.file.is_empty() && *folder != base) {
            folders.insert(0, folder.display().to_string());
        }
        let is_module = !script.module.is_empty();
        let setup = ProcessSetup {
            interpreter: interpreter(script.interpreter).to_owned(),
            file: if is_module { script.module } else { script.file }.to_owned(),
            source: script.source.to_owned(),
            function: script.function.to_owned(),
            place: lock(&PLACES).get(script.source).filter(|_| script.file.is_empty() && !is_module).cloned(),
            at_once: script.concurrency,
            system: Some(SystemSetup {
                module: is_module.then(|| script.module.to_owned()),
                folders,
                path: path.display().to_string(),
                threads: script.concurrency,
            }),
        };
        let limit = Duration::from_secs_f64(script.timeout_seconds);
        let process: Arc<FunctionProcess> = process_of(&setup);
        let (parameters, optional) = (Vec::new(), Vec::new());
        Ok(Self(Arc::new(Function { stage: "system", setup, parameters, optional, limit, process })))
    }

    /// How many calls run at once at most, if its definition is known or not.
    pub(crate) fn at_once(&self, signature: Option<&SystemSignature>) -> usize {
        let is_serial = signature.is_some_and(|signature| !signature.is_async);
        self.0.setup.at_once.unwrap_or(if is_serial { 1 } else { CONCURRENCY })
    }

    /// Calls it, on a thread for blocking work. Returns the reply in the common form, and how long it took.
    ///
    /// # Errors
    /// What it raised, that it took too long, or that the interpreter cannot be started or has ended.
    pub(crate) async fn call(&self, request: Value) -> Result<(Value, Duration), Error> {
        let (function, caller) = (self.0.clone(), caller());
        // An error means that the semaphore is closed, which never happens.
        let _slot = self.0.process.slots.acquire().await;
        let work = move || on_behalf_of_blocking(&caller.clone(), || function.call_as(&request, caller));
        let called = tokio::task::spawn_blocking(work).await;
        let called = called.unwrap_or_else(|error| Err(Problem::new(FailureKind::Ended, error.to_string())));
        called.map_err(|problem| self.error(problem))
    }

    /// The error for a reply that cannot be used.
    pub(crate) fn unusable(&self, reason: String) -> Error {
        self.error(Problem::new(FailureKind::BadReturnValue, reason))
    }

    fn error(&self, problem: Problem) -> Error {
        let (status, retry_after, is_interrupted) = (problem.status, problem.retry_after, problem.is_interrupted);
        let is_timeout = problem.is_timeout;
        let failure = self.0.failure(problem);
        let (function, file) = (failure.function, failure.file);
        let name = match file.as_str() {
            "" => format!("the function `{function}`"),
            file => format!("the function `{function}` of {file}"),
        };
        match status {
            // The limiter then slows down, and waiting does not count as a failure.
            Some(429) => Error::RateLimited { endpoint: name, message: failure.message, retry_after },
            _ if is_timeout => Error::Timeout { model: name, after: self.0.limit },
            _ => Error::Function(Box::new(FunctionError {
                function,
                file,
                message: failure.message,
                traceback: failure.traceback,
                // Another attempt may help only where the other side, or the way there, failed.
                is_transient: is_interrupted || status.is_some_and(|status| status >= 500),
                retry_after,
            })),
        }
    }
}
