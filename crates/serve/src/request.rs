//! Reading requests, with errors in OpenAI's shape.

use crate::{Service, error::ApiError};
use axum::{
    body::{Bytes, HttpBody},
    extract::{FromRequest, FromRequestParts, Path, Query, Request},
    http::{StatusCode, Version, header, request::Parts},
};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Frame, SizeHint};
use models::{Message, Role};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

/// A body of JSON.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Arc<Service>> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, service: &Arc<Service>) -> Result<Self, ApiError> {
        let kind =
            request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if kind != "application/json" && !kind.ends_with("+json") {
            return Err(not_json());
        }
        let bytes = bytes(service, request).await?;
        let parsed = serde_json::from_slice(&bytes);
        parsed.map(Self).map_err(|error| ApiError::invalid(format!("the body is not what is expected: {error}")))
    }
}

/// Refuses a body that is no JSON. A form of any web page can send other kinds
/// from a visitor's browser.
pub(crate) fn not_json() -> ApiError {
    ApiError::invalid("the body must be JSON: send `Content-Type: application/json`")
        .with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type")
}

/// A body that tells whether something of it was left unread.
struct Watched {
    body: axum::body::Body,
    unread: Arc<AtomicBool>,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(frame, Poll::Ready(None)) || frame.is_ready() && self.body.is_end_stream() {
            self.unread.store(false, Relaxed);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A request whose body tells whether something of it was left unread, if it has
/// one and its connection is its own until it has ended.
pub(crate) fn watched(request: Request) -> (Request, Option<Arc<AtomicBool>>) {
    if request.body().is_end_stream() || request.version() > Version::HTTP_11 {
        return (request, None);
    }
    let unread = Arc::new(AtomicBool::new(true));
    let told = unread.clone();
    (request.map(|body| axum::body::Body::new(Watched { body, unread })), Some(told))
}

/// The bytes of a body, within the limits of size and time.
pub(crate) async fn bytes(service: &Arc<Service>, request: Request) -> Result<Bytes, ApiError> {
    let (most, reading) = (service.settings.body_bytes, service.settings.reading);
    let too_large = || {
        ApiError::invalid(format!("the body is larger than {most} bytes"))
            .with_status(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large")
    };
    let body = Limited::new(request.into_body(), most);
    match tokio::time::timeout(reading, body.collect()).await {
        Err(_) => Err(ApiError::invalid(format!("the body did not come within {reading:?}"))
            .with_status(StatusCode::REQUEST_TIMEOUT, "request_timeout")),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(error)) => Err(ApiError::invalid(format!("the body cannot be read: {error}"))),
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
    }
}

/// The id at the end of a path.
pub(crate) struct Id(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let found = Path::<String>::from_request_parts(parts, state).await;
        found.map(|Path(id)| Self(id)).map_err(|rejection| ApiError::invalid(rejection.body_text()))
    }
}

/// The query of a URL.
pub(crate) struct Parameters<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Parameters<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let parsed = Query::<T>::from_request_parts(parts, state).await;
        parsed.map(|Query(query)| Self(query)).map_err(|rejection| ApiError::invalid(rejection.body_text()))
    }
}

/// The address that links begin with.
pub(crate) struct Base(pub(crate) String);

impl FromRequestParts<Arc<Service>> for Base {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, ApiError> {
        if let Some(url) = &service.settings.public_url {
            return Ok(Self(url.trim_end_matches('/').to_owned()));
        }
        let host = parts.uri.authority().map(ToString::to_string);
        let host = host.or_else(|| Some(parts.headers.get(header::HOST)?.to_str().ok()?.to_owned()));
        let scheme = if service.is_tls { "https" } else { "http" };
        Ok(Self(host.map(|host| format!("{scheme}://{host}")).unwrap_or_default()))
    }
}

/// `true`, `false`, `1` or `0`.
pub(crate) fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    match text.as_deref().map(str::to_ascii_lowercase).as_deref() {
        None => Ok(None),
        Some("true" | "1") => Ok(Some(true)),
        Some("false" | "0") => Ok(Some(false)),
        Some(other) => Err(serde::de::Error::custom(format!("`{other}` is neither true nor false"))),
    }
}

