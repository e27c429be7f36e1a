//! `reverie calibrate`: a judge's scores beside people's labels.

use super::{Context, Failure};
use crate::{environment, render};
use lab::Label;
use std::path::PathBuf;

/// Hold a judged metric of the last run against labels that people gave.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie calibrate labels.jsonl --metric faithfulness
  reverie calibrate labels.jsonl --metric faithfulness --json | jq .agreement.kappa

A label is a line of JSON: {\"trial\": \"t03\", \"question\": \"g-1f\", \"label\": true}, or a
score in the metric's range instead of true and false. Label a random part of
the answers: the corrected means are then those of people, with less labour.")]
pub struct Arguments {
    /// The labels, JSONL.
    labels: PathBuf,
    /// The metric.
    #[arg(long)]
    metric: String,
    /// The experiment file.
    #[arg(long, default_value = "experiment.toml")]
    experiment: PathBuf,
}

pub async fn run(cx: &Context, arguments: Arguments) -> Result<u8, Failure> {
    let path = &arguments.labels;
    let text = std::fs::read_to_string(path).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    let (mut labels, mut faults) = (Vec::new(), Vec::new());
    for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match serde_json::from_str::<Label>(line) {
            Ok(label) => labels.push(label),
            Err(error) => faults.push(format!("{}:{}: {error}", path.display(), i + 1)),
        }
    }
    if !faults.is_empty() {
        return Err(Failure::usage(faults.join("\n")));
    }
    let session = environment::open(&arguments.experiment, environment::setup(cx.cancel.clone()))?;
    let calibration = session.latest()?.calibrate(&arguments.metric, &labels)?;
    if cx.json {
        cx.print_json(&calibration)?;
    } else {
        cx.print(render::calibration(&calibration));
    }
    Ok(0)
}
