//! Splits a dataset: trials are chosen by its tune split, and the winner is reported on its test split.
//!
//! When to use it: wherever a winner is chosen. The best of many trials is overrated
//! by the questions that it was chosen by (selection bias), and not by others.
//!
//! All questions of a document go to one part, so that nothing is tuned and tested
//! on the same document; documents that one question needs together stay together.
//! Questions without evidence are spread at random.

use super::{Dataset, Split};
use crate::statistics::Random;
use std::collections::BTreeMap;

/// Why a dataset is not split.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SplitError {
    /// The share is not between 0 and 1.
    #[error("the test part must be a share between 0 and 1, not {0}")]
    InvalidShare(f64),
    /// Every question has evidence in the same group of documents.
    #[error(
        "all evidence is in one document, or in documents that share questions: a split by document would leave \
         the tune split or the test split empty"
    )]
    OneGroup,
    /// Evidence without a document: nothing says which questions share one.
    #[error(
        "the evidence of {} names no document, so nothing says which questions share one: anchor the dataset first, \
         which finds the document of each quote",
        questions(.0)
    )]
    Unnamed(Vec<String>),
    /// One part would hold no question.
    #[error("{questions} questions cannot be split with a share of {share} for testing: {part} would be empty")]
    EmptyPart {
        /// The tune split or the test split.
        part: &'static str,
        /// All questions.
        questions: usize,
        /// The share that was asked for.
        share: f64,
    },
}

/// The first ids, and the number of the others.
fn questions(ids: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> = ids.iter().take(SHOWN).map(|id| format!("`{id}`")).collect();
    let others = ids.len().saturating_sub(SHOWN);
    let more = if others > 0 { format!(" and {others} more") } else { String::new() };
    format!("{} {}{more}", if ids.len() == 1 { "question" } else { "questions" }, shown.join(", "))
}

/// The sizes of a split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct SplitCounts {
    /// Questions of the tune split.
    pub tune: usize,
    /// Questions of the test split.
    pub test: usize,
    /// Groups of documents that share questions.
    pub groups: usize,
}

impl Dataset {
    /// Marks every question as [`Split::Tune`] or [`Split::Test`], so that
    /// about `test_share` of them are in the test part. An earlier split is
    /// replaced. The same seed gives the same split. No part is empty: if every
    /// group is too large for the share, the group nearest to it is taken.
    ///
    /// # Errors
    /// If the share is not between 0 and 1, evidence names no document, every question
    /// has evidence in the same group of documents, or two parts need more questions.
    /// The dataset is then unchanged.
    pub fn split(&mut self, test_share: f64, seed: u64) -> Result<SplitCounts, SplitError> {
        if !(test_share > 0.0 && test_share < 1.0) {
            return Err(SplitError::InvalidShare(test_share));
        }
        let unnamed: Vec<String> = self
            .questions
            .iter()
            .filter(|question| question.evidence.iter().any(|evidence| evidence.document.is_empty()))
            .map(|question| question.id.clone())
            .collect();
        if !unnamed.is_empty() {
            return Err(SplitError::Unnamed(unnamed));
        }
        let mut groups = self.groups();
        let mut without: Vec<usize> =
            (0..self.questions.len()).filter(|&i| self.questions[i].evidence.is_empty()).collect();
        if groups.len() == 1 && without.is_empty() {
            return Err(SplitError::OneGroup);
        }
        let mut random = Random::new(seed);
        let with_evidence: usize = groups.iter().map(Vec::len).sum();
        let wanted = test_share * with_evidence as f64;
        random.shuffle(&mut groups);
        let sizes: Vec<usize> = groups.iter().map(Vec::len).collect();
        let is_test = test_groups(&sizes, wanted);
        let mut test: Vec<usize> =
            groups.iter().zip(&is_test).filter(|(_, is_test)| **is_test).flat_map(|(group, _)| group.clone()).collect();
        random.shuffle(&mut without);
        let mut n_test = (test_share * without.len() as f64).round() as usize;
        if test.is_empty() && n_test == 0 && self.questions.len() > 1 {
            n_test = 1.min(without.len());
        } else if with_evidence == 0 && n_test == without.len() {
            n_test = n_test.saturating_sub(1);
        }
        test.extend(without.into_iter().take(n_test));
        let all = self.questions.len();
        let empty = match test.len() {
            0 => Some("the test split"),
            n if n == all => Some("the tune split"),
            _ => None,
        };
        if let Some(part) = empty {
            return Err(SplitError::EmptyPart { part, questions: all, share: test_share });
        }
        self.questions.iter_mut().for_each(|question| question.split = Some(Split::Tune));
        for &i in &test {
            self.questions[i].split = Some(Split::Test);
        }
        Ok(SplitCounts { tune: all - test.len(), test: test.len(), groups: groups.len() })
    }

