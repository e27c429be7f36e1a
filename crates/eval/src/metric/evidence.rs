//! Which golden evidence a ranking of passages covers, and from which rank on.
//!
//! Shared by the retrieval metrics. It needs no model and does not care how
//! documents were chunked, since evidence is anchored to byte spans of the
//! documents' text.
//!
//! **Covered.** Walking down the first k passages, an evidence item counts as
//! covered at the rank from which on the *union* of the passages so far, of the
//! same document, holds at least `min_overlap` of the item's bytes. So evidence
//! that is cut by a chunk border is found when both chunks are, and a byte
//! that two overlapping passages hold counts once.
//!
//! **Relevant.** One passage on its own is relevant if it holds at least
//! `min_overlap` of an item, or if at least `min_overlap` of the passage lies
//! within an item: a sentence out of a long piece of evidence is not noise.

use super::{Error, Sample, refuse};
use crate::{Evidence, Missing};
use rag::{Passage, Span};
use serde_json::{Value, json};

/// Shares are sums of whole bytes divided by whole bytes; this only absorbs
/// the rounding of `min_overlap` itself.
const ROUNDING: f64 = 1e-9;

/// How far down to look, and how much of an item is enough.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cutoff {
    k: Option<usize>,
    min_overlap: f64,
}

/// One evidence item after the walk.
struct EvidenceCoverage<'a> {
    document: &'a str,
    span: Span,
    /// The spans covered so far, in order and with gaps between them.
    pieces: Vec<Span>,
    /// The rank, from 1, at which it became covered.
    rank: Option<usize>,
}

/// How much of a piece of golden evidence some passages hold together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct EvidenceShare {
    /// The share of its bytes, from 0 to 1.
    pub share: f64,
    /// The rank, from 1, of the first passage at which the passages so far hold enough of it.
    /// `None` if all passages together hold too little.
    pub rank: Option<usize>,
}

/// Finds how much of each piece of evidence the passages hold, by the rules of the retrieval metrics
/// but over all passages. Returns one entry for each piece of evidence, in order. A piece without a
/// span has the share 0 and no rank. `min_overlap` is the share of a piece's bytes that is enough,
/// as in the settings of the metrics.
pub fn find_evidence(evidence: &[Evidence], passages: &[Passage], min_overlap: f64) -> Vec<EvidenceShare> {
    let cutoff = Cutoff { k: None, min_overlap };
    let found = |evidence: &Evidence| {
        let Some(span) = evidence.span.filter(|span| !span.is_empty()) else { return EvidenceShare::default() };
        let mut item = [EvidenceCoverage { document: &evidence.document, span, pieces: Vec::new(), rank: None }];
        cutoff.cover(&mut item, passages);
        let [item] = item;
        EvidenceShare { share: item.share(), rank: item.rank }
    };
    evidence.iter().map(found).collect()
}

/// What the first k passages cover.
pub(super) struct Walk<'a> {
    items: Vec<EvidenceCoverage<'a>>,
    /// For each passage, whether it is relevant on its own.
    pub(super) relevant: Vec<bool>,
    k: Option<usize>,
}

/// A piece of golden evidence with its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct GoldenSpan<'a> {
    pub(super) document: &'a str,
    pub(super) span: Span,
    pub(super) quote: &'a str,
}

/// The golden evidence of a question, with its places. An error if the question has
/// no evidence, or if evidence or a passage has no place in a document: guessing
/// would blame the retriever for a fault of the dataset.
pub(super) fn golden_spans<'a>(sample: &Sample<'a>) -> Result<Vec<GoldenSpan<'a>>, Missing> {
    if sample.question.evidence.is_empty() {
        return Err(Missing::NotApplicable("the question has no golden evidence".into()));
    }
    let mut found = Vec::new();
    for (i, evidence) in sample.question.evidence.iter().enumerate() {
        match evidence.span {
            Some(span) if !span.is_empty() => {
                found.push(GoldenSpan { document: &evidence.document, span, quote: &evidence.quote });
            }
            _ => {
                let number = i + 1;
                return Err(Missing::NoPlace(format!(
                    "evidence {number} has no place in a document: anchor the dataset first"
                )));
            }
        }
    }
    // Text of another system: where it stands in a document is not known.
    if sample.passages.iter().any(|passage| passage.span.is_empty() && !passage.text.is_empty()) {
        return Err(Missing::PassagesWithoutPlace);
    }
    Ok(found)
}

/// Refuses a number of passages that leaves none.
pub(super) fn check_k(metric: &'static str, k: Option<u32>) -> Result<(), Error> {
    match k {
        Some(0) => refuse(metric, "k must be at least 1; leave it out to count all retrieved passages"),
        _ => Ok(()),
    }
}

impl Cutoff {
    /// Checks the settings that all retrieval metrics share.
    pub(super) fn new(metric: &'static str, k: Option<u32>, min_overlap: f64) -> Result<Self, Error> {
        check_k(metric, k)?;
        if !(min_overlap > 0.0 && min_overlap <= 1.0) {
            return refuse(metric, format!("min_overlap must be above 0 and at most 1, not {min_overlap}"));
        }
        Ok(Self { k: k.map(|k| k as usize), min_overlap })
    }

