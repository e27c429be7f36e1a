//! Scores as text, and who wins by them.
//!
//! A row is a trial, a character is a score of one question: `0` to `9` are tenths and `X` is 1; `!` is missing because
//! the provider failed, `~` because the judge's reply cannot be read, `-` does not apply, `p` has no place, `.` was not
//! asked. A `|` stands between metrics. What follows a space says how a search stopped the trial.

use super::{
    MetricResult, QuestionResult, Results, RetrievalCount, SEED, Winner, choose, fixture,
    objective::{ObjectivePart, contribution, summary},
};
use crate::search::{Stop, StopKind};
use eval::{Missing, Question, Score, Scored, dataset::Split, statistics::Summary};
use std::collections::BTreeMap;

const METRICS: [&str; 2] = ["recall", "token_f1"];

fn score(symbol: char) -> Score {
    Score::Missing(match symbol {
        'X' => return Score::Value(1.0),
        '!' => Missing::ProviderError("down".to_owned()),
        '~' => Missing::JudgeUnparsable("no JSON".to_owned()),
        '-' => Missing::NotApplicable("it has no passages".to_owned()),
        'p' => Missing::PassagesWithoutPlace,
        '.' => Missing::NotAsked("limited".to_owned()),
        digit => return Score::Value(f64::from(digit.to_digit(10).unwrap()) / 10.0),
    })
}

fn stop(letter: &str) -> Stop {
    let kind = match letter {
        "eliminated" => StopKind::Eliminated,
        "out_of_calls" => StopKind::OutOfCalls,
        "not_tried" => StopKind::NotTried,
        other => panic!("{other}"),
    };
    Stop { kind, questions: 2, reason: "late".to_owned() }
}

/// Results with these scores; all metrics choose, and nothing is chosen yet.
fn results(rows: &[&str]) -> Results {
    let mut results = fixture::results(rows.len());
    let columns = |row: &str| -> Vec<Vec<Score>> {
        let scores = row.split(' ').next().unwrap();
        scores.split('|').map(|metric| metric.chars().map(score).collect()).collect()
    };
    let n_metrics = rows.first().map_or(1, |row| columns(row).len());
    let asked = rows.first().map_or(0, |row| columns(row)[0].len());
    results.questions = (0..asked).map(|i| Question { id: format!("q{i}"), ..Question::default() }).collect();
    results.objective = METRICS[..n_metrics].iter().map(|name| (*name).to_owned()).collect();
    let metric = |name: &String| MetricResult {
        name: name.clone(),
        judged: false,
        objective: true,
        range: (0.0, 1.0),
        higher_is_better: true,
        correctness: false,
    };
    results.metrics = results.objective.iter().map(metric).collect();
    for (trial, row) in results.trials.iter_mut().zip(rows) {
        let columns = columns(row);
        assert!(columns.iter().all(|column| column.len() == asked), "{row}");
        let scores_of = |question: usize| {
            let scored = METRICS.iter().zip(&columns);
            scored.map(|(name, column)| ((*name).to_owned(), Scored::plain(column[question].clone()))).collect()
        };
        let empty = trial.questions[0].clone();
        let question = |i: usize| QuestionResult { question: format!("q{i}"), scores: scores_of(i), ..empty.clone() };
        trial.questions = (0..asked).map(question).collect();
        let summarised = METRICS.iter().zip(&columns);
        trial.metrics =
            summarised.map(|(name, column)| ((*name).to_owned(), Summary::of(column, (0.0, 1.0), SEED))).collect();
        trial.stopped = row.split_once(' ').map(|(_, letter)| stop(letter));
    }
    results
}

fn winner(results: &mut Results) -> Winner {
    choose(&mut results.trials, &results.metrics, &results.objective, &results.questions)
}

