//! A token bucket that mirrors one on the other side.

use crate::RateHint;
use std::{collections::VecDeque, time::Duration};
use tokio::time::Instant;

/// Spending further back than this no longer matters: calls end sooner.
const REMEMBERED: Duration = Duration::from_secs(120);
/// And not more spendings than this are kept.
const KEPT: usize = 1 << 14;
/// Without word from the other side, a second's worth may be spent at once.
const BURST: Duration = Duration::from_secs(1);
/// After this time, a refused call is known to be one.
const SETTLED: Duration = Duration::from_millis(200);
/// The charge is measured over so many calls.
const MEASURED: usize = 10;
/// Calls do not travel equally fast: this long before something is there, it
/// is not asked for.
const JITTER: Duration = Duration::from_millis(4);

/// What may be spent: it fills at a rate, up to a capacity.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// Per second; nothing is limited while it is unknown.
    rate: Option<f64>,
    level: f64,
    capacity: f64,
    filled: Instant,
    /// When the newest call was sent whose answer was heard.
    heard: Option<Instant>,
    /// What was spent: when, and the sum until then, as callers estimated it.
    spent: VecDeque<(Instant, f64)>,
    total: f64,
    /// What the other side charges for each unit of the callers' estimates.
    charge: f64,
    /// Whether that has to be measured: it is known of calls.
    estimated: bool,
    from: Option<Mark>,
    /// To where, as soon as what was sent until then is settled.
    to: Option<Mark>,
    /// Whether a call had to wait since then.
    held: bool,
}

/// What was left when a call arrived.
#[derive(Debug, Clone, Copy)]
struct Mark {
    at: Instant,
    left: f64,
    /// Whether more was left than a bucket takes in.
    full: bool,
}

impl Bucket {
    /// With a known limit per minute, or none.
    pub(crate) fn new(per_minute: Option<f64>, now: Instant) -> Self {
        let rate = per_minute.filter(|limit| *limit > 0.0).map(|limit| limit / 60.0);
        let capacity = rate.map_or(0.0, |rate| (rate * BURST.as_secs_f64()).max(1.0));
        Self {
            rate,
            level: capacity,
            capacity,
            filled: now,
            heard: None,
            spent: VecDeque::new(),
            total: 0.0,
            charge: 1.0,
            estimated: false,
            from: None,
            to: None,
            held: false,
        }
    }

    /// For costs that callers can only estimate.
    pub(crate) fn estimated(self) -> Self {
        Self { estimated: true, ..self }
    }

    /// Another limit per minute, or none, from now on. What was saved stays.
    pub(crate) fn limit(&mut self, per_minute: Option<f64>, now: Instant) {
        self.fill(now);
        match (per_minute, self.rate) {
            (Some(limit), Some(_)) => {
                self.rate = Some((limit / 60.0).max(1e-6));
                self.capacity = (limit / 60.0 * BURST.as_secs_f64()).max(1.0);
                self.level = self.level.min(self.capacity);
            }
            (limit, _) => *self = Self { estimated: self.estimated, ..Self::new(limit, now) },
        }
    }

    /// The rate per second, if one is known.
    pub(crate) fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// When this much can be spent; `None` for now.
    pub(crate) fn ready(&mut self, cost: f64, now: Instant) -> Option<Instant> {
        let rate = self.rate?;
        let cost = cost * self.charge;
        // What is asked for at once cannot be more than there ever is.
        let reserve = (rate * JITTER.as_secs_f64() + 0.5).min(cost / 2.0);
        let needed = cost + reserve;
        self.capacity = self.capacity.max(needed);
        self.fill(now);
        let lacking = needed - self.level;
        self.held |= lacking > 1e-9;
        (lacking > 1e-9).then(|| now + Duration::from_secs_f64((lacking / rate).clamp(1e-4, 3600.0)))
    }

    /// Spends.
    pub(crate) fn spend(&mut self, cost: f64, now: Instant) {
        self.fill(now);
        if self.rate.is_some() {
            self.level -= cost * self.charge;
        }
        self.total += cost;
        self.spent.push_back((now, self.total));
        while self.spent.len() > KEPT || self.spent.front().is_some_and(|(at, _)| *at + REMEMBERED < now) {
            self.spent.pop_front();
        }
    }

