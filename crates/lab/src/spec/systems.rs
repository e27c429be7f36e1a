//! `[systems]`: RAG pipelines that are not ours, each of which is a trial, or several with different parameters.

use super::{
    evaluate,
    reader::ExperimentReader,
    table::{key_start, unknown_keys},
};
use rag::system::{SystemConfig, SystemPrice, VersionSource};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeMap, path::Path};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// The kind of a system whose answers exist already.
const ANSWERS: &str = "answers";
/// The keys that every kind of system has.
const COMMON: [&str; 5] = ["parameters", "version", "price", "seed", "unanchored"];

/// One system.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SystemSpec {
    /// Where its replies come from.
    #[serde(flatten)]
    pub source: ReplySource,
    /// Parameters that are sent with each question, each with one value or a list of values. Every combination is a
    /// trial.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, Vec<Value>>,
    /// Its version, or where the version is asked for before a run. Another version is asked anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<SystemVersion>,
    /// What it costs. Without it, and if replies do not say it, the cost is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<SystemPrice>,
    /// The number behind `{seed}`. Default 0.
    #[serde(skip_serializing_if = "is_zero")]
    pub seed: u64,
    /// How passages count that are in no document of the corpus. Default `irrelevant`.
    #[serde(skip_serializing_if = "is_default")]
    pub unanchored: Unanchored,
}

/// Where the replies of a system come from.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplySource {
    /// Answers that exist already.
    Answers(AnswersSpec),
    /// The system is asked.
    #[serde(untagged)]
    Asked(Box<SystemConfig>),
}

/// Answers that exist already, in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswersSpec {
    /// The file, relative to the experiment file: JSON, JSONL, CSV, TSV or Parquet, with the columns of Ragas, DeepEval,
    /// Phoenix, LangSmith or Langfuse.
    pub path: String,
}

/// The version of a system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum SystemVersion {
    /// The version itself.
    Stated(String),
    /// Where it is asked for.
    Asked(VersionSource),
}

/// How passages count that are in no document of the corpus.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unanchored {
    /// As irrelevant, at their rank.
    #[default]
    Irrelevant,
    /// Whether they are relevant is unknown, so metrics that compare places give a question with one of them no score.
    Unknown,
}

impl SystemSpec {
    /// The system, if it is asked.
    pub(crate) fn asked(&self) -> Option<&SystemConfig> {
        match &self.source {
            ReplySource::Asked(config) => Some(config),
            ReplySource::Answers(_) => None,
        }
    }

    /// Whether it may write answers.
    pub(crate) fn writes_answers(&self) -> bool {
        self.asked().is_none_or(|config| config.settings().writes_answers())
    }
}

/// Reads the section.
pub(super) fn read<'a>(
    reader: &mut ExperimentReader<'a>,
    root: &DeTable<'a>,
    base: &Path,
) -> BTreeMap<String, SystemSpec> {
    let Some(value) = root.get("systems") else { return BTreeMap::new() };
    let Some(table) = value.get_ref().as_table() else {
        reader.error(value.span().start, "systems: expected tables, such as [systems.app]");
        return BTreeMap::new();
    };
    if table.is_empty() {
        reader.error(key_start(root, "systems"), "systems: there is none; add one, such as [systems.app]");
    }
    let mut systems = BTreeMap::new();
    for (key, value) in table {
        let (name, at) = (key.get_ref().to_string(), key.span().start);
        if name.is_empty() || name == super::NONE || name.chars().any(|c| c.is_control() || c == '.') {
            reader.error(at, format!("systems: `{name}` cannot be the name of a system"));
        }
        if let Some(spec) = read_one(reader, &name, (at, value), base) {
            systems.insert(name, spec);
        }
    }
    systems
}

fn read_one<'a>(
    reader: &mut ExperimentReader<'a>,
    name: &str,
    (at, value): (usize, &Spanned<DeValue<'a>>),
    base: &Path,
) -> Option<SystemSpec> {
    let place = format!("systems.{name}");
    let Some(table) = value.get_ref().as_table() else {
        reader.error(at, format!("{place}: expected a table"));
        return None;
    };
    let kinds: Vec<&str> = SystemConfig::NAMES.iter().copied().chain([ANSWERS]).collect();
    let known: Vec<&str> = kinds.iter().copied().chain(COMMON).collect();
    unknown_keys(reader, table, &known, &place);
    let written: Vec<&str> = kinds.iter().copied().filter(|kind| table.get(*kind).is_some()).collect();
    let [kind] = written.as_slice() else {
        let kinds = kinds.join("`, `");
        let reason =
            if written.is_empty() { "says not how it is asked: write" } else { "is asked in several ways: keep" };
        reader.error(at, format!("{place}: {reason} one of `{kinds}`"));
        return None;
    };
    let mut source = read_source(reader, table, kind, &place)?;
    let parameters = read_parameters(reader, table, &place);
    let version = optional_at(reader, table, "version", &place);
    let price: Option<SystemPrice> = optional_at(reader, table, "price", &place);
    let seed: Option<u64> = optional_at(reader, table, "seed", &place);
    let unanchored: Option<Unanchored> = optional_at(reader, table, "unanchored", &place);
    check(reader, (table, kind, &place), (&mut source, &parameters), (&version, seed, price), base);
    Some(SystemSpec {
        source,
        parameters,
        version,
        price,
        seed: seed.unwrap_or_default(),
        unanchored: unanchored.unwrap_or_default(),
    })
}

