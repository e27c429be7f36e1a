//! Answer correctness: whether the answer says what the reference says.
//!
//! When to use it: as the overall mark of an answer, where there is a
//! reference. It needs a judge (for the facts) and an embedder (for the
//! similarity); a part with weight 0 is not computed and needs no model.
//!
//! 1. The judge breaks answer and reference into statements.
//! 2. TP: statements of the answer that the reference supports; FP: those that
//!    it does not; FN: statements of the reference that the answer lacks.
//! 3. P = TP/(TP+FP), R = TP/(TP+FN), F = (1+β²)PR/(β²P+R), each 0 where its
//!    denominator is.
//! 4. score = Σ w_i x_i / Σ w_i of F and answer similarity, w = [0.75, 0.25].
//!
//! Calls for a score: two that list the statements, and one for each statement
//! of both texts. A judge that tells no token probabilities gets all statements
//! of a text in one call, so there are four. The embedder is called once.
//!
//! Differences from Ragas 0.4 (`collections`):
//! - each statement gets a verdict of its own, matched by number; Ragas has one
//!   call sort all statements and believes whatever lists come back. A missing
//!   verdict means no score (`judge_unparsable`);
//! - F is 1 without statements only if *both* texts have none (as in the older
//!   Ragas); `collections` gives 1 if either has none, which rewards refusals.
//!   Where one has none the counts decide: an answer without statements has 0;
//! - P and R are 0 where their denominators are, without an exception;
//! - an empty answer counts as the worst value.
//!
//! Source: Ragas' documentation; F-measure after C. J. van Rijsbergen,
//! "Information Retrieval", 1979.

use super::answer_similarity::similarity;
use super::judge::{self, ITEMS, Judge, Transcript};
use super::judged::JudgedMetric;
use super::labelled::{ComparedWith, JudgedList};
use super::{Describe, Description, Error, Metric, MetricContext, Needs, Sample, refuse};
use crate::verdict::{Inquiry, VerdictKind, correct};
use crate::{Missing, prompt};
use models::Embedder;
use serde::{Deserialize, Serialize};
use serde_json::json;

pub(super) const VERSION: u32 = 4;

/// Settings of answer correctness.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The weights of facts and of similarity, not negative and not both 0.
    pub weights: [f64; 2],
    /// How much more recall counts than precision, above 0; 1 for equally.
    pub beta: f64,
    /// The probability of yes from which on a verdict is yes; for models that
    /// offer token probabilities.
    pub threshold: f64,
    /// The most statements that a text is broken into.
    pub max_statements: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { weights: [0.75, 0.25], beta: 1.0, threshold: 0.5, max_statements: 20 }
    }
}

impl Config {
    pub(super) fn build(&self, cx: &MetricContext<'_>) -> Result<Box<dyn Metric>, Error> {
        let metric = "answer_correctness";
        judge::check_threshold(metric, self.threshold)?;
        judge::check_not_zero(metric, "max_statements", self.max_statements)?;
        if !(self.beta > 0.0 && self.beta.is_finite()) {
            return refuse(metric, format!("beta must be above 0, not {}", self.beta));
        }
        let usable = self.weights.iter().all(|weight| *weight >= 0.0 && weight.is_finite());
        if !usable || self.weights.iter().sum::<f64>() == 0.0 {
            return refuse(metric, format!("weights must not be negative and not both 0: {:?}", self.weights));
        }
        let needs = self.describe().needs;
        let judge = if needs.judge { Some(super::judge(cx, metric, self.threshold)?) } else { None };
        let embedder = if needs.embedder { Some(super::embedder(cx, metric)?) } else { None };
        Ok(Box::new(AnswerCorrectness { judge, embedder, config: self.clone() }))
    }
}

impl Describe for Config {
    fn describe(&self) -> Description {
        let [facts, similarity] = self.weights.map(|weight| weight != 0.0);
        // Only the similarity can be negative. Weights that are refused have
        // no share, and must not make a NaN here.
        let share = self.weights[1] / (self.weights[0] + self.weights[1]);
        Description {
            needs: Needs { reference: true, answer: true, judge: facts, embedder: similarity, ..Needs::default() },
            verdict: Some((VerdictKind::Correct, self.threshold)),
            judged_lists: &[JudgedList {
                name: "answer_statements",
                kind: VerdictKind::Correct,
                with: ComparedWith::Reference,
            }],
            writing: 2,
            voting: 2 * ITEMS,
            range: Some((if share.is_finite() { -share } else { -1.0 }, 1.0)),
            ..Description::default()
        }
    }
}

struct AnswerCorrectness {
    judge: Option<Judge>,
    embedder: Option<Embedder>,
    config: Config,
}

impl JudgedMetric for AnswerCorrectness {
    async fn try_score(&self, sample: &Sample<'_>, transcript: &mut Transcript) -> Result<f64, Missing> {
        let reference = sample.reference()?;
        let answer = sample.answer_with_words()?;
        let facts = match &self.judge {
            Some(judge) => self.facts(judge, sample, &answer, reference, transcript).await?,
            None => 0.0,
        };
        let similarity = match &self.embedder {
            Some(embedder) => similarity(embedder, reference, &answer).await?,
            None => 0.0,
        };
        transcript.show("facts", json!(facts));
        transcript.show("similarity", json!(similarity));
        let [facts_weight, similarity_weight] = self.config.weights;
        Ok((facts_weight * facts + similarity_weight * similarity) / (facts_weight + similarity_weight))
    }
}

