//! The Rust part of the Ray engine: what the driver hands to Ray, what a worker
//! does, and the limits that workers share. Python talks to Ray:
//! `reverie/ray/_cluster.py` starts actors and passes bytes.

use async_trait::async_trait;
use lab::{
    RayEngineSpec, Worker,
    cluster::{CallError, Cluster, ClusterError, ClusterNode, Resources, WorkerId},
    engine::WorkerSetup,
};
use models::Caps;
use pyo3::{call::PyCallArgs, exceptions::PyRuntimeError, prelude::*};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio::{runtime::Runtime, sync::oneshot};
use tokio_util::sync::CancellationToken;

/// A cluster behind the Python object that talks to Ray.
pub(crate) struct PythonCluster {
    object: Arc<Py<PyAny>>,
}

impl PythonCluster {
    /// The function that joins a cluster, by calling Python's `connect` with its address.
    pub(crate) fn connect(connect: Py<PyAny>) -> lab::Connect {
        Arc::new(move |spec: &RayEngineSpec| {
            Python::attach(|py| {
                let arguments = (&spec.address, spec.environment.clone());
                let object = connect.call1(py, arguments).map_err(|error| ClusterError(error.value(py).to_string()))?;
                Ok(Arc::new(Self { object: Arc::new(object) }) as Arc<dyn Cluster>)
            })
        })
    }

    /// Calls a method with a callback as its last argument, and waits for the callback.
    async fn ask<A: for<'py> PyCallArgs<'py> + Send + 'static>(
        &self,
        method: &'static str,
        arguments: impl FnOnce(PyDone) -> A,
    ) -> Result<Vec<u8>, CallError> {
        let (sender, receiver) = oneshot::channel();
        let (object, arguments) = (self.object.clone(), arguments(PyDone { sender: Mutex::new(Some(sender)) }));
        let begin = move || Python::attach(|py| object.call_method1(py, method, arguments).map(drop));
        let begun = tokio::task::spawn_blocking(begin).await.map_err(|error| CallError::Failed(error.to_string()))?;
        begun.map_err(|error| CallError::Unavailable(error.to_string()))?;
        receiver.await.unwrap_or_else(|_| Err(CallError::Unavailable("Ray dropped the call".to_owned())))
    }
}

#[async_trait]
impl Cluster for PythonCluster {
    async fn nodes(&self) -> Result<Vec<ClusterNode>, ClusterError> {
        let object = self.object.clone();
        let asked = tokio::task::spawn_blocking(move || {
            Python::attach(|py| object.call_method0(py, "nodes")?.extract::<String>(py))
        });
        let failed = |error: &dyn std::error::Error| ClusterError(error.to_string());
        let text = asked.await.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
        serde_json::from_str(&text).map_err(|error| failed(&error))
    }

    async fn start(
        &self,
        worker: WorkerId,
        node: Option<&str>,
        resources: &Resources,
        setup: &[u8],
    ) -> Result<String, CallError> {
        let (node, setup) = (node.map(str::to_owned), setup.to_vec());
        let resources = serde_json::to_string(resources).map_err(|error| CallError::Failed(error.to_string()))?;
        let node = self.ask("start", |done| (worker, node, resources, setup, done)).await?;
        String::from_utf8(node).map_err(|error| CallError::Failed(error.to_string()))
    }

    async fn call(&self, worker: WorkerId, unit: Vec<u8>) -> Result<Vec<u8>, CallError> {
        self.ask("call", |done| (worker, unit, done)).await
    }

    async fn look(&self, worker: WorkerId, orders: Vec<u8>) -> Result<Vec<u8>, CallError> {
        self.ask("status", |done| (worker, orders, done)).await
    }

    async fn set_caps(&self, budget: &str, caps: Caps) -> Result<(), ClusterError> {
        let failed = |error: &dyn std::error::Error| ClusterError(error.to_string());
        let caps = serde_json::to_string(&caps).map_err(|error| failed(&error))?;
        let (object, budget) = (self.object.clone(), budget.to_owned());
        let asked = tokio::task::spawn_blocking(move || {
            Python::attach(|py| object.call_method1(py, "set_caps", (budget, caps)).map(drop))
        });
        asked.await.map_err(|error| failed(&error))?.map_err(|error| failed(&error))
    }

