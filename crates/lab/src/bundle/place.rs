//! Where a bundle is, and how its files are read: never more bytes than a bundle may have.

use super::{Bundle, BundleManifest, DOCUMENTS, MANIFEST, check};
use crate::{
    Error, Setup,
    action::Action,
    layout::{LAYOUT, RunFileName},
    record::{IndexedDocument, RunRecord, parse_documents},
};
use std::{
    io::Read,
    path::{Path, PathBuf},
};
use store::ArtifactStore;

/// The most bytes of the manifest: enough for a hundred thousand files. Parsed as JSON, they may
/// take fifty times the memory.
pub(super) const MANIFEST_BYTES: u64 = 16 << 20;
/// The most bytes of each other file that says what a bundle is.
pub(super) const SMALL_BYTES: u64 = 64 << 20;

/// Refuses a folder that is named as a URL: it would be read as an object store,
/// which follows links and waits for pipes.
pub(super) fn check_address(address: &str) -> Result<(), Error> {
    match address.strip_prefix("file:") {
        Some(path) => Err(Error::Unusable(format!(
            "{address} is a folder of this machine: name it by its path, {}",
            path.strip_prefix("//").unwrap_or(path)
        ))),
        None => Ok(()),
    }
}

/// A folder that is being filled. It is removed in the end, unless it was renamed.
pub(super) struct BundleDraft(pub(super) PathBuf);

impl Drop for BundleDraft {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Where a bundle is: a folder, or an object store.
pub(super) struct BundleLocation<'a> {
    pub(super) address: &'a str,
    /// The address for messages, without secrets.
    pub(super) origin: String,
    pub(super) remote: Option<ArtifactStore>,
}

impl<'a> BundleLocation<'a> {
    pub(super) fn of(address: &'a str, setup: &Setup) -> Result<Self, Error> {
        check_address(address)?;
        let remote = store::is_url(address).then(|| ArtifactStore::open_to_read(address, &setup.store_options, LAYOUT));
        Ok(Self { address, origin: store::without_secrets(address), remote: remote.transpose()? })
    }

    /// The bytes of a file that the manifest names.
    pub(super) async fn read_checked(&self, manifest: &BundleManifest, name: &str) -> Result<Vec<u8>, Error> {
        let bytes = self.bytes(name, SMALL_BYTES).await?;
        manifest.file(name, &self.origin)?.check_bytes(bytes, &self.origin)
    }

    /// The record of the run and its scores.
    pub(super) async fn record(&self, manifest: &BundleManifest) -> Result<RunRecord, Error> {
        let summary = self.read_checked(manifest, &manifest.run_file(RunFileName::Summary)).await?;
        let provenance = self.read_checked(manifest, &manifest.run_file(RunFileName::Frozen)).await?;
        let origin = &self.origin;
        RunRecord::of_files(&summary, &provenance).map_err(|error| {
            Error::Unusable(format!("{origin}: {error}; make it again with {}", Action::Promote(None)))
        })
    }

    /// The documents that it was made from; none if it is of an earlier format, whose record of the run lists them.
    pub(super) async fn documents(&self, manifest: &BundleManifest) -> Result<Option<Vec<IndexedDocument>>, Error> {
        let Some(file) = manifest.files.iter().find(|file| file.name == DOCUMENTS) else { return Ok(None) };
        let bytes = file.check_bytes(self.bytes(DOCUMENTS, file.bytes).await?, &self.origin)?;
        parse_documents(&bytes[..]).map(Some)
    }

    /// The bytes of a file, which may have at most `at_most`; none if there is no such file.
    pub(super) async fn bytes(&self, name: &str, at_most: u64) -> Result<Option<Vec<u8>>, Error> {
        let one_more = at_most.saturating_add(1);
        let found = match &self.remote {
            Some(remote) => remote.get_at_most(name, one_more).await?,
            None => read_at_most(&Path::new(self.address).join(name), one_more)?,
        };
        match found {
            Some(bytes) if bytes.len() as u64 > at_most => {
                let origin = &self.origin;
                Err(Error::Unusable(format!("{origin}: {name} has more than {at_most} bytes")))
            }
            found => Ok(found),
        }
    }

    pub(super) async fn manifest(&self) -> Result<BundleManifest, Error> {
        let origin = &self.origin;
        let nothing = || {
            Error::Unusable(format!(
                "{origin} holds no bundle: {MANIFEST} is not there; {} makes one",
                Action::Promote(Some(origin))
            ))
        };
        let (bytes, origin) = (self.bytes(MANIFEST, MANIFEST_BYTES).await?.ok_or_else(nothing)?, origin.clone());
        tokio::task::spawn_blocking(move || BundleManifest::read(&bytes, &origin)).await.map_err(Error::table)?
    }

