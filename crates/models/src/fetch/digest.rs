//! SHA-256 digests of files, remembered by size and modification time, so that
//! the identity of a large model is computed only once.

use crate::Error;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

/// What was found when a file was last read as a whole.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct KnownDigest {
    path: PathBuf,
    bytes: u64,
    changed_nanoseconds: u128,
    sha256: String,
}

/// Computes digests, and keeps them in a folder.
#[derive(Debug, Clone)]
pub(super) struct Digests {
    folder: PathBuf,
}

impl Digests {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The SHA-256 of a file: remembered if the file did not change since.
    pub(super) fn of(&self, path: &Path) -> Result<String, Error> {
        let absolute = std::path::absolute(path).map_err(|error| Error::bad_file(path, error))?;
        let note = self.note(&absolute);
        let state = state(&absolute).map_err(|error| Error::bad_file(path, error))?;
        let remembered = std::fs::read(&note).ok().and_then(|text| serde_json::from_slice::<KnownDigest>(&text).ok());
        if let Some(known) = remembered
            && known.path == absolute
            && (known.bytes, known.changed_nanoseconds) == state
        {
            return Ok(known.sha256);
        }
        let sha256 = sha256_of(&absolute).map_err(|error| Error::bad_file(path, error))?;
        self.remember(absolute, state, &sha256);
        Ok(sha256)
    }

    /// Stores a digest that was just computed elsewhere.
    pub(super) fn store_digest(&self, path: &Path, sha256: &str) {
        if let Ok(absolute) = std::path::absolute(path)
            && let Ok(state) = state(&absolute)
        {
            self.remember(absolute, state, sha256);
        }
    }

    /// If a note cannot be written, only time is lost, so errors are ignored.
    fn remember(&self, path: PathBuf, (bytes, changed_nanoseconds): (u64, u128), sha256: &str) {
        let note = self.note(&path);
        let known = KnownDigest { path, bytes, changed_nanoseconds, sha256: sha256.to_owned() };
        let Ok(text) = serde_json::to_vec(&known) else { return };
        if std::fs::create_dir_all(&self.folder).is_err() {
            return;
        }
        let draft = store::staged_path(&note);
        if std::fs::write(&draft, text).is_ok() {
            let _ = std::fs::rename(&draft, &note);
        }
    }

    fn note(&self, path: &Path) -> PathBuf {
        let name = blake3::hash(path.as_os_str().as_encoded_bytes()).to_hex();
        self.folder.join(format!("{}.json", &name[..32]))
    }
}

fn state(path: &Path) -> std::io::Result<(u64, u128)> {
    let metadata = std::fs::metadata(path)?;
    let changed = metadata.modified()?.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    Ok((metadata.len(), changed))
}

/// Reads a whole file.
pub(super) fn sha256_of(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let n_read = file.read(&mut buffer)?;
        if n_read == 0 {
            return Ok(hexadecimal(&hasher.finalize()));
        }
        hasher.update(&buffer[..n_read]);
    }
}

/// One digest for several files: of their names and digests, in order. A
/// single file keeps its own digest, which is the one that publishers state.
pub(super) fn combined<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let files: Vec<_> = files.into_iter().collect();
    if let [(_, only)] = files.as_slice() {
        return (*only).to_owned();
    }
    let mut hasher = Sha256::new();
    for (name, sha256) in files {
        hasher.update(format!("{sha256}  {name}\n"));
    }
    hexadecimal(&hasher.finalize())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_remembered_until_the_file_changes() {
        let folder = tempfile::tempdir().expect("a folder");
        let digests = Digests::new(folder.path().join("digests"));
        let path = folder.path().join("model.bin");
        std::fs::write(&path, "abc").expect("written");
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digests.of(&path).expect("a digest"), abc);
        // A false note of the same size and time is believed: nothing is read again.
        let absolute = std::path::absolute(&path).expect("a path");
        digests.remember(absolute.clone(), state(&absolute).expect("a state"), "remembered");
        assert_eq!(digests.of(&path).expect("a digest"), "remembered");
        std::fs::write(&path, "abcd").expect("written");
        assert_ne!(digests.of(&path).expect("a digest"), "remembered");
    }

    #[test]
    fn names_and_contents_each_change_a_combined_digest() {
        assert_eq!(combined([("a", "1")]), "1");
        let both = combined([("a", "1"), ("b", "2")]);
        assert_ne!(both, combined([("a", "2"), ("b", "1")]));
        assert_ne!(both, combined([("c", "1"), ("b", "2")]));
    }
}
