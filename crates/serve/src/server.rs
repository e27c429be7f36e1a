//! Runs a service: on connections of its own, or inside another HTTP server.

use crate::{
    answering::ServedPipeline,
    error::ApiError,
    http::{ClientAddress, DrainOutcome, serve_connections},
    routes,
    service::HttpService,
    telemetry::warm_up_span,
};
use axum::{
    Router,
    body::Body,
    http::Request,
    response::{IntoResponse, Response},
};
use std::{
    io,
    net::IpAddr,
    sync::{Arc, atomic::Ordering::Relaxed},
};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tower::ServiceExt;
use tracing::Instrument;

/// How a service is told to stop.
#[derive(Debug, Clone, Default)]
pub struct StopSignals {
    /// Stops it at once: no new connections are accepted, and requests in flight have the
    /// time of `drain` to finish.
    pub now: CancellationToken,
    /// Stops it in the same way, after the time of `lame_duck`.
    pub after_lame_duck: CancellationToken,
}

impl HttpService {
    /// Serves until the service is stopped, and then waits for requests in flight, at
    /// most as long as the settings allow. Questions are refused with 503 until the
    /// pipelines are warm; then `on_ready` is called.
    ///
    /// # Errors
    /// If the listener fails, or a pipeline cannot be warmed up.
    pub async fn run(
        mut self,
        listener: TcpListener,
        tls: Option<TlsAcceptor>,
        on_ready: impl FnOnce() + Send + 'static,
        stop: StopSignals,
    ) -> io::Result<DrainOutcome> {
        self.is_tls = tls.is_some();
        let service = Arc::new(self);
        let stop_sampling = CancellationToken::new();
        let sampling = tokio::spawn(service.sampler.work(service.log.sink(), stop_sampling.clone()));
        let following = {
            let service = service.clone();
            AbortOnDropHandle::new(tokio::spawn(async move {
                if let Some(followed) = &service.followed {
                    followed.follow(&service).await;
                }
            }))
        };
        let warm_up_failed = CancellationToken::new();
        let warm_up = {
            let (service, warm_up_failed) = (service.clone(), warm_up_failed.clone());
            tokio::spawn(async move {
                let outcome = async { service.lanes().warm().await }.instrument(warm_up_span()).await;
                match &outcome {
                    Ok(()) => {
                        service.is_warm.store(true, Relaxed);
                        on_ready();
                    }
                    Err(_) => warm_up_failed.cancel(),
                }
                outcome
            })
        };
        let stop_accepting = CancellationToken::new();
        tokio::spawn({
            let (service, stop_accepting) = (service.clone(), stop_accepting.clone());
            async move {
                tokio::select! {
                    () = stop.now.cancelled() => {}
                    () = warm_up_failed.cancelled() => {}
                    () = stop.after_lame_duck.cancelled() => {
                        // Load balancers see that it is not ready before connections are refused.
                        service.is_ending.store(true, Relaxed);
                        drop(tokio::time::timeout(service.settings.lame_duck, stop.now.cancelled()).await);
                    }
                }
                service.is_ending.store(true, Relaxed);
                stop_accepting.cancel();
            }
        });
        let (router, metrics) = (routes::router(&service), service.metrics.clone());
        let drained = serve_connections(listener, tls, router, &service.settings, metrics, stop_accepting).await;
        drop(following);
        stop_sampling.cancel();
        let _ = sampling.await;
        service.log.flush();
        match warm_up.await {
            Ok(Err(error)) => Err(io::Error::other(lab::error_chain(&error))),
            _ => drained,
        }
    }

    /// Warms up the service for another HTTP server, which handles the connections.
    ///
    /// # Errors
    /// If the store or a model fails.
    pub async fn mount(self) -> Result<MountedService, lab::Error> {
        let service = Arc::new(self);
        service.lanes().warm().await?;
        tokio::spawn(service.sampler.work(service.log.sink(), CancellationToken::new()));
        service.is_warm.store(true, Relaxed);
        Ok(MountedService { router: routes::router(&service), service })
    }
}

/// A service inside another HTTP server.
#[derive(Clone)]
pub struct MountedService {
    service: Arc<HttpService>,
    router: Router,
}

impl MountedService {
    /// Answers a request. `client` is the client's address, if it is known. The work
    /// ends when the response's body is dropped.
    pub async fn answer(&self, mut request: Request<Body>, client: Option<IpAddr>) -> Response {
        if let Some(client) = client {
            request.extensions_mut().insert(ClientAddress(client));
        }
        match self.router.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    /// The response to bytes that are not an HTTP request, the same as from the
    /// service's own server.
    pub fn refuse(&self, reason: &str) -> Response {
        let refused = ApiError::invalid(format!("that is no HTTP request: {reason}"));
        self.service.metrics.count_request("none", refused.status.as_u16());
        refused.into_response()
    }

    /// The served pipeline.
    pub fn served(&self) -> Arc<ServedPipeline> {
        self.service.served()
    }
}
