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
    request::{Base, Body, ChatMessage, check_model, conversation},
    sources::{self, Source},
    stream::{events, seconds},
};
use axum::{
    Extension, Json,
    extract::State,
    response::{IntoResponse, Response},
};
use futures::{Stream, StreamExt};
use models::Usage;
use rag::Passage;
use schemars::JsonSchema;
use serde::Deserialize;
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
    #[serde(default)]
    #[schemars(range(min = 1, max = 1))]
    n: Option<u32>,
    /// Only `{"type": "text"}`.
    #[serde(default)]
    response_format: Option<ResponseFormat>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct StreamOptions {
    /// Whether a chunk with the tokens comes at the end. Default false.
    #[serde(default)]
    include_usage: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ResponseFormat {
    #[schemars(extend("const" = "text"))]
    r#type: String,
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
    if request.response_format.as_ref().is_some_and(|format| format.r#type != "text") {
        let reason = "response_format must be `text`: the pipeline's answers are texts with citations";
        return Err(ApiError::invalid(reason).of_parameter("response_format"));
    }
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
    Ok(Json(json!({
        "id": head.id, "object": "chat.completion", "created": head.created, "model": head.model,
        "choices": [{
            "index": 0,
            "message": {
                "role": "assistant", "content": answer.text, "refusal": null,
                "annotations": annotations(&answer.text, &sources),
            },
            "logprobs": null, "finish_reason": "stop",
        }],
        "usage": usage(answer.usage), "citations": cited, "sources": cited,
    }))
    .into_response())
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
                let cited = Value::from(sources::open_webui(&sources, &passages));
                let mut last = vec![head.delta(
                    json!({ "annotations": annotations(&answer.text, &sources) }),
                    json!("stop"),
                    &none,
                )];
                let mut told = vec![("citations", cited.clone()), ("sources", cited)];
                told.extend(none.iter().cloned());
                last.push(head.delta(json!({}), Value::Null, &told));
                if wants_usage {
                    last.push(head.chunk(json!([]), &[("usage", usage(answer.usage))]));
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
fn annotations(text: &str, sources: &[Source]) -> Vec<Value> {
    let annotation = |marker: sources::Marker| {
        let source = &sources[marker.number - 1];
        json!({ "type": "url_citation", "url_citation": {
            "url": source.url, "title": sources::title(source), "start_index": marker.start, "end_index": marker.end,
        }})
    };
    sources::markers(text, sources.len()).into_iter().map(annotation).collect()
}

pub(crate) fn usage(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total(), "prompt_tokens_details": { "cached_tokens": usage.cached_tokens },
    })
}
