//! Reads answers of any system, to be scored: JSONL and CSV files with a question,
//! an answer, retrieved passages, and a reference.
//!
//! When to use it: for answers that no trial gave. All errors of a file are
//! reported at once, each with its line and what to do, before anything is scored.
//!
//! | what | columns |
//! |---|---|
//! | id | `id`, `question_id`; else `line-N` (in a file), `row-N` (in memory) |
//! | question | `question`, `user_input` (Ragas ≥ 0.2), `query`, `input` (DeepEval) |
//! | answer | `answer`, `response` (Ragas ≥ 0.2), `actual_output` (DeepEval), `prediction`, `output` |
//! | passages | `contexts`, `retrieved_contexts` (Ragas ≥ 0.2), `retrieval_context` (DeepEval), `passages` |
//! | reference answer | `reference`, `ground_truth`, `ground_truths` (the first), `expected_output` (DeepEval), `expected` |
//! | golden evidence | `evidence`: a list of `{document, quote, span?}`; the span's bytes also as `start_byte`, `end_byte` |
//! | tags | `tags` |
//! | whether the documents answer it | `answerable`, `is_impossible` |
//!
//! Rows that Phoenix, LangSmith or Langfuse exported are read too (`traced.rs`).
//!
//! A passage is a text, or an object with a `text` (`content`, `page_content`),
//! a `document` and its place in the document's text (`places.rs`). A text alone has no place in a
//! document, so metrics that look for evidence do not apply to it.
//!
//! A missing value (no column, `null`) differs from an empty one: a row without
//! passages cannot be scored by metrics of retrieval, and a row with an empty list
//! retrieved nothing. Citations are numbers in brackets for which there is a
//! passage (`[1]`, `[1, 3]`).
//!
//! Other columns are passed to metrics that are the user's own functions. A
//! misspelt column is an error.

use super::cells::{find_filled, is_blank, text, texts};
use super::fault::{ImportError, RecordError, RowError};
use super::format::{self, FileContent};
use super::import::{read_answerable, read_own_evidence, read_tags};
use super::places::{self, DocumentTexts, PassagesError};
use super::rows::RecordSource;
use super::traced::{self, NumberedRow};
use super::{Dataset, Question, columns, rows};
use crate::words;
use rag::{Answer, Document, Passage};
use serde_json::{Map, Value};
use std::collections::HashMap;

const ID: &[&str] = &["id", "question_id"];
const QUESTION: &[&str] = &["question", "user_input", "query", "input"];
const ANSWER: &[&str] = &["answer", "response", "actual_output", "prediction", "output"];
const PASSAGES: &[&str] = &["contexts", "retrieved_contexts", "retrieval_context", "passages"];
const REFERENCE: &[&str] = &["reference", "ground_truth", "ground_truths", "expected_output", "expected"];
/// A row may have one column of each group; the second group is the question.
const GROUPS: [&[&str]; 5] = [ID, QUESTION, ANSWER, PASSAGES, REFERENCE];
const OTHER: &[&str] = &["evidence", "tags", "answerable", "is_impossible", "reference_contexts"];
/// Columns that are not passed on in [`AnsweredRow::columns`].
const OWN: [&[&str]; 5] = [QUESTION, ANSWER, PASSAGES, REFERENCE, &["evidence", "answerable", "is_impossible"]];
const TEXT: &[&str] = &["text", "content", "page_content"];

/// The answer of a system to one question.
#[derive(Debug, Clone, PartialEq)]
pub struct AnsweredRow {
    /// The line of the file, from 1, or the number of the row in memory, from 0.
    pub line: usize,
    /// The question, with its reference and evidence if the row has them.
    pub question: Question,
    /// The retrieved passages, best first; `None` if the row has no such column.
    pub passages: Option<Vec<Passage>>,
    /// The answer; `None` if the row has no such column.
    pub answer: Option<Answer>,
    /// The row's other columns, by name, with `id` and `tags`.
    pub columns: Map<String, Value>,
}

