//! Files that are made of shards and stay on this machine. A file of nearly the same shards takes the rows of the shards
//! that it has in common with another, and reads only the others.

use crate::{
    Error,
    files::{read_with_checksum, write_with_checksum},
    layout,
};
use rag::index::{Bm25Index, IndexKind};
use serde::{Deserialize, Serialize};
use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    ops::Range,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};
use store::{ArtifactStore, Key, KeyBuilder, Location, note_use, remove_unused_files};

/// Raise when the files of earlier versions are of no use.
const VERSION: u32 = 1;
/// Beside each file is a list of its shards. This is the ending of its name, as of those of merged BM25 indexes.
pub(super) const CONTENT: &str = Bm25Index::CONTENT;
/// The most files that are looked at, the newest first.
const LOOKED_AT: usize = 64;
/// The most files that are written over one file.
const MOST_UPPER_FILES: usize = 2;

/// The kept files of one kind, in a folder of this machine. Each may be removed at any time.
#[derive(Debug)]
pub(super) struct KeptFiles {
    folder: PathBuf,
    /// What is made of shards, such as `table of chunks`.
    kind: &'static str,
    /// The ending of the files' names.
    ending: &'static str,
}

/// What a kept file holds.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct KeptContent {
    version: u32,
    /// The hash of the file; none if it holds a checksum of its own.
    pub(super) hash: Option<Key>,
    /// The file that it is written over, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) below: Option<LowerFile>,
    /// The names of its shards, each with the number of its rows, in order.
    shards: Vec<(String, u32)>,
}

/// A kept file that another one is written over. The other file does not repeat what is in this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LowerFile {
    /// Its name in the folder.
    pub(super) name: String,
    pub(super) hash: Key,
    /// How many rows it has.
    pub(super) rows: u32,
    /// The other one refers to at least so many of them.
    pub(super) used_rows: u32,
}

impl LowerFile {
    fn paths(&self, folder: &Path) -> KeptPaths {
        let file = folder.join(&self.name);
        KeptPaths { content: file.with_extension(CONTENT), file }
    }
}

impl KeptContent {
    /// The content of a file with these shards: their names, and how many rows each has.
    pub(super) fn new(shards: Vec<(String, u32)>, hash: Option<Key>) -> Self {
        Self { version: VERSION, hash, below: None, shards }
    }

    /// Says over which file it is written, if any.
    pub(super) fn over(self, below: Option<LowerFile>) -> Self {
        Self { below, ..self }
    }

    /// The names of the shards, each with its rows, and the number of all rows.
    fn rows(&self) -> (HashMap<String, Range<u32>>, usize) {
        let mut next = 0u32;
        let rows = self.shards.iter().map(|(name, rows)| {
            let first = next;
            next = next.saturating_add(*rows);
            (name.clone(), first..next)
        });
        (rows.collect(), next as usize)
    }
}

/// Where a kept file and the list of its shards are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeptPaths {
    pub(super) file: PathBuf,
    content: PathBuf,
}

impl KeptPaths {
    fn note_use(&self) {
        note_use(&self.file);
        note_use(&self.content);
    }

    /// Removes both files. Whoever has them open keeps them.
    fn remove(&self) {
        for file in [&self.content, &self.file] {
            drop(std::fs::remove_file(file));
        }
    }
}

/// A kept file with some of the shards that are wanted.
#[derive(Debug)]
pub(super) struct SimilarFile<T> {
    /// The opened file.
    file: Arc<T>,
    /// The rows of each of its shards.
    rows: HashMap<String, Range<u32>>,
    /// The hash of the file, as in its [`KeptContent`].
    hash: Option<Key>,
    below: Option<LowerFile>,
    paths: KeptPaths,
    /// Whether it has most of the shards that are wanted.
    is_replaced: bool,
}

impl<T> SimilarFile<T> {
    /// The opened file.
    pub(super) fn file(&self) -> Arc<T> {
        self.file.clone()
    }

    /// Removes the file, which turned out to be of no use.
    pub(super) fn remove(&self) {
        self.paths.remove();
    }

    /// The lower file for a new file that takes `taken` of this file's `all` rows: this file, or the one that it is itself
    /// written over. None if it has no hash.
    pub(super) fn lower_for(&self, taken: u32, all: u32) -> Option<LowerFile> {
        match &self.below {
            Some(below) => {
                let used_rows = below.used_rows.saturating_sub(all.saturating_sub(taken));
                Some(LowerFile { used_rows, ..below.clone() })
            }
            None => {
                let name = self.paths.file.file_name()?.to_str()?.to_owned();
                Some(LowerFile { name, hash: self.hash?, rows: all, used_rows: taken })
            }
        }
    }
}

