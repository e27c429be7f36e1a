//! Claude models at Anthropic, or at whatever speaks its Messages API:
//! `/messages` with the key in `x-api-key`.
//!
//! Schemas need a model of late 2025 or newer. An older one refuses them, and
//! then the schema is written into the prompt; with
//! `omit = ["response_format"]` it is there from the first call. Newer models
//! refuse some of the sampling parameters: `omit` those too. There is no seed
//! and there are no probabilities of tokens.

use super::{
    http::Conventions,
    protocol::{Extra, GenaiProtocol, Protocol, Translation},
    remote_chat::{ChatProvider, preset},
};

pub(crate) const VERSION: u32 = 1;

preset! {
    Anthropic: ChatProvider {
        name: "anthropic",
        base_url: "https://api.anthropic.com/v1",
        api_key_env: Some("ANTHROPIC_API_KEY"),
        context_length: 200_000,
        conventions: Conventions {
            key_header: Some("x-api-key"),
            headers: &[("anthropic-version", "2023-06-01")],
            ..Conventions::DEFAULT
        },
        protocol: Protocol::Translated(Translation {
            protocol: GenaiProtocol::Anthropic,
            path: |_| "messages".to_owned(),
            stream_path: |_| "messages".to_owned(),
            takes_schema: true,
            extra: Extra::AllBut(&["messages", "system", "output_config"]),
        }),
    }
}
