//! The interpreter process of one function.

use super::{PrintedLine, sink};
use crate::lines::{CallOutcome, LateCall, LineProcess, LineProtocol, OnPrint};
use serde_json::{Value, json};
use std::{
    io,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// What the interpreter runs for a function.
const DRIVER: &str = include_str!("driver.py");
/// What it runs for a whole system.
const SYSTEM_DRIVER: &str = concat!(include_str!("system.py"), "\n\n", include_str!("driver.py"));
/// How long a cancelled call may take to end. If it takes longer, the function
/// blocks its event loop, and its process is ended. Tests wait longer, because a busy machine may be late
/// with a call that has not blocked anything.
const CANCEL_LIMIT: Duration = Duration::from_secs(if cfg!(test) { 60 } else { 1 });

/// An interpreter with a function in it.
pub(super) struct Interpreter {
    process: LineProcess,
    /// Whether calls run side by side, so that one can be cancelled.
    at_once: AtomicBool,
}

impl Interpreter {
    /// Starts an interpreter for the function of this name, or for a whole system.
    pub(super) fn start(interpreter: &str, name: &str, is_system: bool) -> io::Result<Self> {
        let mut command = Command::new(interpreter);
        command.args(["-u", "-c", if is_system { SYSTEM_DRIVER } else { DRIVER }]);
        // The driver itself ends with this program.
        let protocol = LineProtocol {
            number: "call",
            max_bytes: usize::MAX,
            refuses_strays: false,
            is_guarded: false,
            secrets: Vec::new(),
        };
        let function = name.to_owned();
        let on_print = sink().map(|printed| -> OnPrint {
            Box::new(move |caller, text| printed(&PrintedLine { function: &function, caller, text }))
        });
        Ok(Self { process: LineProcess::start(command, protocol, on_print)?, at_once: AtomicBool::new(false) })
    }

    /// Loads the function; the reply says whether it is there.
    pub(super) fn load(&self, setup: &Value, caller: Option<Arc<str>>, limit: Duration) -> CallOutcome {
        self.process.begin(setup, caller, limit)
    }

    /// Its calls run side by side from now on, so that one can be cancelled.
    pub(super) fn run_side_by_side(&self) {
        self.at_once.store(true, Ordering::SeqCst);
    }

    /// Whether its process is still running.
    pub(super) fn is_alive(&self) -> bool {
        self.process.is_alive()
    }

    /// Whether it can be called again.
    pub(super) fn is_usable(&self) -> bool {
        self.process.is_usable()
    }

    pub(super) fn call(&self, arguments: &Value, caller: Option<Arc<str>>, limit: Duration) -> CallOutcome {
        let late = |number| match self.at_once.load(Ordering::SeqCst) {
            true => LateCall::Cancel(json!({ "cancel": number }), CANCEL_LIMIT),
            false => LateCall::EndProcess,
        };
        let called = self.process.call(|number| json!({ "call": number, "arguments": arguments }), caller, limit, late);
        if let CallOutcome::TimedOut(Some(reply)) = &called
            && reply.get("is_stuck").is_some()
        {
            // A thread cannot be cancelled, and too many of them do not return.
            self.process.end();
        }
        called
    }
}
