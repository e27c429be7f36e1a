//! Functions of the user's own in Python, as stages and metrics use them.
//!
//! A function's source is part of the settings that name it, so keys change
//! when it does; modules that it imports are not looked at. One process of the
//! interpreter is started at the first call and serves all that use the same
//! function, in every task of this process; calls go to it as lines of JSON,
//! one after the other. One that ended is started anew for the next call. The
//! function used longest ago loses its process when there are more than
//! a few. A function that never returns holds the run.

use regex::Regex;
use serde_json::{Value, json};
use std::{
    fmt,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
};

/// The functions whose processes wait for the next task, that used last first.
static PROCESSES: Mutex<Vec<(Setup, Process)>> = Mutex::new(Vec::new());
/// So many, whatever a notebook tries in a day.
const KEPT: usize = 8;

/// Reads the function, then answers a line for each line. What the function
/// prints goes to standard error, so that it cannot pass for an answer.
/// Numbers and arrays of other packages become plain ones.
const DRIVER: &str = r#"
import json, sys
replies, sys.stdout = sys.stdout, sys.stderr
setup = json.loads(sys.stdin.readline())
space = {"__name__": "function", "__file__": setup["file"]}
failed, function = None, None

def plain(value):
    for method in ("tolist", "item", "__float__"):
        if hasattr(value, method):
            return getattr(value, method)()
    return list(value)

try:
    exec(compile(setup["source"], setup["file"], "exec"), space)
    function = space[setup["function"]]
except BaseException as error:
    failed = f"{type(error).__name__}: {error}"
for line in sys.stdin:
    reply = json.dumps({"error": failed})
    if failed is None:
        try:
            reply = json.dumps({"value": function(**json.loads(line))}, default=plain, allow_nan=False)
        except BaseException as error:
            reply = json.dumps({"error": f"{type(error).__name__}: {error}"})
    replies.write(reply + "\n")
    replies.flush()
"#;

/// Which function, as settings name it.
#[derive(Debug, Clone, Copy)]
pub struct Script<'a> {
    /// The file that it is from, for messages; may be empty.
    pub file: &'a str,
    /// What the file holds.
    pub source: &'a str,
    /// The function's name.
    pub function: &'a str,
    /// The program that runs it.
    pub interpreter: &'a str,
}

impl Script<'_> {
    /// What the function names of what it may be given, in the order of that.
    ///
    /// # Errors
    /// If there is no source, no such function, or it names something else.
    pub fn parameters(&self, known: &[&'static str]) -> Result<Vec<&'static str>, String> {
        if self.source.trim().is_empty() {
            return Err(match self.file {
                "" => "`file` is missing: the path of a file with the function".to_owned(),
                file => format!("the file {file} is empty, or was not read"),
            });
        }
        let (function, file) = (self.function, if self.file.is_empty() { "the source" } else { self.file });
        let pattern = Regex::new(&format!(r"(?m)^def\s+{}\s*\(([^)]*)\)", regex::escape(function)));
        let found = pattern.ok().and_then(|pattern| Some(pattern.captures(self.source)?[1].to_owned()));
        let Some(list) = found else { return Err(format!("{file} has no function `{function}`")) };
        let names = list.split(',').map(|part| part.split([':', '=']).next().unwrap_or_default().trim());
        let names: Vec<&str> = names.filter(|name| !name.is_empty() && *name != "*").collect();
        if let Some(other) = names.iter().find(|name| !known.contains(name)) {
            return Err(format!("`{function}` in {file} wants `{other}`: there are {}", known.join(", ")));
        }
        if names.is_empty() {
            return Err(format!("`{function}` in {file} wants nothing: name one of {}", known.join(", ")));
        }
        Ok(known.iter().copied().filter(|known| names.contains(known)).collect())
    }
}

/// Puts what a file holds into settings, unless they hold it already: those
/// of a resolved experiment do.
///
/// # Errors
/// What `read` says.
pub fn load(file: &str, source: &mut String, read: &dyn Fn(&str) -> Result<String, String>) -> Result<(), String> {
    if !file.is_empty() && source.is_empty() {
        *source = read(file)?;
    }
    Ok(())
}

/// What makes a process: those with the same are one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Setup {
    interpreter: String,
    file: String,
    source: String,
    function: String,
}

/// None before the first call and after it ended.
type Process = Arc<Mutex<Option<Running>>>;

/// A function that can be called.
pub struct Function {
    setup: Setup,
    parameters: Vec<&'static str>,
    process: Process,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function").field("function", &self.setup.function).finish_non_exhaustive()
    }
}

