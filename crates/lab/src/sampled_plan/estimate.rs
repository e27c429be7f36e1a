//! An estimate with its interval.

use serde::Serialize;

/// An estimate with its 95 % interval. Both ends are the estimate itself if no chance is in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Estimate<T> {
    /// The most likely value.
    pub estimate: T,
    /// The lower end of the interval.
    pub low: T,
    /// The upper end of the interval.
    pub high: T,
}

impl<T: PartialEq> Estimate<T> {
    /// Whether no chance is in it.
    pub fn is_exact(&self) -> bool {
        self.low == self.high
    }
}

impl Estimate<f64> {
    /// The same times a factor.
    pub(super) fn times(self, factor: f64) -> Self {
        Self { estimate: self.estimate * factor, low: self.low * factor, high: self.high * factor }
    }

    /// The same plus a number that is known exactly.
    pub(super) fn plus(self, known: f64) -> Self {
        Self { estimate: self.estimate + known, low: self.low + known, high: self.high + known }
    }

    /// In whole numbers. The interval is rounded outwards.
    pub(super) fn whole(self) -> Estimate<u64> {
        let estimate = self.estimate.round() as u64;
        if self.is_exact() {
            return Estimate { estimate, low: estimate, high: estimate };
        }
        Estimate { estimate, low: self.low.floor() as u64, high: self.high.ceil() as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_rounded_outwards_and_exact_numbers_to_the_nearest() {
        let exact = Estimate { estimate: 6.999_999, low: 6.999_999, high: 6.999_999 };
        assert_eq!(exact.whole(), Estimate { estimate: 7, low: 7, high: 7 });
        let estimate = Estimate { estimate: 6.4, low: 5.9, high: 7.1 };
        assert_eq!(estimate.whole(), Estimate { estimate: 6, low: 5, high: 8 });
        assert_eq!(estimate.times(10.0).plus(1.0).whole(), Estimate { estimate: 65, low: 60, high: 72 });
    }
}
