//! `lost-evidence`: golden questions that are left out because the documents have changed.

use super::{Finding, RunFacts, WarningKind, WarningTime};
use crate::number::{count, listed};

pub(super) const KIND: WarningKind = WarningKind {
    title: "questions whose evidence is in no document any more",
    meaning: "The documents have changed since the last run: the evidence of some golden questions stood in them then, and is \
              in none of them now. These questions are left out, so scores are not those of the same questions as before.",
    action: "correct the quotes in the file of questions, name the documents that hold them now, or remove the questions",
    found: WarningTime::Before,
    needs_chunks: false,
    find,
};

/// The most questions that the sentence names.
const NAMED: usize = 8;

fn find(facts: &RunFacts) -> Vec<Finding> {
    let mut lost: Vec<String> = Vec::new();
    for evidence in &facts.questions.lost {
        let place = if evidence.document.is_empty() { "no document" } else { evidence.document.as_str() };
        let named = format!("{} ({place})", evidence.question);
        if !lost.contains(&named) {
            lost.push(named);
        }
    }
    let mut questions: Vec<&str> = facts.questions.lost.iter().map(|evidence| evidence.question.as_str()).collect();
    questions.dedup();
    let n = questions.len();
    if n == 0 {
        return Vec::new();
    }
    let more = lost.len().saturating_sub(NAMED);
    lost.truncate(NAMED);
    if more > 0 {
        lost.push(format!("{more} more"));
    }
    let (subject, its) =
        if n == 1 { ("1 question is".to_owned(), "its") } else { (format!("{} questions are", count(n)), "their") };
    let text = format!("{subject} left out, because {its} evidence is in no document any more: {}", listed(&lost));
    vec![Finding::of_run(text, n, Some(n + facts.questions.questions))]
}

#[cfg(test)]
mod tests {
    use super::super::{
        LostEvidence, QuestionFacts, WarningCode,
        fixture::{only, told},
    };
    use super::*;

    fn facts(lost: &[(&str, &str)]) -> RunFacts {
        let evidence = |(question, document): &(&str, &str)| LostEvidence {
            question: (*question).to_owned(),
            document: (*document).to_owned(),
            reason: String::new(),
        };
        let questions =
            QuestionFacts { questions: 3, lost: lost.iter().map(evidence).collect(), ..QuestionFacts::default() };
        RunFacts { questions, ..RunFacts::default() }
    }

    #[test]
    fn questions_are_named_with_the_documents_that_held_their_evidence() {
        let found = only(WarningCode::LostEvidence, &facts(&[("q1", "a.txt"), ("q1", "a.txt"), ("q2", "")]));
        assert_eq!(
            found.text,
            "2 questions are left out, because their evidence is in no document any more: q1 (a.txt) and q2 (no document)"
        );
        assert_eq!((found.count, found.total), (Some(2), Some(5)));
        assert!(told(WarningCode::LostEvidence, &facts(&[])).is_empty());
    }
}
