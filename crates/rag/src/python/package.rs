//! Programs of Reverie that use a package of the user's Python. They run in the interpreter of the user's functions,
//! and answer calls in lines of JSON.

use super::interpreter;
use crate::lines::{
    CallOutcome, LateCall, LineProcess, LineProtocol, ProgramFailure, ProgramLimits, beginning, run_program,
};
use serde_json::{Map, Value, json};
use std::{io, process::Command, time::Duration};

/// Prints whether the interpreter has the package `argv[1]`. A folder of that name is no package.
const CHECK: &str = "import sys\nsys.path = [folder for folder in sys.path if folder]\nimport importlib.util\n\
                     spec = importlib.util.find_spec(sys.argv[1])\nprint(bool(spec and spec.origin))\n";
/// What the check may use. A busy machine with a slow disk takes seconds.
const CHECK_LIMITS: ProgramLimits = ProgramLimits { time: Duration::from_secs(60), output: 1 << 10, memory: None };
/// The longest reply, in bytes.
const MAX_REPLY: usize = 1 << 20;
/// How long the last lines of a process that ended are waited for. Tests wait longer, because a machine may be busy.
const LAST_LINES: Duration = Duration::from_secs(if cfg!(test) { 60 } else { 2 });

/// Why a program that uses a Python package does not do its work.
#[derive(Debug, thiserror::Error)]
pub enum PackageFailure {
    /// The interpreter does not have the package.
    #[error(
        "the Python package `{package}` is missing in {interpreter}, which runs your functions; install it:\n{interpreter} -m pip install {package}"
    )]
    Missing {
        /// The package.
        package: String,
        /// The interpreter.
        interpreter: String,
    },
    /// The interpreter cannot be started.
    #[error("the Python package `{package}` needs {interpreter}, which cannot be started: {reason}")]
    NotStarted {
        /// The package.
        package: String,
        /// The interpreter.
        interpreter: String,
        /// What the system said.
        reason: String,
    },
    /// It raised.
    #[error("{message}")]
    Raised {
        /// The exception.
        message: String,
        /// Whether another try soon may help.
        is_away: bool,
    },
    /// Its process ended, or took too long.
    #[error("its Python process {0}")]
    Ended(String),
}

/// Whether the interpreter of the user's functions has a package. It is not imported. Blocks.
///
/// # Errors
/// If it is missing, or if the interpreter cannot be run.
pub fn check_package(package: &str) -> Result<(), PackageFailure> {
    let mut command = Command::new(interpreter(None));
    command.args(["-c", CHECK, package]);
    match run_program(command, CHECK_LIMITS) {
        Ok(printed) if printed.starts_with(b"True") => Ok(()),
        Ok(_) => Err(missing(package)),
        Err(failure) => Err(not_started(package, &failure)),
    }
}

fn missing(package: &str) -> PackageFailure {
    PackageFailure::Missing { package: package.to_owned(), interpreter: interpreter(None).to_owned() }
}

fn not_started(package: &str, failure: &ProgramFailure) -> PackageFailure {
    let reason = match failure {
        ProgramFailure::NotStarted(error) => error.to_string(),
        other => format!("it {other}"),
    };
    PackageFailure::NotStarted { package: package.to_owned(), interpreter: interpreter(None).to_owned(), reason }
}

/// A process that uses a package.
pub struct PackageProcess {
    package: String,
    process: LineProcess,
}

impl PackageProcess {
    /// Starts the program `code`. The environment variables are added to those of this process, and `secrets` are removed
    /// from what it prints. It ends with this program, with all that it started. Blocks for a moment.
    ///
    /// # Errors
    /// If the interpreter cannot be started.
    pub fn start(
        package: &str,
        code: &str,
        variables: &[(&str, String)],
        secrets: Vec<String>,
    ) -> Result<Self, PackageFailure> {
        let mut command = Command::new(interpreter(None));
        command.args(["-u", "-c", code]);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let protocol =
            LineProtocol { number: "call", max_bytes: MAX_REPLY, refuses_strays: false, is_guarded: true, secrets };
        // Its last lines are shown if it ends.
        let process = LineProcess::start(command, protocol, Some(Box::new(|_, _| {})));
        let process = process.map_err(|error: io::Error| not_started(package, &ProgramFailure::NotStarted(error)))?;
        Ok(Self { package: package.to_owned(), process })
    }

