//! Bootstrap intervals of means and of other statistics over questions.
//!
//! For the uncertainty of a number that questions were drawn for, without
//! assuming how scores are distributed. Questions are drawn anew with
//! replacement, 10,000 times, the same ones for every trial; the interval is
//! the *expanded* BCa interval: percentiles of the resampled statistic, shifted
//! for its bias and skew (BCa), and moved outwards by the factor by which
//! Student's t exceeds the normal distribution, since resampling n values
//! shows only (n − 1)/n of their variance.
//!
//! No resampling shows what the sample does not hold: twenty answers that are
//! all right say that failures are rare, not that there are none. Where fewer
//! than five values differ from the commonest one, the interval of a mean is
//! therefore that of a Bayesian bootstrap in which half a question more has
//! the lowest, and in turn the highest, score of the metric's range. For
//! nothing but equal values this is near the rule of three: about 2/n wide.
//!
//! With more than 10,000 questions the ends come from a formula of the same
//! order of accuracy instead of resamples (`large_sample.rs`).
//!
//! Coverage in simulation: `cargo run --release --example coverage`, table in
//! `benches/README.md`. Below ten questions read it as a hint.
//!
//! Sources: B. Efron, "Better Bootstrap Confidence Intervals", JASA 82 (1987);
//! T. C. Hesterberg, "What Teachers Should Know About the Bootstrap", The
//! American Statistician 69 (2015), for the expansion; D. B. Rubin, "The
//! Bayesian Bootstrap", Annals of Statistics 9 (1981).

use super::{Random, large_sample, mean};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// How many times the sample is drawn anew.
pub const RESAMPLES: usize = 10_000;

/// One in twenty intervals may miss.
const MISSED: f64 = 0.05;
/// With fewer values that differ from the commonest one, a sample says too
/// little of what else there is.
const FEW: usize = 5;
/// Columns that are summed at once, for the processor's vectors.
const LANES: usize = 8;

/// A 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// The interval of the mean of values that lie in a range. None of fewer than
/// two values: one value says nothing about how much values differ.
pub fn bootstrap_mean(values: &[f64], range: (f64, f64), seed: u64) -> Option<Interval> {
    bootstrap_means(&[values], range, seed).into_iter().next().flatten()
}

/// The intervals of the means of several columns of one length, such as one
/// trial each: the same rows are drawn for all of them. Rows and seed alone
/// decide what is drawn, so an interval is the same in any company.
///
/// # Panics
/// If the columns differ in length.
pub fn bootstrap_means(columns: &[&[f64]], range: (f64, f64), seed: u64) -> Vec<Option<Interval>> {
    let n = columns.first().map_or(0, |column| column.len());
    assert!(columns.iter().all(|column| column.len() == n), "columns of one length");
    let mut intervals = vec![None; columns.len()];
    if n < 2 {
        return intervals;
    }
    let (sparse, dense): (Vec<usize>, Vec<usize>) = (0..columns.len()).partition(|&i| differing(columns[i]) < FEW);
    if n > large_sample::MORE_THAN {
        for &i in &dense {
            let (center, deviations) = (mean(columns[i]).unwrap_or_default(), influence(columns[i]));
            let shares = deviations.iter().map(|x| x / n as f64);
            intervals[i] = large_sample::interval(center, shares, 0.0, n, MISSED);
        }
    } else {
        let drawn: Vec<&[f64]> = dense.iter().map(|&i| columns[i]).collect();
        let means = resampled_means(&drawn, n, multinomial, seed);
        let found: Vec<_> = dense
            .par_iter()
            .zip(means)
            .map(|(&i, means)| (i, bca(means, mean(columns[i]).unwrap_or_default(), &influence(columns[i]), n)))
            .collect();
        intervals_into(&mut intervals, found);
    }

    // Each sparse column twice: with the unseen part at either end of the range.
    let extended: Vec<Vec<f64>> = sparse
        .iter()
        .flat_map(|&i| [range.0, range.1].map(|end| columns[i].iter().copied().chain([end]).collect()))
        .collect();
    let extended: Vec<&[f64]> = extended.iter().map(Vec::as_slice).collect();
    let mut means = if n > large_sample::MORE_THAN {
        let each = extended.iter().flat_map(|column| resampled_groups(&[*column], seed));
        each.collect::<Vec<_>>().into_iter()
    } else {
        resampled_means(&extended, n + 1, dirichlet, seed).into_iter()
    };
    for i in sparse {
        if let (Some(low), Some(high)) = (means.next(), means.next()) {
            intervals[i] = Some(Interval {
                low: quantile(&sorted(low), MISSED / 2.0),
                high: quantile(&sorted(high), 1.0 - MISSED / 2.0),
            });
        }
    }
    // Rounding of sums must not push an end beyond what can be.
    let inside = |x: f64| x.clamp(range.0, range.1);
    for interval in intervals.iter_mut().flatten() {
        *interval = Interval { low: inside(interval.low), high: inside(interval.high) };
    }
    intervals
}

