//! Answers: one question over the pipelines of a service, and its limits in time
//! and number. Nothing here knows HTTP, except that failures are [`ApiError`]s.
//!
//! [`ApiError`]: crate::error::ApiError

mod admission;
mod answer;
mod breaker;
mod cache;
mod deadline;
mod dispatcher;
mod drawn_pages;
mod events;
mod lanes;
mod pipeline;
mod sample;
mod sent_text;
mod served;

pub use served::ServedPipeline;
pub(crate) use {
    admission::AdmissionQueue,
    answer::{collect_answer, stream_answer},
    deadline::Deadline,
    dispatcher::LaneDispatcher,
    drawn_pages::{DrawnPages, WantedPage},
    events::{AnswerEvent, FoundPassages, SourcedAnswer},
    lanes::{CandidateLane, Lane, LaneRole, LaneSet},
    pipeline::UserQuestion,
    sample::{SampleSink, SampledAnswer},
};
