//! A program that is run once, with arguments: its standard output is the result. It and the programs that it starts are
//! a group of processes, which is ended as soon as it or Reverie ends.

use super::{
    beginning,
    guard::{ProcessGuard, in_a_group_of_its_own},
    lock,
};
use std::{
    io::{self, Read},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// How often a program is checked while it runs.
const POLL: Duration = Duration::from_millis(5);
/// How long its output may stay open when it has ended.
const CLOSING: Duration = Duration::from_secs(5);
/// How much of its standard error is kept: the end, which mostly says what went wrong.
const KEPT_ERRORS: usize = 4096;
/// How many bytes are read at once.
const BLOCK: usize = 64 << 10;

/// The programs that run now, to be ended by an interrupt.
static RUNNING: Mutex<Vec<Weak<Mutex<ProcessGuard>>>> = Mutex::new(Vec::new());

/// What a program may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProgramLimits {
    pub(crate) time: Duration,
    /// Bytes of its standard output.
    pub(crate) output: usize,
    /// Bytes of memory of each of its processes; no limit if none.
    pub(crate) memory: Option<u64>,
}

/// Why a program gave no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramFailure {
    /// It cannot be started.
    #[error("cannot be started: {0}")]
    NotStarted(io::Error),
    /// It ended with a failure; with what it wrote to its standard error at the end.
    #[error("ended with {status}{}", if printed.is_empty() { String::new() } else { format!(": {printed}") })]
    Failed { status: String, printed: String },
    /// It took longer than it may.
    #[error("took longer than {} seconds and was ended", .0.as_secs_f64())]
    TimedOut(Duration),
    /// It wrote more than it may.
    #[error("wrote more than {0} bytes and was ended")]
    TooLong(usize),
    /// It was ended by an interrupt.
    #[error("was ended with this program")]
    Interrupted,
}

/// Ends the programs that run now.
pub(super) fn interrupt() {
    for running in lock(&RUNNING).drain(..).filter_map(|running| running.upgrade()) {
        lock(&running).end_group();
    }
}

/// Runs a program to its end, and gives back what it wrote to its standard output.
///
/// # Errors
/// See [`ProgramFailure`].
pub(crate) fn run_program(command: Command, limits: ProgramLimits) -> Result<Vec<u8>, ProgramFailure> {
    let mut command = with_memory_limit(command, limits.memory);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    in_a_group_of_its_own(&mut command);
    let mut child = command.spawn().map_err(ProgramFailure::NotStarted)?;
    let guard = ProcessGuard::start(child.id()).map_err(|error| {
        let _ = child.kill();
        let _ = child.wait();
        ProgramFailure::NotStarted(error)
    })?;
    let guard = Arc::new(Mutex::new(guard));
    lock(&RUNNING).push(Arc::downgrade(&guard));
    let outcome = wait(&mut child, limits);
    // What it has started ends with it.
    let mut held = lock(&guard);
    held.end_group();
    let _ = child.kill();
    let _ = child.wait();
    held.wait();
    drop(held);
    lock(&RUNNING).retain(|running| running.upgrade().is_some_and(|running| !Arc::ptr_eq(&running, &guard)));
    outcome
}

fn wait(child: &mut Child, limits: ProgramLimits) -> Result<Vec<u8>, ProgramFailure> {
    let no_output = || ProgramFailure::NotStarted(io::Error::other("its output cannot be read"));
    let (Some(output), Some(errors)) = (child.stdout.take(), child.stderr.take()) else { return Err(no_output()) };
    let is_too_long = Arc::new(AtomicBool::new(false));
    let (most, flag) = (limits.output, is_too_long.clone());
    let output = thread::spawn(move || {
        let read = read_at_most(output, most);
        flag.store(matches!(read, Ok(None)), Ordering::Relaxed);
        read
    });
    let errors = thread::spawn(move || read_end(errors));
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(ProgramFailure::NotStarted)? {
            break status;
        }
        if is_too_long.load(Ordering::Relaxed) {
            return Err(ProgramFailure::TooLong(most));
        }
        if began.elapsed() >= limits.time {
            return Err(ProgramFailure::TimedOut(limits.time));
        }
        thread::park_timeout(POLL);
    };
    // What it has started may hold its output open.
    let deadline = Instant::now() + CLOSING;
    while !(output.is_finished() && errors.is_finished()) && Instant::now() < deadline {
        thread::park_timeout(POLL);
    }
    if !output.is_finished() {
        return Err(no_output());
    }
    let text = output.join().map_err(|_| no_output())?.map_err(ProgramFailure::NotStarted)?;
    // A program whose output is not read any more may end by that.
    let text = text.ok_or(ProgramFailure::TooLong(most))?;
    if status.success() {
        return Ok(text);
    }
    if is_interrupt(status) {
        return Err(ProgramFailure::Interrupted);
    }
    let printed = if errors.is_finished() { errors.join().unwrap_or_default() } else { Vec::new() };
    let printed = String::from_utf8_lossy(&printed);
    let line = printed.trim().lines().next_back().unwrap_or_default();
    Err(ProgramFailure::Failed { status: in_words(status), printed: beginning(line) })
}

