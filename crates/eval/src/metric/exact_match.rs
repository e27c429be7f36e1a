//! Exact match: whether the answer is the reference.
//!
//! When to use it: for short factual answers. It needs no model.
//!
//! 1 if both texts have the same normal form, else 0. For English that is SQuAD's
//! (lower case, without punctuation and articles), for other languages that of MLQA,
//! which knows their articles and punctuation; spaces between characters of Chinese,
//! Japanese, Korean, Thai and the like do not matter. The language is that of question
//! and reference; if it is not clear, English. Citations such as ` [1]` are taken off the
//! answer first, if a passage has the number. Where an answer of another system
//! comes without a column of passages, numbers up to 99 in brackets behind a
//! space, a full stop or another citation count as such; `a[1]` and `[2024]`
//! stay. Texts of which the normal form leaves nothing (`+`, `A`) are compared
//! as they stand.
//!
//! Difference from Ragas: its exact match is strict equality of the strings.
//!
//! Source: P. Rajpurkar et al., "SQuAD: 100,000+ Questions for Machine
//! Comprehension of Text", EMNLP 2016; P. Lewis et al., "MLQA: Evaluating
//! Cross-lingual Extractive Question Answering", ACL 2020.

use super::{Describe, Description, Error, FormulaMetric, Metric, MetricContext, Needs, Sample};
use crate::words::{answer_words, equal_without_words, language_of};
use crate::{Missing, Score, Scored};
use serde::{Deserialize, Serialize};

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
        Description { needs: Needs { reference: true, answer: true, ..Needs::default() }, ..Description::default() }
    }
}

fn score(sample: &Sample<'_>) -> Result<Scored, Missing> {
    let (reference, answer) = (sample.reference()?, sample.answer_text()?);
    let language = language_of(&[&sample.question.question, reference]);
    let (wanted, got) = (answer_words(reference, language), answer_words(&answer, language));
    let equal = equal_without_words(&wanted, &got, (reference, &answer)).unwrap_or(wanted == got);
    Ok(Scored::plain(Score::finite(if equal { 1.0 } else { 0.0 })))
}

#[cfg(test)]
mod tests {
    use super::super::testing::text_score;
    use super::*;

    fn score(reference: &str, answer: &str) -> f64 {
        text_score(&*Config {}.build(&MetricContext::default()).unwrap(), reference, answer)
    }

    #[test]
    fn case_punctuation_articles_and_citations_do_not_matter() {
        assert_eq!(score("The Eiffel Tower", "eiffel tower. [1]"), 1.0);
    }

    #[test]
    fn other_languages_have_their_own_articles_and_punctuation() {
        assert_eq!(score("北京。", "「北京」 [1]"), 1.0);
        assert_eq!(score("서울 특별시", "서울특별시"), 1.0);
        assert_eq!(score("Ｔｏｋｙｏ", "tokyo"), 1.0);
        let german = "Der Eiffelturm, der im Jahre 1889 für die Weltausstellung gebaut wurde";
        assert_eq!(score(german, "eiffelturm im Jahre 1889 für Weltausstellung gebaut wurde."), 1.0);
        assert_eq!(score("北京", "南京"), 0.0);
    }

    #[test]
    fn any_other_word_does() {
        assert_eq!(score("42", "42 packages"), 0.0);
        assert_eq!(score("42", ""), 0.0);
        assert_eq!(score("+", "-"), 0.0);
    }
}
