//! Files of records: what a file gives, whatever its format (`format/`).
//!
//! It knows nothing of questions: it gives fields with the line on which they
//! stand, and every fault of the file, not only the first.

use super::format::{Format, Holds};
use serde_json::{Map, Value};

/// A record and where it stands.
#[derive(Debug)]
pub(super) struct Row {
    /// The line on which it begins, from 1.
    pub(super) line: usize,
    pub(super) fields: Map<String, Value>,
    /// The same as it stands in the file.
    pub(super) raw: Raw,
}

/// A record as it stands in its file.
#[derive(Debug)]
pub(super) enum Raw {
    /// Its text.
    Text(String),
    /// The cells of a table, as many as its header has.
    Cells(Vec<String>),
}

const MARK: &[u8] = b"\xEF\xBB\xBF";

/// A line and what is wrong with it.
pub(super) type Fault = (usize, String);

/// What the number of a record counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Lines of a file, from 1.
    Line,
    /// Rows of a program, from 0.
    Row,
}

impl Place {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Row => "row",
        }
    }

    /// Where a header stands.
    pub(super) fn first(self) -> usize {
        match self {
            Self::Line => 1,
            Self::Row => 0,
        }
    }
}

/// Whether all records of a program have the same columns, as those of a table.
pub(super) fn is_table<'a>(mut records: impl Iterator<Item = &'a Map<String, Value>>) -> bool {
    let Some(first) = records.next() else { return false };
    records.all(|record| record.keys().eq(first.keys()))
}

/// How a file is written, beside its records.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) format: Format,
    /// Whether it begins with a byte order mark.
    has_mark: bool,
    pub(super) line_end: &'static str,
    pub(super) header: Header,
}

/// The first line of a table.
#[derive(Debug, Default)]
pub(super) struct Header {
    /// The names of the columns, as they stand there.
    pub(super) names: Vec<String>,
    /// What stands between them.
    pub(super) delimiter: u8,
}

impl Layout {
    /// The byte order mark, if there is one.
    pub(super) fn mark(&self) -> &'static [u8] {
        if self.has_mark { MARK } else { b"" }
    }
}

/// How a file is written.
pub(super) fn layout(name: &str, bytes: &[u8]) -> Layout {
    let format = Format::of_file(name, bytes);
    let content = without_mark(bytes);
    let first_line = content.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line_end = if first_line.ends_with(b"\r") { "\r\n" } else { "\n" };
    Layout { format, has_mark: content.len() < bytes.len(), line_end, header: format.file().header(name, content) }
}

/// Reads all records; the file may begin with a byte order mark.
pub(super) fn read(name: &str, bytes: &[u8], holds: Holds) -> (Vec<Row>, Vec<Fault>) {
    Format::of_file(name, bytes).file().read(name, without_mark(bytes), holds)
}

/// Whether all records have the columns of one header.
pub(super) fn has_header(name: &str, bytes: &[u8]) -> bool {
    Format::of_file(name, bytes).file().has_header()
}

pub(super) fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(MARK).unwrap_or(bytes)
}
