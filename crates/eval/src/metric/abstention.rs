//! Abstention: whether the system knows when it cannot know.
//!
//! When to use it: with golden questions that the documents do not answer
//! (`"answerable": false`), beside those that they do. A system that always
//! answers makes things up; one that always declines is of no use. It needs no
//! reference, and a judge only where the wording is unclear.
//!
//! score = 1 if the answer abstains and the question is unanswerable, or if it
//! answers and the question is answerable; else 0. Whether what it answers is
//! right is for other metrics. An answerable question must be answered even if
//! retrieval missed its evidence: else a bad retriever would excuse everything.
//!
//! A fixed rule reads the wording of an answer first. It knows how answers decline in
//! English, German, French, Spanish, Portuguese, Italian, Dutch, Polish, Turkish,
//! Russian, Arabic, Hindi, Chinese, Japanese and Korean. An answer abstains if every
//! sentence says plainly that the answer is not known; it answers if it has no such
//! words. An answer in any other language counts as answered. If the wording is
//! unclear, the judge gets one Yes/No question. With `judge = false` an unclear answer
//! counts as answered, so that the metric needs no judge and may choose a winner. An
//! empty answer scores 0, because it tells the reader nothing.
//!
//! Calls for a score: none where the wording is clear, else one.
//!
//! Ragas 0.4 has no such metric; it marks noncommittal answers within answer
//! relevancy, whatever the question.
//!
//! Source: the idea of scoring unanswerable questions beside answerable ones is
//! from P. Rajpurkar et al., "Know What You Don't Know: Unanswerable Questions
//! for SQuAD", ACL 2018.

use super::judge::{self, Judge, Transcript};
use super::judged::JudgedMetric;
use super::refusal::{self, Wording};
use super::{Describe, Description, Error, Metric, MetricContext, Needs, Sample};
use crate::Missing;
use crate::verdict::Inquiry;
use serde::{Deserialize, Serialize};
use serde_json::json;

pub(super) const VERSION: u32 = 3;

/// Settings of abstention.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Whether a judge decides where the wording is unclear; else such an
    /// answer counts as answered.
    pub judge: bool,
    /// The probability of yes from which on an answer abstains; for models
    /// that offer token probabilities.
    pub threshold: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self { judge: true, threshold: 0.5 }
    }
}

impl Config {
    pub(super) fn build(&self, cx: &MetricContext<'_>) -> Result<Box<dyn Metric>, Error> {
        judge::check_threshold("abstention", self.threshold)?;
        let judge = if self.judge { Some(super::judge(cx, "abstention", self.threshold)?) } else { None };
        Ok(Box::new(Abstention { judge }))
    }
}

impl Describe for Config {
    fn describe(&self) -> Description {
        Description {
            needs: Needs { answer: true, judge: self.judge, ..Needs::default() },
            voting: u64::from(self.judge),
            ..Description::default()
        }
    }
}

struct Abstention {
    judge: Option<Judge>,
}

impl JudgedMetric for Abstention {
    async fn try_score(&self, sample: &Sample<'_>, transcript: &mut Transcript) -> Result<f64, Missing> {
        let answer = sample.answer_with_words()?;
        let answerable = sample.question.answerable;
        let by = |name: &str, transcript: &mut Transcript| {
            transcript.show("answerable", json!(answerable));
            transcript.show("by", json!(name));
        };
        let abstained = match (refusal::wording(&answer), &self.judge) {
            (wording @ (Wording::Abstains | Wording::Answers), _) | (wording @ Wording::Unclear, None) => {
                by("words", transcript);
                wording == Wording::Abstains
            }
            (Wording::Unclear, Some(judge)) => {
                let items = [answer];
                let inquiry = Inquiry {
                    shared: sample.fenced_question(),
                    tag: "answer",
                    items: &items,
                    question: "Does the answer leave the question open, by saying that the answer is not known or \
                               cannot be given? If it gives what was asked for, if only in part, the question is not \
                               left open.",
                    per_call: 1,
                };
                let verdicts = judge.verdicts(&inquiry, transcript).await?;
                by("judge", transcript);
                transcript.show("answers", judge::table(&items, &verdicts));
                judge::require_all(&verdicts)?.first().copied().unwrap_or_default()
            }
        };
        transcript.show("abstained", json!(abstained));
        Ok(if abstained == answerable { 0.0 } else { 1.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeJudge, answer, judged_by, question, sample, score, unjudged};
    use super::*;
    use crate::{Question, Score, Scored};

    const UNCLEAR: &str = "The sources do not name the year. The mill is older than the church [1].";

    fn abstention(config: &Config, fake: FakeJudge, answerable: bool, text: &str) -> Scored {
        let question = Question { answerable, ..question("When was the mill built?", None) };
        let metric = config.build(&judged_by(fake).context()).unwrap();
        score(&*metric, &sample(&question, &[], Some(&answer(text))))
    }

    #[test]
    fn declining_is_right_for_unanswerable_questions_alone() {
        for (text, answerable, wanted) in [
            (rag::generate::NO_ANSWER, false, 1.0),
            (rag::generate::NO_ANSWER, true, 0.0),
            ("In 1712 [1].", false, 0.0),
            ("In 1712 [1].", true, 1.0),
        ] {
            let fake = FakeJudge::new();
            let seen = fake.seen();
            let scored = abstention(&Config::default(), fake, answerable, text);
            assert_eq!(scored.score, Score::Value(wanted), "{text} {answerable}");
            assert_eq!(scored.detail["by"], "words");
            assert!(seen.lock().unwrap().is_empty(), "plain words ask nobody");
        }
    }

    #[test]
    fn the_sentence_for_no_answer_is_known_in_every_language() {
        for text in rag::generate::no_answers() {
            let scored = abstention(&Config::default(), FakeJudge::new(), false, text);
            assert_eq!((&scored.score, &scored.detail["by"]), (&Score::Value(1.0), &json!("words")), "{text}");
        }
    }

    #[test]
    fn a_judge_decides_where_the_wording_is_unclear() {
        for (verdict, wanted) in [("1", 1.0), ("0", 0.0)] {
            for fake in [FakeJudge::new(), FakeJudge::new().without_probabilities()] {
                let scored = abstention(&Config::default(), fake.verdicts(verdict), false, UNCLEAR);
                assert_eq!(scored.score, Score::Value(wanted));
                assert_eq!(scored.detail["by"], "judge");
            }
        }
        let unread =
            abstention(&Config::default(), FakeJudge::new().verdicts("?").without_probabilities(), false, UNCLEAR);
        assert!(matches!(unread.score, Score::Missing(Missing::JudgeUnparsable(_))), "{:?}", unread.score);
    }

    #[test]
    fn without_a_judge_what_is_unclear_counts_as_answered() {
        let config = Config { judge: false, ..Config::default() };
        assert!(!config.describe().needs.judge && config.build(&unjudged().context()).is_ok());
        let fake = FakeJudge::new();
        assert_eq!(abstention(&config, fake, false, UNCLEAR).score, Score::Value(0.0));
    }

    #[test]
    fn an_empty_answer_tells_nobody_anything() {
        let scored = abstention(&Config::default(), FakeJudge::new(), false, " [1]");
        assert!(matches!(scored.score, Score::Missing(Missing::EmptyInput(_))), "{:?}", scored.score);
    }
}
