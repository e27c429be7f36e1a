//! What the sets hold, on scores whose truth is known.

use super::*;
use crate::statistics::paired::sign_flip_p_value;

const LEVEL: f64 = 0.05;

/// Trials with these means over questions that differ in difficulty.
fn trials(means: &[f64], questions: usize, seed: u64) -> Scores {
    let mut random = Random::new(seed);
    let hard: Vec<f64> = (0..questions).map(|_| random.normal()).collect();
    means.iter().map(|mean| hard.iter().map(|hard| Some(mean + hard + random.normal())).collect()).collect()
}

fn groups(metrics: &[Scores]) -> Vec<Option<usize>> {
    confidence_sets(metrics, LEVEL, 1).into_iter().map(|standing| standing.group).collect()
}

/// In how many of 200 experiments a trial is excluded.
fn wrong(make: impl Fn(u64) -> Vec<Scores>) -> usize {
    (0..200).filter(|&seed| groups(&make(seed)).iter().any(|group| *group != Some(1))).count()
}

#[test]
fn equal_trials_are_seldom_called_worse_however_many_there_are() {
    for count in [2, 5, 24] {
        // 5 % of 200 is 10; 3 standard deviations are 9.
        let wrong = wrong(|seed| vec![trials(&vec![0.0; count], 60, seed)]);
        assert!(wrong <= 19, "{count} trials: {wrong} of 200");
    }
}

#[test]
fn worse_trials_have_the_next_groups() {
    let scores = trials(&[3.0, 3.0, 1.5, 1.5, 0.0], 80, 3);
    assert_eq!(groups(&[scores]), [Some(1), Some(1), Some(2), Some(2), Some(3)]);
}

#[test]
fn two_trials_are_compared_as_by_the_sign_flip_test() {
    for seed in 0..20 {
        let scores = trials(&[0.0, 0.3], 40, seed);
        let differences: Vec<f64> = scores[0].iter().zip(&scores[1]).map(|(a, b)| a.unwrap() - b.unwrap()).collect();
        let (flipped, found) = (sign_flip_p_value(&differences, 7), equality_p_value(&[scores], LEVEL, 7));
        // A clear case ends after 100 permutations: four standard deviations.
        let most = 4.0 * (flipped * (1.0 - flipped) / 100.0).sqrt() + 0.01;
        assert!((flipped - found).abs() < most, "{flipped} and {found}");
    }
}

#[test]
fn p_values_never_fall_from_the_worst_to_the_best() {
    let scores = trials(&[2.0, 1.6, 1.2, 0.8, 0.4, 0.0], 60, 5);
    let p_values: Vec<f64> = confidence_sets(&[scores], LEVEL, 1).iter().map(|s| s.p_value.unwrap()).collect();
    assert!(p_values.windows(2).all(|pair| pair[0] >= pair[1]), "{p_values:?}");
    assert!(p_values[0] > LEVEL && p_values[5] < LEVEL, "{p_values:?}");
}

#[test]
fn an_outage_is_no_evidence() {
    // Equal trials; one lost its answers to the easier half of the questions.
    let outage = |seed| {
        let mut scores = trials(&[0.0; 6], 60, seed);
        let mut order: Vec<usize> = (0..60).collect();
        let sum = |q: usize| scores.iter().filter_map(|trial| trial[q]).sum::<f64>();
        order.sort_by(|&a, &b| sum(b).total_cmp(&sum(a)));
        for &question in &order[..30] {
            scores[0][question] = None;
        }
        vec![scores]
    };
    let wrong = wrong(outage);
    assert!(wrong <= 19, "{wrong} of 200");
}

#[test]
fn a_trial_without_scores_is_in_no_group_and_harms_nobody() {
    let mut scores = trials(&[0.0, 0.0, -3.0], 40, 1);
    scores.push(vec![None; 40]);
    let standings = confidence_sets(std::slice::from_ref(&scores), LEVEL, 1);
    assert_eq!(standings[3], Standing::default());
    scores.pop();
    assert_eq!(standings[..3], confidence_sets(&[scores], LEVEL, 1));
}

