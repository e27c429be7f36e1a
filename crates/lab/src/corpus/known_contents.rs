//! The contents of files that an earlier run has read, so that files with the same state are not read again only to
//! learn their keys.
//!
//! They are kept in one file for each address of a corpus, among the files of this machine that are of no use elsewhere.
//! A file of a corpus is in it only if it was changed some time before it was read: one that is changed within the same
//! tick of the clock would look the same afterwards. If the file is damaged or missing, the corpus is read once more.

use crate::files::{read_with_checksum, write_with_checksum};
use rag::load::SourceFile;
use std::{
    cmp::Ordering,
    path::{Path, PathBuf},
};
use store::Key;

const MAGIC: &[u8; 8] = b"RVSEEN1\n";
/// An entry: the hash of the path, the state, the key of the content.
const ENTRY: usize = 16 + 16 + 32;
/// So many places of an entry are guessed before the rest is halved.
const GUESSES: u32 = 8;

/// The contents of the files at one address.
pub(super) struct KnownContents {
    path: PathBuf,
    /// Entries, sorted by the hash of the path.
    entries: Vec<u8>,
}

impl KnownContents {
    /// Reads what is known of an address.
    pub(super) fn read(folder: &Path, address: &str) -> Self {
        let path = folder.join("contents").join(Key::of_bytes(address.as_bytes()).hex());
        let entries = read_with_checksum(&path).and_then(|bytes| Some(bytes.strip_prefix(MAGIC)?.to_vec()));
        let entries = entries.filter(|entries| entries.len().is_multiple_of(ENTRY));
        Self { path, entries: entries.unwrap_or_default() }
    }

    /// The key of a file's content; none if it has to be read.
    pub(super) fn key(&self, file: &SourceFile) -> Option<Key> {
        let state = file.state?.bytes();
        let wanted = path_hash(file);
        let (entries, _) = self.entries.as_chunks::<ENTRY>();
        let place = place_of(entries, &wanted)?;
        (entries[place][16..32] == state).then(|| Key::from_slice(&entries[place][32..]))?
    }

    /// Keeps the keys of these files, and forgets all others. The files were listed at `listed_ms`, and read after that.
    pub(super) fn keep<'a>(&self, files: impl Iterator<Item = (&'a SourceFile, &'a Key)>, listed_ms: i64) {
        let settled = |(file, key): (&SourceFile, &Key)| {
            let state = file.state.filter(|state| state.is_settled(listed_ms))?;
            Some((path_hash(file), state.bytes(), *key.bytes()))
        };
        let mut entries: Vec<([u8; 16], [u8; 16], [u8; 32])> = files.filter_map(settled).collect();
        entries.sort_unstable();
        let mut bytes = Vec::with_capacity(MAGIC.len() + entries.len() * ENTRY);
        bytes.extend(MAGIC);
        for (path, state, key) in entries {
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

/// The place of the entry with this hash. Hashes are spread evenly, so the place is guessed from the first bytes of the hash:
/// a few looks are enough where halving a million entries takes twenty, each of which waits for the memory.
fn place_of(entries: &[[u8; ENTRY]], wanted: &[u8; 16]) -> Option<usize> {
    let first = |hash: &[u8]| hash.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    let (mut from, mut to) = (0, entries.len());
    let (mut least, mut most) = (0, u64::MAX);
    for guesses in 0.. {
        if from >= to {
            return None;
        }
        let share =
            u128::from(first(wanted).saturating_sub(least)) * (to - from) as u128 / (u128::from(most - least) + 1);
        // Guesses that do not help must not be all there is.
        let place = if guesses < GUESSES { from + (share as usize).min(to - from - 1) } else { from + (to - from) / 2 };
        let hash = &entries[place][..16];
        match hash.cmp(wanted) {
            Ordering::Less => (from, least) = (place + 1, first(hash)),
            Ordering::Greater => (to, most) = (place, first(hash)),
            Ordering::Equal => return Some(place),
        }
    }
    None
}

fn path_hash(file: &SourceFile) -> [u8; 16] {
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
        assert_eq!(read().key(&found[0]), None, "it was written a moment ago, and may be changed unseen");
        read().keep(found.iter().zip(&keys), now_ms() + 60_000);
        let known = read();
        assert!(found.iter().zip(&keys).all(|(file, key)| known.key(file) == Some(*key)));
        fs::write(corpus.join("b.txt"), "B.txt").unwrap();
        let changed = files(&corpus).await;
        assert_eq!(changed.iter().map(|file| known.key(file).is_some()).collect::<Vec<_>>(), [true, false, true]);
        assert_eq!(KnownContents::read(folder.path(), "another").key(&found[0]), None);
    }

    #[test]
    fn an_entry_is_found_wherever_it_is_and_however_its_hash_is_like_others() {
        let entry = |hash: u128| {
            let mut entry = [0; ENTRY];
            entry[..16].copy_from_slice(&hash.to_be_bytes());
            entry
        };
        let spread = |count: u128| (0..count).map(|place| u128::MAX / count * place).collect::<Vec<_>>();
        let alike = (0..3000).map(|place| (7 << 64) + 2 * place).collect();
        let ends = vec![0, 1, u128::MAX - 1, u128::MAX];
        for hashes in [spread(1), spread(1000), alike, ends, Vec::new()] {
            let entries: Vec<_> = hashes.iter().map(|hash| entry(*hash)).collect();
            for (place, hash) in hashes.iter().enumerate() {
                assert_eq!(place_of(&entries, &hash.to_be_bytes()), Some(place));
                let other = hash ^ 1;
                assert_eq!(place_of(&entries, &other.to_be_bytes()), hashes.binary_search(&other).ok());
            }
            assert_eq!(place_of(&entries, &5u128.to_be_bytes()), None);
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
        let path = read().path;
        let whole = fs::read(&path).unwrap();
        assert_eq!(read().key(&found[0]), Some(key));
        for place in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[place] ^= 1;
            fs::write(&path, &damaged).unwrap();
            assert_eq!(read().key(&found[0]), None, "byte {place}");
            fs::write(&path, &whole[..place]).unwrap();
            assert_eq!(read().key(&found[0]), None, "cut at {place}");
        }
    }
}
