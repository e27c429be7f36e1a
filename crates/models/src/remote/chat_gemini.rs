//! Gemini models at Google's Gemini API (AI Studio, not Vertex):
//! `/models/<model>:generateContent` with the key in `x-goog-api-key`.
//!
//! Models that think first do so within `max_tokens`; `extra =
//! { reasoning_effort = 0 }` or another number of tokens, or a word such as
//! `low`, bounds that. There are no probabilities of tokens.

use super::{
    http::{Conventions, path_segment},
    protocol::{Extra, GenaiProtocol, Protocol, Translation},
    remote_chat::{ChatProvider, preset},
};

pub(crate) const VERSION: u32 = 1;

preset! {
    Gemini: ChatProvider {
        name: "gemini",
        base_url: "https://generativelanguage.googleapis.com/v1beta",
        api_key_env: Some("GEMINI_API_KEY"),
        context_length: 1_048_576,
        conventions: Conventions { key_header: Some("x-goog-api-key"), ..Conventions::DEFAULT },
        protocol: Protocol::Translated(Translation {
            protocol: GenaiProtocol::Gemini,
            path: |model| format!("models/{}:generateContent", path_segment(model)),
            stream_path: |model| format!("models/{}:streamGenerateContent?alt=sse", path_segment(model)),
            takes_schema: true,
            extra: Extra::AllBut(&["contents", "systemInstruction", "generationConfig"]),
        }),
    }
}
