//! Verdicts on planted scores.

use super::*;
use crate::{IndexedDocument, record::fixture::record as recorded, results::fixture};
use eval::{Missing, Question, Scored, dataset::Split, statistics::Random};
use store::Key;

const EXPERIMENT: &str = "[evaluate]\nmetrics = [{ recall = {} }, { ndcg = {} }, { context_tokens = {} }]\n";

/// One trial with these scores, all of the objective except `context_tokens`.
fn results(scores: &[(&str, Vec<Option<f64>>)]) -> crate::Results {
    let mut results = fixture::results(1);
    let n = scores[0].1.len();
    let asked = results.trials[0].questions[0].clone();
    results.questions = (0..n)
        .map(|i| Question { id: format!("q{i}"), question: format!("What is {i}?"), ..Question::default() })
        .collect();
    results.trials[0].questions =
        results.questions.iter().map(|q| crate::QuestionResult { question: q.id.clone(), ..asked.clone() }).collect();
    for (metric, scores) in scores {
        fixture::score(&mut results, metric, std::slice::from_ref(scores));
        if *metric != "context_tokens" {
            results.objective.push((*metric).to_owned());
        }
    }
    results
}

/// A run of such a trial by an experiment of this text.
fn measured_by(experiment: &str, scores: &[(&str, Vec<Option<f64>>)]) -> RunRecord {
    RunRecord::of_results(&results(scores), experiment)
}

fn record(scores: &[(&str, Vec<Option<f64>>)]) -> RunRecord {
    measured_by(EXPERIMENT, scores)
}

fn checked(bundle: &RunRecord, run: &RunRecord, margin: f64) -> Check {
    Check::of_records((bundle, "t01"), (run, "t01"), margin).unwrap()
}

fn refused(bundle: &RunRecord, run: &RunRecord) -> String {
    Check::of_records((bundle, "t01"), (run, "t01"), 0.0).unwrap_err().to_string()
}

fn whole(scores: impl IntoIterator<Item = f64>) -> Vec<Option<f64>> {
    scores.into_iter().map(Some).collect()
}

/// Scores in fifths.
fn drawn(random: &mut Random, n: usize) -> Vec<f64> {
    (0..n).map(|_| (random.open_unit() * 6.0).floor() / 5.0).collect()
}

#[test]
fn a_planted_loss_is_found_and_an_improvement_passes() {
    let before = drawn(&mut Random::new(1), 60);
    let after: Vec<f64> = before.iter().enumerate().map(|(i, x)| if i % 3 == 0 { x * 0.5 } else { *x }).collect();
    let (better, worse) = (record(&[("recall", whole(before))]), record(&[("recall", whole(after))]));
    let failed = checked(&better, &worse, 0.0);
    assert_eq!((failed.verdict, failed.metrics[0].outcome), (CheckVerdict::Fail, MetricOutcome::Worse));
    let metric = &failed.metrics[0];
    assert!(metric.difference.unwrap() < -0.05 && metric.corrected.unwrap() < 0.001, "{metric:?}");
    assert!(metric.sentence.starts_with("recall is worse by 0."), "{}", metric.sentence);
    assert_eq!(failed.sentence, "t01 is worse than t01 of the bundle, by recall");

    let passed = checked(&worse, &better, 0.0);
    assert_eq!((passed.verdict, passed.metrics[0].outcome), (CheckVerdict::Pass, MetricOutcome::Passed));
    assert!(passed.metrics[0].difference.unwrap() > 0.05 && passed.metrics[0].p_value.unwrap() > 0.99);

    let allowed = checked(&better, &worse, 0.5);
    assert_eq!(allowed.verdict, CheckVerdict::Pass);
    assert!(
        allowed.metrics[0].sentence.contains("which the margin of 0.500 allows"),
        "{}",
        allowed.metrics[0].sentence
    );
}

#[test]
fn equal_scores_pass_and_what_could_have_been_found_is_told() {
    let scores = whole(drawn(&mut Random::new(2), 75));
    let run = record(&[("recall", scores.clone()), ("ndcg", scores.clone())]);
    let check = checked(&run, &run, 0.0);
    assert_eq!((check.verdict, check.questions), (CheckVerdict::Pass, 75));
    for metric in &check.metrics {
        assert_eq!((metric.difference, metric.p_value, metric.detectable_loss), (Some(0.0), Some(1.0), None));
        let interval = metric.interval.unwrap();
        assert!(interval.low < 0.0 && 0.0 < interval.high, "{interval:?}");
        assert!(
            metric.sentence.ends_with(
                "all 75 scores are equal; with 75 questions, a loss is found only once 6 of them are worse, or more if any \
                 is better"
            ),
            "{}",
            metric.sentence
        );
    }
    let few = record(&[("recall", scores[..4].to_vec())]);
    let few = checked(&few, &few, 0.0);
    assert_eq!(few.verdict, CheckVerdict::Pass);
    assert!(few.metrics[0].sentence.ends_with("no loss can be proven, however large: at least 5 are needed"));
}

