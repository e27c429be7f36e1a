//! Numbers for those who operate the service, in the format of Prometheus
//! (OpenMetrics 1.0).

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
use std::sync::Mutex;

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Route {
    pub(crate) route: String,
    pub(crate) status: u16,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct RouteName {
    pub(crate) route: String,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Label {
    pub(crate) kind: &'static str,
}

type Histograms = Family<RouteName, Histogram, fn() -> Histogram>;

/// The numbers of a service.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    pub(crate) requests: Family<Route, Counter>,
    pub(crate) seconds: Histograms,
    /// Of answers: the whole time without that of the chat model.
    pub(crate) overhead: Histogram,
    pub(crate) first_token: Histogram,
    pub(crate) tokens: Family<Label, Counter>,
    pub(crate) in_flight: Gauge,
    pub(crate) waiting: Gauge,
    pub(crate) failures: Family<Label, Counter>,
    pub(crate) feedback: Family<Label, Counter>,
    pub(crate) breaker_open: Gauge,
}

fn seconds() -> Histogram {
    // From 0.1 ms to 200 s.
    Histogram::new(exponential_buckets(0.0001, 2.0, 22))
}

impl Metrics {
    pub(crate) fn new(version: &str) -> Self {
        let mut registry = Registry::with_prefix("reverie");
        let seconds_of: fn() -> Histogram = seconds;
        let metrics = Self {
            registry: Mutex::default(),
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
        };
        let labels = vec![("version".to_owned(), version.to_owned())];
        registry.register("build", "The version of Reverie", Info::new(labels));
        registry.register("requests", "Requests by route and status", metrics.requests.clone());
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
        *metrics.registry.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = registry;
        metrics
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Writing into a text cannot fail.
        let _ = encode(&mut text, &registry);
        text
    }
}
