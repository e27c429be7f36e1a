//! What a session's caller gives it: this library reads no environment.

use crate::{
    cluster::{Cluster, ClusterError},
    progress::Progress,
    spec::RayEngineSpec,
    steering::Steering,
};
use models::{
    Budget, Caps, Client, CpuBudget, Lessor, Listener, ModelDirectory, PullOptions, RetryPolicy, provider,
    provider::Environment,
};
use std::{path::PathBuf, sync::Arc};
use tokio_util::sync::CancellationToken;

/// Joins the cluster that an experiment names.
pub type Connect = Arc<dyn Fn(&RayEngineSpec) -> Result<Arc<dyn Cluster>, ClusterError> + Send + Sync>;

/// What a session's caller gives it.
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
    /// Settings for work that several processes share.
    pub cluster: ClusterSetup,
}

/// How a person follows a run and ends it.
#[derive(Clone, Default)]
pub struct Control {
    /// The live table.
    pub progress: Progress,
    /// What people do to the run while it goes on.
    pub steering: Steering,
    /// Ends the run.
    pub cancel: CancellationToken,
    /// Called with each request to a chat model and its answer.
    pub listener: Option<Listener>,
    /// Overrides the retry policy: interactive callers want fewer retries than runs.
    pub retry: Option<RetryPolicy>,
    /// Whether the journal is off, so that answers are neither stored nor reused: a service must
    /// not keep what it was asked.
    pub forgets_answers: bool,
    /// Whether calls are sent in batches where the settings of a model ask for it: runs do so, because nobody waits for
    /// a single answer.
    pub sends_batches: bool,
}

impl Control {
    /// Gives a client this control, and a budget to spend.
    pub(crate) fn attach(&self, client: Client, budget: &Budget) -> Client {
        let client = client
            .with_budget(budget.clone())
            .with_cancellation(self.cancel.clone())
            .with_pause(self.steering.pauses())
            .with_listener(self.listener.clone());
        match &self.retry {
            Some(retry) => client.with_retry(retry.clone()),
            None => client,
        }
    }
}

/// What a driver or a worker of a cluster needs in addition; empty on a machine that works alone.
#[derive(Clone, Default)]
pub struct ClusterSetup {
    /// Joins a cluster, for a program that can.
    pub connect: Option<Connect>,
    /// Gives this process its share of the models' limits and of the budget, if processes share
    /// them.
    pub lessor: Option<Arc<dyn Lessor>>,
    /// The name and the caps of the shared budget.
    pub shared_budget: Option<(String, Caps)>,
    /// Where models come from that are missing on a worker; none are pulled
    /// if left out.
    pub pull: Option<PullOptions>,
    /// The folder for files that must be on a local disk, if the store is an
    /// object store. Default: `.reverie` beside the experiment file.
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

    /// The context in which all models are built, with a CPU budget of `cores`: at most the
    /// machine's cores, which are the default.
    pub(crate) fn context(&self, cores: Option<usize>) -> provider::ModelContext {
        let cpu = cores.map_or_else(CpuBudget::machine, CpuBudget::at_most);
        provider::ModelContext { directory: self.directory.clone(), cpu, environment: self.environment.clone() }
    }
}
