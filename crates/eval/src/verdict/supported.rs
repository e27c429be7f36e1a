//! `supported`: does the context support the statement? For faithfulness;
//! also qualifies judges of metrics that compare statements with texts.

use super::{PlantedCases, Rule, quotes};
use crate::{Question, prompt, verdict::Inquiry};

pub(super) const RULE: Rule = Rule { inquiry: |case, items| inquiry([case.against.as_str()], items), planted };

/// Asks which statements passages support.
pub(crate) fn inquiry<'p, 'a>(passages: impl IntoIterator<Item = &'p str>, statements: &'a [String]) -> Inquiry<'a> {
    let question = "Can the statement be inferred directly from the context, without any other knowledge?";
    Inquiry::of_statements(prompt::fence_all("context", "passage", passages), statements, question)
}

/// Evidence, compared with all evidence of its question.
fn planted(own: &Question, other: &Question) -> Option<PlantedCases> {
    let first = |question: &Question| Some(question.evidence.first()?.quote.clone());
    Some(PlantedCases { against: quotes(own), right: first(own)?, wrong: first(other)? })
}
