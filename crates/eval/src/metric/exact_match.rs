//! Exact match: whether the answer is the reference.
//!
//! When to use it: for short factual answers. It needs no model.
//!
//! 1 if both texts have the same SQuAD normal form (lower case, without
//! punctuation and articles), else 0. Citations are taken off the answer
//! first. Texts of which the normal form leaves nothing (`+`, `A`) are
//! compared as they stand.
//!
//! Difference from Ragas: its exact match is strict equality of the strings.
//!
//! Source: P. Rajpurkar et al., "SQuAD: 100,000+ Questions for Machine
//! Comprehension of Text", EMNLP 2016.

use super::words::{equal_without_words, squad_words};
use super::{Context, Describe, Error, Metric, Needs, Sample};
use crate::{Missing, Score, Scored};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub(super) const VERSION: u32 = 1;

/// This metric has no settings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {}

impl Config {
    pub(super) fn build(&self, _: &Context) -> Result<Box<dyn Metric>, Error> {
        Ok(Box::new(ExactMatch { needs: self.needs() }))
    }
}

impl Describe for Config {
    fn needs(&self) -> Needs {
        Needs { reference: true, answer: true, ..Needs::NOTHING }
    }
}

struct ExactMatch {
    needs: Needs,
}

#[async_trait]
impl Metric for ExactMatch {
    fn needs(&self) -> Needs {
        self.needs
    }

    async fn score(&self, sample: &Sample<'_>) -> Scored {
        match exact_match(sample) {
            Ok(equal) => Scored::plain(Score::finite(if equal { 1.0 } else { 0.0 })),
            Err(missing) => Scored::missing(missing),
        }
    }
}

fn exact_match(sample: &Sample<'_>) -> Result<bool, Missing> {
    let (reference, answer) = (sample.reference()?, sample.answer_text()?);
    let (wanted, got) = (squad_words(reference), squad_words(&answer));
    Ok(equal_without_words(&wanted, &got, (reference, &answer)).unwrap_or(wanted == got))
}

#[cfg(test)]
mod tests {
    use super::super::testing::text_score;
    use super::*;

    fn score(reference: &str, answer: &str) -> f64 {
        text_score(&*Config {}.build(&Context::default()).unwrap(), reference, answer)
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
