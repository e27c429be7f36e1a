//! Bootstrap intervals of means and of other statistics over questions.
//!
//! Measures the uncertainty of a statistic over a sample of questions, without
//! assumptions about the distribution of scores. Questions are resampled with
//! replacement 10,000 times, the same ones for every trial. The interval is the
//! *expanded* BCa interval: percentiles of the resampled statistic, corrected for
//! bias and skew (BCa), and moved outwards by the factor by which Student's t
//! exceeds the normal distribution, because resamples of n values show only
//! (n − 1)/n of their variance.
//!
//! Resampling cannot show values that are not in the sample: twenty correct answers
//! prove that failures are rare, not that there are none. If fewer than five values
//! differ from the most frequent one, the interval of a mean therefore comes from a
//! Bayesian bootstrap with half a question more, which has the lowest and then the
//! highest score of the metric's range. For equal values this is close to the rule
//! of three: about 2/n wide.
//!
//! With more than 10,000 questions the ends come from a formula of the same
//! order of accuracy instead of resamples (`large_sample.rs`).
//!
//! Coverage in simulation: `cargo run --release --example coverage`, table in
//! `benches/README.md`. Below ten questions the interval is only a hint.
//!
//! Sources: B. Efron, "Better Bootstrap Confidence Intervals", JASA 82 (1987);
//! T. C. Hesterberg, "What Teachers Should Know About the Bootstrap", The
//! American Statistician 69 (2015), for the expansion; D. B. Rubin, "The
//! Bayesian Bootstrap", Annals of Statistics 9 (1981).

use super::{
    Random,
    interval::{Interval, MISSED, RESAMPLES, reach},
    large_sample, mean,
};
use rayon::prelude::*;
use statrs::distribution::{ContinuousCDF, Normal};

/// With fewer values that differ from the most frequent one, the sample does not
/// show the distribution.
const FEW: usize = 5;
/// Columns that are summed at once, for SIMD.
const LANES: usize = 8;

/// The interval of the mean of values in a range. `None` for fewer than two,
/// which have no spread.
pub fn bootstrap_mean(values: &[f64], range: (f64, f64), seed: u64) -> Option<Interval> {
    bootstrap_means(&[values], range, seed).into_iter().next().flatten()
}

/// The intervals of the means of several columns of one length, such as one per
/// trial. All columns have the same resamples, which depend on the number of rows
/// and the seed alone, so an interval does not depend on the other columns.
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
            intervals[i] = large_sample::interval(center, shares, 0.0, n);
        }
    } else {
        let drawn: Vec<&[f64]> = dense.iter().map(|&i| columns[i]).collect();
        let means = resampled_means(&drawn, n, multinomial, seed);
        let found: Vec<_> = dense
            .par_iter()
            .zip(means)
            .map(|(&i, means)| (i, bca(means, mean(columns[i]).unwrap_or_default(), &influence(columns[i]), n)))
            .collect();
        found.into_iter().for_each(|(i, interval)| intervals[i] = interval);
    }

    // Each sparse column twice: with the extra half question at either end of the range.
    let extended: Vec<Vec<f64>> = sparse
        .iter()
        .flat_map(|&i| [range.0, range.1].map(|end| columns[i].iter().copied().chain([end]).collect()))
        .collect();
    let extended: Vec<&[f64]> = extended.iter().map(Vec::as_slice).collect();
    let mut means = if n > large_sample::MORE_THAN {
        let each = extended.iter().flat_map(|column| large_sample::resampled_groups(&[*column], seed));
        each.collect::<Vec<_>>().into_iter()
    } else {
        resampled_means(&extended, n + 1, dirichlet, seed).into_iter()
    };
    for i in sparse {
        if let (Some(low), Some(high)) = (means.next(), means.next()) {
            intervals[i] = Some(outer_ends(low, high));
        }
    }
    intervals.into_iter().map(|interval| interval.map(|interval| within(interval, range))).collect()
}

/// The interval of any statistic of `n` items, which is a function of the indices
/// of a resample. Resamples without a value (such as an AUC of one class) are left
/// out. `None` if fewer than half have a value, or if the sample itself has none.
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
                let mut random = Random::of_resample(seed, resample);
                drawn.iter_mut().for_each(|position| *position = random.below(n));
                statistic(drawn).filter(|value| value.is_finite())
            },
        )
        .flatten()
        .collect();
    if values.len() * 2 < RESAMPLES {
        return None;
    }
    // The jackknife: the statistic without each item in turn.
    let without: Vec<f64> = (0..n)
        .filter_map(|i| statistic(&all.iter().copied().filter(|&j| j != i).collect::<Vec<_>>()))
        .filter(|value| value.is_finite())
        .collect();
    let center = mean(&without)?;
    let influence: Vec<f64> = without.iter().map(|value| center - value).collect();
    bca(values, observed, &influence, n)
}