impl AnswerCorrectness {
    /// The F-measure of the facts.
    async fn facts(
        &self,
        judge: &Judge,
        sample: &Sample<'_>,
        answer: &str,
        reference: &str,
        transcript: &mut Transcript,
    ) -> Result<f64, Missing> {
        let question = &sample.question.question;
        let limit = self.config.max_statements as usize;
        let said = judge.statements(question, answer, limit, transcript).await?;
        let wanted = judge.statements(question, reference, limit, transcript).await?;
        let against_reference = correct::inquiry(question, reference, &said);
        let supported = judge.verdicts(&against_reference, transcript).await?;
        let shared = format!("{}\n\n{}", prompt::fence("question", question), prompt::fence("answer", answer));
        let against_answer = Inquiry::of_statements(shared, &wanted, "Does the answer say what the statement says?");
        let present = judge.verdicts(&against_answer, transcript).await?;
        transcript.show("answer_statements", judge::table(&said, &supported));
        transcript.show("reference_statements", judge::table(&wanted, &present));
        let (supported, present) = (judge::require_all(&supported)?, judge::require_all(&present)?);
        if said.is_empty() && wanted.is_empty() {
            return Ok(1.0);
        }
        let count = |verdicts: &[bool], which: bool| verdicts.iter().filter(|verdict| **verdict == which).count();
        Ok(f_measure(count(&supported, true), count(&supported, false), count(&present, false), self.config.beta))
    }
}

/// Fβ of counts.
fn f_measure(true_positive: usize, false_positive: usize, false_negative: usize, beta: f64) -> f64 {
    if true_positive == 0 {
        return 0.0;
    }
    let precision = true_positive as f64 / (true_positive + false_positive) as f64;
    let recall = true_positive as f64 / (true_positive + false_negative) as f64;
    judge::f_measure(precision, recall, beta)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeJudge, answer, judged_by, question, sample, score, unjudged};
    use super::*;
    use crate::{Score, Scored};

    #[test]
    fn the_f_measure_has_the_reference_values() {
        assert!((f_measure(2, 1, 1, 1.0) - 0.666_667).abs() < 1e-6);
        assert_eq!(f_measure(0, 3, 2, 1.0), 0.0);
        assert!((f_measure(2, 0, 2, 2.0) - 0.555_556).abs() < 1e-6);
        assert_eq!(f_measure(0, 0, 0, 1.0), 0.0);
        assert_eq!(f_measure(0, 0, 2, 1.0), 0.0);
        assert_eq!(f_measure(0, 2, 0, 1.0), 0.0);
    }

    fn correctness(config: &Config, fake: FakeJudge) -> Scored {
        let question = question("What is APT?", Some("red fox"));
        let metric = config.build(&judged_by(fake).context()).unwrap();
        score(&*metric, &sample(&question, &[], Some(&answer("red fox"))))
    }

    #[test]
    fn facts_and_similarity_are_weighed() {
        // The answer's three statements: TP 2, FP 1. The reference's: FN 1.
        // Both texts are the same, so the similarity is 1.
        let scored = correctness(&Config::default(), FakeJudge::new().statements(&["a", "b", "c"]).verdicts("110110"));
        let wanted = 0.75 * 2.0 / 3.0 + 0.25;
        assert!((scored.score.value().unwrap() - wanted).abs() < 1e-6, "{:?}", scored.score);
        assert_eq!(scored.detail["answer_statements"][2]["verdict"], false);
    }

    #[test]
    fn written_verdicts_are_matched_to_both_lists() {
        let fake = FakeJudge::new().statements(&["a", "b", "c"]).verdicts("110110").without_probabilities();
        let scored = correctness(&Config { weights: [1.0, 0.0], ..Config::default() }, fake);
        assert!((scored.score.value().unwrap() - 2.0 / 3.0).abs() < 1e-12, "{:?}", scored.score);
    }

    #[test]
    fn texts_that_both_state_nothing_agree() {
        let facts_only = Config { weights: [1.0, 0.0], ..Config::default() };
        assert_eq!(correctness(&facts_only, FakeJudge::new().statements(&[])).score, Score::Value(1.0));
    }

    #[test]
    fn an_answer_that_states_nothing_has_no_facts_right_even_if_the_judge_finds_them_in_it() {
        let facts_only = Config { weights: [1.0, 0.0], ..Config::default() };
        let fake = FakeJudge::new().replies(&[r#"{"statements": []}"#, r#"{"statements": ["a", "b"]}"#]).verdicts("11");
        assert_eq!(correctness(&facts_only, fake).score, Score::Value(0.0));
    }

    #[test]
    fn a_part_without_weight_needs_no_model() {
        let similarity_only = Config { weights: [0.0, 1.0], ..Config::default() };
        assert!(!similarity_only.describe().needs.judge);
        assert!(similarity_only.build(&unjudged().context()).is_ok());
        let facts_only = Config { weights: [1.0, 0.0], ..Config::default() };
        assert!(!facts_only.describe().needs.embedder);
        assert_eq!(facts_only.describe().range, Some((-0.0, 1.0)));
    }

    #[test]
    fn weights_that_cannot_work_are_refused() {
        for weights in [[0.0, 0.0], [-1.0, 2.0], [f64::NAN, 1.0]] {
            let config = Config { weights, ..Config::default() };
            assert!(config.build(&judged_by(FakeJudge::new()).context()).is_err(), "{weights:?}");
        }
    }
}
