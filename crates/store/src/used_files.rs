//! Files that can be made again, and stay because they may be of use once more.

use std::{
    collections::HashSet,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

/// Files that were not used may take so many times the space of those that were, and this many bytes more.
const MOST_UNUSED: u64 = 2;
const ALLOWED_BYTES: u64 = 64 << 20;

/// The files of a folder that were used by this process. Each can be made again, and may be removed at any time.
#[derive(Debug, Default)]
pub struct UsedFiles(Mutex<HashSet<PathBuf>>);

impl UsedFiles {
    /// Notes that a file was used, here and as the time of the file.
    pub fn note(&self, path: &Path) {
        // The time says to other processes and later ones which files were not used for long.
        let _ = fs::File::open(path).and_then(|file| file.set_modified(SystemTime::now()));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned());
    }

    /// Removes the files of a folder that were not used for the longest time, if all that were not used take more than
    /// twice the space of those that were, and 64 MiB. A file that has another name elsewhere takes no space here.
    pub fn remove_unused(&self, folder: &Path) {
        let used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut bytes_used, mut others) = (0, Vec::new());
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.nlink() > 1 {
                continue;
            }
            match used.contains(&entry.path()) {
                true => bytes_used += metadata.len(),
                false => {
                    let when = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                    others.push((when, metadata.len(), entry.path()));
                }
            }
        }
        others.sort_unstable();
        let mut bytes: u64 = others.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, size, path) in others {
            if bytes <= bytes_used * MOST_UNUSED + ALLOWED_BYTES {
                break;
            }
            // Another process may have removed it.
            let _ = fs::remove_file(path);
            bytes -= size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_that_were_not_used_for_longest_are_removed_when_they_take_too_much_space() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: u64, age: u64| {
            let path = folder.path().join(name);
            let file = fs::File::create(&path).unwrap();
            file.set_len(bytes).unwrap();
            file.set_modified(SystemTime::now() - std::time::Duration::from_secs(age)).unwrap();
            path
        };
        let (old, older) = (file("old", ALLOWED_BYTES / 2, 100), file("older", ALLOWED_BYTES / 2, 200));
        let (used, oldest) = (file("used", 100, 300), file("oldest", 201, 400));
        let linked = file("linked", 10 * ALLOWED_BYTES, 500);
        let elsewhere = tempfile::tempdir().unwrap();
        fs::hard_link(&linked, elsewhere.path().join("linked")).unwrap();
        let files = UsedFiles::default();
        files.note(&used);
        files.remove_unused(folder.path());
        assert!(old.exists() && older.exists() && used.exists());
        assert!(linked.exists(), "it has another name");
        assert!(!oldest.exists(), "201 bytes more than 64 MiB, and 100 were used");
        assert!(fs::metadata(&used).unwrap().modified().unwrap().elapsed().unwrap().as_secs() < 60);
        files.remove_unused(folder.path());
        assert!(old.exists() && older.exists() && used.exists());
    }
}
