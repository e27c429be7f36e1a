//! Executes plans with a session's engine. What turns out to be damaged or
//! gone while something needs it is made again.

use crate::{
    Error,
    action::Action,
    engine::PlanOutcome,
    lineage,
    plan::{Plan, QuestionViews, Task, TaskId},
    session::Session,
    task::{RunContext, RunInputs},
    workspace::ClaimedArtifacts,
};
use eval::Question;
use rag::load::Source;
use serde_json::json;
use std::{collections::HashSet, sync::Arc};
use store::ArtifactStore;

/// The most times that damaged artifacts are made again: damage may go up the chain of inputs, from
/// an answer to its documents.
const HEALINGS: usize = 8;

/// What the tasks of a run share.
pub(crate) fn run_context(
    session: &Session,
    source: Source,
    (questions, views): (Vec<Question>, QuestionViews),
    run: &str,
) -> Result<RunContext, Error> {
    let workspace = session.workspace();
    let log = workspace.event_log(run)?;
    Ok(RunContext::new(
        session.experiment.clone(),
        workspace.store().clone(),
        RunInputs { source, questions, views },
        workspace.scratch_folder(),
        run.to_owned(),
        log,
        Arc::new(session.models()),
    ))
}

/// Claims the artifacts of a plan, then executes it, and again while failed tasks lack inputs.
pub(crate) async fn execute(
    session: &Session,
    claimed: &mut ClaimedArtifacts,
    plan: &Arc<Plan>,
    run_context: &Arc<RunContext>,
) -> Result<PlanOutcome, Error> {
    match claimed.add(&run_context.run, plan.tasks.iter().map(Task::artifact)).await {
        Err(error @ store::Error::Gone { .. }) => return Err(error.into()),
        // A store that nothing can be written to may have all that is needed.
        Err(error) => run_context.log("lease_failed", json!({ "error": crate::error_chain(&error) })),
        Ok(()) => {}
    }
    if let Err(error) = lineage::record(session.workspace(), &run_context.run, plan).await {
        run_context.log("lineage_failed", json!({ "error": crate::error_chain(&error) }));
    }
    let store = session.workspace().store();
    let mut outcome = execute_once(session, plan, run_context).await?;
    for _ in 0..HEALINGS {
        let lost = lost_inputs(store, plan, &outcome).await?;
        if lost.is_empty() {
            break;
        }
        run_context.log("artifacts_lost", json!({ "artifacts": lost }));
        // All inputs are checked, so that all damage is repaired at once.
        check_outputs(store, &outcome, outcome.failed.keys().flat_map(|&id| plan.tasks[id].inputs())).await;
        let again = execute_once(session, plan, run_context).await?;
        let (executed, repeated) = (outcome.executed + again.executed, outcome.repeated + again.repeated);
        outcome = PlanOutcome { executed, repeated, ..again };
    }
    Ok(outcome)
}

async fn execute_once(
    session: &Session,
    plan: &Arc<Plan>,
    run_context: &Arc<RunContext>,
) -> Result<PlanOutcome, Error> {
    let (engine, control) = (session.engine().await?, &session.setup().control);
    engine.execute(plan, run_context, &control.progress, (&control.cancel, &control.steering)).await
}

/// Executes a plan whose outputs are read afterwards: what turns out to be damaged when it is read is made again.
pub(crate) struct Healing<'a> {
    session: &'a Session,
    run_context: &'a Arc<RunContext>,
    plan: &'a Arc<Plan>,
    /// How many more times it may be executed.
    left: usize,
    /// Tasks that were executed before.
    executed: usize,
}

impl<'a> Healing<'a> {
    pub(crate) fn new(session: &'a Session, run_context: &'a Arc<RunContext>, plan: &'a Arc<Plan>) -> Self {
        Self { session, run_context, plan, left: HEALINGS, executed: 0 }
    }

    /// Executes the plan, unless it was executed [`HEALINGS`] times already.
    pub(crate) async fn execute(&mut self, claimed: &mut ClaimedArtifacts) -> Result<PlanOutcome, Error> {
        if self.left == 0 {
            return Err(Error::table(format_args!(
                "artifacts are damaged again and again: check the disk with {}",
                Action::VerifyStore
            )));
        }
        self.left -= 1;
        let mut outcome = execute(self.session, claimed, self.plan, self.run_context).await?;
        outcome.executed += self.executed;
        Ok(outcome)
    }

    /// What was read of the outcome; none if the plan has to be executed again.
    pub(crate) async fn finish_reading<T>(
        &mut self,
        outcome: &PlanOutcome,
        read: Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let workspace = self.session.workspace();
        match read {
            Err(Error::Store(store::Error::Damaged { path, reason, outcome: remedy }))
                if self.left > 0 && !workspace.is_reading() =>
            {
                let fields = json!({ "artifacts": [path], "reason": format!("{reason}{remedy}") });
                self.run_context.log("artifacts_lost", fields);
                check_outputs(workspace.store(), outcome, self.plan.sinks()).await;
                self.executed = outcome.executed;
                Ok(None)
            }
            read => read.map(Some),
        }
    }
}

