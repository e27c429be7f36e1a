//! Settings of a service.

use crate::{
    access::{ApiKeys, PageOrigin},
    telemetry::{LineLog, ParentSpan, SpanCounts},
};
use lab::Scorer;
use models::RetryPolicy;
use std::{fmt, sync::Arc, time::Duration};

/// The settings of a service.
#[derive(Debug, Clone)]
pub struct ServiceSettings {
    /// The API keys. Without keys, everybody may ask questions, and nobody may read
    /// `/metrics` or use `/admin/…` unless `admin_without_key` is set.
    pub keys: Option<ApiKeys>,
    /// Whether everybody who reaches the service may ask questions without a key, also
    /// if there are keys, and by whatever `Host`. `/metrics` and `/admin/…` still need one.
    pub open_to_all: bool,
    /// Whether programs on this machine may read `/metrics` and use `/admin/…`
    /// without a key. Requests that a proxy forwards do not count as local.
    pub admin_without_key: bool,
    /// The public address of the service for links to sources, such as
    /// `https://manuals.example.com`. The default is the request's `Host`.
    pub public_url: Option<String>,
    /// Whether a service without keys accepts every `Host`: for a service that is mounted
    /// in another server, which decides who reaches it. Requests from this machine still
    /// need a local name, or that of `public_url`, because a web page in a browser here
    /// could send them (DNS rebinding).
    pub any_host: bool,
    /// Origins of other web pages that may use the service (CORS). None by default.
    pub origins: Vec<PageOrigin>,
    /// Which answers are sampled, and what is done with them. By default no
    /// answer is sampled.
    pub sample: SampleSettings,
    /// The size of the cache of answers, in bytes. Default 0, which means no cache.
    pub cache_bytes: u64,
    /// How many answers are written at once. Default 64.
    pub answers_at_once: usize,
    /// How many more questions may wait; further ones are refused with 503. Default
    /// 256.
    pub queue: usize,
    /// How many searches, embeddings and rankings run at once; the same number may
    /// wait. Default 256.
    pub searches_at_once: usize,
    /// The longest time from a request to the end of its answer, including its time in
    /// the queue and all pipelines that are tried. Default 2 minutes.
    pub deadline: Duration,
    /// The longest time from when the passages are found to the first piece of the
    /// answer. Default 1 minute.
    pub first_token: Duration,
    /// The longest time for the headers of a request, and for its body. Default
    /// 10 s each.
    pub reading: Duration,
    /// The most bytes of a body. Default 2 MiB.
    pub body_bytes: usize,
    /// The most characters of a question. Default 16,000.
    pub question_characters: usize,
    /// The most connections. Default 4,096.
    pub connections: usize,
    /// How long the service goes on answering after it was told to stop, while
    /// `/health/ready` already reports that it is not ready. Load balancers then stop
    /// sending requests before connections are refused. Default 0.
    pub lame_duck: Duration,
    /// The longest time for requests in flight to end when the service stops. Default
    /// 30 s.
    pub drain: Duration,
    /// The breaker opens after this many failures of a pipeline's models in a row.
    /// Default 5.
    pub failures_to_break: u32,
    /// How long the breaker stays open before one question tries the models. Default
    /// 15 s.
    pub break_for: Duration,
    /// Finds the parent of a request's span in the request's headers.
    pub parent: Option<ParentSpan>,
    /// Counts of spans, for `/metrics`.
    pub spans: Option<Arc<SpanCounts>>,
}

/// Which answers are sampled, and what is done with them.
#[derive(Clone, Default)]
pub struct SampleSettings {
    /// The file that sampled answers are written to.
    pub log: Option<LineLog>,
    /// What scores sampled answers.
    pub scorer: Option<Arc<Scorer>>,
    /// The share of the questions that is sampled, from 0 to 1, spread evenly.
    pub share: f64,
}

impl fmt::Debug for SampleSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SampleSettings").field("log", &self.log).field("share", &self.share).finish_non_exhaustive()
    }
}

/// The retry policy for interactive callers, who want fewer and quicker retries
/// than runs. `first_token` is how long an answer may take to begin; a model that
/// refuses all calls fails before that.
pub fn interactive_retry_policy(first_token: Duration) -> RetryPolicy {
    RetryPolicy {
        max_attempts: 3,
        base_delay: Duration::from_millis(100),
        max_delay: Duration::from_secs(1),
        max_retry_after: Duration::from_secs(2),
        max_refused: Duration::from_secs(5).min(first_token / 2),
        ..RetryPolicy::default()
    }
}

impl Default for ServiceSettings {
    fn default() -> Self {
        Self {
            keys: None,
            open_to_all: false,
            admin_without_key: false,
            public_url: None,
            any_host: false,
            origins: Vec::new(),
            sample: SampleSettings::default(),
            cache_bytes: 0,
            answers_at_once: 64,
            queue: 256,
            searches_at_once: 256,
            deadline: Duration::from_secs(120),
            first_token: Duration::from_secs(60),
            reading: Duration::from_secs(10),
            body_bytes: 2 << 20,
            question_characters: 16_000,
            connections: 4096,
            lame_duck: Duration::ZERO,
            drain: Duration::from_secs(30),
            failures_to_break: 5,
            break_for: Duration::from_secs(15),
            parent: None,
            spans: None,
        }
    }
}
