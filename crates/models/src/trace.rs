//! Spans: how long each stage and each call took. They are made with `tracing`, so
//! that they cost next to nothing without a subscriber.
//!
//! Names of spans and fields follow OpenTelemetry's conventions for HTTP and for
//! generative AI (github.com/open-telemetry/semantic-conventions-genai, v0.1.0).
//! What has no name there begins with `reverie.`, except what Phoenix and MLflow
//! show in their lists: that has OpenInference's names (`openinference.span.kind`,
//! `input.value`, `output.value`). Texts of questions, passages
//! and answers are recorded only if the target [`CONTENT`] is enabled.

use crate::{ChatRequest, ChatResponse, Error, Identity, Usage};
use serde_json::{Value, json};
use std::{borrow::Cow, future::Future, sync::OnceLock, time::Instant};
use tracing::{Instrument, Level, Span, field::Empty, info_span};

/// The target of all spans.
pub const TARGET: &str = "reverie";
/// The target that must be enabled for texts to be recorded.
pub const CONTENT: &str = "reverie::content";

/// Whether texts are recorded.
pub fn tells_content() -> bool {
    tracing::enabled!(target: CONTENT, Level::INFO)
}

/// Makes the headers by which a request names the span that it belongs to.
pub type TraceHeaders = fn(&Span) -> Vec<(&'static str, String)>;

static TRACE_HEADERS: OnceLock<TraceHeaders> = OnceLock::new();

/// From now on requests to providers say to which span they belong, so that the
/// spans of a provider or of a gateway hang below ours. Only the first call counts.
pub fn set_trace_headers(headers: TraceHeaders) {
    let _ = TRACE_HEADERS.set(headers);
}

/// The headers of a request that is sent within the current span; none without a
/// subscriber.
pub(crate) fn headers() -> Vec<(&'static str, String)> {
    let span = Span::current();
    TRACE_HEADERS.get().filter(|_| !span.is_disabled()).map(|headers| headers(&span)).unwrap_or_default()
}

/// An error that a span records.
pub trait SpanError {
    /// The kind of error in a word, or the HTTP status: one of few values, never a
    /// message.
    fn error_type(&self) -> Cow<'static, str>;
}

/// Marks a span as failed.
pub fn mark_failed(span: &Span, error_type: &str) {
    span.record("error.type", error_type);
    span.record("otel.status_code", "ERROR");
    span.record("otel.status_description", error_type);
}

/// Records the input and output of a span if texts are recorded. Phoenix and MLflow
/// show them in their lists (OpenInference's semantic conventions).
pub fn record_texts(span: &Span, input: &str, output: &str) {
    if !span.is_disabled() && tells_content() {
        span.record("input.value", input);
        span.record("output.value", output);
    }
}

/// Does work in a span, which is marked if the work fails, or is dropped before
/// its end. The span needs the fields `error.type` and `otel.status_code`.
///
/// # Errors
/// That of the work.
pub async fn in_span<T, E: SpanError>(span: Span, work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    if span.is_disabled() {
        return work.await;
    }
    let mut open = OpenSpan { span: &span, is_done: false };
    let outcome = work.instrument(span.clone()).await;
    open.is_done = true;
    if let Err(error) = &outcome {
        mark_failed(&span, &error.error_type());
    }
    outcome
}

/// A span whose work goes on.
struct OpenSpan<'a> {
    span: &'a Span,
    is_done: bool,
}

impl Drop for OpenSpan<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            mark_failed(self.span, "cancelled");
        }
    }
}

impl SpanError for Error {
    fn error_type(&self) -> Cow<'static, str> {
        let word = match self {
            Self::Server { status, .. } | Self::Refused { status, .. } | Self::Redirected { status, .. } => {
                return status.to_string().into();
            }
            Self::RateLimited { .. } => "429",
            Self::Authentication { .. } => "401",
            Self::Config(_) => "config",
            Self::NotHere { .. } | Self::NotPinned { .. } | Self::BadFile { .. } => "model_files",
            Self::MissingKey { .. } => "missing_key",
            Self::Connection { .. } => "connection",
            Self::Timeout { .. } | Self::FinalTimeout { .. } => "timeout",
            Self::TooLarge { .. } => "too_large",
            Self::Stalled { .. } => "stalled",
            Self::BatchLost { .. } => "batch_lost",
            Self::BudgetUnreachable { .. } => "budget_unreachable",
            Self::QuotaExhausted { .. } => "quota_exhausted",
            Self::BudgetExhausted { .. } => "budget_exhausted",
            Self::ContextTooLong { .. } => "context_too_long",
            Self::TextTooLong { .. } => "text_too_long",
            Self::ContentFiltered { .. } => "content_filter",
            Self::NoText { .. } => "no_text",
            Self::Malformed { .. } | Self::NotJson { .. } => "malformed",
            Self::SchemaMismatch { .. } => "schema_mismatch",
            Self::Unsupported { .. } => "unsupported",
            Self::Runtime { .. } => "runtime",
            Self::Function(_) => "function",
            Self::Cancelled => "cancelled",
            Self::Journal(_) | Self::KeptForm(_) => "journal",
        };
        word.into()
    }
}

