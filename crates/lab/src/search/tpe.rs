//! TPE: each next trial is the one that a model of the scores so far finds
//! most promising (tree-structured Parzen estimator).
//!
//! When to use it: in large spaces where axes work together. Every trial that
//! is tried is asked every question; trials are tried one after the other, so
//! a race is quicker where many can run side by side.
//!
//! All axes are choices, so the model is counts: how often a value stands
//! among the best quarter of what was tried, and how often among the rest. The
//! choices form a tree: a component on each axis, and below it its settings,
//! which are counted only among trials that have them, so a setting of one
//! component says nothing of another component.
//! Every untried trial is a candidate, so none needs to be drawn.
//!
//! Source: J. Bergstra et al., "Algorithms for Hyper-Parameter Optimization",
//! NIPS 2011. Not through a crate: `optimizer` 1.0 takes every study for one
//! that minimises and confuses axes with equally many values.

use super::{SearchProblem, SearchSettingsError, Stop, Strategy, TrialScores, check_share, mean, not_tried, part};
use eval::statistics::Random;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const VERSION: u32 = 2;

/// The share of what was tried that counts as good.
const GOOD: f64 = 0.25;

/// The weight of the prior: all values of an axis together count as seen this
/// often before any trial was tried.
const PRIOR: f64 = 1.0;

/// Settings of TPE.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
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
    pub(super) fn build(&self, problem: &SearchProblem) -> Result<Box<dyn Strategy>, SearchSettingsError> {
        check_share("share", self.share)?;
        check_share("startup", self.startup)?;
        let mut axes: BTreeMap<&String, BTreeSet<&String>> = BTreeMap::new();
        for (axis, value) in problem.choices.iter().flatten() {
            axes.entry(axis).or_default().insert(value);
        }
        // A choice that has only one value decides nothing.
        let chosen = axes.into_iter().filter(|(_, values)| values.len() > 1);
        let axes = chosen.map(|(axis, values)| (axis.clone(), values.len())).collect();
        let mut blind: Vec<usize> = (0..problem.trials.len()).collect();
        Random::new(self.seed).shuffle(&mut blind);
        Ok(Box::new(Tpe {
            trials: problem.choices.clone(),
            questions: problem.questions,
            axes,
            blind,
            startup: part(self.startup, problem.trials.len()),
            most: part(self.share, problem.trials.len()),
        }))
    }
}

struct Tpe {
    trials: Vec<BTreeMap<String, String>>,
    questions: usize,
    /// What is chosen, and how many values each choice has.
    axes: Vec<(String, usize)>,
    /// All trials in the order in which they are drawn blindly.
    blind: Vec<usize>,
    startup: usize,
    most: usize,
}

impl Tpe {
    /// The untried trial whose values are the most common among the good ones
    /// and the least common among the others. None when all were tried.
    fn suggestion(&self, tried: &[usize], seen: &[TrialScores]) -> Option<usize> {
        // A trial without scores says nothing of its values.
        let mut ranked: Vec<(f64, usize)> =
            tried.iter().filter_map(|&trial| Some((mean(&seen[trial])?, trial))).collect();
        // A stable sort: trials with equal scores stay in the order in which
        // they were drawn, so the decision is the same after an interruption.
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        if ranked.is_empty() {
            // Without any score there is no model: the next one is drawn blindly.
            return self.blind.iter().copied().find(|&trial| seen[trial].is_empty());
        }
        let (good, others) = ranked.split_at(part(GOOD, ranked.len()));
        let evidence: Vec<BTreeMap<&String, f64>> = (self.axes.iter())
            .map(|(axis, size)| {
                let value = |trial: usize| self.trials[trial].get(axis);
                let share = |of: &[(f64, usize)], wanted: &String| {
                    let having = of.iter().filter_map(|&(_, trial)| value(trial));
                    let (mut all, mut count) = (0.0, 0.0);
                    for value in having {
                        all += 1.0;
                        count += f64::from(u8::from(value == wanted));
                    }
                    (count + PRIOR / *size as f64) / (all + PRIOR)
                };
                let mut known = BTreeMap::new();
                for value in (0..self.trials.len()).filter_map(value) {
                    known.entry(value).or_insert_with(|| (share(good, value) / share(others, value)).ln());
                }
                known
            })
            .collect();
        let promise = |trial: usize| -> f64 {
            let of = |((axis, _), known): (&(String, usize), &BTreeMap<&String, f64>)| {
                // What a trial does not have speaks neither for it nor against it.
                let value = self.trials[trial].get(axis);
                value.and_then(|value| known.get(value)).copied().unwrap_or_default()
            };
            self.axes.iter().zip(&evidence).map(of).sum()
        };
        let mut best: Option<(f64, usize)> = None;
        for &trial in self.blind.iter().filter(|&&trial| seen[trial].is_empty()) {
            let promise = promise(trial);
            if best.is_none_or(|(most, _)| promise > most) {
                best = Some((promise, trial));
            }
        }
        best.map(|(_, trial)| trial)
    }
}

