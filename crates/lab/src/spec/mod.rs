//! The experiment file: raw TOML in, a resolved and validated [`Experiment`] out.

mod budget;
mod engine;
mod evaluate;
mod overrides;
mod reader;
#[cfg(test)]
mod refusal_tests;
mod resolve;
mod schema;
mod scoring;
mod shown;
mod space;
mod systems;
mod table;
mod text_error;
mod track;
mod variant;
mod warnings;
mod wording;

pub use budget::BudgetSpec;
pub use engine::{EngineSpec, LocalEngineSpec, RayEngineSpec, StageSpec};
pub(crate) use evaluate::SEALED;
pub use overrides::Override;
pub use reader::{SpecError, nearest};
pub use scoring::{ScoringChoice, ScoringSpec};
pub use space::Spaces;
pub use systems::{AnswersSpec, ReplySource, SystemSpec, SystemVersion, Unanchored};
pub use text_error::SpecTextError;
pub(crate) use track::{MlflowConfig, TrackioConfig, WandbConfig, WandbMode, legal_key};
pub use track::{Pace, TrackerConfig, TrackerSettingsError};
pub use warnings::WarningSpec;

/// The label of a trial that has nothing on an axis; no system has this name.
pub(crate) const NONE: &str = "none";

use crate::search::SearchConfig;
use eval::{
    GenerateOptions, MetricConfig,
    dataset::{RowError, RowQuestions, read_questions},
};
use models::ModelConfig;
use rag::{
    Axis,
    load::{Links, ParseLimits},
};
use serde::{Deserialize, Serialize, de::Error as _};
use std::{collections::BTreeMap, path::PathBuf};

/// Where the documents are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CorpusSpec {
    /// A folder, a glob, a file, or an object-store URL; relative paths are
    /// relative to the experiment file.
    pub source: String,
    /// Only files that match one of these. Default: every format that is read.
    pub include: Vec<String>,
    /// Never files that match one of these.
    pub exclude: Vec<String>,
    /// Which symbolic links are followed: `inside` (those that lead to
    /// somewhere in the source; others are refused and named), the default, or
    /// `anywhere`.
    pub links: Links,
    /// A table of metadata, relative to the experiment file: CSV or JSONL with
    /// a column `path`, and a row for each document. Its columns can be used in
    /// filters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<String>,
    /// Limits on the files; a file above a limit is refused.
    pub limits: ParseLimits,
}

/// Golden questions: a file, or generated once and kept there; or rows within
/// the experiment, as a program gives them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DatasetSpec {
    /// JSONL or CSV, relative to the experiment file; empty where there are rows.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The questions themselves, with the columns of a file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<serde_json::Map<String, serde_json::Value>>,
    /// Generate the file if it is not there.
    #[serde(default)]
    pub generate: Option<GenerateSpec>,
    /// Only this many questions, the first, as if there were no more.
    /// Default all.
    #[serde(default)]
    pub limit: Option<usize>,
}

impl DatasetSpec {
    /// The questions that stand in the experiment itself; none if they are in a
    /// file.
    ///
    /// # Errors
    /// All mistakes, each with the number of its row.
    pub fn inline(&self) -> Option<Result<RowQuestions, Vec<String>>> {
        let message = |error: RowError| format!("dataset, row {} (from 0): {error}", error.number);
        let read = || read_questions(&self.rows).map_err(|faults| faults.into_iter().map(message).collect());
        (!self.rows.is_empty()).then(read)
    }

    /// Where the questions come from, for people.
    pub fn source(&self) -> &str {
        if self.rows.is_empty() { &self.path } else { "rows of the experiment" }
    }

    /// What is wrong with it.
    fn mistakes(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        match (self.path.is_empty(), self.rows.is_empty()) {
            (true, true) => mistakes.push("dataset: `path` is missing: a file of golden questions".to_owned()),
            (false, false) => mistakes.push("dataset: `path` and `rows` are both there: keep one".to_owned()),
            _ => {}
        }
        if self.generate.is_some() && !self.rows.is_empty() {
            mistakes.push("dataset: `generate` writes questions into a file, and here are `rows`: keep one".to_owned());
        }
        if let Some(Err(rows)) = self.inline() {
            mistakes.extend(rows);
        }
        mistakes
    }
}