impl Function {
    /// A function that is given some of what is `known`. Nothing is started yet.
    ///
    /// # Errors
    /// Those of [`Script::parameters`].
    pub fn new(script: Script<'_>, known: &[&'static str]) -> Result<Self, String> {
        let parameters = script.parameters(known)?;
        let Script { file, source, function, interpreter } = script;
        let setup = Setup {
            interpreter: interpreter.to_owned(),
            file: file.to_owned(),
            source: source.to_owned(),
            function: function.to_owned(),
        };
        Ok(Self { process: process(&setup), setup, parameters })
    }

    /// What it wants to be given.
    pub fn parameters(&self) -> &[&'static str] {
        &self.parameters
    }

    /// Calls it with named arguments, and waits: to be called where that is
    /// allowed.
    ///
    /// # Errors
    /// What it raised, or that the interpreter cannot be started or ended.
    pub fn call(&self, arguments: &Value) -> Result<Value, String> {
        let failed = |reason: String| format!("the function `{}`: {reason}", self.setup.function);
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        let running = match process.take() {
            Some(running) => Ok(running),
            None => Running::start(&self.setup),
        };
        let mut running = running.map_err(failed)?;
        let mut reply = running.ask(arguments).map_err(failed)?;
        *process = Some(running);
        match reply["error"].take() {
            Value::String(error) => Err(failed(error)),
            _ => Ok(reply["value"].take()),
        }
    }
}

/// The process of all functions with this setup.
fn process(setup: &Setup) -> Process {
    let mut processes = PROCESSES.lock().unwrap_or_else(PoisonError::into_inner);
    let entry = match processes.iter().position(|(other, _)| other == setup) {
        Some(i) => processes.remove(i),
        None => (setup.clone(), Process::default()),
    };
    let process = entry.1.clone();
    processes.insert(0, entry);
    // Functions that still use one keep it.
    processes.truncate(KEPT);
    process
}

/// The interpreter with the function in it.
struct Running {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

impl Running {
    fn start(setup: &Setup) -> Result<Self, String> {
        let Setup { interpreter, file, source, function } = setup;
        let spawned = Command::new(interpreter)
            .args(["-u", "-c", DRIVER])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn();
        let mut child =
            spawned.map_err(|error| format!("`{interpreter}` does not start: {error}; set `interpreter`"))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("`{interpreter}` has no input or output"));
        };
        let mut running = Self { child, input, output: BufReader::new(output) };
        let setup = json!({ "source": source, "file": file, "function": function });
        running.send(&setup).map_err(|error| format!("`{interpreter}` ended at once: {error}"))?;
        Ok(running)
    }

    fn send(&mut self, value: &Value) -> std::io::Result<()> {
        writeln!(self.input, "{value}")?;
        self.input.flush()
    }

    fn ask(&mut self, arguments: &Value) -> Result<Value, String> {
        let ended = |error: String| format!("the interpreter ended: {error}");
        self.send(arguments).map_err(|error| ended(error.to_string()))?;
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) => Err(ended("it says nothing more".to_owned())),
            Ok(_) => serde_json::from_str(&line).map_err(|error| ended(error.to_string())),
            Err(error) => Err(ended(error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(source: &str) -> Result<Function, String> {
        Function::new(Script { file: "f.py", source, function: "f", interpreter: "python3" }, &["a", "b"])
    }

    #[test]
    fn a_function_is_called_by_name_and_its_prints_are_no_answer() {
        let double =
            function("def f(b, *, a: list = ()):\n    print('noise')\n    return [2 * x for x in a] + [b]\n").unwrap();
        assert_eq!(double.parameters(), ["a", "b"]);
        assert_eq!(double.call(&json!({ "a": [1, 2], "b": "é" })).unwrap(), json!([2, 4, "é"]));
    }

    #[test]
    fn a_function_of_the_same_source_is_in_the_same_process_and_a_changed_one_is_not() {
        let source = "import os\nseen = []\ndef f(a):\n    seen.append(a)\n    return [os.getpid(), len(seen)]\n";
        let first = function(source).unwrap().call(&json!({ "a": 1 })).unwrap();
        let again = function(source).unwrap().call(&json!({ "a": 2 })).unwrap();
        assert_eq!((&again[0], &again[1]), (&first[0], &json!(2)));
        let other = function(&source.replace("len", "sum")).unwrap().call(&json!({ "a": 1 })).unwrap();
        assert_ne!(other[0], first[0]);
    }

    #[test]
    fn what_it_raises_is_told_and_one_that_ended_the_interpreter_is_called_again() {
        let moody = function("import os\ndef f(a):\n    if a == 0: os._exit(3)\n    return 1 / (a - 1)\n").unwrap();
        assert!(moody.call(&json!({ "a": 1 })).unwrap_err().contains("ZeroDivisionError"));
        assert!(moody.call(&json!({ "a": 0 })).unwrap_err().contains("the interpreter ended"));
        assert_eq!(moody.call(&json!({ "a": 2 })).unwrap(), json!(1.0));
        let infinite = function("def f(a):\n    return float('inf')\n").unwrap();
        assert!(infinite.call(&json!({ "a": 1 })).unwrap_err().contains("ValueError"));
    }

    #[test]
    fn a_source_without_the_function_or_with_unknown_parameters_is_refused() {
        let refused = |source: &str| function(source).unwrap_err();
        assert!(refused("def other(a):\n    return 1\n").contains("has no function `f`"));
        assert!(refused("async def f(a):\n    return 1\n").contains("has no function `f`"), "nobody awaits it");
        assert!(refused("def f(a, c):\n    return 1\n").contains("wants `c`: there are a, b"));
        assert!(refused("def f():\n    return 1\n").contains("wants nothing"));
        assert!(refused(" ").contains("f.py is empty"));
    }
}
