//! The open folder of a store: whether it still exists.

use crate::{Error, staged::file_error};
use std::{
    fs::File,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// An open folder.
#[derive(Debug)]
pub(super) struct OpenFolder {
    path: PathBuf,
    /// Kept open: it shows that the folder was removed even if another one was
    /// made in its place.
    handle: File,
}

impl OpenFolder {
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let handle = File::open(path).map_err(|source| file_error("open", path, source))?;
        Ok(Self { path: path.to_owned(), handle })
    }

    /// # Errors
    /// [`Error::Gone`] if the folder was removed. Writing would make a new one
    /// that lacks everything else.
    pub(super) fn is_there(&self) -> Result<(), Error> {
        let removed = self.handle.metadata().is_ok_and(|metadata| metadata.nlink() == 0);
        if removed || !self.path.is_dir() { Err(Error::Gone { path: self.path.display().to_string() }) } else { Ok(()) }
    }
}
