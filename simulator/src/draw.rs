//! Latencies and faults, drawn from a seed and a request's number, so that
//! they depend on nothing else.

use crate::{Faults, LatencyModel};
use serde::{Deserialize, Serialize};
use std::{f64::consts::TAU, time::Duration};

/// What can go wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InjectedFault {
    /// See [`Faults::rate_limited`].
    RateLimited,
    /// See [`Faults::overloaded`].
    Overloaded,
    /// See [`Faults::server_error`].
    ServerError,
    /// See [`Faults::hang`].
    Hang,
    /// See [`Faults::reset`].
    Reset,
    /// See [`Faults::truncated`].
    Truncated,
    /// See [`Faults::malformed`].
    Malformed,
}

/// SplitMix64 (Steele, Lea, Flood 2014): neighbouring numbers become unrelated ones.
pub(crate) fn scramble(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What a number is drawn for.
#[derive(Debug, Clone, Copy)]
enum DrawPurpose {
    Fault,
    Latency,
    Angle,
}

/// A number in [0, 1).
fn uniform(seed: u64, number: u64, purpose: DrawPurpose) -> f64 {
    let draw = scramble(scramble(scramble(seed) ^ number) ^ purpose as u64);
    // The upper 53 bits.
    (draw >> 11) as f64 / (1u64 << 53) as f64
}

impl Faults {
    pub(crate) fn shares(&self) -> [(InjectedFault, f64); 7] {
        [
            (InjectedFault::RateLimited, self.rate_limited),
            (InjectedFault::Overloaded, self.overloaded),
            (InjectedFault::ServerError, self.server_error),
            (InjectedFault::Hang, self.hang),
            (InjectedFault::Reset, self.reset),
            (InjectedFault::Truncated, self.truncated),
            (InjectedFault::Malformed, self.malformed),
        ]
    }

    pub(crate) fn draw(&self, seed: u64, number: u64) -> Option<InjectedFault> {
        let mut draw = uniform(seed, number, DrawPurpose::Fault);
        for (fault, share) in self.shares() {
            if draw < share {
                return Some(fault);
            }
            draw -= share;
        }
        None
    }
}

impl LatencyModel {
    pub(crate) fn draw(&self, seed: u64, number: u64) -> Duration {
        let draw = uniform(seed, number, DrawPurpose::Latency);
        let seconds = match *self {
            Self::Constant { seconds } => seconds,
            Self::Uniform { shortest, longest } => shortest + draw * (longest - shortest),
            Self::LogNormal { median, sigma } => {
                // Box and Muller 1958; 1 − draw is never 0.
                let radius = (-2.0 * (1.0 - draw).ln()).sqrt();
                let normal = radius * (TAU * uniform(seed, number, DrawPurpose::Angle)).cos();
                median * (sigma * normal).exp()
            }
        };
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u64 = 20_000;

    fn sorted(latency: LatencyModel) -> Vec<f64> {
        let mut seconds: Vec<f64> = (0..DRAWS).map(|number| latency.draw(7, number).as_secs_f64()).collect();
        seconds.sort_by(f64::total_cmp);
        seconds
    }

    #[test]
    fn a_log_normal_latency_has_its_median_and_its_spread() {
        let seconds = sorted(LatencyModel::LogNormal { median: 0.3, sigma: 0.3 });
        let quantile = |share: f64| seconds[(share * DRAWS as f64) as usize];
        assert!((quantile(0.5) / 0.3 - 1.0).abs() < 0.01, "median {}", quantile(0.5));
        // One standard deviation above and below.
        assert!((quantile(0.8413) / (0.3 * 0.3f64.exp()) - 1.0).abs() < 0.02);
        assert!((quantile(0.1587) / (0.3 * (-0.3f64).exp()) - 1.0).abs() < 0.02);
    }

    #[test]
    fn a_uniform_latency_fills_its_range() {
        let seconds = sorted(LatencyModel::Uniform { shortest: 1.0, longest: 3.0 });
        assert!(seconds[0] >= 1.0 && seconds[0] < 1.01);
        assert!((seconds.iter().sum::<f64>() / DRAWS as f64 - 2.0).abs() < 0.02);
        assert!(*seconds.last().expect("some") < 3.0);
    }

    #[test]
    fn faults_come_as_often_as_they_should_and_are_repeatable() {
        let faults = Faults { server_error: 0.05, hang: 0.01, malformed: 0.2, ..Faults::default() };
        let share = |wanted| (0..DRAWS).filter(|n| faults.draw(1, *n) == wanted).count() as f64 / DRAWS as f64;
        for (fault, expected) in [
            (Some(InjectedFault::ServerError), 0.05),
            (Some(InjectedFault::Hang), 0.01),
            (Some(InjectedFault::Malformed), 0.2),
            (None, 0.74),
        ] {
            assert!((share(fault) - expected).abs() < 0.01, "{fault:?}: {}", share(fault));
        }
        let draws = |seed| (0..100).map(|number| faults.draw(seed, number)).collect::<Vec<_>>();
        assert_eq!(draws(1), draws(1));
        assert_ne!(draws(1), draws(2));
    }
}
