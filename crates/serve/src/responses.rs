//! `POST /v1/responses`: OpenAI's newer API. The search appears as a
//! `file_search_call`, and the sources as `file_citation`s of the text.
//! Conversations that the server would have to remember are not offered:
//! `previous_response_id` is refused.

use crate::{
    RequestId, Service,
    answer::{self, Asked, Told},
    error::ApiError,
    request::{Base, Body, ChatMessage, check_model, conversation, of_user},
    sources::{self, Source},
    stream::{named_events, seconds},
};
use axum::{
    Extension, Json,
    extract::State,
    response::{IntoResponse, Response},
};
use futures::{Stream, StreamExt};
use models::Usage;
use rag::{Answer, Passage};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// A request for an answer. Other fields of OpenAI's are accepted and ignored.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ResponsesRequest {
    /// What is served, as `/v1/models` lists it.
    model: String,
    /// The question, or a conversation whose last message of `user` is the question.
    input: Input,
    /// Whether to send events while the answer is written. Default false.
    #[serde(default)]
    stream: Option<bool>,
    /// `file_search_call.results` shows the passages.
    #[serde(default)]
    include: Option<Vec<String>>,
    /// Not offered: send the whole conversation as `input`.
    #[serde(default)]
    previous_response_id: Option<String>,
    /// Whether to write the answer in the background; only false.
    #[serde(default)]
    background: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Input {
    Text(String),
    Messages(Vec<ChatMessage>),
}

pub(crate) async fn post(
    State(service): State<Arc<Service>>,
    Extension(id): Extension<RequestId>,
    Base(base): Base,
    Body(request): Body<ResponsesRequest>,
) -> Result<Response, ApiError> {
    check_model(&service, &request.model)?;
    if request.previous_response_id.is_some() {
        let reason = "answers are not remembered here: send the whole conversation as `input`";
        return Err(ApiError::invalid(reason).of_parameter("previous_response_id"));
    }
    if request.background == Some(true) {
        return Err(ApiError::invalid("background answers are not offered").of_parameter("background"));
    }
    let messages = match request.input {
        Input::Text(text) => vec![of_user(text)],
        Input::Messages(messages) => messages,
    };
    let (question, history) = conversation(&service, &messages, "input")?;
    let response = Written {
        id: id.0.to_string(),
        created: seconds(),
        model: request.model,
        question: question.clone(),
        base,
        shows_results: request.include.iter().flatten().any(|name| name == "file_search_call.results"),
    };
    let asked = Asked { id: id.0.clone(), question, history, at_most: usize::MAX };
    if request.stream == Some(true) {
        return Ok(named_events(streamed(service, asked, response).await?));
    }
    let whole = answer::whole(service, asked).await?;
    Ok(Json(response.whole(&whole.found.passages, &whole.answer)).into_response())
}

/// What all parts of a response have in common.
struct Written {
    id: String,
    created: u64,
    model: String,
    question: String,
    base: String,
    shows_results: bool,
}

impl Written {
    fn response(&self, status: &str, output: Value, usage: Option<Usage>) -> Value {
        let usage = usage.map(|usage| {
            json!({
                "input_tokens": usage.prompt_tokens,
                "input_tokens_details": { "cached_tokens": usage.cached_tokens },
                "output_tokens": usage.completion_tokens,
                "output_tokens_details": { "reasoning_tokens": 0 },
                "total_tokens": usage.total(),
            })
        });
        json!({
            "id": format!("resp_{}", self.id), "object": "response", "created_at": self.created, "status": status,
            "model": self.model, "output": output, "usage": usage, "error": null, "incomplete_details": null,
            "instructions": null, "metadata": {}, "parallel_tool_calls": false, "temperature": null, "top_p": null,
            "tool_choice": "auto", "tools": [], "max_output_tokens": null, "previous_response_id": null,
            "text": { "format": { "type": "text" } }, "truncation": "disabled", "store": false,
        })
    }

    fn search(&self, status: &str, passages: Option<&[Passage]>) -> Value {
        let results = passages.filter(|_| self.shows_results).map(|passages| {
            let sources = sources::of(passages, None, &self.base);
            let result = |(source, passage): (&Source, &Passage)| {
                json!({
                    "file_id": source.id, "filename": source.file, "score": source.score, "text": passage.text,
                    "attributes": { "page": source.page, "book": source.book, "heading": source.heading },
                })
            };
            sources.iter().zip(passages).map(result).collect::<Vec<_>>()
        });
        json!({
            "id": format!("fs_{}", self.id), "type": "file_search_call", "status": status,
            "queries": [self.question], "results": results,
        })
    }

