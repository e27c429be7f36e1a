//! `POST /v1/chat/completions`: OpenAI's chat, answered by the pipeline.
//!
//! Clients read sources from different fields, so a response has three: markers in the
//! text, `annotations` of the message, and `citations` and `sources` at the top, as
//! Open WebUI reads them. Sampling settings are accepted and have no effect: the
//! pipeline answers with the settings that were measured.

use super::{
    conversation::{ChatMessage, check_model, check_tool_choice, split_conversation},
    request::{JsonBody, PublicBase, whole_number},
    sources::{self, PassageSource},
};
use crate::{
    answering::{AnswerEvent, UserQuestion, collect_answer, stream_answer},
    error::ApiError,
    http::{RequestId, send_chunks},
    service::HttpService,
    telemetry::unix_seconds,
};
use axum::{
    Extension, Json,
    extract::State,
    response::{IntoResponse, Response},
};
use futures::{Stream, StreamExt, stream};
use models::{Finish, Usage};
use rag::{Answer, Passage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// A request for an answer. OpenAI's other fields are accepted and ignored.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ChatCompletionRequest {
    /// The pipeline, as `/v1/models` lists it.
    model: String,
    /// The conversation. Its last message of `user` is the question.
    #[schemars(length(min = 1))]
    messages: Vec<ChatMessage>,
    /// Whether to send the answer while it is written. Default false.
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<ChatStreamOptions>,
    /// How many answers; only 1.
    #[serde(default, deserialize_with = "whole_number")]
    #[schemars(range(min = 1, max = 1))]
    n: Option<usize>,
    /// Only `{"type": "text"}`.
    #[serde(default)]
    response_format: Option<AnswerFormat>,
    /// Only `auto` or `none`: the pipeline calls no tools.
    #[serde(default)]
    #[schemars(with = "Option<ToolChoice>")]
    tool_choice: Option<Value>,
    /// The older name of `tool_choice`.
    #[serde(default)]
    #[schemars(with = "Option<ToolChoice>")]
    function_call: Option<Value>,
}

/// Whether tools may be called.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum ToolChoice {
    Auto,
    None,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ChatStreamOptions {
    /// Whether a chunk with the tokens comes at the end. Default false.
    #[serde(default)]
    include_usage: Option<bool>,
}

/// The form of an answer.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct AnswerFormat {
    #[schemars(extend("const" = "text"))]
    r#type: String,
}

impl AnswerFormat {
    /// Refuses every form but text.
    pub(crate) fn check(&self, parameter: &'static str) -> Result<(), ApiError> {
        if self.r#type == "text" {
            return Ok(());
        }
        let reason = format!("{parameter} must be `text`: the pipeline's answers are texts with citations");
        Err(ApiError::invalid(reason).with_parameter(parameter))
    }
}

/// A whole answer.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ChatCompletion {
    /// Its id, which contains the request's.
    id: String,
    #[schemars(extend("const" = "chat.completion"))]
    object: &'static str,
    /// When it was written, in seconds since 1970.
    created: u64,
    /// The pipeline, as `/v1/models` lists it.
    model: String,
    /// The one answer.
    choices: [ChatChoice; 1],
    usage: TokenUsage,
    /// The passages that the model read, as Open WebUI expects them. Not part of OpenAI's
    /// API.
    citations: Vec<sources::SourceCitation>,
    /// The same as `citations`.
    sources: Vec<sources::SourceCitation>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ChatChoice {
    index: u32,
    message: AnswerMessage,
    /// Always null.
    logprobs: Option<Value>,
    finish_reason: FinishReason,
}

#[derive(Debug, Serialize, JsonSchema)]
struct AnswerMessage {
    #[schemars(extend("const" = "assistant"))]
    role: &'static str,
    /// The answer, with markers such as `[1]`.
    content: String,
    /// Always null.
    refusal: Option<String>,
    /// The sources of the markers.
    annotations: Vec<Annotation>,
}

/// The source of a marker in the text.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct Annotation {
    #[schemars(extend("const" = "url_citation"))]
    r#type: &'static str,
    url_citation: UrlCitation,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
struct UrlCitation {
    /// The address of the source's page in the service.
    url: String,
    title: String,
    /// Where the marker begins in the text, in characters.
    start_index: usize,
    /// Where it ends.
    end_index: usize,
}

/// Why an answer ended: `stop` if it is complete, `length` if it was cut at the
/// longest answer that the pipeline allows.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FinishReason {
    Stop,
    Length,
    ContentFilter,
}

impl From<Finish> for FinishReason {
    fn from(finish: Finish) -> Self {
        match finish {
            Finish::Stop => Self::Stop,
            Finish::Length => Self::Length,
            Finish::ContentFilter => Self::ContentFilter,
        }
    }
}

/// The chat model's tokens.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub(crate) struct TokenUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptTokens,
}

#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
struct PromptTokens {
    cached_tokens: u64,
}

impl From<Usage> for TokenUsage {
    fn from(usage: Usage) -> Self {
        Self {
            prompt_tokens: usage.prompt_tokens,
            completion_tokens: usage.completion_tokens,
            total_tokens: usage.total(),
            prompt_tokens_details: PromptTokens { cached_tokens: usage.cached_tokens },
        }
    }
}

