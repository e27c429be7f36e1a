//! `POST /v1/chat/completions`: OpenAI's chat, answered by the pipeline.
//!
//! Sources are told three ways, since clients read different ones: markers in
//! the text, `annotations` of the message, and `citations` and `sources` at the
//! top, as Open WebUI reads them. Settings of sampling are accepted and have no
//! effect: the pipeline answers with those that were measured.

use crate::{
    RequestId, Service,
    answer::{self, Asked, Told},
    error::ApiError,
    request::{Base, Body, ChatMessage, check_model, check_tool_choice, conversation, whole},
    sources::{self, Source},
    stream::{events, seconds},
};
use axum::{
    Extension, Json,
    extract::State,
    response::{IntoResponse, Response},
};
use futures::{Stream, StreamExt};
use models::{Finish, Usage};
use rag::Passage;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// A request for an answer. Other fields of OpenAI's are accepted and ignored.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ChatRequest {
    /// What is served, as `/v1/models` lists it.
    model: String,
    /// The conversation; its last message of `user` is the question.
    #[schemars(length(min = 1))]
    messages: Vec<ChatMessage>,
    /// Whether to send the answer while it is written. Default false.
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    /// How many answers; only 1.
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(min = 1, max = 1))]
    n: Option<usize>,
    /// Only `{"type": "text"}`.
    #[serde(default)]
    response_format: Option<ResponseFormat>,
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
#[expect(dead_code, reason = "it is only described")]
pub(crate) enum ToolChoice {
    Auto,
    None,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct StreamOptions {
    /// Whether a chunk with the tokens comes at the end. Default false.
    #[serde(default)]
    include_usage: Option<bool>,
}

/// The form of an answer.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ResponseFormat {
    #[schemars(extend("const" = "text"))]
    r#type: String,
}

impl ResponseFormat {
    /// Refuses any form but a text.
    pub(crate) fn check(&self, parameter: &'static str) -> Result<(), ApiError> {
        if self.r#type == "text" {
            return Ok(());
        }
        let reason = format!("{parameter} must be `text`: the pipeline's answers are texts with citations");
        Err(ApiError::invalid(reason).of_parameter(parameter))
    }
}

/// A whole answer.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ChatCompletion {
    /// Its id, which holds that of the request.
    id: String,
    #[schemars(extend("const" = "chat.completion"))]
    object: &'static str,
    /// When it was written, in seconds since 1970.
    created: u64,
    /// What answered, as `/v1/models` lists it.
    model: String,
    /// The one answer.
    choices: [Choice; 1],
    usage: TokenUsage,
    /// What the model was shown, as Open WebUI reads it. Not part of OpenAI's API.
    citations: Vec<sources::Citation>,
    /// The same.
    sources: Vec<sources::Citation>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Choice {
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
    /// What the markers mean.
    annotations: Vec<Annotation>,
}

/// What a marker of the text cites.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct Annotation {
    #[schemars(extend("const" = "url_citation"))]
    r#type: &'static str,
    url_citation: UrlCitation,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
struct UrlCitation {
    /// Where the source can be looked at.
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
    State(service): State<Arc<Service>>,
    Extension(id): Extension<RequestId>,
    Base(base): Base,
    Body(request): Body<ChatRequest>,
) -> Result<Response, ApiError> {
    check_model(&service, &request.model)?;
    if request.n.is_some_and(|n| n != 1) {
        return Err(ApiError::invalid("n must be 1: a pipeline gives one answer").of_parameter("n"));
    }
    request.response_format.as_ref().map_or(Ok(()), |format| format.check("response_format"))?;
    check_tool_choice(request.tool_choice.as_ref(), "tool_choice")?;
    check_tool_choice(request.function_call.as_ref(), "function_call")?;
    let (question, history) = conversation(&service, &request.messages, "messages")?;
    let asked = Asked { id: id.0.clone(), question, history, at_most: usize::MAX };
    let head = Head { id: format!("chatcmpl-{}", id.0), created: seconds(), model: request.model };
    if request.stream == Some(true) {
        let usage = request.stream_options.is_some_and(|options| options.include_usage == Some(true));
        return Ok(events(chunks(service, asked, head, base, usage).await?));
    }
    let whole = answer::whole(service, asked).await?;
    let (passages, answer) = (whole.found.passages, whole.answer);
    let sources = sources::of(&passages, Some(&answer.citations), &base);
    let cited = sources::open_webui(&sources, &passages);
    let annotations = annotations(&answer.text, &sources);
    let message = AnswerMessage { role: "assistant", content: answer.text, refusal: None, annotations };
    let completion = ChatCompletion {
        id: head.id,
        object: "chat.completion",
        created: head.created,
        model: head.model,
        choices: [Choice { index: 0, message, logprobs: None, finish_reason: answer.finish.into() }],
        usage: answer.usage.into(),
        citations: cited.clone(),
        sources: cited,
    };
    // Scores have the same digits as in a stream.
    Ok(Json(json!(completion)).into_response())
}