/// How to generate questions: the model, and the options.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct GenerateSpec {
    /// The chat model that writes the questions.
    pub model: String,
    /// Its options.
    #[serde(flatten)]
    pub options: GenerateOptions,
}

impl<'de> Deserialize<'de> for GenerateSpec {
    // By hand, because a flattened field would let unknown keys through.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = serde_json::Map::deserialize(deserializer)?;
        let model = fields.remove("model").ok_or_else(|| D::Error::missing_field("model"))?;
        let model = serde_json::from_value(model).map_err(|error| D::Error::custom(format!("`model`: {error}")))?;
        let options = serde_json::from_value(fields.into()).map_err(D::Error::custom)?;
        Ok(Self { model, options })
    }
}

/// The metrics, their judges, and the objective.
#[derive(Debug, Clone, PartialEq)]
pub struct EvaluateSpec {
    /// The metrics, in the order of the leaderboard.
    pub metrics: Vec<MetricConfig>,
    /// The chat models that judge; of several, the majority decides.
    pub judges: Vec<String>,
    /// The embedder for similarities: one for all trials, so that they compare.
    pub embedder: Option<String>,
    /// Only this many questions, in file order, are answered. Default all.
    pub answered: Option<usize>,
    /// Only this many of the answered questions are judged. Default all.
    pub judged: Option<usize>,
    /// The metrics whose mean chooses the winner. Default: `ndcg` for retrieval, `answer_similarity`
    /// and `token_f1` for answers; for a kind with none of these, all its metrics that need no
    /// judge. A judged metric may be listed if its judges are qualified.
    pub objective: Vec<String>,
    /// What one run may cost, and all starts together. Answers that an earlier run paid for are free and use none of
    /// the budget of a run.
    pub budget: BudgetSpec,
}

/// An experiment, defaults filled in and checked as a whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// Its name: letters, digits, `-` and `_`.
    pub name: String,
    /// The folder that relative paths start from.
    pub base: PathBuf,
    /// The store: a folder or an object-store URL.
    pub store: String,
    /// The documents.
    pub corpus: CorpusSpec,
    /// The questions.
    pub dataset: Option<DatasetSpec>,
    /// Models by name.
    pub models: BTreeMap<String, ModelConfig>,
    /// The axes.
    pub space: Spaces,
    /// RAG pipelines that are not ours, by name.
    pub systems: BTreeMap<String, SystemSpec>,
    /// How trials are chosen.
    pub search: SearchConfig,
    /// What is measured.
    pub evaluate: EvaluateSpec,
    /// What executes the plan.
    pub engine: EngineSpec,
    /// The trackers that show runs, in addition to the run's folder.
    pub track: Vec<TrackerConfig>,
    /// Which warnings are hidden, and which fail a check.
    pub warnings: WarningSpec,
    /// The file's text; with overrides, the resolved experiment. A run stores it without secrets.
    pub text: String,
    /// What the command line replaced, as it was typed: `--limit 3`. Values that may be secrets are
    /// left out.
    pub overrides: Vec<String>,
    /// The file that it was read from; none where a program made it.
    pub file: Option<PathBuf>,
}

impl EvaluateSpec {
    /// The names of the models that its metrics ask: judges, and the embedder.
    pub(crate) fn models(&self) -> Vec<&str> {
        let needs: Vec<_> = self.metrics.iter().map(MetricConfig::needs).collect();
        let judges = self.judges.iter().filter(|_| needs.iter().any(|needs| needs.judge));
        let embedder = self.embedder.iter().filter(|_| needs.iter().any(|needs| needs.embedder));
        judges.chain(embedder).map(String::as_str).collect()
    }
}