    async fn stop(&self, worker: WorkerId) {
        let object = self.object.clone();
        // A worker that cannot be ended is gone already.
        let stopped = tokio::task::spawn_blocking(move || {
            Python::attach(|py| object.call_method1(py, "stop", (worker,)).map(drop))
        });
        let _ = stopped.await;
    }
}

type ReplySender = oneshot::Sender<Result<Vec<u8>, CallError>>;

/// How a call to a worker ended; Python calls it once, from any thread.
#[pyclass(module = "reverie._core", frozen, name = "Done")]
pub(crate) struct PyDone {
    sender: Mutex<Option<ReplySender>>,
}

#[pymethods]
impl PyDone {
    /// `kind` is `ok` with the reply, else `died`, `unavailable` or `failed` with the reason.
    fn __call__(&self, kind: &str, payload: &[u8]) {
        let Some(sender) = self.sender.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        let reason = || String::from_utf8_lossy(payload).into_owned();
        let _ = sender.send(match kind {
            "ok" => Ok(payload.to_vec()),
            "died" => Err(CallError::Died(reason())),
            "unavailable" => Err(CallError::Unavailable(reason())),
            _ => Err(CallError::Failed(reason())),
        });
    }
}

/// The threads that asynchronous code of all bindings runs on, not only that for Ray.
pub(crate) fn runtime() -> PyResult<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    super::process::check()?;
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    // Small searches compute on these threads, so a service uses all cores.
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get).max(2);
    let made = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let made = made.map_err(|error| PyRuntimeError::new_err(format!("no threads: {error}")))?;
    Ok(RUNTIME.get_or_init(|| made))
}

/// A worker of the Ray engine.
#[pyclass(module = "reverie._core", name = "Worker", frozen)]
pub(crate) struct RayWorker {
    worker: Arc<Worker>,
}

#[pymethods]
impl RayWorker {
    /// Opens the store and checks that this machine is like the driver's.
    /// `folder` is where journal and scratch files go if the store is remote;
    /// `lessor` has a method `renew` for leases and `allow` for allowances:
    /// each is called with a request as JSON, and returns the reply as JSON.
    #[new]
    #[pyo3(signature = (setup, folder, lessor=None))]
    fn new(py: Python<'_>, setup: &[u8], folder: String, lessor: Option<Py<PyAny>>) -> PyResult<Self> {
        let told: WorkerSetup = serde_json::from_slice(setup)
            .map_err(|error| PyRuntimeError::new_err(format!("{error}: is the same version of reverie everywhere?")))?;
        let cluster = lab::ClusterSetup {
            local_folder: Some(folder.into()),
            lessor: lessor.map(super::limits::PythonLessor::shared),
            pull: Some(app::pull_options()),
            ..lab::ClusterSetup::default()
        };
        let setup = lab::Setup { cluster, ..app::setup(CancellationToken::new()) };
        let opened = py.detach(|| runtime().map(|runtime| runtime.block_on(Worker::open(&told, setup))));
        let worker = opened?.map_err(|error| PyRuntimeError::new_err(lab::error_chain(&error)))?;
        Ok(Self { worker: Arc::new(worker) })
    }

    /// What the worker is doing, for the driver's live tables. `orders` is what people have changed.
    fn status(&self, orders: &[u8]) -> PyResult<Vec<u8>> {
        self.worker.look(orders).map_err(|error| PyRuntimeError::new_err(lab::error_chain(&error)))
    }

    /// Executes a unit of tasks; `done(reply, reason)` is called with the reply, or with
    /// `None` and the reason.
    fn run(&self, unit: Vec<u8>, done: Py<PyAny>) -> PyResult<()> {
        let worker = self.worker.clone();
        runtime()?.spawn(async move {
            let (reply, error) = match worker.run(&unit).await {
                Ok(reply) => (Some(reply), None),
                Err(error) => (None, Some(lab::error_chain(&error))),
            };
            // The interpreter may be ending; then the reply is dropped.
            let told =
                tokio::task::spawn_blocking(move || Python::attach(|py| done.call1(py, (reply, error)).map(drop)));
            let _ = told.await;
        });
        Ok(())
    }
}

/// The folder with models and libraries that this process uses.
#[pyfunction]
pub(crate) fn home() -> String {
    app::home().display().to_string()
}

/// Runs the command line `reverie`, and returns the code to exit with. The
/// second argument joins a Ray cluster by its address.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, arguments: Vec<std::ffi::OsString>, connect: Py<PyAny>) -> u8 {
    py.detach(|| app::main(arguments, Some(PythonCluster::connect(connect))))
}
