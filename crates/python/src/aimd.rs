//! Phoenix's rule for how many calls may be in flight: one step up after a
//! window without trouble, a cut after a window with trouble, and down to one
//! immediately when errors come close together.
//!
//! The rules are those of the `ConcurrencyController` of
//! `phoenix.evals.executors` (3.9), with one exception. Phoenix bounds only the number
//! of calls, not the target: after ten good windows at a maximum of 4 the target is 14,
//! so that the next bad window changes nothing, and after a long outage the first good
//! window raises nothing. Here the target itself stays between 1 and the maximum.
//!
//! A window has no timer. It is judged when the first outcome after its end arrives,
//! and only once, however long it was.

use std::{collections::VecDeque, time::Duration};

/// How a target is raised and cut.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// The highest target; 0 counts as 1.
    pub maximum: usize,
    /// The target at first. What lies outside of 1 and the maximum is moved there.
    pub initial_target: f64,
    /// For how long outcomes are gathered before they are judged.
    pub window: Duration,
    /// Added after a window without timeouts and errors.
    pub increase_step: f64,
    /// The factor after any other window.
    pub decrease_ratio: f64,
    /// The weight of the newest latency in the smoothed one.
    pub smoothing_factor: f64,
    /// Errors within this time of each other are a collapse.
    pub collapse_window: Duration,
    /// How many errors make a collapse; 0 counts as 1.
    pub collapse_errors: usize,
}

/// The target and the current window. The caller passes the time, counted from any one
/// moment, so any clock will do.
#[derive(Debug, Clone)]
pub struct AimdWindows {
    policy: Policy,
    target: f64,
    started: Duration,
    successes: u64,
    timeouts: u64,
    errors: u64,
    smoothed_latency: Option<f64>,
    latest_errors: VecDeque<Duration>,
}

impl AimdWindows {
    /// A first window that begins now.
    pub fn new(policy: Policy, now: Duration) -> Self {
        let mut windows = Self {
            target: policy.initial_target,
            started: now,
            successes: 0,
            timeouts: 0,
            errors: 0,
            smoothed_latency: None,
            latest_errors: VecDeque::with_capacity(policy.collapse_errors.clamp(1, 64)),
            policy,
        };
        windows.set_target(windows.target);
        windows
    }

    /// How many calls may be in flight: the whole part of the target.
    pub fn limit(&self) -> usize {
        // Positive and bounded, so the cast removes only the fraction.
        (self.target as usize).clamp(1, self.maximum())
    }

    /// The target itself, from 1 to the maximum.
    pub fn target(&self) -> f64 {
        self.target
    }

    /// Moves the target, as far as the bounds allow.
    pub fn set_target(&mut self, target: f64) {
        // In this order, a target that is not a number becomes 1.
        self.target = target.max(1.0).min(self.maximum() as f64);
    }

    /// The most calls that will ever be in flight.
    pub fn maximum(&self) -> usize {
        self.policy.maximum.max(1)
    }

    /// Successes, timeouts and errors of the current window.
    pub fn counts(&self) -> (u64, u64, u64) {
        (self.successes, self.timeouts, self.errors)
    }

    /// How long successful calls take, in seconds. It decides nothing.
    pub fn smoothed_latency(&self) -> Option<f64> {
        self.smoothed_latency
    }

    /// A call had a result.
    pub fn record_success(&mut self, latency: f64, now: Duration) {
        self.successes += 1;
        let weight = self.policy.smoothing_factor;
        self.smoothed_latency =
            Some(self.smoothed_latency.map_or(latency, |smoothed| (1.0 - weight) * smoothed + weight * latency));
        self.judge(now);
    }

    /// A call took too long. That never is a collapse.
    pub fn record_timeout(&mut self, now: Duration) {
        self.timeouts += 1;
        self.judge(now);
    }

    /// The provider asked for fewer calls, and the call will be retried.
    pub fn record_error(&mut self, now: Duration) {
        self.errors += 1;
        let threshold = self.policy.collapse_errors.max(1);
        self.latest_errors.push_back(now);
        while self.latest_errors.len() > threshold {
            self.latest_errors.pop_front();
        }
        if let Some(oldest) = self.latest_errors.front()
            && self.latest_errors.len() == threshold
            && now.saturating_sub(*oldest) <= self.policy.collapse_window
        {
            self.set_target(1.0);
        }
        self.judge(now);
    }

