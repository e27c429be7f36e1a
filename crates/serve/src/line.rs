//! A connection as the service sees it, where HTTP itself says too little.
//!
//! Bytes that never become a request are answered in OpenAI's shape, too: hyper
//! answers them with a bare status, or not at all. A client that ends its own
//! direction looks like one that leaves, and its work ends at once: it would hold
//! a place, and a paid call, for nobody. Only a client that said that its request
//! is the last one (HTTP/1.0, or `Connection: close`, with `nc -N`) is waited for
//! a moment, since it may end its direction and still read. Before a connection is
//! closed, what the client still sends is read for a moment: else the system
//! answers it with a reset, which takes away what was written before.

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

/// How long an answer may take for a client that has ended its own direction
/// after its last request.
const HALF_CLOSED: Duration = Duration::from_millis(500);
/// How long, and how much, is read from a client before its connection is closed.
const LAST_READ: Duration = Duration::from_secs(1);
const LAST_BYTES: u64 = 32 << 20;
/// hyper's own answers are a head shorter than this.
const BARE: usize = 256;
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n";

/// A connection. Clones are the same connection.
pub(crate) struct Line<S>(Arc<Mutex<State<S>>>);

struct State<S> {
    stream: S,
    /// Something came, and nothing was written since.
    is_owed: bool,
    /// How much of the preface of HTTP/2 came; none if something else did.
    preface: Option<usize>,
    /// The head of the request that is owed an answer.
    head: Head,
    /// The client ended its direction.
    is_over: bool,
    /// Until then that is not told.
    waiting: Option<Pin<Box<Sleep>>>,
    instead: Option<Instead>,
    /// The status of an answer to bytes that are no request.
    refused: Option<StatusCode>,
}

/// What is written instead of a bare answer.
struct Instead {
    bytes: Vec<u8>,
    written: usize,
    /// The length of the bare answer.
    bare: usize,
}

/// The head of a request, as far as it has come.
#[derive(Debug, Default)]
struct Head {
    /// Emptied once the head is whole.
    bytes: Vec<u8>,
    is_whole: bool,
    /// Whether the client said that no other request follows on this connection.
    is_last: bool,
}

/// A head that is longer is taken for one that says nothing of the connection.
const HEAD_BYTES: usize = 16 << 10;

impl Head {
    fn read(&mut self, bytes: &[u8]) {
        if self.is_whole {
            return;
        }
        let searched = self.bytes.len().saturating_sub(3);
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(HEAD_BYTES)]);
        let end = self.bytes[searched..].windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = end {
            self.is_last = says_last(&self.bytes[..searched + end]);
        }
        if end.is_some() || self.bytes.len() > HEAD_BYTES {
            self.is_whole = true;
            self.bytes = Vec::new();
        }
    }
}

