//! Runs a prepared experiment: executes the missing tasks, collects the results, and stores them
//! with the record of what they were made from.

mod first_reply;
mod search;
mod search_scores;
mod steered;
mod stopped;

use crate::{
    Error, PreparedRun, Session,
    engine::{PlanOutcome, stored_tasks},
    error_chain,
    gather::{RunPart, gather, measure, warnings, warnings_of_results},
    healing::Healing,
    layout::{self, RunFileName},
    live::LiveWriter,
    plan::{Outputs, Trial, TrialTasks},
    record::{RunProvenance, write_run_documents},
    results::Results,
    run_summary::summary_json,
    settlement::settle,
    track::DataVersion,
    warning::looked_for,
    workspace::ClaimedArtifacts,
};
use eval::Dataset;
use serde_json::json;
use stopped::KeptPart;
use store::upkeep::RunArtifacts;

/// A run in progress.
pub(crate) struct Run<'a> {
    session: &'a Session,
    prepared: &'a PreparedRun,
    /// The artifacts that it claims in the store.
    claimed: ClaimedArtifacts,
}

impl Session {
    /// Executes the missing tasks and collects the results. The rows of each trial are in a file of the run's folder as
    /// soon as they are collected; the results that are returned lack passages and long texts
    /// ([`TrialResult::rows`](crate::TrialResult::rows)). [`Workspace::results`](crate::Workspace::results) reads them
    /// whole.
    ///
    /// # Errors
    /// [`Error::Interrupted`] after a cancellation, with everything finished kept; [`Error::Continued`] if a person has
    /// changed the plan: [`Session::continued`] goes on.
    pub async fn run(&self, prepared: &PreparedRun) -> Result<Results, Error> {
        Run::new(self, prepared).finish().await
    }

    /// The session of the experiment that this one became while it ran, because a person has changed its plan: with the
    /// same store, budget and engine, and prepared. None if nobody has.
    ///
    /// # Errors
    /// As those of [`Session::prepare`].
    pub async fn continued(&self) -> Result<Option<(Self, PreparedRun)>, Error> {
        let steering = &self.setup().control.steering;
        let Some(next) = steering.take_next_run() else { return Ok(None) };
        let session = self.with_plan(next.experiment);
        // Until the run has begun, nobody could end a pause.
        let is_paused = steering.is_paused();
        if is_paused {
            steering.set_paused(false);
        }
        let prepared = session.prepare().await;
        if is_paused {
            steering.set_paused(true);
        }
        Ok(Some((session, prepared?)))
    }

    /// The results of an interrupted run so far: those of the trials that are scored, marked as
    /// partial and without a winner; none if no trial is scored. Nothing is stored.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn so_far(&self, prepared: &PreparedRun) -> Result<Option<Results>, Error> {
        Run::new(self, prepared).so_far().await
    }
}

impl<'a> Run<'a> {
    pub(crate) fn new(session: &'a Session, prepared: &'a PreparedRun) -> Self {
        Self { session, prepared, claimed: ClaimedArtifacts::new(session.workspace()) }
    }

    /// Runs to the end.
    pub(crate) async fn finish(mut self) -> Result<Results, Error> {
        let (session, prepared) = (self.session, self.prepared);
        let live = LiveWriter::start(session, prepared);
        let results = tokio::select! {
            biased;
            results = self.run() => results,
            never = steered::follow_acts(session, prepared) => match never {},
        };
        let next = session.setup().control.steering.next_run().map(|next| next.run);
        let next = next.filter(|_| matches!(results, Ok(_) | Err(Error::Continued(_))));
        if let Err(Error::Continued(next)) = &results {
            prepared.run_context.log("run_continued", json!({ "as": next }));
        }
        live.finish(&results, next).await;
        let (run_context, progress) = (&self.prepared.run_context, &self.session.setup().control.progress);
        let results = settle(run_context.models().client(), progress, results).await;
        if let Some(lost) = run_context.lost_events() {
            progress.warn(lost);
        }
        // A finished run's list of artifacts now protects them instead of the claim.
        self.claimed.end().await;
        results
    }

