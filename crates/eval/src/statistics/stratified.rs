//! Totals of a population, estimated from a sample of its items of which each has a known size.
//!
//! When to use it: when measuring an item is slow, the size of every item is known, and what is measured is roughly
//! proportional to the size, such as the text of a file.
//!
//! - **Strata.** Sizes of files are so uneven that a few files hold most of the bytes. Items so large that a sample
//!   by size could hardly miss them are drawn for certain. The others are divided by group and, inside a group, into
//!   classes of similar size. All classes of a group have the same mass, which is the mean of their share of the
//!   items and their share of the size, and get equally many draws. So no total depends on whether one large item was
//!   drawn.
//! - **Draws** are made at random without replacement inside each class.
//! - **Totals** are ratio estimates: in each class, what was measured is divided by the size of the sample, and
//!   multiplied by the size of the whole class. Numbers of items are estimated by the number of items in the class.
//! - **Intervals of totals** come from the rescaling bootstrap for samples without replacement: of n drawn items,
//!   n − 1 are drawn again with replacement, and the weights are moved from their old values only as far as the class was
//!   not drawn. A class that was drawn as a whole has no error, so the interval of a population that was drawn as a
//!   whole is a point. The standard error of the resamples gives an interval by Student's t on the scale of
//!   logarithms, because a total is never below 0 and its error is a share of it. The degrees of freedom are those of
//!   Satterthwaite: one class may cause most of the error.
//! - **Intervals of shares** of the items are Wilson's, with the number of draws of a simple random sample that is as
//!   exact. Unlike a bootstrap they are also right for a share of 0 or 1.
//!
//! An interval covers the error of drawing and nothing else. With fewer than about a hundred draws, very uneven
//! populations are missed more often than in one of twenty cases: what is in no sampled item cannot be seen.
//!
//! Sources: W. G. Cochran, "Sampling Techniques", 3rd edition (1977), chapters 5 and 6, for stratified ratio
//! estimates; T. Dalenius and J. L. Hodges, "Minimum Variance Stratification", JASA 54 (1959), for classes of equal
//! mass; J. N. K. Rao, C. F. J. Wu, K. Yue, "Some Recent Work on Resampling Methods for Complex Surveys", Survey
//! Methodology 18 (1992), for the weights of resamples; F. E. Satterthwaite, "An Approximate Distribution of
//! Estimates of Variance Components", Biometrics Bulletin 2 (1946); E. B. Wilson, "Probable Inference, the Law of
//! Succession, and Statistical Inference", JASA 22 (1927).

use super::{
    Random,
    interval::{Interval, student_quantile},
};
use std::collections::BTreeSet;

/// The number of resamples for the interval of a total. Only their standard error is used, which is then known to
/// within 5 %.
pub const RESAMPLES_OF_TOTAL: usize = 200;
/// The fewest items that are drawn of a group, if it has as many. If there are more groups than the sample has room
/// for, the smallest groups are one.
const LEAST: usize = 5;
/// Items that are drawn of a class of sizes.
const OF_CLASS: usize = 10;
/// An item is drawn for certain if it is larger than what this many draws stand for.
const CERTAIN: f64 = 2.0;
/// Degrees of freedom with which Student's t is the normal distribution.
const MANY: f64 = 1e6;

/// A stratified random sample of items with known sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct StratifiedSample {
    strata: Vec<Stratum>,
}

/// The items of a group that have similar sizes.
#[derive(Debug, Clone, PartialEq)]
struct Stratum {
    group: usize,
    /// All its items.
    items: usize,
    /// The size of all its items.
    size: f64,
    /// The places of the items that were drawn, and their sizes.
    drawn: Vec<(usize, f64)>,
}

impl Stratum {
    fn is_whole(&self) -> bool {
        self.drawn.len() >= self.items
    }

    /// Whether its draws show no spread, although they are not all items.
    fn is_thin(&self) -> bool {
        !self.is_whole() && self.drawn.len() < 2
    }
}

