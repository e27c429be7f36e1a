//! What changed between two versions of a dataset.

use super::{Dataset, Question};
use serde::Serialize;
use std::collections::BTreeMap;

/// The difference between two versions of a dataset.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct DatasetDifference {
    /// Questions of the newer version only.
    pub added: Vec<Question>,
    /// Questions of the older version only.
    pub removed: Vec<Question>,
    /// Questions of both versions, with fields that differ.
    pub changed: Vec<ChangedQuestion>,
    /// The number of questions that are equal in both.
    pub unchanged: usize,
}

/// A question whose id is in both versions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChangedQuestion {
    /// Its id.
    pub id: String,
    /// The names of the fields that differ.
    pub fields: Vec<String>,
    /// The older version.
    pub before: Question,
    /// The newer version.
    pub after: Question,
}

impl DatasetDifference {
    /// Compares two versions. Questions are matched by id.
    pub fn between(before: &Dataset, after: &Dataset) -> Self {
        let old: BTreeMap<&str, &Question> =
            before.questions.iter().map(|question| (question.id.as_str(), question)).collect();
        let mut difference = Self::default();
        for question in &after.questions {
            match old.get(question.id.as_str()) {
                None => difference.added.push(question.clone()),
                Some(known) if *known == question => difference.unchanged += 1,
                Some(known) => difference.changed.push(ChangedQuestion {
                    id: question.id.clone(),
                    fields: fields_that_differ(known, question),
                    before: (*known).clone(),
                    after: question.clone(),
                }),
            }
        }
        let is_gone = |question: &&Question| after.questions.iter().all(|known| known.id != question.id);
        difference.removed = before.questions.iter().filter(is_gone).cloned().collect();
        difference
    }

    /// Whether both are the same.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

/// The names of the fields that differ, as in files.
pub(super) fn fields_that_differ(before: &Question, after: &Question) -> Vec<String> {
    let (Ok(before), Ok(after)) = (serde_json::to_value(before), serde_json::to_value(after)) else {
        return Vec::new();
    };
    let names = |value: &serde_json::Value| {
        value.as_object().into_iter().flat_map(|map| map.keys().cloned()).collect::<Vec<_>>()
    };
    let mut all = names(&before);
    all.extend(names(&after).into_iter().filter(|name| before.get(name).is_none()));
    all.retain(|name| before.get(name) != after.get(name));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(id: &str, reference: &str) -> Question {
        Question { id: id.into(), reference: Some(reference.into()), ..Question::default() }
    }

    #[test]
    fn added_removed_and_changed_questions_are_told_apart() {
        let before = Dataset { questions: vec![question("a", "1"), question("b", "2"), question("c", "3")] };
        let mut changed = question("b", "two");
        changed.answerable = false;
        let after = Dataset { questions: vec![question("c", "3"), changed, question("d", "4")] };
        let difference = DatasetDifference::between(&before, &after);
        assert_eq!(difference.added[0].id, "d");
        assert_eq!(difference.removed[0].id, "a");
        assert_eq!(difference.changed[0].fields, ["reference", "answerable"]);
        assert_eq!((difference.unchanged, difference.is_empty()), (1, false));
        assert!(DatasetDifference::between(&before, &before).is_empty());
    }
}