/// What is expected of a table of scores.
#[derive(Debug)]
enum Expected {
    Wins(&'static str),
    Leads(&'static str),
    /// What the refusal contains.
    Refused(&'static str),
}
use Expected::{Leads, Refused, Wins};

#[track_caller]
fn check(case: &str, rows: &[&str], expected: &Expected) {
    let found = winner(&mut results(rows));
    let is_expected = match (expected, &found) {
        (Wins(id), Winner::Trial(found)) | (Leads(id), Winner::Leads(found)) => id == found,
        (Refused(part), Winner::Refused(text)) => text.contains(part),
        _ => false,
    };
    assert!(is_expected, "{case}: {expected:?}, and it was {found:?}");
}

#[test]
fn a_trial_wins_only_where_the_scores_exclude_every_other_one() {
    let table: [(&str, &[&str], Expected); 13] = [
        ("one trial has nothing to be better than", &["88888888"], Leads("t01")),
        ("a lag on all of eight questions", &["99999999", "22222222"], Wins("t01")),
        ("the order of the trials does not decide", &["22222222", "99999999"], Wins("t02")),
        ("equal scores: the first by its id", &["55555555", "55555555"], Leads("t01")),
        // With two trials the test flips signs: 2 of 2⁵ sign patterns lag as much, which is more than 5 %.
        ("five questions are too few to tell", &["99999", "22222"], Leads("t01")),
        ("equal means of other questions", &["80808080", "08080808"], Leads("t01")),
        ("one tie is enough", &["99999999", "99999999", "22222222"], Leads("t01")),
        ("all others are excluded", &["22222222", "99999999", "33333333"], Wins("t02")),
        // 0.7 and 0.6 as means over both metrics.
        ("the mean over metrics", &["99999999|55555555", "66666666|66666666"], Wins("t01")),
        ("one metric each way", &["99999999|11111111", "11111111|99999999"], Leads("t01")),
        (
            "a trial to which a metric does not apply is not ranked",
            &["99999999|--------", "55555555|55555555", "22222222|22222222"],
            Wins("t02"),
        ),
        ("two trials, of which one is not ranked", &["88888888", "--------"], Leads("t01")),
        ("passages without a place are not ranked either", &["pppppppp", "88888888"], Leads("t02")),
    ];
    for (case, rows, expected) in &table {
        check(case, rows, expected);
    }
}

#[test]
fn missing_scores_refuse_a_winner_only_where_they_could_change_it() {
    let table: [(&str, &[&str], Expected); 12] = [
        // The second is 0.8, and at best (0.8 + 9) / 10 = 0.98.
        (
            "at best above the first",
            &["9999999999", "8!!!!!!!!!"],
            Refused("with them `t02` could be better than `t01`: run again to ask for them, or see `show t02`"),
        ),
        // At best (8 · 0.2 + 2) / 10 = 0.36.
        ("at best still behind", &["9999999999", "22222222!!"], Wins("t01")),
        // The first is at worst 8 · 0.9 / 10 = 0.72.
        ("the first at worst behind 0.8", &["99999999!!", "8888888888"], Refused("`t02` could be better than `t01`")),
        ("the first at worst before 0.7", &["99999999!!", "7777777777"], Wins("t01")),
        // At best (8 · 0.7 + 2) / 10 = 0.76, and (9 · 0.6 + 1) / 10 = 0.64.
        ("both lack scores", &["99999999!!", "77777777!!"], Refused("`t02` could be better than `t01`")),
        ("both lack scores that change nothing", &["99999999!!", "666666666!"], Wins("t01")),
        ("a trial without any score", &["XXXXXXXX", "!!!!!!!!"], Refused("`t02` could be better than `t01`")),
        ("without any score of one metric", &["99999999|99999999", "99999999|!!!!!!!!"], Refused("`t02` could be")),
        ("where one score may still come", &["88888888", "!-------"], Refused("`t02` could be better")),
        ("the only trial lacks scores", &["88!!!!!!"], Leads("t01")),
        (
            "a reply that cannot be read stays missing",
            &["99999999", "8~~~~~~~"],
            Refused(
                "7 of them cannot be obtained by another run, because the judge's reply cannot be read: no JSON; use \
                 another judge",
            ),
        ),
        (
            "what does not apply is not missing",
            // At best it would be (0.8 + 7) / 8 = 0.975.
            &["99999999", "88888---"],
            Leads("t01"),
        ),
    ];
    for (case, rows, expected) in &table {
        check(case, rows, expected);
    }
}

#[test]
fn the_highest_mean_of_easier_questions_is_refused() {
    // The second was scored on ten more questions, which are hard; on the ten that both have it is better.
    let easier: &[&str] = &["9999999999----------", "XXXXXXXXXX0000000000"];
    let text = "`t01` has the highest mean, but not on the same questions as the others: on those that both have scores \
                for, `t02` is better; see `compare t02 t01`";
    check("ten questions in common", easier, &Refused(text));
    // Of four, 2 of 2⁴ sign patterns lag as much: neither is excluded.
    check("four questions in common", &["9999------", "XXXX000000"], &Leads("t01"));
}

#[test]
fn without_questions_metrics_or_scores_the_refusal_says_what_is_lacking() {
    check("no questions", &["", ""], &Refused("there are no golden questions: see [dataset]"));
    let missing = "no trial has scores for recall: recall is missing everywhere, since provider error: down";
    check("no scores", &["!!!!", "!!!!"], &Refused(missing));
    check(
        "no scores of one metric",
        &["9999|~~~~", "8888|~~~~"],
        &Refused("token_f1 is missing everywhere, since the"),
    );
    check("no trial was asked everything", &["99.. eliminated"], &Refused("no trial has scores for recall"));

    let mut judged = results(&["99999999", "22222222"]);
    judged.metrics[0].objective = false;
    let text = "every metric is given by a judge, and a judge chooses only where it is named and qualified";
    assert!(matches!(winner(&mut judged), Winner::Refused(found) if found.starts_with(text)));
    assert!(judged.trials.iter().all(|trial| trial.objective.is_none() && trial.group.is_none()));
    judged.metrics.clear();
    let text = "the experiment has no metrics: see `metrics` under [evaluate]";
    assert_eq!(winner(&mut judged), Winner::Refused(text.to_owned()));
}

#[test]
fn a_stopped_trial_comes_last_and_leaves_the_choice_open_unless_it_was_eliminated() {
    // The stopped trial has the highest mean, of the two questions that it was asked.
    let table: [(&str, &[&str], Expected); 6] = [
        ("beaten", &["99999999", "XX...... eliminated", "22222222"], Wins("t01")),
        ("the calls ran out", &["99999999", "XX...... out_of_calls", "22222222"], Leads("t01")),
        ("never tried", &["99999999", "........ not_tried", "22222222"], Leads("t01")),
        ("beaten, and nothing else is left", &["99999999", "XX...... eliminated"], Leads("t01")),
        (
            "one of two stops is open",
            &["99999999", "11...... eliminated", "22222222", "X....... not_tried"],
            Leads("t01"),
        ),
        ("scores that it lacks do not count", &["99999999", "X!!..... eliminated", "22222222"], Wins("t01")),
    ];
    for (case, rows, expected) in &table {
        check(case, rows, expected);
    }
    let mut stopped = results(&["XX...... eliminated", "22222222", "99999999"]);
    winner(&mut stopped);
    let order: Vec<&str> = stopped.trials.iter().map(|trial| trial.trial.id.as_str()).collect();
    assert_eq!(order, ["t03", "t02", "t01"]);
    assert_eq!((stopped.trials[2].group, stopped.trials[2].p_value), (None, None));
}

#[test]
fn questions_of_the_test_split_choose_nothing_and_are_reported() {
    let split = |rows: &[&str]| {
        let mut results = results(rows);
        results.questions[8..].iter_mut().for_each(|question| question.split = Some(Split::Test));
        let winner = winner(&mut results);
        (winner, results)
    };
    // Over all questions the first has 0.6, the second 0.4.
    let (winner, results) = split(&["22222222XXXXXXXX", "8888888800000000"]);
    assert_eq!(winner, Winner::Trial("t02".to_owned()));
    let means = results.trials.iter().map(|trial| {
        let mean = |summary: &Option<Summary>| summary.as_ref().and_then(|summary| summary.mean).unwrap();
        ((mean(&trial.objective) * 10.0).round(), mean(&trial.test))
    });
    assert_eq!(means.collect::<Vec<_>>(), [(8.0, 0.0), (2.0, 1.0)]);
    let (winner, results) = split(&["2222222299999999", "88888888!!!!!!!!"]);
    assert_eq!(winner, Winner::Trial("t02".to_owned()), "what is missing there changes nothing");
    assert_eq!(results.trials[0].test, None);
}

#[test]
fn what_is_said_of_a_trial_is_its_distance_to_the_first_one() {
    // Four differences of −1 and four of 0: mean −0.5, variance 8 · 0.25 / 7.
    let mut results = results(&["XXXXXXXX", "0000XXXX"]);
    winner(&mut results);
    let [first, second] = &results.trials[..] else { panic!("two trials") };
    assert_eq!((first.effect_size, first.tied, first.questions_needed), (None, false, None));
    let expected = -0.5 / (2.0_f64 / 7.0).sqrt();
    assert!((second.effect_size.unwrap() - expected).abs() < 1e-12, "{:?}", second.effect_size);
    // Of 2⁴ sign patterns of the four that differ, two lag as much: p = 1/8, from 1,000 or fewer permutations.
    assert!((0.05..0.25).contains(&second.p_value.unwrap()) && second.tied, "{:?}", second.p_value);
    // t is 2.65 already, and 1.96 is critical.
    assert_eq!(second.questions_needed, Some(9), "one more question");
}

#[test]
fn choosing_again_forgets_what_was_chosen_before() {
    let mut results = results(&["99999999", "22222222"]);
    winner(&mut results);
    let before = results.trials.clone();
    let (old, summary) = (&mut results.trials[0], before[1].objective.clone());
    (old.group, old.tied, old.p_value, old.test) = (Some(7), true, Some(0.5), summary);
    (old.effect_size, old.questions_needed) = (Some(3.0), Some(99));
    winner(&mut results);
    assert_eq!(results.trials, before);
}

#[test]
fn where_every_score_is_the_worst_no_trial_is_named() {
    let nothing = "every trial has the worst score by recall for every question, so that none is better than another";
    check("two trials", &["00000000", "00000000"], &Refused(nothing));
    check("one trial", &["0000"], &Refused(nothing));
    check("what does not apply changes nothing", &["0000----", "00000000"], &Refused(nothing));
    check("one score is enough", &["00000001", "00000000"], &Leads("t01"));
    check("a score may still come", &["00000000", "0000000!"], &Refused("with them `t02` could be better"));
    check("a score of the first is missing", &["0000000!", "00000000"], &Refused("and some are missing: run again"));
    let stopped = "every trial that was asked all questions has the worst score by recall for each";
    check("a trial was stopped", &["00000000", "00000000", "11...... out_of_calls"], &Refused(stopped));
    let mut loss = results(&["00000000", "00000000"]);
    metric((0.0, 1.0), false)(&mut loss);
    assert_eq!(winner(&mut loss), Winner::Leads("t01".to_owned()), "less is better, so 0 is the best score");
}

/// Gives each trial a passage with its text for every question, or no passage if the text is empty.
fn retrieve(results: &mut Results, passages: &[&str]) {
    for (trial, text) in results.trials.iter_mut().zip(passages) {
        for question in trial.questions.iter_mut().filter(|_| !text.is_empty()) {
            question.passages = vec![rag::Passage::of_text("a.md".to_owned(), (*text).to_owned())];
        }
    }
}

#[test]
fn a_winner_is_named_although_others_gave_exactly_the_same() {
    let rows = &["99999999", "99999999", "22222222"];
    let mut equal = results(rows);
    retrieve(&mut equal, &["x", "x", "y"]);
    equal.winner = winner(&mut equal);
    assert_eq!(equal.winner, Winner::Trial("t01".to_owned()));
    assert_eq!(
        equal.describe(),
        [
            "winner: t01, by the mean of recall; all other trials are worse (95 % confidence set)",
            "t02 gave the same as t01 for every question, and counts as one with it",
        ]
    );
    let mut other = results(rows);
    retrieve(&mut other, &["x", "z", "y"]);
    assert_eq!(winner(&mut other), Winner::Leads("t01".to_owned()), "only the scores are equal");
    let mut alone = results(&["99999999", "99999999"]);
    retrieve(&mut alone, &["x", "x"]);
    alone.winner = winner(&mut alone);
    assert_eq!(alone.winner, Winner::Leads("t01".to_owned()), "it was compared with nothing else");
    assert_eq!(alone.describe()[0], "no clear winner: t01 leads, by the mean of recall, but all trials gave the same");
}

#[test]
fn equal_trials_take_part_once_and_get_the_verdict_of_the_first() {
    let numbers = |results: &Results, id: &str| {
        let trial = results.trials.iter().find(|trial| trial.trial.id == id).unwrap();
        (trial.group, trial.p_value, trial.questions_needed, trial.effect_size)
    };
    let mut once = results(&["9999X999", "99998999", "22222222"]);
    winner(&mut once);
    let mut often = results(&["9999X999", "99998999", "22222222", "22222222", "99998999", "22222222"]);
    winner(&mut often);
    for (id, twins) in [("t01", &["t01"][..]), ("t02", &["t02", "t05"]), ("t03", &["t03", "t04", "t06"])] {
        for twin in twins {
            assert_eq!(numbers(&often, twin), numbers(&once, id), "{twin}");
        }
    }
    let equal: Vec<Option<&str>> =
        often.trials.iter().map(|trial| trial.equal_to.as_ref().map(|equal| equal.trial.as_str())).collect();
    assert_eq!(equal, [None, None, Some("t02"), None, Some("t03"), Some("t03")]);
}

#[test]
fn the_trial_that_leads_is_told_with_the_questions_for_which_it_found_nothing() {
    let mut found = results(&["9999", "8888"]);
    found.winner = winner(&mut found);
    let before = found.describe();
    found.trials[0].retrieval = Some(RetrievalCount { questions: 15, empty: 14 });
    found.trials[1].retrieval = Some(RetrievalCount { questions: 15, empty: 15 });
    let told = found.describe();
    assert_eq!(told.len(), before.len() + 1);
    assert!(told.contains(&"t01: nothing was retrieved for 14 of 15 questions".to_owned()), "{told:?}");
}

/// A metric with another range or direction.
fn metric(range: (f64, f64), higher_is_better: bool) -> impl Fn(&mut Results) {
    move |results| (results.metrics[0].range, results.metrics[0].higher_is_better) = (range, higher_is_better)
}

#[test]
fn the_objective_has_a_mean_and_the_bounds_that_missing_scores_leave() {
    type Numbers = (f64, f64, f64, [usize; 3]);
    type Case = (&'static str, &'static str, Box<dyn Fn(&mut Results)>, Option<Numbers>);
    let unit = || Box::new(metric((0.0, 1.0), true));
    // Mean, at worst, at best; scored, failed and all.
    let table: [Case; 8] = [
        ("a failed call widens", "0X5!", unit(), Some((0.5, 1.5 / 4.0, 2.5 / 4.0, [3, 1, 4]))),
        ("what does not apply does not", "0X5-", unit(), Some((0.5, 0.5, 0.5, [3, 0, 4]))),
        ("what was not asked does not", "0X5.", unit(), Some((0.5, 0.5, 0.5, [3, 0, 4]))),
        ("no score, no objective", "!!--", unit(), None),
        ("no score of one metric, no objective", "XX|!!", unit(), None),
        // By metric 1, from 0.5 to 1, and 0.
        ("means of means", "X!|00", unit(), Some((0.5, 0.25, 0.5, [3, 1, 4]))),
        ("less is better", "00X!", Box::new(metric((0.0, 1.0), false)), Some((2.0 / 3.0, 0.5, 0.75, [3, 1, 4]))),
        ("from 0.5 to 1", "5X!", Box::new(metric((0.5, 1.0), true)), Some((0.5, 1.0 / 3.0, 2.0 / 3.0, [2, 1, 3]))),
    ];
    for (case, row, change, expected) in table {
        let mut results = results(&[row]);
        change(&mut results);
        let metrics: Vec<&MetricResult> = results.metrics.iter().collect();
        let part = ObjectivePart { questions: &results.questions, test: false };
        let found = summary(&results.trials[0], &metrics, part);
        let Some((mean, worst, best, counts)) = expected else {
            assert_eq!(found, None, "{case}");
            continue;
        };
        let found = found.unwrap_or_else(|| panic!("{case}"));
        for (found, expected) in [(found.mean, mean), (found.worst, worst), (found.best, best)] {
            assert!((found.unwrap() - expected).abs() < 1e-12, "{case}: {found:?} and {expected}");
        }
        assert_eq!([found.n_scored, found.n_failed, found.n_total], counts, "{case}");
    }
}

#[test]
fn a_question_contributes_the_weighted_mean_over_metrics_or_nothing() {
    let mut metrics = results(&["X|X"]).metrics;
    metrics.push(MetricResult { name: "faithfulness".to_owned(), objective: false, ..metrics[0].clone() });
    let of = |weights: &[(&str, &[f64])], scores: [Option<f64>; 3]| {
        let weights = weights.iter().map(|(name, weights)| ((*name).to_owned(), weights.to_vec())).collect();
        contribution(&metrics, &weights, 0, |metric| scores[metric])
    };
    let all = [Some(0.4), Some(0.8), None];
    let close = |found: Option<f64>, expected: f64, case: &str| {
        assert!(found.is_some_and(|found| (found - expected).abs() < 1e-12), "{case}: {found:?}");
    };
    close(of(&[], all), 0.6, "the metric that does not choose is not looked at");
    close(of(&[("recall", &[0.0]), ("token_f1", &[2.0])], all), 0.8, "(0 + 2 · 0.8) / 2");
    close(of(&[("recall", &[0.0])], [None, Some(0.8), None]), 0.4, "a score without weight may be missing");
    assert_eq!(of(&[], [Some(0.4), None, Some(1.0)]), None, "a score with a weight is missing");
    assert_eq!(of(&[("recall", &[0.0]), ("token_f1", &[0.0])], all), None, "nothing counts here");
    close(of(&[("recall", &[])], all), 0.4, "a question without a weight has the weight 0");
}

#[test]
fn contributions_weighted_by_how_many_questions_a_metric_has_average_to_the_objective() {
    // Means 0.5 over four questions and 0.6 over two: 0.55.
    let mut results = results(&["X0X0|84--"]);
    winner(&mut results);
    let weights = BTreeMap::from([("token_f1".to_owned(), vec![2.0, 2.0, 0.0, 0.0])]);
    let contributions = results.contributions(&weights)["t01"].clone();
    let expected = [1.3, 0.4, 0.5, 0.0];
    for (found, expected) in contributions.iter().zip(expected) {
        assert!((found.unwrap() - expected).abs() < 1e-12, "{contributions:?}");
    }
    let mean = contributions.iter().flatten().sum::<f64>() / 4.0;
    assert!((mean - 0.55).abs() < 1e-12);
    assert!((results.trials[0].objective.as_ref().unwrap().mean.unwrap() - mean).abs() < 1e-12);
}

#[test]
fn searched_results_name_the_stop_of_each_trial_and_unfinished_ones_name_nobody() {
    let mut found = results(&["99999999", "22222222", "XX......"]);
    found.winner = winner(&mut found);
    assert_eq!(found.winner, Winner::Leads("t03".to_owned()), "two questions are too few to tell");
    found.apply_search(crate::search::SearchResult {
        strategy: "race".to_owned(),
        answers: 18,
        all_answers: 24,
        stops: BTreeMap::from([("t03".to_owned(), stop("eliminated"))]),
    });
    assert_eq!(found.winner, Winner::Trial("t01".to_owned()));
    let stopped = found.trials.iter().map(|trial| trial.stopped.is_some()).collect::<Vec<_>>();
    assert_eq!(stopped, [false, false, true]);
    found.mark_unfinished("the budget was reached".to_owned());
    assert_eq!((found.winner.trial(), found.winner.first()), (None, None));
    assert_eq!(found.partial.as_deref(), Some("the budget was reached"));
    assert_eq!(found.verdict, ["no winner: not all trials are scored"]);
}
