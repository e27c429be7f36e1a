//! Two trials side by side, for people.

use super::{combination, difference_of_means, number_or_dash, p_value, row, table};
use lab::{MetricComparison, board::BoardRow};
use std::fmt::Write;

/// A row per metric: the difference, how sure it is and how large.
pub fn comparison(first: &BoardRow, second: &BoardRow, rows: &[MetricComparison]) -> String {
    let mut text = String::new();
    for trial in [first, second] {
        let _ = writeln!(text, "{}: {}\n     {}", trial.id, combination(&trial.labels), trial.place);
    }
    let difference = format!("{} − {} [95 %]", first.id, second.id);
    let header = ["metric", &difference, "p", "effect", "pairs", "questions needed"];
    let mut lines = table(&header, 1);
    for MetricComparison { metric, corrected, comparison } in rows {
        let needed =
            comparison.questions_needed.map_or_else(|| "–".to_owned(), |n| format!("about {}", super::count(n)));
        lines.add_row(row(&[
            &metric,
            &difference_of_means(comparison.mean_difference, comparison.interval),
            &p_value(*corrected),
            &number_or_dash(comparison.effect_size, 3),
            &format!("{} of {}", comparison.n_pairs, comparison.n_total),
            &needed,
        ]));
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
