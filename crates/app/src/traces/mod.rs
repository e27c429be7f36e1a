//! Sends spans to a collector of OpenTelemetry: OTLP over HTTP, as protobuf.
//!
//! A separate thread sends spans from a queue, so no answer waits for the collector.
//! Spans that do not fit into the queue, or cannot be sent, are lost; the first failure
//! is reported.

mod settings;

pub use settings::TraceSettings;

use futures::future::BoxFuture;
use models::trace::{CONTENT, TARGET};
use opentelemetry::{Array, KeyValue, StringValue, Value, propagation::TextMapPropagator, trace::TracerProvider};
use opentelemetry_proto::{
    tonic::collector::trace::v1::ExportTraceServiceRequest,
    transform::{common::tonic::ResourceAttributesWithSchema, trace::tonic::group_spans_by_resource_and_scope},
};
use opentelemetry_sdk::{
    Resource,
    error::{OTelSdkError, OTelSdkResult},
    propagation::TraceContextPropagator,
    trace::{BatchSpanProcessor, SdkTracerProvider, SpanData, SpanExporter, SpanProcessor},
};
use prost::Message;
use reqwest::{
    Client, StatusCode, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use serve::SpanCounts;
use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::runtime::Handle;
use tracing::{Metadata, Span, level_filters::LevelFilter, subscriber::SetGlobalDefaultError};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::{Registry, filter::FilterFn, layer::SubscriberExt};

/// The most characters of a collector's refusal that are reported.
const REFUSAL_CHARACTERS: usize = 200;
/// The headers of W3C Trace Context.
const TRACE_HEADERS: [&str; 2] = ["traceparent", "tracestate"];

/// How long the spans of the last requests may take to be sent at the end.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends the spans of this process until it is dropped.
pub struct Traces {
    provider: SdkTracerProvider,
    /// Counts of spans that ended, were sent, or failed.
    pub spans: Arc<SpanCounts>,
    warn: WarnOperator,
}

/// Prints a message for the operator of the service.
type WarnOperator = Arc<dyn Fn(String) + Send + Sync>;

/// Why no traces can be sent.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The name of a header.
    #[error("`{0}` is no name of a header")]
    HeaderName(String),
    /// The value of a header, which may be a key and is not shown.
    #[error("the value of header `{0}` is invalid")]
    HeaderValue(HeaderName),
    /// The HTTP client cannot be made.
    #[error(transparent)]
    Client(#[from] reqwest::Error),
    /// Spans of this process have another listener.
    #[error("something in this process listens to its spans already")]
    Listener(#[source] SetGlobalDefaultError),
}

/// Why a batch of spans was not taken.
#[derive(Debug, thiserror::Error)]
enum SpanExportError {
    /// The collector cannot be reached.
    #[error("{}", store::error_chain(.0))]
    Unreachable(reqwest::Error),
    /// The collector refused the batch.
    #[error("it answered {status}{reason}")]
    Refused {
        /// The HTTP status.
        status: StatusCode,
        /// The beginning of the answer, after a colon; empty if there is none.
        reason: String,
    },
    /// The process ended first.
    #[error("it had not answered when the service ended")]
    Ended,
}

impl Traces {
    /// Starts to send the spans of this process. `warn` is called when the
    /// collector begins to fail, and when it takes spans again.
    ///
    /// # Errors
    /// If a header is malformed, or another listener is installed.
    pub fn start(settings: TraceSettings, warn: WarnOperator) -> Result<Self, TraceError> {
        let mut headers = HeaderMap::new();
        for (name, value) in &settings.headers {
            // The value may be a key, so it is not shown.
            let name: HeaderName = name.parse().map_err(|_| TraceError::HeaderName(name.clone()))?;
            let mut value = HeaderValue::from_str(value).map_err(|_| TraceError::HeaderValue(name.clone()))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let client = store::http_client()
            .timeout(settings.timeout)
            // A redirect could send the headers, which may hold a key, to another server.
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        let resource = settings.resource.into_iter().map(|(name, value)| KeyValue::new(name, value));
        let resource = Resource::builder_empty().with_attributes(resource).build();
        let spans = Arc::new(SpanCounts::default());
        let sender = SpanSender {
            client,
            runtime: Handle::current(),
            endpoint: settings.endpoint,
            headers,
            resource: (&resource).into(),
            failing: AtomicBool::new(false),
            spans: spans.clone(),
            warn: warn.clone(),
        };
        let sending = SpanCounter { counts: spans.clone(), next: BatchSpanProcessor::builder(sender).build() };
        let provider = SdkTracerProvider::builder()
            .with_resource(resource)
            .with_sampler(settings.sampler)
            .with_span_processor(sending)
            .build();
        let layer = tracing_opentelemetry::layer()
            .with_tracer(provider.tracer("reverie"))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false);
        let content = settings.content;
        // Other libraries create spans too, one for every frame of a connection.
        let wanted =
            move |of: &Metadata<'_>| (of.is_span() && of.target() == TARGET) || (content && of.target() == CONTENT);
        let wanted = FilterFn::new(wanted).with_max_level_hint(LevelFilter::INFO);
        let listener = Registry::default().with(layer).with(wanted);
        tracing::subscriber::set_global_default(listener).map_err(TraceError::Listener)?;
        models::trace::set_trace_headers(trace_headers);
        Ok(Self { provider, spans, warn })
    }

    /// Sends the remaining spans, for a few seconds at most, and reports how many were lost.
    pub async fn end(self) {
        let Self { provider, spans, warn } = self;
        // This blocks until the sending thread has ended.
        let ended = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(FLUSH_TIMEOUT));
        let _ = ended.await;
        let (ended, sent) = (spans.ended.load(Relaxed), spans.sent.load(Relaxed));
        if ended > sent {
            warn(format!("warning: {} of {ended} spans were lost", ended - sent));
        }
    }
}

/// A function that makes a request's span the child of the span that its headers name
/// ([`TRACE_HEADERS`]).
pub fn parent_span() -> serve::ParentSpan {
    let propagator = TraceContextPropagator::new();
    serve::ParentSpan(Arc::new(move |headers: &HeaderMap, span: &Span| {
        let text = |name: &str| Some((name.to_owned(), headers.get(name)?.to_str().ok()?.to_owned()));
        let named: HashMap<String, String> = TRACE_HEADERS.into_iter().filter_map(text).collect();
        // It fails only if no subscriber is installed.
        let _ = span.set_parent(propagator.extract(&named));
    }))
}

/// The headers of W3C Trace Context that name a span to a model provider.
fn trace_headers(span: &Span) -> Vec<(&'static str, String)> {
    let mut named: HashMap<String, String> = HashMap::new();
    TraceContextPropagator::new().inject_context(&span.context(), &mut named);
    let header = |name| Some((name, named.remove(name).filter(|value| !value.is_empty())?));
    TRACE_HEADERS.into_iter().filter_map(header).collect()
}

/// Sends batches of spans, one after the other.
struct SpanSender {
    client: Client,
    /// Batches come from a thread without a runtime.
    runtime: Handle,
    endpoint: Url,
    headers: HeaderMap,
    resource: ResourceAttributesWithSchema,
    /// Whether the last batch failed.
    failing: AtomicBool,
    spans: Arc<SpanCounts>,
    warn: WarnOperator,
}

impl fmt::Debug for SpanSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpanSender").field("endpoint", &self.endpoint.as_str()).finish_non_exhaustive()
    }
}

