//! Takes the text of documents out of the files of a run, which stay readable: passages, answers and quotes become a
//! marker, and scores stay.
//!
//! The files are changed as JSON and not through the types of this version, so that the files of every version can be
//! changed, and nothing else in them is lost. Only the rows of a trial, which are a table, are read as what they are.

use super::findings::DocumentSigns;
use crate::{
    artifact,
    results::{QuestionResult, QuestionRow},
};
use bytes::Bytes;
use eval::{Missing, Score, Scored};
use serde::Serialize;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Stands in place of a text that was forgotten.
pub(crate) const FORGOTTEN_TEXT: &str = "[forgotten]";

/// What was taken out of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct RedactionCount {
    /// Passages, and quotes of golden evidence.
    pub(super) passages: u64,
    /// Answers.
    pub(super) answers: u64,
    /// Other texts.
    pub(super) texts: u64,
}

impl RedactionCount {
    fn is_nothing(self) -> bool {
        self == Self::default()
    }

    fn add(&mut self, other: Self) {
        self.passages += other.passages;
        self.answers += other.answers;
        self.texts += other.texts;
    }
}

/// Changes one file.
pub(super) struct FileRedaction<'a> {
    signs: &'a DocumentSigns,
    /// Whether a path within a longer text is taken out too.
    paths_in_texts: bool,
    count: RedactionCount,
}

/// The changed content of a file in JSON; none if it holds nothing of the documents. A file that cannot be read is none.
pub(super) fn redact_json(bytes: &[u8], signs: &DocumentSigns) -> Option<(Value, RedactionCount)> {
    let mut value: Value = serde_json::from_slice(bytes).ok()?;
    let count = redact_value(&mut value, signs);
    (!count.is_nothing()).then_some((value, count))
}

fn redact_value(value: &mut Value, signs: &DocumentSigns) -> RedactionCount {
    let mut redaction = FileRedaction { signs, paths_in_texts: true, count: RedactionCount::default() };
    redaction.value(value);
    redaction.count
}

/// The changed lines of an event log; none if it holds nothing of the documents. A line that is no JSON, as a killed process
/// leaves it, is left out if anything changes.
pub(super) fn redact_lines(bytes: &[u8], signs: &DocumentSigns) -> Option<(Vec<u8>, RedactionCount)> {
    let (mut lines, mut count) = (Vec::with_capacity(bytes.len()), RedactionCount::default());
    let mut is_torn = false;
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let Ok(mut value) = serde_json::from_slice::<Value>(line) else {
            is_torn = true;
            continue;
        };
        let changed = redact_value(&mut value, signs);
        if changed.is_nothing() {
            lines.extend_from_slice(line);
        } else {
            lines.extend(value.to_string().into_bytes());
            count.add(changed);
        }
        lines.push(b'\n');
    }
    let torn_text = is_torn && signs.fingerprint.is_in(&String::from_utf8_lossy(bytes));
    (!count.is_nothing() || torn_text).then_some((lines, count))
}

/// The changed file of a trial's rows; none if it holds nothing of the documents, or if another version wrote it in
/// another format.
pub(super) fn redact_rows(bytes: &[u8], signs: &DocumentSigns) -> Option<(Bytes, RedactionCount)> {
    let mut rows: Vec<QuestionRow> = artifact::decode(Bytes::copy_from_slice(bytes)).ok()?;
    let mut count = RedactionCount::default();
    for row in &mut rows {
        let mut value = serde_json::to_value(&row.result).ok()?;
        let changed = redact_value(&mut value, signs);
        if !changed.is_nothing() {
            row.result = serde_json::from_value(value).unwrap_or_else(|_| with_values_only(&row.result));
            count.add(changed);
        }
    }
    if count.is_nothing() {
        return None;
    }
    artifact::encode(&rows).ok().map(|bytes| (bytes, count))
}

