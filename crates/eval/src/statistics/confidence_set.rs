//! Which trials may be the best: model confidence sets.
//!
//! When to use it: to tell the leading trials from the worse ones. The best of many
//! trials is overrated, because it was chosen by its scores (selection bias). A test
//! of each trial against the observed best ignores that choice; this procedure
//! includes it. If all trials are equal, it excludes one in about 5 of 100
//! experiments, whatever the number of trials.
//!
//! 1. M holds all trials that have scores.
//! 2. For each trial: the differences of its scores to the mean of M's,
//!    question by question and metric by metric, and their t, which is the
//!    mean over its standard error. T is the t of the trial that is furthest
//!    below the mean, without its sign.
//! 3. The scores of each question are permuted among the trials of M, each question
//!    independently, and every t is computed again. The share of such permutations
//!    with a T at least as large is p.
//! 4. p > α: M holds the best trial with probability 1 − α. Otherwise the trial
//!    of T leaves M, and step 2 follows. Its p-value is the largest p so far.
//! 5. The set is group 1. The same procedure over the excluded trials gives group 2,
//!    and so on. The last of eight groups holds all remaining trials.
//!
//! With two trials this is the two-sided paired sign-flip test.
//!
//! **Several metrics.** A trial's value is the mean over metrics of their
//! means. So a question adds, for each metric with a score for it, the difference
//! divided by the number of questions with a score of this metric. A permutation
//! moves all scores of a trial for a question together.
//!
//! **Missing scores.** A difference is taken to the mean of those trials that
//! have the score, and trials change places only with trials that have scores
//! for the same metrics at that question. A missing score is no evidence. A
//! trial that shares no question with another one is never excluded.
//!
//! **Number of permutations.** Up to 1,000. It stops early when 50 of them exceed T,
//! because p is then above 0.05, and when none of 200 or at most 4 of 400 do, because
//! p is then below 0.05 except for a chance of 1 in 20,000. It stops after 100 if T
//! is 8 standard deviations above the mean of the permuted T, because by Cantelli's
//! inequality the chance of that is at most 1 / (1 + 8²), which is 0.015.
//!
//! Measured error rates: `cargo run --release --example who_is_best`, and the table
//! in `benches/README.md`.
//!
//! Sources: P. R. Hansen, A. Lunde, J. M. Nason, "The Model Confidence Set",
//! Econometrica 79 (2011), for the elimination and its p-values; E. Chung,
//! J. P. Romano, "Exact and asymptotically robust permutation tests", Annals of
//! Statistics 41 (2013), for why the t and not the mean is permuted.

use super::{Random, mean, variance};
use rayon::prelude::*;
use statrs::distribution::{ContinuousCDF, Normal};
use std::collections::BTreeMap;

/// One metric's scores, trial × question; `None` is a missing score. All trials
/// have the same number of questions.
pub type Scores = Vec<Vec<Option<f64>>>;

/// The most groups; the last one holds all remaining trials.
const MOST_GROUPS: usize = 8;

/// Larger total numbers of questions are not reported.
pub const MOST_QUESTIONS: usize = 10_000;

/// Permutations for one step of the elimination.
const PERMUTATIONS: usize = 1_000;
/// Permutations between two checks for an early stop.
const BATCH: usize = 100;
/// (permutations, most that exceed T): the step stops, because p is far below α.
const FAR_BELOW: [(usize, usize); 2] = [(200, 0), (400, 4)];
/// The step stops if T is this many standard deviations above the permuted T.
const FAR_ABOVE: f64 = 8.0;

/// The result for one trial.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Standing {
    /// Its group, from 1; `None` for a trial without scores.
    pub group: Option<usize>,
    /// The probability of a lag (the distance below the mean of the trials, in
    /// standard errors) this large if the trial were as good as those of
    /// group 1. For a trial of group 1: the probability of differences as large as
    /// those within the group if all of its trials were equal.
    pub p_value: Option<f64>,
    /// For a trial of group 1: the number of further questions, each with scores of
    /// two trials or more, that would exclude it, if differences and their spread stay
    /// the same. `None` if the total, with the present questions, exceeds
    /// [`MOST_QUESTIONS`], and for the leading trial.
    pub more_questions: Option<usize>,
}

