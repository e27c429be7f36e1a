//! `load::written`: documents from what another parser writes: Markdown with page marks, or the same as JSON.

use super::{Document, Format, LoadError, ParseLimits, headings, markdown, text};
use crate::types::{Page, Span};
use serde_json::Value;
use store::Key;

/// What stands between two pages of a text.
const PAGE_MARK: char = '\u{c}';
/// Why a parser's output is no document.
const NO_DOCUMENT: &str = "its parser returned neither a text nor a list of pages nor a table with `text` or `pages`";

/// What another parser found in a file.
#[derive(Default)]
struct WrittenText {
    title: Option<String>,
    author: Option<String>,
    /// The pages with their numbers; one without a number for a text without pages.
    pages: Vec<(Option<u32>, String)>,
}

/// The document of a file's bytes from what a program wrote to its standard output.
///
/// # Errors
/// If there is no text, or more than the limits allow.
pub(crate) fn written_document(
    path: &str,
    bytes: &[u8],
    output: &[u8],
    limits: &ParseLimits,
) -> Result<Document, LoadError> {
    let output = text::decode(output, None);
    // A Markdown text begins with a brace if it is about programs, but is then no JSON.
    let json = output.trim_start().starts_with('{').then(|| serde_json::from_str::<Value>(&output).ok()).flatten();
    match json {
        Some(json) => returned_document(path, bytes, &json, limits),
        None => document(path, bytes, WrittenText { pages: pages_of_text(&output), ..WrittenText::default() }, limits),
    }
}

/// The document of a file's bytes from the value that a function returned.
///
/// # Errors
/// As [`written_document`], and if the value is no text.
pub(crate) fn returned_document(
    path: &str,
    bytes: &[u8],
    returned: &Value,
    limits: &ParseLimits,
) -> Result<Document, LoadError> {
    let broken = || LoadError::Broken(NO_DOCUMENT.to_owned());
    let words = |name: &str| returned.get(name).and_then(Value::as_str).map(str::to_owned);
    let pages = match returned {
        Value::String(text) => pages_of_text(text),
        Value::Array(pages) => numbered(pages).ok_or_else(broken)?,
        Value::Object(table) => match (table.get("pages"), table.get("text")) {
            (Some(Value::Array(pages)), _) => numbered(pages).ok_or_else(broken)?,
            (_, Some(Value::String(text))) => pages_of_text(text),
            _ => return Err(broken()),
        },
        _ => return Err(broken()),
    };
    document(path, bytes, WrittenText { title: words("title"), author: words("author"), pages }, limits)
}

/// The pages of a text with page marks; a text without marks has no pages.
fn pages_of_text(text: &str) -> Vec<(Option<u32>, String)> {
    if !text.contains(PAGE_MARK) {
        return vec![(None, text.to_owned())];
    }
    // A mark at the end ends the last page.
    let text = text.trim_end().strip_suffix(PAGE_MARK).unwrap_or(text);
    (1..).zip(text.split(PAGE_MARK)).map(|(number, page)| (Some(number), page.to_owned())).collect()
}

/// Pages with their numbers: stated, or one more than the page before. None if one of them is no page.
fn numbered(pages: &[Value]) -> Option<Vec<(Option<u32>, String)>> {
    let mut last = 0_u32;
    let page = |page: &Value| {
        let text = page.as_str().or_else(|| page.get("text")?.as_str())?;
        let stated = page.get("number").and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok());
        last = stated.unwrap_or(last.saturating_add(1));
        Some((Some(last), text.to_owned()))
    };
    pages.iter().map(page).collect()
}

fn document(path: &str, bytes: &[u8], written: WrittenText, limits: &ParseLimits) -> Result<Document, LoadError> {
    let WrittenText { title, author, pages: parts } = written;
    if parts.len() > limits.pages as usize {
        return Err(LoadError::OverLimit(format!("{} pages, and at most {} are read", parts.len(), limits.pages)));
    }
    let (mut text, mut pages) = (String::new(), Vec::new());
    for (number, part) in parts {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        let start = text.len();
        text.push_str(part.trim());
        pages.extend(number.map(|number| Page { number, span: Span { start, end: text.len() } }));
        limits.check_text(text.len())?;
    }
    if text.trim().is_empty() {
        return Err(LoadError::Empty("its parser found none".to_owned()));
    }
    let headings = markdown::headings(&text);
    let first = headings.iter().find(|heading| heading.level == 1).map(|heading| heading.title.clone());
    let stated = |words: Option<String>| words.filter(|words| !words.trim().is_empty()).map(headings::clip_title);
    let tables = markdown::tables(&text);
    let document = Document {
        path: path.to_owned(),
        content: Key::of_bytes(bytes),
        format: Format::Markdown,
        title: stated(title).or(first),
        author: stated(author),
        text,
        pages,
        headings,
        metadata: Default::default(),
        tables: Vec::new(),
        problems: Vec::new(),
    };
    Ok(document.with_tables(tables))
}
