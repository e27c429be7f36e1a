//! Artifacts: immutable, named objects in a folder or on an object store.
//!
//! A name is written once and its content never changes, so an object that is
//! found may be used.
//! Every read is compared with the object's [checksum]. The store does not know
//! what the bytes mean.

mod checked;
pub(crate) mod checksum;
mod existence;
mod files;
mod transfer;

use crate::{
    DamageOutcome, Error, Layout, Location,
    access::{self, retry},
    names::{self, DAMAGED, Object},
    space,
    staged::{is_staged, unique_token},
};
use bytes::Bytes;
use checked::CheckedFiles;
use checksum::{Checksum, ChecksumMatch};
use futures::{StreamExt, TryStreamExt};
use object_store::{
    ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutPayload, local::LocalFileSystem, path::Path as ObjectPath,
    prefix::PrefixStore,
};
use std::{
    collections::BTreeSet,
    fs::File,
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use transfer::UploadContent;

/// How long the checksum of a replaced object is kept: another process may be
/// replacing the object at the same moment.
const REPLACED_MS: i64 = 3_600_000;

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

/// The content that was read, and whether it could be compared with a checksum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedContent<T> {
    /// The content.
    pub content: T,
    /// Whether the content is known to be what was written. `false` if an older
    /// version wrote it without a checksum.
    pub is_checked: bool,
}

/// An open store of artifacts. Clones share it.
///
/// Names are paths with `/`, such as `artifacts/ab/ab01….parquet`. In a folder,
/// an object is written beside its place, flushed to the disk and then linked
/// to its name: neither `kill -9` nor a power cut leaves half an object under
/// its name. They may leave the staged file `name#1`, which no operation here
/// sees.
///
/// The store's [`Layout`] says what objects are. Outputs of tasks, files of
/// runs and inputs of workers have a checksum, which is written before the
/// object and compared when the object is read. An output that does not match
/// is moved below `damaged/`, so that its task is done again; see
/// [`ArtifactStore::set_aside`].
///
/// If an object store does not answer, or answers that it cannot work now,
/// requests are repeated for a minute and a half.
#[derive(Debug, Clone)]
pub struct ArtifactStore {
    objects: Arc<dyn ObjectStore>,
    location: Arc<Location>,
    /// Says what its names mean.
    layout: &'static dyn Layout,
    /// The folder, if the store is one.
    folder: Option<Arc<OpenFolder>>,
    /// Whether the store is only read.
    read_only: bool,
    /// A store that is read if this one lacks an object; it is never written.
    base: Option<Arc<Self>>,
    checked: Arc<CheckedFiles>,
}

impl ArtifactStore {
    /// Opens the store at an address; see [`Location::parse`]. A folder is
    /// created if it is missing.
    ///
    /// The options are those of the object store (`aws_access_key_id`,
    /// `aws_endpoint`, `aws_region`, `allow_http`, …); a folder has none. They
    /// come from the caller because a library does not read the environment.
    /// All users of a store must pass the same layout, because the layout
    /// decides which objects have checksums.
    ///
    /// # Errors
    /// If the address cannot be understood, its kind of object store is not
    /// built in, or the folder cannot be made.
    pub fn open(address: &str, options: &[(String, String)], layout: &'static dyn Layout) -> Result<Self, Error> {
        Self::open_as(address, options, layout, false)
    }

    /// Opens a store only to read: every attempt to write is
    /// [`Error::ReadOnly`]. A folder must exist.
    ///
    /// # Errors
    /// As for [`ArtifactStore::open`], and if there is no such folder.
    pub fn open_to_read(
        address: &str,
        options: &[(String, String)],
        layout: &'static dyn Layout,
    ) -> Result<Self, Error> {
        Self::open_as(address, options, layout, true)
    }

