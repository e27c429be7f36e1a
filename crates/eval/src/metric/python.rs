//! Python: a metric as a function of the user's own.
//!
//! When to use it: where code decides better than a judge: units, dates, a
//! parser, a house rule. The file's path is relative to the experiment file:
//!
//! ```toml
//! { python = { name = "units", file = "metrics/units.py" } }
//! { python = { file = "metrics/words.py", function = "count", range = [0, 400], higher_is_better = false } }
//! ```
//!
//! ```python
//! def score(answer, reference):
//!     return 1.0 if answer.split()[-1] == reference.split()[-1] else 0.0
//! ```
//!
//! The function names what it wants: `question`, `answer` (without citations),
//! `reference`, `passages` (a list of texts), at least one of them; what it
//! names must be there for it to be called. It returns a number in `range`, a
//! truth value, or `None` where the metric does not apply. What it raises, or a
//! number out of range, is no score, with the reason.
//!
//! What the file holds is part of the metric: scores are computed anew when it
//! changes. Modules that it imports are not looked at. One process of
//! `interpreter` is started when the first sample is scored and serves all;
//! samples go to it as lines of JSON. A function that never returns holds the
//! run.

use super::{Context, Describe, Error, Metric, Needs, Sample, check_name};
use crate::{Missing, Score, Scored};
use async_trait::async_trait;
use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
};

pub(super) const VERSION: u32 = 1;

const PARAMETERS: [&str; 4] = ["question", "answer", "reference", "passages"];

/// Reads the function, then answers a line for each line. What the function
/// prints goes to standard error, so that it cannot pass for a score.
const DRIVER: &str = r#"
import json, sys
replies, sys.stdout = sys.stdout, sys.stderr
setup = json.loads(sys.stdin.readline())
space = {"__name__": "metric", "__file__": setup["file"]}
failed, function = None, None
try:
    exec(compile(setup["source"], setup["file"], "exec"), space)
    function = space[setup["function"]]
except BaseException as error:
    failed = f"{type(error).__name__}: {error}"
for line in sys.stdin:
    reply = {"error": failed}
    if failed is None:
        try:
            value = function(**json.loads(line))
            reply = {"value": None if value is None else float(value)}
        except BaseException as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
    replies.write(json.dumps(reply) + "\n")
    replies.flush()
"#;

/// Settings of a function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The metric's name; `python` if left out. Needed where there are several.
    pub name: Option<String>,
    /// The file with the function, relative to the experiment file.
    pub file: String,
    /// What the file holds; put here when the experiment is read.
    pub source: String,
    /// The function.
    pub function: String,
    /// The program that runs it.
    pub interpreter: String,
    /// The lowest and the highest score.
    pub range: (f64, f64),
    /// Whether a higher score is better.
    pub higher_is_better: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: None,
            file: String::new(),
            source: String::new(),
            function: "score".to_owned(),
            interpreter: "python3".to_owned(),
            range: (0.0, 1.0),
            higher_is_better: true,
        }
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context) -> Result<Box<dyn Metric>, Error> {
        let metric = "python";
        let refuse = |reason: String| Err(Error::Config { metric, reason });
        check_name(metric, self.name.as_deref())?;
        if self.source.trim().is_empty() {
            return match self.file.as_str() {
                "" => refuse("`file` is missing: the path of a file with the function".into()),
                file => refuse(format!("the file {file} is empty, or was not read")),
            };
        }
        if !(self.range.0.is_finite() && self.range.1.is_finite() && self.range.0 < self.range.1) {
            return refuse(format!("`range` must be two numbers, the lower first, not {:?}", self.range));
        }
        if let Err(reason) = self.parameters() {
            return refuse(reason);
        }
        Ok(Box::new(Python { config: self.clone(), process: Arc::default() }))
    }

    /// What the function names, in our order.
    fn parameters(&self) -> Result<Vec<&'static str>, String> {
        let (function, file) = (&self.function, if self.file.is_empty() { "the source" } else { &self.file });
        let pattern = Regex::new(&format!(r"(?m)^(?:async\s+)?def\s+{}\s*\(([^)]*)\)", regex::escape(function)));
        let found = pattern.ok().and_then(|pattern| Some(pattern.captures(&self.source)?[1].to_owned()));
        let Some(list) = found else { return Err(format!("{file} has no function `{function}`")) };
        let names = list.split(',').map(|part| part.split([':', '=']).next().unwrap_or_default().trim());
        let names: Vec<&str> = names.filter(|name| !name.is_empty() && *name != "*").collect();
        if let Some(other) = names.iter().find(|name| !PARAMETERS.contains(name)) {
            return Err(format!("`{function}` in {file} wants `{other}`: there are {}", PARAMETERS.join(", ")));
        }
        if names.is_empty() {
            return Err(format!("`{function}` in {file} wants nothing: name one of {}", PARAMETERS.join(", ")));
        }
        Ok(PARAMETERS.into_iter().filter(|known| names.contains(known)).collect())
    }
}

