//! What a reader of the scores is told.

use super::*;
use rag::python::{Failure, FailureKind};

fn metric(name: &str, judged: bool, qualified: bool, scores: &[Score]) -> MetricScores {
    MetricScores {
        name: name.to_owned(),
        judged,
        qualified,
        range: (0.0, 1.0),
        higher_is_better: true,
        summary: Summary::of(scores, (0.0, 1.0), 0),
        missing: BTreeMap::new(),
    }
}

fn missing(missing: Missing) -> Score {
    Score::Missing(missing)
}

/// Results with a column of scores for each metric.
fn results(metrics: &[(&str, bool, bool, &[Score])]) -> ScoreResults {
    let rows = metrics.first().map_or(0, |(.., scores)| scores.len());
    let row = |line: usize| RowScores {
        line,
        id: format!("q{line}"),
        question: "Q?".to_owned(),
        scores: (metrics.iter())
            .map(|(name, .., scores)| ((*name).to_owned(), Scored::plain(scores[line].clone())))
            .collect(),
    };
    ScoreResults {
        file: "answers".to_owned(),
        judges: vec!["strict".to_owned(), "kind".to_owned()],
        metrics: metrics
            .iter()
            .map(|&(name, judged, qualified, scores)| metric(name, judged, qualified, scores))
            .collect(),
        rows: (0..rows).map(row).collect(),
        spending: BTreeMap::new(),
        budget: None,
        partial: None,
        provider_errors: 0,
        function_errors: 0,
        damaged_entries: 0,
        unchecked_places: Vec::new(),
    }
}

const ONE: &[Score] = &[Score::Value(1.0)];

