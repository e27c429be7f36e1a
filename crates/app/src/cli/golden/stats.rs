//! `reverie golden stats`: counts what is in a dataset, and estimates the smallest
//! differences between trials that its questions can show.

use crate::{
    command::{CommandContext, open_questions},
    environment,
    failure::CommandFailure,
    render,
};
use clap::ValueHint;
use eval::{Question, dataset::DatasetStatistics};
use lab::{DetectableDifferences, Experiment, RunRecord};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The experiment file that is used if the command names none.
const EXPERIMENT: &str = "experiment.toml";

/// Count what is in a dataset, and say which differences its questions can show.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie golden stats golden.jsonl
  reverie golden stats golden.jsonl --json | jq .detectable

The differences are those that a run calls real (95 % confidence) in 4 of 5 cases:
between two trials, and between one of the experiment and all others. If it has a
finished run that asked these questions, its scores say how much trials differ
from question to question. Without one, a range is stated for scores of 0 or 1.")]
pub struct StatsArguments {
    /// The questions.
    #[arg(default_value = "golden.jsonl")]
    file: PathBuf,
    /// The experiment that asks them. Default: experiment.toml, if it does.
    #[arg(short = 'f', long = "experiment", value_name = "FILE", value_hint = ValueHint::FilePath)]
    experiment: Option<PathBuf>,
}

/// The output of `golden stats --json`.
#[derive(Serialize)]
struct Statistics<'a> {
    #[serde(flatten)]
    counts: &'a DatasetStatistics,
    detectable: &'a DetectableDifferences,
}

pub async fn run(cx: &CommandContext, arguments: &StatsArguments) -> Result<u8, CommandFailure> {
    let file = &arguments.file;
    let opened = open_questions(file)?;
    let mut counts = opened.dataset.statistics();
    counts.report.ignored_columns = opened.ignored;
    let experiment = match &arguments.experiment {
        Some(path) => Some((path.clone(), environment::read(path)?)),
        None => experiment_of(cx, file),
    };
    let detectable = detectable_differences(cx, experiment, &opened.dataset.questions).await;
    let shown = Statistics { counts: &counts, detectable: &detectable };
    cx.finish(&shown, |_| format!("{}\n{}", render::dataset(file, &counts), detectable.describe().join("\n")))
}

/// The experiment file in the working folder with its content, if its dataset is this file. None if there is no such
/// file, or if it has mistakes, which is noted.
fn experiment_of(cx: &CommandContext, questions: &Path) -> Option<(PathBuf, Experiment)> {
    let path = PathBuf::from(EXPERIMENT);
    if !path.exists() {
        return None;
    }
    let Ok(experiment) = environment::read(&path) else {
        cx.note(format_args!(
            "note: {EXPERIMENT} has mistakes, so its trials are not counted: `reverie plan` lists them"
        ));
        return None;
    };
    let dataset = experiment.path(&experiment.dataset.as_ref()?.path);
    let is_same = matches!((dataset.canonicalize(), questions.canonicalize()), (Ok(one), Ok(other)) if one == other);
    is_same.then_some((path, experiment))
}

/// Estimates the differences that the questions can show, from the scores of the experiment's last run. Without a run
/// that can be read, the estimate assumes scores of 0 or 1.
async fn detectable_differences(
    cx: &CommandContext,
    experiment: Option<(PathBuf, Experiment)>,
    questions: &[Question],
) -> DetectableDifferences {
    let Some((path, experiment)) = experiment else { return DetectableDifferences::stated(questions, None) };
    let trials = Some(experiment.trials().len());
    match last_run(cx, experiment).await {
        Ok(record) => record.detectable_differences(questions, trials),
        Err(error) => {
            if !matches!(error, lab::Error::NoRun { .. }) {
                cx.note(format_args!(
                    "note: the last run of {} cannot be read, so a range is stated: {}",
                    path.display(),
                    lab::error_chain(&error)
                ));
            }
            DetectableDifferences::stated(questions, trials)
        }
    }
}

async fn last_run(cx: &CommandContext, experiment: Experiment) -> Result<RunRecord, lab::Error> {
    let session = environment::open_experiment_to_read(experiment, cx.setup())?;
    lab::latest_record(&session).await
}
