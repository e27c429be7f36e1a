//! How much text the golden evidence and the retrieved passages share: what
//! the token-wise retrieval metrics have in common.
//!
//! Text is measured in characters that are no white space. Counts of them add
//! up whatever the borders are, which counts of tokens do not: a chunk's border
//! within a word makes other tokens of it. Tokens of one language have about
//! the same length, so that shares are nearly those of tokens.
//!
//! A piece of a passage is measured by the passage's text, a piece of evidence
//! by its quote. Where that is not as long as its span (the quote has other
//! white space, the passage was shortened), the measure of the whole is divided
//! evenly over the span.

use super::evidence::{GoldenSpan, check_k, golden_spans};
use super::retrieval::{ContextLimit, at_context};
use super::{Error, FormulaMetric, Metric, Sample};
use crate::{Missing, Score, Scored};
use rag::Span;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// The settings of the token-wise retrieval metrics.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "struct Settings")]
#[schemars(rename = "Settings")]
pub struct OverlapSettings {
    /// Only the first k passages count; all retrieved ones if left out.
    pub k: Option<u32>,
    /// Only the first so many tokens of the passages count; all if left out.
    /// With 1000, the metric is called `NAME@1000t`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_context_tokens: Option<u32>,
}

/// Amounts of text, in characters that are no white space.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Overlap {
    /// The golden evidence, each place once; above 0.
    pub(super) golden: f64,
    /// What was retrieved, each place once.
    pub(super) retrieved: f64,
    /// What was retrieved, each place as often as it was retrieved.
    pub(super) retrieved_with_repeats: f64,
    /// The golden evidence that was retrieved, each place once.
    pub(super) shared: f64,
}

impl OverlapSettings {
    /// Whether the settings have a `name`.
    pub(super) const CAN_BE_NAMED: bool = false;

    /// The metric of this name and formula.
    pub(super) fn build(&self, metric: &'static str, formula: fn(&Overlap) -> f64) -> Result<Box<dyn Metric>, Error> {
        check_k(metric, self.k)?;
        let (k, context) = (self.k.map(|k| k as usize), ContextLimit::new(metric, self.at_context_tokens)?);
        Ok(Box::new(FormulaMetric(move |sample: &Sample<'_>| {
            let first = &sample.passages[..k.unwrap_or(usize::MAX).min(sample.passages.len())];
            let overlap = Overlap::of(&Sample { passages: &context.cut(first), ..*sample })?;
            let detail = serde_json::json!({
                "golden_characters": overlap.golden.round(),
                "retrieved_characters": overlap.retrieved_with_repeats.round(),
                "shared_characters": overlap.shared.round(),
            });
            // Texts that are not as long as their spans are measured by proportion, which can give more than 1.
            Ok(Scored { score: Score::finite(formula(&overlap).min(1.0)), detail })
        })))
    }

    /// The label of the metric with this name, if it differs from the name.
    pub(super) fn label(&self, metric: &str) -> Option<String> {
        at_context(metric, self.at_context_tokens)
    }
}

impl Overlap {
    fn of(sample: &Sample<'_>) -> Result<Self, Missing> {
        let golden = golden_spans(sample)?;
        let mut places = CoveredSpans::default();
        let (mut retrieved, mut retrieved_with_repeats) = (0.0, 0.0);
        for passage in sample.passages {
            for (span, text) in passage.pieces() {
                retrieved_with_repeats += measure(span, text, span);
                for piece in places.add(&passage.document, span) {
                    retrieved += measure(span, text, piece);
                }
            }
        }
        let mut wanted = CoveredSpans::default();
        let (mut all, mut shared) = (0.0, 0.0);
        for GoldenSpan { document, span, quote } in golden {
            for piece in wanted.add(document, span) {
                all += measure(span, quote, piece);
                let common = places.common(document, piece);
                shared += common.into_iter().map(|common| measure(span, quote, common)).sum::<f64>();
            }
        }
        if all == 0.0 {
            return Err(Missing::NotApplicable("the golden evidence holds white space alone".into()));
        }
        Ok(Self { golden: all, retrieved, retrieved_with_repeats, shared })
    }
}

