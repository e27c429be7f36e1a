//! A judge's mean, corrected by human labels of some cases: prediction-powered
//! inference.
//!
//! When to use it: when a judge scored all answers and people labelled a random part
//! of them. The mean of the labels is unbiased but has few cases; the judge's mean
//! has many cases and may be biased. The corrected mean is unbiased for any judge.
//! Its interval is narrower the better the judge agrees with people; with a useless
//! judge it is as wide as with the labels alone, except for the estimate of λ.
//!
//! mean = λ · mean(judge, all others) + mean(people − λ · judge, labelled),
//! where λ = cov(people, judge) / ((1 + n/N) · var(judge)), within [0, 1],
//! gives the narrowest interval, for n labelled and N other cases.
//!
//! Sources: A. N. Angelopoulos et al., "Prediction-powered inference", Science
//! 382 (2023); A. N. Angelopoulos, J. C. Duchi, T. Zrnic, "PPI++: Efficient
//! Prediction-Powered Inference", 2023, for λ.

use super::{Interval, mean, variance};
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// A mean that is corrected by human labels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CorrectedMean {
    /// The corrected mean.
    pub mean: f64,
    /// Its 95 % interval.
    pub interval: Interval,
    /// λ, the weight of the judge, from 0 to 1.
    pub weight: f64,
    /// The judge's mean minus people's, over the labelled cases.
    pub bias: f64,
    /// Labelled cases.
    pub n_labelled: usize,
    /// Cases that only the judge scored.
    pub n_judged: usize,
}

/// Corrects the mean of a judge's scores of unlabelled cases by the (people's,
/// judge's) scores of labelled cases, which must be a random part of all.
/// `None` if fewer than two are labelled.
pub fn corrected_mean(labelled: &[(f64, f64)], unlabelled: &[f64]) -> Option<CorrectedMean> {
    let n = labelled.len();
    if n < 2 {
        return None;
    }
    let people: Vec<f64> = labelled.iter().map(|pair| pair.0).collect();
    let judge: Vec<f64> = labelled.iter().map(|pair| pair.1).collect();
    let (people_mean, judge_mean) = (mean(&people)?, mean(&judge)?);
    let covariance = labelled.iter().map(|(a, b)| (a - people_mean) * (b - judge_mean)).sum::<f64>() / (n as f64 - 1.0);
    let all: Vec<f64> = judge.iter().chain(unlabelled).copied().collect();
    let spread = variance(&all);
    let weight = match mean(unlabelled) {
        Some(_) if spread > 0.0 => (covariance / ((1.0 + n as f64 / unlabelled.len() as f64) * spread)).clamp(0.0, 1.0),
        _ => 0.0,
    };
    let residuals: Vec<f64> = labelled.iter().map(|(a, b)| a - weight * b).collect();
    let center = weight * mean(unlabelled).unwrap_or_default() + mean(&residuals)?;
    let error = (variance(&residuals) / n as f64
        + weight * weight * if unlabelled.len() > 1 { variance(unlabelled) / unlabelled.len() as f64 } else { 0.0 })
    .sqrt();
    let reach = StudentsT::new(0.0, 1.0, n as f64 - 1.0).ok()?.inverse_cdf(0.975) * error;
    Some(CorrectedMean {
        mean: center,
        interval: Interval { low: center - reach, high: center + reach },
        weight,
        bias: judge_mean - people_mean,
        n_labelled: n,
        n_judged: unlabelled.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::Random;
    use super::*;

    /// Truths of which 30 % are wrong, and a judge that calls a share of the
    /// wrong ones right.
    fn case(random: &mut Random, lenience: f64) -> (f64, f64) {
        let truth = random.open_unit() > 0.3;
        (f64::from(u8::from(truth)), f64::from(u8::from(truth || random.open_unit() < lenience)))
    }

    #[test]
    fn a_lenient_judge_is_corrected_and_still_helps() {
        let mut random = Random::new(3);
        let (mut held, mut narrower) = (0, 0);
        for _ in 0..300 {
            let labelled: Vec<(f64, f64)> = (0..60).map(|_| case(&mut random, 0.3)).collect();
            let unlabelled: Vec<f64> = (0..600).map(|_| case(&mut random, 0.3).1).collect();
            let corrected = corrected_mean(&labelled, &unlabelled).unwrap();
            let alone = corrected_mean(&labelled, &[]).unwrap();
            held += usize::from(corrected.interval.low <= 0.7 && 0.7 <= corrected.interval.high);
            let width = |found: &CorrectedMean| found.interval.high - found.interval.low;
            narrower += usize::from(width(&corrected) < 0.85 * width(&alone));
        }
        // The judge alone would say 0.79.
        assert!((273..=296).contains(&held), "{held} of 300 intervals hold the truth");
        assert!(narrower > 250, "{narrower} of 300 are narrower than with labels alone");
    }

    #[test]
    fn a_judge_that_guesses_is_not_relied_on() {
        let mut random = Random::new(9);
        let labelled: Vec<(f64, f64)> = (0..400).map(|_| (case(&mut random, 0.0).0, random.open_unit())).collect();
        let unlabelled: Vec<f64> = (0..4_000).map(|_| random.open_unit()).collect();
        let corrected = corrected_mean(&labelled, &unlabelled).unwrap();
        assert!(corrected.weight < 0.2, "{corrected:?}");
        assert!((corrected.mean - 0.7).abs() < 0.06, "{corrected:?}");
    }

    #[test]
    fn without_unlabelled_cases_it_is_the_mean_of_the_labels() {
        let corrected = corrected_mean(&[(1.0, 1.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)], &[]).unwrap();
        assert_eq!((corrected.mean, corrected.weight, corrected.bias), (0.75, 0.0, 0.0));
        assert_eq!(corrected_mean(&[(1.0, 1.0)], &[0.5]), None);
    }
}
