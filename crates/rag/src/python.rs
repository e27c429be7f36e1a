//! Runs the user's Python functions for stages and metrics.
//!
//! The source of a function is part of the settings that name it, so keys
//! change with the source; modules that it imports do not count. The first call
//! starts one interpreter process for the function. This process serves all
//! uses of the function in this program; calls are lines of JSON, one after the
//! other. Calls of an `async def` run side by side in the process' event loop,
//! up to `concurrency` of them. If the process has ended, the next call starts a
//! new one. A process that no [`Function`] uses any more is kept only while its
//! function is among the few used last.
//!
//! The interpreter is that of [`set_interpreter`] unless the settings name
//! another one. If a call takes longer than its limit (`timeout_seconds`), its
//! process is ended with everything that it started. After three such calls in
//! a row the function is not called for ten times its limit, ten minutes at
//! most, so that hundreds of questions do not wait for it one after the other.
//! No process outlives this program.

mod component;
mod definition;
mod failure;
mod package;
mod process;
mod system;

pub use crate::lines::interrupt;
pub use failure::{Failure, FailureKind};
pub use package::{PackageFailure, PackageProcess, check_package};

pub(crate) use component::{StageFunction, runs_function};
pub(crate) use system::{SystemFunction, SystemScript, SystemSignature};

use crate::{FileError, lines::CallOutcome};
use definition::{FunctionDefinition, find_definition};
use process::Interpreter;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, LazyLock, Mutex, MutexGuard, Once, OnceLock, PoisonError, Weak},
    time::{Duration, Instant},
};
use store::registry::ReadSettingsFile;
use system::SystemSetup;

/// How long a call of a function may take, in seconds, unless the settings say
/// something else. The first call includes what the function loads.
pub const TIMEOUT_SECONDS: f64 = 300.0;

/// The Python code that asks a whole system and brings what it returns into one form. Besides the processes of
/// systems, a Python program runs it that asks an object of its own.
pub const SYSTEM_CODE: &str = include_str!("python/system.py");

/// How many calls of an `async def` run at once unless the settings say
/// something else.
pub const CONCURRENCY: usize = 16;
/// The most calls of one function at once: each holds a thread while it waits.
const MOST_AT_ONCE: usize = 256;

/// The functions used last, the latest first; their processes are kept for the next use.
static PROCESSES: Mutex<Vec<(ProcessSetup, Arc<FunctionProcess>)>> = Mutex::new(Vec::new());
/// The processes of all [`Function`]s, also those that `PROCESSES` no longer holds.
static IN_USE: Mutex<Vec<Weak<FunctionProcess>>> = Mutex::new(Vec::new());
/// The most processes that are kept, however many functions a notebook tries.
const MAX_IDLE_PROCESSES: usize = 8;
/// After this many calls in a row that ran out of time, a function is not called for a while.
const TIMEOUTS_BEFORE_PAUSE: u32 = 3;
/// The pause as a multiple of the function's limit, and its maximum.
const PAUSE_FACTOR: u32 = 10;
const MAX_PAUSE: Duration = Duration::from_secs(600);

static INTERPRETER: OnceLock<String> = OnceLock::new();
/// Where each source was defined (file and line), for messages.
static PLACES: LazyLock<Mutex<HashMap<String, FunctionPlace>>> = LazyLock::new(Mutex::default);
static SINK: Mutex<Option<Sink>> = Mutex::new(None);

/// A line that a function printed.
#[derive(Debug, Clone, Copy)]
pub struct PrintedLine<'a> {
    /// The function's name.
    pub function: &'a str,
    /// The trials that it works for, such as `t01, t03`.
    pub caller: Option<&'a str>,
    /// The line, without its end.
    pub text: &'a str,
}

impl fmt::Display for PrintedLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function, caller, text } = self;
        match caller {
            Some(caller) => write!(f, "[{function}, {caller}] {text}"),
            None => write!(f, "[{function}] {text}"),
        }
    }
}

