//! Functions of the user's own in Python, as stages and metrics use them.
//!
//! A function's source is part of the settings that name it, so keys change
//! when it does; modules that it imports are not looked at. One process of the
//! interpreter is started at the first call and serves all that use the same
//! function, in every task of this process; calls go to it as lines of JSON,
//! one after the other. One that ended meanwhile is started anew. The function
//! used longest ago loses its process when there are more than a few. A
//! function that never returns holds the run.

use regex::Regex;
use serde_json::{Map, Value, json};
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

/// Reads the function, then answers a line for each line, with its number.
/// What the function prints, or a program that it runs, goes to standard error,
/// so that it cannot pass for an answer; Ctrl-C is for the program that asked.
/// Numbers and arrays of other packages become plain ones.
const DRIVER: &str = r#"
import json, os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
replies = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
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
    call = json.loads(line)
    reply = json.dumps({"call": call["call"], "error": failed})
    if failed is None:
        try:
            value = function(**call["arguments"])
            reply = json.dumps({"call": call["call"], "value": value}, default=plain, allow_nan=False)
        except BaseException as error:
            reply = json.dumps({"call": call["call"], "error": f"{type(error).__name__}: {error}"})
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
        let pattern = Regex::new(&format!(r"(?m)^def\s+{}\s*\(", regex::escape(function)));
        let found = pattern.ok().and_then(|pattern| Some(&self.source[pattern.find(self.source)?.end()..]));
        let Some(list) = found else { return Err(format!("{file} has no function `{function}`")) };
        let list = split(list);
        let names = list.iter().map(|part| part.split([':', '=']).next().unwrap_or_default().trim());
        let names: Vec<&str> = names.filter(|name| !matches!(*name, "" | "*" | "/")).collect();
        if let Some(other) = names.iter().find(|name| !known.contains(name)) {
            return Err(format!("`{function}` in {file} wants `{other}`: there are {}", known.join(", ")));
        }
        if names.is_empty() {
            return Err(format!("`{function}` in {file} wants nothing: name one of {}", known.join(", ")));
        }
        Ok(known.iter().copied().filter(|known| names.contains(known)).collect())
    }
}

/// The parameters of a function, from behind its opening bracket: what commas
/// part that stand in no bracket, no text and no comment.
fn split(source: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0;
    let mut quote = None;
    let mut characters = source.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(_), '\\') => _ = characters.next(),
            (Some(open), close) if open == close => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(character),
            (None, '#') => _ = characters.by_ref().find(|character| *character == '\n'),
            (None, ')') if depth == 0 => break,
            (None, ',') if depth == 0 => parts.push(String::new()),
            (None, _) => {
                depth += i32::from("([{".contains(character)) - i32::from(")]}".contains(character));
                parts.last_mut().into_iter().for_each(|part| part.push(character));
            }
        }
    }
    parts
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

/// The interpreter of a function.
type Process = Arc<Turns>;

/// Calls go to an interpreter one after the other.
#[derive(Default)]
struct Turns {
    /// Who waits here keeps no thread from others.
    turn: tokio::sync::Mutex<()>,
    /// None before the first call and after it ended.
    running: Mutex<Option<Running>>,
}

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

    /// Calls it with named arguments, on a thread for what blocks.
    ///
    /// # Errors
    /// Those of [`Function::call`].
    pub async fn call_beside(self: &Arc<Self>, arguments: Value) -> Result<Value, String> {
        let function = self.clone();
        let _turn = self.process.turn.lock().await;
        let called = tokio::task::spawn_blocking(move || function.call(&arguments)).await;
        called.map_err(|error| error.to_string())?
    }

    /// Calls it with named arguments, and waits: to be called where that is
    /// allowed.
    ///
    /// # Errors
    /// What it raised, or that the interpreter cannot be started or ended.
    pub fn call(&self, arguments: &Value) -> Result<Value, String> {
        let failed = |reason: String| format!("the function `{}`: {reason}", self.setup.function);
        let mut process = self.process.running.lock().unwrap_or_else(PoisonError::into_inner);
        // One that ended since its last call is no reason to fail.
        let mut running = match process.take().and_then(Running::if_it_lives) {
            Some(running) => running,
            None => Running::start(&self.setup).map_err(failed)?,
        };
        let mut reply = running.ask(arguments).map_err(failed)?;
        // One that answered out of turn is not asked again.
        *process = Some(running);
        match reply.remove("error") {
            Some(Value::String(error)) => Err(failed(error)),
            _ => Ok(reply.remove("value").unwrap_or_default()),
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
    calls: u64,
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
        let mut running = Self { child, input, output: BufReader::new(output), calls: 0 };
        let setup = json!({ "source": source, "file": file, "function": function });
        running.send(&setup).map_err(|error| format!("`{interpreter}` ended at once: {error}"))?;
        Ok(running)
    }

    fn if_it_lives(mut self) -> Option<Self> {
        matches!(self.child.try_wait(), Ok(None)).then_some(self)
    }

    fn send(&mut self, value: &Value) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        self.input.write_all(&line)?;
        self.input.flush()
    }

    fn ask(&mut self, arguments: &Value) -> Result<Map<String, Value>, String> {
        let ended = |error: String| format!("the interpreter ended: {error}");
        self.calls += 1;
        self.send(&json!({ "call": self.calls, "arguments": arguments })).map_err(|error| ended(error.to_string()))?;
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) => Err(ended("it says nothing more".to_owned())),
            Ok(_) => match serde_json::from_str(&line) {
                Ok(Value::Object(reply)) if reply.get("call") == Some(&json!(self.calls)) => Ok(reply),
                _ => Err(format!("the interpreter answered `{}`, which is no reply", line.trim())),
            },
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
    fn what_programs_print_is_no_answer_and_an_interpreter_that_died_between_calls_is_none_missed() {
        let loud = function(
            "def f(a):\n    import os, subprocess\n    subprocess.run(['echo', '{\"value\": 7}'])\n    return [a, os.getpid()]\n",
        )
        .unwrap();
        let mut first = loud.call(&json!({ "a": 1 })).unwrap();
        assert_eq!(first[0], 1);
        let pid = first[1].take().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        assert_eq!(loud.call(&json!({ "a": 2 })).unwrap(), json!([2, pid.parse::<u64>().unwrap()]), "Ctrl-C");
        assert!(Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
        loud.process.running.lock().unwrap().as_mut().unwrap().child.wait().unwrap();
        assert_eq!(loud.call(&json!({ "a": 3 })).unwrap()[0], 3);
    }

    #[test]
    fn signatures_are_read_as_python_reads_them() {
        let source = "def f(\n    a: dict[str, int] = {},  # first, (of two)\n    /, *,\n    b=(1, ')'),\n) -> int:\n    return 0\n";
        assert_eq!(function(source).unwrap().parameters(), ["a", "b"]);
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
