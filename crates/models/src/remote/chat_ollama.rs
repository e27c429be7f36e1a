//! Models of an Ollama server, through its OpenAI-compatible API. No key, but
//! `api_key_env = "OLLAMA_API_KEY"` for `https://ollama.com/v1`.
//!
//! A prompt that does not fit is cut without a word, so `context_length` must
//! be the server's own: what its `OLLAMA_CONTEXT_LENGTH` says, 4096 where
//! nothing is said.

use super::{
    http::Conventions,
    protocol::{Differences, Protocol},
    remote_chat::{ChatProvider, preset},
};

pub(crate) const VERSION: u32 = 1;

preset! {
    Ollama: ChatProvider {
        name: "ollama",
        base_url: "http://127.0.0.1:11434/v1",
        api_key_env: None,
        context_length: 4096,
        conventions: Conventions::DEFAULT,
        protocol: Protocol::OpenAi(Differences::NONE),
    }
}
