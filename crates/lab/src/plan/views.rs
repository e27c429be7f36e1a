//! The golden questions as the documents of each parser hold their evidence.

use eval::Question;
use serde::{Deserialize, Serialize};

/// The golden questions for each parser after the first: the same questions with other places of their evidence.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct QuestionViews(Vec<Vec<Question>>);

impl QuestionViews {
    /// Those of an experiment with one parser.
    pub(crate) const NONE: Self = Self(Vec::new());

    /// The questions for the parsers after the first, in their order.
    pub(crate) fn new(of_others: Vec<Vec<Question>>) -> Self {
        Self(of_others)
    }

    /// The questions for a parser by its number. `first` are those for the first one.
    pub(crate) fn of<'a>(&'a self, parser: usize, first: &'a [Question]) -> &'a [Question] {
        parser.checked_sub(1).and_then(|number| self.0.get(number)).map_or(first, Vec::as_slice)
    }

    /// The questions for each parser after the first.
    pub(crate) fn others(&self) -> impl Iterator<Item = &[Question]> {
        self.0.iter().map(Vec::as_slice)
    }
}
