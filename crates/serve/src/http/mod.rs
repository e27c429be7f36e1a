//! HTTP below the routes: connections, TLS, and server-sent events.

mod client_stream;
mod connection;
mod extensions;
mod sse;
mod time_limits;
mod tls;

pub use {
    connection::DrainOutcome,
    sse::event_stream,
    tls::{TlsError, tls_acceptor},
};
pub(crate) use {
    connection::serve_connections,
    extensions::{CallerName, ClientAddress, RequestId, RequestSpan, header_text, media_type},
    sse::{send_chunks, send_named},
};
