//! What the model calls of tasks used, stored with their outputs, so that resumed runs, and runs
//! that find everything in the store, report the same usage.

use super::RunContext;
use crate::{Error, layout};
use futures::{StreamExt, TryStreamExt, stream};
use models::Ledger;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
};
use store::Key;

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
    /// The journal's keys of the calls for each question, by its id, or for each document, by its path, where the task
    /// works question by question or document by document. They say which answers are to be erased with a document.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) calls: TaskCalls,
}

/// The journal's keys of calls, by question or by document.
pub(crate) type TaskCalls = BTreeMap<String, BTreeSet<Key>>;

/// What was read so far, by the names of outputs; none where nothing is stored.
pub(super) type UsageCache = Mutex<HashMap<String, Option<Arc<TaskUsage>>>>;

/// Stores what the calls behind an output used.
pub(super) async fn keep(cx: &RunContext, artifact: &str, usage: TaskUsage) -> Result<(), Error> {
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
pub(crate) async fn usage_of(cx: &RunContext, artifact: &str) -> Result<Option<Arc<TaskUsage>>, Error> {
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
pub(crate) async fn load_usage(cx: &RunContext, artifacts: impl Iterator<Item = String>) -> Result<(), Error> {
    let reads: Vec<_> = artifacts.map(|artifact| async move { usage_of(cx, &artifact).await.map(drop) }).collect();
    stream::iter(reads).buffer_unordered(AT_ONCE).try_collect().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{spec::Experiment, task::fixture};
    use models::ModelUsage;

    fn run_context(folder: &std::path::Path) -> RunContext {
        let text = "name = \"x\"\n[corpus]\nsource = \"d\"\n[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n";
        fixture::run_context(folder, Experiment::parse(text, ".").unwrap(), Vec::new())
    }

    fn usage(calls: u64) -> TaskUsage {
        let mut all = Ledger::default();
        all.add("gpt", &ModelUsage { calls, ..ModelUsage::default() });
        TaskUsage { questions: [("q1".to_owned(), all.clone())].into(), all, ..TaskUsage::default() }
    }

    #[tokio::test]
    async fn what_calls_used_is_known_to_later_runs_under_the_name_of_their_output() {
        let folder = tempfile::tempdir().unwrap();
        let (whole, partial) = ("artifacts/ab/x.parquet", "partial/run/7-artifacts-ab-x.parquet");
        let cx = run_context(folder.path());
        keep(&cx, whole, usage(1)).await.unwrap();
        keep(&cx, partial, usage(2)).await.unwrap();
        for cx in [cx, run_context(folder.path())] {
            load_usage(&cx, [whole, partial].map(str::to_owned).into_iter()).await.unwrap();
            assert_eq!(usage_of(&cx, whole).await.unwrap().as_deref(), Some(&usage(1)));
            assert_eq!(usage_of(&cx, partial).await.unwrap().as_deref(), Some(&usage(2)), "it has its own");
        }
    }

    #[tokio::test]
    async fn what_was_never_stored_or_cannot_be_read_is_not_known() {
        let folder = tempfile::tempdir().unwrap();
        let cx = run_context(folder.path());
        let damaged = "artifacts/ab/y.parquet";
        cx.store.replace(&layout::usage(damaged), "{\"all\":").await.unwrap();
        for name in ["artifacts/ab/x.parquet", damaged] {
            assert_eq!(usage_of(&cx, name).await.unwrap(), None);
        }
        keep(&cx, damaged, usage(3)).await.unwrap();
        assert_eq!(usage_of(&cx, damaged).await.unwrap().as_deref(), Some(&usage(3)), "it was made again");
    }

    #[test]
    fn usage_of_an_earlier_version_has_no_questions() {
        let read: TaskUsage = serde_json::from_str("{\"all\":{}}").unwrap();
        assert_eq!(read, TaskUsage::default());
        assert_eq!(serde_json::to_string(&read).unwrap(), "{\"all\":{}}");
    }
}
