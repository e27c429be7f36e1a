//! Race: all trials start, losing ones are stopped as soon as that is sure
//! enough, and what is saved goes to the finalists.
//!
//! When to use it: whenever answers cost money or time. Trials are compared
//! question by question on the same questions in the same random order.
//!
//! - **Eliminated** is a trial that another one beats, by a paired test that
//!   may be looked at after every block of questions
//!   ([`eval::statistics::betting_evidence`]). The chance that the trial that
//!   is best over all questions is ever eliminated is at most `error_rate`,
//!   over all comparisons and looks together: the evidence must reach
//!   (trials − 1) / `error_rate`. Only questions for which both trials have a
//!   score count. To the test, all others are questions that were not asked
//!   yet, so no trial is eliminated because its answers failed.
//! - **Out of calls** is a trial that was behind when too few calls were left
//!   for all: the race may spend `share` of what the full grid would. It makes
//!   no claim that such a trial is worse. The number that goes on falls
//!   geometrically towards `finalists`, who are asked everything; calls that an
//!   elimination saves keep more of the others in the race.
//!
//! Source: O. Maron, A. Moore, "The Racing Algorithm", Artificial Intelligence
//! Review 11 (1997); I. Waudby-Smith, A. Ramdas, JRSS B 86 (2024), for the
//! test; Z. Karnin, T. Koren, O. Somekh, "Almost Optimal Exploration in
//! Multi-Armed Bandits", ICML 2013, for the allocation.

use super::{SearchProblem, SearchSettingsError, Stop, StopKind, Strategy, TrialScores, check_share, mean, standing};
use eval::statistics::betting_evidence;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub(super) const VERSION: u32 = 3;

/// A trial is tested against this many of the leading trials: a trial that is
/// worse than some other is most likely worse than one of these.
const RIVALS: usize = 8;

/// Settings of a race.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The chance that the best trial is eliminated is at most this.
    pub error_rate: f64,
    /// The most that the race may ask, as a share of asking every trial
    /// everything. 1 stops nobody but those that are eliminated.
    pub share: f64,
    /// Questions between two tests.
    pub block: usize,
    /// The number of trials that are asked everything, if that many are left.
    pub finalists: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { error_rate: 0.05, share: 0.33, block: 5, finalists: 2 }
    }
}

impl Config {
    pub(super) fn build(&self, problem: &SearchProblem) -> Result<Box<dyn Strategy>, SearchSettingsError> {
        check_share("share", self.share)?;
        if !(self.error_rate > 0.0 && self.error_rate < 1.0) {
            return Err(SearchSettingsError::ErrorRate(self.error_rate));
        }
        if self.block == 0 || self.finalists == 0 {
            return Err(SearchSettingsError::BelowOne);
        }
        let trials = problem.trials.len();
        Ok(Box::new(Race {
            config: self.clone(),
            questions: problem.questions,
            width: problem.width,
            // The finalists are asked everything, whatever the share.
            calls: (self.share * problem.answers() as f64).max((self.finalists.min(trials) * problem.questions) as f64),
            alive: (0..trials).collect(),
            stops: BTreeMap::new(),
        }))
    }
}

struct Race {
    config: Config,
    questions: usize,
    width: f64,
    /// The most answers to ask for.
    calls: f64,
    alive: Vec<usize>,
    stops: BTreeMap<usize, Stop>,
}

impl Race {
    /// Stops trials that one of the leading trials beats with enough evidence.
    ///
    /// A question for which one of the two trials has no score counts as not
    /// drawn: if a call failed, nobody knows what the score would have been. A
    /// question for which no trial has a score decides nothing, and is not
    /// counted at all.
    fn eliminate(&mut self, seen: &[TrialScores], asked: usize) {
        let needed = (seen.len().max(2) - 1) as f64 / self.config.error_rate;
        let leaders: Vec<usize> = self.alive.iter().copied().take(RIVALS).collect();
        let pairs = |rival: usize, trial: usize| -> TrialScores {
            seen[rival].iter().zip(&seen[trial]).map(|(a, b)| Some((*a)? - (*b)?)).collect()
        };
        let is_scored = |question: &usize| seen.iter().any(|scores| scores.get(*question).is_some_and(Option::is_some));
        let total = self.questions - (0..asked).filter(|question| !is_scored(question)).count();
        let beaten = |trial: usize| {
            leaders.iter().copied().filter(|&rival| rival != trial).find(|&rival| {
                let differences: Vec<f64> = pairs(rival, trial).into_iter().flatten().collect();
                betting_evidence(&differences, total, self.width) >= needed
            })
        };
        let lost: Vec<(usize, usize)> = self.alive.iter().filter_map(|&trial| Some((trial, beaten(trial)?))).collect();
        for (trial, rival) in lost {
            self.alive.retain(|&other| other != trial);
            let pairs = pairs(rival, trial);
            let reason = format!(
                "trial number {} is better, by {:.3} over {} questions that both have scores for (error rate {})",
                rival + 1,
                mean(&pairs).unwrap_or_default(),
                pairs.iter().flatten().count(),
                self.config.error_rate
            );
            self.stops.insert(trial, Stop { kind: StopKind::Eliminated, questions: asked, reason });
        }
    }

