//! Limits that several processes share: each holds a lease, renewed while it
//! has calls, of what one authority gives all of them. Budgets are shared in
//! the same way, but by what calls cost: [`super::Allowances`].
//!
//! A [`Lessor`] brings requests to the authority; that of the Python package
//! does so by an actor of Ray. A process whose authority is away goes
//! on with its lease until that ends, then waits.

use super::{Allowance, AllowanceRequest};
use async_trait::async_trait;
use executor::{AdaptiveSettings, Lease, Leaseholder, Limiter, Report};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::task::AbortOnDropHandle;

/// Asks for a share of a limit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LeaseRequest {
    /// The limit: the key of provider, model and account.
    pub limit: String,
    /// What is known of it.
    pub settings: AdaptiveSettings,
    /// The process that asks.
    pub process: u64,
    /// What it does and needs.
    pub report: Report,
}

/// Gives shares of limits and of budgets.
#[async_trait]
pub trait Lessor: Send + Sync {
    /// Renews a lease.
    ///
    /// # Errors
    /// If the authority cannot be reached; it is asked again.
    async fn renew(&self, request: LeaseRequest) -> Result<Lease, String>;

    /// Hears what is spent of a budget, and gives more of it.
    ///
    /// # Errors
    /// If the authority cannot be reached; it is asked again.
    async fn allow(&self, request: AllowanceRequest) -> Result<Allowance, String>;
}

/// A limiter within this process' share of a limit, of which `settings` hold
/// what is known at any time, and the task that renews the share until it is
/// dropped.
pub(super) fn limiter(
    lessor: Arc<dyn Lessor>,
    limit: String,
    settings: Arc<Mutex<AdaptiveSettings>>,
) -> (Limiter, AbortOnDropHandle<()>) {
    let settings = move || *settings.lock().unwrap_or_else(PoisonError::into_inner);
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

/// Tells processes apart, also those of different machines.
pub(super) fn process() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    hasher.finish()
}
