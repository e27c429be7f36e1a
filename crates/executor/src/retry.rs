//! Decides when a failed attempt is followed by another.

use crate::ErrorClass;
use std::time::Duration;

/// A `Retry-After` shorter than this is ignored.
const SHORTEST_RETRY_AFTER: Duration = Duration::from_millis(10);

/// What is tried again, how often, and after which wait.
///
/// The wait is drawn evenly from zero to a bound that doubles with each attempt
/// ("full jitter"), so that calls which failed together do not come back
/// together. If the other side asked for a wait, exactly that wait is used
/// instead.
///
/// A call that was refused for lack of capacity did not fail: the attempt is
/// not counted, and the call is tried again as long as other calls get through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The most failed attempts, not counting refusals for lack of capacity; 1
    /// means no retry.
    pub max_attempts: u32,
    /// The bound of the first wait.
    pub base_delay: Duration,
    /// The bound of any wait that the other side did not ask for.
    pub max_delay: Duration,
    /// The longest wait that the other side may ask for. If it asks for more,
    /// the wait is chosen as if it had asked for none, and the call goes to the
    /// end of the queue: the other side may refuse one call for a day and still
    /// take others now.
    pub max_retry_after: Duration,
    /// How long refusals for lack of capacity may continue with no call getting
    /// through; then all calls that were refused or wait fail. This should be
    /// longer than a call takes.
    pub max_refused: Duration,
    /// Makes the waits repeatable.
    pub seed: u64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 8,
            base_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(60),
            max_retry_after: Duration::from_secs(300),
            max_refused: Duration::from_secs(300),
            seed: 0,
        }
    }
}

impl RetryPolicy {
    /// One attempt, and no retry.
    pub fn never() -> Self {
        Self { max_attempts: 1, ..Self::default() }
    }

    /// The wait after the `attempts`-th failed attempt, or the `attempts`-th
    /// refused one, of the `call`-th call; `None` if that was the last attempt.
    pub fn delay(
        &self,
        class: ErrorClass,
        retry_after: Option<Duration>,
        attempts: u32,
        call: u64,
    ) -> Option<Duration> {
        let is_refusal = match class {
            ErrorClass::RateLimited | ErrorClass::Overloaded => true,
            ErrorClass::Transient => false,
            ErrorClass::Permanent | ErrorClass::Budget => return None,
        };
        if attempts >= self.max_attempts && (!is_refusal || self.max_attempts <= 1) {
            return None;
        }
        // Nobody wants all calls back at once: such a short wait is not meant.
        let is_meant = |wait: &Duration| (SHORTEST_RETRY_AFTER..=self.longest_retry_after()).contains(wait);
        if let Some(wait) = retry_after.filter(is_meant) {
            return Some(wait);
        }
        let doubled = 2u32.saturating_pow(attempts.saturating_sub(1));
        let mut bound = self.base_delay.saturating_mul(doubled).min(self.max_delay);
        if is_refusal {
            // This leaves some more attempts before waiting is given up.
            bound = bound.min(self.max_refused / 4);
        }
        let draw = scramble(scramble(self.seed ^ scramble(call)) ^ u64::from(attempts));
        // The upper 53 bits, as a number in [0, 1).
        let share = (draw >> 11) as f64 / (1u64 << 53) as f64;
        Some(bound.mul_f64(share))
    }

    /// Whether the other side asks for a longer wait than is allowed.
    pub(crate) fn exceeds(&self, retry_after: Option<Duration>) -> bool {
        retry_after.is_some_and(|wait| wait > self.longest_retry_after())
    }

    fn longest_retry_after(&self) -> Duration {
        self.max_retry_after.min(self.max_refused)
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): neighbouring numbers become
/// unrelated ones, which is all that jitter needs.
fn scramble(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn waits_fill_a_bound_that_doubles_up_to_the_maximum() {
        let policy =
            RetryPolicy { max_attempts: 99, base_delay: seconds(1), max_delay: seconds(8), ..RetryPolicy::default() };
        for (attempts, bound) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 8), (80, 8)] {
            let waits: Vec<_> =
                (0..1000).filter_map(|call| policy.delay(ErrorClass::Transient, None, attempts, call)).collect();
            assert_eq!(waits.len(), 1000);
            assert!(waits.iter().all(|wait| *wait < seconds(bound)));
            let mean = waits.iter().sum::<Duration>().as_secs_f64() / 1000.0;
            assert!((mean / bound as f64 - 0.5).abs() < 0.05, "mean {mean} of bound {bound}");
        }
    }

    #[test]
    fn waits_are_repeatable_and_depend_on_seed_and_call() {
        let policy = RetryPolicy::default();
        let wait = |policy: &RetryPolicy, call| policy.delay(ErrorClass::Overloaded, None, 1, call);
        assert_eq!(wait(&policy, 7), wait(&policy, 7));
        assert_ne!(wait(&policy, 7), wait(&policy, 8));
        assert_ne!(wait(&policy, 7), wait(&RetryPolicy { seed: 1, ..policy }, 7));
    }

    #[test]
    fn the_wish_of_the_other_side_is_kept_exactly_or_not_at_all() {
        let policy = RetryPolicy::default();
        for class in [ErrorClass::RateLimited, ErrorClass::Overloaded, ErrorClass::Transient] {
            let wait = |wish| policy.delay(class, Some(wish), 1, 0);
            assert_eq!(wait(Duration::from_millis(1234)), Some(Duration::from_millis(1234)));
            for wish in [seconds(86_400), Duration::MAX] {
                assert_eq!(wait(wish), policy.delay(class, None, 1, 0), "as if it had asked for none");
                assert!(policy.exceeds(Some(wish)));
            }
        }
        assert!(!policy.exceeds(Some(seconds(300))) && !policy.exceeds(None));
    }

    #[test]
    fn refusals_are_no_attempts() {
        let policy = RetryPolicy { max_refused: seconds(8), ..RetryPolicy::default() };
        for class in [ErrorClass::RateLimited, ErrorClass::Overloaded] {
            let wait = policy.delay(class, None, 1_000_000, 0).expect("another attempt");
            assert!(wait <= seconds(2), "{wait:?}");
            assert_eq!(RetryPolicy::never().delay(class, None, 1, 0), None);
        }
    }

    #[test]
    fn permanent_and_budget_errors_and_the_last_attempt_are_final() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.delay(ErrorClass::Permanent, None, 1, 0), None);
        assert_eq!(policy.delay(ErrorClass::Budget, Some(seconds(1)), 1, 0), None);
        assert_eq!(policy.delay(ErrorClass::Transient, None, policy.max_attempts, 0), None);
        assert_eq!(RetryPolicy::never().delay(ErrorClass::Transient, None, 1, 0), None);
    }
}