impl Strategy for Tpe {
    fn next(&mut self, seen: &[TrialScores]) -> Vec<usize> {
        let mut asked: Vec<usize> = seen.iter().map(Vec::len).collect();
        // In the order in which they were drawn: the order given to the model
        // must not depend on the scores.
        let tried: Vec<usize> = self.blind.iter().copied().filter(|&trial| asked[trial] > 0).collect();
        let mut add = |trial: usize| asked[trial] = self.questions;
        if tried.len() < self.startup.min(self.most) {
            self.blind.iter().take(self.startup.min(self.most)).for_each(|&trial| add(trial));
        } else if tried.len() < self.most {
            self.suggestion(&tried, seen).into_iter().for_each(add);
        }
        asked
    }

    fn stops(&self, seen: &[TrialScores]) -> BTreeMap<usize, Stop> {
        not_tried(seen, "others were more promising")
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{planted, run};
    use super::*;

    #[test]
    fn settings_of_one_component_are_weighed_among_trials_that_have_it() {
        // Component `a` has a good and a bad setting; `b` has none, and is in between.
        let choice = |component: &str, setting: Option<usize>, other: usize| {
            let mut choice = BTreeMap::from([("axis".to_owned(), component.to_owned())]);
            choice.extend(setting.map(|setting| ("axis.a.setting".to_owned(), setting.to_string())));
            choice.insert("other".to_owned(), other.to_string());
            choice
        };
        let mut choices = Vec::new();
        for other in 0..8 {
            choices.push(choice("b", None, other));
            choices.extend((0..4).map(|setting| choice("a", Some(setting), other)));
        }
        let score = |choice: &BTreeMap<String, String>| match choice.get("axis.a.setting").map(String::as_str) {
            Some("3") => 1.0,
            Some(_) => 0.0,
            None => 0.5,
        };
        let problem = SearchProblem { trials: choices.clone(), choices: choices.clone(), questions: 1, width: 1.0 };
        let mut strategy = Config { share: 0.6, startup: 0.25, seed: 7 }.build(&problem).unwrap();
        let mut seen: Vec<TrialScores> = vec![Vec::new(); choices.len()];
        loop {
            let asked = strategy.next(&seen);
            let new: Vec<usize> = (0..choices.len()).filter(|&trial| asked[trial] > seen[trial].len()).collect();
            if new.is_empty() {
                break;
            }
            new.into_iter().for_each(|trial| seen[trial] = vec![Some(score(&choices[trial]))]);
        }
        let best = choices.iter().zip(&seen).filter(|(choice, _)| score(choice) == 1.0);
        let tried = best.filter(|(_, seen)| !seen.is_empty()).count();
        assert_eq!(tried, 8, "all trials with the good setting are tried");
    }

    #[test]
    fn what_the_model_suggests_is_better_than_chance() {
        let (mut tried, mut blind) = (0.0, 0.0);
        for seed in 0..20 {
            let grid = planted(&[5, 4, 3], 40, 0.05, seed);
            let found = run(&mut *Config { seed, ..Config::default() }.build(&grid.problem()).unwrap(), &grid);
            let means: TrialScores = found.seen.iter().map(|seen| mean(seen)).collect();
            tried += mean(&means).unwrap();
            blind += mean(&grid.scores.concat()).unwrap();
        }
        assert!(tried > blind + 20.0 * 0.02, "{} against {} on average", tried / 20.0, blind / 20.0);
    }
}
