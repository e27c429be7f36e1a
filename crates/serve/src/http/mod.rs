//! HTTP below the routes: connections, TLS, bodies, and server-sent events.

mod client_stream;
mod time_limits;

pub(crate) mod body;
pub(crate) mod connection;
pub(crate) mod extensions;
pub(crate) mod sse;
pub(crate) mod tls;
