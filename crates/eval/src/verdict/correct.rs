//! `correct`: does the reference support the answer? For answer correctness.

use super::{PlantedCases, Rule};
use crate::{Question, prompt, verdict::Inquiry};

pub(super) const RULE: Rule = Rule { inquiry: |case, items| inquiry(&case.question, &case.against, items), planted };

/// Asks which statements of an answer a reference supports.
pub(crate) fn inquiry<'a>(question: &str, reference: &str, statements: &'a [String]) -> Inquiry<'a> {
    let shared = format!("{}\n\n{}", prompt::fence("question", question), prompt::fence("reference", reference));
    let question = "The statement is part of an answer to the question. Does the reference support it?";
    Inquiry::of_statements(shared, statements, question)
}

/// A reference, compared with itself.
fn planted(own: &Question, other: &Question) -> Option<PlantedCases> {
    let right = own.reference.clone()?;
    Some(PlantedCases { against: right.clone(), right, wrong: other.reference.clone()? })
}
