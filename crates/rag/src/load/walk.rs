//! `load::walk`: files on a local disk. Links are followed, once; what cannot
//! be entered is reported and the walk goes on. These functions block.

use super::LoadError;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use walkdir::WalkDir;

/// What is at a place: each file's location and size, and what failed.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) files: Vec<(String, u64)>,
    pub(super) unreadable: Vec<(String, LoadError)>,
}

/// All files below a folder.
pub(super) fn folder(root: &Path) -> Result<Seen, String> {
    // Only the root is fatal: a folder below it that cannot be read is one of many.
    std::fs::read_dir(root).map_err(|error| format!("the folder cannot be read: {error}"))?;
    let mut seen = Seen::default();
    let hidden = |name: &std::ffi::OsStr| name.as_encoded_bytes().starts_with(b".");
    let walk = WalkDir::new(root).follow_links(true).sort_by_file_name().into_iter();
    for entry in walk.filter_entry(|entry| entry.depth() == 0 || !hidden(entry.file_name())) {
        match entry {
            Ok(entry) if entry.file_type().is_file() => {
                let path = below(root, entry.path());
                if entry.path().to_str().is_none() {
                    let reason = "its name is not UTF-8; rename it".to_owned();
                    seen.unreadable.push((path, LoadError::Unreadable(reason)));
                    continue;
                }
                match entry.metadata() {
                    Ok(metadata) => seen.files.push((path, metadata.len())),
                    Err(error) => seen.unreadable.push((path, LoadError::Unreadable(error.to_string()))),
                }
            }
            Ok(_) => {}
            // A link back to a folder that is being walked holds nothing new.
            Err(error) if error.loop_ancestor().is_some() => {}
            Err(error) => {
                let path = error.path().map(|path| below(root, path)).unwrap_or_default();
                let reason = error.io_error().map_or_else(|| error.to_string(), ToString::to_string);
                seen.unreadable.push((path, LoadError::Unreadable(reason)));
            }
        }
    }
    Ok(seen)
}

/// A single file, under its own name.
pub(super) fn single(path: &Path) -> Result<Seen, String> {
    let metadata = std::fs::metadata(path).map_err(|error| format!("the file cannot be read: {error}"))?;
    if !metadata.is_file() {
        return Err("it is neither a file nor a folder".to_owned());
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(Seen { files: vec![(name, metadata.len())], unreadable: Vec::new() })
}

/// A file's bytes; one more than `limit` of them where it is too large.
pub(super) fn read(path: &Path, limit: u64) -> std::io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let size = file.metadata()?.len().min(limit);
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn below(root: &Path, path: &Path) -> String {
    let path = path.strip_prefix(root).unwrap_or(path);
    let parts: Vec<_> = path.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    parts.join("/")
}
