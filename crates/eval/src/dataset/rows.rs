//! Records of a file of any format (`format/`): fields with their line. Nothing
//! here knows about questions.

use serde_json::{Map, Value};

/// A record and its line.
#[derive(Debug)]
pub(super) struct FileRecord {
    /// The line on which it begins, from 1.
    pub(super) line: usize,
    pub(super) fields: Map<String, Value>,
    /// The record as written in the file.
    pub(super) raw: RawRecord,
}

/// A record as written in its file.
#[derive(Debug)]
pub(super) enum RawRecord {
    /// Its text.
    Text(String),
    /// The cells of a table, as many as its header has.
    Cells(Vec<String>),
}

pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// How records are counted in messages. It also decides what a passage's `span`
/// counts: bytes in a file, characters in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordSource {
    /// Lines of a file, from 1.
    File,
    /// Rows in memory, from 0.
    Memory,
}

impl RecordSource {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::File => "line",
            Self::Memory => "row",
        }
    }

    /// The number of the header, or of the first row.
    pub(super) fn first(self) -> usize {
        match self {
            Self::File => 1,
            Self::Memory => 0,
        }
    }
}

/// Whether all records have the same columns, as in a table.
pub(super) fn is_table<'a>(mut records: impl Iterator<Item = &'a Map<String, Value>>) -> bool {
    let Some(first) = records.next() else { return false };
    records.all(|record| record.keys().eq(first.keys()))
}

/// The first line of a table.
#[derive(Debug, Default)]
pub(super) struct TableHeader {
    /// The names of the columns, as written.
    pub(super) names: Vec<String>,
    /// The character between them.
    pub(super) delimiter: u8,
}

pub(super) fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes)
}