/// The interval of any statistic of `n` items: the statistic is given the
/// positions that were drawn. Draws for which it has no value (such as an AUC
/// of one class) are left out; none if fewer than half have one, or if there
/// is none without a draw.
pub fn bootstrap(n: usize, seed: u64, statistic: impl Fn(&[usize]) -> Option<f64> + Sync) -> Option<Interval> {
    if n < 2 {
        return None;
    }
    let all: Vec<usize> = (0..n).collect();
    let observed = statistic(&all)?;
    let values: Vec<f64> = (0..RESAMPLES)
        .into_par_iter()
        .map_init(
            || vec![0; n],
            |drawn, resample| {
                let mut random = stream(seed, resample);
                drawn.iter_mut().for_each(|position| *position = random.below(n));
                statistic(drawn).filter(|value| value.is_finite())
            },
        )
        .flatten()
        .collect();
    if values.len() * 2 < RESAMPLES {
        return None;
    }
    // The jackknife: what the statistic is without each item in turn.
    let without: Vec<f64> = (0..n)
        .filter_map(|i| statistic(&all.iter().copied().filter(|&j| j != i).collect::<Vec<_>>()))
        .filter(|value| value.is_finite())
        .collect();
    let center = mean(&without)?;
    let influence: Vec<f64> = without.iter().map(|value| center - value).collect();
    bca(values, observed, &influence, n)
}

/// The interval of the mean over metrics of their means, where metrics may be
/// asked of different numbers of questions: questions are drawn, and each
/// metric's mean is taken anew over those of the drawn questions that it was
/// asked of. A column is one metric's scores, none where there is no score.
/// Degrees of freedom are those of the metric with the fewest questions. None
/// if a metric has fewer than two scores.
///
/// # Panics
/// If the columns differ in length.
pub fn bootstrap_mean_of_means(metrics: &[&[Option<f64>]], range: (f64, f64), seed: u64) -> Option<Interval> {
    let n = metrics.first()?.len();
    assert!(metrics.iter().all(|column| column.len() == n), "columns of one length");
    let known: Vec<Vec<f64>> = metrics.iter().map(|column| column.iter().copied().flatten().collect()).collect();
    if let [values] = &known[..] {
        return bootstrap_mean(values, range, seed);
    }
    let fewest = known.iter().map(Vec::len).min().filter(|fewest| *fewest > 1)?;
    let means: Vec<f64> = known.iter().filter_map(|values| mean(values)).collect();
    let sum_of_shares = |row: usize| -> f64 {
        let shares = metrics
            .iter()
            .zip(&known)
            .zip(&means)
            .filter_map(|((column, known), mean)| column[row].map(|value| (value - mean) / known.len() as f64));
        shares.sum()
    };
    let influence: Vec<f64> = (0..n).map(sum_of_shares).collect();
    // Where few questions differ, the unseen part stands at an end of the range.
    let few = differing(&influence) < FEW;
    let inside = |x: f64| x.clamp(range.0, range.1);
    if n > large_sample::MORE_THAN && !few {
        let shares: Vec<f64> = influence.iter().map(|x| x / metrics.len() as f64).collect();
        let curvature = curvature_of_means(metrics, &shares);
        let found = large_sample::interval(mean(&means)?, shares.into_iter(), curvature, fewest, MISSED)?;
        return Some(Interval { low: inside(found.low), high: inside(found.high) });
    }
    let resampled = |end: Option<f64>| -> Vec<f64> {
        let with_end = |values: Vec<f64>, end: Option<f64>| values.into_iter().chain(end).collect::<Vec<f64>>();
        let columns: Vec<Vec<f64>> = metrics
            .iter()
            .flat_map(|column| {
                let values = column.iter().map(|value| value.unwrap_or_default()).collect();
                let asked = column.iter().map(|value| f64::from(u8::from(value.is_some()))).collect();
                [with_end(values, end), with_end(asked, end.map(|_| 1.0))]
            })
            .collect();
        let columns: Vec<&[f64]> = columns.iter().map(Vec::as_slice).collect();
        let rows = columns.first().map_or(0, |column| column.len());
        let sums = if few && n > large_sample::MORE_THAN {
            resampled_groups(&columns, seed)
        } else if few {
            resampled_means(&columns, rows, dirichlet, seed)
        } else {
            resampled_means(&columns, rows, multinomial, seed)
        };
        let of = |resample: usize| {
            let ratios = sums.chunks_exact(2).map(|pair| pair[0][resample] / pair[1][resample]);
            ratios.sum::<f64>() / metrics.len() as f64
        };
        // A draw without any question of a metric has no value.
        (0..RESAMPLES).map(of).filter(|value| value.is_finite()).collect()
    };
    let interval = if few {
        let (low, high) = (sorted(resampled(Some(range.0))), sorted(resampled(Some(range.1))));
        Interval { low: quantile(&low, MISSED / 2.0), high: quantile(&high, 1.0 - MISSED / 2.0) }
    } else {
        bca(resampled(None), mean(&means)?, &influence, fewest)?
    };
    Some(Interval { low: inside(interval.low), high: inside(interval.high) })
}