    /// How many trials can continue with the remaining calls, if their number
    /// falls geometrically to the number of finalists.
    fn affordable(&self, spent: usize, asked: usize) -> usize {
        let finalists = self.config.finalists.min(self.alive.len()) as f64;
        let left = (self.calls - spent as f64).max(0.0);
        let blocks = (self.questions - asked).div_ceil(self.config.block) as i32;
        let per_block = (self.questions - asked) as f64 / f64::from(blocks.max(1));
        // The calls from here to the end, if this many trials continue.
        let cost = |start: f64| {
            let ratio = (finalists / start).powf(1.0 / f64::from((blocks - 1).max(1)));
            (0..blocks).map(|block| start * ratio.powi(block)).sum::<f64>() * per_block
        };
        let mut start = self.alive.len();
        while start > finalists as usize && cost(start as f64) > left {
            start -= 1;
        }
        start
    }
}

impl Strategy for Race {
    fn next(&mut self, seen: &[TrialScores]) -> Vec<usize> {
        let mut counts: Vec<usize> = seen.iter().map(Vec::len).collect();
        let asked = self.alive.iter().map(|&trial| counts[trial]).min().unwrap_or_default();
        if asked >= self.questions {
            return counts;
        }
        if asked > 0 {
            let standing = standing(&self.alive, seen);
            self.alive.sort_by(|a, b| standing[b].total_cmp(&standing[a]).then(a.cmp(b)));
            self.eliminate(seen, asked);
            let going_on = self.affordable(counts.iter().sum(), asked);
            let all = self.alive.len();
            for (place, trial) in (going_on + 1..).zip(self.alive.split_off(going_on)) {
                let reason = format!(
                    "place {place} of {all} after {asked} questions, with calls left for {going_on}; not shown to be worse"
                );
                self.stops.insert(trial, Stop { kind: StopKind::OutOfCalls, questions: asked, reason });
            }
        }
        // The last trial needs no further test, but its score over all
        // questions is wanted.
        let next = if self.alive.len() == 1 { self.questions } else { asked + self.config.block };
        for &trial in &self.alive {
            counts[trial] = next.min(self.questions);
        }
        counts
    }

