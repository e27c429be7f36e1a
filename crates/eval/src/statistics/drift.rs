//! Detects whether the mean of a stream of scores has fallen below a level.
//!
//! When to use it: to watch a system in production, for as long as it runs. An
//! interval that is checked every day is wrong some day; and a test of all scores
//! since the start detects a fall later, the longer the system ran well.
//!
//! It is an e-detector: a bet that the mean is below the level from now on, which
//! starts again with a capital of 1 whenever it has lost. While the mean is at the
//! level or above, it takes at least `n` scores, on average, until the capital
//! reaches `n`; so this is the distance between two false alarms. The best size of
//! the bet is unknown, so the capital is spread over several.
//!
//! Source: J. Shin, A. Ramdas, A. Rinaldo, "E-detectors: a nonparametric
//! framework for sequential change detection", New England Journal of
//! Statistics in Data Science 2 (2024): the e-CUSUM, bounded scores, mixtures of
//! bets.

/// Bets for large to small falls; scores are from 0 to 1.
const BETS: [f64; 6] = [2.0, 1.0, 0.5, 0.25, 0.125, 0.0625];
/// The largest part of its capital that a bet can lose with one score.
const MOST_RISK: f64 = 0.9;
/// The most capital. More would only take longer to fade after a recovery.
const MOST_CAPITAL: f64 = 1e9;

/// Watches for a fall of the mean below a level.
#[derive(Debug, Clone)]
pub struct FallDetector {
    level: f64,
    capital: [f64; BETS.len()],
}

impl FallDetector {
    /// Watches for a mean below this level, from 0 to 1.
    pub fn new(level: f64) -> Self {
        Self { level: level.clamp(0.0, 1.0), capital: [1.0; BETS.len()] }
    }

    /// Adds the next score, from 0 to 1.
    pub fn observe(&mut self, score: f64) {
        let short = self.level - score.clamp(0.0, 1.0);
        for (capital, bet) in self.capital.iter_mut().zip(BETS) {
            let bet = bet.min(MOST_RISK / (1.0 - self.level).max(f64::MIN_POSITIVE));
            *capital = (capital.max(1.0) * (1.0 + bet * short)).min(MOST_CAPITAL);
        }
    }

    /// The evidence for a fall. Without a fall, it takes on average at least `n`
    /// scores until the evidence reaches `n`.
    pub fn evidence(&self) -> f64 {
        self.capital.iter().sum::<f64>() / BETS.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::super::Random;
    use super::*;

    /// After how many scores the evidence reaches a number, if it does in time.
    fn alarm(mut next: impl FnMut(usize) -> f64, level: f64, at: f64, within: usize) -> usize {
        let mut detector = FallDetector::new(level);
        let steps = (0..within).find(|i| {
            detector.observe(next(*i));
            detector.evidence() >= at
        });
        steps.map_or(within, |steps| steps + 1)
    }

    fn yes_or_no(random: &mut Random, mean: f64) -> f64 {
        f64::from(u8::from(random.open_unit() < mean))
    }

    #[test]
    fn false_alarms_are_at_least_as_rare_as_stated() {
        let mut random = Random::new(3);
        // The hardest case: scores of 0 and 1 whose mean is just the level.
        for level in [0.5, 0.8, 0.95] {
            let runs: Vec<usize> =
                (0..300).map(|_| alarm(|_| yes_or_no(&mut random, level), level, 200.0, 5_000)).collect();
            let mean = runs.iter().sum::<usize>() as f64 / 300.0;
            assert!(mean >= 200.0, "{level}: {mean}");
        }
    }

    #[test]
    fn a_fall_is_seen_soon_however_late_it_comes() {
        let mut random = Random::new(4);
        for before in [0, 5_000] {
            let mut delays: Vec<usize> = (0..100)
                .map(|_| {
                    let mut detector = FallDetector::new(0.8);
                    // Better than the level for long, as a system mostly is.
                    (0..before).for_each(|_| detector.observe(yes_or_no(&mut random, 0.9)));
                    let after = (1..2_000).find(|_| {
                        detector.observe(yes_or_no(&mut random, 0.6));
                        detector.evidence() >= 10_000.0
                    });
                    after.unwrap_or(2_000)
                })
                .collect();
            delays.sort_unstable();
            assert!(delays[50] < 110 && delays[95] < 250, "{before}: {delays:?}");
        }
    }

    #[test]
    fn extremes_neither_divide_by_nothing_nor_alarm_where_nothing_fell() {
        assert_eq!(alarm(|_| 1.0, 1.0, 2.0, 100_000), 100_000);
        assert!(alarm(|_| 0.0, 1.0, 1_000.0, 999) < 10);
        assert_eq!(alarm(|_| 0.0, 0.0, 2.0, 100_000), 100_000);
    }
}
