//! Spans of stages for traces: see [`models::trace`].

use crate::{Error, Passage};
use models::trace::{SpanError, TARGET, tells_content};
use serde_json::{Value, json};
use std::borrow::Cow;
use tracing::{Span, field::Empty, info_span};

impl SpanError for Error {
    fn error_type(&self) -> Cow<'static, str> {
        let word = match self {
            Self::Model(error) => return error.error_type(),
            Self::Config { .. } => "config",
            Self::Failed { .. } => "failed",
            Self::Remote { .. } => "elsewhere",
            Self::Database(_) => "database",
            Self::Function { .. } => "function",
            Self::Needs { .. } | Self::NeedsIndex { .. } | Self::BadIndex { .. } => "index",
            Self::Source { .. } => "source",
        };
        word.into()
    }
}

/// The span of a stage with its component.
pub(crate) fn stage(stage: &str, component: &str) -> Span {
    info_span!(
        target: TARGET,
        "stage",
        "otel.name" = %format_args!("{stage} {component}"),
        "otel.status_code" = Empty,
        "otel.status_description" = Empty,
        "error.type" = Empty,
        "openinference.span.kind" = "CHAIN",
        "reverie.stage" = stage,
        "reverie.component" = component,
        "reverie.passages.given" = Empty,
        "reverie.passages.left" = Empty,
    )
}

/// The span of a search with this retriever and this number of queries.
pub(crate) fn retrieval(retriever: &RetrieverSpan, question: &str, queries: usize) -> Span {
    let span = info_span!(
        target: TARGET,
        "retrieval",
        "otel.name" = %format_args!("retrieval {}", retriever.name),
        "otel.status_code" = Empty,
        "otel.status_description" = Empty,
        "error.type" = Empty,
        "gen_ai.operation.name" = "retrieval",
        "gen_ai.retrieval.top_k" = retriever.top_k,
        "gen_ai.retrieval.query.text" = Empty,
        "gen_ai.retrieval.documents" = Empty,
        "openinference.span.kind" = "RETRIEVER",
        "input.value" = Empty,
        "output.value" = Empty,
        "output.mime_type" = Empty,
        "reverie.stage" = "retrieve",
        "reverie.component" = retriever.name.as_str(),
        "reverie.queries" = count(queries),
        "reverie.passages.left" = Empty,
    );
    if !span.is_disabled() && tells_content() {
        span.record("gen_ai.retrieval.query.text", question);
        span.record("input.value", question);
    }
    span
}

/// A retriever, for its span.
#[derive(Debug)]
pub(crate) struct RetrieverSpan {
    pub(crate) name: String,
    pub(crate) top_k: Option<i64>,
}

/// Records the number of passages that a step gets.
pub(crate) fn record_input(span: &Span, passages: &[Passage]) {
    span.record("reverie.passages.given", count(passages.len()));
}

/// Records the number of passages that a step leaves and, if the trace has texts,
/// the passages.
pub(crate) fn record_output(span: &Span, passages: &[Passage]) {
    if span.is_disabled() {
        return;
    }
    span.record("reverie.passages.left", count(passages.len()));
    if span.has_field("gen_ai.retrieval.documents") && tells_content() {
        let document = |passage: &Passage| {
            let id = format!("{}#{}", passage.document, passage.span.start);
            json!({ "id": id, "score": passage.score, "content": passage.text })
        };
        span.record("gen_ai.retrieval.documents", passages.iter().map(document).collect::<Value>().to_string());
        // MLflow knows documents in this form.
        let document = |passage: &Passage| {
            let metadata = json!({ "doc_uri": passage.document, "score": passage.score });
            json!({ "page_content": passage.text, "metadata": metadata })
        };
        span.record("output.value", passages.iter().map(document).collect::<Value>().to_string());
        span.record("output.mime_type", "application/json");
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
