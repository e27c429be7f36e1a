//! Metrics for operators, in Prometheus' text format 0.0.4 or in OpenMetrics 1.0,
//! as `Accept` asks.

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
        info::Info,
    },
    registry::{Metric, Registry},
};
use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

/// The spans of this process, counted by their outcome.
#[derive(Debug, Default)]
pub struct SpanCounts {
    /// Spans that ended.
    pub ended: AtomicU64,
    /// Spans that the collector accepted.
    pub sent: AtomicU64,
    /// Spans that could not be sent.
    pub failed: AtomicU64,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RouteStatusLabels {
    route: String,
    status: u16,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RouteLabel {
    route: String,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct KindLabel {
    pub(crate) kind: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct RoleOutcomeLabels {
    pub(crate) role: &'static str,
    pub(crate) outcome: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct RoleLabel {
    pub(crate) role: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct MetricLabel {
    pub(crate) metric: String,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct MetricRoleLabels {
    pub(crate) metric: String,
    pub(crate) role: &'static str,
    pub(crate) kind: &'static str,
}

/// A gauge of a real number.
type FloatGauge = Gauge<f64, AtomicU64>;
type Histograms<Labels> = Family<Labels, Histogram, fn() -> Histogram>;

/// The metrics of a service. Their help texts are in [`Metrics::new`].
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) connections: Family<KindLabel, Counter>,
    spans: Family<KindLabel, Gauge>,
    requests: Family<RouteStatusLabels, Counter>,
    seconds: Histograms<RouteLabel>,
    pub(crate) overhead: Histogram,
    pub(crate) first_token: Histogram,
    pub(crate) tokens: Family<KindLabel, Counter>,
    pub(crate) in_flight: Gauge,
    pub(crate) waiting: Gauge,
    pub(crate) failures: Family<KindLabel, Counter>,
    pub(crate) feedback: Family<KindLabel, Counter>,
    pub(crate) breaker_open: Gauge,
    pub(crate) answers: Family<RoleOutcomeLabels, Counter>,
    pub(crate) answer_seconds: Histograms<RoleLabel>,
    pub(crate) cache: Family<KindLabel, Counter>,
    pub(crate) sampled: Family<KindLabel, Counter>,
    pub(crate) scores: Histograms<MetricRoleLabels>,
    pub(crate) unscored: Family<MetricRoleLabels, Counter>,
    pub(crate) baseline: Family<MetricLabel, FloatGauge>,
    pub(crate) drift: Family<MetricLabel, FloatGauge>,
}

/// Measures how long a request takes, until it is dropped.
pub(crate) struct RequestTimer {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) route: String,
    pub(crate) started: Instant,
}

impl Drop for RequestTimer {
    fn drop(&mut self) {
        let route = RouteLabel { route: std::mem::take(&mut self.route) };
        self.metrics.seconds.get_or_create(&route).observe(self.started.elapsed().as_secs_f64());
    }
}

/// A histogram of scores, most of which lie between 0 and 1.
fn score_histogram() -> Histogram {
    Histogram::new((0..=10).map(|tenth| f64::from(tenth) / 10.0))
}

/// A histogram of times.
fn time_histogram() -> Histogram {
    // From 0.1 ms to 200 s.
    Histogram::new(exponential_buckets(0.0001, 2.0, 22))
}

/// Registers metrics, whose clones share their values.
struct MetricRegistry(Registry);

impl MetricRegistry {
    fn add_metric<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: M) -> M {
        self.0.register(name, help, metric.clone());
        metric
    }

    /// Adds a counter, a gauge, or a family of them.
    fn add<M: Metric + Clone + Default>(&mut self, name: &str, help: &str) -> M {
        self.add_metric(name, help, M::default())
    }
}

impl Metrics {
    pub(crate) fn new(version: &str) -> Self {
        let mut all = MetricRegistry(Registry::with_prefix("reverie"));
        let labels = vec![("version".to_owned(), version.to_owned())];
        all.0.register("build", "The version of Reverie", Info::new(labels));
        let times: fn() -> Histogram = time_histogram;
        let scores: fn() -> Histogram = score_histogram;
        Self {
            connections: all.add("connections",
                "Connections by kind: accepted, not_accepted, no_handshake (of TLS)"
            ),
            spans: all.add("spans",
                "Spans of traces by outcome: ended, sent, failed; ended spans that are neither sent nor failed wait or were \
                 dropped",
            ),
            requests: all.add("requests",
                "Requests by route and status; the route is `none` for bytes that are no request",
            ),
            seconds: all.add_metric("request_seconds",
                "From a request's headers to the end of its response",
                Family::new_with_constructor(times),
            ),
            overhead: all.add_metric("overhead_seconds",
                "Time of an answer without that of its chat model",
                time_histogram(),
            ),
            first_token: all.add_metric("first_token_seconds",
                "Time to the first piece of an answer",
                time_histogram(),
            ),
            tokens: all.add("tokens", "Tokens of chat models by kind: prompt, cached, completion"),
            in_flight: all.add("answers_in_flight", "Answers that are being written"),
            waiting: all.add("answers_waiting", "Questions that wait for their turn"),
            failures: all.add("failures", "Answers that failed by kind: upstream, timeout, shed, other"),
            feedback: all.add("feedback", "Verdicts of users by kind: up, down"),
            breaker_open: all.add("breaker_open", "1 while the chat model is not asked because it failed"),
            answers: all.add("answers",
                "Answers by the role of the pipeline (serving, canary, shadow, fallback) and outcome",
            ),
            answer_seconds: all.add_metric("answer_seconds",
                "Time of an attempt at an answer by role",
                Family::new_with_constructor(times),
            ),
            cache: all.add("answer_cache", "Answers looked up in the cache: hit, miss"),
            sampled: all.add("sampled",
                "Sampled answers: scored, kept (in the file), not_written, left_out (too many waited); one answer may be \
                 scored and kept",
            ),
            scores: all.add_metric("score",
                "Scores of answers by metric and role",
                Family::new_with_constructor(scores),
            ),
            unscored: all.add("unscored", "Answers without a score by metric, role and reason"),
            baseline: all.add("score_baseline",
                "The mean that the run measured, by metric; NaN where it has none",
            ),
            drift: all.add("drift_evidence",
                "Evidence that a score has fallen below what the run measured; an alarm from 10,000 on",
            ),
            registry: all.0,
        }
    }

    /// Sets the counts of spans.
    pub(crate) fn set_spans(&self, spans: &SpanCounts) {
        for (kind, number) in [("ended", &spans.ended), ("sent", &spans.sent), ("failed", &spans.failed)] {
            let number = i64::try_from(number.load(Relaxed)).unwrap_or(i64::MAX);
            self.spans.get_or_create(&KindLabel { kind }).set(number);
        }
    }

    /// Counts a request by its route and the status of its response.
    pub(crate) fn count_request(&self, route: &str, status: u16) {
        self.requests.get_or_create(&RouteStatusLabels { route: route.to_owned(), status }).inc();
    }

    /// Counts a sampled answer by its outcome.
    pub(crate) fn count_sample(&self, kind: &'static str) {
        self.sampled.get_or_create(&KindLabel { kind }).inc();
    }

    /// The metrics in the format that a scraper accepts, with its media type.
    pub(crate) fn render(&self, accept: &str) -> (&'static str, String) {
        let mut text = String::new();
        // Writing into a text cannot fail.
        let _ = encode(&mut text, &self.registry);
        if accept.contains("application/openmetrics-text") {
            return ("application/openmetrics-text; version=1.0.0; charset=utf-8", text);
        }
        ("text/plain; version=0.0.4; charset=utf-8", to_text_format(&text))
    }
}

/// Converts OpenMetrics to Prometheus' older text format, which has no `info`, no
/// units and no end mark, and names a counter with its `_total`.
/// Source: Prometheus, "Exposition formats", version 0.0.4.
fn to_text_format(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    // The help of a metric precedes its type, and the type decides its name.
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
            if let Some((_, words)) = help.take().filter(|(of, _)| *of == name) {
                let _ = writeln!(text, "# HELP {name}{suffix} {words}");
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
        metrics.count_request("/health/live", 200);
        metrics.overhead.observe(0.1);
        let (kind, text) = metrics.render("*/*");
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
            let (kind, text) = metrics.render(accept);
            assert!(kind.starts_with("application/openmetrics-text") && text.ends_with("# EOF\n"), "{accept}");
        }
    }
}
