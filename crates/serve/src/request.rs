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
use serde::{Deserialize, Deserializer, de, de::DeserializeOwned};
use serde_json::Value;
use std::{
    fmt,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

/// A body of JSON.
pub(crate) struct Body<T>(pub(crate) T);

/// A body of so many bytes is read in less than a millisecond; a longer one is
/// read on a thread of its own.
const QUICK_BYTES: usize = 32 << 10;

impl<T: DeserializeOwned + Send + 'static> FromRequest<Arc<Service>> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, service: &Arc<Service>) -> Result<Self, ApiError> {
        let kind =
            request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if kind != "application/json" && !kind.ends_with("+json") {
            return Err(not_json());
        }
        let bytes = bytes(service, request).await?;
        let n_bytes = bytes.len();
        off_thread(n_bytes, move || parsed(&bytes)).await.map(Self)
    }
}

/// Does work that grows with so many bytes, on a thread of its own if they are
/// many.
pub(crate) async fn off_thread<T: Send + 'static>(
    n_bytes: usize,
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    if n_bytes <= QUICK_BYTES {
        return work();
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) if error.is_panic() => Err(ApiError::panicked(&*error.into_panic())),
        Err(error) => Err(ApiError::internal(error.to_string())),
    }
}

fn parsed<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let mut body = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut body).map_err(|error| unreadable("", &error))?;
    body.end().map_err(|error| ApiError::invalid(format!("the body is not one value of JSON: {error}")))?;
    Ok(parsed)
}

/// Refuses a body that is no JSON. A form of any web page can send other kinds
/// from a visitor's browser.
pub(crate) fn not_json() -> ApiError {
    ApiError::invalid("the body must be JSON: send `Content-Type: application/json`")
        .with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type")
}

/// A part of a body, which is at this place in it.
pub(crate) fn read<T: DeserializeOwned>(value: Value, place: &str) -> Result<T, ApiError> {
    serde_path_to_error::deserialize(value).map_err(|error| unreadable(place, &error))
}

/// What cannot be read, with the field and the index at which it is.
fn unreadable(place: &str, error: &serde_path_to_error::Error<serde_json::Error>) -> ApiError {
    let path = match error.path().to_string() {
        path if path == "." => place.to_owned(),
        path if place.is_empty() => path,
        path if path.starts_with('[') => format!("{place}{path}"),
        path => format!("{place}.{path}"),
    };
    let is_syntax = error.inner().is_syntax() || error.inner().is_eof();
    let reason = error.inner().to_string();
    // The line of a body is of use only where no field can be named.
    let reason = match reason.rsplit_once(" at line ") {
        Some((reason, _)) if !is_syntax && !path.is_empty() => reason,
        _ => &reason,
    };
    let mut reason = reason.replace("unknown variant", "unknown value");
    // The names of types mean nothing to a client.
    if let Some((said, _)) = reason.split_once("expected struct ") {
        reason = format!("{said}expected an object");
    }
    if is_syntax {
        return ApiError::invalid(format!("the body is not JSON: {reason}"));
    }
    if path.is_empty() {
        return ApiError::invalid(format!("the body is not what is expected: {reason}"));
    }
    ApiError::invalid(format!("`{path}` is not what is expected: {reason}")).of_parameter(path)
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
    bytes_within(service, request, service.settings.body_bytes).await
}

/// The same with a limit of its own, if that is less than the service's.
pub(crate) async fn bytes_within(service: &Arc<Service>, request: Request, most: usize) -> Result<Bytes, ApiError> {
    let (most, reading) = (most.min(service.settings.body_bytes), service.settings.reading);
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
#[derive(Debug, Clone)]
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

/// A whole number, also as `3.0`, which JSON Schema calls an integer.
pub(crate) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    struct Number;
    impl de::Visitor<'_> for Number {
        type Value = usize;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a whole number from 0 on")
        }

        fn visit_u64<E: de::Error>(self, number: u64) -> Result<usize, E> {
            usize::try_from(number).map_err(|_| E::invalid_value(de::Unexpected::Unsigned(number), &self))
        }

        fn visit_f64<E: de::Error>(self, number: f64) -> Result<usize, E> {
            // Numbers from 2⁵³ on are not all whole numbers of their own.
            let is_whole = number.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(&number);
            if is_whole { Ok(number as usize) } else { Err(E::invalid_value(de::Unexpected::Float(number), &self)) }
        }
    }
    struct Optional;
    impl<'de> de::Visitor<'de> for Optional {
        type Value = Option<usize>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            de::Visitor::expecting(&Number, f)
        }

        fn visit_none<E: de::Error>(self) -> Result<Option<usize>, E> {
            Ok(None)
        }

        fn visit_unit<E: de::Error>(self) -> Result<Option<usize>, E> {
            Ok(None)
        }

        fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<usize>, D::Error> {
            deserializer.deserialize_any(Number).map(Some)
        }
    }
    deserializer.deserialize_option(Optional)
}