/// Half the second derivative of the mean of means in the direction that moves
/// it by one standard error, in standard errors. A metric's mean is a ratio of
/// two sums over questions, so it bends where the number of its questions
/// changes.
fn curvature_of_means(metrics: &[&[Option<f64>]], shares: &[f64]) -> f64 {
    let n = shares.len() as f64;
    let error = shares.iter().map(|x| x * x).sum::<f64>().sqrt();
    let bend = |column: &[Option<f64>]| {
        let (mut sum, mut asked, mut sum_slope, mut asked_slope) = (0.0, 0.0, 0.0, 0.0);
        for (value, share) in column.iter().zip(shares) {
            let Some(value) = value else { continue };
            let direction = share / (n * error);
            sum += value / n;
            asked += 1.0 / n;
            sum_slope += direction * value;
            asked_slope += direction;
        }
        2.0 * asked_slope * (sum * asked_slope - sum_slope * asked) / asked.powi(3)
    };
    let second: f64 = metrics.iter().map(|column| bend(column)).sum::<f64>() / metrics.len() as f64;
    if error > 0.0 { second / (2.0 * error) } else { 0.0 }
}

fn intervals_into(intervals: &mut [Option<Interval>], found: Vec<(usize, Option<Interval>)>) {
    for (i, interval) in found {
        intervals[i] = interval;
    }
}

/// How many values differ from the commonest one.
fn differing(values: &[f64]) -> usize {
    let sorted = sorted(values.to_vec());
    let commonest = sorted.chunk_by(|a, b| a == b).map(<[f64]>::len).max().unwrap_or_default();
    values.len() - commonest
}

/// How much each value moves the mean, up to a factor.
fn influence(values: &[f64]) -> Vec<f64> {
    let center = mean(values).unwrap_or_default();
    values.iter().map(|value| value - center).collect()
}

/// The random numbers of one resample: its own, so that resamples can be made
/// in any order.
fn stream(seed: u64, resample: usize) -> Random {
    Random::new(seed.wrapping_add((resample as u64).wrapping_mul(0xA076_1D64_78BD_642F)))
}