/// Reads a file of answers. Its name decides the format (`.jsonl`, `.csv`,
/// `.tsv`), or its content if the name is another.
///
/// # Errors
/// All errors of the file, in the order of their lines.
pub fn import_answers(name: &str, bytes: &[u8], documents: &[Document]) -> Result<Vec<AnsweredRow>, Vec<ImportError>> {
    let (records, mut faults) = format::read(name, bytes, FileContent::Other);
    if records.is_empty() && faults.is_empty() {
        faults.push(RowError::new(1, "holds no answer: write one JSON object per line, or a CSV file with a header"));
    }
    let records: Vec<NumberedRow<'_>> = records.iter().map(|row| (row.line, &row.fields)).collect();
    let read = read_all(&records, format::has_header(name, bytes), RecordSource::File, documents, faults);
    read.map_err(|faults| faults.into_iter().map(|fault| fault.in_file(name)).collect())
}

/// Reads answers from rows in memory. The `line` of a row is its number, from 0.
/// `documents` are the documents that passages and evidence refer to, if they are
/// known: places in characters need them, places in bytes are checked with them,
/// and evidence is searched in them.
///
/// # Errors
/// All errors, each with the number of its row.
pub fn read_answers(records: &[Map<String, Value>], documents: &[Document]) -> Result<Vec<AnsweredRow>, Vec<RowError>> {
    let mut faults = Vec::new();
    if records.is_empty() {
        faults.push(RowError::new(0, "there are no rows: give one for each answer"));
    }
    // Errors of columns that all rows have are reported once.
    let is_table = rows::is_table(records.iter());
    let records: Vec<NumberedRow<'_>> = records.iter().enumerate().collect();
    read_all(&records, is_table, RecordSource::Memory, documents, faults)
}

