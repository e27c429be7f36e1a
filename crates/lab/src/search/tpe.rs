//! TPE: each next trial is the one that a model of the scores so far finds
//! most promising (tree-structured Parzen estimator).
//!
//! When to use it: in large spaces where axes work together. Every trial that
//! is tried is asked every question; trials are tried one after the other, so
//! a race is quicker where many can run side by side.
//!
//! A suggestion that was tried before is scored again for the model, at no
//! cost; after some of them in a row the next untried trial is taken.
//!
//! Source: J. Bergstra et al., "Algorithms for Hyper-Parameter Optimization",
//! NIPS 2011; the estimator is that of the crate `optimizer`.

use super::{Problem, Stop, Strategy, check_share, mean, not_tried, part};
use eval::statistics::Random;
use optimizer::{
    Direction, Study,
    parameter::{CategoricalParam, ParamValue, Parameter},
    sampler::TpeSampler,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub(super) const VERSION: u32 = 1;

/// Suggestions in a row that may be known ones.
const PATIENCE: usize = 20;

/// Settings of TPE.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The share of the trials that is tried.
    pub share: f64,
    /// The share of the trials that is drawn blindly before the model is asked.
    pub startup: f64,
    /// Makes the choice repeatable.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self { share: 0.35, startup: 0.15, seed: 0 }
    }
}

impl Config {
    pub(super) fn build(&self, problem: &Problem) -> Result<Box<dyn Strategy>, String> {
        check_share("share", self.share)?;
        check_share("startup", self.startup)?;
        let mut axes: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (axis, label) in problem.trials.iter().flatten() {
            let values = axes.entry(axis.clone()).or_default();
            if !values.contains(label) {
                values.push(label.clone());
            }
        }
        let mut blind: Vec<usize> = (0..problem.trials.len()).collect();
        Random::new(self.seed).shuffle(&mut blind);
        Ok(Box::new(Tpe {
            trials: problem.trials.clone(),
            questions: problem.questions,
            axes: axes.into_iter().collect(),
            blind,
            startup: part(self.startup, problem.trials.len()),
            most: part(self.share, problem.trials.len()),
            seed: self.seed,
        }))
    }
}

struct Tpe {
    trials: Vec<BTreeMap<String, String>>,
    questions: usize,
    /// The axes and their values.
    axes: Vec<(String, Vec<String>)>,
    /// All trials in the order in which they are drawn blindly.
    blind: Vec<usize>,
    startup: usize,
    most: usize,
    seed: u64,
}

impl Tpe {
    /// The value of each axis that a trial has.
    fn place(&self, trial: usize) -> Vec<usize> {
        let at = |(axis, values): &(String, Vec<String>)| {
            values.iter().position(|value| self.trials[trial].get(axis) == Some(value)).unwrap_or_default()
        };
        self.axes.iter().map(at).collect()
    }

    /// An untried trial that the model of all scores so far suggests. The
    /// model is made anew each time, so that a search that goes on after an
    /// interruption decides the same.
    fn suggestion(&self, tried: &[usize], seen: &[Vec<f64>]) -> Option<usize> {
        let sampler = TpeSampler::builder().seed(self.seed).n_startup_trials(1).gamma(0.25).build().ok()?;
        let study: Study<f64> = Study::with_sampler(Direction::Minimize, sampler);
        let parameters: Vec<CategoricalParam<usize>> = self
            .axes
            .iter()
            .map(|(name, values)| CategoricalParam::new((0..values.len()).collect()).name(name.as_str()))
            .collect();
        let tell = |known: usize| {
            let values = parameters.iter().map(|parameter| parameter.id());
            study.enqueue(values.zip(self.place(known).into_iter().map(ParamValue::Categorical)).collect());
            let mut trial = study.ask();
            for parameter in &parameters {
                parameter.suggest(&mut trial).ok()?;
            }
            study.tell(trial, Ok::<_, String>(loss(&seen[known])));
            Some(())
        };
        tried.iter().try_for_each(|&known| tell(known))?;
        for _ in 0..PATIENCE {
            let mut trial = study.ask();
            let place: Option<Vec<usize>> =
                parameters.iter().map(|parameter| parameter.suggest(&mut trial).ok()).collect();
            let place = place?;
            // Not every combination is a trial: BM25 alone has no embedder.
            let suggested = (0..self.trials.len()).find(|&trial| self.place(trial) == place);
            match suggested {
                Some(known) if !seen[known].is_empty() => {
                    study.tell(trial, Ok::<_, String>(loss(&seen[known])));
                }
                Some(untried) => return Some(untried),
                None => study.tell(trial, Err("no such trial")),
            }
        }
        None
    }
}

/// What is to be small: the sampler takes every study for one that minimises.
fn loss(scores: &[f64]) -> f64 {
    1.0 - mean(scores)
}

impl Strategy for Tpe {
    fn next(&mut self, seen: &[Vec<f64>]) -> Vec<usize> {
        let mut asked: Vec<usize> = seen.iter().map(Vec::len).collect();
        // In the order in which they were drawn: what the model is told first
        // must not depend on how good it was.
        let tried: Vec<usize> = self.blind.iter().copied().filter(|&trial| asked[trial] > 0).collect();
        let mut add = |trial: usize| asked[trial] = self.questions;
        if tried.len() < self.startup.min(self.most) {
            self.blind.iter().take(self.startup.min(self.most)).for_each(|&trial| add(trial));
        } else if tried.len() < self.most {
            let blindly = || self.blind.iter().copied().find(|trial| !tried.contains(trial));
            if let Some(trial) = self.suggestion(&tried, seen).or_else(blindly) {
                add(trial);
            }
        }
        asked
    }

    fn stops(&self, seen: &[Vec<f64>]) -> BTreeMap<usize, Stop> {
        not_tried(seen, "others were more promising")
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{planted, run};
    use super::*;

    #[test]
    fn what_the_model_suggests_is_better_than_chance() {
        let (mut tried, mut blind) = (0.0, 0.0);
        for seed in 0..20 {
            let grid = planted(&[5, 4, 3], 40, 0.05, seed);
            let found = run(&mut *Config { seed, ..Config::default() }.build(&grid.problem()).unwrap(), &grid);
            let means: Vec<f64> = found.seen.iter().filter(|seen| !seen.is_empty()).map(|seen| mean(seen)).collect();
            tried += mean(&means);
            blind += mean(&grid.scores.concat());
        }
        assert!(tried > blind + 20.0 * 0.02, "{} against {} on average", tried / 20.0, blind / 20.0);
    }
}
