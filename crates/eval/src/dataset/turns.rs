//! Reads the earlier messages of a conversation: a list of messages with role and
//! content.
//!
//! | meaning | names |
//! |---|---|
//! | role | `role`, `type` (LangChain, Ragas), `speaker` (MTRAG) |
//! | content | `content`, `text` (MTRAG) |
//! | user | `user`, `human` |
//! | assistant | `assistant`, `ai`, `agent` |
//! | system | `system` |
//!
//! In a cell of a table the list is JSON.

use models::{Message, Role};
use serde_json::Value;

const SHAPE: &str = "write [{\"role\": \"user\", \"content\": \"…\"}, {\"role\": \"assistant\", \"content\": \"…\"}]";

/// Why earlier messages cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum TurnsError {
    #[error("is not JSON ({0}): {SHAPE}")]
    NotJson(String),
    #[error("is no list: {SHAPE}")]
    NoList,
    #[error("message {number} has the role `{role}`: it must be user, assistant or system")]
    UnknownRole { number: usize, role: String },
    #[error("message {0} has no role: {SHAPE}")]
    NoRole(usize),
    #[error("message {0} says nothing: {SHAPE}")]
    NoContent(usize),
}

/// The messages of a cell.
pub(super) fn read(value: &Value) -> Result<Vec<Message>, TurnsError> {
    let parsed;
    let value = match value {
        Value::String(cell) => {
            parsed = serde_json::from_str(cell).map_err(|error| TurnsError::NotJson(error.to_string()))?;
            &parsed
        }
        value => value,
    };
    let Value::Array(items) = value else { return Err(TurnsError::NoList) };
    (1..).zip(items).map(|(number, item)| message(number, item)).collect()
}

fn message(number: usize, item: &Value) -> Result<Message, TurnsError> {
    let text = |names: &[&str]| names.iter().find_map(|name| item.get(*name)?.as_str()).map(str::trim);
    let role = match text(&["role", "type", "speaker"]).map(str::to_lowercase).as_deref() {
        Some("user" | "human") => Role::User,
        Some("assistant" | "ai" | "agent") => Role::Assistant,
        Some("system") => Role::System,
        Some(role) => return Err(TurnsError::UnknownRole { number, role: role.to_owned() }),
        None => return Err(TurnsError::NoRole(number)),
    };
    match text(&["content", "text"]) {
        Some(content) if !content.is_empty() => Ok(Message { role, content: content.to_owned() }),
        _ => Err(TurnsError::NoContent(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn messages_are_read_as_several_programs_write_them() {
        let expected = vec![Message::user("Who built the mill?"), Message::assistant("Jan Tesch.")];
        for value in [
            json!([{ "role": "user", "content": "Who built the mill?" }, { "role": "assistant", "content": "Jan Tesch." }]),
            json!([{ "type": "human", "content": "Who built the mill?" }, { "type": "ai", "content": "Jan Tesch." }]),
            json!([{ "speaker": "user", "text": "Who built the mill?" }, { "speaker": "agent", "text": "Jan Tesch." }]),
        ] {
            assert_eq!(read(&value), Ok(expected.clone()), "{value}");
            assert_eq!(read(&json!(value.to_string())), Ok(expected.clone()), "a cell of a table");
        }
    }

    #[test]
    fn what_is_no_conversation_is_refused_with_what_to_do() {
        for (value, part) in [
            (json!("hello"), "is not JSON"),
            (json!({}), "is no list"),
            (json!([{ "role": "tool", "content": "x" }]), "message 1 has the role `tool`"),
            (json!([{ "content": "x" }]), "message 1 has no role"),
            (json!([{ "role": "user", "content": " " }]), "says nothing"),
        ] {
            let error = read(&value).expect_err(part).to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
