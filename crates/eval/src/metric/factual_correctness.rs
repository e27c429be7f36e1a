//! Factual correctness: how many of the answer's claims the reference holds,
//! and how many of the reference's claims the answer makes.
//!
//! When to use it: where facts alone count and not how they are put; precision
//! to find what was added, recall to find what was left out. It needs a judge
//! and a reference. `answer_correctness` also weighs the similarity of the
//! texts.
//!
//! 1. The judge breaks answer and reference into claims, as fine as
//!    `atomicity` and as many as `coverage` say.
//! 2. P = claims of the answer that can be inferred from the reference / all
//!    of them. R = claims of the reference that can be inferred from the
//!    answer / all of them.
//! 3. score = P, R or Fβ = (1+β²)PR/(β²P+R), 0 where both are 0.
//!
//! `precision` asks nothing about the reference's claims, `recall` nothing
//! about the answer's. Fβ is 1 if neither text makes a claim and 0 if one of
//! them makes none. P of an answer without claims is 0; R does not apply to a
//! reference without claims.
//!
//! Calls for a score: one that lists the claims of a text, and one for each
//! claim; with Fβ for both texts, else for one. A judge that tells no token
//! probabilities gets all claims of a text in one call, so there are four, or
//! two.
//!
//! Differences from Ragas 0.4.3 (`collections`):
//! - there, R = TP/(TP+FN) with TP counted on the answer's claims and FN on the
//!   reference's: an answer that splits one fact in five raises its recall.
//!   Here each share is of one list, and `recall` costs half;
//! - not rounded to two decimals, and no 1e-8 in the denominators: all
//!   supported is 1;
//! - atomicity and coverage are told to the judge in words; there, by one of
//!   four sets of examples;
//! - the question stands beside a text that is broken into claims, so that
//!   `Yes.` becomes one;
//! - each claim has a verdict matched by number; a missing one means no score
//!   (`judge_unparsable`).
//!
//! Source: Ragas' documentation; claims as the unit of facts after S. Min et
//! al., "FActScore", EMNLP 2023.

use super::judge::{self, ITEMS, Transcript};
use super::judged::{Judged, JudgedMetric};
use super::labelled::{ComparedWith, JudgedList};
use super::{Describe, Description, Error, Metric, MetricContext, Needs, Sample, refuse};
use crate::verdict::{Inquiry, VerdictKind};
use crate::{Missing, prompt};
use serde::{Deserialize, Serialize};

pub(super) const VERSION: u32 = 3;

/// Which share is the score.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Mode")]
pub enum FactualMode {
    /// Of the answer's claims.
    Precision,
    /// Of the reference's claims.
    Recall,
    /// Both.
    #[default]
    FBeta,
}

/// A level of atomicity or of coverage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Level")]
pub enum ClaimLevel {
    /// Little.
    #[default]
    Low,
    /// Much.
    High,
}

/// Settings of factual correctness.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// What the score is: `precision`, `recall` or `f_beta`.
    pub mode: FactualMode,
    /// How much more recall counts than precision, above 0; 1 for equally.
    pub beta: f64,
    /// How fine claims are: `low` keeps what a sentence says together, `high`
    /// makes a claim of every detail.
    pub atomicity: ClaimLevel,
    /// How much of a text becomes claims: `low` what it mainly says, `high`
    /// all of it.
    pub coverage: ClaimLevel,
    /// The probability of yes from which on a verdict is yes; for models that
    /// offer token probabilities.
    pub threshold: f64,
    /// The most claims that a text is broken into.
    pub max_claims: u32,
}

impl Default for Config {
    fn default() -> Self {
        let (atomicity, coverage) = (ClaimLevel::Low, ClaimLevel::Low);
        Self { mode: FactualMode::FBeta, beta: 1.0, atomicity, coverage, threshold: 0.5, max_claims: 20 }
    }
}

impl Config {
    pub(super) fn build(&self, cx: &MetricContext<'_>) -> Result<Box<dyn Metric>, Error> {
        let metric = "factual_correctness";
        judge::check_not_zero(metric, "max_claims", self.max_claims)?;
        if !(self.beta > 0.0 && self.beta.is_finite()) {
            return refuse(metric, format!("beta must be above 0, not {}", self.beta));
        }
        Judged::build(cx, metric, self.threshold, self.clone())
    }
}

