//! `python`: a function of the user's own reads the file.
//!
//! When to use it: for a parser that is a Python package, which is loaded once and kept, or for files that only you can
//! read. The file's path is relative to the experiment file:
//!
//! ```toml
//! parse = ["text", { pdf = { python = { file = "parsers.py" } } }]
//! ```
//!
//! ```python
//! import pymupdf4llm
//!
//! def parse(file):
//!     return [page["text"] for page in pymupdf4llm.to_markdown(file, page_chunks=True)]
//! ```
//!
//! The function gets what its parameters name: `file` (the path of a copy, whose name ends as that of the file) and
//! `path` (the name of the document). It returns Markdown: a string, a list of pages, or a dict with `text` or `pages`,
//! `title` and `author`. Pages are strings, or dicts with `number` and `text`. An exception loses the one file. A call
//! that takes too long says nothing about the file, which the next run tries again.

use super::{ParseError, Parser, command::copy_of};
use crate::{
    Component, Context, Document, Error, function_settings,
    load::{self, LoadError, ParseLimits},
    python::{FailureKind, StageFunction, runs_function},
};
use serde_json::json;

pub(super) const VERSION: u32 = 1;
const NAME: &str = "parse python";
const PARAMETERS: [&str; 2] = ["file", "path"];

function_settings! {
    /// Settings of `python`.
    pub struct Config;
    /// The function. Default `parse`.
    function = "parse";
}

impl Component for Config {
    runs_function!();
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn Parser>, Error> {
        Ok(Box::new(PythonParser(StageFunction::new(NAME, self.script(), &PARAMETERS)?)))
    }
}

struct PythonParser(StageFunction);

impl Parser for PythonParser {
    fn parse(&self, path: &str, bytes: &[u8], limits: &ParseLimits) -> Result<Document, ParseError> {
        limits.check_file(bytes.len() as u64)?;
        let copy = copy_of(path, bytes)
            .map_err(|error| ParseError::Failed(format!("a copy of it cannot be written: {error}")))?;
        let arguments = self.0.arguments(|name| match name {
            "file" => json!(copy.path().display().to_string()),
            _ => json!(path),
        });
        match self.0.call(&arguments, Some(path)) {
            Ok(returned) => Ok(load::returned_document(path, bytes, &returned, limits)?),
            Err(Error::Function { failure, .. }) if failure.kind == FailureKind::Raised => {
                Err(LoadError::Broken(failure.to_string()).into())
            }
            Err(Error::Function { failure, .. }) if failure.kind == FailureKind::TimedOut => {
                Err(ParseError::Failed(failure.to_string()))
            }
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(source: &str, path: &str, bytes: &[u8]) -> Result<Document, ParseError> {
        let parser = Config { source: source.to_owned(), ..Config::default() }.build(&Context::default()).unwrap();
        parser.parse(path, bytes, &ParseLimits::default())
    }

    #[test]
    fn a_function_returns_text_or_pages() {
        let document =
            parse("def parse(file):\n    return '# T\\n\\n' + open(file).read()\n", "a.x", b"words").unwrap();
        assert_eq!((document.text.as_str(), document.title.as_deref()), ("# T\n\nwords", Some("T")));
        let pages = "def parse(path):\n    return {'title': path, 'pages': ['one', {'number': 7, 'text': 'seven'}]}\n";
        let document = parse(pages, "deep/a.x", b"x").unwrap();
        assert_eq!((document.text.as_str(), document.title.as_deref()), ("one\n\nseven", Some("deep/a.x")));
        assert_eq!(document.pages.iter().map(|page| page.number).collect::<Vec<_>>(), [1, 7]);
    }

    #[test]
    fn an_exception_loses_the_one_file_and_what_is_no_text_is_told() {
        let raised = parse("def parse(file):\n    raise ValueError('no such font')\n", "a.x", b"x").unwrap_err();
        assert!(
            matches!(&raised, ParseError::Rejected(LoadError::Broken(reason)) if reason.contains("no such font")),
            "{raised}"
        );
        let number = parse("def parse(file):\n    return 7\n", "a.x", b"x").unwrap_err();
        assert!(
            matches!(&number, ParseError::Rejected(LoadError::Broken(reason)) if reason.contains("neither")),
            "{number}"
        );
    }
}
