//! `/rag/…`: Reverie's own API of answers, passages, sources and feedback.

use super::{
    chat::{FinishReason, TokenUsage},
    conversation::{check_question, check_top_k},
    request::{JsonBody, PathId, PublicBase, QueryParameters},
    sources::{self, PageQuery, PassageSource, SourceExcerpt, SourcePage},
};
use crate::{
    answering::{ServedPipeline, UserQuestion, collect_answer},
    error::ApiError,
    http::{RequestId, header_text},
    service::HttpService,
    telemetry::{KindLabel, unix_seconds},
};
use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{Html, IntoResponse, Response},
};
use models::{Finish, trace::record_texts};
use rag::load::PageView;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use std::{sync::Arc, time::Duration};
use tracing::Span;

/// The most characters of a comment on an answer.
const MAX_COMMENT: usize = 4000;
/// The most characters of the id of a request.
const MAX_REQUEST_ID: usize = 200;
/// The most bytes of the feedback file, to which everybody who may ask questions can
/// write.
const MAX_FEEDBACK_BYTES: u64 = 256 << 20;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct AnswerQuery {
    /// The question.
    #[schemars(length(min = 1), regex(pattern = r"\S"))]
    query: String,
    /// The most passages that the answer is written from, 1 to 100. By default, and at
    /// most, all that the pipeline finds.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100))]
    top_k: Option<usize>,
    /// Whether to return the sources: `true` (the default), `false`, or `text`, which
    /// returns them with all of their text.
    #[serde(default)]
    include_sources: SourceDetail,
}

/// How much of the sources is returned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "snake_case", inline)]
enum SourceDetail {
    /// Sources are not returned.
    #[schemars(rename = "false")]
    Nothing,
    /// Where they are, and their beginnings.
    #[default]
    #[schemars(rename = "true")]
    Quote,
    /// All of their text, too.
    Text,
}

impl<'de> Deserialize<'de> for SourceDetail {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        match word.to_ascii_lowercase().as_str() {
            "false" | "0" => Ok(Self::Nothing),
            "true" | "1" => Ok(Self::Quote),
            "text" => Ok(Self::Text),
            _ => Err(serde::de::Error::custom(format!("include_sources is `{word}`, but must be true, false or text"))),
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct RetrieveQuery {
    /// The question.
    #[schemars(length(min = 1), regex(pattern = r"\S"))]
    query: String,
    /// The most passages, 1 to 100.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100))]
    top_k: Option<usize>,
}

/// An answer with its sources.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RagAnswer {
    /// The request's id, for feedback.
    id: String,
    /// The answer, with markers such as `[1]`.
    answer: String,
    /// The pipeline, as `/v1/models` lists it.
    model: String,
    /// Which state of the documents answered; null if that is not known.
    corpus: Option<SearchedState>,
    /// The numbers of the sources that the answer cites, in its order.
    cited: Vec<u32>,
    /// The passages that the model read, best first; empty with `include_sources=false`.
    sources: Vec<AnswerSource>,
    /// Why the answer ended.
    finish_reason: FinishReason,
    /// Remarks on the search, in sentences.
    remarks: Vec<String>,
    usage: TokenUsage,
}

#[derive(Debug, Serialize, JsonSchema)]
struct AnswerSource {
    #[serde(flatten)]
    source: PassageSource,
    /// All of its text, if `include_sources` is `text`.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// The remark on an answer that was cut off.
const CUT: &str = "the answer was cut off at the longest one that the pipeline allows (`max_tokens` of its generator)";

/// The passages for a question.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RagPassages {
    /// The request's id.
    id: String,
    /// The pipeline, as `/v1/models` lists it.
    model: String,
    /// Which state of the documents was searched; null if that is not known.
    corpus: Option<SearchedState>,
    /// The passages, best first, with all of their text.
    passages: Vec<WholeSource>,
    /// Remarks on the search, in sentences.
    remarks: Vec<String>,
}

/// A state of the documents.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SearchedState {
    /// The digest of their names and contents.
    version: String,
    /// How many files there were.
    files: usize,
    /// When they were read, in seconds since 1970.
    read: i64,
}

