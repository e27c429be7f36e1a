//! Which files of a corpus are in parts already, and in which order the parts make the index.

use super::{
    super::{corpus::PyBlock, stages::failed, work::value_error},
    record::{BlockRecord, ObjectName, RecordedFile, cover, part_name},
};
use futures::{StreamExt, TryStreamExt, stream};
use pyo3::PyResult;
use serde::{Deserialize, Serialize};
use std::{collections::HashMap, ops::Range};
use store::{ArtifactStore, Key};

/// Records that are read at once.
const RECORDS_AT_ONCE: usize = 32;

/// What the parts at an address hold.
#[derive(Default)]
pub(super) struct KnownParts {
    blocks: Vec<KnownBlock>,
    files: HashMap<FileKey, KnownFile>,
}

/// A hash of a path and a state, since there may be millions.
type FileKey = [u8; 16];

#[derive(Default)]
struct KnownBlock {
    name: String,
    /// The rows of each part.
    parts: Vec<Range<u32>>,
    files: usize,
    is_whole: bool,
}

struct KnownFile {
    block: usize,
    rows: Range<u32>,
    documents: u32,
    rejected: Vec<(String, String)>,
    is_unread: bool,
    /// Whether parts hold all of its chunks.
    is_whole: bool,
}

/// The files of a corpus that are in no part yet, and what is known of the others.
#[derive(Default)]
pub(super) struct PartsPlan {
    /// The files that no part holds, in the blocks of the corpus.
    pub(super) missing: Vec<PyBlock>,
    /// The rows of parts, in the order of the corpus.
    pub(super) order: Vec<PartSlice>,
    pub(super) documents: usize,
    /// Files, and files in them, that gave no document, with the reasons.
    pub(super) rejected: Vec<(String, String)>,
}

/// Some rows of a part.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct PartSlice {
    pub(super) name: String,
    pub(super) rows: Range<u32>,
}

impl KnownParts {
    /// Reads the records below a prefix.
    pub(super) async fn read(store: &ArtifactStore, prefix: &str) -> PyResult<Self> {
        let names = store.list(prefix).await.map_err(|error| failed(&error))?;
        let mut known = Self::default();
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut records = Vec::new();
        for name in &names {
            let Some(object) = ObjectName::parse(name) else { continue };
            let (ObjectName::Record(block) | ObjectName::Part(block, _)) = &object;
            let place = *places.entry(*block).or_insert_with(|| {
                known.blocks.push(KnownBlock { name: (*block).to_owned(), ..KnownBlock::default() });
                known.blocks.len() - 1
            });
            match object {
                ObjectName::Record(_) => records.push((place, name)),
                ObjectName::Part(_, rows) => known.blocks[place].parts.push(rows),
            }
        }
        let read = async |(place, name): (usize, &String)| {
            let bytes = store.get(name).await.map_err(|error| failed(&error))?.unwrap_or_default();
            let record: BlockRecord = serde_json::from_slice(&bytes).map_err(|error| {
                value_error(format!("{name} at {} is damaged ({error}): remove it and start again", store.location()))
            })?;
            PyResult::Ok((place, record))
        };
        let mut read = stream::iter(records).map(read).buffered(RECORDS_AT_ONCE);
        while let Some((place, record)) = read.try_next().await? {
            known.add(place, &record);
        }
        Ok(known)
    }

    fn add(&mut self, place: usize, record: &BlockRecord) {
        let block = &mut self.blocks[place];
        block.files = record.files.len();
        block.is_whole = cover(&block.parts, 0..record.rows()).is_some();
        for (RecordedFile { path, state, documents, rejected, is_unread, .. }, rows) in record.rows_of_files() {
            let is_whole = block.is_whole || cover(&block.parts, rows.clone()).is_some();
            let (documents, rejected, is_unread) = (*documents, rejected.clone(), *is_unread);
            let file = KnownFile { block: place, rows, documents, rejected, is_unread, is_whole };
            let quality = |file: &KnownFile| (!file.is_unread, file.is_whole);
            match self.files.get(&file_key(path, state)) {
                Some(other) if quality(other) >= quality(&file) => {}
                _ => drop(self.files.insert(file_key(path, state), file)),
            }
        }
    }

    /// What is left to do. At the start, files that could not be read before are read again.
    pub(super) fn plan(&self, blocks: &[PyBlock], is_start: bool) -> PartsPlan {
        let mut plan = PartsPlan::default();
        for block in blocks {
            let found: Vec<_> = block.listed().map(|(path, state)| (path, self.file(path, state, is_start))).collect();
            let is_begun = is_start && self.is_begun(found.iter().map(|(_, file)| *file));
            let missing: Vec<bool> =
                found.iter().map(|(_, file)| is_begun || file.is_none_or(|file| !file.is_whole)).collect();
            if missing.contains(&true) {
                plan.missing.push(block.with_files(&missing));
            }
            for ((_, file), missing) in found.into_iter().zip(missing) {
                if let Some(file) = file
                    && !missing
                {
                    self.take(&mut plan, file);
                }
            }
        }
        plan
    }

    fn file(&self, path: &str, state: &str, is_start: bool) -> Option<&KnownFile> {
        self.files.get(&file_key(path, state)).filter(|file| !(is_start && file.is_unread))
    }

    /// Whether a start was killed while it wrote the parts of just this block. The block is then cut again as a whole,
    /// because so its parts are found again; only the rows that no part holds are embedded.
    fn is_begun<'a>(&self, mut files: impl ExactSizeIterator<Item = Option<&'a KnownFile>>) -> bool {
        let count = files.len();
        let Some(first) = files.next().flatten() else { return false };
        let block = &self.blocks[first.block];
        !block.is_whole && block.files == count && files.all(|file| file.is_some_and(|file| file.block == first.block))
    }

    fn take(&self, plan: &mut PartsPlan, file: &KnownFile) {
        plan.rejected.extend_from_slice(&file.rejected);
        plan.documents += file.documents as usize;
        let block = &self.blocks[file.block];
        for held in cover(&block.parts, file.rows.clone()).unwrap_or_default() {
            let name = part_name(&block.name, &held.part);
            match plan.order.last_mut() {
                Some(last) if last.name == name && last.rows.end == held.rows.start => last.rows.end = held.rows.end,
                _ => plan.order.push(PartSlice { name, rows: held.rows }),
            }
        }
    }
}

fn file_key(path: &str, state: &str) -> FileKey {
    let key = Key::of_bytes(format!("{path}\0{state}").as_bytes());
    key.bytes().first_chunk().copied().unwrap_or_default()
}
