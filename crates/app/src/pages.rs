//! The pages of a store, served by this process: for `reverie ui` and `reverie run --ui`.

use crate::{audit::AuditLog, failure::CommandFailure, key_watch::WatchedKeys};
use ::serve::{ServiceSettings, serve_guarded};
use lab::Session;
use std::{
    io::{self, ErrorKind},
    net::SocketAddr,
    path::Path,
    sync::Arc,
};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use ui::PageService;

/// Where the pages are served if nobody says otherwise.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:8090";

/// Pages that are being served.
pub struct ServedPages {
    /// Their address.
    pub url: String,
    task: JoinHandle<io::Result<()>>,
}

impl ServedPages {
    /// Serves the pages of a session's store until `stop`. If `listen` is the default and its port is taken, another port
    /// is used.
    ///
    /// # Errors
    /// If others than this machine could look and there are no keys, or the address cannot be listened to.
    pub async fn start(
        session: Arc<Session>,
        can_steer: bool,
        listen: Option<SocketAddr>,
        keys: Option<&Path>,
        stop: CancellationToken,
    ) -> Result<Self, CommandFailure> {
        let keys = keys.map(WatchedKeys::read).transpose()?;
        let address = match listen {
            Some(address) => address,
            None => DEFAULT_LISTEN.parse().map_err(CommandFailure::runtime)?,
        };
        if keys.is_none() && !address.ip().is_loopback() {
            return Err(CommandFailure::usage(format!(
                "--listen {address}: others than this machine could look at the runs and steer them, and there are no keys; \
                 add --keys FILE (`reverie keys new NAME --scope ask --scope admin` makes one)"
            )));
        }
        let listener = match TcpListener::bind(address).await {
            Err(error) if listen.is_none() && error.kind() == ErrorKind::AddrInUse => {
                TcpListener::bind(SocketAddr::new(address.ip(), 0)).await
            }
            bound => bound,
        };
        let listener = listener.map_err(|error| CommandFailure::runtime(format!("--listen {address}: {error}")))?;
        let url = format!("http://{}", listener.local_addr().map_err(CommandFailure::runtime)?);
        let settings = ServiceSettings {
            // Without keys, only programs and pages of this machine steer.
            admin_without_key: keys.is_none(),
            keys: keys.as_ref().map(|keys| keys.keys.clone()),
            ..ServiceSettings::default()
        };
        let service = Arc::new(PageService::new(session, can_steer, keys.is_some()));
        let routes = service.clone().routes();
        let audit = AuditLog::begin(io::stderr()).map_err(CommandFailure::runtime)?;
        let watching = keys.map(|keys| AbortOnDropHandle::new(tokio::spawn(keys.watch(audit))));
        let ending = AbortOnDropHandle::new(tokio::spawn({
            let (service, stop) = (service.clone(), stop.clone());
            async move {
                stop.cancelled().await;
                service.end_streams();
            }
        }));
        let task = tokio::spawn(async move {
            let _tasks = (watching, ending);
            let served = serve_guarded(listener, None, routes, settings, stop).await.map(drop);
            service.finish().await;
            served
        });
        Ok(Self { url, task })
    }

    /// Waits until the pages are no longer served.
    ///
    /// # Errors
    /// If the listener failed.
    pub async fn ended(self) -> Result<(), CommandFailure> {
        self.task.await.map_err(CommandFailure::runtime)?.map_err(CommandFailure::runtime)
    }
}
