//! A chat model behind any endpoint that speaks OpenAI's
//! `/v1/chat/completions`: OpenAI, vLLM, llama.cpp's server, Ollama, Ray
//! Serve LLM and most gateways.
//!
//! Use it for judges and generators that do not fit into this process. Models
//! differ in which parameters they accept; `omit` leaves some out and `extra`
//! adds others. Without `base_url` it is OpenAI's own endpoint, with the key in
//! `OPENAI_API_KEY`. If a refusal names a newer part of the protocol, the request
//! is sent again without that part.

use super::{
    http::{Conventions, DefaultEndpoint},
    protocol::{Differences, Protocol},
    remote_chat::{ChatProvider, preset},
};

pub(crate) const VERSION: u32 = 1;

preset! {
    OpenAiCompatible: ChatProvider {
        name: "openai",
        base_url: "",
        api_key_env: None,
        context_length: 32_768,
        conventions: Conventions { default_endpoint: Some(DefaultEndpoint::OPENAI), ..Conventions::DEFAULT },
        protocol: Protocol::OpenAi(Differences::NONE),
    }
}

#[cfg(test)]
#[path = "chat_openai_tests.rs"]
mod tests;

#[cfg(test)]
mod stream_tests;
