//! What a session is given by whoever starts it: libraries read no
//! environment.

use crate::{
    cluster::{Cluster, ClusterError},
    progress::Progress,
    spec::RayEngineSpec,
};
use models::{
    Caps, CpuBudget, Lessor, Listener, ModelDirectory, PullOptions, RetryPolicy, provider, provider::Environment,
};
use std::{path::PathBuf, sync::Arc};
use tokio_util::sync::CancellationToken;

/// Joins the cluster that an experiment names.
pub type Connect = Arc<dyn Fn(&RayEngineSpec) -> Result<Arc<dyn Cluster>, ClusterError> + Send + Sync>;

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
    /// How a person follows a run and ends it.
    pub control: Control,
    /// What other processes have a part in.
    pub cluster: ClusterSetup,
}

/// How a person follows a run and ends it.
#[derive(Clone, Default)]
pub struct Control {
    /// The live table.
    pub progress: Progress,
    /// Ends the run.
    pub cancel: CancellationToken,
    /// Is told what chat models are asked, and what they answer.
    pub listener: Option<Listener>,
    /// How failed calls are tried again, where it is not as in a run: a run is
    /// patient, and somebody who waits for an answer is not.
    pub retry: Option<RetryPolicy>,
    /// Whether answers of models are neither kept nor taken from the journal: a
    /// run must not pay twice, and a service must not keep what it was asked.
    pub forgets_answers: bool,
}

/// What a driver or a worker of a cluster is given beside; nothing on a
/// machine that works alone.
#[derive(Clone, Default)]
pub struct ClusterSetup {
    /// Joins a cluster, for a program that can.
    pub connect: Option<Connect>,
    /// Gives shares of the models' limits and of the budget, where other
    /// processes share them.
    pub lessor: Option<Arc<dyn Lessor>>,
    /// The budget that is shared so, by name, with its caps.
    pub allowance: Option<(String, Caps)>,
    /// Where models come from that are missing on a worker; none are pulled
    /// if left out.
    pub pull: Option<PullOptions>,
    /// The folder for what must be on a local disk, instead of a `.reverie`
    /// beside the experiment file, where the store is an object store.
    pub local_folder: Option<PathBuf>,
}

impl Setup {
    /// A session on this machine alone, which needs no options for its store.
    pub fn new(directory: ModelDirectory, environment: Environment) -> Self {
        Self {
            directory,
            environment,
            store_options: Vec::new(),
            budget_usd: None,
            control: Control::default(),
            cluster: ClusterSetup::default(),
        }
    }

    /// What all models are built with, within a CPU budget of so many cores, at
    /// most the machine's, which are the default.
    pub(crate) fn context(&self, cores: Option<usize>) -> provider::ModelContext {
        let cpu = cores.map_or_else(CpuBudget::machine, CpuBudget::at_most);
        provider::ModelContext { directory: self.directory.clone(), cpu, environment: self.environment.clone() }
    }
}
