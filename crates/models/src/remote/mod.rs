//! Models behind endpoints: everything that speaks HTTP to one.
//!
//! `endpoint` is what all models here share; `http` sends requests and classifies what comes back, `rate_headers` reads
//! what answers say of limits, `refusal` what refusals mean. `remote_chat` is
//! what all chat providers share; `chat_openai` speaks OpenAI's protocol for
//! those that have it, `translated` the others.

use crate::provider::{every_provider, modules};

mod endpoint;
mod http;
mod rate_headers;
mod refusal;
mod remote_chat;
#[cfg(feature = "providers")]
mod translated;

every_provider!(modules remote);

/// Where the models of this folder compute.
pub(crate) const PLACE: crate::Place = crate::Place::Remote;

#[cfg(test)]
/// What tests elsewhere take from here.
pub(crate) mod testing {
    pub(crate) use super::http::tests::{Bench, context, part_by_part};
}
