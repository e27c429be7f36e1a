//! `reverie calibrate`: a judge's scores beside people's labels.

use super::{Context, Failure, options::ExperimentFile};
use crate::{environment, render};
use lab::Label;
use std::path::PathBuf;

/// Hold a judged metric of the last run against labels that people gave.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie calibrate labels.jsonl --metric faithfulness
  reverie calibrate labels.jsonl --metric faithfulness --json | jq .agreement.kappa

A label is a line of JSON: {\"trial\": \"t03\", \"question\": \"g-1f\", \"label\": true}, or a
score in the metric's range instead of true and false. Nothing is asked or changed. Label a random part of
the answers: the corrected means are then those of people, with less labour.")]
pub struct Arguments {
    /// The labels, JSONL.
    labels: PathBuf,
    /// The metric.
    #[arg(long)]
    metric: String,
    #[command(flatten)]
    file: ExperimentFile,
}

pub async fn run(cx: &Context, arguments: Arguments) -> Result<u8, Failure> {
    let labels: Vec<Label> = environment::read_lines(&arguments.labels)?;
    let session = environment::open_to_read(&arguments.file.experiment, cx.setup())?;
    let calibration = session.latest().await?.calibrate(&arguments.metric, &labels)?;
    if cx.json {
        cx.print_json(&calibration)?;
    } else {
        cx.print(render::calibration(&calibration));
    }
    Ok(0)
}
