//! `reverie run`: do what is not done yet, and show the leaderboard.

use super::{BUDGET_REACHED, Context, Failure};
use crate::{environment, render};
use lab::{Results, Session};
use std::path::{Path, PathBuf};

/// Run an experiment. What is finished is never done again: after an
/// interruption, run the same command.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie run experiment.toml
  reverie run experiment.toml --budget-usd 2.50
  reverie run experiment.toml --json > results.json

At a cap of the budget (`budget = { usd = 5.0, tokens = …, calls = …, minutes = … }`
under [evaluate]) the run ends with exit code 4: everything finished is kept,
the results are marked as partial, and a run with a larger budget goes on
without paying anything twice. A budget is for one run: what was paid before
takes nothing of it.")]
pub struct Arguments {
    /// The experiment file.
    #[arg(default_value = "experiment.toml")]
    experiment: PathBuf,
    /// What this run may cost, in US dollars, whatever the file says.
    #[arg(long, value_name = "DOLLARS", value_parser = dollars)]
    budget_usd: Option<f64>,
}

/// An amount of money that a cap can be.
pub fn dollars(text: &str) -> Result<f64, String> {
    let amount = text.trim_start_matches('$').parse().ok().filter(|usd: &f64| usd.is_finite() && *usd >= 0.0);
    amount.ok_or_else(|| format!("`{text}` is no amount of dollars: write a number that is not below 0, such as 2.50"))
}

pub async fn run(cx: &Context, arguments: Arguments) -> Result<u8, Failure> {
    let Ran { results, report, .. } = execute(cx, &arguments.experiment, arguments.budget_usd).await?;
    if cx.json {
        cx.print_json(&results)?;
    } else {
        cx.print(render::leaderboard(&results));
        cx.print(format_args!("report: {}", report.display()));
    }
    Ok(exit_code(&results))
}

/// A run that came to its end.
pub struct Ran {
    /// What it ran in.
    pub session: Session,
    /// What it found.
    pub results: Results,
    /// The report's page.
    pub report: PathBuf,
}

/// Prepares and runs an experiment with the live table on standard error,
/// writes its report, and shows it on its trackers.
pub async fn execute(cx: &Context, experiment: &Path, budget_usd: Option<f64>) -> Result<Ran, Failure> {
    let setup = lab::Setup { budget_usd, ..environment::setup(cx.cancel.clone()) };
    let progress = setup.progress.clone();
    let session = environment::open(experiment, setup)?;
    let table = render::LiveTable::start(progress, environment::watched());
    let prepared = session.prepare().await;
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            table.stop().await;
            return Err(error.into());
        }
    };
    let tracking = session.track(&prepared);
    let results = session.run(&prepared).await;
    table.stop().await;
    for rejected in &prepared.rejected {
        cx.note(format_args!("not read: {}: {}", rejected.path, rejected.reason));
    }
    let report = results.as_ref().ok().map(|results| write_report(&session, results));
    // The page is a part of what trackers show.
    for note in tracking.finish().await {
        cx.note(format_args!("note: {note}"));
    }
    let (results, Some(report)) = (results?, report) else { return Err(Failure::work("no report was written")) };
    Ok(Ran { session, results, report: report? })
}

/// Writes `report.html` into the run's folder.
pub fn write_report(session: &Session, results: &Results) -> Result<PathBuf, Failure> {
    let path = session.run_folder(&results.run).join("report.html");
    let page = render::report(results).map_err(Failure::work)?;
    std::fs::write(&path, page).map_err(|error| Failure::work(format!("{}: {error}", path.display())))?;
    Ok(path.canonicalize().unwrap_or(path))
}

/// 3 where results are missing because something failed, 4 where the budget
/// was reached.
pub fn exit_code(results: &Results) -> u8 {
    if results.partial.is_some() {
        return BUDGET_REACHED;
    }
    let failed = results.provider_errors > 0 || results.trials.iter().any(|trial| !trial.failures.is_empty());
    if failed { 3 } else { 0 }
}