/// A question that can be asked.
pub(crate) fn question(service: &Service, text: &str, parameter: &'static str) -> Result<String, ApiError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(ApiError::invalid("the question is empty").of_parameter(parameter));
    }
    let (length, most) = (text.chars().count(), service.settings.question_characters);
    if length > most {
        let reason = format!("the question has {length} characters; at most {most} are taken");
        return Err(ApiError::invalid(reason).of_parameter(parameter));
    }
    Ok(text.to_owned())
}

/// How many passages are wanted.
pub(crate) fn at_most(top_k: Option<usize>) -> Result<usize, ApiError> {
    match top_k {
        None => Ok(usize::MAX),
        Some(1..=100) => Ok(top_k.unwrap_or_default()),
        Some(_) => Err(ApiError::invalid("top_k must be 1 to 100").of_parameter("top_k")),
    }
}

/// A message of a conversation.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ChatMessage {
    role: ChatRole,
    /// Its text, or parts of it.
    #[serde(default)]
    content: Option<Content>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ChatRole {
    System,
    Developer,
    User,
    Assistant,
    Tool,
    Function,
}

/// The text of a message, whole or in parts.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Part {
    /// `text`, `input_text` or `output_text`.
    r#type: String,
    #[serde(default)]
    text: Option<String>,
}

impl Content {
    fn text(&self) -> Result<String, ApiError> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::Parts(parts) => {
                let part = |part: &Part| match (part.r#type.as_str(), &part.text) {
                    ("text" | "input_text" | "output_text", Some(text)) => Ok(text.clone()),
                    (kind, _) => {
                        Err(ApiError::invalid(format!("a message has a part of type `{kind}`; only text can be asked"))
                            .of_parameter("messages"))
                    }
                };
                Ok(parts.iter().map(part).collect::<Result<Vec<_>, _>>()?.join("\n"))
            }
        }
    }
}

/// The most messages of a conversation.
pub(crate) const MESSAGES: usize = 1000;
/// The most bytes of all that was said before the question.
pub(crate) const HISTORY_BYTES: usize = 256 << 10;

/// The question of a conversation, and what was said before it. What a system
/// said is left out: the pipeline has instructions of its own.
pub(crate) fn conversation(
    service: &Service,
    messages: &[ChatMessage],
    parameter: &'static str,
) -> Result<(String, Vec<Message>), ApiError> {
    if messages.len() > MESSAGES {
        let reason = format!("the conversation has {} messages; at most {MESSAGES} are taken", messages.len());
        return Err(ApiError::invalid(reason).of_parameter(parameter));
    }
    let last = messages.iter().rposition(|message| message.role == ChatRole::User);
    let last =
        last.ok_or_else(|| ApiError::invalid("there is no message of `user`, so no question").of_parameter(parameter))?;
    let text = |message: &ChatMessage| message.content.as_ref().map_or(Ok(String::new()), Content::text);
    let asked = question(service, &text(&messages[last])?, parameter)?;
    let mut history = Vec::new();
    for message in &messages[..last] {
        let role = match message.role {
            ChatRole::User => Role::User,
            ChatRole::Assistant => Role::Assistant,
            ChatRole::System | ChatRole::Developer | ChatRole::Tool | ChatRole::Function => continue,
        };
        history.push(Message { role, content: text(message)? });
    }
    let bytes: usize = history.iter().map(|message| message.content.len()).sum();
    if bytes > HISTORY_BYTES {
        let reason = format!(
            "the messages before the question have {bytes} bytes; at most {HISTORY_BYTES} are taken: leave out the oldest"
        );
        return Err(ApiError::invalid(reason).of_parameter(parameter));
    }
    Ok((asked, history))
}

/// A conversation of one message of `user`.
pub(crate) fn of_user(text: String) -> ChatMessage {
    ChatMessage { role: ChatRole::User, content: Some(Content::Text(text)) }
}

/// Whether a client asks for what is served.
pub(crate) fn check_model(service: &Service, asked: &str) -> Result<(), ApiError> {
    let served = service.served();
    if asked == served.name {
        return Ok(());
    }
    Err(ApiError::not_found(
        "model_not_found",
        format!("there is no model `{asked}`; this service has `{}`", served.name),
    )
    .of_parameter("model"))
}