#[test]
fn equal_trials_with_noise_pass_in_about_95_of_100_cases() {
    let mut random = Random::new(3);
    let repeats = 200;
    let mut failed = 0;
    for _ in 0..repeats {
        let mut noisy = || record(&["recall", "ndcg"].map(|metric| (metric, whole(drawn(&mut random, 40)))));
        failed += usize::from(checked(&noisy(), &noisy(), 0.0).verdict == CheckVerdict::Fail);
    }
    // 5 % of 200, and three standard deviations.
    assert!((2..=19).contains(&failed), "{failed} of {repeats}");
}

#[test]
fn a_mean_loss_that_too_few_questions_can_prove_is_no_pass() {
    let perfect = || whole(vec![1.0; 10]);
    let lost = |n: usize| whole((0..10).map(|i| if i < n { 0.0 } else { 1.0 }));
    let check = |n: usize, margin: f64| {
        let (before, after) =
            ([("ndcg", perfect()), ("recall", perfect())], [("ndcg", lost(n)), ("recall", perfect())]);
        checked(&record(&before), &record(&after), margin)
    };
    for margin in [0.0, 0.02] {
        let open = check(4, margin);
        assert_eq!(
            (open.verdict, open.metrics[0].outcome),
            (CheckVerdict::Inconclusive, MetricOutcome::TooFew),
            "{open:?}"
        );
        assert_eq!(open.metrics[0].corrected, Some(0.125));
        assert!(open.sentence.contains("by ndcg, and there are too few questions"), "{}", open.sentence);
        let sentence = &open.metrics[0].sentence;
        assert!(sentence.contains("4 of 10 questions differ, 4 of them are worse, and at least 6"), "{sentence}");
        assert!(sentence.contains("rely on the p-value"), "{sentence}");
    }
    assert_eq!(check(2, 0.02).verdict, CheckVerdict::Inconclusive, "0.2 is beyond the margin");
    assert_eq!(check(4, 0.5).verdict, CheckVerdict::Pass, "the margin allows it");
    assert_eq!(check(1, 0.0).verdict, CheckVerdict::Pass, "a mean that is a little below is no doubt");
    assert_eq!(check(6, 0.02).verdict, CheckVerdict::Fail);
}

#[test]
fn equal_trials_of_which_few_questions_differ_are_seldom_left_open() {
    let mut random = Random::new(5);
    let repeats = 200;
    let mut passed = 0;
    for _ in 0..repeats {
        let mut noisy = || {
            let score = |_| if random.open_unit() < 0.04 { 0.0 } else { 1.0 };
            record(&[("recall", whole((0..40).map(score)))])
        };
        passed += usize::from(checked(&noisy(), &noisy(), 0.0).verdict == CheckVerdict::Pass);
    }
    assert!(passed >= 180, "{passed} of {repeats}");
}

#[test]
fn too_many_missing_scores_are_inconclusive_and_fewer_are_left_out() {
    let before = whole(vec![1.0; 20]);
    let with_missing = |n: usize| (0..20).map(|i| if i < n { None } else { Some(1.0) }).collect::<Vec<_>>();
    let check = |n| checked(&record(&[("recall", before.clone())]), &record(&[("recall", with_missing(n))]), 0.0);
    assert_eq!((check(2).verdict, check(2).metrics[0].scored), (CheckVerdict::Pass, 18));
    let open = check(3);
    assert_eq!((open.verdict, open.metrics[0].outcome), (CheckVerdict::Inconclusive, MetricOutcome::Inconclusive));
    assert!(open.metrics[0].sentence.contains("only 17 of 20 questions have both scores"), "{open:?}");
    assert_eq!(check(20).verdict, CheckVerdict::Inconclusive, "nothing is no evidence");

    // A metric that was taken out cannot judge, and a loss by another one is still a loss.
    let both = record(&[("recall", before.clone()), ("ndcg", before)]);
    let one = record(&[("recall", whole(vec![1.0; 20]))]);
    let taken_out = checked(&both, &one, 0.0);
    assert_eq!(taken_out.verdict, CheckVerdict::Inconclusive);
    assert!(taken_out.metrics[1].sentence.contains("the run has no scores by it"), "{taken_out:?}");
    let lost = record(&[("recall", whole(vec![0.0; 20]))]);
    assert_eq!(checked(&both, &lost, 0.0).verdict, CheckVerdict::Fail);
}