    fn open_as(
        address: &str,
        options: &[(String, String)],
        layout: &'static dyn Layout,
        read_only: bool,
    ) -> Result<Self, Error> {
        let refuse = |error: object_store::Error| Error::Address {
            address: crate::without_secrets(address),
            reason: error.to_string(),
        };
        let (objects, location, folder): (Arc<dyn ObjectStore>, _, _) = match Location::parse(address)? {
            Location::Folder(folder) => {
                if !read_only {
                    std::fs::create_dir_all(&folder).map_err(|source| Error::file("create", &folder, source))?;
                }
                // Canonical, so that the process may change its directory.
                let folder = folder.canonicalize().map_err(|source| Error::file("open", &folder, source))?;
                let objects = LocalFileSystem::new_with_prefix(&folder).map_err(refuse)?.with_fsync(true);
                let open = OpenFolder::open(&folder)?;
                (Arc::new(objects), Location::Folder(folder), Some(Arc::new(open)))
            }
            Location::Url(url) => {
                let (objects, prefix) = access::open(&url, options).map_err(refuse)?;
                (Arc::new(PrefixStore::new(objects, prefix)), Location::Url(url), None)
            }
        };
        Ok(Self {
            objects,
            location: Arc::new(location),
            layout,
            folder,
            read_only,
            base: None,
            checked: Arc::default(),
        })
    }

    /// Combines this store, which is only read, with a folder of the caller's
    /// for everything that is written. Reads, checks and lists find the objects of
    /// both, and this store stays as it is. [`ArtifactStore::size`],
    /// [`ArtifactStore::scan`], [`ArtifactStore::get_at_most`],
    /// [`ArtifactStore::save_at_most`] and [`ArtifactStore::local_path`] see
    /// only the folder.
    ///
    /// # Errors
    /// If the folder cannot be made.
    pub fn with_scratch(&self, scratch: &Path) -> Result<Self, Error> {
        let upper = Self::open(&scratch.to_string_lossy(), &[], self.layout)?;
        let base = Some(Arc::new(Self { read_only: true, ..self.clone() }));
        Ok(Self { base, ..upper })
    }

    /// What an object is, by its name.
    pub(crate) fn object(&self, name: &str) -> Object {
        Object::of(name, self.layout)
    }

