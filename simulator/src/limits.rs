//! Limits as a provider enforces them, without clocks or connections: the
//! caller says what time it is, counted from any fixed moment.
//!
//! Levels are whole numbers, so a request fits exactly when it was told to
//! come back, and not a nanosecond earlier.

use crate::SimulatorSettings;
use std::time::Duration;

/// The level that one unit of a limit costs: a limit of one per minute adds 1 to the level each nanosecond.
const UNIT: u128 = 60_000_000_000;

/// A limit per minute that refills continuously up to a capacity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefillBucket {
    per_minute: u64,
    capacity: u64,
    level: u128,
    updated: Duration,
}

impl RefillBucket {
    /// A full bucket.
    pub fn new(per_minute: u64, capacity: u64, now: Duration) -> Self {
        Self { per_minute, capacity, level: u128::from(capacity) * UNIT, updated: now }
    }

    /// Another limit from now on. What is in the bucket stays, as far as it fits.
    pub fn change(&mut self, per_minute: u64, capacity: u64, now: Duration) {
        self.refill(now);
        (self.per_minute, self.capacity) = (per_minute, capacity);
        self.level = self.level.min(u128::from(capacity) * UNIT);
    }

    /// How long until this much is there: zero if it is now, `None` if it never will be.
    pub fn wait(&mut self, amount: u64, now: Duration) -> Option<Duration> {
        self.refill(now);
        let missing = (u128::from(amount) * UNIT).saturating_sub(self.level);
        if missing == 0 {
            return Some(Duration::ZERO);
        }
        (amount <= self.capacity && self.per_minute > 0).then(|| self.time_for(missing))
    }

    /// Takes this much out, as far as it is there.
    pub fn take(&mut self, amount: u64) {
        self.level = self.level.saturating_sub(u128::from(amount) * UNIT);
    }

    fn refill(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.updated).as_nanos();
        let full = u128::from(self.capacity) * UNIT;
        self.level = (self.level + passed * u128::from(self.per_minute)).min(full);
        self.updated = self.updated.max(now);
    }

    fn time_for(&self, missing: u128) -> Duration {
        let nanoseconds = missing.div_ceil(u128::from(self.per_minute.max(1)));
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    fn rate(&mut self, now: Duration) -> RateStatus {
        self.refill(now);
        let full = u128::from(self.capacity) * UNIT;
        RateStatus {
            limit: self.per_minute,
            remaining: u64::try_from(self.level / UNIT).unwrap_or(u64::MAX),
            reset: self.time_for(full - self.level),
        }
    }
}

/// What `x-ratelimit-*` says of one bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateStatus {
    /// Per minute.
    pub limit: u64,
    /// What is left now.
    pub remaining: u64,
    /// Until the bucket is full again.
    pub reset: Duration,
}

/// What `x-ratelimit-*` says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RateStatuses {
    /// Of requests.
    pub requests: Option<RateStatus>,
    /// Of tokens.
    pub tokens: Option<RateStatus>,
}

/// Why a request is not let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitRefusal {
    /// Too many are in flight.
    Concurrency,
    /// Too many came in a short time; this one fits after the time given.
    Requests(Duration),
    /// Too many tokens in a short time; this one fits after the time given.
    Tokens(Duration),
    /// More tokens than the bucket can ever hold.
    TooLarge,
}

/// All limits of a provider.
#[derive(Debug, Clone)]
pub struct ProviderLimits {
    concurrency: Option<u64>,
    in_flight: u64,
    requests: Option<RefillBucket>,
    tokens: Option<RefillBucket>,
}

impl ProviderLimits {
    /// The limits of these settings, with full buckets.
    pub fn new(settings: &SimulatorSettings, now: Duration) -> Self {
        let mut limits = Self { concurrency: None, in_flight: 0, requests: None, tokens: None };
        limits.change(settings, now);
        limits
    }

