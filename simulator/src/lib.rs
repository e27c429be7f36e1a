//! A simulated LLM provider: real HTTP/1.1 on 127.0.0.1 that speaks OpenAI's
//! protocol, with limits, headers, latencies and faults as real ones have
//! them, all repeatable. Tests and benchmarks run against it; it is no part
//! of the product.
//!
//! Source of the protocol: OpenAI's API reference (chat completions,
//! embeddings, models) and its guide on rate limits, as of 2026. Two things
//! are simpler than there: a request that is refused is not charged, and one
//! that is admitted is charged with the tokens it will really use, which are
//! known here, instead of an estimate.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let settings = simulator::SimulatorSettings { requests_per_minute: Some(1_200), ..Default::default() };
//! let provider = simulator::start(settings).await?;
//! println!("{}/v1/chat/completions", provider.url);
//! assert_eq!(provider.stats().requests, 0);
//! provider.shutdown().await;
//! # Ok::<_, simulator::Error>(()) }).unwrap();
//! ```

mod api;
mod batches;
mod chat;
mod draw;
mod embeddings;
mod error;
mod headers;
pub mod limits;
mod optimum;
mod provider;
mod reply;
mod schema;
mod server;
mod settings;
mod state;
mod stats;
mod stream;

pub use batches::{BatchBehaviour, BatchCounts};
pub use draw::InjectedFault;
pub use error::Error;
pub use optimum::optimum;
pub use server::{RunningSimulator, start};
pub use settings::{Faults, LatencyModel, SettingsChange, SimulatorSettings};
pub use stats::{FaultCounts, RejectedCounts, Second, Stats};
