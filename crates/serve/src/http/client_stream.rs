//! The byte stream of a client, with three corrections of hyper's behaviour.
//!
//! - Bytes that never become a request get an error in OpenAI's shape; hyper
//!   answers them with a bare status, or not at all.
//! - For hyper, a half-close (the client shuts down its sending direction) means that
//!   the client left: the request's work ends at once and holds neither a permit nor a
//!   paid call. That stays. But if the client announced its last request (HTTP/1.0, or `Connection:
//!   close`, as `nc -N` sends it), it may half-close and still read, so the end is
//!   reported to hyper with a delay.
//! - Before a connection is closed, what the client still sends is read for a
//!   moment: otherwise the system resets the connection, and the client loses the
//!   response.

use crate::error::ApiError;
use axum::http::StatusCode;
use std::{
    error::Error,
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf},
    time::{Sleep, sleep, timeout},
};

/// How long the response may take after a half-close that follows the last
/// request.
const HALF_CLOSE_DELAY: Duration = Duration::from_millis(500);
/// The longest time to read the client's last bytes before the connection is closed.
const LAST_READ_TIMEOUT: Duration = Duration::from_secs(1);
/// The most bytes that are then read.
const LAST_BYTES: u64 = 32 << 20;
/// The responses that hyper writes by itself are shorter than this, in bytes.
const HYPER_BARE_MAX: usize = 256;
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n";

/// The byte stream of a client. Clones share the stream.
pub(crate) struct ClientStream<S>(Arc<Mutex<StreamState<S>>>);

struct StreamState<S> {
    stream: S,
    /// Whether bytes were received, and nothing was written since.
    awaits_response: bool,
    /// How many bytes of HTTP/2's preface were received; `None` if other bytes came.
    preface: Option<usize>,
    /// The head of the request that awaits its response.
    head: RequestHead,
    /// Whether the client ended its sending direction.
    has_ended: bool,
    /// Delays the report of that end to hyper.
    end_delay: Option<Pin<Box<Sleep>>>,
    replacement: Option<ReplacementResponse>,
    /// The status of an error that was written here instead of by hyper: to bytes that are
    /// no request, or to a client that stopped sending before its response.
    refused: Option<StatusCode>,
}

/// A response that is written in place of one of hyper's.
struct ReplacementResponse {
    bytes: Vec<u8>,
    written: usize,
    /// The length of hyper's response, in bytes.
    hyper_bytes: usize,
}

/// The head of a request, as far as it has come.
#[derive(Debug, Default)]
struct RequestHead {
    /// Emptied when the head is complete.
    bytes: Vec<u8>,
    is_whole: bool,
    /// Whether the client said that no other request follows on this connection.
    is_last: bool,
}

/// A head with more bytes than this is not searched for its end.
const HEAD_BYTES: usize = 16 << 10;

impl RequestHead {
    fn read(&mut self, bytes: &[u8]) {
        if self.is_whole {
            return;
        }
        let searched = self.bytes.len().saturating_sub(3);
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(HEAD_BYTES)]);
        let end = self.bytes[searched..].windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = end {
            self.is_last = is_last_request(&self.bytes[..searched + end]);
        }
        if end.is_some() || self.bytes.len() > HEAD_BYTES {
            self.is_whole = true;
            self.bytes = Vec::new();
        }
    }
}

/// Whether the head of a request announces that no other request follows.
fn is_last_request(head: &[u8]) -> bool {
    let mut lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let is_old = lines.next().is_some_and(|first| first.ends_with(b"HTTP/1.0"));
    let closes = |line: &[u8]| {
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(colon);
        name.eq_ignore_ascii_case(b"connection")
            && value[1.min(value.len())..]
                .split(|byte| *byte == b',')
                .any(|word| word.trim_ascii().eq_ignore_ascii_case(b"close"))
    };
    is_old || lines.any(closes)
}

