//! The HTTP service: questions in, answers with sources out, from one pipeline,
//! in OpenAI's API and in its own. This crate knows nothing of terminals and
//! reads no environment; `reverie serve` and the Python package start it.
//!
//! A request passes, in this order: connection limits ([`connection`]), request
//! id and metrics, the key ([`keys`]), the body's limits ([`request`]), its turn
//! ([`admission`]), the breaker and deadlines ([`answer`]), the pipeline.

mod access;
mod admin;
mod admission;
mod answer;
mod breaker;
mod cache;
mod chat;
mod connection;
mod embeddings;
mod error;
mod keys;
mod lanes;
mod line;
mod log;
mod mcp;
mod metrics;
mod models_routes;
mod openapi;
mod operator_log;
mod page;
mod patient;
mod quality;
mod rag_routes;
mod request;
mod rerank;
mod responses;
mod sent_text;
mod served;
mod settings;
mod sources;
mod stream;
mod tls;
mod trace;
mod traffic;
mod turn;

pub use access::Origin;
pub use connection::Drained;
pub use keys::{KeyEntry, KeyFile, Keys, Scope, new_key};
pub use log::LineLog;
pub use served::Served;
pub use settings::{FindParent, Parent, Settings, Spans, impatience};
pub use tls::{TlsError, acceptor};
pub use traffic::Traffic;