#[test]
fn where_questions_are_split_only_those_count_that_chose_neither_trial() {
    // 20 questions, the last 8 of them to report by.
    let split = |scores: Vec<f64>| {
        let mut results = results(&[("recall", whole(scores))]);
        for (place, question) in results.questions.iter_mut().enumerate() {
            question.split = Some(if place < 12 { Split::Tune } else { Split::Test });
        }
        RunRecord::of_results(&results, EXPERIMENT)
    };
    let lost = |from: usize, to: usize| (0..20).map(|i| f64::from(!(from..to).contains(&i))).collect::<Vec<f64>>();
    let before = split(vec![1.0; 20]);
    let check = checked(&before, &split(lost(0, 12)), 0.0);
    assert_eq!((check.verdict, check.questions, check.chosen_by, check.only_in_run), (CheckVerdict::Pass, 8, 12, 0));
    assert!(check.notes.iter().any(|note| note.contains("8 questions of the split `test`")), "{:?}", check.notes);
    assert_eq!(checked(&before, &split(lost(12, 20)), 0.0).verdict, CheckVerdict::Fail);
    // Where one side was chosen by all questions, there is no such part.
    let unsplit = record(&[("recall", whole(vec![1.0; 20]))]);
    let check = checked(&unsplit, &split(lost(0, 12)), 0.0);
    assert_eq!((check.verdict, check.questions, check.chosen_by), (CheckVerdict::Fail, 20, 0));
}

#[test]
fn questions_that_changed_are_refused_by_name_and_others_are_left_out() {
    let scores = whole(vec![1.0; 12]);
    let (bundle, run) = (record(&[("recall", scores.clone())]), record(&[("recall", scores[..10].to_vec())]));
    let check = checked(&bundle, &run, 0.0);
    assert_eq!((check.questions, check.only_in_bundle, check.only_in_run), (10, 2, 0));

    let changed = |change: &dyn Fn(&mut Question)| {
        let mut results = fixture::results(1);
        results.objective = vec!["recall".to_owned()];
        let scores = whole(vec![1.0; 5]);
        fixture::score(&mut results, "recall", &[scores]);
        let before = RunRecord::of_results(&results, EXPERIMENT);
        change(&mut results.questions[1]);
        refused(&before, &RunRecord::of_results(&results, EXPERIMENT))
    };
    let text = changed(&|question| question.question = "Another?".to_owned());
    assert!(text.contains("question `b` is not that of the bundle: its text was changed"), "{text}");
    assert!(text.contains("(a promotion)") && !text.contains("question `a`"), "{text}");
    let quote = eval::Evidence { document: "d".into(), quote: "x".into(), span: None };
    let evidence = changed(&|question| question.evidence.push(quote.clone()));
    assert!(evidence.contains("its evidence was changed"), "{evidence}");

    let mut others = fixture::results(1);
    others.objective = vec!["recall".to_owned()];
    fixture::score(&mut others, "recall", &[whole(vec![1.0; 5])]);
    assert!(refused(&bundle, &RunRecord::of_results(&others, EXPERIMENT)).contains("no question of run zoo-1"));
}

#[test]
fn a_metric_that_is_measured_otherwise_is_refused() {
    let scores = [("recall", whole(vec![1.0; 12]))];
    let with_k = measured_by("[evaluate]\nmetrics = [{ recall = { k = 1 } }]\n", &scores);
    let text = refused(&record(&scores), &with_k);
    assert!(text.contains("recall is not measured as for the bundle"), "{text}");
    // By its label it is another metric, which the run lacks.
    let other = measured_by("[evaluate]\nmetrics = [{ ndcg = {} }]\n", &scores);
    assert!(refused(&record(&scores), &other).contains("recall is not measured as for the bundle"));
    let nothing = RunRecord::of_results(&fixture::results(1), EXPERIMENT);
    assert!(refused(&nothing, &nothing).contains("had no objective"));
}

#[test]
fn where_less_is_better_more_is_a_loss_and_what_is_not_in_the_objective_judges_nothing() {
    let tokens = |n: f64| record(&[("recall", whole(vec![1.0; 12])), ("context_tokens", whole(vec![n; 12]))]);
    let check = checked(&tokens(0.25), &tokens(1.0), 0.0);
    assert_eq!((check.verdict, check.metrics[1].outcome), (CheckVerdict::Pass, MetricOutcome::Shown));
    let mut bundle = fixture::results(1);
    bundle.objective = vec!["context_tokens".to_owned()];
    let mut run = bundle.clone();
    fixture::score(&mut bundle, "context_tokens", &[whole(vec![0.25; 5])]);
    fixture::score(&mut run, "context_tokens", &[whole(vec![1.0; 5])]);
    let (bundle, run) = (RunRecord::of_results(&bundle, EXPERIMENT), RunRecord::of_results(&run, EXPERIMENT));
    let check = checked(&bundle, &run, 0.0);
    assert_eq!(check.verdict, CheckVerdict::Fail);
    assert!(check.metrics[0].sentence.starts_with("context_tokens is worse by 0.750"), "{check:?}");
    assert_eq!(checked(&run, &bundle, 0.0).verdict, CheckVerdict::Pass);
}

