//! Reads the places of passages in documents, and checks that the text is there.
//!
//! | written as | counts |
//! |---|---|
//! | `start_byte`, `end_byte` | bytes of the document's text, everywhere |
//! | `start`, `end` | characters, as Python does; the document's text is needed |
//! | `span: {start, end}` | bytes in a file, characters in rows in memory |
//!
//! A place in the wrong unit would give a wrong score, so it is refused. It is
//! compared with the document's text if that is known, else with the golden
//! evidence at the same bytes.

use super::rows::RecordSource;
use super::{Evidence, cells::CellError};
use rag::{Document, Passage, Span};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// Quotes below this length (bytes without white space) may occur several times in
/// a document by chance.
const FEWEST_BYTES: usize = 24;

/// What to do without documents, in messages.
const DOCUMENTS: &str = "give the documents that places refer to (`documents`)";

/// Why a place cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum PlaceError {
    #[error("`{0}` and `{1}` are {values}: write two whole numbers, the lower first", .names[0], .names[1])]
    NoRange { names: [&'static str; 2], values: String },
    #[error("has one of `{0}` and `{1}`: write both", .names[0], .names[1])]
    OneEnd { names: [&'static str; 2] },
    #[error("`span` must be {{\"start\": …, \"end\": …}}")]
    NoSpan,
    #[error("`span`: {0}")]
    InSpan(Box<PlaceError>),
    #[error(
        "`start` and `end` count characters, for which the document's text is needed: {DOCUMENTS}, or `start_byte` and \
         `end_byte`"
    )]
    NoDocuments,
    #[error("is from `{0}`, which is none of the documents: write its path as they have it")]
    OtherDocument(String),
    #[error("`start` and `end` are {start} and {end}, and `{document}` has {characters} characters")]
    BeyondEnd { start: usize, end: usize, document: String, characters: usize },
    #[error(
        "its place has {characters} bytes, and its text {characters} characters in {length} bytes: the place counts \
         characters; write it as `start` and `end`, and {DOCUMENTS}, or count bytes"
    )]
    CountsCharacters { characters: usize, length: usize },
    #[error(
        "its text does not stand at bytes {start} to {end} of `{document}`, where there is {there}: `start` and `end` \
         count characters, `start_byte` and `end_byte` bytes"
    )]
    OtherText { start: usize, end: usize, document: String, there: String },
}

/// What is wrong with a list of passages.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum PassagesError {
    #[error(transparent)]
    Cell(#[from] CellError),
    #[error("must be a list of passages")]
    NoList,
    #[error("is no JSON list: {0}")]
    NotJson(String),
    #[error("at {number} {cause}")]
    Text { number: usize, cause: CellError },
    #[error("at {number} has no `text`: write a text, or {{\"text\": \"…\"}}")]
    NoText { number: usize },
    #[error("at {number}: `{column}` {cause}")]
    Field { number: usize, column: &'static str, cause: CellError },
    #[error("at {number}: {cause}")]
    Place { number: usize, cause: PlaceError },
    #[error(
        "at {number}: its place overlaps golden evidence of `{document}`, and its text has other words there: count both \
         places in bytes, or {DOCUMENTS}"
    )]
    OtherWords { number: usize, document: String },
    #[error(
        "at {number}: its text holds the quote of golden evidence, and its place does not overlap it; the same is true of \
         {elsewhere} of {all} passages with such a quote: count both places in bytes, or {DOCUMENTS}"
    )]
    Elsewhere { number: usize, elsewhere: usize, all: usize },
}

/// The texts of documents, by path.
#[derive(Debug, Default)]
pub(super) struct DocumentTexts<'a>(HashMap<&'a str, &'a str>);

