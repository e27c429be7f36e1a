//! The settings of the simulated provider: how fast it is, how much it allows, how
//! often it fails, and how all that changes while it runs.

use crate::{BatchBehaviour, Error};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Everything about a simulated provider. With the default it answers all
/// requests at once and never fails.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SimulatorSettings {
    /// Decides latencies and faults: those of the n-th request that the limits let
    /// through are the same in every run, whichever client sends it.
    pub seed: u64,
    /// The port on 127.0.0.1; 0 takes a free one.
    pub port: u16,
    /// From admission to the end of the answer.
    pub latency: LatencyModel,
    /// Tokens of an answer, where the request allows that many.
    pub answer_tokens: u64,
    /// Numbers of an embedding, where the request does not say.
    pub dimensions: usize,
    /// Requests in flight; one more is refused at once.
    pub concurrency: Option<u64>,
    /// `retry-after` of a refusal for concurrency; not sent if not set.
    pub concurrency_retry_after_ms: Option<u64>,
    /// Requests per minute, refilled continuously.
    pub requests_per_minute: Option<u64>,
    /// Requests that may come at once after a pause; a minute's worth if not set.
    pub request_burst: Option<u64>,
    /// Tokens per minute, refilled continuously. A request is charged when it
    /// is admitted, with what its answer will really use.
    pub tokens_per_minute: Option<u64>,
    /// Tokens that may be used at once after a pause; a minute's worth if not set.
    pub token_burst: Option<u64>,
    /// Whether answers carry `x-ratelimit-*`, and refusals for requests or tokens per minute `retry-after`.
    pub rate_headers: bool,
    /// How often something goes wrong.
    pub faults: Faults,
    /// How batches are worked on.
    pub batches: BatchBehaviour,
    /// Changes of settings while it runs.
    pub changes: Vec<SettingsChange>,
}

impl Default for SimulatorSettings {
    fn default() -> Self {
        Self {
            seed: 0,
            port: 0,
            latency: LatencyModel::default(),
            answer_tokens: 32,
            dimensions: 64,
            concurrency: None,
            concurrency_retry_after_ms: None,
            requests_per_minute: None,
            request_burst: None,
            tokens_per_minute: None,
            token_burst: None,
            rate_headers: true,
            faults: Faults::default(),
            batches: BatchBehaviour::default(),
            changes: Vec::new(),
        }
    }
}

/// How long an answer takes, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum LatencyModel {
    /// Always the same.
    Constant { seconds: f64 },
    /// Anything between two bounds, equally often.
    Uniform { shortest: f64, longest: f64 },
    /// Like that of real services: most answers near the median, few far above. `sigma` is the
    /// standard deviation of the logarithm.
    LogNormal { median: f64, sigma: f64 },
}

impl Default for LatencyModel {
    fn default() -> Self {
        Self::Constant { seconds: 0.0 }
    }
}

/// Shares of the requests that the limits let through, each from 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Faults {
    /// 429 at once although no limit is reached, without a charge.
    pub rate_limited: f64,
    /// 503 at once, without a charge.
    pub overloaded: f64,
    /// 500 after the latency.
    pub server_error: f64,
    /// No answer at all, while the connection stays open.
    pub hang: f64,
    /// The connection is reset after the latency, before the answer.
    pub reset: f64,
    /// The answer breaks off in the middle.
    pub truncated: f64,
    /// The answer is no JSON.
    pub malformed: f64,
}

/// Settings that become different at some time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettingsChange {
    /// Counted from the first request, or from an earlier `POST /control`.
    pub after_seconds: f64,
    /// Settings by name, such as `{"requests_per_minute": 600}`; `null` takes a limit away.
    pub set: Map<String, Value>,
}

impl SimulatorSettings {
    /// These settings with some replaced. Of `faults`, only those that are
    /// named are replaced.
    ///
    /// # Errors
    /// A name or a value that does not exist.
    pub fn merged(&self, changes: &Map<String, Value>) -> Result<Self, Error> {
        let unreadable = |error: serde_json::Error| Error::Settings(format!("these settings cannot be read: {error}"));
        let mut settings = serde_json::to_value(self).map_err(unreadable)?;
        for (name, value) in changes {
            if name == "faults"
                && let (Some(Value::Object(faults)), Value::Object(new)) = (settings.get_mut(name), value)
            {
                faults.extend(new.clone());
            } else {
                settings[name.as_str()] = value.clone();
            }
        }
        serde_json::from_value::<Self>(settings).map_err(unreadable)?.checked()
    }

    /// These settings, if they can work.
    ///
    /// # Errors
    /// The setting that cannot.
    pub fn checked(self) -> Result<Self, Error> {
        let wrong = |what: &str| Err(Error::Settings(what.to_owned()));
        let is_time = |seconds: f64| (0.0..=1e6).contains(&seconds);
        let latency_works = match self.latency {
            LatencyModel::Constant { seconds } => is_time(seconds),
            LatencyModel::Uniform { shortest, longest } => is_time(shortest) && is_time(longest) && shortest <= longest,
            LatencyModel::LogNormal { median, sigma } => is_time(median) && (0.0..=5.0).contains(&sigma),
        };
        if !latency_works {
            return wrong(
                "`latency` must be from 0 to 1000000 seconds, `shortest` not above `longest`, `sigma` from 0 to 5",
            );
        }
        let shares = self.faults.shares().map(|(_, share)| share);
        if shares.iter().any(|share| !(0.0..=1.0).contains(share)) || shares.iter().sum::<f64>() > 1.0 {
            return wrong("each share of `faults` must be from 0 to 1, and all together not above 1");
        }
        let limits = [
            self.concurrency,
            self.requests_per_minute,
            self.request_burst,
            self.tokens_per_minute,
            self.token_burst,
            Some(self.answer_tokens),
        ];
        if limits.contains(&Some(0)) || self.dimensions == 0 {
            return wrong("limits, bursts, `answer_tokens` and `dimensions` must be above 0; `null` is no limit");
        }
        let mut changed = Self { changes: Vec::new(), ..self.clone() };
        let mut before = 0.0;
        for change in &self.changes {
            if !is_time(change.after_seconds) || change.after_seconds < before {
                return wrong("`changes` must be in the order of `after_seconds`, none below 0");
            }
            if ["changes", "port", "seed"].iter().any(|fixed| change.set.contains_key(*fixed)) {
                return wrong("`changes`, `port` and `seed` stay as they are while it runs");
            }
            before = change.after_seconds;
            changed = changed.merged(&change.set)?;
        }
        Ok(self)
    }
}
