//! Files of lines that a service appends to.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// A file with one JSON object on each line. If the file is moved away, as by
/// `logrotate`, the next line begins a new file. Clones share the file.
#[derive(Debug, Clone)]
pub struct LineLog(Arc<Mutex<LogFile>>);

#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    file: File,
    /// Whether the last line was cut off and could not be removed.
    is_torn: bool,
}

impl LineLog {
    /// Opens or creates a file, which only its owner may read.
    ///
    /// # Errors
    /// If the file cannot be opened for writing.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = open(path)?;
        Ok(Self(Arc::new(Mutex::new(LogFile { path: path.to_owned(), file, is_torn: false }))))
    }

    /// Appends a line, completely or not at all.
    ///
    /// # Errors
    /// If the line cannot be written, such as on a full disk.
    pub(crate) fn append(&self, line: &str) -> io::Result<()> {
        self.append_if_smaller(u64::MAX, line).map(drop)
    }

    /// Appends a line, completely or not at all, if the file has fewer bytes than
    /// `limit`. Returns false if the file is full.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub(crate) fn append_if_smaller(&self, limit: u64, line: &str) -> io::Result<bool> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.was_moved() {
            (lines.file, lines.is_torn) = (open(&lines.path)?, false);
        }
        let LogFile { file, is_torn, .. } = &mut *lines;
        // No other process may write between a torn line and its removal.
        let is_locked = file.lock().is_ok();
        let before = file.metadata().map(|metadata| metadata.len());
        let is_full = before.as_ref().is_ok_and(|bytes| *bytes >= limit);
        let mut written = Ok(());
        if !is_full {
            // A torn line must not become the beginning of this one.
            let prefix = if *is_torn { "\n" } else { "" };
            written = file.write_all(format!("{prefix}{line}\n").as_bytes());
            match (&written, before) {
                (Ok(()), _) => *is_torn = false,
                (Err(_), Ok(before)) if is_locked && file.set_len(before).is_ok() => {}
                (Err(_), _) => *is_torn = true,
            }
        }
        if is_locked {
            let _ = file.unlock();
        }
        written.map(|()| !is_full)
    }
}

impl LogFile {
    /// Whether the path now leads to another file than the open one.
    #[cfg(unix)]
    fn was_moved(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        let identity = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        match (std::fs::metadata(&self.path), self.file.metadata()) {
            (Ok(there), Ok(open)) => identity(there) != identity(open),
            (Err(error), _) => error.kind() == io::ErrorKind::NotFound,
            (_, Err(_)) => false,
        }
    }

    #[cfg(not(unix))]
    fn was_moved(&self) -> bool {
        false
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &Path) -> Vec<String> {
        std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    #[cfg(unix)]
    fn a_file_that_was_moved_away_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("feedback.jsonl"), folder.path().join("feedback.1"));
        let log = LineLog::open(&path).unwrap();
        log.append("one").unwrap();
        std::fs::rename(&path, &old).unwrap();
        log.append("two").unwrap();
        log.append("three").unwrap();
        assert_eq!((lines(&old), lines(&path)), (vec!["one".to_owned()], vec!["two".to_owned(), "three".to_owned()]));
        std::fs::remove_file(&path).unwrap();
        log.append("four").unwrap();
        assert_eq!(lines(&path), ["four"]);
    }

    #[test]
    fn a_line_after_one_that_was_cut_off_has_a_line_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("traffic.jsonl");
        std::fs::write(&path, "{\"cut\": ").unwrap();
        let log = LineLog::open(&path).unwrap();
        log.0.lock().unwrap().is_torn = true;
        log.append("one").unwrap();
        log.append("two").unwrap();
        assert_eq!(lines(&path), ["{\"cut\": ", "one", "two"]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_cannot_be_removed_from_a_full_device_is_noted() {
        let log = LineLog::open(Path::new("/dev/full")).unwrap();
        assert!(log.append("one").is_err());
        assert!(log.0.lock().unwrap().is_torn);
    }

    #[test]
    fn a_full_file_takes_no_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("feedback.jsonl");
        let log = LineLog::open(&path).unwrap();
        assert!(log.append_if_smaller(4, "one").unwrap());
        assert!(!log.append_if_smaller(4, "two").unwrap());
        assert_eq!(lines(&path), ["one"]);
    }
}
