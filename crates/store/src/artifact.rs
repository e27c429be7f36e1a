//! Artifacts: immutable, named objects in a folder or on an object store.
//!
//! A name is written once and never changes, so whoever finds it may use it.
//! The store knows nothing of what the bytes mean.

mod transfer;

use crate::{
    Error,
    access::{self, patiently},
};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use object_store::{
    ObjectMeta, ObjectStore, ObjectStoreExt, ObjectStoreScheme, PutMode, PutPayload, local::LocalFileSystem,
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
use transfer::Content;
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

/// An object of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredObject {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// When it was written, in milliseconds since 1970, by the store's clock.
    pub modified_unix_ms: i64,
}

impl From<ObjectMeta> for StoredObject {
    fn from(found: ObjectMeta) -> Self {
        let modified_unix_ms = found.last_modified.timestamp_millis();
        Self { name: found.location.to_string(), bytes: found.size, modified_unix_ms }
    }
}

/// An open store of artifacts. Clones share it.
///
/// Names are paths with `/`, such as `artifacts/ab/ab01….parquet`. In a folder
/// an object is staged beside its place, flushed to the disk and then linked
/// into it: neither `kill -9` nor a power cut leaves half an object under its
/// name. What such an end leaves is the staged file, `name#1`, which no
/// operation here sees.
///
/// An object store that does not answer, or answers that it cannot now, is
/// asked again for a minute and a half.
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
                let (objects, prefix) = access::open(&url, options).map_err(refuse)?;
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

    /// Asks an object store for the first of its names, so that a wrong key or
    /// a missing bucket is found before any work.
    ///
    /// # Errors
    /// [`Error::Access`] with what to do.
    pub async fn probe(&self) -> Result<(), Error> {
        if let Location::Folder(_) = &*self.location {
            return Ok(());
        }
        let first = self.objects.list(None).next().await;
        first.transpose().map(|_| ()).map_err(|source| self.error("list", "", source))
    }

    /// Whether there is an object of this name.
    ///
    /// # Errors
    /// If the store cannot be asked.
    pub async fn exists(&self, name: &str) -> Result<bool, Error> {
        Ok(self.size(name).await?.is_some())
    }

    /// The bytes of an object, or `None` if there is no such object.
    ///
    /// # Errors
    /// If the object cannot be read.
    pub async fn get(&self, name: &str) -> Result<Option<Bytes>, Error> {
        let path = object_path(name)?;
        let found = patiently(|| async { self.objects.get(&path).await?.bytes().await }).await;
        self.if_there("read", name, found)
    }

    /// Writes an object, all or nothing. Returns `false`, and changes nothing,
    /// if the name is taken: of several writers exactly one gets `true`, but
    /// for objects above 32 MiB on an object store, which two may write at the
    /// same moment, and for a writer whose connection broke after its object
    /// had arrived, who gets `false`.
    ///
    /// # Errors
    /// If the object cannot be written.
    pub async fn put(&self, name: &str, bytes: impl Into<Bytes>) -> Result<bool, Error> {
        let (path, bytes) = (object_path(name)?, bytes.into());
        let put = if bytes.len() as u64 > transfer::LARGE && self.is_remote() {
            transfer::upload(&*self.objects, &path, &Content::Memory(bytes)).await
        } else {
            let payload = PutPayload::from(bytes);
            patiently(|| self.objects.put_opts(&path, payload.clone(), PutMode::Create.into())).await.map(|_| true)
        };
        match put {
            Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
            put => put.map_err(|source| self.error("write", name, source)),
        }
    }

    /// [`ArtifactStore::put`] of a file's content, which is not read into
    /// memory as a whole.
    ///
    /// # Errors
    /// If the file cannot be read or the object cannot be written.
    pub async fn put_file(&self, name: &str, file: &Path) -> Result<bool, Error> {
        let read_error = |source| file_error("read", file, source);
        if let Some(target) = self.local_path(name) {
            let staged = Staged::beside(&target)?;
            tokio::fs::copy(file, &staged.0).await.map_err(read_error)?;
            return staged.arrive(&target).await;
        }
        let open = std::fs::File::open(file).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (bytes, opened) = open.map_err(read_error)?;
        let content = Content::File(Arc::new(opened), bytes);
        if bytes <= transfer::LARGE {
            return self.put(name, content.part(0, bytes).await.map_err(read_error)?).await;
        }
        let put = transfer::upload(&*self.objects, &object_path(name)?, &content).await;
        put.map_err(|source| self.error("write", name, source))
    }

    /// Writes an object whether or not the name is taken. Only for what is no
    /// artifact, such as the files of a run and the pointer to the last one.
    ///
    /// # Errors
    /// If the object cannot be written.
    pub async fn replace(&self, name: &str, bytes: impl Into<Bytes>) -> Result<(), Error> {
        let (path, payload) = (object_path(name)?, PutPayload::from(bytes.into()));
        let put = patiently(|| self.objects.put_opts(&path, payload.clone(), PutMode::Overwrite.into())).await;
        put.map(|_| ()).map_err(|source| self.error("write", name, source))
    }

    /// Removes an object, if there is one of this name. Whoever does so knows
    /// that nobody needs it.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub async fn remove(&self, name: &str) -> Result<(), Error> {
        let path = object_path(name)?;
        let removed = patiently(|| self.objects.delete(&path)).await;
        self.if_there("remove", name, removed).map(|_| ())
    }

    /// The names of all objects below a prefix, sorted. The prefix is made of
    /// whole parts (`artifacts/ab`); an empty one stands for everything.
    ///
    /// # Errors
    /// If the store cannot be listed.
    pub async fn list(&self, prefix: &str) -> Result<Vec<String>, Error> {
        Ok(self.objects(prefix).await?.into_iter().map(|object| object.name).collect())
    }

    /// All objects below a prefix, by name; see [`ArtifactStore::list`].
    ///
    /// # Errors
    /// If the store cannot be listed.
    pub async fn objects(&self, prefix: &str) -> Result<Vec<StoredObject>, Error> {
        let path = if prefix.is_empty() { None } else { Some(object_path(prefix)?) };
        let list = || self.objects.list(path.as_ref()).map_ok(StoredObject::from).try_collect::<Vec<_>>();
        let mut found = patiently(list).await.map_err(|source| self.error("list", prefix, source))?;
        found.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(found)
    }

    /// Reads an object piece by piece. `false` if there is none.
    ///
    /// # Errors
    /// If the object cannot be read.
    pub async fn scan(&self, name: &str, mut each: impl FnMut(&[u8])) -> Result<bool, Error> {
        let path = object_path(name)?;
        let Some(found) = self.if_there("read", name, patiently(|| self.objects.get(&path)).await)? else {
            return Ok(false);
        };
        let mut pieces = found.into_stream();
        while let Some(piece) = pieces.next().await {
            each(&piece.map_err(|source| self.error("read", name, source))?);
        }
        Ok(true)
    }

    /// Copies an object to another store under the same name. Returns `false`
    /// if the name is taken there.
    ///
    /// # Errors
    /// If there is no such object, or it cannot be read or written.
    pub async fn copy_to(&self, name: &str, target: &Self, scratch: &Path) -> Result<bool, Error> {
        if let Some(file) = self.local_path(name) {
            return target.put_file(name, &file).await;
        }
        let bytes = self.size(name).await?.ok_or_else(|| self.missing(name))?;
        if target.is_remote() && bytes <= transfer::LARGE {
            let content = self.get(name).await?.ok_or_else(|| self.missing(name))?;
            return target.put(name, content).await;
        }
        let place = target.local_path(name);
        let staged = Staged::beside(place.as_deref().unwrap_or(&scratch.join("object")))?;
        let fetched = transfer::download(&*self.objects, &object_path(name)?, bytes, &staged.0).await;
        fetched.map_err(|source| self.error("read", name, source))?;
        match place {
            Some(place) => staged.arrive(&place).await,
            None => target.put_file(name, &staged.0).await,
        }
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
        let bytes = self.size(name).await?.ok_or_else(|| self.missing(name))?;
        let staged = Staged::beside(&path)?;
        let fetched = transfer::download(&*self.objects, &object, bytes, &staged.0).await;
        fetched.map_err(|source| self.error("read", name, source))?;
        tokio::fs::rename(&staged.0, &path).await.map_err(|source| file_error("write", &path, source))?;
        Ok(path)
    }

    /// Whether the store is on another machine, or might be.
    pub fn is_remote(&self) -> bool {
        matches!(&*self.location, Location::Url(_))
    }

    async fn size(&self, name: &str) -> Result<Option<u64>, Error> {
        let path = object_path(name)?;
        let found = patiently(|| self.objects.head(&path)).await.map(|found| found.size);
        self.if_there("read", name, found)
    }

    /// `None` for what is not there. That the bucket is not there is an error.
    fn if_there<T>(
        &self,
        operation: &'static str,
        name: &str,
        found: object_store::Result<T>,
    ) -> Result<Option<T>, Error> {
        match found {
            Err(source @ object_store::Error::NotFound { .. }) => match self.error(operation, name, source) {
                Error::Object { .. } => Ok(None),
                error => Err(error),
            },
            found => found.map(Some).map_err(|source| self.error(operation, name, source)),
        }
    }

    fn missing(&self, name: &str) -> Error {
        let source = io::Error::new(io::ErrorKind::NotFound, format!("there is no such object in {}", self.location));
        Error::File { operation: "read", path: name.to_owned(), source }
    }

    fn error(&self, operation: &'static str, name: &str, source: object_store::Error) -> Error {
        let Location::Url(url) = &*self.location else { return object_error(operation, name, source) };
        access::advice(url, &source).unwrap_or_else(|| object_error(operation, name, source))
    }
}

/// A file on its way to its name; what did not arrive is removed.
struct Staged(PathBuf);

impl Staged {
    /// A free name in a place's folder, which is made if it is missing.
    fn beside(path: &Path) -> Result<Self, Error> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|source| file_error("create", folder, source))?;
        }
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let mut staged = path.as_os_str().to_owned();
            staged.push(format!("#{}-{number}", std::process::id()));
            // A killed process of the same id may have left a file.
            if !Path::new(&staged).exists() {
                return Ok(Self(staged.into()));
            }
        }
    }

    /// Gives the file its name, flushed to the disk, unless the name is taken.
    async fn arrive(self, path: &Path) -> Result<bool, Error> {
        let linked = async {
            tokio::fs::File::open(&self.0).await?.sync_all().await?;
            tokio::fs::hard_link(&self.0, path).await
        };
        match linked.await {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(source) => Err(file_error("write", path, source)),
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
mod tests;