/// The first `lost` of `n` questions are lost, the next `won` are won; all others are equal.
fn outcomes(n: usize, lost: usize, won: usize) -> [Vec<Option<f64>>; 2] {
    let before = (0..n).map(|i| if (lost..lost + won).contains(&i) { 0.0 } else { 1.0 });
    let after = (0..n).map(|i| if i < lost { 0.0 } else { 1.0 });
    [whole(before), whole(after)]
}

#[test]
fn the_p_value_is_the_share_of_signs_that_lose_as_much() {
    // Questions that are lost and won, of twenty; the share of the signs of these with as many losses or more.
    for (lost, won, p) in [
        (0, 0, 1.0),
        (1, 0, 0.5),
        (4, 0, 1.0 / 16.0),
        (5, 0, 1.0 / 32.0),
        (10, 0, 1.0 / 1024.0),
        // At least four of five: (1 + 5) / 32; at least five of six: (1 + 6) / 64.
        (4, 1, 6.0 / 32.0),
        (5, 1, 7.0 / 64.0),
        (0, 5, 1.0),
        (1, 1, 0.75),
    ] {
        let [before, after] = outcomes(20, lost, won);
        let check = checked(&record(&[("recall", before)]), &record(&[("recall", after)]), 0.0);
        let metric = &check.metrics[0];
        assert_eq!((metric.p_value, metric.corrected), (Some(p), Some(p)), "{lost} lost and {won} won");
        let difference = (won as f64 - lost as f64) / 20.0;
        assert!((metric.difference.unwrap() - difference).abs() < 1e-12, "{lost} lost and {won} won");
        // Between none and the fewest losses that prove it, with an interval that is all loss, nothing is concluded.
        assert_eq!(check.verdict == CheckVerdict::Fail, p < 0.05, "{lost} lost and {won} won");
    }
}