    /// Calls it with the fields of a request, and blocks until the reply. A call that takes longer than `limit` ends
    /// the process.
    ///
    /// # Errors
    /// What it raised, or that it ended.
    pub fn call(&self, fields: Map<String, Value>, limit: Duration) -> Result<Map<String, Value>, PackageFailure> {
        let request = |number| {
            let mut fields = fields;
            fields.insert("call".to_owned(), json!(number));
            Value::Object(fields)
        };
        let reply = match self.process.call(request, None, limit, |_| LateCall::EndProcess) {
            CallOutcome::Reply(reply) => reply,
            CallOutcome::TimedOut(_) => {
                return Err(PackageFailure::Ended(format!("took longer than {} s", limit.as_secs_f64())));
            }
            CallOutcome::Ended(reason) => {
                let printed = self.process.printed_tail(LAST_LINES);
                let printed = if printed.is_empty() { printed } else { format!(": {printed}") };
                return Err(PackageFailure::Ended(format!("{reason}{printed}")));
            }
        };
        let Some(error) = reply.get("error").and_then(Value::as_str) else { return Ok(reply) };
        if reply.get("missing").and_then(Value::as_str) == Some(&self.package) {
            return Err(missing(&self.package));
        }
        let is_away = reply.get("is_away").and_then(Value::as_bool).unwrap_or_default();
        Err(PackageFailure::Raised { message: beginning(error), is_away })
    }

    /// Whether it can be called again.
    pub fn is_usable(&self) -> bool {
        self.process.is_usable()
    }

    /// Ends it, with all that it started. A call that waits for it fails.
    pub fn end(&self) {
        self.process.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::lock;
    use std::{sync::Mutex, thread};

    /// Longer than anything takes on a busy machine.
    const PATIENCE: Duration = Duration::from_secs(300);

    /// A program with this reply to each call.
    fn start(reply: &str) -> PackageProcess {
        let code = format!(
            "import json, os, sys, time\nfor line in sys.stdin:\n    call = json.loads(line)\n    \
             reply = {reply}\n    print(json.dumps({{'call': call['call'], **reply}}))\n"
        );
        let variables = [("REVERIE_TEST_KEY", "hush-hush".to_owned())];
        PackageProcess::start("nothing_of_this_name", &code, &variables, vec!["hush-hush".to_owned()]).unwrap()
    }

    fn call(process: &PackageProcess, value: &Value) -> Result<Map<String, Value>, PackageFailure> {
        let fields = Map::from_iter([("value".to_owned(), value.clone())]);
        process.call(fields, PATIENCE)
    }

    #[test]
    fn a_call_is_answered_and_a_secret_is_not_in_the_answer() {
        let process = start("{'value': call['value'], 'key': os.environ['REVERIE_TEST_KEY']}");
        for value in [json!("ü\n"), json!([1, null])] {
            let reply = call(&process, &value).unwrap();
            assert_eq!((&reply["value"], &reply["key"]), (&value, &json!("[secret]")));
        }
        assert!(process.is_usable());
    }

    #[test]
    fn what_is_raised_is_an_error_and_the_process_goes_on() {
        let process = start("{'error': call['value'], 'is_away': call['value'] == 'OSError: away'}");
        for (raised, away) in [("OSError: away", true), ("ValueError: no", false)] {
            let failure = call(&process, &json!(raised)).unwrap_err();
            assert!(
                matches!(&failure, PackageFailure::Raised { message, is_away } if message == raised && *is_away == away),
                "{failure:?}"
            );
        }
        assert!(process.is_usable());
    }

    #[test]
    fn a_missing_package_is_told_with_the_command_that_installs_it() {
        let process = start("{'error': 'ModuleNotFoundError: x', 'missing': call['value']}");
        let told = call(&process, &json!("nothing_of_this_name")).unwrap_err().to_string();
        assert!(told.ends_with("-m pip install nothing_of_this_name"), "{told}");
        let other = call(&process, &json!("numpy")).unwrap_err();
        assert!(matches!(other, PackageFailure::Raised { .. }), "a package that the package needs: {other:?}");
        assert_eq!(check_package("nothing_of_this_name").unwrap_err().to_string(), told);
        assert!(check_package("json").is_ok());
    }

    #[test]
    fn a_process_that_ends_says_what_it_printed_last() {
        let process = start("sys.exit('the disk is full')");
        let told = call(&process, &json!(1)).unwrap_err().to_string();
        assert!(told.contains("ended") && told.contains("the disk is full"), "{told}");
        assert!(!process.is_usable());
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the call must be waiting for its answer by then")]
    fn a_call_ends_when_its_process_is_ended_and_when_its_time_is_over() {
        let process = start("time.sleep(600)");
        let outcome = Mutex::new(None);
        thread::scope(|scope| {
            scope.spawn(|| *lock(&outcome) = Some(call(&process, &json!(1))));
            thread::sleep(Duration::from_millis(50));
            process.end();
        });
        assert!(matches!(lock(&outcome).take(), Some(Err(PackageFailure::Ended(_)))));
        let slow = start("time.sleep(600)").call(Map::new(), Duration::from_millis(50)).unwrap_err();
        assert_eq!(slow.to_string(), "its Python process took longer than 0.05 s");
    }
}