impl SearchedState {
    pub(super) fn of(served: &ServedPipeline) -> Option<Self> {
        let state = served.corpus.as_ref()?;
        Some(Self { version: state.version.clone(), files: state.files, read: state.read_ms.div_euclid(1000) })
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct WholeSource {
    #[serde(flatten)]
    source: PassageSource,
    /// All of its text.
    text: String,
}

pub(crate) async fn answer(
    State(service): State<Arc<HttpService>>,
    Extension(id): Extension<RequestId>,
    PublicBase(base): PublicBase,
    QueryParameters(query): QueryParameters<AnswerQuery>,
) -> Result<Json<RagAnswer>, ApiError> {
    let text = check_question(&service, &query.query, "query")?;
    let max_passages = check_top_k(query.top_k)?;
    let question = UserQuestion { id: id.0.clone(), text, history: Vec::new(), max_passages };
    let (found, answer) = collect_answer(service.dispatcher.clone(), question).await?;
    let detail = query.include_sources;
    let sources = sources::number(&found.passages, Some(&answer.citations), &base).into_iter().zip(found.passages);
    let sources = sources
        .filter(|_| detail != SourceDetail::Nothing)
        .map(|(source, passage)| AnswerSource { source, text: (detail == SourceDetail::Text).then_some(passage.text) });
    let cut = (answer.finish == Finish::Length).then(|| CUT.to_owned());
    Ok(Json(RagAnswer {
        id: id.0.to_string(),
        model: found.served.name.clone(),
        corpus: SearchedState::of(&found.served),
        cited: answer.citations,
        sources: sources.collect(),
        remarks: found.remarks.into_iter().chain(cut).collect(),
        finish_reason: answer.finish.into(),
        usage: answer.usage.into(),
        answer: answer.text,
    }))
}

pub(crate) async fn retrieve(
    State(service): State<Arc<HttpService>>,
    Extension(id): Extension<RequestId>,
    PublicBase(base): PublicBase,
    QueryParameters(query): QueryParameters<RetrieveQuery>,
) -> Result<Json<RagPassages>, ApiError> {
    let text = check_question(&service, &query.query, "query")?;
    let max_passages = check_top_k(query.top_k)?;
    let question = UserQuestion { id: id.0.clone(), text, history: Vec::new(), max_passages };
    let found = service.find(&question).await?;
    let texts: Vec<&str> = found.passages.iter().map(|passage| passage.text.as_str()).collect();
    record_texts(&Span::current(), &question.text, &texts.join("\n\n"));
    let sources = sources::number(&found.passages, None, &base);
    let passages = sources.into_iter().zip(found.passages);
    Ok(Json(RagPassages {
        id: id.0.to_string(),
        model: found.served.name.clone(),
        corpus: SearchedState::of(&found.served),
        passages: passages.map(|(source, passage)| WholeSource { source, text: passage.text }).collect(),
        remarks: found.remarks,
    }))
}

pub(crate) async fn source(
    State(service): State<Arc<HttpService>>,
    PathId(id): PathId,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let deadline = service.deadline();
    let _permit = service.searches.enter(deadline.left()).await?;
    let excerpt = sources::open(&service.lanes(), &id, &deadline).await?;
    // Browsers get a page.
    let wants_page = header_text(&headers, header::ACCEPT).contains("text/html");
    Ok(if wants_page { Html(page(&excerpt)).into_response() } else { Json(excerpt).into_response() })
}

/// Where the passage of a source is on its page.
pub(crate) async fn source_page(
    State(service): State<Arc<HttpService>>,
    PathId(id): PathId,
    QueryParameters(query): QueryParameters<PageQuery>,
) -> Result<Json<SourcePage>, ApiError> {
    let view = view(&service, &id, query.number).await?;
    let PageView { page, picture, boxes, .. } = &*view;
    let boxes = boxes.iter().flatten().copied().collect();
    Ok(Json(SourcePage { page: *page, width: picture.width, height: picture.height, boxes }))
}

/// The page of a source as a picture in which the passage is marked.
pub(crate) async fn source_page_image(
    State(service): State<Arc<HttpService>>,
    PathId(id): PathId,
    QueryParameters(query): QueryParameters<PageQuery>,
) -> Result<Response, ApiError> {
    let view = view(&service, &id, query.number).await?;
    let encode = move || view.marked().to_png();
    let encoded = tokio::task::spawn_blocking(encode).await.map_err(|error| ApiError::internal(error.to_string()))?;
    let picture = encoded.map_err(|error| ApiError::internal(error.to_string()))?;
    // It belongs to whoever may ask for it.
    let headers = [(header::CONTENT_TYPE, "image/png"), (header::CACHE_CONTROL, "private, max-age=300")];
    Ok((headers, picture).into_response())
}

async fn view(service: &HttpService, id: &str, number: Option<u32>) -> Result<Arc<PageView>, ApiError> {
    let (deadline, lanes) = (service.deadline(), service.lanes());
    let excerpt = {
        let _permit = service.searches.enter(deadline.left()).await?;
        sources::open(&lanes, id, &deadline).await?
    };
    sources::view((&lanes, &service.pages), excerpt, number, &deadline).await
}

/// A source as a page without scripts, with all text escaped.
fn page(excerpt: &SourceExcerpt) -> String {
    let heading = excerpt.heading.as_deref().map(|heading| format!("<p>{}</p>", escape(heading))).unwrap_or_default();
    let picture = match excerpt.page.filter(|_| excerpt.has_page_image) {
        // An id has letters, digits, `-`, `_` and one dot.
        Some(page) => format!(
            "<p><img src=\"{}/page.png\" alt=\"Page {page}; the passage is marked, its text stands below\"></p>",
            escape(&excerpt.id)
        ),
        None => String::new(),
    };
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title><link rel=\"stylesheet\" href=\"../../page.css\"><link rel=\"icon\" href=\"../../favicon.ico\"><main class=\"passage\"><h1>{title}</h1>{heading}\
         <p><small>{file}</small></p>{picture}<p class=\"text\">{before}<mark id=\"quote\">{text}</mark>{after}</p></main></html>",
        title = escape(&excerpt.title()),
        file = escape(&excerpt.file),
        before = escape(&excerpt.before),
        text = escape(&excerpt.text),
        after = escape(&excerpt.after),
    )
}

/// Escapes a text for HTML.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            c => escaped.push(c),
        }
    }
    escaped
}

