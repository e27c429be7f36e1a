//! Reads golden questions from JSONL and CSV files.
//!
//! When to use it: for questions that exist already, written by hand, exported
//! from this program, or made by DREAM (notebooks that score with Ragas) or Ragas. All errors of a file are reported
//! at once, each with its line and what to do.
//!
//! | what | columns |
//! |---|---|
//! | id | `id`, `question_id`; else made of the question's words |
//! | question | `question`, `user_input` (Ragas ≥ 0.2) |
//! | earlier messages of a conversation | `turns`, `history`, `chat_history`: a list of `{role, content}`, oldest first (`turns.rs`) |
//! | reference answer | `reference`, `ground_truth`, `ground_truths` (Ragas 0.1, DREAM: the first) |
//! | evidence | `evidence`: a list of `{document, quote, span?}`; else `quote` (a text or a list) with `document` (one, or one for each) |
//! | evidence without a document | `reference_contexts` (Ragas ≥ 0.2), `contexts` (Ragas 0.1, DREAM) |
//! | draft, split, review, origin, attack | `draft`, `split` (`tune`, `test`), `review`, `origin`, `attack`, as this program writes them |
//! | tags | `tags`, and the values of `evolution_type`, `synthesizer_name` |
//! | whether the documents answer it | `answerable`; `is_impossible` (SQuAD 2.0) says the opposite; else they do |
//!
//! `contexts` means two things in Ragas 0.1: the golden passages in a test set,
//! and the retrieved ones in a table of answers. It is evidence unless the row
//! has an `answer` or a `response`. An `answer` is the reference only in a row that
//! has neither a reference column nor contexts. `retrieved_contexts` and `response` are the
//! output of a system, and no part of a golden dataset.
//!
//! Unknown columns are listed in [`FileQuestions::ignored`]; a misspelt column is an
//! error. In CSV, lists are JSON or Python literals.

use super::cells::{CellError, boolean, find_filled, is_blank, text, texts};
use super::columns::{self, DOCUMENT, IgnoredColumn, QUOTE};
use super::fault::{ImportError, RecordError, RowError};
use super::format::{self, FileContent};
use super::rows::RecordSource;
use super::{Dataset, Evidence, Question, question_id, rows};
use models::Message;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::collections::HashMap;

pub(super) const ID: &[&str] = &["id", "question_id"];
pub(super) const QUESTION: &[&str] = &["question", "user_input"];
const REFERENCE: &[&str] = &["reference", "ground_truth", "ground_truths"];
pub(super) const TURNS: &[&str] = &["turns", "history", "chat_history"];
pub(super) const ANSWERABLE: &[&str] = &["answerable", "is_impossible"];
/// A row may have one column of each group; the second group is the question.
const GROUPS: [&[&str]; 5] = [ID, QUESTION, TURNS, REFERENCE, ANSWERABLE];
const OTHER: &[&str] =
    &["evidence", "reference_contexts", "contexts", "draft", "tags", "origin", "split", "review", "filter", "attack"];
const EXTRA_TAGS: &[&str] = &["evolution_type", "synthesizer_name"];
/// Reads a file of golden questions. Its name decides the format (`.jsonl`,
/// `.csv`, `.tsv`), or its content if the name is another.
///
/// # Errors
/// All errors of the file, in the order of their lines. Nothing is imported
/// then, because means over a part of a dataset differ from those over all of it.
pub fn import(name: &str, bytes: &[u8]) -> Result<Dataset, Vec<ImportError>> {
    read_file(name, bytes).map(|imported| imported.dataset)
}

/// The questions of a file.
#[derive(Debug)]
pub(super) struct FileQuestions {
    pub(super) dataset: Dataset,
    /// Columns that are not used.
    pub(super) ignored: Vec<IgnoredColumn>,
    /// The record of each question, in the same order.
    pub(super) rows: Vec<rows::FileRecord>,
}

/// The questions of rows in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowQuestions {
    /// The questions.
    pub dataset: Dataset,
    /// Columns that are not used.
    pub ignored: Vec<IgnoredColumn>,
}