/// What all chunks of an answer have in common.
struct Head {
    id: String,
    created: u64,
    model: String,
}

impl Head {
    fn chunk(&self, choices: Value, more: &[(&str, Value)]) -> Value {
        let mut chunk = json!({
            "id": self.id, "object": "chat.completion.chunk", "created": self.created, "model": self.model,
            "choices": choices,
        });
        for (name, value) in more {
            chunk[*name] = value.clone();
        }
        chunk
    }

    fn delta(&self, delta: Value, finish: Value, more: &[(&str, Value)]) -> Value {
        let choice = json!([{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish }]);
        self.chunk(choice, more)
    }
}

/// The chunks of a streamed answer.
async fn chunks(
    service: Arc<Service>,
    asked: Asked,
    head: Head,
    base: String,
    wants_usage: bool,
) -> Result<impl Stream<Item = Result<Value, ApiError>> + Send + 'static, ApiError> {
    let told = answer::begun(service, asked).await?;
    let mut passages: Vec<Passage> = Vec::new();
    // Chunks of a stream that will tell its usage say that they do not.
    let none = if wants_usage { vec![("usage", Value::Null)] } else { Vec::new() };
    let begin = head.delta(json!({ "role": "assistant", "content": "" }), Value::Null, &none);
    let made = told.map(move |told| {
        Ok(match told? {
            Told::Found(found) => {
                passages = found.passages;
                Vec::new()
            }
            Told::Text(text) => vec![head.delta(json!({ "content": text }), Value::Null, &none)],
            Told::Answered(answer) => {
                let sources = sources::of(&passages, Some(&answer.citations), &base);
                let items = sources::open_webui(&sources, &passages);
                let cited = json!(items);
                // Open WebUI counts the sources of a stream as they come, cited ones first, if nothing says otherwise
                // before the annotations.
                let event = |item| {
                    let event = json!({ "type": "source", "data": sources::in_open_webui_stream(item) });
                    head.delta(json!({}), Value::Null, &[&[("event", event)], &none[..]].concat())
                };
                let mut last: Vec<Value> = items.into_iter().map(event).collect();
                last.push(head.delta(
                    json!({ "annotations": annotations(&answer.text, &sources) }),
                    json!(FinishReason::from(answer.finish)),
                    &none,
                ));
                let mut told = vec![("citations", cited.clone()), ("sources", cited)];
                told.extend(none.iter().cloned());
                last.push(head.delta(json!({}), Value::Null, &told));
                if wants_usage {
                    last.push(head.chunk(json!([]), &[("usage", json!(TokenUsage::from(answer.usage)))]));
                }
                last
            }
        })
    });
    let flat = made.flat_map(|made: Result<Vec<Value>, ApiError>| {
        futures::stream::iter(match made {
            Ok(chunks) => chunks.into_iter().map(Ok).collect::<Vec<_>>(),
            Err(error) => vec![Err(error)],
        })
    });
    Ok(futures::stream::iter([Ok(begin)]).chain(flat))
}

/// The markers of a text as `url_citation`s.
fn annotations(text: &str, sources: &[Source]) -> Vec<Annotation> {
    let annotation = |marker: sources::Marker| {
        let source = &sources[marker.number - 1];
        let (url, title) = (source.url.clone(), sources::title(source));
        let url_citation = UrlCitation { url, title, start_index: marker.start, end_index: marker.end };
        Annotation { r#type: "url_citation", url_citation }
    };
    sources::markers(text, sources.len()).into_iter().map(annotation).collect()
}
