//! The best `k` of many scored entries, in one pass, with a fixed order of
//! equal scores: the smaller entry first.

use std::{cmp::Ordering, collections::BinaryHeap};

/// An entry and its score, in reversed order: the worst entry is the greatest,
/// so that a heap shows which entry to replace next.
#[derive(Debug, Clone, Copy)]
struct Worst {
    entry: u32,
    score: f32,
}

impl Ord for Worst {
    fn cmp(&self, other: &Self) -> Ordering {
        other.score.total_cmp(&self.score).then(self.entry.cmp(&other.entry))
    }
}

impl PartialOrd for Worst {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Worst {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Worst {}

/// Keeps the best `k` of the entries that it is given, in any order.
#[derive(Debug, Clone)]
pub(super) struct Top {
    k: usize,
    heap: BinaryHeap<Worst>,
}

impl Top {
    pub(super) fn new(k: usize) -> Self {
        Self { k, heap: BinaryHeap::new() }
    }

    /// Scores below this are refused; equal scores are taken only with a
    /// smaller entry.
    pub(super) fn threshold(&self) -> f32 {
        match self.heap.peek() {
            _ if self.k == 0 => f32::INFINITY,
            Some(worst) if self.heap.len() == self.k => worst.score,
            _ => f32::NEG_INFINITY,
        }
    }

    /// Takes an entry into account. A score that is NaN is never kept.
    pub(super) fn push(&mut self, entry: u32, score: f32) {
        if score.is_nan() || self.k == 0 {
            return;
        }
        // Adding zero turns -0 into 0: the two are equal, but not in a total order.
        let new = Worst { entry, score: score + 0.0 };
        if self.heap.len() < self.k {
            self.heap.push(new);
        } else if let Some(mut worst) = self.heap.peek_mut()
            && new < *worst
        {
            *worst = new;
        }
    }

    /// Takes all entries of another `Top` into account.
    pub(super) fn merge(mut self, other: Self) -> Self {
        for kept in other.heap {
            self.push(kept.entry, kept.score);
        }
        self
    }

    /// The kept entries, best first.
    pub(super) fn into_sorted(self) -> Vec<(u32, f32)> {
        self.heap.into_sorted_vec().into_iter().map(|kept| (kept.entry, kept.score)).collect()
    }
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
