//! `reverie check`: whether the last run is worse than a bundle.

use crate::{
    command::{CommandContext, ExperimentFile, RunChoice},
    environment,
    failure::{CommandFailure, INCOMPLETE, WORSE},
    option_values::parse_margin,
    render,
};
use lab::check::{Check, CheckVerdict};
use std::path::PathBuf;

/// Check that the last run is not worse than a bundle: a gate for pull requests.
///
/// Compares one trial of the run (--trial) with the bundle's, question by question,
/// on the golden questions that both were asked. With --database, it checks no run
/// but the database into which the bundle's vectors were promoted.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie run && reverie check --against bundles/manuals-1
  reverie check --against s3://bucket/manuals-1 --margin 0.02
  reverie check --against bundles/manuals-1 --junit check.xml --markdown check.md
  reverie check --against bundles/manuals-3 --database

FAIL (exit code 6) if the trial is worse by a metric of the objective: a one-sided
sign-flip test at 5 %, corrected by Holm for the number of metrics, and a mean loss
beyond the margin. INCONCLUSIVE (exit code 3) if fewer than 90 % of the questions have
both scores, or if the mean loss is beyond the margin and too few questions differ to
prove it. PASS (exit code 0) otherwise; it names the smallest loss that this number of
questions can show, because a pass on few questions proves little.

Warnings of the run are told and fail nothing; `fail_check = [\"CODE\", …]` under [warnings]
of the experiment file names those that do (exit code 6).

The objective is that of the bundle: an experiment file that was changed cannot take a
metric out. A question whose text or evidence was changed, and a metric that is
measured otherwise, are refused (exit code 2): promote a current trial. Of the bundle
only manifest.json and store/runs/ are read.

--database searches for the vectors of the golden questions in the bundle's collection, with
the pipeline's settings, and asks no model. A trial that writes its queries anew is tried
with the vectors of some of its chunks. FAIL if the collection is gone, was filled by
something else or has another number of records, or if the share of the nearest chunks
that is found is more than half a percent below that after the promotion; PASS otherwise.")]
pub struct CheckArguments {
    /// The bundle that `reverie promote` made: a folder, or a URL such as s3://bucket/manuals-1.
    #[arg(long, value_name = "BUNDLE", value_hint = clap::ValueHint::AnyPath)]
    against: String,
    /// Check the database of the bundle, and no run: does it still find what it found after the promotion?
    #[arg(long, conflicts_with_all = ["trial", "margin", "junit", "markdown", "run", "experiment"])]
    database: bool,
    /// The trial of the run; default: the one that asked the bundle's system, if it is of a system; otherwise the
    /// winner, else the first of the leaderboard.
    #[arg(long, value_name = "ID")]
    trial: Option<String>,
    /// The mean loss that is tolerated, as a share of the metric's range.
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = parse_margin)]
    margin: f64,
    /// Write the result as JUnit's XML, a case for each metric of the objective.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    junit: Option<PathBuf>,
    /// Write the result as Markdown, for a comment.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    markdown: Option<PathBuf>,
    #[command(flatten)]
    file: ExperimentFile,
    #[command(flatten)]
    run: RunChoice,
}

pub async fn run(cx: &CommandContext, arguments: CheckArguments) -> Result<u8, CommandFailure> {
    if arguments.database {
        return check_database(cx, &arguments.against).await;
    }
    let session = environment::open_to_read(&arguments.file.experiment, cx.setup())?;
    let record = arguments.run.record(cx, &session).await?;
    let (manifest, bundle) = lab::Bundle::record(&arguments.against, &cx.setup()).await?;
    let same = match arguments.trial {
        Some(_) => None,
        None => record.trial_of_same_system(&bundle, &manifest.trial)?,
    };
    let answering = record.answering(arguments.trial.as_deref().or(same.as_deref()))?;
    let mut check = Check::of((&manifest, &bundle), (&record, &answering.trial), arguments.margin)?;
    let trials = record.board().rows.len();
    if arguments.trial.is_none() && same.is_none() && trials > 1 {
        check.notes.push(format!(
            "{} was chosen from {trials} trials by these questions, which flatters it; choose one beforehand, and \
             name it with --trial",
            answering.trial
        ));
    }
    let mut check = check.with_failing_warnings(&session.experiment.warnings.fail_check, &record);
    // A gate on an old run would pass every change, so each report says what changed since.
    let changed = cx.note_changes_since(&session, &record).await;
    check.notes.extend(changed.into_iter().map(|line| format!("since that run: {line}")));
    if let Some(path) = &arguments.markdown {
        lab::write_whole(path, render::check_markdown(&check).as_bytes())?;
    }
    if let Some(path) = &arguments.junit {
        lab::write_whole(path, &render::check_junit(&check).map_err(CommandFailure::runtime)?)?;
    }
    cx.show(&check, render::check)?;
    Ok(match check.verdict {
        CheckVerdict::Pass => 0,
        CheckVerdict::Fail => WORSE,
        CheckVerdict::Inconclusive => INCOMPLETE,
    })
}

/// Checks the database of a bundle.
async fn check_database(cx: &CommandContext, bundle: &str) -> Result<u8, CommandFailure> {
    let scratch = std::env::temp_dir().join(format!("reverie-check-{}", store::unique_token()));
    let cache = environment::home().join("bundles");
    let check = lab::DatabaseCheck::of_bundle(bundle, cx.setup(), &cache, &scratch).await;
    let _ = std::fs::remove_dir_all(&scratch);
    let check = check?;
    cx.show(&check, render::database_check)?;
    Ok(check.problem.as_ref().map_or(0, |_| WORSE))
}
