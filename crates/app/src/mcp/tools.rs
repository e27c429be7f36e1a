//! The tools: for each, what an agent may give, and the command that it becomes.

use super::{McpServer, limits::check_override};
use rmcp::model::{Tool, ToolAnnotations, object};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// How long `run` and `wait` wait if the agent does not say.
const DEFAULT_WAIT: f64 = 50.0;
/// The longest time that they wait, in seconds.
const LONGEST_WAIT: f64 = 600.0;

/// What an argument is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArgumentKind {
    /// A word.
    Text,
    /// A path in the folder.
    Path,
    /// A number from 0 on.
    Number,
    /// Replacements of values of the experiment file.
    Overrides,
}

/// An argument of a tool.
pub(super) struct ArgumentSpec {
    name: &'static str,
    kind: ArgumentKind,
    required: bool,
    meaning: &'static str,
}

const fn argument(name: &'static str, kind: ArgumentKind, required: bool, meaning: &'static str) -> ArgumentSpec {
    ArgumentSpec { name, kind, required, meaning }
}

/// A tool.
pub(super) struct ToolSpec {
    pub(super) name: &'static str,
    does: &'static str,
    /// Whether it changes nothing.
    only_reads: bool,
    arguments: &'static [ArgumentSpec],
}

const EXPERIMENT: ArgumentSpec =
    argument("experiment", ArgumentKind::Path, false, "The experiment file; default experiment.toml");
const SET: ArgumentSpec = argument(
    "set",
    ArgumentKind::Overrides,
    false,
    "Values that replace those of the file, each KEY=VALUE with dots in the key and TOML as value, such as \
     space.retriever.bm25.top_k=5, dataset.path=golden.jsonl, or, with other axes than the file has, \
     space={ chunker = [\"sentence\", \"sentence_window\"], retriever = [\"bm25\"] }",
);
const LIMIT: ArgumentSpec = argument("limit", ArgumentKind::Number, false, "Only so many questions, the first");
const RUN: ArgumentSpec =
    argument("run", ArgumentKind::Text, false, "Another run than the last: its id or the beginning of it");
const SECONDS: ArgumentSpec =
    argument("wait_seconds", ArgumentKind::Number, false, "How long to wait for its end; default 50, at most 600");

/// All tools.
pub(super) const TOOLS: &[ToolSpec] = &[
    ToolSpec {
        name: "init",
        does: "Write a commented experiment file for a folder of documents",
        only_reads: false,
        arguments: &[
            argument("folder", ArgumentKind::Path, true, "The folder with the documents"),
            argument("output", ArgumentKind::Path, false, "The file to write; default experiment.toml"),
        ],
    },
    ToolSpec {
        name: "components",
        does: "List the components that an experiment can compare (chunkers, retrievers, …), or explain one with its settings",
        only_reads: true,
        arguments: &[argument("name", ArgumentKind::Text, false, "A component, such as sentence_window")],
    },
    ToolSpec {
        name: "plan",
        does: "Show what a run would do and cost, without paying anything",
        only_reads: true,
        arguments: &[EXPERIMENT, SET, LIMIT],
    },
    ToolSpec {
        name: "run",
        does: "Run an experiment, within the budget that the person has set. What is finished is never done again",
        only_reads: false,
        arguments: &[
            EXPERIMENT,
            SET,
            LIMIT,
            argument("budget_usd", ArgumentKind::Number, false, "What it may cost; never more than the person allows"),
            SECONDS,
        ],
    },
    ToolSpec { name: "wait", does: "Wait for the run that goes on", only_reads: true, arguments: &[SECONDS] },
    ToolSpec {
        name: "stop",
        does: "Stop the run that goes on. What it has finished is kept",
        only_reads: false,
        arguments: &[],
    },
    ToolSpec {
        name: "runs",
        does: "List the finished runs of an experiment",
        only_reads: true,
        arguments: &[EXPERIMENT],
    },
    ToolSpec {
        name: "leaderboard",
        does: "The trials of a run with their scores, intervals and groups, and who may be the best",
        only_reads: true,
        arguments: &[EXPERIMENT, RUN],
    },
    ToolSpec {
        name: "effects",
        does: "What each axis changes, all else being equal, with its interval: which setting helps",
        only_reads: true,
        arguments: &[EXPERIMENT, RUN],
    },
    ToolSpec {
        name: "losses",
        does: "At which step each trial lost the evidence of the questions",
        only_reads: true,
        arguments: &[EXPERIMENT, RUN],
    },
    ToolSpec {
        name: "compare",
        does: "Two trials side by side: wins, losses and whether the difference is real",
        only_reads: true,
        arguments: &[
            argument("first", ArgumentKind::Text, true, "A trial, such as t03"),
            argument("second", ArgumentKind::Text, true, "Another trial"),
            EXPERIMENT,
            RUN,
        ],
    },
    ToolSpec {
        name: "show",
        does: "What a trial retrieved and answered: all its questions, or one with passages, verdicts and where evidence was lost",
        only_reads: true,
        arguments: &[
            argument("trial", ArgumentKind::Text, true, "A trial, such as t03"),
            argument("question", ArgumentKind::Text, false, "The id of a question"),
            EXPERIMENT,
            RUN,
        ],
    },
];

