//! `load::walk`: lists files on a local disk. A link that stays inside the
//! folder is followed, once. Links that leave the folder, folders that cannot
//! be entered, and entries that are no files are reported, and the walk
//! continues. These functions block.

use super::{FileState, Links, LoadError, ReadError, Rejected, Unread};
use object_store::ObjectMeta;
use rayon::prelude::*;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{MAIN_SEPARATOR, Path, PathBuf};
use walkdir::{DirEntry, WalkDir};

/// Files that are looked at together, by all cores.
const FILES_AT_ONCE: usize = 4096;

/// The result of a walk: each file, and the failures.
#[derive(Debug, Default)]
pub(super) struct WalkResult {
    pub(super) files: Vec<SeenFile>,
    pub(super) rejected: Vec<Rejected>,
    /// What could not be looked at now.
    pub(super) unread: Vec<Unread>,
}

/// A file that was seen.
#[derive(Debug)]
pub(super) struct SeenFile {
    /// Its path below the root, or its whole key in an object store.
    pub(super) location: String,
    pub(super) bytes: u64,
    pub(super) state: Option<FileState>,
}

impl SeenFile {
    fn of_file(location: String, metadata: &Metadata) -> Self {
        Self { location, bytes: metadata.len(), state: FileState::of_file(metadata) }
    }

    pub(super) fn of_object(object: &ObjectMeta) -> Self {
        Self { location: object.location.to_string(), bytes: object.size, state: FileState::of_object(object) }
    }
}

/// Why nothing below a path can be listed.
#[derive(Debug, thiserror::Error)]
pub(super) enum WalkError {
    #[error("the folder cannot be read: {0}")]
    Folder(io::Error),
    #[error("the folder cannot be found: {0}")]
    Root(io::Error),
    #[error("the file cannot be read: {0}")]
    File(io::Error),
    #[error("it is neither a file nor a folder")]
    Kind,
}

/// All files below a folder.
pub(super) fn folder(root: &Path, links: Links) -> Result<WalkResult, WalkError> {
    // Only the root is fatal; a subfolder that cannot be read is one of many.
    std::fs::read_dir(root).map_err(WalkError::Folder)?;
    let real_root = root.canonicalize().map_err(WalkError::Root)?;
    let mut seen = WalkResult::default();
    let mut found = Vec::new();
    let hidden = |name: &std::ffi::OsStr| name.as_encoded_bytes().starts_with(b".");
    // Siblings differ only in the last part of their paths, so comparing whole paths sorts by name.
    let by_name = |one: &DirEntry, other: &DirEntry| one.path().as_os_str().cmp(other.path().as_os_str());
    let mut walk = WalkDir::new(root).follow_links(true).sort_by(by_name).into_iter();
    while let Some(entry) = walk.next() {
        let Ok(entry) = entry.map_err(|error| seen.record_failure(root, &error)) else { continue };
        let is_folder = entry.file_type().is_dir();
        if entry.depth() > 0 && hidden(entry.file_name()) {
            if is_folder {
                walk.skip_current_dir();
            }
            continue;
        }
        let path = below(root, entry.path());
        if entry.path_is_symlink()
            && entry.depth() > 0
            && let Err(reason) = stays_below(&real_root, entry.path(), links)
        {
            if is_folder {
                walk.skip_current_dir();
            }
            seen.rejected.push(Rejected { path, reason });
            continue;
        }
        if !entry.file_type().is_file() {
            continue;
        }
        if entry.path().to_str().is_none() {
            let reason = LoadError::Unreadable("its name is not UTF-8; rename it".to_owned());
            seen.rejected.push(Rejected { path, reason });
            continue;
        }
        found.push((entry, path));
        if found.len() == FILES_AT_ONCE {
            seen.look_at(root, &mut found);
        }
    }
    seen.look_at(root, &mut found);
    Ok(seen)
}

