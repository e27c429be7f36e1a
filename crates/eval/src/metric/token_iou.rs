//! Token IoU: how well the retrieved text and the golden evidence are the same text.
//!
//! When to use it: to choose a chunker. Too large chunks score less because they hold
//! text beside the evidence, too small chunks because they miss evidence. It needs no
//! model.
//!
//! Intersection over union: evidence text that was retrieved / text that is
//! evidence or was retrieved. Every place counts once, in the numerator and in
//! the denominator; `token_precision` is the metric that counts repeats. Chroma's
//! own code counts repeats in the denominator here too, so that its numbers are
//! lower where chunks overlap. Text is measured in characters that are no white
//! space, which stand for tokens.
//!
//! Source: B. Smith, A. Troynikov, "Evaluating Chunking Strategies for
//! Retrieval", Chroma technical report, 2024.

use super::retrieval;
use super::text_overlap::{Overlap, OverlapSettings};

pub(super) const VERSION: u32 = 1;

retrieval::config!("token_iou", OverlapSettings, formula);

fn formula(overlap: &Overlap) -> f64 {
    overlap.shared / (overlap.golden + overlap.retrieved - overlap.shared).max(overlap.shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_text_has_one_and_other_text_none() {
        assert_eq!(Config::score(None, &[(0, 10)], &[(20, 40)]), 0.0);
        assert_eq!(Config::score(None, &[(0, 10)], &[]), 0.0);
        assert_eq!(Config::score(None, &[(0, 10)], &[(0, 10)]), 1.0);
    }

    #[test]
    fn overlapping_passages_count_once() {
        assert_eq!(Config::score(None, &[(0, 100)], &[(0, 200), (0, 200), (50, 150)]), 0.5);
    }

    #[test]
    fn more_text_around_the_evidence_lowers_it() {
        // 10 characters of 10 + 30, and of 10 + 30 + 60.
        assert_eq!(Config::score(None, &[(0, 10)], &[(0, 40)]), 0.25);
        assert_eq!(Config::score(None, &[(0, 10)], &[(0, 40), (40, 100)]), 0.1);
    }
}
