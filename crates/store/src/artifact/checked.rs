//! Files that this process has compared with their checksums already.

use std::{
    collections::HashMap,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

/// A file that was written less than this before it was compared may change once more without another time.
const SETTLED: Duration = Duration::from_millis(100);

/// The files that were found intact. One that was written since is compared again.
#[derive(Debug, Default)]
pub(super) struct CheckedFiles(Mutex<HashMap<PathBuf, FileIdentity>>);

/// Which file it is, and its size and time, which change when it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileIdentity {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: SystemTime,
}

impl FileIdentity {
    /// The state of a file; none if there is no such file.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        let (device, inode, bytes) = (metadata.dev(), metadata.ino(), metadata.len());
        Some(Self { device, inode, bytes, modified: metadata.modified().ok()? })
    }

    /// Whether it was written so long ago that writing it again would give it another time.
    fn is_settled(&self) -> bool {
        SystemTime::now().duration_since(self.modified).is_ok_and(|age| age > SETTLED)
    }
}

impl CheckedFiles {
    /// Notes that a file is intact, which had this state before it was read.
    pub(super) fn note(&self, path: &Path, before: Option<FileIdentity>) {
        if let Some(state) = before.filter(|before| FileIdentity::of(path) == Some(*before) && before.is_settled()) {
            self.files().insert(path.to_owned(), state);
        }
    }

    /// Whether a file is intact, and was not written since.
    pub(super) fn has(&self, path: &Path) -> bool {
        FileIdentity::of(path).is_some_and(|state| self.files().get(path) == Some(&state))
    }

    fn files(&self) -> std::sync::MutexGuard<'_, HashMap<PathBuf, FileIdentity>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Writes a file that was changed last this long ago.
    fn write(path: &Path, content: &str, age: Duration) {
        fs::write(path, content).unwrap();
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
    }

    #[test]
    fn a_file_is_known_until_it_is_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index");
        let files = CheckedFiles::default();
        let note = || files.note(&path, FileIdentity::of(&path));
        assert!(!files.has(&path));
        write(&path, "one", Duration::from_secs(9));
        assert!(!files.has(&path));
        note();
        assert!(files.has(&path));
        write(&path, "two", Duration::from_secs(8));
        assert!(!files.has(&path), "another time");
        note();
        write(&path, "three", Duration::from_secs(8));
        assert!(!files.has(&path), "another length");
        note();
        fs::remove_file(&path).unwrap();
        assert!(!files.has(&path));
    }

    #[test]
    fn a_file_that_was_written_shortly_before_or_meanwhile_is_not_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index");
        let files = CheckedFiles::default();
        for (age, is_known) in [(SETTLED / 2, false), (SETTLED * 50, true)] {
            write(&path, "one", age);
            files.note(&path, FileIdentity::of(&path));
            assert_eq!(files.has(&path), is_known, "{age:?}");
        }
        let before = FileIdentity::of(&path);
        write(&path, "two", SETTLED * 40);
        files.note(&path, before);
        assert!(!files.has(&path));
    }
}