/// The number of characters at `piece` that are not white space. `piece` is a part
/// of `span`, the place of `text`.
fn measure(span: Span, text: &str, piece: Span) -> f64 {
    let count = |text: &str| text.chars().filter(|c| !c.is_whitespace()).count() as f64;
    let exact = text.get(piece.start - span.start..piece.end - span.start);
    match exact.filter(|_| text.len() == span.len()) {
        Some(text) => count(text),
        None => count(text) * piece.len() as f64 / span.len().max(1) as f64,
    }
}

/// Places in documents, each once.
#[derive(Default)]
struct CoveredSpans<'a>(HashMap<&'a str, Vec<Span>>);

impl<'a> CoveredSpans<'a> {
    /// Adds a span. Returns the parts of it that were not covered before, in order.
    fn add(&mut self, document: &'a str, span: Span) -> Vec<Span> {
        let mut new = Vec::new();
        let mut at = span.start;
        for known in self.common(document, span) {
            if at < known.start {
                new.push(Span { start: at, end: known.start });
            }
            at = known.end;
        }
        if at < span.end {
            new.push(Span { start: at, end: span.end });
        }
        let known = self.0.entry(document).or_default();
        known.extend(&new);
        known.sort_unstable();
        new
    }

    /// The covered parts of a span, in order and with gaps between them.
    fn common(&self, document: &str, span: Span) -> Vec<Span> {
        let cut = |known: &Span| Span { start: known.start.max(span.start), end: known.end.min(span.end) };
        self.0.get(document).into_iter().flatten().map(cut).filter(|common| !common.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Evidence;
    use crate::metric::testing::{passage, question, sample};
    use rag::Passage;

    const TEXT: &str = "The Ostra mill was built in 1790. Ein Müller baute sie.";

    fn at(words: &str) -> Span {
        let start = TEXT.find(words).unwrap();
        Span { start, end: start + words.len() }
    }

    fn overlap(golden: &[&str], retrieved: &[&str]) -> Overlap {
        let evidence =
            |words: &&str| Evidence { document: "a.txt".into(), quote: (*words).into(), span: Some(at(words)) };
        let asked = crate::Question { evidence: golden.iter().map(evidence).collect(), ..question("When?", None) };
        let passage = |words: &&str| {
            let span = at(words);
            Passage { text: (*words).into(), ..passage("a.txt", span.start, span.end) }
        };
        let passages: Vec<Passage> = retrieved.iter().map(passage).collect();
        Overlap::of(&sample(&asked, &passages, None)).unwrap()
    }

    #[test]
    fn white_space_is_no_text_and_letters_count_once_whatever_their_bytes() {
        let of = overlap(&["mill was", "Müller"], &["Ein Müller baute"]);
        assert_eq!((of.golden, of.retrieved, of.shared), (13.0, 14.0, 6.0));
    }

    #[test]
    fn what_was_retrieved_twice_is_one_place_and_two_passages() {
        let of = overlap(&["mill was"], &["Ostra mill", "mill was built", "mill was"]);
        assert_eq!((of.shared, of.retrieved, of.retrieved_with_repeats), (7.0, 17.0, 28.0));
    }

    #[test]
    fn overlapping_evidence_is_one_place() {
        let of = overlap(&["Ostra mill", "mill was"], &[TEXT]);
        assert_eq!((of.golden, of.shared), (12.0, 12.0));
    }

    #[test]
    fn text_that_was_shortened_is_spread_over_its_span() {
        let asked = crate::Question {
            evidence: vec![Evidence { document: "a.txt".into(), quote: "mill".into(), span: Some(at("mill")) }],
            ..question("What?", None)
        };
        let passages = [Passage { text: "built".into(), ..passage("a.txt", 0, TEXT.len()) }];
        let of = Overlap::of(&sample(&asked, &passages, None)).unwrap();
        assert_eq!((of.golden, of.shared, of.retrieved_with_repeats), (4.0, 4.0, 5.0));
    }
}
