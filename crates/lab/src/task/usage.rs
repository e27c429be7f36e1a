//! What the model calls of tasks used, stored with their outputs, so that resumed runs, and runs
//! that find everything in the store, report the same usage.

use super::Execution;
use crate::{Error, layout};
use futures::{StreamExt, TryStreamExt, stream};
use models::Ledger;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

/// Concurrent reads.
const AT_ONCE: usize = 64;

/// What the model calls of one task used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TaskUsage {
    /// All its calls.
    pub(crate) all: Ledger,
    /// The calls for each question, by its id, where the task works question by question.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) questions: BTreeMap<String, Ledger>,
}

/// What was read so far, by the names of outputs; none where nothing is stored.
pub(super) type UsageCache = Mutex<HashMap<String, Option<Arc<TaskUsage>>>>;

/// Stores what the calls behind an output used.
pub(super) async fn keep(cx: &Execution, artifact: &str, usage: TaskUsage) -> Result<(), Error> {
    let bytes = serde_json::to_vec(&usage).map_err(Error::table)?;
    cx.store.replace(&layout::usage(artifact), bytes).await?;
    cx.used.lock().unwrap_or_else(PoisonError::into_inner).insert(artifact.to_owned(), Some(Arc::new(usage)));
    Ok(())
}

/// What the calls behind an output used; none if that is not known, because an
/// earlier version made the output.
///
/// # Errors
/// If the store fails.
pub(crate) async fn usage_of(cx: &Execution, artifact: &str) -> Result<Option<Arc<TaskUsage>>, Error> {
    let known = cx.used.lock().unwrap_or_else(PoisonError::into_inner).get(artifact).cloned();
    if let Some(known) = known {
        return Ok(known);
    }
    let bytes = cx.store.get(&layout::usage(artifact)).await?;
    let usage = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).map(Arc::new);
    cx.used.lock().unwrap_or_else(PoisonError::into_inner).insert(artifact.to_owned(), usage.clone());
    Ok(usage)
}

/// Reads what the calls behind many outputs used, many at once, so that
/// [`usage_of`] need not wait for each.
///
/// # Errors
/// If the store fails.
pub(crate) async fn load_usage(cx: &Execution, artifacts: impl Iterator<Item = String>) -> Result<(), Error> {
    let reads: Vec<_> = artifacts.map(|artifact| async move { usage_of(cx, &artifact).await.map(drop) }).collect();
    stream::iter(reads).buffer_unordered(AT_ONCE).try_collect().await
}
