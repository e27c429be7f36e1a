//! Reads every object of a store and compares it with its checksum. Outputs of
//! earlier versions have no checksum; the store's layout checks them if it
//! knows their formats.

use super::{AT_ONCE, ObjectAmount};
use crate::{
    ArtifactStore, Error, ObjectKind, RunFile, StoredObject,
    artifact::checksum::{Checksum, ChecksumMatch},
    journal,
    names::{self, Object},
};
use bytes::Bytes;
use futures::{StreamExt, stream};
use serde::Serialize;
use std::collections::BTreeMap;

/// Larger JSON files are not held in memory.
const LARGEST_JSON: u64 = 256 << 20;

/// The result of reading everything.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct VerifyReport {
    /// The objects that were read.
    pub read: ObjectAmount,
    /// Objects among these without a checksum, because an earlier version wrote
    /// them: they were checked as far as their format allows.
    pub without_checksum: ObjectAmount,
    /// The damaged objects.
    pub damaged: Vec<DamagedObject>,
    /// Objects that were set aside, now or before, and are below `damaged/`.
    pub set_aside: ObjectAmount,
}

/// A damaged object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DamagedObject {
    /// Its name.
    pub name: String,
    /// What is wrong with it, and what was done with it.
    pub reason: String,
}

/// Reads all objects that do not belong to one machine only, and reports the
/// progress. A damaged output of a task is set aside if `set_aside` is true and
/// the store was not opened only to read.
///
/// # Errors
/// If the store cannot be listed or read.
pub async fn verify(
    store: &ArtifactStore,
    set_aside: bool,
    mut progress: impl FnMut(ObjectAmount),
) -> Result<VerifyReport, Error> {
    let mut verified = VerifyReport::default();
    let objects = store.objects("").await?;
    let mut checksums: BTreeMap<&str, Vec<Checksum>> = BTreeMap::new();
    for object in &objects {
        if let Some((of, checksum)) = Checksum::parse(&object.name) {
            checksums.entry(of).or_default().push(checksum);
        }
    }
    let checks = objects.iter().filter(|object| store.object(&object.name).is_verified()).map(|object| {
        let known = checksums.get(object.name.as_str()).map_or(&[][..], Vec::as_slice);
        async move { find_problem(store, object, known).await.map(|problem| (object, !known.is_empty(), problem)) }
    });
    let mut checks = stream::iter(checks).buffered(AT_ONCE);
    while let Some(checked) = checks.next().await {
        let (object, has_checksum, problem) = checked?;
        verified.read.add(object.bytes);
        progress(verified.read);
        if !has_checksum && store.object(&object.name).is_output() {
            verified.without_checksum.add(object.bytes);
        }
        let Some(mut reason) = problem else { continue };
        if set_aside
            && !store.is_read_only()
            && let Error::Damaged { reason: told, outcome, .. } = store.set_aside(&object.name, &reason).await
        {
            reason = format!("{told}{outcome}");
        }
        verified.damaged.push(DamagedObject { name: object.name.clone(), reason });
    }
    drop(checks);
    verified.set_aside = ObjectAmount::of(&store.objects(names::DAMAGED).await?);
    Ok(verified)
}

/// What is wrong with an object.
async fn find_problem(
    store: &ArtifactStore,
    object: &StoredObject,
    known: &[Checksum],
) -> Result<Option<String>, Error> {
    let what = store.object(&object.name);
    let is_json = match &what {
        Object::Call(_) => true,
        Object::OfLayout(ObjectKind::Run { file: RunFile::Results | RunFile::Artifacts | RunFile::Json, .. }) => {
            object.bytes <= LARGEST_JSON
        }
        _ => false,
    };
    // Checking a format takes the whole object.
    let is_old = known.is_empty() && what.is_output();
    let (mut hasher, mut length, mut text) = (blake3::Hasher::new(), 0u64, Vec::new());
    let mut look = |piece: &[u8]| {
        hasher.update(piece);
        length += piece.len() as u64;
        if is_json || is_old {
            text.extend_from_slice(piece);
        }
    };
    if !store.scan(&object.name, &mut look).await? {
        // A running run may replace or remove its own objects.
        let is_gone = matches!(what, Object::OfLayout(ObjectKind::Artifact { .. }))
            .then(|| "it was removed meanwhile".to_owned());
        return Ok(is_gone);
    }
    if !known.is_empty() {
        let checksum = Checksum::from(hasher.finalize());
        if known.contains(&checksum) {
            return Ok(None);
        }
        // The object may have been replaced since it was listed.
        let mut hasher = blake3::Hasher::new();
        if !store.scan(&object.name, |piece| _ = hasher.update(piece)).await? {
            return Ok(None);
        }
        let is_damaged =
            store.compare_checksum(&object.name, &Checksum::from(hasher.finalize())).await? == ChecksumMatch::Damaged;
        return Ok(is_damaged.then(|| match length {
            0 => "it is empty, and does not match its checksum".to_owned(),
            _ => "its content does not match its checksum".to_owned(),
        }));
    }
    Ok(match what {
        Object::Call(key) => journal::check_object(&key, &text),
        Object::OfLayout(ObjectKind::Run { .. }) if is_json => {
            serde_json::from_slice::<serde::de::IgnoredAny>(&text).err().map(|error| error.to_string())
        }
        what if what.is_output() => store.layout().problem(&object.name, Bytes::from(text)),
        _ => None,
    })
}
