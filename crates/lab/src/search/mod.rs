//! Searches: which trials are asked which questions. One file each, and one
//! line below.
//!
//! A strategy does not know models or stores: it sees scores, asks for more,
//! and says why it stopped each trial. So the same code runs on recorded grids
//! (`cargo run --release --example search_replay`) and in experiments.
//!
//! All trials are asked the questions in the same random order, and each trial
//! is always asked the first ones. So any two trials can be compared question by question.

mod beside;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

store::registry! {
    /// How trials are chosen from the space.
    #[derive(schemars::JsonSchema)]
    pub enum SearchConfig builds Box<dyn Strategy>, from &SearchProblem, or SearchSettingsError {
        Grid => grid,
        Random => random,
        Race => race,
        SuccessiveHalving => successive_halving,
        Tpe => tpe,
        ModelsFirst => models_first,
    }
}

/// What is wrong with the settings of a search.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say it")]
pub enum SearchSettingsError {
    #[error("`{name}` must be above 0 and at most 1, not {share}")]
    Share { name: &'static str, share: f64 },
    #[error("`error_rate` must be between 0 and 1, not {0}")]
    ErrorRate(f64),
    #[error("`block` and `finalists` must be at least 1")]
    BelowOne,
    #[error("`reduction` must be at least 2 and `least` at least 1")]
    Reduction,
}

impl Default for SearchConfig {
    fn default() -> Self {
        Self::Grid(grid::Config::default())
    }
}

impl SearchConfig {
    /// Whether every trial is asked every question, so that the search has
    /// nothing to decide.
    pub(crate) fn is_exhaustive(&self) -> bool {
        matches!(self, Self::Grid(_))
    }

    /// Whether it asks every trial something, so that one that is added is tried.
    pub(crate) fn admits_more_trials(&self) -> bool {
        matches!(self, Self::Grid(_) | Self::Race(_) | Self::SuccessiveHalving(_))
    }
}

/// The problem that a search solves.
#[derive(Debug, Clone)]
pub struct SearchProblem {
    /// For each trial, the label of its value on each axis.
    pub trials: Vec<BTreeMap<String, String>>,
    /// For each trial, all that was chosen: the component on each axis, and
    /// each of its settings (`retriever.hybrid.top_k`). A setting that a trial's
    /// components do not have is not there.
    pub choices: Vec<BTreeMap<String, String>>,
    /// Questions that a trial can be asked.
    pub questions: usize,
    /// The largest difference that two trials can have at one question.
    pub width: f64,
}

/// A trial's scores so far, in the order of the questions; none where there is
/// no score, because the metrics do not apply or a call failed.
pub type TrialScores = Vec<Option<f64>>;

impl SearchProblem {
    /// The number of answers if every trial were asked everything.
    pub fn answers(&self) -> usize {
        self.trials.len() * self.questions
    }
}

/// Why a trial was not asked all questions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stop {
    /// What decided.
    pub kind: StopKind,
    /// Questions that it was asked.
    pub questions: usize,
    /// The reason in a sentence.
    pub reason: String,
}

/// What decided that a trial was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopKind {
    /// Another trial is better, within the stated error rate.
    Eliminated,
    /// It was behind when the remaining calls went to other trials. It may be
    /// as good.
    OutOfCalls,
    /// It was never tried.
    NotTried,
    /// A person stopped it. It may be as good.
    ByPerson,
}

/// Decides step by step.
pub trait Strategy: Send {
    /// How many questions each trial should have been asked after the next
    /// step. `seen` holds each trial's scores so far. If the numbers do not
    /// change, the search is over.
    fn next(&mut self, seen: &[TrialScores]) -> Vec<usize>;

    /// Why trials were stopped, by trial, as far as is known now.
    fn stops(&self, seen: &[TrialScores]) -> BTreeMap<usize, Stop>;
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchResult {
    /// The strategy's name.
    pub strategy: String,
    /// Answers that were asked for.
    pub answers: usize,
    /// Answers that asking every trial everything would have taken.
    pub all_answers: usize,
    /// Why trials were stopped, by their id.
    pub stops: BTreeMap<String, Stop>,
}

/// The trial with the highest mean among those with the most questions.
pub fn leader(seen: &[TrialScores]) -> Option<usize> {
    let most = seen.iter().map(Vec::len).max().filter(|most| *most > 0)?;
    let finalists = (0..seen.len()).filter(|&trial| seen[trial].len() == most);
    let scored = finalists.filter_map(|trial| Some((trial, mean(&seen[trial])?)));
    scored.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0))).map(|(trial, _)| trial)
}

/// The mean of the scores that are there; none without any.
fn mean(scores: &[Option<f64>]) -> Option<f64> {
    eval::statistics::mean(&scores.iter().copied().flatten().collect::<Vec<f64>>())
}