use access::{Peer, admit, check_host};
use admission::Admission;
use answer::failure;
use axum::{
    Json, Router,
    body::Body,
    extract::{DefaultBodyLimit, MatchedPath, Request, State},
    http::{self, HeaderMap, HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use error::ApiError;
use futures::future::BoxFuture;
use http_body_util::BodyExt;
use hyper::body::Body as _;
use lanes::{Candidate, Lane, Lanes, Role};
use metrics::{Label, Metrics};
use operator_log::OperatorLog;
use serde_json::{Value, json};
use std::{
    io,
    net::IpAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use tower_http::catch_panic::CatchPanicLayer;
use tracing::Instrument;
use traffic::Sampling;
use turn::{Answering, Clock};

/// Opens another bundle by its address.
pub type Open = Arc<dyn Fn(String) -> BoxFuture<'static, Result<Served, lab::Error>> + Send + Sync>;
/// Is told of each change by an administrator.
pub type Audit = Arc<dyn Fn(&Value) + Send + Sync>;

/// What ends a service.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    /// Ends it at once: connections are refused, and requests that were begun end.
    pub now: CancellationToken,
    /// The same after the time of a lame duck.
    pub after_lame_duck: CancellationToken,
}

/// A service that is ready to be started.
pub struct Service {
    settings: Settings,
    answering: Arc<Answering>,
    open: Option<Open>,
    log: Arc<OperatorLog>,
    feedback: Option<LineLog>,
    sampling: Arc<Sampling>,
    searches: Admission,
    metrics: Arc<Metrics>,
    /// Whether the pipelines are loaded.
    is_warm: AtomicBool,
    /// Whether it was told to stop.
    is_ending: AtomicBool,
    is_tls: bool,
    /// The bundle that an administrator opens, or opened last.
    opening: Mutex<Option<admin::Opening>>,
}

/// The id of a request, in its response's `x-request-id`.
#[derive(Debug, Clone)]
pub(crate) struct RequestId(pub(crate) Arc<str>);

/// The span of a request, for work that others start.
#[derive(Debug, Clone)]
pub(crate) struct RequestSpan(pub(crate) tracing::Span);

/// Whose key came with a request; empty where none is asked for.
#[derive(Debug, Clone)]
pub(crate) struct Caller(pub(crate) Arc<str>);

impl Service {
    /// A service of this pipeline.
    pub fn new(served: Served, settings: Settings) -> Self {
        let metrics = Arc::new(Metrics::new(env!("CARGO_PKG_VERSION")));
        let sampling = Arc::new(Sampling::new(settings.traffic.clone(), &served, &metrics));
        let serving = Lane::new(Arc::new(served), Role::Serving, &settings);
        let lanes = Lanes { serving, candidate: None, fallback: None };
        let log = Arc::<OperatorLog>::default();
        Self {
            answering: Arc::new(Answering::new(lanes, sampling.clone(), metrics.clone(), log.clone(), &settings)),
            searches: Admission::new(settings.searches_at_once, settings.searches_at_once),
            open: None,
            log,
            feedback: None,
            sampling,
            metrics,
            is_warm: AtomicBool::new(false),
            is_ending: AtomicBool::new(false),
            is_tls: false,
            opening: Mutex::default(),
            settings,
        }
    }

    /// With a pipeline that answers where the chat model of the first one fails.
    #[must_use]
    pub fn with_fallback(self, fallback: Option<Served>) -> Self {
        let fallback = fallback.map(|served| Lane::new(Arc::new(served), Role::Fallback, &self.settings));
        self.answering.change_lanes(|lanes| lanes.fallback = fallback);
        self
    }

    /// With a candidate for the place of the first pipeline, which is tried on this
    /// share of the questions: as a shadow, whose answers go to nobody, or as a
    /// canary.
    #[must_use]
    pub fn with_candidate(self, candidate: Option<Served>, share: f64, is_shadow: bool) -> Self {
        if let Some(served) = candidate {
            self.try_candidate(Some(Candidate::new(Arc::new(served), share, is_shadow, &self.settings)));
        }
        self
    }

    /// With a way to open other bundles, for `/admin/swap`; each change is told.
    #[must_use]
    pub fn with_swaps(self, open: Open, audit: Audit) -> Self {
        self.log.write_to(audit);
        Self { open: Some(open), ..self }
    }

    /// With a file for what people think of answers.
    #[must_use]
    pub fn with_feedback(self, feedback: Option<LineLog>) -> Self {
        Self { feedback, ..self }
    }

    /// Serves until it is stopped. As a lame duck it says first that it is not
    /// ready and goes on, so that balancers turn away. At last it waits for the
    /// requests that were begun, at most for the time that the settings give them.
    /// It is ready when the pipeline is warm; until then questions are refused
    /// with 503.
    ///
    /// # Errors
    /// If the listener fails, or the pipeline cannot be made ready.
    pub async fn run(
        mut self,
        listener: TcpListener,
        tls: Option<TlsAcceptor>,
        on_ready: impl FnOnce() + Send + 'static,
        stop: Stop,
    ) -> io::Result<Drained> {
        self.is_tls = tls.is_some();
        let limits = connection::Limits {
            connections: self.settings.connections,
            reading: self.settings.reading,
            drain: self.settings.drain,
        };
        let service = Arc::new(self);
        let warm = service.clone();
        let ending = CancellationToken::new();
        let sampling = tokio::spawn(service.sampling.work(service.log.audit(), ending.clone()));
        let failed = CancellationToken::new();
        let ends = failed.clone();
        let warming = tokio::spawn(async move {
            let outcome = async { warm.lanes().warm().await };
            let outcome = outcome.instrument(trace::warming()).await;
            match &outcome {
                Ok(()) => {
                    warm.is_warm.store(true, Relaxed);
                    on_ready();
                }
                Err(_) => ends.cancel(),
            }
            outcome
        });
        let (over, draining) = (CancellationToken::new(), service.clone());
        let ended = over.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = stop.now.cancelled() => {}
                () = failed.cancelled() => {}
                () = stop.after_lame_duck.cancelled() => {
                    // A balancer sees that it is not ready before connections are refused.
                    draining.is_ending.store(true, Relaxed);
                    drop(tokio::time::timeout(draining.settings.lame_duck, stop.now.cancelled()).await);
                }
            }
            draining.is_ending.store(true, Relaxed);
            ended.cancel();
        });
        let drained = connection::serve(listener, tls, routes(&service), limits, service.metrics.clone(), over).await;
        ending.cancel();
        let _ = sampling.await;
        service.log.flush();
        match warming.await {
            Ok(Err(error)) => Err(io::Error::other(lab::error_chain(&error))),
            _ => drained,
        }
    }

    /// The service inside another HTTP server, which cares for connections, ready
    /// to be asked.
    ///
    /// # Errors
    /// If the store or a model fails.
    pub async fn mount(self) -> Result<Mounted, lab::Error> {
        let service = Arc::new(self);
        service.lanes().warm().await?;
        tokio::spawn(service.sampling.work(service.log.audit(), CancellationToken::new()));
        service.is_warm.store(true, Relaxed);
        Ok(Mounted { routes: routes(&service), service })
    }

    pub(crate) fn served(&self) -> Arc<Served> {
        self.lanes().serving.served.clone()
    }

    pub(crate) fn lanes(&self) -> Arc<Lanes> {
        self.answering.lanes()
    }

    /// Serves another pipeline from now on; gives the one of before.
    pub(crate) fn swap(&self, next: Arc<Served>) -> Arc<Served> {
        if let Some(quality) = &self.sampling.quality {
            quality.serves(&next);
        }
        self.answering.swap(Lane::new(next, Role::Serving, &self.settings))
    }

    /// Tries another candidate, or none any more; gives the one of before.
    pub(crate) fn try_candidate(&self, candidate: Option<Candidate>) -> Option<Candidate> {
        if let Some(quality) = &self.sampling.quality {
            quality.tries(candidate.as_ref().map(|candidate| &*candidate.lane.served));
        }
        self.answering.try_candidate(candidate)
    }

    /// Asks the present candidate another share of the questions.
    pub(crate) fn share_candidate(&self, share: f64) {
        self.answering.change_lanes(|lanes| {
            if let Some(candidate) = &mut lanes.candidate {
                candidate.share = share;
            }
        });
    }

    /// The clock of a request that begins now.
    pub(crate) fn clock(&self) -> Clock {
        Clock::begin(self.settings.deadline)
    }

    /// Counts a failure, and tells the operator what the client is not told.
    pub(crate) fn note_failure(&self, error: &ApiError, id: &str) {
        if error.is_failure() {
            self.metrics.failures.get_or_create(&Label { kind: failure(error) }).inc();
            models::trace::fail(&tracing::Span::current(), &models::trace::SpanError::error_type(error));
        }
        self.log.note(error, id);
    }
}

