//! Mean reciprocal rank: how far up the first evidence stands.
//!
//! When to use it: where one piece of evidence answers the question. The mean
//! over questions is the MRR; this is the value for one. It needs no model.
//!
//! 1 / (rank of the first passage with which an evidence item is covered), 0
//! if none is.
//!
//! Source: E. M. Voorhees, "The TREC-8 Question Answering Track Report", 1999.

use super::evidence::Walk;
use super::retrieval::{self, RetrievalSettings};

pub(super) const VERSION: u32 = 1;

retrieval::config!("mrr", RetrievalSettings, formula, is_default: true);

fn formula(walk: &Walk<'_>) -> f64 {
    walk.gaining_ranks().first().map_or(0.0, |rank| 1.0 / *rank as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rank_of_the_first_evidence_counts() {
        assert_eq!(Config::score(None, &[(0, 10), (90, 99)], &[(20, 40), (0, 20), (80, 99)]), 0.5);
        assert_eq!(Config::score(None, &[(0, 10)], &[(0, 20)]), 1.0);
    }

    #[test]
    fn evidence_that_is_not_among_the_first_k_gives_zero() {
        assert_eq!(Config::score(Some(1), &[(0, 10)], &[(20, 40), (0, 20)]), 0.0);
        assert_eq!(Config::score(None, &[(0, 10)], &[]), 0.0);
    }
}
