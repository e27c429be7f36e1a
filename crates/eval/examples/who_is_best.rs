//! Measures `eval::statistics::confidence_sets`.
//!
//!     cargo run --release --example who_is_best -- errors [SAMPLES] [KIND OF SCORES]
//!     cargo run --release --example who_is_best -- power [SAMPLES]
//!     cargo run --release --example who_is_best -- time
//!
//! `errors`: of trials with equal means, in how many of 100 experiments at
//! least one is called worse than the best. The promise is 5. Next to it, the
//! earlier rule: every trial against the observed best, corrected by Holm.
//! `power`: the share of really worse trials that is excluded. The other rules
//! use the paired t-test, since sign flips for all pairs take hours.

#![allow(clippy::print_stdout)]

use eval::statistics::{Random, Scores, confidence_sets, equality_p_value, holm, mean};
use rayon::prelude::*;
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::time::Instant;

const LEVEL: f64 = 0.05;

/// How scores are distributed. "With difficulty": questions differ in it, the
/// same for all trials.
#[derive(Clone, Copy)]
enum Kind {
    Gaussian,
    Skewed,
    /// Gaussian, with difficulty.
    Correlated,
    /// Three kinds of trials, with difficulty: those of one kind are alike,
    /// and differ by a third of what the kinds differ by.
    Alike,
    /// Right or wrong, with difficulty.
    ZeroOrOne,
    /// Standard deviations from 0.3 to 2, with difficulty.
    Spread,
    /// `Spread`, skewed.
    SkewedSpread,
    /// Two metrics: `Correlated` of all questions, `ZeroOrOne` of a third.
    TwoMetrics,
    /// Correlated, and one score in five is missing.
    Gaps,
}

const KINDS: [(&str, Kind); 9] = [
    ("Gaussian", Kind::Gaussian),
    ("skewed", Kind::Skewed),
    ("correlated", Kind::Correlated),
    ("three kinds", Kind::Alike),
    ("0/1", Kind::ZeroOrOne),
    ("sd 0.3 to 2", Kind::Spread),
    ("the same, skewed", Kind::SkewedSpread),
    ("two metrics", Kind::TwoMetrics),
    ("20 % missing", Kind::Gaps),
];

/// Mean 0, standard deviation 1, a long tail to the left.
fn skewed(random: &mut Random) -> f64 {
    1.0 + random.open_unit().ln()
}

fn equal_trials(kind: Kind, trials: usize, questions: usize, random: &mut Random) -> Vec<Scores> {
    let hard: Vec<f64> = (0..questions).map(|_| random.normal()).collect();
    let of_kind: Vec<[f64; 3]> = match kind {
        Kind::Alike => (0..questions).map(|_| [(); 3].map(|()| random.normal())).collect(),
        _ => vec![[0.0; 3]; questions],
    };
    let right =
        |hard: f64, random: &mut Random| f64::from(u8::from(random.open_unit() < 1.0 / (1.0 + (1.5 * hard).exp())));
    let spread = |trial: usize| 0.3 + 1.7 * trial as f64 / (trials.max(2) - 1) as f64;
    let score = |trial: usize, hard: f64, random: &mut Random| match kind {
        Kind::Gaussian => random.normal(),
        Kind::Skewed => skewed(random),
        Kind::Correlated | Kind::Gaps | Kind::TwoMetrics => hard + random.normal(),
        Kind::Alike => hard + random.normal() / 3.0,
        Kind::ZeroOrOne => right(hard, random),
        Kind::Spread => hard + spread(trial) * random.normal(),
        Kind::SkewedSpread => hard + spread(trial) * skewed(random),
    };
    let row = |trial: usize, random: &mut Random| -> Vec<Option<f64>> {
        let mut one = |(hard, of_kind): (&f64, &[f64; 3])| {
            let score = of_kind[trial % 3] + score(trial, *hard, random);
            let missing = matches!(kind, Kind::Gaps) && random.open_unit() < 0.2;
            Some(score).filter(|_| !missing)
        };
        hard.iter().zip(&of_kind).map(&mut one).collect()
    };
    let first: Scores = (0..trials).map(|trial| row(trial, random)).collect();
    if !matches!(kind, Kind::TwoMetrics) {
        return vec![first];
    }
    let mut part =
        || hard.iter().enumerate().map(|(i, hard)| (i % 3 == 0).then(|| 2.0 * right(*hard, random))).collect();
    let second: Scores = (0..trials).map(|_| part()).collect();
    vec![first, second]
}

/// The two-sided p-value of the paired t-test, and the mean difference.
fn t_test(first: &[Option<f64>], second: &[Option<f64>]) -> (f64, f64) {
    let differences: Vec<f64> = first.iter().zip(second).filter_map(|(a, b)| Some((*a)? - (*b)?)).collect();
    let n = differences.len() as f64;
    let center = mean(&differences).unwrap_or_default();
    let variance = differences.iter().map(|x| (x - center).powi(2)).sum::<f64>() / (n - 1.0);
    if variance <= 0.0 {
        return (if center == 0.0 { 1.0 } else { 0.0 }, center);
    }
    let t = center / (variance / n).sqrt();
    let p = StudentsT::new(0.0, 1.0, n - 1.0).map_or(1.0, |student| 2.0 * student.cdf(-t.abs()));
    (p, center)
}

fn means(scores: &Scores) -> Vec<f64> {
    scores.iter().map(|row| mean(&row.iter().copied().flatten().collect::<Vec<_>>()).unwrap_or_default()).collect()
}

