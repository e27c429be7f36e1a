//! The best `k` of many scored entries, in one pass, with a fixed order of
//! equal scores: the smaller entry first.

use std::cmp::Ordering;

/// Keeps the best `k` of the entries that it is given, in any order.
#[derive(Debug, Clone)]
pub(super) struct Top {
    k: usize,
    /// Entries with their scores, in no order. The best `k` so far are among them. They are cut to these as soon as
    /// there are twice as many, which takes less time than a heap.
    kept: Vec<(u32, f32)>,
    threshold: f32,
}

impl Top {
    pub(super) fn new(k: usize) -> Self {
        Self { k, kept: Vec::new(), threshold: if k == 0 { f32::INFINITY } else { f32::NEG_INFINITY } }
    }

    /// Scores below this are refused.
    pub(super) fn threshold(&self) -> f32 {
        self.threshold
    }

    /// Takes an entry into account. A score that is NaN is never kept.
    pub(super) fn push(&mut self, entry: u32, score: f32) {
        if score.is_nan() || score < self.threshold || self.k == 0 {
            return;
        }
        // Adding zero turns -0 into 0: the two are equal, but not in a total order.
        self.kept.push((entry, score + 0.0));
        if self.kept.len() >= self.k.saturating_mul(2) {
            let (_, &mut (_, worst), _) = self.kept.select_nth_unstable_by(self.k - 1, best_first);
            self.kept.truncate(self.k);
            self.threshold = worst;
        }
    }

    /// Takes all entries of another `Top` into account.
    pub(super) fn merge(mut self, other: Self) -> Self {
        for (entry, score) in other.kept {
            self.push(entry, score);
        }
        self
    }

    /// The kept entries, best first.
    pub(super) fn into_sorted(mut self) -> Vec<(u32, f32)> {
        self.kept.sort_unstable_by(best_first);
        self.kept.truncate(self.k);
        self.kept
    }
}

fn best_first(a: &(u32, f32), b: &(u32, f32)) -> Ordering {
    b.1.total_cmp(&a.1).then(a.0.cmp(&b.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn top(k: usize, scores: &[(u32, f32)]) -> Vec<(u32, f32)> {
        let mut top = Top::new(k);
        scores.iter().for_each(|&(entry, score)| top.push(entry, score));
        top.into_sorted()
    }

    #[test]
    fn the_best_come_first_and_equal_scores_by_entry() {
        let scores = [(3, 0.5), (1, 0.5), (2, 0.9), (0, 0.1)];
        assert_eq!(top(3, &scores), [(2, 0.9), (1, 0.5), (3, 0.5)]);
        assert_eq!(top(2, &scores), [(2, 0.9), (1, 0.5)]);
        assert_eq!(top(9, &scores).len(), 4);
    }

    #[test]
    fn the_best_are_those_of_sorting_for_every_number_of_them() {
        let scores: Vec<(u32, f32)> = (0..300).map(|i| (i, ((i * 89) % 37) as f32 - 5.0)).collect();
        let mut sorted = scores.clone();
        sorted.sort_by(best_first);
        for k in [0, 1, 2, 3, 150, 299, 300, 301, usize::MAX] {
            assert_eq!(top(k, &scores), sorted[..k.min(300)], "{k}");
        }
    }

    #[test]
    fn zeros_of_both_signs_are_equal() {
        assert_eq!(top(1, &[(1, 0.0), (0, -0.0)]), [(0, 0.0)]);
    }

    #[test]
    fn what_is_not_a_number_is_left_out() {
        assert_eq!(top(2, &[(0, f32::NAN), (1, f32::NEG_INFINITY)]), [(1, f32::NEG_INFINITY)]);
        assert_eq!(top(0, &[(0, 1.0)]), []);
    }

    #[test]
    fn merging_is_showing_all() {
        let scores: Vec<(u32, f32)> = (0..100).map(|i| (i, ((i * 37) % 11) as f32)).collect();
        let (left, right) = scores.split_at(41);
        let part = |scores: &[(u32, f32)]| {
            let mut top = Top::new(7);
            scores.iter().for_each(|&(entry, score)| top.push(entry, score));
            top
        };
        assert_eq!(part(right).merge(part(left)).into_sorted(), top(7, &scores));
    }
}
