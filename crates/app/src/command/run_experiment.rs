//! Runs an experiment, with its progress on standard error.

use super::{CommandContext, PAID_CALLS_GRACE};
use crate::{
    environment,
    failure::{BUDGET_REACHED, CommandFailure, FUNCTION_FAILED, INCOMPLETE},
    library::{self, EndedRun},
    render,
    report::report_path,
};
use lab::{Board, Experiment, PreparedRun, Results, Session, track::Tracking};
use std::{path::PathBuf, time::Duration};

/// How long an interrupted run may take to show the trials that were scored.
const INTERRUPTED_BOARD: Duration = Duration::from_secs(5);

/// A run that came to its end.
pub struct CompleteRun {
    /// The session of the run.
    pub session: Session,
    /// The results of all trials, without passages and long texts.
    pub results: Results,
    /// The path of the report's page.
    pub report: PathBuf,
    /// The trackers, which may still be sending.
    pub tracking: Tracking,
}

impl CompleteRun {
    /// The results with every passage, read from the run's folder.
    pub async fn whole_results(&self) -> Result<Results, lab::Error> {
        self.session.workspace().results(&self.results.run).await
    }
}

/// Prepares and runs an experiment with the live table on standard error,
/// writes its report, and starts to send it to its trackers.
///
/// # Errors
/// If the experiment is refused, a task fails for good, or the run is interrupted.
pub async fn run_experiment(
    cx: &CommandContext,
    experiment: Experiment,
    budget_usd: Option<f64>,
) -> Result<CompleteRun, CommandFailure> {
    let mut setup = lab::Setup { budget_usd, ..cx.setup() };
    setup.control.sends_batches = true;
    let progress = setup.control.progress.clone();
    let session = Session::open(experiment, setup)?;
    let table = render::LiveTable::start(progress.clone(), environment::audience());
    let prepared = session.prepare().await;
    // Files and columns that are left out are reported before anything is spent.
    table.stop().await;
    let prepared = prepared?;
    for line in render::inputs(&prepared).into_iter().chain(session.experiment.remarks()) {
        cx.note(line);
    }
    for note in session.workspace().pending_removals().await? {
        cx.warn(format_args!("warning: {}: `reverie forget --yes` finishes it", note.sentence()));
    }
    if let Some(other) = lab::same_name_warning(&session).await {
        cx.note(format_args!("note: {other}"));
    }
    // After Ctrl-C, the trials that are scored are read and shown.
    cx.set_grace(PAID_CALLS_GRACE + INTERRUPTED_BOARD);
    let table = render::LiveTable::start(progress, environment::audience());
    let ended = library::run(session, prepared).await;
    table.stop().await;
    let EndedRun { session, prepared, results, tracking } = ended?;
    match results {
        Ok(results) => {
            let report = report_path(&session, &results.run);
            Ok(CompleteRun { session, results, report, tracking })
        }
        Err(error) => {
            if matches!(error, lab::Error::Interrupted) {
                print_scored_trials(cx, &session, &prepared).await;
            }
            finish_tracking(cx, tracking).await;
            Err(error.into())
        }
    }
}

/// Prints the trials that were scored before a run was interrupted. With `--json`
/// nothing is printed, because a program would take it for the run's results.
async fn print_scored_trials(cx: &CommandContext, session: &Session, prepared: &PreparedRun) {
    // The command reports why the run ended; a failure of this display would hide that.
    let Ok(Some(results)) = session.so_far(prepared).await else { return };
    if !cx.json {
        let _ = cx.print_leaderboard(&Board::of(&results), &render::TableLayout::of_terminal());
    }
}

/// Waits for trackers, and reports what could not be sent to them.
pub async fn finish_tracking(cx: &CommandContext, tracking: Tracking) {
    for note in tracking.finish().await {
        cx.note(format_args!("note: {note}"));
    }
}

/// The exit code of a run: [`BUDGET_REACHED`]; [`FUNCTION_FAILED`] if a user's function
/// failed, which running again does not repair; [`INCOMPLETE`] if results are missing
/// because a model failed or a file could not be read; otherwise 0.
pub fn exit_code(results: &Results) -> u8 {
    if results.partial.is_some() {
        return BUDGET_REACHED;
    }
    if results.function_errors > 0 {
        return FUNCTION_FAILED;
    }
    let failed = results.provider_errors > 0
        || !results.unread.is_empty()
        || results.trials.iter().any(|trial| !trial.failures.is_empty());
    if failed { INCOMPLETE } else { 0 }
}
