//! The threads around one process, and what they share.

use super::{
    LineProtocol, OnPrint, ProcessEnd, beginning,
    guard::ProcessGuard,
    lock,
    output::{PrintedTail, printed_lines, read_bounded},
};
use serde_json::{Map, Value};
use std::{
    collections::{HashMap, HashSet},
    io::{self, BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, ExitStatus},
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, Sender},
    },
    thread,
    time::{Duration, Instant},
};

/// How long a process that closed its output may take to end.
const EXIT_LIMIT: Duration = Duration::from_secs(5);
/// How often the process is checked until then.
const EXIT_POLL: Duration = Duration::from_millis(10);

/// What the threads around one process share.
pub(super) struct SharedProcess {
    pub(super) protocol: LineProtocol,
    /// None once the process is to end.
    pub(super) input: Mutex<Option<ChildStdin>>,
    pub(super) child: Mutex<Child>,
    pub(super) guard: Mutex<Option<ProcessGuard>>,
    pub(super) calls: Mutex<Calls>,
    pub(super) printed: PrintedTail,
}

/// The calls that a process works on.
#[derive(Default)]
pub(super) struct Calls {
    pub(super) waiting: HashMap<u64, PendingCall>,
    /// Calls that took too long and may still be answered.
    pub(super) given_up: HashSet<u64>,
    /// The number of the last call.
    pub(super) last_number: u64,
    pub(super) last_reply: Option<Instant>,
    /// The trials of the last call: what a function prints may be read after its reply.
    pub(super) last_caller: Option<Arc<str>>,
    /// Whether the process was ended from here.
    pub(super) is_stopped: bool,
    /// Why there will be no more replies.
    pub(super) ended: Option<ProcessEnd>,
}

pub(super) struct PendingCall {
    pub(super) reply: Sender<Result<Map<String, Value>, ProcessEnd>>,
    /// The trials that it is for, as messages name them.
    pub(super) caller: Option<Arc<str>>,
}

impl SharedProcess {
    /// Ends the process, and all that it started.
    pub(super) fn end(&self) {
        lock(&self.calls).is_stopped = true;
        // If another thread is writing, it holds the lock; the end of the process frees it.
        if let Ok(mut input) = self.input.try_lock() {
            input.take();
        }
        if let Some(guard) = lock(&self.guard).as_mut() {
            guard.end_group();
        }
        let _ = lock(&self.child).kill();
    }

    /// The trials of all pending calls; of the last call if none is pending;
    /// none if they differ.
    fn caller(&self) -> Option<Arc<str>> {
        let calls = lock(&self.calls);
        let mut callers = calls.waiting.values().map(|waiting| &waiting.caller);
        let Some(first) = callers.next() else { return calls.last_caller.clone() };
        callers.all(|caller| caller == first).then(|| first.clone())?
    }

    fn fail_all(&self, reason: &ProcessEnd) {
        let mut calls = lock(&self.calls);
        for (_, waiting) in calls.waiting.drain() {
            let _ = waiting.reply.send(Err(reason.clone()));
        }
        calls.ended = Some(reason.clone());
    }

    /// Hands a reply to the call that waits for it.
    fn deliver(&self, number: u64, reply: Map<String, Value>) -> Result<(), ProcessEnd> {
        let mut calls = lock(&self.calls);
        calls.last_reply = Some(Instant::now());
        if let Some(waiting) = calls.waiting.remove(&number) {
            let _ = waiting.reply.send(Ok(reply));
            return Ok(());
        }
        // A call that took too long is not pending any more.
        if calls.given_up.remove(&number) || !self.protocol.refuses_strays {
            return Ok(());
        }
        let is_known = (1..=calls.last_number).contains(&number);
        Err(if is_known { ProcessEnd::RepeatedReply(number) } else { ProcessEnd::UnknownCall(number) })
    }
}

/// Starts the process, and the threads that read what it writes.
pub(super) fn spawn(
    mut command: Command,
    protocol: LineProtocol,
    on_print: Option<OnPrint>,
) -> io::Result<Arc<SharedProcess>> {
    let mut child = command.spawn()?;
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    let guard = match protocol.is_guarded.then(|| ProcessGuard::start(child.id())).transpose() {
        Ok(guard) => guard,
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
    };
    let shared = Arc::new(SharedProcess {
        protocol,
        input: Mutex::new(child.stdin.take()),
        child: Mutex::new(child),
        guard: Mutex::new(guard),
        calls: Mutex::default(),
        printed: PrintedTail::default(),
    });
    if let (Some(errors), Some(on_print)) = (errors, on_print) {
        let shared = shared.clone();
        let show = move || {
            printed_lines(BufReader::new(errors), |text| {
                let text = without_secrets(text.to_owned(), &shared.protocol.secrets);
                shared.printed.add(&text);
                on_print(shared.caller().as_deref(), &text);
            });
            shared.printed.close();
        };
        // Without this thread, the output of the process is not shown.
        let _ = thread::Builder::new().name("function prints".to_owned()).spawn(show);
    }
    let replies = {
        let shared = shared.clone();
        let read = move || read_replies(&shared, output.map(BufReader::new));
        thread::Builder::new().name("function replies".to_owned()).spawn(read)
    };
    if let Err(error) = replies {
        shared.end();
        return Err(error);
    }
    Ok(shared)
}

/// Passes requests on until the sender is gone or the process has ended. The
/// process lives as long as this thread.
pub(super) fn forward_requests(shared: &SharedProcess, asked: &Receiver<Vec<u8>>) {
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
    let guard = lock(&shared.guard).take();
    if let Some(mut guard) = guard {
        guard.wait();
    }
}

/// Hands replies to the pending calls until the process ends.
fn read_replies(shared: &SharedProcess, output: Option<impl BufRead>) {
    let reason = match output {
        Some(output) => end_of_replies(shared, output),
        None => ProcessEnd::NoOutput,
    };
    shared.fail_all(&reason);
    shared.end();
}

fn end_of_replies(shared: &SharedProcess, mut output: impl BufRead) -> ProcessEnd {
    let LineProtocol { number, max_bytes, ref secrets, .. } = shared.protocol;
    let mut line = Vec::new();
    while matches!(read_bounded(&mut output, &mut line, max_bytes), Ok(1..)) {
        let is_whole = line.ends_with(b"\n");
        if line.len() - usize::from(is_whole) > max_bytes {
            return ProcessEnd::TooLong(max_bytes);
        }
        let text = without_secrets(String::from_utf8_lossy(&line).into_owned(), secrets);
        line.clear();
        if text.trim().is_empty() {
            continue;
        }
        let reply: Option<Map<String, Value>> = serde_json::from_str(&text).ok();
        let number = reply.as_ref().and_then(|reply| reply.get(number)?.as_u64());
        let Some((number, reply)) = number.zip(reply) else {
            if !is_whole {
                // The process ended in the middle of a line.
                break;
            }
            return ProcessEnd::NoReply(beginning(text.trim()));
        };
        if let Err(stray) = shared.deliver(number, reply) {
            return stray;
        }
    }
    let how = exit_reason(shared);
    if lock(&shared.calls).is_stopped { ProcessEnd::Stopped } else { ProcessEnd::Exited(how) }
}

/// How a process ended, in brackets; empty if it does not end in time.
fn exit_reason(shared: &SharedProcess) -> String {
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

fn without_secrets(mut text: String, secrets: &[String]) -> String {
    for secret in secrets {
        if text.contains(secret) {
            text = text.replace(secret, "[secret]");
        }
    }
    text
}
