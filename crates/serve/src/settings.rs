//! How a service behaves, apart from what it answers.

use crate::{access::Origin, keys::Keys, traffic::Traffic};
use axum::http::HeaderMap;
use models::RetryPolicy;
use std::{
    fmt,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};
use tracing::Span;

/// The settings of a service.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Who may do what. Without keys, anybody may ask, and nobody may read
    /// `/metrics` or use `/admin/…`, except by `admin_without_key`.
    pub keys: Option<Keys>,
    /// Whether everybody may ask who reaches the service, also without a key. Keys
    /// are then for `/metrics` and `/admin/…`.
    pub open_to_all: bool,
    /// Whether programs on this machine may read `/metrics` and use `/admin/…`
    /// without a key. What a proxy forwards does not come from this machine.
    pub admin_without_key: bool,
    /// The address that people and programs reach it by, such as
    /// `https://manuals.example.com`, for links to sources. Taken from the
    /// request's `Host` if it is not set.
    pub public_url: Option<String>,
    /// Whether a service without keys answers whatever name it is reached by,
    /// because a server around it decides who reaches it. Requests from this
    /// machine itself need a local name, or that of `public_url`, all the same.
    pub any_host: bool,
    /// Origins of other web pages that may ask. None by default.
    pub origins: Vec<Origin>,
    /// What becomes of some of the answers; nothing by default.
    pub traffic: Traffic,
    /// How many bytes of answers are kept for questions that come again; 0, which
    /// is the default, keeps none.
    pub cache_bytes: u64,
    /// How many answers are written at once. Default 64.
    pub answers_at_once: usize,
    /// How many more may wait; what comes then is refused with 503. Default 256.
    pub queue: usize,
    /// How many searches, embeddings and rankings run at once; as many wait.
    /// Default 256.
    pub searches_at_once: usize,
    /// The longest time from a request to the end of its answer, with its wait in
    /// the queue and with all pipelines that are asked. Default 2 minutes.
    pub deadline: Duration,
    /// The longest time from the passages to the first piece of the answer.
    /// Default 1 minute.
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
    /// How long the service goes on after it was told to stop, while it says that
    /// it is not ready, so that balancers turn away before connections are
    /// refused. Default 0.
    pub lame_duck: Duration,
    /// How long requests may take to end once the service is told to. Default
    /// 30 s.
    pub drain: Duration,
    /// So many failures of a pipeline's models in a row open the breaker. Default 5.
    pub failures_to_break: u32,
    /// How long it stays open before one question is tried. Default 15 s.
    pub break_for: Duration,
    /// Tells the span of a request whose child it is, from the request's headers.
    pub parent: Option<Parent>,
    /// What became of spans, for `/metrics`.
    pub spans: Option<Arc<Spans>>,
}

/// What became of the spans of this process.
#[derive(Debug, Default)]
pub struct Spans {
    /// All that ended.
    pub ended: AtomicU64,
    /// Those that the collector took.
    pub sent: AtomicU64,
    /// Those that were sent in vain.
    pub failed: AtomicU64,
}

/// Gives a span the parent that the headers of its request name.
pub type FindParent = dyn Fn(&HeaderMap, &Span) + Send + Sync;

/// Reads from the headers of a request which span it belongs to, and tells its
/// own span.
#[derive(Clone)]
pub struct Parent(pub Arc<FindParent>);

impl fmt::Debug for Parent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Parent")
    }
}

/// How failed calls of models are tried again while somebody waits for an
/// answer: twice, soon, and only before the first word.
///
/// `first_token` is how long the first word is waited for: a model that refuses
/// all calls is to be told before that.
pub fn impatience(first_token: Duration) -> RetryPolicy {
    RetryPolicy {
        max_attempts: 3,
        base_delay: Duration::from_millis(100),
        max_delay: Duration::from_secs(1),
        max_retry_after: Duration::from_secs(2),
        max_refused: Duration::from_secs(5).min(first_token / 2),
        ..RetryPolicy::default()
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            keys: None,
            open_to_all: false,
            admin_without_key: false,
            public_url: None,
            any_host: false,
            origins: Vec::new(),
            traffic: Traffic::default(),
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