/// A service inside another HTTP server.
#[derive(Clone)]
pub struct Mounted {
    service: Arc<Service>,
    routes: Router,
}

impl Mounted {
    /// Answers a request of a client at this address, if it is known. The work ends
    /// when the response's body is dropped.
    pub async fn answer(&self, mut request: http::Request<Body>, client: Option<IpAddr>) -> Response {
        if let Some(client) = client {
            request.extensions_mut().insert(Peer(client));
        }
        match self.routes.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    /// Refuses what is no HTTP request, as the service's own server does.
    pub fn refuse(&self, reason: &str) -> Response {
        let refused = ApiError::invalid(format!("that is no HTTP request: {reason}"));
        self.service.metrics.answered("none", refused.status.as_u16());
        refused.into_response()
    }

    /// What is served now.
    pub fn served(&self) -> Arc<Served> {
        self.service.served()
    }
}

fn routes(service: &Arc<Service>) -> Router {
    let admitting = |scope| middleware::from_fn_with_state((service.clone(), scope), admit);
    let ask = Router::new()
        .route("/v1/chat/completions", post(chat::post))
        .route("/v1/responses", post(responses::post))
        .route("/v1/embeddings", post(embeddings::post))
        .route("/v1/rerank", post(rerank::post))
        .route("/v1/models", get(models_routes::list))
        .route("/v1/models/{*id}", get(models_routes::one))
        .route("/rag/answer", get(rag_routes::answer))
        .route("/rag/retrieve", get(rag_routes::retrieve))
        .route("/rag/sources/{id}", get(rag_routes::source))
        .route("/rag/feedback", post(rag_routes::feedback))
        .merge(mcp::routes(service))
        .layer(admitting(Scope::Ask));
    let operate = Router::new().route("/metrics", get(metrics_text)).layer(admitting(Scope::Metrics));
    let change = Router::new()
        .route("/admin/status", get(admin::status))
        .route("/admin/swap", post(admin::swap))
        .route("/admin/candidate", post(admin::try_candidate).delete(admin::drop_candidate))
        .route("/admin/candidate/promote", post(admin::promote_candidate))
        .layer(admitting(Scope::Admin));
    Router::new()
        .route("/", get(page::index))
        .route("/page.js", get(page::script))
        .route("/page.css", get(page::style))
        .route("/docs", get(page::docs))
        .route("/docs.js", get(page::docs_script))
        .route("/favicon.ico", get(async || StatusCode::NO_CONTENT))
        .route("/openapi.json", get(openapi::get))
        .route("/health/live", get(async || Json(json!({ "status": "live" }))))
        .route("/health/ready", get(ready))
        .merge(ask)
        .merge(operate)
        .merge(change)
        .fallback(async || ApiError::not_found("not_found", "there is no such route; GET /docs lists them"))
        .method_not_allowed_fallback(async || {
            ApiError::invalid("this route does not take this method; GET /docs lists them")
                .with_status(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed")
        })
        .layer(DefaultBodyLimit::max(service.settings.body_bytes))
        .layer(access::cors(&service.settings.origins))
        .layer(CatchPanicLayer::custom(|panic: Box<dyn std::any::Any + Send>| {
            ApiError::panicked(&*panic).into_response()
        }))
        .layer(middleware::from_fn_with_state(service.clone(), outermost))
        .with_state(service.clone())
}

async fn ready(State(service): State<Arc<Service>>) -> Response {
    if service.is_warm.load(Relaxed) && !service.is_ending.load(Relaxed) {
        return Json(json!({ "status": "ready", "version": service.served().version })).into_response();
    }
    not_ready().into_response()
}

fn not_ready() -> ApiError {
    ApiError::overloaded("the service is not ready yet, or is ending", Duration::from_secs(1))
}

async fn metrics_text(State(service): State<Arc<Service>>, headers: HeaderMap) -> Response {
    service.answering.note_load();
    service.metrics.breaker_open.set(i64::from(service.lanes().serving.breaker.is_open()));
    if let Some(spans) = &service.settings.spans {
        service.metrics.note_spans(spans);
    }
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (kind, text) = service.metrics.accepted(accept);
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// Gives each request its id, refuses foreign names of this host, counts, and
/// notes failures.
async fn outermost(State(service): State<Arc<Service>>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id: Arc<str> = format!("req-{}", store::unique_token()).into();
    request.extensions_mut().insert(RequestId(id.clone()));
    let route = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str).to_owned();
    let (mut request, unread) = request::watched(request);
    let span = trace::request(&service, &request, &route, &id);
    request.extensions_mut().insert(RequestSpan(span.clone()));
    let waiting = trace::Waiting::new(&span);
    let timer = metrics::Timer { metrics: service.metrics.clone(), route: route.clone(), started };
    // A client that leaves ends this work here.
    let unanswered = metrics::Unanswered::new(service.metrics.clone(), route.clone());
    let answered = async {
        let response = match check_host(&service, &request) {
            Ok(()) => next.run(request).await,
            Err(refused) => refused.into_response(),
        };
        if let Some(error) = response.extensions().get::<ApiError>() {
            service.note_failure(error, &id);
        }
        response
    };
    let mut response = answered.instrument(span).await;
    if service.is_ending.load(Relaxed) {
        // The client's next request is to go elsewhere.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if unread.is_some_and(|unread| unread.load(Relaxed)) {
        // A client that still sends the body must not send another request after it.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert("x-request-id", value);
    }
    page::protect(&mut response);
    let status = response.status().as_u16();
    unanswered.answer(status);
    let response = trace::answered(waiting, response);
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    // A stream ends with its last piece, or when the client leaves.
    response.map(|body| {
        Body::new(body.map_frame(move |frame| {
            let _until_dropped = &timer;
            frame
        }))
    })
}