/// For each column, its weighted mean in each resample.
fn resampled_means(
    columns: &[&[f64]],
    n: usize,
    draw: impl Fn(&mut Random, &mut [f64]) + Sync,
    seed: u64,
) -> Vec<Vec<f64>> {
    // Rows of a few columns each, side by side in memory.
    let blocks: Vec<Vec<[f64; LANES]>> = columns
        .chunks(LANES)
        .map(|block| {
            (0..n).map(|row| std::array::from_fn(|lane| block.get(lane).map_or(0.0, |column| column[row]))).collect()
        })
        .collect();
    if blocks.is_empty() {
        return Vec::new();
    }
    let sums: Vec<Vec<[f64; LANES]>> = (0..RESAMPLES)
        .into_par_iter()
        .map_init(
            || vec![0.0; n],
            |weights, resample| {
                draw(&mut stream(seed, resample), weights);
                blocks.iter().map(|block| weighted_sums(block, weights)).collect()
            },
        )
        .collect();
    (0..columns.len())
        .into_par_iter()
        .map(|column| sums.iter().map(|sums| sums[column / LANES][column % LANES]).collect())
        .collect()
}

/// The same for a Bayesian bootstrap of many rows, of which the last counts
/// half: equal rows are drawn as one, whose weight has a gamma distribution.
fn resampled_groups(columns: &[&[f64]], seed: u64) -> Vec<Vec<f64>> {
    let Some(last) = columns.first().and_then(|column| column.len().checked_sub(1)) else { return Vec::new() };
    let row = |position: usize| columns.iter().map(|column| column[position]).collect::<Vec<f64>>();
    let mut groups: std::collections::BTreeMap<Vec<u64>, (Vec<f64>, f64)> = std::collections::BTreeMap::new();
    for position in 0..last {
        let values = row(position);
        groups.entry(values.iter().map(|value| value.to_bits()).collect()).or_insert((values, 0.0)).1 += 1.0;
    }
    let mut groups: Vec<(Vec<f64>, f64)> = groups.into_values().collect();
    groups.push((row(last), 0.5));
    let means: Vec<Vec<f64>> = (0..RESAMPLES)
        .into_par_iter()
        .map(|resample| {
            let mut random = stream(seed, resample);
            let (mut sums, mut total) = (vec![0.0; columns.len()], 0.0);
            for (values, count) in &groups {
                let weight = large_sample::gamma(&mut random, *count);
                total += weight;
                sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += weight * value);
            }
            sums.iter_mut().for_each(|sum| *sum /= total);
            sums
        })
        .collect();
    (0..columns.len()).map(|column| means.iter().map(|means| means[column]).collect()).collect()
}

fn weighted_sums(block: &[[f64; LANES]], weights: &[f64]) -> [f64; LANES] {
    let mut sums = [0.0; LANES];
    for (row, weight) in block.iter().zip(weights) {
        for (sum, value) in sums.iter_mut().zip(row) {
            *sum += weight * value;
        }
    }
    sums
}

/// Weights of n draws with replacement from n rows.
fn multinomial(random: &mut Random, weights: &mut [f64]) {
    let n = weights.len();
    weights.fill(0.0);
    let share = 1.0 / n as f64;
    for _ in 0..n {
        weights[random.below(n)] += share;
    }
}

/// Weights of a Bayesian bootstrap, the last one of half a row.
fn dirichlet(random: &mut Random, weights: &mut [f64]) {
    // A gamma variable of shape 1 is an exponential one, that of shape 1/2
    // half the square of a normal one.
    weights.iter_mut().for_each(|weight| *weight = -random.open_unit().ln());
    if let Some(last) = weights.last_mut() {
        let angle = std::f64::consts::TAU * random.open_unit();
        *last *= angle.cos().powi(2);
    }
    let sum: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|weight| *weight /= sum);
}

