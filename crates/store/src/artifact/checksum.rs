//! Checksums of objects. The checksum of `a/b` is the name of an empty object,
//! `checksums/a/b.<BLAKE3>`, written before the object itself.
//!
//! Therefore, whenever a writer is killed, an object without a checksum is one
//! of an older version. If two writers write one name with different bytes,
//! each has written its own checksum first: an object is intact if its checksum
//! is among those of its name. The checksum is no part of the object, so damage
//! to the object cannot hide itself, and other programs can read the object as
//! a file.

use super::{ArtifactStore, StoredObject, object_path};
use crate::{Error, access::retry, names};
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutPayload, path::Path as ObjectPath};
use std::{
    fmt,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

/// From this many bytes on, hashing runs on a thread of its own; fewer take 0.1 ms.
const MANY: usize = 256 << 10;
/// A file is hashed in pieces of this many bytes.
const PIECE: usize = 1 << 20;

/// The BLAKE3 of an object's bytes, as hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Checksum(String);

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Checksum {
    /// The checksum of bytes in memory.
    pub(crate) async fn of(bytes: &bytes::Bytes) -> Result<Self, Error> {
        if bytes.len() < MANY {
            return Ok(Self::from(blake3::hash(bytes)));
        }
        let bytes = bytes.clone();
        let hashed = tokio::task::spawn_blocking(move || Self::from(blake3::hash(&bytes))).await;
        hashed.map_err(|error| Error::file("hash", Path::new("an object"), std::io::Error::other(error)))
    }

    /// The checksum of a file, which is read piece by piece.
    pub(crate) async fn of_file(path: &Path) -> Result<Self, Error> {
        let file = path.to_owned();
        let hash = move || {
            let (mut file, mut hasher, mut piece) = (File::open(&file)?, blake3::Hasher::new(), vec![0; PIECE]);
            loop {
                match file.read(&mut piece)? {
                    0 => return Ok(Self::from(hasher.finalize())),
                    n => _ = hasher.update(&piece[..n]),
                }
            }
        };
        let hashed = tokio::task::spawn_blocking(hash).await.map_err(std::io::Error::other);
        hashed.and_then(|hashed| hashed).map_err(|source| Error::file("read", path, source))
    }

    /// The name of the object that holds this checksum of the object `of`.
    fn name(&self, of: &str) -> String {
        names::checksum(of, &self.0)
    }

    /// The object that a checksum belongs to, and the checksum.
    pub(crate) fn parse(name: &str) -> Option<(&str, Self)> {
        names::parse_checksum(name).map(|(of, digits)| (of, Self(digits.to_owned())))
    }
}

impl From<blake3::Hash> for Checksum {
    fn from(hash: blake3::Hash) -> Self {
        Self(hash.to_hex().to_string())
    }
}

/// The result of comparing an object with its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChecksumMatch {
    /// It is what was written.
    Intact,
    /// It is not.
    Damaged,
    /// No checksum was written: the object is from an older version.
    Unknown,
}

impl ArtifactStore {
    /// Writes the checksum of an object that is about to be written.
    pub(super) async fn write_checksum(&self, name: &str, checksum: &Checksum) -> Result<(), Error> {
        if !self.object(name).has_checksum() {
            return Ok(());
        }
        let noted = checksum.name(name);
        if let Some(file) = self.local_path(&noted) {
            // The name holds everything, so there is nothing to flush.
            let created = File::create(&file).or_else(|error| match (error.kind(), file.parent()) {
                (std::io::ErrorKind::NotFound, Some(folder)) => {
                    std::fs::create_dir_all(folder).and_then(|()| File::create(&file))
                }
                _ => Err(error),
            });
            return created.map(drop).map_err(|source| Error::file("write", &file, source));
        }
        let path = object_path(&noted)?;
        let put = || self.objects.put_opts(&path, PutPayload::new(), PutMode::Overwrite.into());
        retry(put).await.map(drop).map_err(|source| self.error("write", &noted, source))
    }

    /// Whether an object with this checksum is what was written.
    pub(crate) async fn compare_checksum(&self, name: &str, checksum: &Checksum) -> Result<ChecksumMatch, Error> {
        if !self.object(name).has_checksum() {
            return Ok(ChecksumMatch::Unknown);
        }
        let noted = checksum.name(name);
        let there = match self.local_path(&noted) {
            Some(file) => file.exists(),
            None => self.size(&noted).await?.is_some(),
        };
        if there {
            return Ok(ChecksumMatch::Intact);
        }
        Ok(if self.checksums_of(name).await?.is_empty() { ChecksumMatch::Unknown } else { ChecksumMatch::Damaged })
    }

    /// All checksums that were written for a name, with their objects.
    pub(super) async fn checksums_of(&self, name: &str) -> Result<Vec<(StoredObject, Checksum)>, Error> {
        let folder = names::checksum_folder(name);
        let path = object_path(&folder)?;
        let listed = retry(|| self.objects.list_with_delimiter(Some(&path))).await;
        let listed = listed.map_err(|source| self.error("list", &folder, source))?;
        let of_name = listed.objects.into_iter().map(StoredObject::from).filter_map(|object| {
            let checksum = Checksum::parse(&object.name).filter(|(of, _)| *of == name)?.1;
            Some((object, checksum))
        });
        Ok(of_name.collect())
    }

    /// Removes the checksums of a name.
    pub(super) async fn forget_checksums(&self, name: &str) -> Result<(), Error> {
        if self.object(name).has_checksum() {
            for (object, _) in self.checksums_of(name).await? {
                self.delete(&object.name).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn delete(&self, name: &str) -> Result<(), Error> {
        let path = object_path(name)?;
        let removed = retry(|| self.objects.delete(&path)).await;
        self.none_if_missing("remove", name, removed).map(drop)
    }

    /// Moves an object; a folder's file is renamed.
    pub(super) async fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        if let (Some(file), Some(place)) = (self.local_path(from), self.local_path(to)) {
            let folder: PathBuf = place.parent().map(Path::to_owned).unwrap_or_default();
            let moved = std::fs::create_dir_all(folder).and_then(|()| std::fs::rename(&file, &place));
            return moved.map_err(|source| Error::file("set aside", &file, source));
        }
        let paths: [ObjectPath; 2] = [object_path(from)?, object_path(to)?];
        let moved = retry(|| self.objects.rename(&paths[0], &paths[1])).await;
        moved.map_err(|source| self.error("set aside", from, source))
    }
}