/// Who is called worse than the observed best, corrected by Holm.
fn against_the_best(scores: &Scores) -> Vec<bool> {
    let means = means(scores);
    let best = (0..means.len()).max_by(|&a, &b| means[a].total_cmp(&means[b])).unwrap_or_default();
    let others: Vec<usize> = (0..means.len()).filter(|&trial| trial != best).collect();
    let p_values: Vec<f64> = others.iter().map(|&trial| t_test(&scores[trial], &scores[best]).0).collect();
    let mut worse = vec![false; means.len()];
    for (&trial, p) in others.iter().zip(holm(&p_values)) {
        worse[trial] = p <= LEVEL;
    }
    worse
}

/// Who is called worse than some other one, of all pairs, corrected by Holm.
fn all_pairs(scores: &Scores) -> Vec<bool> {
    let pairs: Vec<(usize, usize)> = (0..scores.len()).flat_map(|a| (0..a).map(move |b| (a, b))).collect();
    let tests: Vec<(f64, f64)> = pairs.iter().map(|&(a, b)| t_test(&scores[a], &scores[b])).collect();
    let mut worse = vec![false; scores.len()];
    for ((&(a, b), p), (_, difference)) in
        pairs.iter().zip(holm(&tests.iter().map(|it| it.0).collect::<Vec<_>>())).zip(&tests)
    {
        if p <= LEVEL {
            worse[if *difference < 0.0 { a } else { b }] = true;
        }
    }
    worse
}

fn errors(samples: u64, only: Option<&str>) {
    println!(
        "equal trials: experiments of 100 in which one is called worse ({samples} samples a cell; before: against the observed best)"
    );
    println!("{:<18}{:>6}{:>8}{:>10}{:>10}", "scores", "n", "trials", "set", "before");
    for (name, kind) in KINDS.into_iter().filter(|(name, _)| only.is_none_or(|only| only == *name)) {
        for questions in [20, 60, 500] {
            for trials in [2, 5, 12, 24, 100] {
                let one = |seed: u64| {
                    let metrics = equal_trials(
                        kind,
                        trials,
                        questions,
                        &mut Random::new(seed ^ ((trials as u64) << 40) ^ ((questions as u64) << 20)),
                    );
                    let old = metrics.len() == 1 && against_the_best(&metrics[0]).contains(&true);
                    (equality_p_value(&metrics, LEVEL, seed) <= LEVEL, old)
                };
                let found: Vec<(bool, bool)> = (0..samples).into_par_iter().map(one).collect();
                let share = |wrong: usize| format!("{:.1}", 100.0 * wrong as f64 / samples as f64);
                let old = share(found.iter().filter(|it| it.1).count());
                println!(
                    "{name:<18}{questions:>6}{trials:>8}{:>10}{:>10}",
                    share(found.iter().filter(|it| it.0).count()),
                    if matches!(kind, Kind::TwoMetrics) { "–".to_owned() } else { old }
                );
            }
        }
    }
}

fn power(samples: u64) {
    println!("trials each so many standard deviations worse than the one before ({samples} samples a cell)");
    println!(
        "{:>8}{:>6}{:>8}{:>12}{:>12}{:>12}{:>24}",
        "trials", "n", "step", "set", "before", "all pairs", "best excluded (set)"
    );
    for trials in [6, 12, 24] {
        for questions in [60, 200] {
            for step in [0.1, 0.2] {
                let one = |seed: u64| {
                    let mut random = Random::new(seed + 77);
                    let mut metrics = equal_trials(Kind::Correlated, trials, questions, &mut random);
                    for (trial, row) in metrics[0].iter_mut().enumerate() {
                        row.iter_mut().flatten().for_each(|score| *score -= step * trial as f64);
                    }
                    let set: Vec<bool> = confidence_sets(&metrics, LEVEL, seed)
                        .iter()
                        .map(|standing| standing.group != Some(1))
                        .collect();
                    let share =
                        |worse: &[bool]| worse[1..].iter().filter(|it| **it).count() as f64 / (trials - 1) as f64;
                    [
                        share(&set),
                        share(&against_the_best(&metrics[0])),
                        share(&all_pairs(&metrics[0])),
                        f64::from(u8::from(set[0])),
                    ]
                };
                let found: Vec<[f64; 4]> = (0..samples).into_par_iter().map(one).collect();
                let of = |i: usize| found.iter().map(|it| it[i]).sum::<f64>() / samples as f64;
                println!(
                    "{trials:>8}{questions:>6}{step:>8}{:>12.2}{:>12.2}{:>12.2}{:>22.1} %",
                    of(0),
                    of(1),
                    of(2),
                    100.0 * of(3)
                );
            }
        }
    }
}

fn time() {
    for (trials, questions, step) in
        [(12, 24, 0.05), (12, 24, 0.5), (100, 1_000, 0.0), (100, 1_000, 0.01), (100, 1_000, 0.1)]
    {
        let mut metrics = equal_trials(Kind::Correlated, trials, questions, &mut Random::new(1));
        for (trial, row) in metrics[0].iter_mut().enumerate() {
            row.iter_mut().flatten().for_each(|score| *score -= step * trial as f64);
        }
        let start = Instant::now();
        let standings = confidence_sets(&metrics, LEVEL, 1);
        let seconds = start.elapsed().as_secs_f64();
        let groups = standings.iter().filter_map(|standing| standing.group).max().unwrap_or_default();
        let first = standings.iter().filter(|standing| standing.group == Some(1)).count();
        println!(
            "{trials} trials x {questions} questions, {step} apart: {seconds:.3} s, {groups} groups, {first} in the first"
        );
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let samples = arguments.get(1).and_then(|text| text.parse().ok()).unwrap_or(1_000);
    match arguments.first().map(String::as_str) {
        Some("power") => power(samples),
        Some("time") => time(),
        _ => errors(samples, arguments.get(2).map(String::as_str)),
    }
}
