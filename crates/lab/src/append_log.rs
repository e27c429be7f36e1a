//! Logs of what people say, such as votes: a line of JSON for each, added by several programs at once.
//!
//! A line is on the disk before [`AppendLog::append`] returns, so a program that is killed loses nothing that it has
//! confirmed. Programs on one machine take turns by a lock on the file. An incomplete line, which a killed program left, is
//! skipped.

use crate::Error;
use serde::{Serialize, de::DeserializeOwned};
use std::{
    fs::{File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

/// A log, and how far it was read. Its file is created with the first line.
pub(crate) struct AppendLog {
    path: PathBuf,
    /// How many bytes were read.
    read: u64,
}

impl AppendLog {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, read: 0 }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether no line was read or written yet.
    pub(crate) fn is_unread(&self) -> bool {
        self.read == 0
    }

    /// The lines that were added since the last call; none if there is no file.
    pub(crate) fn new_lines<T: DeserializeOwned>(&mut self) -> Result<Vec<T>, Error> {
        let Some(mut file) = Error::allow_missing(&self.path, File::open(&self.path))? else { return Ok(Vec::new()) };
        // A program that writes holds the lock, so no line is read while only half of it is there.
        file.lock_shared().map_err(|source| Error::file("lock", &self.path, source))?;
        self.read_lines(&mut file)
    }

    /// Adds the line that `make` makes from the lines that were added since the last call. When this returns, the line is
    /// on the disk. If `make` fails, nothing is added.
    pub(crate) fn append<T, E>(&mut self, make: impl FnOnce(Vec<T>) -> Result<T, E>) -> Result<T, E>
    where
        T: Serialize + DeserializeOwned,
        E: From<Error>,
    {
        self.exclusively(|lines, log| {
            let line = make(lines)?;
            log.write(std::slice::from_ref(&line))?;
            Ok(line)
        })
    }

    /// Calls a function while no other program writes into the log, with the lines that were added since the last call.
    pub(crate) fn exclusively<L, T, E>(
        &mut self,
        change: impl FnOnce(Vec<L>, &mut LockedLog<'_>) -> Result<T, E>,
    ) -> Result<T, E>
    where
        L: DeserializeOwned,
        E: From<Error>,
    {
        let file = OpenOptions::new().read(true).append(true).create(true).open(&self.path);
        let mut file = file.map_err(|source| Error::file("open", &self.path, source))?;
        // The lock ends when the file is closed.
        file.lock().map_err(|source| Error::file("lock", &self.path, source))?;
        let lines = self.read_lines(&mut file)?;
        change(lines, &mut LockedLog { log: self, file })
    }

    fn read_lines<T: DeserializeOwned>(&mut self, file: &mut File) -> Result<Vec<T>, Error> {
        let mut bytes = Vec::new();
        let read = file.seek(SeekFrom::Start(self.read)).and_then(|_| file.read_to_end(&mut bytes));
        read.map_err(|source| Error::file("read", &self.path, source))?;
        self.read += bytes.len() as u64;
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
    }
}

/// A log into which no other program writes now.
pub(crate) struct LockedLog<'a> {
    log: &'a mut AppendLog,
    file: File,
}

impl LockedLog<'_> {
    /// Adds lines. When this returns, they are on the disk.
    pub(crate) fn write(&mut self, lines: &[impl Serialize]) -> Result<(), Error> {
        // A line that a killed program left incomplete ends here.
        let mut bytes = vec![b'\n'];
        for line in lines {
            serde_json::to_writer(&mut bytes, line).map_err(Error::table)?;
            bytes.push(b'\n');
        }
        let written = self.file.write_all(&bytes).and_then(|()| self.file.sync_data());
        written.map_err(|source| Error::file("write", &self.log.path, source))?;
        self.log.read += bytes.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(log: &mut AppendLog, number: u32) -> Vec<u32> {
        let mut before = Vec::new();
        log.append(|lines| {
            before = lines;
            Ok::<_, Error>(number)
        })
        .unwrap();
        before
    }

    #[test]
    fn a_line_is_on_the_disk_before_it_is_confirmed_and_other_programs_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        let (mut one, mut other) = (AppendLog::new(path.clone()), AppendLog::new(path.clone()));
        assert_eq!(one.new_lines::<u32>().unwrap(), [0; 0]);
        assert!(!path.exists(), "looking creates no file");
        assert_eq!(add(&mut one, 1), [0; 0]);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "\n1\n");
        assert_eq!(add(&mut other, 2), [1]);
        assert_eq!(one.new_lines::<u32>().unwrap(), [2], "its own line is not read again");
        assert_eq!(other.new_lines::<u32>().unwrap(), [0; 0]);
    }

    #[test]
    fn half_a_line_of_a_killed_program_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        std::fs::write(&path, "1\n[2, ").unwrap();
        let mut log = AppendLog::new(path.clone());
        assert_eq!(add(&mut log, 3), [1]);
        assert_eq!(AppendLog::new(path).new_lines::<u32>().unwrap(), [1, 3]);
    }

    #[test]
    fn nothing_is_added_if_the_line_cannot_be_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        let mut log = AppendLog::new(path.clone());
        let refused = log.append(|_: Vec<u32>| Err::<u32, _>(Error::Unusable("no".to_owned())));
        assert!(refused.is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"");
    }
}
