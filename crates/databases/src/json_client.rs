//! Requests with JSON to a database over HTTP: retries, limits, and errors without secrets.

use crate::{DatabaseAccess, DatabaseProblem, retry::while_busy};
use bytes::Bytes;
use reqwest::{
    Certificate, Client, ClientBuilder, Method, StatusCode,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER},
    redirect::Policy,
};
use serde_json::Value;
use std::{fmt, time::Duration};

/// The largest reply.
pub(crate) const MAX_REPLY: usize = 64 << 20;
/// How much of a reply that is not JSON is shown, in characters.
const SHOWN: usize = 120;

/// A client of one server.
pub(crate) struct JsonClient {
    access: DatabaseAccess,
    client: Client,
    /// With user and password.
    base: String,
}

impl fmt::Debug for JsonClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonClient").field("access", &self.access).finish_non_exhaustive()
    }
}

/// A reply.
#[derive(Debug)]
pub(crate) struct HttpReply {
    pub(crate) status: StatusCode,
    pub(crate) body: Value,
}

/// A client with the limits and certificates of a database. Fails if a secret would go to another machine without TLS.
pub(crate) fn client_builder(access: &DatabaseAccess) -> Result<ClientBuilder, DatabaseProblem> {
    let refuse = |reason: String| DatabaseProblem::InvalidSettings { reason };
    if access.needs_tls() && access.url.scheme() != "https" {
        let reason = "the key would go to another machine without TLS; use https, or set `plain_http = true` if that is intended";
        return Err(refuse(reason.to_owned()));
    }
    let mut builder = store::http_client()
        .redirect(Policy::none())
        .connect_timeout(access.settings.connect_timeout)
        .timeout(access.settings.timeout)
        .pool_max_idle_per_host(access.settings.concurrency);
    if let Some(file) = &access.settings.root_certificate {
        let unreadable = |error: &dyn std::fmt::Display| {
            refuse(format!("the certificate {} cannot be read: {error}", file.display()))
        };
        let pem = std::fs::read(file).map_err(|error| unreadable(&error))?;
        builder = builder.add_root_certificate(Certificate::from_pem(&pem).map_err(|error| unreadable(&error))?);
    }
    Ok(builder)
}

impl JsonClient {
    /// A client that sends the API key, if there is one, in this header.
    pub(crate) fn new(access: DatabaseAccess, key_header: &'static str) -> Result<Self, DatabaseProblem> {
        Self::with_scheme(access, key_header, "")
    }

    /// A client that writes an authentication scheme, such as `ApiKey `, before the API key.
    pub(crate) fn with_scheme(
        access: DatabaseAccess,
        key_header: &'static str,
        scheme: &str,
    ) -> Result<Self, DatabaseProblem> {
        let refuse = |reason: String| DatabaseProblem::InvalidSettings { reason };
        let mut headers = HeaderMap::new();
        if let Some(key) = &access.settings.api_key {
            let mut value = HeaderValue::from_str(&format!("{scheme}{key}"))
                .map_err(|_| refuse("the API key has characters that no header may have".to_owned()))?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static(key_header), value);
        }
        let client = client_builder(&access)?
            .default_headers(headers)
            .build()
            .map_err(|error| refuse(access.shown(&error.to_string())))?;
        let base = access.url.as_str().trim_end_matches('/').to_owned();
        Ok(Self { access, client, base })
    }

    pub(crate) fn access(&self) -> &DatabaseAccess {
        &self.access
    }

    /// Sends a request whose repetition changes nothing, and repeats it while the server is too busy or cannot be
    /// reached. A reply with an error status is a reply.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<HttpReply, DatabaseProblem> {
        while_busy(|| self.send_once(method.clone(), path, body.clone())).await
    }

    async fn send_once(&self, method: Method, path: &str, body: Option<Bytes>) -> Result<HttpReply, DatabaseProblem> {
        let mut request = self.client.request(method, format!("{}/{path}", self.base));
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        let mut response = request.send().await.map_err(|error| self.broken(&error))?;
        let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
        let limit = |length: usize| match length > MAX_REPLY {
            true => Err(DatabaseProblem::TooLarge {
                reason: format!("the reply has more than {MAX_REPLY} bytes; ask for fewer records at once"),
            }),
            false => Ok(()),
        };
        limit(response.content_length().and_then(|length| length.try_into().ok()).unwrap_or_default())?;
        let mut text = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|error| self.broken(&error))? {
            limit(text.len() + piece.len())?;
            text.extend_from_slice(&piece);
        }
        if matches!(
            status,
            StatusCode::TOO_MANY_REQUESTS
                | StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT
        ) {
            let retry_after =
                headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok()).map(Duration::from_secs);
            let message = format!("status {status}: {}", self.beginning(&text));
            return Err(DatabaseProblem::Busy { message, retry_after });
        }
        if status.is_redirection() {
            let reason = format!("the server redirects ({status}); give the address that it redirects to");
            return Err(DatabaseProblem::InvalidSettings { reason });
        }
        match serde_json::from_slice(&text) {
            Ok(body) => Ok(HttpReply { status, body }),
            // The status says enough.
            Err(_) if text.is_empty() || !status.is_success() => {
                Ok(HttpReply { status, body: Value::String(self.beginning(&text)) })
            }
            Err(error) => Err(self.not_json(&text, &headers, &error)),
        }
    }

    fn not_json(&self, text: &[u8], headers: &HeaderMap, error: &serde_json::Error) -> DatabaseProblem {
        let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let beginning = self.beginning(text);
        let reason = match kind.contains("html") || beginning.starts_with('<') {
            true => format!(
                "it is an HTML page and not JSON; is the address that of the database, and not of a page or a proxy? It begins with: {beginning}"
            ),
            false => format!("it is not JSON ({error}); it begins with: {beginning}"),
        };
        DatabaseProblem::Malformed { reason }
    }

    fn beginning(&self, text: &[u8]) -> String {
        let text = String::from_utf8_lossy(&text[..text.len().min(4 * SHOWN)]).chars().take(SHOWN).collect::<String>();
        self.access.shown(&text)
    }

    fn broken(&self, error: &reqwest::Error) -> DatabaseProblem {
        let mut cause: &dyn std::error::Error = error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        let reason = self.access.shown(&cause.to_string());
        match () {
            () if error.is_connect() => DatabaseProblem::Unreachable { reason },
            () if error.is_timeout() => DatabaseProblem::TimedOut { after: self.access.settings.timeout },
            () => DatabaseProblem::ConnectionLost { reason },
        }
    }
}
