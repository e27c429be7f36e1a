//! Answer similarity: how near the answer is to the reference in meaning, as
//! an embedding model sees it.
//!
//! When to use it: as the cheapest view of whether an answer says what the
//! reference says. It needs an embedder and no judge. It does not notice a
//! wrong number or a missing "not", and its scale is the embedder's own: it
//! compares trials, it does not grade them.
//!
//! cos(E(reference), E(answer)), in [-1, 1], not clipped; with a threshold, 1
//! where the cosine reaches it, else 0. Citations are taken off the answer.
//!
//! Differences from Ragas: an empty answer counts as the worst value (Ragas
//! embeds a space); a threshold of 0 is a threshold (Ragas takes it for none).
//!
//! Source: Ragas' `SemanticSimilarity`; Risch et al., "Semantic Answer
//! Similarity for Evaluating Question Answering Models", 2021, for the idea.

use super::{Describe, Description, Error, Metric, MetricContext, Needs, ObjectiveRole, Sample, refuse};
use crate::{Missing, Score, Scored};
use async_trait::async_trait;
use models::{Embedder, InputKind};
use serde::{Deserialize, Serialize};

pub(super) const VERSION: u32 = 2;

/// Settings of answer similarity.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// If given, the score is 1 where the cosine is at least this, else 0.
    pub threshold: Option<f64>,
}

impl Config {
    pub(super) fn build(&self, cx: &MetricContext<'_>) -> Result<Box<dyn Metric>, Error> {
        if let Some(threshold) = self.threshold.filter(|threshold| !(-1.0..=1.0).contains(threshold)) {
            return refuse("answer_similarity", format!("threshold must be between -1 and 1, not {threshold}"));
        }
        let embedder = super::embedder(cx, "answer_similarity")?;
        Ok(Box::new(AnswerSimilarity { embedder, threshold: self.threshold }))
    }
}

impl Describe for Config {
    fn describe(&self) -> Description {
        Description {
            needs: Needs { reference: true, answer: true, embedder: true, ..Needs::default() },
            objective_role: ObjectiveRole::Preferred,
            range: Some((if self.threshold.is_some() { 0.0 } else { -1.0 }, 1.0)),
            ..Description::default()
        }
    }
}

struct AnswerSimilarity {
    embedder: Embedder,
    threshold: Option<f64>,
}

#[async_trait]
impl Metric for AnswerSimilarity {
    async fn score(&self, sample: &Sample<'_>) -> Scored {
        let similarity = match (sample.reference(), sample.answer_with_words()) {
            (Ok(reference), Ok(answer)) => similarity(&self.embedder, reference, &answer).await,
            (Err(missing), _) | (_, Err(missing)) => Err(missing),
        };
        match (similarity, self.threshold) {
            (Ok(cosine), None) => Scored::plain(Score::finite(cosine)),
            (Ok(cosine), Some(threshold)) => Scored {
                score: Score::finite(if cosine >= threshold { 1.0 } else { 0.0 }),
                detail: serde_json::json!({ "cosine": cosine }),
            },
            (Err(missing), _) => Scored::missing(missing),
        }
    }
}

/// The cosine of two texts.
pub(super) async fn similarity(embedder: &Embedder, left: &str, right: &str) -> Result<f64, Missing> {
    let texts = [left.to_owned(), right.to_owned()];
    let vectors = embedder.embed(&texts, InputKind::Document).await?;
    match vectors.iter().collect::<Vec<_>>()[..] {
        [left, right] => cosine(left, right),
        _ => Err(Missing::ProviderError(format!("the embedder gave {} vectors for 2 texts", vectors.rows()))),
    }
}

/// The cosine of two vectors. An error if a vector is all zeros, as for a text
/// without a word that a static embedder knows: 0 would mean that the texts
/// were compared.
pub(super) fn cosine(left: &[f32], right: &[f32]) -> Result<f64, Missing> {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
    let norms = (dot(left, left) * dot(right, right)).sqrt();
    if norms == 0.0 {
        return Err(Missing::EmptyInput("a text has an embedding of zeros".into()));
    }
    let cosine = dot(left, right) / norms;
    if !cosine.is_finite() {
        return Err(Missing::ProviderError("the embedder gave numbers that are not finite".into()));
    }
    // Rounding alone can exceed 1.
    Ok(cosine.clamp(-1.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{score, text_sample, text_score, unjudged};
    use super::*;

    #[test]
    fn the_same_words_are_nearest() {
        let metric = Config::default().build(&unjudged().context()).unwrap();
        let same = text_score(&*metric, "the red fox", "the red fox [1]");
        let near = text_score(&*metric, "the red fox", "the red hen");
        let far = text_score(&*metric, "the red fox", "something else entirely");
        assert!((same - 1.0).abs() < 1e-6, "{same}");
        assert!(same > near && near > far, "{same} {near} {far}");
    }

    #[test]
    fn a_threshold_makes_it_a_verdict() {
        let metric = Config { threshold: Some(0.99) }.build(&unjudged().context()).unwrap();
        assert_eq!(text_score(&*metric, "red fox", "red fox"), 1.0);
        assert_eq!(text_score(&*metric, "red fox", "blue hen"), 0.0);
    }

    #[test]
    fn an_empty_answer_has_no_similarity() {
        let metric = Config::default().build(&unjudged().context()).unwrap();
        let missing = text_sample("red fox", " [1]", |sample| score(&*metric, sample).score);
        assert!(matches!(missing, Score::Missing(Missing::EmptyInput(_))), "{missing:?}");
    }

    #[test]
    fn cosines_are_those_of_plane_geometry() {
        assert_eq!(cosine(&[1.0, 0.0], &[0.0, 2.0]), Ok(0.0));
        assert_eq!(cosine(&[3.0, 4.0], &[-3.0, -4.0]), Ok(-1.0));
        assert!(cosine(&[0.0, 0.0], &[1.0, 0.0]).is_err());
        assert!(cosine(&[f32::NAN, 0.0], &[1.0, 0.0]).is_err());
    }
}
