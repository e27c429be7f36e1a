//! Files that are being written: each is written beside its place under a
//! unique name and then moved, so that no reader sees half a file.

use crate::Error;
use std::{
    fmt::Write,
    hash::{BuildHasher, RandomState},
    io,
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// Separates a file's name from the token while the file is being written.
const MARK: char = '#';

/// A unique part of a name: no other process of this machine has it, no process
/// of another machine or container that sees the same folder (where process ids
/// repeat), and no fork of this process. It consists of the letters `a` to `f`,
/// digits and `-`.
pub fn unique_token() -> String {
    // From the operating system's randomness, once for each process.
    static RANDOM: OnceLock<u64> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let random = RANDOM.get_or_init(|| RandomState::new().hash_one("process"));
    // A fork has the same random number and another id.
    format!("{random:016x}-{:x}-{:x}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The name of a file that is to become `path` when it is complete: in the same
/// folder, with a [`unique_token`] after a `#`. Readers of a store never see
/// such files; `upkeep::find_garbage` finds those that a killed writer left.
pub fn staged_path(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    let _ = write!(name, "{MARK}{}", unique_token());
    path.with_file_name(name)
}

/// Whether a file has such a name, of this or an earlier version.
pub fn is_staged(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let token = name.rsplit_once(MARK).map(|(_, token)| token);
    token.is_some_and(|token| !token.is_empty() && token.chars().all(|c| c.is_ascii_hexdigit() || c == '-'))
}

/// A file that is being written; if it is not moved to its place, it is removed.
#[derive(Debug)]
pub struct StagedFile(pub(crate) PathBuf);

impl StagedFile {
    /// A free name in the folder of a path; the folder is created if it is missing.
    ///
    /// # Errors
    /// If the folder cannot be created.
    pub fn beside(path: &Path) -> Result<Self, Error> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|source| Error::file("create", folder, source))?;
        }
        Ok(Self(staged_path(path)))
    }

    /// Where it is written.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Gives the file its name, flushed to the disk, unless the name is taken.
    pub(crate) async fn link(self, path: &Path) -> Result<bool, Error> {
        let linked = async {
            tokio::fs::File::open(&self.0).await?.sync_all().await?;
            tokio::fs::hard_link(&self.0, path).await
        };
        match linked.await {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(source) => Err(Error::file("write", path, source)),
        }
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        // After a rename there is nothing here, which is no error.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_two_names_are_the_same_also_for_processes_with_the_same_id() -> Result<(), Box<dyn std::error::Error>> {
        let path = Path::new("folder/index.dense");
        let names: HashSet<PathBuf> = (0..1000).map(|_| staged_path(path)).collect();
        assert_eq!(names.len(), 1000);
        assert!(names.iter().all(|name| is_staged(name) && name.parent() == path.parent()));
        // The process id alone does not tell processes apart: two containers
        // have the same ids and count from 0.
        let own = unique_token();
        let other = std::process::Command::new(std::env::current_exe()?)
            .args(["--exact", "staged::tests::tells_its_token", "--ignored", "--nocapture"])
            .output()?;
        let other = String::from_utf8(other.stdout)?;
        let other = other.lines().find_map(|line| line.strip_prefix("token ")).ok_or("no token")?;
        assert_ne!(own.split('-').next(), other.split('-').next());
        Ok(())
    }

    #[test]
    #[ignore = "a process of another test"]
    fn tells_its_token() {
        println!("\ntoken {}", unique_token());
    }

    #[test]
    fn names_of_earlier_versions_are_known() {
        for (name, expected) in [("a.parquet#3", true), ("a#12-7", true), ("a.parquet", false), ("a#", false)] {
            assert_eq!(is_staged(Path::new(name)), expected, "{name}");
        }
    }
}
