//! Token recall: how much of the text of the golden evidence was retrieved.
//!
//! When to use it: beside `recall`, which asks whether each item was found at
//! all, to see how much of long evidence reaches the generator. With a fixed
//! number of passages larger chunks win it for being larger: compare chunkers at
//! equal `at_context_tokens`, or by `token_iou`. It needs no model.
//!
//! Evidence text that was retrieved / evidence text. A place that several
//! passages hold counts once, and so does one in several items. Text is measured
//! in characters that are no white space, which stand for tokens.
//!
//! Source: B. Smith, A. Troynikov, "Evaluating Chunking Strategies for
//! Retrieval", Chroma technical report, 2024.

use super::retrieval;
use super::text_overlap::{Overlap, OverlapSettings};

pub(super) const VERSION: u32 = 1;

retrieval::config!("token_recall", OverlapSettings, formula);

fn formula(overlap: &Overlap) -> f64 {
    overlap.shared / overlap.golden
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_share_of_the_evidence_that_was_retrieved() {
        assert_eq!(Config::score(None, &[(0, 10), (50, 80)], &[(40, 60)]), 0.25);
        assert_eq!(Config::score(None, &[(0, 10)], &[(0, 4), (0, 4), (2, 5)]), 0.5);
    }

    #[test]
    fn passages_behind_k_do_not_count() {
        assert_eq!(Config::score(Some(1), &[(0, 10)], &[(20, 30), (0, 10)]), 0.0);
        assert_eq!(Config::score(Some(2), &[(0, 10)], &[(20, 30), (0, 10)]), 1.0);
    }

    #[test]
    fn nothing_retrieved_has_recall_zero() {
        assert_eq!(Config::score(None, &[(0, 10)], &[]), 0.0);
    }
}