impl SpanSender {
    fn post(&self, body: Vec<u8>) -> BoxFuture<'static, Result<(), SpanExportError>> {
        let request = self.client.post(self.endpoint.clone()).headers(self.headers.clone());
        let request = request.header(CONTENT_TYPE, "application/x-protobuf").body(body);
        let sent = self.runtime.spawn(async move {
            let response = request.send().await.map_err(|error| SpanExportError::Unreachable(error.without_url()))?;
            let status = response.status();
            if status.is_success() {
                return Ok(());
            }
            // The body may give the reason, such as a missing header.
            let text = response.text().await.unwrap_or_default();
            let reason: String = text.chars().filter(|c| !c.is_control()).take(REFUSAL_CHARACTERS).collect();
            let reason = if reason.is_empty() { reason } else { format!(": {reason}") };
            Err(SpanExportError::Refused { status, reason })
        });
        // The task is cancelled when the process ends.
        Box::pin(async { sent.await.unwrap_or(Err(SpanExportError::Ended)) })
    }
}

impl SpanExporter for SpanSender {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        for span in &mut batch {
            keep_last_values(&mut span.attributes);
            span.attributes.iter_mut().for_each(make_list);
        }
        let spans = batch.len() as u64;
        let resource_spans = group_spans_by_resource_and_scope(batch, &self.resource);
        let sent = self.post(ExportTraceServiceRequest { resource_spans }.encode_to_vec()).await;
        let count = if sent.is_ok() { &self.spans.sent } else { &self.spans.failed };
        count.fetch_add(spans, Relaxed);
        let host = self.endpoint.host_str().unwrap_or_default();
        // Only a change is reported, not each batch.
        let had_failed = self.failing.swap(sent.is_err(), Relaxed);
        match &sent {
            Err(reason) if !had_failed => (self.warn)(format!(
                "warning: traces cannot be sent to {host}: {reason}; answers are not affected, and you are told when they \
                 can be sent again"
            )),
            Ok(()) if had_failed => {
                let failed = self.spans.failed.load(Relaxed);
                (self.warn)(format!("traces can be sent to {host} again; {failed} spans were lost so far"));
            }
            _ => {}
        }
        sent.map_err(|error| OTelSdkError::InternalFailure(error.to_string()))
    }
}

/// Counts spans before they are put into the queue, or dropped because it is full.
#[derive(Debug)]
struct SpanCounter {
    counts: Arc<SpanCounts>,
    next: BatchSpanProcessor,
}

impl SpanProcessor for SpanCounter {
    fn on_start(&self, span: &mut opentelemetry_sdk::trace::Span, cx: &opentelemetry::Context) {
        self.next.on_start(span, cx);
    }

    fn on_end(&self, span: SpanData) {
        if span.span_context.is_sampled() {
            self.counts.ended.fetch_add(1, Relaxed);
        }
        self.next.on_end(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.next.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.next.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.next.set_resource(resource);
    }
}

/// Keeps the last of the values that were recorded for one key, such as one for each attempt.
fn keep_last_values(attributes: &mut Vec<KeyValue>) {
    let mut seen = HashSet::new();
    attributes.reverse();
    attributes.retain(|attribute| seen.insert(attribute.key.clone()));
    attributes.reverse();
}

/// Turns an attribute into a list where the conventions want one: `tracing` records no lists.
fn make_list(attribute: &mut KeyValue) {
    if attribute.key.as_str() == "gen_ai.response.finish_reasons"
        && let Value::String(one) = &attribute.value
    {
        attribute.value = Value::Array(Array::String(vec![StringValue::from(one.as_str().to_owned())]));
    }
}
