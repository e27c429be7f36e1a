//! Who may do what, before a route is reached: the name and the origin that a
//! request comes with, its key, and what a service without keys allows.

use crate::{Caller, Service, error::ApiError, keys::Scope};
use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use std::{
    net::IpAddr,
    sync::{Arc, atomic::Ordering::Relaxed},
};
use tower_http::cors::{AllowOrigin, CorsLayer};

/// The address of the other end of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
/// Headers that a proxy adds, besides all that begin with `x-forwarded`. What
/// comes through a proxy is not from this machine. A proxy that adds none of them
/// cannot be told from a program here, so `--admin-without-key` is not for a
/// service behind a proxy.
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

/// An origin of web pages that may ask, such as `https://intranet.example.com`,
/// or all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Every origin. Only for a service with keys, which no browser sends by itself.
    Any,
    /// A scheme, a host, and a port if it is not the scheme's own.
    One(String),
}

impl Origin {
    /// Reads an origin as browsers write it, or `*`.
    ///
    /// # Errors
    /// What is neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Any);
        }
        let wrong =
            || format!("`{text}` is no origin: write a scheme and a host, such as https://intranet.example.com");
        let url: axum::http::Uri = text.parse().map_err(|_| wrong())?;
        let (Some("http" | "https"), Some(authority)) = (url.scheme_str(), url.authority()) else {
            return Err(wrong());
        };
        let has_path = url.path_and_query().is_some_and(|path| path.as_str() != "/") || text.ends_with('/');
        if has_path || authority.as_str().contains('@') {
            return Err(wrong());
        }
        Ok(Self::One(normal(text)))
    }
}

/// An origin in small letters and without the port that its scheme has anyway.
fn normal(origin: &str) -> String {
    let origin = origin.to_ascii_lowercase();
    let port = if origin.starts_with("https://") { ":443" } else { ":80" };
    origin.strip_suffix(port).map_or(origin.clone(), str::to_owned)
}

pub(crate) fn cors(origins: &[Origin]) -> CorsLayer {
    let named = origins.iter().filter_map(|origin| match origin {
        Origin::Any => None,
        Origin::One(origin) => HeaderValue::from_str(origin).ok(),
    });
    let allowed = match origins.contains(&Origin::Any) {
        true => AllowOrigin::any(),
        false => AllowOrigin::list(named),
    };
    CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods([Method::GET, Method::POST])
        .allow_headers([header::AUTHORIZATION, header::CONTENT_TYPE])
        .expose_headers([HeaderName::from_static("x-request-id"), header::RETRY_AFTER])
}

/// Whether the caller may do what routes of a scope do. All of these cost or
/// change something, or tell something that is not for everybody.
pub(crate) async fn admit(
    State((service, scope)): State<(Arc<Service>, Scope)>,
    mut request: Request,
    next: Next,
) -> Response {
    let admitted = check_origin(&service, &request)
        .and_then(|()| check_body_kind(&request))
        .and_then(|()| caller(&service, scope, &request));
    let caller = match admitted {
        Ok(caller) => caller,
        Err(refused) => return refused.into_response(),
    };
    if scope == Scope::Ask && !service.is_warm.load(Relaxed) {
        return crate::not_ready().into_response();
    }
    request.extensions_mut().insert(Caller(caller));
    next.run(request).await
}

/// Whose request it is: the name of its key, or nobody's where none is needed.
fn caller(service: &Service, scope: Scope, request: &Request) -> Result<Arc<str>, ApiError> {
    let keys = service.settings.keys.as_ref();
    let sent = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let needs_no_key = match scope {
        Scope::Ask => keys.is_none() || service.settings.open_to_all,
        Scope::Metrics | Scope::Admin => is_local_admin(service, request),
    };
    match keys {
        // A key that is sent is checked, also where none is needed: whoever sends it means it.
        Some(keys) if sent.is_some() || !needs_no_key => keys.admit(sent, scope),
        _ if needs_no_key => Ok(Arc::from("")),
        _ => Err(ApiError::forbidden(
            "this route needs a key, and the service has none: start it with --keys FILE, or with --admin-without-key to \
             let programs on the same machine use it",
        )),
    }
}

/// Whether a request comes from this machine itself, to a service that lets
/// everybody on it be its administrator.
fn is_local_admin(service: &Service, request: &Request) -> bool {
    let is_forwarded = request
        .headers()
        .keys()
        .any(|name| name.as_str().starts_with("x-forwarded") || FORWARDED.contains(&name.as_str()));
    service.settings.admin_without_key && is_from_here(request) && !is_forwarded && is_local_name(host_name(request))
}

/// Whether the other end of the connection is this machine.
fn is_from_here(request: &Request) -> bool {
    request.extensions().get::<Peer>().is_some_and(|peer| peer.0.to_canonical().is_loopback())
}