impl Describe for Config {
    fn describe(&self) -> Description {
        let (label, texts) = match self.mode {
            FactualMode::Precision => (Some("factual_correctness_precision".to_owned()), 1),
            FactualMode::Recall => (Some("factual_correctness_recall".to_owned()), 1),
            FactualMode::FBeta => (None, 2),
        };
        Description {
            needs: Needs { reference: true, answer: true, judge: true, ..Needs::default() },
            verdict: Some((VerdictKind::Supported, self.threshold)),
            judged_lists: &[
                JudgedList { name: "answer_claims", kind: VerdictKind::Supported, with: ComparedWith::Reference },
                JudgedList { name: "reference_claims", kind: VerdictKind::Supported, with: ComparedWith::Answer },
            ],
            writing: texts,
            voting: texts * ITEMS,
            label,
            ..Description::default()
        }
    }
}

/// What can be said of a text's claims.
#[derive(Debug, Clone, Copy)]
enum Share {
    /// There are none.
    NoClaims,
    /// The share of them that the other text holds.
    Of(f64),
}

impl JudgedMetric for Judged<Config> {
    async fn try_score(&self, sample: &Sample<'_>, transcript: &mut Transcript) -> Result<f64, Missing> {
        let reference = sample.reference()?;
        let answer = sample.answer_with_words()?;
        let question = &sample.question.question;
        let (mut precision, mut recall) = (Share::NoClaims, Share::NoClaims);
        if self.config.mode != FactualMode::Recall {
            precision =
                self.share_supported(question, &answer, ("reference", reference), "answer_claims", transcript).await?;
        }
        if self.config.mode != FactualMode::Precision {
            recall =
                self.share_supported(question, reference, ("answer", &answer), "reference_claims", transcript).await?;
        }
        match (self.config.mode, precision, recall) {
            (FactualMode::Precision, Share::Of(share), _) | (FactualMode::Recall, _, Share::Of(share)) => Ok(share),
            (FactualMode::Precision, Share::NoClaims, _) => {
                Err(Missing::EmptyInput("the judge found no claim in the answer".into()))
            }
            // The same for every trial.
            (FactualMode::Recall, _, Share::NoClaims) => {
                Err(Missing::NotApplicable("the judge found no claim in the reference".into()))
            }
            (FactualMode::FBeta, precision, recall) => Ok(f_beta(precision, recall, self.config.beta)),
        }
    }
}

