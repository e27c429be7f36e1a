//! What each verdict and each outcome says.

use super::*;
use crate::check::CheckedTrial;
use eval::statistics::Interval;
use std::collections::BTreeMap;

fn metric(name: &str, outcome: MetricOutcome) -> CheckedMetric {
    CheckedMetric {
        metric: name.to_owned(),
        outcome,
        sentence: String::new(),
        higher_is_better: true,
        bundle: Some(0.8),
        run: Some(0.7),
        difference: Some(-0.1),
        interval: Some(Interval { low: -0.2, high: -0.05 }),
        p_value: Some(0.04),
        corrected: Some(0.04),
        scored: 20,
        asked: 20,
        detectable_loss: Some(0.25),
        fewest_losses: 5,
    }
}

/// Two of four questions are worse, by 0.5 and 0.25, and one is better by 0.25.
const GAINS: [f64; 4] = [-0.5, -0.25, 0.0, 0.25];

fn findings(gains: &[f64]) -> MetricFindings<'_> {
    MetricFindings { gains, allowed: 0.0, tests: 1, is_there: true, low: 0.0, high: 1.0 }
}

fn check(verdict: CheckVerdict, margin: f64, outcomes: &[(&str, MetricOutcome)]) -> Check {
    let side = |run: &str, trial: &str| CheckedTrial {
        run: run.to_owned(),
        run_time_ms: 0,
        trial: trial.to_owned(),
        labels: BTreeMap::new(),
    };
    Check {
        experiment: "zoo".to_owned(),
        verdict,
        sentence: String::new(),
        bundle: side("zoo-1", "t01"),
        run: side("zoo-2", "t07"),
        margin,
        questions: 20,
        chosen_by: 0,
        only_in_bundle: 0,
        only_in_run: 0,
        metrics: outcomes.iter().map(|(name, outcome)| metric(name, *outcome)).collect(),
        notes: Vec::new(),
        warnings: Vec::new(),
    }
}

#[test]
fn the_verdict_names_both_trials_and_the_metrics_that_decide() {
    use CheckVerdict::{Fail, Inconclusive as Open, Pass};
    use MetricOutcome::{Inconclusive, Passed, Shown, TooFew, Worse};
    type Case = (CheckVerdict, f64, &'static [(&'static str, MetricOutcome)], &'static str);
    let table: [Case; 7] = [
        (Pass, 0.0, &[("a", Passed), ("b", Shown)], "t07 is not proven worse than t01 of the bundle, by a"),
        (
            Pass,
            0.02,
            &[("a", Passed), ("b", Passed)],
            "t07 is not proven worse than t01 of the bundle by more than 2.0 % of the range, by a, b",
        ),
        (Fail, 0.0, &[("a", Passed), ("b", Worse)], "t07 is worse than t01 of the bundle, by b"),
        (
            Fail,
            0.125,
            &[("a", Worse), ("b", Worse)],
            "t07 is worse than t01 of the bundle by more than 12.5 % of the range, by a, b",
        ),
        (
            Open,
            0.0,
            &[("a", TooFew), ("b", Passed)],
            "the mean of t07 is worse than that of t01 of the bundle, by a, and there are too few questions to prove \
             or disprove it",
        ),
        (
            Open,
            0.05,
            &[("a", Inconclusive), ("b", Inconclusive)],
            "too many scores are missing to compare t07 with t01 of the bundle, by a, b",
        ),
        (
            Open,
            0.05,
            &[("a", Inconclusive), ("b", TooFew)],
            "the mean of t07 is worse than that of t01 of the bundle by more than 5.0 % of the range, by b, and there \
             are too few questions to prove or disprove it; too many scores are missing to compare t07 with t01 of \
             the bundle, by a",
        ),
    ];
    for (verdict, margin, outcomes, expected) in table {
        assert_eq!(check(verdict, margin, outcomes).in_words(), expected);
    }
}

#[test]
fn missing_scores_are_told_by_what_is_missing() {
    let mut open = metric("recall", MetricOutcome::Inconclusive);
    open.scored = 17;
    let text = "recall: only 17 of 20 questions have both scores, and 90 % are needed; the next run asks for what is \
                missing";
    assert_eq!(open.in_words(&findings(&[])), text);
    open.asked = 0;
    assert_eq!(open.in_words(&findings(&[])), "recall: it does not apply to these questions, or was not asked of them");
    let absent = MetricFindings { is_there: false, ..findings(&[]) };
    assert_eq!(open.in_words(&absent), "recall: the run has no scores by it");
}

