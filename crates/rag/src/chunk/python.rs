//! `python`: a function of the user's own cuts the document into chunks.
//!
//! When to use it: where the documents have a shape that only you know: a
//! ticket per paragraph, a question with its answer, a clause of a contract.
//! The file's path is relative to the experiment file:
//!
//! ```toml
//! chunker = [{ python = { file = "chunkers.py" } }, { python = { file = "chunkers.py", function = "by_clause" } }]
//! ```
//!
//! ```python
//! def chunk(text):
//!     return text.split("\n\n")
//! ```
//!
//! The function gets what its parameters name: `text` (of a document), `path`, `title`
//! (may be `None`). It returns a list of parts of the text in their order, as
//! strings that the text holds or as pairs of start and end, counted in
//! characters; parts may overlap or leave something out. So every chunk knows
//! where it stands, and golden evidence can be found in it. Blank parts are
//! left out. An exception, or a call that takes too long, ends the task; the
//! error names the document.

use super::{Chunker, outline::Outline};
use crate::{
    Chunk, Component, Context, Document, Error, Span, function_settings,
    python::{StageFunction, runs_function},
};
use async_trait::async_trait;
use serde_json::{Value, json};

pub(super) const VERSION: u32 = 2;
const NAME: &str = "chunker python";
const PARAMETERS: [&str; 3] = ["text", "path", "title"];

function_settings! {
    /// Settings of `python`.
    pub struct Config;
    /// The function. Default `chunk`.
    function = "chunk";
}

impl Component for Config {
    runs_function!();
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn Chunker>, Error> {
        Ok(Box::new(PythonChunker(StageFunction::new(NAME, self.script(), &PARAMETERS)?)))
    }
}

struct PythonChunker(StageFunction);

#[async_trait]
impl Chunker for PythonChunker {
    async fn chunk(&self, document: &Document) -> Result<Vec<Chunk>, Error> {
        let arguments = self.0.arguments(|name| match name {
            "text" => json!(document.text),
            "path" => json!(document.path),
            _ => json!(document.title),
        });
        let subject = Some(document.path.as_str());
        let parts = self.0.call(&arguments, subject)?;
        let spans = spans(&document.text, &parts).map_err(|error| self.0.unusable(error, subject))?;
        Ok(Outline::new(document).linked_chunks(spans))
    }
}

/// Why a part that the function returned is no part of the text.
#[derive(Debug, thiserror::Error)]
#[error(
    "part {index} {problem}: return a list of strings that the text holds, in order, or of [start, end] in characters"
)]
struct PartError {
    index: usize,
    problem: &'static str,
}

/// Where the parts are, in bytes.
fn spans(text: &str, parts: &Value) -> Result<Vec<Span>, PartError> {
    let wrong = |index: usize, problem: &'static str| PartError { index, problem };
    let parts = parts.as_array().ok_or_else(|| wrong(0, "is missing, because the function returned no list"))?;
    // Where each character starts, for parts that are pairs of positions.
    let mut starts: Option<Vec<usize>> = None;
    let mut spans: Vec<Span> = Vec::with_capacity(parts.len());
    for (i, part) in parts.iter().enumerate() {
        let span = if let Some(part) = part.as_str() {
            if part.trim().is_empty() {
                continue;
            }
            // After the start of the one before: parts may overlap, and the
            // same words may come twice.
            let after = spans.last().map_or(0, |before| text.ceil_char_boundary(before.start + 1));
            let found = text.get(after..).and_then(|rest| rest.find(part));
            let start = after + found.ok_or_else(|| wrong(i, "is not in the text after the one before"))?;
            Span { start, end: start + part.len() }
        } else {
            let starts =
                starts.get_or_insert_with(|| text.char_indices().map(|(start, _)| start).chain([text.len()]).collect());
            let end = |at: usize| part.get(at).and_then(Value::as_u64).and_then(|at| starts.get(at as usize).copied());
            let (Some(start), Some(end), 2) = (end(0), end(1), part.as_array().map_or(0, Vec::len)) else {
                return Err(wrong(i, "is neither a string nor [start, end] within the text"));
            };
            if start >= end || spans.last().is_some_and(|before| start < before.start) {
                return Err(wrong(i, "ends before it starts, or starts before the one before"));
            }
            if text[start..end].trim().is_empty() {
                continue;
            }
            Span { start, end }
        };
        spans.push(span);
    }
    Ok(spans)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::conformance_tests::text_document;

    fn chunks(source: &str, text: &str) -> Result<Vec<String>, String> {
        let chunker = Config { source: source.to_owned(), ..Config::default() }.build(&Context::default()).unwrap();
        let chunks = chunker.chunk_now(&text_document(text)).map_err(|error| error.to_string())?;
        assert!(chunks.iter().all(|chunk| text[chunk.span.start..chunk.span.end] == chunk.text));
        Ok(chunks.into_iter().map(|chunk| chunk.text).collect())
    }

    #[test]
    fn parts_are_strings_or_pairs_of_characters() {
        let text = "Öl é.\n\nOats.\n\n \n\nOats.";
        assert_eq!(
            chunks("def chunk(text):\n    return text.split('\\n\\n')\n", text).unwrap(),
            ["Öl é.", "Oats.", "Oats."]
        );
        let pairs = "def chunk(path, text):\n    return [(0, 5), [3, 12], (5, 7)]\n";
        assert_eq!(chunks(pairs, text).unwrap(), ["Öl é.", "é.\n\nOats."]);
    }

    #[test]
    fn what_is_no_part_of_the_text_is_refused_with_the_document() {
        let error = chunks("def chunk(text):\n    return [text.upper()]\n", "Some oats.").unwrap_err();
        assert!(error.contains("chunker python") && error.contains("part 0 is not in the text"), "{error}");
        assert!(chunks("def chunk(text):\n    return [(0, 99)]\n", "Oats.").unwrap_err().contains("within the text"));
        assert!(
            chunks("def chunk(text):\n    return 7\n", "Oats.").unwrap_err().contains("the function returned no list")
        );
        assert!(chunks("def chunk(text):\n    return text.oats\n", "Oats.").unwrap_err().contains("AttributeError"));
    }

    #[test]
    fn a_missing_file_is_named() {
        let config = Config { file: "cut.py".to_owned(), ..Config::default() };
        assert!(config.build(&Context::default()).err().unwrap().to_string().contains("cut.py"));
    }
}
