//! Removes what was found from a store.

use super::{
    StoreRemoval, certificate::RemovedObjects, descent::RemovalStage, findings::DocumentSigns, redaction::redact_json,
};
use crate::{Error, layout::NamedObject};
use futures::{StreamExt, TryStreamExt, stream};
use std::path::Path;
use store::ArtifactStore;
use walkdir::WalkDir;

/// Requests at once.
const AT_ONCE: usize = 16;

/// Objects that go without a look at their origin: damaged ones that were set aside, which hold nobody knows what, and the
/// questions for workers with text of the documents, which are written anew by each run.
pub(super) async fn other_objects(
    store: &ArtifactStore,
    names: &[String],
    signs: &DocumentSigns,
) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    if signs.versions.is_empty() {
        return Ok(found);
    }
    for name in names {
        let goes = match NamedObject::of(name) {
            NamedObject::Known => store::is_set_aside(name),
            NamedObject::Questions => store.get(name).await?.is_some_and(|bytes| redact_json(&bytes, signs).is_some()),
            _ => false,
        };
        if goes {
            found.push(name.clone());
        }
    }
    Ok(found)
}

/// What goes from some stores and from the folder for scratch files, by kind.
pub(super) fn removed_objects(stores: &[StoreRemoval], scratch: &Path) -> RemovedObjects {
    let mut removed = RemovedObjects::default();
    for one in stores {
        for name in one.descendants.keys() {
            removed.add(kind(name), name);
        }
        for name in &one.others {
            removed.add(if store::is_set_aside(name) { "damaged objects" } else { "questions for workers" }, name);
        }
        for name in &one.runs.of_reports {
            removed.add("files of reports", name);
        }
        for (run, files) in &one.runs.files {
            removed.rewritten.entry(run.clone()).or_default().extend(files.iter().cloned());
        }
    }
    if stores.iter().any(|one| !one.descendants.is_empty()) {
        let files = WalkDir::new(scratch).into_iter().filter_map(Result::ok).filter(|file| file.file_type().is_file());
        for file in files {
            removed.add("scratch files of this machine", file.path().display().to_string());
        }
    }
    removed
}

fn kind(name: &str) -> &'static str {
    match NamedObject::of(name) {
        NamedObject::Artifact => "artifacts",
        NamedObject::Partial(_) => "partial outputs",
        NamedObject::Measurement(_) => "measurements",
        _ => "other objects",
    }
}

/// Removes the objects of a store. The tables of the documents go last, because they show what else to look for.
pub(super) async fn remove(one: &StoreRemoval) -> Result<(), Error> {
    let others = one.others.iter().map(|name| one.store.remove(name));
    stream::iter(others).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    for stage in [RemovalStage::Anything, RemovalStage::Pieces, RemovalStage::Documents] {
        let of_stage = one.descendants.iter().filter(|(_, of)| **of == stage).map(|(name, _)| one.store.remove(name));
        stream::iter(of_stage).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    }
    Ok(())
}

/// Removes a folder with everything in it, if it is there.
pub(super) fn remove_folder(folder: &Path) -> Result<(), Error> {
    Error::allow_missing(folder, std::fs::remove_dir_all(folder)).map(drop)
}
