//! Models of Amazon Bedrock, from whichever publisher, through its Converse
//! API: `/model/<model>/converse`.
//!
//! It takes a Bedrock API key as a bearer token, which the AWS console makes
//! for one region: the address names the region. Signed requests with an
//! access key are not offered. Schemas are written into the prompt; there is no
//! seed and there are no probabilities of tokens.

use super::{
    http::{Conventions, Probe, path_segment},
    protocol::{Extra, GenaiProtocol, Protocol, Translation},
    remote_chat::{ChatProvider, preset},
};

pub(crate) const VERSION: u32 = 1;

preset! {
    Bedrock: ChatProvider {
        name: "bedrock",
        base_url: "https://bedrock-runtime.us-east-1.amazonaws.com",
        api_key_env: Some("AWS_BEARER_TOKEN_BEDROCK"),
        context_length: 128_000,
        conventions: Conventions { probe: Probe::Nonsense(path), ..Conventions::DEFAULT },
        protocol: Protocol::Translated(Translation {
            protocol: GenaiProtocol::BedrockConverse,
            path,
            stream_path: |model| path(model) + "-stream",
            takes_schema: false,
            extra: Extra::Nothing,
        }),
    }
}

/// Names of models have colons, and those of inference profiles slashes.
fn path(model: &str) -> String {
    format!("model/{}/converse", path_segment(model))
}