impl<'a> DocumentTexts<'a> {
    pub(super) fn of(documents: &'a [Document]) -> Self {
        Self(documents.iter().map(|document| (document.path.as_str(), document.text.as_str())).collect())
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A pair of numbers in a row; null is absent.
fn pair(fields: &Map<String, Value>, names: [&'static str; 2]) -> Result<Option<(usize, usize)>, PlaceError> {
    let [first, second] = names.map(|name| fields.get(name).filter(|value| !value.is_null()));
    let number = |value: &Value| {
        // A column in which some values are missing holds floats in pandas.
        value
            .as_u64()
            .or_else(|| value.as_f64().filter(|number| number.fract() == 0.0 && *number >= 0.0).map(|n| n as u64))
    };
    match (first, second) {
        (None, None) => Ok(None),
        (Some(first), Some(second)) => match number(first).zip(number(second)) {
            Some((first, second)) if first < second => Ok(Some((first as usize, second as usize))),
            _ => Err(PlaceError::NoRange { names, values: format!("{first} and {second}") }),
        },
        _ => Err(PlaceError::OneEnd { names }),
    }
}

/// The place of a passage, in bytes; `None` if the row has none.
pub(super) fn read(
    fields: &Map<String, Value>,
    document: &str,
    record_source: RecordSource,
    texts: &DocumentTexts<'_>,
) -> Result<Option<Span>, PlaceError> {
    let nested = fields.get("span").filter(|value| !value.is_null());
    let nested = match nested {
        Some(Value::Object(span)) => span,
        Some(_) => return Err(PlaceError::NoSpan),
        None => &Map::new(),
    };
    let bytes = [fields, nested].into_iter().map(|holder| pair(holder, ["start_byte", "end_byte"]));
    for bytes in bytes {
        if let Some((start, end)) = bytes? {
            return Ok(Some(Span { start, end }));
        }
    }
    let inner = pair(nested, ["start", "end"]).map_err(|cause| PlaceError::InSpan(Box::new(cause)))?;
    if let (Some((start, end)), RecordSource::File) = (inner, record_source) {
        return Ok(Some(Span { start, end }));
    }
    let Some((start, end)) = inner.map_or_else(|| pair(fields, ["start", "end"]), |pair| Ok(Some(pair)))? else {
        return Ok(None);
    };
    let Some(text) = texts.0.get(document) else {
        return Err(match texts.is_empty() {
            true => PlaceError::NoDocuments,
            false => PlaceError::OtherDocument(document.to_owned()),
        });
    };
    let byte = |character: usize| text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(character);
    match byte(start).zip(byte(end)) {
        Some((start, end)) => Ok(Some(Span { start, end })),
        None => {
            let characters = text.chars().count();
            Err(PlaceError::BeyondEnd { start, end, document: document.to_owned(), characters })
        }
    }
}

/// Checks that the document holds the passage's text at its place.
pub(super) fn check(passage: &Passage, texts: &DocumentTexts<'_>) -> Result<(), PlaceError> {
    let Span { start, end } = passage.span;
    let (length, characters) = (passage.text.len(), passage.text.chars().count());
    if texts.is_empty() {
        return match end - start == characters && length != characters {
            true => Err(PlaceError::CountsCharacters { characters, length }),
            false => Ok(()),
        };
    }
    let Some(text) = texts.0.get(passage.document.as_str()) else {
        return Err(PlaceError::OtherDocument(passage.document.clone()));
    };
    let there = text.get(start..end).map(without_spaces);
    let own = without_spaces(&passage.text);
    // First line: an unchanged text must be at its place. Second line: a text that was
    // changed, for example by a heading before it, is nowhere in the document, but
    // contains the text at its place.
    let is_there = |there: &String| {
        there.contains(&own)
            || (!there.is_empty() && own.contains(there.as_str()) && !without_spaces(text).contains(&own))
    };
    if there.as_ref().is_some_and(is_there) {
        return Ok(());
    }
    let there = there.map_or_else(|| "no text".to_owned(), |there| format!("`{}`", beginning(&there)));
    Err(PlaceError::OtherText { start, end, document: passage.document.clone(), there })
}

/// Finds wrong places by the golden evidence of the same documents, for answers
/// without documents. `rows` has the line, the passages and the evidence of each
/// row; each error comes with its line.
pub(super) fn compare<'a>(
    rows: impl Iterator<Item = (usize, &'a [Passage], &'a [Evidence])>,
) -> Vec<(usize, PassagesError)> {
    let (mut faults, mut agree, mut elsewhere) = (Vec::new(), 0, Vec::new());
    for (line, passages, evidence) in rows {
        let passages = passages.iter().enumerate();
        for (i, passage) in passages.filter(|(_, passage)| !passage.document.is_empty() && !passage.span.is_empty()) {
            let golden = evidence.iter().filter(|golden| golden.document == passage.document);
            for golden in golden {
                match compare_place(passage, golden) {
                    PlaceComparison::Unknown => {}
                    PlaceComparison::Agree => agree += 1,
                    PlaceComparison::Elsewhere => elsewhere.push((line, i + 1)),
                    PlaceComparison::Differ => {
                        let document = passage.document.clone();
                        faults.push((line, PassagesError::OtherWords { number: i + 1, document }));
                    }
                }
            }
        }
    }
    // A quote may occur twice in a document, but a wrong unit moves most of them.
    if let Some(&(line, number)) = elsewhere.first().filter(|_| elsewhere.len() > agree) {
        let (elsewhere, all) = (elsewhere.len(), elsewhere.len() + agree);
        faults.push((line, PassagesError::Elsewhere { number, elsewhere, all }));
    }
    faults
}

enum PlaceComparison {
    /// They have nothing in common, or the evidence has no place.
    Unknown,
    Agree,
    /// The passage holds the quote, but its place is elsewhere.
    Elsewhere,
    /// The texts at the same bytes differ.
    Differ,
}

fn compare_place(passage: &Passage, golden: &Evidence) -> PlaceComparison {
    let Some(span) = golden.span else { return PlaceComparison::Unknown };
    let (quote, text) = (without_spaces(&golden.quote), without_spaces(&passage.text));
    let shared = Span { start: span.start.max(passage.span.start), end: span.end.min(passage.span.end) };
    if shared.start >= shared.end {
        let holds = quote.len() >= FEWEST_BYTES && text.contains(&quote);
        return if holds { PlaceComparison::Elsewhere } else { PlaceComparison::Unknown };
    }
    // In a changed text, bytes cannot be compared.
    if passage.text.len() != passage.span.len() {
        return PlaceComparison::Agree;
    }
    let offset = passage.span.start;
    let there = passage.text.get(shared.start - offset..shared.end - offset).map(without_spaces);
    let (from_its_start, to_its_end) = (shared.start == span.start, shared.end == span.end);
    let is_part = |there: String| match (from_its_start, to_its_end) {
        (true, true) => there == quote,
        (true, false) => quote.starts_with(&there),
        (false, true) => quote.ends_with(&there),
        (false, false) => quote.contains(&there),
    };
    match there.is_some_and(is_part) {
        true => PlaceComparison::Agree,
        false => PlaceComparison::Differ,
    }
}

/// A text without its white space, in which a quote and its document may differ.
fn without_spaces(text: &str) -> String {
    text.split_whitespace().collect()
}

fn beginning(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
