//! Lines of JSON for the operator. A line about a failure or a refusal has the id of
//! the request, which the client has too. There may be thousands of failures, so only
//! some lines of each kind are written in a second, with the number of the others.

use super::{
    metrics::{KindLabel, Metrics},
    unix_seconds,
};
use crate::error::ApiError;
use axum::http::StatusCode;
use models::trace::{SpanError, mark_failed};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};
use tracing::Span;

/// Writes a line for the operator.
pub(crate) type OperatorSink = Arc<dyn Fn(&Value) + Send + Sync>;

/// Writes lines for the operator, and counts failures.
pub(crate) struct OperatorLog {
    metrics: Arc<Metrics>,
    sink: OnceLock<OperatorSink>,
    limiter: LineLimiter,
}

impl OperatorLog {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, sink: OnceLock::new(), limiter: LineLimiter::default() }
    }

    /// Sets where lines are written, once. Earlier lines are lost.
    pub(crate) fn set_sink(&self, sink: OperatorSink) {
        let _ = self.sink.set(sink);
    }

    /// Where lines are written.
    pub(crate) fn sink(&self) -> OperatorSink {
        self.sink.get().cloned().unwrap_or_else(|| Arc::new(|_| {}))
    }

    /// Writes a line.
    pub(crate) fn write(&self, line: &Value) {
        if let Some(sink) = self.sink.get() {
            sink(line);
        }
    }

    /// Records the error of a request. Failures of the service are counted, and written
    /// with the reason that the client does not get. Refusals for a missing key or scope
    /// are written; other refusals are mistakes of the client.
    pub(crate) fn record_error(&self, error: &ApiError, id: &str) {
        if error.is_failure() {
            self.metrics.failures.get_or_create(&KindLabel { kind: error.failure_kind() }).inc();
            mark_failed(&Span::current(), &error.error_type());
        }
        let lacks_key = matches!(error.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if !(error.detail.is_some() || error.is_failure() || lacks_key) {
            return;
        }
        let (outcome, cause) =
            if error.is_failure() { ("failed", error.failure_kind()) } else { ("refused", error.code) };
        let line = json!({ "time": unix_seconds(), outcome: cause, "id": id, "detail": reason(error) });
        self.write_limited((error.code, cause), line);
    }

    /// Records the failure of a pipeline that the client does not see: another pipeline
    /// was asked, or the pipeline is a shadow.
    pub(crate) fn record_hidden(&self, error: &ApiError, id: &str, role: &'static str) {
        let cause = error.failure_kind();
        let line = json!({ "time": unix_seconds(), "hidden": cause, "id": id, "detail": reason(error), "role": role });
        self.write_limited((role, cause), line);
    }

    fn write_limited(&self, kind: LineKind, mut line: Value) {
        let now = Instant::now();
        if let Some(unwritten) = self.limiter.admit(kind, now) {
            if unwritten > 0 {
                line["unwritten"] = unwritten.into();
            }
            self.write(&line);
        }
        // There may be no other line of a kind that was limited, so its count is written after the next line of any kind.
        self.write_counts(self.limiter.take_settled(now));
    }

    /// Writes how many lines were not written. Called when the service ends.
    pub(crate) fn flush(&self) {
        self.write_counts(self.limiter.take_all());
    }

    fn write_counts(&self, counts: Vec<(LineKind, u64)>) {
        for ((of, cause), unwritten) in counts {
            self.write(&json!({ "time": unix_seconds(), "more": cause, "of": of, "unwritten": unwritten }));
        }
    }
}

/// The reason of an error for the operator.
fn reason(error: &ApiError) -> &str {
    error.detail.as_deref().unwrap_or(&error.message)
}

/// The period in which lines are limited.
const PERIOD: Duration = Duration::from_secs(1);
/// The most lines of one kind in a period.
const LINES_PER_PERIOD: u32 = 10;

/// Limits how many lines of each kind are written.
#[derive(Debug, Default)]
struct LineLimiter(Mutex<HashMap<LineKind, LineRate>>);

/// What is limited together, as a pair. The first is what the line is about: the role of
/// a pipeline, otherwise the code of the error. The second is the cause: the kind of
/// failure, or for a refusal the code again.
type LineKind = (&'static str, &'static str);

#[derive(Debug)]
struct LineRate {
    /// When the current period began.
    since: Instant,
    /// The lines that were written in this period.
    written: u32,
    /// How many lines were left out since the last one that was written.
    unwritten: u64,
}

impl LineLimiter {
    /// Admits a line of this kind: returns how many lines were left out since the last
    /// one that was written, or `None` if this line is left out too.
    fn admit(&self, kind: LineKind, now: Instant) -> Option<u64> {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(rate) = kinds.get_mut(&kind) else {
            kinds.insert(kind, LineRate { since: now, written: 1, unwritten: 0 });
            return Some(0);
        };
        if now.saturating_duration_since(rate.since) >= PERIOD {
            (rate.since, rate.written) = (now, 0);
        }
        if rate.written == LINES_PER_PERIOD {
            rate.unwritten += 1;
            return None;
        }
        rate.written += 1;
        Some(std::mem::take(&mut rate.unwritten))
    }

    /// Takes the counts of unwritten lines of the kinds whose period is over.
    fn take_settled(&self, now: Instant) -> Vec<(LineKind, u64)> {
        self.take(|rate| now.saturating_duration_since(rate.since) >= PERIOD)
    }

    /// Takes all counts of unwritten lines.
    fn take_all(&self) -> Vec<(LineKind, u64)> {
        self.take(|_| true)
    }

    fn take(&self, holds: impl Fn(&LineRate) -> bool) -> Vec<(LineKind, u64)> {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let some = kinds.iter_mut().filter(|(_, rate)| rate.unwritten > 0 && holds(rate));
        some.map(|(kind, rate)| (*kind, std::mem::take(&mut rate.unwritten))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_kind_ten_lines_a_second_are_written_and_the_others_are_counted() {
        let (limiter, start) = (LineLimiter::default(), Instant::now());
        let at = |milliseconds: u64| start + Duration::from_millis(milliseconds);
        for milliseconds in 0..10 {
            assert_eq!(limiter.admit(("", "shed"), at(milliseconds)), Some(0));
            assert_eq!(limiter.admit(("", "timeout"), at(milliseconds)), Some(0));
        }
        for milliseconds in 10..1000 {
            assert_eq!(limiter.admit(("", "shed"), at(milliseconds)), None);
        }
        assert_eq!(limiter.take_settled(at(999)), []);
        assert_eq!(limiter.admit(("", "shed"), at(1000)), Some(990));
        assert_eq!(limiter.admit(("", "timeout"), at(5000)), Some(0));
    }

    #[test]
    fn the_last_of_a_flood_are_told_too() {
        let (limiter, start) = (LineLimiter::default(), Instant::now());
        for _ in 0..200 {
            limiter.admit(("", "shed"), start);
        }
        assert_eq!(limiter.take_settled(start + PERIOD), [(("", "shed"), 190)]);
        assert_eq!(limiter.take_settled(start + PERIOD), [], "once");
        for _ in 0..12 {
            limiter.admit(("", "shed"), start + PERIOD);
        }
        assert_eq!(limiter.take_all(), [(("", "shed"), 2)]);
    }
}