/// Refuses a wish that the pipeline call a tool: it calls none, and a client
/// that waits for a call would ask again and again.
pub(crate) fn check_tool_choice(choice: Option<&Value>, parameter: &'static str) -> Result<(), ApiError> {
    let is_free = match choice {
        None | Some(Value::Null) => true,
        Some(Value::String(word)) => word != "required" && word != "any",
        Some(Value::Object(choice)) => match choice.get("type").and_then(Value::as_str) {
            // The search of `/v1/responses` is that of every answer.
            Some("file_search" | "auto" | "none") => true,
            Some("allowed_tools") => {
                let mode = choice.get("mode").or_else(|| choice.get("allowed_tools")?.get("mode"));
                mode.and_then(Value::as_str) != Some("required")
            }
            _ => false,
        },
        Some(_) => false,
    };
    if is_free {
        return Ok(());
    }
    let reason = format!(
        "{parameter} must be `auto` or `none`: the pipeline calls no tools, its answers are texts with citations"
    );
    Err(ApiError::invalid(reason).of_parameter(parameter))
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
#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum Content {
    Text(String),
    Parts(Vec<Part>),
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Content;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or a list of parts such as {\"type\": \"text\", \"text\": …}")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Content, E> {
                Ok(Content::Text(text.to_owned()))
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<Content, E> {
                Ok(Content::Text(text))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, list: A) -> Result<Content, A::Error> {
                Vec::deserialize(de::value::SeqAccessDeserializer::new(list)).map(Content::Parts)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Part {
    /// `text`, `input_text` or `output_text`; `refusal` of an earlier answer is left out.
    r#type: String,
    #[serde(default)]
    text: Option<String>,
}

impl Content {
    /// The text of the message at this place.
    fn text(&self, place: impl Fn() -> String) -> Result<String, ApiError> {
        let parts = match self {
            Self::Text(text) => return Ok(text.clone()),
            Self::Parts(parts) => parts,
        };
        let mut texts = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            match (part.r#type.as_str(), &part.text) {
                ("text" | "input_text" | "output_text", Some(text)) => texts.push(text.as_str()),
                ("refusal", _) => {}
                (kind, _) => {
                    let place = format!("{}.content[{at}]", place());
                    let reason = match kind {
                        "text" | "input_text" | "output_text" => format!("`{place}` has no `text`"),
                        kind => format!("`{place}` is of type `{kind}`; only text can be asked"),
                    };
                    return Err(ApiError::invalid(reason).of_parameter(place));
                }
            }
        }
        Ok(texts.join("\n"))
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
    let text = |at: usize| {
        let content = messages[at].content.as_ref();
        content.map_or(Ok(String::new()), |content| content.text(|| format!("{parameter}[{at}]")))
    };
    let asked = question(service, &text(last)?, parameter)?;
    let mut history = Vec::new();
    for (at, message) in messages[..last].iter().enumerate() {
        let role = match message.role {
            ChatRole::User => Role::User,
            ChatRole::Assistant => Role::Assistant,
            ChatRole::System | ChatRole::Developer | ChatRole::Tool | ChatRole::Function => continue,
        };
        history.push(Message { role, content: text(at)? });
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

/// In the place of an item that is no part of the conversation.
pub(crate) fn left_out() -> ChatMessage {
    ChatMessage { role: ChatRole::Tool, content: None }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::{ThreadId, current};

    #[tokio::test]
    async fn a_body_above_32_kib_is_read_on_another_thread() {
        async fn reader(n_bytes: usize) -> ThreadId {
            off_thread(n_bytes, || Ok(current().id())).await.expect("its thread")
        }
        let here = current().id();
        assert_eq!([reader(0).await, reader(QUICK_BYTES).await], [here, here]);
        assert_ne!(reader(QUICK_BYTES + 1).await, here);
        let failed = off_thread(QUICK_BYTES + 1, || -> Result<(), ApiError> { panic!("a mistake") }).await;
        assert_eq!(failed.expect_err("it panicked").status, StatusCode::INTERNAL_SERVER_ERROR);
    }
}
