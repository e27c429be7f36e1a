//! Noise sensitivity: how much of the answer is wrong because of what was
//! retrieved. Lower is better.
//!
//! When to use it: to see whether a generator is led astray, by useful passages
//! that it misreads (`relevant`) or by useless ones that it believes
//! (`irrelevant`). It needs a judge, a reference and an answer. It does not
//! notice errors that no passage holds: that is `faithfulness`.
//!
//! 1. The judge breaks answer (S) and reference (R) into statements.
//! 2. T_s: the reference supports statement s of the answer.
//! 3. A_sc: passage c supports statement s. G_rc: passage c supports statement
//!    r of the reference; a passage is relevant if it supports any of them.
//! 4. With rel_s = a relevant passage supports s, and irr_s = only irrelevant
//!    passages do:
//!    `relevant`: score = |{s: rel_s ∧ ¬T_s}| / |S|;
//!    `irrelevant`: score = |{s: irr_s ∧ ¬T_s}| / |S|.
//!
//! Calls for a score: two to list the statements, and one for each statement of the
//! answer, to find those that the reference does not support. If there are any, each
//! passage takes one call for each unsupported statement. If the passage supports one
//! of them, it also takes one call for each statement of the reference. A judge
//! without token probabilities gets the statements of a step together, in one call.
//!
//! Differences from Ragas 0.4.3 (`collections`):
//! - passages are only asked about statements that the reference does not
//!   support, and only those that support one are asked about the reference:
//!   nothing else can change the score, and most answers need few calls
//!   (Ragas: two calls for every passage);
//! - verdicts are matched by number, and a missing one means no score
//!   (`judge_unparsable`); there, lists of unequal length raise;
//! - an answer without statements and an empty retrieval count as the worst
//!   value, 1, so that answering less looks no better; to a reference without
//!   statements the metric does not apply; there, these raise or are NaN;
//! - verdicts come from token probabilities where offered; passages are
//!   fenced; a repeated statement counts once.
//!
//! Source: Ragas' documentation; the two kinds of noise are those of D. Ru et
//! al., "RAGChecker", NeurIPS 2024.

use super::judge::{self, ITEMS, Transcript};
use super::judged::{Judged, JudgedMetric};
use super::labelled::{ComparedWith, JudgedList};
use super::{Describe, Description, Error, Metric, MetricContext, Needs, Sample};
use crate::verdict::{Inquiry, VerdictKind, correct};
use crate::{Missing, prompt};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(super) const VERSION: u32 = 3;

/// Which errors are counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Mode")]
pub enum NoiseMode {
    /// Those that a relevant passage supports.
    #[default]
    Relevant,
    /// Those that irrelevant passages alone support.
    Irrelevant,
}

/// Settings of noise sensitivity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Which errors are counted: `relevant` or `irrelevant`.
    pub mode: NoiseMode,
    /// The probability of yes from which on a verdict is yes; for models that
    /// offer token probabilities.
    pub threshold: f64,
    /// The most statements that a text is broken into.
    pub max_statements: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { mode: NoiseMode::Relevant, threshold: 0.5, max_statements: 20 }
    }
}

impl Config {
    pub(super) fn build(&self, cx: &MetricContext<'_>) -> Result<Box<dyn Metric>, Error> {
        let metric = "noise_sensitivity";
        judge::check_not_zero(metric, "max_statements", self.max_statements)?;
        Judged::build(cx, metric, self.threshold, self.clone())
    }
}

impl Describe for Config {
    fn describe(&self) -> Description {
        Description {
            needs: Needs { reference: true, answer: true, passages: true, judge: true, ..Needs::default() },
            verdict: Some((VerdictKind::Supported, self.threshold)),
            judged_lists: &[JudgedList {
                name: "answer_statements",
                kind: VerdictKind::Correct,
                with: ComparedWith::Reference,
            }],
            reads_one_passage: true,
            writing: 2,
            voting: ITEMS,
            // Half of the answer is wrong, and each passage supports some of that.
            voting_per_passage: ITEMS / 2 + ITEMS,
            label: (self.mode == NoiseMode::Irrelevant).then(|| "noise_sensitivity_irrelevant".to_owned()),
            lower_is_better: true,
            ..Description::default()
        }
    }
}

