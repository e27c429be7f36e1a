//! The segments of indexes that were written before, by the texts that are in them, and the indexes that were merged of
//! them.
//!
//! A file is written whole, is compared with its checksum when it is used again, and may be removed at any time.

use super::{Bm25Index, segment::Segment};
use crate::{
    Error,
    analysis::{DocumentLanguages, Language, TextAnalysis},
    index::{EntryTexts, Index, header::bad},
};
use serde::{Deserialize, Serialize};
use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    fs, io,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};
use store::{Key, KeyBuilder, note_use, remove_unused_files};

/// Texts are hashed in pieces of about this many bytes.
const HASHED_AT_ONCE: usize = 1 << 18;

/// A segment of a merged index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct MergedSegment {
    /// The name of the segment's file.
    pub(super) name: String,
    /// The number of its entries.
    pub(super) entries: u32,
    /// The languages of its texts, each with the number of its texts.
    pub(super) languages: Vec<(Language, u32)>,
}

impl MergedSegment {
    /// What a merged index says of a segment with this file.
    pub(super) fn of(file: &Path, segment: &Segment) -> Self {
        Self { name: file_name(file), entries: segment.entries(), languages: segment.settings.languages.clone() }
    }
}

/// An index that was merged before, of which segments can be taken.
pub(super) struct EarlierMerge {
    pub(super) index: Arc<Segment>,
    /// Each of its segments with its entries, in order.
    segments: Vec<(MergedSegment, Range<u32>)>,
    /// The list of its segments, and the index.
    files: [PathBuf; 2],
}

impl EarlierMerge {
    /// Opens a merged index. Fails with its files if it is damaged, or does not have as many entries as its segments together.
    fn open(segments: Vec<MergedSegment>, files: [PathBuf; 2]) -> Result<Self, [PathBuf; 2]> {
        let Some(index) = open_intact(&files[1]) else { return Err(files) };
        let mut next = 0u32;
        let placed = segments.into_iter().map(|segment| {
            let first = next;
            next = next.saturating_add(segment.entries);
            (segment, first..next)
        });
        let segments: Vec<_> = placed.collect();
        if next == index.entries() { Ok(Self { index, segments, files }) } else { Err(files) }
    }

    /// For each of these names the segment of the index, with its entries; none for those that the index does not have, or has
    /// in another order.
    pub(super) fn find(&self, names: &[String]) -> Vec<Option<&(MergedSegment, Range<u32>)>> {
        let mut known: HashMap<&str, usize> = HashMap::new();
        for (place, (segment, _)) in self.segments.iter().enumerate() {
            known.entry(&segment.name).or_insert(place);
        }
        let mut next = 0;
        let find = |name: &String| {
            let place = known.get(name.as_str()).copied().filter(|place| *place >= next)?;
            next = place + 1;
            self.segments.get(place)
        };
        names.iter().map(find).collect()
    }
}

/// The segments in a folder.
pub(super) struct SegmentCache<'a> {
    folder: &'a Path,
    /// What says how texts are cut.
    analysis: String,
}

impl<'a> SegmentCache<'a> {
    pub(super) fn open(folder: &'a Path, analysis: &TextAnalysis) -> Result<Self, Error> {
        fs::create_dir_all(folder).map_err(|error| bad(&folder.display().to_string(), error))?;
        let analysis = serde_json::to_string(analysis).unwrap_or_default();
        Ok(Self { folder, analysis })
    }

    /// The key of some texts and of the borders of their documents.
    pub(super) fn key(&self, texts: &dyn EntryTexts, entries: Range<usize>) -> Key {
        // Hashed in large pieces: many short updates take four times as long.
        let (mut hasher, mut piece) = (blake3::Hasher::new(), Vec::with_capacity(HASHED_AT_ONCE));
        let mut before = None;
        for entry in entries {
            let document = texts.document(entry);
            let is_new = before.replace(document) != Some(document);
            let text = texts.text(entry).as_bytes();
            piece.push(u8::from(is_new));
            piece.extend_from_slice(&(text.len() as u64).to_le_bytes());
            match text.len() < HASHED_AT_ONCE {
                true => piece.extend_from_slice(text),
                false => _ = hasher.update(&std::mem::take(&mut piece)).update(text),
            }
            if piece.len() >= HASHED_AT_ONCE {
                hasher.update(&piece);
                piece.clear();
            }
        }
        Key::of_bytes(hasher.update(&piece).finalize().as_bytes())
    }

    /// The languages of the documents of some texts.
    pub(super) fn languages(
        &self,
        texts: &Key,
        detect: impl FnOnce() -> DocumentLanguages,
    ) -> Result<DocumentLanguages, Error> {
        let path = self.path(texts, "languages", "");
        if let Ok(bytes) = fs::read(&path)
            && let Ok(known) = serde_json::from_slice(&bytes)
        {
            note_use(&path);
            return Ok(known);
        }
        let languages = detect();
        let bytes = serde_json::to_vec(&languages).map_err(|error| bad(&path.display().to_string(), error))?;
        self.write(&path, &bytes)?;
        Ok(languages)
    }

