//! Sends spans to a collector of OpenTelemetry: OTLP over HTTP, as protobuf.
//!
//! SpanCounts wait in a queue that a thread of its own empties, so no answer waits
//! for the collector. What does not fit into the queue, or cannot be sent, is
//! lost; the first failure is told.

use futures::future::BoxFuture;
use models::trace::{CONTENT, TARGET};
use opentelemetry::{
    Array, KeyValue, StringValue, Value,
    propagation::{Extractor, Injector, TextMapPropagator},
    trace::TracerProvider,
};
use opentelemetry_proto::{
    tonic::collector::trace::v1::ExportTraceServiceRequest,
    transform::{common::tonic::ResourceAttributesWithSchema, trace::tonic::group_spans_by_resource_and_scope},
};
use opentelemetry_sdk::{
    Resource,
    error::{OTelSdkError, OTelSdkResult},
    propagation::TraceContextPropagator,
    trace::{BatchSpanProcessor, Sampler, SdkTracerProvider, SpanData, SpanExporter, SpanProcessor},
};
use prost::Message;
use reqwest::{
    Client, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use serve::SpanCounts;
use std::{
    collections::HashSet,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::runtime::Handle;
use tracing::{Metadata, Span, level_filters::LevelFilter};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::{Registry, filter::FilterFn, layer::SubscriberExt};

/// How much of a refusal of the collector is told, in characters.
const MOST_SAID: usize = 200;
const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// How long the spans of the last requests may take to be sent at the end.
const AT_THE_END: Duration = Duration::from_secs(5);

/// Where spans go, and which.
#[derive(Debug, Clone)]
pub struct TraceSettings {
    /// The collector's address for traces.
    pub endpoint: Url,
    /// Sent with every batch; they may hold a key.
    pub headers: Vec<(String, String)>,
    /// How long the collector may take for a batch.
    pub timeout: Duration,
    /// Which requests are traced.
    pub sampler: Sampler,
    /// Of the service: `service.name` and others.
    pub resource: Vec<(String, String)>,
    /// Whether texts of questions, passages and answers are sent.
    pub content: bool,
}

/// SpanCounts that are sent as long as this lives.
pub struct Traces {
    provider: SdkTracerProvider,
    /// What became of them so far.
    pub spans: Arc<SpanCounts>,
    warn: Warn,
}

/// Tells what a person should know.
type Warn = Arc<dyn Fn(String) + Send + Sync>;

impl Traces {
    /// Listens to the spans of this process. `warn` is told when the collector
    /// begins to fail, and when it takes spans again.
    ///
    /// # Errors
    /// If a header is none, or something else listens already.
    pub fn begin(settings: TraceSettings, warn: Warn) -> Result<Self, String> {
        let mut headers = HeaderMap::new();
        for (name, value) in &settings.headers {
            // The value may be a key, so it is not shown.
            let name: HeaderName = name.parse().map_err(|_| format!("`{name}` is no name of a header"))?;
            let mut value = HeaderValue::from_str(value).map_err(|_| format!("the value of `{name}` is no header"))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let client = store::http_client()
            .timeout(settings.timeout)
            // Headers may hold a key, which goes nowhere else.
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| error.to_string())?;
        let resource = settings.resource.into_iter().map(|(name, value)| KeyValue::new(name, value));
        let resource = Resource::builder_empty().with_attributes(resource).build();
        let spans = Arc::new(SpanCounts::default());
        let sender = Sender {
            client,
            runtime: Handle::current(),
            endpoint: settings.endpoint,
            headers,
            resource: (&resource).into(),
            failing: AtomicBool::new(false),
            spans: spans.clone(),
            warn: warn.clone(),
        };
        let sending = Counted { ended: spans.clone(), next: BatchSpanProcessor::builder(sender).build() };
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
        // Other libraries have spans too, at every frame of a connection.
        let wanted =
            move |of: &Metadata<'_>| (of.is_span() && of.target() == TARGET) || (content && of.target() == CONTENT);
        let wanted = FilterFn::new(wanted).with_max_level_hint(LevelFilter::INFO);
        let listener = Registry::default().with(layer).with(wanted);
        tracing::subscriber::set_global_default(listener)
            .map_err(|_| "something in this process listens to its spans already".to_owned())?;
        models::trace::name_spans(naming);
        Ok(Self { provider, spans, warn })
    }

    /// Sends what is left, for a few seconds at most, and tells what was lost.
    pub async fn end(self) {
        let Self { provider, spans, warn } = self;
        // It waits for its thread.
        let ended = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(AT_THE_END));
        let _ = ended.await;
        let (ended, sent) = (spans.ended.load(Relaxed), spans.sent.load(Relaxed));
        if ended > sent {
            warn(format!("warning: {} of {ended} spans were lost", ended - sent));
        }
    }
}

/// Makes a request's span the child of the span that its headers name
/// ([`TRACEPARENT`] and [`TRACESTATE`] of W3C Trace Context).
pub fn parent() -> serve::ParentSpan {
    let propagator = TraceContextPropagator::new();
    serve::ParentSpan(Arc::new(move |headers: &HeaderMap, span: &Span| {
        // It fails only where nobody listens.
        let _ = span.set_parent(propagator.extract(&Headers(headers)));
    }))
}

/// The headers that name a span to a provider.
fn naming(span: &Span) -> Vec<(&'static str, String)> {
    let mut named = Named(Vec::new());
    TraceContextPropagator::new().inject_context(&span.context(), &mut named);
    named.0
}

/// What W3C Trace Context has of a span.
struct Named(Vec<(&'static str, String)>);

impl Injector for Named {
    fn set(&mut self, key: &str, value: String) {
        let known = [TRACEPARENT, TRACESTATE].into_iter().find(|name| *name == key);
        self.0.extend(known.filter(|_| !value.is_empty()).map(|name| (name, value)));
    }
}

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}

/// Sends batches of spans, one after the other.
struct Sender {
    client: Client,
    /// Batches come from a thread that has none.
    runtime: Handle,
    endpoint: Url,
    headers: HeaderMap,
    resource: ResourceAttributesWithSchema,
    /// Whether the last batch failed.
    failing: AtomicBool,
    spans: Arc<SpanCounts>,
    warn: Warn,
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("endpoint", &self.endpoint.as_str()).finish_non_exhaustive()
    }
}

impl Sender {
    fn post(&self, body: Vec<u8>) -> BoxFuture<'static, Result<(), String>> {
        let request = self.client.post(self.endpoint.clone()).headers(self.headers.clone());
        let request = request.header(CONTENT_TYPE, "application/x-protobuf").body(body);
        let sent = self.runtime.spawn(async move {
            let response = request.send().await.map_err(|error| store::error_chain(&error.without_url()))?;
            let status = response.status();
            if status.is_success() {
                return Ok(());
            }
            // It may say what is missing, such as a header.
            let said = response.text().await.unwrap_or_default();
            let said: String = said.chars().filter(|c| !c.is_control()).take(MOST_SAID).collect();
            Err(if said.is_empty() { format!("it answered {status}") } else { format!("it answered {status}: {said}") })
        });
        // The task is cut off when the process ends.
        Box::pin(async { sent.await.unwrap_or_else(|_| Err("it had not answered when the service ended".to_owned())) })
    }
}

