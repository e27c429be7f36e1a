//! Labels of people, and what follows from them for a judge's means.

use super::*;
use crate::results::fixture::{results, score};

/// How far a judge's scores of the five answers of a trial agree with people's labels.
fn agreement(range: (f64, f64), higher_is_better: bool, scores: [f64; 5], labels: [LabelValue; 5]) -> Agreement {
    let mut results = results(1);
    score(&mut results, "tone", &[scores.map(Some).to_vec()]);
    (results.metrics[0].range, results.metrics[0].higher_is_better) = (range, higher_is_better);
    let label = |(question, label): (&eval::Question, LabelValue)| {
        let (trial, question) = ("t01".to_owned(), question.id.clone());
        AnswerLabel { trial, question, label }
    };
    let labels: Vec<AnswerLabel> = results.questions.iter().zip(labels).map(label).collect();
    results.calibrate("tone", &labels).unwrap().agreement.unwrap()
}

#[test]
fn judge_and_people_agree_where_their_scores_are_in_the_same_half_of_the_range() {
    let (judge, people) = ([0.6, 0.5, 0.5, 0.4, 0.2], [1.0, 0.5, 0.49, 0.0, 0.9].map(LabelValue::Score));
    let of_range = |low: f64, high: f64| agreement((low, high), true, judge, people);
    let halves = of_range(0.0, 1.0);
    // The middle is of the upper half, and how far two scores are apart does not matter.
    assert_eq!((halves.n, halves.observed), (5, 0.6));
    let counts: Vec<(&str, usize, usize, usize)> = (halves.classes.iter())
        .map(|half| (half.class.as_str(), half.by_people, half.by_judge, half.by_both))
        .collect();
    assert_eq!(counts, [("high", 3, 3, 2), ("low", 2, 2, 1)]);
    // Of 0 to 2, only the label 1.0 is in the upper half; of -1 to 1, everything is.
    assert_eq!(of_range(0.0, 2.0).observed, 0.8);
    assert_eq!((of_range(-1.0, 1.0).observed, of_range(-1.0, 1.0).kappa), (1.0, None));
}

#[test]
fn a_right_answer_is_labelled_with_the_better_end_of_the_range() {
    let labels = [true, true, false, false, true].map(LabelValue::Verdict);
    let observed =
        |higher_is_better| agreement((0.0, 1.0), higher_is_better, [0.9, 0.6, 0.1, 0.6, 0.4], labels).observed;
    assert_eq!((observed(true), observed(false)), (0.6, 0.4));
}

fn label(trial: &str, question: &str, label: LabelValue) -> AnswerLabel {
    AnswerLabel { trial: trial.to_owned(), question: question.to_owned(), label }
}

fn score_label(trial: &str, question: &str, value: f64) -> AnswerLabel {
    label(trial, question, LabelValue::Score(value))
}

/// Two trials that a judge scored by `tone`.
fn judged(scores: [[Option<f64>; 5]; 2]) -> Results {
    let mut results = results(2);
    score(&mut results, "tone", &scores.map(|scores| scores.to_vec()));
    results
}

fn all(value: f64) -> [Option<f64>; 5] {
    [Some(value); 5]
}

#[test]
fn every_label_that_cannot_be_used_is_refused_with_its_number() {
    let results = judged([all(0.5), all(0.5)]);
    let labels = [
        score_label("t01", "a", 0.5),
        score_label("t09", "a", 0.5),
        score_label("t01", "z", 0.5),
        score_label("t01", "b", 1.01),
        score_label("t01", "c", -0.01),
        score_label("t01", "d", f64::NAN),
        score_label("t01", "a", 0.5),
    ];
    let Err(Error::Refused(mistakes)) = results.calibrate("tone", &labels) else { panic!("a refusal") };
    assert_eq!(
        mistakes,
        [
            "label 2: there is no trial `t09`",
            "label 3: there is no question `z`",
            "label 4: 1.01 is not between 0 and 1",
            "label 5: -0.01 is not between 0 and 1",
            "label 6: NaN is not between 0 and 1",
            "label 7: `t01` has two labels for `a`",
        ]
    );
    let several = results.calibrate("tone", &[score_label("t09", "z", 7.0)]).unwrap_err();
    assert_eq!(several.to_string(), "label 1: 7 is not between 0 and 1\nlabel 1: there is no trial `t09`");
}

#[test]
fn without_labels_or_with_an_unknown_metric_nothing_is_compared() {
    let mut results = judged([all(0.5), all(0.5)]);
    assert_eq!(results.calibrate("tone", &[]).unwrap_err().to_string(), "there are no labels");
    score(&mut results, "clarity", &[vec![Some(0.5); 5], vec![Some(0.5); 5]]);
    let error = results.calibrate("fluency", &[score_label("t01", "a", 0.5)]).unwrap_err();
    assert!(matches!(error, Error::NotFound(_)));
    assert_eq!(error.to_string(), "there is no metric `fluency`; there are tone, clarity");
}

