//! What the retrieval metrics share: they differ in the formula alone, which
//! each has in its own file.
//!
//! **At equal context.** With a fixed number of passages, larger chunks win
//! recall for nothing else than being larger. With `at_context_tokens = N` a
//! metric looks only at the first N tokens of the passages, best first, and is
//! called `recall@1000t`. Tokens are those of `cl100k_base`, the same that the
//! chunkers count. The passage that crosses the limit is cut behind its last
//! whole word within it, and its span ends there. Where a passage's text is not
//! the document's text at its span (it was shortened on the way), the span is
//! cut in proportion to the text.

use super::evidence::{Cutoff, Walk};
use super::{Error, FormulaMetric, Metric, Sample, check_name, refuse};
use crate::{Score, Scored};
use rag::{Passage, Span, chunk::TokenCounter};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The settings of every retrieval metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "struct Settings")]
#[schemars(rename = "Settings")]
pub struct RetrievalSettings {
    /// Only the first k passages count; all retrieved ones if left out.
    pub k: Option<u32>,
    /// The share of an evidence item's bytes that must be retrieved, above 0
    /// and at most 1.
    pub min_overlap: f64,
    /// Only the first so many tokens of the passages count; all if left out.
    /// With 1000, the metric is called `NAME@1000t`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_context_tokens: Option<u32>,
    /// What it is called, such as `recall_20`. Needed where a metric is listed
    /// twice, with one `k` and another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Default for RetrievalSettings {
    fn default() -> Self {
        Self { k: None, min_overlap: 0.5, at_context_tokens: None, name: None }
    }
}

impl RetrievalSettings {
    /// Whether the settings have a `name`.
    pub(super) const CAN_BE_NAMED: bool = true;

    /// The metric of this name and formula.
    pub(super) fn build(&self, metric: &'static str, formula: fn(&Walk<'_>) -> f64) -> Result<Box<dyn Metric>, Error> {
        check_name(metric, self.name.as_deref())?;
        let cutoff = Cutoff::new(metric, self.k, self.min_overlap)?;
        let context = ContextLimit::new(metric, self.at_context_tokens)?;
        Ok(Box::new(FormulaMetric(move |sample: &Sample<'_>| {
            let passages = context.cut(sample.passages);
            let walk = cutoff.walk(&Sample { passages: &passages, ..*sample })?;
            Ok(Scored { score: Score::finite(formula(&walk)), detail: walk.detail() })
        })))
    }

    /// The label of the metric with this name, if it differs from the name.
    pub(super) fn label(&self, metric: &str) -> Option<String> {
        self.name.clone().or_else(|| at_context(metric, self.at_context_tokens))
    }
}

/// The label of a metric that looks at this many tokens; `None` without a limit.
pub(super) fn at_context(metric: &str, tokens: Option<u32>) -> Option<String> {
    tokens.map(|tokens| format!("{metric}@{tokens}t"))
}

/// How much of the passages counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct ContextLimit(Option<usize>);

impl ContextLimit {
    /// The limit of a metric, in tokens.
    pub(super) fn new(metric: &'static str, tokens: Option<u32>) -> Result<Self, Error> {
        if tokens == Some(0) {
            return refuse(metric, "at_context_tokens must be at least 1; leave it out to look at whole passages");
        }
        Ok(Self(tokens.map(|tokens| tokens as usize)))
    }

    /// The passages up to the limit.
    pub(super) fn cut(self, passages: &[Passage]) -> Cow<'_, [Passage]> {
        let Some(mut left) = self.0 else { return Cow::Borrowed(passages) };
        let counter = TokenCounter::shared();
        for (i, passage) in passages.iter().enumerate() {
            match counter.count_up_to(&passage.text, left) {
                Some(tokens) => left -= tokens,
                None => {
                    let mut kept = passages[..=i].to_vec();
                    kept[i] = beginning(passage, counter.beginning(&passage.text, left));
                    kept.retain(|passage| !passage.text.is_empty());
                    return Cow::Owned(kept);
                }
            }
        }
        Cow::Borrowed(passages)
    }
}

/// The passage cut to this beginning of its text.
fn beginning(passage: &Passage, text: &str) -> Passage {
    if !passage.parts.is_empty() {
        let mut parts = Vec::new();
        for (span, piece) in passage.pieces() {
            let at = piece.as_ptr() as usize - passage.text.as_ptr() as usize;
            let length = piece.len().min(text.len().saturating_sub(at)).min(span.len());
            if length > 0 {
                parts.push(Span { start: span.start, end: span.start + length });
            }
        }
        let ends = parts.first().zip(parts.last()).map(|(first, last)| Span { start: first.start, end: last.end });
        let span = ends.unwrap_or(Span { start: passage.span.start, end: passage.span.start });
        return Passage { text: text.to_owned(), span, parts, ..passage.clone() };
    }
    let Span { start, end } = passage.span;
    let whole = passage.text.len();
    let length = if whole == passage.span.len() { text.len() } else { (end - start) * text.len() / whole.max(1) };
    Passage { text: text.to_owned(), span: Span { start, end: start + length }, ..passage.clone() }
}

