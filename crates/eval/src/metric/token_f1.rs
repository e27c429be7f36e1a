//! Token F1: how many words the answer and the reference share.
//!
//! When to use it: for short and medium answers, where exact match is too
//! strict. It needs no model. It punishes long answers to short references.
//!
//! With the words of the normal form (that of `exact_match`) as multisets: precision =
//! shared / answer words, recall = shared / reference words, F1 = 2PR / (P + R), 0 if
//! nothing is shared. In Chinese, Japanese, Korean, Thai and similar scripts, each
//! character counts as a word. Citations such as ` [1]` are removed from the answer first,
//! if a passage has the number. If an answer of another system comes without a column of
//! passages, numbers up to 99 in brackets count as citations if they follow a space,
//! punctuation, another citation or a character of a script without spaces; `a[1]` and
//! `[2024]` stay. Texts of which the normal form leaves nothing (`+`, `A`) are compared as
//! they stand.
//!
//! Source: P. Rajpurkar et al., "SQuAD: 100,000+ Questions for Machine
//! Comprehension of Text", EMNLP 2016; P. Lewis et al., "MLQA: Evaluating
//! Cross-lingual Extractive Question Answering", ACL 2020.

use super::{Describe, Description, Error, FormulaMetric, Metric, MetricContext, Needs, ObjectiveRole, Sample};
use crate::words::{answer_words, equal_without_words};
use crate::{Missing, Score, Scored};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

pub(super) const VERSION: u32 = 3;

/// This metric has no settings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {}

impl Config {
    pub(super) fn build(&self, _: &MetricContext<'_>) -> Result<Box<dyn Metric>, Error> {
        Ok(Box::new(FormulaMetric(score)))
    }
}

impl Describe for Config {
    fn describe(&self) -> Description {
        Description {
            needs: Needs { reference: true, answer: true, ..Needs::default() },
            objective_role: ObjectiveRole::Preferred,
            ..Description::default()
        }
    }
}

fn score(sample: &Sample<'_>) -> Result<Scored, Missing> {
    let (reference, answer) = (sample.reference()?, sample.answer_text()?);
    let language = sample.language();
    let (wanted, got) = (answer_words(reference, language), answer_words(&answer, language));
    if let Some(equal) = equal_without_words(&wanted, &got, (reference, &answer)) {
        return Ok(Scored::plain(Score::finite(if equal { 1.0 } else { 0.0 })));
    }
    let shared = shared(&wanted, &got);
    let detail = serde_json::json!({ "shared": shared, "answer": got.len(), "reference": wanted.len() });
    // 2PR / (P + R) in whole numbers: there is no division by 0 to guard.
    let f1 = 2.0 * shared as f64 / (got.len() + wanted.len()) as f64;
    Ok(Scored { score: Score::finite(f1), detail })
}

/// How many words two multisets share.
fn shared(left: &[String], right: &[String]) -> usize {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for word in left {
        *counts.entry(word).or_default() += 1;
    }
    let mut shared = 0;
    for word in right {
        if let Some(count) = counts.get_mut(word.as_str()).filter(|count| **count > 0) {
            *count -= 1;
            shared += 1;
        }
    }
    shared
}

#[cfg(test)]
mod tests {
    use super::super::testing::text_score;
    use super::*;

    fn score(reference: &str, answer: &str) -> f64 {
        text_score(&*Config {}.build(&MetricContext::default()).unwrap(), reference, answer)
    }

    #[test]
    fn shared_words_are_weighed_against_both_lengths() {
        // P = 2/4, R = 2/2, F1 = 2/3.
        assert!((score("red fox", "The quick red fox [1] jumps") - 2.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn a_word_counts_as_often_as_both_have_it() {
        // Shared: go once. P = 1/3, R = 1/2.
        assert!((score("go home", "go go go") - 0.4).abs() < 1e-12);
    }

    #[test]
    fn characters_count_where_words_are_not_separated() {
        // Shared: 北 and 京. P = 2/4, R = 2/2.
        assert!((score("北京", "北京大学") - 2.0 / 3.0).abs() < 1e-12);
        // Shared: 한 and 국. P = 2/3, R = 2/2.
        assert!((score("한국", "한국의") - 0.8).abs() < 1e-12);
    }

    #[test]
    fn nothing_shared_is_zero() {
        assert_eq!(score("yes", "no"), 0.0);
        assert_eq!(score("yes", ""), 0.0);
        assert_eq!(score("+", "plus"), 0.0);
    }

    #[test]
    fn equal_texts_are_one() {
        assert_eq!(score("A", "a [1]"), 1.0);
        assert_eq!(score("two words", "words two"), 1.0);
    }
}
