//! Which columns are worth showing, and what stands in them.

use super::*;
use crate::results::fixture;
use eval::Scored;
use models::{Ledger, ModelUsage};
use serde_json::json;

fn shown(results: &Results) -> Vec<String> {
    columns(results).into_iter().filter(|column| column.shown).map(|column| column.name).collect()
}

/// Two trials that retrieve, with one metric.
fn scored() -> Results {
    let mut results = fixture::results(2);
    fixture::score(&mut results, "recall", &[vec![Some(0.5); 5], vec![Some(0.5); 5]]);
    fixture::choose(&mut results, "recall", &[1, 1]);
    results
}

fn generates(results: &mut Results) {
    let generator = json!({ "compact": { "model": "m" } });
    results.trials[1].trial.pipeline_mut().generator = serde_json::from_value(generator).unwrap();
}

fn used(results: &mut Results, written: u64) {
    let mut ledger = Ledger::default();
    ledger.add("m", &ModelUsage { calls: 1, prompt_tokens: 9, completion_tokens: written, ..ModelUsage::default() });
    results.trials[1].usage.questions = ledger;
}

#[test]
fn a_column_is_shown_if_it_tells_something() {
    type Change = fn(&mut Results);
    let table: [(&str, Change, &str); 12] = [
        ("scores only", |_| {}, "retriever objective recall"),
        ("without an objective", |it| it.objective.clear(), "retriever recall"),
        ("one trial has no differing axis", |it| it.trials.truncate(1), "objective recall"),
        (
            "two axes",
            |it| drop(it.trials[1].trial.labels.insert("chunker".to_owned(), "token".to_owned())),
            "chunker retriever objective recall",
        ),
        ("a split", |it| it.trials[1].test = it.trials[1].objective.clone(), "retriever objective test recall"),
        ("a search that nobody notices", |it| it.trials[1].latency_p50 = Some(0.099), "retriever objective recall"),
        (
            "a search that takes a tenth of a second",
            |it| it.trials[1].latency_p50 = Some(0.1),
            "retriever objective recall latency_p50 latency_p95",
        ),
        (
            "an answer, however quick",
            |it| {
                generates(it);
                it.trials[1].latency_p50 = Some(0.001);
            },
            "retriever objective recall latency_p50 latency_p95",
        ),
        ("texts that are only read", |it| used(it, 0), "retriever objective recall"),
        ("texts that are written", |it| used(it, 1), "retriever objective recall tokens"),
        (
            "answers that cost money",
            |it| it.trials[1].cost_usd = Some(0.01),
            "retriever objective recall tokens cost_usd",
        ),
        (
            "an index that cost money",
            |it| it.trials[1].index_cost_usd = Some(0.01),
            "retriever objective recall index_cost_usd",
        ),
    ];
    for (case, change, expected) in table {
        let mut results = scored();
        change(&mut results);
        assert_eq!(shown(&results).join(" "), expected, "{case}");
    }
}

#[test]
fn seconds_have_the_digits_that_tell_the_fastest_trial() {
    let digits = |seconds: [Option<f64>; 2]| {
        let mut results = scored();
        for (trial, seconds) in results.trials.iter_mut().zip(seconds) {
            trial.latency_p50 = seconds;
        }
        columns(&results).into_iter().find(|column| column.name == "latency_p50").unwrap().digits
    };
    let table = [
        ([None, None], 2),
        ([Some(0.0), None], 2),
        ([Some(3.0), Some(0.1)], 2),
        ([Some(3.0), Some(0.099)], 3),
        ([Some(0.01), Some(3.0)], 3),
        ([Some(0.0099), Some(3.0)], 4),
    ];
    for (seconds, expected) in table {
        assert_eq!(digits(seconds), expected, "{seconds:?}");
    }
}

#[test]
fn every_column_has_the_number_of_its_own_name() {
    let mut results = scored();
    let trial = &mut results.trials[0];
    (trial.latency_p50, trial.latency_p95, trial.tokens) = (Some(1.0), Some(2.0), Some(3.0));
    (trial.cost_usd, trial.index_cost_usd, trial.index_tokens) = (Some(4.0), None, 6);
    trial.test = None;
    let columns = columns(&results);
    let cells = cells(&results.trials[0], &columns);
    let of = |name: &str| &cells[columns.iter().position(|column| column.name == name).unwrap()];
    let numbers = ["latency_p50", "latency_p95", "tokens", "cost_usd", "index_cost_usd", "index_tokens", "recall"];
    let expected = [Some(1.0), Some(2.0), Some(3.0), Some(4.0), None, Some(6.0), Some(0.5)];
    assert_eq!(numbers.map(|name| of(name).number()), expected);
    assert_eq!((of("retriever").text(), of("retriever").number()), (Some("bm25(top_k=1)"), None));
    assert_eq!((of("test"), of("test").text()), (&Cell::Empty, None));
    assert!(matches!(of("objective"), Cell::Scores(scores) if scores.missing.is_none()));
}

#[test]
fn why_scores_are_missing_is_counted_by_reason_where_it_matters() {
    let mut results = scored();
    let set = |results: &mut Results, missing: &[Missing]| {
        let scores: Vec<Score> =
            (0..5).map(|i| missing.get(i).cloned().map_or(Score::Value(0.5), Score::Missing)).collect();
        results.trials[0].metrics.insert("recall".to_owned(), Summary::of(&scores, (0.0, 1.0), 0));
        for (question, score) in results.trials[0].questions.iter_mut().zip(scores) {
            question.scores.insert("recall".to_owned(), Scored::plain(score));
        }
    };
    let said = |results: &Results| match of_metric(&results.trials[0], "recall") {
        Cell::Scores(scores) => scores.missing,
        other => panic!("{other:?}"),
    };
    let (down, budget) = (Missing::ProviderError("down".to_owned()), Missing::Budget("spent".to_owned()));
    let applies = Missing::NotApplicable("no passages".to_owned());
    let table: [(&[Missing], Option<&str>); 5] = [
        (&[], None),
        (&[down.clone(), budget.clone(), down.clone()], Some("not asked: budget 1, provider_error 2")),
        (std::slice::from_ref(&applies), None),
        (&[applies.clone(), down.clone()], Some("not_applicable 1, provider_error 1")),
        (
            &[applies.clone(), applies.clone(), applies.clone(), applies.clone(), applies.clone()],
            Some("not_applicable 5"),
        ),
    ];
    for (missing, expected) in table {
        set(&mut results, missing);
        let expected = expected.map(|reasons| format!("questions without a score: {reasons}"));
        assert_eq!(said(&results), expected, "{missing:?}");
    }
    assert_eq!(of_metric(&results.trials[0], "precision"), Cell::Empty, "a metric that it does not have");
}
