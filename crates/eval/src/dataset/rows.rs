//! Files of records: what a file gives, whatever its format (`format/`).
//!
//! It knows nothing of questions: it gives fields with the line on which they
//! stand, and every fault of the file, not only the first.

use serde_json::{Map, Value};

/// A record and where it stands.
#[derive(Debug)]
pub(super) struct FileRecord {
    /// The line on which it begins, from 1.
    pub(super) line: usize,
    pub(super) fields: Map<String, Value>,
    /// The same as it stands in the file.
    pub(super) raw: RawRecord,
}

/// A record as it stands in its file.
#[derive(Debug)]
pub(super) enum RawRecord {
    /// Its text.
    Text(String),
    /// The cells of a table, as many as its header has.
    Cells(Vec<String>),
}

pub(super) const MARK: &[u8] = b"\xEF\xBB\xBF";

/// What the number of a record counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbering {
    /// Lines of a file, from 1.
    Line,
    /// Rows of a program, from 0.
    Row,
}

impl Numbering {
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

/// The first line of a table.
#[derive(Debug, Default)]
pub(super) struct TableHeader {
    /// The names of the columns, as they stand there.
    pub(super) names: Vec<String>,
    /// What stands between them.
    pub(super) delimiter: u8,
}

pub(super) fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(MARK).unwrap_or(bytes)
}