    /// The file of the segment of some texts. `other` is the language of documents whose language is not clear, if there are
    /// any.
    pub(super) fn segment_file(&self, texts: &Key, other: Option<Language>) -> PathBuf {
        self.path(texts, "bm25", other.map_or("", Language::name))
    }

    /// Opens the file of a segment, which is made if it is missing or damaged.
    pub(super) fn segment(&self, path: &Path, make: impl FnOnce() -> Bm25Index) -> Result<Arc<Segment>, Error> {
        if let Some(known) = open_intact(path) {
            note_use(path);
            return Ok(known);
        }
        self.write(path, &make().to_bytes())?;
        Bm25Index::open_segment(path)
    }

    /// The merged index that has the most of these segments; none if no index has four fifths of them. With fewer, more is
    /// cut anew than taken.
    pub(super) fn earlier_merge(&self, names: &[String]) -> Option<EarlierMerge> {
        let wanted: HashSet<&str> = names.iter().map(String::as_str).collect();
        let entries = fs::read_dir(self.folder).ok()?.flatten().map(|entry| entry.path());
        let contents = entries.filter(|path| path.extension().is_some_and(|ending| ending == Bm25Index::CONTENT));
        let read = |content: PathBuf| {
            let segments: Vec<MergedSegment> = serde_json::from_slice(&fs::read(&content).ok()?).ok()?;
            let is_intact = self.merged_file(&segments, Bm25Index::CONTENT) == content;
            let common = segments.iter().filter(|segment| wanted.contains(segment.name.as_str())).count();
            (is_intact && 5 * common >= 4 * names.len()).then_some((common, segments, content))
        };
        let mut found: Vec<_> = contents.filter_map(read).collect();
        found.sort_by_key(|(common, ..)| Reverse(*common));
        found.into_iter().find_map(|(_, segments, content)| {
            let merged = content.with_extension(Bm25Index::MERGED);
            let earlier = EarlierMerge::open(segments, [content, merged]);
            earlier.map_err(|files| files.map(|file| drop(fs::remove_file(file)))).ok()
        })
    }

    /// Keeps a merged index in place of an earlier one with nearly the same segments. The next index of nearly the same
    /// segments is then made of it.
    pub(super) fn keep_merged(&self, index: &Path, segments: &[MergedSegment], earlier: Option<EarlierMerge>) {
        let [content, merged] =
            [Bm25Index::CONTENT, Bm25Index::MERGED].map(|ending| self.merged_file(segments, ending));
        for file in [&content, &merged] {
            let _ = fs::remove_file(file);
        }
        // The same file under another name takes no space. Where the file system has no such names, the next index is merged
        // of all segments.
        if fs::hard_link(index, &merged).is_err() {
            return;
        }
        let Ok(bytes) = serde_json::to_vec(segments) else { return };
        if self.write(&content, &bytes).is_err() {
            return;
        }
        note_use(&merged);
        let replaced = earlier.into_iter().flat_map(|earlier| earlier.files);
        replaced.filter(|file| ![&content, &merged].contains(&file)).for_each(|file| drop(fs::remove_file(file)));
    }

    /// A file of the index that is merged of these segments.
    fn merged_file(&self, segments: &[MergedSegment], ending: &str) -> PathBuf {
        let key = KeyBuilder::new("merged bm25 index").field("version", &Bm25Index::VERSION);
        let key = key.field("analysis", self.analysis.as_str()).field("segments", segments).finish();
        self.folder.join(format!("{}.{ending}", key.hex()))
    }

    /// Removes files that were not used for long, if they take much more space than those that were.
    pub(super) fn remove_unused(&self) {
        remove_unused_files(self.folder);
    }

    fn path(&self, texts: &Key, ending: &str, other: &str) -> PathBuf {
        let key = KeyBuilder::new("bm25 segment").field("version", &Bm25Index::VERSION).key("texts", texts);
        let key = key.field("analysis", self.analysis.as_str()).field("other", other).finish();
        self.folder.join(format!("{}.{ending}", key.hex()))
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), Error> {
        let draft = store::staged_path(path);
        let written: io::Result<()> = fs::write(&draft, bytes).and_then(|()| fs::rename(&draft, path));
        if let Err(error) = written {
            let _ = fs::remove_file(&draft);
            return Err(bad(&path.display().to_string(), error));
        }
        Ok(())
    }
}

/// The name of a file of the cache, which has only letters and digits.
pub(super) fn file_name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Opens the file of a segment; none if it is missing or damaged.
fn open_intact(path: &Path) -> Option<Arc<Segment>> {
    Bm25Index::open_segment(path).ok().filter(|segment| segment.verify_checksum().is_ok())
}