/// The span of a call, over all its attempts and the wait for its turn.
pub(crate) fn call(kind: &'static str, identity: &Identity) -> Span {
    let operation = if kind == "embedding" { "embeddings" } else { kind };
    let model = identity.model.as_str();
    let span = info_span!(
        target: TARGET,
        "call",
        "otel.name" = %format_args!("{operation} {model}"),
        // A call in this process is internal.
        "otel.kind" = if identity.is_remote() { "client" } else { "internal" },
        "otel.status_code" = Empty,
        "otel.status_description" = Empty,
        "error.type" = Empty,
        "gen_ai.operation.name" = operation,
        "gen_ai.provider.name" = provider(&identity.provider),
        "gen_ai.request.model" = model,
        "gen_ai.request.max_tokens" = Empty,
        "gen_ai.request.temperature" = Empty,
        "gen_ai.request.stream" = Empty,
        "gen_ai.output.type" = Empty,
        "gen_ai.response.model" = Empty,
        "gen_ai.response.finish_reasons" = Empty,
        "gen_ai.response.time_to_first_chunk" = Empty,
        "gen_ai.usage.input_tokens" = Empty,
        "gen_ai.usage.output_tokens" = Empty,
        "gen_ai.usage.cache_read.input_tokens" = Empty,
        "gen_ai.input.messages" = Empty,
        "gen_ai.output.messages" = Empty,
        "output.value" = Empty,
        "server.address" = Empty,
        "server.port" = Empty,
        "reverie.attempts" = Empty,
    );
    if !span.is_disabled()
        && identity.is_remote()
        && let Ok(url) = reqwest::Url::parse(&identity.revision)
    {
        span.record("server.address", url.host_str());
        span.record("server.port", url.port_or_known_default().map(i64::from));
    }
    span
}

/// The span of one attempt at a call to a remote model. The first is number 1.
pub(crate) fn attempt(call: &Span, number: u32) -> Span {
    if call.is_disabled() {
        return Span::none();
    }
    call.record("reverie.attempts", i64::from(number));
    info_span!(
        target: TARGET,
        parent: call,
        "attempt",
        "openinference.span.kind" = "CHAIN",
        "otel.status_code" = Empty,
        "otel.status_description" = Empty,
        "error.type" = Empty,
        "reverie.attempt" = i64::from(number),
    )
}

/// Records what a call used.
pub(crate) fn record_usage(span: &Span, usage: Usage) {
    if span.is_disabled() {
        return;
    }
    let count = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
    span.record("gen_ai.usage.input_tokens", count(usage.prompt_tokens));
    if usage.completion_tokens > 0 {
        span.record("gen_ai.usage.output_tokens", count(usage.completion_tokens));
    }
    if usage.cached_tokens > 0 {
        span.record("gen_ai.usage.cache_read.input_tokens", count(usage.cached_tokens));
    }
}

/// The provider's name in the convention, where it has another one there.
fn provider(name: &str) -> &str {
    match name {
        "azure" => "azure.ai.openai",
        "bedrock" => "aws.bedrock",
        "gemini" => "gcp.gemini",
        "mistral" => "mistral_ai",
        name => name,
    }
}

tokio::task_local! {
    /// The span of the call that this task makes, for the code that reads the reply.
    static CALL: Span;
}

/// Does one attempt at a call.
pub(crate) async fn attempted<T>(
    call: &Span,
    attempt: Span,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    if call.is_disabled() {
        return work.await;
    }
    CALL.scope(call.clone(), in_span(attempt, work)).await
}

/// Passes on the span of this task's call, if there is one.
fn of_call(tell: impl FnOnce(&Span)) {
    let _ = CALL.try_with(tell);
}

/// Records which model answered, as the endpoint says.
pub(crate) fn record_model(model: Option<&str>) {
    if let Some(model) = model {
        of_call(|span| {
            span.record("gen_ai.response.model", model);
        });
    }
}

/// Records what a chat model is asked.
pub(crate) fn record_request(request: &ChatRequest, streams: bool) {
    of_call(|span| {
        span.record("gen_ai.request.max_tokens", i64::from(request.max_tokens));
        span.record("gen_ai.request.temperature", f64::from(request.temperature));
        span.record("gen_ai.request.stream", streams);
        span.record("gen_ai.output.type", if request.schema.is_some() { "json" } else { "text" });
        if tells_content() {
            let message = |message: &crate::Message| json!({ "role": message.role, "parts": [{ "type": "text", "content": message.content }] });
            let messages: Value = request.messages.iter().map(message).collect();
            span.record("gen_ai.input.messages", messages.to_string());
        }
    });
}

/// Records what a chat model answered.
pub(crate) fn record_response(response: &ChatResponse) {
    of_call(|span| {
        let finish = response.finish.name();
        span.record("gen_ai.response.finish_reasons", finish);
        if tells_content() {
            let parts = json!([{ "type": "text", "content": response.text }]);
            let messages = json!([{ "role": "assistant", "parts": parts, "finish_reason": finish }]);
            span.record("gen_ai.output.messages", messages.to_string());
            span.record("output.value", response.text.as_str());
        }
    });
}

/// Records when the first piece of a stream came.
#[derive(Debug)]
pub(crate) struct FirstPiece {
    span: Option<Span>,
    asked: Instant,
    came: OnceLock<()>,
}

impl FirstPiece {
    /// For the call that this task makes now.
    pub(crate) fn new() -> Self {
        let span = CALL.try_with(Span::clone).ok();
        Self { span, asked: Instant::now(), came: OnceLock::new() }
    }

    /// Records the time of a piece, if it is the first.
    pub(crate) fn record(&self) {
        if let Some(span) = &self.span
            && self.came.set(()).is_ok()
        {
            span.record("gen_ai.response.time_to_first_chunk", self.asked.elapsed().as_secs_f64());
        }
    }
}
