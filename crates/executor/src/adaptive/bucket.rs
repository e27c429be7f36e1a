//! A token bucket that mirrors the provider's.

use crate::RateHint;
use std::{collections::VecDeque, time::Duration};
use tokio::time::Instant;

/// Spendings older than this are forgotten: their calls have ended.
const REMEMBERED: Duration = Duration::from_secs(120);
/// No more than this many spendings are remembered.
const KEPT: usize = 1 << 14;
/// Before the first announcement, the refill of this time may be spent at once.
const BURST: Duration = Duration::from_secs(1);
/// After this time, it is known whether a call was refused.
const SETTLED: Duration = Duration::from_millis(200);
/// The fewest calls to measure the charge over.
const MEASURED: usize = 10;
/// Calls travel at different speeds, so an amount is spent only when the bucket
/// has had it for this long.
const JITTER: Duration = Duration::from_millis(4);

/// The amount that may be spent: it fills at a rate, up to a capacity.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// The rate per second; while it is unknown, nothing is limited.
    rate: Option<f64>,
    level: f64,
    capacity: f64,
    filled: Instant,
    /// When the newest call with an answer was sent.
    heard: Option<Instant>,
    /// The spendings: when, and the sum until then, in the callers' estimates.
    spent: VecDeque<(Instant, f64)>,
    total: f64,
    /// How much the other side charges for each unit of the callers' estimates.
    charge: f64,
    /// Whether callers can only estimate costs, as for tokens: then the charge is measured. For calls it stays 1.
    estimated: bool,
    from: Option<LevelMark>,
    /// The end of the measured time; the charge is computed as soon as all calls
    /// sent until then are settled.
    to: Option<LevelMark>,
    /// Whether a call had to wait since `from`.
    held: bool,
}

/// The remaining level when a call arrived.
#[derive(Debug, Clone, Copy)]
struct LevelMark {
    at: Instant,
    left: f64,
    /// Whether the level was so near the capacity that refills may have been
    /// lost.
    full: bool,
}

impl Bucket {
    /// A bucket with a known limit per minute, or none.
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

    /// Makes it a bucket for costs that callers can only estimate.
    pub(crate) fn estimated(self) -> Self {
        Self { estimated: true, ..self }
    }

    /// Sets another limit per minute, or none, from now on. The level stays.
    pub(crate) fn set_limit(&mut self, per_minute: Option<f64>, now: Instant) {
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

    /// When this much can be spent; `None` if now.
    pub(crate) fn ready(&mut self, cost: f64, now: Instant) -> Option<Instant> {
        let rate = self.rate?;
        let cost = cost * self.charge;
        let reserve = (rate * JITTER.as_secs_f64() + 0.5).min(cost / 2.0);
        let needed = cost + reserve;
        // The capacity must be enough for this, or the bucket never holds it.
        self.capacity = self.capacity.max(needed);
        self.fill(now);
        let lacking = needed - self.level;
        self.held |= lacking > 1e-9;
        (lacking > 1e-9).then(|| now + Duration::from_secs_f64((lacking / rate).clamp(1e-4, 3600.0)))
    }

    /// Takes this cost out of the bucket.
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

    /// A call was refused because this limit was reached, so calls cost more
    /// than was assumed.
    pub(crate) fn raise_charge(&mut self) {
        if self.estimated {
            self.charge = (self.charge * 1.1).min(4.0);
        }
    }

    /// Gives back the cost of a refused call that started then: the other side
    /// did not take it. The level does not change here, because it follows the
    /// headers of the refusal.
    pub(crate) fn refund(&mut self, cost: f64, started: Instant) {
        let first = self.spent.partition_point(|(at, _)| *at < started);
        self.spent.range_mut(first..).for_each(|(_, total)| *total -= cost);
        self.total -= cost;
    }

    /// Applies the announcement of the other side.
    pub(crate) fn apply_hints(&mut self, hint: &RateHint, sent: Instant, now: Instant) {
        self.fill(now);
        if let Some(limit) = hint.per_minute.filter(|limit| limit.is_finite() && *limit > 0.0) {
            self.rate = Some(limit / 60.0);
        }
        let (Some(rate), Some(remaining)) = (self.rate, hint.remaining) else {
            return;
        };
        // Answers can overtake each other; an older one is no news.
        if self.heard.is_some_and(|heard| sent < heard) {
            return;
        }
        self.heard = Some(sent);
        // The announced level held when that call arrived. Since then the
        // bucket has filled, and calls that were sent later have spent.
        let since = now.saturating_duration_since(sent).as_secs_f64();
        let spent_until = self.spent_until(sent);
        self.measure_charge(rate, sent, remaining);
        let level = remaining + rate * since - (self.total - spent_until) * self.charge;
        self.capacity = self.capacity.max(remaining).max(level);
        self.level = level;
    }

    /// Compares the callers' estimates with the amounts that the other side
    /// took. A caller can only estimate the tokens of an answer, and a provider
    /// charges either for the longest possible answer or for the real one.
    fn measure_charge(&mut self, rate: f64, sent: Instant, remaining: f64) {
        if !self.estimated {
            return;
        }
        let mark = LevelMark { at: sent, left: remaining, full: remaining > 0.8 * self.capacity };
        let (Some(from), Some(to)) = (self.from, self.to) else {
            (self.from, self.to) = (self.from.or(Some(mark)), self.from.and(Some(mark)));
            return;
        };
        // Until then, it is unknown which calls were refused.
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
            // Nothing can be measured while the bucket is full. But if calls
            // wait although it is full, their cost is overestimated.
            self.charge *= 0.8;
        }
        self.charge = self.charge.clamp(0.02, 4.0);
        (self.from, self.held) = (Some(to), false);
    }

