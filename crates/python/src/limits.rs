//! The limits that the workers of a cluster share: one [`Authority`] for each
//! provider, model and account, in one actor, and the workers' way to it.

use async_trait::async_trait;
use executor::{Authority, Lease};
use models::{LeaseRequest, Lessor};
use pyo3::{exceptions::PyValueError, prelude::*};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// How long a lease holds: a dead worker's share is free after that.
const VALID: Duration = Duration::from_secs(3);

/// All limits of a cluster, for the actor that divides them.
#[pyclass(module = "reverie._core", frozen)]
pub(crate) struct Limits {
    /// Until then nothing is given: leases from before a restart may be in use.
    closed_until: Instant,
    authorities: Mutex<BTreeMap<String, Authority>>,
}

#[pymethods]
impl Limits {
    /// `restarted` says that another actor gave leases before.
    #[new]
    fn new(restarted: bool) -> Self {
        let closed_until = Instant::now() + if restarted { VALID } else { Duration::ZERO };
        Self { closed_until, authorities: Mutex::default() }
    }

    /// Hears a request and gives a lease, both as JSON.
    fn renew(&self, request: &str) -> PyResult<String> {
        let refuse = |error: serde_json::Error| PyValueError::new_err(error.to_string());
        let request: LeaseRequest = serde_json::from_str(request).map_err(refuse)?;
        let now = Instant::now();
        let lease = if now < self.closed_until {
            Lease { concurrency: 0, requests_per_minute: None, tokens_per_minute: None, valid: VALID }
        } else {
            let mut authorities = self.authorities.lock().unwrap_or_else(PoisonError::into_inner);
            let new = || Authority::new(request.settings, VALID);
            let authority = authorities.entry(request.limit).or_insert_with(new);
            authority.renew(request.process, &request.report, now)
        };
        serde_json::to_string(&lease).map_err(refuse)
    }

    /// How many calls may be in flight at each limit, over all workers.
    fn targets(&self) -> BTreeMap<String, usize> {
        let authorities = self.authorities.lock().unwrap_or_else(PoisonError::into_inner);
        authorities.iter().map(|(limit, authority)| (limit.clone(), authority.target())).collect()
    }
}

/// Asks the actor by a Python function from request to lease, both as JSON.
pub(crate) struct PythonLessor {
    ask: Arc<Py<PyAny>>,
}

impl PythonLessor {
    pub(crate) fn shared(ask: Py<PyAny>) -> Arc<dyn Lessor> {
        Arc::new(Self { ask: Arc::new(ask) })
    }
}

#[async_trait]
impl Lessor for PythonLessor {
    async fn renew(&self, request: LeaseRequest) -> Result<Lease, String> {
        let request = serde_json::to_string(&request).map_err(|error| error.to_string())?;
        let ask = self.ask.clone();
        let asked =
            tokio::task::spawn_blocking(move || Python::attach(|py| ask.call1(py, (request,))?.extract::<String>(py)));
        let lease = asked.await.map_err(|error| error.to_string())?.map_err(|error: PyErr| error.to_string())?;
        serde_json::from_str(&lease).map_err(|error| error.to_string())
    }
}
