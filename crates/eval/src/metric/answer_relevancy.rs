//! Answer relevancy: whether the answer answers what was asked.
//!
//! When to use it: to find evasive answers and answers to another question. It
//! needs a judge and an embedder, and no reference. It says nothing about
//! whether the answer is true.
//!
//! 1. From the answer alone, the judge writes `strictness` questions to which it
//!    would be the answer, and says whether the answer is noncommittal.
//! 2. score = mean_i cos(E(question), E(written question i)), or 0 if the
//!    answer is noncommittal. In [-1, 1], not clipped.
//!
//! Calls for a score: `strictness` (three unless set), and one about whether
//! the answer is noncommittal. A single judge that tells no token probabilities
//! says that in the other calls. The embedder is called once.
//!
//! Differences from Ragas 0.4 (`collections`):
//! - where the model offers token probabilities, whether the answer is
//!   noncommittal is asked once, as a Yes/No question; else, as in Ragas, every
//!   written question has a flag, and the answer is noncommittal if all flags say so;
//! - a reply without a readable question means no score (`judge_unparsable`);
//!   `collections` drops it, and gives 0 if none is left;
//! - both questions are embedded as queries;
//! - each written question has its own seed, so that a run can be repeated;
//! - an empty answer counts as the worst value.
//!
//! Source: S. Es et al., "RAGAS: Automated Evaluation of Retrieval Augmented
//! Generation", EACL 2024.

use super::answer_similarity::cosine;
use super::judge::{self, Judge, Sampling, Transcript};
use super::judged::JudgedMetric;
use super::{Describe, Description, Error, Metric, MetricContext, Needs, Sample, refuse};
use crate::verdict::Inquiry;
use crate::{Missing, prompt};
use models::{Embedder, InputKind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(super) const VERSION: u32 = 3;

/// Settings of answer relevancy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How many questions the judge writes.
    pub strictness: u32,
    /// How they are sampled; 0 makes them all the same.
    pub temperature: f32,
    /// The probability of yes from which on an answer is noncommittal; for
    /// models that offer token probabilities.
    pub threshold: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self { strictness: 3, temperature: 0.3, threshold: 0.5 }
    }
}

impl Config {
    pub(super) fn build(&self, cx: &MetricContext<'_>) -> Result<Box<dyn Metric>, Error> {
        let metric = "answer_relevancy";
        judge::check_not_zero(metric, "strictness", self.strictness)?;
        if !(0.0..=2.0).contains(&self.temperature) {
            return refuse(metric, format!("temperature must be between 0 and 2, not {}", self.temperature));
        }
        Ok(Box::new(AnswerRelevancy {
            judge: super::judge(cx, metric, self.threshold)?,
            embedder: super::embedder(cx, metric)?,
            config: self.clone(),
        }))
    }
}

impl Describe for Config {
    fn describe(&self) -> Description {
        Description {
            needs: Needs { answer: true, judge: true, embedder: true, ..Needs::default() },
            // A right refusal would get 0.
            needs_answerable: true,
            writing: u64::from(self.strictness),
            voting: 1,
            range: Some((-1.0, 1.0)),
            ..Description::default()
        }
    }
}

struct AnswerRelevancy {
    judge: Judge,
    embedder: Embedder,
    config: Config,
}

impl JudgedMetric for AnswerRelevancy {
    async fn try_score(&self, sample: &Sample<'_>, transcript: &mut Transcript) -> Result<f64, Missing> {
        let answer = sample.answer_with_words()?;
        let by_probability = self.noncommittal(&answer, transcript).await?;
        let mut questions = Vec::new();
        let mut flags = Vec::new();
        for seed in 0..u64::from(self.config.strictness) {
            let (question, flag) = self.question(&answer, seed, by_probability.is_none(), transcript).await?;
            questions.push(question);
            flags.extend(flag);
        }
        let flags = match by_probability {
            Some(flag) => vec![flag],
            None => flags,
        };
        let texts: Vec<String> =
            std::iter::once(sample.question.question.clone()).chain(questions.iter().cloned()).collect();
        let vectors = self.embedder.embed(&texts, InputKind::Query).await?;
        let rows: Vec<&[f32]> = vectors.iter().collect();
        let (Some(asked), true) = (rows.first(), rows.len() == texts.len()) else {
            let reason = format!("the embedder gave {} vectors for {} texts", rows.len(), texts.len());
            return Err(Missing::ProviderError(reason));
        };
        let cosines = rows[1..].iter().map(|row| cosine(asked, row)).collect::<Result<Vec<f64>, Missing>>()?;
        transcript.show("questions", json!(questions));
        transcript.show("cosines", json!(cosines));
        transcript.show("noncommittal", json!(flags));
        Ok(relevancy(&cosines, &flags))
    }
}

