//! Access: the host and the origin of a request, its key, and what a service without
//! keys allows.

use crate::{
    access::{KeyScope, PageOrigin, normalize},
    error::ApiError,
    http::{CallerName, ClientAddress, media_type},
    service::{HttpService, not_ready},
    settings::ServiceSettings,
};
use axum::{
    extract::{Request, State},
    http::{HeaderName, HeaderValue, Method, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use std::sync::{Arc, atomic::Ordering::Relaxed};
use tower_http::cors::{AllowOrigin, CorsLayer};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
/// Headers that proxies add, besides those that begin with `x-forwarded`. A request
/// with one of them does not count as local. A proxy that adds none of them looks like
/// a local program, so `admin_without_key` is not for a service behind a proxy.
const FORWARDED: [&str; 8] = [
    "forwarded",
    "via",
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "fastly-client-ip",
];

/// Lets web pages of these origins read responses.
pub(crate) fn allow_origins(origins: &[PageOrigin]) -> CorsLayer {
    let named = origins.iter().filter_map(|origin| match origin {
        PageOrigin::Any => None,
        PageOrigin::One(origin) => HeaderValue::from_str(origin).ok(),
    });
    let allowed = match origins.contains(&PageOrigin::Any) {
        true => AllowOrigin::any(),
        false => AllowOrigin::list(named),
    };
    CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods([Method::GET, Method::POST])
        .allow_headers([header::AUTHORIZATION, header::CONTENT_TYPE])
        .expose_headers([HeaderName::from_static("x-request-id"), header::RETRY_AFTER])
}

/// The layer of routes that need a scope: checks the origin of web pages, the type of
/// the body, and the key.
pub(crate) async fn admit(
    State((service, scope)): State<(Arc<HttpService>, KeyScope)>,
    mut request: Request,
    next: Next,
) -> Response {
    let caller = match check_request(&service.settings, scope, &request) {
        Ok(caller) => caller,
        Err(refused) => return refused.into_response(),
    };
    if scope == KeyScope::Ask && !service.is_warm.load(Relaxed) {
        return not_ready().into_response();
    }
    request.extensions_mut().insert(CallerName(caller));
    next.run(request).await
}

/// Checks the origin, the type of the body and the key of a request. Returns the name of the key, which is empty if none
/// is needed.
pub(crate) fn check_request(
    settings: &ServiceSettings,
    scope: KeyScope,
    request: &Request,
) -> Result<Arc<str>, ApiError> {
    check_origin(settings, request)?;
    check_body_kind(request)?;
    check_key(settings, scope, request)
}

/// Checks the key of a request. Returns its name, which is empty if no key is needed.
fn check_key(settings: &ServiceSettings, scope: KeyScope, request: &Request) -> Result<Arc<str>, ApiError> {
    let keys = settings.keys.as_ref();
    let sent = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let needs_no_key = match scope {
        KeyScope::Ask => keys.is_none() || settings.open_to_all,
        KeyScope::Metrics | KeyScope::Admin | KeyScope::Review => is_local_admin(settings, request),
    };
    match keys {
        // A key that is sent is checked even if the route needs none.
        Some(keys) if sent.is_some() || !needs_no_key => keys.admit(sent, scope),
        _ if needs_no_key => Ok(Arc::from("")),
        _ => Err(ApiError::forbidden(
            "this route needs a key, and the service has no keys: its operator must start it with a file of keys, or let \
             programs on the same machine use it without one",
        )),
    }
}

/// Whether a request comes from a program on this machine, and the service lets such
/// programs use `/admin` and `/metrics` without a key.
fn is_local_admin(settings: &ServiceSettings, request: &Request) -> bool {
    let is_forwarded = request
        .headers()
        .keys()
        .any(|name| name.as_str().starts_with("x-forwarded") || FORWARDED.contains(&name.as_str()));
    settings.admin_without_key && is_local_client(request) && !is_forwarded && is_local_name(host_name(request))
}

/// Whether the client's end of the connection is on this machine.
fn is_local_client(request: &Request) -> bool {
    request.extensions().get::<ClientAddress>().is_some_and(|peer| peer.0.to_canonical().is_loopback())
}

/// Refuses requests that a web page of another origin makes a visitor's browser send.
/// The page could not read the response, but the call of the model would cost money.
fn check_origin(settings: &ServiceSettings, request: &Request) -> Result<(), ApiError> {
    let headers = request.headers();
    let refused = |origin: &str| {
        Err(ApiError::forbidden(format!(
            "a web page of another origin ({origin}) may not use this service, unless its operator allows that origin"
        )))
    };
    if let Some(origin) = headers.get(header::ORIGIN) {
        let origin = origin.to_str().unwrap_or("null");
        let normal = normalize(origin);
        let is_allowed = settings.origins.iter().any(|allowed| allowed.allows(&normal));
        return if is_allowed || is_own_origin(settings, request, &normal) { Ok(()) } else { refused(origin) };
    }
    // For images, links and forms, browsers send this header instead of `Origin`.
    match headers.get(FETCH_SITE).map(HeaderValue::as_bytes) {
        // A followed link to a source calls no model, and the linking page cannot read the source.
        Some(b"cross-site" | b"same-site") if is_source_link(request) => Ok(()),
        Some(b"cross-site" | b"same-site") => refused("by Sec-Fetch-Site"),
        _ => Ok(()),
    }
}

/// Whether a browser follows a link to the page of a source.
fn is_source_link(request: &Request) -> bool {
    let mode = request.headers().get(FETCH_MODE).map(HeaderValue::as_bytes);
    request.method() == Method::GET && mode == Some(b"navigate") && request.uri().path().starts_with("/rag/sources/")
}

/// Whether a normalized origin is that of the service's own pages.
fn is_own_origin(settings: &ServiceSettings, request: &Request, origin: &str) -> bool {
    let public_origin = settings.public_url.as_deref().map(|url| {
        let host = url.find("://").map_or(0, |at| at + 3);
        normalize(&url[..url[host..].find('/').map_or(url.len(), |at| host + at)])
    });
    if public_origin.as_deref() == Some(origin) {
        return true;
    }
    // The scheme is not compared: a proxy in front may speak TLS when the service does not.
    let host = host(request).to_ascii_lowercase();
    !host.is_empty() && ["http", "https"].iter().any(|scheme| normalize(&format!("{scheme}://{host}")) == origin)
}

/// Refuses bodies that a form of any web page can send without a preflight request.
fn check_body_kind(request: &Request) -> Result<(), ApiError> {
    match media_type(request.headers()).as_str() {
        "application/x-www-form-urlencoded" | "multipart/form-data" | "text/plain" => Err(ApiError::not_json()),
        _ => Ok(()),
    }
}

/// The host that a request names.
fn host(request: &Request) -> &str {
    request.uri().authority().map(|authority| authority.as_str()).or_else(|| host_header(request)).unwrap_or_default()
}

fn host_header(request: &Request) -> Option<&str> {
    request.headers().get(header::HOST)?.to_str().ok()
}

/// The host that a request names, without its port.
fn host_name(request: &Request) -> &str {
    without_port(host(request))
}

fn without_port(host: &str) -> &str {
    let port = |(_, port): &(&str, &str)| port.bytes().all(|byte| byte.is_ascii_digit());
    host.rsplit_once(':').filter(port).map_or(host, |(name, _)| name)
}

fn is_local_name(name: &str) -> bool {
    matches!(name.to_ascii_lowercase().as_str(), "localhost" | "127.0.0.1" | "[::1]")
}

/// Checks the host that a request names. Without keys, it must be a local name or that
/// of `public_url`: a web page whose domain points to this machine (DNS rebinding) sends
/// its own name.
/// A request that names two hosts (RFC 9112, 3.2) is always refused, because a proxy in
/// front might have read the other one.
pub(crate) fn check_host(settings: &ServiceSettings, request: &Request) -> Result<(), ApiError> {
    if request.headers().get_all(header::HOST).iter().nth(1).is_some() {
        return Err(ApiError::invalid("the request has more than one Host header"));
    }
    if let Some((target, sent)) = request.uri().authority().zip(host_header(request))
        && !without_port(target.as_str()).eq_ignore_ascii_case(without_port(sent))
    {
        return Err(ApiError::invalid("the request has one host in its target, and another one in its Host header"));
    }
    // With `any_host`, the server around this one decides who reaches it, but a browser on this machine reaches it too.
    let may_have_any_name = settings.any_host && !is_local_client(request);
    if settings.keys.is_some() || settings.open_to_all || may_have_any_name {
        return Ok(());
    }
    let name = host_name(request);
    let public = settings.public_url.as_deref().and_then(|url| url.split_once("://")).map(|(_, rest)| rest);
    let public = public.map(|rest| rest.split(['/', ':']).next().unwrap_or_default());
    if is_local_name(name) || public == Some(name) {
        return Ok(());
    }
    Err(ApiError::forbidden(format!(
        "this service has no keys and answers only to this machine, not to `{name}`; its operator must start it with keys, or with `{name}` as its \
         public URL"
    )))
}