/// Whether the head of a request says that it is the last one.
fn says_last(head: &[u8]) -> bool {
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

impl<S> Clone for Line<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Line<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self(Arc::new(Mutex::new(State {
            stream,
            is_owed: false,
            preface: Some(0),
            head: Head::default(),
            is_over: false,
            waiting: None,
            instead: None,
            refused: None,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection after HTTP has ended on it: says what went wrong, if
    /// nobody has, and reads the rest. Gives the status of an answer that no
    /// request got; a request whose client left is counted where it was answered.
    pub(crate) async fn end(mut self, failed: Option<&(dyn Error + Send + Sync + 'static)>) -> Option<StatusCode> {
        let (is_owed, is_over, is_asked) = {
            let mut state = self.state();
            let is_asked = state.head.is_whole && failed.is_some_and(is_incomplete);
            (std::mem::take(&mut state.is_owed) && !state.is_http2(), state.is_over, is_asked)
        };
        let last = async {
            if let Some(error) = failed.filter(|_| is_owed) {
                let refusal = refusal(error);
                self.state().refused = Some(refusal.status);
                self.write_all(&raw(&refusal)).await?;
            }
            self.shutdown().await?;
            if !is_over {
                tokio::io::copy(&mut (&mut self).take(LAST_BYTES), &mut tokio::io::sink()).await?;
            }
            Ok::<_, io::Error>(())
        };
        // A client that is gone hears nothing.
        drop(timeout(LAST_READ, last).await);
        self.state().refused.filter(|_| !is_asked)
    }
}

impl<S> State<S> {
    fn is_http2(&self) -> bool {
        self.preface == Some(HTTP2.len())
    }

    fn heard(&mut self, bytes: &[u8]) {
        if !self.is_owed {
            self.head = Head::default();
        }
        self.is_owed = true;
        self.head.read(bytes);
        if let Some(before) = self.preface.filter(|before| *before < HTTP2.len()) {
            let came = &bytes[..bytes.len().min(HTTP2.len() - before)];
            self.preface = HTTP2[before..].starts_with(came).then_some(before + came.len());
        }
    }
}

impl<S: AsyncWrite + Unpin> State<S> {
    /// Writes what stands for a bare answer.
    fn poll_instead(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        while let Some(instead) = &mut self.instead
            && instead.written < instead.bytes.len()
        {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &instead.bytes[instead.written..]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            instead.written += written;
        }
        Poll::Ready(Ok(self.instead.take().map_or(0, |instead| instead.bare)))
    }

    fn written(&mut self, done: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if matches!(done, Poll::Ready(Ok(1..))) {
            self.is_owed = false;
        }
        done
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Line<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.is_over {
            let before = buffer.filled().len();
            ready!(Pin::new(&mut state.stream).poll_read(cx, buffer))?;
            let came = &buffer.filled()[before..];
            if !came.is_empty() {
                state.heard(came);
                return Poll::Ready(Ok(()));
            }
            if buffer.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            state.is_over = true;
            if state.is_owed && state.head.is_last {
                state.waiting = Some(Box::pin(sleep(HALF_CLOSED)));
            }
        }
        match &mut state.waiting {
            Some(waiting) => waiting.as_mut().poll(cx).map(Ok),
            None => Poll::Ready(Ok(())),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Line<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.instead.is_none() {
            let error = bare(bytes);
            state.refused = state.refused.or(error.as_ref().map(|error| error.status));
            state.instead = error.map(|error| Instead { bytes: raw(&error), written: 0, bare: bytes.len() });
        }
        let done = match state.instead {
            Some(_) => state.poll_instead(cx),
            None => Pin::new(&mut state.stream).poll_write(cx, bytes),
        };
        state.written(done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut parts = bytes.iter().filter(|part| !part.is_empty());
        // A bare answer has no body, so it is one part.
        if let (Some(only), None) = (parts.next(), parts.next()) {
            return self.as_mut().poll_write(cx, only);
        }
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let done = Pin::new(&mut state.stream).poll_write_vectored(cx, bytes);
        state.written(done)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).stream).poll_shutdown(cx)
    }
}

/// What hyper says of bytes that are no request, if these are its words: a head
/// without a body, and without the id that all answers of the service have.
fn bare(bytes: &[u8]) -> Option<ApiError> {
    let is_bare = bytes.len() < BARE && bytes.starts_with(b"HTTP/1.1 4") && bytes.ends_with(b"\r\n\r\n");
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
                "the request has too many headers, or too large ones: at most 100 of 64 KiB together are taken",
            )
            .with_status(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "headers_too_large"),
        ),
        _ => None,
    }
}

/// Why a connection ended before its request was answered.
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
        "the connection was closed in the client's direction before the request was whole, or long before its answer; \
         leave it open until the answer has come",
    )
}

/// Whether the client left while its request was worked on, or before it was
/// whole.
fn is_incomplete(error: &(dyn Error + Send + Sync + 'static)) -> bool {
    causes(error).any(|error| error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_incomplete_message))
}

/// An error and what caused it, each followed by its own cause.
fn causes<'a>(error: &'a (dyn Error + Send + Sync + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    let first: &'a (dyn Error + 'static) = error;
    std::iter::successors(Some(first), |error| (*error).source())
}

/// An error as the whole answer of a connection.
fn raw(error: &ApiError) -> Vec<u8> {
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
        let mut line = Line::new(server);
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
            assert!(bare(other).is_none());
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
            let mut line = Line::new(server);
            client.write_all(head).await.unwrap();
            client.shutdown().await.unwrap();
            let begun = tokio::time::Instant::now();
            while line.read(&mut buffer).await.unwrap() > 0 {}
            assert_eq!(begun.elapsed(), Duration::ZERO, "it left: {}", head.escape_ascii());
        }
        let (mut client, server) = duplex(1024);
        let mut line = Line::new(server);
        // In pieces, the mark between head and body too.
        let head = b"GET / HTTP/1.1\r\ncOnnection: te, close\r\n\r\n";
        for piece in head.chunks(7) {
            client.write_all(piece).await.unwrap();
            line.read_exact(&mut buffer[..piece.len()]).await.unwrap();
        }
        client.shutdown().await.unwrap();
        let begun = tokio::time::Instant::now();
        assert!(timeout(HALF_CLOSED / 2, line.read(&mut buffer)).await.is_err());
        line.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        assert_eq!(line.read(&mut buffer).await.unwrap(), 0);
        assert!(begun.elapsed() >= HALF_CLOSED, "the rest of the answer may still be on its way");

        let (mut client, server) = duplex(1024);
        let mut line = Line::new(server);
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
            let mut line = Line::new(server);
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
        let ended = tokio::spawn(Line::new(server).end(None));
        client.write_all(&[b'x'; 100_000]).await.unwrap();
        drop(client);
        ended.await.unwrap();
    }
}
