//! Decides which announced limits are believed: those that agree with what the
//! other side does.

use crate::{RateHint, RateHints};
use std::{collections::VecDeque, time::Duration};
use tokio::time::Instant;

/// No limit is larger; sums and products of such numbers stay finite.
const MAX_LIMIT: f64 = 1e15;
const MINUTE: Duration = Duration::from_secs(60);
/// Within a minute a limit lets through its saved amount and its refill, so at
/// most twice its number of calls; one more may be counted at the end of the
/// minute.
const PASS_FACTOR: f64 = 2.0;
const MARGIN: f64 = 1.0;
/// A call may be estimated at this many times the tokens that it takes: an assumption,
/// since the length of its answer is not known here.
const ESTIMATE_FACTOR: f64 = 4.0;
/// The weight of the newest call in the smoothed share of calls that were refused
/// although a rate held them back, and the threshold of that share. From the
/// threshold on, something else than the rate refuses calls.
const SMOOTHING: f64 = 1.0 / 32.0;
const DISPROVED: f64 = 0.3;
/// For how long no refusal is attributed to a rate once that threshold was reached.
const NO_VERDICT: Duration = Duration::from_secs(60);
/// That time doubles with each such verdict, at most this often.
const MOST_DOUBLINGS: u32 = 6;

/// What is known about the reliability of the announcements.
#[derive(Debug, Default)]
pub(super) struct Trust {
    /// The calls that were accepted in the last minute: the second, and the number.
    accepted: VecDeque<(Instant, u32)>,
    total: u32,
    /// The limit on calls that was announced last and is believed.
    announced: Option<f64>,
    /// Limits on calls up to this are known not to hold.
    refuted: Option<f64>,
    /// The limit on tokens that was announced last and is believed.
    announced_tokens: Option<f64>,
    refuted_tokens: Option<f64>,
    /// When a refusal was first attributed to a rate: calls that started later were held back.
    blamed_since: Option<Instant>,
    /// The share of these calls that were refused all the same, smoothed.
    disproved_share: f64,
    /// How often that share was too large, and until when no refusal is attributed to a
    /// rate because of it.
    wrong_verdicts: u32,
    no_verdict_until: Option<Instant>,
}

impl Trust {
    /// Takes an announcement, and returns the part of it that is believed.
    pub(super) fn apply_hints(&mut self, hints: &RateHints) -> RateHints {
        let believed = self.believed(hints);
        self.announced = believed.requests.per_minute.or(self.announced);
        self.announced_tokens = believed.tokens.per_minute.or(self.announced_tokens);
        believed
    }

    /// The announcement without impossible numbers and without limits that are
    /// known not to hold. If a limit is not believed, its other numbers are
    /// dropped too.
    pub(super) fn believed(&self, hints: &RateHints) -> RateHints {
        let believed = |hint: &RateHint, refuted: Option<f64>| {
            let possible = |number: &f64| (0.0..=MAX_LIMIT).contains(number);
            let holds = |limit: f64| limit > 0.0 && possible(&limit) && refuted.is_none_or(|refuted| limit > refuted);
            match hint.per_minute {
                Some(limit) if !holds(limit) => RateHint::default(),
                _ => RateHint { remaining: hint.remaining.filter(possible), ..*hint },
            }
        };
        RateHints {
            requests: believed(&hints.requests, self.refuted),
            tokens: believed(&hints.tokens, self.refuted_tokens),
            ..*hints
        }
    }

    /// Records an accepted call. Returns whether it refutes the announced limit.
    pub(super) fn accept(&mut self, latency: Duration, now: Instant) -> bool {
        self.weigh(latency, now, 0.0);
        match self.accepted.back_mut() {
            Some((second, calls)) if now.saturating_duration_since(*second) < Duration::from_secs(1) => *calls += 1,
            _ => self.accepted.push_back((now, 1)),
        }
        self.total += 1;
        while let Some((second, calls)) = self.accepted.front().copied()
            && now.saturating_duration_since(second) > MINUTE
        {
            self.total -= calls;
            self.accepted.pop_front();
        }
        let refuted = self.announced.take_if(|limit| f64::from(self.total) > PASS_FACTOR * *limit + MARGIN);
        self.refuted = refuted.or(self.refuted);
        refuted.is_some()
    }

