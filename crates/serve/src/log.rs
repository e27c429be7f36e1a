//! Files to which a service appends lines.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

/// A file of lines, one JSON object each.
#[derive(Debug, Clone)]
pub struct LineLog(Arc<Mutex<Lines>>);

#[derive(Debug)]
struct Lines {
    file: File,
    /// The last line was cut off and could not be removed.
    is_torn: bool,
}

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
        Ok(Self(Arc::new(Mutex::new(Lines { file: options.open(path)?, is_torn: false }))))
    }

    /// How long the file is.
    ///
    /// # Errors
    /// If the system does not say.
    pub(crate) fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).file.metadata()?.len())
    }

    /// Adds a line, completely or not at all.
    ///
    /// # Errors
    /// If it cannot be written, such as on a full disk.
    pub(crate) fn append(&self, line: &str) -> io::Result<()> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Lines { file, is_torn } = &mut *lines;
        // No other process may write between a line that is cut off and its removal.
        let is_locked = file.lock().is_ok();
        let before = file.metadata().map(|metadata| metadata.len());
        // What was cut off earlier must not become the beginning of this line.
        let begin = if *is_torn { "\n" } else { "" };
        let written = file.write_all(format!("{begin}{line}\n").as_bytes());
        match (&written, before) {
            (Ok(()), _) => *is_torn = false,
            (Err(_), Ok(before)) if is_locked && file.set_len(before).is_ok() => {}
            (Err(_), _) => *is_torn = true,
        }
        if is_locked {
            let _ = file.unlock();
        }
        written
    }
}
