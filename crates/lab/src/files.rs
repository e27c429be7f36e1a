//! Writes files completely or not at all, even if the process is killed.

use crate::Error;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};
use store::Key;

/// The bytes of a checksum at the end of a file.
const CHECKSUM: usize = 32;

/// Writes a file under another name first and then moves it, so that nobody
/// reads half of it and a killed process leaves the old one. If the path is a
/// link, its target is replaced and the link stays. Permissions stay as they
/// were.
///
/// # Errors
/// If it cannot be written.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    DraftFile::write(path, bytes)?.publish()
}

/// A file that is on the disk under another name, until it is published. It is removed if it never is.
pub(crate) struct DraftFile {
    /// The path as it was given.
    path: PathBuf,
    /// What is replaced: where the path leads, if it is a link.
    real: PathBuf,
    draft: PathBuf,
}

impl DraftFile {
    /// Writes the content, which takes most of the time.
    pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<Self, Error> {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let draft = store::staged_path(&real);
        let file = Self { path: path.to_owned(), real, draft };
        write_draft(&file.draft, bytes).map_err(|source| Error::file("write", path, source))?;
        Ok(file)
    }

    /// Moves the draft to its path.
    pub(crate) fn publish(self) -> Result<(), Error> {
        let moved = match fs::metadata(&self.real) {
            Ok(metadata) => fs::set_permissions(&self.draft, metadata.permissions()),
            Err(_) => Ok(()),
        };
        let moved = moved.and_then(|()| fs::rename(&self.draft, &self.real));
        moved.map_err(|source| Error::file("write", &self.path, source))
    }
}

impl Drop for DraftFile {
    fn drop(&mut self) {
        // After it was published there is nothing under this name.
        let _ = fs::remove_file(&self.draft);
    }
}

/// Writes a new file.
///
/// # Errors
/// If the file exists already, or cannot be written.
pub fn write_new(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let draft = store::staged_path(path);
    // A hard link fails where the name is taken, so that of two programs one wins.
    let written = write_draft(&draft, bytes).and_then(|()| fs::hard_link(&draft, path));
    let _ = fs::remove_file(&draft);
    match written {
        // A file system without hard links.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists && !path.exists() => {
            let created = OpenOptions::new().write(true).create_new(true).open(path);
            created.and_then(|mut file| file.write_all(bytes)).map_err(|source| Error::file("write", path, source))
        }
        written => written.map_err(|source| Error::file("write", path, source)),
    }
}

/// The content of a file that [`write_with_checksum`] wrote; none if it is missing or damaged.
pub(crate) fn read_with_checksum(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = fs::read(path).ok()?;
    let (content, checksum) = bytes.split_last_chunk::<CHECKSUM>()?;
    let length = content.len();
    (Key::of_bytes(content).bytes() == checksum).then(|| {
        bytes.truncate(length);
        bytes
    })
}

/// Writes a file that can be made again from others, with a checksum at its end.
pub(crate) fn write_with_checksum(path: &Path, mut bytes: Vec<u8>) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let checksum = Key::of_bytes(&bytes);
    bytes.extend(checksum.bytes());
    let draft = store::staged_path(path);
    let written = fs::write(&draft, bytes).and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}

fn write_draft(draft: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(draft)?;
    file.write_all(bytes)?;
    // The content must reach the disk before the name.
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        write_whole(&path, b"one").unwrap();
        write_whole(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write_whole(&folder.path().join("none/a.txt"), b"x").is_err());
    }

    #[test]
    fn a_new_file_never_replaces_one_that_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        write_new(&path, b"one").unwrap();
        assert!(write_new(&path, b"two").is_err());
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn links_and_permissions_stay() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real.txt"), folder.path().join("link.txt"));
        fs::write(&real, "one").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
        symlink("real.txt", &link).unwrap();
        write_whole(&link, b"two").unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"two");
        assert!(link.is_symlink());
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