/// The number of items, or the amount of size, that each item of a sample stands for.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleWeights {
    /// For totals that do not grow with the size: how many items each item stands for.
    pub items: Vec<f64>,
    /// For totals that grow with the size: by how much what was measured of each item is multiplied.
    pub sizes: Vec<f64>,
}

impl StratifiedSample {
    /// Draws at most `most` items, but at least two. `groups` holds the places of the items of each group, `sizes`
    /// the size of the item at each place. The sample depends on these and the seed alone.
    pub fn draw(groups: &[Vec<usize>], sizes: &[u64], most: usize, seed: u64) -> Self {
        let most = most.max(2);
        let size_of = |places: &[usize]| places.iter().map(|&place| size(sizes, place)).sum::<f64>();
        let items = groups.iter().map(Vec::len).sum::<usize>();
        let total = groups.iter().map(|group| size_of(group)).sum();
        let mass = |group: &[usize]| mass(group.len() as f64, size_of(group), items as f64, total);
        let mut groups: Vec<(f64, Vec<usize>)> =
            groups.iter().filter(|group| !group.is_empty()).map(|group| (mass(group), group.clone())).collect();
        groups.sort_by(|one, other| other.0.total_cmp(&one.0));
        let kept = (most / LEAST).max(1);
        if groups.len() > kept {
            let rest = groups.split_off(kept - 1);
            let joined = rest.iter().map(|(mass, _)| mass).sum();
            groups.push((joined, rest.into_iter().flat_map(|(_, group)| group).collect()));
        }
        let masses: Vec<f64> = groups.iter().map(|(mass, _)| *mass).collect();
        let limits: Vec<usize> = groups.iter().map(|(_, group)| group.len()).collect();
        let counts = allocate(&masses, &limits, most);
        let mut random = Random::new(seed);
        let mut strata = Vec::new();
        for (number, ((_, mut group), count)) in groups.into_iter().zip(counts).enumerate() {
            let largest = take_largest(&mut group, sizes, count);
            let count = count - largest.len();
            let classes = size_classes(group, sizes, (count / OF_CLASS).max(1));
            let limits: Vec<usize> = classes.iter().map(Vec::len).collect();
            let counts = allocate(&vec![1.0; classes.len()], &limits, count);
            let all_of_largest = largest.len();
            let parts = classes.into_iter().zip(counts).chain([(largest, all_of_largest)]);
            for (mut part, count) in parts.filter(|(part, _)| !part.is_empty()) {
                let (items, size_of_part) = (part.len(), size_of(&part));
                random.shuffle(&mut part);
                let drawn = part.into_iter().take(count).map(|place| (place, size(sizes, place))).collect();
                strata.push(Stratum { group: number, items, size: size_of_part, drawn });
            }
        }
        Self { strata }.with_spread()
    }

    /// The sample without items that could not be measured. The others stand for them too.
    #[must_use]
    pub fn without(mut self, missing: &BTreeSet<usize>) -> Self {
        for stratum in &mut self.strata {
            stratum.drawn.retain(|(place, _)| !missing.contains(place));
        }
        self.with_spread()
    }

    /// Joins strata whose draws show no spread with a neighbour, of their own group if there is one.
    fn with_spread(mut self) -> Self {
        while self.strata.len() > 1
            && let Some(thin) = self.strata.iter().position(Stratum::is_thin)
        {
            let removed = self.strata.remove(thin);
            let is_of_group = |place: usize| self.strata.get(place).is_some_and(|other| other.group == removed.group);
            let before = thin.checked_sub(1);
            let neighbour = match before {
                Some(before) if is_of_group(before) || !is_of_group(thin) => before,
                _ => thin,
            };
            if let Some(other) = self.strata.get_mut(neighbour) {
                other.items += removed.items;
                other.size += removed.size;
                other.drawn.extend(removed.drawn);
            }
        }
        self
    }

