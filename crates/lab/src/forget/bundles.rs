//! Bundles that hold the documents. A bundle is never changed, so it is removed whole.

use super::findings::DocumentSigns;
use crate::{
    Error, Setup,
    bundle::{BundleContent, BundleManifest, MANIFEST, PromotedIndex, bundle_content},
    layout::LAYOUT,
    record::IndexedDocument,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, path::Path};
use store::{ArtifactStore, Key};
use walkdir::WalkDir;

/// How deep bundles are looked for below a folder.
const DEEPEST: usize = 8;

/// A bundle that holds a document.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BundleOfDocument {
    /// Its folder, or its address.
    pub place: String,
    /// The run that it was made of.
    pub run: String,
    /// The trial of that run.
    pub trial: String,
    /// The collection in a database in which it searches; none if it holds its vectors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
}

/// The bundles below some places.
#[derive(Debug, Default)]
pub(super) struct FoundBundles {
    /// Those that hold a document.
    pub(super) of_documents: Vec<BundleOfDocument>,
    /// Those that cannot be read, and why.
    pub(super) unreadable: Vec<(String, String)>,
}

/// Looks for bundles in and below folders and URLs.
pub(super) async fn find_bundles(
    places: &[String],
    signs: &DocumentSigns,
    setup: &Setup,
) -> Result<FoundBundles, Error> {
    let mut found = FoundBundles::default();
    for place in places {
        for bundle in bundles_below(place, setup).await? {
            match bundle_content(&bundle, setup).await {
                Ok(BundleContent::NoBundle) => {}
                Ok(BundleContent::LeftOver(manifest)) => found.of_documents.push(of_document(bundle, &manifest)),
                Ok(BundleContent::Whole { manifest, documents }) => {
                    if holds_document(&documents, signs) {
                        found.of_documents.push(of_document(bundle, &manifest));
                    }
                }
                Err(error) => found.unreadable.push((bundle, crate::error_chain(&error))),
            }
        }
    }
    found.of_documents.sort();
    found.of_documents.dedup();
    Ok(found)
}

fn of_document(place: String, manifest: &BundleManifest) -> BundleOfDocument {
    let collection =
        |promoted: &PromotedIndex| format!("{} of {}", promoted.collection.collection, promoted.collection.address);
    let (run, trial) = (manifest.run.clone(), manifest.trial.clone());
    BundleOfDocument { place, run, trial, collection: manifest.database.as_ref().map(collection) }
}

/// The folders and addresses with a manifest.
async fn bundles_below(place: &str, setup: &Setup) -> Result<Vec<String>, Error> {
    if store::is_url(place) {
        let store = ArtifactStore::open_to_read(place, &setup.store_options, LAYOUT)?;
        let place = place.trim_end_matches('/');
        let of = |name: &String| match name.strip_suffix(MANIFEST)? {
            "" => Some(place.to_owned()),
            folder => folder.strip_suffix('/').map(|folder| format!("{place}/{folder}")),
        };
        return Ok(store.list("").await?.iter().filter_map(of).collect());
    }
    let folder = Path::new(place);
    if !folder.is_dir() {
        return Err(Error::NotFound(format!("there is no folder {place} with bundles")));
    }
    let manifests = WalkDir::new(folder).max_depth(DEEPEST).into_iter().filter_map(Result::ok);
    let manifests = manifests.filter(|entry| entry.file_type().is_file() && entry.file_name() == MANIFEST);
    Ok(manifests.filter_map(|entry| Some(entry.path().parent()?.display().to_string())).collect())
}

/// Whether a bundle was made from one of the documents.
fn holds_document(documents: &[IndexedDocument], signs: &DocumentSigns) -> bool {
    let digests: BTreeSet<&Key> = signs.versions.values().flatten().collect();
    documents.iter().any(|document| signs.is_path(&document.path) || digests.contains(&document.key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_holds_a_document_by_its_path_or_by_its_bytes() {
        let mut signs = DocumentSigns::default();
        signs.versions.insert("a.md".to_owned(), BTreeSet::from([Key::of_bytes(b"one")]));
        let of = |path: &str, text: &str| {
            [IndexedDocument { path: path.to_owned(), bytes: 3, key: Key::of_bytes(text.as_bytes()) }]
        };
        assert!(holds_document(&of("a.md", "two"), &signs) && holds_document(&of("b.md", "one"), &signs));
        assert!(!holds_document(&of("b.md", "two"), &signs) && !holds_document(&[], &signs));
    }
}
