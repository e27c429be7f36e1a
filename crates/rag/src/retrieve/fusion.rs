//! Several ranked lists become one.
//!
//! Sources: Cormack, Clarke and Büttcher, Reciprocal Rank Fusion, 2009; the
//! relative score is LlamaIndex's (min-max per list, then a weighted sum); the
//! other scales are compared in Bruch, Gai and Ingber, An Analysis of Fusion
//! Functions for Hybrid Retrieval, 2022; three sigma are Mazzeschi's
//! Distribution-Based Score Fusion, 2023 (Qdrant's divides by n − 1 and cuts
//! nothing off).

use crate::{Hit, Passage};
use std::collections::BTreeMap;

/// Adds `1 / (k + rank)` over the lists, ranks from 0; only the order within a
/// list counts, so lists of any scale can be joined.
pub(crate) fn reciprocal_rank(lists: &[&[Hit]], k: u32) -> Vec<Hit> {
    sum(lists
        .iter()
        .flat_map(|list| (0u32..).zip(*list).map(|(rank, hit)| (hit.row, 1.0 / (f64::from(k) + f64::from(rank))))))
}

/// [`reciprocal_rank`] of passages: those with the same text at the same place are one. Equal scores keep the order of
/// the lists.
pub(crate) fn reciprocal_rank_of_passages(lists: Vec<Vec<Passage>>, k: u32) -> Vec<Passage> {
    let mut joined: Vec<(f64, Passage)> = Vec::new();
    for (rank, passage) in lists.into_iter().flat_map(|list| (0u32..).zip(list)) {
        let share = 1.0 / (f64::from(k) + f64::from(rank));
        let is_same = |known: &Passage| known.is_same_text(&passage) && known.text == passage.text;
        match joined.iter_mut().find(|(_, known)| is_same(known)) {
            Some((score, _)) => *score += share,
            None => joined.push((share, passage)),
        }
    }
    joined.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    joined.into_iter().map(|(score, passage)| Passage { score: score as f32, ..passage }).collect()
}

/// Maps the scores of a list to a scale on which lists can be added. A row that a
/// list lacks gets 0 from it, so no scale goes below 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scale {
    /// The least score becomes 0, the greatest 1. Where all are equal: 1 if positive, else 0.
    MinMax,
    /// Standard deviations above the least score: z-scores, shifted so that the
    /// last row of the list gets 0, like a row that the list lacks. Where all are
    /// equal: 1 if positive, else 0.
    ZScore,
    /// Three standard deviations below the mean become 0, three above it 1; what
    /// lies beyond is clamped. Where all are equal: 0.5, as at the mean.
    Dbsf,
    /// The given score, the least that is possible, becomes 0, the greatest of the
    /// list 1. Where the two are equal: 0.
    From(f64),
}

impl Scale {
    fn of(self, list: &[Hit]) -> impl Fn(f64) -> f64 {
        let scores = || list.iter().map(|hit| f64::from(hit.score));
        let (least, most) =
            scores().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), x| (least.min(x), most.max(x)));
        let n = list.len() as f64;
        let mean = scores().sum::<f64>() / n;
        let deviation = (scores().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
        let differ = most > least && deviation > 0.0;
        move |score| match self {
            Self::MinMax if most > least => (score - least) / (most - least),
            Self::ZScore if differ => (score - least) / deviation,
            Self::MinMax | Self::ZScore => f64::from(u8::from(most > 0.0)),
            Self::Dbsf if differ => ((score - mean) / (6.0 * deviation) + 0.5).clamp(0.0, 1.0),
            Self::Dbsf => 0.5,
            // A rounded cosine may be a little less than the least one.
            Self::From(floor) if most > floor => ((score - floor) / (most - floor)).max(0.0),
            Self::From(_) => 0.0,
        }
    }
}