/// Compares outputs of tasks with their checksums, which sets damaged ones aside.
async fn check_outputs(store: &ArtifactStore, outcome: &PlanOutcome, ids: impl IntoIterator<Item = TaskId>) {
    for name in ids.into_iter().filter_map(|id| outcome.outputs.get(&id)) {
        let _ = store.check(name).await;
    }
}

/// The artifacts that failed tasks needed and that are not there any more:
/// what is damaged was set aside.
async fn lost_inputs(store: &ArtifactStore, plan: &Plan, outcome: &PlanOutcome) -> Result<Vec<String>, Error> {
    let inputs: HashSet<TaskId> = outcome.failed.keys().flat_map(|&id| plan.tasks[id].inputs()).collect();
    let mut names: Vec<String> = inputs.iter().filter_map(|id| outcome.outputs.get(id)).cloned().collect();
    names.sort_unstable();
    let found = store.which_exist(&names).await?;
    Ok(names.into_iter().zip(found).filter(|(_, found)| !found).map(|(name, _)| name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        layout::LAYOUT,
        plan::work::{IndexWork, LoadWork, Work},
    };
    use rag::index::IndexKind;
    use store::Key;

    /// Two loads, an index of each, and one of both.
    fn plan() -> Plan {
        let index = |from: &[TaskId]| {
            Work::from(IndexWork {
                kind: IndexKind::Bm25,
                from: from.to_vec(),
                enriched: false,
                analysis: None,
                graph: None,
            })
        };
        let load = || Work::from(LoadWork::default());
        let mut plan = Plan::default();
        for (number, work) in [load(), load(), index(&[0]), index(&[1]), index(&[0, 1])].into_iter().enumerate() {
            let (key, label) = (Key::of_bytes(&[number as u8]), number.to_string());
            plan.tasks.push(Task { key, work, rows: None, label, trials: Vec::new() });
        }
        plan
    }

    async fn store_with(folder: &std::path::Path, plan: &Plan, ids: &[TaskId]) -> ArtifactStore {
        let store = ArtifactStore::open(&folder.display().to_string(), &[], LAYOUT).unwrap();
        for &id in ids {
            store.put(&plan.tasks[id].artifact(), "content").await.unwrap();
        }
        store
    }

    /// A run in which the outputs of both loads were known and these tasks failed.
    fn failed(plan: &Plan, ids: &[TaskId]) -> PlanOutcome {
        PlanOutcome {
            outputs: [0, 1].map(|id| (id, plan.tasks[id].artifact())).into(),
            failed: ids.iter().map(|&id| (id, "torn".to_owned())).collect(),
            ..PlanOutcome::default()
        }
    }

    #[tokio::test]
    async fn only_outputs_that_a_failed_task_needed_and_that_are_gone_are_lost() {
        let plan = plan();
        // What is in the store, what failed, and what is lost.
        let table: [(&[TaskId], &[TaskId], &[TaskId]); 7] = [
            (&[0, 1], &[2, 3, 4], &[]),
            (&[1], &[2], &[0]),
            (&[1], &[3], &[]),
            (&[1], &[], &[]),
            (&[], &[4], &[0, 1]),
            (&[], &[2, 4], &[0, 1]),
            // Whose own output was never known.
            (&[], &[0], &[]),
        ];
        for (stored, failing, expected) in table {
            let folder = tempfile::tempdir().unwrap();
            let store = store_with(folder.path(), &plan, stored).await;
            let mut expected: Vec<String> = expected.iter().map(|&id| plan.tasks[id].artifact()).collect();
            expected.sort();
            let lost = lost_inputs(&store, &plan, &failed(&plan, failing)).await.unwrap();
            assert_eq!(lost, expected, "{stored:?} {failing:?}");
        }
    }

    #[tokio::test]
    async fn an_output_whose_bytes_changed_is_set_aside_when_it_is_looked_at() {
        let (folder, plan) = (tempfile::tempdir().unwrap(), plan());
        let store = store_with(folder.path(), &plan, &[0, 1]).await;
        std::fs::write(folder.path().join(plan.tasks[1].artifact()), "c0ntent").unwrap();
        let outcome = failed(&plan, &[4]);
        check_outputs(&store, &outcome, [0, 1, 3]).await;
        assert_eq!(store.lost().await.unwrap(), [plan.tasks[1].artifact()]);
        assert_eq!(lost_inputs(&store, &plan, &outcome).await.unwrap(), [plan.tasks[1].artifact()]);
    }
}
