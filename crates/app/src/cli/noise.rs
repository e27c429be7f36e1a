//! `reverie noise`: the sources of a metric's noise.

use crate::{
    command::{CommandContext, DryRun, ExperimentFile, PAID_CALLS_GRACE},
    environment,
    failure::CommandFailure,
    render,
};
use lab::NoiseDesign;
use serde_json::json;

/// Find out how much of a metric's noise comes from questions, generator and judge, by a few repeats.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie noise t03 --metric faithfulness --dry-run
  reverie noise t03 --metric faithfulness
  reverie noise t03 --metric token_f1 --questions 10 --answers 3 --judgements 1

Calls: questions × answers, and per answer: judgements × judge calls of the metric.
They are kept, so a second look pays nothing.
A local model at temperature 0 repeats itself: its noise is none.")]
pub struct NoiseArguments {
    /// A trial of the last run.
    trial: String,
    /// One of its metrics.
    #[arg(long)]
    metric: String,
    /// Questions, drawn at random.
    #[arg(long, default_value_t = 8)]
    questions: usize,
    /// Answers to each question.
    #[arg(long, default_value_t = 3)]
    answers: usize,
    /// Judgements of each answer.
    #[arg(long, default_value_t = 3)]
    judgements: usize,
    #[command(flatten)]
    file: ExperimentFile,
    #[command(flatten)]
    dry_run: DryRun,
}

pub async fn run(cx: &CommandContext, arguments: NoiseArguments) -> Result<u8, CommandFailure> {
    cx.set_grace(PAID_CALLS_GRACE);
    let NoiseArguments { trial, metric, questions, answers, judgements, file, dry_run } = arguments;
    let design = NoiseDesign { questions, answers, judgements };
    design.check().map_err(CommandFailure::usage)?;
    let session = environment::open(&file.experiment, cx.setup())?;
    if dry_run.is_on {
        let cost = lab::noise_cost(&session, &trial, &metric, design).await?;
        return cx.finish(&json!({ "trial": trial, "metric": metric, "design": design, "cost": cost }), |_| {
            let repeats = format!("{questions} questions × {answers} answers × {judgements} judgements at most");
            format!("{metric} of {trial}: {repeats}{}", render::estimate(&cost))
        });
    }
    let result = lab::noise(&session, &trial, &metric, design).await?;
    cx.finish(&result, render::noise)
}
