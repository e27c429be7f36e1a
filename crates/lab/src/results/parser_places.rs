//! Where golden evidence is in the documents of a parser.

use eval::Question;
use rag::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The places of the golden evidence in the documents of a parser, for the trials that read these. Without such an entry,
/// they are those of the golden questions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParserPlaces {
    trials: Vec<String>,
    /// By question, in the order of its evidence.
    places: BTreeMap<String, Vec<Option<Span>>>,
}

impl ParserPlaces {
    /// The places in questions as the documents of a parser hold their evidence.
    pub(crate) fn new(trials: Vec<String>, questions: &[Question]) -> Self {
        let of = |question: &Question| {
            let places = question.evidence.iter().map(|evidence| evidence.span).collect();
            (question.id.clone(), places)
        };
        Self { trials, places: questions.iter().filter(|question| !question.evidence.is_empty()).map(of).collect() }
    }

    /// Whether a trial reads these documents.
    pub(crate) fn is_of(&self, trial: &str) -> bool {
        self.trials.iter().any(|known| known == trial)
    }

    /// A question with these places of its evidence.
    pub(crate) fn in_question(&self, mut question: Question) -> Question {
        for (evidence, place) in question.evidence.iter_mut().zip(self.places.get(&question.id).into_iter().flatten()) {
            evidence.span = *place;
        }
        question
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eval::Evidence;

    #[test]
    fn a_question_gets_the_places_of_its_trials_parser() {
        let question = |span| Question {
            id: "q".to_owned(),
            evidence: vec![Evidence { document: "a.md".to_owned(), quote: "words".to_owned(), span }],
            ..Question::default()
        };
        let (first, second) = (Some(Span { start: 1, end: 6 }), Some(Span { start: 9, end: 14 }));
        let places = ParserPlaces::new(vec!["t02".to_owned()], &[question(second)]);
        assert!(places.is_of("t02") && !places.is_of("t01"));
        assert_eq!(places.in_question(question(first)), question(second));
    }
}