/// What an agent has given, checked.
pub(super) struct Arguments(BTreeMap<&'static str, Value>);

impl Arguments {
    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    fn number(&self, name: &str) -> Option<f64> {
        self.0.get(name).and_then(Value::as_f64)
    }
}

impl ToolSpec {
    /// The tool, as the protocol describes it.
    pub(super) fn tool(&self) -> Tool {
        let schema = |argument: &ArgumentSpec| {
            let text = argument.meaning;
            match argument.kind {
                ArgumentKind::Text | ArgumentKind::Path => json!({ "type": "string", "description": text }),
                ArgumentKind::Number => json!({ "type": "number", "minimum": 0, "description": text }),
                ArgumentKind::Overrides => {
                    json!({ "type": "array", "items": { "type": "string" }, "description": text })
                }
            }
        };
        let properties: Map<String, Value> =
            self.arguments.iter().map(|argument| (argument.name.to_owned(), schema(argument))).collect();
        let required: Vec<&str> =
            self.arguments.iter().filter(|argument| argument.required).map(|argument| argument.name).collect();
        let schema =
            json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
        Tool::new(self.name, self.does, Arc::new(object(schema)))
            .annotate(ToolAnnotations::new().read_only(self.only_reads))
    }

    /// Checks what an agent has given.
    pub(super) fn read(&self, given: &Map<String, Value>) -> Result<Arguments, String> {
        let names = || self.arguments.iter().map(|argument| argument.name);
        if let Some(unknown) = given.keys().find(|name| !names().any(|known| known == name.as_str())) {
            let known: Vec<&str> = names().collect();
            return Err(format!("`{}` takes {}; `{unknown}` is unknown", self.name, known.join(", ")));
        }
        let mut read = BTreeMap::new();
        for argument in self.arguments {
            let Some(value) = given.get(argument.name).filter(|value| !value.is_null()) else {
                if argument.required {
                    return Err(format!("`{}` is missing: {}", argument.name, argument.meaning));
                }
                continue;
            };
            let fits = match argument.kind {
                ArgumentKind::Text => value.as_str().is_some_and(|text| !text.starts_with('-')),
                ArgumentKind::Path => value.is_string(),
                ArgumentKind::Number => value.as_f64().is_some_and(|number| number.is_finite() && number >= 0.0),
                ArgumentKind::Overrides => value.as_array().is_some_and(|items| items.iter().all(Value::is_string)),
            };
            if !fits {
                return Err(format!("`{}`: {} is not that: {}", argument.name, value, argument.meaning));
            }
            read.insert(argument.name, value.clone());
        }
        Ok(Arguments(read))
    }
}

/// Does what a tool says.
pub(super) async fn call(server: &McpServer, tool: &ToolSpec, given: Arguments) -> Result<String, String> {
    let mut words = Vec::new();
    for (name, flag) in [("experiment", "-f"), ("output", "--output")] {
        if let Some(path) = given.text(name) {
            words.extend([flag.to_owned(), server.root.resolve(path)?]);
        }
    }
    for text in given.0.get("set").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        check_override(&server.root, text)?;
        words.extend(["--set".to_owned(), text.to_owned()]);
    }
    if let Some(limit) = given.number("limit") {
        words.extend(["--limit".to_owned(), (limit as u64).to_string()]);
    }
    if let Some(run) = given.text("run") {
        words.extend(["--run".to_owned(), run.to_owned()]);
    }
    let wait = Duration::from_secs_f64(given.number("wait_seconds").unwrap_or(DEFAULT_WAIT).min(LONGEST_WAIT));
    let named: Vec<String> = ["name", "first", "second", "trial", "question"]
        .iter()
        .filter_map(|name| given.text(name))
        .map(str::to_owned)
        .collect();
    let folder = server.root.path();
    let command = |verb: &str, flags: &[&str]| {
        let flags = flags.iter().map(|flag| (*flag).to_owned());
        std::iter::once(verb.to_owned()).chain(named.clone()).chain(words.clone()).chain(flags).collect::<Vec<String>>()
    };
    let output = |words: Vec<String>| async move { server.program.output(folder, &words, &[3, 4, 5]).await };
    match tool.name {
        "init" => {
            let documents = server.root.resolve(given.text("folder").unwrap_or_default())?;
            output([vec!["init".to_owned(), documents], words.clone()].concat()).await
        }
        "components" => output(command("components", &[])).await,
        "plan" => output(command("plan", &[])).await,
        "run" => {
            server.runs.start(&server.program, folder, words.clone(), given.number("budget_usd"))?;
            server.runs.wait(wait).await
        }
        "wait" => server.runs.wait(wait).await,
        "stop" => match server.runs.end() {
            true => server.runs.wait(Duration::from_secs(15)).await,
            false => Err("no run goes on".to_owned()),
        },
        "runs" => output(command("runs", &[])).await,
        "leaderboard" => output(command("leaderboard", &[])).await,
        "effects" => output(command("leaderboard", &["--effects"])).await,
        "losses" => output(command("leaderboard", &["--losses"])).await,
        "compare" => output(command("compare", &[])).await,
        "show" => output(command("show", &[])).await,
        other => Err(format!("the tool `{other}` does nothing")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_gives_is_checked_before_anything_is_started() {
        let tool = |name: &str| TOOLS.iter().find(|tool| tool.name == name).unwrap();
        let read = |name: &str, given: Value| tool(name).read(given.as_object().unwrap()).map(drop);
        assert!(read("show", json!({ "trial": "t01", "question": null })).is_ok());
        assert!(read("run", json!({ "set": ["space.retriever.bm25.top_k=3"], "limit": 5, "budget_usd": 0 })).is_ok());
        for (name, given, said) in [
            ("show", json!({}), "`trial` is missing"),
            ("show", json!({ "trial": "--json" }), "is not that"),
            ("show", json!({ "trial": 3 }), "is not that"),
            ("show", json!({ "trial": "t01", "colour": "red" }), "`colour` is unknown"),
            ("run", json!({ "budget_usd": -1 }), "is not that"),
            ("run", json!({ "set": "a=b" }), "is not that"),
        ] {
            let error = read(name, given).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        assert!(TOOLS.iter().all(|tool| tool.tool().input_schema["additionalProperties"] == false));
    }
}