    /// A call was refused for want of what is counted here, so calls are
    /// dearer than they were thought to be.
    pub(crate) fn was_too_cheap(&mut self) {
        if self.estimated {
            self.charge = (self.charge * 1.1).min(4.0);
        }
    }

    /// What was spent on a call, started then, that was refused was not
    /// taken. The level needs no change: it follows the refusal's headers.
    pub(crate) fn refund(&mut self, cost: f64, started: Instant) {
        let first = self.spent.partition_point(|(at, _)| *at < started);
        self.spent.range_mut(first..).for_each(|(_, total)| *total -= cost);
        self.total -= cost;
    }

    /// Takes over what the other side says.
    pub(crate) fn hear(&mut self, hint: &RateHint, sent: Instant, now: Instant) {
        self.fill(now);
        if let Some(limit) = hint.per_minute.filter(|limit| limit.is_finite() && *limit > 0.0) {
            self.rate = Some(limit / 60.0);
        }
        let (Some(rate), Some(remaining)) = (self.rate, hint.remaining) else {
            return;
        };
        // Answers overtake each other; an older one is no news.
        if self.heard.is_some_and(|heard| sent < heard) {
            return;
        }
        self.heard = Some(sent);
        // It was true when that call arrived: since then the bucket was filled,
        // and calls that were sent after it have spent.
        let since = now.saturating_duration_since(sent).as_secs_f64();
        let spent_until = self.spent_until(sent);
        self.measure_charge(rate, sent, remaining);
        let level = remaining + rate * since - (self.total - spent_until) * self.charge;
        self.capacity = self.capacity.max(remaining).max(level);
        self.level = level;
    }

    /// Compares the callers' estimates with what the other side took. A
    /// caller can only estimate the tokens of an answer, and providers charge
    /// for the longest possible one or for the real one.
    fn measure_charge(&mut self, rate: f64, sent: Instant, remaining: f64) {
        if !self.estimated {
            return;
        }
        let mark = Mark { at: sent, left: remaining, full: remaining > 0.8 * self.capacity };
        let (Some(from), Some(to)) = (self.from, self.to) else {
            (self.from, self.to) = (self.from.or(Some(mark)), self.from.and(Some(mark)));
            return;
        };
        // By now it is known which calls of that time were refused.
        if sent < to.at + SETTLED {
            return;
        }
        let estimated = self.spent_until(to.at) - self.spent_until(from.at);
        let calls = self.sent_until(to.at) - self.sent_until(from.at);
        self.to = Some(mark);
        if estimated <= 0.0 || calls < MEASURED {
            return;
        }
        if !to.full && !from.full {
            let charged = from.left + rate * (to.at - from.at).as_secs_f64() - to.left;
            self.charge = 0.5 * self.charge + 0.5 * charged / estimated;
        } else if self.held {
            // What a full bucket took in cannot be measured, but calls that
            // wait beside a full bucket are thought dearer than they are.
            self.charge *= 0.8;
        }
        self.charge = self.charge.clamp(0.02, 4.0);
        (self.from, self.held) = (Some(to), false);
    }

    /// Learns a rate that nobody announced.
    pub(crate) fn learn(&mut self, per_second: f64, now: Instant) {
        self.fill(now);
        self.rate = Some(per_second.max(1e-3));
        self.capacity = 1.0;
        self.level = 0.0;
    }

    /// Fills faster from now on.
    pub(crate) fn raise(&mut self, per_second: f64, now: Instant) {
        self.fill(now);
        self.rate = Some(per_second);
    }

    /// How many of the remembered calls were sent up to a time.
    fn sent_until(&self, time: Instant) -> usize {
        self.spent.partition_point(|(at, _)| *at <= time)
    }

    /// How much was spent up to a time.
    fn spent_until(&self, time: Instant) -> f64 {
        let last = self.sent_until(time).checked_sub(1).and_then(|last| self.spent.get(last));
        last.map_or_else(|| self.spent_before(), |(_, total)| *total)
    }

    /// What was spent before the first that is remembered.
    fn spent_before(&self) -> f64 {
        let first = self.spent.front().map_or(self.total, |(_, total)| *total);
        let second = self.spent.get(1).map_or(first, |(_, total)| *total);
        // The first one's own cost is unknown once those before it are
        // forgotten; that of its neighbour is near enough.
        (first - (second - first).max(0.0)).max(0.0)
    }