/// Reads questions from rows in memory.
///
/// # Errors
/// All errors, each with the number of its row (from 0).
pub fn read_questions(records: &[Map<String, Value>]) -> Result<RowQuestions, Vec<RowError>> {
    let mut faults = Vec::new();
    if records.is_empty() {
        faults.push(RowError::new(0, "there are no rows: give one for each question"));
    }
    // Errors of columns that all rows have are reported once.
    let is_table = rows::is_table(records.iter());
    let row = |(line, fields): (usize, &Map<String, Value>)| rows::FileRecord {
        line,
        fields: fields.clone(),
        raw: rows::RawRecord::Cells(Vec::new()),
    };
    let rows = records.iter().enumerate().map(row).collect();
    let FileQuestions { dataset, ignored, .. } = read_rows(rows, is_table, RecordSource::Memory, faults)?;
    Ok(RowQuestions { dataset, ignored })
}

/// The questions of a file that can be read, and what is wrong with its other lines.
#[derive(Debug)]
pub struct ReadableQuestions {
    /// Each question with the line on which it begins.
    pub questions: Vec<(usize, Question)>,
    /// What is wrong with the other lines, in their order.
    pub faults: Vec<ImportError>,
}

/// Reads a file as [`import`] does, and leaves out the lines with mistakes.
///
/// # Errors
/// If no line can be read: the file holds no record, or its header is wrong.
pub fn import_readable(name: &str, bytes: &[u8]) -> Result<ReadableQuestions, Vec<ImportError>> {
    let (rows, mut faults) = read_records(name, bytes);
    let has_header = format::has_header(name, bytes);
    let questions = read_each(&rows, has_header, RecordSource::File, &mut faults);
    faults.sort_by_key(|fault| fault.number);
    let is_header_wrong = has_header && faults.iter().any(|fault| fault.number == RecordSource::File.first());
    let faults = faults.into_iter().map(|fault| fault.in_file(name)).collect();
    if rows.is_empty() || is_header_wrong { Err(faults) } else { Ok(ReadableQuestions { questions, faults }) }
}

pub(super) fn read_file(name: &str, bytes: &[u8]) -> Result<FileQuestions, Vec<ImportError>> {
    let (rows, faults) = read_records(name, bytes);
    read_rows(rows, format::has_header(name, bytes), RecordSource::File, faults)
        .map_err(|faults| faults.into_iter().map(|fault| fault.in_file(name)).collect())
}

/// The records of a file; one without any is a mistake.
fn read_records(name: &str, bytes: &[u8]) -> (Vec<rows::FileRecord>, Vec<RowError>) {
    let (rows, mut faults) = format::read(name, bytes, FileContent::Questions);
    if rows.is_empty() && faults.is_empty() {
        faults.push(RowError::new(1, "holds no question: write one JSON object per line, or a CSV file with a header"));
    }
    (rows, faults)
}

fn read_rows(
    rows: Vec<rows::FileRecord>,
    has_header: bool,
    record_source: RecordSource,
    mut faults: Vec<RowError>,
) -> Result<FileQuestions, Vec<RowError>> {
    let questions = read_each(&rows, has_header, record_source, &mut faults);
    if faults.is_empty() {
        let ignored = columns::ignored(&rows, is_used, &known_columns());
        let dataset = Dataset { questions: questions.into_iter().map(|(_, question)| question).collect() };
        return Ok(FileQuestions { dataset, ignored, rows });
    }
    faults.sort_by_key(|fault| fault.number);
    Err(faults)
}

