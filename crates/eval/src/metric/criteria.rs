//! Criteria: one question of the user's own about the answer.
//!
//! When to use it: for what no other metric asks: tone, form, house rules. It
//! needs a judge and the criterion:
//!
//! ```toml
//! { criteria = { name = "polite", criterion = "The answer is polite." } }
//! { criteria = { name = "jargon", criterion = "The answer uses jargon.", scale = "degree", higher_is_better = false } }
//! ```
//!
//! The judge is shown the question, the answer, and what `reference` and
//! `passages` add.
//!
//! - `yes_no`: score = 1 if the answer meets the criterion, else 0.
//! - `degree`: score = how far it does, a number from 0 to 1 that the judge
//!   writes; finer, and less steady.
//!
//! Calls for a score: one.
//!
//! Differences from Ragas 0.4.3 (aspect critic, simple criteria): a verdict
//! comes from token probabilities where offered; a judge is asked once, and
//! only several judges take a vote; the degree has fixed ends; an empty answer
//! counts as the worst value; texts of a sample are fenced.
//!
//! Source: Ragas' documentation.

use super::judge::{self, Transcript};
use super::judged::{Judged, JudgedMetric};
use super::{Describe, Description, Error, Metric, MetricContext, Needs, Sample, check_name, refuse};
use crate::verdict::Inquiry;
use crate::{Missing, prompt};
use serde::{Deserialize, Serialize};

pub(super) const VERSION: u32 = 2;

/// What the score is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Scale")]
pub enum CriterionScale {
    /// 1 or 0.
    #[default]
    YesNo,
    /// A number from 0 to 1.
    Degree,
}

/// Settings of a criterion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The metric's name; `criteria` if left out. Needed where there are several.
    pub name: Option<String>,
    /// What to check, as a sentence about the answer.
    pub criterion: String,
    /// What the score is: `yes_no` or `degree`.
    pub scale: CriterionScale,
    /// Whether an answer that meets the criterion is better.
    pub higher_is_better: bool,
    /// Whether the judge sees the reference answer.
    pub reference: bool,
    /// Whether the judge sees the retrieved passages.
    pub passages: bool,
    /// The probability of yes from which on a verdict is yes; for models that
    /// offer token probabilities.
    pub threshold: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: None,
            criterion: String::new(),
            scale: CriterionScale::YesNo,
            higher_is_better: true,
            reference: false,
            passages: false,
            threshold: 0.5,
        }
    }
}

impl Config {
    pub(super) fn build(&self, cx: &MetricContext<'_>) -> Result<Box<dyn Metric>, Error> {
        let metric = "criteria";
        check_name(metric, self.name.as_deref())?;
        if self.criterion.trim().is_empty() {
            let reason = "`criterion` is missing: write what to check, such as \"The answer is polite.\"";
            return refuse(metric, reason);
        }
        Judged::build(cx, metric, self.threshold, self.clone())
    }
}

impl Describe for Config {
    fn describe(&self) -> Description {
        let (reference, passages) = (self.reference, self.passages);
        Description {
            needs: Needs { answer: true, reference, passages, judge: true, ..Needs::default() },
            voting: 1,
            can_be_named: true,
            label: self.name.clone(),
            lower_is_better: !self.higher_is_better,
            ..Description::default()
        }
    }

    #[cfg(test)]
    fn example() -> Self {
        let name = Some("polite".to_owned());
        Self { name, criterion: "The answer is polite.".to_owned(), reference: true, passages: true, ..Self::default() }
    }
}

impl JudgedMetric for Judged<Config> {
    async fn try_score(&self, sample: &Sample<'_>, transcript: &mut Transcript) -> Result<f64, Missing> {
        let answer = sample.answer_with_words()?;
        let shown = sample.fenced_texts(self.config.reference, self.config.passages)?;
        let criterion = self.config.criterion.trim();
        match self.config.scale {
            CriterionScale::YesNo => {
                let question = format!("Criterion: {criterion}\nDoes the answer meet the criterion?");
                let items = [answer];
                let inquiry = Inquiry { shared: shown, tag: "answer", items: &items, question: &question, per_call: 1 };
                judge::share(&self.judge.decide(&inquiry, "answers", transcript).await?)
            }
            CriterionScale::Degree => {
                let prompt = format!(
                    "{shown}\n\n{}\n\nCriterion: {criterion}\nHow far does the answer meet the criterion? 0: not at \
                     all. 1: fully.",
                    prompt::fence("answer", &answer)
                );
                let measure = self.judge.measure("degree", &prompt, (0.0, 1.0), transcript).await?;
                transcript.show("degree", measure.detail());
                measure.complete()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeJudge, answer, judged_by, passage, question, sample, score};
    use super::*;
    use crate::{Score, Scored};

    fn criteria(config: &Config, fake: FakeJudge) -> Scored {
        let question = question("What is APT?", Some("A manager of packages."));
        let passages = [passage("a.txt", 0, 10)];
        let metric = config.build(&judged_by(fake).context()).unwrap();
        score(&*metric, &sample(&question, &passages, Some(&answer("A tool, dear [1]."))))
    }

    #[test]
    fn yes_is_one_and_no_is_zero() {
        for (verdict, wanted) in [("1", 1.0), ("0", 0.0)] {
            for fake in [FakeJudge::new(), FakeJudge::new().without_probabilities()] {
                let scored = criteria(&Config::example(), fake.verdicts(verdict));
                assert_eq!(scored.score, Score::Value(wanted));
            }
        }
        let unread = criteria(&Config::example(), FakeJudge::new().verdicts("?").without_probabilities());
        assert!(matches!(unread.score, Score::Missing(Missing::JudgeUnparsable(_))), "{:?}", unread.score);
    }

    #[test]
    fn a_degree_is_a_number_from_zero_to_one() {
        let config = Config { scale: CriterionScale::Degree, ..Config::example() };
        let degree = |reply: &str| criteria(&config, FakeJudge::new().replies(&[reply])).score;
        assert_eq!(degree(r#"{"reason": "so", "number": 0.75}"#), Score::Value(0.75));
        let beyond = degree(r#"{"reason": "so", "number": 75}"#);
        assert!(matches!(beyond, Score::Missing(Missing::JudgeUnparsable(_))), "{beyond:?}");
    }

    #[test]
    fn the_judge_sees_the_criterion_and_what_the_settings_show() {
        for scale in [CriterionScale::YesNo, CriterionScale::Degree] {
            for shown in [true, false] {
                let fake = FakeJudge::new();
                let seen = fake.seen();
                criteria(&Config { scale, reference: shown, passages: shown, ..Config::example() }, fake);
                let prompt = seen.lock().unwrap()[0].messages[1].content.clone();
                assert!(prompt.contains("Criterion: The answer is polite."), "{prompt}");
                assert!(prompt.contains("<answer>\nA tool, dear.\n</answer>"), "{prompt}");
                assert_eq!((prompt.contains("<reference>"), prompt.contains("<passage")), (shown, shown), "{prompt}");
            }
        }
    }

    #[test]
    fn a_criterion_must_be_written_and_may_be_a_fault() {
        let judged = judged_by(FakeJudge::new());
        let context = judged.context();
        assert!(Config::default().build(&context).is_err());
        assert!(Config { threshold: 0.0, ..Config::example() }.build(&context).is_err());
        assert!(Config { higher_is_better: false, ..Config::example() }.describe().lower_is_better);
    }
}
