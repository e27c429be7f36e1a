//! Reads the question and its conversation out of a request, and checks them.

use crate::{error::ApiError, service::HttpService};
use models::{Message, Role};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;
use std::fmt;

/// Refuses a `tool_choice` that requires a call of a tool. The pipeline calls none, so
/// the client would wait for the call, and repeat its request for ever.
pub(crate) fn check_tool_choice(choice: Option<&Value>, parameter: &'static str) -> Result<(), ApiError> {
    let is_free = match choice {
        None | Some(Value::Null) => true,
        Some(Value::String(word)) => word != "required" && word != "any",
        Some(Value::Object(choice)) => match choice.get("type").and_then(Value::as_str) {
            // Every answer searches, which `/v1/responses` calls `file_search`.
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
    Err(ApiError::invalid(reason).with_parameter(parameter))
}

/// Checks and trims a question.
pub(crate) fn check_question(service: &HttpService, text: &str, parameter: &'static str) -> Result<String, ApiError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(ApiError::invalid("the question is empty").with_parameter(parameter));
    }
    let (length, most) = (text.chars().count(), service.settings.question_characters);
    if length > most {
        let reason = format!("the question has {length} characters; at most {most} are allowed");
        return Err(ApiError::invalid(reason).with_parameter(parameter));
    }
    Ok(text.to_owned())
}

/// The most passages to find; without `top_k`, as many as the pipeline finds.
pub(crate) fn check_top_k(top_k: Option<usize>) -> Result<usize, ApiError> {
    match top_k {
        None => Ok(usize::MAX),
        Some(top_k @ 1..=100) => Ok(top_k),
        Some(_) => Err(ApiError::invalid("top_k must be 1 to 100").with_parameter("top_k")),
    }
}

/// A message of a conversation.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ChatMessage {
    role: ChatRole,
    /// Its text, or parts of it.
    #[serde(default)]
    content: Option<MessageContent>,
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
enum MessageContent {
    Text(String),
    Parts(Vec<ContentPart>),
}

impl<'de> Deserialize<'de> for MessageContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = MessageContent;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or a list of parts such as {\"type\": \"text\", \"text\": …}")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<MessageContent, E> {
                Ok(MessageContent::Text(text.to_owned()))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, list: A) -> Result<MessageContent, A::Error> {
                Vec::deserialize(de::value::SeqAccessDeserializer::new(list)).map(MessageContent::Parts)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ContentPart {
    /// `text`, `input_text` or `output_text`; `refusal` of an earlier answer is left out.
    r#type: String,
    #[serde(default)]
    text: Option<String>,
}

impl MessageContent {
    /// The text of a message. `place` is its path in the body, for errors.
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
                    return Err(ApiError::invalid(reason).with_parameter(place));
                }
            }
        }
        Ok(texts.join("\n"))
    }
}

/// The most messages of a conversation.
const MAX_MESSAGES: usize = 1000;
/// The most bytes of the messages before the question.
const MAX_HISTORY_BYTES: usize = 256 << 10;

/// Splits a conversation into its question (the last message of `user`) and the
/// messages before it. Messages of `system` are left out, because the pipeline has its
/// own instructions.
pub(crate) fn split_conversation(
    service: &HttpService,
    messages: &[ChatMessage],
    parameter: &'static str,
) -> Result<(String, Vec<Message>), ApiError> {
    if messages.len() > MAX_MESSAGES {
        let reason = format!("the conversation has {} messages; at most {MAX_MESSAGES} are allowed", messages.len());
        return Err(ApiError::invalid(reason).with_parameter(parameter));
    }
    let last = messages.iter().rposition(|message| message.role == ChatRole::User);
    let last = last
        .ok_or_else(|| ApiError::invalid("there is no message of `user`, so no question").with_parameter(parameter))?;
    let text = |at: usize| {
        let content = messages[at].content.as_ref();
        content.map_or(Ok(String::new()), |content| content.text(|| format!("{parameter}[{at}]")))
    };
    let question = check_question(service, &text(last)?, parameter)?;
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
    if bytes > MAX_HISTORY_BYTES {
        let reason = format!(
            "the messages before the question have {bytes} bytes; at most {MAX_HISTORY_BYTES} are allowed: leave out the oldest"
        );
        return Err(ApiError::invalid(reason).with_parameter(parameter));
    }
    Ok((question, history))
}

/// Stands for a skipped item, so that errors name the others by their index.
pub(crate) fn skipped_message() -> ChatMessage {
    ChatMessage { role: ChatRole::Tool, content: None }
}

/// A message of `user`.
pub(crate) fn user_message(text: String) -> ChatMessage {
    ChatMessage { role: ChatRole::User, content: Some(MessageContent::Text(text)) }
}

/// Checks that `model` names the served pipeline.
pub(crate) fn check_model(service: &HttpService, model: &str) -> Result<(), ApiError> {
    let served = service.served();
    if model == served.name {
        return Ok(());
    }
    Err(ApiError::not_found(
        "model_not_found",
        format!("there is no model `{model}`; this service has `{}`", served.name),
    )
    .with_parameter("model"))
}