    /// Walks down a sample's passages. An error in the cases of [`golden_spans`].
    pub(super) fn walk<'a>(&self, sample: &Sample<'a>) -> Result<Walk<'a>, Missing> {
        let golden = golden_spans(sample)?;
        let item = |golden: GoldenSpan<'a>| EvidenceCoverage {
            document: golden.document,
            span: golden.span,
            pieces: vec![],
            rank: None,
        };
        let mut items: Vec<EvidenceCoverage<'_>> = golden.into_iter().map(item).collect();
        let passages = &sample.passages[..self.k.unwrap_or(usize::MAX).min(sample.passages.len())];
        let relevant = self.cover(&mut items, passages);
        Ok(Walk { items, relevant, k: self.k })
    }

    /// Adds to each item the bytes that the passages hold of it, and the rank at which that is
    /// enough. Returns for each passage whether it is relevant on its own.
    fn cover(&self, items: &mut [EvidenceCoverage<'_>], passages: &[Passage]) -> Vec<bool> {
        let mut relevant = Vec::with_capacity(passages.len());
        for (i, passage) in passages.iter().enumerate() {
            let mut is_relevant = false;
            for item in items.iter_mut().filter(|item| item.document == passage.document) {
                // Text that a step left out of a passage covers nothing.
                let length = |spans: &[Span]| spans.iter().map(|span| span.len()).sum::<usize>();
                let shared: usize = passage.spans().iter().map(|span| item.span.overlap(*span)).sum();
                if shared == 0 {
                    continue;
                }
                is_relevant |= self.is_enough(shared, item.span.len().min(length(passage.spans())));
                let whole = item.span;
                for span in passage.spans().iter().filter(|span| whole.overlap(**span) > 0) {
                    item.add(*span);
                }
                if item.rank.is_none() && self.is_enough(item.covered(), item.span.len()) {
                    item.rank = Some(i + 1);
                }
            }
            relevant.push(is_relevant);
        }
        relevant
    }

    fn is_enough(&self, part: usize, whole: usize) -> bool {
        part as f64 >= self.min_overlap * whole as f64 - ROUNDING
    }
}

impl EvidenceCoverage<'_> {
    fn add(&mut self, span: Span) {
        let start = span.start.max(self.span.start);
        let end = span.end.min(self.span.end);
        self.pieces.push(Span { start, end });
        self.pieces.sort_unstable();
        let mut merged: Vec<Span> = Vec::with_capacity(self.pieces.len());
        for piece in self.pieces.drain(..) {
            match merged.last_mut() {
                Some(last) if piece.start <= last.end => last.end = last.end.max(piece.end),
                _ => merged.push(piece),
            }
        }
        self.pieces = merged;
    }

    fn covered(&self) -> usize {
        self.pieces.iter().map(|piece| piece.len()).sum()
    }

    /// The share of the item's bytes that is covered, from 0 to 1.
    fn share(&self) -> f64 {
        self.covered() as f64 / self.span.len() as f64
    }
}