#[test]
fn judges_are_named_with_the_metrics_that_they_are_not_qualified_for() {
    let begin = "* judged by strict, kind, ";
    type Metrics<'a> = &'a [(&'a str, bool, bool, &'a [Score])];
    let table: [(Metrics<'_>, Option<&str>); 5] = [
        (&[("exact_match", false, false, ONE)], None),
        (&[("a", true, true, ONE), ("m", false, false, ONE)], Some("qualified on labelled data")),
        (&[("a", true, false, ONE), ("b", true, false, ONE)], Some("not qualified on labelled data")),
        (&[("a", true, false, ONE), ("b", true, true, ONE)], Some("not qualified on labelled data for a")),
        (
            &[("a", true, false, ONE), ("b", true, true, ONE), ("c", true, false, ONE)],
            Some("not qualified on labelled data for a, c"),
        ),
    ];
    for (metrics, expected) in table {
        let expected = expected.map(|text| format!("{begin}{text}"));
        assert_eq!(results(metrics).notes(), Vec::from_iter(expected));
    }
}

#[test]
fn what_is_missing_is_told_by_its_reason_in_a_fixed_order() {
    let budget = || missing(Missing::Budget("over".to_owned()));
    let mut found = results(&[
        ("exact_match", false, false, &[Score::Value(1.0), budget()]),
        ("token_f1", false, false, &[budget(), budget()]),
    ]);
    (found.provider_errors, found.function_errors, found.damaged_entries) = (3, 2, 1);
    found.partial = Some("the budget was reached".to_owned());
    found.unchecked_places = vec!["recall".to_owned(), "ndcg".to_owned()];
    assert_eq!(
        found.notes(),
        [
            "PARTIAL: the budget was reached",
            "3 scores were not asked for, because of the budget: score again to go on",
            "3 scores are missing because a model failed: score again to ask for them",
            "`recall`, `ndcg`: the places were not checked, and a place in characters instead of bytes gives a wrong \
             score: give the documents",
            "2 scores are missing because a function of your own failed",
            "1 entries of the journal were damaged, and their calls made again",
        ]
    );
}

#[test]
fn a_metric_without_any_score_is_told_where_evidence_or_passages_have_no_place() {
    let (evidence, passages) =
        (|| missing(Missing::NoPlace("a".to_owned())), || missing(Missing::PassagesWithoutPlace));
    let not_applicable = || missing(Missing::NotApplicable("no answer".to_owned()));
    let found = results(&[
        ("recall", false, false, &[not_applicable(), evidence()]),
        ("ndcg", false, false, &[passages(), passages()]),
        ("mrr", false, false, &[evidence(), Score::Value(0.5)]),
        ("hit_rate", false, false, &[not_applicable(), not_applicable()]),
    ]);
    assert_eq!(found.unplaced(), [("recall", MissingPlace::Evidence), ("ndcg", MissingPlace::Passages)]);
    assert!(found.needs_anchoring());
    let notes = found.notes();
    assert_eq!(notes.len(), 2);
    assert!(notes[0].starts_with("`recall` has no scores, because the golden evidence has no place"), "{notes:?}");
    assert!(notes[1].starts_with("`ndcg` has no scores, because the passages have no place"), "{notes:?}");
    let only_passages = results(&[("ndcg", false, false, &[passages()])]);
    assert!(!only_passages.needs_anchoring());
    assert!(results(&[("ndcg", false, false, ONE)]).unplaced().is_empty());
}

#[test]
fn failures_of_functions_name_the_row_and_the_metric() {
    let failure = |message: &str| Failure {
        stage: "metric".to_owned(),
        function: "tone".to_owned(),
        file: "own.py".to_owned(),
        kind: FailureKind::Raised,
        message: message.to_owned(),
        traceback: None,
    };
    let failed = |message: &str| missing(Missing::FunctionError(Box::new(failure(message))));
    let found = results(&[
        ("tone", false, false, &[failed("first"), Score::Value(1.0), failed("third")]),
        ("brief", false, false, &[Score::Value(1.0), missing(Missing::Cancelled), failed("other")]),
    ]);
    let found: Vec<_> = (found.function_failures().into_iter())
        .map(|it| (it.trial, it.label, it.question.unwrap(), it.failure.message))
        .collect();
    let row = |label: &str, id: &str, text: &str| (String::new(), label.to_owned(), id.to_owned(), text.to_owned());
    assert_eq!(found, [row("tone", "q0", "first"), row("brief", "q2", "other"), row("tone", "q2", "third")]);
    assert!(results(&[("tone", false, false, ONE)]).function_failures().is_empty());
}

#[test]
fn results_without_anything_to_say_have_no_notes() {
    assert!(results(&[]).notes().is_empty());
    assert!(results(&[("exact_match", false, false, ONE)]).notes().is_empty());
}

#[test]
fn a_trial_is_scored_answers_with_the_questions_of_its_run() {
    use crate::results::fixture;
    let mut run = fixture::results(2);
    let scores = [vec![Some(1.0), Some(0.5), None, Some(0.0), Some(1.0)], vec![Some(0.0); 5]];
    fixture::score(&mut run, "recall", &scores);
    for question in &mut run.questions {
        question.question = format!("What is {}?", question.id);
    }
    run.trials[0].questions[4].scores.clear();
    let found = ScoreResults::of_trial(&run, "t01").unwrap();
    let row = &found.rows[1];
    assert_eq!((row.line, row.id.as_str(), row.question.as_str()), (1, "b", "What is b?"));
    assert_eq!(row.scores["recall"].score, Score::Value(0.5));
    let recall = &found.metrics[0];
    assert_eq!((recall.summary.mean, recall.summary.n_scored), (Some(0.5), 3));
    let counts = [("not_asked".to_owned(), 1), ("provider_error".to_owned(), 1)];
    assert_eq!(recall.missing, BTreeMap::from(counts), "a stage that failed leaves no score at all");
    assert_eq!((found.file.as_str(), found.provider_errors, found.function_errors), ("t01 of run zoo-1", 1, 0));
    let refused = ScoreResults::of_trial(&run, "t09").unwrap_err();
    assert!(refused.to_string().contains("there is no trial `t09`"), "{refused}");
}