#[test]
fn each_metric_more_makes_the_test_stricter() {
    // Five losses of one metric are p = 1/32; the other metrics are equal.
    let metrics = ["recall", "ndcg", "mrr"];
    let experiment = "[evaluate]\nmetrics = [{ recall = {} }, { ndcg = {} }, { mrr = {} }]\n";
    for (n, corrected, fewest, verdict) in [
        (1, 1.0 / 32.0, 5, CheckVerdict::Fail),
        (2, 2.0 / 32.0, 6, CheckVerdict::Inconclusive),
        (3, 3.0 / 32.0, 6, CheckVerdict::Inconclusive),
    ] {
        let [before, after] = outcomes(20, 5, 0);
        let of = |first: &Vec<Option<f64>>| {
            let scores =
                |(i, metric): (usize, &&'static str)| (*metric, if i == 0 { first.clone() } else { before.clone() });
            measured_by(experiment, &metrics[..n].iter().enumerate().map(scores).collect::<Vec<_>>())
        };
        let check = checked(&of(&before), &of(&after), 0.0);
        let metric = &check.metrics[0];
        assert_eq!((metric.corrected, metric.fewest_losses), (Some(corrected), fewest), "{n} metrics");
        assert_eq!(check.verdict, verdict, "{n} metrics: {check:?}");
        assert!(check.metrics[1..].iter().all(|metric| metric.outcome == MetricOutcome::Passed));
    }
}

#[test]
fn the_margin_is_a_share_of_the_range_of_each_metric() {
    // On a scale of 0 to 4, each of 20 questions loses 1: a quarter of the range.
    let of = |score: f64| {
        let mut results = results(&[("recall", whole(vec![score; 20]))]);
        results.metrics[0].range = (0.0, 4.0);
        RunRecord::of_results(&results, EXPERIMENT)
    };
    for (margin, verdict) in [
        (0.0, CheckVerdict::Fail),
        (0.24, CheckVerdict::Fail),
        (0.25, CheckVerdict::Pass),
        (0.26, CheckVerdict::Pass),
        (1.0, CheckVerdict::Pass),
    ] {
        let check = checked(&of(3.0), &of(2.0), margin);
        assert_eq!((check.verdict, check.margin), (verdict, margin), "{margin}");
    }
    let text = checked(&of(3.0), &of(2.0), 0.1).sentence;
    assert_eq!(text, "t01 is worse than t01 of the bundle by more than 10.0 % of the range, by recall");
}

#[test]
fn the_order_of_questions_changes_nothing() {
    let [before, after] = outcomes(20, 6, 3);
    let (bundle, run) = (results(&[("recall", before)]), results(&[("recall", after)]));
    let mut turned = run.clone();
    turned.questions.reverse();
    turned.trials[0].questions.reverse();
    let of = |results: &crate::Results| RunRecord::of_results(results, EXPERIMENT);
    let (straight, turned) = (checked(&of(&bundle), &of(&run), 0.0), checked(&of(&bundle), &of(&turned), 0.0));
    let numbers = |check: &Check| {
        let metric = &check.metrics[0];
        (check.questions, metric.bundle, metric.run, metric.p_value, metric.difference, metric.scored)
    };
    assert_eq!(numbers(&straight), numbers(&turned));
    assert_eq!(straight.verdict, turned.verdict);
}

#[test]
fn the_means_are_those_of_the_questions_with_both_scores() {
    let scores = |values: [Option<f64>; 12]| values.to_vec();
    let (one, none) = (Some(1.0), None);
    let before = scores([one, one, one, one, one, one, one, one, one, one, Some(0.0), none]);
    let after = scores([one, one, one, one, one, one, one, one, one, one, Some(0.5), Some(0.5)]);
    let check = checked(&record(&[("recall", before)]), &record(&[("recall", after)]), 0.0);
    let metric = &check.metrics[0];
    assert_eq!((metric.scored, metric.asked), (11, 12));
    assert!((metric.bundle.unwrap() - 10.0 / 11.0).abs() < 1e-12, "{metric:?}");
    assert!((metric.run.unwrap() - 10.5 / 11.0).abs() < 1e-12, "{metric:?}");
}

/// Sets these questions of the first trial to a score that is not there on purpose.
fn not_asked(results: &mut crate::Results, metric: &str, questions: impl IntoIterator<Item = usize>) {
    for question in questions {
        let missing = Scored::missing(Missing::NotAsked("limited".to_owned()));
        results.trials[0].questions[question].scores.insert(metric.to_owned(), missing);
    }
}

#[test]
fn a_question_that_neither_was_asked_is_not_missing_and_one_that_only_one_was_asked_is() {
    let build = |left_out: usize| {
        let mut results = results(&[("recall", whole(vec![1.0; 20]))]);
        not_asked(&mut results, "recall", 0..left_out);
        RunRecord::of_results(&results, EXPERIMENT)
    };
    // Left out of the bundle and of the run, with both scores, and to be expected.
    for (bundle, run, scored, asked, verdict) in [
        (0, 0, 20, 20, CheckVerdict::Pass),
        (10, 10, 10, 10, CheckVerdict::Pass),
        (2, 0, 18, 20, CheckVerdict::Pass),
        (0, 3, 17, 20, CheckVerdict::Inconclusive),
        (10, 11, 9, 10, CheckVerdict::Pass),
        (20, 20, 0, 0, CheckVerdict::Inconclusive),
    ] {
        let check = checked(&build(bundle), &build(run), 0.0);
        let metric = &check.metrics[0];
        assert_eq!((metric.scored, metric.asked, check.verdict), (scored, asked, verdict), "{bundle} and {run}");
    }
    let nobody = checked(&build(20), &build(20), 0.0);
    assert_eq!(nobody.metrics[0].sentence, "recall: it does not apply to these questions, or was not asked of them");
}

#[test]
fn the_metrics_that_judge_are_those_of_the_bundle_and_those_of_the_run_that_the_bundle_has_scores_by() {
    let with = |objective: &[&str], scored: &[&str]| {
        let mut results = results(&[("recall", whole(vec![1.0; 12]))]);
        scored.iter().for_each(|metric| fixture::score(&mut results, metric, &[whole(vec![0.5; 12])]));
        results.objective = objective.iter().map(|metric| (*metric).to_owned()).collect();
        RunRecord::of_results(&results, EXPERIMENT)
    };
    // The objectives of bundle and run, what judges, and what the bundle has no scores by; both have `ndcg`.
    type Case = (&'static [&'static str], &'static [&'static str], &'static [&'static str], &'static [&'static str]);
    let table: [Case; 5] = [
        (&["recall"], &["recall"], &["recall"], &[]),
        (&["recall"], &["ndcg", "recall"], &["recall", "ndcg"], &[]),
        (&["ndcg", "recall"], &["recall"], &["ndcg", "recall"], &[]),
        (&["recall"], &["recall", "mrr"], &["recall"], &["mrr"]),
        (&["recall"], &["mrr", "ndcg", "faithfulness"], &["recall", "ndcg"], &["mrr", "faithfulness"]),
    ];
    for (before, now, judging, unknown) in table {
        let (bundle, run) = (with(before, &["ndcg"]), with(now, &["ndcg"]));
        assert_eq!(objective(&bundle, &run), (judging.to_vec(), unknown.to_vec()), "{before:?} and {now:?}");
    }
    let check = checked(&with(&["recall"], &[]), &with(&["recall", "mrr"], &[]), 0.0);
    let note = "the objective of the run has mrr, which the bundle has no scores for; it does not affect the verdict";
    assert!(check.notes.iter().any(|found| found == note), "{:?}", check.notes);
}