impl Walk<'_> {
    /// How many evidence items there are; at least 1.
    pub(super) fn n_items(&self) -> usize {
        self.items.len()
    }

    /// How many of them are covered.
    pub(super) fn n_covered(&self) -> usize {
        self.items.iter().filter(|item| item.rank.is_some()).count()
    }

    /// The ranks, from 1, at which an evidence item became covered; in order,
    /// each once.
    pub(super) fn gaining_ranks(&self) -> Vec<usize> {
        let mut ranks: Vec<usize> = self.items.iter().filter_map(|item| item.rank).collect();
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    /// The limit on the passages that count, if any.
    pub(super) fn k(&self) -> Option<usize> {
        self.k
    }

    /// What a person needs to check the score.
    pub(super) fn detail(&self) -> Value {
        let items: Vec<Value> = self
            .items
            .iter()
            .map(|item| {
                json!({
                    "document": item.document,
                    "start": item.span.start,
                    "end": item.span.end,
                    "covered": item.share(),
                    "rank": item.rank,
                })
            })
            .collect();
        json!({ "evidence": items, "relevant": self.relevant })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{passage, question_with_evidence, sample};
    use super::*;

    fn walk(
        evidence: &[(usize, usize)],
        passages: &[(usize, usize)],
        k: Option<u32>,
    ) -> (Vec<usize>, usize, Vec<bool>) {
        let question = question_with_evidence(evidence);
        let passages: Vec<_> = passages.iter().map(|&(start, end)| passage("a.txt", start, end)).collect();
        let walk = Cutoff::new("recall", k, 0.5).unwrap().walk(&sample(&question, &passages, None)).unwrap();
        (walk.gaining_ranks(), walk.n_covered(), walk.relevant)
    }

    #[test]
    fn half_of_the_evidence_is_enough() {
        assert_eq!(walk(&[(100, 200)], &[(0, 150)], None), (vec![1], 1, vec![true]));
        assert_eq!(walk(&[(100, 200)], &[(0, 149)], None), (vec![], 0, vec![false]));
    }

    #[test]
    fn two_passages_cover_evidence_that_a_border_cuts() {
        let (ranks, covered, _) = walk(&[(100, 200)], &[(60, 140), (900, 950), (140, 150)], None);
        assert_eq!((ranks, covered), (vec![3], 1));
    }

    #[test]
    fn overlapping_passages_do_not_count_a_byte_twice() {
        let (ranks, covered, _) = walk(&[(100, 200)], &[(60, 140), (65, 141), (50, 140)], None);
        assert_eq!((ranks, covered), (vec![], 0));
    }

    #[test]
    fn a_passage_within_long_evidence_is_relevant_though_it_covers_little() {
        assert_eq!(walk(&[(0, 1000)], &[(100, 200)], None), (vec![], 0, vec![true]));
    }

    #[test]
    fn what_a_step_left_out_of_a_passage_covers_nothing() {
        let question = question_with_evidence(&[(100, 200)]);
        let parts = |parts: &[(usize, usize)]| rag::Passage {
            parts: parts.iter().map(|&(start, end)| Span { start, end }).collect(),
            ..passage("a.txt", 0, 300)
        };
        let found = |passage| {
            let passages = [passage];
            let walk = Cutoff::new("recall", None, 0.5).unwrap().walk(&sample(&question, &passages, None)).unwrap();
            (walk.n_covered(), walk.relevant)
        };
        assert_eq!(found(parts(&[])), (1, vec![true]));
        assert_eq!(found(parts(&[(0, 100), (250, 300)])), (0, vec![false]));
        assert_eq!(found(parts(&[(0, 120), (170, 300)])), (1, vec![true]));
        assert_eq!(found(parts(&[(0, 110), (190, 300)])), (0, vec![false]));
    }

    #[test]
    fn passages_below_k_do_not_count() {
        assert_eq!(walk(&[(100, 200)], &[(500, 600), (100, 200)], Some(1)), (vec![], 0, vec![false]));
    }

    #[test]
    fn another_document_covers_nothing() {
        let question = question_with_evidence(&[(0, 10)]);
        let passages = [passage("b.txt", 0, 10)];
        let walk = Cutoff::new("recall", None, 0.5).unwrap().walk(&sample(&question, &passages, None)).unwrap();
        assert_eq!(walk.n_covered(), 0);
    }

    #[test]
    fn what_passages_hold_of_each_piece_of_evidence_is_told_as_the_metrics_count_it() {
        let mut question = question_with_evidence(&[(100, 200), (0, 10), (300, 400)]);
        question.evidence[1].span = None;
        let passages = [passage("a.txt", 60, 140), passage("b.txt", 0, 500), passage("a.txt", 140, 320)];
        let found = find_evidence(&question.evidence, &passages, 0.5);
        let found: Vec<(f64, Option<usize>)> = found.iter().map(|found| (found.share, found.rank)).collect();
        assert_eq!(found, [(1.0, Some(3)), (0.0, None), (0.2, None)]);
        // `min_overlap` decides which share is enough.
        assert_eq!(find_evidence(&question.evidence, &passages, 0.2)[2].rank, Some(3));
        assert_eq!(find_evidence(&question.evidence, &passages, 0.4)[0].rank, Some(1));
        assert!(find_evidence(&[], &passages, 0.5).is_empty());
        assert_eq!(find_evidence(&question.evidence, &[], 0.5), [EvidenceShare::default(); 3]);
    }

    #[test]
    fn evidence_without_a_span_is_a_fault_of_the_dataset() {
        let mut question = question_with_evidence(&[(0, 10)]);
        question.evidence[0].span = None;
        let missing = Cutoff::new("recall", None, 0.5).unwrap().walk(&sample(&question, &[], None)).err();
        assert!(matches!(missing, Some(Missing::NoPlace(_))), "{missing:?}");
    }

    #[test]
    fn passages_without_a_place_are_no_failure_of_the_retriever() {
        let question = question_with_evidence(&[(0, 10)]);
        let placeless = rag::Passage { text: "some text".to_owned(), ..passage("a.txt", 0, 0) };
        let passages = [passage("a.txt", 0, 10), placeless];
        let missing = Cutoff::new("recall", None, 0.5).unwrap().walk(&sample(&question, &passages, None)).err();
        assert!(matches!(missing, Some(Missing::PassagesWithoutPlace)), "{missing:?}");
    }

    #[test]
    fn settings_that_cannot_work_are_refused() {
        assert!(Cutoff::new("recall", Some(0), 0.5).is_err());
        assert!(Cutoff::new("recall", None, 0.0).is_err());
        assert!(Cutoff::new("recall", None, f64::NAN).is_err());
        assert!(Cutoff::new("recall", None, 1.0).is_ok());
    }
}
