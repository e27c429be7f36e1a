//! Models at Cohere, through its Compatibility API: OpenAI's protocol but for
//! the form of a schema, and without the probabilities of tokens.

use super::{
    http::Conventions,
    protocol::{Differences, Protocol, SchemaForm},
    remote_chat::{ChatProvider, preset},
};

pub(crate) const VERSION: u32 = 1;

preset! {
    Cohere: ChatProvider {
        name: "cohere",
        base_url: "https://api.cohere.ai/compatibility/v1",
        api_key_env: Some("COHERE_API_KEY"),
        context_length: 128_000,
        conventions: Conventions::DEFAULT,
        protocol: Protocol::OpenAi(Differences {
            schema: SchemaForm::JsonObject,
            tells_probabilities: false,
            ..Differences::NONE
        }),
    }
}