    /// Records an accepted call with its estimated tokens. Returns whether it
    /// refutes the announced limit on tokens. The estimate counts the longest
    /// answer, so only a quarter of it (see [`ESTIMATE_FACTOR`]) is held against the limit.
    pub(super) fn accept_tokens(&mut self, tokens: f64) -> bool {
        let refuted = self.announced_tokens.take_if(|limit| tokens / ESTIMATE_FACTOR > PASS_FACTOR * *limit + MARGIN);
        self.refuted_tokens = refuted.or(self.refuted_tokens);
        refuted.is_some()
    }

    /// Records a call that was apparently refused because of a rate. Returns
    /// whether to attribute the refusal to the rate, which is so as long as holding
    /// calls back helps.
    pub(super) fn attributes_to_rate(&mut self, latency: Duration, now: Instant) -> bool {
        if self.no_verdict_until.is_some_and(|until| now < until) {
            return false;
        }
        self.weigh(latency, now, 1.0);
        self.blamed_since.get_or_insert(now);
        if self.disproved_share < DISPROVED {
            return true;
        }
        self.no_verdict_until = Some(now + NO_VERDICT * 2u32.pow(self.wrong_verdicts));
        self.wrong_verdicts = (self.wrong_verdicts + 1).min(MOST_DOUBLINGS);
        (self.blamed_since, self.disproved_share) = (None, 0.0);
        false
    }

    fn weigh(&mut self, latency: Duration, now: Instant, refused: f64) {
        let was_held_back =
            self.blamed_since.is_some_and(|since| now.checked_sub(latency).is_some_and(|started| started > since));
        if was_held_back {
            self.disproved_share += SMOOTHING * (refused - self.disproved_share);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints(per_minute: Option<f64>, remaining: Option<f64>) -> RateHints {
        let hint = RateHint { per_minute, remaining, reset: None };
        RateHints { requests: hint, tokens: hint, ..RateHints::new(Instant::now()) }
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_is_not_believed() {
        let trust = Trust::default();
        let limits = [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300];
        for limit in limits {
            let believed = trust.believed(&hints(Some(limit), Some(0.0)));
            assert!(believed.requests.is_empty() && believed.tokens.is_empty(), "{limit}: {believed:?}");
        }
        for remaining in [-1.0, f64::NAN, f64::INFINITY, 1e300] {
            let believed = trust.believed(&hints(Some(60.0), Some(remaining)));
            assert_eq!((believed.requests.per_minute, believed.requests.remaining), (Some(60.0), None), "{remaining}");
        }
        let usual = hints(Some(60.0), Some(3.0));
        assert_eq!(trust.believed(&usual), usual);
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_that_more_calls_passed_is_refuted_for_good() {
        let (mut trust, start) = (Trust::default(), Instant::now());
        // 20 a minute, with a minute's worth saved: 40 pass in the first.
        trust.apply_hints(&hints(Some(20.0), None));
        let passes = (0..40u32).filter(|n| trust.accept(Duration::ZERO, start + Duration::from_millis(1400) * *n));
        assert_eq!(passes.count(), 0);
        let soon = start + Duration::from_secs(58);
        let refuted = (0..20).any(|_| trust.accept(Duration::ZERO, soon));
        assert!(refuted);
        assert!(trust.believed(&hints(Some(20.0), Some(0.0))).requests.is_empty());
        assert!(trust.believed(&hints(Some(5.0), Some(0.0))).requests.is_empty());
        assert!(!trust.believed(&hints(Some(21.0), Some(0.0))).requests.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_is_blamed_as_long_as_holding_back_helps() {
        let (mut trust, start) = (Trust::default(), Instant::now());
        // A burst that was in flight already says nothing.
        assert!((0..200).all(|_| trust.attributes_to_rate(Duration::from_millis(5), start)));
        let later = start + Duration::from_secs(1);
        assert!((0..5).all(|_| trust.attributes_to_rate(Duration::from_millis(5), later)));
        assert!(
            !(0..20).all(|_| trust.attributes_to_rate(Duration::from_millis(5), later)),
            "more and more are refused"
        );
        // It may be true later, and is then doubted for longer.
        for wrong_verdicts in 1..4 {
            let until = trust.no_verdict_until.expect("doubt");
            assert!(!trust.attributes_to_rate(Duration::from_millis(5), until - Duration::from_millis(1)));
            assert!(trust.attributes_to_rate(Duration::from_millis(5), until));
            let later = until + Duration::from_secs(1);
            assert!((0..20).any(|_| !trust.attributes_to_rate(Duration::from_millis(5), later)));
            assert_eq!(trust.no_verdict_until, Some(later + NO_VERDICT * 2u32.pow(wrong_verdicts)));
        }
    }
}