/// Receives the lines that functions print.
pub type Sink = Arc<dyn Fn(&PrintedLine<'_>) + Send + Sync>;

/// Sets the receiver of the lines that functions print from now on. Without
/// one, the lines go to standard error unchanged.
pub fn set_sink(sink: Sink) {
    *lock(&SINK) = Some(sink);
}

pub(crate) fn sink() -> Option<Sink> {
    lock(&SINK).clone()
}

/// Sets the program that runs functions whose settings name none. Only the
/// first call counts; without one the program is `python3`.
pub fn set_interpreter(program: String) {
    let _ = INTERPRETER.set(program);
}

fn interpreter(named: Option<&str>) -> &str {
    named.filter(|named| !named.is_empty()).unwrap_or_else(|| INTERPRETER.get().map_or("python3", String::as_str))
}

tokio::task_local! {
    /// The trials for which functions are called from here.
    static CALLER: Arc<str>;
}

/// The trials for which functions are called from here, if they are known.
pub fn caller() -> Option<Arc<str>> {
    CALLER.try_with(Arc::clone).ok()
}

/// Runs work on behalf of these trials: [`caller`] returns them inside.
pub async fn on_behalf_of<T>(caller: Option<Arc<str>>, work: impl Future<Output = T>) -> T {
    match caller {
        Some(caller) => CALLER.scope(caller, work).await,
        None => work.await,
    }
}

/// [`on_behalf_of`] for blocking work.
pub fn on_behalf_of_blocking<T>(caller: &Option<Arc<str>>, work: impl FnOnce() -> T) -> T {
    match caller {
        Some(caller) => CALLER.sync_scope(caller.clone(), work),
        None => work(),
    }
}

/// Settings of all user functions that do not affect their output.
pub const OUTSIDE_KEY: &[&str] = &["timeout_seconds", "concurrency"];

/// What is wrong with the settings of a function, or with its definition.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say it")]
pub enum FunctionMistake {
    #[error("`timeout_seconds` must be above 0 and at most 1,000,000, not {0}")]
    Timeout(f64),
    #[error("`concurrency` is how many calls run at once, 1 to {most}, not {0}", most = MOST_AT_ONCE)]
    Concurrency(usize),
    #[error("`file` is missing: the path of a file with the function")]
    NoFile,
    #[error("the file {0} is empty, or was not read")]
    EmptyFile(String),
    #[error("{file} has no function `{function}`")]
    NoFunction { file: String, function: String },
    #[error("`{function}` in {file} has the unknown parameter `{parameter}`; the known ones are {known}")]
    UnknownParameter { file: String, function: String, parameter: String, known: String },
    #[error("`{function}` in {file} takes no parameter; it must take at least one of {known}")]
    NoParameter { file: String, function: String, known: String },
}

/// Checks a time limit, which is above 0 and at most a million seconds.
pub(crate) fn check_timeout(seconds: f64) -> Result<(), FunctionMistake> {
    if seconds > 0.0 && seconds <= 1e6 { Ok(()) } else { Err(FunctionMistake::Timeout(seconds)) }
}

/// How many calls may run at once: 1 to 256.
pub(crate) fn check_concurrency(concurrency: Option<usize>) -> Result<usize, FunctionMistake> {
    let concurrency = concurrency.unwrap_or(CONCURRENCY);
    let is_allowed = (1..=MOST_AT_ONCE).contains(&concurrency);
    if is_allowed { Ok(concurrency) } else { Err(FunctionMistake::Concurrency(concurrency)) }
}

/// A function, as settings name it.
#[derive(Debug, Clone, Copy)]
pub struct Script<'a> {
    /// The file that it is from, for messages; may be empty.
    pub file: &'a str,
    /// The content of the file.
    pub source: &'a str,
    /// The function's name.
    pub function: &'a str,
    /// The program that runs it, unless it is the one of [`set_interpreter`].
    pub interpreter: Option<&'a str>,
    /// How long a call may take.
    pub timeout_seconds: f64,
    /// How many calls of an `async def` run at once; [`CONCURRENCY`] if none is
    /// given. Other functions are called one at a time.
    pub concurrency: Option<usize>,
}