impl<S> Clone for ClientStream<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S> ClientStream<S> {
    fn state(&self) -> MutexGuard<'_, StreamState<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> ClientStream<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self(Arc::new(Mutex::new(StreamState {
            stream,
            awaits_response: false,
            preface: Some(0),
            head: RequestHead::default(),
            has_ended: false,
            end_delay: None,
            replacement: None,
            refused: None,
        })))
    }

    /// Ends the connection after hyper: writes an error if the client still awaits a
    /// response, and reads the client's last bytes. Returns the status of an error that
    /// was written here, for the metrics. It returns `None` if the client left after a
    /// whole head: middleware has counted that request, which must not count twice.
    pub(crate) async fn end(mut self, failed: Option<&(dyn Error + Send + Sync + 'static)>) -> Option<StatusCode> {
        let (awaits_response, has_ended, is_counted) = {
            let mut state = self.state();
            let is_counted = state.head.is_whole && failed.is_some_and(is_incomplete);
            (std::mem::take(&mut state.awaits_response) && !state.is_http2(), state.has_ended, is_counted)
        };
        let last = async {
            if let Some(error) = failed.filter(|_| awaits_response) {
                let refusal = refusal(error);
                self.state().refused = Some(refusal.status);
                self.write_all(&to_response_bytes(&refusal)).await?;
            }
            self.shutdown().await?;
            if !has_ended {
                tokio::io::copy(&mut (&mut self).take(LAST_BYTES), &mut tokio::io::sink()).await?;
            }
            Ok::<_, io::Error>(())
        };
        // The client may have left.
        drop(timeout(LAST_READ_TIMEOUT, last).await);
        self.state().refused.filter(|_| !is_counted)
    }
}

impl<S> StreamState<S> {
    fn is_http2(&self) -> bool {
        self.preface == Some(HTTP2.len())
    }

    fn note_received(&mut self, bytes: &[u8]) {
        if !self.awaits_response {
            self.head = RequestHead::default();
        }
        self.awaits_response = true;
        self.head.read(bytes);
        if let Some(before) = self.preface.filter(|before| *before < HTTP2.len()) {
            let received = &bytes[..bytes.len().min(HTTP2.len() - before)];
            self.preface = HTTP2[before..].starts_with(received).then_some(before + received.len());
        }
    }
}

impl<S: AsyncWrite + Unpin> StreamState<S> {
    /// Writes the response that replaces one of hyper's.
    fn poll_replacement(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        while let Some(replacement) = &mut self.replacement
            && replacement.written < replacement.bytes.len()
        {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &replacement.bytes[replacement.written..]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            replacement.written += written;
        }
        Poll::Ready(Ok(self.replacement.take().map_or(0, |replacement| replacement.hyper_bytes)))
    }