#[test]
fn a_loss_is_told_with_its_interval_and_its_test() {
    let worse = metric("recall", MetricOutcome::Worse);
    // The losses 0.5 and 0.25 and the gain 0.25 over four questions.
    let text = "recall is worse by 0.125 [0.050, 0.200] (p 0.040, one-sided)";
    assert_eq!(worse.in_words(&findings(&GAINS)), text);
    let three = MetricFindings { tests: 3, ..findings(&GAINS) };
    let text = "recall is worse by 0.125 [0.050, 0.200] (p 0.040, one-sided, corrected for 3 metrics)";
    assert_eq!(worse.in_words(&three), text);
    // Where less is better the difference is the loss.
    let mut tokens = worse.clone();
    (tokens.higher_is_better, tokens.interval) = (false, Some(Interval { low: 0.05, high: 0.2 }));
    assert!(tokens.in_words(&findings(&GAINS)).contains("0.125 [0.050, 0.200]"));
    tokens.interval = None;
    assert_eq!(tokens.in_words(&findings(&GAINS)), "recall is worse by 0.125 (p 0.040, one-sided)");
    for (p, expected) in [(0.001, "p 0.001"), (0.000_999, "p < 0.001"), (1.0, "p 1.000"), (0.0494, "p 0.049")] {
        let text = CheckedMetric { corrected: Some(p), ..worse.clone() }.in_words(&findings(&GAINS));
        assert!(text.ends_with(&format!("({expected}, one-sided)")), "{text}");
    }
}

#[test]
fn too_few_questions_are_told_with_the_number_that_would_prove_it() {
    let text = metric("recall", MetricOutcome::TooFew).in_words(&findings(&GAINS));
    let begin = "recall is worse by 0.125 [0.050, 0.200], but not proven (p 0.040, one-sided): 3 of 20 questions differ, \
                 2 of them are worse, and at least 5 must be worse, or more if any is better.";
    assert!(text.starts_with(begin), "{text}");
    assert!(text.ends_with("Ask more questions, or allow the loss with --margin"), "{text}");
}

#[test]
fn a_pass_says_what_loss_would_have_been_found() {
    let passed = |scored: usize, detectable_loss: Option<f64>, allowed: f64, gains: &[f64]| {
        let metric =
            CheckedMetric { scored, detectable_loss, corrected: Some(0.3), ..metric("recall", MetricOutcome::Passed) };
        metric.in_words(&MetricFindings { allowed, ..findings(gains) })
    };
    let not_proven = |end: &str| format!("recall is not proven worse (p 0.300, one-sided); {end}");
    assert_eq!(
        passed(20, Some(0.25), 0.0, &GAINS),
        not_proven("with 20 questions, a loss of 0.250 would have been found in 4 of 5 cases")
    );
    let largest = not_proven("with 20 questions, even the largest loss might not have been found");
    assert_eq!(passed(20, Some(1.0), 0.0, &GAINS), largest, "as large as the range");
    assert_eq!(passed(20, Some(2.0), 0.0, &GAINS), largest);
    assert_eq!(
        passed(4, Some(0.25), 0.0, &GAINS),
        not_proven("with 4 questions no loss can be proven, however large: at least 5 are needed")
    );
    let only = "with 20 questions, a loss is found only once 5 of them are worse, or more if any is better";
    assert_eq!(passed(20, None, 0.0, &GAINS), not_proven(only));
    assert_eq!(passed(20, None, 0.1, &GAINS), not_proven(&format!("{only}, and by more than the margin")));
    assert_eq!(passed(20, None, 0.0, &[0.0; 20]), format!("recall: all 20 scores are equal; {only}"));
}

#[test]
fn a_proven_loss_within_the_margin_is_told_as_allowed() {
    let mut passed = metric("recall", MetricOutcome::Passed);
    let allowed = MetricFindings { allowed: 0.2, ..findings(&GAINS) };
    assert_eq!(
        passed.in_words(&allowed),
        "recall is worse by 0.125 [0.050, 0.200] (p 0.040, one-sided), which the margin of 0.200 allows; with 20 \
         questions, a loss of 0.250 would have been found in 4 of 5 cases"
    );
    // From 0.05 on it is not proven.
    passed.corrected = Some(0.05);
    assert!(passed.in_words(&allowed).starts_with("recall is not proven worse"), "{}", passed.in_words(&allowed));
    let shown = metric("recall", MetricOutcome::Shown).in_words(&allowed);
    assert_eq!(shown, "recall is not in the objective, so it does not affect the verdict");
}
