//! `relevant`: does the passage help to answer the question? For context
//! precision.

use super::{PlantedCases, Rule, quotes};
use crate::{Question, prompt, verdict::Inquiry};

pub(super) const RULE: Rule = Rule { inquiry: |case, items| inquiry(&case.question, &case.against, items), planted };

/// Asks which passages help to arrive at an answer to a question.
pub(crate) fn inquiry<'a>(question: &str, answer: &str, passages: &'a [String]) -> Inquiry<'a> {
    Inquiry {
        shared: format!("{}\n\n{}", prompt::fence("question", question), prompt::fence("answer", answer)),
        tag: "passage",
        items: passages,
        question: "Does the passage hold information that helps to arrive at this answer to the question?",
        // Passages are long: one by one, a judge does not mix them up.
        per_call: 1,
    }
}

/// Evidence, compared with the reference of its question.
fn planted(own: &Question, other: &Question) -> Option<PlantedCases> {
    Some(PlantedCases { against: own.reference.clone()?, right: quotes(own), wrong: quotes(other) })
}
