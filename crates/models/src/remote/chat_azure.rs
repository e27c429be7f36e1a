//! Models deployed at Azure OpenAI, with the key in `api-key`. `model` is the
//! name of the deployment.
//!
//! The address of the current API is `https://RESOURCE.openai.azure.com/openai/v1`.
//! The dated one takes its version as a parameter: `base_url =
//! "https://RESOURCE.openai.azure.com/openai/deployments/DEPLOYMENT"` with
//! `query = { api-version = "2024-10-21" }`.

use super::{
    http::Conventions,
    protocol::{Differences, Protocol},
    remote_chat::{ChatProvider, preset},
};

pub(crate) const VERSION: u32 = 1;

preset! {
    Azure: ChatProvider {
        name: "azure",
        base_url: "",
        api_key_env: Some("AZURE_OPENAI_API_KEY"),
        context_length: 128_000,
        conventions: Conventions {
            example: "https://RESOURCE.openai.azure.com/openai/v1",
            key_header: Some("api-key"),
            ..Conventions::DEFAULT
        },
        protocol: Protocol::OpenAi(Differences::NONE),
    }
}
