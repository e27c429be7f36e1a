//! Verdicts on planted scores.

use super::*;
use crate::results::fixture;
use eval::{Question, dataset::Split, statistics::Random};

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
                "all 75 scores are equal; with 75 questions, a loss is found only once 6 of them are worse and none is better"
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
        assert!(sentence.contains("believe p"), "{sentence}");
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
