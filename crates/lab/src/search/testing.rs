//! Recorded and planted grids, and a strategy run on one.

use super::{SearchProblem, Strategy, TrialScores};
use eval::statistics::Random;
use std::collections::BTreeMap;

/// All scores of a full grid: by trial, by question.
pub(crate) struct Grid {
    pub(crate) labels: Vec<BTreeMap<String, String>>,
    pub(crate) scores: Vec<TrialScores>,
}

impl Grid {
    pub(crate) fn problem(&self) -> SearchProblem {
        SearchProblem {
            trials: self.labels.clone(),
            choices: self.labels.clone(),
            questions: self.scores[0].len(),
            width: 1.0,
        }
    }
}

/// What a run of a strategy saw.
pub(crate) struct Found {
    pub(crate) seen: Vec<TrialScores>,
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

/// Patterns of missing scores, by name: those of an outage, of metrics that do
/// not apply to some questions or trials, and of chance.
pub(crate) fn with_missing_scores(grid: &Grid, seed: u64) -> Vec<(&'static str, Grid)> {
    let mut random = Random::new(seed);
    let (trials, questions) = (grid.scores.len(), grid.scores[0].len());
    let (one_trial, one_question) = (random.below(trials), random.below(questions));
    let chance: Vec<bool> = (0..trials * questions).map(|_| random.below(2) == 0).collect();
    let shares: Vec<usize> = (0..trials).map(|_| random.below(101)).collect();
    let uneven: Vec<bool> = (0..trials * questions).map(|i| random.below(100) < shares[i / questions]).collect();
    let keep = |has_score: &dyn Fn(usize, usize) -> bool| Grid {
        labels: grid.labels.clone(),
        scores: (0..trials)
            .map(|trial| {
                (0..questions)
                    .map(|question| grid.scores[trial][question].filter(|_| has_score(trial, question)))
                    .collect()
            })
            .collect(),
    };
    vec![
        ("no score at all", keep(&|_, _| false)),
        ("one score in all", keep(&|trial, question| (trial, question) == (one_trial, one_question))),
        ("one score is missing", keep(&|trial, question| (trial, question) != (one_trial, one_question))),
        ("one trial has no score", keep(&|trial, _| trial != one_trial)),
        ("one trial has scores", keep(&|trial, _| trial == one_trial)),
        ("one question has no score", keep(&|_, question| question != one_question)),
        ("one question has scores", keep(&|_, question| question == one_question)),
        ("the first half of the questions has none", keep(&|_, question| question * 2 >= questions)),
        ("the second half of the questions has none", keep(&|_, question| question * 2 < questions)),
        ("trials have scores of different questions", keep(&|trial, question| question % trials == trial)),
        ("every second one by chance", keep(&|trial, question| chance[trial * questions + question])),
        ("a share of each trial by chance", keep(&|trial, question| uneven[trial * questions + question])),
    ]
}

/// Runs a strategy to its end.
pub(crate) fn run(strategy: &mut dyn Strategy, grid: &Grid) -> Found {
    let mut seen: Vec<TrialScores> = vec![Vec::new(); grid.scores.len()];
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