#[test]
fn a_metric_beside_the_objective_that_was_measured_otherwise_is_not_shown() {
    let results = results(&[("recall", whole(vec![1.0; 12])), ("context_tokens", whole(vec![0.5; 12]))]);
    let other = EXPERIMENT.replace("{ context_tokens = {} }", "{ context_precision = {} }");
    let (same, other) = (RunRecord::of_results(&results, EXPERIMENT), RunRecord::of_results(&results, &other));
    let named = |check: &Check| check.metrics.iter().map(|metric| metric.metric.clone()).collect::<Vec<_>>();
    assert_eq!(named(&checked(&same, &same, 0.0)), ["recall", "context_tokens"]);
    let check = checked(&same, &other, 0.0);
    assert_eq!((named(&check), check.verdict), (vec!["recall".to_owned()], CheckVerdict::Pass));
    assert!(check.notes.contains(&"context_tokens was measured otherwise for the bundle, and is not shown".to_owned()));
}

#[test]
fn a_question_counts_as_unseen_only_where_it_chose_neither_trial() {
    let split = |tests: &[usize]| {
        let mut results = results(&[("recall", whole(vec![1.0; 6]))]);
        for (place, question) in results.questions.iter_mut().enumerate() {
            question.split = Some(if tests.contains(&place) { Split::Test } else { Split::Tune });
        }
        RunRecord::of_results(&results, EXPERIMENT)
    };
    // The questions of the split `test` of bundle and run, and the pairs that count.
    for (before, now, expected) in [
        (&[4, 5][..], &[4, 5][..], &[4, 5][..]),
        (&[3, 4, 5], &[4], &[4]),
        (&[0, 1], &[4, 5], &[0, 1, 2, 3, 4, 5]),
        (&[], &[4, 5], &[0, 1, 2, 3, 4, 5]),
        (&[], &[], &[0, 1, 2, 3, 4, 5]),
    ] {
        let (bundle, run) = (split(before), split(now));
        let all = pairs(&bundle, &run);
        assert_eq!(all, (0..6).map(|i| (i, i)).collect::<Vec<_>>());
        let expected: Vec<(usize, usize)> = expected.iter().map(|&i| (i, i)).collect();
        assert_eq!(unseen(&bundle, &run, &all), expected, "{before:?} and {now:?}");
    }
}

#[test]
fn questions_are_paired_by_their_ids_in_the_order_of_the_run() {
    let asked = |ids: &[&str]| {
        let mut results = results(&[("recall", whole(vec![1.0; ids.len()]))]);
        results.questions.iter_mut().zip(ids).for_each(|(question, id)| question.id = (*id).to_owned());
        RunRecord::of_results(&results, EXPERIMENT)
    };
    let (bundle, run) = (asked(&["a", "b", "c"]), asked(&["d", "c", "a"]));
    assert_eq!(pairs(&bundle, &run), [(2, 1), (0, 2)]);
    assert_eq!(pairs(&run, &bundle), [(2, 0), (1, 2)]);
}

#[test]
fn scores_that_do_not_fit_the_questions_and_unknown_trials_are_refused() {
    let whole_record = record(&[("recall", whole(vec![1.0; 12]))]);
    let mut cut = results(&[("recall", whole(vec![1.0; 12]))]);
    cut.trials[0].questions.pop();
    let cut = RunRecord::of_results(&cut, EXPERIMENT);
    let text = "run zoo-1 of 2026-11-22 10:07 UTC: its scores are damaged; run again";
    assert_eq!(refused(&whole_record, &cut), text);
    assert_eq!(refused(&cut, &whole_record), text);
    let unknown = Check::of_records((&whole_record, "t01"), (&whole_record, "t02"), 0.0).unwrap_err();
    assert_eq!(unknown.to_string(), "there is no trial `t02`; there are t01");
    let unknown = Check::of_records((&whole_record, "t03"), (&whole_record, "t01"), 0.0).unwrap_err();
    assert_eq!(unknown.to_string(), "there is no trial `t03`; there are t01");
}