    /// The meaning of the names that the store does not make itself.
    pub(crate) fn layout(&self) -> &'static dyn Layout {
        self.layout
    }

    /// Where the store is; a folder's path is absolute.
    pub fn location(&self) -> &Location {
        self.base.as_ref().map_or(&self.location, |base| base.location())
    }

    /// Asks an object store for the first of its names, so that a wrong key or
    /// a missing bucket is found before any work.
    ///
    /// # Errors
    /// [`Error::Access`] with what to do.
    pub async fn probe(&self) -> Result<(), Error> {
        if let Some(base) = &self.base {
            return Box::pin(base.probe()).await;
        }
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
        if self.size(name).await?.is_some() {
            return Ok(true);
        }
        match &self.base {
            Some(base) => Box::pin(base.exists(name)).await,
            None => Ok(false),
        }
    }

    /// The bytes of an object, or `None` if there is no such object.
    ///
    /// # Errors
    /// If the object cannot be read, or is damaged; see [`ArtifactStore::read`].
    pub async fn get(&self, name: &str) -> Result<Option<Bytes>, Error> {
        Ok(self.read(name).await?.map(|found| found.content))
    }

    /// The bytes of an object, compared with its checksum, or `None` if there
    /// is no such object.
    ///
    /// # Errors
    /// If the object cannot be read. [`Error::Damaged`] if it is not what was
    /// written; if it can be made again, it was then set aside.
    pub async fn read(&self, name: &str) -> Result<Option<CheckedContent<Bytes>>, Error> {
        // Two tries before it counts as damaged: it may just have been replaced.
        for _ in 0..2 {
            let Some(content) = self.fetch(name).await? else {
                return match &self.base {
                    Some(base) => Box::pin(base.read(name)).await,
                    None => Ok(None),
                };
            };
            match self.compare_checksum(name, &Checksum::of(&content).await?).await? {
                ChecksumMatch::Damaged => {}
                verdict => return Ok(Some(CheckedContent { content, is_checked: verdict == ChecksumMatch::Intact })),
            }
        }
        Err(self.set_aside(name, MISMATCH).await)
    }

    /// The bytes of an object of this store, whatever they are.
    async fn fetch(&self, name: &str) -> Result<Option<Bytes>, Error> {
        let path = object_path(name)?;
        let found = retry(|| async { self.objects.get(&path).await?.bytes().await }).await;
        self.none_if_missing("read", name, found)
    }

    /// Moves a damaged output of a task below `damaged/`, where nothing looks
    /// for it, so that its task is done again. Other objects, and those of a
    /// store that was opened only to read, stay where they are.
    ///
    /// Returns the error to report: [`Error::Damaged`] with the name, the
    /// damage and what was done.
    pub async fn set_aside(&self, name: &str, problem: &str) -> Error {
        if let Some(base) = self.base.as_ref().filter(|_| !self.is_own(name)) {
            return Box::pin(base.set_aside(name, problem)).await;
        }
        let outcome = match self.object(name) {
            object if object.is_output() && self.read_only => DamageOutcome::ReadOnly,
            object if object.is_output() => match self.writable() {
                Ok(()) => self.move_aside(name).await,
                Err(error) => return error,
            },
            object if object.is_of_run() => DamageOutcome::LeftForRun,
            _ => DamageOutcome::Left,
        };
        Error::Damaged { path: name.to_owned(), reason: problem.to_owned(), outcome }
    }

    async fn move_aside(&self, name: &str) -> DamageOutcome {
        let place = names::set_aside(name, &unique_token());
        match self.rename(name, &place).await {
            Ok(()) => DamageOutcome::SetAside { place },
            // Another process may have moved it meanwhile.
            Err(_) if matches!(self.exists(name).await, Ok(false)) => DamageOutcome::SetAsideByAnother,
            Err(error) => DamageOutcome::MoveFailed { why: crate::error_chain(&error) },
        }
    }

    fn is_own(&self, name: &str) -> bool {
        self.local_path(name).is_some_and(|path| path.exists())
    }

    /// The names of objects that were set aside and have not been made again.
    ///
    /// # Errors
    /// If the store cannot be listed.
    pub async fn lost(&self) -> Result<Vec<String>, Error> {
        let aside = self.list(DAMAGED).await?;
        let mut lost = Vec::new();
        for name in aside.iter().filter_map(|name| names::parse_set_aside(name)).collect::<BTreeSet<_>>() {
            if !self.exists(name).await? {
                lost.push(name.to_owned());
            }
        }
        Ok(lost)
    }

    /// Writes an object completely or not at all. Returns `false`, and changes
    /// nothing, if the name is taken: of several writers exactly one gets
    /// `true`. There are two exceptions: two writers of an object above 32 MiB
    /// on an object store may write it at the same moment, and a writer whose
    /// connection broke after its object had arrived gets `false`.
    ///
    /// # Errors
    /// If the object cannot be written. [`Error::Gone`] if the store's folder
    /// was removed since it was opened.
    pub async fn put(&self, name: &str, bytes: impl Into<Bytes>) -> Result<bool, Error> {
        let bytes = bytes.into();
        if self.object(name).has_checksum() {
            self.writable()?;
            self.write_checksum(name, &Checksum::of(&bytes).await?).await?;
        }
        self.put_object(name, bytes).await
    }

    /// [`ArtifactStore::put`] of an object whose checksum, if it has one, was written already.
    async fn put_object(&self, name: &str, bytes: Bytes) -> Result<bool, Error> {
        self.writable()?;
        let path = object_path(name)?;
        if let Some(base) = &self.base
            && Box::pin(base.exists(name)).await?
        {
            return Ok(false);
        }
        let put = if bytes.len() as u64 > transfer::LARGE && self.is_remote() {
            transfer::upload(&*self.objects, &path, &UploadContent::Memory(bytes)).await
        } else {
            let payload = PutPayload::from(bytes);
            retry(|| self.objects.put_opts(&path, payload.clone(), PutMode::Create.into())).await.map(|_| true)
        };
        match put {
            Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
            put => put.map_err(|source| self.error("write", name, source)),
        }
    }

    /// Writes an object whether or not the name is taken. Only for objects that
    /// are not artifacts, such as the files of a run and the pointer to the
    /// last run.
    ///
    /// # Errors
    /// If the object cannot be written.
    pub async fn replace(&self, name: &str, bytes: impl Into<Bytes>) -> Result<(), Error> {
        self.writable()?;
        let (path, bytes) = (object_path(name)?, bytes.into());
        let checksum = Checksum::of(&bytes).await?;
        self.write_replacing_checksum(name, &checksum).await?;
        let payload = PutPayload::from(bytes);
        let put = retry(|| self.objects.put_opts(&path, payload.clone(), PutMode::Overwrite.into())).await;
        put.map_err(|source| self.error("write", name, source))?;
        self.forget_replaced(name, &checksum).await
    }

    /// [`ArtifactStore::replace`] by a file that the caller no longer needs. If the store is a folder, which must be on
    /// the same disk, the file is moved; else it is read into memory and stays.
    ///
    /// # Errors
    /// If the file cannot be read or moved, or the object cannot be written.
    pub async fn replace_with_file(&self, name: &str, file: &Path) -> Result<(), Error> {
        let Some(target) = self.local_path(name) else {
            let bytes = tokio::fs::read(file).await.map_err(|source| Error::file("read", file, source))?;
            return self.replace(name, bytes).await;
        };
        self.writable()?;
        let checksum = Checksum::of_file(file).await?;
        self.write_replacing_checksum(name, &checksum).await?;
        let moved = || {
            std::fs::File::open(file)?.sync_all()?;
            target.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            std::fs::rename(file, &target)
        };
        moved().map_err(|source| Error::file("write", &target, source))?;
        self.forget_replaced(name, &checksum).await
    }

    /// Writes the checksum of an object that is about to replace another. If the old object has no checksum, one is written
    /// for it first. Otherwise, if the writer is killed before the object itself is written, the old object would look
    /// damaged, because only the new checksum would be there.
    async fn write_replacing_checksum(&self, name: &str, checksum: &Checksum) -> Result<(), Error> {
        if self.object(name).has_checksum() && self.checksums_of(name).await?.is_empty() {
            let present = match self.local_path(name) {
                Some(file) if !file.exists() => None,
                Some(file) => Some(Checksum::of_file(&file).await?),
                None => match self.fetch(name).await? {
                    Some(content) => Some(Checksum::of(&content).await?),
                    None => None,
                },
            };
            if let Some(present) = present {
                self.write_checksum(name, &present).await?;
            }
        }
        self.write_checksum(name, checksum).await
    }

    /// Removes the checksums of objects that were replaced some time ago.
    async fn forget_replaced(&self, name: &str, now: &Checksum) -> Result<(), Error> {
        let noted = if self.object(name).has_checksum() { self.checksums_of(name).await? } else { Vec::new() };
        let newest = noted.iter().map(|(object, _)| object.modified_unix_ms).max().unwrap_or_default();
        for (object, checksum) in noted {
            if checksum != *now && object.modified_unix_ms < newest - REPLACED_MS {
                self.delete(&object.name).await?;
            }
        }
        Ok(())
    }

    /// Removes an object, if there is one of this name. The caller must know that it
    /// is not needed.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub async fn remove(&self, name: &str) -> Result<(), Error> {
        self.writable()?;
        self.delete(name).await?;
        self.forget_checksums(name).await
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
        let mut found = retry(list).await.map_err(|source| self.error("list", prefix, source))?;
        if let Some(base) = &self.base {
            found.extend(Box::pin(base.objects(prefix)).await?);
        }
        // Skips the staged files of killed writers; a listing may have encoded their mark.
        found.retain(|object| !is_staged(Path::new(&object.name.replace("%23", "#"))));
        found.sort_by(|one, other| one.name.cmp(&other.name));
        found.dedup_by(|one, other| one.name == other.name);
        Ok(found)
    }

    /// Reads an object piece by piece, without comparing it with its checksum.
    /// `false` if there is none.
    ///
    /// # Errors
    /// If the object cannot be read.
    pub async fn scan(&self, name: &str, mut each: impl FnMut(&[u8])) -> Result<bool, Error> {
        let path = object_path(name)?;
        let Some(found) = self.none_if_missing("read", name, retry(|| self.objects.get(&path)).await)? else {
            return Ok(false);
        };
        let mut pieces = found.into_stream();
        while let Some(piece) = pieces.next().await {
            each(&piece.map_err(|source| self.error("read", name, source))?);
        }
        Ok(true)
    }

    /// Whether the store is, or may be, on another machine.
    pub fn is_remote(&self) -> bool {
        matches!(&*self.location, Location::Url(_))
    }

    /// Whether the store was opened only to read.
    pub fn is_read_only(&self) -> bool {
        self.read_only || self.base.is_some()
    }

    /// Whether the store can be written to and is still where it was opened.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], or [`Error::Gone`] if its folder was removed.
    pub fn writable(&self) -> Result<(), Error> {
        if self.read_only {
            return Err(Error::ReadOnly { path: self.location.to_string() });
        }
        self.folder.as_ref().map_or(Ok(()), |folder| folder.check_exists())
    }

    /// At most the first `bytes` bytes of an object, or `None` if there is no such object. They are counted as they
    /// arrive, so a store that sends more than it said fills no memory. No checksum is compared.
    ///
    /// # Errors
    /// If the object cannot be read.
    pub async fn get_at_most(&self, name: &str, bytes: u64) -> Result<Option<Vec<u8>>, Error> {
        let path = object_path(name)?;
        let found = retry(|| async {
            let mut content = Vec::new();
            self.copy_at_most(&path, bytes, &mut content).await?;
            Ok(content)
        });
        self.none_if_missing("read", name, found.await)
    }

    /// [`ArtifactStore::get_at_most`] into a file, which is made. `false` if there is no such object.
    ///
    /// # Errors
    /// If the object cannot be read, or the file not be written.
    pub async fn save_at_most(&self, name: &str, bytes: u64, file: &Path) -> Result<bool, Error> {
        let path = object_path(name)?;
        let saved = retry(|| async {
            let mut target = tokio::fs::File::create(file).await.map_err(not_written)?;
            self.copy_at_most(&path, bytes, &mut target).await
        });
        Ok(self.none_if_missing("copy", name, saved.await)?.is_some())
    }

    async fn copy_at_most(
        &self,
        path: &ObjectPath,
        bytes: u64,
        target: &mut (impl AsyncWrite + Unpin),
    ) -> object_store::Result<()> {
        let (mut pieces, mut left) = (self.objects.get(path).await?.into_stream(), bytes);
        while let Some(piece) = pieces.try_next().await? {
            let taken = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
            target.write_all(&piece[..taken]).await.map_err(not_written)?;
            left -= taken as u64;
            if left == 0 {
                break;
            }
        }
        target.flush().await.map_err(not_written)
    }

    /// How many bytes an object has; none if there is no such object.
    ///
    /// # Errors
    /// If the store does not say.
    pub async fn size(&self, name: &str) -> Result<Option<u64>, Error> {
        let path = object_path(name)?;
        let found = retry(|| self.objects.head(&path)).await.map(|found| found.size);
        self.none_if_missing("read", name, found)
    }

    /// `None` if the object does not exist. A missing bucket is an error.
    fn none_if_missing<T>(
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
        if space::is_out_of_space(&source) {
            let path = match &*self.location {
                Location::Folder(folder) => folder.join(name).display().to_string(),
                Location::Url(url) => url.to_string(),
            };
            return space::full(path, source);
        }
        let Location::Url(url) = &*self.location else { return object_error(operation, name, source) };
        access::advice(url, &source).unwrap_or_else(|| object_error(operation, name, source))
    }
}

