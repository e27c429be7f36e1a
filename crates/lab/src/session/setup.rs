//! What a session is given by whoever starts it: libraries read no
//! environment.

use crate::{engine::Cluster, progress::Progress, spec::RayEngineSpec};
use models::{Caps, Lessor, ModelDirectory, PullOptions};
use std::{path::PathBuf, sync::Arc};
use tokio_util::sync::CancellationToken;

/// Looks up an environment variable by name.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Joins the cluster that an experiment names.
pub type Connect = Arc<dyn Fn(&RayEngineSpec) -> Result<Arc<dyn Cluster>, String> + Send + Sync>;

/// What a session is given by whoever starts it.
#[derive(Clone)]
pub struct Setup {
    /// Where models and libraries are.
    pub directory: ModelDirectory,
    /// Looks up an environment variable by name.
    pub environment: Environment,
    /// Options for object stores (`aws_access_key_id`, …).
    pub store_options: Vec<(String, String)>,
    /// What a run may cost in US dollars, instead of what the file says.
    pub budget_usd: Option<f64>,
    /// Ends the run.
    pub cancel: CancellationToken,
    /// The live table.
    pub progress: Progress,
    /// Gives shares of the models' limits and of the budget, where other
    /// processes share them.
    pub lessor: Option<Arc<dyn Lessor>>,
    /// The budget that is shared so, by name, with its caps.
    pub allowance: Option<(String, Caps)>,
    /// Where models come from that are missing on a worker; none are pulled
    /// if left out.
    pub pull: Option<PullOptions>,
    /// Joins a cluster, for a program that can.
    pub connect: Option<Connect>,
    /// The folder for what must be on a local disk, instead of a `.reverie`
    /// beside the experiment file, where the store is an object store.
    pub local_folder: Option<PathBuf>,
}