    async fn run(&mut self) -> Result<Results, Error> {
        let Self { session, prepared, .. } = *self;
        let workspace = session.workspace();
        workspace.write_run_file(&prepared.run, RunFileName::Experiment, session.experiment.text_to_store()).await?;
        log_start(session, prepared);
        first_reply::check(session, prepared).await?;
        // This executes a grid too, in one step.
        let searched = search::search(self).await;
        if let Err(error) = &searched
            && !matches!(error, Error::Interrupted | Error::Continued(_))
        {
            prepared.run_context.log("run_failed", json!({ "error": error_chain(error) }));
        }
        let (outcome, mut results) = searched?;
        results.measure_front();
        results.warnings = warnings(session, prepared, &outcome, &mut results).await;
        let found = results.stored_json()?;
        let provenance = RunProvenance::of(session, prepared, &outcome).to_json()?;
        write_run_documents(session, prepared).await?;
        workspace.write_run_file(&prepared.run, RunFileName::Frozen, provenance).await?;
        let summary = summary_json(&results, found.len())?;
        workspace.write_run_file(&prepared.run, RunFileName::Summary, summary).await?;
        workspace.write_run_file(&prepared.run, RunFileName::Results, found).await?;
        workspace.remove_other_rows(&prepared.run, &results.row_files()).await?;
        workspace.point_to(&session.experiment.name, &prepared.run).await?;
        log_end(prepared, &outcome, &results);
        self.publish(&outcome).await?;
        Ok(results)
    }

    /// Executes a part of the run and collects its results.
    async fn execute_and_gather(&mut self, part: RunPart<'_>) -> Result<(PlanOutcome, Results), Error> {
        let Self { session, prepared, .. } = *self;
        let mut healing = Healing::new(session, &prepared.run_context, part.plan);
        loop {
            let outcome = healing.execute(&mut self.claimed).await?;
            let steering = &session.setup().control.steering;
            let stopped = steering.stopped_trials();
            let kept = match stopped.is_empty() {
                true => None,
                false => KeptPart::of(session, prepared, part, &outcome, &stopped),
            };
            let (part, gathered_from) = match &kept {
                Some(kept) => (RunPart { trials: &kept.trials, plan: &kept.plan, ..part }, &kept.outcome),
                None => (part, &outcome),
            };
            measure(session, prepared, part, gathered_from).await;
            let gathered = gather(session, prepared, part, gathered_from).await;
            if let Some(mut results) = healing.finish_reading(&outcome, gathered).await? {
                results.acts = steering.applied();
                results.apply_stops(&stopped, &kept.map(|kept| kept.questions).unwrap_or_default());
                return Ok((outcome, results));
            }
        }
    }

    /// See [`Session::so_far`].
    pub(crate) async fn so_far(&self) -> Result<Option<Results>, Error> {
        let Self { session, prepared, .. } = *self;
        let there = stored_tasks(&prepared.plan, session.workspace().store()).await?;
        let is_there = |tasks: &TrialTasks| !tasks.scores.is_empty() && tasks.results().all(|id| there[id]);
        let scored = prepared.trials.iter().zip(&prepared.plan.trials).filter(|(_, tasks)| is_there(tasks));
        let trials: Vec<Trial> = scored.map(|(trial, _)| trial.clone()).collect();
        if trials.is_empty() {
            return Ok(None);
        }
        let plan = prepared.sources.plan(session, &trials, &prepared.questions, None);
        let outputs: Outputs = plan.tasks.iter().enumerate().map(|(id, task)| (id, task.artifact())).collect();
        let outcome = PlanOutcome { outputs, reused: plan.tasks.len(), ..PlanOutcome::default() };
        // After Ctrl-C, no chunks are read and nothing is searched any more.
        let part = RunPart { trials: &trials, plan: &plan, only_stored: true, keeps_rows: false };
        let mut results = gather(session, prepared, part, &outcome).await?;
        results.warnings = warnings_of_results(prepared, &results, &session.experiment.warnings.ignore);
        results.looked_for = Some(looked_for(&session.experiment.warnings.ignore, false));
        let (scored, all) = (trials.len(), prepared.trials.len());
        results.mark_unfinished(format!(
            "the run was interrupted: {scored} of {all} trials are scored; the next `run` goes on"
        ));
        Ok(Some(results))
    }

