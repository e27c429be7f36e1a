//! Bytes that belong behind others that are not written yet.

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

/// More bytes than this wait in a file.
const MOST: usize = 4 << 20;

/// Bytes that wait, in memory or beside the file that they will be a part of.
#[derive(Debug, Default)]
pub(super) struct Spool {
    memory: Vec<u8>,
    path: Option<PathBuf>,
    file: Option<File>,
    /// How many bytes were added.
    pub(super) bytes: u64,
}

impl Spool {
    /// Bytes that will be a part of the file at `path`.
    pub(super) fn beside(path: &Path) -> Self {
        let path = Some(store::staged_path(path));
        Self { memory: Vec::new(), path, file: None, bytes: 0 }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.memory.extend_from_slice(bytes);
        self.bytes += bytes.len() as u64;
        if self.memory.len() < MOST {
            return Ok(());
        }
        let Some(path) = &self.path else { return Ok(()) };
        if self.file.is_none() {
            self.file = Some(File::create(path)?);
        }
        if let Some(file) = &mut self.file {
            file.write_all(&self.memory)?;
            self.memory.clear();
        }
        Ok(())
    }

    /// Writes all that was added.
    pub(super) fn copy_to(self, to: &mut impl Write) -> io::Result<()> {
        if let (Some(path), Some(_)) = (&self.path, &self.file) {
            io::copy(&mut File::open(path)?, to)?;
        }
        to.write_all(&self.memory)
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        if let (Some(path), Some(_)) = (&self.path, self.file.take()) {
            // A file that cannot be removed does no harm: `store` finds it by its name.
            drop(std::fs::remove_file(path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_are_copied_and_no_file_is_left() {
        let folder = tempfile::tempdir().unwrap();
        for mut spool in [Spool::default(), Spool::beside(&folder.path().join("x"))] {
            let bytes: Vec<u8> = (0..3 * MOST + 5).map(|i| (i / 7) as u8).collect();
            bytes.chunks(1 << 20).for_each(|chunk| spool.push(chunk).unwrap());
            let mut copied = Vec::new();
            spool.copy_to(&mut copied).unwrap();
            assert!(copied == bytes);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
