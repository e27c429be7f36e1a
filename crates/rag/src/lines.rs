//! Child processes that are spoken to in lines of JSON. Each request is a line with a number, and so is each reply;
//! replies may come in any order. A process ends with this program, however this program ends.
//!
//! A thread of its own starts the process, passes requests on to it, and lives as
//! long as the process: on Linux the system can end a process when the thread that
//! started it ends, and the threads that make calls come and go.

mod guard;
mod output;
mod program;
mod threads;

pub(crate) use output::beginning;
pub(crate) use program::{ProgramFailure, ProgramLimits, run_program};

use serde_json::{Map, Value};
use std::{
    io,
    process::{Command, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};
use threads::{PendingCall, SharedProcess, forward_requests, spawn};

/// The running processes, to be ended by [`interrupt`].
static LIVE: Mutex<Vec<Weak<SharedProcess>>> = Mutex::new(Vec::new());

/// What processes of one kind write and read.
#[derive(Debug, Clone)]
pub(crate) struct LineProtocol {
    /// The field of a reply that holds its number.
    pub number: &'static str,
    /// The longest reply, in bytes.
    pub max_bytes: usize,
    /// Whether a reply that no call waits for ends the process, unless its call took too long. Otherwise such replies
    /// are left out.
    pub refuses_strays: bool,
    /// Whether the process and all that it started are ended with this program by a second process. Otherwise the
    /// process must see to that itself.
    pub is_guarded: bool,
    /// Texts that are removed from all output.
    pub secrets: Vec<String>,
}

/// Receives each line that a process writes to its standard error, with the trials for which it works at that moment.
pub(crate) type OnPrint = Box<dyn Fn(Option<&str>, &str) + Send>;

/// Why a process gives no more replies; the text is the rest of a sentence about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProcessEnd {
    /// It ended; in brackets how, if that is known.
    #[error("ended{0}")]
    Exited(String),
    /// It was ended from here, because of another call or an interrupt.
    #[error("was stopped")]
    Stopped,
    /// It wrote a line that is no reply.
    #[error("answered `{0}`, which is no reply")]
    NoReply(String),
    /// It wrote a line of more than this many bytes.
    #[error("answered a line of more than {0} bytes")]
    TooLong(usize),
    /// It answered a call that was never made.
    #[error("answered call {0}, which was never made")]
    UnknownCall(u64),
    /// It answered one call twice.
    #[error("answered call {0} twice")]
    RepeatedReply(u64),
    /// Its output cannot be read.
    #[error("has no output")]
    NoOutput,
}

/// How a call ended.
#[derive(Debug)]
pub(crate) enum CallOutcome {
    Reply(Map<String, Value>),
    /// The process did not answer in time; with the reply to the cancellation, if one was sent and answered.
    TimedOut(Option<Map<String, Value>>),
    /// The process ended, or sent something that is no reply.
    Ended(ProcessEnd),
}

/// What is done about a call that takes too long.
pub(crate) enum LateCall {
    /// The process is ended.
    EndProcess,
    /// This line is sent, which asks the process to answer the call at once. If that takes longer than the time, the
    /// process is ended.
    Cancel(Value, Duration),
    /// The call is given up; the process is ended too if it has not answered any call since this one was made, or if
    /// so many calls were given up.
    GiveUp { most: usize },
}

/// A process that answers lines of JSON.
pub(crate) struct LineProcess {
    shared: Arc<SharedProcess>,
    requests: Sender<Vec<u8>>,
}

impl Drop for LineProcess {
    fn drop(&mut self) {
        self.shared.end();
    }
}

/// Ends the processes that are working on a call, after an interrupt (Ctrl-C).
pub fn interrupt() {
    program::interrupt();
    for shared in lock(&LIVE).iter().filter_map(Weak::upgrade) {
        let is_working = !lock(&shared.calls).waiting.is_empty();
        if is_working {
            shared.end();
        }
    }
}

impl LineProcess {
    /// Starts a process. Without `on_print`, what it writes to its standard error goes to that of this program.
    pub(crate) fn start(mut command: Command, protocol: LineProtocol, on_print: Option<OnPrint>) -> io::Result<Self> {
        let (requests, asked) = channel();
        let (started, start) = channel();
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(if on_print.is_some() { Stdio::piped() } else { Stdio::inherit() });
        if protocol.is_guarded {
            guard::in_a_group_of_its_own(&mut command);
        }
        let keeper = thread::Builder::new().name("function".to_owned()).spawn(move || {
            let shared = match spawn(command, protocol, on_print) {
                Ok(shared) => shared,
                Err(error) => return drop(started.send(Err(error))),
            };
            if started.send(Ok(shared.clone())).is_err() {
                shared.end();
            }
            forward_requests(&shared, &asked);
        });
        keeper?;
        let shared = start.recv().map_err(io::Error::other)??;
        let mut live = lock(&LIVE);
        live.retain(|shared| shared.strong_count() > 0);
        live.push(Arc::downgrade(&shared));
        drop(live);
        Ok(Self { shared, requests })
    }