/// The expanded BCa interval from resampled values, what was observed, and
/// the influence of each item. `items` is the number that degrees of freedom
/// are counted from.
fn bca(values: Vec<f64>, observed: f64, influence: &[f64], items: usize) -> Option<Interval> {
    let values = sorted(values);
    mean(&values)?;
    let (normal, student) = (Normal::standard(), StudentsT::new(0.0, 1.0, (items.max(2) - 1) as f64).ok()?);
    // Equal sums that were rounded differently are equal.
    let rounding = observed.abs().max(1e-3) * 1e-9;
    let below = values.partition_point(|value| *value < observed - rounding);
    let upto = values.partition_point(|value| *value <= observed + rounding);
    let resamples = values.len() as f64;
    let share = ((below + upto) as f64 / 2.0 / resamples).clamp(1.0 / resamples, 1.0 - 1.0 / resamples);
    let bias = normal.inverse_cdf(share);
    let squares: f64 = influence.iter().map(|x| x * x).sum();
    let cubes: f64 = influence.iter().map(|x| x * x * x).sum();
    let acceleration = if squares > 0.0 { cubes / (6.0 * squares.powf(1.5)) } else { 0.0 };
    let n = items.max(2) as f64;
    let reach = (n / (n - 1.0)).sqrt() * student.inverse_cdf(1.0 - MISSED / 2.0);
    let level = |z: f64| {
        let shrink = 1.0 - acceleration * (bias + z);
        // Beyond this point the correction has no meaning: take the end.
        if shrink <= 0.0 { f64::from(u8::from(z > 0.0)) } else { normal.cdf(bias + (bias + z) / shrink) }
    };
    Some(Interval { low: quantile(&values, level(-reach)), high: quantile(&values, level(reach)) })
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// The quantile of sorted values, with a straight line between neighbours.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let position = share * (sorted.len() - 1) as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * (position - below as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: (f64, f64) = (0.0, 1.0);

    #[test]
    fn the_interval_of_a_mean_is_near_the_normal_one_for_many_values() {
        // 0..100: mean 49.5, standard error 29.011 / 10, t = 1.984, so ± 5.76.
        let values: Vec<f64> = (0..100).map(f64::from).collect();
        let interval = bootstrap_mean(&values, (0.0, 99.0), 1).unwrap();
        assert!((interval.low - 43.74).abs() < 0.25, "{interval:?}");
        assert!((interval.high - 55.26).abs() < 0.25, "{interval:?}");
    }

    #[test]
    fn a_skewed_sample_has_a_skewed_interval() {
        // A long tail to the left: the lower end is further away.
        let values: Vec<f64> = (1..=30).map(|i| 1.0 - (f64::from(i) / 30.0).powi(6)).collect();
        let (center, interval) = (mean(&values).unwrap(), bootstrap_mean(&values, UNIT, 1).unwrap());
        let (down, up) = (center - interval.low, interval.high - center);
        assert!(down > 1.15 * up, "{down} {up}");
    }

    #[test]
    fn the_interval_depends_on_values_and_seed_alone() {
        let (a, b) = ([0.1, 0.5, 0.9, 0.3, 0.2, 0.6, 0.8], [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6]);
        let alone = bootstrap_mean(&a, UNIT, 5);
        let columns: Vec<&[f64]> = (0..20).map(|i| if i == 13 { &a[..] } else { &b[..] }).collect();
        assert_eq!(bootstrap_means(&columns, UNIT, 5)[13], alone);
        assert_ne!(bootstrap_mean(&a, UNIT, 6), alone);
    }

    #[test]
    fn equal_values_do_not_rule_out_others() {
        // 20 of 20 right: the exact interval of Clopper and Pearson is 0.832 to 1.
        let interval = bootstrap_mean(&[1.0; 20], UNIT, 3).unwrap();
        assert!((0.82..0.93).contains(&interval.low), "{interval:?}");
        assert_eq!(interval.high, 1.0);
        let half = bootstrap_mean(&[0.5; 20], UNIT, 3).unwrap();
        assert!(half.low < 0.5 && half.high > 0.5, "{half:?}");
    }

    #[test]
    fn one_value_has_no_interval() {
        assert_eq!(bootstrap_mean(&[0.5], UNIT, 0), None);
        assert_eq!(bootstrap_mean(&[], UNIT, 0), None);
        assert!(bootstrap_means(&[], UNIT, 0).is_empty());
    }

    #[test]
    fn the_interval_of_one_metric_is_that_of_its_mean() {
        let values: Vec<Option<f64>> = (0..30).map(|i| (i % 3 > 0).then_some(f64::from(i) / 30.0)).collect();
        let known: Vec<f64> = values.iter().copied().flatten().collect();
        assert_eq!(bootstrap_mean_of_means(&[&values], UNIT, 1), bootstrap_mean(&known, UNIT, 1));
        assert_eq!(bootstrap_mean_of_means(&[&values, &[None; 30]], UNIT, 1), None);
        assert_eq!(bootstrap_mean_of_means(&[], UNIT, 1), None);
    }

    #[test]
    fn metrics_of_different_numbers_of_questions_hold_the_truth_95_times_of_100() {
        // 24 questions, of which 8 are answered: one metric for all, one for those.
        let mut random = Random::new(5);
        let (mut held, mut width) = (0, 0.0);
        for seed in 0..400 {
            let mut difficulty = || random.open_unit();
            let hard: Vec<f64> = (0..24).map(|_| difficulty()).collect();
            let mut score = |hard: f64| (hard + random.open_unit()) / 2.0;
            let all: Vec<Option<f64>> = hard.iter().map(|hard| Some(score(*hard))).collect();
            let some: Vec<Option<f64>> =
                hard.iter().enumerate().map(|(i, hard)| (i < 8).then(|| score(*hard))).collect();
            let interval = bootstrap_mean_of_means(&[&all, &some], UNIT, seed).unwrap();
            held += usize::from(interval.low <= 0.5 && 0.5 <= interval.high);
            width += (interval.high - interval.low) / 400.0;
        }
        assert!((368..=396).contains(&held), "{held} of 400");
        // Each metric's own is 0.17 and 0.34 wide.
        assert!(width < 0.30, "{width}");
    }

    #[test]
    fn quantiles_lie_on_the_line_between_neighbours() {
        assert_eq!(quantile(&[1.0, 2.0, 3.0, 4.0], 0.5), 2.5);
        assert_eq!(quantile(&[1.0, 2.0], 0.975), 1.975);
        assert_eq!(quantile(&[4.0], 0.025), 4.0);
    }

    #[test]
    fn a_statistic_without_values_has_no_interval() {
        assert_eq!(bootstrap(10, 0, |_| None), None);
        assert!(bootstrap(10, 0, |drawn| Some(drawn[0] as f64)).is_some());
    }

    #[test]
    fn any_statistic_that_is_a_mean_has_the_interval_of_a_mean() {
        let values: Vec<f64> = (0..40).map(|i| f64::from(i * i) / 1600.0).collect();
        let as_mean = bootstrap_mean(&values, UNIT, 2).unwrap();
        let statistic = |drawn: &[usize]| mean(&drawn.iter().map(|&i| values[i]).collect::<Vec<_>>());
        let as_any = bootstrap(40, 2, statistic).unwrap();
        assert!((as_mean.low - as_any.low).abs() < 1e-9, "{as_mean:?} {as_any:?}");
        assert!((as_mean.high - as_any.high).abs() < 1e-9, "{as_mean:?} {as_any:?}");
    }

    /// The ends by formula and by resampling, in standard errors.
    fn apart(formula: Interval, resampled: Interval) -> f64 {
        let error = (resampled.high - resampled.low) / (2.0 * 1.96);
        (formula.low - resampled.low).abs().max((formula.high - resampled.high).abs()) / error
    }

    #[test]
    fn the_formula_for_many_values_gives_the_ends_of_resampling() {
        // Few enough that skewness moves the ends, far more than the noise of resampling (0.03).
        let mut random = Random::new(9);
        for n in [400, 3_000] {
            let values: Vec<f64> = (0..n).map(|_| random.open_unit().powi(12)).collect();
            let resampled = bootstrap_mean(&values, UNIT, 1).unwrap();
            let shares = influence(&values).into_iter().map(|x| x / n as f64);
            let formula = large_sample::interval(mean(&values).unwrap(), shares, 0.0, n, MISSED).unwrap();
            assert!(apart(formula, resampled) < 0.1, "{n}: {formula:?} {resampled:?}");
        }
    }

    #[test]
    fn more_than_ten_thousand_values_have_the_interval_of_resampling() {
        let mut random = Random::new(4);
        let values: Vec<f64> = (0..12_000).map(|_| random.open_unit().powi(6)).collect();
        let resampled = {
            let means = resampled_means(&[&values], values.len(), multinomial, 1).remove(0);
            bca(means, mean(&values).unwrap(), &influence(&values), values.len()).unwrap()
        };
        assert!(apart(bootstrap_mean(&values, UNIT, 1).unwrap(), resampled) < 0.1);
    }

    #[test]
    fn nearly_equal_values_in_great_number_have_the_interval_of_a_bayesian_bootstrap() {
        // Three of 12,000 are wrong.
        let values: Vec<f64> = (0..12_000).map(|i| f64::from(u8::from(i % 4_000 > 0))).collect();
        let interval = bootstrap_mean(&values, UNIT, 1).unwrap();
        let resampled = |end: f64| {
            let extended: Vec<f64> = values.iter().copied().chain([end]).collect();
            sorted(resampled_means(&[&extended], extended.len(), dirichlet, 1).remove(0))
        };
        let (low, high) = (quantile(&resampled(0.0), MISSED / 2.0), quantile(&resampled(1.0), 1.0 - MISSED / 2.0));
        assert!(apart(interval, Interval { low, high }) < 0.1, "{interval:?} {low} {high}");
        let perfect = bootstrap_mean(&vec![1.0; 12_000], UNIT, 1).unwrap();
        assert!((0.9997..1.0).contains(&perfect.low) && perfect.high == 1.0, "{perfect:?}");
    }

    #[test]
    fn metrics_of_many_questions_have_the_interval_of_resampling() {
        // The second metric is asked where the first is low, so its mean bends with the number of its questions.
        let mut random = Random::new(6);
        let first: Vec<Option<f64>> = (0..11_000).map(|_| Some(random.open_unit())).collect();
        let second: Vec<Option<f64>> =
            first.iter().map(|score| (score.unwrap() < 0.02).then(|| random.open_unit().powi(4))).collect();
        let formula = bootstrap_mean_of_means(&[&first, &second], UNIT, 1).unwrap();
        let columns: Vec<Vec<f64>> = [&first, &second]
            .into_iter()
            .flat_map(|column| {
                let asked = column.iter().map(|value| f64::from(u8::from(value.is_some()))).collect();
                [column.iter().map(|value| value.unwrap_or_default()).collect::<Vec<f64>>(), asked]
            })
            .collect();
        let columns: Vec<&[f64]> = columns.iter().map(Vec::as_slice).collect();
        let sums = resampled_means(&columns, first.len(), multinomial, 1);
        let drawn = (0..RESAMPLES).map(|i| (sums[0][i] / sums[1][i] + sums[2][i] / sums[3][i]) / 2.0).collect();
        let known: Vec<f64> = second.iter().copied().flatten().collect();
        let (mean_of_first, mean_of_second) =
            (mean(&first.iter().copied().flatten().collect::<Vec<_>>()).unwrap(), mean(&known).unwrap());
        let shares: Vec<f64> = first
            .iter()
            .zip(&second)
            .map(|(a, b)| {
                (a.unwrap() - mean_of_first) / first.len() as f64
                    + b.map_or(0.0, |b| (b - mean_of_second) / known.len() as f64)
            })
            .collect();
        let resampled = bca(drawn, (mean_of_first + mean_of_second) / 2.0, &shares, known.len()).unwrap();
        assert!(apart(formula, resampled) < 0.1, "{formula:?} {resampled:?}");
    }

    #[test]
    fn about_95_of_100_intervals_hold_the_truth() {
        // Skewed, discrete and nearly constant scores of 20 questions.
        type Maker = fn(f64) -> f64;
        let makers: [(&str, Maker, f64); 3] = [
            ("skewed", |u| u.powf(0.2), 1.0 / 1.2),
            ("thirds", |u| (u * 4.0).floor() / 3.0, 0.5),
            ("rarely wrong", |u| f64::from(u8::from(u > 0.05)), 0.95),
        ];
        for (name, make, truth) in makers {
            let mut random = Random::new(77);
            let mut held = 0;
            for seed in 0..400 {
                let values: Vec<f64> = (0..20).map(|_| make(random.open_unit())).collect();
                let interval = bootstrap_mean(&values, UNIT, seed).unwrap();
                held += usize::from(interval.low <= truth && truth <= interval.high);
            }
            // 95 % of 400 is 380; 2.6 standard deviations are 11.
            assert!((369..=398).contains(&held), "{name}: {held} of 400");
        }
    }
}
