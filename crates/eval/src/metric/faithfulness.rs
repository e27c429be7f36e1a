//! Faithfulness: how much of the answer the retrieved passages support.
//!
//! When to use it: to find answers that are made up. It needs a judge and no
//! reference. It says nothing about whether the answer is right or complete.
//!
//! 1. The judge breaks the answer into statements.
//! 2. For each statement: can it be inferred from the passages alone?
//!
//! score = supported statements / all statements.
//!
//! Calls for a score: one that lists the statements, and one for each
//! statement. A judge that tells no token probabilities gets all statements in
//! one call, so there are two.
//!
//! Differences from Ragas 0.4 (`collections`):
//! - the denominator is the number of statements, not of the verdicts that the
//!   judge happened to return; verdicts are matched by number, and one missing
//!   verdict means no score (`judge_unparsable`);
//! - an answer without statements (a refusal) counts as 0 instead of NaN, and so
//!   does an empty retrieval, so that refusing looks no better than answering;
//!   where the question is marked as unanswerable, the metric does not apply to
//!   an answer that declines;
//! - verdicts come from token probabilities where the model offers them;
//! - passages are numbered, fenced and escaped; citations are taken off;
//! - a statement that is repeated word for word counts once.
//!
//! Source: S. Es et al., "RAGAS: Automated Evaluation of Retrieval Augmented
//! Generation", EACL 2024.

use super::judge::{self, ITEMS, Transcript};
use super::judged::{Judged, JudgedMetric};
use super::labelled::{ComparedWith, JudgedList};
use super::{Describe, Description, Error, Metric, MetricContext, Needs, Sample};
use crate::Missing;
use crate::verdict::{VerdictKind, supported};
use serde::{Deserialize, Serialize};

pub(super) const VERSION: u32 = 3;

/// Settings of faithfulness.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The probability of yes from which on a verdict is yes; for models that
    /// offer token probabilities.
    pub threshold: f64,
    /// The most statements that an answer is broken into.
    pub max_statements: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { threshold: 0.5, max_statements: 20 }
    }
}

impl Config {
    pub(super) fn build(&self, cx: &MetricContext<'_>) -> Result<Box<dyn Metric>, Error> {
        judge::check_not_zero("faithfulness", "max_statements", self.max_statements)?;
        Judged::build(cx, "faithfulness", self.threshold, self.clone())
    }
}

impl Describe for Config {
    fn describe(&self) -> Description {
        Description {
            needs: Needs { answer: true, passages: true, judge: true, ..Needs::default() },
            verdict: Some((VerdictKind::Supported, self.threshold)),
            judged_lists: &[JudgedList {
                name: "statements",
                kind: VerdictKind::Supported,
                with: ComparedWith::Passages,
            }],
            writing: 1,
            voting: ITEMS,
            ..Description::default()
        }
    }
}

impl JudgedMetric for Judged<Config> {
    async fn try_score(&self, sample: &Sample<'_>, transcript: &mut Transcript) -> Result<f64, Missing> {
        let answer = sample.answer_with_words()?;
        if sample.passages.is_empty() {
            return Err(Missing::EmptyInput("nothing was retrieved that could support the answer".into()));
        }
        let (question, limit) = (&sample.question.question, self.config.max_statements as usize);
        let statements = self.judge.statements(question, &answer, limit, transcript).await?;
        if statements.is_empty() {
            return Err(Missing::EmptyInput("the judge found no statement in the answer".into()));
        }
        let inquiry = supported::inquiry(sample.texts(), &statements);
        judge::share(&self.judge.decide(&inquiry, "statements", transcript).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeJudge, answer, judged_by, passage, question, sample, score};
    use super::*;
    use crate::{Score, Scored};

    fn faithfulness(fake: FakeJudge) -> Scored {
        let question = question("What is APT?", Some("A package manager."));
        let passages = [passage("a.txt", 0, 10), passage("a.txt", 20, 30)];
        let metric = Config::default().build(&judged_by(fake).context()).unwrap();
        score(&*metric, &sample(&question, &passages, Some(&answer("APT is a manager [1]."))))
    }

    #[test]
    fn the_score_is_the_share_of_supported_statements() {
        let scored = faithfulness(FakeJudge::new().statements(&["a", "b", "c", "d"]).verdicts("1101"));
        assert_eq!(scored.score, Score::Value(0.75));
        assert_eq!(scored.detail["statements"][2]["verdict"], false);
        assert_eq!(scored.detail["statements"][2]["probability"], 0.1);
        assert_eq!(scored.detail["transcript"].as_array().map(Vec::len), Some(5));
    }

    #[test]
    fn written_verdicts_give_the_same_score() {
        let fake = FakeJudge::new().statements(&["a", "b", "c", "d"]).verdicts("1101").without_probabilities();
        assert_eq!(faithfulness(fake).score, Score::Value(0.75));
    }

    #[test]
    fn one_missing_verdict_means_no_score_and_not_a_smaller_denominator() {
        let fake = FakeJudge::new().statements(&["a", "b", "c", "d"]).verdicts("11?1").without_probabilities();
        let scored = faithfulness(fake);
        assert!(matches!(scored.score, Score::Missing(Missing::JudgeUnparsable(_))), "{:?}", scored.score);
        assert_eq!(scored.detail["statements"][0]["verdict"], true);
        assert_eq!(scored.detail["statements"][2]["verdict"], serde_json::Value::Null);
    }

    #[test]
    fn an_answer_without_statements_has_no_score_for_a_stated_reason() {
        let scored = faithfulness(FakeJudge::new().statements(&[]));
        assert!(matches!(scored.score, Score::Missing(Missing::EmptyInput(_))), "{:?}", scored.score);
    }

    #[test]
    fn a_repeated_statement_counts_once() {
        let scored = faithfulness(FakeJudge::new().statements(&["a", "A", "b"]).verdicts("10"));
        assert_eq!(scored.score, Score::Value(0.5));
    }

    #[test]
    fn what_all_statements_share_comes_first() {
        let fake = FakeJudge::new().statements(&["a", "b"]).verdicts("11");
        let seen = fake.seen();
        faithfulness(fake);
        let prompts: Vec<String> = seen
            .lock()
            .unwrap()
            .iter()
            .filter(|request| !request.choices.is_empty())
            .map(|r| r.messages[1].content.clone())
            .collect();
        let shared = prompts[0].split("<statement>").next().unwrap();
        assert!(shared.contains("<passage number=\"2\">") && prompts[1].starts_with(shared));
    }
}