    /// The places of the drawn items, in the order of the weights.
    pub fn places(&self) -> Vec<usize> {
        self.strata.iter().flat_map(|stratum| stratum.drawn.iter().map(|(place, _)| *place)).collect()
    }

    /// Whether all items were drawn.
    pub fn is_whole(&self) -> bool {
        self.strata.iter().all(Stratum::is_whole)
    }

    /// The weights of the drawn items.
    pub fn weights(&self) -> SampleWeights {
        self.weights_by(|stratum| vec![1.0; stratum.drawn.len()])
    }

    /// The weights of the drawn items in a resample. A whole stratum keeps its weights.
    pub fn resampled_weights(&self, seed: u64, resample: usize) -> SampleWeights {
        let mut random = Random::of_resample(seed, resample);
        self.weights_by(|stratum| {
            let n = stratum.drawn.len();
            if stratum.is_whole() || n < 2 {
                return vec![1.0; n];
            }
            let moved = (1.0 - n as f64 / stratum.items as f64).sqrt();
            let mut factors = vec![1.0 - moved; n];
            for _ in 1..n {
                if let Some(factor) = factors.get_mut(random.below(n)) {
                    *factor += moved * n as f64 / (n - 1) as f64;
                }
            }
            factors
        })
    }

    /// Weights in which each item of a stratum counts by a factor.
    fn weights_by(&self, mut factors: impl FnMut(&Stratum) -> Vec<f64>) -> SampleWeights {
        let mut weights = SampleWeights { items: Vec::new(), sizes: Vec::new() };
        for stratum in &self.strata {
            let factors = factors(stratum);
            let drawn: f64 = factors.iter().sum();
            let drawn_size: f64 = factors.iter().zip(&stratum.drawn).map(|(factor, (_, size))| factor * size).sum();
            let of_items = stratum.items as f64 / drawn.max(f64::MIN_POSITIVE);
            // Items without a size have nothing that could be measured.
            let of_sizes = if drawn_size > 0.0 { stratum.size / drawn_size } else { of_items };
            weights.items.extend(factors.iter().map(|factor| factor * of_items));
            weights.sizes.extend(factors.iter().map(|factor| factor * of_sizes));
        }
        weights
    }

    /// The 95 % interval of a share of all items.
    pub fn share_interval(&self, share: f64) -> Interval {
        let share = share.clamp(0.0, 1.0);
        let items = self.strata.iter().map(|stratum| stratum.items).sum::<usize>().max(1) as f64;
        let of_stratum = |stratum: &Stratum| {
            let (n, all) = (stratum.drawn.len().max(1) as f64, stratum.items.max(1) as f64);
            (all / items).powi(2) * (1.0 - n / all).max(0.0) / n
        };
        // One over the number of draws of a simple random sample that is as exact.
        let variance: f64 = self.strata.iter().map(of_stratum).sum();
        let uncertainty = variance * student_quantile(MANY).unwrap_or_default().powi(2);
        let low = |share: f64| {
            let half = (uncertainty * share * (1.0 - share) + uncertainty * uncertainty / 4.0).sqrt();
            ((share + uncertainty / 2.0 - half) / (1.0 + uncertainty)).clamp(0.0, 1.0)
        };
        Interval { low: low(share), high: 1.0 - low(1.0 - share) }
    }

    /// The 95 % interval of a total, from its estimate, its estimates in resamples, and the degrees of freedom.
    pub fn interval(&self, estimate: f64, resampled: &[f64], freedom: f64) -> Interval {
        if self.is_whole() || resampled.is_empty() || estimate <= 0.0 {
            return Interval { low: estimate, high: estimate };
        }
        let squares: f64 = resampled.iter().map(|value| (value - estimate).powi(2)).sum();
        let error = (squares / resampled.len() as f64).sqrt() / estimate;
        let reach = error * student_quantile(freedom).unwrap_or_default();
        Interval { low: estimate * (-reach).exp(), high: estimate * reach.exp() }
    }