impl Describe for Config {
    fn needs(&self) -> Needs {
        let wanted = self.parameters().unwrap_or_default();
        let wants = |name| wanted.contains(&name);
        Needs { answer: wants("answer"), reference: wants("reference"), passages: wants("passages"), ..Needs::NOTHING }
    }

    fn label(&self) -> Option<String> {
        self.name.clone()
    }

    fn is_named(&self) -> bool {
        true
    }

    fn load(&mut self, read: &dyn Fn(&str) -> Result<String, String>) -> Result<(), String> {
        if !self.file.is_empty() {
            self.source = read(&self.file)?;
        }
        Ok(())
    }

    fn range(&self) -> (f64, f64) {
        self.range
    }

    fn higher_is_better(&self) -> bool {
        self.higher_is_better
    }

    #[cfg(test)]
    fn example() -> Self {
        Self {
            source: "def score(answer, reference):\n    return float(len(set(answer.split()) & set(reference.split())) > 0)\n"
                .to_owned(),
            ..Self::default()
        }
    }
}

struct Python {
    config: Config,
    process: Arc<Mutex<Option<Running>>>,
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
    fn start(config: &Config) -> Result<Self, String> {
        let spawned = Command::new(&config.interpreter)
            .args(["-u", "-c", DRIVER])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn();
        let failed = |error| format!("`{}` does not start: {error}; set `interpreter`", config.interpreter);
        let mut child = spawned.map_err(failed)?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("`{}` has no input or output", config.interpreter));
        };
        let mut running = Self { child, input, output: BufReader::new(output) };
        let setup = json!({ "source": config.source, "file": config.file, "function": config.function });
        running.send(&setup).map_err(|error| format!("`{}` ended at once: {error}", config.interpreter))?;
        Ok(running)
    }

    fn send(&mut self, value: &Value) -> std::io::Result<()> {
        writeln!(self.input, "{value}")?;
        self.input.flush()
    }

    fn ask(&mut self, sample: &Value) -> Result<Value, String> {
        let ended = |error: String| format!("the interpreter ended: {error}");
        self.send(sample).map_err(|error| ended(error.to_string()))?;
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) => Err(ended("it says nothing more".to_owned())),
            Ok(_) => serde_json::from_str(&line).map_err(|error| ended(error.to_string())),
            Err(error) => Err(ended(error.to_string())),
        }
    }
}

/// Asks the process, which is started if there is none. One that ended is
/// started anew for the next sample.
fn ask(config: &Config, process: &Mutex<Option<Running>>, sample: &Value) -> Result<Value, String> {
    let mut process = process.lock().unwrap_or_else(PoisonError::into_inner);
    let mut running = match process.take() {
        Some(running) => running,
        None => Running::start(config)?,
    };
    let reply = running.ask(sample)?;
    *process = Some(running);
    Ok(reply)
}

#[async_trait]
impl Metric for Python {
    fn needs(&self) -> Needs {
        self.config.needs()
    }

