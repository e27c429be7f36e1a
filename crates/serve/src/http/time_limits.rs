//! Time limits of a connection: the client must send a first request and go on
//! reading. Otherwise it would hold one of the service's connections for ever.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// The bytes that decide the version of HTTP: the length of HTTP/2's preface.
/// hyper's own time limits begin after them.
const PREFACE_BYTES: usize = 24;
/// How long the client may leave everything unread.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(60);

/// A stream with these time limits.
pub(crate) struct TimeLimitedStream<S> {
    stream: S,
    bytes_read: usize,
    /// The time limit for the first [`PREFACE_BYTES`].
    first_request: Pin<Box<Sleep>>,
    /// The time limit of a write that waits for the client to read.
    write_limit: Option<Pin<Box<Sleep>>>,
}

impl<S> TimeLimitedStream<S> {
    pub(crate) fn new(stream: S, first_request: Duration) -> Self {
        Self { stream, bytes_read: 0, first_request: Box::pin(sleep(first_request)), write_limit: None }
    }

    /// The result of a write, or an error if the client has read nothing for too long.
    fn limit_write<T>(&mut self, cx: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.write_limit = None;
            return done;
        }
        ready!(self.write_limit.get_or_insert_with(|| Box::pin(sleep(UNREAD_TIMEOUT))).as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimeLimitedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let done = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.bytes_read = self.bytes_read.saturating_add(buffer.filled().len() - before);
        if done.is_pending() && self.bytes_read < PREFACE_BYTES {
            ready!(self.first_request.as_mut().poll(cx));
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client sends no request")));
        }
        done
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimeLimitedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.limit_write(cx, done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.limit_write(cx, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_flush(cx);
        self.limit_write(cx, done)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.limit_write(cx, done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_or_too_little_is_not_waited_for() {
        for said in [&b""[..], b"P", b"GET / HTTP"] {
            let (mut client, server) = duplex(64);
            client.write_all(said).await.unwrap();
            let mut server = TimeLimitedStream::new(server, Duration::from_secs(10));
            let mut all = Vec::new();
            assert_eq!(server.read_to_end(&mut all).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        }
        let (mut client, server) = duplex(64);
        client.write_all(&[b'x'; PREFACE_BYTES]).await.unwrap();
        let mut server = TimeLimitedStream::new(server, Duration::from_secs(10));
        let waited = tokio::time::timeout(Duration::from_secs(500), server.read_to_end(&mut Vec::new())).await;
        assert!(waited.is_err(), "who has spoken may be silent while it is answered");
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_read_is_not_written_to_for_ever() {
        let (client, server) = duplex(64);
        let mut server = TimeLimitedStream::new(server, Duration::from_secs(10));
        assert_eq!(server.write_all(&[0; 1000]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(client);
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_slowly_gets_everything() {
        let (mut client, server) = duplex(64);
        let mut server = TimeLimitedStream::new(server, Duration::from_secs(10));
        let reads = async {
            let mut part = [0; 64];
            for _ in 0..10 {
                tokio::time::sleep(UNREAD_TIMEOUT / 2).await;
                client.read_exact(&mut part).await.unwrap();
            }
        };
        let (limit_write, ()) = tokio::join!(server.write_all(&[0; 640]), reads);
        limit_write.unwrap();
    }
}
