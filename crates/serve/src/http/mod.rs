//! HTTP below the routes: connections, TLS, bodies, and server-sent events.

mod body;
mod client_stream;
mod connection;
mod extensions;
mod sse;
mod time_limits;
mod tls;

pub(crate) use {
    body::track_reading,
    connection::{ConnectionLimits, serve_connections},
    extensions::{CallerName, ClientAddress, RequestId, RequestSpan},
    sse::{send_chunks, send_named},
};
pub use {
    connection::DrainOutcome,
    tls::{TlsError, acceptor},
};
