//! Recall: how much of the golden evidence was retrieved.
//!
//! When to use it: always, where questions have evidence; it bounds what any
//! generator can answer. It needs no model.
//!
//! recall@k = covered evidence items / all evidence items, where an item is
//! covered once the union of the first k passages of its document holds
//! `min_overlap` of its bytes. Nothing retrieved has recall 0.
//!
//! Source: C. D. Manning et al., "Introduction to Information Retrieval", 2008,
//! chapter 8, on spans instead of documents.

use super::evidence::Walk;
use super::retrieval::{self, RetrievalSettings};

pub(super) const VERSION: u32 = 1;

retrieval::config!("recall", RetrievalSettings, formula, is_default: true);

fn formula(walk: &Walk<'_>) -> f64 {
    walk.n_covered() as f64 / walk.n_items() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recall_is_one_when_all_evidence_is_found() {
        assert_eq!(Config::score(None, &[(0, 10), (50, 60)], &[(45, 70), (0, 20)]), 1.0);
    }

    #[test]
    fn recall_is_the_share_of_the_items_found() {
        assert_eq!(Config::score(None, &[(0, 10), (50, 60)], &[(45, 70), (100, 120)]), 0.5);
        assert_eq!(Config::score(Some(1), &[(0, 10), (50, 60)], &[(100, 120), (0, 70)]), 0.0);
    }

    #[test]
    fn nothing_retrieved_has_recall_zero() {
        assert_eq!(Config::score(None, &[(0, 10)], &[]), 0.0);
    }

    #[test]
    fn evidence_cut_by_a_chunk_border_is_found_by_both_chunks() {
        assert_eq!(Config::score(Some(2), &[(40, 60)], &[(0, 49), (49, 55)]), 1.0);
        assert_eq!(Config::score(Some(1), &[(40, 60)], &[(0, 49), (49, 55)]), 0.0);
    }
}
