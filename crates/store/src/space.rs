//! Recognizes errors that mean that there is no space left.

use crate::Error;
use std::{error::Error as StdError, io, path::Path, sync::Arc};

/// The extended results of SQLite for a write that the system refused for another reason than a full disk, such as a
/// limit on the size of files: SQLITE_IOERR_WRITE, _FSYNC, _DIR_FSYNC, _TRUNCATE, _SHMOPEN (which sets the size of the
/// file that it opens) and _SHMSIZE.
const UNWRITTEN: [i32; 6] = [778, 1034, 1290, 1546, 4618, 4874];

/// The answer of an object store that has no space left (RFC 4918).
#[derive(Debug, thiserror::Error)]
#[error("the object store answered 507 (no space left)")]
pub(crate) struct InsufficientStorage;

/// Whether one of the causes of an error is that there is no space left.
pub(crate) fn is_out_of_space(error: &(dyn StdError + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<InsufficientStorage>() || error.downcast_ref().is_some_and(is_full) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Whether the system has no space, or allows no larger file.
fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// Whether SQLite could not write because there is no space, or because the system refused the write.
pub(crate) fn is_unwritten(error: &rusqlite::Error) -> bool {
    error
        .sqlite_error()
        .is_some_and(|error| error.code == rusqlite::ErrorCode::DiskFull || UNWRITTEN.contains(&error.extended_code))
}

impl Error {
    /// The failure of a file. If there is no space left, it is [`Error::Full`].
    pub fn file(operation: &'static str, path: &Path, source: io::Error) -> Self {
        if is_out_of_space(&source) {
            return full(path.display().to_string(), source);
        }
        Self::File { operation, path: path.display().to_string(), source }
    }
}

/// The error for something that could not be written because there is no space left.
pub(crate) fn full(path: String, source: impl StdError + Send + Sync + 'static) -> Error {
    Error::Full { path, source: Arc::new(source) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    #[test]
    fn refused_writes_of_sqlite_are_a_lack_of_space_and_other_failures_are_not() {
        let failed = |code| rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        for code in [
            ffi::SQLITE_FULL,
            ffi::SQLITE_IOERR_WRITE,
            ffi::SQLITE_IOERR_FSYNC,
            ffi::SQLITE_IOERR_DIR_FSYNC,
            ffi::SQLITE_IOERR_TRUNCATE,
            ffi::SQLITE_IOERR_SHMOPEN,
            ffi::SQLITE_IOERR_SHMSIZE,
        ] {
            assert!(is_unwritten(&failed(code)), "{code}");
        }
        for code in [ffi::SQLITE_CORRUPT, ffi::SQLITE_IOERR_READ, ffi::SQLITE_BUSY, ffi::SQLITE_CANTOPEN] {
            assert!(!is_unwritten(&failed(code)), "{code}");
        }
    }
}