#[test]
fn the_ends_of_a_range_are_labels_too() {
    let mut results = judged([all(2.0), all(2.0)]);
    results.metrics[0].range = (1.0, 5.0);
    for (value, holds) in [(1.0, true), (5.0, true), (3.0, true), (0.999, false), (5.001, false)] {
        let found = results.calibrate("tone", &[score_label("t01", "a", value)]);
        assert_eq!(found.is_ok(), holds, "{value}");
    }
    let mut verdict = |right, higher_is_better| {
        results.metrics[0].higher_is_better = higher_is_better;
        let labels = [label("t01", "a", LabelValue::Verdict(right)), label("t01", "b", LabelValue::Verdict(right))];
        results.calibrate("tone", &labels).unwrap().trials[0].corrected.clone().unwrap()
    };
    // The judge says 2 of both: its bias is 2 minus the end of the range that the label means.
    assert_eq!([verdict(true, true), verdict(false, true)].map(|found| found.bias), [-3.0, 1.0]);
    assert_eq!([verdict(true, false), verdict(false, false)].map(|found| found.bias), [1.0, -3.0]);
}

#[test]
fn each_trial_has_its_own_labels_and_means() {
    let results = judged([
        [Some(1.0), Some(0.5), Some(0.0), Some(0.5), None],
        [Some(0.25), Some(0.25), Some(0.25), Some(0.25), Some(0.25)],
    ]);
    // The answer `e` of t01 has no score of the judge: its label counts nowhere.
    let labels = [score_label("t01", "a", 0.5), score_label("t01", "c", 0.0), score_label("t01", "e", 1.0)];
    let found = results.calibrate("tone", &labels).unwrap();
    assert_eq!((found.metric.as_str(), found.n_labels), ("tone", 2));
    let counts = found.trials.iter().map(|row| (row.trial.as_str(), row.n_labels, row.n_judged, row.judged_mean));
    assert_eq!(counts.collect::<Vec<_>>(), [("t01", 2, 2, Some(0.5)), ("t02", 0, 5, Some(0.25))]);
    assert_eq!(found.trials[1].corrected, None, "without labels");

    // People's mean is 0.25, the judge's of the same 0.5; covariance 0.25, and the judge's variance over all four
    // is 0.5 / 3. The weight is 0.25 / (2 · 1/6) = 0.75, so that the residuals are −0.25 and 0.
    let corrected = found.trials[0].corrected.as_ref().unwrap();
    let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found}, not {expected}");
    close(corrected.bias, 0.25);
    close(corrected.weight, 0.75);
    close(corrected.mean, 0.75 * 0.5 - 0.125);
    assert_eq!((corrected.n_labelled, corrected.n_judged), (2, 2));
}

#[test]
fn one_label_compares_but_corrects_nothing() {
    let results = judged([all(0.75), all(0.5)]);
    let found = results.calibrate("tone", &[score_label("t02", "c", 0.0)]).unwrap();
    assert_eq!((found.n_labels, found.trials[1].corrected.clone()), (1, None));
    let agreement = found.agreement.unwrap();
    assert_eq!((agreement.n, agreement.observed), (1, 0.0), "the judge says the upper half, people the lower");
}

#[test]
fn labels_of_answers_without_scores_agree_with_nothing() {
    let results = judged([[None; 5], all(0.5)]);
    let found = results.calibrate("tone", &[score_label("t01", "a", 1.0), score_label("t01", "b", 1.0)]).unwrap();
    assert_eq!((found.n_labels, found.agreement.is_none()), (0, true));
    let row = &found.trials[0];
    assert_eq!((row.n_labels, row.n_judged, row.judged_mean, row.corrected.is_none()), (0, 0, None, true));
}

#[test]
fn the_order_of_labels_does_not_matter() {
    let results = judged([
        [Some(1.0), Some(0.5), Some(0.0), Some(0.5), Some(0.75)],
        [Some(0.0), Some(0.25), Some(1.0), Some(0.25), Some(0.5)],
    ]);
    let labels = [
        score_label("t01", "a", 1.0),
        score_label("t02", "c", 0.5),
        score_label("t01", "d", 0.0),
        score_label("t02", "a", 0.0),
    ];
    let mut turned = labels.to_vec();
    turned.reverse();
    assert_eq!(results.calibrate("tone", &labels).unwrap(), results.calibrate("tone", &turned).unwrap());
}

#[test]
fn a_label_is_a_score_or_a_verdict_and_has_no_other_field() {
    let read = |text: &str| serde_json::from_str::<AnswerLabel>(text);
    let written = r#"{"trial":"t01","question":"a","label":true}"#;
    assert_eq!(read(written).unwrap(), label("t01", "a", LabelValue::Verdict(true)));
    assert_eq!(read(r#"{"trial":"t01","question":"a","label":1}"#).unwrap(), score_label("t01", "a", 1.0));
    assert_eq!(serde_json::to_string(&read(written).unwrap()).unwrap(), written);
    for text in [
        r#"{"trial":"t01","question":"a"}"#,
        r#"{"trial":"t01","question":"a","label":"good"}"#,
        r#"{"trial":"t01","question":"a","label":1,"by":"me"}"#,
    ] {
        assert!(read(text).is_err(), "{text}");
    }
}