    async fn score(&self, sample: &Sample<'_>) -> Scored {
        match self.value(sample).await {
            Ok(value) => Scored { score: Score::finite(value), detail: json!({ "function": self.config.function }) },
            Err(missing) => Scored::missing(missing),
        }
    }
}

impl Python {
    async fn value(&self, sample: &Sample<'_>) -> Result<f64, Missing> {
        let mut wanted = serde_json::Map::new();
        for name in self.config.parameters().unwrap_or_default() {
            let value = match name {
                "question" => json!(sample.question.question),
                "answer" => json!(sample.answer_text()?),
                "reference" => json!(sample.reference()?),
                _ => json!(sample.passages.iter().map(|passage| passage.text.as_str()).collect::<Vec<_>>()),
            };
            wanted.insert(name.to_owned(), value);
        }
        let (config, process) = (self.config.clone(), self.process.clone());
        let asked = tokio::task::spawn_blocking(move || ask(&config, &process, &Value::Object(wanted))).await;
        let function = &self.config.function;
        let failed = |reason: String| Missing::ProviderError(format!("the function `{function}`: {reason}"));
        let reply = asked.map_err(|error| failed(error.to_string()))?.map_err(failed)?;
        if let Some(error) = reply["error"].as_str() {
            return Err(failed(error.to_owned()));
        }
        let (low, high) = self.config.range;
        match reply["value"].as_f64() {
            None => Err(Missing::NotApplicable(format!("the function `{function}` gives no score"))),
            Some(value) if (low..=high).contains(&value) => Ok(value),
            Some(value) => Err(failed(format!("{value} is not between {low} and {high}: set `range`"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{answer, question, sample, score};
    use super::*;

    fn scored(source: &str, text: &str) -> Score {
        let config = Config { source: source.to_owned(), ..Config::default() };
        let metric = config.build(&Context::default()).unwrap();
        let question = question("How many?", Some("ten owls"));
        score(&*metric, &sample(&question, &[], Some(&answer(text)))).score
    }

    #[test]
    fn the_function_is_given_what_it_names() {
        let source = "def score(answer: str, *, passages=None, question):\n    print('noise')\n    return answer == 'ten' and passages == [] and question == 'How many?'\n";
        assert_eq!(scored(source, "ten [1]"), Score::Value(1.0));
        assert_eq!(scored(source, "nine"), Score::Value(0.0));
    }

    #[test]
    fn what_it_raises_or_gives_out_of_range_is_no_score_and_none_does_not_apply() {
        let reason = |source: &str| match scored(source, "ten") {
            Score::Missing(missing) => missing,
            Score::Value(value) => panic!("{value}"),
        };
        let raised = reason("def score(answer):\n    return 1 / 0\n");
        assert!(matches!(&raised, Missing::ProviderError(text) if text.contains("ZeroDivisionError")), "{raised}");
        let large = reason("def score(answer):\n    return 7\n");
        assert!(large.to_string().contains("7 is not between 0 and 1"), "{large}");
        assert!(matches!(reason("def score(answer):\n    return None\n"), Missing::NotApplicable(_)));
        let ended = reason("import os\ndef score(answer):\n    os._exit(3)\n");
        assert!(ended.to_string().contains("the interpreter ended"), "{ended}");
        let broken = reason("import no_such_module\ndef score(answer):\n    return 1\n");
        assert!(broken.to_string().contains("no_such_module"), "{broken}");
    }

    #[test]
    fn a_file_without_the_function_or_with_unknown_parameters_is_refused() {
        let refused = |source: &str| {
            let config = Config { source: source.to_owned(), ..Config::default() };
            config.build(&Context::default()).err().unwrap().to_string()
        };
        assert!(refused("def other(answer):\n    return 1\n").contains("has no function `score`"));
        assert!(refused("def score(answer, context):\n    return 1\n").contains("wants `context`"));
        assert!(refused("def score():\n    return 1\n").contains("wants nothing"));
        assert!(refused("").contains("`file` is missing"));
    }
}