/// The result for each trial from its scores for one or several metrics, all on the
/// same scale, higher is better. `level` is α, such as 0.05: the share of
/// experiments in which a trial that is as good as the best may be excluded.
pub fn confidence_sets(metrics: &[Scores], level: f64, seed: u64) -> Vec<Standing> {
    let trials = metrics.first().map_or(0, Vec::len);
    let mut standings = vec![Standing::default(); trials];
    let has_scores = |&trial: &usize| metrics.iter().any(|metric| metric[trial].iter().any(Option::is_some));
    let mut left: Vec<usize> = (0..trials).filter(has_scores).collect();
    let table = ScoreMatrix::new(metrics);
    for group in 1..=MOST_GROUPS {
        if left.is_empty() {
            break;
        }
        let (members, excluded) = if group == MOST_GROUPS {
            (left, Vec::new())
        } else {
            split(&table, left, level, seed, group, &mut standings)
        };
        for member in members {
            standings[member].group = Some(group);
        }
        left = excluded;
    }
    standings
}

/// The level for a one-sided test of each of several trials: `level` divided by their number
/// (Bonferroni's correction). If all trials are equal, any of them is then called different in at
/// most a share `level` of experiments. For two trials it is the two-sided test at `level`. Only
/// estimates of how many questions are needed use it; [`confidence_sets`] permutes scores instead.
pub fn corrected_level(level: f64, trials: usize) -> f64 {
    level / trials.max(2) as f64
}

/// The p-value of the hypothesis that all trials are equal. [`confidence_sets`]
/// excludes a trial if it is at most the level.
pub fn equality_p_value(metrics: &[Scores], level: f64, seed: u64) -> f64 {
    let members: Vec<usize> = (0..metrics.first().map_or(0, Vec::len)).collect();
    let differences = ScoreDifferences::new(&ScoreMatrix::new(metrics), &members);
    let (_, observed) = differences.worst();
    differences.p_value(observed, level, seed)
}

/// The members of the best set among `left`, and those that are excluded.
fn split(
    table: &ScoreMatrix,
    mut left: Vec<usize>,
    level: f64,
    seed: u64,
    group: usize,
    standings: &mut [Standing],
) -> (Vec<usize>, Vec<usize>) {
    let mut excluded = Vec::new();
    let mut largest: f64 = 0.0;
    while left.len() > 1 {
        let differences = ScoreDifferences::new(table, &left);
        let (worst, observed) = differences.worst();
        // Each step has its own stream, whatever happened before.
        let step = seed ^ ((group as u64) << 32) ^ left.len() as u64;
        let p_value = if observed > 0.0 { differences.p_value(observed, level, step) } else { 1.0 };
        largest = largest.max(p_value);
        if p_value > level {
            if group == 1 {
                for &member in &left {
                    standings[member].p_value = Some(largest);
                }
                question_numbers(table, &left, level, standings);
            }
            break;
        }
        let trial = left.remove(worst);
        if group == 1 {
            standings[trial].p_value = Some(largest);
        }
        excluded.push(trial);
    }
    if let ([last], true) = (&left[..], group == 1 && !excluded.is_empty()) {
        standings[*last].p_value = Some(1.0);
    }
    excluded.sort_unstable();
    (left, excluded)
}

/// Estimates the questions that would exclude each member. The elimination goes on
/// with the observed t, which grows with the square root of the number of questions,
/// until t passes the critical value. A trial can leave only after those before it.
fn question_numbers(table: &ScoreMatrix, members: &[usize], level: f64, standings: &mut [Standing]) {
    let mut left = members.to_vec();
    let mut most: f64 = 0.0;
    while left.len() > 1 {
        let differences = ScoreDifferences::new(table, &left);
        let (worst, observed) = differences.worst();
        let critical = Normal::standard().inverse_cdf(1.0 - corrected_level(level, left.len()));
        let asked = differences.questions as f64;
        most = most.max(asked * (critical / observed).powi(2)).max(asked + 1.0);
        let trial = left.remove(worst);
        let more = (most - asked).ceil().max(1.0) as usize;
        standings[trial].more_questions = Some(more).filter(|_| most <= MOST_QUESTIONS as f64);
    }
}

/// The scores of some trials as differences to their mean.
struct ScoreDifferences {
    /// For each question, the differences that may be permuted.
    rows: Vec<QuestionDifferences>,
    /// For each trial, the number of questions with a difference.
    counts: Vec<f64>,
    /// The number of compared questions: at least two of the trials have a score.
    questions: usize,
}