impl Judged<Config> {
    /// The share of a text's claims that the other text, given with its tag,
    /// holds.
    async fn share_supported(
        &self,
        question: &str,
        text: &str,
        (tag, other): (&'static str, &str),
        place: &str,
        transcript: &mut Transcript,
    ) -> Result<Share, Missing> {
        let claims = self.claims(question, text, transcript).await?;
        let shared = format!("{}\n\n{}", prompt::fence("question", question), prompt::fence(tag, other));
        let asked = match tag {
            "reference" => "Can the statement be inferred from the reference, which answers the question?",
            _ => "Can the statement be inferred from the answer to the question?",
        };
        let inquiry = Inquiry::of_statements(shared, &claims, asked);
        let held = self.judge.decide(&inquiry, place, transcript).await?;
        Ok(if claims.is_empty() { Share::NoClaims } else { Share::Of(judge::share(&held)?) })
    }

    async fn claims(&self, question: &str, text: &str, transcript: &mut Transcript) -> Result<Vec<String>, Missing> {
        let atomicity = match self.config.atomicity {
            ClaimLevel::Low => {
                "Keep together what a sentence says: one claim for each sentence, unless it says two \
                           things that have nothing to do with each other."
            }
            ClaimLevel::High => {
                "Make a claim of every detail: each name, number, property and relation in a claim of its \
                            own."
            }
        };
        let coverage = match self.config.coverage {
            ClaimLevel::Low => "Take what the text mainly says; leave out examples, side remarks and repetitions.",
            ClaimLevel::High => "Take all that the text says, examples and side remarks too.",
        };
        let prompt = format!(
            "{}\n\n{}\n\nWrite down the claims that the text, which answers the question, makes. {atomicity} \
             {coverage} Each claim must be a sentence that can be understood alone: put names in the place of words \
             such as `it` or `they`. Add nothing. If the text claims nothing (it refuses or does not know), give an \
             empty list.",
            prompt::fence("question", question),
            prompt::fence("text", text)
        );
        self.judge.texts("claims", prompt, text.len(), self.config.max_claims as usize, transcript).await
    }
}

/// Fβ of the two shares; 1 if there was nothing to say and nothing was said.
fn f_beta(precision: Share, recall: Share, beta: f64) -> f64 {
    match (precision, recall) {
        (Share::NoClaims, Share::NoClaims) => 1.0,
        (Share::Of(precision), Share::Of(recall)) => judge::f_measure(precision, recall, beta),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeJudge, answer, judged_by, question, sample, score};
    use super::*;
    use crate::{Score, Scored};

    fn correctness(config: &Config, fake: FakeJudge) -> Scored {
        let question = question("What is APT?", Some("A manager of packages."));
        let metric = config.build(&judged_by(fake).context()).unwrap();
        score(&*metric, &sample(&question, &[], Some(&answer("A tool [1]."))))
    }

    fn mode(mode: FactualMode) -> Config {
        Config { mode, ..Config::default() }
    }

    #[test]
    fn each_mode_counts_its_own_claims() {
        // Of three claims each: the answer's 1 1 0, the reference's 1 0 0.
        for probabilities in [true, false] {
            let fake = |verdicts: &str| {
                let fake = FakeJudge::new().statements(&["a", "b", "c"]).verdicts(verdicts);
                if probabilities { fake } else { fake.without_probabilities() }
            };
            let scored = correctness(&mode(FactualMode::FBeta), fake("110100"));
            assert!((scored.score.value().unwrap() - 4.0 / 9.0).abs() < 1e-12, "{:?}", scored.score);
            assert_eq!(scored.detail["answer_claims"][2]["verdict"], false);
            assert_eq!(scored.detail["reference_claims"][0]["verdict"], true);
            assert_eq!(correctness(&mode(FactualMode::Precision), fake("110")).score.value(), Some(2.0 / 3.0));
            assert_eq!(correctness(&mode(FactualMode::Recall), fake("100")).score.value(), Some(1.0 / 3.0));
        }
    }

    #[test]
    fn the_f_measure_has_the_reference_values() {
        let f = |precision, recall, beta| f_beta(Share::Of(precision), Share::Of(recall), beta);
        // TP 2, FP 1, FN 1 of three claims each.
        assert!((f(2.0 / 3.0, 2.0 / 3.0, 1.0) - 0.666_667).abs() < 1e-6);
        assert!((f(1.0, 0.5, 2.0) - 0.555_556).abs() < 1e-6);
        assert_eq!((f(0.0, 0.0, 1.0), f(0.0, 1.0, 1.0)), (0.0, 0.0));
        assert_eq!(f_beta(Share::NoClaims, Share::NoClaims, 1.0), 1.0);
        assert_eq!(f_beta(Share::NoClaims, Share::Of(1.0), 1.0), 0.0);
    }

    #[test]
    fn a_mode_asks_only_for_what_it_counts() {
        for (config, calls) in
            [(mode(FactualMode::Precision), 3), (mode(FactualMode::Recall), 3), (mode(FactualMode::FBeta), 6)]
        {
            let fake = FakeJudge::new();
            let seen = fake.seen();
            correctness(&config, fake);
            assert_eq!(seen.lock().unwrap().len(), calls, "{:?}", config.mode);
        }
    }

    #[test]
    fn shares_of_no_claims_do_not_exist_and_texts_that_both_claim_nothing_agree() {
        let precision = correctness(&mode(FactualMode::Precision), FakeJudge::new().statements(&[]));
        assert!(matches!(precision.score, Score::Missing(Missing::EmptyInput(_))), "{:?}", precision.score);
        let recall = correctness(&mode(FactualMode::Recall), FakeJudge::new().statements(&[]));
        assert!(matches!(recall.score, Score::Missing(Missing::NotApplicable(_))), "{:?}", recall.score);
        assert_eq!(correctness(&mode(FactualMode::FBeta), FakeJudge::new().statements(&[])).score, Score::Value(1.0));
    }

    #[test]
    fn atomicity_and_coverage_are_told_to_the_judge() {
        let prompt_of = |atomicity, coverage| {
            let fake = FakeJudge::new();
            let seen = fake.seen();
            correctness(&Config { atomicity, coverage, ..Config::default() }, fake);
            seen.lock().unwrap()[0].messages[1].content.clone()
        };
        let levels = [ClaimLevel::Low, ClaimLevel::High];
        let prompts: std::collections::HashSet<String> =
            levels.iter().flat_map(|a| levels.iter().map(|c| prompt_of(*a, *c))).collect();
        assert_eq!(prompts.len(), 4);
    }

    #[test]
    fn settings_that_cannot_work_are_refused_and_modes_have_names() {
        for config in [
            Config { beta: 0.0, ..Config::default() },
            Config { max_claims: 0, ..Config::default() },
            Config { threshold: 1.0, ..Config::default() },
        ] {
            assert!(config.build(&judged_by(FakeJudge::new()).context()).is_err(), "{config:?}");
        }
        assert_eq!(mode(FactualMode::Recall).describe().label.as_deref(), Some("factual_correctness_recall"));
    }
}
