//! A paired test that may be checked after every question (anytime-valid).
//!
//! When to use it: to stop a losing trial early. An ordinary p-value that is checked
//! ten times is wrong far more often than it says; this test may be checked after
//! every question and stopped at any time.
//!
//! It is a bet against the hypothesis that the first trial is, over all questions, no
//! better than the second. Questions come in a random order without replacement, so under
//! the hypothesis the mean of the remaining questions is known, and each bet is against
//! that mean. If the hypothesis is true, the capital ever reaches 1/α with a probability
//! of at most α (Ville's inequality). Near the end of the questions the test is sharper
//! than one for an infinite population.
//!
//! Sources: I. Waudby-Smith, A. Ramdas, "Estimating means of bounded random
//! variables by betting", JRSS B 86 (2024), sections 4 and 5 (sampling without
//! replacement, the aGRAPA bets); J. Ville, "Étude critique de la notion de
//! collectif", 1939.

/// The largest part of the capital that a bet risks.
const MOST_RISK: f64 = 0.75;

/// The largest capital so far of a bet on "the first is better" that started with 1;
/// its inverse is an anytime-valid p-value. `differences` (first − second) are those
/// of the questions so far, in their random order; `total` is the number of all
/// questions; `width` is the range of scores, so a difference is in [−width, width].
pub fn betting_evidence(differences: &[f64], total: usize, width: f64) -> f64 {
    let (mut capital, mut best) = (1.0f64, 1.0f64);
    // The differences on a scale from 0 to 1, where the hypothesis is a mean of at
    // most one half: their sum, mean and variance.
    let (mut sum, mut mean, mut variance) = (0.0, 0.5, 0.25);
    let total = total.max(differences.len()) as f64;
    for (i, difference) in differences.iter().enumerate() {
        let x = (0.5 + difference / (2.0 * width)).clamp(0.0, 1.0);
        let seen = i as f64;
        // The mean of the rest if the mean of the whole is one half, the most allowed.
        let expected = (total / 2.0 - sum) / (total - seen);
        if expected <= 0.0 && x > 0.0 {
            // Even with zeros from here on, the mean is above one half.
            return f64::INFINITY;
        }
        if expected < 1.0 {
            let edge = mean - expected;
            let bet = (edge / (variance + edge * edge)).clamp(0.0, MOST_RISK / expected.max(1e-9));
            capital *= 1.0 + bet * (x - expected);
            best = best.max(capital);
        }
        sum += x;
        // Shrunk towards one half while there are few questions.
        mean = (0.5 + sum) / (seen + 2.0);
        variance = (variance * (seen + 1.0) + (x - mean).powi(2)) / (seen + 2.0);
    }
    best
}

#[cfg(test)]
mod tests {
    use super::super::Random;
    use super::*;

    /// All differences of a population whose mean is 0, in a random order.
    fn equal_trials(random: &mut Random, total: usize) -> Vec<f64> {
        let mut all: Vec<f64> = (0..total / 2).flat_map(|i| [0.1 * (i % 7) as f64, -0.1 * (i % 7) as f64]).collect();
        random.shuffle(&mut all);
        all
    }

    #[test]
    fn equal_trials_are_called_different_less_often_than_the_stated_rate() {
        let mut random = Random::new(1);
        let wrong = (0..2_000).filter(|_| betting_evidence(&equal_trials(&mut random, 100), 100, 1.0) >= 20.0).count();
        // At most 5 % of 2,000, whenever one looked.
        assert!(wrong <= 100, "{wrong}");
    }

    #[test]
    fn a_clear_winner_is_seen_early() {
        let mut random = Random::new(2);
        let early = (0..200)
            .filter(|_| {
                let differences: Vec<f64> =
                    (0..40).map(|_| if random.open_unit() < 0.7 { 0.5 } else { -0.1 }).collect();
                betting_evidence(&differences, 200, 1.0) >= 20.0
            })
            .count();
        assert!(early > 190, "{early} of 200 within 40 of 200 questions");
    }

    #[test]
    fn what_is_certain_is_certain() {
        // 60 of 100 questions won by the whole range: the rest cannot undo it.
        assert_eq!(betting_evidence(&[1.0; 60], 100, 1.0), f64::INFINITY);
        assert!(betting_evidence(&[-1.0; 60], 100, 1.0) <= 1.0);
        assert_eq!(betting_evidence(&[], 100, 1.0), 1.0);
    }
}