/// The questions of the rows without mistakes, each with its line. Adds the mistakes of the others.
fn read_each(
    rows: &[rows::FileRecord],
    has_header: bool,
    record_source: RecordSource,
    faults: &mut Vec<RowError>,
) -> Vec<(usize, Question)> {
    let mut questions = Vec::new();
    let mut lines_of_ids: HashMap<String, usize> = HashMap::new();
    if let Some(first) = rows.first().filter(|_| has_header) {
        // Every row has the header's columns: their errors are reported once.
        columns::check(&first.fields, &GROUPS, &[OTHER, EXTRA_TAGS], record_source.first(), faults);
    }
    for row in rows {
        let n_faults = faults.len();
        if !has_header {
            columns::check(&row.fields, &GROUPS, &[OTHER, EXTRA_TAGS], row.line, faults);
        }
        let question = read_question(&row.fields, row.line, record_source, faults);
        if let Some(known) = lines_of_ids.get(&question.id) {
            let (id, word) = (&question.id, record_source.word());
            faults.push(RowError::new(
                row.line,
                format!("has the id `{id}` of {word} {known}: ids must differ, and each question may appear only once"),
            ));
        }
        lines_of_ids.entry(question.id.clone()).or_insert(row.line);
        if faults.len() == n_faults {
            questions.push((row.line, question));
        }
    }
    questions
}

/// All columns that can be used.
fn known_columns() -> Vec<&'static str> {
    [ID, QUESTION, TURNS, REFERENCE, ANSWERABLE, OTHER, EXTRA_TAGS, QUOTE, DOCUMENT]
        .into_iter()
        .flatten()
        .copied()
        .collect()
}

/// Whether a question uses this column.
fn is_used(name: &str, fields: &Map<String, Value>) -> bool {
    match name {
        "answer" => reference_column(fields) == Some("answer"),
        "contexts" => !fields.contains_key("answer") && !fields.contains_key("response"),
        name if DOCUMENT.contains(&name) => QUOTE.iter().any(|quote| fields.contains_key(*quote)),
        name => known_columns().contains(&name),
    }
}

/// The column of the reference answer.
pub(super) fn reference_column(fields: &Map<String, Value>) -> Option<&'static str> {
    let named = REFERENCE.iter().find(|name| fields.contains_key(**name)).copied();
    let is_answer = fields.contains_key("answer") && !fields.contains_key("contexts");
    named.or_else(|| is_answer.then_some("answer"))
}

fn read_question(
    fields: &Map<String, Value>,
    line: usize,
    record_source: RecordSource,
    faults: &mut Vec<RowError>,
) -> Question {
    let mut fault = |cause: RecordError| faults.push(RowError::new(line, cause));
    let asked = QUESTION.iter().find_map(|name| fields.get(*name));
    let question = match asked.map(text) {
        Some(Ok(question)) if !question.is_empty() => question,
        Some(Ok(_)) => {
            fault(format!("has an empty question: write one, or remove the {}", record_source.word()).into());
            String::new()
        }
        Some(Err(cause)) => {
            fault(RecordError::in_column("question")(cause));
            String::new()
        }
        // Reported with the columns.
        None => String::new(),
    };
    let turns = find_filled(fields, TURNS).map_or(Ok(Vec::new()), |(name, value)| {
        super::turns::read(value).map_err(|cause| RecordError::Turns { column: name, cause })
    });
    let turns = turns.map_err(&mut fault).unwrap_or_default();
    let id = match ID.iter().find_map(|name| fields.get(*name)).map(text) {
        Some(Ok(id)) if !id.is_empty() => id,
        Some(Err(cause)) => {
            fault(RecordError::in_column("id")(cause));
            format!("line {line}")
        }
        // A missing or empty question is an error of its own.
        _ if question.is_empty() => format!("line {line}"),
        _ => id_of(&turns, &question),
    };
    let reference = read_reference(fields).map_err(&mut fault).unwrap_or_default();
    let evidence = read_evidence(fields).unwrap_or_else(|reasons| {
        reasons.into_iter().for_each(&mut fault);
        Vec::new()
    });
    let tags = read_tags(fields).map_err(&mut fault).unwrap_or_default();
    let answerable = read_answerable(fields).map_err(&mut fault).unwrap_or(true);
    if !answerable && !evidence.is_empty() {
        fault("is marked as unanswerable, but has evidence: remove one of them".into());
    }
    let origin = read_own_field(fields, "origin", &mut fault);
    let draft = find_filled(fields, &["draft"]);
    let draft =
        draft.map(|(_, draft)| text(draft)).transpose().map_err(RecordError::in_column("draft")).map_err(&mut fault);
    let draft = draft.unwrap_or_default();
    let split = read_own_field(fields, "split", &mut fault);
    let review = read_own_field(fields, "review", &mut fault);
    let filter = read_own_field(fields, "filter", &mut fault);
    let attack = read_own_field(fields, "attack", &mut fault);
    Question {
        id,
        question,
        turns,
        reference,
        draft,
        evidence,
        tags,
        answerable,
        origin,
        split,
        review,
        filter,
        attack,
    }
}

