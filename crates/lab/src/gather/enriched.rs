//! For how many chunks an `enrich` component wrote nothing that could be used.

use crate::{
    Error,
    artifact::{self, EnrichedRow},
    plan::{Outputs, Plan, TaskId},
    results::NotEnriched,
    task::RunContext,
};
use std::collections::{BTreeMap, HashMap};

/// What was read of trials that share their chunks.
pub(super) type EnrichedCache = HashMap<Vec<TaskId>, Option<NotEnriched>>;

/// The chunks of a trial that were not enriched; none if all were. Tables that are no longer in the
/// store are skipped.
pub(super) async fn of_trial(
    run_context: &RunContext,
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
        let Some(bytes) = run_context.store.get(&name).await? else { continue };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::price::tests::{ALL, Fixture, GENERATES};

    /// A fixture with tables of chunks, each with the reasons why its chunks were not enriched.
    async fn tables(tables: &[&[Option<&str>]]) -> (Fixture, Outputs) {
        let fixture = Fixture::new(GENERATES, ALL, None).await;
        let mut outputs = Outputs::new();
        for (id, reasons) in tables.iter().enumerate() {
            let row = |(number, reason): (u32, &Option<&str>)| EnrichedRow {
                document: "a.txt".to_owned(),
                number,
                text: "text".to_owned(),
                fallback: reason.map(str::to_owned),
            };
            let rows: Vec<EnrichedRow> = (0..).zip(reasons.iter()).map(row).collect();
            let name = format!("artifacts/aa/{id}.parquet");
            fixture.prepared.run_context.store.replace(&name, artifact::encode(&rows).unwrap()).await.unwrap();
            outputs.insert(id, name);
        }
        (fixture, outputs)
    }

    async fn found(tables_of: &[&[Option<&str>]], tasks: &[TaskId]) -> Option<(usize, usize, String)> {
        let (fixture, outputs) = tables(tables_of).await;
        let mut known = EnrichedCache::new();
        let run_context = &fixture.prepared.run_context;
        let found = of_trial(run_context, &fixture.plan, &outputs, tasks, &mut known).await.unwrap();
        assert_eq!(known[tasks], found, "it is kept for the next trial");
        found.map(|found| (found.chunks, found.total, found.reason))
    }

    #[tokio::test]
    async fn chunks_that_were_not_enriched_are_counted_over_all_tables_with_the_most_frequent_reason() {
        let (late, empty) = (Some("too late"), Some("empty"));
        let told = |chunks, total, reason: &str| Some((chunks, total, reason.to_owned()));
        assert_eq!(found(&[], &[]).await, None);
        assert_eq!(found(&[&[None, None]], &[0]).await, None, "all were enriched");
        assert_eq!(found(&[&[None, late, None]], &[0]).await, told(1, 3, "too late"));
        assert_eq!(found(&[&[late, empty], &[empty, None, None]], &[0, 1]).await, told(3, 5, "empty"));
        assert_eq!(
            found(&[&[late, empty], &[empty, None, None]], &[1]).await,
            told(1, 3, "empty"),
            "of its own tables"
        );
        assert_eq!(found(&[&[], &[late]], &[0, 1]).await, told(1, 1, "too late"));
    }

    #[tokio::test]
    async fn tables_that_are_no_longer_in_the_store_are_skipped() {
        let (fixture, mut outputs) = tables(&[&[Some("empty")], &[Some("late"), None]]).await;
        outputs.insert(1, "artifacts/aa/gone.parquet".to_owned());
        let run_context = &fixture.prepared.run_context;
        let found = of_trial(run_context, &fixture.plan, &outputs, &[0, 1], &mut EnrichedCache::new()).await.unwrap();
        assert_eq!(found, Some(NotEnriched { chunks: 1, total: 1, reason: "empty".to_owned() }));
        // Without an output of this run the task's own name is looked for.
        let found =
            of_trial(run_context, &fixture.plan, &Outputs::new(), &[0], &mut EnrichedCache::new()).await.unwrap();
        assert_eq!(found, None);
    }

    #[tokio::test]
    async fn what_is_known_of_the_same_tables_is_not_read_again() {
        let (fixture, outputs) = tables(&[&[Some("empty")]]).await;
        let kept = Some(NotEnriched { chunks: 7, total: 9, reason: "known".to_owned() });
        let mut known = EnrichedCache::from([(vec![0], kept.clone())]);
        let run_context = &fixture.prepared.run_context;
        assert_eq!(of_trial(run_context, &fixture.plan, &outputs, &[0], &mut known).await.unwrap(), kept);
    }
}
