//! Artifacts: immutable, named objects in a folder or on an object store.
//!
//! A name is written once and never changes, so whoever finds it may use it.
//! The store knows nothing of what the bytes mean.

use crate::Error;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use object_store::{
    ObjectStore, ObjectStoreExt, ObjectStoreScheme, PutMode, PutPayload, local::LocalFileSystem, parse_url_opts,
    path::Path as ObjectPath, prefix::PrefixStore,
};
use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::io::AsyncWriteExt;
use url::Url;

/// Where a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A folder on this machine.
    Folder(PathBuf),
    /// A prefix on an object store.
    Url(Url),
}

impl Location {
    /// Reads an address: the path of a folder, or a URL such as
    /// `s3://bucket/prefix` or `file:///folder`.
    ///
    /// # Errors
    /// If the address is empty, has `://` but is no URL of a known kind, or holds
    /// a user name or password: secrets are passed as options, because addresses
    /// are written to logs.
    pub fn parse(address: &str) -> Result<Self, Error> {
        let refuse =
            |shown: &str, reason: &str| Error::Address { address: shown.to_owned(), reason: reason.to_owned() };
        let address = address.trim();
        if address.is_empty() {
            return Err(refuse(address, "it is empty"));
        }
        if !address.contains("://") && !address.starts_with("file:") {
            return Ok(Self::Folder(PathBuf::from(address)));
        }
        // What cannot be parsed may still hold a password, so only the part
        // before it is ever shown.
        let scheme = address.split(':').next().unwrap_or_default();
        let mut url = Url::parse(address).map_err(|error| refuse(&format!("{scheme}:…"), &error.to_string()))?;
        if !url.username().is_empty() || url.password().is_some() {
            let cleaned = url.set_username("").and_then(|()| url.set_password(None));
            let shown = cleaned.map_or_else(|()| format!("{scheme}:…"), |()| url.to_string());
            return Err(refuse(&shown, "a user name or password does not belong in an address"));
        }
        if url.scheme() == "file" {
            let folder = url.to_file_path().map_err(|()| refuse(address, "it names no folder of this machine"))?;
            return Ok(Self::Folder(folder));
        }
        // Found out here, before a run does any work.
        let known = ObjectStoreScheme::parse(&url);
        known.map_err(|_| refuse(address, "no object store has such a URL; S3's is s3://bucket/prefix"))?;
        Ok(Self::Url(url))
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => write!(f, "{}", folder.display()),
            Self::Url(url) => write!(f, "{url}"),
        }
    }
}

/// An open store of artifacts. Clones share it.
///
/// Names are paths with `/`, such as `artifacts/ab/ab01….parquet`. In a folder
/// an object is staged beside its place, flushed to the disk and then linked
/// into it: neither `kill -9` nor a power cut leaves half an object under its
/// name. What such an end leaves is the staged file, `name#1`, which no
/// operation here sees.
#[derive(Debug, Clone)]
pub struct ArtifactStore {
    objects: Arc<dyn ObjectStore>,
    location: Arc<Location>,
}

impl ArtifactStore {
    /// Opens the store at an address; see [`Location::parse`]. A folder is
    /// created if it is missing.
    ///
    /// The options are those of the object store (`aws_access_key_id`,
    /// `aws_endpoint`, `aws_region`, `allow_http`, …); a folder has none. They
    /// come from the caller because a library does not read the environment.
    ///
    /// # Errors
    /// If the address cannot be understood, its kind of object store is not
    /// built in, or the folder cannot be made.
    pub fn open(address: &str, options: &[(String, String)]) -> Result<Self, Error> {
        let refuse =
            |error: object_store::Error| Error::Address { address: address.to_owned(), reason: error.to_string() };
        match Location::parse(address)? {
            Location::Folder(folder) => {
                let file_error = |source| file_error("create", &folder, source);
                std::fs::create_dir_all(&folder).map_err(file_error)?;
                // Canonical, so that the process may change its directory.
                let folder = folder.canonicalize().map_err(file_error)?;
                let objects = LocalFileSystem::new_with_prefix(&folder).map_err(refuse)?.with_fsync(true);
                Ok(Self { objects: Arc::new(objects), location: Arc::new(Location::Folder(folder)) })
            }
            Location::Url(url) => {
                let options = options.iter().map(|(name, value)| (name.as_str(), value.as_str()));
                let (objects, prefix) = parse_url_opts(&url, options).map_err(refuse)?;
                Ok(Self {
                    objects: Arc::new(PrefixStore::new(objects, prefix)),
                    location: Arc::new(Location::Url(url)),
                })
            }
        }
    }

