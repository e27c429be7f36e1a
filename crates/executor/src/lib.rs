//! Runs many fallible asynchronous tasks at once, within limits, and retries
//! those that failed for a passing reason. It knows nothing of LLMs or HTTP.
//!
//! - [`Limiter`]: one per thing that is limited (a model's endpoint, a CPU),
//!   shared by all who use it. [`Limiter::call`] makes one call.
//! - [`Executor`]: a whole run over a list, an iterator or an endless stream,
//!   on top of a limiter.
//! - [`Controller`]: how many calls may be in flight and how fast they may
//!   start: [`Adaptive`] learns it, [`Fixed`] does not.
//! - [`Authority`] and [`Leased`]: one limit, shared by processes.
//! - [`Hedge`]: a second attempt beside one that is late.
//! - [`RetryPolicy`] and [`Retryable`]: what is tried again, and when. A call that
//!   is refused for want of room is no failed one: it waits as long as anything
//!   else gets through.
//!
//! Everything waits for events. Nothing polls, and nothing sleeps but a
//! back-off.
//!
//! ```
//! use executor::{Executor, Limiter};
//! use futures::{StreamExt, stream};
//! use std::convert::Infallible;
//!
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build().map(|runtime| runtime.block_on(async {
//! let executor = Executor::builder(Limiter::fixed(8)).build();
//! let numbers = stream::iter(0u64..100);
//! let squares = executor.run_ordered(numbers, |number| async move { Ok::<_, Infallible>(number * number) });
//! let sum: u64 = squares.filter_map(|done| async move { done.output.ok() }).collect::<Vec<_>>().await.iter().sum();
//! assert_eq!(sum, 328_350);
//! # }));
//! ```

mod adaptive;
mod aimd;
mod attempt;
mod call;
mod completions;
mod controller;
mod error;
mod hedge;
mod hints;
mod lease;
mod limiter;
mod outcome;
mod refusals;
mod retry;
mod run;
mod slots;

pub use adaptive::{Adaptive, AdaptiveSettings};
pub use aimd::{Aimd, AimdPolicy, Windows};
pub use call::Call;
pub use completions::{Completed, Completions};
pub use controller::{Controller, Fixed};
pub use error::{Error, ErrorClass, Retryable};
pub use hedge::Hedge;
pub use hints::{RateHint, RateHints};
pub use lease::{Authority, Lease, Leased, Report};
pub use limiter::{Limiter, LimiterStatus};
pub use outcome::{ExecutionDetails, ExecutionStatus, Outcome, OutcomeKind};
pub use retry::RetryPolicy;
pub use run::{Executor, ExecutorBuilder, OnFailure};
