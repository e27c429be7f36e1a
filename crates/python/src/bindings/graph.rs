//! The parts of a bundle in several processes (`reverie.ray.serve.graph`: each
//! is a deployment of Ray Serve): each answers requests of the
//! others, and sends its own through an object of Python's.

use super::{
    service::{PyReply, ResponsePart, open},
    work::{value_error, wait},
};
use futures::StreamExt;
use lab::Part;
use pyo3::prelude::*;
use serve::ServedPipeline;
use std::sync::Arc;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// One part of a bundle.
#[pyclass(frozen, module = "reverie._core", name = "Part")]
pub(crate) struct PyPart {
    served: Arc<ServedPipeline>,
    /// Removed after the pipeline is gone.
    _scratch: TempDir,
}

#[pymethods]
impl PyPart {
    /// Opens a part and makes it ready; `others` passes requests on.
    #[new]
    fn new(py: Python<'_>, bundle: String, part: &str, others: Py<PyAny>) -> PyResult<Self> {
        let part = Part::named(part).ok_or_else(|| value_error(format!("there is no part `{part}`")))?;
        let scratch = app::scratch_folder()?;
        let folder = scratch.path().to_owned();
        let work = || async move {
            let served = open(&bundle, Some((part, others)), &folder).await?;
            served.warm().await?;
            Ok::<_, lab::Error>(served)
        };
        let served = Arc::new(wait(py, &CancellationToken::new(), work, |_| Ok(()))?);
        Ok(Self { served, _scratch: scratch })
    }

    /// What differs from the run that the bundle is of.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.served.notes().to_vec()
    }

    /// Begins to reply to a request of another part.
    fn reply(&self, request: Vec<u8>) -> PyResult<PyReply> {
        let served = self.served.clone();
        PyReply::of(|tell| async move {
            let mut said = served.reply(&request);
            while let Some(bytes) = said.next().await {
                if tell.send(ResponsePart::Bytes(bytes)).await.is_err() {
                    return;
                }
            }
        })
    }
}

/// The parts for which the trial of a bundle has a component.
#[pyfunction]
pub(crate) fn parts(py: Python<'_>, bundle: String) -> PyResult<Vec<&'static str>> {
    let work = || async move {
        let parts = lab::Part::of_bundle(&bundle, &app::setup(CancellationToken::new())).await?;
        Ok::<_, lab::Error>(parts.into_iter().map(Part::name).collect())
    };
    wait(py, &CancellationToken::new(), work, |_| Ok(()))
}
