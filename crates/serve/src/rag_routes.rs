//! `/rag/…`: the pipeline in its own words, without what other programs expect.

use crate::{
    RequestId, Service,
    answer::{self, Asked},
    chat::{FinishReason, TokenUsage},
    error::ApiError,
    metrics::Label,
    request::{Base, Body, Id, Parameters, at_most, question},
    served::Served,
    sources::{self, Opened, Source},
};
use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{Html, IntoResponse, Response},
};
use models::{Finish, trace::told};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use std::{sync::Arc, time::Duration};
use tracing::Span;

/// The most characters of a comment on an answer.
const COMMENT: usize = 4000;
/// The most characters of the id of a request.
const REQUEST_ID: usize = 200;
/// The most bytes of the file of feedback: anybody who may ask can write to it.
const FEEDBACK_BYTES: u64 = 256 << 20;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct AnswerQuery {
    /// The question.
    #[schemars(length(min = 1), regex(pattern = r"\S"))]
    query: String,
    /// The most passages that the answer is written from, 1 to 100; by default
    /// as many as the pipeline finds, and never more than these.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100))]
    top_k: Option<usize>,
    /// Whether the sources are told, `true` (the default) or `false`; `text` tells
    /// them with all of their text.
    #[serde(default)]
    include_sources: SourceDetail,
}

