//! A connection that can be reset from the inside of a request.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// Resets the connection to which it belongs: the next bytes are not written, and the client's system reports that the
/// connection was reset.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cutter(Arc<AtomicBool>);

impl Cutter {
    pub(crate) fn cut(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub(crate) struct CuttableStream {
    stream: TcpStream,
    cutter: Cutter,
}

impl CuttableStream {
    pub(crate) fn new(stream: TcpStream) -> Self {
        // Small answers must not wait for each other.
        let _ = stream.set_nodelay(true);
        Self { stream, cutter: Cutter::default() }
    }

    pub(crate) fn cutter(&self) -> Cutter {
        self.cutter.clone()
    }

    fn check(&self) -> io::Result<()> {
        if !self.cutter.0.load(Ordering::Relaxed) {
            return Ok(());
        }
        // A socket that is closed without waiting for anything sends a reset.
        self.stream.set_zero_linger()?;
        Err(io::ErrorKind::ConnectionReset.into())
    }
}

impl AsyncRead for CuttableStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for CuttableStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
