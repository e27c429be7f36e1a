//! The interpreter process of one function. It ends with this program, however
//! this program ends.
//!
//! A thread of its own starts the process, passes requests on to it, and lives as
//! long as the process: on Linux the system ends the process when the thread that
//! started it ends, and the threads that call functions come and go.

use super::{PrintedLine, lock, sink};
use serde_json::{Map, Value, json};
use std::{
    collections::HashMap,
    io::{self, BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

const DRIVER: &str = include_str!("driver.py");
/// How long an interpreter that closed its output may take to end.
const EXIT_LIMIT: Duration = Duration::from_secs(5);
/// How often the interpreter is checked until then.
const EXIT_POLL: Duration = Duration::from_millis(10);
/// How long a cancelled call may take to end. If it takes longer, the function
/// blocks its event loop, and its process is ended. Tests wait longer, because a busy machine may be late
/// with a call that has not blocked anything.
const CANCEL_LIMIT: Duration = Duration::from_secs(if cfg!(test) { 60 } else { 1 });
/// A printed line is cut after this many bytes.
const LINE_BYTES: usize = 16 << 10;

/// The running processes, to be ended by [`interrupt`].
static LIVE: Mutex<Vec<Weak<InterpreterProcess>>> = Mutex::new(Vec::new());

/// What the threads around one process share.
struct InterpreterProcess {
    /// None once the process is to end: `guard` in `driver.py` then ends its group.
    input: Mutex<Option<ChildStdin>>,
    child: Mutex<Child>,
    calls: Mutex<Calls>,
}

/// The calls that a process works on.
#[derive(Default)]
struct Calls {
    waiting: HashMap<u64, PendingCall>,
    /// The trials of the last call: what a function prints may be read after its reply.
    last: Option<Arc<str>>,
    /// Why there will be no more replies.
    ended: Option<ProcessEnd>,
}

/// Why a process gives no more replies.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(super) struct ProcessEnd(String);

struct PendingCall {
    reply: Sender<Result<Map<String, Value>, ProcessEnd>>,
    /// The trials that it is for, as messages name them.
    caller: Option<Arc<str>>,
}

impl InterpreterProcess {
    /// Ends the process, and all that it started.
    fn end(&self) {
        // If another thread is writing, it holds the lock; the end of the process frees it.
        if let Ok(mut input) = self.input.try_lock() {
            input.take();
        }
        let _ = lock(&self.child).kill();
    }

    /// The trials of all pending calls; of the last call if none is pending;
    /// none if they differ.
    fn caller(&self) -> Option<Arc<str>> {
        let calls = lock(&self.calls);
        let mut callers = calls.waiting.values().map(|waiting| &waiting.caller);
        let Some(first) = callers.next() else { return calls.last.clone() };
        callers.all(|caller| caller == first).then(|| first.clone())?
    }

    fn fail_all(&self, reason: String) {
        let (mut calls, reason) = (lock(&self.calls), ProcessEnd(reason));
        for (_, waiting) in calls.waiting.drain() {
            let _ = waiting.reply.send(Err(reason.clone()));
        }
        calls.ended = Some(reason);
    }
}

pub(super) enum CallOutcome {
    Reply(Map<String, Value>),
    /// The process did not answer in time. It was ended, unless it could cancel
    /// this call alone.
    TimedOut,
    /// The process ended, or sent something that is no reply.
    Ended(ProcessEnd),
}

/// An interpreter with a function in it.
pub(super) struct Interpreter {
    shared: Arc<InterpreterProcess>,
    requests: Sender<Vec<u8>>,
    /// The number of the last call, counted from 1.
    last: AtomicU64,
    /// Whether calls run side by side, so that one can be cancelled.
    at_once: bool,
}

impl Drop for Interpreter {
    fn drop(&mut self) {
        self.shared.end();
    }
}

/// Ends the interpreters that are working on a call, after an interrupt (Ctrl-C).
pub fn interrupt() {
    for shared in lock(&LIVE).iter().filter_map(Weak::upgrade) {
        if !lock(&shared.calls).waiting.is_empty() {
            shared.end();
        }
    }
}

impl Interpreter {
    /// Starts an interpreter; the first reply says whether the function is
    /// there. `at_once` is whether its calls run side by side.
    pub(super) fn start(interpreter: &str, setup: Value, name: &str, at_once: bool) -> io::Result<Self> {
        let (requests, asked) = channel();
        let (started, start) = channel();
        let mut command = Command::new(interpreter);
        command.args(["-u", "-c", DRIVER]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let printed = sink();
        command.stderr(if printed.is_some() { Stdio::piped() } else { Stdio::inherit() });
        let function = name.to_owned();
        let keeper = thread::Builder::new().name("function".to_owned()).spawn(move || {
            let mut child = match command.spawn() {
                Ok(child) => child,
                Err(error) => return drop(started.send(Err(error))),
            };
            let (output, errors) = (child.stdout.take(), child.stderr.take());
            let shared = Arc::new(InterpreterProcess {
                input: Mutex::new(child.stdin.take()),
                child: Mutex::new(child),
                calls: Mutex::default(),
            });
            if let (Some(errors), Some(printed)) = (errors, printed) {
                let shared = shared.clone();
                let show = move || {
                    lines(BufReader::new(errors), |text| {
                        let caller = shared.caller();
                        printed(&PrintedLine { function: &function, caller: caller.as_deref(), text });
                    });
                };
                // Without this thread, the output of the function is not shown.
                let _ = thread::Builder::new().name("function prints".to_owned()).spawn(show);
            }
            let replies = {
                let shared = shared.clone();
                let read = move || read_replies(&shared, output.map(BufReader::new));
                thread::Builder::new().name("function replies".to_owned()).spawn(read)
            };
            if let Err(error) = replies {
                shared.end();
                return drop(started.send(Err(error)));
            }
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
        let running = Self { shared, requests, last: AtomicU64::new(0), at_once };
        running.send(&setup);
        Ok(running)
    }

    fn send(&self, request: &Value) {
        // If the process has ended, the reply says so.
        let _ = self.requests.send(format!("{request}\n").into_bytes());
    }

    /// Whether its process is still running.
    pub(super) fn is_alive(&self) -> bool {
        matches!(lock(&self.shared.child).try_wait(), Ok(None))
    }

    /// Whether it can be called again.
    pub(super) fn is_usable(&self) -> bool {
        self.is_alive() && lock(&self.shared.input).is_some()
    }

    /// Waits until the function is there.
    pub(super) fn ready(&self, caller: Option<Arc<str>>, limit: Duration) -> CallOutcome {
        self.exchange(0, None, caller, limit)
    }

    pub(super) fn call(&self, arguments: &Value, caller: Option<Arc<str>>, limit: Duration) -> CallOutcome {
        let number = self.last.fetch_add(1, Ordering::SeqCst) + 1;
        self.exchange(number, Some(json!({ "call": number, "arguments": arguments })), caller, limit)
    }

    /// Sends a request, if there is one, and waits for the reply of this number.
    fn exchange(&self, number: u64, request: Option<Value>, caller: Option<Arc<str>>, limit: Duration) -> CallOutcome {
        let (reply, replies) = channel();
        {
            let mut calls = lock(&self.shared.calls);
            if let Some(reason) = &calls.ended {
                return CallOutcome::Ended(reason.clone());
            }
            calls.last.clone_from(&caller);
            calls.waiting.insert(number, PendingCall { reply, caller });
        }
        if let Some(request) = request {
            self.send(&request);
        }
        match replies.recv_timeout(limit) {
            Ok(Ok(reply)) => return CallOutcome::Reply(reply),
            Ok(Err(reason)) => return CallOutcome::Ended(reason),
            Err(RecvTimeoutError::Disconnected) => {
                return CallOutcome::Ended(ProcessEnd("its interpreter ended".to_owned()));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if self.at_once && number > 0 {
            self.send(&json!({ "cancel": number }));
            if replies.recv_timeout(CANCEL_LIMIT).is_ok() {
                return CallOutcome::TimedOut;
            }
        }
        self.shared.end();
        CallOutcome::TimedOut
    }
}

/// Passes requests on until the sender is gone or the process has ended. The
/// process lives as long as this thread.
fn forward_requests(shared: &InterpreterProcess, asked: &Receiver<Vec<u8>>) {
    for request in asked {
        let mut input = lock(&shared.input);
        let Some(open) = input.as_mut() else { continue };
        if open.write_all(&request).and_then(|()| open.flush()).is_err() {
            // The reader of replies notices that the process ended.
            input.take();
        }
    }
    shared.end();
    let _ = lock(&shared.child).wait();
}

/// Hands replies to the pending calls until the process ends.
fn read_replies(shared: &InterpreterProcess, output: Option<impl BufRead>) {
    let Some(mut output) = output else { return shared.fail_all("its interpreter has no output".to_owned()) };
    let mut line = String::new();
    while matches!(output.read_line(&mut line), Ok(1..)) {
        let reply: Option<Map<String, Value>> = serde_json::from_str(&line).ok();
        let number = reply.as_ref().and_then(|reply| reply.get("call")?.as_u64());
        let Some((number, reply)) = number.zip(reply) else {
            shared.fail_all(format!("its interpreter answered `{}`, which is no reply", beginning(line.trim())));
            return shared.end();
        };
        // A call that took too long is not pending any more.
        if let Some(waiting) = lock(&shared.calls).waiting.remove(&number) {
            let _ = waiting.reply.send(Ok(reply));
        }
        line.clear();
    }
    let status = exit_reason(shared);
    shared.fail_all(format!("its interpreter ended{status}"));
    shared.end();
}

/// How a process ended, in brackets; empty if it does not end in time.
fn exit_reason(shared: &InterpreterProcess) -> String {
    let began = Instant::now();
    while began.elapsed() < EXIT_LIMIT {
        if let Ok(Some(status)) = lock(&shared.child).try_wait() {
            return format!(" ({})", describe_exit(status));
        }
        thread::park_timeout(EXIT_POLL);
    }
    String::new()
}

fn describe_exit(status: ExitStatus) -> String {
    let text = status.to_string();
    if text.contains("SIGKILL") { format!("{text}: is there enough memory?") } else { text }
}

/// The lines of a stream, as they come, including those of a progress bar.
fn lines(mut stream: impl BufRead, mut line: impl FnMut(&str)) {
    let mut text: Vec<u8> = Vec::new();
    let mut show = |text: &mut Vec<u8>| {
        if !text.is_empty() {
            line(&String::from_utf8_lossy(text));
            text.clear();
        }
    };
    while let Ok(new) = stream.fill_buf() {
        let count = new.len();
        if count == 0 {
            break;
        }
        for &byte in new {
            if matches!(byte, b'\n' | b'\r') || text.len() >= LINE_BYTES {
                show(&mut text);
            }
            if !matches!(byte, b'\n' | b'\r') {
                text.push(byte);
            }
        }
        stream.consume(count);
    }
    show(&mut text);
}

/// The first characters of a text that may be long.
fn beginning(text: &str) -> String {
    const MOST: usize = 200;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
