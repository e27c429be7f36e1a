//! What the columns of the leaderboard mean, in a sentence each.

use eval::metric::MetricConfig;
use lab::board::{Board, Column, ColumnKind};
use std::collections::BTreeMap;
use store::registry::first_paragraph;

/// The meaning of each column that has one, by kind and name. A metric that a user wrote has none.
pub(super) fn meanings(board: &Board) -> BTreeMap<String, String> {
    let docs = MetricConfig::docs();
    let key = |column: &Column| format!("{}.{}", kind_name(column.kind), column.name);
    board.columns.iter().filter_map(|column| Some((key(column), meaning(board, column, &docs)?))).collect()
}

/// As in the page's data.
fn kind_name(kind: ColumnKind) -> String {
    let name = serde_json::to_value(kind).ok();
    name.as_ref().and_then(|name| name.as_str()).unwrap_or_default().to_owned()
}

fn meaning(board: &Board, column: &Column, docs: &[String]) -> Option<String> {
    let text = match (column.kind, column.name.as_str()) {
        (ColumnKind::Axis, _) => return None,
        (ColumnKind::Objective, _) => match board.objective.as_slice() {
            [metric] => format!("The number that trials are compared by: here it is `{metric}`."),
            metrics => format!("The number that trials are compared by: the mean of {}.", metrics.join(", ")),
        },
        (ColumnKind::Test, _) => {
            "The objective on the questions of the split `test`, by which no trial was chosen.".to_owned()
        }
        (ColumnKind::IndexRecall, _) => "The share of the nearest chunks that an approximate index finds.".to_owned(),
        (ColumnKind::Metric, name) => return metric_meaning(name, docs),
        (ColumnKind::Seconds, "latency_p50") => "Half of the questions are answered within so many seconds.".to_owned(),
        (ColumnKind::Seconds, _) => "95 of 100 questions are answered within so many seconds.".to_owned(),
        (ColumnKind::Tokens, "index_tokens") => "Tokens read and written for the index.".to_owned(),
        (ColumnKind::Tokens, _) => "Tokens read and written for a question.".to_owned(),
        (ColumnKind::Money, "index_cost_usd") => "Dollars for the index.".to_owned(),
        (ColumnKind::Money, _) => "Dollars for all questions.".to_owned(),
    };
    Some(text)
}

/// The first sentences of a built-in metric's documentation.
fn metric_meaning(name: &str, docs: &[String]) -> Option<String> {
    let place = MetricConfig::NAMES.iter().position(|own| *own == name)?;
    Some(first_paragraph(&docs[place]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_metric_says_what_it_means_in_whole_sentences() {
        let docs = MetricConfig::docs();
        for name in MetricConfig::NAMES {
            let text = metric_meaning(name, &docs).unwrap();
            assert!(text.len() > 20 && text.ends_with('.'), "{name}: {text}");
        }
        assert_eq!(metric_meaning("mine", &docs), None);
    }
}