impl JudgedMetric for Judged<Config> {
    async fn try_score(&self, sample: &Sample<'_>, transcript: &mut Transcript) -> Result<f64, Missing> {
        let reference = sample.reference()?;
        let answer = sample.answer_with_words()?;
        if sample.passages.is_empty() {
            return Err(Missing::EmptyInput("nothing was retrieved that could have misled".into()));
        }
        let (question, limit) = (&sample.question.question, self.config.max_statements as usize);
        let said = self.judge.statements(question, &answer, limit, transcript).await?;
        let wanted = self.judge.statements(question, reference, limit, transcript).await?;
        // The same for every trial.
        if wanted.is_empty() {
            return Err(Missing::NotApplicable("the judge found no statement in the reference".into()));
        }
        if said.is_empty() {
            return Err(Missing::EmptyInput("the judge found no statement in the answer".into()));
        }
        let inquiry = correct::inquiry(question, reference, &said);
        let supported = self.judge.decide(&inquiry, "answer_statements", transcript).await?;
        let wrong: Vec<String> =
            said.iter().zip(&supported).filter(|(_, supported)| !**supported).map(|(text, _)| text.clone()).collect();
        let mut relevant = vec![false; wrong.len()];
        let mut irrelevant = vec![false; wrong.len()];
        let mut passages = Vec::new();
        for passage in sample.passages.iter().filter(|_| !wrong.is_empty()) {
            let mut row = json!({ "document": passage.document, "start": passage.span.start, "end": passage.span.end });
            let of_wrong = self.supported(&passage.text, &wrong, &mut row["wrong_statements"], transcript).await?;
            let mut is_relevant = None;
            if of_wrong.contains(&true) {
                let place = &mut row["reference_statements"];
                is_relevant = Some(self.supported(&passage.text, &wanted, place, transcript).await?.contains(&true));
            }
            row["relevant"] = json!(is_relevant);
            passages.push(row);
            transcript.show("passages", json!(passages));
            let misled = if is_relevant == Some(true) { &mut relevant } else { &mut irrelevant };
            misled.iter_mut().zip(of_wrong).for_each(|(misled, supports)| *misled |= supports);
        }
        Ok(sensitivity(self.config.mode, &relevant, &irrelevant, said.len()))
    }
}

impl Judged<Config> {
    /// Which statements a passage supports.
    async fn supported(
        &self,
        passage: &str,
        statements: &[String],
        detail: &mut Value,
        transcript: &mut Transcript,
    ) -> Result<Vec<bool>, Missing> {
        let question = "Can the statement be inferred directly from the passage, without any other knowledge?";
        let inquiry = Inquiry::of_statements(prompt::fence("passage", passage), statements, question);
        let verdicts = self.judge.verdicts(&inquiry, transcript).await?;
        *detail = judge::table(statements, &verdicts);
        judge::require_all(&verdicts)
    }
}