    /// Sets a rate that was learned, not announced.
    pub(crate) fn learn(&mut self, per_second: f64, now: Instant) {
        self.fill(now);
        self.rate = Some(per_second.max(1e-3));
        self.capacity = 1.0;
        self.level = 0.0;
    }

    /// Fills at a higher rate from now on.
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

    /// The sum of spendings before the first one that is remembered.
    fn spent_before(&self) -> f64 {
        let first = self.spent.front().map_or(self.total, |(_, total)| *total);
        let second = self.spent.get(1).map_or(first, |(_, total)| *total);
        // The cost of the first spending is unknown once earlier ones are
        // forgotten; the cost of the next one is close enough.
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

/// Takes one call out of a bucket of calls and its cost out of one of tokens, or says
/// when both will be there.
pub(crate) fn spend_both(requests: &mut Bucket, tokens: &mut Bucket, cost: f64, now: Instant) -> Result<(), Instant> {
    if let Some(at) = requests.ready(1.0, now).max(tokens.ready(cost, now)) {
        return Err(at);
    }
    requests.spend(1.0, now);
    tokens.spend(cost, now);
    Ok(())
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
        bucket.apply_hints(&hint(600.0, 8.0), start + ms(20), start + ms(120));
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
        bucket.apply_hints(&hint(60_000.0, 250.0), start, start);
        // 1000 a second, of which each call is said to take 90 and takes 50.
        let (mut now, mut left) = (start, 250.0);
        for _ in 0..100 {
            now += ms(50);
            left = f64::min(left + 50.0, 250.0) - 50.0;
            bucket.spend(90.0, now);
            bucket.apply_hints(&hint(60_000.0, left), now, now);
        }
        assert!((bucket.charge * 90.0 - 50.0).abs() < 2.0, "{}", bucket.charge * 90.0);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_was_overtaken_is_no_news() {
        let start = Instant::now();
        let mut bucket = Bucket::new(None, start);
        bucket.apply_hints(&hint(60.0, 0.0), start + ms(50), start + ms(60));
        bucket.apply_hints(&hint(60.0, 30.0), start + ms(10), start + ms(70));
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
        bucket.apply_hints(&hint(60.0, 0.0), start, start);
        let slow = bucket.ready(1.0, start).unwrap() - start;
        bucket.apply_hints(&hint(6000.0, 0.0), start + ms(1), start + ms(1));
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
