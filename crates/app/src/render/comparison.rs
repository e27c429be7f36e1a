//! Two trials side by side, for people.

use super::{aligned, combination, signed_number, table};
use lab::{MetricComparison, board::BoardRow};
use std::fmt::Write;

/// A p-value; one that rounds to zero is not zero.
fn p_value(p: Option<f64>) -> String {
    match p {
        Some(p) if p < 0.001 => "< 0.001".to_owned(),
        Some(p) => super::number(p, 3),
        None => "–".to_owned(),
    }
}

/// A row per metric: the difference, how sure it is and how large.
pub fn comparison(first: &BoardRow, second: &BoardRow, rows: &[MetricComparison]) -> String {
    let mut text = String::new();
    for trial in [first, second] {
        let _ = writeln!(text, "{}: {}\n     {}", trial.id, combination(&trial.labels), trial.place);
    }
    let difference = format!("{} − {} [95 %]", first.id, second.id);
    let header = ["metric", &difference, "p", "effect", "pairs", "questions to tell"];
    let mut lines = table(&header, 1);
    for MetricComparison { metric, corrected, comparison } in rows {
        let number = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| super::number(value, 3));
        let mean = comparison.mean_difference.map(|mean| signed_number(mean, 3));
        let mut mean = mean.unwrap_or_else(|| "–".to_owned());
        if let Some(interval) = comparison.interval {
            let _ = write!(mean, " [{}, {}]", signed_number(interval.low, 3), signed_number(interval.high, 3));
        }
        let needed =
            comparison.questions_needed.map_or_else(|| "–".to_owned(), |n| format!("about {}", super::count(n)));
        lines.add_row(vec![
            aligned(metric, false),
            aligned(mean, true),
            aligned(p_value(*corrected), true),
            aligned(number(comparison.effect_size), true),
            aligned(format!("{} of {}", comparison.n_pairs, comparison.n_total), true),
            aligned(needed, true),
        ]);
    }
    let _ = write!(
        text,
        "{lines}\np is corrected for {} metrics; below 0.05 a difference is called real. It compares these two\nalone: a trial that was chosen from many by its score is judged by the groups above.",
        rows.len()
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_p_value_that_rounds_to_zero_is_told_as_less_than_a_thousandth() {
        let told = [Some(0.000_04), Some(0.001), Some(1.0), None].map(p_value);
        assert_eq!(told, ["< 0.001", "0.001", "1.000", "–"]);
    }
}