    fn message(&self, status: &str, content: Value) -> Value {
        json!({
            "id": format!("msg_{}", self.id), "type": "message", "role": "assistant", "status": status,
            "content": content,
        })
    }

    /// The file citations of an answer: where each marker ends, in characters.
    fn annotations(&self, text: &str, passages: &[Passage]) -> Vec<Value> {
        let sources = sources::of(passages, None, &self.base);
        let annotation = |marker: sources::Marker| {
            let source = &sources[marker.number - 1];
            json!({ "type": "file_citation", "file_id": source.id, "filename": source.file, "index": marker.end })
        };
        sources::markers(text, sources.len()).into_iter().map(annotation).collect()
    }

    fn whole(&self, passages: &[Passage], answer: &Answer) -> Value {
        let part = text_part(&answer.text, self.annotations(&answer.text, passages));
        let output = json!([self.search("completed", Some(passages)), self.message("completed", json!([part]))]);
        self.response("completed", output, Some(answer.usage))
    }
}

fn text_part(text: &str, annotations: Vec<Value>) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": annotations, "logprobs": [] })
}

/// The events of a streamed response, numbered from 0.
async fn streamed(
    service: Arc<Service>,
    asked: Asked,
    response: Written,
) -> Result<impl Stream<Item = Value> + Send + 'static, ApiError> {
    let told = answer::begun(service, asked).await?;
    let begin = vec![
        json!({ "type": "response.created", "response": response.response("in_progress", json!([]), None) }),
        json!({ "type": "response.in_progress", "response": response.response("in_progress", json!([]), None) }),
        json!({ "type": "response.output_item.added", "output_index": 0, "item": response.search("in_progress", None) }),
        searching(&response, "in_progress"),
        searching(&response, "searching"),
    ];
    let mut passages: Vec<Passage> = Vec::new();
    let mut has_message = false;
    let rest = told.map(move |told| match told {
        Ok(Told::Found(found)) => {
            let again = !std::mem::replace(&mut passages, found.passages).is_empty() || has_message;
            if again {
                return Vec::new();
            }
            has_message = true;
            vec![
                searching(&response, "completed"),
                json!({ "type": "response.output_item.done", "output_index": 0,
                        "item": response.search("completed", Some(&passages)) }),
                json!({ "type": "response.output_item.added", "output_index": 1,
                        "item": response.message("in_progress", json!([])) }),
                json!({ "type": "response.content_part.added", "item_id": format!("msg_{}", response.id),
                        "output_index": 1, "content_index": 0, "part": text_part("", Vec::new()) }),
            ]
        }
        Ok(Told::Text(text)) => vec![json!({
            "type": "response.output_text.delta", "item_id": format!("msg_{}", response.id),
            "output_index": 1, "content_index": 0, "delta": text, "logprobs": [],
        })],
        Ok(Told::Answered(answer)) => ended(&response, &passages, &answer),
        Err(error) => {
            let mut failed = response.response("failed", json!([]), None);
            failed["error"] = json!({ "code": "server_error", "message": error.message });
            vec![json!({ "type": "response.failed", "response": failed })]
        }
    });
    let all = futures::stream::iter([begin]).chain(rest).flat_map(futures::stream::iter);
    Ok(all.enumerate().map(|(number, mut event)| {
        event["sequence_number"] = number.into();
        event
    }))
}

fn searching(response: &Written, state: &str) -> Value {
    json!({ "type": format!("response.file_search_call.{state}"), "item_id": format!("fs_{}", response.id),
            "output_index": 0 })
}

fn ended(response: &Written, passages: &[Passage], answer: &Answer) -> Vec<Value> {
    let item = format!("msg_{}", response.id);
    let annotations = response.annotations(&answer.text, passages);
    let mut events: Vec<Value> = annotations
        .iter()
        .enumerate()
        .map(|(at, annotation)| {
            json!({ "type": "response.output_text.annotation.added", "item_id": item, "output_index": 1,
                    "content_index": 0, "annotation_index": at, "annotation": annotation })
        })
        .collect();
    let part = text_part(&answer.text, annotations);
    events.extend([
        json!({ "type": "response.output_text.done", "item_id": item, "output_index": 1, "content_index": 0,
                "text": answer.text, "logprobs": [] }),
        json!({ "type": "response.content_part.done", "item_id": item, "output_index": 1, "content_index": 0,
                "part": part }),
        json!({ "type": "response.output_item.done", "output_index": 1,
                "item": response.message("completed", json!([part])) }),
        json!({ "type": "response.completed", "response": response.whole(passages, answer) }),
    ]);
    events
}
