//! Two systems, compared on the questions that both answered.

use super::*;
use serde_json::{Value, json};

/// Answers scored by one metric; each is an id, a question and a score.
fn answers(judge: &str, rows: &[(&str, &str, Option<f64>)]) -> ScoredAnswers {
    let rows = rows.iter().enumerate().map(|(i, (id, question, value))| {
        let score = match value {
            Some(value) => json!({ "value": value, "detail": null }),
            None => json!({ "value": null, "failed": true, "detail": null }),
        };
        let id = if id.is_empty() { format!("row-{i}") } else { (*id).to_owned() };
        json!({ "row": i, "id": id, "question": question, "scores": { "f": score } })
    });
    let metric = json!({ "name": "f", "judged": !judge.is_empty(), "range": [0.0, 1.0], "mean": 0.1 });
    let rows: Vec<Value> = rows.collect();
    serde_json::from_value(json!({ "judges": [judge], "metrics": [metric], "rows": rows })).unwrap()
}

#[test]
fn rows_are_paired_by_id_in_any_order_and_what_only_one_has_counts_in_the_total() {
    let first = answers("", &[("a", "A?", Some(1.0)), ("b", "B?", Some(0.5)), ("c", "C?", Some(0.9))]);
    let second = answers("", &[("d", "D?", Some(0.0)), ("b", "B?", Some(0.5)), ("a", "A?", Some(0.0))]);
    let found = &first.compare(&second).unwrap()[0].comparison;
    assert_eq!((found.mean_difference, found.n_pairs, found.n_total), (Some(0.5), 2, 4));
    let turned = &second.compare(&first).unwrap()[0].comparison;
    assert_eq!(turned.mean_difference, Some(-0.5));
}

#[test]
fn without_ids_rows_are_paired_by_the_question() {
    let first = answers("", &[("", "A?", Some(1.0)), ("", "B?", Some(0.5))]);
    let second = answers("", &[("", "B?", Some(0.0)), ("", "A?", Some(1.0))]);
    let found = &first.compare(&second).unwrap()[0].comparison;
    assert_eq!((found.mean_difference, found.n_pairs), (Some(0.25), 2));
}

#[test]
fn a_failed_score_is_no_pair_and_widens_the_bounds() {
    let first = answers("", &[("a", "A?", Some(1.0)), ("b", "B?", None)]);
    let second = answers("", &[("a", "A?", Some(0.0)), ("b", "B?", Some(0.5))]);
    let found = &first.compare(&second).unwrap()[0].comparison;
    assert_eq!((found.n_pairs, found.least, found.most), (1, Some(0.25), Some(0.75)));
}

#[test]
fn what_cannot_be_compared_is_refused_with_the_reason() {
    let a = answers("m", &[("a", "A?", Some(1.0))]);
    let refused = |other: &ScoredAnswers| a.compare(other).unwrap_err().to_string();
    assert!(refused(&answers("n", &[("a", "A?", Some(1.0))])).contains("judged by m in the first and by n"));
    assert!(refused(&answers("m", &[("a", "B?", Some(1.0))])).contains("another question"));
    assert!(refused(&answers("m", &[("b", "A?", Some(1.0))])).contains("no question in common"));
    let twice = answers("m", &[("a", "A?", Some(1.0)), ("a", "A?", Some(0.0))]);
    assert!(refused(&twice).contains("stands twice in the second, in rows 0 and 1"));
    let mut other = a.clone();
    other.metrics[0].name = "g".to_owned();
    assert!(refused(&other).contains("no metric in common"));
}

/// Answers scored by these metrics, of one question with this id.
fn metrics(id: &str, metrics: &[(&str, [f64; 2], Option<f64>)]) -> ScoredAnswers {
    let described = metrics.iter().map(|(name, range, _)| json!({ "name": name, "judged": false, "range": range }));
    let scores = metrics.iter().map(|(name, _, value)| ((*name).to_owned(), json!({ "value": value })));
    let row = json!({ "row": 0, "id": id, "question": "A?", "scores": scores.collect::<serde_json::Map<_, _>>() });
    let described: Vec<Value> = described.collect();
    serde_json::from_value(json!({ "judges": [], "metrics": described, "rows": [row] })).unwrap()
}

#[test]
fn the_metrics_that_both_have_are_compared_in_the_order_of_the_first() {
    let unit = [0.0, 1.0];
    let first = metrics("a", &[("f", unit, Some(1.0)), ("g", unit, Some(0.5)), ("h", unit, Some(0.5))]);
    let second = metrics("a", &[("h", unit, Some(0.0)), ("e", unit, Some(1.0)), ("f", unit, Some(0.25))]);
    let rows = first.compare(&second).unwrap();
    let found: Vec<_> = rows.iter().map(|row| (row.metric.as_str(), row.comparison.mean_difference)).collect();
    assert_eq!(found, [("f", Some(0.75)), ("h", Some(0.5))]);
}