/// How much is told of sources.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "snake_case", inline)]
enum SourceDetail {
    /// Nothing.
    #[schemars(rename = "false")]
    Nothing,
    /// Where they are, and how they begin.
    #[default]
    #[schemars(rename = "true")]
    Quote,
    /// All of their text too.
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
pub(crate) struct Answered {
    /// The request's id, for feedback.
    id: String,
    /// The answer, with markers such as `[1]`.
    answer: String,
    /// What answered, as `/v1/models` lists it.
    model: String,
    /// The numbers of the sources that it cites, in the order of the answer.
    cited: Vec<u32>,
    /// What the model was shown, best first; empty if it was not wanted.
    sources: Vec<AnswerSource>,
    /// Why the answer ended.
    finish_reason: FinishReason,
    /// What there is to tell about the search, in sentences.
    remarks: Vec<String>,
    usage: TokenUsage,
}

#[derive(Debug, Serialize, JsonSchema)]
struct AnswerSource {
    #[serde(flatten)]
    source: Source,
    /// All of its text, if `include_sources` is `text`.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// What is remarked on an answer that was cut.
const CUT: &str = "the answer was cut off at the longest one that the pipeline allows (`max_tokens` of its generator)";

/// What was found.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Retrieved {
    /// The request's id.
    id: String,
    /// What searched, as `/v1/models` lists it.
    model: String,
    /// The passages, best first, with all of their text.
    passages: Vec<WholeSource>,
    /// What there is to tell about the search, in sentences.
    remarks: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct WholeSource {
    #[serde(flatten)]
    source: Source,
    /// All of its text.
    text: String,
}

pub(crate) async fn answer(
    State(service): State<Arc<Service>>,
    Extension(id): Extension<RequestId>,
    Base(base): Base,
    Parameters(query): Parameters<AnswerQuery>,
) -> Result<Json<Answered>, ApiError> {
    let question = question(&service, &query.query, "query")?;
    let asked = Asked { id: id.0.clone(), question, history: Vec::new(), at_most: at_most(query.top_k)? };
    let answer::Whole { found, answer } = answer::whole(service, asked).await?;
    let detail = query.include_sources;
    let sources = sources::of(&found.passages, Some(&answer.citations), &base).into_iter().zip(found.passages);
    let sources = sources
        .filter(|_| detail != SourceDetail::Nothing)
        .map(|(source, passage)| AnswerSource { source, text: (detail == SourceDetail::Text).then_some(passage.text) });
    let cut = (answer.finish == Finish::Length).then(|| CUT.to_owned());
    Ok(Json(Answered {
        id: id.0.to_string(),
        model: found.served.name.clone(),
        cited: answer.citations,
        sources: sources.collect(),
        remarks: found.remarks.into_iter().chain(cut).collect(),
        finish_reason: answer.finish.into(),
        usage: answer.usage.into(),
        answer: answer.text,
    }))
}

pub(crate) async fn retrieve(
    State(service): State<Arc<Service>>,
    Extension(id): Extension<RequestId>,
    Base(base): Base,
    Parameters(query): Parameters<RetrieveQuery>,
) -> Result<Json<Retrieved>, ApiError> {
    let question = question(&service, &query.query, "query")?;
    let at_most = at_most(query.top_k)?;
    let asked = Asked { id: id.0.clone(), question, history: Vec::new(), at_most };
    let (served, found) = search(&service, &asked).await?;
    let texts: Vec<&str> = found.passages.iter().map(|passage| passage.text.as_str()).collect();
    told(&Span::current(), &asked.question, &texts.join("\n\n"));
    let sources = sources::of(&found.passages, None, &base);
    let passages = sources.into_iter().zip(found.passages);
    Ok(Json(Retrieved {
        id: id.0.to_string(),
        model: served.name.clone(),
        passages: passages.map(|(source, passage)| WholeSource { source, text: passage.text }).collect(),
        remarks: found.fallback.into_iter().chain(found.remarks).collect(),
    }))
}

/// The passages for a question, in its turn and within the deadline.
pub(crate) async fn search(
    service: &Service,
    asked: &Asked,
) -> Result<(Arc<Served>, rag::pipeline::QueryResult), ApiError> {
    let clock = service.clock();
    let _place = service.searches.enter(clock.left()).await?;
    service.answering.find(asked, clock).await
}

pub(crate) async fn source(
    State(service): State<Arc<Service>>,
    Id(id): Id,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let clock = service.clock();
    let _place = service.searches.enter(clock.left()).await?;
    let opened = sources::of_lanes(&service.lanes(), &id, &clock).await?;
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    // A person who follows a link sees a page.
    Ok(if accepts.contains("text/html") { Html(page(&opened)).into_response() } else { Json(opened).into_response() })
}

/// The passage as a page: no script, and all text escaped.
fn page(opened: &Opened) -> String {
    let heading = opened.heading.as_deref().map(|heading| format!("<p>{}</p>", escaped(heading))).unwrap_or_default();
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title><link rel=\"stylesheet\" href=\"../../page.css\"><link rel=\"icon\" href=\"../../favicon.ico\"><main class=\"passage\"><h1>{title}</h1>{heading}\
         <p><small>{file}</small></p><p class=\"text\">{before}<mark id=\"quote\">{text}</mark>{after}</p></main></html>",
        title = escaped(&opened.title()),
        file = escaped(&opened.file),
        before = escaped(&opened.before),
        text = escaped(&opened.text),
        after = escaped(&opened.after),
    )
}

fn escaped(text: &str) -> String {
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

/// What a person thinks of an answer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Feedback {
    /// The id of the answer's request.
    #[schemars(length(max = 200))]
    request_id: String,
    verdict: Verdict,
    /// Why, of at most 4,000 characters.
    #[serde(default)]
    #[schemars(length(max = COMMENT))]
    comment: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Up,
    Down,
}

pub(crate) async fn feedback(
    State(service): State<Arc<Service>>,
    Body(feedback): Body<Feedback>,
) -> Result<StatusCode, ApiError> {
    let Some(log) = &service.feedback else {
        let reason = "this service keeps no feedback; `reverie serve --feedback FILE` does";
        return Err(ApiError::not_found("no_feedback", reason));
    };
    if feedback.comment.as_ref().is_some_and(|comment| comment.chars().count() > COMMENT) {
        return Err(ApiError::invalid(format!("a comment has at most {COMMENT} characters")).of_parameter("comment"));
    }
    if feedback.request_id.chars().count() > REQUEST_ID {
        let reason = format!("the id of a request has at most {REQUEST_ID} characters");
        return Err(ApiError::invalid(reason).of_parameter("request_id"));
    }
    let kind = match feedback.verdict {
        Verdict::Up => "up",
        Verdict::Down => "down",
    };
    let line = serde_json::json!({
        "time": crate::stream::seconds(), "request_id": feedback.request_id, "verdict": feedback.verdict,
        "comment": feedback.comment, "version": service.served().version,
    });
    let log = log.clone();
    let written = tokio::task::spawn_blocking(move || log.append_below(FEEDBACK_BYTES, &line.to_string()));
    match written.await {
        Ok(Ok(true)) => {
            service.metrics.feedback.get_or_create(&Label { kind }).inc();
            Ok(StatusCode::NO_CONTENT)
        }
        Ok(Ok(false)) => {
            let reason = format!("the file of feedback is full: it has {FEEDBACK_BYTES} bytes; move it away");
            let full = ApiError::overloaded("this service takes no more feedback for now", Duration::from_secs(3600));
            Err(full.with_detail(reason))
        }
        Ok(Err(error)) => Err(ApiError::internal(format!("the feedback could not be written: {error}"))),
        Err(_) => Err(ApiError::internal("the feedback could not be written")),
    }
}