impl WalkResult {
    /// Looks at files, which are given with their paths below the root.
    fn look_at(&mut self, root: &Path, found: &mut Vec<(DirEntry, String)>) {
        let look = |(entry, path): (DirEntry, String)| Ok(SeenFile::of_file(path, &entry.metadata()?));
        let looked_at: Vec<Result<SeenFile, walkdir::Error>> = found.par_drain(..).map(look).collect();
        for file in looked_at {
            match file {
                Ok(file) => self.files.push(file),
                Err(error) => self.record_failure(root, &error),
            }
        }
    }

    fn record_failure(&mut self, root: &Path, error: &walkdir::Error) {
        // A link back to a folder that is being walked adds nothing.
        if error.loop_ancestor().is_some() {
            return;
        }
        let path = error.path().map(|path| below(root, path)).unwrap_or_default();
        let leads_nowhere = || LoadError::Unreadable("a link that leads to no file, or back to itself".to_owned());
        // A broken link stays broken; other failures may pass.
        let is_link = error.path().is_some_and(|path| path.is_symlink() && path.metadata().is_err());
        match error.io_error() {
            Some(error) if is_link && (error.kind() == io::ErrorKind::NotFound || is_loop(error)) => {
                self.rejected.push(Rejected { path, reason: leads_nowhere() });
            }
            Some(error) => self.unread.push(Unread { path, reason: error.to_string() }),
            None => self.unread.push(Unread { path, reason: error.to_string() }),
        }
    }
}

/// Whether links form a circle.
fn is_loop(error: &io::Error) -> bool {
    // This kind of error has no stable name yet; this is its number on Linux.
    const TOO_MANY_LINKS: i32 = 40;
    error.raw_os_error() == Some(TOO_MANY_LINKS)
}

/// A single file, under its own name.
pub(super) fn single(path: &Path) -> Result<WalkResult, WalkError> {
    let metadata = std::fs::metadata(path).map_err(WalkError::File)?;
    if !metadata.is_file() {
        return Err(WalkError::Kind);
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(WalkResult { files: vec![SeenFile::of_file(name, &metadata)], ..WalkResult::default() })
}

/// A file's bytes below a folder; one byte more than `limit` if the file is too
/// large. The target of the path is checked again, because it may be another
/// file now than when it was listed.
pub(super) fn read_below(root: &Path, location: &str, links: Links, limit: u64) -> Result<Vec<u8>, ReadError> {
    let path = root.join(location);
    let real_root = root.canonicalize().map_err(|error| failed(&error))?;
    let real = match resolve(&real_root, &path, links) {
        Ok(real) => real,
        Err(LinkError::Outside(target)) => return Err(ReadError::Rejected(LoadError::OutsideLink { target })),
        Err(LinkError::Failed(error)) => return Err(failed(&error)),
    };
    read(&real, limit)
}

/// A file's bytes; one byte more than `limit` if the file is too large.
pub(super) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, ReadError> {
    let read = || {
        let file = File::open(path)?;
        let size = file.metadata()?.len().min(limit);
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
        file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|error| failed(&error))
}

fn failed(error: &io::Error) -> ReadError {
    let is_temporary = !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied);
    ReadError::Failed { reason: error.to_string(), is_temporary }
}

/// Why a path may not be read.
enum LinkError {
    Outside(String),
    Failed(io::Error),
}

/// The real path of a file, if it may be read.
fn resolve(real_root: &Path, path: &Path, links: Links) -> Result<PathBuf, LinkError> {
    let real = path.canonicalize().map_err(LinkError::Failed)?;
    if links == Links::Anywhere || real.starts_with(real_root) {
        return Ok(real);
    }
    Err(LinkError::Outside(real.display().to_string()))
}

fn stays_below(real_root: &Path, path: &Path, links: Links) -> Result<(), LoadError> {
    match resolve(real_root, path, links) {
        Ok(_) => Ok(()),
        Err(LinkError::Outside(target)) => Err(LoadError::OutsideLink { target }),
        Err(LinkError::Failed(error)) => Err(LoadError::Unreadable(error.to_string())),
    }
}

fn below(root: &Path, path: &Path) -> String {
    let path = path.strip_prefix(root).unwrap_or(path).to_string_lossy();
    match MAIN_SEPARATOR {
        '/' => path.into_owned(),
        other => path.replace(other, "/"),
    }
}