    /// Groups of questions with evidence; no two groups share a document.
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

/// Selects groups for the test part by their sizes: a group is taken if it brings
/// the part nearer to the wanted size. If none does, the group of the nearest size
/// is taken, so that the part is not empty.
fn test_groups(sizes: &[usize], wanted: f64) -> Vec<bool> {
    let all: usize = sizes.iter().sum();
    let distance = |size: usize| (size as f64 - wanted).abs();
    let mut taken = 0;
    let mut is_test: Vec<bool> = sizes
        .iter()
        .map(|size| {
            let after = taken + size;
            let nearer = distance(after) < distance(taken) && after < all;
            if nearer {
                taken = after;
            }
            nearer
        })
        .collect();
    if taken == 0 && sizes.len() > 1 {
        let nearest = (0..sizes.len()).min_by(|&a, &b| distance(sizes[a]).total_cmp(&distance(sizes[b])));
        nearest.into_iter().for_each(|group| is_test[group] = true);
    }
    is_test
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
    fn no_part_stays_empty_whatever_the_sizes_and_the_share() {
        for sizes in [&[10, 10][..], &[1, 1], &[30, 2], &[5, 5, 5], &[9, 1, 1], &[40, 40, 1]] {
            for share in [0.01, 0.1, 0.2, 0.5, 0.8, 0.99] {
                for seed in 0..10 {
                    let names: Vec<String> =
                        sizes.iter().enumerate().flat_map(|(i, n)| vec![format!("{i}.txt"); *n]).collect();
                    let questions: Vec<Vec<&str>> = names.iter().map(|name| vec![name.as_str()]).collect();
                    let mut data = dataset(&questions.iter().map(Vec::as_slice).collect::<Vec<_>>());
                    let counts = data.split(share, seed).unwrap();
                    assert!(counts.tune > 0 && counts.test > 0, "{sizes:?}, {share}: {counts:?}");
                    assert!(documents(&data, Split::Tune).is_disjoint(&documents(&data, Split::Test)));
                }
            }
        }
    }

    #[test]
    fn two_equal_groups_are_one_to_choose_by_and_one_to_report_by() {
        let questions: Vec<&[&str]> = [[&["a"][..]; 10], [&["b"][..]; 10]].concat();
        assert_eq!(dataset(&questions).split(0.2, 1).unwrap(), SplitCounts { tune: 10, test: 10, groups: 2 });
    }

    #[test]
    fn of_groups_that_are_all_too_large_the_nearest_is_taken() {
        assert_eq!(test_groups(&[20, 9, 30], 2.0), [false, true, false]);
        assert_eq!(test_groups(&[3, 3, 3, 3], 3.0), [true, false, false, false]);
        assert_eq!(test_groups(&[10], 2.0), [false], "one group cannot be parted");
    }

    #[test]
    fn too_few_questions_are_refused_and_stay_as_they_were() {
        let mut one = dataset(&[&[]]);
        let error = one.split(0.5, 0).unwrap_err();
        assert!(matches!(error, SplitError::EmptyPart { questions: 1, .. }), "{error}");
        assert_eq!(one.questions[0].split, None);
        for share in [0.01, 0.5, 0.99] {
            let few: Vec<&[&str]> = vec![&[], &[], &[]];
            let counts = dataset(&few).split(share, 0).unwrap();
            assert!(counts.tune > 0 && counts.test > 0, "{share}: {counts:?}");
        }
    }

    #[test]
    fn evidence_that_names_no_document_is_refused_by_the_questions_names() {
        let mut data = dataset(&[&["a"], &[""], &["b", ""], &["b"]]);
        let error = data.split(0.5, 0).unwrap_err();
        assert_eq!(error, SplitError::Unnamed(vec!["1".to_owned(), "2".to_owned()]));
        assert!(error.to_string().contains("the evidence of questions `1`, `2` names no document"), "{error}");
        assert!(data.questions.iter().all(|question| question.split.is_none()));
    }

    #[test]
    fn questions_without_evidence_are_spread() {
        let mut data = dataset(&[&["a"], &["b"], &[], &[], &[], &[]]);
        assert_eq!(data.split(0.5, 3).unwrap(), SplitCounts { tune: 3, test: 3, groups: 2 });
    }
}
