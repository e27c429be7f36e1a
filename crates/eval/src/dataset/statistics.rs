//! Counts of a dataset.

use super::{Dataset, DatasetReport, Review, Split};
use serde::Serialize;
use std::collections::BTreeMap;

/// Counts of a dataset.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct DatasetStatistics {
    /// The digest that names this version of the questions.
    pub version: String,
    /// The counts that a run shows too. The caller adds the unused columns of the
    /// file.
    #[serde(flatten)]
    pub report: DatasetReport,
    /// Questions by kind; `written` if they were not generated.
    pub kinds: BTreeMap<String, usize>,
    /// Generated questions by style.
    pub styles: BTreeMap<String, usize>,
    /// Questions with a persona, by persona.
    pub personas: BTreeMap<String, usize>,
    /// Evidence by document.
    pub documents: BTreeMap<String, usize>,
    /// Questions of the tune split; 0 if the dataset is not split.
    pub tune: usize,
    /// Questions of the test split.
    pub test: usize,
    /// Questions that a reviewer accepted unchanged.
    pub accepted: usize,
    /// Questions that a reviewer accepted with changes.
    pub edited: usize,
    /// Questions with earlier messages of a conversation.
    #[serde(skip_serializing_if = "is_zero")]
    pub with_turns: usize,
    /// The median of words of a question.
    pub question_words: usize,
    /// The median of words of a reference answer.
    pub reference_words: usize,
}

impl Dataset {
    /// The digest of the questions, which names this version of the dataset.
    pub fn version(&self) -> String {
        let mut builder = store::KeyBuilder::new("dataset");
        for question in &self.questions {
            builder = builder.field("question", question);
        }
        builder.finish().short()
    }

    /// Counts the questions.
    pub fn statistics(&self) -> DatasetStatistics {
        let report = DatasetReport::of(self, Vec::new());
        let mut found = DatasetStatistics { version: self.version(), report, ..Default::default() };
        for question in &self.questions {
            let kind = question.origin.as_ref().map_or("written", |origin| origin.kind.name());
            *found.kinds.entry(kind.to_owned()).or_default() += 1;
            if let Some(origin) = &question.origin {
                *found.styles.entry(origin.style.name().to_owned()).or_default() += 1;
                if let Some(persona) = &origin.persona {
                    *found.personas.entry(persona.clone()).or_default() += 1;
                }
            }
            found.with_turns += usize::from(!question.turns.is_empty());
            for evidence in &question.evidence {
                *found.documents.entry(evidence.document.clone()).or_default() += 1;
            }
            found.tune += usize::from(question.split == Some(Split::Tune));
            found.test += usize::from(question.split == Some(Split::Test));
            found.accepted += usize::from(question.review == Some(Review::Accepted));
            found.edited += usize::from(question.review == Some(Review::Edited));
        }
        let n_words = |text: &str| text.split_whitespace().count();
        found.question_words = median(self.questions.iter().map(|question| n_words(&question.question)));
        found.reference_words =
            median(self.questions.iter().filter_map(|question| question.reference.as_deref()).map(n_words));
        found
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

fn median(values: impl Iterator<Item = usize>) -> usize {
    let mut values: Vec<usize> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Evidence, Question};

    #[test]
    fn a_changed_word_is_another_version() {
        let question = |text: &str| Question { id: "a".into(), question: text.into(), ..Question::default() };
        let (one, two) = (Dataset { questions: vec![question("Why?")] }, Dataset { questions: vec![question("How?")] });
        assert_ne!(one.version(), two.version());
        assert_eq!(one.version(), one.clone().version());
    }

    #[test]
    fn what_is_there_is_counted() {
        let questions = vec![
            Question {
                question: "Why is it so?".into(),
                reference: Some("Because".into()),
                split: Some(Split::Test),
                ..Question::default()
            },
            Question {
                question: "Who?".into(),
                answerable: false,
                review: Some(Review::Edited),
                ..Question::default()
            },
        ];
        let found = Dataset { questions }.statistics();
        assert_eq!((found.report.questions, found.report.with_reference, found.report.unanswerable), (2, 1, 1));
        assert_eq!((found.test, found.edited, found.question_words), (1, 1, 4));
        assert_eq!(found.kinds["written"], 2);
    }

    #[test]
    fn a_question_without_an_answer_may_have_evidence() {
        let evidence = vec![Evidence { document: "a.txt".into(), quote: "It is not said.".into(), span: None }];
        let questions = vec![Question { question: "Who?".into(), answerable: false, evidence, ..Question::default() }];
        let report = Dataset { questions }.statistics().report;
        assert_eq!((report.with_evidence, report.without_evidence, report.unanswerable), (1, 0, 1));
    }
}
