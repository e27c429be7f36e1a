//! `reverie run`: do what is not done yet, and show the leaderboard.

use super::{
    BUDGET_REACHED, Context, FUNCTION_FAILED, Failure, PAID_CALLS,
    options::{Changes, DryRun, ExperimentFile},
    plan, submit,
};
use crate::{
    environment, library,
    place::{Place, place},
    render,
    report::report_path,
};
use lab::{Board, Experiment, Prepared, Results, Session, track::Tracking};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// How long an interrupted run may take to show the trials that were scored.
const INTERRUPTED_BOARD: Duration = Duration::from_secs(5);

/// Run an experiment. What is finished is never done again: after an
/// interruption, run the same command.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie run
  reverie run --dry-run
  reverie run -f books.toml --budget-usd 2.50
  reverie run --set 'evaluate.metrics=[\"recall\"]' --limit 20      # a quick try
  reverie run --json > results.json

A quick try is a run of its own: its record says what was changed, and what it
computes or pays is not done again by the whole run. It is the last run then,
which leaderboard, show, compare, finalists and query look at; they say that it
was a try, and --run ID looks at another (`reverie runs` lists them).

After Ctrl-C, the trials that are scored already are shown.

At a cap of the budget (`budget = { usd = 5.0, tokens = …, calls = …, minutes = … }`
under [evaluate]) the run ends with exit code 4: everything finished is kept,
the results are marked as partial, and the next run goes on without paying
anything twice. A budget is for one run: what was paid before takes nothing
of it, so each run may spend all of it again.")]
pub struct Arguments {
    #[command(flatten)]
    file: ExperimentFile,
    #[command(flatten)]
    changes: Changes,
    #[command(flatten)]
    question: DryRun,
    /// What this run may cost, in US dollars, whatever the file says.
    #[arg(long, value_name = "DOLLARS", value_parser = crate::dollars::parse)]
    budget_usd: Option<f64>,
    #[command(flatten)]
    engine: EngineChoice,
}

/// What executes the plan, whatever the file says.
#[derive(clap::Args)]
pub struct EngineChoice {
    /// `local` (this machine) or `ray` (a cluster).
    #[arg(long, value_parser = ["local", "ray"])]
    engine: Option<String>,
    /// Where the cluster is: `auto` or HOST:PORT from inside, the address of
    /// its Jobs API (`http://HEAD:8265`) from anywhere. Implies `--engine ray`;
    /// with `--engine local` it is refused.
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,
}

pub async fn run(cx: &Context, arguments: Arguments) -> Result<u8, Failure> {
    let mut experiment = environment::read_with(&arguments.file.experiment, &arguments.changes.overrides())?;
    let EngineChoice { engine, address } = &arguments.engine;
    let place = place(&mut experiment, engine.as_deref(), address.as_deref()).map_err(Failure::usage)?;
    if arguments.question.dry_run {
        return plan::show(cx, experiment, arguments.budget_usd).await;
    }
    if let Place::Job(ray) = place {
        return submit::run(cx, &experiment, &ray, arguments.budget_usd).await;
    }
    let Ran { session, results, report, tracking } = execute(cx, experiment, arguments.budget_usd).await?;
    let shown = show(cx, &session, &results, &report);
    tell(cx, tracking).await;
    shown?;
    Ok(exit_code(&results))
}

fn show(cx: &Context, session: &Session, results: &Results, report: &Path) -> Result<(), Failure> {
    if cx.json {
        cx.print_json(results)?;
    } else {
        cx.print_leaderboard(&Board::of(results), &render::Layout::of_terminal())?;
        cx.print(format_args!("report: {}", report.display()));
    }
    if let Some(failures) = library::function_failures(results) {
        cx.warn(failures);
    }
    let journal = session.workspace().journal();
    let unsent = journal.n_unsent()?;
    if unsent > 0 {
        let count = render::count(unsent as usize);
        let why = journal.problem().unwrap_or_default();
        cx.note(format_args!(
            "{count} paid answers are only in this machine's journal; the next run sends them: {why}"
        ));
    }
    Ok(())
}

/// A run that came to its end.
pub struct Ran {
    /// The session of the run.
    pub session: Session,
    /// Its results.
    pub results: Results,
    /// The report's page.
    pub report: PathBuf,
    /// The trackers at work; nobody waits for them before the results are
    /// shown.
    pub tracking: Tracking,
}

/// Prepares and runs an experiment with the live table on standard error,
/// writes its report, and begins to show it on its trackers.
pub async fn execute(cx: &Context, experiment: Experiment, budget_usd: Option<f64>) -> Result<Ran, Failure> {
    let setup = lab::Setup { budget_usd, ..cx.setup() };
    let progress = setup.control.progress.clone();
    let session = Session::open(experiment, setup)?;
    let table = render::LiveTable::start(progress.clone(), environment::watched());
    let prepared = session.prepare().await;
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            table.stop().await;
            return Err(error.into());
        }
    };
    // Files and columns that are left out are reported before anything is spent.
    table.stop().await;
    for line in render::inputs(&prepared).into_iter().chain(session.experiment.remarks()) {
        cx.note(line);
    }
    if let Some(other) = lab::other_file(&session).await {
        cx.note(format_args!("note: {other}"));
    }
    // After Ctrl-C, the trials that are scored are read and shown.
    cx.may_take_to_end(PAID_CALLS + INTERRUPTED_BOARD);
    let table = render::LiveTable::start(progress, environment::watched());
    let (results, tracking) = library::run(&session, &prepared).await;
    table.stop().await;
    match results {
        Ok(results) => {
            let report = report_path(&session, &results.run);
            Ok(Ran { session, results, report, tracking })
        }
        Err(error) => {
            if matches!(error, lab::Error::Interrupted) {
                show_so_far(cx, &session, &prepared).await;
            }
            tell(cx, tracking).await;
            Err(error.into())
        }
    }
}

/// Shows the trials that were scored before a run was interrupted. With --json
/// nothing is shown: a program would take it for the run's results.
async fn show_so_far(cx: &Context, session: &Session, prepared: &Prepared) {
    // The run ended for another reason than what is missing here, which is told.
    let Ok(Some(results)) = session.so_far(prepared).await else { return };
    if !cx.json {
        let _ = cx.print_leaderboard(&Board::of(&results), &render::Layout::of_terminal());
    }
}

/// Waits for trackers, and reports what their servers lack.
pub async fn tell(cx: &Context, tracking: Tracking) {
    for note in tracking.finish().await {
        cx.note(format_args!("note: {note}"));
    }
}

/// The exit code: 3 if results are missing because something failed or a file
/// could not be read; 4 if the budget was reached; 5 if a user's function
/// failed, which running again does not repair.
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
    if failed { 3 } else { 0 }
}