impl Experiment {
    /// Reads and checks an experiment file's text.
    ///
    /// # Errors
    /// All mistakes, in the order of the file.
    pub fn parse(text: &str, base: impl Into<PathBuf>) -> Result<Self, Vec<SpecError>> {
        Self::parse_with(text, base, &[])
    }

    /// Reads and checks an experiment file's text with overrides.
    ///
    /// # Errors
    /// All mistakes, in the order of the file, then those of the overrides.
    pub fn parse_with(text: &str, base: impl Into<PathBuf>, overrides: &[Override]) -> Result<Self, Vec<SpecError>> {
        let mut experiment = resolve::resolve(text, base.into(), overrides)?;
        if !overrides.is_empty() {
            // The file's text is not what runs.
            experiment.text = experiment.portable();
            experiment.overrides = overrides.iter().map(Override::without_secrets).collect();
        }
        Ok(experiment)
    }

    /// The text of an experiment file with the content of this JSON.
    ///
    /// # Errors
    /// If it is no JSON object, or holds something that TOML cannot express.
    pub fn json_to_toml(json: &str) -> Result<String, SpecTextError> {
        Ok(toml::to_string(&serde_json::from_str::<toml::Table>(json)?)?)
    }

    /// The JSON Schema (draft 2020-12) of an experiment file, for editors. A file
    /// may keep to it and still have a mistake that depends on several keys.
    pub fn schema() -> serde_json::Value {
        schema::schema()
    }

    /// The sections of an experiment file.
    pub const SECTIONS: &'static [&'static str] = resolve::SECTIONS;
    /// The keys of its section `evaluate`.
    pub const EVALUATE: &'static [&'static str] = evaluate::KEYS;

    /// Parses a value as it stands in an experiment file.
    ///
    /// # Errors
    /// If the text is not one value in TOML.
    pub fn parse_value(text: &str) -> Result<serde_json::Value, SpecTextError> {
        let table: toml::Table = toml::from_str(&format!("value = {text}"))
            .map_err(|source| SpecTextError::NoValue { text: text.trim().to_owned(), source })?;
        let value = table.get("value").filter(|_| table.len() == 1);
        Ok(serde_json::to_value(value.ok_or_else(|| SpecTextError::ManyValues(text.trim().to_owned()))?)?)
    }

    /// The text of an experiment file with another name and another space:
    /// everything else, comments too, stays as it is.
    ///
    /// # Errors
    /// If the result is no experiment, with its first mistake.
    pub fn with_space(text: &str, base: impl Into<PathBuf>, name: &str, space: &str) -> Result<String, SpecTextError> {
        let text = space::replace_space(text, name, space);
        match Self::parse(&text, base).map_err(|mistakes| mistakes.into_iter().next()) {
            Ok(_) | Err(None) => Ok(text),
            Err(Some(mistake)) => Err(mistake.into()),
        }
    }

    /// Likely mistakes that are not errors, in sentences.
    pub fn remarks(&self) -> Vec<String> {
        let written =
            !self.space.on(Axis::Generator).is_empty() || self.systems.values().any(SystemSpec::writes_answers);
        let answers = written && self.dataset.is_some();
        let scored = self.evaluate.metrics.iter().any(|metric| metric.needs().answer);
        let remark = "answers are made, but no metric scores them, so they choose no winner: add `token_f1`, `rouge_l` or \
                      `answer_similarity` to evaluate.metrics";
        if answers && !scored { vec![remark.to_owned()] } else { Vec::new() }
    }

    /// Whether a model outside this process embeds texts.
    pub(crate) fn embeds_elsewhere(&self) -> bool {
        self.models.values().any(|model| matches!(model, ModelConfig::Embedding(_)) && !model.is_here())
    }

    /// Resolves a path of the file against the file's folder.
    pub fn path(&self, path: &str) -> PathBuf {
        // Removes `.` components, which read badly in messages.
        self.base.join(path).components().collect()
    }
}
