//! Limits that several processes share: each holds a lease, renewed while it
//! has calls, of what one authority gives all of them. Budgets are shared in
//! the same way, but by what calls cost: [`super::Allowances`].
//!
//! How requests travel is told by whoever implements [`Lessor`]; the Python
//! package does so by an actor of Ray. A process whose authority is away goes
//! on with its lease until that ends, then waits.

use super::{Allowance, AllowanceRequest, Shared};
use async_trait::async_trait;
use executor::{AdaptiveSettings, Lease, Leased, Limiter, Report};
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};
use tokio::time::Instant;

/// How often a process that has calls tells of them.
const RENEW: Duration = Duration::from_millis(300);
/// How often it is looked whether there are any.
const LOOK: Duration = Duration::from_millis(25);
/// After a request that failed.
const PAUSE: Duration = Duration::from_secs(1);

/// Asks for a share of a limit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LeaseRequest {
    /// The limit: the key of provider, model and account.
    pub limit: String,
    /// What is known of it.
    pub settings: AdaptiveSettings,
    /// Who asks.
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

/// A lessor that can be shown.
#[derive(Clone)]
pub(super) struct SharedLessor(pub(super) Arc<dyn Lessor>);

impl fmt::Debug for SharedLessor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedLessor")
    }
}

/// A limiter within this process' share of a limit, of which this is known at
/// any time. The share is renewed as long as the client lives.
pub(super) fn limiter(
    lessor: SharedLessor,
    client: Weak<Shared>,
    limit: String,
    settings: Arc<Mutex<AdaptiveSettings>>,
) -> Limiter {
    let current = settings.clone();
    let settings = move || *current.lock().unwrap_or_else(PoisonError::into_inner);
    let leased = Arc::new(Leased::new(settings().maximum));
    let limiter = Limiter::new(leased.clone());
    let watched = limiter.clone();
    tokio::spawn(async move {
        let process = process();
        let mut renewed: Option<Instant> = None;
        while client.strong_count() > 0 {
            let status = watched.status();
            let busy = status.in_flight + status.waiting > 0;
            // Who was given nothing asks again soon; who was refused does not.
            let without = status.waiting > 0 && status.target == 0 && !leased.is_refused();
            let due = without || renewed.is_none_or(|at| at.elapsed() >= RENEW);
            if !busy || !due {
                tokio::time::sleep(LOOK).await;
                continue;
            }
            let report = leased.report(status.in_flight, status.waiting);
            let request = LeaseRequest { limit: limit.clone(), settings: settings(), process, report };
            match lessor.0.renew(request).await {
                Ok(lease) => leased.hold(&lease),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
            renewed = Some(Instant::now());
            // Not at every look.
            tokio::time::sleep(LOOK).await;
        }
    });
    limiter
}

/// Tells processes apart, also those of different machines.
pub(super) fn process() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    hasher.finish()
}