    /// The limits of other settings from now on.
    pub fn change(&mut self, settings: &SimulatorSettings, now: Duration) {
        self.concurrency = settings.concurrency;
        let change = |bucket: Option<RefillBucket>, per_minute: Option<u64>, burst: Option<u64>| {
            let per_minute = per_minute?;
            let capacity = burst.unwrap_or(per_minute);
            let mut bucket = bucket.unwrap_or_else(|| RefillBucket::new(per_minute, capacity, now));
            bucket.change(per_minute, capacity, now);
            Some(bucket)
        };
        self.requests = change(self.requests.take(), settings.requests_per_minute, settings.request_burst);
        self.tokens = change(self.tokens.take(), settings.tokens_per_minute, settings.token_burst);
    }

    /// Whether a request that will use this many tokens may come in. It is
    /// not charged yet, and a request that is refused never is.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&mut self, tokens: u64, now: Duration) -> Result<(), LimitRefusal> {
        let requests = self.requests.as_mut().map(|bucket| bucket.wait(1, now));
        let tokens = self.tokens.as_mut().map(|bucket| bucket.wait(tokens, now));
        if self.concurrency.is_some_and(|most| self.in_flight >= most) {
            return Err(LimitRefusal::Concurrency);
        }
        let (Some(requests), Some(tokens)) =
            (requests.unwrap_or(Some(Duration::ZERO)), tokens.unwrap_or(Some(Duration::ZERO)))
        else {
            return Err(LimitRefusal::TooLarge);
        };
        match requests.max(tokens) {
            Duration::ZERO => Ok(()),
            wait if requests >= tokens => Err(LimitRefusal::Requests(wait)),
            wait => Err(LimitRefusal::Tokens(wait)),
        }
    }

    /// Charges a request that was checked, and counts it as in flight.
    pub fn admit(&mut self, tokens: u64) {
        self.in_flight += 1;
        if let Some(bucket) = &mut self.requests {
            bucket.take(1);
        }
        if let Some(bucket) = &mut self.tokens {
            bucket.take(tokens);
        }
    }

    /// A request is no longer in flight.
    pub fn release(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// How many requests are in flight.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// What `x-ratelimit-*` says.
    pub fn rates(&mut self, now: Duration) -> RateStatuses {
        RateStatuses {
            requests: self.requests.as_mut().map(|bucket| bucket.rate(now)),
            tokens: self.tokens.as_mut().map(|bucket| bucket.rate(now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const NANOSECOND: Duration = Duration::from_nanos(1);

    fn limits(change: impl FnOnce(&mut SimulatorSettings)) -> ProviderLimits {
        let mut settings = SimulatorSettings::default();
        change(&mut settings);
        ProviderLimits::new(&settings, Duration::ZERO)
    }

    #[test]
    fn a_request_fits_exactly_when_it_was_told_to_come_back() {
        // 7 per minute divides no second evenly.
        let mut bucket = RefillBucket::new(7, 3, Duration::ZERO);
        bucket.take(3);
        let wait = bucket.wait(1, Duration::ZERO).expect("it fits some time");
        assert_eq!(wait, Duration::from_nanos(60_000_000_000u64.div_ceil(7)));
        assert_eq!(bucket.wait(1, wait - NANOSECOND), Some(NANOSECOND));
        assert_eq!(bucket.wait(1, wait), Some(Duration::ZERO));
    }

    #[test]
    fn a_bucket_refills_continuously_and_never_above_its_capacity() {
        let mut bucket = RefillBucket::new(1_200, 5, Duration::ZERO);
        bucket.take(5);
        assert_eq!(bucket.wait(1, Duration::from_millis(50)), Some(Duration::ZERO));
        assert_eq!(bucket.wait(2, Duration::from_millis(50)), Some(Duration::from_millis(50)));
        assert_eq!(bucket.rate(Duration::from_millis(50)).reset, Duration::from_millis(200));
        assert_eq!(bucket.rate(100 * SECOND), RateStatus { limit: 1_200, remaining: 5, reset: Duration::ZERO });
        assert_eq!(bucket.wait(6, 100 * SECOND), None, "more than it holds never fits");
    }

    #[test]
    fn over_a_minute_a_full_bucket_lets_its_burst_and_its_limit_through() {
        let mut bucket = RefillBucket::new(1_200, 5, Duration::ZERO);
        let (mut now, mut passed) = (Duration::ZERO, 0);
        while now <= 60 * SECOND {
            match bucket.wait(1, now).expect("it fits some time") {
                Duration::ZERO => {
                    bucket.take(1);
                    passed += 1;
                }
                wait => now += wait,
            }
        }
        assert_eq!(passed, 1_205);
    }

    #[test]
    fn time_that_goes_backwards_refills_nothing() {
        let mut bucket = RefillBucket::new(60, 1, 10 * SECOND);
        bucket.take(1);
        assert_eq!(bucket.wait(1, 5 * SECOND), Some(SECOND));
        assert_eq!(bucket.wait(1, 10 * SECOND), Some(SECOND));
    }

    #[test]
    fn a_changed_limit_counts_from_the_moment_of_the_change() {
        let mut bucket = RefillBucket::new(60, 10, Duration::ZERO);
        bucket.take(10);
        bucket.change(600, 5, 3 * SECOND);
        assert_eq!(bucket.rate(3 * SECOND).remaining, 3);
        assert_eq!(bucket.wait(5, 3 * SECOND), Some(Duration::from_millis(200)));
        bucket.change(600, 2, 4 * SECOND);
        assert_eq!(bucket.rate(4 * SECOND).remaining, 2);
    }

    #[test]
    fn a_request_waits_for_the_slower_bucket_and_is_charged_only_when_admitted() {
        let mut limits = limits(|settings| {
            settings.requests_per_minute = Some(60);
            settings.request_burst = Some(2);
            settings.tokens_per_minute = Some(600);
            settings.token_burst = Some(100);
        });
        assert_eq!(limits.check(90, Duration::ZERO), Ok(()));
        limits.admit(90);
        assert_eq!(limits.check(30, Duration::ZERO), Err(LimitRefusal::Tokens(2 * SECOND)));
        assert_eq!(limits.check(101, Duration::ZERO), Err(LimitRefusal::TooLarge));
        assert_eq!(limits.rates(Duration::ZERO).requests.map(|rate| rate.remaining), Some(1));
        limits.admit(0);
        assert_eq!(limits.check(11, Duration::ZERO), Err(LimitRefusal::Requests(SECOND)));
        assert_eq!(limits.check(30, SECOND), Err(LimitRefusal::Tokens(SECOND)));
        assert_eq!(limits.check(30, 2 * SECOND), Ok(()));
    }

    #[test]
    fn one_more_than_the_concurrency_is_refused_until_one_is_done() {
        let mut limits = limits(|settings| settings.concurrency = Some(2));
        limits.admit(1);
        limits.admit(1);
        assert_eq!(limits.check(1, Duration::ZERO), Err(LimitRefusal::Concurrency));
        limits.release();
        assert_eq!((limits.check(1, Duration::ZERO), limits.in_flight()), (Ok(()), 1));
    }

    #[test]
    fn a_limit_can_come_and_go() {
        let mut limits = limits(|_| ());
        assert_eq!(
            (limits.check(1_000_000, Duration::ZERO), limits.rates(Duration::ZERO)),
            (Ok(()), RateStatuses::default())
        );
        let limited =
            SimulatorSettings { requests_per_minute: Some(60), request_burst: Some(1), ..SimulatorSettings::default() };
        limits.change(&limited, SECOND);
        limits.admit(0);
        assert_eq!(limits.check(0, SECOND), Err(LimitRefusal::Requests(SECOND)));
        limits.change(&SimulatorSettings::default(), SECOND);
        assert_eq!(limits.check(0, SECOND), Ok(()));
    }
}