/// Where rows of a new file are read.
#[derive(Debug)]
pub(super) enum RowSource<T> {
    Taken(TakenRows<T>),
    /// The shard with this place among all shards.
    Read(usize),
}

/// Rows of a kept file.
#[derive(Debug)]
pub(super) struct TakenRows<T> {
    pub(super) file: Arc<T>,
    pub(super) rows: Range<u32>,
    /// How many of them each shard has.
    pub(super) of_shards: Vec<u32>,
}

/// The rows of a file of these shards. Rows of a kept file that follow each other are taken together, with no more than this
/// number of rows if they are of several shards.
pub(super) fn row_sources<T>(names: &[String], kept: Option<&SimilarFile<T>>, most_rows: u32) -> Vec<RowSource<T>> {
    let mut sources = Vec::new();
    for (place, name) in names.iter().enumerate() {
        let Some((kept, rows)) = kept.and_then(|kept| Some((kept, kept.rows.get(name)?))) else {
            sources.push(RowSource::Read(place));
            continue;
        };
        match sources.last_mut() {
            Some(RowSource::Taken(taken))
                if taken.rows.end == rows.start && rows.end - taken.rows.start <= most_rows =>
            {
                taken.rows.end = rows.end;
                taken.of_shards.push(rows.len() as u32);
            }
            _ => {
                let (rows, of_shards) = (rows.clone(), vec![rows.len() as u32]);
                sources.push(RowSource::Taken(TakenRows { file: kept.file.clone(), rows, of_shards }));
            }
        }
    }
    sources
}

impl KeptFiles {
    pub(super) fn new(folder: PathBuf, kind: &'static str, ending: &'static str) -> Self {
        Self { folder, kind, ending }
    }

    /// Where the file of shards with these names is, if it is kept.
    pub(super) fn paths(&self, names: &[String]) -> KeptPaths {
        let key = KeyBuilder::new(self.kind).field("version", &VERSION).field("shards", &names).finish();
        let path = |ending: &str| self.folder.join(format!("{}.{ending}", key.hex()));
        KeptPaths { file: path(self.ending), content: path(CONTENT) }
    }

    /// Opens the file of exactly these shards. `open` returns none if a file is damaged.
    pub(super) fn open<T>(&self, names: &[String], open: impl FnOnce(&Path, &KeptContent) -> Option<T>) -> Option<T> {
        let paths = self.paths(names);
        let content = read_content(&paths.content)?;
        if !content.shards.iter().map(|(name, _)| name).eq(names) {
            return None;
        }
        let opened = open(&paths.file, &content)?;
        self.note_use(&paths, &content);
        Some(opened)
    }

    /// The kept file that has the most of these shards; none if no file has one of them. `open` returns the file and the number
    /// of its rows, or none if it is damaged. It is then removed.
    pub(super) fn find_similar<T>(
        &self,
        names: &[String],
        open: impl Fn(&Path, &KeptContent) -> Option<(T, usize)>,
    ) -> Option<SimilarFile<T>> {
        let wanted: HashSet<&str> = names.iter().map(String::as_str).collect();
        let count = |path: PathBuf| {
            let content = read_content(&path)?;
            let common = content.shards.iter().filter(|(name, _)| wanted.contains(name.as_str())).count();
            (common > 0).then_some((common, content, path))
        };
        let mut found: Vec<_> = self.contents().filter_map(count).collect();
        found.sort_by_key(|(common, ..)| Reverse(*common));
        found.into_iter().find_map(|(common, content, path)| {
            let paths = KeptPaths { file: path.with_extension(self.ending), content: path };
            let (rows, expected) = content.rows();
            match open(&paths.file, &content).filter(|(_, n_rows)| *n_rows == expected) {
                Some((file, _)) => {
                    let is_replaced = 2 * common > names.len();
                    let KeptContent { hash, below, .. } = content;
                    Some(SimilarFile { file: Arc::new(file), rows, hash, below, paths, is_replaced })
                }
                None => {
                    paths.remove();
                    None
                }
            }
        })
    }

    /// Gives a file a second name, under which the file of these shards is kept. Returns whether this worked.
    pub(super) fn link(&self, names: &[String], file: &Path) -> bool {
        let kept = self.paths(names).file;
        // Neither the folder nor an earlier file need be there.
        drop(std::fs::create_dir_all(&self.folder));
        drop(std::fs::remove_file(&kept));
        std::fs::hard_link(file, kept).is_ok()
    }

