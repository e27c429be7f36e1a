//! The server: connections on 127.0.0.1, and the handle of a running one.

use crate::{Error, SimulatorSettings, Stats, api, state::SimulatorState, stream::CuttableStream};
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use serde_json::{Map, Value};
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::TcpListener,
    task::{JoinHandle, JoinSet},
};

/// How long to wait when the system has no room for another connection.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Starts a simulated provider, which is ready when this returns.
///
/// # Errors
/// Settings that cannot work, or a port that is taken.
pub async fn start(settings: SimulatorSettings) -> Result<RunningSimulator, Error> {
    let settings = settings.checked()?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, settings.port));
    let listening = async {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok::<_, std::io::Error>((listener, address))
    };
    let (listener, address) = listening.await.map_err(|source| Error::Listen { address, source })?;
    let state = SimulatorState::new(settings);
    let task = tokio::spawn(serve(listener, api::router(state.clone())));
    Ok(RunningSimulator { url: format!("http://{address}"), state, task })
}

/// A provider that runs until this is dropped.
#[derive(Debug)]
pub struct RunningSimulator {
    /// Where it listens, such as `http://127.0.0.1:40123`. OpenAI's clients
    /// want this with `/v1` at the end.
    pub url: String,
    state: Arc<SimulatorState>,
    task: JoinHandle<()>,
}

impl RunningSimulator {
    /// What it has seen so far.
    pub fn stats(&self) -> Stats {
        self.state.stats()
    }

    /// Replaces settings by name, as `POST /control` does.
    ///
    /// # Errors
    /// A name or a value that does not exist; then all settings stay as they are.
    pub fn set(&self, changes: &Map<String, Value>) -> Result<(), Error> {
        self.state.set(|settings| settings.merged(changes)).map(drop)
    }

    /// Ends the server and all connections, and waits until they are gone.
    pub async fn shutdown(mut self) {
        self.task.abort();
        // Ends with a cancellation, which is what was asked for.
        let _ = (&mut self.task).await;
    }

    /// Waits until the server ends, which it does only if it is aborted.
    pub async fn wait(mut self) {
        let _ = (&mut self.task).await;
    }
}

impl Drop for RunningSimulator {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, router: Router) {
    // Dropped with this future, and with it every connection.
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_RETRY_PAUSE).await;
            continue;
        };
        let connection = CuttableStream::new(stream);
        let service = TowerToHyperService::new(router.clone().layer(Extension(connection.cutter())));
        connections.spawn(async move {
            // A connection may end in any way; faults are counted where they are made.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(connection), service).await;
        });
    }
}