/// An open folder.
#[derive(Debug)]
struct OpenFolder {
    path: PathBuf,
    /// Kept open: it shows that the folder was removed even if another one was
    /// made in its place.
    handle: File,
}

impl OpenFolder {
    fn open(path: &Path) -> Result<Self, Error> {
        let handle = File::open(path).map_err(|source| Error::file("open", path, source))?;
        Ok(Self { path: path.to_owned(), handle })
    }

    /// # Errors
    /// [`Error::Gone`] if the folder was removed. Writing would make a new one
    /// that lacks everything else.
    fn check_exists(&self) -> Result<(), Error> {
        let removed = self.handle.metadata().is_ok_and(|metadata| metadata.nlink() == 0);
        if removed || !self.path.is_dir() { Err(Error::Gone { path: self.path.display().to_string() }) } else { Ok(()) }
    }
}

/// The problem of an object that does not match its checksum.
const MISMATCH: &str = "its content does not match its checksum";

fn not_written(source: io::Error) -> object_store::Error {
    object_store::Error::Generic { store: "file", source: source.into() }
}

fn object_path(name: &str) -> Result<ObjectPath, Error> {
    ObjectPath::parse(name).map_err(|source| object_error("read", name, source.into()))
}

fn object_error(operation: &'static str, path: &str, source: object_store::Error) -> Error {
    Error::Object { operation, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests;
