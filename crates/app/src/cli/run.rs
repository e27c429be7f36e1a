//! `reverie run`: executes the tasks that are not done yet, and shows the leaderboard.

mod submit;

use crate::{
    command::{
        Changes, CommandContext, CompleteRun, DryRun, ExperimentFile, exit_code, finish_tracking, print_plan,
        run_experiment,
    },
    environment,
    failure::CommandFailure,
    library,
    option_values::parse_dollars,
    pages::ServedPages,
    place::{ExecutionPlace, choose_place},
    render,
};
use lab::Board;
use std::sync::Arc;

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
computes or pays is not done again by a full run. It is the last run then,
which leaderboard, show, compare, finalists and query look at; they say that it
was a try, and --run ID looks at another (`reverie runs` lists them).

After Ctrl-C, the trials that are scored already are shown.

At a cap of the budget (`budget = { usd = 5.0, tokens = …, calls = …, minutes = … }`
under [evaluate]) the run ends with exit code 4: everything finished is kept,
the results are marked as partial, and the next run goes on without paying
anything twice. A budget is for one run: what was paid before takes nothing
of it, so each run may spend all of it again. `budget = { total = { usd = 20.0 } }`
limits what all runs of the experiment in this store cost together.")]
pub struct RunArguments {
    #[command(flatten)]
    file: ExperimentFile,
    #[command(flatten)]
    changes: Changes,
    #[command(flatten)]
    dry_run: DryRun,
    /// What this run may cost, in US dollars, whatever the file says.
    #[arg(long, value_name = "DOLLARS", value_parser = parse_dollars)]
    budget_usd: Option<f64>,
    /// Serve the pages of `reverie ui` while it runs, and after that until Ctrl-C.
    #[arg(long, conflicts_with = "is_on")]
    ui: bool,
    #[command(flatten)]
    engine: EngineChoice,
}

/// The engine, which overrides that of the file.
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

pub async fn run(cx: &CommandContext, arguments: RunArguments) -> Result<u8, CommandFailure> {
    let mut experiment = environment::read_with(&arguments.file.experiment, &arguments.changes.overrides())?;
    let EngineChoice { engine, address } = &arguments.engine;
    let place = choose_place(&mut experiment, engine.as_deref(), address.as_deref()).map_err(CommandFailure::usage)?;
    if arguments.dry_run.is_on {
        print_plan(cx, experiment, arguments.budget_usd).await?;
        return Ok(0);
    }
    if let ExecutionPlace::Job(ray) = place {
        return submit::run(cx, &experiment, &ray, arguments.budget_usd).await;
    }
    warn_of_unwritten_decisions(cx, &experiment)?;
    let pages = match arguments.ui {
        true => Some(serve_pages(cx, &experiment).await?),
        false => None,
    };
    let complete = run_experiment(cx, experiment, arguments.budget_usd).await?;
    let shown = show(cx, &complete).await;
    let CompleteRun { results, tracking, .. } = complete;
    finish_tracking(cx, tracking).await;
    shown?;
    if let Some(pages) = pages {
        cx.note(format_args!("the pages stay at {} until Ctrl-C", pages.url));
        pages.ended().await?;
    }
    Ok(exit_code(&results))
}

/// Says that golden questions are read without what reviewers have decided since.
fn warn_of_unwritten_decisions(cx: &CommandContext, experiment: &lab::Experiment) -> Result<(), CommandFailure> {
    let Some(dataset) = &experiment.dataset else { return Ok(()) };
    if dataset.rows.is_empty() && lab::has_unwritten_decisions(&experiment.path(&dataset.path))? {
        cx.warn(format_args!(
            "{}: reviewers decided about questions, and the file has it not yet; \
             `reverie golden review` or `reverie ui` writes it",
            dataset.path
        ));
    }
    Ok(())
}

/// Serves the pages of the experiment's store. They read it as those of another process do.
async fn serve_pages(cx: &CommandContext, experiment: &lab::Experiment) -> Result<ServedPages, CommandFailure> {
    let session = Arc::new(lab::Session::open(experiment.clone(), cx.setup())?);
    let pages = ServedPages::start(session, true, None, None, cx.cancel.clone()).await?;
    cx.note(format_args!("watch this run at {}", pages.url));
    Ok(pages)
}

async fn show(cx: &CommandContext, complete: &CompleteRun) -> Result<(), CommandFailure> {
    let CompleteRun { session, results, report, .. } = complete;
    if cx.json {
        cx.print_json(&complete.whole_results().await?)?;
    } else {
        cx.print_leaderboard(&Board::of(results), &render::TableLayout::of_terminal())?;
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
