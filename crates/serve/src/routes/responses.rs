//! `POST /v1/responses`: OpenAI's newer API. The search appears as a
//! `file_search_call`, and the sources as `file_citation` annotations. Responses are
//! not stored, so `previous_response_id` and `item_reference` are refused; the items
//! of a response's `output` can be sent back as `input`.

use super::{
    chat::{AnswerFormat, ToolChoice},
    conversation::{ChatMessage, check_model, check_tool_choice, skipped_message, split_conversation, user_message},
    request::{JsonBody, PublicBase, off_thread, read},
    sources::{self, PassageSource},
};
use crate::{
    answering::{AnswerEvent, UserQuestion, collect_answer, stream_answer},
    error::ApiError,
    http::{RequestId, send_named},
    service::HttpService,
    telemetry::unix_seconds,
};
use axum::{
    Extension, Json,
    extract::State,
    response::{IntoResponse, Response},
};
use futures::{Stream, StreamExt};
use models::{Finish, Usage};
use rag::{Answer, Passage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// A request for an answer. OpenAI's other fields are accepted and ignored.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ResponsesRequest {
    /// The pipeline, as `/v1/models` lists it.
    model: String,
    /// The question, or a conversation whose last message of `user` is the
    /// question. Items of other types than `message`, which an earlier response has in
    /// its `output`, are left out.
    #[schemars(with = "ResponsesInput")]
    input: Value,
    /// Whether to send events while the answer is written. Default false.
    #[serde(default)]
    stream: Option<bool>,
    /// `file_search_call.results` shows the passages.
    #[serde(default)]
    include: Option<Vec<String>>,
    /// Not offered: send the whole conversation as `input`.
    #[serde(default)]
    previous_response_id: Option<String>,
    /// Not offered: send the whole conversation as `input`.
    #[serde(default)]
    conversation: Option<Value>,
    /// Whether to write the answer in the background; only false.
    #[serde(default)]
    background: Option<bool>,
    /// The form of the answer; only text.
    #[serde(default)]
    text: Option<TextSettings>,
    /// Only `auto` or `none`: the pipeline calls no tools.
    #[serde(default)]
    #[schemars(with = "Option<ToolChoice>")]
    tool_choice: Option<Value>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct TextSettings {
    /// Only `{"type": "text"}`.
    #[serde(default)]
    format: Option<AnswerFormat>,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum ResponsesInput {
    Text(#[schemars(length(min = 1), regex(pattern = r"\S"))] String),
    Items(#[schemars(length(min = 1))] Vec<ChatMessage>),
}

const NOT_REMEMBERED: &str = "answers are not remembered here";

/// The size of a typical item in JSON, in bytes. Many items are read on a blocking
/// thread.
const ITEM_BYTES: usize = 64;

/// Reads the messages of an input.
fn read_messages(input: Value) -> Result<Vec<ChatMessage>, ApiError> {
    let items = match input {
        Value::String(text) => return Ok(vec![user_message(text)]),
        Value::Array(items) => items,
        _ => return Err(ApiError::invalid("`input` must be a text or a list of items").with_parameter("input")),
    };
    items.into_iter().enumerate().map(|(at, item)| read_message(item, &format!("input[{at}]"))).collect()
}

/// Reads an item. Calls of tools, their outputs and reasoning do not belong to the
/// conversation; they are left out.
fn read_message(item: Value, place: &str) -> Result<ChatMessage, ApiError> {
    let invalid = |reason: String| ApiError::invalid(reason).with_parameter(place.to_owned());
    let kind = match item.get("type") {
        None | Some(Value::Null) => None,
        Some(Value::String(kind)) => Some(kind.as_str()),
        Some(_) => return Err(invalid(format!("`{place}.type` must be a text"))),
    };
    let is_reference =
        kind == Some("item_reference") || (kind.is_none() && item.get("role").is_none() && item.get("id").is_some());
    match kind {
        _ if is_reference => Err(invalid(format!(
            "`{place}` refers to an item of an earlier response, but {NOT_REMEMBERED}: send the whole items of its \
             `output` (`store: false` makes clients do so)"
        ))),
        None if item.is_object() && item.get("role").is_none() => {
            Err(invalid(format!("`{place}` has neither `role` nor `type`")))
        }
        None | Some("message") => read(item, place),
        Some(_) => Ok(skipped_message()),
    }
}

pub(crate) async fn post(
    State(service): State<Arc<HttpService>>,
    Extension(id): Extension<RequestId>,
    PublicBase(base): PublicBase,
    JsonBody(request): JsonBody<ResponsesRequest>,
) -> Result<Response, ApiError> {
    check_model(&service, &request.model)?;
    let reason = format!(
        "{NOT_REMEMBERED}: send the whole conversation as `input`; the items of an earlier response's `output` may be \
         in it"
    );
    if request.previous_response_id.is_some() {
        return Err(ApiError::invalid(reason).with_parameter("previous_response_id"));
    }
    if request.conversation.as_ref().is_some_and(|conversation| !conversation.is_null()) {
        return Err(ApiError::invalid(reason).with_parameter("conversation"));
    }
    if request.background == Some(true) {
        return Err(ApiError::invalid("background answers are not offered").with_parameter("background"));
    }
    let format = request.text.as_ref().and_then(|text| text.format.as_ref());
    format.map_or(Ok(()), |format| format.check("text.format"))?;
    check_tool_choice(request.tool_choice.as_ref(), "tool_choice")?;
    let n_items = request.input.as_array().map_or(0, Vec::len);
    let input = request.input;
    let messages = off_thread(n_items * ITEM_BYTES, move || read_messages(input)).await?;
    let (question, history) = split_conversation(&service, &messages, "input")?;
    let builder = ResponseBuilder {
        id: id.0.to_string(),
        created: unix_seconds(),
        model: request.model,
        question: question.clone(),
        base,
        shows_results: request.include.iter().flatten().any(|name| name == "file_search_call.results"),
    };
    let question = UserQuestion { id: id.0.clone(), text: question, history, max_passages: usize::MAX };
    if request.stream == Some(true) {
        return Ok(send_named(stream_events(service, question, builder).await?));
    }
    let (found, answer) = collect_answer(service.dispatcher.clone(), question).await?;
    Ok(Json(json!(builder.complete(&found.passages, &answer))).into_response())
}

/// An answer, or the part of it that is written so far.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ResponseObject {
    /// Its id, which contains the request's.
    id: String,
    #[schemars(extend("const" = "response"))]
    object: &'static str,
    /// When it began, in seconds since 1970.
    created_at: u64,
    status: ResponseStatus,
    /// The pipeline, as `/v1/models` lists it.
    model: String,
    /// The search, and the message with the answer.
    output: Vec<OutputItem>,
    usage: Option<ResponseUsage>,
    error: Option<ResponseError>,
    /// Why the answer is not complete.
    incomplete_details: Option<IncompleteDetails>,
    /// Always null: the pipeline has its own instructions.
    instructions: Option<String>,
    metadata: serde_json::Map<String, Value>,
    parallel_tool_calls: bool,
    temperature: Option<f64>,
    top_p: Option<f64>,
    #[schemars(extend("const" = "auto"))]
    tool_choice: &'static str,
    tools: Vec<Value>,
    max_output_tokens: Option<u64>,
    previous_response_id: Option<String>,
    text: Value,
    truncation: &'static str,
    /// Always false.
    store: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ResponseStatus {
    InProgress,
    Completed,
    Incomplete,
    Failed,
}

#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
struct IncompleteDetails {
    /// `max_output_tokens` if the answer was cut at the longest one that the
    /// pipeline allows, `content_filter` if a provider withheld it.
    reason: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ResponseError {
    code: &'static str,
    message: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ResponseUsage {
    input_tokens: u64,
    input_tokens_details: InputTokens,
    output_tokens: u64,
    output_tokens_details: OutputTokens,
    total_tokens: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct InputTokens {
    cached_tokens: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct OutputTokens {
    reasoning_tokens: u64,
}

/// An item of a response's output.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
enum OutputItem {
    /// The search for passages.
    FileSearchCall {
        id: String,
        status: ResponseStatus,
        queries: [String; 1],
        /// The passages, if `include` asks for them.
        results: Option<Vec<FileSearchResult>>,
    },
    /// The answer.
    Message {
        id: String,
        #[schemars(extend("const" = "assistant"))]
        role: &'static str,
        status: ResponseStatus,
        content: Vec<OutputText>,
    },
}

#[derive(Debug, Serialize, JsonSchema)]
struct FileSearchResult {
    /// The passage's id.
    file_id: String,
    filename: String,
    score: f32,
    text: String,
    attributes: Attributes,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Attributes {
    page: Option<u32>,
    book: Option<String>,
    heading: Option<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
struct OutputText {
    #[schemars(extend("const" = "output_text"))]
    r#type: &'static str,
    /// The answer, with markers such as `[1]`.
    text: String,
    /// The sources of the markers.
    annotations: Vec<FileCitation>,
    logprobs: Vec<Value>,
}

impl OutputText {
    fn new(text: &str, annotations: Vec<FileCitation>) -> Self {
        Self { r#type: "output_text", text: text.to_owned(), annotations, logprobs: Vec::new() }
    }
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
struct FileCitation {
    #[schemars(extend("const" = "file_citation"))]
    r#type: &'static str,
    /// The passage's id.
    file_id: String,
    filename: String,
    /// Where the marker ends in the text, in characters.
    index: usize,
}

/// Builds the parts of a response.
struct ResponseBuilder {
    id: String,
    created: u64,
    model: String,
    question: String,
    base: String,
    shows_results: bool,
}

/// The status of an answer, and why it is incomplete.
fn status_of(finish: Finish) -> (ResponseStatus, Option<IncompleteDetails>) {
    match finish {
        Finish::Stop => (ResponseStatus::Completed, None),
        Finish::Length => (ResponseStatus::Incomplete, Some(IncompleteDetails { reason: "max_output_tokens" })),
        Finish::ContentFilter => (ResponseStatus::Incomplete, Some(IncompleteDetails { reason: "content_filter" })),
    }
}

impl ResponseBuilder {
    fn response(&self, status: ResponseStatus, output: Vec<OutputItem>, usage: Option<Usage>) -> ResponseObject {
        let usage = usage.map(|usage| ResponseUsage {
            input_tokens: usage.prompt_tokens,
            input_tokens_details: InputTokens { cached_tokens: usage.cached_tokens },
            output_tokens: usage.completion_tokens,
            output_tokens_details: OutputTokens { reasoning_tokens: 0 },
            total_tokens: usage.total(),
        });
        ResponseObject {
            id: format!("resp_{}", self.id),
            object: "response",
            created_at: self.created,
            status,
            model: self.model.clone(),
            output,
            usage,
            error: None,
            incomplete_details: None,
            instructions: None,
            metadata: serde_json::Map::new(),
            parallel_tool_calls: false,
            temperature: None,
            top_p: None,
            tool_choice: "auto",
            tools: Vec::new(),
            max_output_tokens: None,
            previous_response_id: None,
            text: json!({ "format": { "type": "text" } }),
            truncation: "disabled",
            store: false,
        }
    }

    fn search(&self, status: ResponseStatus, passages: Option<&[Passage]>) -> OutputItem {
        let results = passages.filter(|_| self.shows_results).map(|passages| {
            let sources = sources::number(passages, None, &self.base);
            let result = |(source, passage): (PassageSource, &Passage)| FileSearchResult {
                file_id: source.id,
                filename: source.file,
                score: source.score,
                text: passage.text.clone(),
                attributes: Attributes { page: source.page, book: source.book, heading: source.heading },
            };
            sources.into_iter().zip(passages).map(result).collect()
        });
        let (id, queries) = (format!("fs_{}", self.id), [self.question.clone()]);
        OutputItem::FileSearchCall { id, status, queries, results }
    }

    fn message(&self, status: ResponseStatus, content: Vec<OutputText>) -> OutputItem {
        OutputItem::Message { id: format!("msg_{}", self.id), role: "assistant", status, content }
    }

    /// The file citations of an answer.
    fn annotations(&self, text: &str, passages: &[Passage]) -> Vec<FileCitation> {
        let sources = sources::number(passages, None, &self.base);
        let annotation = |marker: sources::Marker| {
            let source = &sources[marker.number - 1];
            let (file_id, filename) = (source.id.clone(), source.file.clone());
            FileCitation { r#type: "file_citation", file_id, filename, index: marker.end }
        };
        sources::find_markers(text, sources.len()).into_iter().map(annotation).collect()
    }

    /// The complete response.
    fn complete(&self, passages: &[Passage], answer: &Answer) -> ResponseObject {
        let (status, incomplete_details) = status_of(answer.finish);
        let text = OutputText::new(&answer.text, self.annotations(&answer.text, passages));
        let output = vec![self.search(ResponseStatus::Completed, Some(passages)), self.message(status, vec![text])];
        ResponseObject { incomplete_details, ..self.response(status, output, Some(answer.usage)) }
    }

    /// The last event of a response that failed.
    fn failed(&self, error: &ApiError) -> Value {
        if error.code == "content_filter" {
            let (status, incomplete_details) = status_of(Finish::ContentFilter);
            let response = ResponseObject { incomplete_details, ..self.response(status, Vec::new(), None) };
            return json!({ "type": "response.incomplete", "response": response });
        }
        let code = match (error.status.as_u16(), error.code) {
            (429, _) | (_, "model_rate_limited") => "rate_limit_exceeded",
            (400, _) => "invalid_prompt",
            _ => "server_error",
        };
        let failure = ResponseError { code, message: error.message.clone() };
        let response =
            ResponseObject { error: Some(failure), ..self.response(ResponseStatus::Failed, Vec::new(), None) };
        json!({ "type": "response.failed", "response": response })
    }
}

/// Streams the events of a response, numbered from 0.
async fn stream_events(
    service: Arc<HttpService>,
    question: UserQuestion,
    builder: ResponseBuilder,
) -> Result<impl Stream<Item = Value> + Send + 'static, ApiError> {
    let events = stream_answer(service.dispatcher.clone(), question).await?;
    let begin = vec![
        json!({ "type": "response.created", "response": builder.response(ResponseStatus::InProgress, Vec::new(), None) }),
        json!({ "type": "response.in_progress", "response": builder.response(ResponseStatus::InProgress, Vec::new(), None) }),
        json!({ "type": "response.output_item.added", "output_index": 0, "item": builder.search(ResponseStatus::InProgress, None) }),
        search_event(&builder, "in_progress"),
        search_event(&builder, "searching"),
    ];
    let mut passages: Vec<Passage> = Vec::new();
    let mut has_message = false;
    let rest = events.map(move |event| match event {
        Ok(AnswerEvent::Passages(found)) => {
            let is_repeated = !std::mem::replace(&mut passages, found.passages).is_empty() || has_message;
            if is_repeated {
                return Vec::new();
            }
            has_message = true;
            vec![
                search_event(&builder, "completed"),
                json!({ "type": "response.output_item.done", "output_index": 0,
                        "item": builder.search(ResponseStatus::Completed, Some(&passages)) }),
                json!({ "type": "response.output_item.added", "output_index": 1,
                        "item": builder.message(ResponseStatus::InProgress, Vec::new()) }),
                json!({ "type": "response.content_part.added", "item_id": format!("msg_{}", builder.id),
                        "output_index": 1, "content_index": 0, "part": OutputText::new("", Vec::new()) }),
            ]
        }
        Ok(AnswerEvent::Text(text)) => vec![json!({
            "type": "response.output_text.delta", "item_id": format!("msg_{}", builder.id),
            "output_index": 1, "content_index": 0, "delta": text, "logprobs": [],
        })],
        Ok(AnswerEvent::Done(answer)) => end_events(&builder, &passages, &answer),
        Err(error) => vec![builder.failed(&error)],
    });
    let all = futures::stream::iter([begin]).chain(rest).flat_map(futures::stream::iter);
    Ok(all.enumerate().map(|(number, mut event)| {
        event["sequence_number"] = number.into();
        event
    }))
}

fn search_event(builder: &ResponseBuilder, state: &str) -> Value {
    json!({ "type": format!("response.file_search_call.{state}"), "item_id": format!("fs_{}", builder.id),
            "output_index": 0 })
}

fn end_events(builder: &ResponseBuilder, passages: &[Passage], answer: &Answer) -> Vec<Value> {
    let item = format!("msg_{}", builder.id);
    let annotations = builder.annotations(&answer.text, passages);
    let mut events: Vec<Value> = annotations
        .iter()
        .enumerate()
        .map(|(at, annotation)| {
            json!({ "type": "response.output_text.annotation.added", "item_id": item, "output_index": 1,
                    "content_index": 0, "annotation_index": at, "annotation": annotation })
        })
        .collect();
    let part = OutputText::new(&answer.text, annotations);
    let (status, _) = status_of(answer.finish);
    let last = if status == ResponseStatus::Completed { "response.completed" } else { "response.incomplete" };
    events.extend([
        json!({ "type": "response.output_text.done", "item_id": item, "output_index": 1, "content_index": 0,
                "text": answer.text, "logprobs": [] }),
        json!({ "type": "response.content_part.done", "item_id": item, "output_index": 1, "content_index": 0,
                "part": part }),
        json!({ "type": "response.output_item.done", "output_index": 1,
                "item": builder.message(status, vec![part]) }),
        json!({ "type": last, "response": builder.complete(passages, answer) }),
    ]);
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_that_are_no_messages_are_left_out_and_references_are_refused_in_words() {
        let output = json!([
            { "role": "user", "content": "a" },
            { "type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["a"], "results": null },
            { "type": "reasoning", "id": "rs_1", "summary": [] },
            { "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}" },
            { "type": "function_call_output", "call_id": "c", "output": "{}" },
            { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "b" }] },
            { "role": "user", "content": [{ "type": "input_text", "text": "c" }] },
        ]);
        assert_eq!(read_messages(output).unwrap().len(), 7, "each keeps its place");
        let refused =
            |item: Value| read_messages(json!([{ "role": "user", "content": "a" }, item])).unwrap_err().message;
        for reference in [json!({ "type": "item_reference", "id": "msg_1" }), json!({ "id": "msg_1" })] {
            let message = refused(reference);
            assert!(message.contains("`input[1]` refers") && message.contains("store: false"), "{message}");
        }
        for (item, place) in [
            (json!({ "role": "robot", "content": "a" }), "`input[1].role`"),
            (json!({ "role": "user", "content": 7 }), "`input[1].content`"),
            (json!({ "role": "user", "content": [{ "text": "a" }] }), "`input[1].content[0]`"),
            (json!({ "content": "a" }), "`input[1]`"),
            (json!(7), "`input[1]`"),
        ] {
            let message = refused(item);
            assert!(message.contains(place) && !message.contains("variant"), "{message}");
        }
    }
}