/// The id of a question without one. The same words after other messages are
/// another question.
pub(super) fn id_of(turns: &[Message], question: &str) -> String {
    let said = turns.iter().map(|message| message.content.as_str()).chain([question]);
    question_id('q', &said.collect::<Vec<_>>().join("\n"))
}

/// A field that this program writes: JSON, or JSON in a cell.
fn read_own_field<T: DeserializeOwned>(
    fields: &Map<String, Value>,
    name: &str,
    fault: &mut impl FnMut(RecordError),
) -> Option<T> {
    let value = fields.get(name).filter(|value| !is_blank(value))?;
    let read = serde_json::from_value(value.clone()).or_else(|error| match value {
        Value::String(cell) => serde_json::from_str(cell).map_err(|_| error),
        _ => Err(error),
    });
    read.map_err(|error| fault(RecordError::in_column(name)(CellError::Json(error.to_string())))).ok()
}

/// Whether the documents hold an answer; the default is yes.
pub(super) fn read_answerable(fields: &Map<String, Value>) -> Result<bool, RecordError> {
    let Some((name, value)) = find_filled(fields, ANSWERABLE) else { return Ok(true) };
    let value = boolean(value).map_err(RecordError::in_column(name))?;
    Ok(value == (name == "answerable"))
}

fn read_reference(fields: &Map<String, Value>) -> Result<Option<String>, RecordError> {
    let Some(name) = reference_column(fields) else { return Ok(None) };
    let value = &fields[name];
    let reference = if name == "ground_truths" {
        texts(value).map(|texts| texts.into_iter().next().unwrap_or_default())
    } else {
        text(value)
    };
    let reference = reference.map_err(RecordError::in_column(name))?;
    // pandas writes what is missing as `nan`.
    Ok(Some(reference).filter(|reference| !reference.is_empty() && !reference.eq_ignore_ascii_case("nan")))
}

fn read_evidence(fields: &Map<String, Value>) -> Result<Vec<Evidence>, Vec<RecordError>> {
    if let Some((_, value)) = find_filled(fields, &["evidence"]) {
        // Golden questions in memory have the form of a golden file, so their `span` counts bytes and is kept.
        return read_own_evidence(value, RecordSource::File);
    }
    if let Some((name, value)) =
        QUOTE.iter().find_map(|name| Some((*name, fields.get(*name)?))).filter(|(_, value)| !is_blank(value))
    {
        return read_quotes(fields, name, value).map_err(|reason| vec![reason]);
    }
    let is_golden = !fields.contains_key("answer") && !fields.contains_key("response");
    let names: &[&str] = if is_golden { &["reference_contexts", "contexts"] } else { &["reference_contexts"] };
    let Some((name, value)) = find_filled(fields, names) else { return Ok(Vec::new()) };
    let contexts = texts(value).map_err(|cause| vec![RecordError::in_column(name)(cause)])?;
    let quotes = contexts.iter().map(|context| without_hop(context)).filter(|quote| !quote.is_empty());
    Ok(quotes.map(|quote| Evidence { document: String::new(), quote: quote.to_owned(), span: None }).collect())
}