    /// Where the store is; a folder's path is absolute.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Whether there is an object of this name.
    ///
    /// # Errors
    /// If the store cannot be asked.
    pub async fn exists(&self, name: &str) -> Result<bool, Error> {
        match self.objects.head(&object_path(name)?).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(source) => Err(object_error("read", name, source)),
        }
    }

    /// The bytes of an object, or `None` if there is no such object.
    ///
    /// # Errors
    /// If the object cannot be read.
    pub async fn get(&self, name: &str) -> Result<Option<Bytes>, Error> {
        match self.objects.get(&object_path(name)?).await {
            Ok(found) => Ok(Some(found.bytes().await.map_err(|source| object_error("read", name, source))?)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(source) => Err(object_error("read", name, source)),
        }
    }

    /// Writes an object, all or nothing. Returns `false`, and changes nothing,
    /// if the name is taken: of several writers exactly one gets `true`.
    ///
    /// # Errors
    /// If the object cannot be written.
    pub async fn put(&self, name: &str, bytes: impl Into<Bytes>) -> Result<bool, Error> {
        let payload = PutPayload::from(bytes.into());
        match self.objects.put_opts(&object_path(name)?, payload, PutMode::Create.into()).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
            Err(source) => Err(object_error("write", name, source)),
        }
    }

    /// The names of all objects below a prefix, sorted. The prefix is made of
    /// whole parts (`artifacts/ab`); an empty one stands for everything.
    ///
    /// # Errors
    /// If the store cannot be listed.
    pub async fn list(&self, prefix: &str) -> Result<Vec<String>, Error> {
        let path = if prefix.is_empty() { None } else { Some(object_path(prefix)?) };
        let found = self.objects.list(path.as_ref()).map_ok(|object| object.location.to_string());
        let mut names: Vec<String> =
            found.try_collect().await.map_err(|source| object_error("list", prefix, source))?;
        names.sort_unstable();
        Ok(names)
    }

    /// The file that holds an object, or would hold it, if the store is a
    /// folder. Such a file can be memory-mapped; it must not be changed.
    pub fn local_path(&self, name: &str) -> Option<PathBuf> {
        let Location::Folder(folder) = &*self.location else { return None };
        let path = object_path(name).ok()?;
        Some(folder.join(path.as_ref()))
    }

    /// A file on this machine that holds an object: the object itself if the
    /// store is a folder, else a copy in the cache, fetched when it is not
    /// there yet. A copy is complete once it has its name.
    ///
    /// # Errors
    /// If there is no such object, or it cannot be read or copied.
    pub async fn local_copy(&self, name: &str, cache_dir: &Path) -> Result<PathBuf, Error> {
        if let Some(path) = self.local_path(name) {
            let metadata = tokio::fs::metadata(&path).await;
            return metadata.map(|_| path.clone()).map_err(|source| file_error("read", &path, source));
        }
        let object = object_path(name)?;
        let path = cache_dir.join(object.as_ref());
        if tokio::fs::try_exists(&path).await.map_err(|source| file_error("read", &path, source))? {
            return Ok(path);
        }
        let found = self.objects.get(&object).await.map_err(|source| object_error("read", name, source))?;
        if let Some(folder) = path.parent() {
            tokio::fs::create_dir_all(folder).await.map_err(|source| file_error("create", folder, source))?;
        }
        let staged = Staged::beside(&path);
        let write_error = |source| file_error("write", &staged.0, source);
        let mut file = tokio::fs::File::create_new(&staged.0).await.map_err(write_error)?;
        let mut parts = found.into_stream();
        while let Some(part) = parts.next().await {
            let part = part.map_err(|source| object_error("read", name, source))?;
            file.write_all(&part).await.map_err(write_error)?;
        }
        file.sync_all().await.map_err(write_error)?;
        tokio::fs::rename(&staged.0, &path).await.map_err(write_error)?;
        Ok(path)
    }
}

/// A file on its way to its name; what did not arrive is removed.
struct Staged(PathBuf);

impl Staged {
    fn beside(path: &Path) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let mut staged = path.as_os_str().to_owned();
            staged.push(format!("#{}-{number}", std::process::id()));
            // A killed process of the same id may have left a file.
            if !Path::new(&staged).exists() {
                return Self(staged.into());
            }
        }
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // After the rename there is nothing here, and that is no error.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn object_path(name: &str) -> Result<ObjectPath, Error> {
    ObjectPath::parse(name).map_err(|source| object_error("read", name, source.into()))
}

fn object_error(operation: &'static str, path: &str, source: object_store::Error) -> Error {
    Error::Object { operation, path: path.to_owned(), source }
}

