//! Trials in groups that cannot be told apart.
//!
//! The best trial and all that are tied with it are group 1. The best of the
//! rest and all of the rest that are tied with that one are group 2, and so on.
//! Each group's comparisons are paired sign-flip tests with its best trial,
//! corrected by Holm, like those with the winner. A place within a group says
//! nothing.

use super::winner::{SEED, SIGNIFICANT};
use eval::statistics::{holm, sign_flip_p_value};

/// The group of each trial, from 1. `scores` are per trial, best first, per
/// question; a trial without scores is in no group.
pub(super) fn groups(scores: &[Option<Vec<f64>>]) -> Vec<Option<usize>> {
    let mut groups = vec![None; scores.len()];
    let mut left: Vec<usize> = (0..scores.len()).filter(|&i| scores[i].is_some()).collect();
    let mut number = 0;
    while let Some((&best, others)) = left.split_first() {
        number += 1;
        groups[best] = Some(number);
        let Some(own) = &scores[best] else { break };
        let p_value = |&other: &usize| {
            let differences = scores[other].iter().flatten().zip(own).map(|(other, own)| other - own);
            sign_flip_p_value(&differences.collect::<Vec<_>>(), SEED)
        };
        let corrected = holm(&others.iter().map(p_value).collect::<Vec<_>>());
        for (&other, _) in others.iter().zip(&corrected).filter(|(_, p_value)| **p_value > SIGNIFICANT) {
            groups[other] = Some(number);
        }
        left.retain(|&i| groups[i].is_none());
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use eval::statistics::Random;

    fn scores(mean: f64, seed: u64) -> Option<Vec<f64>> {
        let mut random = Random::new(seed);
        Some((0..60).map(|_| mean + 0.2 * (random.open_unit() - 0.5)).collect())
    }

    #[test]
    fn equal_trials_share_a_group_and_worse_ones_have_the_next() {
        let all = [scores(0.8, 1), scores(0.8, 2), scores(0.5, 3), scores(0.5, 4), scores(0.1, 5), None];
        assert_eq!(groups(&all), [Some(1), Some(1), Some(2), Some(2), Some(3), None]);
        assert!(groups(&[]).is_empty());
    }
}
