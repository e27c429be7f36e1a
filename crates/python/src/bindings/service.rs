//! The HTTP service inside a server of Python: requests come as bytes and
//! answers go as bytes, so that every route behaves as in `reverie serve`.

use super::{
    part_transport::PyPartTransport,
    remote::runtime,
    work::{spawn_for_callback, value_error, wait},
};
use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, Method, Request, Uri},
};
use futures::StreamExt;
use lab::Part;
use pyo3::prelude::*;
use serve::{ApiKeys, HttpService, KeyFile, MountedService, ServedPipeline, ServiceSettings};
use std::{path::Path, sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio::sync::{Mutex, mpsc};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

/// Headers as ASGI has them.
type AsgiHeaders = Vec<(Vec<u8>, Vec<u8>)>;

/// A bundle that is served.
#[pyclass(frozen, module = "reverie._core", name = "Service")]
pub(crate) struct PyService {
    mounted: MountedService,
    /// Removed after the pipelines are gone.
    _scratch: TempDir,
}

/// A part of a response, which Python gets as a tuple or as bytes.
#[derive(IntoPyObject)]
pub(crate) enum ResponsePart {
    Head(u16, AsgiHeaders),
    Bytes(Vec<u8>),
}

#[pymethods]
impl PyService {
    /// Opens a bundle and makes it ready. `keys` is the text of a file of keys;
    /// `others` passes requests on to the other parts, if this is the gateway
    /// of a graph: a bundle whose parts are deployments of Ray Serve.
    #[new]
    #[pyo3(signature = (bundle, fallback=None, keys=None, public_url=None, answers_at_once=64, queue=256, searches_at_once=256, deadline=120.0, first_token=60.0, others=None, open_to_all=false, admin_without_key=false))]
    fn new(
        py: Python<'_>,
        bundle: String,
        fallback: Option<String>,
        keys: Option<&str>,
        public_url: Option<String>,
        answers_at_once: usize,
        queue: usize,
        searches_at_once: usize,
        deadline: f64,
        first_token: f64,
        others: Option<Py<PyAny>>,
        open_to_all: bool,
        admin_without_key: bool,
    ) -> PyResult<Self> {
        let duration = |name: &str, seconds: f64| {
            let duration = Some(seconds).filter(|seconds| *seconds > 0.0);
            let duration = duration.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            duration.ok_or_else(|| value_error(format!("{name}: {seconds} is no number of seconds above 0")))
        };
        if searches_at_once == 0 || answers_at_once == 0 {
            return Err(value_error("answers_at_once and searches_at_once must be at least 1"));
        }
        if admin_without_key && (keys.is_some() || public_url.is_some()) {
            return Err(value_error(
                "admin_without_key with keys or public_url: what comes through a proxy on this machine may look like a \
                 program on it; give programs a key with the scope `admin`",
            ));
        }
        let keys = keys.map(|text| {
            let keys = KeyFile::read(text).and_then(ApiKeys::new);
            keys.map_err(|reason| value_error(format!("keys: {reason}")))
        });
        let settings = ServiceSettings {
            keys: keys.transpose()?,
            public_url,
            open_to_all,
            admin_without_key,
            // The server around it decides who reaches it.
            any_host: true,
            answers_at_once,
            queue,
            searches_at_once,
            deadline: duration("deadline", deadline)?,
            first_token: duration("first_token", first_token)?,
            ..ServiceSettings::default()
        };
        let cancel = CancellationToken::new();
        let scratch = app::scratch_folder()?;
        let folder = scratch.path().to_owned();
        let work = || async move {
            let served = open(&bundle, others.map(|others| (Part::Gateway, others)), &folder).await?;
            let fallback = match &fallback {
                Some(address) => Some(open(address, None, &folder).await?),
                None => None,
            };
            HttpService::new(served, settings).with_fallback(fallback).mount().await
        };
        Ok(Self { mounted: wait(py, &cancel, work, |_| Ok(()))?, _scratch: scratch })
    }

    /// The name that clients send as `model`.
    #[getter]
    fn name(&self) -> String {
        self.mounted.served().name.clone()
    }

    /// The digest of the bundle.
    #[getter]
    fn version(&self) -> String {
        self.mounted.served().version.clone()
    }

    /// Begins to answer a request; `target` is its path with its query, `client`
    /// the address of who sent it, if the server knows that.
    #[pyo3(signature = (method, target, headers, body, client=None))]
    fn answer(
        &self,
        method: &str,
        target: &str,
        headers: AsgiHeaders,
        body: Vec<u8>,
        client: Option<&str>,
    ) -> PyResult<PyReply> {
        let request = to_request(method, target, headers, body);
        let client = client.and_then(|client| client.parse().ok());
        let mounted = self.mounted.clone();
        PyReply::of(|tell| async move {
            let response = match request {
                Ok(request) => mounted.answer(request, client).await,
                Err(error) => mounted.refuse(&error.to_string()),
            };
            let (head, body) = response.into_parts();
            let headers = head.headers.iter().map(|(name, value)| (name.as_str().into(), value.as_bytes().to_vec()));
            if tell.send(ResponsePart::Head(head.status.as_u16(), headers.collect())).await.is_err() {
                return;
            }
            let mut chunks = body.into_data_stream();
            while let Some(Ok(chunk)) = chunks.next().await {
                if tell.send(ResponsePart::Bytes(chunk.to_vec())).await.is_err() {
                    return;
                }
            }
        })
    }
}

/// Makes a request of its parts.
fn to_request(
    method: &str,
    target: &str,
    headers: AsgiHeaders,
    body: Vec<u8>,
) -> Result<Request<Body>, axum::http::Error> {
    let mut request = Request::new(Body::from(body));
    *request.method_mut() = Method::from_bytes(method.as_bytes())?;
    *request.uri_mut() = target.parse::<Uri>()?;
    for (name, value) in headers {
        let name = HeaderName::from_bytes(&name)?;
        request.headers_mut().append(name, HeaderValue::from_bytes(&value)?);
    }
    Ok(request)
}

/// Opens a bundle, or a part of it with the way to the others.
pub(crate) async fn open(
    address: &str,
    part: Option<(Part, Py<PyAny>)>,
    scratch: &Path,
) -> Result<ServedPipeline, lab::Error> {
    let mut setup = app::setup(CancellationToken::new());
    setup.control.retry = Some(serve::interactive_retry_policy(ServiceSettings::default().first_token));
    let cache = app::home().join("bundles");
    match part {
        Some((part, others)) => {
            let others = Arc::new(PyPartTransport::new(others));
            ServedPipeline::open_bundle_part(address, setup, &cache, scratch, part, others).await
        }
        None => ServedPipeline::open_bundle(address, setup, &cache, scratch).await,
    }
}

/// A response, part by part. The work ends when this is closed or dropped.
#[pyclass(frozen, module = "reverie._core", name = "Reply")]
pub(crate) struct PyReply {
    parts: Arc<Mutex<mpsc::Receiver<ResponsePart>>>,
    work: std::sync::Mutex<Option<AbortOnDropHandle<()>>>,
}

impl PyReply {
    /// Starts work that sends the parts of a response.
    pub(crate) fn of<Work: Future<Output = ()> + Send + 'static>(
        work: impl FnOnce(mpsc::Sender<ResponsePart>) -> Work,
    ) -> PyResult<Self> {
        // A slow client slows its own answer, and fills no memory.
        let (tell, parts) = mpsc::channel(16);
        let work = AbortOnDropHandle::new(runtime()?.spawn(work(tell)));
        Ok(Self { parts: Arc::new(Mutex::new(parts)), work: std::sync::Mutex::new(Some(work)) })
    }
}

#[pymethods]
impl PyReply {
    /// Asks for the next part; `done` is called from another thread, first with
    /// the status and the headers, then with bytes, at last with None.
    fn anext(&self, done: Py<PyAny>) -> PyResult<()> {
        let parts = self.parts.clone();
        spawn_for_callback(done, async move { Ok(parts.lock().await.recv().await) })
    }

    /// Ends the work, unless it has ended.
    fn close(&self) {
        let work = self.work.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        drop(work);
    }
}