fn file_error(operation: &'static str, path: &Path, source: io::Error) -> Error {
    Error::File { operation, path: path.display().to_string(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    type TestResult = Result<(), Box<dyn std::error::Error>>;

    fn folder_store() -> Result<(tempfile::TempDir, ArtifactStore), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let address = folder.path().join("new/store");
        let store = ArtifactStore::open(&address.to_string_lossy(), &[])?;
        Ok((folder, store))
    }

    #[test]
    fn addresses_are_folders_or_urls() -> TestResult {
        assert_eq!(Location::parse("./.reverie")?, Location::Folder("./.reverie".into()));
        assert_eq!(Location::parse("file:///data/store")?, Location::Folder("/data/store".into()));
        assert!(matches!(Location::parse("s3://bucket/prefix")?, Location::Url(_)));
        assert_eq!(Location::parse("s3://bucket/prefix")?.to_string(), "s3://bucket/prefix");
        assert!(matches!(Location::parse("  "), Err(Error::Address { .. })));
        assert!(matches!(Location::parse("s3://"), Err(Error::Address { .. })));
        assert!(matches!(ArtifactStore::open("ftp://host/folder", &[]), Err(Error::Address { .. })));
        Ok(())
    }

    #[test]
    fn a_password_in_an_address_is_refused_and_not_shown() {
        for address in ["s3://user:hunter2@bucket/prefix", "http://user:hunter2@[bad/prefix"] {
            let error = Location::parse(address).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(!error.is_empty() && !error.contains("hunter2"), "{error}");
        }
    }

    #[tokio::test]
    async fn what_was_put_is_found_and_listed() -> TestResult {
        for store in [folder_store()?, (tempfile::tempdir()?, ArtifactStore::open("memory:///prefix", &[])?)] {
            let store = store.1;
            assert_eq!(store.get("artifacts/ab/x.parquet").await?, None);
            assert!(!store.exists("artifacts/ab/x.parquet").await?);
            assert!(store.list("artifacts").await?.is_empty());
            assert!(store.put("artifacts/ab/x.parquet", "one").await?);
            assert!(store.put("artifacts/aa/y z%.json", "two").await?);
            assert!(store.put("other", "three").await?);
            assert!(store.exists("artifacts/ab/x.parquet").await?);
            assert_eq!(store.get("artifacts/ab/x.parquet").await?.as_deref(), Some(&b"one"[..]));
            assert_eq!(store.list("artifacts").await?, ["artifacts/aa/y z%.json", "artifacts/ab/x.parquet"]);
            assert_eq!(store.list("").await?.len(), 3);
        }
        Ok(())
    }

    #[tokio::test]
    async fn an_artifact_never_changes() -> TestResult {
        let (_folder, store) = folder_store()?;
        assert!(store.put("a/b", "first").await?);
        assert!(!store.put("a/b", "second").await?);
        assert_eq!(store.get("a/b").await?.as_deref(), Some(&b"first"[..]));
        Ok(())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn of_many_writers_exactly_one_wins_and_readers_see_whole_objects() -> TestResult {
        let (_folder, store) = folder_store()?;
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0u8..16 {
            let store = store.clone();
            writers.spawn(async move {
                let won = store.put("shared/object", vec![writer; 300_000]).await?;
                let seen = store.get("shared/object").await?.unwrap_or_default();
                Ok::<_, Error>((won, seen))
            });
        }
        let mut winners = 0;
        while let Some(result) = writers.join_next().await {
            let (won, seen) = result??;
            winners += usize::from(won);
            assert_eq!(seen.len(), 300_000);
            assert!(seen.iter().all(|byte| Some(byte) == seen.first()));
        }
        assert_eq!(winners, 1);
        assert_eq!(store.list("").await?, ["shared/object"]);
        Ok(())
    }

    #[tokio::test]
    async fn what_a_killed_writer_left_is_not_seen_and_blocks_nobody() -> TestResult {
        let (_folder, store) = folder_store()?;
        store.put("a/other", "x").await?;
        let path = store.local_path("a/object").ok_or("a folder has paths")?;
        std::fs::write(path.with_file_name("object#1"), "hal")?;
        assert_eq!(store.list("a").await?, ["a/other"]);
        assert!(!store.exists("a/object").await?);
        assert!(store.put("a/object", "whole").await?);
        assert_eq!(store.get("a/object").await?.as_deref(), Some(&b"whole"[..]));
        Ok(())
    }

    #[tokio::test]
    async fn names_cannot_leave_the_store() -> TestResult {
        let (_folder, store) = folder_store()?;
        assert!(store.put("../outside", "x").await.is_err());
        assert!(store.get("a//b").await.is_err());
        assert_eq!(store.local_path("a/../../b"), None);
        Ok(())
    }

    #[tokio::test]
    async fn a_folder_gives_its_own_file_and_other_stores_a_cached_copy() -> TestResult {
        let (_folder, store) = folder_store()?;
        let cache = tempfile::tempdir()?;
        store.put("a/index", "bytes").await?;
        let path = store.local_copy("a/index", cache.path()).await?;
        assert_eq!(Some(&path), store.local_path("a/index").as_ref());
        assert_eq!(std::fs::read(path)?, b"bytes");
        assert!(store.local_copy("a/missing", cache.path()).await.is_err());

        let remote = ArtifactStore::open("memory:///prefix", &[])?;
        remote.put("a/index", "far").await?;
        assert_eq!(remote.local_path("a/index"), None);
        for _ in 0..2 {
            let path = remote.local_copy("a/index", cache.path()).await?;
            assert_eq!(path, cache.path().join("a/index"));
            assert_eq!(std::fs::read(path)?, b"far");
        }
        assert_eq!(std::fs::read_dir(cache.path().join("a"))?.count(), 1, "nothing staged is left");
        assert!(remote.local_copy("a/missing", cache.path()).await.is_err());
        Ok(())
    }
}
