//! Files to which a service appends lines.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

/// A file of lines, one JSON object each.
#[derive(Debug, Clone)]
pub struct LineLog(Arc<Mutex<File>>);

impl LineLog {
    /// Opens or makes it; only its owner may read it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(Self(Arc::new(Mutex::new(options.open(path)?))))
    }

    /// Adds a line, completely or not at all.
    ///
    /// # Errors
    /// If it cannot be written, such as on a full disk.
    pub(crate) fn append(&self, line: &str) -> io::Result<()> {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // No other process may write between a line that is cut off and its removal.
        let is_locked = file.lock().is_ok();
        let before = file.metadata().map(|metadata| metadata.len());
        let written = file.write_all(format!("{line}\n").as_bytes());
        if written.is_err()
            && is_locked
            && let Ok(before) = before
        {
            let _ = file.set_len(before);
        }
        if is_locked {
            let _ = file.unlock();
        }
        written
    }
}
