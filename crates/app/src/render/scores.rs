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
            missing.iter().map(|(reason, n)| format!("{} {}", count(*n), reason.replace('_', " "))).collect();
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
    if results.metrics.iter().any(|metric| metric.judged) {
        let judges = results.judges.join(", ");
        let _ = write!(text, "\n* judged by {judges}, not qualified on labelled data");
    }
    if let Some(partial) = &results.partial {
        let _ = write!(text, "\nPARTIAL: {partial}");
    } else if results.provider_errors > 0 {
        let n = count(results.provider_errors);
        let _ = write!(text, "\n{n} scores are missing because a model failed: score again to ask for them");
    }
    if results.function_errors > 0 {
        let n = count(results.function_errors);
        let _ = write!(text, "\n{n} scores are missing because a function of your own failed");
    }
    if results.damaged_entries > 0 {
        let n = results.damaged_entries;
        let _ = write!(text, "\n{n} entries of the journal were damaged, and their calls made again");
    }
    text
}
