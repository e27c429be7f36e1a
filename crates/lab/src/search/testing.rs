//! Recorded and planted grids, and a strategy run on one.

use super::{Problem, Seen, Strategy};
use eval::statistics::Random;
use std::collections::BTreeMap;

/// All scores of a full grid: by trial, by question.
pub(crate) struct Grid {
    pub(crate) labels: Vec<BTreeMap<String, String>>,
    pub(crate) scores: Vec<Seen>,
}

impl Grid {
    pub(crate) fn problem(&self) -> Problem {
        Problem {
            trials: self.labels.clone(),
            choices: self.labels.clone(),
            questions: self.scores[0].len(),
            width: 1.0,
        }
    }
}

/// What a run of a strategy saw.
pub(crate) struct Found {
    pub(crate) seen: Vec<Seen>,
    pub(crate) answers: usize,
}

/// A grid over axes of these sizes: each value adds to the mean, later values
/// more, questions differ in difficulty, and each answer has its own noise.
pub(crate) fn planted(axes: &[usize], questions: usize, step: f64, seed: u64) -> Grid {
    let mut random = Random::new(seed);
    let mut labels = vec![BTreeMap::new()];
    for (axis, &size) in axes.iter().enumerate() {
        let with = |labels: &BTreeMap<String, String>, value: usize| {
            let mut labels = labels.clone();
            labels.insert(format!("axis{axis}"), value.to_string());
            labels
        };
        labels = labels.iter().flat_map(|known| (0..size).map(move |value| with(known, value))).collect();
    }
    let difficulty: Vec<f64> = (0..questions).map(|_| random.open_unit()).collect();
    let scores = labels
        .iter()
        .map(|labels| {
            let quality: usize = labels.values().filter_map(|value| value.parse::<usize>().ok()).sum();
            let score = |hard: &f64| {
                Some((0.7 - 0.4 * hard + step * quality as f64 + 0.2 * (random.open_unit() - 0.5)).clamp(0.0, 1.0))
            };
            difficulty.iter().map(score).collect()
        })
        .collect();
    Grid { labels, scores }
}

/// Runs a strategy to its end.
pub(crate) fn run(strategy: &mut dyn Strategy, grid: &Grid) -> Found {
    let mut seen: Vec<Seen> = vec![Vec::new(); grid.scores.len()];
    for _ in 0..10_000 {
        let asked = strategy.next(&seen);
        let before: Vec<usize> = seen.iter().map(Vec::len).collect();
        assert_eq!(asked.len(), seen.len());
        assert!(asked.iter().zip(&before).all(|(now, before)| now >= before), "nothing is taken back");
        if asked == before {
            return Found { answers: before.iter().sum(), seen };
        }
        for ((seen, scores), n) in seen.iter_mut().zip(&grid.scores).zip(asked) {
            *seen = scores[..n].to_vec();
        }
    }
    panic!("the search does not end");
}
