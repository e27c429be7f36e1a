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

    /// A search over these choices; trials are drawn in their order.
    fn tpe(trials: &[&[(&str, &str)]]) -> Tpe {
        let choices = |choices: &&[(&str, &str)]| {
            choices.iter().map(|(axis, value)| ((*axis).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>()
        };
        let trials: Vec<BTreeMap<String, String>> = trials.iter().map(choices).collect();
        let problem = SearchProblem { trials: trials.clone(), choices: trials.clone(), questions: 1, width: 1.0 };
        let mut axes: BTreeMap<&String, BTreeSet<&String>> = BTreeMap::new();
        for (axis, value) in problem.choices.iter().flatten() {
            axes.entry(axis).or_default().insert(value);
        }
        let axes = axes.into_iter().map(|(axis, values)| (axis.clone(), values.len())).collect();
        let (blind, most) = ((0..trials.len()).collect(), trials.len());
        Tpe { trials, questions: 1, axes, blind, startup: 4, most }
    }

    const AP: &[(&str, &str)] = &[("x", "a"), ("y", "p")];
    const AQ: &[(&str, &str)] = &[("x", "a"), ("y", "q")];
    const BP: &[(&str, &str)] = &[("x", "b"), ("y", "p")];
    const BQ: &[(&str, &str)] = &[("x", "b"), ("y", "q")];

    /// The suggestion after the first trials have these scores.
    fn suggested(trials: &[&[(&str, &str)]], scores: &[Option<f64>]) -> Option<usize> {
        let scored = scores.iter().map(|score| vec![*score]);
        let seen: Vec<TrialScores> = scored.chain(std::iter::repeat(vec![])).take(trials.len()).collect();
        let tried: Vec<usize> = (0..scores.len()).collect();
        tpe(trials).suggestion(&tried, &seen)
    }

    #[test]
    fn the_values_that_are_common_among_the_good_and_rare_among_the_others_come_next() {
        let (good, bad) = (Some(0.9), Some(0.1));
        let scores = [good, bad, bad, bad];
        // The best quarter is the first: a and p. Among the others a stands once in three and p twice, so that with
        // the prior a speaks for a trial with 0.75 / 0.375 = 2, b with 0.25 / 0.625 = 0.4, p with 0.75 / 0.625 = 1.2
        // and q with 0.25 / 0.375 = 2 / 3. (a, q) has 4 / 3 and (b, p) 0.48.
        assert_eq!(suggested(&[AP, AP, BP, BQ, BP, AQ], &scores), Some(5));
        // With the axes in each other's place it is the other one.
        assert_eq!(suggested(&[AP, AP, AQ, BQ, BP, AQ], &scores), Some(4));
        // Of equally promising trials the one that was drawn first.
        assert_eq!(suggested(&[AP, BQ, BQ, BQ, AP, AP], &scores), Some(4));
        // The other way round, the good one is the last that was tried.
        assert_eq!(suggested(&[AP, AP, AP, BQ, AP, BQ], &[bad, bad, bad, good]), Some(5));
    }

    #[test]
    fn trials_without_scores_say_nothing() {
        let (good, bad) = (Some(0.9), Some(0.1));
        // Of the two that have scores the first is good; the two that failed count nowhere.
        let trials: [&[(&str, &str)]; 6] = [BQ, AP, BQ, BQ, AP, BQ];
        assert_eq!(suggested(&trials, &[good, bad, None, None]), Some(5));
        assert_eq!(suggested(&[AP, BQ, BQ, AP, BQ], &[None, None, None]), Some(3), "drawn blindly, in order");
        assert_eq!(suggested(&[AP, BQ], &[good, bad]), None, "all were tried");
        assert_eq!(suggested(&[AP, BQ], &[None, None]), None);
    }

    #[test]
    fn what_a_trial_does_not_have_speaks_neither_for_it_nor_against_it() {
        let (good, bad) = (Some(0.9), Some(0.1));
        let a: &[(&str, &str)] = &[("x", "a")];
        // p is bad and q unknown; the trial that has no `y` is between them and before a trial with p.
        let trials: [&[(&str, &str)]; 6] = [AQ, AP, AP, AP, AP, a];
        assert_eq!(suggested(&trials, &[good, bad, bad, bad]), Some(5));
        let trials: [&[(&str, &str)]; 6] = [AQ, AP, AP, AP, a, AQ];
        assert_eq!(suggested(&trials, &[good, bad, bad, bad]), Some(5));
    }

    #[test]
    fn an_axis_with_one_value_decides_nothing() {
        let choice = |x: &str| BTreeMap::from([("x".to_owned(), x.to_owned()), ("y".to_owned(), "p".to_owned())]);
        let trials: Vec<_> = ["a", "b", "a", "b"].map(choice).to_vec();
        let problem = SearchProblem { trials: trials.clone(), choices: trials, questions: 3, width: 1.0 };
        let mut search = Config { share: 1.0, startup: 0.5, seed: 3 }.build(&problem).unwrap();
        let mut seen: Vec<TrialScores> = vec![Vec::new(); 4];
        let first = search.next(&seen);
        assert_eq!(first.iter().filter(|&&n| n == 3).count(), 2);
        for (trial, n) in first.into_iter().enumerate() {
            seen[trial] = vec![Some(if trial % 2 == 0 { 1.0 } else { 0.0 }); n];
        }
        let more = search.next(&seen);
        assert_eq!(more.iter().filter(|&&n| n == 3).count(), 3, "one more");
        assert_eq!(search.stops(&seen).len(), 2);
        assert!(search.stops(&seen).values().all(|stop| stop.reason == "others were more promising"));
    }
}
