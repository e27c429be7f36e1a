//! Runs many fallible asynchronous tasks at once, within limits, and retries
//! those that failed for a passing reason. This crate knows nothing of LLMs or
//! HTTP; "the other side" is whatever answers the calls, such as a provider.
//!
//! - [`Limiter`]: one per thing that is limited (a model's endpoint, a CPU),
//!   shared by all who use it. [`Limiter::call`] makes one call.
//! - [`Controller`]: how many calls may be in flight and how fast they may
//!   start: [`AdaptiveController`] learns it, [`FixedController`] does not.
//! - [`Authority`] and [`Leaseholder`]: one limit, shared by processes.
//! - [`Hedge`]: a second attempt beside one that is late.
//! - [`RetryPolicy`] and [`Retryable`]: what is tried again, and when. A call
//!   that is refused for lack of capacity does not count as failed: it waits as
//!   long as other calls get through.
//!
//! A caller that has many things to do makes many calls at once, for example
//! with [`futures::future::join_all`]: the limiter decides how many of them
//! run. Calls that wait are woken by an event or at a known time; only a
//! [`Leaseholder`] asks at intervals.
//!
//! ```
//! use executor::{Call, Limiter};
//! use std::convert::Infallible;
//! use tokio_util::sync::CancellationToken;
//!
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build().map(|runtime| runtime.block_on(async {
//! let (limiter, cancel) = (Limiter::fixed(8), CancellationToken::new());
//! let calls = (0u64..100).map(|number| {
//!     limiter.call(Call::default(), &cancel, move || async move { Ok::<_, Infallible>(number * number) })
//! });
//! let squares = futures::future::join_all(calls).await;
//! assert_eq!(squares.into_iter().flatten().sum::<u64>(), 328_350);
//! # }));
//! ```

mod adaptive;
mod attempt;
mod call;
mod controller;
mod error;
mod hedge;
mod hints;
mod lease;
mod limiter;
mod outcome;
mod refusals;
mod retry;
mod slots;

pub use adaptive::{AdaptiveController, AdaptiveSettings};
pub use call::Call;
pub use controller::{Controller, FixedController};
pub use error::{Error, ErrorClass, Retryable};
pub use hedge::Hedge;
pub use hints::{RateHint, RateHints};
pub use lease::{Authorities, Authority, Lease, LeaseReport, Leaseholder};
pub use limiter::{Limiter, LimiterStatus};
pub use outcome::{Outcome, OutcomeKind};
pub use retry::RetryPolicy;
