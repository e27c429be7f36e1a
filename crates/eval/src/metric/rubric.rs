//! Rubric: the level of the user's own scale that an answer reaches.
//!
//! When to use it: where what is good can be said in a few steps, and not as
//! yes or no. It needs a judge and the levels, from the worst (1) to the best
//! (n), 2 to 9 of them:
//!
//! ```toml
//! { rubric = { name = "tone", levels = ["rude", "neutral", "polite"] } }
//! ```
//!
//! The judge is shown the question, the answer, what `reference` and `passages`
//! add, and all levels; it gives one number. score = that number, 1 to n.
//!
//! Calls for a score: one.
//!
//! Differences from Ragas 0.4.3 (`collections`, domain-specific rubrics):
//! - as many levels as are written, not five, and no default ones: a scale
//!   that nobody chose would be taken for one that fits;
//! - the number comes from token probabilities where offered (the most
//!   probable one); one that is not on the scale is no score
//!   (`judge_unparsable`);
//! - all texts of a sample are fenced; citations are taken off the answer.
//!
//! Source: Ragas' documentation.

use super::judge::{self, Options, Transcript};
use super::judged::{Judged, JudgedMetric};
use super::{Describe, Description, Error, Metric, MetricContext, Needs, Sample, check_name, refuse};
use crate::{Missing, prompt};
use serde::{Deserialize, Serialize};

pub(super) const VERSION: u32 = 2;

/// Settings of a rubric.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The metric's name; `rubric` if left out. Needed where there are several.
    pub name: Option<String>,
    /// What each level means, from the worst to the best.
    pub levels: Vec<String>,
    /// Whether the judge sees the reference answer.
    pub reference: bool,
    /// Whether the judge sees the retrieved passages.
    pub passages: bool,
}

/// A number of one digit stands for a level.
const MOST_LEVELS: usize = 9;

impl Config {
    pub(super) fn build(&self, cx: &MetricContext<'_>) -> Result<Box<dyn Metric>, Error> {
        let metric = "rubric";
        check_name(metric, self.name.as_deref())?;
        if !(2..=MOST_LEVELS).contains(&self.levels.len()) {
            let n = self.levels.len();
            let reason = format!(
                "`levels` must say what each level means, from the worst to the best, 2 to {MOST_LEVELS} of them, not {n}"
            );
            return refuse(metric, reason);
        }
        if let Some(empty) = self.levels.iter().position(|level| level.trim().is_empty()) {
            return refuse(metric, format!("level {} is empty: say what it means", empty + 1));
        }
        Judged::build(cx, metric, judge::DEFAULT_THRESHOLD, self.clone())
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
            range: Some((1.0, self.levels.len().max(2) as f64)),
            ..Description::default()
        }
    }

    #[cfg(test)]
    fn example() -> Self {
        let levels = ["It is rude.", "It is neutral.", "It is polite."].map(str::to_owned).to_vec();
        Self { name: Some("tone".to_owned()), levels, reference: true, passages: true }
    }
}

impl JudgedMetric for Judged<Config> {
    async fn try_score(&self, sample: &Sample<'_>, transcript: &mut Transcript) -> Result<f64, Missing> {
        let answer = sample.answer_with_words()?;
        let shown = sample.fenced_texts(self.config.reference, self.config.passages)?;
        let levels: Vec<String> = (1..)
            .zip(&self.config.levels)
            .map(|(number, level): (u8, _)| format!("{number}: {}", level.trim()))
            .collect();
        let prompt = format!(
            "{shown}\n\n{}\n\nWhich level does the answer reach? Take the one whose description fits it best.\n{}\n",
            prompt::fence("answer", &answer),
            levels.join("\n")
        );
        let numbers = Options::Numbers((1..).take(levels.len()).collect());
        let choice = self.judge.choose("level", &prompt, &numbers, transcript).await?;
        transcript.show("level", choice.detail());
        Ok(choice.complete()? as f64 + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeJudge, answer, judged_by, passage, question, sample, score};
    use super::*;
    use crate::{Score, Scored};

    fn rubric(config: &Config, fake: FakeJudge) -> Scored {
        let question = question("What is APT?", Some("A manager of packages."));
        let passages = [passage("a.txt", 0, 10)];
        let metric = config.build(&judged_by(fake).context()).unwrap();
        score(&*metric, &sample(&question, &passages, Some(&answer("A tool [1]."))))
    }

    #[test]
    fn the_score_is_the_level() {
        for rating in ["1", "2", "3"] {
            let wanted = Score::Value(rating.parse().unwrap());
            assert_eq!(rubric(&Config::example(), FakeJudge::new().ratings(rating)).score, wanted);
            let written = FakeJudge::new().ratings(rating).without_probabilities();
            assert_eq!(rubric(&Config::example(), written).score, wanted);
        }
        assert_eq!(Config::example().describe().range, Some((1.0, 3.0)));
        let beyond = rubric(&Config::example(), FakeJudge::new().ratings("4").without_probabilities());
        assert!(matches!(beyond.score, Score::Missing(Missing::JudgeUnparsable(_))), "{:?}", beyond.score);
    }

    #[test]
    fn the_judge_sees_the_levels_and_what_the_settings_show() {
        let prompt_of = |config: &Config| {
            let fake = FakeJudge::new();
            let seen = fake.seen();
            rubric(config, fake);
            seen.lock().unwrap()[0].messages[1].content.clone()
        };
        let all = prompt_of(&Config::example());
        assert!(all.contains("\n1: It is rude.\n2: It is neutral.\n3: It is polite.\n"), "{all}");
        assert!(all.contains("<reference>") && all.contains("<passage number=\"1\">"), "{all}");
        assert!(all.contains("<answer>\nA tool.\n</answer>"), "{all}");
        let alone = prompt_of(&Config { reference: false, passages: false, ..Config::example() });
        assert!(!alone.contains("<reference>") && !alone.contains("<passage"), "{alone}");
    }

    #[test]
    fn a_scale_that_is_none_is_refused() {
        let levels = |levels: &[&str]| Config {
            levels: levels.iter().map(|level| (*level).to_owned()).collect(),
            ..Config::default()
        };
        for config in [
            Config::default(),
            levels(&["one"]),
            levels(&["x"; 10]),
            levels(&["a", " "]),
            Config { name: Some("a b".to_owned()), ..Config::example() },
            Config { name: Some("recall".to_owned()), ..Config::example() },
        ] {
            assert!(config.build(&judged_by(FakeJudge::new()).context()).is_err(), "{config:?}");
        }
    }
}
