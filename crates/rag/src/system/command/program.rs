//! The process of a program that is asked: started with the first question, and again after it ended.

use super::{Config, ENVIRONMENT, Error, FunctionError, SystemContext, Value, refuse};
use crate::{
    lines::{CallOutcome, LateCall, LineProcess, LineProtocol, OnPrint, ProcessEnd},
    python::{PrintedLine, sink},
};
use models::system_section;
use serde_json::Map;
use std::{
    fmt::Write as _,
    io::{self, Write as _},
    path::PathBuf,
    process::Command,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// After the program ended so many times without a reply in between, it is not started again.
const MOST_ENDS: u32 = 3;
/// How long messages wait for the last lines of its standard error.
const LAST_LINES: Duration = Duration::from_secs(1);
/// Shorter values of variables are not removed from its output: they may be ordinary words.
const MIN_SECRET: usize = 8;

/// A program, and its process while there is one.
pub(super) struct Program {
    system: String,
    config: Config,
    path: PathBuf,
    folder: PathBuf,
    environment: models::provider::Environment,
    state: Mutex<ProgramState>,
}

#[derive(Default)]
struct ProgramState {
    process: Option<Arc<LineProcess>>,
    /// How often in a row it ended without a reply.
    ends: u32,
    /// What happened the last time.
    last_end: String,
}

impl Program {
    pub(super) fn new(config: &Config, cx: &SystemContext<'_>) -> Self {
        Self {
            system: cx.name.to_owned(),
            config: config.clone(),
            path: config.path(cx.base),
            folder: std::path::absolute(cx.base).unwrap_or_else(|_| cx.base.to_owned()),
            environment: cx.models.environment.clone(),
            state: Mutex::default(),
        }
    }

    /// Sends a request, and blocks until its reply is here.
    pub(super) fn ask(&self, request: &Value, caller: Option<Arc<str>>) -> Result<Value, Error> {
        let process = self.running()?;
        let numbered = |id| {
            let mut line = Map::from_iter([("id".to_owned(), Value::from(id))]);
            line.extend(request.as_object().cloned().unwrap_or_default());
            Value::Object(line)
        };
        let limit = Duration::from_secs_f64(self.config.timeout_seconds);
        let late = |_| LateCall::GiveUp { most: self.config.concurrency };
        match process.call(numbered, caller, limit, late) {
            CallOutcome::Reply(reply) => {
                self.state().ends = 0;
                self.body(reply)
            }
            CallOutcome::TimedOut(_) => {
                let mut model = self.subject();
                if process.is_over() {
                    let _ = write!(model, " ({})", printed(&process));
                    self.ended(&process, "it did not reply in time");
                }
                Err(Error::Timeout { model, after: limit })
            }
            CallOutcome::Ended(reason) => Err(self.end_error(&process, &reason)),
        }
    }

    /// What a reply line says, without its number.
    fn body(&self, mut reply: Map<String, Value>) -> Result<Value, Error> {
        reply.remove("id");
        let retry = reply.remove("retry").and_then(|retry| retry.as_bool()).unwrap_or_default();
        match reply.remove("error") {
            None | Some(Value::Null) => Ok(Value::Object(reply)),
            Some(error) => {
                let said = error.as_str().map_or_else(|| error.to_string(), str::to_owned);
                Err(self.failed(format!("it replied with an error: {}", on_one_line(&said)), retry))
            }
        }
    }

    /// The running process, which is started if there is none.
    fn running(&self) -> Result<Arc<LineProcess>, Error> {
        let mut state = self.state();
        match &state.process {
            Some(process) if !process.is_over() && process.is_alive() => return Ok(process.clone()),
            Some(_) => {
                state.process = None;
                state.ends += 1;
                state.last_end = "it ended between two questions".to_owned();
            }
            None => {}
        }
        if state.ends >= MOST_ENDS {
            let message = format!("{}; {}", state.last_end, self.advice());
            return Err(self.failed(message, false));
        }
        let process = Arc::new(self.start()?);
        state.process = Some(process.clone());
        Ok(process)
    }

    fn start(&self) -> Result<LineProcess, Error> {
        let mut command = Command::new(&self.path);
        command.args(&self.config.args).env_clear();
        if self.folder.is_dir() {
            command.current_dir(&self.folder);
        }
        command.envs(ENVIRONMENT.iter().filter_map(|name| Some((name, (self.environment)(name)?))));
        let mut secrets = Vec::new();
        for name in &self.config.env {
            let value = (self.environment)(name)
                .ok_or_else(|| refuse(&self.system, &format!("`env` names the variable `{name}`, which is not set")))?;
            command.env(name, &value);
            if value.len() >= MIN_SECRET {
                secrets.push(value);
            }
        }
        let protocol = LineProtocol {
            number: "id",
            max_bytes: self.config.max_response_bytes,
            refuses_strays: true,
            is_guarded: true,
            secrets,
        };
        LineProcess::start(command, protocol, Some(self.on_print())).map_err(|error| self.start_error(&error))
    }

    /// Shows what the program writes to its standard error.
    fn on_print(&self) -> OnPrint {
        let (name, sink) = (self.config.program.clone(), sink());
        Box::new(move |caller, text| match &sink {
            Some(sink) => sink(&PrintedLine { function: &name, caller, text }),
            None => _ = writeln!(io::stderr(), "{text}"),
        })
    }

    fn start_error(&self, error: &io::Error) -> Error {
        let (program, path) = (&self.config.program, self.path.display());
        let advice = match error.kind() {
            io::ErrorKind::NotFound if program.starts_with('.') => format!("there is no {path}"),
            io::ErrorKind::NotFound if self.path.is_absolute() => "the path leads nowhere".to_owned(),
            io::ErrorKind::NotFound => {
                format!("it is not on `PATH`; write `./{program}` if it lies in the folder of the experiment file")
            }
            io::ErrorKind::PermissionDenied => format!("make it executable: chmod +x {path}"),
            _ => "check `program`".to_owned(),
        };
        refuse(&self.system, &format!("`{program}` does not start: {error}; {advice}"))
    }

    /// Forgets a process that has ended, and counts it once, however many calls it had. Returns how often it ended so.
    fn ended(&self, process: &Arc<LineProcess>, how: &str) -> u32 {
        let mut state = self.state();
        if state.process.as_ref().is_some_and(|running| Arc::ptr_eq(running, process)) {
            state.process = None;
            state.ends += 1;
            how.clone_into(&mut state.last_end);
        }
        state.ends
    }

    fn end_error(&self, process: &Arc<LineProcess>, reason: &ProcessEnd) -> Error {
        let printed = printed(process);
        let how = match reason {
            ProcessEnd::Exited(how) => format!("it ended{how} before it replied"),
            ProcessEnd::Stopped => {
                "it was stopped, because another question took too long or the run was interrupted".to_owned()
            }
            ProcessEnd::NoReply(line) => format!(
                "it wrote the line `{}`, which is no JSON object with an `id`; write only replies to standard output, and logs to standard error",
                on_one_line(line)
            ),
            ProcessEnd::UnknownCall(id) => format!(
                "it replied to the id {id}, which was never asked, so its replies may belong to other questions; each reply must repeat the `id` of its request"
            ),
            ProcessEnd::RepeatedReply(id) => format!(
                "it replied to the id {id} twice, so its replies may belong to other questions; write one reply for each request"
            ),
            ProcessEnd::TooLong(_) | ProcessEnd::NoOutput => format!("it {reason}"),
        };
        let how = format!("{how}; {printed}");
        let ends = self.ended(process, &how);
        match reason {
            ProcessEnd::TooLong(limit) => Error::TooLarge { model: self.subject(), limit: *limit },
            ProcessEnd::NoReply(_) | ProcessEnd::UnknownCall(_) | ProcessEnd::RepeatedReply(_) => {
                Error::Malformed { model: self.subject(), reason: how }
            }
            ProcessEnd::Exited(_) | ProcessEnd::Stopped | ProcessEnd::NoOutput if ends < MOST_ENDS => {
                self.failed(format!("{how}; it is started again for the next question"), true)
            }
            ProcessEnd::Exited(_) | ProcessEnd::Stopped | ProcessEnd::NoOutput => {
                self.failed(format!("{how}; {}", self.advice()), false)
            }
        }
    }

    /// What helps with a program that always ends.
    fn advice(&self) -> String {
        let command = [self.config.program.as_str()].into_iter().chain(self.config.args.iter().map(String::as_str));
        let command = command.collect::<Vec<_>>().join(" ");
        format!(
            "that was {MOST_ENDS} times in a row without a reply, so it is not started again in this run; try it in {} with:\n  \
             echo '{{\"id\": 1, \"question\": \"…\"}}' | {command}",
            self.folder.display()
        )
    }

    /// The error of a program that gave no usable reply.
    pub(super) fn failed(&self, message: String, is_transient: bool) -> Error {
        Error::Function(Box::new(FunctionError {
            function: self.config.program.clone(),
            file: system_section(&self.system),
            message,
            traceback: None,
            is_transient,
            retry_after: None,
        }))
    }

    fn subject(&self) -> String {
        format!("the program `{}` of {}", self.config.program, system_section(&self.system))
    }

    fn state(&self) -> MutexGuard<'_, ProgramState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end of what a process wrote to its standard error.
fn printed(process: &LineProcess) -> String {
    match process.printed_tail(LAST_LINES).as_str() {
        "" => "it wrote nothing to standard error".to_owned(),
        text => format!("its standard error ended with “{}”", on_one_line(text)),
    }
}

/// A text on one line, without characters that a terminal obeys.
fn on_one_line(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().map(|character| if character.is_control() { '\u{fffd}' } else { character }).collect()
}