fn read_all(
    records: &[NumberedRow<'_>],
    has_header: bool,
    record_source: RecordSource,
    documents: &[Document],
    mut faults: Vec<RowError>,
) -> Result<Vec<AnsweredRow>, Vec<RowError>> {
    let traced = traced::read_traced(records);
    let traced: Option<Vec<NumberedRow<'_>>> =
        traced.as_ref().map(|rows| rows.iter().map(|(number, fields)| (*number, fields)).collect());
    let records = traced.as_deref().unwrap_or(records);
    if let Some((_, fields)) = records.first().filter(|_| has_header) {
        columns::check(fields, &GROUPS, &[OTHER], record_source.first(), &mut faults);
    }
    let mut answered: Vec<AnsweredRow> = Vec::new();
    let texts = DocumentTexts::of(documents);
    let mut lines_of_ids: HashMap<String, usize> = HashMap::new();
    for (line, fields) in records {
        let line = *line;
        if !has_header {
            columns::check(fields, &GROUPS, &[OTHER], line, &mut faults);
        }
        let read = read(fields, line, record_source, &texts, &mut faults);
        let id = &read.question.id;
        if let Some(known) = lines_of_ids.get(id) {
            faults.push(RowError::new(
                line,
                format!("has the id `{id}` of {} {known}: ids must differ", record_source.word()),
            ));
        }
        lines_of_ids.entry(id.clone()).or_insert(line);
        answered.push(read);
    }
    if documents.is_empty() {
        let rows = answered
            .iter()
            .map(|row| (row.line, row.passages.as_deref().unwrap_or_default(), row.question.evidence.as_slice()));
        let fault = |(line, cause)| RowError::new(line, RecordError::Passages { column: "contexts", cause });
        faults.extend(places::compare(rows).into_iter().map(fault));
    } else {
        let questions = answered.iter().map(|row| row.question.clone()).collect();
        let mut dataset = Dataset { questions };
        dataset.anchor(documents.iter().map(|document| (&document.path, &document.text)));
        for (row, question) in answered.iter_mut().zip(dataset.questions) {
            row.question = question;
        }
    }
    if faults.is_empty() {
        return Ok(answered);
    }
    faults.sort_by_key(|fault| fault.number);
    Err(faults)
}

/// The id of a row without one.
fn numbered_id(record_source: RecordSource, line: usize) -> String {
    format!("{}-{line}", record_source.word())
}

/// Whether this id was made from the row's number, because the row has no id.
pub fn is_numbered_id(id: &str, line: usize) -> bool {
    [RecordSource::File, RecordSource::Memory].into_iter().any(|record_source| id == numbered_id(record_source, line))
}

/// The first of some columns that is present and not null.
fn find<'a>(fields: &'a Map<String, Value>, names: &[&'static str]) -> Option<(&'static str, &'a Value)> {
    names.iter().find_map(|name| Some((*name, fields.get(*name).filter(|value| !value.is_null())?)))
}

fn read(
    fields: &Map<String, Value>,
    line: usize,
    record_source: RecordSource,
    documents: &DocumentTexts<'_>,
    faults: &mut Vec<RowError>,
) -> AnsweredRow {
    let mut fault = |cause: RecordError| faults.push(RowError::new(line, cause));
    let mut read_text = |names: &[&'static str]| {
        let (name, value) = find(fields, names)?;
        let read = if name == "ground_truths" {
            texts(value).map(|texts| texts.into_iter().next().unwrap_or_default())
        } else {
            text(value)
        };
        read.map_err(|cause| fault(RecordError::in_column(name)(cause))).ok()
    };
    let id = read_text(ID).filter(|id| !id.is_empty()).unwrap_or_else(|| numbered_id(record_source, line));
    let question = read_text(QUESTION);
    let answer = read_text(ANSWER);
    let reference = read_text(REFERENCE).filter(|text| !text.is_empty() && !text.eq_ignore_ascii_case("nan"));
    let has_column = QUESTION.iter().any(|name| fields.contains_key(*name));
    if question.as_deref().is_none_or(str::is_empty) && has_column {
        fault(format!("has an empty question: write one, or remove the {}", record_source.word()).into());
    }
    let passages = find(fields, PASSAGES).filter(|(_, value)| !is_blank(value)).and_then(|(name, value)| {
        let read = read_passages(value, record_source, documents);
        read.map_err(|cause| fault(RecordError::Passages { column: name, cause })).ok()
    });
    let evidence = find_filled(fields, &["evidence"]).map(|(_, value)| read_own_evidence(value, record_source));
    let evidence = evidence.unwrap_or(Ok(Vec::new())).unwrap_or_else(|reasons| {
        reasons.into_iter().for_each(&mut fault);
        Vec::new()
    });
    let tags = read_tags(fields).map_err(&mut fault).unwrap_or_default();
    let answerable = read_answerable(fields).map_err(&mut fault).unwrap_or(true);
    let citations = |text: &str| match &passages {
        Some(passages) => words::citations(text, passages.len()),
        None => words::unchecked_citations(text),
    };
    let answer = answer.map(|text| Answer { citations: citations(&text), text, ..Answer::default() });
    let question = question.unwrap_or_default();
    let columns = fields.iter().filter(|(name, _)| !OWN.iter().any(|names| names.contains(&name.as_str())));
    let columns = columns.map(|(name, value)| (name.clone(), value.clone())).collect();
    AnsweredRow {
        line,
        question: Question { id, question, reference, evidence, tags, answerable, ..Question::default() },
        passages,
        answer,
        columns,
    }
}

fn read_passages(
    value: &Value,
    record_source: RecordSource,
    documents: &DocumentTexts<'_>,
) -> Result<Vec<Passage>, PassagesError> {
    let parsed;
    let items = match value {
        Value::Array(items) => items,
        // A cell of a CSV file that holds objects.
        Value::String(cell) if cell.trim_start().starts_with("[{") => match serde_json::from_str(cell) {
            Ok(Value::Array(items)) => {
                parsed = items;
                &parsed
            }
            Ok(_) => return Err(PassagesError::NoList),
            Err(error) => return Err(PassagesError::NotJson(error.to_string())),
        },
        other => {
            parsed = texts(other)?.into_iter().map(Value::String).collect();
            &parsed
        }
    };
    items
        .iter()
        .filter(|item| !item.is_null())
        .enumerate()
        .map(|(i, item)| passage(i + 1, item, record_source, documents))
        .collect()
}

fn passage(
    number: usize,
    item: &Value,
    record_source: RecordSource,
    documents: &DocumentTexts<'_>,
) -> Result<Passage, PassagesError> {
    let plain = |text: String| Passage { text, ..Passage::default() };
    let Value::Object(fields) = item else {
        return text(item).map(plain).map_err(|cause| PassagesError::Text { number, cause });
    };
    let Some((name, value)) = find(fields, TEXT) else {
        return Err(PassagesError::NoText { number });
    };
    let field = |column, value| text(value).map_err(|cause| PassagesError::Field { number, column, cause });
    let mut passage = plain(field(name, value)?);
    if let Some((name, value)) = find(fields, &["document", "source"]) {
        passage.document = field(name, value)?;
    }
    let wrong = |cause| PassagesError::Place { number, cause };
    if let Some(span) = places::read(fields, &passage.document, record_source, documents).map_err(wrong)? {
        passage.span = span;
        places::check(&passage, documents).map_err(wrong)?;
    }
    Ok(passage)
}

#[cfg(test)]
mod tests;
