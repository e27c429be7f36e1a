//! Logs of what people say, such as votes: a line of JSON for each, added by several programs at once.
//!
//! A line is on the disk before [`AppendLog::append`] returns, so a program that is killed loses nothing that it has
//! confirmed. Programs on one machine take turns by a lock on the file. Half a line, which a killed program left, is
//! passed over.

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
        let file = OpenOptions::new().read(true).append(true).create(true).open(&self.path);
        let mut file = file.map_err(|source| Error::file("open", &self.path, source))?;
        // The lock ends when the file is closed.
        file.lock().map_err(|source| Error::file("lock", &self.path, source))?;
        let line = make(self.read_lines(&mut file)?)?;
        self.write(&mut file, &line)?;
        Ok(line)
    }

    fn read_lines<T: DeserializeOwned>(&mut self, file: &mut File) -> Result<Vec<T>, Error> {
        let mut bytes = Vec::new();
        let read = file.seek(SeekFrom::Start(self.read)).and_then(|_| file.read_to_end(&mut bytes));
        read.map_err(|source| Error::file("read", &self.path, source))?;
        self.read += bytes.len() as u64;
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
    }

    fn write(&mut self, file: &mut File, line: &impl Serialize) -> Result<(), Error> {
        let mut bytes = serde_json::to_vec(line).map_err(Error::table)?;
        // A line that a killed program left half-written ends here.
        bytes.insert(0, b'\n');
        bytes.push(b'\n');
        let written = file.write_all(&bytes).and_then(|()| file.sync_data());
        written.map_err(|source| Error::file("write", &self.path, source))?;
        self.read += bytes.len() as u64;
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