    fn note_written(&mut self, done: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if matches!(done, Poll::Ready(Ok(1..))) {
            self.awaits_response = false;
        }
        done
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ClientStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut state = self.state();
        if !state.has_ended {
            let before = buffer.filled().len();
            ready!(Pin::new(&mut state.stream).poll_read(cx, buffer))?;
            let received = &buffer.filled()[before..];
            if !received.is_empty() {
                state.note_received(received);
                return Poll::Ready(Ok(()));
            }
            if buffer.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            state.has_ended = true;
            if state.awaits_response && state.head.is_last {
                state.end_delay = Some(Box::pin(sleep(HALF_CLOSE_DELAY)));
            }
        }
        match &mut state.end_delay {
            Some(end_delay) => end_delay.as_mut().poll(cx).map(Ok),
            None => Poll::Ready(Ok(())),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ClientStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.state();
        if state.replacement.is_none() {
            let error = hyper_refusal(bytes);
            state.refused = state.refused.or(error.as_ref().map(|error| error.status));
            state.replacement = error.map(|error| ReplacementResponse {
                bytes: to_response_bytes(&error),
                written: 0,
                hyper_bytes: bytes.len(),
            });
        }
        let done = match state.replacement {
            Some(_) => state.poll_replacement(cx),
            None => Pin::new(&mut state.stream).poll_write(cx, bytes),
        };
        state.note_written(done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut parts = bytes.iter().filter(|part| !part.is_empty());
        // hyper's own responses have no body, so they come as one part.
        if let (Some(only), None) = (parts.next(), parts.next()) {
            return self.as_mut().poll_write(cx, only);
        }
        let mut state = self.state();
        let done = Pin::new(&mut state.stream).poll_write_vectored(cx, bytes);
        state.note_written(done)
    }

    fn is_write_vectored(&self) -> bool {
        self.state().stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.state().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.state().stream).poll_shutdown(cx)
    }
}

/// The error that replaces hyper's own response to bytes that are no request.
/// Such a response is a head without a body, and lacks the request id that all
/// responses of the service have.
fn hyper_refusal(bytes: &[u8]) -> Option<ApiError> {
    let is_bare = bytes.len() < HYPER_BARE_MAX && bytes.starts_with(b"HTTP/1.1 4") && bytes.ends_with(b"\r\n\r\n");
    let head = str::from_utf8(bytes).ok().filter(|_| is_bare)?;
    if !head.contains("\r\ncontent-length: 0\r\n") || head.contains("\r\nx-request-id: ") {
        return None;
    }
    match head.get(9..12)? {
        "400" => Some(ApiError::invalid("that is no HTTP request: its first line or its headers cannot be read")),
        "414" => Some(
            ApiError::invalid("the address of the request is too long")
                .with_status(StatusCode::URI_TOO_LONG, "uri_too_long"),
        ),
        "431" => Some(
            ApiError::invalid(
                "the request has too many headers, or too large ones: at most 100 headers, 64 KiB in total, are allowed",
            )
            .with_status(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "headers_too_large"),
        ),
        _ => None,
    }
}

/// The error for a connection that ended before its request was answered.
fn refusal(error: &(dyn Error + Send + Sync + 'static)) -> ApiError {
    let is_timeout = |error: &(dyn Error + 'static)| {
        error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_timeout)
            || error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
    };
    if causes(error).any(is_timeout) {
        return ApiError::invalid("the headers of the request did not come in time")
            .with_status(StatusCode::REQUEST_TIMEOUT, "request_timeout");
    }
    ApiError::invalid(
        "the client stopped sending before its request was complete, or long before the response; keep the connection \
         open until then",
    )
}

/// Whether the client left before its request was complete, or before it was
/// answered.
fn is_incomplete(error: &(dyn Error + Send + Sync + 'static)) -> bool {
    causes(error).any(|error| error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_incomplete_message))
}

/// An error, its cause, the cause of that, and so on.
fn causes<'a>(error: &'a (dyn Error + Send + Sync + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    let first: &'a (dyn Error + 'static) = error;
    std::iter::successors(Some(first), |error| (*error).source())
}

