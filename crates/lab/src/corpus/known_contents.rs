//! The contents of files that an earlier run has read, so that files with the same state are not read again only to
//! learn their keys.
//!
//! They are kept in one file for each address of a corpus, among the files of this machine that are of no use elsewhere.
//! A file of a corpus is in it only if it was changed some time before it was read: one that is changed within the same
//! tick of the clock would look the same afterwards. If the file is damaged or missing, the corpus is read once more.

use crate::files::{read_with_checksum, write_with_checksum};
use rag::load::SourceFile;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::OnceLock,
};
use store::Key;

const MAGIC: &[u8; 8] = b"RVSEEN2\n";
/// An entry: the hash of the path, the state, the key of the content.
const ENTRY: usize = 16 + 16 + 32;
/// How many entries from the cursor on are tried before all are searched.
const NEAR: usize = 4;

/// The first bytes of the hash of a path.
type PathHash = [u8; 16];

/// The contents of the files at one address.
pub(super) struct KnownContents {
    path: PathBuf,
    /// Entries in the order of the files.
    entries: Vec<u8>,
    /// The place of each path; made when a file is not where it was expected.
    places: OnceLock<HashMap<PathHash, usize>>,
}

impl KnownContents {
    /// Reads what is known of an address.
    pub(super) fn read(folder: &Path, address: &str) -> Self {
        let path = folder.join("contents").join(Key::of_bytes(address.as_bytes()).hex());
        let entries = read_with_checksum(&path).and_then(|bytes| Some(bytes.strip_prefix(MAGIC)?.to_vec()));
        let entries = entries.filter(|entries| entries.len().is_multiple_of(ENTRY));
        Self { path, entries: entries.unwrap_or_default(), places: OnceLock::new() }
    }

    /// Starts looking up consecutive files of a list, from this place on.
    pub(super) fn cursor(&self, first: usize) -> KnownCursor<'_> {
        KnownCursor { known: self, next: first }
    }

    /// The entries, in the order of the list of files at that time.
    fn entries(&self) -> &[[u8; ENTRY]] {
        self.entries.as_chunks().0
    }

    fn place_of(&self, path: &PathHash) -> Option<usize> {
        let places = self.places.get_or_init(|| {
            let paths = self.entries().iter().enumerate();
            paths.filter_map(|(place, entry)| Some((*entry.first_chunk()?, place))).collect()
        });
        places.get(path).copied()
    }

    /// Keeps the keys of these files, and forgets all others. The files were listed at `listed_ms`, and read after that.
    pub(super) fn keep<'a>(&self, files: impl Iterator<Item = (&'a SourceFile, &'a Key)>, listed_ms: i64) {
        let settled = |(file, key): (&SourceFile, &Key)| {
            let state = file.state.filter(|state| state.is_settled(listed_ms))?;
            Some((path_hash(file), state.bytes(), *key.bytes()))
        };
        let mut bytes = Vec::with_capacity(MAGIC.len() + self.entries.len());
        bytes.extend(MAGIC);
        for (path, state, key) in files.filter_map(settled) {
            bytes.extend(path);
            bytes.extend(state);
            bytes.extend(key);
        }
        if bytes[MAGIC.len()..] == self.entries {
            return;
        }
        // Without this file, the next run reads the files of the corpus once more.
        let _ = write_with_checksum(&self.path, bytes);
    }
}

/// Looks up files one after the other. Most lists are nearly those of the last time, so most files are at the next place.
pub(super) struct KnownCursor<'a> {
    known: &'a KnownContents,
    next: usize,
}

impl KnownCursor<'_> {
    /// The key of a file's content; none if it has to be read.
    pub(super) fn key(&mut self, file: &SourceFile) -> Option<Key> {
        let (state, path) = (file.state?.bytes(), path_hash(file));
        let entries = self.known.entries();
        let is_at = |place: &usize| entries.get(*place).is_some_and(|entry| entry[..16] == path);
        let near = (self.next..self.next + NEAR).find(is_at);
        let place = near.or_else(|| self.known.place_of(&path))?;
        self.next = place + 1;
        let entry = &entries[place];
        (entry[16..32] == state).then(|| Key::from_slice(&entry[32..]))?
    }
}

