//! Citation precision: how many of the answer's citations are needed.
//!
//! When to use it: beside `citation_recall`, which citing everything would
//! raise. It needs a judge and answers that cite (`[1]`); no reference.
//!
//! For each sentence and each passage c that it cites: c is needed if all that
//! the sentence cites, taken together, supports it, and c alone supports it or
//! the others without c do not.
//! score = needed citations / citations. An answer that cites nothing is 0.
//!
//! An answer that only declines to answer has nothing to cite and counts as 0,
//! and so does any answer to an empty retrieval. Where the question is marked as
//! unanswerable, the metric does not apply to an answer that declines.
//!
//! Calls for a score: one for each sentence that cites. For each supported
//! sentence with several citations, also one for each citation, and one more
//! for each citation that does not support the sentence alone. A judge that
//! tells no token probabilities gets sentences with the same citations in one
//! call.
//!
//! Differences from ALCE: those of `citation_recall`. Ragas 0.4.3 has no such
//! metric.
//!
//! Source: T. Gao et al., "Enabling Large Language Models to Generate Text with
//! Citations", EMNLP 2023 (ALCE).

use super::citation::CitedSentence;
use super::judge::{self, ITEMS, Transcript};
use super::judged::{Judged, JudgedMetric, VerdictSettings};
use super::{Describe, Description, Error, Metric, MetricContext, Needs, Sample, citation};
use crate::Missing;
use crate::verdict::VerdictKind;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(super) const VERSION: u32 = 3;

/// Settings of citation precision.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct Config(pub VerdictSettings);

impl Config {
    pub(super) fn build(&self, cx: &MetricContext<'_>) -> Result<Box<dyn Metric>, Error> {
        Judged::build(cx, "citation_precision", self.0.threshold, self.clone())
    }
}

impl Describe for Config {
    fn describe(&self) -> Description {
        Description {
            needs: Needs { answer: true, passages: true, judge: true, ..Needs::default() },
            verdict: Some((VerdictKind::Supported, self.0.threshold)),
            // Each sentence, and each of two citations alone.
            voting: 3 * ITEMS,
            ..Description::default()
        }
    }
}

/// One citation of a sentence, and what was found out about it.
struct SentenceCitation<'a> {
    sentence: &'a CitedSentence,
    number: u32,
    /// Whether the sentence's other citations may suffice without it.
    doubtful: bool,
    needed: bool,
}

impl JudgedMetric for Judged<Config> {
    async fn try_score(&self, sample: &Sample<'_>, transcript: &mut Transcript) -> Result<f64, Missing> {
        let sentences: Vec<CitedSentence> =
            citation::sentences(sample)?.into_iter().filter(|(_, numbers)| !numbers.is_empty()).collect();
        let together = self.supported(sample, &sentences, "together", transcript).await?;
        let mut citations: Vec<SentenceCitation<'_>> = Vec::new();
        for (sentence, &supported) in sentences.iter().zip(&together) {
            // A supported sentence needs its only citation.
            let only = sentence.1.len() == 1;
            let (doubtful, needed) = (supported && !only, supported && only);
            citations.extend(sentence.1.iter().map(|&number| SentenceCitation { sentence, number, doubtful, needed }));
        }
        // If there are several: does each support the sentence alone?
        let open: Vec<usize> = (0..citations.len()).filter(|&i| citations[i].doubtful).collect();
        let alone: Vec<CitedSentence> =
            open.iter().map(|&i| (citations[i].sentence.0.clone(), vec![citations[i].number])).collect();
        let alone = self.supported(sample, &alone, "alone", transcript).await?;
        // For those that do not: do the others support it?
        let (able, open): (Vec<_>, Vec<_>) = open.into_iter().zip(alone).partition(|(_, alone)| *alone);
        able.into_iter().for_each(|(i, _)| citations[i].needed = true);
        let without = |&(i, _): &(usize, bool)| {
            let SentenceCitation { sentence, number, .. } = &citations[i];
            (sentence.0.clone(), sentence.1.iter().copied().filter(|other| other != number).collect())
        };
        let others: Vec<CitedSentence> = open.iter().map(without).collect();
        let others = self.supported(sample, &others, "without", transcript).await?;
        open.into_iter().zip(others).for_each(|((i, _), others)| citations[i].needed = !others);
        let needed = citations.iter().filter(|citation| citation.needed).count();
        let rows: Vec<Value> = citations
            .iter()
            .map(|citation| {
                json!({ "sentence": citation.sentence.0, "citation": citation.number, "needed": citation.needed })
            })
            .collect();
        transcript.show("citations", json!(rows));
        Ok(if citations.is_empty() { 0.0 } else { needed as f64 / citations.len() as f64 })
    }
}