/// The interval of the mean over metrics of their means. Metrics may have scores
/// for different questions: questions are resampled, and each metric's mean is
/// taken over the resampled questions with a score. `metrics` is metric × question;
/// a missing score is `None`. The degrees of freedom are those of the metric with
/// the fewest scores. `None` if a metric has fewer than two scores.
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
    // Where few questions differ, the extra half question is at an end of the range.
    let few = differing(&influence) < FEW;
    if fewest > large_sample::MORE_THAN && !few {
        let found = large_sample::interval_of_means(metrics, mean(&means)?, &influence, fewest)?;
        return Some(within(found, range));
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
            large_sample::resampled_groups(&columns, seed)
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
        outer_ends(resampled(Some(range.0)), resampled(Some(range.1)))
    } else {
        bca(resampled(None), mean(&means)?, &influence, fewest)?
    };
    Some(within(interval, range))
}

/// The interval of a ratio of two sums over items, such as the votes that were won and all votes on each question. Items are
/// resampled whole. `None` for fewer than two items, or if the second sum is 0.
///
/// # Panics
/// If the columns differ in length.
pub fn bootstrap_ratio(parts: &[f64], wholes: &[f64], range: (f64, f64), seed: u64) -> Option<Interval> {
    assert_eq!(parts.len(), wholes.len(), "columns of one length");
    let (n, whole) = (parts.len(), wholes.iter().sum::<f64>());
    if n < 2 || whole <= 0.0 {
        return None;
    }
    let resampled = |end: Option<f64>| -> Vec<f64> {
        // The extra half item has the size of an average one.
        let size = whole / n as f64;
        let parts: Vec<f64> = parts.iter().copied().chain(end.map(|end| end * size)).collect();
        let wholes: Vec<f64> = wholes.iter().copied().chain(end.map(|_| size)).collect();
        let (columns, rows) = ([parts.as_slice(), wholes.as_slice()], parts.len());
        let sums = match end {
            Some(_) => resampled_means(&columns, rows, dirichlet, seed),
            None => resampled_means(&columns, rows, multinomial, seed),
        };
        let [parts, wholes] = &sums[..] else { return Vec::new() };
        parts.iter().zip(wholes).map(|(part, whole)| part / whole).filter(|ratio| ratio.is_finite()).collect()
    };
    let ratios: Vec<f64> = parts.iter().zip(wholes).map(|(part, whole)| part / whole).collect();
    let interval = if differing(&ratios) < FEW {
        outer_ends(resampled(Some(range.0)), resampled(Some(range.1)))
    } else {
        let ratio = parts.iter().sum::<f64>() / whole;
        let influence: Vec<f64> = parts.iter().zip(wholes).map(|(part, whole)| part - ratio * whole).collect();
        bca(resampled(None), ratio, &influence, n)?
    };
    Some(within(interval, range))
}

/// The lower end of the interval of some values, and the upper end of that of others.
fn outer_ends(low: Vec<f64>, high: Vec<f64>) -> Interval {
    Interval { low: quantile(&sorted(low), MISSED / 2.0), high: quantile(&sorted(high), 1.0 - MISSED / 2.0) }
}

/// An interval within a range: rounding of sums must not push an end out of it.
fn within(Interval { low, high }: Interval, range: (f64, f64)) -> Interval {
    Interval { low: low.clamp(range.0, range.1), high: high.clamp(range.0, range.1) }
}

/// The number of values that differ from the most frequent one.
fn differing(values: &[f64]) -> usize {
    let sorted = sorted(values.to_vec());
    let commonest = sorted.chunk_by(|a, b| a == b).map(<[f64]>::len).max().unwrap_or_default();
    values.len() - commonest
}

/// The influence of each value on the mean, up to a factor.
fn influence(values: &[f64]) -> Vec<f64> {
    let center = mean(values).unwrap_or_default();
    values.iter().map(|value| value - center).collect()
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
                draw(&mut Random::of_resample(seed, resample), weights);
                blocks.iter().map(|block| weighted_sums(block, weights)).collect()
            },
        )
        .collect();
    (0..columns.len())
        .into_par_iter()
        .map(|column| sums.iter().map(|sums| sums[column / LANES][column % LANES]).collect())
        .collect()
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

/// The expanded BCa interval from resampled values, the observed value, and the
/// influence of each item. `items` gives the degrees of freedom.
fn bca(values: Vec<f64>, observed: f64, influence: &[f64], items: usize) -> Option<Interval> {
    let values = sorted(values);
    mean(&values)?;
    let normal = Normal::standard();
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
    let reach = reach(items)?;
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
#[path = "bootstrap_tests.rs"]
mod tests;
