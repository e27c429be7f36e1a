//! Tests of intervals: hand-worked cases, coverage, and the formula for many values.

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
        let some: Vec<Option<f64>> = hard.iter().enumerate().map(|(i, hard)| (i < 8).then(|| score(*hard))).collect();
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
        let formula = large_sample::interval(mean(&values).unwrap(), shares, 0.0, n).unwrap();
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
fn the_formula_for_means_of_many_questions_gives_the_ends_of_resampling() {
    // The second metric is asked where the first is low, so its mean bends with the number of its questions.
    let mut random = Random::new(6);
    let first: Vec<Option<f64>> = (0..11_000).map(|_| Some(random.open_unit())).collect();
    let second: Vec<Option<f64>> =
        first.iter().map(|score| (score.unwrap() < 0.02).then(|| random.open_unit().powi(4))).collect();
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
    let middle = (mean_of_first + mean_of_second) / 2.0;
    let resampled = bca(drawn, middle, &shares, known.len()).unwrap();
    let formula = large_sample::interval_of_means(&[&first, &second], middle, &shares, known.len()).unwrap();
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