impl Script<'_> {
    /// The parameters of the function that are known, in the order of `known`.
    /// Others may be there if they have a default, which they keep.
    ///
    /// # Errors
    /// If there is no source, no such function, or a parameter that is not known
    /// and has no default.
    pub fn parameters(&self, known: &[&'static str]) -> Result<Vec<&'static str>, FunctionMistake> {
        Ok(self.signature(known)?.into_iter().map(|(name, _)| name).collect())
    }

    /// The names of [`Script::parameters`], each with whether it has a default.
    ///
    /// # Errors
    /// The errors of [`Script::parameters`].
    pub fn signature(&self, known: &[&'static str]) -> Result<Vec<(&'static str, bool)>, FunctionMistake> {
        if self.source.trim().is_empty() {
            return Err(match self.file {
                "" => FunctionMistake::NoFile,
                file => FunctionMistake::EmptyFile(file.to_owned()),
            });
        }
        let file = if self.file.is_empty() { "the source" } else { self.file };
        let (function, file) = (self.function.to_owned(), file.to_owned());
        let Some(definition) = self.definition() else {
            return Err(FunctionMistake::NoFunction { file, function });
        };
        let parameters = definition.parameters;
        let mut required =
            parameters.iter().filter(|parameter| !parameter.has_default).map(|parameter| &*parameter.name);
        if let Some(other) = required.find(|name| !known.contains(name)) {
            let (parameter, known) = (other.to_owned(), known.join(", "));
            return Err(FunctionMistake::UnknownParameter { file, function, parameter, known });
        }
        let named = |known: &&'static str| {
            let parameter = parameters.iter().find(|parameter| parameter.name == *known)?;
            Some((*known, parameter.has_default))
        };
        let wanted: Vec<(&'static str, bool)> = known.iter().filter_map(named).collect();
        if wanted.is_empty() {
            return Err(FunctionMistake::NoParameter { file, function, known: known.join(", ") });
        }
        Ok(wanted)
    }

    fn definition(&self) -> Option<FunctionDefinition> {
        find_definition(self.source, self.function)
    }

    /// How many calls run at once.
    ///
    /// # Errors
    /// If the settings ask for none, or too many.
    pub fn at_once(&self) -> Result<usize, FunctionMistake> {
        let concurrency = check_concurrency(self.concurrency)?;
        let is_async = self.definition().is_some_and(|definition| definition.is_async);
        Ok(if is_async { concurrency } else { 1 })
    }
}

/// Puts the content of a file into settings, unless it is there already, as in
/// a resolved experiment.
///
/// # Errors
/// The error of `read`.
pub fn read_source(file: &str, source: &mut String, read: ReadSettingsFile<'_>) -> Result<(), FileError> {
    if !file.is_empty() && source.is_empty() {
        *source = read(file)?;
    }
    Ok(())
}

/// What identifies a process: functions with an equal setup share it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ProcessSetup {
    interpreter: String,
    file: String,
    source: String,
    function: String,
    place: Option<FunctionPlace>,
    /// How many calls of an `async def` run at once; none for other functions, which are called one at a time.
    at_once: Option<usize>,
    /// Of a whole system: how it is found and called. `at_once` is then what the settings say.
    system: Option<SystemSetup>,
}

impl ProcessSetup {
    /// Whether calls run one at a time, on the thread that loaded the function.
    fn is_serial(&self) -> bool {
        self.at_once.is_none() && self.system.is_none()
    }
}

/// Where the source of a function was defined, for messages. It is no part of
/// any settings, so a function may move in its file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FunctionPlace {
    /// The user's own file.
    pub file: String,
    /// How many lines further down the source is in that file.
    pub shift: i64,
}

/// Sets where the text of a setting `source` was defined, for messages. Without
/// it, line numbers count from the beginning of that text.
pub fn set_place(source: &str, place: FunctionPlace) {
    lock(&PLACES).insert(source.to_owned(), place);
}

/// The process of a function, which may not run at the moment, and the calls that it may get.
struct FunctionProcess {
    /// Free slots for calls. Waiting for one blocks no thread.
    slots: tokio::sync::Semaphore,
    /// For a system that turned out to be called side by side, which needs more slots.
    widening: Once,
    /// Held during a call of a function that is called one at a time.
    alone: Mutex<()>,
    state: Mutex<InterpreterState>,
    timeouts: Mutex<RecentTimeouts>,
}

impl FunctionProcess {
    fn new(at_once: Option<usize>) -> Self {
        let slots = tokio::sync::Semaphore::new(at_once.unwrap_or(1));
        let widening = Once::new();
        Self { slots, widening, alone: Mutex::default(), state: Mutex::default(), timeouts: Mutex::default() }
    }
}

