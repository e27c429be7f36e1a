//! Connections: accepted up to a number, with time limits for what a client
//! must send, and ended in peace when the service stops.

use crate::{
    access::Peer,
    line::Line,
    metrics::{Label, Metrics},
    patient::Patient,
};
use axum::{Router, body::Body, http::Request};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto::Builder, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use std::{io, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::Semaphore,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// The most bytes of a request's line and headers.
const HEADER_BYTES: usize = 64 << 10;

pub(crate) struct Limits {
    pub(crate) connections: usize,
    pub(crate) reading: Duration,
    pub(crate) drain: Duration,
}

/// Whether all requests had ended when the service did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drained {
    /// All of them.
    Whole,
    /// Some took longer than they may.
    CutOff,
}

/// Accepts connections until `stop`, then waits for those that are busy.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    routes: Router,
    limits: Limits,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) -> io::Result<Drained> {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(limits.connections));
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.reading).max_buf_size(HEADER_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HEADER_BYTES as u32)
        .max_concurrent_streams(256)
        .keep_alive_interval(Duration::from_secs(30));
    let builder = Arc::new(builder);
    loop {
        let accepted = tokio::select! {
            accepted = async {
                // A place first: a connection that is not accepted waits in the system's queue.
                let place = places.clone().acquire_owned().await;
                (place, listener.accept().await)
            } => accepted,
            () = stop.cancelled() => break,
        };
        let (place, accepted) = accepted;
        let (stream, peer) = match accepted {
            Ok((stream, peer)) => {
                metrics.connections.get_or_create(&Label { kind: "accepted" }).inc();
                (stream, Peer(peer.ip()))
            }
            // Too many open files, or a client that is gone again: the next may be accepted.
            Err(_) => {
                metrics.connections.get_or_create(&Label { kind: "not_accepted" }).inc();
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        // Pieces of an answer are small and are wanted at once.
        drop(stream.set_nodelay(true));
        let (builder, routes, tls, watcher, reading, metrics) =
            (builder.clone(), routes.clone(), tls.clone(), graceful.watcher(), limits.reading, metrics.clone());
        tokio::spawn(async move {
            let _place = place;
            let stream = Patient::new(stream, reading);
            let routes = TowerToHyperService::new(routes.map_request(move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(peer);
                request.map(Body::new)
            }));
            match tls {
                None => one(&builder, stream, routes, watcher, &metrics).await,
                Some(tls) => {
                    // A client that begins no handshake holds its place for a while, not for ever.
                    match tokio::time::timeout(reading, tls.accept(stream)).await {
                        Ok(Ok(stream)) => one(&builder, stream, routes, watcher, &metrics).await,
                        Ok(Err(_)) | Err(_) => {
                            metrics.connections.get_or_create(&Label { kind: "no_handshake" }).inc();
                        }
                    }
                }
            }
        });
    }
    drop(listener);
    Ok(match tokio::time::timeout(limits.drain, graceful.shutdown()).await {
        Ok(()) => Drained::Whole,
        Err(_) => Drained::CutOff,
    })
}

async fn one<I, S>(
    builder: &Builder<TokioExecutor>,
    stream: I,
    routes: TowerToHyperService<S>,
    watcher: hyper_util::server::graceful::Watcher,
    metrics: &Metrics,
) where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: tower::Service<Request<Incoming>, Response = axum::response::Response, Error = std::convert::Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send + 'static,
{
    let line = Line::new(stream);
    let connection = builder.serve_connection(TokioIo::new(line.clone()), routes);
    // What goes wrong here (a client that leaves, or sends what is no HTTP) ends this connection alone.
    let ended = watcher.watch(connection.into_owned()).await;
    if let Some(status) = line.end(ended.err().as_deref()).await {
        metrics.answered("none", status.as_u16());
    }
}
