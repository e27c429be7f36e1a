//! Models behind endpoints: all code that speaks HTTP to them.
//!
//! `endpoint` is what all models here share; `http` sends requests and classifies the answers, `rate_headers` reads the
//! limits that answers announce, `refusal` interprets refusals. `functions`
//! knows where functions of this program are served as models. `protocol` speaks the protocols of chat providers, and
//! `remote_chat` is the model with settings that all of them share. `service` calls programs that are no models.

use crate::provider::{every_provider, modules};

mod batch;
mod endpoint;
mod functions;
mod http;
mod protocol;
mod rate_headers;
mod refusal;
mod remote_chat;
mod service;

pub use functions::ServedFunction;
pub(crate) use functions::is_function;
pub use http::lacks_tls;
pub use service::{JsonEndpoint, JsonEndpointSettings};

every_provider!(modules remote);

/// Where the models of this folder compute.
pub(crate) const PLACE: crate::ModelPlace = crate::ModelPlace::Remote;

#[cfg(test)]
/// Helper functions that tests of other modules use.
pub(crate) mod testing {
    pub(crate) use super::http::tests::{Bench, context, part_by_part};
}
