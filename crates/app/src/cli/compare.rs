//! `reverie compare`: one trial against another, metric by metric.

use super::{Context, Failure, since};
use crate::{environment, render};
use eval::{
    Score,
    statistics::{Comparison, holm},
};
use lab::{Results, TrialResult};
use serde::Serialize;
use std::path::PathBuf;

/// Resampling is seeded, so that the same results give the same numbers.
const SEED: u64 = 0x5EED;

/// Compare two trials of the last run on the questions that both were asked.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie compare t03 t07
  reverie compare t03 t07 --json | jq '.[] | select(.p_value < 0.05)'

Differences are first minus second, question by question. The p-value is that
of a sign-flip test of these two trials, corrected by Holm for the number of
metrics; the effect size is the mean difference in standard deviations of the
differences. The group of each trial, above the table, is the one of the
leaderboard: it takes into account that the best was chosen from all trials.")]
pub struct Arguments {
    /// The first trial, such as `t03`.
    first: String,
    /// The second trial.
    second: String,
    /// The experiment file.
    #[arg(long, default_value = "experiment.toml")]
    experiment: PathBuf,
}

/// Two trials on one metric.
#[derive(Serialize)]
pub struct MetricComparison {
    /// The metric.
    pub metric: String,
    /// The p-value, corrected for the number of metrics.
    pub corrected: Option<f64>,
    /// Everything else.
    #[serde(flatten)]
    pub comparison: Comparison,
}

pub async fn run(cx: &Context, arguments: Arguments) -> Result<u8, Failure> {
    let session = environment::open_to_read(&arguments.experiment, cx.setup())?;
    let record = session.record().await?;
    let results = &record.results;
    let rows = compared(results, &arguments.first, &arguments.second)?;
    let (first, second) = (results.trial(&arguments.first)?, results.trial(&arguments.second)?);
    if cx.json {
        cx.print_json(&rows)?;
    } else {
        cx.print(format_args!("{}\n{}", record.title(), render::comparison(first, second, &rows)));
    }
    since::tell(cx, &session, &record).await;
    Ok(0)
}

/// Two trials, metric by metric.
///
/// # Errors
/// If there is no such trial.
pub fn compared(results: &Results, first: &str, second: &str) -> Result<Vec<MetricComparison>, lab::Error> {
    let (first, second) = (results.trial(first)?, results.trial(second)?);
    let mut rows: Vec<MetricComparison> = results
        .metrics
        .iter()
        .map(|metric| MetricComparison {
            metric: metric.name.clone(),
            corrected: None,
            comparison: Comparison::of(&scores(first, &metric.name), &scores(second, &metric.name), metric.range, SEED),
        })
        .collect();
    let known: Vec<f64> = rows.iter().filter_map(|row| row.comparison.p_value).collect();
    let with_p_value = rows.iter_mut().filter(|row| row.comparison.p_value.is_some());
    for (row, corrected) in with_p_value.zip(holm(&known)) {
        row.corrected = Some(corrected);
    }
    Ok(rows)
}

/// A metric's scores, in the order of the dataset.
fn scores(trial: &TrialResult, metric: &str) -> Vec<Score> {
    let score = |scored: &eval::Scored| scored.score.clone();
    trial.questions.iter().filter_map(|question| question.scores.get(metric).map(score)).collect()
}