/// Differences of one question that trials may exchange.
struct QuestionDifferences {
    /// Indices of the trials among the members; `None` for all of them.
    trials: Option<Vec<usize>>,
    /// Their differences.
    values: Vec<f64>,
}

/// All scores, with those of one question adjacent in memory.
struct ScoreMatrix {
    /// For each metric, by question and then by trial; NaN where there is none.
    metrics: Vec<Vec<f64>>,
    trials: usize,
    questions: usize,
}

impl ScoreMatrix {
    fn new(metrics: &[Scores]) -> Self {
        let trials = metrics.first().map_or(0, Vec::len);
        let questions = metrics.iter().flatten().map(Vec::len).max().unwrap_or_default();
        let by_question = |metric: &Scores| {
            let score = |question: usize, trial: usize| metric[trial].get(question).copied().flatten();
            let at = |question: usize| (0..trials).map(move |trial| score(question, trial).unwrap_or(f64::NAN));
            (0..questions).flat_map(at).collect()
        };
        Self { metrics: metrics.iter().map(by_question).collect(), trials, questions }
    }
}

/// Sums of differences and of their squares, by trial.
struct Sums {
    sums: Vec<f64>,
    squares: Vec<f64>,
    shuffled: Vec<f64>,
}

impl ScoreDifferences {
    fn new(table: &ScoreMatrix, members: &[usize]) -> Self {
        let mut differences = Self { rows: Vec::new(), counts: vec![0.0; members.len()], questions: 0 };
        let score = |metric: &[f64], question: usize, trial: usize| metric[question * table.trials + trial];
        // A score that no other trial has cannot be compared.
        let mean = |metric: &[f64], question: usize| {
            let (mut sum, mut count) = (0.0, 0usize);
            for &trial in members {
                let score = score(metric, question, trial);
                if !score.is_nan() {
                    sum += score;
                    count += 1;
                }
            }
            (count > 1).then(|| sum / count as f64)
        };
        let means: Vec<Vec<Option<f64>>> = table
            .metrics
            .iter()
            .map(|metric| (0..table.questions).map(|question| mean(metric, question)).collect())
            .collect();
        let asked: Vec<f64> = means.iter().map(|means| means.iter().flatten().count() as f64).collect();
        let mut cells = vec![(0.0, 0u128); members.len()];
        for question in 0..table.questions {
            cells.fill((0.0, 0));
            for (number, ((metric, means), asked)) in table.metrics.iter().zip(&means).zip(&asked).enumerate() {
                let Some(mean) = means[question] else { continue };
                for (cell, &trial) in cells.iter_mut().zip(members) {
                    let score = score(metric, question, trial);
                    if !score.is_nan() {
                        cell.0 += (score - mean) / asked;
                        cell.1 |= 1 << (number % 128);
                    }
                }
            }
            differences.add(&cells);
        }
        differences
    }

    /// Adds the differences of one question, each with a bit set of its metrics.
    fn add(&mut self, cells: &[(f64, u128)]) {
        let Some(first) = cells.iter().map(|cell| cell.1).find(|pattern| *pattern != 0) else { return };
        self.questions += 1;
        for (count, _) in self.counts.iter_mut().zip(cells).filter(|(_, cell)| cell.1 != 0) {
            *count += 1.0;
        }
        if cells.iter().all(|cell| cell.1 == first) {
            self.rows.push(QuestionDifferences { trials: None, values: cells.iter().map(|cell| cell.0).collect() });
            return;
        }
        let mut by_pattern: BTreeMap<u128, (Vec<usize>, Vec<f64>)> = BTreeMap::new();
        for (trial, (value, pattern)) in cells.iter().enumerate().filter(|(_, cell)| cell.1 != 0) {
            let (trials, values) = by_pattern.entry(*pattern).or_default();
            trials.push(trial);
            values.push(*value);
        }
        self.rows.extend(
            by_pattern.into_values().map(|(trials, values)| QuestionDifferences { trials: Some(trials), values }),
        );
    }

    fn sums(&self) -> Sums {
        Sums { sums: vec![0.0; self.counts.len()], squares: vec![0.0; self.counts.len()], shuffled: Vec::new() }
    }

