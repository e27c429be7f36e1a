//! The HTTP service: answers questions with sources from one pipeline, over OpenAI's
//! API and its own. It neither uses a terminal nor reads environment variables; the
//! command line and the Python package start it.
//!
//! A request passes, in this order: the limits of connections ([`http`]), request id,
//! metrics and access ([`middleware`]), its handler ([`routes`]), admission, the
//! deadline and the lanes ([`answering`]), the pipeline. Modules are listed below in
//! the order of their imports: each uses only those above it.

mod error;

mod access;
mod telemetry;

mod settings;

mod http;

mod answering;
mod sampling;

mod service;

mod middleware;

mod guarded;
mod routes;

mod server;

pub use access::{ApiKeys, KeyEntry, KeyFile, KeyFileError, KeyScope, OriginError, PageOrigin, create_key};
pub use answering::ServedPipeline;
pub use guarded::{GuardedRoutes, caller_name, serve_guarded};
pub use http::{DrainOutcome, TlsError, event_stream, tls_acceptor};
pub use server::{MountedService, StopSignals};
pub use service::HttpService;
pub use settings::{SampleSettings, ServiceSettings, interactive_retry_policy};
pub use telemetry::{LineLog, ParentSpan, SpanCounts};