#[test]
fn a_range_is_the_union_of_both_and_a_missing_score_that_is_no_failure_widens_nothing() {
    let first = metrics("a", &[("f", [0.0, 2.0], Some(1.0))]);
    let second = metrics("a", &[("f", [-1.0, 1.0], Some(0.0))]);
    assert_eq!(first.common_metrics(&second).unwrap(), [("f".to_owned(), (-1.0, 2.0))]);
    let absent = metrics("a", &[("f", [0.0, 1.0], None)]);
    let found = &first.compare(&absent).unwrap()[0].comparison;
    assert_eq!((found.n_pairs, found.least, found.most, found.mean_difference), (0, None, None, None));
}

#[test]
fn a_row_without_the_score_of_a_metric_is_no_pair() {
    let mut first = answers("", &[("a", "A?", Some(1.0)), ("b", "B?", Some(0.5))]);
    let second = answers("", &[("a", "A?", Some(0.0)), ("b", "B?", Some(0.0))]);
    first.rows[1].scores.clear();
    let found = &first.compare(&second).unwrap()[0].comparison;
    assert_eq!((found.n_pairs, found.n_total, found.mean_difference), (1, 2, Some(1.0)));
}

#[test]
fn ids_count_only_where_both_tables_have_some() {
    let with_ids = answers("", &[("x", "A?", Some(1.0)), ("y", "B?", Some(0.5))]);
    let without = answers("", &[("", "B?", Some(0.5)), ("", "A?", Some(0.0))]);
    assert_eq!((with_ids.has_ids(), without.has_ids()), (true, false));
    let found = &with_ids.compare(&without).unwrap()[0].comparison;
    assert_eq!((found.n_pairs, found.mean_difference), (2, Some(0.5)), "by the text");
    // One own id makes all rows stand by their ids, numbered or not.
    let partly = answers("", &[("", "A?", Some(0.0)), ("y", "B?", Some(0.5))]);
    assert!(partly.has_ids());
    let found = &with_ids.compare(&partly).unwrap()[0].comparison;
    assert_eq!((found.n_pairs, found.n_total), (1, 3));
    let line = answers("", &[("line-0", "A?", Some(0.0))]);
    assert!(!line.has_ids(), "a file numbers its lines");
    let elsewhere = answers("", &[("line-5", "A?", Some(0.0))]);
    assert!(elsewhere.has_ids(), "this is not the number of its row");
}

#[test]
fn each_refusal_is_told_with_both_sides() {
    let a = answers("", &[("a", "A?", Some(1.0)), ("b", "B?", Some(1.0))]);
    let refused = |first: &ScoredAnswers, second: &ScoredAnswers| first.compare(second).unwrap_err().to_string();
    let other = answers("", &[("a", "Z?", Some(1.0))]);
    let text = "`a` is another question in the second: \"A?\" in the first, \"Z?\" in the second";
    assert_eq!(refused(&a, &other), text);
    let none = answers("", &[("c", "C?", Some(1.0))]);
    let text =
        "the two have no question in common: none of the 2 in the first has the id of one of the 1 in the second";
    assert_eq!(refused(&a, &none), text);
    let (texts, others) = (answers("", &[("", "A?", Some(1.0))]), answers("", &[("", "C?", Some(1.0))]));
    let text =
        "the two have no question in common: none of the 1 in the first has the text of one of the 1 in the second";
    assert_eq!(refused(&texts, &others), text);
    let twice = answers("", &[("", "A?", Some(1.0)), ("", "B?", Some(1.0)), ("", "A?", Some(1.0))]);
    let text = "\"A?\" stands twice in the first, in rows 0 and 2: give each question its own `question_id`";
    assert_eq!(refused(&twice, &texts), text);
    let metric = metrics("a", &[("g", [0.0, 1.0], Some(1.0)), ("h", [0.0, 1.0], None)]);
    assert_eq!(refused(&a, &metric), "the two have no metric in common: f in the first, g, h in the second");
    let nothing = answers("", &[]);
    assert!(refused(&nothing, &a).starts_with("the two have no question in common"));
}

#[test]
fn other_judges_matter_only_for_judged_metrics() {
    let (mut first, mut second) = (answers("", &[("a", "A?", Some(1.0))]), answers("", &[("a", "A?", Some(0.0))]));
    (first.judges, second.judges) = (vec!["m".to_owned()], vec!["n".to_owned(), "o".to_owned()]);
    assert!(first.compare(&second).is_ok());
    first.metrics[0].judged = true;
    let text = "f was judged by m in the first and by n, o in the second: a difference could be that of the judges; \
                score both with the same";
    assert_eq!(first.compare(&second).unwrap_err().to_string(), text);
}