fn read_source<'a>(
    reader: &mut ExperimentReader<'a>,
    table: &DeTable<'a>,
    kind: &str,
    place: &str,
) -> Option<ReplySource> {
    if kind == ANSWERS {
        return Some(ReplySource::Answers(optional_at(reader, table, ANSWERS, place)?));
    }
    let (key, value) = table.get_key_value(kind)?;
    let mut only = DeTable::new();
    only.insert(key.clone(), value.clone());
    let whole = Spanned::new(value.span(), DeValue::Table(only));
    Some(ReplySource::Asked(reader.read(&whole, place)?))
}

fn read_parameters<'a>(
    reader: &mut ExperimentReader<'a>,
    table: &DeTable<'a>,
    place: &str,
) -> BTreeMap<String, Vec<Value>> {
    let written: BTreeMap<String, Value> = optional_at(reader, table, "parameters", place).unwrap_or_default();
    let mut parameters = BTreeMap::new();
    for (name, value) in written {
        let values = match value {
            Value::Array(values) => values,
            one => vec![one],
        };
        let twice = (1..values.len()).any(|i| values[..i].contains(&values[i]));
        if values.is_empty() || twice {
            let reason = if twice { "lists a value twice" } else { "has no value, so there would be no trial" };
            reader.error(key_start(table, "parameters"), format!("{place}.parameters: `{name}` {reason}"));
        }
        parameters.insert(name, values);
    }
    parameters
}

/// Checks a system as a whole, and reads the files that it names.
fn check<'a>(
    reader: &mut ExperimentReader<'a>,
    (table, kind, place): (&DeTable<'a>, &str, &str),
    (source, parameters): (&mut ReplySource, &BTreeMap<String, Vec<Value>>),
    (version, seed, price): (&Option<SystemVersion>, Option<u64>, Option<SystemPrice>),
    base: &Path,
) {
    let at = |key: &str| key_start(table, key);
    for (name, number) in
        price.iter().flat_map(|price| [("call", price.call), ("input", price.input), ("output", price.output)])
    {
        if number.is_some_and(|number| !number.is_finite() || number < 0.0) {
            reader.error(at("price"), format!("{place}.price: `{name}` must be 0 or more dollars"));
        }
    }
    if matches!(version, Some(SystemVersion::Stated(stated)) if stated.trim().is_empty()) {
        reader.error(at("version"), format!("{place}.version: the text is empty; leave it out if there is none"));
    }
    match source {
        ReplySource::Answers(answers) => {
            if answers.path.is_empty() {
                reader.error(at(ANSWERS), format!("{place}.answers: `path` is empty: name the file"));
            }
            let asked =
                [("parameters", !parameters.is_empty()), ("seed", seed.is_some()), ("version", version.is_some())];
            for (key, _) in asked.into_iter().filter(|(_, written)| *written) {
                reader.error(at(key), format!("{place}: `{key}` does nothing here: the answers exist already"));
            }
        }
        ReplySource::Asked(config) => {
            let read = |path: &str| evaluate::read_file(base, path);
            let settings = config.settings_mut();
            if let Err(error) = settings.read_files(&read) {
                reader.error(at(kind), format!("{place}.{kind}: {error}"));
            } else if let Err(reason) = settings.check(parameters) {
                reader.error(at(kind), format!("{place}.{kind}: {reason}"));
            }
        }
    }
}

fn optional_at<'a, T: serde::de::DeserializeOwned>(
    reader: &mut ExperimentReader<'a>,
    table: &DeTable<'a>,
    key: &str,
    place: &str,
) -> Option<T> {
    table.get(key).and_then(|value| reader.read(value, &format!("{place}.{key}")))
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_default(unanchored: &Unanchored) -> bool {
    *unanchored == Unanchored::default()
}
