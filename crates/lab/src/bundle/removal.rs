//! Bundles as things to remove: what they were made from, and their files.

use super::{BundleManifest, DOCUMENTS, MANIFEST, place::BundleLocation};
use crate::{
    Error, Setup,
    layout::{LAYOUT, RunFileName},
    record::IndexedDocument,
};
use serde_json::Value;
use std::path::Path;
use store::ArtifactStore;

/// What is at a place that has a file with the name of a manifest.
pub(crate) enum BundleContent {
    /// Something that another program has made.
    NoBundle,
    /// A bundle whose removal has begun.
    LeftOver(Box<BundleManifest>),
    /// A bundle.
    Whole {
        /// What it is.
        manifest: Box<BundleManifest>,
        /// The documents that it was made from.
        documents: Vec<IndexedDocument>,
    },
}

/// Reads what says from which documents a bundle was made. Its other files are not read.
pub(crate) async fn bundle_content(address: &str, setup: &Setup) -> Result<BundleContent, Error> {
    let place = BundleLocation::of(address, setup)?;
    let manifest = match place.manifest().await {
        Err(error) => {
            let bytes = place.bytes(MANIFEST, super::place::MANIFEST_BYTES).await?;
            let other = bytes.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
            let is_ours = other.is_none_or(|other| other["reverie"].is_string() && other["trial"].is_string());
            return if is_ours { Err(error) } else { Ok(BundleContent::NoBundle) };
        }
        Ok(manifest) => Box::new(manifest),
    };
    let frozen = manifest.run_file(RunFileName::Frozen);
    if place.bytes(&frozen, super::place::SMALL_BYTES).await?.is_none() {
        return Ok(BundleContent::LeftOver(manifest));
    }
    let documents = match place.documents(&manifest).await? {
        Some(documents) => documents,
        None => {
            let provenance = place.read_checked(&manifest, &frozen).await?;
            let mut provenance: Value = serde_json::from_slice(&provenance).map_err(Error::table)?;
            serde_json::from_value(provenance["documents"].take()).unwrap_or_default()
        }
    };
    Ok(BundleContent::Whole { manifest, documents })
}

/// Removes the files of a bundle. Files in its folder that are not the bundle's stay.
pub(crate) async fn remove_bundle_files(address: &str, setup: &Setup) -> Result<(), Error> {
    let place = BundleLocation::of(address, setup)?;
    let manifest = place.manifest().await?;
    for file in &manifest.files {
        file.check_name(&place.origin)?;
    }
    let names = removal_order(&manifest);
    if store::is_url(address) {
        let store = ArtifactStore::open(address, &setup.store_options, LAYOUT)?;
        for name in &names {
            store.remove(name).await?;
        }
        return Ok(());
    }
    let folder = Path::new(address);
    for name in &names {
        let path = folder.join(name);
        Error::allow_missing(&path, std::fs::remove_file(&path))?;
    }
    remove_empty_folders(folder);
    Ok(())
}

/// The files of a bundle in the order in which they are removed. A removal may be killed at any point, and the next one
/// must still find the bundle. [`bundle_content`] reads the manifest, which goes last; and while the run's record is there,
/// it reads the list of documents too, which therefore goes after the record.
fn removal_order(manifest: &BundleManifest) -> Vec<String> {
    let record = manifest.run_file(RunFileName::Frozen);
    let mut names: Vec<String> = manifest.files.iter().map(|file| file.name.clone()).collect();
    names.sort_by_key(|name| (*name == DOCUMENTS, *name == record));
    names.push(MANIFEST.to_owned());
    names
}

/// Removes a folder and its subfolders, as far as they hold no file.
fn remove_empty_folders(folder: &Path) {
    let inside = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in inside.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove_empty_folders(&entry.path());
    }
    // It fails where something is left in it.
    let _ = std::fs::remove_dir(folder);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{bundle::manifest::bundle_with_files, record::write_documents};
    use models::ModelDirectory;
    use std::sync::Arc;
    use store::Key;

    #[tokio::test]
    async fn a_bundle_whose_removal_was_interrupted_anywhere_still_tells_what_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        let setup = Setup::new(ModelDirectory::new(folder.path().join("models"), Vec::new()), Arc::new(|_| None));
        let address = folder.path().join("bundle");
        let document = IndexedDocument { path: "a.md".into(), bytes: 3, key: Key::of_bytes(b"abc") };
        let mut documents = Vec::new();
        write_documents(&mut documents, [document.row()]).unwrap();
        let files =
            [("a", b"index".as_slice()), (DOCUMENTS, &documents), ("store/runs/r/frozen.json", b"{}"), ("z", b"index")];
        let manifest = bundle_with_files(&address, &files);
        let place = address.to_str().unwrap();
        let order = removal_order(&manifest);
        assert_eq!(order.len(), files.len() + 1);
        let (mut whole, mut left_over) = (0, 0);
        for name in &order {
            match bundle_content(place, &setup).await.unwrap() {
                BundleContent::Whole { documents, .. } => {
                    assert_eq!(documents, std::slice::from_ref(&document));
                    whole += 1;
                }
                BundleContent::LeftOver(_) => left_over += 1,
                BundleContent::NoBundle => panic!("it is a bundle"),
            }
            std::fs::remove_file(address.join(name)).unwrap();
        }
        assert_eq!((whole, left_over), (3, 2));

        for removed in 0..order.len() {
            bundle_with_files(&address, &files);
            for name in &order[..removed] {
                std::fs::remove_file(address.join(name)).unwrap();
            }
            remove_bundle_files(place, &setup).await.unwrap();
            assert!(!address.exists(), "{removed} were removed before");
        }
    }
}
