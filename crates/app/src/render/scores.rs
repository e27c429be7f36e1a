//! What scoring a file will ask, and what it found, for people.

use super::{aligned, count, number, plan::estimate, table};
use lab::{CostEstimate, MetricScores, ScoreResults, Scoring};
use std::fmt::Write;

/// What would be scored and what it should cost.
pub fn scoring(scoring: &Scoring, cost: &CostEstimate) -> String {
    let all = scoring.n_rows();
    let metrics = scoring.applicable().into_iter().map(|(metric, rows)| match rows {
        rows if rows == all => metric,
        rows => format!("{metric} ({} of {} rows)", count(rows), count(all)),
    });
    let metrics: Vec<String> = metrics.collect();
    let rows = if all == 1 { "answer" } else { "answers" };
    format!("{} {rows}, scored by {}{}", count(all), metrics.join(", "), estimate(cost))
}

/// A line per metric: the mean, how sure it is, and what is missing and why.
pub fn scores(results: &ScoreResults) -> String {
    let mut rows = table(&["metric", "mean [95 %]", "n", "without a score"], 1);
    for metric in &results.metrics {
        let MetricScores { name, judged, higher_is_better, summary, missing, .. } = metric;
        let mean = match (summary.mean, summary.low, summary.high) {
            (Some(mean), Some(low), Some(high)) => {
                format!("{} [{}, {}]", number(mean, 3), number(low, 3), number(high, 3))
            }
            (Some(mean), ..) => number(mean, 3),
            _ => "–".to_owned(),
        };
        let missing: Vec<String> =
            missing.iter().map(|(reason, n)| format!("{} {}", count(*n), eval::Missing::words(reason))).collect();
        let star = if *judged { "*" } else { "" };
        let lower = if *higher_is_better { "" } else { " (less is better)" };
        rows.add_row(vec![
            aligned(format!("{name}{star}{lower}"), false),
            aligned(mean, true),
            aligned(format!("{} of {}", count(summary.n_scored), count(summary.n_total)), true),
            aligned(missing.join(", "), false),
        ]);
    }
    let mut text = rows.to_string();
    for note in results.notes() {
        let _ = write!(text, "\n{note}");
    }
    text
}
