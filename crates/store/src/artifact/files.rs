//! Objects as files of this machine, and copies between stores.

use super::{
    ArtifactStore, CheckedContent, MISMATCH,
    checked::FileIdentity,
    checksum::{Checksum, ChecksumMatch},
    object_path, transfer,
    transfer::UploadContent,
};
use crate::{DamageOutcome, Error, Location, staged::StagedFile};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

impl ArtifactStore {
    /// [`ArtifactStore::put`] of a file's content, which is not read into
    /// memory as a whole.
    ///
    /// # Errors
    /// If the file cannot be read or the object cannot be written.
    pub async fn put_file(&self, name: &str, file: &Path) -> Result<bool, Error> {
        self.write_file_checksum(name, file).await?;
        self.put_file_object(name, file).await
    }

    /// [`ArtifactStore::put_file`] of a file that the caller no longer needs.
    /// If the store is a folder on the same disk, the file is moved. Once its
    /// checksum is written it is removed in any case, also after a failure.
    ///
    /// # Errors
    /// As [`ArtifactStore::put_file`].
    pub async fn take_file(&self, name: &str, file: &Path) -> Result<bool, Error> {
        let before = FileIdentity::of(file);
        self.write_file_checksum(name, file).await?;
        // Removes the caller's file when it is dropped.
        let staged = StagedFile(file.to_owned());
        let Some(target) = self.local_path(name) else { return self.put_file_object(name, &staged.0).await };
        if let Some(folder) = target.parent() {
            std::fs::create_dir_all(folder).map_err(|source| Error::file("create", folder, source))?;
        }
        match std::fs::hard_link(&staged.0, &target) {
            Ok(()) => {
                let flushed = std::fs::File::open(&target).and_then(|file| file.sync_all());
                if flushed.is_ok() && self.object(name).has_checksum() {
                    self.checked.note(&target, before);
                }
                flushed.map(|()| true).map_err(|source| Error::file("write", &target, source))
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
            Err(_) => self.put_file_object(name, &staged.0).await,
        }
    }

    async fn write_file_checksum(&self, name: &str, file: &Path) -> Result<(), Error> {
        self.writable()?;
        match self.object(name).has_checksum() {
            true => self.write_checksum(name, &Checksum::of_file(file).await?).await,
            false => Ok(()),
        }
    }

    async fn put_file_object(&self, name: &str, file: &Path) -> Result<bool, Error> {
        self.writable()?;
        let read_error = |source| Error::file("read", file, source);
        if let Some(target) = self.local_path(name) {
            let staged = StagedFile::beside(&target)?;
            tokio::fs::copy(file, &staged.0).await.map_err(read_error)?;
            return staged.link(&target).await;
        }
        let open = std::fs::File::open(file).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (bytes, opened) = open.map_err(read_error)?;
        let content = UploadContent::File(Arc::new(opened), bytes);
        if bytes <= transfer::LARGE {
            return self.put_object(name, content.part(0, bytes).await.map_err(read_error)?).await;
        }
        let put = transfer::upload(&*self.objects, &object_path(name)?, &content).await;
        put.map_err(|source| self.error("write", name, source))
    }

    /// Copies an object to another store under the same name, with its
    /// checksum if it has one. Returns `false` if the name is taken there.
    ///
    /// # Errors
    /// If there is no such object, or it cannot be read or written.
    /// [`Error::Damaged`] if it is not what was written: then it is not copied.
    pub(crate) async fn copy_to(&self, name: &str, target: &Self, scratch: &Path) -> Result<bool, Error> {
        target.writable()?;
        if let Some(file) = self.local_path(name) {
            self.verify_copy(name, &Checksum::of_file(&file).await?, target).await?;
            return target.put_file_object(name, &file).await;
        }
        let bytes = self.size(name).await?.ok_or_else(|| self.missing(name))?;
        if target.is_remote() && bytes <= transfer::LARGE {
            let content = self.fetch(name).await?.ok_or_else(|| self.missing(name))?;
            self.verify_copy(name, &Checksum::of(&content).await?, target).await?;
            return target.put_object(name, content).await;
        }
        let place = target.local_path(name);
        let staged = StagedFile::beside(place.as_deref().unwrap_or(&scratch.join("object")))?;
        let fetched = transfer::download(&*self.objects, &object_path(name)?, bytes, &staged.0).await;
        fetched.map_err(|source| self.error("read", name, source))?;
        self.verify_copy(name, &Checksum::of_file(&staged.0).await?, target).await?;
        match place {
            Some(place) => staged.link(&place).await,
            None => target.put_file_object(name, &staged.0).await,
        }
    }

    /// Checks that the copied content is what was written; if a checksum shows
    /// that, it is written in the target too.
    async fn verify_copy(&self, name: &str, checksum: &Checksum, target: &Self) -> Result<(), Error> {
        match self.compare_checksum(name, checksum).await? {
            ChecksumMatch::Intact => target.write_checksum(name, checksum).await,
            ChecksumMatch::Unknown => Ok(()),
            ChecksumMatch::Damaged => {
                let (path, reason) = (name.to_owned(), MISMATCH.to_owned());
                Err(Error::Damaged { path, reason, outcome: DamageOutcome::NotCopied })
            }
        }
    }

    /// Compares an object with its checksum, without keeping it in memory.
    /// `false` if there is no such object, or no checksum.
    ///
    /// # Errors
    /// [`Error::Damaged`] as for [`ArtifactStore::read`], or if it cannot be read.
    pub async fn check(&self, name: &str) -> Result<bool, Error> {
        if let Some(base) = self.base.as_ref().filter(|_| !self.is_own(name)) {
            return Box::pin(base.check(name)).await;
        }
        for _ in 0..2 {
            let mut hasher = blake3::Hasher::new();
            if !self.scan(name, |piece| _ = hasher.update(piece)).await? {
                return Ok(false);
            }
            match self.compare_checksum(name, &Checksum::from(hasher.finalize())).await? {
                ChecksumMatch::Damaged => {}
                verdict => return Ok(verdict == ChecksumMatch::Intact),
            }
        }
        Err(self.set_aside(name, MISMATCH).await)
    }

    /// The file that holds an object, or would hold it, if the store is a
    /// folder. It must not be changed, and is not compared with its checksum.
    pub fn local_path(&self, name: &str) -> Option<PathBuf> {
        let Location::Folder(folder) = &*self.location else { return None };
        let path = object_path(name).ok()?;
        Some(folder.join(path.as_ref()))
    }

    /// A file on this machine that holds an object, to be memory-mapped: the
    /// object itself if the store is a folder, else a copy in the cache,
    /// fetched when it is not there yet. All of it is read and compared with
    /// its checksum. A copy is complete once it has its name.
    ///
    /// # Errors
    /// If there is no such object, or it cannot be read or copied.
    /// [`Error::Damaged`] as for [`ArtifactStore::read`].
    pub async fn local_copy(&self, name: &str, cache_dir: &Path) -> Result<PathBuf, Error> {
        Ok(self.local_file(name, cache_dir).await?.content)
    }

    /// [`ArtifactStore::local_copy`], and whether there was a checksum.
    ///
    /// # Errors
    /// As [`ArtifactStore::local_copy`].
    pub async fn local_file(&self, name: &str, cache_dir: &Path) -> Result<CheckedContent<PathBuf>, Error> {
        if let Some(base) = self.base.as_ref().filter(|_| !self.is_own(name)) {
            return Box::pin(base.local_file(name, cache_dir)).await;
        }
        if let Some(path) = self.local_path(name) {
            // A large file is not read again each time that a process opens it.
            if self.checked.has(&path) {
                return Ok(CheckedContent { content: path, is_checked: true });
            }
            let before = FileIdentity::of(&path);
            let checksum = Checksum::of_file(&path).await?;
            let found = self.compare_checksum(name, &checksum).await?;
            if found == ChecksumMatch::Damaged {
                return Err(self.set_aside(name, MISMATCH).await);
            }
            let is_checked = found == ChecksumMatch::Intact;
            if is_checked {
                self.checked.note(&path, before);
            }
            return Ok(CheckedContent { content: path, is_checked });
        }
        let object = object_path(name)?;
        let path = cache_dir.join(object.as_ref());
        let cached = tokio::fs::try_exists(&path).await.map_err(|source| Error::file("read", &path, source))?;
        // The copy may be what is damaged, so the object is fetched once more.
        for fetch in [!cached, true] {
            if fetch {
                let bytes = self.size(name).await?.ok_or_else(|| self.missing(name))?;
                let staged = StagedFile::beside(&path)?;
                let fetched = transfer::download(&*self.objects, &object, bytes, &staged.0).await;
                fetched.map_err(|source| self.error("read", name, source))?;
                let moved = tokio::fs::rename(&staged.0, &path).await;
                moved.map_err(|source| Error::file("write", &path, source))?;
            }
            match self.compare_checksum(name, &Checksum::of_file(&path).await?).await? {
                ChecksumMatch::Damaged => {}
                verdict => return Ok(CheckedContent { content: path, is_checked: verdict == ChecksumMatch::Intact }),
            }
        }
        let removed = tokio::fs::remove_file(&path).await;
        removed.map_err(|source| Error::file("remove", &path, source))?;
        Err(self.set_aside(name, MISMATCH).await)
    }
}
