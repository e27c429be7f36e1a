//! Reads the file of keys again when it changes, so that a key is revoked or added
//! without a restart.

use crate::{audit::AuditLog, failure::CommandFailure};
use ::serve::{ApiKeys, KeyFile};
use serde_json::json;
use std::{
    io::Read,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};
use tokio::task::JoinError;

/// The interval of checks. A mounted secret changes by a symbolic link, which a
/// watch of the file would not notice.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// The most bytes of the file: ten thousand keys need less.
const MAX_BYTES: u64 = 4 << 20;

/// The properties of a file by which a change is noticed.
#[derive(Debug, PartialEq, Eq)]
struct FileStamp {
    modified: Option<SystemTime>,
    bytes: u64,
    path: Option<PathBuf>,
    /// The inode, and the time of its last change (ctime), which no program can set back.
    #[cfg(unix)]
    changed: (u64, i64, i64),
}

fn stamp(path: &Path) -> Option<FileStamp> {
    #[cfg(unix)]
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(path).ok()?;
    Some(FileStamp {
        modified: metadata.modified().ok(),
        bytes: metadata.len(),
        path: std::fs::canonicalize(path).ok(),
        #[cfg(unix)]
        changed: (metadata.ino(), metadata.ctime(), metadata.ctime_nsec()),
    })
}

/// Why a file of keys cannot be used.
#[derive(Debug, thiserror::Error)]
enum KeyWatchError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// The file is too large.
    #[error("it has more than {MAX_BYTES} bytes")]
    TooLarge,
    /// The content of the file, in the words of its reader.
    #[error("{0}")]
    Content(String),
    /// The service has ended.
    #[error(transparent)]
    Ended(#[from] JoinError),
}

fn read(path: &Path) -> Result<KeyFile, KeyWatchError> {
    let mut text = String::new();
    let file = store::open_regular(path)?;
    file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(KeyWatchError::TooLarge);
    }
    KeyFile::read(&text).map_err(|error| KeyWatchError::Content(lab::error_chain(&error)))
}

/// The keys of a file, and the state of the file when they were read.
pub struct WatchedKeys {
    /// The keys.
    pub keys: ApiKeys,
    path: PathBuf,
    stamp: Option<FileStamp>,
}

impl WatchedKeys {
    /// Reads the keys of a file.
    ///
    /// # Errors
    /// If the file cannot be used.
    pub fn read(path: &Path) -> Result<Self, CommandFailure> {
        let refused =
            |reason: &dyn std::fmt::Display| CommandFailure::usage(format!("--keys {}: {reason}", path.display()));
        // Taken before reading, so that a change in between is noticed.
        let stamp = stamp(path);
        let file = read(path).map_err(|reason| refused(&reason))?;
        if file.key.is_empty() {
            return Err(refused(&"there is no key in it, so nobody could ask; `reverie keys new NAME` adds one"));
        }
        let keys = ApiKeys::new(file).map_err(|error| refused(&lab::error_chain(&error)))?;
        Ok(Self { keys, path: path.to_owned(), stamp })
    }

    /// Reads the keys again whenever their file has changed, until it is dropped. A
    /// file that cannot be read leaves the keys as they were; the audit says so.
    pub async fn watch(self, audit: AuditLog) {
        let Self { keys, path, stamp: mut known } = self;
        loop {
            let Ok(now) = on_blocking_thread(&path, stamp).await else { return };
            if now != known {
                let file = on_blocking_thread(&path, read).await.unwrap_or_else(|error| Err(error.into()));
                audit.record(&match file.and_then(|file| {
                    keys.replace(file).map_err(|error| KeyWatchError::Content(lab::error_chain(&error)))
                }) {
                    Ok(count) => json!({ "action": "keys", "keys": count, "outcome": "done" }),
                    Err(reason) => {
                        json!({ "action": "keys", "outcome": format!("the previous keys stay in use: {reason}") })
                    }
                });
                known = now;
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }
}

/// Reads a file on a blocking thread, because a file system may hang. An error means
/// that the service has ended.
async fn on_blocking_thread<T: Send + 'static>(path: &Path, look: fn(&Path) -> T) -> Result<T, JoinError> {
    let path = path.to_owned();
    tokio::task::spawn_blocking(move || look(&path)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_changes_has_another_stamp_though_its_size_and_time_are_set_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.toml");
        std::fs::write(&path, "a").unwrap();
        let (before, times) = (stamp(&path), std::fs::metadata(&path).unwrap().modified().unwrap());
        assert_eq!(stamp(&path), before);
        let change = || {
            std::fs::write(&path, "b").unwrap();
            std::fs::File::options().write(true).open(&path).unwrap().set_modified(times).unwrap();
            stamp(&path)
        };
        // The clock of a file system moves on every few milliseconds.
        assert!((0..100_000).any(|_| change() != before));
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_or_a_very_large_file_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(read(&pipe).is_err());
        let large = folder.path().join("large");
        std::fs::write(&large, vec![b'#'; MAX_BYTES as usize + 1]).unwrap();
        assert!(matches!(read(&large), Err(KeyWatchError::TooLarge)));
    }
}