    /// Notes which artifacts the results come from, and copies the run's
    /// folder to the store, if that is elsewhere.
    async fn publish(&self, outcome: &PlanOutcome) -> Result<(), Error> {
        let Self { session, prepared, .. } = self;
        let workspace = session.workspace();
        let planned = prepared.plan.tasks.iter().map(crate::Task::artifact);
        let made = outcome.outputs.values().filter(|name| layout::is_artifact(name)).cloned();
        let list = RunArtifacts::new(planned.chain(made));
        let bytes = serde_json::to_vec(&list).map_err(Error::table)?;
        workspace.write_run_file(&prepared.run, RunFileName::Artifacts, bytes).await?;
        let (unsent, reason) = workspace.send_calls().await?;
        if unsent > 0 {
            prepared.run_context.log("journal_unsent", json!({ "entries": unsent, "reason": reason }));
        }
        workspace.publish(&session.experiment.name, &prepared.run).await
    }
}

/// Writes into the event log that a run begins, and what it is made from.
fn log_start(session: &Session, prepared: &PreparedRun) {
    let run_context = &prepared.run_context;
    run_context.log(
        "run_started",
        json!({
            "run": prepared.run, "trials": prepared.trials.len(), "tasks": prepared.plan.tasks.len(),
            "dataset": dataset_version(session, prepared), "corpus": corpus_version(session, prepared),
        }),
    );
    for rejected in &prepared.rejected {
        let reason = error_chain(&rejected.reason);
        run_context.log("document_rejected", json!({ "path": rejected.path, "reason": reason }));
    }
    for unread in &prepared.unread {
        run_context.log("document_unread", json!({ "path": unread.path, "reason": unread.reason }));
    }
    if let Some(dataset) = &prepared.dataset {
        run_context.log("dataset_read", json!(dataset));
    }
}

/// Writes into the event log how a run ended.
fn log_end(prepared: &PreparedRun, outcome: &PlanOutcome, results: &Results) {
    let run_context = &prepared.run_context;
    if let Some(budget) = results.budget.as_ref().filter(|budget| budget.is_reached()) {
        run_context.log("budget_reached", json!(budget));
    }
    if results.damaged_entries > 0 {
        run_context.log("journal_damaged", json!({ "entries": results.damaged_entries }));
    }
    run_context.log(
        "run_finished",
        json!({
            "executed": outcome.executed, "reused": outcome.reused, "failed": outcome.failed.len(),
            "provider_errors": outcome.provider_errors, "function_errors": results.function_errors,
            "repeated": outcome.repeated, "winner": results.winner, "partial": results.partial,
        }),
    );
}

/// The version of the golden questions that a run is made from: the digest of their content.
fn dataset_version(session: &Session, prepared: &PreparedRun) -> Option<DataVersion> {
    let spec = session.experiment.dataset.as_ref()?;
    let dataset = Dataset { questions: prepared.questions.clone() };
    let (version, rows) = (dataset.version(), dataset.questions.len());
    Some(DataVersion { version, source: spec.source().to_owned(), rows, bytes: None })
}

/// The version of the corpus.
fn corpus_version(session: &Session, prepared: &PreparedRun) -> DataVersion {
    DataVersion {
        version: prepared.sources.corpus.state().version.clone(),
        source: session.experiment.corpus.source.clone(),
        rows: prepared.documents,
        bytes: Some(prepared.text_bytes),
    }
}
