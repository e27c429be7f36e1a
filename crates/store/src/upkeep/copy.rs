//! Copies a store: from a folder to an object store, back, or between two of a kind. Model calls and
//! the record of what was spent are copied too. Nothing is overwritten, so an interrupted copy can
//! continue, and two stores can be merged.

use super::{AT_ONCE, DamagedObject, ObjectAmount};
use crate::{
    ArtifactStore, CopiedCalls, Error, Key, StoredObject,
    journal::{copy_calls, copy_shares},
    names::Object,
};
use futures::{StreamExt, stream};
use serde::Serialize;
use std::{collections::BTreeMap, path::Path};

/// The result of a copy.
#[derive(Debug, Clone, Default, Serialize)]
pub struct CopyReport {
    /// Objects that were written.
    pub written: ObjectAmount,
    /// Objects that were there already.
    pub there: ObjectAmount,
    /// Objects that exist in the target with another size; they were left as they are.
    pub different: Vec<String>,
    /// Objects that are damaged and were not copied, with the reason.
    pub damaged: Vec<DamagedObject>,
    /// Model calls that were copied out of or into the journal file of a
    /// folder. Between object stores they are among the objects.
    pub calls: CopiedCalls,
    /// Files that belong to the machine of a folder and stay there: scratch
    /// files, and the journal file itself, whose calls are copied.
    #[serde(rename = "of_the_machine")]
    pub n_left_on_machine: u64,
}

impl CopyReport {
    /// Whether everything is in the target now.
    pub fn is_whole(&self) -> bool {
        self.different.is_empty() && self.damaged.is_empty() && self.calls.damaged == 0 && self.calls.problem.is_none()
    }
}

/// The progress of a copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopyProgress {
    /// The amount that is in the target now.
    pub done: ObjectAmount,
    /// The amount to copy.
    pub all: ObjectAmount,
}

/// What a copy would do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CopyPlan {
    /// Objects that the target lacks.
    pub missing: ObjectAmount,
    /// Objects that are there already.
    pub there: ObjectAmount,
    /// Objects that exist in the target with another size; they would be left.
    pub different: Vec<String>,
}

/// Lists what a copy would write, and writes nothing. `to` is none if the target
/// does not exist yet. Model calls in the journal file of a folder are not counted.
///
/// # Errors
/// If a store fails.
pub async fn plan_copy(from: &ArtifactStore, to: Option<&ArtifactStore>) -> Result<CopyPlan, Error> {
    let there = match to {
        Some(to) => sizes(to).await?,
        None => BTreeMap::new(),
    };
    let mut plan = CopyPlan::default();
    for object in from.objects("").await?.iter().filter(|object| from.object(&object.name).is_verified()) {
        match there.get(&object.name) {
            None => plan.missing.add(object.bytes),
            Some(bytes) if *bytes == object.bytes => plan.there.add(object.bytes),
            Some(_) => plan.different.push(object.name.clone()),
        }
    }
    Ok(plan)
}

/// The sizes of all objects, by name.
async fn sizes(store: &ArtifactStore) -> Result<BTreeMap<String, u64>, Error> {
    Ok(store.objects("").await?.into_iter().map(|object| (object.name, object.bytes)).collect())
}

/// Copies the objects that the target lacks. `scratch` is a folder for large
/// objects on their way from one object store to another.
///
/// # Errors
/// If a store fails; what was copied stays.
pub async fn copy(
    from: &ArtifactStore,
    to: &ArtifactStore,
    scratch: &Path,
    mut on_progress: impl FnMut(CopyProgress),
) -> Result<CopyReport, Error> {
    let there = sizes(to).await?;
    let objects = from.objects("").await?;
    let n_left_on_machine = objects.iter().filter(|object| from.object(&object.name).is_of_machine()).count() as u64;
    let key = |name: &str| match from.object(name) {
        Object::Call(key) => Some(key),
        _ => None,
    };
    let objects = objects.into_iter().filter(|object| from.object(&object.name).is_verified());
    // A folder has its calls in one file.
    let (calls, objects): (Vec<StoredObject>, Vec<StoredObject>) =
        objects.partition(|object| !to.is_remote() && key(&object.name).is_some());
    let calls: Vec<Key> = calls.iter().filter_map(|object| key(&object.name)).collect();
    let mut copied = CopyReport { n_left_on_machine, ..CopyReport::default() };
    let mut progress = CopyProgress { all: ObjectAmount::of(&objects), ..CopyProgress::default() };
    // A run's results and its pointer come last, so that the rest is there when they are found.
    let (last, first): (Vec<_>, Vec<_>) = objects.iter().partition(|object| from.object(&object.name).is_of_run());
    let (last, of_runs): (Vec<_>, Vec<_>) =
        last.into_iter().partition(|object| from.object(&object.name).finishes_run());
    for (objects, is_last) in [(first, false), (of_runs, false), (last, true)] {
        if is_last {
            let keys = there.keys().filter_map(|name| key(name)).collect();
            copied.calls = copy_calls(from, &calls, to, &keys).await?;
            if copied.calls.problem.is_none() {
                copy_shares(from, to).await?;
            }
        }
        let mut missing = Vec::new();
        for object in objects {
            match there.get(&object.name) {
                None => missing.push(object),
                Some(bytes) => {
                    progress.done.add(object.bytes);
                    if *bytes == object.bytes {
                        copied.there.add(object.bytes);
                    } else {
                        copied.different.push(object.name.clone());
                    }
                }
            }
        }
        on_progress(progress);
        let copies = missing.into_iter().map(|object| async move {
            let copied = match from.copy_to(&object.name, to, scratch).await {
                // The other objects are worth copying without it.
                Err(Error::Damaged { path, reason, outcome }) => {
                    Err(DamagedObject { name: path, reason: format!("{reason}{outcome}") })
                }
                copied => Ok(copied?),
            };
            Ok::<_, Error>((object, copied))
        });
        let mut copies = stream::iter(copies).buffer_unordered(AT_ONCE);
        while let Some(copy) = copies.next().await {
            let (object, written) = copy?;
            match written {
                Ok(true) => copied.written.add(object.bytes),
                Ok(false) => copied.there.add(object.bytes),
                Err(damaged) => copied.damaged.push(damaged),
            }
            progress.done.add(object.bytes);
            on_progress(progress);
        }
    }
    Ok(copied)
}
