//! How often a race eliminates the best of equal trials, where metrics do not
//! apply to a part of the questions and where calls failed.
//!
//!     cargo run --release --example race_errors [-- SAMPLES]
//!
//! All trials have the same true mean. The best trial is the one with the
//! highest mean over all scores, including those that failed and that the race
//! never saw. `before` fills gaps with the trial's own mean, as races used to
//! do.

#![allow(clippy::print_stdout)]

use eval::statistics::{Random, mean};
use lab::search::{SearchConfig, SearchProblem, StopKind, TrialScores};
use rayon::prelude::*;
use std::collections::BTreeMap;

const TRIALS: usize = 24;
const QUESTIONS: usize = 100;

/// How scores are distributed.
#[derive(Clone, Copy)]
enum Kind {
    Even,
    ZeroOrOne,
}

/// Scores of equal trials, and the same with gaps.
fn grid(kind: Kind, not_applicable: f64, failed: f64, seed: u64) -> (Vec<TrialScores>, Vec<TrialScores>) {
    let mut random = Random::new(seed);
    let hard: Vec<f64> = (0..QUESTIONS).map(|_| random.open_unit()).collect();
    let applies: Vec<bool> = (0..QUESTIONS).map(|_| random.open_unit() > not_applicable).collect();
    let (mut whole, mut seen) = (vec![], vec![]);
    for _ in 0..TRIALS {
        let mut all: TrialScores = Vec::new();
        let mut known: TrialScores = Vec::new();
        for (hard, applies) in hard.iter().zip(&applies) {
            let score = match kind {
                Kind::Even => 0.5 * (hard + random.open_unit()),
                Kind::ZeroOrOne => f64::from(u8::from(random.open_unit() < 0.2 + 0.6 * hard)),
            };
            let fails = random.open_unit() < failed;
            all.push(Some(score).filter(|_| *applies));
            known.push(Some(score).filter(|_| *applies && !fails));
        }
        whole.push(all);
        seen.push(known);
    }
    (whole, seen)
}

fn own_mean(scores: &TrialScores) -> f64 {
    mean(&scores.iter().copied().flatten().collect::<Vec<_>>()).unwrap_or_default()
}

/// Whether the best trial was eliminated, and how many were.
fn race(whole: &[TrialScores], known: &[TrialScores], error_rate: f64) -> Result<(bool, usize), String> {
    let problem = SearchProblem {
        trials: vec![BTreeMap::new(); TRIALS],
        choices: vec![BTreeMap::new(); TRIALS],
        questions: QUESTIONS,
        width: 1.0,
    };
    let config = serde_json::json!({ "race": { "error_rate": error_rate, "share": 1.0 } });
    let config: SearchConfig = serde_json::from_value(config).map_err(|error| error.to_string())?;
    let mut race = config.build(&problem).map_err(|error| error.to_string())?;
    let mut seen: Vec<TrialScores> = vec![Vec::new(); TRIALS];
    loop {
        let asked = race.next(&seen);
        if asked.iter().zip(&seen).all(|(asked, seen)| *asked <= seen.len()) {
            break;
        }
        for ((seen, known), n) in seen.iter_mut().zip(known).zip(asked) {
            *seen = known[..n].to_vec();
        }
    }
    let best = (0..TRIALS).max_by(|&a, &b| own_mean(&whole[a]).total_cmp(&own_mean(&whole[b]))).unwrap_or_default();
    let stops = race.stops(&seen);
    let eliminated = |trial: &usize| stops.get(trial).is_some_and(|stop| stop.kind == StopKind::Eliminated);
    Ok((eliminated(&best), (0..TRIALS).filter(eliminated).count()))
}

fn main() -> Result<(), String> {
    let samples: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000);
    println!("{TRIALS} equal trials, {QUESTIONS} questions, {samples} races each");
    println!(
        "{:<10}{:>12}{:>16}{:>9}{:>18}{:>18}{:>22}",
        "scores", "error rate", "not applicable", "failed", "best eliminated", "before", "eliminated a race"
    );
    for (name, kind) in [("even", Kind::Even), ("0/1", Kind::ZeroOrOne)] {
        for error_rate in [0.05, 0.2] {
            for (not_applicable, failed) in [(0.0, 0.0), (0.2, 0.0), (0.4, 0.0), (0.6, 0.0), (0.0, 0.3), (0.4, 0.3)] {
                let one = |seed: u64| -> Result<(bool, bool, usize), String> {
                    let (whole, known) = grid(kind, not_applicable, failed, seed);
                    let fill = |scores: &TrialScores| scores.iter().map(|it| it.or(Some(own_mean(scores)))).collect();
                    let filled: Vec<TrialScores> = known.iter().map(fill).collect();
                    let (wrong, count) = race(&whole, &known, error_rate)?;
                    Ok((wrong, race(&whole, &filled, error_rate)?.0, count))
                };
                let found: Vec<(bool, bool, usize)> =
                    (0..samples).into_par_iter().map(one).collect::<Result<_, _>>()?;
                let share = |wrong: usize| 100.0 * wrong as f64 / samples as f64;
                println!(
                    "{name:<10}{error_rate:>12}{:>14.0} %{:>7.0} %{:>16.1} %{:>16.1} %{:>22.2}",
                    100.0 * not_applicable,
                    100.0 * failed,
                    share(found.iter().filter(|it| it.0).count()),
                    share(found.iter().filter(|it| it.1).count()),
                    found.iter().map(|it| it.2).sum::<usize>() as f64 / samples as f64,
                );
            }
        }
    }
    Ok(())
}
