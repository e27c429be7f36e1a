//! The smallest loss or difference that a paired test can detect (its power).
//!
//! When to use it: after a test that found no loss. "Not worse" on ten questions
//! proves little, and this shows how little. Also before a run, to see how large a
//! difference must be for the given number of questions to show it.
//!
//! - detectable loss: the mean loss that the one-sided sign-flip test at α finds
//!   in four of five cases, (t(1 − α) + t(0.8)) · s / √n, with the observed spread s
//!   of the differences. If losses below a margin do not count, the margin replaces
//!   t(1 − α) · s / √n if it is larger.
//! - fewest losses: the number k of questions that must be worse, with none better,
//!   for a p-value below α, because that p-value is 2⁻ᵏ. However small the spread, a
//!   detectable loss makes at least k questions worse in four of five cases. So it is
//!   at least the mean size of a loss times q, where q is the smallest share of lost
//!   questions with P(Bin(n, q) ≥ k) ≥ 0.8.
//! - detectable difference: the same with another number of questions than the
//!   observed one. A two-sided test at α is a one-sided test at α / 2. If scores are
//!   0 or 1 and differ on a share d of the questions, √d is taken as the spread, which
//!   is at most that.
//!
//! Source: J. Cohen, "Statistical Power Analysis for the Behavioral Sciences",
//! 1988, chapter 2, with Student's t for samples of any size.

use super::{mean, variance};
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, StudentsT};

/// The share of cases in which the loss is found.
const POWER: f64 = 0.8;

/// The fewest questions that must be worse, with none better, for a p-value
/// below α.
pub fn fewest_losses(alpha: f64) -> usize {
    (1.0 / alpha).log2().floor() as usize + 1
}

/// The smallest mean loss that is found in four of five cases, as a positive
/// number. `None` if fewer than [`fewest_losses`] differ from 0: they do not
/// show the spread.
pub fn detectable_loss(differences: &[f64], alpha: f64, margin: f64) -> Option<f64> {
    Spread::of(differences, alpha)?.detectable(differences.len(), alpha, margin)
}

/// The smallest mean difference that the one-sided test at `alpha` finds in four of five
/// cases, as a positive number, with this number of questions. The spread is that of
/// `differences`. `None` if fewer than [`fewest_losses`] of these differ from 0, or if there
/// are fewer questions than that, which cannot show any difference.
pub fn detectable_difference(differences: &[f64], questions: usize, alpha: f64) -> Option<f64> {
    Spread::of(differences, alpha)?.detectable(questions, alpha, 0.0)
}

/// [`detectable_difference`] for two trials with scores of 0 or 1 that differ on this share of
/// the questions. `None` if there are too few questions, or if the result would be larger than
/// `share`, because the mean scores of such trials differ by `share` at most.
pub fn detectable_difference_of_binary_scores(questions: usize, share: f64, alpha: f64) -> Option<f64> {
    Spread { variance: share, changed: 1.0 }.detectable(questions, alpha, 0.0).filter(|least| *least <= share)
}

/// How much the differences of two trials vary from question to question.
struct Spread {
    /// The variance of the differences.
    variance: f64,
    /// The mean absolute value of the differences that are not 0.
    changed: f64,
}

impl Spread {
    fn of(differences: &[f64], alpha: f64) -> Option<Self> {
        let changed: Vec<f64> = differences.iter().filter(|x| **x != 0.0).map(|x| x.abs()).collect();
        if changed.len() < fewest_losses(alpha).max(2) {
            return None;
        }
        Some(Self { variance: variance(differences), changed: mean(&changed)? })
    }

    fn detectable(&self, questions: usize, alpha: f64, margin: f64) -> Option<f64> {
        let fewest = fewest_losses(alpha);
        if questions < fewest.max(2) {
            return None;
        }
        let n = questions as f64;
        let error = (self.variance / n).sqrt();
        let student = StudentsT::new(0.0, 1.0, n - 1.0).ok()?;
        let critical = student.inverse_cdf(1.0 - alpha) * error;
        let by_spread = critical.max(margin) + student.inverse_cdf(POWER) * error;
        let by_signs = self.changed * least_share(questions, fewest)?;
        Some(by_spread.max(by_signs))
    }
}

