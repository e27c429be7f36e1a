//! Opens files whose names come from others.

use std::{
    fs::{File, OpenOptions},
    io::{Error, ErrorKind, Result},
    path::Path,
};

/// `O_NONBLOCK`, which has no effect on regular files.
#[cfg(target_os = "linux")]
const NONBLOCK: i32 = 0o4000;
#[cfg(target_os = "macos")]
const NONBLOCK: i32 = 4;

/// Opens a regular file to read it. To open a pipe or a device could block, or
/// deliver bytes without end.
///
/// # Errors
/// If it is not there, cannot be opened, or is no regular file.
pub fn open_regular(path: &Path) -> Result<File> {
    let refused = || Error::new(ErrorKind::InvalidInput, "it is no regular file");
    if !std::fs::metadata(path)?.is_file() {
        return Err(refused());
    }
    let mut options = OpenOptions::new();
    options.read(true);
    // If it becomes a pipe in this moment, opening it does not wait for a writer.
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, NONBLOCK);
    let file = options.open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(refused()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regular_file_is_opened_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        assert_eq!(open_regular(&path).unwrap_err().kind(), ErrorKind::NotFound);
        std::fs::write(&path, "text").unwrap();
        assert_eq!(std::io::read_to_string(open_regular(&path).unwrap()).unwrap(), "text");
        assert!(open_regular(folder.path()).unwrap_err().to_string().contains("regular"));
        #[cfg(target_os = "linux")]
        assert!(open_regular(Path::new("/dev/zero")).unwrap_err().to_string().contains("regular"));
    }
}