    fn fill(&mut self, now: Instant) {
        if let Some(rate) = self.rate {
            let since = now.saturating_duration_since(self.filled).as_secs_f64();
            self.level = (self.level + rate * since).min(self.capacity);
        }
        self.filled = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn hint(per_minute: f64, remaining: f64) -> RateHint {
        RateHint { per_minute: Some(per_minute), remaining: Some(remaining), reset: None }
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_limit_everything_may_start() {
        let now = Instant::now();
        let mut bucket = Bucket::new(None, now);
        for _ in 0..1000 {
            assert_eq!(bucket.ready(1.0, now), None);
            bucket.spend(1.0, now);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_declared_rate_is_kept_over_a_minute() {
        let start = Instant::now();
        let mut bucket = Bucket::new(Some(600.0), start);
        let (mut now, mut started) = (start, 0);
        while now < start + Duration::from_secs(60) {
            match bucket.ready(1.0, now) {
                None => {
                    bucket.spend(1.0, now);
                    started += 1;
                }
                Some(at) => now = at,
            }
        }
        assert!((600..=611).contains(&started), "{started}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_other_side_says_counts_with_what_was_sent_since() {
        let start = Instant::now();
        let mut bucket = Bucket::new(None, start);
        for number in 0..10 {
            bucket.spend(1.0, start + ms(10 * number));
        }
        // The third call was sent at 20 ms; seven were sent after it.
        bucket.hear(&hint(600.0, 8.0), start + ms(20), start + ms(120));
        // 8 + 10/s · 0.1 s − 7 = 2 are left.
        assert_eq!(bucket.ready(1.0, start + ms(120)), None);
        bucket.spend(1.0, start + ms(120));
        let at = bucket.ready(1.0, start + ms(120)).unwrap() - start;
        assert!(at > ms(120) && at < ms(220), "{at:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_other_side_really_charges_is_learned() {
        let start = Instant::now();
        let mut bucket = Bucket::new(None, start).estimated();
        bucket.hear(&hint(60_000.0, 250.0), start, start);
        // 1000 a second, of which each call is said to take 90 and takes 50.
        let (mut now, mut left) = (start, 250.0);
        for _ in 0..100 {
            now += ms(50);
            left = f64::min(left + 50.0, 250.0) - 50.0;
            bucket.spend(90.0, now);
            bucket.hear(&hint(60_000.0, left), now, now);
        }
        assert!((bucket.charge * 90.0 - 50.0).abs() < 2.0, "{}", bucket.charge * 90.0);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_was_overtaken_is_no_news() {
        let start = Instant::now();
        let mut bucket = Bucket::new(None, start);
        bucket.hear(&hint(60.0, 0.0), start + ms(50), start + ms(60));
        bucket.hear(&hint(60.0, 30.0), start + ms(10), start + ms(70));
        assert!(bucket.ready(1.0, start + ms(70)).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_spent_before_a_rate_was_known_is_no_debt() {
        let start = Instant::now();
        let mut bucket = Bucket::new(None, start);
        (0..50_000).for_each(|_| bucket.spend(1.0, start));
        bucket.learn(100.0, start);
        assert!(bucket.ready(1.0, start).unwrap() - start < ms(30));
    }

    #[tokio::test(start_paused = true)]
    async fn a_raised_limit_counts_at_once() {
        let start = Instant::now();
        let mut bucket = Bucket::new(None, start);
        bucket.hear(&hint(60.0, 0.0), start, start);
        let slow = bucket.ready(1.0, start).unwrap() - start;
        bucket.hear(&hint(6000.0, 0.0), start + ms(1), start + ms(1));
        let quick = bucket.ready(1.0, start + ms(1)).unwrap() - start;
        assert!(slow > ms(900) && quick < ms(40), "{slow:?} {quick:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_larger_than_the_capacity_waits_and_starts() {
        let start = Instant::now();
        let mut bucket = Bucket::new(Some(60.0), start);
        let mut now = start;
        while let Some(at) = bucket.ready(500.0, now) {
            assert!(at > now);
            now = at;
        }
        assert!((now - start).as_secs_f64() < 502.0);
    }
}
