//! Exact match: whether the answer is the reference.
//!
//! When to use it: for short factual answers. It needs no model.
//!
//! 1 if both texts have the same normal form, else 0. For English it is the normal form
//! of SQuAD (lower case, without punctuation and articles); for other languages that of
//! MLQA, which removes their articles and punctuation. In Chinese, Japanese, Korean, Thai
//! and similar scripts, spaces between characters do not matter. The language is detected
//! from question and reference; if the detection is uncertain, it is English. Citations
//! such as ` [1]` are removed from the answer first, if a passage has the number. If an
//! answer of another system comes without a column of passages, numbers up to 99 in
//! brackets count as citations if they follow a space, punctuation, another citation or a
//! character of a script without spaces; `a[1]` and `[2024]` stay. Texts of which the
//! normal form leaves nothing (`+`, `A`) are compared as they stand.
//!
//! Difference from Ragas: its exact match is strict equality of the strings.
//!
//! Source: P. Rajpurkar et al., "SQuAD: 100,000+ Questions for Machine
//! Comprehension of Text", EMNLP 2016; P. Lewis et al., "MLQA: Evaluating
//! Cross-lingual Extractive Question Answering", ACL 2020.

use super::{Describe, Description, Error, FormulaMetric, Metric, MetricContext, Needs, Sample};
use crate::words::{answer_words, equal_without_words};
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
    let language = sample.language();
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
