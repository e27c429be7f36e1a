//! The passages of a system's replies to places in the documents.

use super::{DescribeWork, KeyContext, TimedComponent};
use crate::{
    operator::Operator,
    plan::graph::{PlanInputs, TaskId},
    spec::Unanchored,
};
use eval::Question;
use serde::{Deserialize, Serialize};
use store::Key;

/// The version of the search for places: raise it when the same passages get other places.
const VERSION: u32 = 1;

/// Finds the places of a system's passages.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AnchorWork {
    pub(crate) unanchored: Unanchored,
    /// The replies, in shards.
    pub(crate) replies: Vec<TaskId>,
    /// The documents; none if the system returns no passages.
    pub(crate) documents: Vec<TaskId>,
    /// The questions that were asked.
    pub(crate) questions: Vec<usize>,
}

impl AnchorWork {
    /// The key of everything that decides the places, except the questions. `replies` is the stem of the replies.
    /// Of several places of a text one with evidence is taken, so the evidence of each question counts; scores have
    /// it in the keys of their ranges.
    pub(crate) fn stem(&self, cx: &KeyContext<'_>, replies: &Key) -> Key {
        let builder = cx.builder("anchor", &self.documents).field("version", &VERSION).key("replies", replies);
        builder.field("unanchored", &self.unanchored).finish()
    }
}

impl DescribeWork for AnchorWork {
    fn operator(&self) -> Operator {
        Operator::Anchor
    }

    fn inputs(&self) -> Vec<TaskId> {
        self.replies.iter().chain(&self.documents).copied().collect()
    }

    fn key(&self, cx: &KeyContext<'_>) -> Key {
        let questions: Vec<&Question> = self.questions.iter().map(|&i| &cx.inputs.questions[i]).collect();
        let builder = cx.builder("anchor", &self.inputs()).field("version", &VERSION);
        builder.field("unanchored", &self.unanchored).field("questions", &questions).finish()
    }

    fn rows(&self, _: &PlanInputs<'_>) -> Option<usize> {
        Some(self.questions.len())
    }

    fn is_exclusive(&self) -> bool {
        false
    }

    fn counts_in_price(&self) -> bool {
        false
    }

    fn timed_component(&self) -> TimedComponent<'_> {
        TimedComponent { words: "passages".to_owned(), ..TimedComponent::default() }
    }
}
