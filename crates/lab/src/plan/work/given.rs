//! Answers that exist already, as the replies of a system.

use super::{DescribeWork, KeyContext, TimedComponent};
use crate::{
    operator::Operator,
    plan::{graph::PlanInputs, ranges::RangePart},
};
use rag::system::SystemReply;
use serde::{Deserialize, Serialize};
use store::Key;

/// Takes over answers that exist already.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TakeAnswersWork {
    pub(crate) questions: Vec<usize>,
    /// The reply to each of the questions; none where there is no answer.
    pub(crate) replies: Vec<Option<SystemReply>>,
    /// Which part of which range these questions are.
    pub(crate) part: RangePart,
}

impl TakeAnswersWork {
    /// The key of everything that decides the replies, except the questions. `digest` is that of all answers.
    pub(crate) fn stem(cx: &KeyContext<'_>, digest: &Key) -> Key {
        cx.builder("answers", &[]).key("answers", digest).finish()
    }
}

impl DescribeWork for TakeAnswersWork {
    fn operator(&self) -> Operator {
        Operator::Ask
    }

    fn inputs(&self) -> Vec<usize> {
        Vec::new()
    }

    fn key(&self, _: &KeyContext<'_>) -> Key {
        self.part.key()
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
        TimedComponent { words: "answers".to_owned(), ..TimedComponent::default() }
    }
}