impl Judged<Config> {
    /// Whether each sentence is supported by its citations, with the verdicts
    /// in the detail.
    async fn supported(
        &self,
        sample: &Sample<'_>,
        cited: &[CitedSentence],
        purpose: &str,
        transcript: &mut Transcript,
    ) -> Result<Vec<bool>, Missing> {
        let verdicts = citation::verify(&self.judge, sample, cited, transcript).await?;
        let shown: Vec<String> = cited.iter().map(|(sentence, numbers)| format!("{sentence} {numbers:?}")).collect();
        transcript.show(purpose, judge::table(&shown, &verdicts));
        judge::require_all(&verdicts)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeJudge, answer, judged_by, passage, question, sample, score};
    use super::*;
    use crate::{Score, Scored};
    use rag::Answer;

    fn precision(fake: FakeJudge, text: &str) -> Scored {
        let passages: Vec<_> = (0..3).map(|i| passage("a.txt", i * 10, i * 10 + 10)).collect();
        let metric = Config::default().build(&judged_by(fake).context()).unwrap();
        let answer = Answer { citations: vec![1, 2, 3], ..answer(text) };
        score(&*metric, &sample(&question("What is APT?", None), &passages, Some(&answer)))
    }

    /// The verdicts: each sentence with all its citations; each citation alone
    /// where there are several; the others without those that fail alone.
    fn needed(verdicts: &str, text: &str) -> Vec<bool> {
        let scores = [FakeJudge::new(), FakeJudge::new().without_probabilities()].map(|fake| {
            let scored = precision(fake.verdicts(&verdicts.replace(' ', "")), text);
            let rows = scored.detail["citations"].as_array().unwrap().clone();
            let needed: Vec<bool> = rows.iter().map(|row| row["needed"].as_bool().unwrap()).collect();
            let share = needed.iter().filter(|needed| **needed).count() as f64 / needed.len() as f64;
            assert_eq!(scored.score, Score::Value(share));
            needed
        });
        assert_eq!(scores[0], scores[1]);
        scores[0].clone()
    }

    #[test]
    fn a_single_citation_is_needed_if_it_supports_its_sentence() {
        assert_eq!(needed("10", "A is [1]. B is [2]. C is."), [true, false]);
    }

    #[test]
    fn of_several_citations_one_is_needless_if_it_fails_alone_and_the_others_do_without() {
        // 1 supports alone; 2 does not, and 1 without 2 does.
        assert_eq!(needed("1 10 1", "A is [1][2]."), [true, false]);
        // Neither supports alone: both are needed, as without either it fails.
        assert_eq!(needed("1 00 00", "A is [1][2]."), [true, true]);
        // Both support alone.
        assert_eq!(needed("1 11", "A is [1, 2]."), [true, true]);
    }

    #[test]
    fn citations_of_a_sentence_that_they_do_not_support_are_for_nothing() {
        assert_eq!(needed("0 1", "A is [1][2]. B is [3]."), [false, false, true]);
    }

    #[test]
    fn an_answer_that_cites_nothing_is_zero_and_a_refusal_has_no_score() {
        let fake = FakeJudge::new();
        let seen = fake.seen();
        assert_eq!(precision(fake, "A is.").score, Score::Value(0.0));
        assert!(seen.lock().unwrap().is_empty());
        let refusal = precision(FakeJudge::new(), rag::generate::NO_ANSWER);
        assert!(matches!(refusal.score, Score::Missing(Missing::EmptyInput(_))), "{:?}", refusal.score);
    }

    #[test]
    fn a_citation_without_a_verdict_means_no_score() {
        let scored = precision(FakeJudge::new().verdicts("?").without_probabilities(), "A is [1].");
        assert!(matches!(scored.score, Score::Missing(Missing::JudgeUnparsable(_))), "{:?}", scored.score);
    }
}
