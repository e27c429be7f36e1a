//! Context precision: whether the useful passages stand above the useless ones.
//!
//! When to use it: to compare retrievers and rerankers where there is no
//! golden evidence; where there is, `ndcg` does it without a judge. It needs
//! a judge and a reference (or, by setting, the answer in its place).
//!
//! For each passage: was it useful for arriving at the reference answer? With
//! the verdicts v in the order of retrieval:
//! score = Σ_i (P@i · v_i) / Σ v_i, P@i = (Σ_{j≤i} v_j) / i: average precision.
//! No useful passage, or none retrieved, is 0.
//!
//! Calls for a score: one for each passage.
//!
//! Differences from Ragas 0.4 (`collections`):
//! - no 1e-10 in the denominator: all useful is 1, not 0.99999…;
//! - an empty retrieval is 0, as in the older Ragas (`collections` raises), so
//!   that a retriever gains nothing by returning nothing;
//! - a passage without a readable verdict means no score (`judge_unparsable`);
//! - verdicts are 0 or 1 and nothing else.
//!
//! Source: S. Es et al., "RAGAS: Automated Evaluation of Retrieval Augmented
//! Generation", EACL 2024, and Ragas' documentation.

use super::judge::{self, Transcript};
use super::judged::{Judged, JudgedMetric};
use super::labelled::{ComparedWith, JudgedList};
use super::{Describe, Description, Error, Metric, MetricContext, Needs, Sample};
use crate::Missing;
use crate::verdict::{VerdictKind, relevant};
use serde::{Deserialize, Serialize};

pub(super) const VERSION: u32 = 2;

/// What usefulness is measured by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Against {
    /// The reference answer.
    #[default]
    Reference,
    /// The generated answer (Ragas' `context_utilization`).
    Answer,
}

/// Settings of context precision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The probability of yes from which on a verdict is yes; for models that
    /// offer token probabilities.
    pub threshold: f64,
    /// What a passage has to be useful for: `reference` or `answer`.
    pub against: Against,
}

impl Default for Config {
    fn default() -> Self {
        Self { threshold: 0.5, against: Against::Reference }
    }
}

impl Config {
    pub(super) fn build(&self, cx: &MetricContext<'_>) -> Result<Box<dyn Metric>, Error> {
        Judged::build(cx, "context_precision", self.threshold, self.clone())
    }
}

impl Describe for Config {
    fn describe(&self) -> Description {
        let answer = self.against == Against::Answer;
        Description {
            needs: Needs { passages: true, judge: true, answer, reference: !answer, ..Needs::default() },
            // Nothing can be retrieved that helps.
            needs_answerable: true,
            verdict: Some((VerdictKind::Relevant, self.threshold)),
            judged_lists: match self.against {
                Against::Reference => {
                    &[JudgedList { name: "passages", kind: VerdictKind::Relevant, with: ComparedWith::Reference }]
                }
                Against::Answer => {
                    &[JudgedList { name: "passages", kind: VerdictKind::Relevant, with: ComparedWith::Answer }]
                }
            },
            reads_one_passage: true,
            voting_per_passage: 1,
            ..Description::default()
        }
    }
}

impl JudgedMetric for Judged<Config> {
    async fn try_score(&self, sample: &Sample<'_>, transcript: &mut Transcript) -> Result<f64, Missing> {
        let answer = match self.config.against {
            Against::Reference => sample.reference()?.to_owned(),
            Against::Answer => sample.answer_with_words()?,
        };
        let passages: Vec<String> = sample.texts().map(str::to_owned).collect();
        let inquiry = relevant::inquiry(&sample.question.question, &answer, &passages);
        let verdicts = self.judge.verdicts(&inquiry, transcript).await?;
        let names: Vec<String> = sample
            .passages
            .iter()
            .map(|passage| format!("{} {}..{}", passage.document, passage.span.start, passage.span.end))
            .collect();
        transcript.show("passages", judge::table(&names, &verdicts));
        Ok(average_precision(&judge::require_all(&verdicts)?))
    }
}

/// Average precision of verdicts in the order of ranking; 0 without a yes.
fn average_precision(verdicts: &[bool]) -> f64 {
    let mut n_useful = 0.0;
    let mut sum = 0.0;
    for (i, _) in verdicts.iter().enumerate().filter(|(_, useful)| **useful) {
        n_useful += 1.0;
        sum += n_useful / (i as f64 + 1.0);
    }
    if n_useful == 0.0 { 0.0 } else { sum / n_useful }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeJudge, judged_by, passage, question, sample, score};
    use super::*;
    use crate::{Score, Scored};

    #[test]
    fn average_precision_has_the_reference_values() {
        for (verdicts, wanted) in [
            (&[true, false, true][..], 0.833_333),
            (&[false, true, true], 0.583_333),
            (&[false, false, true], 0.333_333),
            (&[true, true, false], 1.0),
            (&[false, false], 0.0),
            (&[], 0.0),
        ] {
            assert!((average_precision(verdicts) - wanted).abs() < 1e-6, "{verdicts:?}");
        }
        assert_eq!(average_precision(&[true; 7]), 1.0);
    }

    fn precision(fake: FakeJudge, n_passages: usize) -> Scored {
        let question = question("What is APT?", Some("A package manager."));
        let passages: Vec<_> = (0..n_passages).map(|i| passage("a.txt", i * 10, i * 10 + 10)).collect();
        let metric = Config::default().build(&judged_by(fake).context()).unwrap();
        score(&*metric, &sample(&question, &passages, None))
    }

    #[test]
    fn each_passage_is_judged_in_its_order() {
        let scored = precision(FakeJudge::new().verdicts("011"), 3);
        assert!((scored.score.value().unwrap() - 0.583_333).abs() < 1e-6);
        let written = precision(FakeJudge::new().verdicts("011").without_probabilities(), 3);
        assert_eq!(written.score, scored.score);
    }

    #[test]
    fn nothing_retrieved_is_zero_and_asks_nobody() {
        assert_eq!(precision(FakeJudge::new(), 0).score, Score::Value(0.0));
    }

    #[test]
    fn a_passage_without_a_verdict_means_no_score() {
        let scored = precision(FakeJudge::new().verdicts("1?").without_probabilities(), 2);
        assert!(matches!(scored.score, Score::Missing(Missing::JudgeUnparsable(_))), "{:?}", scored.score);
    }

    #[test]
    fn the_settings_decide_what_is_needed() {
        let by_answer = Config { against: Against::Answer, ..Config::default() };
        let needs = by_answer.describe().needs;
        assert!(needs.answer && !needs.reference);
        let needs = Config::default().describe().needs;
        assert!(!needs.answer && needs.reference);
    }
}
