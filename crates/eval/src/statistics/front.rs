//! How sure it is that something is on the front of quality and costs (the Pareto front).
//!
//! Questions are resampled with replacement, the same ones for everything that is compared. In each resample, a member is
//! on the front if no other has at least its quality at no higher cost, and is better in one of them. Costs are taken as
//! they are: they are sums or medians over all questions, and vary less than quality does.
//!
//! Source of the idea of a front with probabilities: J. Fieldsend, R. Everson, "Multi-objective Optimisation in the
//! Presence of Uncertainty", CEC 2005.

use super::Random;
use rayon::prelude::*;

/// How often questions are resampled.
const RESAMPLES: usize = 1000;

/// For each member, the share of the resamples in which it is on the front, in [0, 1]; 0 for one without any score.
///
/// `quality`: member × question, more is better; a score that is missing is left out of the member's mean. `costs`: of
/// each member, less is better in each.
///
/// # Panics
/// If the members have different numbers of questions, or there are more or fewer costs than members.
pub fn front_shares<const N: usize>(quality: &[Vec<Option<f64>>], costs: &[[f64; N]], seed: u64) -> Vec<f64> {
    let questions = quality.first().map_or(0, Vec::len);
    assert!(quality.iter().all(|scores| scores.len() == questions), "members with one number of questions");
    assert_eq!(quality.len(), costs.len(), "costs of each member");
    if questions == 0 {
        return vec![0.0; quality.len()];
    }
    let on_front = |resample: usize| -> Vec<u32> {
        let mut random = Random::of_resample(seed, resample);
        let mut weights = vec![0.0; questions];
        for _ in 0..questions {
            weights[random.below(questions)] += 1.0;
        }
        let means: Vec<Option<f64>> = quality.iter().map(|scores| weighted_mean(scores, &weights)).collect();
        (0..quality.len()).map(|member| u32::from(is_on_front(member, &means, costs))).collect()
    };
    let add = |mut sum: Vec<u32>, more: Vec<u32>| {
        sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        sum
    };
    let counts = (0..RESAMPLES).into_par_iter().map(on_front).reduce(|| vec![0; quality.len()], add);
    counts.into_iter().map(|count| f64::from(count) / RESAMPLES as f64).collect()
}

fn weighted_mean(scores: &[Option<f64>], weights: &[f64]) -> Option<f64> {
    let (mut sum, mut total) = (0.0, 0.0);
    for (score, weight) in scores.iter().zip(weights) {
        if let Some(score) = score {
            sum += score * weight;
            total += weight;
        }
    }
    (total > 0.0).then(|| sum / total)
}

fn is_on_front<const N: usize>(member: usize, means: &[Option<f64>], costs: &[[f64; N]]) -> bool {
    let Some(own) = means[member] else { return false };
    let beats = |other: usize, quality: f64| {
        let (costs, others) = (&costs[member], &costs[other]);
        quality >= own
            && others.iter().zip(costs).all(|(theirs, ours)| theirs <= ours)
            && (quality > own || others != costs)
    };
    !means
        .iter()
        .enumerate()
        .any(|(other, quality)| other != member && quality.is_some_and(|quality| beats(other, quality)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(values: &[f64]) -> Vec<Option<f64>> {
        values.iter().copied().map(Some).collect()
    }

    #[test]
    fn what_is_always_beaten_is_never_on_the_front_and_what_is_cheapest_always_is() {
        let quality = [scores(&[1.0; 8]), scores(&[0.5; 8]), scores(&[0.5; 8]), vec![None; 8]];
        let shares = front_shares(&quality, &[[3.0], [2.0], [1.0], [0.0]], 1);
        assert_eq!(shares, [1.0, 0.0, 1.0, 0.0]);
        assert_eq!(front_shares(&quality[1..3], &[[1.0], [1.0]], 1), [1.0, 1.0], "equals do not beat each other");
        assert_eq!(front_shares::<1>(&[Vec::new()], &[[1.0]], 1), [0.0]);
        assert!(front_shares::<1>(&[], &[], 1).is_empty());
    }

    #[test]
    fn a_close_one_is_on_the_front_in_about_the_share_in_which_it_is_better() {
        // Equal in the mean, at the same cost: each is better in about half of the resamples.
        let one: Vec<f64> = (0..100).map(|i| f64::from(i % 2)).collect();
        let other: Vec<f64> = (0..100).map(|i| f64::from((i + 1) % 2)).collect();
        let shares = front_shares(&[scores(&one), scores(&other)], &[[1.0], [1.0]], 1);
        assert!(shares.iter().all(|share| (0.45..0.6).contains(share)), "{shares:?}");
        assert!(shares[0] + shares[1] >= 1.0, "one of them is on it in every resample");
        assert_eq!(front_shares(&[scores(&one), scores(&other)], &[[1.0], [1.0]], 1), shares, "the same each time");
    }
}
