//! What scoring a file will ask, and what it found, for people.

use super::{count, left, mean, plan::estimate, table};
use comfy_table::Cell;
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
        let missing: Vec<String> =
            missing.iter().map(|(reason, n)| format!("{} {}", count(*n), eval::Missing::words(reason))).collect();
        let star = if *judged { "*" } else { "" };
        let lower = if *higher_is_better { "" } else { " (less is better)" };
        let n = format!("{} of {}", count(summary.n_scored), count(summary.n_total));
        let cells = [format!("{name}{star}{lower}"), mean(summary), n].map(Cell::new);
        rows.add_row(cells.into_iter().chain([left(missing.join(", "))]));
    }
    let mut text = rows.to_string();
    for note in results.notes() {
        let _ = write!(text, "\n{note}");
    }
    text
}