/// The share of an answer's statements that are wrong and come from passages
/// of the mode's kind. The two lists say for each wrong statement whether a
/// relevant and whether an irrelevant passage supports it.
fn sensitivity(mode: NoiseMode, relevant: &[bool], irrelevant: &[bool], n_statements: usize) -> f64 {
    let counts = |(relevant, irrelevant): &(&bool, &bool)| match mode {
        NoiseMode::Relevant => **relevant,
        NoiseMode::Irrelevant => **irrelevant && !**relevant,
    };
    relevant.iter().zip(irrelevant).filter(counts).count() as f64 / n_statements as f64
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeJudge, answer, judged_by, passage, question, sample, score};
    use super::*;
    use crate::{Score, Scored};

    fn noise(mode: NoiseMode, statements: &[&str], verdicts: &str, n_passages: usize) -> (Scored, usize) {
        let question = question("What is APT?", Some("A package manager."));
        let passages: Vec<_> = (0..n_passages).map(|i| passage("a.txt", i * 10, i * 10 + 10)).collect();
        let scores = [true, false].map(|probabilities| {
            let fake = FakeJudge::new().statements(statements).verdicts(verdicts);
            let fake = if probabilities { fake } else { fake.without_probabilities() };
            let seen = fake.seen();
            let metric = Config { mode, ..Config::default() }.build(&judged_by(fake).context()).unwrap();
            let scored = score(&*metric, &sample(&question, &passages, Some(&answer("APT is a game [1]."))));
            let n_calls = seen.lock().unwrap().len();
            (scored, n_calls)
        });
        let [(by_probability, calls), (written, _)] = scores;
        assert_eq!(by_probability.score, written.score);
        (by_probability, calls)
    }

    // Three statements of the answer and of the reference each, two passages.
    // The verdicts in the order of asking: T; for each passage the wrong
    // statements, and the reference's where the passage supports a wrong one.

    #[test]
    fn the_score_has_the_reference_values() {
        // T = 1 0 0; A of statements 2 and 3: passage one 0 0, passage two 1 0,
        // which supports nothing of the reference.
        let verdicts = "100 00 10 000".replace(' ', "");
        let (scored, _) = noise(NoiseMode::Relevant, &["a", "b", "c"], &verdicts, 2);
        assert_eq!(scored.score, Score::Value(0.0));
        let (scored, _) = noise(NoiseMode::Irrelevant, &["a", "b", "c"], &verdicts, 2);
        assert!((scored.score.value().unwrap() - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!(scored.detail["passages"][1]["relevant"], false);

        // T = 0 0 0; A: passage one 1 0 0, passage two 0 1 0; only passage one
        // supports the reference.
        let verdicts = "000 100 100 010 000".replace(' ', "");
        for mode in [NoiseMode::Relevant, NoiseMode::Irrelevant] {
            let (scored, _) = noise(mode, &["a", "b", "c"], &verdicts, 2);
            assert!((scored.score.value().unwrap() - 1.0 / 3.0).abs() < 1e-12, "{mode:?} {:?}", scored.score);
        }
    }

    #[test]
    fn what_a_relevant_passage_supports_too_is_not_of_the_irrelevant_ones() {
        assert_eq!(sensitivity(NoiseMode::Irrelevant, &[true, false], &[true, true], 4), 0.25);
        assert_eq!(sensitivity(NoiseMode::Relevant, &[true, false], &[true, true], 4), 0.25);
    }

    #[test]
    fn a_right_answer_asks_no_passage() {
        let (scored, calls) = noise(NoiseMode::Relevant, &["a", "b"], "11", 5);
        assert_eq!((scored.score, calls), (Score::Value(0.0), 4));
    }

    #[test]
    fn less_noise_is_better_and_both_modes_can_stand_side_by_side() {
        let irrelevant = Config { mode: NoiseMode::Irrelevant, ..Config::default() };
        assert!(irrelevant.describe().lower_is_better);
        assert_eq!(
            (Config::default().describe().label, irrelevant.describe().label.as_deref()),
            (None, Some("noise_sensitivity_irrelevant"))
        );
    }

    #[test]
    fn a_missing_verdict_a_missing_statement_and_no_passage_mean_no_score() {
        let missing = |scored: Scored| match scored.score {
            Score::Missing(missing) => missing.name(),
            Score::Value(_) => "value",
        };
        let question = question("What is APT?", Some("A package manager."));
        let passages = [passage("a.txt", 0, 10)];
        let of = |fake: FakeJudge, passages: &[rag::Passage]| {
            let metric = Config::default().build(&judged_by(fake).context()).unwrap();
            missing(score(&*metric, &sample(&question, passages, Some(&answer("APT is a game.")))))
        };
        let unread = FakeJudge::new().statements(&["a", "b"]).verdicts("00?0").without_probabilities();
        assert_eq!(of(unread, &passages), "judge_unparsable");
        assert_eq!(of(FakeJudge::new().statements(&[]), &passages), "not_applicable", "the reference states nothing");
        assert_eq!(of(FakeJudge::new(), &[]), "empty_input");
    }
}
