//! The cluster as the remote engine sees it: nodes, and workers on them that
//! receive and return bytes. Whoever implements this trait decides what the
//! cluster is; the Python package implements it with Ray.

use async_trait::async_trait;
use models::Caps;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A worker, as the engine numbers them.
pub type WorkerId = u64;

/// A machine of the cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClusterNode {
    /// What the cluster calls it.
    pub id: String,
    /// What people call it: an address.
    pub name: String,
    /// CPUs that the cluster may use there.
    pub cpus: f64,
}

/// The resources that a worker reserves.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    /// CPUs.
    pub cpus: f64,
    /// GPUs, or a part of one.
    pub gpus: f64,
    /// Memory in bytes, if it is reserved.
    pub memory: Option<u64>,
    /// Others, by the cluster's names.
    pub custom: BTreeMap<String, f64>,
}

/// Why a worker gave no reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    /// The worker is gone, and will not come back.
    Died(String),
    /// It could not be reached now; another try may work.
    Unavailable(String),
    /// It refused: another try would end the same way.
    Failed(String),
}

/// Why a cluster cannot be joined or asked, in the words of the program that talks to it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ClusterError(pub String);

/// Starts workers and talks to them.
#[async_trait]
pub trait Cluster: Send + Sync {
    /// The nodes that are alive.
    ///
    /// # Errors
    /// If the cluster cannot be asked.
    async fn nodes(&self) -> Result<Vec<ClusterNode>, ClusterError>;

    /// Starts a worker and returns its node's id when the worker is ready. If
    /// no node is named, any node may be used, and a cluster that can grow adds
    /// a node when none has room. `setup` is passed to
    /// [`crate::Worker::open`].
    ///
    /// # Errors
    /// If it did not start.
    async fn start(
        &self,
        worker: WorkerId,
        node: Option<&str>,
        resources: &Resources,
        setup: &[u8],
    ) -> Result<String, CallError>;

    /// Hands a worker a unit of work and waits for its reply. Several units
    /// may be with a worker at once.
    ///
    /// # Errors
    /// If the worker gives no reply.
    async fn call(&self, worker: WorkerId, unit: Vec<u8>) -> Result<Vec<u8>, CallError>;

    /// Asks a worker what it is doing, while it works on its units, and tells it what people have changed: `orders` is
    /// passed to [`crate::Worker::look`].
    ///
    /// # Errors
    /// If the worker does not answer.
    async fn look(&self, worker: WorkerId, orders: Vec<u8>) -> Result<Vec<u8>, CallError>;

    /// Replaces the caps of the budget of this name, which workers divide.
    ///
    /// # Errors
    /// If the cluster does not confirm it.
    async fn set_caps(&self, budget: &str, caps: Caps) -> Result<(), ClusterError>;

    /// Ends a worker; what it was doing is lost.
    async fn stop(&self, worker: WorkerId);
}
