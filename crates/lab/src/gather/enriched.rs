//! For how many chunks an `enrich` component wrote nothing that could be used.

use crate::{
    Error,
    artifact::{self, EnrichedRow},
    plan::{Outputs, Plan, TaskId},
    results::NotEnriched,
    task::Execution,
};
use std::collections::{BTreeMap, HashMap};

/// What was read of trials that share their chunks.
pub(super) type EnrichedCache = HashMap<Vec<TaskId>, Option<NotEnriched>>;

/// The chunks of a trial that were not enriched; none if all were. Tables that are no longer in the
/// store are skipped.
pub(super) async fn of_trial(
    execution: &Execution,
    plan: &Plan,
    outputs: &Outputs,
    tasks: &[TaskId],
    known: &mut EnrichedCache,
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
