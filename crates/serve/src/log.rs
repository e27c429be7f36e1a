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

    pub(crate) fn append(&self, line: &str) -> io::Result<()> {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // In one write, so that lines of two processes do not mix.
        file.write_all(format!("{line}\n").as_bytes())
    }
}
