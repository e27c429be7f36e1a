//! Bundles as things to remove: what they were made from, and their files.

use super::{BundleManifest, MANIFEST, place::BundleLocation};
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

/// Removes the files of a bundle. Those by which it is found as one go last, so that a removal that was killed can be
/// repeated. Files in its folder that are not the bundle's stay.
pub(crate) async fn remove_bundle_files(address: &str, setup: &Setup) -> Result<(), Error> {
    let place = BundleLocation::of(address, setup)?;
    let manifest = place.manifest().await?;
    let frozen = manifest.run_file(RunFileName::Frozen);
    let others = manifest.files.iter().filter(|file| file.name != frozen);
    for file in &manifest.files {
        file.check_name(&place.origin)?;
    }
    let names = others.map(|file| file.name.as_str()).chain([frozen.as_str(), MANIFEST]);
    if store::is_url(address) {
        let store = ArtifactStore::open(address, &setup.store_options, LAYOUT)?;
        for name in names {
            store.remove(name).await?;
        }
        return Ok(());
    }
    let folder = Path::new(address);
    for name in names {
        let path = folder.join(name);
        Error::allow_missing(&path, std::fs::remove_file(&path))?;
    }
    remove_empty_folders(folder);
    Ok(())
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