/// Adds the scores of the lists on their scales, each with its list's weight.
pub(super) fn weighted_sum(lists: &[(&[Hit], f64, Scale)]) -> Vec<Hit> {
    sum(lists.iter().flat_map(|&(list, weight, scale)| {
        let scaled = scale.of(list);
        list.iter().map(move |hit| (hit.row, weight * scaled(f64::from(hit.score))))
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
        let joined = weighted_sum(&[(&first, 0.5, Scale::MinMax), (&second, 0.5, Scale::MinMax)]);
        assert_hits(&joined, [(A, 0.9375), (C, 0.5), (B, 0.25), (D, 0.0)]);
    }

    /// The first list on a scale, in the order A, B, C.
    fn scaled(scale: Scale) -> [f32; 3] {
        let [first, _] = lists();
        let hits = weighted_sum(&[(&first, 1.0, scale)]);
        [A, B, C].map(|row| hits.iter().find(|hit| hit.row == row).unwrap().score)
    }

    #[test]
    fn scales_agree_with_their_formulas() {
        // 3, 2 and 1: the mean is 2, the standard deviation √(2/3).
        let deviation = (2.0f32 / 3.0).sqrt();
        let part = 1.0 / (6.0 * deviation);
        for (scale, expected) in [
            (Scale::MinMax, [1.0, 0.5, 0.0]),
            (Scale::ZScore, [2.0 / deviation, 1.0 / deviation, 0.0]),
            (Scale::Dbsf, [0.5 + part, 0.5, 0.5 - part]),
            (Scale::From(-1.0), [1.0, 0.75, 0.5]),
            (Scale::From(0.0), [1.0, 2.0 / 3.0, 1.0 / 3.0]),
        ] {
            for (found, expected) in scaled(scale).into_iter().zip(expected) {
                assert!((found - expected).abs() < 1e-6, "{scale:?}: {found} is not {expected}");
            }
        }
    }

    #[test]
    fn the_order_by_z_scores_is_that_of_the_formula_with_lacking_rows_last() {
        let [first, second] = lists();
        let joined = weighted_sum(&[(&first, 0.3, Scale::ZScore), (&second, 0.7, Scale::ZScore)]);
        let z = |list: &[Hit], row: u32| {
            let scores: Vec<f64> = list.iter().map(|hit| f64::from(hit.score)).collect();
            let mean = scores.iter().sum::<f64>() / 3.0;
            let deviation = (scores.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 3.0).sqrt();
            let score = list.iter().find(|hit| hit.row == row).map_or(scores[2], |hit| f64::from(hit.score));
            (score - mean) / deviation
        };
        let mut expected = [A, B, C, D].map(|row| (row, 0.3 * z(&first, row) + 0.7 * z(&second, row)));
        expected.sort_by(|a, b| b.1.total_cmp(&a.1));
        assert_eq!(joined.iter().map(|hit| hit.row).collect::<Vec<_>>(), expected.map(|(row, _)| row));
        let shift = f64::from(joined[0].score) - expected[0].1;
        for (hit, (_, expected)) in joined.iter().zip(expected) {
            assert!((f64::from(hit.score) - expected - shift).abs() < 1e-5, "{hit:?}");
        }
    }

    #[test]
    fn what_is_beyond_three_deviations_is_cut() {
        let far = |score| (0..12u32).map(move |row| Hit { row, score: if row == 0 { score } else { 0.5 } });
        let one = |score| weighted_sum(&[(&far(score).collect::<Vec<_>>(), 1.0, Scale::Dbsf)]);
        assert_eq!(one(100.0)[0], Hit { row: 0, score: 1.0 });
        assert_eq!(one(-100.0)[11], Hit { row: 0, score: 0.0 });
    }

    #[test]
    fn a_list_of_equal_scores_has_one_finite_score() {
        let list = |score| [Hit { row: 4, score }, Hit { row: 5, score }];
        for (scale, positive, negative) in [
            (Scale::MinMax, 1.0, 0.0),
            (Scale::ZScore, 1.0, 0.0),
            (Scale::Dbsf, 0.5, 0.5),
            (Scale::From(-1.0), 1.0, 1.0),
            (Scale::From(0.0), 1.0, 0.0),
        ] {
            assert_eq!(weighted_sum(&[(&list(0.3), 1.0, scale)]), list(positive), "{scale:?}");
            assert_eq!(weighted_sum(&[(&list(-0.3), 1.0, scale)]), list(negative), "{scale:?}");
            assert_eq!(weighted_sum(&[(&[], 1.0, scale)]), [], "{scale:?}");
        }
        assert_eq!(weighted_sum(&[(&list(-1.000_001), 1.0, Scale::From(-1.0))]), list(0.0));
    }

    #[test]
    fn equal_sums_are_ordered_by_row() {
        let one = [Hit { row: 9, score: 1.0 }];
        let other = [Hit { row: 2, score: 1.0 }];
        assert_eq!(reciprocal_rank(&[&one, &other], 60).iter().map(|hit| hit.row).collect::<Vec<_>>(), [2, 9]);
    }
}