    /// Lists the content of a file that is in the folder already, so that it is found again. If most of its rows were taken
    /// from another file, that one is removed, unless it is below this one.
    pub(super) fn keep<T>(&self, content: &KeptContent, taken_from: Option<&SimilarFile<T>>) -> Result<(), Error> {
        let names: Vec<String> = content.shards.iter().map(|(name, _)| name.clone()).collect();
        let paths = self.paths(&names);
        if write_with_checksum(&paths.content, serde_json::to_vec(content).map_err(Error::table)?).is_err() {
            // The file is made anew the next time, of the others as this one.
            return Ok(());
        }
        self.note_use(&paths, content);
        let lower = |content: &Option<LowerFile>| content.as_ref().map(|below| below.paths(&self.folder));
        if let Some(replaced) = taken_from.filter(|similar| similar.is_replaced) {
            let stays = [Some(paths), lower(&content.below)];
            let old = [Some(replaced.paths.clone()), lower(&replaced.below)];
            for old in old.iter().filter(|old| !stays.contains(old)).flatten() {
                old.remove();
                self.remove_upper_files(&old.file, 0);
            }
        }
        if let Some(lower) = lower(&content.below) {
            self.remove_upper_files(&lower.file, MOST_UPPER_FILES);
        }
        remove_unused_files(&self.folder);
        Ok(())
    }

    /// Removes the files that are written over another one, except the newest ones.
    fn remove_upper_files(&self, lower: &Path, newest: usize) {
        let is_over = |content: &KeptContent| content.below.as_ref().is_some_and(|it| lower.ends_with(&it.name));
        let found = self.contents().filter(|path| read_content(path).is_some_and(|content| is_over(&content)));
        for content in found.skip(newest) {
            KeptPaths { file: content.with_extension(self.ending), content }.remove();
        }
    }

    /// The lists of the kept files, the newest first.
    fn contents(&self) -> impl Iterator<Item = PathBuf> {
        let mut found: Vec<(SystemTime, PathBuf)> = std::fs::read_dir(&self.folder)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.path().extension().is_some_and(|ending| ending == CONTENT))
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        found.sort_unstable_by(|one, other| other.cmp(one));
        found.into_iter().map(|(_, path)| path).take(LOOKED_AT)
    }

    /// Notes that a file was used, and the one below it, which must not go first.
    fn note_use(&self, paths: &KeptPaths, content: &KeptContent) {
        if let Some(below) = &content.below {
            below.paths(&self.folder).note_use();
        }
        paths.note_use();
    }
}

/// Removes kept indexes whose artifact is gone from a store in a folder. A kept index is a second name of the artifact's
/// file, so removing the artifact alone frees no space.
pub fn remove_orphaned_indexes(store: &ArtifactStore) {
    // An index of an object store has one name on this machine.
    let Location::Folder(root) = store.location() else { return };
    let scratch = layout::scratch_folder(root);
    let merged = [(layout::DENSE_INDEXES, IndexKind::Dense.name()), (layout::INDEX_PARTS, Bm25Index::MERGED)];
    for (folder, ending) in merged {
        for entry in std::fs::read_dir(scratch.join(folder)).into_iter().flatten().flatten() {
            let file = entry.path();
            if file.extension().is_some_and(|it| it == ending) && entry.metadata().is_ok_and(|it| it.nlink() == 1) {
                KeptPaths { content: file.with_extension(CONTENT), file }.remove();
            }
        }
    }
}

fn read_content(path: &Path) -> Option<KeptContent> {
    let content: KeptContent = serde_json::from_slice(&read_with_checksum(path)?).ok()?;
    (content.version == VERSION).then_some(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_index_goes_once_its_artifact_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let store = ArtifactStore::open(root.to_str().unwrap(), &[], layout::LAYOUT).unwrap();
        let scratch = layout::scratch_folder(root);
        let kept = [(layout::DENSE_INDEXES, "dense"), (layout::INDEX_PARTS, "merged")];
        for (kind, ending) in kept {
            std::fs::create_dir_all(scratch.join(kind)).unwrap();
            for name in ["there", "gone"] {
                let file = scratch.join(kind).join(name);
                std::fs::write(file.with_extension(ending), name).unwrap();
                std::fs::write(file.with_extension(CONTENT), "list").unwrap();
            }
            let artifact = root.join(format!("artifact of {kind}"));
            std::fs::hard_link(scratch.join(kind).join("there").with_extension(ending), artifact).unwrap();
        }
        std::fs::write(scratch.join(layout::INDEX_PARTS).join("segment.bm25"), "segment").unwrap();
        remove_orphaned_indexes(&store);
        let left = |kind: &str| {
            let files = std::fs::read_dir(scratch.join(kind)).unwrap();
            let mut names: Vec<_> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        };
        assert_eq!(left(layout::DENSE_INDEXES), ["there.content", "there.dense"]);
        assert_eq!(left(layout::INDEX_PARTS), ["segment.bm25", "there.content", "there.merged"]);
    }
}