    /// The degrees of freedom for the interval of a total. `measured` is what was measured of each drawn item, which the
    /// total is the sum of.
    pub fn freedom(&self, measured: &[f64]) -> f64 {
        let mut left = measured;
        let (mut sum, mut squares) = (0.0, 0.0);
        for stratum in &self.strata {
            let n = stratum.drawn.len();
            let (values, rest) = left.split_at(n.min(left.len()));
            left = rest;
            if stratum.is_whole() || n < 2 {
                continue;
            }
            let drawn_size: f64 = stratum.drawn.iter().map(|(_, size)| size).sum();
            let ratio = values.iter().sum::<f64>() / drawn_size.max(f64::MIN_POSITIVE);
            let errors = values.iter().zip(&stratum.drawn).map(|(value, (_, size))| (value - ratio * size).powi(2));
            let (n, all) = (n as f64, stratum.items as f64);
            let variance = all * (all - n) * errors.sum::<f64>() / (n * (n - 1.0));
            sum += variance;
            squares += variance * variance / (n - 1.0);
        }
        if squares > 0.0 { (sum * sum / squares).clamp(1.0, MANY) } else { MANY }
    }
}

/// The size of the item at a place.
fn size(sizes: &[u64], place: usize) -> f64 {
    sizes.get(place).copied().unwrap_or_default() as f64
}

/// The mean of a part's share of the items and its share of the size.
fn mass(items: f64, size: f64, all_items: f64, all_size: f64) -> f64 {
    let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    f64::midpoint(share(items, all_items), share(size, all_size))
}

/// Takes the items out of a group that are drawn for certain, because they are so large.
fn take_largest(group: &mut Vec<usize>, sizes: &[u64], draws: usize) -> Vec<usize> {
    group.sort_unstable_by_key(|&place| (sizes.get(place).copied().unwrap_or_default(), place));
    let mut total: f64 = group.iter().map(|&place| size(sizes, place)).sum();
    let mut largest = Vec::new();
    while let Some(&place) = group.last()
        && largest.len() + LEAST < draws
        && size(sizes, place) * (draws - largest.len()) as f64 > CERTAIN * total
    {
        total -= size(sizes, place);
        largest.push(place);
        group.pop();
    }
    largest
}

/// Divides the places of a group, which are in the order of their sizes, into classes of equal mass.
fn size_classes(group: Vec<usize>, sizes: &[u64], classes: usize) -> Vec<Vec<usize>> {
    let (items, total) = (group.len() as f64, group.iter().map(|&place| size(sizes, place)).sum());
    let mut made: Vec<Vec<usize>> = vec![Vec::new(); classes];
    let mut before = 0.0;
    for place in group {
        let of_item = mass(1.0, size(sizes, place), items, total);
        // An item belongs where its middle is.
        let class = ((before + of_item / 2.0) * classes as f64) as usize;
        if let Some(class) = made.get_mut(class.min(classes - 1)) {
            class.push(place);
        }
        before += of_item;
    }
    made.retain(|class| !class.is_empty());
    made
}

/// Divides `most` draws among parts by their masses (Sainte-Laguë): at least [`LEAST`] for each, and no more than its
/// limit.
fn allocate(masses: &[f64], limits: &[usize], most: usize) -> Vec<usize> {
    let mut counts: Vec<usize> = limits.iter().map(|limit| LEAST.min(*limit)).collect();
    let mut left = most.min(limits.iter().sum()).saturating_sub(counts.iter().sum());
    while left > 0 {
        let open = masses.iter().zip(limits).zip(&mut counts).filter(|((_, limit), count)| **count < **limit);
        let next = open.max_by(|((one, _), a), ((other, _), b)| {
            (*one / (**a as f64 + 0.5)).total_cmp(&(*other / (**b as f64 + 0.5)))
        });
        let Some((_, count)) = next else { break };
        *count += 1;
        left -= 1;
    }
    counts
}

#[cfg(test)]
#[path = "stratified_tests.rs"]
mod tests;