/// Quotes in a column of their own, with their documents in another.
fn read_quotes(fields: &Map<String, Value>, name: &str, value: &Value) -> Result<Vec<Evidence>, RecordError> {
    let quotes = texts(value).map_err(RecordError::in_column(name))?;
    let documents = match find_filled(fields, DOCUMENT) {
        Some((name, value)) => texts(value).map_err(RecordError::in_column(name))?,
        None => vec![String::new()],
    };
    if documents.len() != 1 && documents.len() != quotes.len() {
        let (quotes, documents) = (quotes.len(), documents.len());
        let rule = "give one document, or one for each quote";
        return Err(format!("has {quotes} quotes and {documents} documents: {rule}").into());
    }
    let documents = documents.iter().cycle();
    let pairs = quotes.into_iter().zip(documents).filter(|(quote, _)| !quote.is_empty());
    Ok(pairs.map(|(quote, document)| Evidence { document: document.clone(), quote, span: None }).collect())
}

/// Evidence in our own form. With [`RecordSource::Memory`] (rows of answers that a program
/// passes) `span` is ignored, because programs count characters; the quote is searched instead.
pub(super) fn read_own_evidence(value: &Value, record_source: RecordSource) -> Result<Vec<Evidence>, Vec<RecordError>> {
    const SHAPE: &str = "write [{\"document\": \"path\", \"quote\": \"words\"}]";
    let parsed;
    let value = match value {
        // A cell of a CSV file.
        Value::String(text) => match serde_json::from_str(text) {
            Ok(value) => {
                parsed = value;
                &parsed
            }
            Err(error) => return Err(vec![format!("`evidence` is not JSON ({error}): {SHAPE}").into()]),
        },
        value => value,
    };
    let Value::Array(items) = value else { return Err(vec![format!("`evidence` is no list: {SHAPE}").into()]) };
    let mut evidence = Vec::new();
    let mut reasons: Vec<RecordError> = Vec::new();
    for (i, item) in items.iter().enumerate() {
        let number = i + 1;
        match own_evidence(item, record_source) {
            Ok(item) if item.quote.trim().is_empty() => {
                reasons.push(format!("evidence {number} has an empty quote: copy the words from the document").into());
            }
            Ok(item) if item.span.is_some_and(|span| span.start >= span.end) => {
                reasons.push(
                    format!("evidence {number} has a span that ends before it starts: correct or remove it").into(),
                );
            }
            Ok(item) => evidence.push(item),
            Err(error) => reasons.push(format!("evidence {number}: {error}; {SHAPE}").into()),
        }
    }
    if reasons.is_empty() { Ok(evidence) } else { Err(reasons) }
}

fn own_evidence(item: &Value, record_source: RecordSource) -> Result<Evidence, serde_json::Error> {
    let mut item = item.clone();
    if let Value::Object(fields) = &mut item {
        let places = ["start", "end", "start_byte", "end_byte"].map(|name| (name, fields.remove(name)));
        let [_, _, start, end] = places.map(|(_, value)| value.filter(|value| !value.is_null()));
        if record_source == RecordSource::Memory {
            fields.remove("span");
        }
        if let Some((start, end)) = start.zip(end) {
            fields.insert("span".to_owned(), serde_json::json!({ "start": start, "end": end }));
        }
    }
    serde_json::from_value(item)
}

pub(super) fn read_tags(fields: &Map<String, Value>) -> Result<Vec<String>, RecordError> {
    let mut tags = match fields.get("tags") {
        // A cell that is no list holds words between commas.
        Some(Value::String(cell)) if !cell.trim_start().starts_with(['[', '(']) => {
            cell.split(',').map(|tag| tag.trim().to_owned()).collect()
        }
        Some(value) if !is_blank(value) => texts(value).map_err(RecordError::in_column("tags"))?,
        _ => Vec::new(),
    };
    for name in EXTRA_TAGS {
        tags.extend(fields.get(*name).and_then(Value::as_str).map(|tag| tag.trim().to_owned()));
    }
    tags.retain(|tag| !tag.is_empty());
    Ok(tags)
}

/// Ragas puts `<1-hop>` and an empty line before the contexts of a question
/// over several passages; they stand in no document.
fn without_hop(context: &str) -> &str {
    let context = context.trim();
    match context.strip_prefix('<').and_then(|rest| rest.split_once("-hop>")) {
        Some((number, rest)) if number.chars().all(|c| c.is_ascii_digit()) => rest.trim(),
        _ => context,
    }
}

#[cfg(test)]
mod tests;
