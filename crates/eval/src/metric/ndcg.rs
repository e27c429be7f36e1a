//! Normalised discounted cumulative gain: how early each piece of evidence is
//! found.
//!
//! When to use it: as the one number for a ranking where questions have several
//! pieces of evidence. It needs no model.
//!
//! nDCG@k = DCG / ideal DCG, DCG = Σ gain_i / log2(i + 1). A passage gains 1 if
//! an evidence item becomes covered with it, else 0: a second passage with only
//! what is already covered gains nothing, so duplicates and overlaps cannot
//! raise the score. The ideal has its hits first: one for each passage that
//! gained, plus one for each item that was not found (items that one passage
//! covers together need only one), at most k. Without k the ideal is not cut,
//! so that retrieving less never looks better.
//!
//! Source: K. Järvelin, J. Kekäläinen, "Cumulated Gain-Based Evaluation of IR
//! Techniques", ACM TOIS 20 (2002); gain for novelty only after C. L. A. Clarke
//! et al., SIGIR 2008.

use super::ObjectiveRole;
use super::evidence::Walk;
use super::retrieval::{self, RetrievalSettings};

pub(super) const VERSION: u32 = 1;

retrieval::config!("ndcg", RetrievalSettings, formula, is_default: true, objective_role: ObjectiveRole::Preferred);

fn formula(walk: &Walk<'_>) -> f64 {
    let ranks = walk.gaining_ranks();
    let n_ideal = (ranks.len() + walk.n_items() - walk.n_covered()).min(walk.k().unwrap_or(usize::MAX));
    // The sum of nothing is -0.
    let gained = ranks.iter().map(|rank| discount(*rank)).sum::<f64>() + 0.0;
    gained / (1..=n_ideal).map(discount).sum::<f64>()
}

fn discount(rank: usize) -> f64 {
    1.0 / (rank as f64 + 1.0).log2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_at_rank_two_is_discounted() {
        let score = Config::score(None, &[(0, 10)], &[(20, 40), (0, 20)]);
        assert!((score - 0.630_929_753_571_457_4).abs() < 1e-12, "{score}");
    }

    #[test]
    fn nothing_found_is_zero_without_a_sign() {
        assert_eq!(Config::score(None, &[(0, 10)], &[(20, 40)]).to_string(), "0");
    }

    #[test]
    fn two_items_at_ranks_one_and_three() {
        // (1 + 1/2) / (1 + 1/log2(3)).
        let score = Config::score(None, &[(0, 10), (90, 99)], &[(0, 20), (20, 40), (80, 99)]);
        assert!((score - 0.919_720_789_148_187_6).abs() < 1e-9, "{score}");
    }

    #[test]
    fn duplicates_gain_nothing() {
        let once = Config::score(Some(3), &[(0, 10), (90, 99)], &[(0, 20), (20, 40), (40, 60)]);
        let often = Config::score(Some(3), &[(0, 10), (90, 99)], &[(0, 20), (0, 20), (0, 25)]);
        assert_eq!(once, often);
        assert!(once < 1.0);
    }

    #[test]
    fn one_passage_with_all_the_evidence_is_perfect() {
        assert_eq!(Config::score(None, &[(0, 10), (15, 25)], &[(0, 30), (40, 60)]), 1.0);
    }

    #[test]
    fn retrieving_less_never_looks_better() {
        let short = Config::score(None, &[(0, 10), (90, 99)], &[(0, 20)]);
        let long = Config::score(None, &[(0, 10), (90, 99)], &[(0, 20), (20, 40), (80, 99)]);
        assert!(short < long);
        assert_eq!(Config::score(Some(1), &[(0, 10), (90, 99)], &[(0, 20)]), 1.0);
    }

    #[test]
    fn nothing_found_is_zero() {
        assert_eq!(Config::score(None, &[(0, 10)], &[(20, 40)]), 0.0);
        assert_eq!(Config::score(None, &[(0, 10)], &[]), 0.0);
    }
}
