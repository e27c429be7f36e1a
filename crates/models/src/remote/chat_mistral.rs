//! Models at Mistral, whose API is OpenAI's but for its name of the seed; it
//! refuses parameters that it does not know, and tells no probabilities of
//! tokens.

use super::{
    http::Conventions,
    protocol::{Differences, Protocol},
    remote_chat::{ChatProvider, preset},
};

pub(crate) const VERSION: u32 = 1;

preset! {
    Mistral: ChatProvider {
        name: "mistral",
        base_url: "https://api.mistral.ai/v1",
        api_key_env: Some("MISTRAL_API_KEY"),
        context_length: 128_000,
        conventions: Conventions::DEFAULT,
        protocol: Protocol::OpenAi(Differences {
            seed: "random_seed",
            tells_probabilities: false,
            ..Differences::NONE
        }),
    }
}
