//! For how many chunks an `enrich` component wrote nothing that could be used.

use crate::{
    Error,
    artifact::{self, EnrichedRow},
    engine::Outputs,
    plan::{Plan, TaskId},
    task::Execution,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// Chunks that are searched by their own text, where more was to be written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotEnriched {
    /// How many.
    pub chunks: usize,
    /// Of how many.
    pub total: usize,
    /// The most frequent reason.
    pub reason: String,
}

/// What was read of trials that share their chunks.
pub(super) type Known = HashMap<Vec<TaskId>, Option<NotEnriched>>;

/// Those of a trial; none if all chunks are as they were to be. Tables that are
/// gone from the store, because what is made of them is there, tell nothing.
pub(super) async fn of_trial(
    execution: &Execution,
    plan: &Plan,
    outputs: &Outputs,
    tasks: &[TaskId],
    known: &mut Known,
) -> Result<Option<NotEnriched>, Error> {
    if let Some(found) = known.get(tasks) {
        return Ok(found.clone());
    }
    let (mut total, mut reasons) = (0, BTreeMap::<String, usize>::new());
    for &id in tasks {
        let name = outputs.get(&id).cloned().unwrap_or_else(|| plan.tasks[id].artifact());
        let Some(bytes) = execution.store.get(&name).await? else { continue };
        for row in artifact::decode::<EnrichedRow>(bytes)? {
            total += 1;
            row.fallback.into_iter().for_each(|reason| *reasons.entry(reason).or_default() += 1);
        }
    }
    let chunks = reasons.values().sum();
    let most = reasons.into_iter().max_by_key(|(_, times)| *times);
    let found = most.map(|(reason, _)| NotEnriched { chunks, total, reason });
    known.insert(tasks.to_vec(), found.clone());
    Ok(found)
}