impl AnswerRelevancy {
    /// Whether the answer is noncommittal, by token probabilities or by the
    /// votes of several judges; none where the one model does not offer them.
    async fn noncommittal(&self, answer: &str, transcript: &mut Transcript) -> Result<Option<bool>, Missing> {
        let items = [answer.to_owned()];
        let inquiry = Inquiry {
            shared: String::new(),
            tag: "answer",
            items: &items,
            question: "Is the answer evasive, or does it say that the answer is not known?",
            per_call: 1,
        };
        if self.judge.is_panel() {
            let verdicts = self.judge.verdicts(&inquiry, transcript).await?;
            return Ok(judge::require_all(&verdicts)?.first().copied());
        }
        let verdict = self.judge.probable_verdict(&inquiry, answer, transcript).await?;
        Ok(verdict.and_then(|verdict| verdict.yes))
    }

    async fn question(
        &self,
        answer: &str,
        seed: u64,
        with_flag: bool,
        transcript: &mut Transcript,
    ) -> Result<(String, Option<bool>), Missing> {
        let fenced = prompt::fence("answer", answer);
        let mut properties = json!({ "question": { "type": "string" } });
        let mut ask = format!(
            "{fenced}\n\nWrite the one question to which this text is the answer, in the language of the text."
        );
        if with_flag {
            properties["noncommittal"] = json!({ "type": "boolean" });
            ask.push_str(
                " Say also whether the text is noncommittal: evasive, vague, or a statement that the answer is not known.",
            );
        }
        let schema = prompt::object_schema(properties);
        let sampling = Sampling { max_tokens: 150, temperature: self.config.temperature, seed };
        let object = self.judge.object("question", ask, schema, sampling, transcript).await?;
        let question = object.get("question").and_then(Value::as_str).map(str::trim).unwrap_or_default();
        let flag = object.get("noncommittal").and_then(Value::as_bool);
        if question.is_empty() || (with_flag && flag.is_none()) {
            return Err(Missing::JudgeUnparsable("a sample lacks its question or its flag".into()));
        }
        Ok((question.to_owned(), flag))
    }
}

/// The mean cosine, or 0 if all flags say noncommittal.
fn relevancy(cosines: &[f64], noncommittal: &[bool]) -> f64 {
    if !noncommittal.is_empty() && noncommittal.iter().all(|flag| *flag) {
        return 0.0;
    }
    cosines.iter().sum::<f64>() / cosines.len() as f64
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeJudge, answer, judged_by, question, sample, score};
    use super::*;
    use crate::{Score, Scored};

    #[test]
    fn the_formula_has_the_reference_values() {
        let cosines = [0.9, 0.8, 0.7];
        assert!((relevancy(&cosines, &[false, false, false]) - 0.8).abs() < 1e-12);
        assert!((relevancy(&cosines, &[false, true, false]) - 0.8).abs() < 1e-12);
        assert_eq!(relevancy(&cosines, &[true, true, true]), 0.0);
        assert!((relevancy(&[-0.5], &[false]) + 0.5).abs() < 1e-12);
    }

    fn relevancy_of(fake: FakeJudge) -> Scored {
        let question = question("what is apt", None);
        let metric = Config::default().build(&judged_by(fake).context()).unwrap();
        score(&*metric, &sample(&question, &[], Some(&answer("APT is a package manager."))))
    }

    #[test]
    fn the_same_question_is_fully_relevant() {
        let scored = relevancy_of(FakeJudge::new().question("what is apt").verdicts("0"));
        assert!((scored.score.value().unwrap() - 1.0).abs() < 1e-6, "{:?}", scored.score);
        assert_eq!(scored.detail["questions"].as_array().map(Vec::len), Some(3));
        let written = relevancy_of(FakeJudge::new().question("what is apt").without_probabilities());
        assert!((written.score.value().unwrap() - 1.0).abs() < 1e-6, "{:?}", written.score);
    }

    #[test]
    fn a_noncommittal_answer_is_zero() {
        let scored = relevancy_of(FakeJudge::new().question("what is apt").verdicts("1"));
        assert_eq!(scored.score, Score::Value(0.0));
    }

    #[test]
    fn a_sample_without_a_question_means_no_score() {
        let scored = relevancy_of(FakeJudge::new().question(" ").verdicts("0"));
        assert!(matches!(scored.score, Score::Missing(Missing::JudgeUnparsable(_))), "{:?}", scored.score);
    }

    #[test]
    fn every_sample_has_its_own_seed() {
        let fake = FakeJudge::new().question("what is apt").verdicts("0");
        let seen = fake.seen();
        relevancy_of(fake);
        let seeds: Vec<u64> = seen
            .lock()
            .unwrap()
            .iter()
            .filter(|request| request.schema.is_some())
            .map(|request| request.seed)
            .collect();
        assert_eq!(seeds, [0, 1, 2]);
    }
}
