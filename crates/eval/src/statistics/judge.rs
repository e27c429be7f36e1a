//! How well a judge separates right from wrong cases.
//!
//! When to use it: on labelled cases, before a judge's scores count. AUC is the chance that a right case gets a higher score than a wrong
//! one (ties count half), so 0.5 is guessing; it needs no threshold. Balanced
//! accuracy is the mean of the shares of right and of wrong cases that are
//! recognised, so always saying yes gives 0.5.
//!
//! Sources: J. A. Hanley, B. J. McNeil, Radiology 143 (1982); K. H. Brodersen
//! et al., "The Balanced Accuracy and Its Posterior Distribution", ICPR 2010.

use super::Interval;
use statrs::distribution::{Beta, ContinuousCDF};

/// The number of quantiles that stand for the distribution of a share.
const QUANTILES: usize = 400;

/// The area under the ROC curve of (score, is right) pairs; none without both
/// classes or with a score that is not a number.
pub fn auc(cases: &[(f64, bool)]) -> Option<f64> {
    let n_right = cases.iter().filter(|case| case.1).count();
    let n_wrong = cases.len() - n_right;
    if n_right == 0 || n_wrong == 0 || cases.iter().any(|case| case.0.is_nan()) {
        return None;
    }
    let mut sorted = cases.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Equal scores share the mean of their ranks. `==` and not the total
    // order, so that 0.0 and -0.0 are ties.
    let mut rank_sum = 0.0;
    let mut start = 0;
    while start < sorted.len() {
        let length = sorted[start..].iter().take_while(|case| case.0 == sorted[start].0).count();
        let rank = start as f64 + (length as f64 + 1.0) / 2.0;
        rank_sum += rank * sorted[start..start + length].iter().filter(|case| case.1).count() as f64;
        start += length;
    }
    let (n_right, n_wrong) = (n_right as f64, n_wrong as f64);
    Some((rank_sum - n_right * (n_right + 1.0) / 2.0) / (n_right * n_wrong))
}

/// The balanced accuracy of (verdict, is right) pairs; none without both classes.
pub fn balanced_accuracy(cases: &[(bool, bool)]) -> Option<f64> {
    let share = |class: bool| {
        let n = cases.iter().filter(|case| case.1 == class).count();
        let recognised = cases.iter().filter(|case| case.1 == class && case.0 == class).count();
        if n == 0 { None } else { Some(recognised as f64 / n as f64) }
    };
    Some((share(true)? + share(false)?) / 2.0)
}

/// The 95 % interval of the balanced accuracy. Each share has the posterior
/// distribution of its counts with a flat prior, so that three cases out of three do
/// not prove a judge. `None` without both classes.
pub(crate) fn balanced_accuracy_interval(cases: &[(bool, bool)]) -> Option<Interval> {
    let quantiles = |class: bool| {
        let recognised = cases.iter().filter(|case| case.1 == class && case.0 == class).count();
        let missed = cases.iter().filter(|case| case.1 == class && case.0 != class).count();
        if recognised + missed == 0 {
            return None;
        }
        let share = Beta::new(recognised as f64 + 1.0, missed as f64 + 1.0).ok()?;
        let at = |i: usize| share.inverse_cdf((i as f64 + 0.5) / QUANTILES as f64);
        Some((0..QUANTILES).map(at).collect::<Vec<f64>>())
    };
    let (right, wrong) = (quantiles(true)?, quantiles(false)?);
    let mut means: Vec<f64> = right.iter().flat_map(|a| wrong.iter().map(move |b| (a + b) / 2.0)).collect();
    means.sort_by(f64::total_cmp);
    let at = |share: f64| means.get((share * means.len() as f64) as usize).copied();
    Some(Interval { low: at(0.025)?, high: at(0.975)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_of_few_cases_is_wide_even_if_all_are_right() {
        let all_right = |n: usize| {
            let cases: Vec<(bool, bool)> = (0..n).map(|i| (i % 2 == 0, i % 2 == 0)).collect();
            balanced_accuracy_interval(&cases).unwrap()
        };
        assert!(all_right(4).low < 0.6, "{:?}", all_right(4));
        assert!(all_right(100).low > 0.94, "{:?}", all_right(100));
        assert_eq!(balanced_accuracy_interval(&[(true, true)]), None);
    }

    #[test]
    fn the_interval_is_that_of_the_mean_of_two_shares() {
        // 40 of 50 and 30 of 50: nearly normal, with the sum of both variances.
        let of = |n: usize, yes: usize, class: bool| (0..n).map(move |i| ((i < yes) == class, class));
        let cases: Vec<(bool, bool)> = of(50, 40, true).chain(of(50, 30, false)).collect();
        let interval = balanced_accuracy_interval(&cases).unwrap();
        let variance = |p: f64| p * (1.0 - p) / 53.0;
        let (a, b) = (41.0 / 52.0, 31.0 / 52.0);
        let half = 1.96 * (variance(a) + variance(b)).sqrt() / 2.0;
        let center = (a + b) / 2.0;
        assert!((interval.low - (center - half)).abs() < 0.005, "{interval:?} {center} {half}");
        assert!((interval.high - (center + half)).abs() < 0.005, "{interval:?} {center} {half}");
    }

    #[test]
    fn auc_counts_the_pairs_in_the_right_order() {
        let cases = [(0.1, false), (0.4, false), (0.35, true), (0.8, true)];
        assert_eq!(auc(&cases), Some(0.75));
    }

    #[test]
    fn ties_count_half() {
        assert_eq!(auc(&[(0.5, true), (0.5, false)]), Some(0.5));
        assert_eq!(auc(&[(0.5, true), (0.5, false), (0.9, true), (0.1, false)]), Some(0.875));
        assert_eq!(auc(&[(0.0, true), (-0.0, false)]), Some(0.5));
    }

    #[test]
    fn one_class_alone_has_no_auc() {
        assert_eq!(auc(&[(0.5, true)]), None);
        assert_eq!(auc(&[]), None);
        assert_eq!(balanced_accuracy(&[(true, true)]), None);
    }

    #[test]
    fn always_yes_has_a_balanced_accuracy_of_one_half() {
        let cases = [(true, true), (true, true), (true, true), (true, false)];
        assert_eq!(balanced_accuracy(&cases), Some(0.5));
    }
}