fn path_hash(file: &SourceFile) -> PathHash {
    Key::of_bytes(file.path.as_bytes()).bytes().first_chunk().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now_ms;
    use rag::load::Source;
    use std::fs;

    async fn files(folder: &Path) -> Vec<SourceFile> {
        Source::parse(folder.to_str().unwrap(), &[], &[], &[]).unwrap().list().await.unwrap()
    }

    #[tokio::test]
    async fn a_file_is_known_again_until_its_state_changes() {
        let folder = tempfile::tempdir().unwrap();
        let corpus = folder.path().join("corpus");
        fs::create_dir(&corpus).unwrap();
        for name in ["a.txt", "b.txt", "c.txt"] {
            fs::write(corpus.join(name), name).unwrap();
        }
        let found = files(&corpus).await;
        let keys: Vec<Key> = found.iter().map(|file| Key::of_bytes(file.path.as_bytes())).collect();
        let read = || KnownContents::read(folder.path(), "corpus");
        read().keep(found.iter().zip(&keys), now_ms());
        let first = |known: KnownContents| known.cursor(0).key(&found[0]);
        assert_eq!(first(read()), None, "it was written a moment ago, and may be changed unseen");
        read().keep(found.iter().zip(&keys), now_ms() + 60_000);
        let known = read();
        let mut cursor = known.cursor(0);
        assert!(found.iter().zip(&keys).all(|(file, key)| cursor.key(file) == Some(*key)));
        assert!(known.places.get().is_none(), "each was at the next place");
        fs::write(corpus.join("b.txt"), "B.txt").unwrap();
        let changed = files(&corpus).await;
        let mut cursor = known.cursor(0);
        assert_eq!(changed.iter().map(|file| cursor.key(file).is_some()).collect::<Vec<_>>(), [true, false, true]);
        assert_eq!(first(KnownContents::read(folder.path(), "another")), None);
    }

    #[tokio::test]
    async fn a_file_is_known_wherever_it_stands_in_the_list() {
        let folder = tempfile::tempdir().unwrap();
        let corpus = folder.path().join("corpus");
        fs::create_dir(&corpus).unwrap();
        for number in 0..40 {
            fs::write(corpus.join(format!("{number:02}.txt")), "x").unwrap();
        }
        let found = files(&corpus).await;
        let keys: Vec<Key> = found.iter().map(|file| Key::of_bytes(file.path.as_bytes())).collect();
        let known = || KnownContents::read(folder.path(), "corpus");
        known().keep(found.iter().zip(&keys), now_ms() + 60_000);
        let moved = [&found[7..9], &found[20..], &found[..5], &found[19..20]].concat();
        for first in [0, 6, 39, 1000] {
            let known = known();
            let mut cursor = known.cursor(first);
            assert!(moved.iter().all(|file| cursor.key(file) == Some(Key::of_bytes(file.path.as_bytes()))), "{first}");
            let mut unknown = found[3].clone();
            unknown.path += "x";
            assert_eq!(cursor.key(&unknown), None);
            assert_eq!(cursor.key(&found[4]), Some(keys[4]));
        }
    }

    #[tokio::test]
    async fn a_damaged_file_knows_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let corpus = folder.path().join("corpus");
        fs::create_dir(&corpus).unwrap();
        fs::write(corpus.join("a.txt"), "a").unwrap();
        let found = files(&corpus).await;
        let key = Key::of_bytes(b"a");
        let read = || KnownContents::read(folder.path(), "corpus");
        read().keep([(&found[0], &key)].into_iter(), now_ms() + 60_000);
        let first = || read().cursor(0).key(&found[0]);
        let path = read().path;
        let whole = fs::read(&path).unwrap();
        assert_eq!(first(), Some(key));
        for place in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[place] ^= 1;
            fs::write(&path, &damaged).unwrap();
            assert_eq!(first(), None, "byte {place}");
            fs::write(&path, &whole[..place]).unwrap();
            assert_eq!(first(), None, "cut at {place}");
        }
    }
}
