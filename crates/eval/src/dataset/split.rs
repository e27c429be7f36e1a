//! Parts a dataset into questions to choose by and questions to report by.
//!
//! When to use it: wherever a winner is chosen. The best of many trials looks
//! better on the questions that chose it than it is; on questions that no
//! choice was made on, it does not.
//!
//! Whole documents go to one part, so that nothing that was tuned on is tested
//! on: documents that one question needs together stay together. Questions
//! without evidence are spread by chance.

use super::{Dataset, Split};
use crate::statistics::Random;
use std::collections::BTreeMap;

/// Why a dataset is not split.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SplitError {
    /// The test part is no part.
    #[error("the test part must be a share between 0 and 1, not {0}")]
    NoShare(f64),
    /// No part would be free of the other.
    #[error(
        "all evidence is in one document, or in documents that questions tie together: parts by document would leave \
         one of them empty"
    )]
    OneGroup,
}

/// What a split came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct SplitCounts {
    /// Questions to choose by.
    pub tune: usize,
    /// Questions to report by.
    pub test: usize,
    /// Groups of documents that hang together by questions.
    pub groups: usize,
}

impl Dataset {
    /// Marks every question as [`Split::Tune`] or [`Split::Test`], so that
    /// about `test_share` of them are to report by. An earlier split is
    /// forgotten. The same seed gives the same split.
    ///
    /// # Errors
    /// If the share is not between 0 and 1, or all evidence hangs together in
    /// one group of documents, so that no part would be free of the other.
    pub fn split(&mut self, test_share: f64, seed: u64) -> Result<SplitCounts, SplitError> {
        if !(test_share > 0.0 && test_share < 1.0) {
            return Err(SplitError::NoShare(test_share));
        }
        let groups = self.groups();
        if groups.len() == 1 && self.questions.iter().all(|question| !question.evidence.is_empty()) {
            return Err(SplitError::OneGroup);
        }
        let mut random = Random::new(seed);
        let with_evidence: usize = groups.iter().map(Vec::len).sum();
        let wanted = test_share * with_evidence as f64;
        let mut groups = groups;
        random.shuffle(&mut groups);
        let n_groups = groups.len();
        let mut test = 0;
        for group in groups {
            // A group goes to the test part where that brings it nearer to its size.
            let after = test + group.len();
            let is_test = (after as f64 - wanted).abs() < (test as f64 - wanted).abs() && after < with_evidence;
            if is_test {
                test = after;
            }
            for i in group {
                self.questions[i].split = Some(if is_test { Split::Test } else { Split::Tune });
            }
        }
        let mut without: Vec<usize> =
            (0..self.questions.len()).filter(|&i| self.questions[i].evidence.is_empty()).collect();
        random.shuffle(&mut without);
        let n_test = (test_share * without.len() as f64).round() as usize;
        for (place, i) in without.into_iter().enumerate() {
            self.questions[i].split = Some(if place < n_test { Split::Test } else { Split::Tune });
        }
        let test = self.questions.iter().filter(|question| question.split == Some(Split::Test)).count();
        Ok(SplitCounts { tune: self.questions.len() - test, test, groups: n_groups })
    }

    /// The questions with evidence, in groups that share no document.
    fn groups(&self) -> Vec<Vec<usize>> {
        let mut group_of: BTreeMap<&str, usize> = BTreeMap::new();
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for (i, question) in self.questions.iter().enumerate().filter(|(_, question)| !question.evidence.is_empty()) {
            let documents: Vec<&str> = question.evidence.iter().map(|evidence| evidence.document.as_str()).collect();
            let mut known: Vec<usize> =
                documents.iter().filter_map(|document| group_of.get(document).copied()).collect();
            known.sort_unstable();
            known.dedup();
            let home = known.first().copied().unwrap_or_else(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            for other in known.into_iter().skip(1) {
                let moved = std::mem::take(&mut groups[other]);
                groups[home].extend(moved);
                group_of.values_mut().filter(|group| **group == other).for_each(|group| *group = home);
            }
            groups[home].push(i);
            group_of.extend(documents.into_iter().map(|document| (document, home)));
        }
        groups.retain(|group| !group.is_empty());
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Evidence, Question};
    use std::collections::BTreeSet;

    fn dataset(questions: &[&[&str]]) -> Dataset {
        let question = |(i, documents): (usize, &&[&str])| Question {
            id: i.to_string(),
            evidence: documents
                .iter()
                .map(|document| Evidence { document: (*document).to_owned(), quote: "q".into(), span: None })
                .collect(),
            ..Question::default()
        };
        Dataset { questions: questions.iter().enumerate().map(question).collect() }
    }

    fn documents(dataset: &Dataset, split: Split) -> BTreeSet<&str> {
        let of_part = dataset.questions.iter().filter(|question| question.split == Some(split));
        of_part.flat_map(|question| question.evidence.iter().map(|evidence| evidence.document.as_str())).collect()
    }

    #[test]
    fn no_document_is_in_both_parts() {
        let names: Vec<String> = (0..40).map(|i| format!("{}.txt", i % 13)).collect();
        for seed in 0..20 {
            let pairs: Vec<Vec<&str>> = names
                .iter()
                .enumerate()
                .map(|(i, name)| if i % 7 == 0 { vec![name.as_str(), &names[i / 2]] } else { vec![name.as_str()] })
                .collect();
            let mut data = dataset(&pairs.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let counts = data.split(0.3, seed).unwrap();
            assert!(documents(&data, Split::Tune).is_disjoint(&documents(&data, Split::Test)));
            assert_eq!(counts.tune + counts.test, 40);
        }
    }

    #[test]
    fn the_share_is_met_where_documents_are_small() {
        let names: Vec<String> = (0..100).map(|i| format!("{i}.txt")).collect();
        let questions: Vec<Vec<&str>> = names.iter().map(|name| vec![name.as_str()]).collect();
        let mut data = dataset(&questions.iter().map(Vec::as_slice).collect::<Vec<_>>());
        assert_eq!(data.split(0.3, 1).unwrap(), SplitCounts { tune: 70, test: 30, groups: 100 });
    }

    #[test]
    fn one_document_cannot_be_parted() {
        assert!(dataset(&[&["a"], &["a", "b"], &["b"]]).split(0.5, 0).is_err());
        assert!(dataset(&[&["a"], &["b"]]).split(1.5, 0).is_err());
    }

    #[test]
    fn questions_without_evidence_are_spread() {
        let mut data = dataset(&[&["a"], &["b"], &[], &[], &[], &[]]);
        assert_eq!(data.split(0.5, 3).unwrap(), SplitCounts { tune: 3, test: 3, groups: 2 });
    }
}