/// The `Config` of a retrieval metric: its name, the type of its settings, the formula that
/// scores what was retrieved, and more fields of its [`Description`](super::Description).
macro_rules! config {
    ($name:literal, $Settings:path, $formula:path $(, $field:ident: $value:expr)*) => {
        /// Settings of this metric.
        #[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(transparent)]
        pub struct Config(pub $Settings);

        impl Config {
            pub(super) fn build(
                &self,
                _: &$crate::metric::MetricContext<'_>,
            ) -> Result<Box<dyn $crate::metric::Metric>, $crate::metric::Error> {
                self.0.build($name, $formula)
            }

            /// The score at a cutoff, of evidence and passages of one document.
            #[cfg(test)]
            fn score(k: Option<u32>, evidence: &[(usize, usize)], passages: &[(usize, usize)]) -> f64 {
                let mut config = Self::default();
                config.0.k = k;
                let metric = config.build(&Default::default()).unwrap();
                $crate::metric::testing::retrieval_score(&*metric, evidence, passages)
            }
        }

        impl $crate::metric::Describe for Config {
            fn describe(&self) -> $crate::metric::Description {
                $crate::metric::Description {
                    needs: $crate::metric::Needs { evidence: true, passages: true, ..Default::default() },
                    label: self.0.label($name),
                    can_be_named: <$Settings>::CAN_BE_NAMED,
                    $( $field: $value, )*
                    ..Default::default()
                }
            }
        }
    };
}
pub(super) use config;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MetricConfig;
    use crate::metric::testing::{passage, question_with_evidence, sample, score};
    use serde_json::json;

    /// A passage of words of five bytes and one token each, the first without
    /// the space before it.
    fn words(start: usize, n: usize) -> Passage {
        let text = vec!["mill"; n].join(" ");
        let end = start + text.len();
        Passage { text, ..passage("a.txt", start, end) }
    }

    fn cut(tokens: u32, passages: &[Passage]) -> Vec<(usize, usize)> {
        let limit = ContextLimit::new("recall", Some(tokens)).unwrap();
        limit.cut(passages).iter().map(|passage| (passage.span.start, passage.span.end)).collect()
    }

    #[test]
    fn the_passage_that_crosses_the_limit_is_cut_and_those_behind_it_are_gone() {
        assert_eq!(TokenCounter::shared().count(&words(0, 10).text), 10);
        let passages = [words(100, 10), words(0, 10), words(300, 10)];
        assert_eq!(cut(15, &passages), [(100, 149), (0, 24)]);
        assert_eq!(cut(20, &passages), [(100, 149), (0, 49)]);
        assert_eq!(cut(30, &passages), [(100, 149), (0, 49), (300, 349)]);
        assert_eq!(cut(31, &passages).len(), 3);
        assert_eq!(cut(1, &passages), [(100, 104)]);
    }

    #[test]
    fn the_span_of_shortened_text_is_cut_in_proportion() {
        let shortened = Passage { span: Span { start: 0, end: 98 }, ..words(0, 10) };
        assert_eq!(cut(5, &[shortened]), [(0, 48)]);
    }

    #[test]
    fn what_is_cut_off_a_passage_in_parts_counts_no_more() {
        let parts = vec![Span { start: 0, end: 9 }, Span { start: 100, end: 109 }];
        let text = "mill mill … mill mill".to_owned();
        let joined = Passage { text, parts, ..passage("a.txt", 0, 109) };
        let limit = ContextLimit::new("recall", Some(2)).unwrap();
        let kept = limit.cut(std::slice::from_ref(&joined)).into_owned();
        assert_eq!((kept[0].text.as_str(), kept[0].spans()), ("mill mill", [Span { start: 0, end: 9 }].as_slice()));
        assert_eq!(kept[0].span, Span { start: 0, end: 9 });
    }

    #[test]
    fn large_chunks_win_no_recall_at_equal_context() {
        let question = question_with_evidence(&[(200, 220)]);
        let of = |settings: serde_json::Value, passages: &[Passage]| {
            let config: MetricConfig = serde_json::from_value(json!({ "recall": settings })).unwrap();
            let metric = config.build(&Default::default()).unwrap();
            score(&*metric, &sample(&question, passages, None)).score.value().unwrap()
        };
        let (large, small) = ([words(0, 100)], [words(0, 10), words(200, 10)]);
        assert_eq!((of(json!({}), &large), of(json!({}), &small)), (1.0, 1.0));
        let at = json!({ "at_context_tokens": 20 });
        assert_eq!((of(at.clone(), &large), of(at, &small)), (0.0, 1.0));
    }

    #[test]
    fn the_limit_is_part_of_the_label_and_of_the_key_only_where_it_is_set() {
        for name in ["recall", "precision", "mrr", "ndcg", "hit_rate", "token_recall", "token_precision", "token_iou"] {
            let config = |settings: serde_json::Value| -> MetricConfig {
                serde_json::from_value(json!({ name: settings })).unwrap()
            };
            let (plain, limited) = (config(json!({})), config(json!({ "at_context_tokens": 1000 })));
            assert_eq!((plain.label(), limited.label()), (name.to_owned(), format!("{name}@1000t")));
            assert!(!plain.key_settings().to_string().contains("at_context_tokens"), "{}", plain.key_settings());
            assert_ne!(plain.key_settings(), limited.key_settings());
            assert!(config(json!({ "at_context_tokens": 0 })).check().is_err(), "{name}");
        }
    }
}
