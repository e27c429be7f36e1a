//! ROUGE-L: the longest common subsequence of words of answer and reference.
//!
//! When to use it: for longer answers, where the order of words matters. It
//! needs no model.
//!
//! With m = answer words, n = reference words, l = length of the longest
//! common subsequence: P = l / m, R = l / n, score = 2PR / (P + R), 0 if l = 0.
//! Citations are taken off the answer first.
//!
//! Differences from `rouge_score` with its stemmer, which Ragas uses:
//! - English words are stemmed with the Snowball stemmer and not with Porter's first one
//!   (a few words differ, such as `generously`);
//! - letters outside of ASCII are kept, so that texts in other languages do not all
//!   score 0;
//! - words are stemmed in the language of question and reference, if it has a Snowball
//!   stemmer;
//! - in Chinese, Japanese, Korean, Thai and other scripts without spaces each character is
//!   a word, as in XL-Sum's multilingual ROUGE for Chinese (T. Hasan et al., 2021).
//!
//! Source: C.-Y. Lin, "ROUGE: A Package for Automatic Evaluation of Summaries",
//! ACL workshop 2004.

use super::{Describe, Description, Error, FormulaMetric, Metric, MetricContext, Needs, Sample};
use crate::words::tokens;
use crate::{Missing, Score, Scored};
use serde::{Deserialize, Serialize};

pub(super) const VERSION: u32 = 3;

/// Settings of ROUGE-L.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Whether words of more than three letters are cut to their stem, by the Snowball
    /// stemmer of the language.
    pub stem: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { stem: true }
    }
}

impl Config {
    pub(super) fn build(&self, _: &MetricContext<'_>) -> Result<Box<dyn Metric>, Error> {
        let stem = self.stem;
        Ok(Box::new(FormulaMetric(move |sample: &Sample<'_>| score(sample, stem))))
    }
}

impl Describe for Config {
    fn describe(&self) -> Description {
        Description { needs: Needs { reference: true, answer: true, ..Needs::default() }, ..Description::default() }
    }
}

fn score(sample: &Sample<'_>, stem: bool) -> Result<Scored, Missing> {
    let reference = sample.reference()?;
    let stemmed = stem.then(|| sample.language());
    let wanted = tokens(reference, stemmed);
    if wanted.is_empty() {
        return Err(Missing::NotApplicable("the reference answer holds no word".into()));
    }
    let got = tokens(&sample.answer_text()?, stemmed);
    let common = longest_common_subsequence(&wanted, &got);
    let detail = serde_json::json!({ "common": common, "answer": got.len(), "reference": wanted.len() });
    // 2PR / (P + R) in whole numbers; the reference has at least one word.
    Ok(Scored { score: Score::finite(2.0 * common as f64 / (got.len() + wanted.len()) as f64), detail })
}

/// The length of the longest common subsequence, in memory of one row.
fn longest_common_subsequence(left: &[String], right: &[String]) -> usize {
    let mut row = vec![0; right.len() + 1];
    for a in left {
        let mut diagonal = 0;
        for (i, b) in right.iter().enumerate() {
            let above = row[i + 1];
            row[i + 1] = if a == b { diagonal + 1 } else { above.max(row[i]) };
            diagonal = above;
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::super::testing::text_score;
    use super::*;

    fn score(reference: &str, answer: &str) -> f64 {
        text_score(&*Config::default().build(&MetricContext::default()).unwrap(), reference, answer)
    }

    #[test]
    fn the_papers_example_gives_its_values() {
        // Lin 2004: "police kill the gunman" has an LCS of 3 with the
        // reference, "the gunman kill police" one of 2.
        assert_eq!(score("police killed the gunman", "police kill the gunman"), 1.0);
        let unstemmed = Config { stem: false }.build(&MetricContext::default()).unwrap();
        assert_eq!(text_score(&*unstemmed, "police killed the gunman", "police kill the gunman"), 0.75);
        assert_eq!(text_score(&*unstemmed, "police killed the gunman", "the gunman kill police"), 0.5);
    }

    #[test]
    fn length_is_punished_on_both_sides() {
        // l = 2, m = 4, n = 2: P = 1/2, R = 1.
        assert!((score("red fox", "a red brown fox [1]") - 2.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn other_languages_are_compared_too() {
        assert_eq!(score("größe über alles", "Größe über Alles"), 1.0);
        assert_eq!(score("größe", ""), 0.0);
        // l = 2, m = 4, n = 2.
        assert!((score("北京", "北大京城") - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(score("हिन्दी", "हिन्दी।"), 1.0);
    }
}
