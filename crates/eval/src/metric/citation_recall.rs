//! Citation recall: how much of the answer the passages that it cites support.
//!
//! When to use it: where readers follow citations. It needs a judge and answers
//! that cite (`[1]`); no reference. What is cited needlessly is for
//! `citation_precision`; what is supported by passages that are not cited, for
//! `faithfulness`.
//!
//! For each sentence of the answer: do the passages that it cites, taken
//! together, support it? A sentence without citations is not supported.
//! score = supported sentences / sentences.
//!
//! An answer that only declines to answer has nothing to cite and counts as 0,
//! and so does any answer to an empty retrieval. Where the question is marked as
//! unanswerable, the metric does not apply to an answer that declines.
//!
//! Calls for a score: one for each sentence that cites. A judge that tells no
//! token probabilities gets sentences with the same citations in one call.
//!
//! Differences from ALCE: the judge takes the place of its entailment model
//! and sees the question, since a sentence may begin with `It`; citations
//! behind the full stop count for the sentence before them; all citations of a
//! sentence count, not the first three; refusals (above). Ragas 0.4.3 has no
//! such metric: its quoted spans look for quotations in the passages.
//!
//! Source: T. Gao et al., "Enabling Large Language Models to Generate Text with
//! Citations", EMNLP 2023 (ALCE).

use super::judge::{self, ITEMS, Transcript};
use super::judged::{Judged, JudgedMetric, VerdictSettings};
use super::labelled::{ComparedWith, JudgedList};
use super::{Describe, Description, Error, Metric, MetricContext, Needs, Sample, citation};
use crate::Missing;
use crate::verdict::VerdictKind;
use serde::{Deserialize, Serialize};
use serde_json::json;

pub(super) const VERSION: u32 = 3;

/// Settings of citation recall.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct Config(pub VerdictSettings);

impl Config {
    pub(super) fn build(&self, cx: &MetricContext<'_>) -> Result<Box<dyn Metric>, Error> {
        Judged::build(cx, "citation_recall", self.0.threshold, self.clone())
    }
}

impl Describe for Config {
    fn describe(&self) -> Description {
        Description {
            needs: Needs { answer: true, passages: true, judge: true, ..Needs::default() },
            verdict: Some((VerdictKind::Supported, self.0.threshold)),
            judged_lists: &[JudgedList {
                name: "sentences",
                kind: VerdictKind::Supported,
                with: ComparedWith::CitedPassages,
            }],
            voting: ITEMS,
            ..Description::default()
        }
    }
}

impl JudgedMetric for Judged<Config> {
    async fn try_score(&self, sample: &Sample<'_>, transcript: &mut Transcript) -> Result<f64, Missing> {
        let cited = citation::sentences(sample)?;
        let verdicts = citation::verify(&self.judge, sample, &cited, transcript).await?;
        let (sentences, numbers): (Vec<String>, Vec<Vec<u32>>) = cited.into_iter().unzip();
        transcript.show("sentences", judge::table(&sentences, &verdicts));
        transcript.show("citations", json!(numbers));
        judge::share(&judge::require_all(&verdicts)?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeJudge, answer, judged_by, passage, question, sample, score};
    use super::*;
    use crate::{Score, Scored};
    use rag::Answer;

    fn recall(fake: FakeJudge, text: &str) -> Scored {
        let passages: Vec<_> = (0..3).map(|i| passage("a.txt", i * 10, i * 10 + 10)).collect();
        let metric = Config::default().build(&judged_by(fake).context()).unwrap();
        let answer = Answer { citations: vec![1, 2, 3], ..answer(text) };
        score(&*metric, &sample(&question("What is APT?", None), &passages, Some(&answer)))
    }

    #[test]
    fn a_sentence_counts_if_all_that_it_cites_supports_it() {
        for probabilities in [true, false] {
            let fake = FakeJudge::new().verdicts("101");
            let fake = if probabilities { fake } else { fake.without_probabilities() };
            let scored = recall(fake, "A is [1]. B is [2][3]. C is [3]. D is.");
            assert_eq!(scored.score, Score::Value(0.5));
            assert_eq!(scored.detail["citations"], json!([[1], [2, 3], [3], []]));
            assert_eq!(scored.detail["sentences"][3]["verdict"], false);
        }
    }

    #[test]
    fn only_the_cited_passages_are_shown() {
        let fake = FakeJudge::new();
        let seen = fake.seen();
        recall(fake, "B is [2].");
        let prompt = seen.lock().unwrap()[0].messages[1].content.clone();
        assert!(prompt.contains("from 10 to 20") && !prompt.contains("from 0 to 10"), "{prompt}");
    }

    #[test]
    fn an_answer_that_cites_nothing_is_zero_and_asks_nobody() {
        let fake = FakeJudge::new();
        let seen = fake.seen();
        assert_eq!(recall(fake, "A is. B is.").score, Score::Value(0.0));
        assert!(seen.lock().unwrap().is_empty());
    }

    #[test]
    fn a_refusal_has_nothing_to_cite() {
        let scored = recall(FakeJudge::new(), rag::generate::NO_ANSWER);
        assert!(matches!(scored.score, Score::Missing(Missing::EmptyInput(_))), "{:?}", scored.score);
    }

    #[test]
    fn a_sentence_without_a_verdict_means_no_score() {
        let scored = recall(FakeJudge::new().verdicts("1?").without_probabilities(), "A is [1]. B is [1].");
        assert!(matches!(scored.score, Score::Missing(Missing::JudgeUnparsable(_))), "{:?}", scored.score);
    }
}