    fn stops(&self, _seen: &[TrialScores]) -> BTreeMap<usize, Stop> {
        self.stops.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{planted, run};
    use super::*;
    use eval::statistics::Random;

    #[test]
    fn a_race_spends_its_share_and_no_more() {
        for seed in 0..20 {
            let grid = planted(&[4, 3, 2], 100, 0.01, seed);
            let found = run(&mut *Config::default().build(&grid.problem()).unwrap(), &grid);
            let most = 0.33 * 2400.0;
            assert!(found.answers as f64 <= most * 1.05, "{} of {most}", found.answers);
        }
    }

    #[test]
    fn clear_losers_are_eliminated_and_the_best_is_found() {
        let grid = planted(&[6, 2], 100, 0.1, 5);
        let mut race = Config { share: 1.0, ..Config::default() }.build(&grid.problem()).unwrap();
        let found = run(&mut *race, &grid);
        let stops = race.stops(&found.seen);
        assert!(stops.values().all(|stop| stop.kind == StopKind::Eliminated));
        assert!(stops.len() >= 8, "{} of 12 were stopped", stops.len());
        assert_eq!(super::super::leader(&found.seen), Some(11));
        assert!(found.answers < 800, "{} of 1,200 answers", found.answers);
    }

    #[test]
    fn the_best_of_equal_trials_is_eliminated_no_more_often_than_stated() {
        let mut wrong = 0;
        for seed in 0..200 {
            let grid = planted(&[8], 60, 0.0, seed);
            let mut race = Config { share: 1.0, error_rate: 0.2, ..Config::default() }.build(&grid.problem()).unwrap();
            let found = run(&mut *race, &grid);
            let best = super::super::leader(&grid.scores).unwrap();
            wrong += usize::from(race.stops(&found.seen).contains_key(&best));
        }
        assert!(wrong <= 40, "{wrong} of 200, where 40 are allowed");
    }

    #[test]
    fn what_failed_is_unknown_to_the_end() {
        // Right or wrong, so that a lead on the scores that are there is certain soon.
        let rounded = |scores: &TrialScores| scores.iter().map(|score| score.map(|score| score.round())).collect();
        let mut wrong = 0;
        for seed in 0..200 {
            let mut grid = planted(&[8], 60, 0.0, seed);
            grid.scores = grid.scores.iter().map(rounded).collect();
            let best = super::super::leader(&grid.scores).unwrap();
            let mut random = Random::new(seed);
            for score in grid.scores.iter_mut().flatten() {
                *score = score.filter(|_| random.open_unit() > 0.3);
            }
            let mut race = Config { share: 1.0, error_rate: 0.05, ..Config::default() }.build(&grid.problem()).unwrap();
            let found = run(&mut *race, &grid);
            wrong += usize::from(race.stops(&found.seen).contains_key(&best));
        }
        assert!(wrong <= 10, "{wrong} of 200, where 10 are allowed");
    }

    #[test]
    fn a_share_above_one_is_refused() {
        let problem = planted(&[2], 10, 0.0, 0).problem();
        let error = Config { share: 1.5, ..Config::default() }.build(&problem).err().unwrap();
        assert!(error.to_string().contains("share"), "{error}");
    }

    fn race(trials: usize, questions: usize, calls: f64, config: Config) -> Race {
        Race { config, questions, width: 1.0, calls, alive: (0..trials).collect(), stops: BTreeMap::new() }
    }

    #[test]
    fn as_many_go_on_as_the_calls_allow_if_their_number_falls_geometrically_to_the_finalists() {
        // Eight trials of 20 questions were asked the first five. From n trials to two in three blocks of five
        // questions it takes 5 · (n + √(2n) + 2) calls: 70 for 8, 63.7 for 7, 57.3 for 6, 50.8 for 5, 37.2 for 3.
        for (left, expected) in
            [(1e9, 8), (70.0, 8), (69.9, 7), (63.0, 6), (57.0, 5), (50.0, 4), (38.0, 3), (37.0, 2), (0.0, 2), (-9.0, 2)]
        {
            let race = race(8, 20, 40.0 + left, Config::default());
            assert_eq!(race.affordable(40, 5), expected, "{left} calls are left");
        }
    }

    #[test]
    fn in_the_last_block_each_trial_costs_the_questions_that_are_left() {
        // Two questions are left.
        for (left, expected) in [(16.0, 8), (15.9, 7), (6.0, 3), (5.0, 2), (0.0, 2)] {
            let race = race(8, 12, 80.0 + left, Config::default());
            assert_eq!(race.affordable(80, 10), expected, "{left} calls are left");
        }
        let one = Config { finalists: 1, ..Config::default() };
        assert_eq!(race(8, 12, 80.0, one).affordable(80, 10), 1);
        assert_eq!(race(1, 12, 0.0, Config::default()).affordable(80, 10), 1, "fewer trials than finalists");
    }

    #[test]
    fn the_finalists_are_paid_for_whatever_the_share() {
        // A share of 0.1 of ten trials with 20 questions is 20 calls, and two finalists take 40.
        let grid = planted(&[10], 20, 0.0, 1);
        let found = run(&mut *Config { share: 0.1, ..Config::default() }.build(&grid.problem()).unwrap(), &grid);
        let mut asked: Vec<usize> = found.seen.iter().map(Vec::len).collect();
        asked.sort_unstable();
        assert_eq!(asked, [5, 5, 5, 5, 5, 5, 5, 5, 20, 20]);
    }

    #[test]
    fn a_question_without_any_score_is_not_counted_as_drawn() {
        // Without the first 40 questions, of which nobody has a score, the rest decides as if it were all.
        let scored = |questions: usize, without: usize| {
            let of = |score: f64| (0..questions).map(|i| (i >= without).then_some(score)).collect::<TrialScores>();
            let labels = vec![BTreeMap::new(); 2];
            let grid = super::super::testing::Grid { labels, scores: vec![of(1.0), of(0.0)] };
            let config = Config { share: 1.0, block: 1, ..Config::default() };
            let mut race = config.build(&grid.problem()).unwrap();
            let found = run(&mut *race, &grid);
            race.stops(&found.seen)[&1].questions - without
        };
        assert_eq!(scored(60, 40), scored(20, 0));
    }
}