#[test]
fn a_run_without_scores_by_a_metric_of_the_bundle_is_not_refused_for_it() {
    // It is inconclusive instead, whatever the experiment says of the metric.
    let bundle = record(&[("recall", whole(vec![1.0; 12])), ("ndcg", whole(vec![1.0; 12]))]);
    let experiment = "[evaluate]\nmetrics = [{ recall = {} }]\n";
    let run = measured_by(experiment, &[("recall", whole(vec![1.0; 12]))]);
    let check = checked(&bundle, &run, 0.0);
    assert_eq!(check.verdict, CheckVerdict::Inconclusive);
    assert_eq!(
        check.sentence, "too many scores are missing to compare t01 with t01 of the bundle, by ndcg",
        "{:?}",
        check.metrics
    );
}

#[test]
fn documents_that_changed_since_the_bundle_are_counted() {
    let with = |run: &str, files: &[(&str, &str)]| {
        let mut results = results(&[("recall", whole(vec![1.0; 12]))]);
        results.run = run.to_owned();
        recorded(&results, EXPERIMENT, |provenance| {
            provenance.documents = (files.iter())
                .map(|(path, text)| IndexedDocument {
                    path: (*path).to_owned(),
                    bytes: text.len() as u64,
                    key: Key::of_bytes(text.as_bytes()),
                })
                .collect();
        })
    };
    let told = |counts: &str| {
        format!("the documents are not those of the bundle ({counts}), so that a difference may come from them")
    };
    let before = with("zoo-1", &[("a", "1"), ("b", "2"), ("c", "3")]);
    for (files, expected) in [
        (&[("a", "1"), ("b", "2"), ("c", "3")][..], None),
        (&[("c", "3"), ("b", "2"), ("a", "1")], None),
        (&[("a", "1"), ("b", "2")], Some(told("1 removed"))),
        (&[("a", "9"), ("b", "2"), ("c", "3")], Some(told("1 changed"))),
        (&[("a", "9"), ("b", "9"), ("d", "3"), ("e", "")], Some(told("2 added, 2 changed, 1 removed"))),
        (&[], Some(told("3 removed"))),
    ] {
        assert_eq!(notes(&before, &with("zoo-2", files)), Vec::from_iter(expected), "{files:?}");
    }
    let same = "the bundle was made from this same run, zoo-1: nothing has changed";
    assert_eq!(notes(&before, &before), [same]);
}

#[test]
fn the_labels_of_both_sides_name_the_settings_in_which_they_differ() {
    // Trials `t01` and `t02` of the fixture differ in `top_k`, and a record of other settings in the chunker too.
    let mut other = fixture::results(2);
    fixture::score(&mut other, "recall", &[whole(vec![1.0; 5]), whole(vec![1.0; 5])]);
    let record = RunRecord::of_results(&other, EXPERIMENT);
    let [promoted, run] = sides((&record, "t01"), (&record, "t02"));
    assert_eq!((promoted.trial.as_str(), run.trial.as_str()), ("t01", "t02"));
    assert_eq!(
        (promoted.labels["retriever"].as_str(), run.labels["retriever"].as_str()),
        ("bm25(top_k=1)", "bm25(top_k=2)")
    );
    assert_eq!((promoted.labels["chunker"].as_str(), run.labels["chunker"].as_str()), ("sentence", "sentence"));
    assert_eq!((run.run.as_str(), run.run_time_ms), ("zoo-1", 1_795_342_062_000));
    let [one, two] = sides((&record, "t02"), (&record, "t02"));
    assert_eq!((one.labels["retriever"].as_str(), one.labels == two.labels), ("bm25", true), "nothing differs");
}

/// A metric of which only what decides is given.
fn metric(
    outcome: MetricOutcome,
    higher_is_better: bool,
    interval: Option<(f64, f64)>,
    fewest: usize,
) -> CheckedMetric {
    CheckedMetric {
        metric: "recall".to_owned(),
        outcome,
        sentence: String::new(),
        higher_is_better,
        bundle: None,
        run: None,
        difference: None,
        interval: interval.map(|(low, high)| Interval { low, high }),
        p_value: None,
        corrected: None,
        scored: 0,
        asked: 0,
        detectable_loss: None,
        fewest_losses: fewest,
    }
}

