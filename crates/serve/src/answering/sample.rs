//! How answering hands answers to [`crate::sampling`]. Sampling is the layer above, so
//! answering knows it only by the trait here.

use super::{
    events::SourcedAnswer,
    lanes::{Lane, LaneRole},
    pipeline::UserQuestion,
    served::ServedPipeline,
};
use std::sync::Arc;

/// An answer that is sampled, or compared with a shadow's answer.
pub(crate) struct SampledAnswer<P = ServedPipeline> {
    pub(crate) role: LaneRole,
    pub(crate) served: Arc<P>,
    pub(crate) question: UserQuestion,
    pub(crate) answer: Arc<SourcedAnswer>,
    /// Whether the answer is in the sample, which is written. Every answer is scored; one
    /// that is not in the sample is here only to be compared with the shadow's.
    pub(crate) is_sampled: bool,
    /// The shadow's answer to the same question.
    pub(crate) shadow: Option<(Arc<P>, Arc<SourcedAnswer>)>,
}

impl<P> SampledAnswer<P> {
    /// An answer in the sample, without a shadow's.
    pub(crate) fn new(lane: &Lane<P>, question: &UserQuestion, answer: Arc<SourcedAnswer>) -> Self {
        Self {
            role: lane.role,
            served: lane.pipeline.clone(),
            question: question.clone(),
            answer,
            is_sampled: true,
            shadow: None,
        }
    }
}

/// Takes sampled answers.
pub(crate) trait SampleSink<P>: Send + Sync {
    /// The share of the answers that are sampled, from 0 to 1.
    fn share(&self) -> f64;

    /// Takes an answer, or drops it if too many are waiting.
    fn take(&self, sampled: SampledAnswer<P>);
}

/// Whether the question with this number is sampled. Over many numbers the share is
/// met, and the samples are spread evenly.
pub(crate) fn is_in_share(number: u64, share: f64) -> bool {
    let before = number as f64;
    ((before + 1.0) * share).floor() > (before * share).floor()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_met_and_spread() {
        for (share, expected) in [(0.0, 0), (0.1, 10), (0.5, 50), (1.0, 100)] {
            let taken: Vec<bool> = (0..100).map(|number| is_in_share(number, share)).collect();
            assert_eq!(taken.iter().filter(|taken| **taken).count(), expected, "{share}");
            let longest = taken.split(|taken| *taken).map(<[bool]>::len).max().unwrap_or(0);
            assert!(share == 0.0 || longest as f64 <= 1.0 / share, "{share}: {longest} in a row were left out");
        }
    }
}
