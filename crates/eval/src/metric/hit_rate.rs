//! Hit rate: whether any evidence was retrieved.
//!
//! When to use it: as the plainest view of a retriever; the mean over questions
//! is the share of questions with at least one find. It needs no model.
//!
//! 1 if at least one evidence item is covered by the first k passages, else 0;
//! so it is 1 exactly where recall is above 0.
//!
//! Source: known as success at k; trec_eval's `success`, held to evidence
//! instead of documents.

use super::evidence::Walk;
use super::retrieval::{self, RetrievalSettings};

pub(super) const VERSION: u32 = 1;

retrieval::config!("hit_rate", RetrievalSettings, formula, is_default: true);

fn formula(walk: &Walk<'_>) -> f64 {
    if walk.n_covered() > 0 { 1.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_find_is_a_hit() {
        assert_eq!(Config::score(None, &[(0, 10), (90, 99)], &[(20, 40), (0, 20)]), 1.0);
    }

    #[test]
    fn no_find_is_none() {
        assert_eq!(Config::score(Some(1), &[(0, 10)], &[(20, 40), (0, 20)]), 0.0);
        assert_eq!(Config::score(None, &[(0, 10)], &[]), 0.0);
    }
}
