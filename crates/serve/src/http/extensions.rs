//! Extensions of a request: added by the connection and by middleware, read by
//! handlers.

use std::{net::IpAddr, sync::Arc};
use tracing::Span;

/// The address of the client's end of the connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientAddress(pub(crate) IpAddr);

/// The id of a request, which its response has as `x-request-id`.
#[derive(Debug, Clone)]
pub(crate) struct RequestId(pub(crate) Arc<str>);

/// The span of a request, for work that a library does in a task of its own.
#[derive(Debug, Clone)]
pub(crate) struct RequestSpan(pub(crate) Span);

/// The name of the key of a request; empty if the request needed no key.
#[derive(Debug, Clone)]
pub(crate) struct CallerName(pub(crate) Arc<str>);
