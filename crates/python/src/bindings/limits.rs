//! The limits that the workers of a cluster share. One actor holds an
//! authority for each provider, model and account ([`Authorities`]), and an [`Allowances`]
//! for the budget of each run. The workers' connection to the actor is here
//! too.

use async_trait::async_trait;
use executor::{Authorities, Lease};
use models::{Allowance, AllowanceRequest, Allowances, Caps, LeaseRequest, Lessor, LessorError};
use pyo3::{exceptions::PyValueError, prelude::*};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// How long a lease is valid. After that, the share of a dead worker is free.
const VALID: Duration = Duration::from_secs(3);

/// A run is over if no worker has asked for its budget for this long.
const OVER: Duration = Duration::from_secs(3600);

/// All limits of a cluster, for the actor that divides them.
#[pyclass(module = "reverie._core", frozen, name = "Limits")]
pub(crate) struct PyLimits {
    /// Before this time nothing is granted, because leases from before a restart may be in
    /// use.
    closed_until: Instant,
    authorities: Mutex<Authorities>,
    budgets: Mutex<BTreeMap<String, Allowances>>,
}

#[pymethods]
impl PyLimits {
    /// `restarted` says that another actor gave leases before.
    #[new]
    fn new(restarted: bool) -> Self {
        let closed_until = Instant::now() + if restarted { VALID } else { Duration::ZERO };
        Self { closed_until, authorities: Mutex::default(), budgets: Mutex::default() }
    }

    /// Grants a lease for a request, both as JSON.
    fn renew(&self, request: &str) -> PyResult<String> {
        let request: LeaseRequest = serde_json::from_str(request).map_err(refuse)?;
        let now = Instant::now();
        let lease = if now < self.closed_until {
            Lease { concurrency: 0, requests_per_minute: None, tokens_per_minute: None, valid: VALID }
        } else {
            let mut authorities = self.authorities.lock().unwrap_or_else(PoisonError::into_inner);
            let member = (request.process, request.settings);
            authorities.renew(&request.limit, member, &request.report, (now, VALID))
        };
        serde_json::to_string(&lease).map_err(refuse)
    }

    /// Grants more of a budget for a report of what a worker spent, both as JSON.
    fn allow(&self, request: &str) -> PyResult<String> {
        let request: AllowanceRequest = serde_json::from_str(request).map_err(refuse)?;
        let now = Instant::now();
        // For a while after a restart, no request is granted, so that all workers can first report what they spent.
        let request = AllowanceRequest { wanted: request.wanted.filter(|_| now >= self.closed_until), ..request };
        let mut budgets = self.budgets.lock().unwrap_or_else(PoisonError::into_inner);
        budgets.retain(|_, budget| budget.last_request().is_none_or(|asked| now.duration_since(asked) < OVER));
        let budget = budgets.entry(request.budget.clone()).or_insert_with(|| Allowances::new(request.caps, now));
        let allowance: Allowance = budget.ask(&request, now);
        serde_json::to_string(&allowance).map_err(refuse)
    }

    /// Replaces the caps of a budget, which are JSON.
    fn set_caps(&self, budget: &str, caps: &str) -> PyResult<()> {
        let caps: Caps = serde_json::from_str(caps).map_err(refuse)?;
        let mut budgets = self.budgets.lock().unwrap_or_else(PoisonError::into_inner);
        budgets.entry(budget.to_owned()).or_insert_with(|| Allowances::new(caps, Instant::now())).set_caps(caps);
        Ok(())
    }

    /// How many calls may be in flight at each limit, over all workers.
    fn targets(&self) -> BTreeMap<String, usize> {
        self.authorities.lock().unwrap_or_else(PoisonError::into_inner).targets()
    }
}

fn refuse(error: serde_json::Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Asks the actor through a Python object whose methods take and return JSON.
pub(crate) struct PythonLessor {
    object: Arc<Py<PyAny>>,
}

impl PythonLessor {
    pub(crate) fn shared(object: Py<PyAny>) -> Arc<dyn Lessor> {
        Arc::new(Self { object: Arc::new(object) })
    }

    /// Calls a method of the object with a request as JSON, and reads its reply as JSON.
    async fn ask<Q: Serialize, R: DeserializeOwned>(&self, method: &'static str, request: Q) -> Result<R, LessorError> {
        let request = serde_json::to_string(&request).map_err(lost)?;
        let object = self.object.clone();
        let asked = tokio::task::spawn_blocking(move || {
            Python::attach(|py| object.call_method1(py, method, (request,))?.extract::<String>(py))
        });
        let reply = asked.await.map_err(lost)?.map_err(lost)?;
        serde_json::from_str(&reply).map_err(lost)
    }
}

fn lost(error: impl std::fmt::Display) -> LessorError {
    LessorError(error.to_string())
}

#[async_trait]
impl Lessor for PythonLessor {
    async fn renew(&self, request: LeaseRequest) -> Result<Lease, LessorError> {
        self.ask("renew", request).await
    }

    async fn allow(&self, request: AllowanceRequest) -> Result<Allowance, LessorError> {
        self.ask("allow", request).await
    }
}