    /// The trial that is furthest below the mean in its own standard errors, and the
    /// distance. Above 0 unless all are equal.
    fn worst(&self) -> (usize, f64) {
        let mut sums = self.sums();
        for row in &self.rows {
            sums.add(row.trials.as_deref(), &row.values);
        }
        let lag = |trial: usize| (trial, self.lag(&sums, trial));
        // Of two with the same lag, the one with the lower mean.
        let order = |a: &(usize, f64), b: &(usize, f64)| {
            a.1.total_cmp(&b.1).then_with(|| sums.sums[b.0].total_cmp(&sums.sums[a.0]))
        };
        (0..self.counts.len()).map(lag).max_by(order).unwrap_or((0, 0.0))
    }

    /// The distance of a trial below the mean, in its own standard errors.
    fn lag(&self, sums: &Sums, trial: usize) -> f64 {
        let (n, sum, squares) = (self.counts[trial], sums.sums[trial], sums.squares[trial]);
        if n < 2.0 || squares <= 0.0 {
            return 0.0;
        }
        let spread = squares - sum * sum / n;
        // Differences that are equal but for rounding have no spread.
        if spread <= squares * 1e-12 {
            return -sum.signum() * f64::INFINITY;
        }
        -sum / (spread * n / (n - 1.0)).sqrt()
    }

    /// The share of permutations in which the lag of some trial is at least `observed`.
    fn p_value(&self, observed: f64, level: f64, seed: u64) -> f64 {
        // Sums in another order round differently; equal ones must count as equal.
        let least = observed * (1.0 - 1e-9);
        let certain = (level * (PERMUTATIONS + 1) as f64).floor() as usize;
        let (mut exceeding, mut tried) = (0, 0);
        while tried < PERMUTATIONS {
            let lags: Vec<f64> = (tried..tried + BATCH)
                .into_par_iter()
                .map_init(|| self.sums(), |sums, number| self.permuted(sums, seed, number))
                .collect();
            exceeding += lags.iter().filter(|lag| **lag >= least).count();
            tried += BATCH;
            // The numbers are those of α = 0.05; a smaller one takes all permutations.
            let few = FAR_BELOW.iter().any(|&(enough, most)| tried == enough && exceeding <= most);
            let above = |mean: f64| least > mean + FAR_ABOVE * variance(&lags).sqrt();
            let far = exceeding == 0 && mean(&lags).is_some_and(above);
            if exceeding >= certain || ((few || far) && level >= 0.05) {
                break;
            }
        }
        (exceeding + 1) as f64 / (tried + 1) as f64
    }

    /// The largest lag after one permutation.
    fn permuted(&self, sums: &mut Sums, seed: u64, number: usize) -> f64 {
        sums.sums.fill(0.0);
        sums.squares.fill(0.0);
        let mut random = Random::new(seed.wrapping_add((number as u64 + 1).wrapping_mul(0xD134_2543_DE82_EF95)));
        for row in &self.rows {
            sums.add_shuffled(row, &mut random);
        }
        (0..self.counts.len()).map(|trial| self.lag(sums, trial)).fold(f64::NEG_INFINITY, f64::max)
    }
}

impl Sums {
    fn add(&mut self, trials: Option<&[usize]>, values: &[f64]) {
        match trials {
            None => {
                for ((sum, square), value) in self.sums.iter_mut().zip(&mut self.squares).zip(values) {
                    *sum += value;
                    *square += value * value;
                }
            }
            Some(trials) => {
                for (&trial, value) in trials.iter().zip(values) {
                    self.sums[trial] += value;
                    self.squares[trial] += value * value;
                }
            }
        }
    }

    fn add_shuffled(&mut self, row: &QuestionDifferences, random: &mut Random) {
        let mut shuffled = std::mem::take(&mut self.shuffled);
        shuffled.clear();
        shuffled.extend_from_slice(&row.values);
        // Fisher and Yates, two places from each random number: the high half
        // of a product is a number below the bound, but for a bias of at most
        // bound / 2³².
        let below = |bits: u64, bound: usize| (((bits & 0xFFFF_FFFF) * bound as u64) >> 32) as usize;
        let mut place = shuffled.len();
        while place > 1 {
            let bits = random.next_u64();
            shuffled.swap(place - 1, below(bits, place));
            if place > 2 {
                shuffled.swap(place - 2, below(bits >> 32, place - 1));
            }
            place = place.saturating_sub(2);
        }
        self.add(row.trials.as_deref(), &shuffled);
        self.shuffled = shuffled;
    }
}

#[cfg(test)]
mod tests;
