//! Exact match: whether the answer is the reference.
//!
//! When to use it: for short factual answers. It needs no model.
//!
//! 1 if both texts have the same SQuAD normal form (lower case, without
//! punctuation and articles), else 0. Citations such as ` [1]` are taken off the
//! answer first, if a passage has the number. Where an answer of another system
//! comes without a column of passages, numbers up to 99 in brackets behind a
//! space, a full stop or another citation count as such; `a[1]` and `[2024]`
//! stay. Texts of which the normal form leaves nothing (`+`, `A`) are compared
//! as they stand.
//!
//! Difference from Ragas: its exact match is strict equality of the strings.
//!
//! Source: P. Rajpurkar et al., "SQuAD: 100,000+ Questions for Machine
//! Comprehension of Text", EMNLP 2016.

use super::{Describe, Description, Error, FormulaMetric, Metric, MetricContext, Needs, Sample};
use crate::words::{equal_without_words, squad_words};
use crate::{Missing, Score, Scored};
use serde::{Deserialize, Serialize};

pub(super) const VERSION: u32 = 2;

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
    let (wanted, got) = (squad_words(reference), squad_words(&answer));
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
    fn any_other_word_does() {
        assert_eq!(score("42", "42 packages"), 0.0);
        assert_eq!(score("42", ""), 0.0);
        assert_eq!(score("+", "-"), 0.0);
    }
}
