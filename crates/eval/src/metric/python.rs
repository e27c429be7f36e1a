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
//! The function gets what its parameters name, at least one of: `question`, `answer` (without
//! citations), `reference`, `passages` (a list of texts, also called `contexts`),
//! `columns` (a dictionary of the other columns of a row of answers; an experiment has
//! no rows). Where one of these is missing it is not called, unless the parameter has
//! a default: with `reference=None` it is called for questions without a reference too.
//! If no passages are known, `passages` is an empty list. It returns a number in `range`, a
//! truth value, or `None` where the metric does not apply; or a pair of that and
//! the reason as a text, which stands in the score's detail. It may be an `async
//! def`, of which several calls run at once, and have further parameters with
//! defaults. If it raises, takes too long or returns a number out of range, there is
//! no score, and the reason is shown.
//!
//! What the file holds is part of the metric: scores are computed anew when it
//! changes. The function runs in a process of its own, in the Python of the
//! active environment.

use super::{Describe, Description, Error, Metric, MetricContext, Needs, Sample, check_name, refuse};
use crate::{Missing, Score, Scored};
use async_trait::async_trait;
use rag::python::{Function, Script, TIMEOUT_SECONDS};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use store::registry::ReadSettingsFile;

pub(super) const VERSION: u32 = 1;

const METRIC: &str = "python";

/// `contexts` is another name of `passages`: that of the column.
const PARAMETERS: [&str; 6] = ["question", "answer", "reference", "passages", "contexts", COLUMNS];
const COLUMNS: &str = "columns";

/// Settings of a function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The metric's name; `python` if left out. Needed where there are several.
    pub name: Option<String>,
    /// The file with the function, relative to the experiment file.
    pub file: String,
    /// What the file holds; filled in when the experiment is read, never by hand.
    pub source: String,
    /// The function.
    pub function: String,
    /// The program that runs it. Default: the Python that started Reverie, else
    /// that of the active virtual environment, else `python3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interpreter: Option<String>,
    /// How long one call may take, in seconds. Default 300; no part of any key.
    pub timeout_seconds: f64,
    /// How many calls of an `async def` run at once, 1 to 256. Default 16; no
    /// part of any key. Any other function runs one call at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<usize>,
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
            interpreter: None,
            timeout_seconds: TIMEOUT_SECONDS,
            concurrency: None,
            range: (0.0, 1.0),
            higher_is_better: true,
        }
    }
}

impl Config {
    pub(super) fn build(&self, _: &MetricContext<'_>) -> Result<Box<dyn Metric>, Error> {
        check_name(METRIC, self.name.as_deref())?;
        if !(self.range.0.is_finite() && self.range.1.is_finite() && self.range.0 < self.range.1) {
            return refuse(METRIC, format!("`range` must be two numbers, the lower first, not {:?}", self.range));
        }
        match Function::new("metric", self.script(), &PARAMETERS) {
            Ok(function) => Ok(Box::new(PythonMetric { config: self.clone(), function: Arc::new(function) })),
            Err(error) => refuse(METRIC, error.to_string()),
        }
    }

    fn script(&self) -> Script<'_> {
        let Self { file, source, function, interpreter, timeout_seconds, concurrency, .. } = self;
        let (interpreter, timeout_seconds, concurrency) = (interpreter.as_deref(), *timeout_seconds, *concurrency);
        Script { file, source, function, interpreter, timeout_seconds, concurrency }
    }
}

impl Describe for Config {
    fn describe(&self) -> Description {
        let wanted = self.script().signature(&PARAMETERS).unwrap_or_default();
        // With a default (`true`), the function can be called without it.
        let wants = |name| wanted.contains(&(name, false));
        Description {
            needs: Needs {
                answer: wants("answer"),
                reference: wants("reference"),
                passages: wants("passages") || wants("contexts"),
                columns: wants(COLUMNS),
                ..Needs::default()
            },
            label: self.name.clone(),
            can_be_named: true,
            range: Some(self.range),
            lower_is_better: !self.higher_is_better,
            settings_outside_key: rag::python::OUTSIDE_KEY,
            ..Description::default()
        }
    }

    fn read_files(&mut self, read: ReadSettingsFile<'_>) -> Result<(), Error> {
        rag::python::read_source(&self.file, &mut self.source, read).or_else(|error| refuse(METRIC, error.to_string()))
    }