/// How far each of these trials is above the others: the mean, over its
/// questions, of the difference from the mean of all trials that have a score
/// for the question. So a trial gains nothing if its scores for hard questions
/// are missing. A trial without any score may be the best, so it counts as
/// above all others.
fn standing(trials: &[usize], seen: &[TrialScores]) -> BTreeMap<usize, f64> {
    let most = trials.iter().map(|&trial| seen[trial].len()).max().unwrap_or_default();
    let score = |trial: usize, question: usize| seen[trial].get(question).copied().flatten();
    let means: Vec<Option<f64>> = (0..most)
        .map(|question| mean(&trials.iter().map(|&trial| score(trial, question)).collect::<Vec<_>>()))
        .collect();
    let above = |trial: usize| {
        let differences: TrialScores =
            (0..most).map(|question| Some(score(trial, question)? - means[question]?)).collect();
        (trial, mean(&differences).unwrap_or(f64::INFINITY))
    };
    trials.iter().map(|&trial| above(trial)).collect()
}

/// A share as a number of things: at least one, at most all.
fn part(share: f64, all: usize) -> usize {
    ((share * all as f64).round() as usize).clamp(1, all.max(1))
}

fn check_share(name: &'static str, share: f64) -> Result<(), SearchSettingsError> {
    if share > 0.0 && share <= 1.0 {
        return Ok(());
    }
    Err(SearchSettingsError::Share { name, share })
}

/// The stops of trials that were never asked anything.
fn not_tried(seen: &[TrialScores], reason: &str) -> BTreeMap<usize, Stop> {
    let untried = (0..seen.len()).filter(|&trial| seen[trial].is_empty());
    let stop = || Stop { kind: StopKind::NotTried, questions: 0, reason: reason.to_owned() };
    untried.map(|trial| (trial, stop())).collect()
}

#[cfg(test)]
pub(crate) mod testing;

#[cfg(test)]
mod strategy_tests;

#[cfg(test)]
mod tests {
    use super::testing::{planted, run, with_missing_scores};
    use super::*;

    #[test]
    fn every_strategy_ends_and_asks_nobody_more_than_there_is() {
        let scores = planted(&[3, 2, 2], 60, 0.02, 1);
        for config in SearchConfig::defaults() {
            let (problem, name) = (scores.problem(), config.name());
            let found = run(&mut *config.build(&problem).unwrap(), &scores);
            assert!(found.seen.iter().all(|seen| seen.len() <= 60), "{name}");
            assert!(found.answers <= problem.answers(), "{name}: {}", found.answers);
            assert!(leader(&found.seen).is_some(), "{name} found nothing");
        }
    }

    #[test]
    fn every_trial_that_was_not_asked_everything_has_a_reason() {
        let scores = planted(&[3, 2, 2], 60, 0.02, 2);
        for config in SearchConfig::defaults() {
            let mut strategy = config.build(&scores.problem()).unwrap();
            let found = run(&mut *strategy, &scores);
            let stops = strategy.stops(&found.seen);
            for (trial, seen) in found.seen.iter().enumerate() {
                assert_eq!(stops.contains_key(&trial), seen.len() < 60, "{}: trial {trial}", config.name());
            }
        }
    }

    #[test]
    fn a_strategy_that_is_run_again_decides_the_same() {
        let scores = planted(&[4, 3], 50, 0.05, 3);
        for config in SearchConfig::defaults() {
            let again = || run(&mut *config.build(&scores.problem()).unwrap(), &scores);
            assert_eq!(again().seen, again().seen, "{}", config.name());
        }
    }

    #[test]
    fn a_space_of_one_trial_is_asked_everything_by_every_strategy() {
        let scores = planted(&[1], 20, 0.0, 4);
        for config in SearchConfig::defaults() {
            let found = run(&mut *config.build(&scores.problem()).unwrap(), &scores);
            assert_eq!(found.seen[0].len(), 20, "{}", config.name());
        }
    }

    #[test]
    fn every_strategy_survives_any_pattern_of_missing_scores() {
        for (seed, questions, axes) in [(1, 60, &[3, 2, 2][..]), (2, 7, &[4, 3]), (3, 1, &[5]), (4, 24, &[2])] {
            let whole = planted(axes, questions, 0.02, seed);
            for (pattern, scores) in with_missing_scores(&whole, seed) {
                for config in SearchConfig::defaults() {
                    let (name, problem) = (config.name(), scores.problem());
                    let mut strategy = config.build(&problem).unwrap();
                    let found = run(&mut *strategy, &scores);
                    assert!(found.answers > 0 && found.answers <= problem.answers(), "{name}, {pattern}");
                    let stops = strategy.stops(&found.seen);
                    for (trial, seen) in found.seen.iter().enumerate() {
                        let stopped = stops.contains_key(&trial);
                        assert_eq!(stopped, seen.len() < questions, "{name}, {pattern}: trial {trial}");
                    }
                    let again = run(&mut *config.build(&problem).unwrap(), &scores);
                    assert_eq!(again.seen, found.seen, "{name}, {pattern}: a second run decides the same");
                }
            }
        }
    }

    #[test]
    fn strategies_are_written_by_name() {
        let search: SearchConfig = toml::from_str("race = { share = 0.5 }").expect("a race");
        assert_eq!(search.name(), "race");
        assert!(toml::from_str::<SearchConfig>("race = { shar = 0.5 }").is_err());
    }
}
