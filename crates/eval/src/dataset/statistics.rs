//! What is in a dataset, in numbers.

use super::{Dataset, IgnoredColumn, Review, Split};
use serde::Serialize;
use std::collections::BTreeMap;

/// Counts of a dataset.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct DatasetStatistics {
    /// The digest that names this version of the questions.
    pub version: String,
    /// All questions.
    pub questions: usize,
    /// Those with a reference answer.
    pub with_reference: usize,
    /// Those with evidence.
    pub with_evidence: usize,
    /// Those that the documents answer, but that have no evidence: what is
    /// retrieved for them cannot be scored.
    pub without_evidence: usize,
    /// Those that the documents do not answer.
    pub unanswerable: usize,
    /// Columns of the file that are no part of the questions; filled by whoever
    /// read the file.
    pub ignored_columns: Vec<IgnoredColumn>,
    /// By kind; `written` for those that were not generated.
    pub kinds: BTreeMap<String, usize>,
    /// By style, of those that were generated.
    pub styles: BTreeMap<String, usize>,
    /// By persona, of those that have one.
    pub personas: BTreeMap<String, usize>,
    /// By document of the evidence; a question may have several.
    pub documents: BTreeMap<String, usize>,
    /// Questions to choose by and to report by; neither where it is not split.
    pub tune: usize,
    /// Questions to report by.
    pub test: usize,
    /// Those that a person took as they stood.
    pub accepted: usize,
    /// Those that a person changed and took.
    pub edited: usize,
    /// The median of words of a question.
    pub question_words: usize,
    /// The median of words of a reference answer.
    pub reference_words: usize,
}

impl Dataset {
    /// The digest of the questions: what names this version of the dataset.
    pub fn version(&self) -> String {
        let mut builder = store::KeyBuilder::new("dataset");
        for question in &self.questions {
            builder = builder.field("question", question);
        }
        builder.finish().short()
    }

    /// Counts what is in it.
    pub fn statistics(&self) -> DatasetStatistics {
        let mut found =
            DatasetStatistics { version: self.version(), questions: self.questions.len(), ..Default::default() };
        for question in &self.questions {
            found.with_reference += usize::from(question.reference.is_some());
            found.with_evidence += usize::from(!question.evidence.is_empty());
            found.without_evidence += usize::from(question.answerable && question.evidence.is_empty());
            found.unanswerable += usize::from(!question.answerable);
            let kind = question.origin.as_ref().map_or("written", |origin| origin.kind.name());
            *found.kinds.entry(kind.to_owned()).or_default() += 1;
            if let Some(origin) = &question.origin {
                *found.styles.entry(origin.style.name().to_owned()).or_default() += 1;
                if let Some(persona) = &origin.persona {
                    *found.personas.entry(persona.clone()).or_default() += 1;
                }
            }
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

fn median(values: impl Iterator<Item = usize>) -> usize {
    let mut values: Vec<usize> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Question;

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
        assert_eq!((found.questions, found.with_reference, found.unanswerable), (2, 1, 1));
        assert_eq!((found.test, found.edited, found.question_words), (1, 1, 4));
        assert_eq!(found.kinds["written"], 2);
    }
}
