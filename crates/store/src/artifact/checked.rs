//! Files that this process has compared with their checksums already.

use std::{
    collections::HashMap,
    fs::Metadata,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

/// A file that was written less than this before it was compared may change once more without another time.
const SETTLED: Duration = Duration::from_millis(100);

/// The files that were found intact. One that was written since is compared again.
#[derive(Debug, Default)]
pub(super) struct CheckedFiles(Mutex<HashMap<PathBuf, FileState>>);

/// What changes when a file is written.
#[derive(Debug, PartialEq, Eq)]
struct FileState {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: SystemTime,
}

impl FileState {
    fn of(metadata: &Metadata) -> Option<Self> {
        let (device, inode, bytes) = (metadata.dev(), metadata.ino(), metadata.len());
        Some(Self { device, inode, bytes, modified: metadata.modified().ok()? })
    }
}

impl CheckedFiles {
    /// Notes that a file is intact.
    pub(super) fn note(&self, path: &Path) {
        let state = std::fs::metadata(path).ok().and_then(|metadata| FileState::of(&metadata));
        let is_settled =
            |state: &FileState| SystemTime::now().duration_since(state.modified).is_ok_and(|age| age > SETTLED);
        if let Some(state) = state.filter(is_settled) {
            self.files().insert(path.to_owned(), state);
        }
    }

    /// Whether a file is intact, and was not written since.
    pub(super) fn has(&self, path: &Path) -> bool {
        let state = std::fs::metadata(path).ok().and_then(|metadata| FileState::of(&metadata));
        state.is_some_and(|state| self.files().get(path) == Some(&state))
    }

    fn files(&self) -> std::sync::MutexGuard<'_, HashMap<PathBuf, FileState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_is_known_until_it_is_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index");
        let written = |content: &str, age: u64| {
            fs::write(&path, content).unwrap();
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        };
        let files = CheckedFiles::default();
        assert!(!files.has(&path));
        written("one", 9);
        assert!(!files.has(&path));
        files.note(&path);
        assert!(files.has(&path));
        written("two", 8);
        assert!(!files.has(&path), "another time");
        files.note(&path);
        written("three", 8);
        assert!(!files.has(&path));
        files.note(&path);
        fs::remove_file(&path).unwrap();
        assert!(!files.has(&path));
    }

    #[test]
    fn a_file_that_was_written_just_now_is_not_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index");
        fs::File::create(&path).unwrap().set_modified(SystemTime::now() + Duration::from_secs(5)).unwrap();
        let files = CheckedFiles::default();
        files.note(&path);
        assert!(!files.has(&path));
    }
}
