//! Limits that several processes share: one authority divides the limit into
//! leases, and each process renews its lease while it has calls. Budgets are
//! shared in the same way, but by the cost of calls: [`super::Allowances`].
//!
//! A [`Lessor`] carries requests to the authority; the Python package does so
//! with a Ray actor. If the authority is away, a process continues with its
//! lease until the lease ends, and then waits.

use super::amount::{Allowance, AllowanceRequest};
use crate::locked;
use async_trait::async_trait;
use executor::{AdaptiveSettings, Lease, LeaseReport, Leaseholder, Limiter};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};
use tokio_util::task::AbortOnDropHandle;

/// Asks for a share of a limit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LeaseRequest {
    /// The limit: the key of provider, model and account.
    pub limit: String,
    /// The known settings of the limit.
    pub settings: AdaptiveSettings,
    /// The process that asks.
    pub process: u64,
    /// What the process does and needs.
    pub report: LeaseReport,
}

/// Why a request to the authority failed, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LessorError(pub String);

/// Gives shares of limits and of budgets.
#[async_trait]
pub trait Lessor: Send + Sync {
    /// Renews a lease.
    ///
    /// # Errors
    /// If the authority cannot be reached; it is asked again.
    async fn renew(&self, request: LeaseRequest) -> Result<Lease, LessorError>;

    /// Reports what was spent of a budget, and asks for more.
    ///
    /// # Errors
    /// If the authority cannot be reached; it is asked again.
    async fn allow(&self, request: AllowanceRequest) -> Result<Allowance, LessorError>;
}

/// A limiter within this process's share of a limit, and the task that renews
/// the share until it is dropped. `settings` always holds the present settings
/// of the limit.
pub(super) fn limiter(
    lessor: Arc<dyn Lessor>,
    limit: String,
    settings: Arc<Mutex<AdaptiveSettings>>,
) -> (Limiter, AbortOnDropHandle<()>) {
    let settings = move || *locked(&settings);
    let holder = Arc::new(Leaseholder::new(settings().maximum));
    let limiter = Limiter::new(holder.clone());
    let renewed = limiter.clone();
    let process = process();
    let renewal = tokio::spawn(async move {
        let ask = |report| lessor.renew(LeaseRequest { limit: limit.clone(), settings: settings(), process, report });
        holder.renew(&renewed, ask).await;
    });
    (limiter, AbortOnDropHandle::new(renewal))
}

/// A new random number by which an authority knows this process, for one limit or budget.
pub(super) fn process() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    hasher.finish()
}