/// An error as the last response of a connection.
fn to_response_bytes(error: &ApiError) -> Vec<u8> {
    let body = serde_json::to_string(&error.body()).unwrap_or_default();
    format!(
        "HTTP/1.1 {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nx-content-type-options: nosniff\r\n\
         x-request-id: req-{}\r\nconnection: close\r\n\r\n{body}",
        error.status,
        body.len(),
        store::unique_token()
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;

    const BAD: &[u8] = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

    async fn said(client: &mut (impl AsyncRead + Unpin)) -> String {
        let mut said = String::new();
        client.read_to_string(&mut said).await.unwrap();
        said
    }

    #[tokio::test]
    async fn a_bare_answer_gets_a_body_and_any_other_answer_stays_as_it_is() {
        // Smaller than the answer, so that it is written in parts.
        let (mut client, server) = duplex(16);
        let mut line = ClientStream::new(server);
        let wrote = async {
            line.write_all(BAD).await.unwrap();
            line.shutdown().await.unwrap();
        };
        let ((), said) = tokio::join!(wrote, said(&mut client));
        let (head, body) = said.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\n") && head.contains("x-request-id: req-"), "{head}");
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["error"]["code"], "invalid_request");
        for other in [
            &b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"[..],
            b"HTTP/1.1 404 Not Found\r\nx-request-id: req-1\r\ncontent-length: 0\r\n\r\n",
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{}",
        ] {
            assert!(hyper_refusal(other).is_none());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_client_is_told_at_once_unless_it_said_that_its_request_is_the_last() {
        let mut buffer = [0; 64];
        for head in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            b"GET / HTTP/1.1\r\nConnection: keep-alive\r\n\r\n",
            b"GET /?connection:close HTTP/1.1\r\nX-Connection: close\r\n\r\n",
        ] {
            let (mut client, server) = duplex(1024);
            let mut line = ClientStream::new(server);
            client.write_all(head).await.unwrap();
            client.shutdown().await.unwrap();
            let begun = tokio::time::Instant::now();
            while line.read(&mut buffer).await.unwrap() > 0 {}
            assert_eq!(begun.elapsed(), Duration::ZERO, "it left: {}", head.escape_ascii());
        }
        let (mut client, server) = duplex(1024);
        let mut line = ClientStream::new(server);
        // In pieces, the mark between head and body too.
        let head = b"GET / HTTP/1.1\r\ncOnnection: te, close\r\n\r\n";
        for piece in head.chunks(7) {
            client.write_all(piece).await.unwrap();
            line.read_exact(&mut buffer[..piece.len()]).await.unwrap();
        }
        client.shutdown().await.unwrap();
        let begun = tokio::time::Instant::now();
        assert!(timeout(HALF_CLOSE_DELAY / 2, line.read(&mut buffer)).await.is_err());
        line.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        assert_eq!(line.read(&mut buffer).await.unwrap(), 0);
        assert!(begun.elapsed() >= HALF_CLOSE_DELAY, "the rest of the answer may still be on its way");

        let (mut client, server) = duplex(1024);
        let mut line = ClientStream::new(server);
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        assert_eq!(line.read(&mut buffer).await.unwrap(), 18);
        line.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        client.shutdown().await.unwrap();
        let begun = tokio::time::Instant::now();
        assert_eq!(line.read(&mut buffer).await.unwrap(), 0);
        assert_eq!(begun.elapsed(), Duration::ZERO, "it was answered before");
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_owed_an_answer_at_the_end_is_told_why_there_is_none() {
        let late = io::Error::new(io::ErrorKind::TimedOut, "late");
        for (sent, failed, expected) in [
            (&b"GET / HT"[..], Some(late), "HTTP/1.1 408 Request Timeout"),
            (b"GET / HT", Some(io::ErrorKind::UnexpectedEof.into()), "HTTP/1.1 400 Bad Request"),
            (b"GET / HT", None, ""),
            (b"", Some(io::ErrorKind::TimedOut.into()), ""),
            (HTTP2, Some(io::ErrorKind::TimedOut.into()), ""),
        ] {
            let (mut client, server) = duplex(1024);
            let mut line = ClientStream::new(server);
            client.write_all(sent).await.unwrap();
            let mut buffer = [0; 64];
            if !sent.is_empty() {
                line.read_exact(&mut buffer[..sent.len()]).await.unwrap();
            }
            line.end(failed.as_ref().map(|error| error as _)).await;
            let said = said(&mut client).await;
            assert_eq!(said.lines().next().unwrap_or_default(), expected, "{sent:?}");
        }
    }

    #[tokio::test]
    async fn what_a_client_still_sends_is_read_before_the_connection_is_closed() {
        let (mut client, server) = duplex(64);
        let ended = tokio::spawn(ClientStream::new(server).end(None));
        client.write_all(&[b'x'; 100_000]).await.unwrap();
        drop(client);
        ended.await.unwrap();
    }
}
