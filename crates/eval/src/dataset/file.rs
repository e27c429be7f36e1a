//! A dataset together with the file that it was read from, so that what was
//! changed goes back into the same rows of the same format: every other column
//! and row stays as it was, also those that nothing here understands.
//!
//! When to use it: for everything that writes into a file of questions. What
//! was written is read again before it is given out; where it does not hold the
//! questions as they should be, nothing is written.

use super::columns::{DatasetReport, IgnoredColumn};
use super::export::cell;
use super::import::{self, ImportError, Imported};
use super::rows::{self, Raw, Row, Shape};
use super::{Dataset, Question};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::ops::Range;

/// A question to be written: its row in the file, if it has one, and the
/// fields that are not what the row says.
type Changed = (Option<usize>, Vec<(String, Value)>);

/// Why questions cannot be written into the file that they were read from.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnwritableFile {
    /// There are none left.
    #[error("{file}: no question would be left in it: remove the file yourself")]
    Empty {
        /// The file.
        file: String,
    },
    /// Its format or its columns have no place for something.
    #[error("{file}: {fields} of question `{question}` cannot be kept in this file")]
    Fields {
        /// The file.
        file: String,
        /// What has no place.
        fields: String,
        /// The question's id.
        question: String,
    },
    /// Questions would be gone when it is read again.
    #[error("{file}: some questions would be lost")]
    Questions {
        /// The file.
        file: String,
    },
    /// It could not be read again.
    #[error("{file}: what would be written could not be read again")]
    Unreadable {
        /// The file.
        file: String,
        /// The first mistake in it.
        #[source]
        first: Option<ImportError>,
    },
    /// A line that was read is no JSON object.
    #[error("{file}: a line is no JSON object")]
    NoObject {
        /// The file.
        file: String,
    },
    /// CSV cannot hold it.
    #[error("{file}: it cannot be written as CSV")]
    Csv {
        /// The file.
        file: String,
        /// What the writer said.
        #[source]
        source: csv::Error,
    },
}

/// A file of questions, to be changed and written again.
#[derive(Debug)]
pub struct DatasetFile {
    name: String,
    /// The questions. Their ids must stay.
    pub dataset: Dataset,
    /// Columns that are no part of the questions; they are kept.
    pub ignored: Vec<IgnoredColumn>,
    before: Vec<Question>,
    rows: Vec<Row>,
    layout: rows::Layout,
}

impl DatasetFile {
    /// Reads a file.
    ///
    /// # Errors
    /// As [`import`](super::import).
    pub fn read(name: &str, bytes: &[u8]) -> Result<Self, Vec<ImportError>> {
        let Imported { dataset, ignored, rows } = import::read_file(name, bytes)?;
        let before = dataset.questions.clone();
        Ok(Self { name: name.to_owned(), dataset, ignored, before, rows, layout: rows::layout(name, bytes) })
    }

    /// What it gives a run.
    pub fn report(&self) -> DatasetReport {
        DatasetReport::of(&self.dataset, self.ignored.clone())
    }

    /// The bytes of the file as it should be now.
    ///
    /// # Errors
    /// What would be lost, if the file's format or columns cannot hold it.
    pub fn to_bytes(&self) -> Result<Vec<u8>, UnwritableFile> {
        let known: HashMap<&str, usize> =
            self.before.iter().enumerate().map(|(i, question)| (question.id.as_str(), i)).collect();
        let mut changed = Vec::with_capacity(self.dataset.questions.len());
        for question in &self.dataset.questions {
            let row = known.get(question.id.as_str()).copied();
            changed.push((row, row.map_or_else(|| all_fields(question), |i| self.changes(i, question))));
        }
        let bytes = match self.layout.shape {
            Shape::Jsonl => self.jsonl(&changed)?,
            Shape::Csv => {
                self.csv(&changed).map_err(|source| UnwritableFile::Csv { file: self.name.clone(), source })?
            }
        };
        self.verify(&bytes)?;
        Ok(bytes)
    }