/// The state of an interpreter.
#[derive(Default)]
enum InterpreterState {
    /// Not started, or ended.
    #[default]
    None,
    /// The function can be called.
    Interpreter(Arc<Interpreter>),
    /// Its source cannot be run.
    Broken(Problem),
}

/// The calls that ran out of time, in a row.
#[derive(Default)]
struct RecentTimeouts {
    count: u32,
    paused_until: Option<Instant>,
}

/// A failure, without the name of its function.
#[derive(Debug, Clone)]
struct Problem {
    kind: FailureKind,
    message: String,
    traceback: Option<String>,
    /// The HTTP status that the exception of a system corresponds to.
    status: Option<u16>,
    /// How long the exception asks to wait.
    retry_after: Option<Duration>,
    /// Whether the process ended during a call that may work in the next process.
    is_interrupted: bool,
    /// Whether this very call took too long.
    is_timeout: bool,
}

impl Problem {
    fn new(kind: FailureKind, message: String) -> Self {
        let (traceback, status, retry_after) = (None, None, None);
        Self { kind, message, traceback, status, retry_after, is_interrupted: false, is_timeout: false }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets a new run try everything again: functions that are paused after too many
/// timeouts, and functions whose source could not be run, because a missing
/// package may be installed now.
pub fn reset_failures() {
    for process in lock(&IN_USE).iter().filter_map(Weak::upgrade) {
        *lock(&process.timeouts) = RecentTimeouts::default();
        // A thread that holds the lock is starting the process, so it is not broken.
        if let Ok(mut state) = process.state.try_lock()
            && matches!(*state, InterpreterState::Broken(_))
        {
            *state = InterpreterState::None;
        }
    }
}

/// A function that can be called.
pub struct Function {
    stage: &'static str,
    setup: ProcessSetup,
    parameters: Vec<&'static str>,
    optional: Vec<&'static str>,
    limit: Duration,
    process: Arc<FunctionProcess>,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function").field("function", &self.setup.function).finish_non_exhaustive()
    }
}

impl Function {
    /// A function that takes some of the `known` arguments, for a `stage` such
    /// as `chunker`. Nothing is started yet.
    ///
    /// # Errors
    /// The errors of [`Script::parameters`] and [`check_timeout`].
    pub fn new(stage: &'static str, script: Script<'_>, known: &[&'static str]) -> Result<Self, FunctionMistake> {
        let signature = script.signature(known)?;
        let optional = signature.iter().filter(|(_, has_default)| *has_default).map(|(name, _)| *name).collect();
        let parameters = signature.into_iter().map(|(name, _)| name).collect();
        check_timeout(script.timeout_seconds)?;
        let concurrency = check_concurrency(script.concurrency)?;
        let is_async = script.definition().is_some_and(|definition| definition.is_async);
        let setup = ProcessSetup {
            interpreter: interpreter(script.interpreter).to_owned(),
            file: script.file.to_owned(),
            source: script.source.to_owned(),
            function: script.function.to_owned(),
            place: lock(&PLACES).get(script.source).filter(|_| script.file.is_empty()).cloned(),
            at_once: is_async.then_some(concurrency),
            system: None,
        };
        let limit = Duration::from_secs_f64(script.timeout_seconds);
        Ok(Self { stage, process: process_of(&setup), setup, parameters, optional, limit })
    }

    /// The names of its parameters.
    pub fn parameters(&self) -> &[&'static str] {
        &self.parameters
    }

    /// Whether it has a default for this parameter, and can be called without.
    pub fn is_optional(&self, parameter: &str) -> bool {
        self.optional.contains(&parameter)
    }

    /// The failure for a returned value that cannot be used.
    pub fn bad_return_value(&self, message: String) -> Box<Failure> {
        self.failure(Problem::new(FailureKind::BadReturnValue, message))
    }

    fn failure(&self, problem: Problem) -> Box<Failure> {
        let Problem { kind, message, traceback, .. } = problem;
        let ProcessSetup { file, function, place, .. } = &self.setup;
        let file = place.as_ref().map_or(file, |place| &place.file);
        let (stage, function, file) = (self.stage.to_owned(), function.clone(), file.clone());
        Box::new(Failure { stage, function, file, kind, message, traceback })
    }

    /// Calls it with named arguments, on a thread for blocking work.
    ///
    /// # Errors
    /// The errors of [`Function::call`].
    pub async fn call_async(self: &Arc<Self>, arguments: Value) -> Result<Value, Box<Failure>> {
        self.call_timed(arguments).await.map(|(value, _)| value)
    }

    /// [`Function::call_async`] with the time that the function took, without what it waited for earlier calls and
    /// for its interpreter.
    ///
    /// # Errors
    /// As [`Function::call`].
    pub async fn call_timed(self: &Arc<Self>, arguments: Value) -> Result<(Value, Duration), Box<Failure>> {
        let (function, caller) = (self.clone(), caller());
        // An error means that the semaphore is closed, which never happens.
        let _slot = self.process.slots.acquire().await;
        let called =
            tokio::task::spawn_blocking(move || on_behalf_of_blocking(&caller, || function.timed(&arguments))).await;
        called.map_err(|error| self.failure(Problem::new(FailureKind::Ended, error.to_string())))?
    }

    /// Calls it with named arguments, and blocks until it returns.
    ///
    /// # Errors
    /// What it raised, that it took too long, or that the interpreter cannot be
    /// started or has ended.
    pub fn call(&self, arguments: &Value) -> Result<Value, Box<Failure>> {
        self.timed(arguments).map(|(value, _)| value)
    }

    fn timed(&self, arguments: &Value) -> Result<(Value, Duration), Box<Failure>> {
        self.call_as(arguments, caller()).map_err(|problem| self.failure(problem))
    }

    /// Returns the value, and how long the call took.
    fn call_as(&self, arguments: &Value, caller: Option<Arc<str>>) -> Result<(Value, Duration), Problem> {
        let _alone = self.setup.is_serial().then(|| lock(&self.process.alone));
        self.check_pause()?;
        let running = self.live_interpreter(caller.clone())?;
        let begun = Instant::now();
        let mut reply = match running.call(arguments, caller.clone(), self.limit) {
            CallOutcome::Reply(reply) => reply,
            CallOutcome::Ended(reason) => {
                self.forget(&running);
                let message = format!("its interpreter {reason}");
                return Err(Problem { is_interrupted: true, ..Problem::new(FailureKind::Ended, message) });
            }
            CallOutcome::TimedOut(_) => {
                if !running.is_usable() {
                    self.forget(&running);
                }
                return Err(self.record_timeout(caller.as_deref(), "did not return"));
            }
        };
        *lock(&self.process.timeouts) = RecentTimeouts::default();
        match exception(&mut reply) {
            Some(problem) => Err(problem),
            None => Ok((reply.remove("value").unwrap_or_default(), begun.elapsed())),
        }
    }

    /// The running interpreter, which is started if there is none.
    fn live_interpreter(&self, caller: Option<Arc<str>>) -> Result<Arc<Interpreter>, Problem> {
        let mut state = lock(&self.process.state);
        match &*state {
            InterpreterState::Interpreter(running) if running.is_alive() => return Ok(running.clone()),
            InterpreterState::Broken(problem) => return Err(problem.clone()),
            _ => {}
        }
        *state = InterpreterState::None;
        let started = self.start(caller).map_err(|mut problem| {
            if matches!(problem.kind, FailureKind::Raised | FailureKind::BadReturnValue) {
                // It is not tried again, whatever the exception says.
                problem.status = None;
                *state = InterpreterState::Broken(problem.clone());
            }
            problem
        })?;
        let running = Arc::new(started);
        *state = InterpreterState::Interpreter(running.clone());
        Ok(running)
    }

    /// Forgets an interpreter that has ended or is about to end.
    fn forget(&self, ended: &Arc<Interpreter>) {
        let mut state = lock(&self.process.state);
        if matches!(&*state, InterpreterState::Interpreter(running) if Arc::ptr_eq(running, ended)) {
            *state = InterpreterState::None;
        }
    }

    fn start(&self, caller: Option<Arc<str>>) -> Result<Interpreter, Problem> {
        let ProcessSetup { interpreter, file, source, function, place, at_once, system } = &self.setup;
        let setup = json!({
            "source": source, "file": file, "function": function, "place": place, "parent": std::process::id(),
            "at_once": at_once.is_some(), "system": system,
        });
        let running = Interpreter::start(interpreter, function, system.is_some()).map_err(|error| {
            let message = format!("its interpreter `{interpreter}` does not start: {error}; set `interpreter`");
            Problem::new(FailureKind::Ended, message)
        })?;
        match running.load(&setup, caller.clone(), self.limit) {
            CallOutcome::Reply(mut reply) => match exception(&mut reply) {
                Some(problem) => Err(problem),
                None => {
                    self.apply_greeting(&running, &reply);
                    Ok(running)
                }
            },
            CallOutcome::Ended(reason) => Err(Problem::new(
                FailureKind::Ended,
                format!("its interpreter {reason} before the function was loaded ({interpreter})"),
            )),
            CallOutcome::TimedOut(_) => Err(self.record_timeout(caller.as_deref(), "was not loaded")),
        }
    }

    /// What the interpreter says of a function that it has loaded.
    fn apply_greeting(&self, running: &Interpreter, reply: &Map<String, Value>) {
        let says = |name| reply.get(name).and_then(Value::as_bool).unwrap_or_default();
        if !self.setup.is_serial() && (self.setup.system.is_none() || says("at_once")) {
            running.run_side_by_side();
        }
        if self.setup.at_once.is_none() && says("is_async") {
            self.process.widening.call_once(|| self.process.slots.add_permits(CONCURRENCY - 1));
        }
    }

    /// Fails while the function is paused after too many timeouts.
    fn check_pause(&self) -> Result<(), Problem> {
        let mut timeouts = lock(&self.process.timeouts);
        let Some(until) = timeouts.paused_until else { return Ok(()) };
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            *timeouts = RecentTimeouts::default();
            return Ok(());
        }
        let message = format!(
            "it exceeded its limit of {} {TIMEOUTS_BEFORE_PAUSE} times in a row, and is not called again for {:.0} s, or until the next run",
            seconds(self.limit),
            left.as_secs_f64().ceil(),
        );
        Err(Problem::new(FailureKind::TimedOut, message))
    }

