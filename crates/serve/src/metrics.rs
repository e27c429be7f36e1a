//! Numbers for those who operate the service, in the text format of Prometheus
//! (0.0.4) or in OpenMetrics 1.0, as `Accept` says.

use crate::settings::Spans;
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
        info::Info,
    },
    registry::Registry,
};
use std::{
    fmt::Write as _,
    sync::{Arc, Mutex, atomic::Ordering::Relaxed},
    time::Instant,
};

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Route {
    route: String,
    status: u16,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RouteName {
    route: String,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Label {
    pub(crate) kind: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct RoleOutcome {
    pub(crate) role: &'static str,
    pub(crate) outcome: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct RoleName {
    pub(crate) role: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Scored {
    pub(crate) metric: String,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ScoredRole {
    pub(crate) metric: String,
    pub(crate) role: &'static str,
    pub(crate) kind: &'static str,
}

/// A gauge of a real number.
type Level = Gauge<f64, std::sync::atomic::AtomicU64>;
type Histograms = Family<RouteName, Histogram, fn() -> Histogram>;

/// The numbers of a service.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    pub(crate) connections: Family<Label, Counter>,
    spans: Family<Label, Gauge>,
    requests: Family<Route, Counter>,
    seconds: Histograms,
    /// Of answers: the whole time without that of the chat model.
    pub(crate) overhead: Histogram,
    pub(crate) first_token: Histogram,
    pub(crate) tokens: Family<Label, Counter>,
    pub(crate) in_flight: Gauge,
    pub(crate) waiting: Gauge,
    pub(crate) failures: Family<Label, Counter>,
    pub(crate) feedback: Family<Label, Counter>,
    pub(crate) breaker_open: Gauge,
    pub(crate) answers: Family<RoleOutcome, Counter>,
    pub(crate) answer_seconds: Family<RoleName, Histogram, fn() -> Histogram>,
    pub(crate) cache: Family<Label, Counter>,
    pub(crate) sampled: Family<Label, Counter>,
    pub(crate) scores: Family<ScoredRole, Histogram, fn() -> Histogram>,
    pub(crate) unscored: Family<ScoredRole, Counter>,
    pub(crate) baseline: Family<Scored, Level>,
    pub(crate) drift: Family<Scored, Level>,
}

/// Notes how long a request took, when it is dropped.
pub(crate) struct Timer {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) route: String,
    pub(crate) started: Instant,
}

impl Drop for Timer {
    fn drop(&mut self) {
        let route = RouteName { route: std::mem::take(&mut self.route) };
        self.metrics.seconds.get_or_create(&route).observe(self.started.elapsed().as_secs_f64());
    }
}

/// Counts a request when it is dropped: with the status of its answer, or with
/// 499, as nginx does, if its client left before.
pub(crate) struct Unanswered {
    metrics: Arc<Metrics>,
    route: String,
    status: u16,
}

impl Unanswered {
    pub(crate) fn new(metrics: Arc<Metrics>, route: String) -> Self {
        Self { metrics, route, status: 499 }
    }

    /// Counts the answer.
    pub(crate) fn answer(mut self, status: u16) {
        self.status = status;
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.metrics.answered(&self.route, self.status);
    }
}

/// Of scores, most of which lie between 0 and 1.
fn tenths() -> Histogram {
    Histogram::new((0..=10).map(|tenth| f64::from(tenth) / 10.0))
}

fn seconds() -> Histogram {
    // From 0.1 ms to 200 s.
    Histogram::new(exponential_buckets(0.0001, 2.0, 22))
}

impl Metrics {
    pub(crate) fn new(version: &str) -> Self {
        let mut registry = Registry::with_prefix("reverie");
        let seconds_of: fn() -> Histogram = seconds;
        let tenths_of: fn() -> Histogram = tenths;
        let metrics = Self {
            registry: Mutex::default(),
            connections: Family::default(),
            spans: Family::default(),
            requests: Family::default(),
            seconds: Family::new_with_constructor(seconds_of),
            overhead: seconds(),
            first_token: seconds(),
            tokens: Family::default(),
            in_flight: Gauge::default(),
            waiting: Gauge::default(),
            failures: Family::default(),
            feedback: Family::default(),
            breaker_open: Gauge::default(),
            answers: Family::default(),
            answer_seconds: Family::new_with_constructor(seconds_of),
            cache: Family::default(),
            sampled: Family::default(),
            scores: Family::new_with_constructor(tenths_of),
            unscored: Family::default(),
            baseline: Family::default(),
            drift: Family::default(),
        };
        let labels = vec![("version".to_owned(), version.to_owned())];
        registry.register("build", "The version of Reverie", Info::new(labels));
        registry.register(
            "connections",
            "Connections by kind: accepted, not_accepted, no_handshake (of TLS)",
            metrics.connections.clone(),
        );
        registry.register(
            "spans",
            "Spans of traces by what became of them so far: ended, sent, failed; the others wait or were dropped",
            metrics.spans.clone(),
        );
        registry.register(
            "requests",
            "Requests by route and status; the route is `none` for bytes that are no request",
            metrics.requests.clone(),
        );
        registry.register(
            "request_seconds",
            "From a request's headers to the end of its answer",
            metrics.seconds.clone(),
        );
        registry.register("overhead_seconds", "Whole answers without the chat model's time", metrics.overhead.clone());
        registry.register(
            "first_token_seconds",
            "To the first piece of a streamed answer",
            metrics.first_token.clone(),
        );
        registry.register(
            "tokens",
            "Tokens of chat models by kind: prompt, cached, completion",
            metrics.tokens.clone(),
        );
        registry.register("answers_in_flight", "Answers that are being written", metrics.in_flight.clone());
        registry.register("answers_waiting", "Questions that wait for their turn", metrics.waiting.clone());
        registry.register(
            "failures",
            "Answers that failed by kind: upstream, timeout, shed, other",
            metrics.failures.clone(),
        );
        registry.register("feedback", "Verdicts of users by kind: up, down", metrics.feedback.clone());
        registry.register(
            "breaker_open",
            "1 while the chat model is not asked because it failed",
            metrics.breaker_open.clone(),
        );
        registry.register(
            "answers",
            "Answers by the role of the pipeline (serving, canary, shadow, fallback) and outcome",
            metrics.answers.clone(),
        );
        registry.register(
            "answer_seconds",
            "Whole answers by the role of the pipeline",
            metrics.answer_seconds.clone(),
        );
        registry.register(
            "answer_cache",
            "Questions by whether their answer was kept: hit, miss",
            metrics.cache.clone(),
        );
        registry.register(
            "sampled",
            "Sampled answers by what became of them: scored, kept, left_out, not_written",
            metrics.sampled.clone(),
        );
        registry.register("score", "Scores of answers by metric and role", metrics.scores.clone());
        registry.register("unscored", "Answers without a score by metric, role and reason", metrics.unscored.clone());
        registry.register(
            "score_baseline",
            "The mean that the run found, by metric; NaN where it has none",
            metrics.baseline.clone(),
        );
        registry.register(
            "drift_evidence",
            "How much speaks for a score having fallen below what the run found; an alarm from 10,000 on",
            metrics.drift.clone(),
        );
        *metrics.registry.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = registry;
        metrics
    }

    /// Notes what became of the spans of this process.
    pub(crate) fn note_spans(&self, spans: &Spans) {
        for (kind, number) in [("ended", &spans.ended), ("sent", &spans.sent), ("failed", &spans.failed)] {
            let number = i64::try_from(number.load(Relaxed)).unwrap_or(i64::MAX);
            self.spans.get_or_create(&Label { kind }).set(number);
        }
    }

    /// Counts a request.
    pub(crate) fn answered(&self, route: &str, status: u16) {
        self.requests.get_or_create(&Route { route: route.to_owned(), status }).inc();
    }

    /// Counts what became of a sampled answer.
    pub(crate) fn sample(&self, kind: &'static str) {
        self.sampled.get_or_create(&Label { kind }).inc();
    }

    /// The numbers in the format that a scraper accepts, and its media type.
    pub(crate) fn accepted(&self, accept: &str) -> (&'static str, String) {
        let text = self.text();
        if accept.contains("application/openmetrics-text") {
            return ("application/openmetrics-text; version=1.0.0; charset=utf-8", text);
        }
        ("text/plain; version=0.0.4; charset=utf-8", text_format(&text))
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Writing into a text cannot fail.
        let _ = encode(&mut text, &registry);
        text
    }
}

/// OpenMetrics in the older text format, which has neither `info` nor units nor
/// an end, and where a counter is named with its `_total`.
/// Source: Prometheus, "Exposition formats", version 0.0.4.
fn text_format(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    // The help of a metric stands before its type, which decides its name.
    let mut help: Option<(&str, &str)> = None;
    for line in open_metrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                kind => ("", kind),
            };
            if let Some((_, said)) = help.take().filter(|(of, _)| *of == name) {
                let _ = writeln!(text, "# HELP {name}{suffix} {said}");
            }
            let _ = writeln!(text, "# TYPE {name}{suffix} {kind}");
        } else if !line.starts_with('#') {
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_format_names_samples_as_their_types_and_has_no_info() {
        let metrics = Metrics::new("1.2.3");
        metrics.answered("/health/live", 200);
        metrics.overhead.observe(0.1);
        let (kind, text) = metrics.accepted("*/*");
        assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
        assert!(text.contains("# TYPE reverie_build_info gauge\nreverie_build_info{version=\"1.2.3\"} 1\n"), "{text}");
        assert!(text.contains("# TYPE reverie_requests_total counter\n"), "{text}");
        assert!(!text.contains("# EOF") && !text.contains(" info\n") && !text.contains("# UNIT"), "{text}");
        // Each sample stands below the type of its own name.
        let mut named = "";
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                named = rest.split(' ').next().unwrap();
            } else if !line.starts_with('#') {
                let name = line.split(['{', ' ']).next().unwrap();
                let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
                assert!(name == named || base == Some(named), "{line} below {named}");
            }
        }
        for accept in
            ["application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.1", "application/openmetrics-text"]
        {
            let (kind, text) = metrics.accepted(accept);
            assert!(kind.starts_with("application/openmetrics-text") && text.ends_with("# EOF\n"), "{accept}");
        }
    }
}