    /// The columns of a row that are other than they were.
    fn changes(&self, i: usize, now: &Question) -> Vec<(String, Value)> {
        let (before, fields) = (&self.before[i], &self.rows[i].fields);
        let column = |names: &[&'static str]| names.iter().find(|name| fields.contains_key(**name)).copied();
        let mut changes: Vec<(String, Value)> = Vec::new();
        let mut set = |name: &str, value: Value| changes.push((name.to_owned(), value));
        if now.question != before.question {
            set(column(import::QUESTION).unwrap_or("question"), json!(now.question));
            // An id that was made of the words would be another one now.
            let id = column(import::ID);
            if id.is_none_or(|id| super::cells::is_blank(&fields[id])) {
                set(id.unwrap_or("id"), json!(now.id));
            }
        }
        if now.reference != before.reference {
            let name = import::reference_column(fields).unwrap_or("reference");
            let value = match fields.get(name) {
                // The first of several.
                Some(list) if name == "ground_truths" => {
                    let rest = super::cells::texts(list).unwrap_or_default().into_iter().skip(1);
                    json!(now.reference.clone().into_iter().chain(rest).collect::<Vec<_>>())
                }
                _ => json!(now.reference),
            };
            set(name, value);
        }
        if now.answerable != before.answerable {
            let name = column(import::ANSWERABLE).unwrap_or("answerable");
            set(name, json!(now.answerable == (name == "answerable")));
        }
        if now.evidence != before.evidence {
            set("evidence", json!(now.evidence));
        }
        if now.tags != before.tags {
            set("tags", json!(now.tags));
        }
        if now.origin != before.origin {
            set("origin", json!(now.origin));
        }
        if now.split != before.split {
            set("split", json!(now.split));
        }
        if now.review != before.review {
            set("review", json!(now.review));
        }
        changes
    }

    fn jsonl(&self, changed: &[Changed]) -> Result<Vec<u8>, UnwritableFile> {
        let mut out = self.layout.mark().to_vec();
        for (row, changes) in changed {
            let line = match row.map(|i| &self.rows[i].raw) {
                Some(Raw::Line(line)) => line.clone(),
                _ => "{}".to_owned(),
            };
            let line =
                with_members(&line, changes).ok_or_else(|| UnwritableFile::NoObject { file: self.name.clone() })?;
            out.extend(line.bytes());
            out.extend(self.layout.line_end.bytes());
        }
        Ok(out)
    }

    fn csv(&self, changed: &[Changed]) -> Result<Vec<u8>, csv::Error> {
        let mut header = self.layout.header.clone();
        for (name, _) in changed.iter().flat_map(|(_, changes)| changes) {
            if !header.iter().any(|known| known.trim() == name) {
                header.push(name.clone());
            }
        }
        let place: HashMap<&str, usize> = header.iter().enumerate().rev().map(|(i, name)| (name.trim(), i)).collect();
        let terminator =
            if self.layout.line_end == "\r\n" { csv::Terminator::CRLF } else { csv::Terminator::Any(b'\n') };
        let mut writer = csv::WriterBuilder::new()
            .delimiter(self.layout.delimiter)
            .terminator(terminator)
            .from_writer(self.layout.mark().to_vec());
        writer.write_record(&header)?;
        for (row, changes) in changed {
            let mut cells = match row.map(|i| &self.rows[i].raw) {
                Some(Raw::Cells(cells)) => cells.clone(),
                _ => Vec::new(),
            };
            cells.resize(header.len(), String::new());
            for (name, value) in changes {
                cells[place[name.as_str()]] = cell(Some(value));
            }
            writer.write_record(&cells)?;
        }
        writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))
    }

    /// Refuses bytes that would not be read as the questions that they hold.
    fn verify(&self, bytes: &[u8]) -> Result<(), UnwritableFile> {
        let file = || self.name.clone();
        if self.dataset.questions.is_empty() {
            return Err(UnwritableFile::Empty { file: file() });
        }
        let read = import::read_file(&self.name, bytes)
            .map_err(|mistakes| UnwritableFile::Unreadable { file: file(), first: mistakes.into_iter().next() })?;
        let lost = read.dataset.questions.iter().zip(&self.dataset.questions).find(|(read, wanted)| read != wanted);
        match lost {
            Some((read, wanted)) => Err(UnwritableFile::Fields {
                file: file(),
                fields: super::difference::fields_that_differ(read, wanted).join(", "),
                question: wanted.id.clone(),
            }),
            None if read.dataset.questions.len() != self.dataset.questions.len() => {
                Err(UnwritableFile::Questions { file: file() })
            }
            None => Ok(()),
        }
    }
}

/// A question that was in no row.
fn all_fields(question: &Question) -> Vec<(String, Value)> {
    match serde_json::to_value(question) {
        Ok(Value::Object(fields)) => fields.into_iter().collect(),
        _ => Vec::new(),
    }
}

/// A JSON object's text with some members replaced or added at its end. All
/// else stays as it was written, to the digit. None if it is no object.
fn with_members(line: &str, changes: &[(String, Value)]) -> Option<String> {
    if changes.is_empty() {
        return Some(line.trim().to_owned());
    }
    let mut text = line.trim().to_owned();
    let members = members(&text)?;
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    let mut added = String::new();
    for (name, value) in changes {
        match members.iter().rev().find(|(known, _)| known == name) {
            Some((_, range)) => edits.push((range.clone(), value.to_string())),
            None => {
                if !(members.is_empty() && added.is_empty()) {
                    added.push_str(", ");
                }
                added.push_str(&format!("{}: {value}", Value::String(name.clone())));
            }
        }
    }
    let end = text.rfind('}')?;
    let inner_end = text[..end].trim_end().len();
    edits.push((inner_end..inner_end, added));
    edits.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    for (range, value) in edits {
        text.replace_range(range, &value);
    }
    Some(text)
}

/// The members of a JSON object, which is known to be one: names, and where
/// their values are.
fn members(text: &str) -> Option<Vec<(String, Range<usize>)>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = text.find('{')? + 1;
    loop {
        at += bytes[at..].iter().position(|byte| !byte.is_ascii_whitespace() && *byte != b',')?;
        if bytes[at] == b'}' {
            return Some(found);
        }
        let name_end = value_end(bytes, at)?;
        let name: String = serde_json::from_str(&text[at..name_end]).ok()?;
        at = name_end + bytes[name_end..].iter().position(|byte| *byte == b':')? + 1;
        at += bytes[at..].iter().position(|byte| !byte.is_ascii_whitespace())?;
        let end = value_end(bytes, at)?;
        found.push((name, at..end));
        at = end;
    }
}

/// The end of the JSON value that begins here.
fn value_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut depth = 0usize;
    let mut in_text = false;
    let mut at = start;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' if in_text => at += 1,
            b'"' => {
                in_text = !in_text;
                if !in_text && depth == 0 {
                    return Some(at + 1);
                }
            }
            _ if in_text => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return Some(at),
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            b',' if depth == 0 => return Some(at),
            byte if depth == 0 && byte.is_ascii_whitespace() => return Some(at),
            _ => {}
        }
        at += 1;
    }
    Some(bytes.len())
}

#[cfg(test)]
mod tests;