    fn send(&self, request: &Value) {
        // If the process has ended, the reply says so.
        let _ = self.requests.send(format!("{request}\n").into_bytes());
    }

    /// Whether it is still running.
    pub(crate) fn is_alive(&self) -> bool {
        matches!(lock(&self.shared.child).try_wait(), Ok(None))
    }

    /// Whether it can be called again.
    pub(crate) fn is_usable(&self) -> bool {
        self.is_alive() && lock(&self.shared.input).is_some()
    }

    /// Whether it answers no more calls: it was ended from here, or its output ended.
    pub(crate) fn is_over(&self) -> bool {
        let calls = lock(&self.shared.calls);
        calls.is_stopped || calls.ended.is_some()
    }

    /// Ends it, and all that it started.
    pub(crate) fn end(&self) {
        self.shared.end();
    }

    /// The last lines of its standard error, once it closed that, or after this time.
    pub(crate) fn printed_tail(&self, wait: Duration) -> String {
        self.shared.printed.text(wait)
    }

    /// Sends the first line, and blocks until it is answered with the number 0.
    pub(crate) fn begin(&self, setup: &Value, caller: Option<Arc<str>>, limit: Duration) -> CallOutcome {
        match self.pending(Some(0), caller) {
            Ok((_, replies)) => {
                self.send(setup);
                self.wait(0, &replies, limit, |_| LateCall::EndProcess)
            }
            Err(reason) => CallOutcome::Ended(reason),
        }
    }

    /// Sends the request that `request` makes of the call's number, and blocks until it is answered.
    pub(crate) fn call(
        &self,
        request: impl FnOnce(u64) -> Value,
        caller: Option<Arc<str>>,
        limit: Duration,
        late: impl FnOnce(u64) -> LateCall,
    ) -> CallOutcome {
        let (number, replies) = match self.pending(None, caller) {
            Ok(pending) => pending,
            Err(reason) => return CallOutcome::Ended(reason),
        };
        self.send(&request(number));
        self.wait(number, &replies, limit, late)
    }

    /// Enters a call, of the next number unless one is given, with the receiver of its reply.
    fn pending(&self, number: Option<u64>, caller: Option<Arc<str>>) -> Result<(u64, Replies), ProcessEnd> {
        let (reply, replies) = channel();
        let mut calls = lock(&self.shared.calls);
        if let Some(reason) = &calls.ended {
            return Err(reason.clone());
        }
        let number = number.unwrap_or(calls.last_number + 1);
        calls.last_number = number;
        calls.last_caller.clone_from(&caller);
        calls.waiting.insert(number, PendingCall { reply, caller });
        Ok((number, replies))
    }

    fn wait(&self, number: u64, replies: &Replies, limit: Duration, late: impl FnOnce(u64) -> LateCall) -> CallOutcome {
        let began = Instant::now();
        match replies.recv_timeout(limit) {
            Ok(Ok(reply)) => return CallOutcome::Reply(reply),
            Ok(Err(reason)) => return CallOutcome::Ended(reason),
            Err(RecvTimeoutError::Disconnected) => {
                return CallOutcome::Ended(ProcessEnd::Exited(String::new()));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        match late(number) {
            LateCall::EndProcess => {}
            LateCall::Cancel(request, patience) => {
                self.send(&request);
                if let Ok(reply) = replies.recv_timeout(patience) {
                    return CallOutcome::TimedOut(reply.ok());
                }
            }
            LateCall::GiveUp { most } => {
                let mut calls = lock(&self.shared.calls);
                calls.waiting.remove(&number);
                calls.given_up.insert(number);
                let answers = calls.last_reply.is_some_and(|reply| reply > began) && calls.given_up.len() < most;
                drop(calls);
                // It may have been answered in this moment.
                if let Ok(Ok(reply)) = replies.try_recv() {
                    lock(&self.shared.calls).given_up.remove(&number);
                    return CallOutcome::Reply(reply);
                }
                if answers {
                    return CallOutcome::TimedOut(None);
                }
            }
        }
        self.shared.end();
        CallOutcome::TimedOut(None)
    }
}

type Replies = Receiver<Result<Map<String, Value>, ProcessEnd>>;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