    fn record_timeout(&self, caller: Option<&str>, what: &str) -> Problem {
        let mut timeouts = lock(&self.process.timeouts);
        timeouts.count += 1;
        if timeouts.count >= TIMEOUTS_BEFORE_PAUSE {
            timeouts.paused_until = Some(Instant::now() + (self.limit * PAUSE_FACTOR).min(MAX_PAUSE));
        }
        let caller = caller.map(|caller| format!(" for {caller}")).unwrap_or_default();
        let limit = seconds(self.limit);
        let message = format!("{what} within {limit}{caller} and was stopped: `timeout_seconds` sets the limit");
        Problem { is_timeout: true, ..Problem::new(FailureKind::TimedOut, message) }
    }
}

fn seconds(limit: Duration) -> String {
    format!("{} s", limit.as_secs_f64())
}

/// The exception of a reply, if there is one.
fn exception(reply: &mut Map<String, Value>) -> Option<Problem> {
    let error = reply.get("error")?.as_str()?.to_owned();
    let message = match reply.get("line").and_then(Value::as_u64) {
        Some(line) => format!("{error} (line {line})"),
        None => error,
    };
    let traceback = reply.get("traceback").and_then(Value::as_str).map(str::to_owned);
    let is_unusable = reply.get("is_unusable").is_some();
    let kind = if is_unusable { FailureKind::BadReturnValue } else { FailureKind::Raised };
    let status = reply.get("status").and_then(Value::as_u64).and_then(|status| u16::try_from(status).ok());
    let wait = reply.get("retry_after").and_then(Value::as_f64);
    let retry_after = wait.and_then(|wait| Duration::try_from_secs_f64(wait).ok());
    Some(Problem { traceback, status, retry_after, ..Problem::new(kind, message) })
}

/// The process of all functions with this setup.
fn process_of(setup: &ProcessSetup) -> Arc<FunctionProcess> {
    let mut processes = lock(&PROCESSES);
    let entry = match processes.iter().position(|(other, _)| other == setup) {
        Some(i) => processes.remove(i),
        None => {
            let process = Arc::new(FunctionProcess::new(setup.at_once));
            let mut in_use = lock(&IN_USE);
            in_use.retain(|process| process.strong_count() > 0);
            in_use.push(Arc::downgrade(&process));
            (setup.clone(), process)
        }
    };
    let process = entry.1.clone();
    processes.insert(0, entry);
    // Functions that still use a process keep it.
    processes.truncate(MAX_IDLE_PROCESSES);
    process
}

#[cfg(test)]
mod tests;
