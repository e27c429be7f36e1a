//! Precision: how much of what was retrieved belongs to the golden evidence.
//!
//! When to use it: beside recall, to see how much noise the generator is given.
//! It depends on k: one item of evidence and five passages cannot exceed 0.2,
//! unless several passages hold it. It needs no model.
//!
//! precision@k = relevant passages among the first k / passages looked at (k,
//! or fewer if fewer were retrieved). A passage is relevant if it holds
//! `min_overlap` of an evidence item or at least `min_overlap` of it lies
//! within one. Repeats of a relevant passage are relevant: use nDCG, which
//! gives them nothing, to rank. Nothing retrieved has precision 0, so that
//! returning nothing is never rewarded.
//!
//! Source: C. D. Manning et al., "Introduction to Information Retrieval", 2008,
//! chapter 8, on spans instead of documents.

use super::evidence::Walk;
use super::retrieval::{self, RetrievalSettings};

pub(super) const VERSION: u32 = 1;

retrieval::config!("precision", RetrievalSettings, formula, is_default: true);

fn formula(walk: &Walk<'_>) -> f64 {
    let n_relevant = walk.relevant.iter().filter(|relevant| **relevant).count();
    n_relevant as f64 / walk.relevant.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precision_is_the_share_of_relevant_passages() {
        assert_eq!(Config::score(None, &[(0, 10)], &[(0, 20), (20, 40), (40, 60), (5, 30)]), 0.5);
        assert_eq!(Config::score(Some(2), &[(0, 10)], &[(20, 40), (0, 20), (0, 30)]), 0.5);
    }

    #[test]
    fn fewer_passages_than_k_are_not_punished() {
        assert_eq!(Config::score(Some(10), &[(0, 10)], &[(0, 20)]), 1.0);
    }

    #[test]
    fn nothing_retrieved_has_precision_zero() {
        assert_eq!(Config::score(None, &[(0, 10)], &[]), 0.0);
    }
}
