//! The parts of the protocol that an endpoint does not accept: those that the settings leave out, and those that the
//! endpoint refused. Servers that speak OpenAI's protocol differ in its newer parts, and show that only by refusing.
//! A refusal is free, so the same request is sent again at once in another form, and later requests begin with that
//! form.

use crate::{ChatRequest, remote::refusal::refuses_schema};

pub(super) const OLD_LIMIT: &str = "max_tokens";
pub(super) const NEW_LIMIT: &str = "max_completion_tokens";

/// The form of requests to an endpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Dialect {
    /// The endpoint wants the newer name of the token limit.
    pub(super) new_limit: bool,
    /// The parameter that asks for the counts of a stream is refused.
    pub(super) no_stream_options: bool,
    /// Streams are refused.
    pub(super) no_streams: bool,
    /// Schemas are refused, so they go into the instructions.
    pub(super) no_schema: bool,
}

/// A lesson from a refusal.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lesson {
    /// How to ask again.
    pub(super) dialect: Dialect,
    /// Whether it also holds for later requests.
    pub(super) lasts: bool,
}

impl Dialect {
    /// How to ask again after a request in this dialect was refused with this
    /// message; none if it was refused for another reason. A lesson is learned
    /// only once, so asking again comes to an end.
    pub(super) fn after(self, message: &str, request: &ChatRequest, streams: bool) -> Option<Lesson> {
        let has = |words: &str| message.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == words);
        let learned = |dialect| Some(Lesson { dialect, lasts: true });
        if !self.new_limit && has(OLD_LIMIT) && has(NEW_LIMIT) {
            return learned(Self { new_limit: true, ..self });
        }
        if streams && !self.no_stream_options && (has("stream_options") || has("include_usage")) {
            return learned(Self { no_stream_options: true, ..self });
        }
        if request.schema.is_some()
            && !self.no_schema
            && let Some(lasts) = refuses_schema(message)
        {
            return Some(Lesson { dialect: Self { no_schema: true, ..self }, lasts });
        }
        if streams && !self.no_streams && (has("stream") || has("streaming")) {
            return learned(Self { no_streams: true, ..self });
        }
        None
    }

    /// The lessons of both dialects.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            new_limit: self.new_limit || other.new_limit,
            no_stream_options: self.no_stream_options || other.no_stream_options,
            no_streams: self.no_streams || other.no_streams,
            no_schema: self.no_schema || other.no_schema,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Message, Role, schema};
    use serde_json::{Value, json};

    fn request(schema: Option<Value>) -> ChatRequest {
        ChatRequest { schema, ..ChatRequest::new(vec![Message::user("hi")], 8) }
    }

    #[test]
    fn a_refusal_that_names_a_part_is_learned_from_once() {
        let schema = request(Some(json!({ "type": "object" })));
        let plain = Dialect::default();
        let cases = [
            (
                "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
                Dialect { new_limit: true, ..plain },
            ),
            ("Unknown field: stream_options", Dialect { no_stream_options: true, ..plain }),
            ("Your organization must be verified to stream this model.", Dialect { no_streams: true, ..plain }),
            ("This response_format type is unavailable now", Dialect { no_schema: true, ..plain }),
            ("This model does not support response format `json_schema`.", Dialect { no_schema: true, ..plain }),
            ("Structured outputs are not supported by this engine.", Dialect { no_schema: true, ..plain }),
        ];
        for (message, dialect) in cases {
            assert_eq!(plain.after(message, &schema, true), Some(Lesson { dialect, lasts: true }), "{message}");
            assert_eq!(dialect.after(message, &schema, true), None, "{message}");
        }
        let invalid = "Invalid schema for response_format 'answer': 'required' is missing.";
        assert!(plain.after(invalid, &schema, false).is_some_and(|lesson| !lesson.lasts && lesson.dialect.no_schema));
    }

    #[test]
    fn other_refusals_teach_nothing() {
        let plain = Dialect::default();
        for message in ["max_tokens is too large", "the upstream failed", "no such model", ""] {
            assert_eq!(plain.after(message, &request(None), true), None, "{message}");
        }
        let message = "stream_options and response_format are not known";
        assert_eq!(plain.after(message, &request(None), false), None, "neither was sent");
    }

    #[test]
    fn a_schema_that_is_refused_stands_in_the_instructions() {
        let mut request = request(Some(json!({ "type": "object" })));
        let messages = schema::messages(&request, true);
        assert_eq!((messages.len(), messages[0].role), (2, Role::System));
        request.messages.insert(0, Message::system("Be short."));
        let messages = schema::messages(&request, true);
        let content = &messages[0].content;
        assert!(content.starts_with("Be short.\n\n") && content.ends_with(r#"{"type":"object"}"#), "{content}");
        assert_eq!(schema::messages(&request, false)[0].content, "Be short.");
        assert_eq!(messages.len(), 2);
    }
}