/// Refuses what pages of other origins make a visitor's browser send. The page
/// could not read the answer, but the model would be paid.
fn check_origin(service: &Service, request: &Request) -> Result<(), ApiError> {
    let headers = request.headers();
    let refused = |origin: &str| {
        Err(ApiError::forbidden(format!(
            "a web page of another origin ({origin}) may not use this service; `reverie serve --allow-origin ORIGIN` lets it"
        )))
    };
    if let Some(origin) = headers.get(header::ORIGIN) {
        let origin = origin.to_str().unwrap_or("null");
        let is_allowed = service.settings.origins.iter().any(|allowed| match allowed {
            Origin::Any => true,
            Origin::One(allowed) => *allowed == normal(origin),
        });
        return if is_allowed || is_own(service, request, origin) { Ok(()) } else { refused(origin) };
    }
    // Without `Origin`, a browser tells it of pictures, links and forms by this header.
    match headers.get(FETCH_SITE).map(HeaderValue::as_bytes) {
        // Whoever follows a link to a source sees it; the page with the link does not, and no model is asked.
        Some(b"cross-site" | b"same-site") if is_link(request) => Ok(()),
        Some(b"cross-site" | b"same-site") => refused("by Sec-Fetch-Site"),
        _ => Ok(()),
    }
}

/// Whether a browser follows a link to the page of a source.
fn is_link(request: &Request) -> bool {
    let mode = request.headers().get(FETCH_MODE).map(HeaderValue::as_bytes);
    request.method() == Method::GET && mode == Some(b"navigate") && request.uri().path().starts_with("/rag/sources/")
}

/// Whether an origin is that of the service's own pages.
fn is_own(service: &Service, request: &Request, origin: &str) -> bool {
    let origin = normal(origin);
    let public = service.settings.public_url.as_deref().map(|url| {
        let end = url.find("://").map_or(0, |at| at + 3);
        normal(&url[..url[end..].find('/').map_or(url.len(), |at| end + at)])
    });
    if public.as_ref() == Some(&origin) {
        return true;
    }
    // A proxy in front may speak TLS where the service does not; the name is what counts.
    let host = host(request).to_ascii_lowercase();
    !host.is_empty() && ["http", "https"].iter().any(|scheme| normal(&format!("{scheme}://{host}")) == origin)
}

/// Refuses bodies that a form of any web page can send without asking first.
fn check_body_kind(request: &Request) -> Result<(), ApiError> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "application/x-www-form-urlencoded" | "multipart/form-data" | "text/plain" => Err(crate::request::not_json()),
        _ => Ok(()),
    }
}

/// What a request says that it wants to reach.
fn host(request: &Request) -> &str {
    request.uri().authority().map(|authority| authority.as_str()).or_else(|| host_header(request)).unwrap_or_default()
}

fn host_header(request: &Request) -> Option<&str> {
    request.headers().get(header::HOST)?.to_str().ok()
}

/// The same without its port.
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

/// Without keys, only this machine may ask. A web page whose name was made to
/// lead here (DNS rebinding) sends that name as `Host`, and is refused. A request
/// with two names (RFC 9112, 3.2) is refused everywhere, also one whose target has
/// another name than its `Host`: a proxy in front might have read the other one.
pub(crate) fn check_host(service: &Service, request: &Request) -> Result<(), ApiError> {
    if several(request.headers(), &header::HOST) {
        return Err(ApiError::invalid("the request has more than one Host header"));
    }
    if let Some((target, sent)) = request.uri().authority().zip(host_header(request))
        && !without_port(target.as_str()).eq_ignore_ascii_case(without_port(sent))
    {
        return Err(ApiError::invalid("the request has one host in its target, and another one in its Host header"));
    }
    let settings = &service.settings;
    // A server around this one decides who reaches it. What comes from this machine itself may be a browser's.
    let may_have_any_name = settings.any_host && !is_from_here(request);
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
        "this service has no keys and answers only to this machine, not to `{name}`; start it with --keys or --public-url"
    )))
}

fn several(headers: &HeaderMap, name: &HeaderName) -> bool {
    headers.get_all(name).iter().nth(1).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_a_scheme_and_a_host_and_nothing_else() {
        assert_eq!(Origin::parse("*"), Ok(Origin::Any));
        for (text, normal) in [
            ("https://Intranet.example.com", "https://intranet.example.com"),
            ("https://a.example:443", "https://a.example"),
            ("http://a.example:80", "http://a.example"),
            ("http://localhost:3000", "http://localhost:3000"),
        ] {
            assert_eq!(Origin::parse(text), Ok(Origin::One(normal.into())), "{text}");
        }
        for text in [
            "",
            "null",
            "a.example",
            "https://",
            "https://a.example/",
            "https://a.example/x",
            "https://u@a.example",
            "ftp://a",
            "https://*.a",
        ] {
            let parsed = Origin::parse(text);
            assert!(parsed.is_err() || text.contains('*'), "{text}: {parsed:?}");
        }
    }
}
