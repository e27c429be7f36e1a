//! How often intervals that claim 95 % hold the truth, and how fast they are
//! made.
//!
//!     cargo run --release --example coverage [-- SAMPLES]
//!
//! Draws samples of scores whose true mean is known, and counts intervals that
//! hold it. The standard error of a share of 0.95 in 2,000 samples is 0.005.

#![allow(clippy::print_stdout)]

use eval::statistics::{Random, bootstrap_means};
use std::time::Instant;

type Maker = fn(&mut Random) -> f64;

fn choose(random: &mut Random, values: &[(f64, f64)]) -> f64 {
    let mut left = random.open_unit();
    for (value, probability) in values {
        left -= probability;
        if left <= 0.0 {
            return *value;
        }
    }
    values.last().map_or(0.0, |value| value.0)
}

/// Name, how a score is drawn, its true mean, and the range.
const SHAPES: [(&str, Maker, f64, (f64, f64)); 10] = [
    ("right or wrong, 50 %", |r| f64::from(u8::from(r.open_unit() <= 0.5)), 0.5, (0.0, 1.0)),
    ("right or wrong, 80 %", |r| f64::from(u8::from(r.open_unit() <= 0.8)), 0.8, (0.0, 1.0)),
    ("right or wrong, 95 %", |r| f64::from(u8::from(r.open_unit() <= 0.95)), 0.95, (0.0, 1.0)),
    ("fifths, mean 0.8", |r| (0..5).filter(|_| r.open_unit() <= 0.8).count() as f64 / 5.0, 0.8, (0.0, 1.0)),
    ("0, ½ or 1", |r| choose(r, &[(0.0, 0.1), (0.5, 0.2), (1.0, 0.7)]), 0.8, (0.0, 1.0)),
    ("skewed to 1", |r| r.open_unit().powf(0.2), 1.0 / 1.2, (0.0, 1.0)),
    ("skewed to 0", |r| r.open_unit().powi(4), 0.2, (0.0, 1.0)),
    ("40 % zero, else even", |r| choose(r, &[(0.0, 0.4), (1.0, 0.6)]) * r.open_unit(), 0.3, (0.0, 1.0)),
    ("even", Random::open_unit, 0.5, (0.0, 1.0)),
    (
        "difference of two trials",
        |r| choose(r, &[(-1.0, 0.05), (-0.5, 0.1), (0.0, 0.6), (0.5, 0.15), (1.0, 0.1)]),
        0.075,
        (-1.0, 1.0),
    ),
];

fn main() {
    let samples = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(2_000);
    let sizes = [10, 20, 50, 100, 300];
    println!("{:<26}{}", "scores", sizes.map(|n| format!("{:>8}", format!("n={n}"))).concat());
    let mut all = Vec::new();
    for (name, make, truth, range) in SHAPES {
        let shares = sizes.map(|n| {
            let mut random = Random::new(n as u64);
            let drawn: Vec<Vec<f64>> = (0..samples).map(|_| (0..n).map(|_| make(&mut random)).collect()).collect();
            // A seed for each, as each is a study of its own.
            let held = drawn.iter().enumerate().filter(|(seed, values)| {
                let interval = bootstrap_means(&[values], range, *seed as u64)[0];
                interval.is_some_and(|interval| interval.low <= truth && truth <= interval.high)
            });
            held.count() as f64 / samples as f64
        });
        all.extend(shares);
        println!("{name:<26}{}", shares.map(|share| format!("{share:>8.3}")).concat());
    }
    let inside = all.iter().filter(|share| (0.93..=0.97).contains(*share)).count();
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    println!("mean {mean:.3}; {inside} of {} between 0.93 and 0.97", all.len());

    let mut random = Random::new(1);
    let trials: Vec<Vec<f64>> = (0..100).map(|_| (0..1_000).map(|_| random.open_unit()).collect()).collect();
    let columns: Vec<&[f64]> = trials.iter().map(Vec::as_slice).collect();
    let started = Instant::now();
    let intervals = bootstrap_means(&columns, (0.0, 1.0), 1);
    let seconds = started.elapsed().as_secs_f64();
    println!("100 trials × 1,000 questions × 10,000 resamples: {seconds:.2} s ({} intervals)", intervals.len());
}