    /// Judges the window if it is over, and begins the next one.
    fn judge(&mut self, now: Duration) {
        if now.saturating_sub(self.started) < self.policy.window {
            return;
        }
        self.set_target(match self.timeouts + self.errors {
            0 => self.target + self.policy.increase_step,
            _ => self.target * self.policy.decrease_ratio,
        });
        self.started = now;
        (self.successes, self.timeouts, self.errors) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// What Phoenix's executor starts with at this concurrency.
    fn phoenix(maximum: usize) -> Policy {
        Policy {
            maximum,
            initial_target: maximum as f64,
            window: at(5.0),
            increase_step: 1.0,
            decrease_ratio: 0.5,
            smoothing_factor: 0.2,
            collapse_window: at(30.0),
            collapse_errors: 2,
        }
    }

    /// A controller that is asked at the end of each window of five seconds.
    struct WindowClock {
        windows: AimdWindows,
        now: f64,
    }

    impl WindowClock {
        fn new(maximum: usize, initial_target: f64) -> Self {
            let policy = Policy { initial_target, ..phoenix(maximum) };
            Self { windows: AimdWindows::new(policy, Duration::ZERO), now: 0.0 }
        }

        fn good(&mut self) -> f64 {
            self.now += 5.0;
            self.windows.record_success(0.1, at(self.now));
            self.windows.target()
        }

        fn bad(&mut self) -> f64 {
            self.windows.record_timeout(at(self.now + 1.0));
            self.good()
        }
    }

    #[test]
    fn only_the_whole_part_of_the_target_is_active() {
        for (target, active) in [(1.99, 1), (3.5, 3), (0.2, 1), (99.0, 8), (f64::NAN, 1), (-3.0, 1)] {
            assert_eq!(WindowClock::new(8, target).windows.limit(), active, "target {target}");
        }
        assert_eq!(WindowClock::new(0, 5.0).windows.limit(), 1);
    }

    #[test]
    fn a_good_window_adds_a_step_and_a_bad_one_halves() {
        let mut clock = WindowClock::new(10, 4.0);
        assert_eq!([clock.bad(), clock.good(), clock.good()], [2.0, 3.0, 4.0]);
        let mut clock = WindowClock::new(10, 3.0);
        assert_eq!([clock.bad(), clock.bad()], [1.5, 1.0]);
    }

    #[test]
    fn a_window_is_one_step_however_long_it_was_and_none_before_its_end() {
        let mut windows = WindowClock::new(10, 3.0).windows;
        windows.record_success(0.1, at(4.9));
        assert_eq!(windows.target(), 3.0);
        windows.record_success(0.1, at(600.0));
        assert_eq!(windows.target(), 4.0);
        assert_eq!(windows.counts(), (0, 0, 0));
        windows.record_success(0.1, at(604.9));
        assert_eq!((windows.target(), windows.counts()), (4.0, (1, 0, 0)));
    }

    #[test]
    fn the_outcome_that_ends_a_window_belongs_to_it() {
        let mut windows = WindowClock::new(10, 8.0).windows;
        windows.record_timeout(at(5.0));
        assert_eq!(windows.target(), 4.0);
    }

    #[test]
    fn errors_close_together_collapse_the_target_at_once() {
        let mut windows = WindowClock::new(10, 6.0).windows;
        windows.record_error(at(1.0));
        assert_eq!(windows.limit(), 6);
        windows.record_error(at(1.5));
        assert_eq!(windows.limit(), 1);

        let mut windows = WindowClock::new(16, 16.0).windows;
        windows.record_error(at(0.0));
        windows.record_error(at(30.5));
        assert_eq!(windows.target(), 8.0, "too far apart for a collapse");
        windows.record_error(at(31.0));
        assert_eq!(windows.target(), 1.0, "the two latest ones count");
    }

    #[test]
    fn timeouts_never_collapse_the_target() {
        let mut windows = WindowClock::new(10, 6.0).windows;
        (0..100).for_each(|_| windows.record_timeout(at(1.0)));
        assert_eq!(windows.limit(), 6);
    }

    #[test]
    fn after_a_collapse_its_window_still_counts_as_bad() {
        let mut clock = WindowClock::new(10, 6.0);
        clock.windows.record_error(at(1.0));
        clock.windows.record_error(at(1.0));
        // Phoenix: 0.5, 1.5, 2.5, which read as 1, 1, 2.
        assert_eq!([clock.good(), clock.good(), clock.good()], [1.0, 2.0, 3.0]);
    }

    #[test]
    fn good_windows_at_the_maximum_store_up_nothing() {
        let mut clock = WindowClock::new(4, 4.0);
        for _ in 0..10 {
            assert_eq!(clock.good(), 4.0);
        }
        // Phoenix is at 14 here: 7 and 3.5 would follow.
        assert_eq!([clock.bad(), clock.bad()], [2.0, 1.0]);
    }

    #[test]
    fn a_long_outage_is_made_good_by_the_first_good_window() {
        let mut clock = WindowClock::new(8, 8.0);
        for _ in 0..20 {
            clock.bad();
        }
        assert_eq!([clock.good(), clock.good()], [2.0, 3.0]);
    }

    #[test]
    fn latency_is_smoothed_from_the_first_one_on() {
        let mut windows = WindowClock::new(4, 4.0).windows;
        assert_eq!(windows.smoothed_latency(), None);
        windows.record_success(1.0, at(0.1));
        assert_eq!(windows.smoothed_latency(), Some(1.0));
        windows.record_success(6.0, at(0.2));
        assert_eq!(windows.smoothed_latency(), Some(2.0));
    }

    #[test]
    fn a_collapsed_target_comes_back_step_by_step() {
        let mut windows = AimdWindows::new(phoenix(20), Duration::ZERO);
        assert_eq!((windows.limit(), windows.maximum()), (20, 20));
        windows.record_error(Duration::ZERO);
        windows.record_error(Duration::ZERO);
        assert_eq!(windows.limit(), 1);
        let targets = [5.0, 10.0, 15.0].map(|now| {
            windows.record_success(0.1, at(now));
            windows.limit()
        });
        assert_eq!(targets, [1, 2, 3]);
    }
}