pub(crate) async fn post(
    State(service): State<Arc<HttpService>>,
    Extension(id): Extension<RequestId>,
    PublicBase(base): PublicBase,
    JsonBody(request): JsonBody<ChatCompletionRequest>,
) -> Result<Response, ApiError> {
    check_model(&service, &request.model)?;
    if request.n.is_some_and(|n| n != 1) {
        return Err(ApiError::invalid("n must be 1: a pipeline gives one answer").with_parameter("n"));
    }
    request.response_format.as_ref().map_or(Ok(()), |format| format.check("response_format"))?;
    check_tool_choice(request.tool_choice.as_ref(), "tool_choice")?;
    check_tool_choice(request.function_call.as_ref(), "function_call")?;
    let (question, history) = split_conversation(&service, &request.messages, "messages")?;
    let question = UserQuestion { id: id.0.clone(), text: question, history, max_passages: usize::MAX };
    let header = ChunkHeader { id: format!("chatcmpl-{}", id.0), created: unix_seconds(), model: request.model };
    if request.stream == Some(true) {
        let usage = request.stream_options.is_some_and(|options| options.include_usage == Some(true));
        return Ok(send_chunks(stream_chunks(service, question, header, base, usage).await?));
    }
    let (found, answer) = collect_answer(service.dispatcher.clone(), question).await?;
    let passages = found.passages;
    let sources = sources::number(&passages, Some(&answer.citations), &base);
    let citations = sources::cite(&sources, &passages);
    let annotations = annotations(&answer.text, &sources);
    let message = AnswerMessage { role: "assistant", content: answer.text, refusal: None, annotations };
    let completion = ChatCompletion {
        id: header.id,
        object: "chat.completion",
        created: header.created,
        model: header.model,
        choices: [ChatChoice { index: 0, message, logprobs: None, finish_reason: answer.finish.into() }],
        usage: answer.usage.into(),
        citations: citations.clone(),
        sources: citations,
    };
    // A stream writes scores from JSON values too, so they have the same digits.
    Ok(Json(json!(completion)).into_response())
}

/// The fields that all chunks of an answer share.
struct ChunkHeader {
    id: String,
    created: u64,
    model: String,
}

impl ChunkHeader {
    fn chunk(&self, choices: Value) -> Value {
        json!({
            "id": self.id, "object": "chat.completion.chunk", "created": self.created, "model": self.model,
            "choices": choices,
        })
    }

    fn delta(&self, delta: Value, finish: Option<FinishReason>) -> Value {
        self.chunk(json!([{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish }]))
    }
}

/// Streams the chunks of an answer.
async fn stream_chunks(
    service: Arc<HttpService>,
    question: UserQuestion,
    header: ChunkHeader,
    base: String,
    wants_usage: bool,
) -> Result<impl Stream<Item = Result<Value, ApiError>> + Send + 'static, ApiError> {
    let events = stream_answer(service.dispatcher.clone(), question).await?;
    let mut passages: Vec<Passage> = Vec::new();
    let begin = header.delta(json!({ "role": "assistant", "content": "" }), None);
    let chunks = events.flat_map(move |event| {
        stream::iter(match event {
            Ok(AnswerEvent::Passages(found)) => {
                passages = found.passages;
                Vec::new()
            }
            Ok(AnswerEvent::Text(text)) => vec![Ok(header.delta(json!({ "content": text }), None))],
            Ok(AnswerEvent::Done(answer)) => {
                last_chunks(&header, &passages, &answer, &base, wants_usage).into_iter().map(Ok).collect()
            }
            Err(error) => vec![Err(error)],
        })
    });
    let all = stream::iter([Ok(begin)]).chain(chunks);
    // If the last chunk has the usage, the others have null, as in OpenAI's API.
    let with_usage = move |mut chunk: Value| {
        if wants_usage && chunk["usage"].is_null() {
            chunk["usage"] = Value::Null;
        }
        chunk
    };
    Ok(all.map(move |chunk| chunk.map(with_usage)))
}

/// The chunks after the text of an answer: sources, annotations, and the usage.
fn last_chunks(
    header: &ChunkHeader,
    passages: &[Passage],
    answer: &Answer,
    base: &str,
    wants_usage: bool,
) -> Vec<Value> {
    let sources = sources::number(passages, Some(&answer.citations), base);
    let items = sources::cite(&sources, passages);
    let citations = json!(items);
    // They come before the annotations: otherwise Open WebUI numbers the sources in the order of their citations.
    let event = |item| {
        let mut chunk = header.delta(json!({}), None);
        chunk["event"] = json!({ "type": "source", "data": sources::to_stream_item(item) });
        chunk
    };
    let mut last: Vec<Value> = items.into_iter().map(event).collect();
    let annotations = json!({ "annotations": annotations(&answer.text, &sources) });
    last.push(header.delta(annotations, Some(answer.finish.into())));
    let mut cited = header.delta(json!({}), None);
    (cited["citations"], cited["sources"]) = (citations.clone(), citations);
    last.push(cited);
    if wants_usage {
        let mut usage = header.chunk(json!([]));
        usage["usage"] = json!(TokenUsage::from(answer.usage));
        last.push(usage);
    }
    last
}

/// The markers of a text as `url_citation` annotations.
fn annotations(text: &str, sources: &[PassageSource]) -> Vec<Annotation> {
    let annotation = |marker: sources::Marker| {
        let source = &sources[marker.number - 1];
        let (url, title) = (source.url.clone(), sources::title(source));
        let url_citation = UrlCitation { url, title, start_index: marker.start, end_index: marker.end };
        Annotation { r#type: "url_citation", url_citation }
    };
    sources::find_markers(text, sources.len()).into_iter().map(annotation).collect()
}
