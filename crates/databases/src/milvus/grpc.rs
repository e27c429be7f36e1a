//! Calls of a gRPC service with one request and one reply, over the HTTP client that the other databases use.

use super::{
    messages::Reply,
    status::{grpc_problem, refusal},
};
use crate::{
    DatabaseAccess, DatabaseProblem,
    json_client::{MAX_REPLY, client_builder},
    retry::while_busy,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http_body_util::BodyExt;
use percent_encoding::percent_decode_str;
use prost::Message;
use reqwest::{
    Body, Client, Response, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, TE},
};
use std::time::Duration;

const SERVICE: &str = "milvus.proto.milvus.MilvusService";
/// Each message begins with a byte that says whether it is compressed, and four bytes with its length.
const PREFIX: usize = 5;
/// Bytes that the server may send before it is told that they were read.
const WINDOW: u32 = 8 << 20;
/// After so long without traffic, the system looks whether the server is still there.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);

/// A client of one server.
#[derive(Debug)]
pub(super) struct GrpcClient {
    access: DatabaseAccess,
    client: Client,
    base: String,
}

impl GrpcClient {
    /// A client that logs in with the API key, which may be `user:password`, or with user and password of the address.
    pub(super) fn new(access: DatabaseAccess) -> Result<Self, DatabaseProblem> {
        let refuse = |reason: &str| DatabaseProblem::InvalidSettings { reason: reason.to_owned() };
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let from_address =
            access.url.password().map(|password| format!("{}:{}", decoded(access.url.username()), decoded(password)));
        let mut headers = HeaderMap::new();
        headers.insert(TE, HeaderValue::from_static("trailers"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        if let Some(token) = access.settings.api_key.clone().or(from_address) {
            let mut value = HeaderValue::from_str(&BASE64_STANDARD.encode(token))
                .map_err(|_| refuse("the token has characters that no header may have"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let mut base = access.url.clone();
        // Otherwise the HTTP client would log in with them by itself.
        if base.set_username("").is_err() || base.set_password(None).is_err() {
            return Err(refuse("the address has no host"));
        }
        let client = client_builder(&access)?
            .default_headers(headers)
            .http2_prior_knowledge()
            .http2_initial_stream_window_size(WINDOW)
            .http2_initial_connection_window_size(WINDOW)
            .tcp_keepalive(TCP_KEEPALIVE)
            .build()
            .map_err(|error| refuse(&access.shown(&error.to_string())))?;
        let base = format!("{}/{SERVICE}", base.as_str().trim_end_matches('/'));
        Ok(Self { access, client, base })
    }

    pub(super) fn access(&self) -> &DatabaseAccess {
        &self.access
    }

    /// Makes a call whose repetition changes nothing, and repeats it while the server is too busy or cannot be reached.
    /// `limit` is how long each try may take. Fails if the reply's status is not success.
    pub(super) async fn call<T: Reply>(
        &self,
        method: &str,
        request: &impl Message,
        limit: Duration,
    ) -> Result<T, DatabaseProblem> {
        let length = request.encoded_len();
        let mut body = Vec::with_capacity(PREFIX + length);
        body.push(0);
        body.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
        // A vector has room for everything.
        request.encode(&mut body).map_err(|error| DatabaseProblem::Malformed { reason: error.to_string() })?;
        let body = Bytes::from(body);
        while_busy(|| {
            let body = body.clone();
            async move {
                let reply: T = self.call_once(method, body, limit).await?;
                match refusal(&reply.status(), |text| self.access.shown(text)) {
                    Some(problem) => Err(problem),
                    None => Ok(reply),
                }
            }
        })
        .await
    }

    /// Whether the server replies in HTTP/1.1. Such a server may close the connection before its reply is read.
    async fn speaks_older_http(&self) -> bool {
        let client = client_builder(&self.access).and_then(|builder| {
            let built = builder.http1_only().timeout(self.access.settings.connect_timeout).build();
            built.map_err(|error| DatabaseProblem::Malformed { reason: error.to_string() })
        });
        match client {
            Ok(client) => client.get(&self.base).send().await.is_ok(),
            Err(_) => false,
        }
    }

    async fn call_once<T: Reply>(&self, method: &str, body: Bytes, limit: Duration) -> Result<T, DatabaseProblem> {
        let request = self.client.post(format!("{}/{method}", self.base)).timeout(limit).body(body);
        let response = match request.send().await.map_err(|error| self.broken(&error, limit)) {
            Err(DatabaseProblem::ConnectionLost { .. }) if self.speaks_older_http().await => {
                return Err(other_protocol());
            }
            response => response?,
        };
        self.check_kind(&response)?;
        // An error may be in the headers, if the reply has no message.
        grpc_problem(response.headers(), limit, |text| self.access.shown(text))?;
        let mut body = Body::from(response);
        let mut message = Vec::new();
        let mut has_status = false;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| self.broken(&error, limit))?;
            match frame.into_data() {
                Ok(data) if message.len() + data.len() > MAX_REPLY => {
                    let reason = format!("the reply has more than {MAX_REPLY} bytes; ask for fewer records at once");
                    return Err(DatabaseProblem::TooLarge { reason });
                }
                Ok(data) => message.extend_from_slice(&data),
                Err(frame) => {
                    if let Ok(trailers) = frame.into_trailers() {
                        has_status = trailers.contains_key("grpc-status");
                        grpc_problem(&trailers, limit, |text| self.access.shown(text))?;
                    }
                }
            }
        }
        if !has_status {
            return Err(DatabaseProblem::ConnectionLost { reason: "the reply was cut off".to_owned() });
        }
        let malformed = |reason: String| DatabaseProblem::Malformed { reason };
        let (prefix, rest) =
            message.split_at_checked(PREFIX).ok_or_else(|| malformed("the reply has no message".to_owned()))?;
        let length = prefix[1..].iter().fold(0, |length, byte| (length << 8) | usize::from(*byte));
        if prefix[0] != 0 || length != rest.len() {
            return Err(malformed(format!("a message of {length} bytes came with {} bytes", rest.len())));
        }
        T::decode(rest).map_err(|error| malformed(format!("it is not a reply of Milvus: {error}")))
    }

    /// Fails if a reply does not come from a gRPC service.
    fn check_kind(&self, response: &Response) -> Result<(), DatabaseProblem> {
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let (status, kind) = (response.status(), header(CONTENT_TYPE));
        if status.is_success() && kind.starts_with("application/grpc") {
            return Ok(());
        }
        let shown = self.access.shown(&format!("status {status}, content type `{kind}`"));
        Err(match status {
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => DatabaseProblem::Busy { message: shown, retry_after: None },
            StatusCode::UNAUTHORIZED => DatabaseProblem::Credentials { message: shown },
            StatusCode::FORBIDDEN => DatabaseProblem::Permission { message: shown },
            _ if kind.contains("html") => DatabaseProblem::Malformed {
                reason: format!(
                    "it is an HTML page ({status}); is the address that of Milvus, and not of a page or a proxy?"
                ),
            },
            _ => DatabaseProblem::Malformed {
                reason: format!("it is not from a gRPC service ({shown}); is the address that of Milvus, port 19530?"),
            },
        })
    }

    fn broken(&self, error: &reqwest::Error, limit: Duration) -> DatabaseProblem {
        let mut cause: &dyn std::error::Error = error;
        let mut is_other_protocol = false;
        while let Some(source) = cause.source() {
            cause = source;
            // What comes from a server that speaks HTTP/1.1 is no frame of HTTP/2.
            is_other_protocol |=
                cause.to_string().contains("FRAME_SIZE_ERROR") || cause.to_string().contains("frame with invalid size");
        }
        let reason = self.access.shown(&cause.to_string());
        match () {
            () if is_other_protocol => DatabaseProblem::Malformed {
                reason:
                    "the server does not speak HTTP/2, so it offers no gRPC; is the address that of Milvus, port 19530?"
                        .to_owned(),
            },
            () if error.is_timeout() && !error.is_connect() => DatabaseProblem::TimedOut { after: limit },
            () if error.is_connect() => DatabaseProblem::Unreachable { reason },
            () => DatabaseProblem::ConnectionLost { reason },
        }
    }
}

fn other_protocol() -> DatabaseProblem {
    let reason = "the server does not speak HTTP/2, so it offers no gRPC; is the address that of Milvus, port 19530?";
    DatabaseProblem::Malformed { reason: reason.to_owned() }
}
