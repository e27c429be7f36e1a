//! Answers: one question over the pipelines of a service, and its limits in time
//! and number. Nothing here knows HTTP, except that failures are [`ApiError`]s.
//!
//! [`ApiError`]: crate::error::ApiError

mod breaker;
mod cache;
mod sent_text;

pub(crate) mod admission;
pub(crate) mod answer;
pub(crate) mod deadline;
pub(crate) mod events;
pub(crate) mod lanes;
pub(crate) mod pipeline;
pub(crate) mod sample;
pub(crate) mod served;
pub(crate) mod turn;
