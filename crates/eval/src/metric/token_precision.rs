//! Token precision: how much of the retrieved text belongs to the golden evidence.
//!
//! When to use it: to see how much noise is read and paid for beside the
//! evidence. It needs no model.
//!
//! Evidence text that was retrieved / text of all passages. In the numerator a
//! place counts once; in the denominator it counts once for each passage that holds
//! it, because the generator reads the overlap of two chunks twice.
//! Nothing retrieved has precision 0. Text is measured in characters that are no
//! white space, which stand for tokens.
//!
//! Source: B. Smith, A. Troynikov, "Evaluating Chunking Strategies for
//! Retrieval", Chroma technical report, 2024.

use super::retrieval;
use super::text_overlap::{Overlap, OverlapSettings};

pub(super) const VERSION: u32 = 1;

retrieval::config!("token_precision", OverlapSettings, formula);

fn formula(overlap: &Overlap) -> f64 {
    let all = overlap.retrieved_with_repeats;
    if all > 0.0 { overlap.shared / all } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_share_of_the_retrieved_text_that_is_evidence() {
        assert_eq!(Config::score(None, &[(0, 10)], &[(0, 20)]), 0.5);
        assert_eq!(Config::score(None, &[(0, 10)], &[(20, 40)]), 0.0);
    }

    #[test]
    fn a_repeated_passage_halves_it() {
        assert_eq!(Config::score(None, &[(0, 100)], &[(0, 200), (0, 200)]), 0.25);
    }

    #[test]
    fn nothing_retrieved_has_precision_zero() {
        assert_eq!(Config::score(None, &[(0, 10)], &[]), 0.0);
    }
}