/// The smallest share q such that at least `fewest` of `questions` are lost in four of five
/// cases, if each question is lost with probability q.
fn least_share(questions: usize, fewest: usize) -> Option<f64> {
    let (mut low, mut high) = (0.0, 1.0);
    // Bisection: after 40 halvings the interval is shorter than 10⁻¹².
    for _ in 0..40 {
        let share = f64::midpoint(low, high);
        let is_enough = Binomial::new(share, questions as u64).ok()?.sf(fewest as u64 - 1) >= POWER;
        if is_enough { high = share } else { low = share }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::super::{Random, sign_flip_p_value_of_loss};
    use super::*;

    #[test]
    fn five_losses_prove_it_at_five_percent_and_six_at_half_of_that() {
        for (alpha, fewest) in [(0.05, 5), (0.025, 6), (0.05 / 3.0, 6), (0.5, 2)] {
            assert_eq!(fewest_losses(alpha), fewest, "{alpha}");
            assert!(sign_flip_p_value_of_loss(&vec![-1.0; fewest], 0) < alpha);
            assert!(sign_flip_p_value_of_loss(&vec![-1.0; fewest - 1], 0) >= alpha);
        }
    }

    #[test]
    fn what_cannot_tell_has_no_detectable_loss() {
        assert_eq!(detectable_loss(&[], 0.05, 0.0), None);
        assert_eq!(detectable_loss(&[-0.5; 4], 0.05, 0.0), None, "too few questions");
        assert_eq!(detectable_loss(&[0.0; 75], 0.05, 0.0), None, "no spread is known");
        let four: Vec<f64> = (0..75).map(|i| if i < 4 { 0.5 } else { 0.0 }).collect();
        assert_eq!(detectable_loss(&four, 0.05, 0.0), None, "four of 75 differ");
        // Even without any spread, five of 20 questions must be lost in four of five cases. That
        // takes a share of 0.313 lost questions, each by 0.5.
        let least = detectable_loss(&[-0.5; 20], 0.05, 0.0).unwrap();
        assert!((least - 0.15665).abs() < 1e-5, "{least}");
        assert_eq!(detectable_loss(&[-0.5; 20], 0.05, 0.25), Some(0.25));
    }

    #[test]
    fn four_times_the_questions_show_half_the_difference() {
        let differences: Vec<f64> = (0..200).map(|i| if i % 2 == 0 { 0.5 } else { -0.5 }).collect();
        let of = |questions| detectable_difference(&differences, questions, 0.025).unwrap();
        assert!((of(400) / of(1600) - 2.0).abs() < 0.02, "{} {}", of(400), of(1600));
        // The guide's formula: 2.8 · standard deviation / √n.
        assert!((of(400) - 2.8 * 0.5 / 20.0).abs() < 0.002, "{}", of(400));
        assert_eq!(detectable_loss(&differences, 0.025, 0.0), detectable_difference(&differences, 200, 0.025));
        assert_eq!(detectable_difference(&differences, 5, 0.025), None, "five questions show nothing");
        assert_eq!(detectable_difference(&[0.0; 50], 400, 0.025), None, "no spread is known");
    }

    #[test]
    fn enough_questions_are_lost_in_four_of_five_cases() {
        let expected = [(10, 6, 0.67317), (10, 9, 0.91674), (30, 6, 0.25075), (60, 6, 0.12857), (1000, 9, 0.01136)];
        for (questions, fewest, share) in expected {
            let found = least_share(questions, fewest).unwrap();
            assert!((found - share).abs() < 1e-5, "{fewest} of {questions}: {found}");
        }
        // All six of six must be lost, so the sixth power of the share is 0.8.
        assert!((least_share(6, 6).unwrap() - 0.8f64.powf(1.0 / 6.0)).abs() < 1e-9);
        // This share decides if the spread alone would allow a smaller difference.
        let tenth = Spread { variance: 0.1, changed: 1.0 }.detectable(10, 0.025, 0.0);
        assert_eq!(tenth, least_share(10, 6));
    }

    #[test]
    fn scores_of_0_or_1_show_what_their_discordant_questions_allow() {
        let of = |questions, share| detectable_difference_of_binary_scores(questions, share, 0.025);
        assert_eq!(of(5, 0.3), None, "six questions must be better, and none worse");
        // The detectable difference is 0.116, but trials that differ on a tenth of the questions differ by at most 0.1.
        assert_eq!(of(60, 0.1), None);
        let close = |found: Option<f64>, expected: f64| assert!((found.unwrap() - expected).abs() < 0.005, "{found:?}");
        close(of(100, 0.1), 0.090);
        close(of(60, 0.3), 0.201);
        close(of(1000, 0.3), 2.8 * 0.3f64.sqrt() / 1000f64.sqrt());
        // At the level of 200 trials, twelve questions must be better.
        assert_eq!(detectable_difference_of_binary_scores(8, 0.3, 0.05 / 200.0), None);
    }

    #[test]
    fn the_detectable_loss_is_found_in_four_of_five_cases() {
        // Answers that are right or wrong, and scores in fifths.
        type Draw = fn(&mut Random) -> f64;
        let shapes: [Draw; 2] = [|r| f64::from(u8::from(r.open_unit() < 0.7)), |r| (r.open_unit() * 6.0).floor() / 5.0];
        for (shape, draw) in shapes.into_iter().enumerate() {
            for (n, margin) in [(20, 0.0), (75, 0.0), (75, 0.1)] {
                let mut random = Random::new(n as u64);
                let mut noise = || (0..n).map(|_| draw(&mut random) - draw(&mut random)).collect::<Vec<f64>>();
                let repeats = 150;
                let mut found = 0;
                let loss = (0..20).filter_map(|_| detectable_loss(&noise(), 0.05, margin)).sum::<f64>() / 20.0;
                for _ in 0..repeats {
                    let differences: Vec<f64> = noise().iter().map(|x| x - loss).collect();
                    let is_beyond = differences.iter().sum::<f64>() < -margin * n as f64;
                    found += usize::from(is_beyond && sign_flip_p_value_of_loss(&differences, 3) < 0.05);
                }
                let share = found as f64 / f64::from(repeats);
                assert!((0.7..0.9).contains(&share), "shape {shape}, n {n}, margin {margin}: {share}");
            }
        }
    }
}
