//! Two trials side by side, for people.

use super::{aligned, combination, table};
use lab::{MetricComparison, board::Row};
use std::fmt::Write;

/// A row per metric: the difference, how sure it is and how large.
pub fn comparison(first: &Row, second: &Row, rows: &[MetricComparison]) -> String {
    let mut text = String::new();
    for trial in [first, second] {
        let _ = writeln!(text, "{}: {}\n     {}", trial.id, combination(&trial.labels), trial.place);
    }
    let difference = format!("{} − {} [95 %]", first.id, second.id);
    let header = ["metric", &difference, "p", "effect", "pairs", "questions to tell"];
    let mut lines = table(&header, 1);
    for MetricComparison { metric, corrected, comparison } in rows {
        let number =
            |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{:.3}", rounded(value)));
        let mut mean =
            comparison.mean_difference.map_or_else(|| "–".to_owned(), |mean| format!("{:+.3}", rounded(mean)));
        if let Some(interval) = comparison.interval {
            let _ = write!(mean, " [{:+.3}, {:+.3}]", rounded(interval.low), rounded(interval.high));
        }
        let needed =
            comparison.questions_needed.map_or_else(|| "–".to_owned(), |n| format!("about {}", super::count(n)));
        lines.add_row(vec![
            aligned(metric, false),
            aligned(mean, true),
            aligned(number(*corrected), true),
            aligned(number(comparison.effect_size), true),
            aligned(format!("{} of {}", comparison.n_pairs, comparison.n_total), true),
            aligned(needed, true),
        ]);
    }
    let _ = write!(
        text,
        "{lines}\np is corrected for {} metrics; below 0.05 a difference is called real. It looks at these two\nalone: who was chosen from many because it looked good or bad is judged by the groups above.",
        rows.len()
    );
    text
}

/// A number as it is shown, which is never below zero by less than that.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0 + 0.0
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn there_is_no_minus_before_zero() {
        let shown = [-0.0001, -0.0, 0.0004, -0.5].map(|value| format!("{:+.3}", rounded(value)));
        assert_eq!(shown, ["+0.000", "+0.000", "+0.000", "-0.500"]);
    }
}