impl SpanExporter for Sender {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        for span in &mut batch {
            last_ones(&mut span.attributes);
            span.attributes.iter_mut().for_each(listed);
        }
        let spans = batch.len() as u64;
        let resource_spans = group_spans_by_resource_and_scope(batch, &self.resource);
        let sent = self.post(ExportTraceServiceRequest { resource_spans }.encode_to_vec()).await;
        let became = if sent.is_ok() { &self.spans.sent } else { &self.spans.failed };
        became.fetch_add(spans, Relaxed);
        let host = self.endpoint.host_str().unwrap_or_default();
        // Only what changes is told, not each batch.
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
        sent.map_err(OTelSdkError::InternalFailure)
    }
}

/// Counts spans before they are put into the queue, or dropped because it is full.
#[derive(Debug)]
struct Counted {
    ended: Arc<SpanCounts>,
    next: BatchSpanProcessor,
}

impl SpanProcessor for Counted {
    fn on_start(&self, span: &mut opentelemetry_sdk::trace::Span, cx: &opentelemetry::Context) {
        self.next.on_start(span, cx);
    }

    fn on_end(&self, span: SpanData) {
        if span.span_context.is_sampled() {
            self.ended.ended.fetch_add(1, Relaxed);
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

/// Of values that were recorded several times, as for each attempt, the last one holds.
fn last_ones(attributes: &mut Vec<KeyValue>) {
    let mut seen = HashSet::new();
    attributes.reverse();
    attributes.retain(|attribute| seen.insert(attribute.key.clone()));
    attributes.reverse();
}

/// Makes a list of what the conventions want as one: `tracing` knows no lists.
fn listed(attribute: &mut KeyValue) {
    if attribute.key.as_str() == "gen_ai.response.finish_reasons"
        && let Value::String(one) = &attribute.value
    {
        attribute.value = Value::Array(Array::String(vec![StringValue::from(one.as_str().to_owned())]));
    }
}