/// Whether it was ended by the guard. Nobody else ends it so, except the system when memory is short.
fn is_interrupt(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt;
    status.signal() == Some(9)
}

fn in_words(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "a failure".to_owned(),
    }
}

/// Limits the memory of a program. The shell sets the limit, and every process that the program starts inherits it.
fn with_memory_limit(command: Command, memory: Option<u64>) -> Command {
    const SCRIPT: &str = "ulimit -v \"$0\" && exec \"$@\"";
    let Some(memory) = memory else { return command };
    let mut limited = Command::new("/bin/sh");
    limited.arg("-c").arg(SCRIPT).arg((memory / 1024).to_string()).arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        limited.current_dir(folder);
    }
    limited
}

/// All bytes, or none if there are more than `most`.
fn read_at_most(mut from: impl Read, most: usize) -> io::Result<Option<Vec<u8>>> {
    let mut read = Vec::new();
    from.by_ref().take(most as u64 + 1).read_to_end(&mut read)?;
    Ok((read.len() <= most).then_some(read))
}

/// The last bytes; the others are passed over.
fn read_end(mut from: impl Read) -> Vec<u8> {
    let (mut end, mut block) = (Vec::new(), vec![0; BLOCK]);
    while let Ok(read) = from.read(&mut block) {
        if read == 0 {
            break;
        }
        end.extend_from_slice(&block[..read]);
        let surplus = end.len().saturating_sub(KEPT_ERRORS);
        end.drain(..surplus);
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ProgramLimits = ProgramLimits { time: Duration::from_secs(20), output: 1 << 20, memory: None };

    fn shell(script: &str, limits: ProgramLimits) -> Result<Vec<u8>, String> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        run_program(command, limits).map_err(|failure| failure.to_string())
    }

    #[test]
    fn the_result_is_what_a_program_writes() {
        assert_eq!(shell("printf 'a\\nb'", LIMITS).unwrap(), b"a\nb");
        assert_eq!(shell("echo no >&2; echo why >&2; exit 3", LIMITS).unwrap_err(), "ended with code 3: why");
        let missing = run_program(Command::new("/no/such/program"), LIMITS).unwrap_err();
        assert!(matches!(missing, ProgramFailure::NotStarted(_)), "{missing}");
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_what_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("alive");
        let script = format!("(sleep 3; touch {}) & sleep 60", file.display());
        let began = Instant::now();
        let failure = shell(&script, ProgramLimits { time: Duration::from_millis(300), ..LIMITS }).unwrap_err();
        assert!(failure.contains("took longer than 0.3 seconds"), "{failure}");
        assert!(began.elapsed() < Duration::from_secs(3));
        thread::park_timeout(Duration::from_secs(4));
        assert!(!file.exists(), "what it had started was ended too");
    }

    #[test]
    fn a_program_that_writes_without_end_is_ended() {
        let failure = shell("yes", ProgramLimits { output: 1 << 20, ..LIMITS }).unwrap_err();
        assert!(failure.contains("wrote more than 1048576 bytes"), "{failure}");
        let chatty = shell("yes | head -c 3000000 >&2; echo done", LIMITS).unwrap();
        assert_eq!(chatty, b"done\n", "standard error may be long");
    }

    #[test]
    fn memory_is_limited() {
        let limits = ProgramLimits { memory: Some(64 << 20), ..LIMITS };
        assert_eq!(shell("echo fits", limits).unwrap(), b"fits\n");
        let failure = shell("head -c 300000000 /dev/zero | tail -c 299999999 > /dev/null; exit $?", limits);
        // The shell itself survives; `tail` does not get its memory.
        assert!(failure.is_err(), "{failure:?}");
    }
}