    /// The folder on this machine that holds the files, fetched if it is not there. Each fetched
    /// file is compared with the manifest.
    pub(super) async fn fetch(&self, manifest: &BundleManifest, cache: &Path) -> Result<PathBuf, Error> {
        let folder = cache.join(&manifest.digest);
        if Bundle::is_at(&folder) {
            return Ok(folder);
        }
        let draft = BundleDraft(store::staged_path(&folder));
        self.fetch_into(manifest, &draft.0).await?;
        // Another process may have fetched it meanwhile; then its folder is as good.
        let _ = std::fs::rename(&draft.0, &folder);
        Ok(folder)
    }

    async fn fetch_into(&self, manifest: &BundleManifest, draft: &Path) -> Result<(), Error> {
        let Some(remote) = &self.remote else {
            return Err(Error::table("only a bundle of an object store is fetched"));
        };
        for file in &manifest.files {
            file.check_name(&self.origin)?;
            let path = draft.join(&file.name);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent).map_err(|source| Error::file("create", parent, source))?;
            }
            // A file may be far larger than the manifest says.
            if !remote.save_at_most(&file.name, file.bytes.saturating_add(1), &path).await? {
                return Err(file.refusal("is missing", &self.origin));
            }
            let (draft, file, origin) = (draft.to_owned(), file.clone(), self.origin.clone());
            let checked = tokio::task::spawn_blocking(move || check(&draft, &file, &origin));
            checked.await.map_err(Error::table)??;
        }
        manifest.write(draft)
    }
}

/// The first `bytes` bytes of a file, or all if it has fewer; none if there is no file.
fn read_at_most(path: &Path, bytes: u64) -> Result<Option<Vec<u8>>, Error> {
    let read = store::open_regular(path).and_then(|file| {
        let mut content = Vec::new();
        file.take(bytes).read_to_end(&mut content).map(|_| content)
    });
    Error::allow_missing(path, read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use models::ModelDirectory;
    use std::sync::Arc;

    fn setup(folder: &Path) -> Setup {
        Setup::new(ModelDirectory::new(folder.join("models"), Vec::new()), Arc::new(|_| None))
    }

    /// What a text says, or why it says nothing.
    fn told<T>(found: Result<T, Error>) -> String {
        found.err().map_or_else(|| "found".to_owned(), |error| error.to_string())
    }

    #[test]
    fn a_folder_is_named_by_its_path_and_not_as_a_url() {
        for (address, path) in
            [("file:///b/one", "/b/one"), ("file:/b/one", "/b/one"), ("file:b", "b"), ("file://host/b", "host/b")]
        {
            let expected = format!("{address} is a folder of this machine: name it by its path, {path}");
            assert_eq!(told(check_address(address)), expected);
        }
        for address in ["/b/file:one", "files/b", "s3://bucket/file:b", ""] {
            assert_eq!(told(check_address(address)), "found", "{address}");
        }
    }

    #[tokio::test]
    async fn no_more_bytes_are_read_than_a_file_may_have() {
        let folder = tempfile::tempdir().unwrap();
        let address = folder.path().display().to_string();
        std::fs::write(folder.path().join("four"), "1234").unwrap();
        let place = BundleLocation::of(&address, &setup(folder.path())).unwrap();
        for (at_most, expected) in
            [(5, "found".to_owned()), (4, "found".to_owned()), (3, format!("{address}: four has more than 3 bytes"))]
        {
            assert_eq!(told(place.bytes("four", at_most).await), expected);
        }
        assert_eq!(place.bytes("four", 4).await.unwrap().as_deref(), Some(b"1234".as_slice()));
        assert_eq!(place.bytes("absent", 4).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_place_without_a_manifest_is_no_bundle() {
        let folder = tempfile::tempdir().unwrap();
        let address = folder.path().display().to_string();
        let nothing = |origin: &str| {
            format!("{origin} holds no bundle: manifest.json is not there; a promotion to {origin} makes one")
        };
        let place = BundleLocation::of(&address, &setup(folder.path())).unwrap();
        assert_eq!(told(place.manifest().await), nothing(&address));
        assert!(!Bundle::is_at(folder.path()));
        let elsewhere = setup(folder.path());
        let remote = BundleLocation::of("memory:///bundles/one", &elsewhere).unwrap();
        assert_eq!(told(remote.manifest().await), nothing("memory:…"), "an address without what may be a secret");
        std::fs::write(folder.path().join(MANIFEST), "{").unwrap();
        let damaged = told(place.manifest().await);
        assert!(damaged.starts_with(&format!("{address} is no bundle that can be served: manifest.json is damaged (")));
        assert!(Bundle::is_at(folder.path()), "something is there");
    }

    #[test]
    fn a_draft_is_removed_unless_it_was_renamed() {
        let folder = tempfile::tempdir().unwrap();
        let (draft, kept) = (folder.path().join("draft"), folder.path().join("kept"));
        for rename in [false, true] {
            std::fs::create_dir(&draft).unwrap();
            let filled = BundleDraft(draft.clone());
            if rename {
                std::fs::rename(&filled.0, &kept).unwrap();
            }
            drop(filled);
            assert_eq!((draft.exists(), kept.exists()), (false, rename));
        }
    }
}
