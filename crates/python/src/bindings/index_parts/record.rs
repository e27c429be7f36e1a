//! What is known of the blocks whose parts are at an address, and under which names.
//!
//! `index.parts/<settings>/<contents>/` holds a block of files with these contents, cut and embedded by these settings:
//! its parts, `<first row>-<rows>.part`, and its records, which say what became of each file. A record is written before
//! the parts. All names depend on what the objects hold, so an object that is written twice is there once.

use serde::{Deserialize, Serialize};
use std::ops::Range;
use store::{Key, KeyBuilder};

/// Raise when records or names change.
pub(super) const VERSION: u32 = 2;
/// What all names begin with.
pub(super) const FOLDER: &str = "index.parts";

/// What became of the files of a block, in their order.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct BlockRecord {
    pub(super) files: Vec<RecordedFile>,
}

/// What became of a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RecordedFile {
    pub(super) path: String,
    /// Its state when it was listed.
    pub(super) state: String,
    /// How many chunks it gave.
    pub(super) chunks: u32,
    /// How many documents it gave: its own, and those of the files in it.
    pub(super) documents: u32,
    /// The path of each that gave no document, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) rejected: Vec<(String, String)>,
    /// Whether it could not be read, and may be read later.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_unread: bool,
}

impl BlockRecord {
    /// How many chunks the block has.
    pub(super) fn rows(&self) -> u32 {
        self.files.iter().map(|file| file.chunks).sum()
    }

    /// The rows of the chunks of each file.
    pub(super) fn rows_of_files(&self) -> impl Iterator<Item = (&RecordedFile, Range<u32>)> {
        self.files.iter().scan(0, |next, file| {
            let first = *next;
            *next += file.chunks;
            Some((file, first..*next))
        })
    }

    /// The name below that of the block.
    pub(super) fn name(&self) -> String {
        format!("{}.json", KeyBuilder::new("index record").field("files", &self.files).finish())
    }
}

/// The name of a block: by the contents of its files, or why they have none. A block with other contents has other chunks.
pub(super) fn block_name<'a>(settings: &str, contents: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let contents: Key = KeyBuilder::new("index block").list("files", contents).finish();
    format!("{FOLDER}/{settings}/{contents}")
}

/// The name of the part with these rows of a block.
pub(super) fn part_name(block: &str, rows: &Range<u32>) -> String {
    format!("{block}/{}-{}.part", rows.start, rows.end - rows.start)
}

/// What an object below `index.parts` is.
pub(super) enum ObjectName<'a> {
    /// A record of a block.
    Record(&'a str),
    /// A part of a block with these rows.
    Part(&'a str, Range<u32>),
}

impl<'a> ObjectName<'a> {
    pub(super) fn parse(name: &'a str) -> Option<Self> {
        let (block, name) = name.rsplit_once('/')?;
        if name.ends_with(".json") {
            return Some(Self::Record(block));
        }
        let (first, rows) = name.strip_suffix(".part")?.split_once('-')?;
        let (first, rows): (u32, u32) = (first.parse().ok()?, rows.parse().ok()?);
        Some(Self::Part(block, first..first.checked_add(rows)?))
    }
}

/// A part that holds some rows of a block, and which of its own rows these are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PartRows {
    pub(super) part: Range<u32>,
    pub(super) rows: Range<u32>,
}

/// The parts that hold these rows of a block; none if some rows are in no part. Parts of several starts may overlap.
pub(super) fn cover(parts: &[Range<u32>], rows: Range<u32>) -> Option<Vec<PartRows>> {
    let (mut found, mut next) = (Vec::new(), rows.start);
    while next < rows.end {
        let part = parts.iter().filter(|part| part.contains(&next)).max_by_key(|part| (part.end, part.start))?;
        let end = part.end.min(rows.end);
        found.push(PartRows { part: part.clone(), rows: next - part.start..end - part.start });
        next = end;
    }
    Some(found)
}

/// The rows of a block that no part holds.
pub(super) fn uncovered(parts: &[Range<u32>], all: u32) -> Vec<bool> {
    let mut missing = vec![true; all as usize];
    for part in parts {
        let end = part.end.min(all);
        missing[part.start.min(end) as usize..end as usize].fill(false);
    }
    missing
}