    fn functions_at_once(&self) -> usize {
        self.script().at_once().unwrap_or(1)
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

struct PythonMetric {
    config: Config,
    function: Arc<Function>,
}

#[async_trait]
impl Metric for PythonMetric {
    async fn score(&self, sample: &Sample<'_>) -> Scored {
        match self.value(sample).await {
            Ok((value, reason)) => {
                let mut detail = json!({ "function": self.config.function });
                if let Some(reason) = reason {
                    detail["reason"] = reason.into();
                }
                Scored { score: Score::finite(value), detail }
            }
            Err(missing) => Scored::missing(missing),
        }
    }
}

impl PythonMetric {
    /// The score, and the reason that the function gave.
    async fn value(&self, sample: &Sample<'_>) -> Result<(f64, Option<String>), Missing> {
        let mut wanted = serde_json::Map::new();
        for &name in self.function.parameters() {
            let value = match name {
                "question" => Ok(json!(sample.question.question)),
                "answer" => sample.answer_text().map(Value::from),
                "reference" => sample.reference().map(Value::from),
                COLUMNS => sample
                    .columns
                    .cloned()
                    .map(Value::Object)
                    .ok_or_else(|| Missing::NotApplicable("questions of an experiment have no columns".to_owned())),
                _ => Ok(json!(sample.passages.iter().map(|passage| passage.text.as_str()).collect::<Vec<_>>())),
            };
            let value = match value {
                // The function's own default stands for what is not there.
                Err(_) if self.function.is_optional(name) => continue,
                value => value?,
            };
            wanted.insert(name.to_owned(), value);
        }
        let name = &self.config.function;
        let reply = self.function.call_async(Value::Object(wanted)).await.map_err(Missing::FunctionError)?;
        let failed = |reason: String| Missing::FunctionError(self.function.bad_return_value(reason));
        let (low, high) = self.config.range;
        let (reply, reason) = match reply {
            Value::Array(mut pair) if pair.len() == 2 && pair[1].is_string() => {
                let reason = pair.pop().and_then(|reason| reason.as_str().map(str::to_owned));
                (pair.pop().unwrap_or_default(), reason)
            }
            other => (other, None),
        };
        let value = match &reply {
            Value::Null => {
                let why = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
                return Err(Missing::NotApplicable(format!("the function `{name}` gives no score{why}")));
            }
            Value::Bool(value) => f64::from(u8::from(*value)),
            reply => reply
                .as_f64()
                .ok_or_else(|| failed(format!("{reply} is no number, nor a pair of a number and a reason")))?,
        };
        if (low..=high).contains(&value) {
            return Ok((value, reason));
        }
        Err(failed(format!("{value} is not between {low} and {high}: set `range`")))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{answer, question, sample, score};
    use super::*;

    fn scored(source: &str, text: &str) -> Score {
        let config = Config { source: source.to_owned(), ..Config::default() };
        let metric = config.build(&MetricContext::default()).unwrap();
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
    fn a_row_s_other_columns_are_given_to_who_names_them() {
        let source = "def score(answer, columns):\n    return columns['seconds'] < 2\n";
        let config = Config { source: source.to_owned(), ..Config::default() };
        assert!(config.describe().needs.columns);
        let metric = config.build(&MetricContext::default()).unwrap();
        let (question, ten) = (question("How many?", None), answer("ten"));
        let alone = sample(&question, &[], Some(&ten));
        assert!(matches!(score(&*metric, &alone).score, Score::Missing(Missing::NotApplicable(_))));
        let columns = serde_json::from_value(json!({ "seconds": 1.5 })).unwrap();
        let row = Sample { columns: Some(&columns), ..alone };
        assert_eq!(score(&*metric, &row).score, Score::Value(1.0));
        let optional = "def score(answer, columns=None):\n    return columns is None\n";
        assert_eq!(scored(optional, "ten"), Score::Value(1.0));
    }

    #[test]
    fn the_column_s_name_is_a_name_of_the_passages_too() {
        let source = "def score(answer, contexts):\n    return contexts == []\n";
        assert_eq!(scored(source, "ten"), Score::Value(1.0));
        let config = Config { source: source.to_owned(), ..Config::default() };
        assert!(config.describe().needs.passages);
    }

    #[test]
    fn what_it_raises_or_gives_out_of_range_is_no_score_and_none_does_not_apply() {
        let reason = |source: &str| match scored(source, "ten") {
            Score::Missing(missing) => missing,
            Score::Value(value) => panic!("{value}"),
        };
        let raised = reason("def score(answer):\n    return 1 / 0\n");
        assert!(
            matches!(&raised, Missing::FunctionError(failure) if failure.message.contains("ZeroDivisionError")),
            "{raised}"
        );
        let large = reason("def score(answer):\n    return 7\n");
        assert!(large.to_string().contains("7 is not between 0 and 1"), "{large}");
        assert!(matches!(reason("def score(answer):\n    return None\n"), Missing::NotApplicable(_)));
        let ended = reason("import os\ndef score(answer):\n    os._exit(3)\n");
        assert!(ended.to_string().contains("its interpreter ended"), "{ended}");
        let broken = reason("import no_such_module\ndef score(answer):\n    return 1\n");
        assert!(broken.to_string().contains("no_such_module"), "{broken}");
    }

    #[test]
    fn a_reason_beside_the_score_stands_in_its_detail() {
        let scored = |source: &str| {
            let config = Config { source: source.to_owned(), ..Config::default() };
            let metric = config.build(&MetricContext::default()).unwrap();
            score(&*metric, &sample(&question("How many?", None), &[], Some(&answer("ten"))))
        };
        let given = scored("async def score(answer, least=3):\n    return len(answer) >= least, 'long enough'\n");
        assert_eq!((given.score, &given.detail["reason"]), (Score::Value(1.0), &json!("long enough")));
        let none = scored("def score(answer, *rest, **more):\n    return None, 'no number in it'\n");
        assert!(
            matches!(&none.score, Score::Missing(Missing::NotApplicable(why)) if why.ends_with(": no number in it")),
            "{none:?}"
        );
        let three = scored("def score(answer):\n    return 1, 2, 3\n");
        assert!(matches!(&three.score, Score::Missing(missing) if missing.to_string().contains("nor a pair")));
    }

    #[test]
    fn a_file_without_the_function_or_with_unknown_parameters_is_refused() {
        let refused = |source: &str| {
            let config = Config { source: source.to_owned(), ..Config::default() };
            config.build(&MetricContext::default()).err().unwrap().to_string()
        };
        assert!(refused("def other(answer):\n    return 1\n").contains("has no function `score`"));
        assert!(refused("def score(answer, context):\n    return 1\n").contains("unknown parameter `context`"));
        assert!(refused("def score():\n    return 1\n").contains("takes no parameter"));
        assert!(refused("").contains("`file` is missing"));
    }
}
