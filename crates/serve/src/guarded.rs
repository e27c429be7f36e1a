//! Routes of another part of the program, such as the pages of `reverie ui`, behind the protection of a service: limits of
//! connections and bodies, hosts, origins, keys, and headers for browsers.

use crate::{
    access::KeyScope,
    error::ApiError,
    http::{CallerName, DrainOutcome, serve_connections},
    middleware::{add_security_headers, admit},
    settings::ServiceSettings,
    telemetry::Metrics,
};
use axum::{
    Router,
    extract::{DefaultBodyLimit, Request, State},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
};
use std::{any::Any, io, sync::Arc};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;

/// Routes by who may use them.
pub struct GuardedRoutes {
    /// Everybody who reaches the address: the page itself, which asks for a key.
    pub open: Router,
    /// Whoever may ask.
    pub ask: Router,
    /// Whoever may decide about golden questions.
    pub review: Router,
    /// Whoever may steer.
    pub admin: Router,
}

/// The name of the key that a request came with; empty if it needed none.
pub fn caller_name(request: &axum::http::Extensions) -> Arc<str> {
    request.get::<CallerName>().map_or_else(|| Arc::from(""), |name| name.0.clone())
}

/// Serves these routes until `stop`, and then waits for requests in flight, at most as long as the settings allow.
///
/// # Errors
/// If the listener fails.
pub async fn serve_guarded(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    routes: GuardedRoutes,
    settings: ServiceSettings,
    stop: CancellationToken,
) -> io::Result<DrainOutcome> {
    let settings = Arc::new(settings);
    let behind = |routes: Router, scope| routes.layer(from_fn_with_state((settings.clone(), scope), check));
    let routes = routes
        .open
        .merge(behind(routes.ask, KeyScope::Ask))
        .merge(behind(routes.review, KeyScope::Review))
        .merge(behind(routes.admin, KeyScope::Admin))
        .fallback(|| async { ApiError::not_found("not_found", "there is no such route").into_response() })
        .layer(DefaultBodyLimit::max(settings.body_bytes))
        .layer(CatchPanicLayer::custom(|panic: Box<dyn Any + Send>| ApiError::panicked(&*panic).into_response()))
        .layer(from_fn_with_state(settings.clone(), check_host));
    serve_connections(listener, tls, routes, &settings, Arc::new(Metrics::new(env!("CARGO_PKG_VERSION"))), stop).await
}

/// The outermost layer: the host, and the headers of the response.
async fn check_host(State(settings): State<Arc<ServiceSettings>>, request: Request, next: Next) -> Response {
    let mut response = match admit::check_host(&settings, &request) {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into_response(),
    };
    add_security_headers(&mut response);
    response
}

/// The layer of routes that need a scope.
async fn check(
    State((settings, scope)): State<(Arc<ServiceSettings>, KeyScope)>,
    mut request: Request,
    next: Next,
) -> Response {
    match admit::check_request(&settings, scope, &request) {
        Ok(caller) => {
            request.extensions_mut().insert(CallerName(caller));
            next.run(request).await
        }
        Err(refused) => refused.into_response(),
    }
}
