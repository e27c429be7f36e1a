//! HTTP below the routes: connections, TLS, and server-sent events.

mod client_stream;
mod connection;
mod extensions;
mod sse;
mod time_limits;
mod tls;

pub use {
    connection::DrainOutcome,
    tls::{TlsError, tls_acceptor},
};
pub(crate) use {
    connection::{ConnectionLimits, serve_connections},
    extensions::{CallerName, ClientAddress, RequestId, RequestSpan},
    sse::{send_chunks, send_named},
};
