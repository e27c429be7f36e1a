//! Accepts connections up to a limit, with time limits for what clients send, and
//! drains them when the service stops.

use super::{client_stream::ClientStream, extensions::ClientAddress, time_limits::TimeLimitedStream};
use crate::{
    settings::ServiceSettings,
    telemetry::{KindLabel, Metrics},
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

/// The largest request line with headers, in bytes.
const HEADER_BYTES: usize = 64 << 10;

/// Whether every request had ended when the service stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainOutcome {
    /// Every request ended.
    Complete,
    /// Some requests took longer than the drain allows, and were cut off.
    CutOff,
}

/// Accepts connections until `stop`, then waits for requests in flight.
pub(crate) async fn serve_connections(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    routes: Router,
    settings: &ServiceSettings,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) -> io::Result<DrainOutcome> {
    let graceful = GracefulShutdown::new();
    let permits = Arc::new(Semaphore::new(settings.connections));
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(settings.reading).max_buf_size(HEADER_BYTES);
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
                // Without a permit, the next connection waits in the system's queue.
                let permit = permits.clone().acquire_owned().await;
                (permit, listener.accept().await)
            } => accepted,
            () = stop.cancelled() => break,
        };
        let (permit, accepted) = accepted;
        let (stream, peer) = match accepted {
            Ok((stream, peer)) => {
                metrics.connections.get_or_create(&KindLabel { kind: "accepted" }).inc();
                (stream, ClientAddress(peer.ip()))
            }
            // Too many files are open, or the client has left already. The next connection may succeed.
            Err(_) => {
                metrics.connections.get_or_create(&KindLabel { kind: "not_accepted" }).inc();
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        // Pieces of an answer are small and must not wait for more to send.
        drop(stream.set_nodelay(true));
        let (builder, routes, tls, watcher, reading, metrics) =
            (builder.clone(), routes.clone(), tls.clone(), graceful.watcher(), settings.reading, metrics.clone());
        tokio::spawn(async move {
            let _permit = permit;
            let stream = TimeLimitedStream::new(stream, reading);
            let routes = TowerToHyperService::new(routes.map_request(move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(peer);
                request.map(Body::new)
            }));
            match tls {
                None => serve_connection(&builder, stream, routes, watcher, &metrics).await,
                Some(tls) => {
                    // Without a time limit, a client that begins no handshake would hold its permit for ever.
                    match tokio::time::timeout(reading, tls.accept(stream)).await {
                        Ok(Ok(stream)) => serve_connection(&builder, stream, routes, watcher, &metrics).await,
                        Ok(Err(_)) | Err(_) => {
                            metrics.connections.get_or_create(&KindLabel { kind: "no_handshake" }).inc();
                        }
                    }
                }
            }
        });
    }
    drop(listener);
    Ok(match tokio::time::timeout(settings.drain, graceful.shutdown()).await {
        Ok(()) => DrainOutcome::Complete,
        Err(_) => DrainOutcome::CutOff,
    })
}

async fn serve_connection<I, S>(
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
    let stream = ClientStream::new(stream);
    let connection = builder.serve_connection(TokioIo::new(stream.clone()), routes);
    // An error (the client left, or did not speak HTTP) ends only this connection.
    let ended = watcher.watch(connection.into_owned()).await;
    if let Some(status) = stream.end(ended.err().as_deref()).await {
        metrics.count_request("none", status.as_u16());
    }
}
