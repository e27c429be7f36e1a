//! A dataset with the file that it was read from. Changes are written into the same
//! records in the same format; all other columns and records stay as they were.
//!
//! When to use it: for everything that writes into a file of questions. The new
//! bytes are read back before they are returned, and refused if they do not hold
//! the same questions.

use super::columns::{DatasetReport, IgnoredColumn};
use super::fault::ImportError;
use super::format::{self, FileLayout, OriginalFile, WriteError};
use super::import::{self, FileQuestions};
use super::rows::FileRecord;
use super::{Dataset, DatasetFormat, Question};
use serde_json::{Value, json};
use std::collections::HashMap;

/// Why questions cannot be written into the file that they were read from.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnwritableFile {
    /// The format cannot be changed in place.
    #[error("{0}: a file of this format cannot be changed: write the questions as {formats}", formats = DatasetFormat::editable().titles())]
    NotInPlace(String),
    /// No question is left.
    #[error("{0}: no question would be left in it: remove the file yourself")]
    Empty(String),
    /// The format or the columns cannot hold some fields.
    #[error("{file}: {fields} of question `{question}` cannot be kept in this file")]
    Fields {
        /// The file.
        file: String,
        /// The fields.
        fields: String,
        /// The question's id.
        question: String,
    },
    /// Questions would be lost when the file is read again.
    #[error("{0}: some questions would be lost")]
    Questions(String),
    /// The new bytes could not be read.
    #[error("{file}: what would be written could not be read again")]
    Unreadable {
        /// The file.
        file: String,
        /// The first mistake in it.
        #[source]
        first: Option<ImportError>,
    },
    /// Its format cannot hold the records.
    #[error("{file}: it cannot be written")]
    Write {
        /// The file.
        file: String,
        /// Why.
        #[source]
        cause: WriteError,
    },
}

/// A file of questions that can be changed and written again.
#[derive(Debug)]
pub struct DatasetFile {
    name: String,
    /// The questions. Their ids must not change.
    pub dataset: Dataset,
    /// Columns that are not used; they are kept.
    pub ignored: Vec<IgnoredColumn>,
    before: Vec<Question>,
    rows: Vec<FileRecord>,
    layout: FileLayout,
}

impl DatasetFile {
    /// Reads a file.
    ///
    /// # Errors
    /// As [`import`](super::import).
    pub fn read(name: &str, bytes: &[u8]) -> Result<Self, Vec<ImportError>> {
        let FileQuestions { dataset, ignored, rows } = import::read_file(name, bytes)?;
        let before = dataset.questions.clone();
        Ok(Self { name: name.to_owned(), dataset, ignored, before, rows, layout: format::layout(name, bytes) })
    }

    /// A file that is not there yet, and has no questions. Its name decides the format.
    pub fn empty(name: &str) -> Self {
        let mut layout = format::layout(name, b"");
        // Without bytes, only the name says what it is to be.
        layout.format = DatasetFormat::of_name(name).unwrap_or(layout.format);
        Self {
            name: name.to_owned(),
            dataset: Dataset::default(),
            ignored: Vec::new(),
            before: Vec::new(),
            rows: Vec::new(),
            layout,
        }
    }

    /// Counts of the questions, and the unused columns.
    pub fn report(&self) -> DatasetReport {
        DatasetReport::of(&self.dataset, self.ignored.clone())
    }

    /// The bytes of the file with all changes.
    ///
    /// # Errors
    /// If the file's format or columns cannot hold the changes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, UnwritableFile> {
        let known: HashMap<&str, usize> =
            self.before.iter().enumerate().map(|(i, question)| (question.id.as_str(), i)).collect();
        let mut changed = Vec::with_capacity(self.dataset.questions.len());
        for question in &self.dataset.questions {
            let row = known.get(question.id.as_str()).copied();
            changed.push((row, row.map_or_else(|| all_fields(question), |i| self.changes(i, question))));
        }
        let Some(rewrite) = self.layout.format.file().rewrite else {
            return Err(UnwritableFile::NotInPlace(self.name.clone()));
        };
        let bytes = rewrite(&OriginalFile { rows: &self.rows, layout: &self.layout }, &changed)
            .map_err(|cause| UnwritableFile::Write { file: self.name.clone(), cause })?;
        self.verify(&bytes)?;
        Ok(bytes)
    }

    /// The changed columns of a record.
    fn changes(&self, i: usize, now: &Question) -> Vec<(String, Value)> {
        let (before, fields) = (&self.before[i], &self.rows[i].fields);
        let column = |names: &[&'static str]| names.iter().find(|name| fields.contains_key(**name)).copied();
        let mut changes: Vec<(String, Value)> = Vec::new();
        let mut set = |name: &str, value: Value| changes.push((name.to_owned(), value));
        macro_rules! set_changed {
            ($($field:ident),+) => {
                $( if now.$field != before.$field { set(stringify!($field), json!(now.$field)); } )+
            };
        }
        if now.question != before.question {
            set(column(import::QUESTION).unwrap_or("question"), json!(now.question));
            // An id that is a hash of the words would change.
            let id = column(import::ID);
            if id.is_none_or(|id| super::cells::is_blank(&fields[id])) {
                set(id.unwrap_or("id"), json!(now.id));
            }
        }
        if now.turns != before.turns {
            set(column(import::TURNS).unwrap_or("turns"), json!(now.turns));
        }
        set_changed!(filter);
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
        set_changed!(evidence, tags, origin, split, attack, draft, review);
        changes
    }

    /// Refuses bytes that are not read back as the same questions.
    fn verify(&self, bytes: &[u8]) -> Result<(), UnwritableFile> {
        let file = || self.name.clone();
        if self.dataset.questions.is_empty() {
            return Err(UnwritableFile::Empty(file()));
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
                Err(UnwritableFile::Questions(file()))
            }
            None => Ok(()),
        }
    }
}

/// The fields of a new question.
fn all_fields(question: &Question) -> Vec<(String, Value)> {
    match serde_json::to_value(question) {
        Ok(Value::Object(fields)) => fields.into_iter().collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
