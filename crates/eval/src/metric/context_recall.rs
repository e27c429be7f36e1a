//! Context recall: how much of the reference answer the retrieved passages
//! hold.
//!
//! When to use it: where there are reference answers and no golden evidence;
//! where there is evidence, `recall` does it without a judge. It needs a judge.
//!
//! For each sentence of the reference: can it be attributed to the passages?
//! score = attributed sentences / sentences. An empty retrieval is 0.
//!
//! Calls for a score: one for each sentence of the reference. A judge that
//! tells no token probabilities gets all sentences in one call.
//!
//! Differences from Ragas 0.4 (`collections`):
//! - the sentences are cut by a fixed rule and not by the judge, so that the
//!   denominator is the same for every trial; verdicts are matched to them by
//!   number, and a missing one means no score (`judge_unparsable`);
//! - an empty retrieval is 0 without a call, where `collections` raises;
//! - verdicts are 0 or 1 and come from token probabilities where offered.
//!
//! Source: S. Es et al., "RAGAS: Automated Evaluation of Retrieval Augmented
//! Generation", EACL 2024, and Ragas' documentation.

use super::judge::{self, ITEMS, Transcript};
use super::judged::{Judged, JudgedMetric, VerdictSettings};
use super::labelled::{ComparedWith, JudgedList};
use super::{Describe, Description, Error, Metric, MetricContext, Needs, Sample};
use crate::Missing;
use crate::verdict::{Inquiry, VerdictKind};
use crate::words;
use serde::{Deserialize, Serialize};

pub(super) const VERSION: u32 = 3;

/// Settings of context recall.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct Config(pub VerdictSettings);

impl Config {
    pub(super) fn build(&self, cx: &MetricContext<'_>) -> Result<Box<dyn Metric>, Error> {
        Judged::build(cx, "context_recall", self.0.threshold, self.clone())
    }
}

impl Describe for Config {
    fn describe(&self) -> Description {
        Description {
            needs: Needs { reference: true, passages: true, judge: true, ..Needs::default() },
            verdict: Some((VerdictKind::Supported, self.0.threshold)),
            judged_lists: &[JudgedList {
                name: "sentences",
                kind: VerdictKind::Supported,
                with: ComparedWith::Passages,
            }],
            voting: ITEMS,
            ..Description::default()
        }
    }
}

impl JudgedMetric for Judged<Config> {
    async fn try_score(&self, sample: &Sample<'_>, transcript: &mut Transcript) -> Result<f64, Missing> {
        let sentences: Vec<String> = words::sentences(sample.reference()?).into_iter().map(str::to_owned).collect();
        if sentences.is_empty() {
            return Err(Missing::NotApplicable("the reference answer holds no word".into()));
        }
        if sample.passages.is_empty() {
            return Ok(0.0);
        }
        let shared = format!("{}\n\n{}", sample.fenced_context(), sample.fenced_question());
        let question = "The statement is part of an answer to the question. Does the context say what it says?";
        let inquiry = Inquiry::of_statements(shared, &sentences, question);
        judge::share(&self.judge.decide(&inquiry, "sentences", transcript).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeJudge, judged_by, passage, question, sample, score};
    use super::*;
    use crate::{Score, Scored};

    fn recall(fake: FakeJudge, reference: Option<&str>, n_passages: usize) -> Scored {
        let question = question("What is APT?", reference);
        let passages: Vec<_> = (0..n_passages).map(|i| passage("a.txt", i * 10, i * 10 + 10)).collect();
        let metric = Config::default().build(&judged_by(fake).context()).unwrap();
        score(&*metric, &sample(&question, &passages, None))
    }

    const REFERENCE: Option<&str> = Some("It is a tool. It installs packages. It is free.");

    #[test]
    fn the_score_is_the_share_of_attributed_sentences() {
        let scored = recall(FakeJudge::new().verdicts("110"), REFERENCE, 2);
        assert!((scored.score.value().unwrap() - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(scored.detail["sentences"][1]["text"], "It installs packages.");
        let written = recall(FakeJudge::new().verdicts("110").without_probabilities(), REFERENCE, 2);
        assert_eq!(written.score, scored.score);
    }

    #[test]
    fn nothing_retrieved_is_zero_and_asks_nobody() {
        assert_eq!(recall(FakeJudge::new(), REFERENCE, 0).score, Score::Value(0.0));
    }

    #[test]
    fn a_question_without_reference_is_no_failure() {
        let scored = recall(FakeJudge::new(), None, 1);
        assert!(matches!(scored.score, Score::Missing(Missing::NotApplicable(_))), "{:?}", scored.score);
    }

    #[test]
    fn a_failing_judge_is_told_from_an_unreadable_one() {
        let down = recall(FakeJudge::new().failing(), REFERENCE, 1);
        assert!(matches!(down.score, Score::Missing(Missing::ProviderError(_))), "{:?}", down.score);
        let unreadable = recall(FakeJudge::new().verdicts("1?1").without_probabilities(), REFERENCE, 1);
        assert!(matches!(unreadable.score, Score::Missing(Missing::JudgeUnparsable(_))), "{:?}", unreadable.score);
    }
}
