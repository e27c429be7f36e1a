//! Several ranked lists become one.
//!
//! Sources: Cormack, Clarke and Büttcher, Reciprocal Rank Fusion, 2009; the
//! relative score is LlamaIndex's (min-max per list, then a weighted sum).

use crate::Hit;
use std::collections::BTreeMap;

/// Adds `1 / (k + rank)` over the lists, ranks from 0; only the order within a
/// list counts, so lists of any scale can be joined.
pub(crate) fn reciprocal_rank(lists: &[&[Hit]], k: u32) -> Vec<Hit> {
    sum(lists
        .iter()
        .flat_map(|list| (0u32..).zip(*list).map(|(rank, hit)| (hit.row, 1.0 / (f64::from(k) + f64::from(rank))))))
}

/// Stretches each list's scores to 0..1 and adds them with the list's weight.
/// Where all scores of a list are equal, they become 1 if positive, else 0.
pub(super) fn relative_score(lists: &[(&[Hit], f64)]) -> Vec<Hit> {
    sum(lists.iter().flat_map(|&(list, weight)| {
        let scores = list.iter().map(|hit| f64::from(hit.score));
        let (least, most) =
            scores.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), x| (least.min(x), most.max(x)));
        list.iter().map(move |hit| {
            let relative = if most > least {
                (f64::from(hit.score) - least) / (most - least)
            } else {
                f64::from(u8::from(most > 0.0))
            };
            (hit.row, weight * relative)
        })
    }))
}

/// One hit per row, best first, equal ones by row.
fn sum(parts: impl Iterator<Item = (u32, f64)>) -> Vec<Hit> {
    let mut scores = BTreeMap::new();
    for (row, part) in parts {
        *scores.entry(row).or_insert(0.0) += part;
    }
    let mut hits: Vec<Hit> = scores.into_iter().map(|(row, score)| Hit { row, score: score as f32 }).collect();
    super::sort(&mut hits);
    hits
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: u32 = 0;
    const B: u32 = 1;
    const C: u32 = 2;
    const D: u32 = 3;

    fn lists() -> [Vec<Hit>; 2] {
        let list = |scores: [(u32, f32); 3]| scores.map(|(row, score)| Hit { row, score }).to_vec();
        [list([(A, 3.0), (B, 2.0), (C, 1.0)]), list([(C, 0.9), (A, 0.8), (D, 0.1)])]
    }

    fn assert_hits(hits: &[Hit], expected: [(u32, f32); 4]) {
        assert_eq!(hits.len(), expected.len());
        for (hit, (row, score)) in hits.iter().zip(expected) {
            assert_eq!(hit.row, row);
            assert!((hit.score - score).abs() < 1e-6, "{} is not {score}", hit.score);
        }
    }

    #[test]
    fn reciprocal_rank_agrees_with_the_reference() {
        let [first, second] = lists();
        assert_hits(
            &reciprocal_rank(&[&first, &second], 60),
            [(A, 0.033_060), (C, 0.032_796), (B, 0.016_393), (D, 0.016_129)],
        );
    }

    #[test]
    fn relative_score_agrees_with_the_reference() {
        let [first, second] = lists();
        assert_hits(&relative_score(&[(&first, 0.5), (&second, 0.5)]), [(A, 0.9375), (C, 0.5), (B, 0.25), (D, 0.0)]);
    }

    #[test]
    fn a_list_of_equal_scores_becomes_ones_or_zeros() {
        let list = |score| [Hit { row: 4, score }, Hit { row: 5, score }];
        assert_eq!(relative_score(&[(&list(0.3), 1.0)]), list(1.0));
        assert_eq!(relative_score(&[(&list(-0.3), 1.0)]), list(0.0));
        assert_eq!(relative_score(&[(&[], 1.0)]), []);
    }

    #[test]
    fn equal_sums_are_ordered_by_row() {
        let one = [Hit { row: 9, score: 1.0 }];
        let other = [Hit { row: 2, score: 1.0 }];
        assert_eq!(reciprocal_rank(&[&one, &other], 60).iter().map(|hit| hit.row).collect::<Vec<_>>(), [2, 9]);
    }
}