#[test]
fn one_loss_fails_and_what_cannot_be_told_leaves_it_open() {
    use CheckVerdict::{Fail, Inconclusive as Open, Pass};
    use MetricOutcome::{Inconclusive, Passed, Shown, TooFew, Worse};
    for (outcomes, expected) in [
        (&[Passed][..], Pass),
        (&[], Pass),
        (&[Shown], Pass),
        (&[Passed, Worse], Fail),
        (&[Worse, Inconclusive], Fail),
        (&[TooFew, Worse], Fail),
        (&[Passed, Inconclusive], Open),
        (&[TooFew, Passed], Open),
    ] {
        let metrics: Vec<CheckedMetric> = outcomes.iter().map(|outcome| metric(*outcome, true, None, 5)).collect();
        assert_eq!(verdict(&metrics), expected, "{outcomes:?}");
    }
}

#[test]
fn a_loss_is_open_where_too_few_questions_differ_and_the_margin_or_the_interval_says_that_it_is_one() {
    let loss = Some((-0.5, -0.1));
    let around = Some((-0.5, 0.1));
    // Questions, how many of them are lost, what is allowed, the interval of the difference, whether questions lack.
    for (questions, lost, allowed, interval, expected) in [
        (20, 4, 0.0, loss, true),
        (20, 5, 0.0, loss, false),
        (20, 4, 0.0, around, false),
        (20, 4, 0.0, None, false),
        (20, 4, 0.01, around, true),
        (20, 5, 0.01, around, false),
        (4, 4, 0.0, around, true),
        (5, 4, 0.0, around, false),
    ] {
        let gains: Vec<f64> = (0..questions).map(|i| if i < lost { -1.0 } else { 0.0 }).collect();
        let found = metric(MetricOutcome::Passed, true, interval, 5).lacks_questions(&gains, allowed);
        assert_eq!(found, expected, "{questions} questions, {lost} lost, {allowed} allowed, {interval:?}");
    }
    // Where less is better, a loss is a difference above 0.
    let gains = [-1.0, -1.0, 0.0, 0.0, 0.0, 0.0];
    let lacks = |interval| metric(MetricOutcome::Passed, false, Some(interval), 5).lacks_questions(&gains, 0.0);
    assert_eq!((lacks((0.1, 0.5)), lacks((-0.1, 0.5)), lacks((-0.5, -0.1))), (true, false, false));
}

#[test]
fn a_warning_fails_a_check_only_if_its_code_is_named_and_it_concerns_the_trial() {
    let scores = [("recall", whole([1.0, 0.5, 1.0, 0.5, 1.0, 1.0]))];
    let warning = |code, trials: &[&str]| Warning {
        code,
        trials: trials.iter().map(|&id| id.to_owned()).collect(),
        text: "told".to_owned(),
        count: None,
        total: None,
        action: "nothing".to_owned(),
    };
    let mut found = results(&scores);
    found.warnings = vec![
        warning(WarningCode::RetrievesNothing, &["t01"]),
        warning(WarningCode::LongTexts, &["t02"]),
        warning(WarningCode::UnreadTypes, &[]),
    ];
    found.looked_for = Some(WarningCode::ALL.to_vec());
    let run = RunRecord::of_results(&found, EXPERIMENT);
    let check = checked(&record(&scores), &run, 0.0);
    let told: Vec<WarningCode> = check.warnings.iter().map(|warning| warning.code).collect();
    assert_eq!(told, [WarningCode::RetrievesNothing, WarningCode::UnreadTypes], "another trial's is left out");
    assert_eq!(check.verdict, CheckVerdict::Pass);
    for codes in [&[][..], &[WarningCode::LongTexts], &[WarningCode::EqualTrials]] {
        assert_eq!(check.clone().with_failing_warnings(codes, &run), check, "{codes:?}");
    }
    let failed = check.clone().with_failing_warnings(&[WarningCode::UnreadTypes, WarningCode::RetrievesNothing], &run);
    assert_eq!(failed.verdict, CheckVerdict::Fail);
    let named = "t01 has a warning that fails a check: `retrieves-nothing`, `unread-types`; ";
    assert_eq!(failed.sentence, format!("{named}{}", check.sentence));
}

#[test]
fn a_code_that_was_not_looked_for_in_the_run_is_told_by_a_check() {
    let codes = [WarningCode::EvidenceInNoChunk, WarningCode::LongTexts, WarningCode::EvidenceInNoChunk];
    assert_eq!(unknown_warnings(&codes, Some(WarningCode::ALL)), None);
    assert_eq!(unknown_warnings(&[], None), None);
    let on_cluster = unknown_warnings(&codes, Some(&[WarningCode::LongTexts])).unwrap();
    assert!(
        on_cluster.contains("warning `evidence-in-no-chunk` is not known: ") && on_cluster.contains("on a cluster"),
        "{on_cluster}"
    );
    let earlier = unknown_warnings(&codes, None).unwrap();
    assert!(earlier.contains("`evidence-in-no-chunk`, `long-texts` is not known: an earlier version"), "{earlier}");
}