/// A user's verdict on an answer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Feedback {
    /// The id of the answer's request.
    #[schemars(length(max = 200))]
    request_id: String,
    verdict: AnswerVerdict,
    /// The reason, of at most 4,000 characters.
    #[serde(default)]
    #[schemars(length(max = MAX_COMMENT))]
    comment: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum AnswerVerdict {
    Up,
    Down,
}

pub(crate) async fn feedback(
    State(service): State<Arc<HttpService>>,
    JsonBody(feedback): JsonBody<Feedback>,
) -> Result<StatusCode, ApiError> {
    let Some(log) = &service.feedback else {
        let reason = "this service keeps no feedback: its operator must start it with a file for feedback";
        return Err(ApiError::not_found("no_feedback", reason));
    };
    if feedback.comment.as_ref().is_some_and(|comment| comment.chars().count() > MAX_COMMENT) {
        return Err(
            ApiError::invalid(format!("a comment has at most {MAX_COMMENT} characters")).with_parameter("comment")
        );
    }
    if feedback.request_id.chars().count() > MAX_REQUEST_ID {
        let reason = format!("the id of a request has at most {MAX_REQUEST_ID} characters");
        return Err(ApiError::invalid(reason).with_parameter("request_id"));
    }
    let kind = match feedback.verdict {
        AnswerVerdict::Up => "up",
        AnswerVerdict::Down => "down",
    };
    let line = serde_json::json!({
        "time": unix_seconds(), "request_id": feedback.request_id, "verdict": feedback.verdict,
        "comment": feedback.comment, "version": service.served().version,
    });
    let log = log.clone();
    let written = tokio::task::spawn_blocking(move || log.append_if_smaller(MAX_FEEDBACK_BYTES, &line.to_string()));
    match written.await {
        Ok(Ok(true)) => {
            service.metrics.feedback.get_or_create(&KindLabel { kind }).inc();
            Ok(StatusCode::NO_CONTENT)
        }
        Ok(Ok(false)) => {
            let reason = format!("the file of feedback is full: it has {MAX_FEEDBACK_BYTES} bytes; move it away");
            let full = ApiError::overloaded("this service takes no more feedback for now", Duration::from_secs(3600));
            Err(full.with_detail(reason))
        }
        Ok(Err(error)) => Err(ApiError::internal(format!("the feedback could not be written: {error}"))),
        Err(_) => Err(ApiError::internal("the feedback could not be written")),
    }
}