/// A row without any text, in place of one that cannot be read any more without the text of the documents.
fn with_values_only(row: &QuestionResult) -> QuestionResult {
    let forgotten = || Score::Missing(Missing::NotAsked(FORGOTTEN_TEXT.to_owned()));
    let value = |scored: &Scored| scored.score.value().map_or_else(forgotten, Score::Value);
    QuestionResult {
        question: row.question.clone(),
        queries: Vec::new(),
        query_fallback: None,
        remarks: Vec::new(),
        passages: Vec::new(),
        answer: None,
        error: Some(FORGOTTEN_TEXT.to_owned()),
        trace: None,
        scores: row.scores.iter().map(|(metric, scored)| (metric.clone(), Scored::plain(value(scored)))).collect(),
        loss: None,
    }
}

/// The changed text of an experiment file, whose golden questions and prompts may quote the documents. None if it holds
/// nothing of them.
pub(super) fn redact_experiment(text: &str, signs: &DocumentSigns) -> Option<(String, RedactionCount)> {
    let mut value: Value = toml::from_str(text).ok()?;
    let mut redaction = FileRedaction { signs, paths_in_texts: false, count: RedactionCount::default() };
    redaction.value(&mut value);
    let changed = (!redaction.count.is_nothing()).then(|| toml::to_string(&value).ok()).flatten();
    changed.map(|text| (text, redaction.count))
}

/// The list of a run's documents without these; none if it has none of them.
pub(super) fn redact_documents(bytes: &[u8], signs: &DocumentSigns) -> Option<(Vec<u8>, RedactionCount)> {
    let is_of = |line: &[u8]| {
        let document: Value = serde_json::from_slice(line).unwrap_or_default();
        document["path"].as_str().is_some_and(|path| signs.is_path(path))
    };
    let all = || bytes.split_inclusive(|byte| *byte == b'\n');
    let left: Vec<&[u8]> = all().filter(|line| !is_of(line)).collect();
    let texts = (all().count() - left.len()) as u64;
    (texts > 0).then(|| (left.concat(), RedactionCount { texts, ..RedactionCount::default() }))
}

/// The changed record of what a run was made from; none if it holds nothing of the documents.
pub(super) fn redact_provenance(bytes: &[u8], signs: &DocumentSigns) -> Option<(Value, RedactionCount)> {
    let mut value: Value = serde_json::from_slice(bytes).ok()?;
    let experiment = value.get_mut("experiment").map(Value::take);
    let is_of = |document: &Value| document["path"].as_str().is_some_and(|path| signs.is_path(path));
    let mut left_out = 0;
    if let Some(Value::Array(documents)) = value.get_mut("documents") {
        let before = documents.len();
        documents.retain(|document| !is_of(document));
        left_out = (before - documents.len()) as u64;
    }
    let mut count = redact_value(&mut value, signs);
    if let Some(experiment) = experiment {
        let changed = experiment.as_str().and_then(|text| redact_experiment(text, signs));
        value["experiment"] = match changed {
            Some((text, of_text)) => {
                count.texts += of_text.passages + of_text.answers + of_text.texts;
                text.into()
            }
            None => experiment,
        };
    }
    count.texts += left_out;
    (!count.is_nothing()).then_some((value, count))
}

