//! `reverie calibrate`: compares a judge's scores with people's labels.

use crate::{
    command::{CommandContext, ExperimentFile},
    environment,
    failure::CommandFailure,
    render,
};
use lab::AnswerLabel;
use std::path::PathBuf;

/// Compare a judged metric of the last run with labels that people gave.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie calibrate labels.jsonl --metric faithfulness
  reverie calibrate labels.jsonl --metric faithfulness --json | jq .agreement.kappa

A label is a line of JSON: {\"trial\": \"t03\", \"question\": \"g-1f\", \"label\": true}, or a
score in the metric's range instead of true and false. No model is asked, and nothing is changed.
Label a random sample of the answers: the corrected means then estimate what people would give.")]
pub struct CalibrateArguments {
    /// The labels, JSONL.
    labels: PathBuf,
    /// The metric.
    #[arg(long)]
    metric: String,
    #[command(flatten)]
    file: ExperimentFile,
}

pub async fn run(cx: &CommandContext, arguments: CalibrateArguments) -> Result<u8, CommandFailure> {
    let labels: Vec<AnswerLabel> = environment::read_lines(&arguments.labels)?;
    let session = environment::open_to_read(&arguments.file.experiment, cx.setup())?;
    let calibration =
        lab::latest_record(&session).await?.results_outline(&session).await?.calibrate(&arguments.metric, &labels)?;
    cx.finish(&calibration, render::calibration)
}
