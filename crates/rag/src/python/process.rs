//! The interpreter process of one function. It ends with this program, however
//! this program ends.
//!
//! A thread of its own starts the process, and lives as long as the process to
//! read its answers: on Linux the system ends the process when the thread that
//! started it ends, and the threads that call functions come and go.

use super::{Printed, sink};
use serde_json::{Map, Value, json};
use std::{
    io::{self, BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

const DRIVER: &str = include_str!("driver.py");
/// How long an interpreter that closed its output may take to end.
const TO_END: Duration = Duration::from_millis(500);
/// A printed line is cut after this many bytes.
const LINE: usize = 16 << 10;

/// The running processes, to be ended by [`interrupt`].
static LIVE: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// What the threads around one process share.
struct Shared {
    /// None once the process is to end: its guard then ends the whole process group.
    input: Mutex<Option<ChildStdin>>,
    child: Mutex<Child>,
    /// Whether it is computing something.
    busy: AtomicBool,
    /// The trials that it works for, as messages name them.
    caller: Mutex<Option<Arc<str>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Ends the process, and all that it started.
    fn end(&self) {
        // If another thread is writing, it holds the lock; the end of the process frees it.
        if let Ok(mut input) = self.input.try_lock() {
            input.take();
        }
        let _ = lock(&self.child).kill();
    }
}

/// The result of a request.
pub(super) enum Asked {
    /// The driver's reply.
    Reply(Map<String, Value>),
    /// The process did not answer in time, and was ended.
    TimedOut,
    /// The process ended, or sent something that is no reply.
    Ended(String),
}

/// An interpreter with a function in it.
pub(super) struct Running {
    shared: Arc<Shared>,
    requests: Sender<Vec<u8>>,
    replies: Receiver<Result<String, String>>,
    calls: u64,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.end();
    }
}

/// Ends the interpreters that are computing at this moment: nobody waits for
/// them any more.
pub fn interrupt() {
    for shared in lock(&LIVE).iter().filter_map(Weak::upgrade) {
        if shared.busy.load(Ordering::SeqCst) {
            shared.end();
        }
    }
}

impl Running {
    /// Starts an interpreter; the first reply says whether the function is there.
    pub(super) fn start(interpreter: &str, setup: Value, name: &str) -> Result<Self, String> {
        let (requests, asked) = channel();
        let (answer, replies) = channel();
        let (started, start) = channel();
        let mut command = Command::new(interpreter);
        command.args(["-u", "-c", DRIVER]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let printed = sink();
        command.stderr(if printed.is_some() { Stdio::piped() } else { Stdio::inherit() });
        let function = name.to_owned();
        let keeper = thread::Builder::new().name("function".to_owned()).spawn(move || {
            let mut child = match command.spawn() {
                Ok(child) => child,
                Err(error) => return drop(started.send(Err(error.to_string()))),
            };
            let (output, errors) = (child.stdout.take(), child.stderr.take());
            let shared = Arc::new(Shared {
                input: Mutex::new(child.stdin.take()),
                child: Mutex::new(child),
                busy: AtomicBool::new(false),
                caller: Mutex::default(),
            });
            if let (Some(errors), Some(printed)) = (errors, printed) {
                let shared = shared.clone();
                let show = move || {
                    lines(BufReader::new(errors), |text| {
                        let caller = lock(&shared.caller).clone();
                        printed(&Printed { function: &function, caller: caller.as_deref(), text });
                    });
                };
                // Without this thread, the output of the function is not shown.
                let _ = thread::Builder::new().name("function prints".to_owned()).spawn(show);
            }
            if started.send(Ok(shared.clone())).is_err() {
                shared.end();
            }
            keep(&shared, output.map(BufReader::new), &asked, &answer);
        });
        keeper.map_err(|error| error.to_string())?;
        let shared = start.recv().map_err(|error| error.to_string())??;
        let mut live = lock(&LIVE);
        live.retain(|shared| shared.strong_count() > 0);
        live.push(Arc::downgrade(&shared));
        drop(live);
        let running = Self { shared, requests, replies, calls: 0 };
        running.send(&setup);
        Ok(running)
    }

    fn send(&self, request: &Value) {
        // If the process has ended, the reply says so.
        let _ = self.requests.send(format!("{request}\n").into_bytes());
    }

    /// Whether it has not ended since its last reply.
    pub(super) fn lives(&self) -> bool {
        matches!(lock(&self.shared.child).try_wait(), Ok(None))
    }

    /// Waits until the function is there.
    pub(super) fn ready(&mut self, caller: Option<Arc<str>>, limit: Duration) -> Asked {
        self.answer(caller, limit)
    }

    /// Calls the function.
    pub(super) fn ask(&mut self, arguments: &Value, caller: Option<Arc<str>>, limit: Duration) -> Asked {
        self.calls += 1;
        self.send(&json!({ "call": self.calls, "arguments": arguments }));
        self.answer(caller, limit)
    }

    fn answer(&mut self, caller: Option<Arc<str>>, limit: Duration) -> Asked {
        *lock(&self.shared.caller) = caller;
        self.shared.busy.store(true, Ordering::SeqCst);
        let answer = self.replies.recv_timeout(limit);
        self.shared.busy.store(false, Ordering::SeqCst);
        match answer {
            Ok(Ok(line)) => match serde_json::from_str(&line) {
                Ok(Value::Object(reply)) if reply.get("call") == Some(&json!(self.calls)) => Asked::Reply(reply),
                _ => Asked::Ended(format!("its interpreter answered `{}`, which is no reply", beginning(line.trim()))),
            },
            Ok(Err(reason)) => Asked::Ended(reason),
            Err(RecvTimeoutError::Disconnected) => Asked::Ended("its interpreter ended".to_owned()),
            Err(RecvTimeoutError::Timeout) => {
                self.shared.end();
                Asked::TimedOut
            }
        }
    }
}

/// Passes requests and replies on, until nobody asks any more or the process ends.
fn keep(
    shared: &Shared,
    output: Option<impl BufRead>,
    asked: &Receiver<Vec<u8>>,
    answer: &Sender<Result<String, String>>,
) {
    let Some(mut output) = output else { return };
    let write = |request: &[u8]| {
        let mut input = lock(&shared.input);
        let input = input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        input.write_all(request).and_then(|()| input.flush())
    };
    for request in asked {
        let mut line = String::new();
        let read = write(&request).and_then(|()| output.read_line(&mut line));
        if matches!(read, Ok(1..)) {
            if answer.send(Ok(line)).is_err() {
                break;
            }
            continue;
        }
        let status = ended(shared);
        let _ = answer.send(Err(format!("its interpreter ended{status}")));
        break;
    }
    shared.end();
    let _ = lock(&shared.child).wait();
}

/// The reason why a process ended.
fn ended(shared: &Shared) -> String {
    let began = Instant::now();
    while began.elapsed() < TO_END {
        if let Ok(Some(status)) = lock(&shared.child).try_wait() {
            return format!(" ({})", told(status));
        }
        thread::park_timeout(TO_END / 50);
    }
    String::new()
}

fn told(status: ExitStatus) -> String {
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
            if matches!(byte, b'\n' | b'\r') || text.len() >= LINE {
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