impl FileRedaction<'_> {
    fn value(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(changed) = self.changed(text) {
                    *text = changed;
                    self.count.texts += 1;
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.value(value)),
            Value::Object(fields) => self.object(fields),
            _ => {}
        }
    }

    fn object(&mut self, fields: &mut Map<String, Value>) {
        if ["document", "path"].into_iter().any(|name| self.is_path(fields.get(name))) {
            self.count.passages += 1;
            hide_fields(fields);
            return;
        }
        let before = self.count;
        for value in fields.values_mut() {
            self.value(value);
        }
        // The result of a question: an answer goes if it was written from a passage that goes.
        if fields.contains_key("passages") && self.count != before && fields.contains_key("scores") {
            self.question_result(fields);
        }
        // A golden question: its reference says what the evidence says.
        if self.count != before && fields.get("evidence").is_some_and(holds_marker) {
            for name in ["reference", "draft"] {
                self.hide(fields, name);
            }
        }
    }

    fn question_result(&mut self, fields: &mut Map<String, Value>) {
        let passages = fields.get("passages").is_some_and(holds_marker);
        let answer = fields.get("answer").is_some_and(holds_marker);
        if !passages && !answer {
            return;
        }
        if let Some(answer) = fields.get_mut("answer").and_then(Value::as_object_mut)
            && let Some(text) = answer.get_mut("text")
        {
            *text = FORGOTTEN_TEXT.into();
            self.count.answers += 1;
        }
        for name in ["error", "remarks"] {
            self.hide(fields, name);
        }
        if let Some(Value::Object(scores)) = fields.get_mut("scores") {
            // The explanation of a score quotes the answer and the passages.
            for scored in scores.values_mut().filter_map(Value::as_object_mut) {
                if scored.get("detail").is_some_and(|detail| !detail.is_null()) {
                    scored.insert("detail".to_owned(), Value::Null);
                    self.count.texts += 1;
                }
            }
        }
    }

    fn hide(&mut self, fields: &mut Map<String, Value>, name: &str) {
        if let Some(value) = fields.get_mut(name).filter(|value| !value.is_null()) {
            let before = value.clone();
            hide_texts(value, true);
            self.count.texts += u64::from(*value != before);
        }
    }

    fn is_path(&self, value: Option<&Value>) -> bool {
        value.and_then(Value::as_str).is_some_and(|path| self.signs.is_path(path))
    }

    /// A text without what is to be forgotten; none if it holds nothing of that.
    fn changed(&self, text: &str) -> Option<String> {
        if self.signs.fingerprint.is_in(text) {
            return Some(FORGOTTEN_TEXT.to_owned());
        }
        let mut changed = Cow::Borrowed(text);
        for path in self.signs.versions.keys().filter(|_| self.paths_in_texts) {
            if let Some(without) = without_path(&changed, path) {
                changed = Cow::Owned(without);
            }
        }
        match changed {
            Cow::Borrowed(_) => None,
            Cow::Owned(changed) => Some(changed),
        }
    }
}

/// A text with the marker in place of a path; none if the path is not in it, or is a part of another path.
fn without_path(text: &str, path: &str) -> Option<String> {
    if path.is_empty() || !text.contains(path) {
        return None;
    }
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || "/-_".contains(c));
    let (mut changed, mut from, mut is_changed) = (String::with_capacity(text.len()), 0, false);
    for (at, _) in text.match_indices(path) {
        let (before, after) = (text[..at].chars().next_back(), text[at + path.len()..].chars().next());
        if at < from || is_part(before) || is_part(after) {
            continue;
        }
        changed.push_str(&text[from..at]);
        changed.push_str(FORGOTTEN_TEXT);
        (from, is_changed) = (at + path.len(), true);
    }
    changed.push_str(&text[from..]);
    is_changed.then_some(changed)
}

/// The fields that hold words of a document, even if it is only one word.
const WORDS_OF_DOCUMENT: [&str; 9] =
    ["document", "path", "text", "quote", "book", "heading", "title", "author", "shared_terms"];

/// Puts the marker in place of the texts of an object that is about a document.
fn hide_fields(fields: &mut Map<String, Value>) {
    for (name, value) in fields {
        hide_texts(value, WORDS_OF_DOCUMENT.contains(&name.as_str()));
    }
}

/// Puts the marker in place of every text in a value. Words that may be names of kinds stay, unless `all` is true: without
/// them the file could not be read.
fn hide_texts(value: &mut Value, all: bool) {
    match value {
        Value::String(text) => {
            let is_prose = text.chars().any(|c| c.is_whitespace() || !c.is_ascii());
            if all || is_prose {
                FORGOTTEN_TEXT.clone_into(text);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| hide_texts(value, all)),
        Value::Object(fields) => hide_fields(fields),
        _ => {}
    }
}

fn holds_marker(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(FORGOTTEN_TEXT),
        Value::Array(values) => values.iter().any(holds_marker),
        Value::Object(fields) => fields.values().any(holds_marker),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