#[test]
fn a_trial_that_shares_no_question_is_not_excluded() {
    let mut scores = trials(&[0.0, 0.0, -9.0], 40, 1);
    for question in 0..40 {
        let alone = question < 20;
        for trial in &mut scores[..2] {
            trial[question] = trial[question].filter(|_| !alone);
        }
        scores[2][question] = scores[2][question].filter(|_| alone);
    }
    assert_eq!(groups(&[scores])[2], Some(1));
}

#[test]
fn a_metric_that_is_asked_of_fewer_questions_has_as_much_to_say() {
    // Worse by one standard deviation in the metric that 20 of 60 questions are asked.
    let part = |mut scores: Scores| {
        scores.iter_mut().for_each(|trial| trial[20..].fill(None));
        scores
    };
    let worse = vec![trials(&[0.0, 0.0, 0.0], 60, 1), part(trials(&[0.0, 0.0, -3.0], 60, 2))];
    assert_eq!(groups(&worse), [Some(1), Some(1), Some(2)]);
    let wrong = wrong(|seed| vec![trials(&[0.0; 12], 60, seed), part(trials(&[0.0; 12], 60, seed + 1_000))]);
    assert!(wrong <= 19, "{wrong} of 200");
}

#[test]
fn always_behind_by_the_same_is_worse_and_always_equal_is_not() {
    let row = |value: f64| (0..12).map(|i| Some(value + f64::from(i))).collect::<Vec<_>>();
    assert_eq!(groups(&[vec![row(0.5), row(0.4)]]), [Some(1), Some(2)]);
    assert_eq!(groups(&[vec![row(0.5), row(0.5), row(0.5)]]), [Some(1); 3]);
    assert_eq!(groups(&[vec![row(0.5)]]), [Some(1)]);
    assert!(confidence_sets(&[], LEVEL, 1).is_empty());
}

#[test]
fn so_many_questions_do_exclude_a_trial() {
    // Twenty times over: the number that was told, by drawing the questions that
    // there are again, excludes the trial more often than not.
    let mut excluded = 0;
    for seed in 0..20 {
        let scores = trials(&[0.0, -0.25], 60, seed);
        let standings = confidence_sets(std::slice::from_ref(&scores), LEVEL, 1);
        let Some((worse, more)) =
            standings.iter().enumerate().find_map(|(trial, standing)| Some((trial, standing.more_questions?)))
        else {
            excluded += 1;
            continue;
        };
        assert!(more > 0, "{more}");
        let more: Scores = scores.iter().map(|row| row.iter().copied().cycle().take(more + 120).collect()).collect();
        excluded += usize::from(groups(&[more])[worse] == Some(2));
    }
    assert!(excluded >= 15, "{excluded} of 20");
}

#[test]
fn questions_that_tell_nothing_are_not_among_those_that_are_needed() {
    let scores = trials(&[0.0, -0.25], 60, 3);
    let more = |scores: Scores| {
        let standings = confidence_sets(&[scores], LEVEL, 1);
        standings.iter().filter_map(|standing| standing.more_questions).max()
    };
    let with_others = scores.iter().map(|row| [row.clone(), vec![None; 300]].concat()).collect();
    assert!(more(scores.clone()).is_some());
    assert_eq!(more(with_others), more(scores));
}

#[test]
fn trials_that_cannot_be_told_apart_need_no_practical_number_of_questions() {
    let row = |shift: f64| (0..42).map(|i| Some(f64::from(i % 2) + shift * f64::from(i % 3 - 1))).collect::<Vec<_>>();
    let standings = confidence_sets(&[vec![row(1.0), row(-1.0)]], LEVEL, 1);
    assert!(standings.iter().all(|standing| standing.group == Some(1) && standing.more_questions.is_none()));
}

#[test]
fn no_more_than_eight_groups_are_told_apart() {
    let means: Vec<f64> = (0..12).map(|i| -3.0 * f64::from(i)).collect();
    let groups = groups(&[trials(&means, 40, 2)]);
    assert_eq!(groups[..7], [1, 2, 3, 4, 5, 6, 7].map(Some));
    assert!(groups[7..].iter().all(|group| *group == Some(MOST_GROUPS)));
}

#[test]
fn the_same_scores_give_the_same_standings() {
    let scores = vec![trials(&[0.0, -0.3, -0.6], 50, 9)];
    assert_eq!(confidence_sets(&scores, LEVEL, 4), confidence_sets(&scores, LEVEL, 4));
}
