//! The best entries of a query, without adding up all of its postings, but with exactly the scores of doing so.
//!
//! Entries are taken in windows. In each window, every term has a bound: the largest weight of its blocks there. As
//! soon as `k` entries are known, the terms with the smallest bounds become optional: together they cannot make an entry
//! better than the worst of these `k`. Only the entries of the other terms are added up. The few entries that could
//! still be good enough are looked up in the lists of the optional terms, the term with the largest bound first, and
//! are dropped as soon as what is left cannot help. Bounds have a little slack for rounding.
//!
//! ScoreSums of `f32` depend on the order of their parts. So an entry that is left is scored again, in the order of the
//! query. If no term is optional, the sums of the window are in this order already.
//!
//! Source: Turtle and Flood, Query Evaluation: Strategies and Optimizations, 1995 (MaxScore); Ding and Suel, Faster
//! Top-k Document Retrieval Using PostingBlock-Max Indexes, 2011.

use super::cursor::{Cursor, ScoreSums, WINDOW};
use crate::index::top::Top;

/// Looking up an entry in a list takes as long as adding up this many postings.
const LOOKUP: u64 = 8;
/// After a window in which bounds saved nothing, all is added up in this many windows.
const PATIENCE: u32 = 8;

/// A search in the files of an index, one after the other.
pub(super) struct TermSearch<P> {
    top: Top,
    /// A score that is not above it is not among the best.
    least: f32,
    passes: P,
    sums: Box<ScoreSums>,
    /// Entries of the window that may be among the best, with the sums of some of their weights. It has room for all and
    /// one more.
    candidates: Vec<(u32, f32)>,
    /// The cursors, those with the smallest bounds first, each with its bound in the window.
    bounds: Vec<(usize, f64)>,
    is_optional: Vec<bool>,
    /// Where the cursors were at the start of the window.
    places: Vec<(usize, usize)>,
    /// In how many windows all is added up.
    plain: u32,
}

impl<P: Fn(u32) -> bool> TermSearch<P> {
    pub(super) fn new(k: usize, passes: P) -> Self {
        Self {
            top: Top::new(k),
            least: 0.0,
            passes,
            sums: Box::new(ScoreSums::ZERO),
            candidates: Vec::new(),
            bounds: Vec::new(),
            is_optional: Vec::new(),
            places: Vec::new(),
            plain: 0,
        }
    }

    /// The best entries, best first, equal scores by entry.
    pub(super) fn into_best(self) -> Vec<(u32, f32)> {
        self.top.into_sorted()
    }

    /// Searches a file with this number of entries. The cursors are in the order of the query's terms. `first` is the
    /// number of its first entry in the index. If weights are unusual or all lists are decoded, all are added up.
    pub(super) fn run(&mut self, cursors: &mut [Cursor<'_>], entries: u32, first: u32, are_usual: bool) {
        let mut by_bound: Vec<usize> = (0..cursors.len()).collect();
        by_bound.sort_by(|&a, &b| cursors[a].bound.total_cmp(&cursors[b].bound));
        let slack = Slack::of(cursors.len());
        let is_plain = !are_usual || cursors.iter().all(Cursor::is_ready);
        let mut start = 0;
        // Terms that are optional in every window.
        let (mut always_optional, mut their_bound) = (0, 0.0);
        loop {
            let least = if is_plain { 0.0 } else { self.least };
            while least > 0.0
                && let Some(&term) = by_bound.get(always_optional)
                && !slack.may_exceed(their_bound + cursors[term].bound, least)
            {
                their_bound += cursors[term].bound;
                always_optional += 1;
            }
            let others = &by_bound[always_optional..];
            let Some(next) = others.iter().filter_map(|&term| cursors[term].next(start)).min() else { break };
            if next >= entries {
                break;
            }
            start = next;
            let end = start.saturating_add(WINDOW as u32).min(entries);
            let window = Window { start, end, entries, first };
            if least == 0.0 || self.plain > 0 {
                self.plain = self.plain.saturating_sub(1);
                self.add_all(cursors, window);
            } else {
                let n_optional = self.split(cursors, &by_bound, always_optional, window, slack);
                match n_optional {
                    0 => self.add_all(cursors, window),
                    n if n < cursors.len() => self.add_some(cursors, window, n, slack),
                    _ => {}
                }
            }
            start = end;
        }
    }

    /// Bounds each term in the window, and says which are optional there; returns how many. Those with the smallest
    /// bounds come first in `self.bounds`.
    fn split(
        &mut self,
        cursors: &mut [Cursor<'_>],
        by_bound: &[usize],
        always_optional: usize,
        Window { start, end, .. }: Window,
        slack: Slack,
    ) -> usize {
        self.bounds.clear();
        for (place, &term) in by_bound.iter().enumerate() {
            let cursor = &mut cursors[term];
            let bound = if place < always_optional { cursor.bound } else { cursor.bound_in(start, end) };
            self.bounds.push((term, bound));
        }
        self.bounds.sort_by(|a, b| a.1.total_cmp(&b.1));
        self.is_optional.clear();
        self.is_optional.resize(cursors.len(), false);
        let (mut n_optional, mut bound) = (0, 0.0);
        while let Some(&(term, more)) = self.bounds.get(n_optional)
            && !slack.may_exceed(bound + more, self.least)
        {
            bound += more;
            self.is_optional[term] = true;
            n_optional += 1;
        }
        n_optional
    }

    /// Adds up all weights of a window.
    fn add_all(&mut self, cursors: &mut [Cursor<'_>], Window { start, end, first, .. }: Window) {
        let Self { top, least, passes, sums, .. } = self;
        cursors.iter_mut().for_each(|cursor| cursor.add_to(start, end, sums));
        sums.take(|place, sums| {
            if is_any_above(sums, *least) {
                for (entry, &score) in (first + start + place..first + end).zip(sums) {
                    if score > *least && passes(entry) {
                        top.push(entry, score);
                        *least = top.threshold().max(0.0);
                    }
                }
            }
        });
    }

    /// Adds up the weights of the terms that are not optional, and looks up the others.
    fn add_some(&mut self, cursors: &mut [Cursor<'_>], window: Window, n_optional: usize, slack: Slack) {
        let Window { start, end, entries, first } = window;
        self.places.clear();
        self.places.extend(cursors.iter().map(Cursor::place));
        for (cursor, _) in cursors.iter_mut().zip(&self.is_optional).filter(|(_, is_optional)| !**is_optional) {
            cursor.add_to(start, end, &mut self.sums);
        }
        let mut rest: f64 = self.bounds[..n_optional].iter().map(|(_, bound)| bound).sum();
        let least = slack.least_sum(rest, self.least);
        self.candidates.resize(WINDOW + 1, (0, 0.0));
        let (candidates, mut n) = (&mut self.candidates, 0);
        self.sums.take(|place, sums| {
            if is_any_above(sums, least) {
                // Without a branch for each: which ones are kept cannot be predicted.
                for (entry, &sum) in (start + place..end).zip(sums) {
                    candidates[n] = (entry, sum);
                    n += usize::from(sum > least);
                }
            }
        });
        let (all, mut work) = (cursors.iter().map(|cursor| cursor.expected(end - start, entries)).sum::<u64>(), 0);
        for &(term, bound) in self.bounds[..n_optional].iter().rev() {
            rest = (rest - bound).max(0.0);
            let (cursor, least) = (&mut cursors[term], slack.least_sum(rest, self.least));
            let expected = cursor.expected(end - start, entries);
            let lookups = LOOKUP * n as u64;
            let is_added_up = lookups > expected;
            if is_added_up {
                cursor.add_to(start, end, &mut self.sums);
            }
            work += lookups.min(expected);
            let mut left = 0;
            for place in 0..n {
                let (entry, sum) = candidates[place];
                let more = if is_added_up { self.sums.at(entry - start) } else { cursor.find(entry).unwrap_or(0.0) };
                candidates[left] = (entry, sum + more);
                left += usize::from(sum + more > least);
            }
            n = left;
            self.sums.take(|_, _| ());
        }
        let lookups = LOOKUP * (n * cursors.len()) as u64;
        let is_essential = |(term, cursor): (usize, &Cursor<'_>)| {
            if self.is_optional[term] { 0 } else { cursor.expected(end - start, entries) }
        };
        work += lookups + cursors.iter().enumerate().map(is_essential).sum::<u64>();
        if work > all {
            self.plain = PATIENCE;
        }
        if lookups > all {
            cursors.iter_mut().zip(&self.places).for_each(|(cursor, place)| cursor.go_to(*place));
            return self.add_all(cursors, window);
        }
        for &(entry, _) in &self.candidates[..n] {
            let weights = cursors.iter_mut().filter_map(|cursor| cursor.find(entry));
            let score = weights.fold(0.0f32, |sum, weight| sum + weight);
            if score > self.least && (self.passes)(first + entry) {
                self.top.push(first + entry, score);
                self.least = self.top.threshold().max(0.0);
            }
        }
    }
}

/// Entries of a file from `start` to before `end`.
#[derive(Debug, Clone, Copy)]
struct Window {
    start: u32,
    end: u32,
    /// How many entries the file has.
    entries: u32,
    /// The number of the file's first entry in the index.
    first: u32,
}

/// Compares all, so that the compiler compares several at once.
fn is_any_above(sums: &[f32], least: f32) -> bool {
    sums.iter().fold(false, |any, &sum| any | (sum > least))
}

/// How much a sum of rounded weights may exceed the exact sum of their bounds.
#[derive(Debug, Clone, Copy)]
struct Slack(f64);

impl Slack {
    /// Each weight is rounded to an `f32` and each addition again, each time by at most 2⁻²⁴ of the result. This is
    /// several times that.
    fn of(terms: usize) -> Self {
        Self(1.0 + (terms as f64 + 4.0) * 2f64.powi(-22))
    }

    /// Whether a score may be above `least` if the exact sum of its bounds is `bound`. The smallest numbers are rounded
    /// by more than a share of themselves.
    fn may_exceed(self, bound: f64, least: f32) -> bool {
        bound * self.0 + f64::from(f32::MIN_POSITIVE) > f64::from(least)
    }

    /// A sum that is not above it cannot become a score above `least`, if at most `rest` is added.
    fn least_sum(self, rest: f64, least: f32) -> f32 {
        let least = f64::from(least);
        let sum = (least - f64::from(f32::MIN_POSITIVE)) / self.0 - rest;
        // Rounded down, and less by what the division may have been rounded.
        ((sum - least * 2f64.powi(-40)) as f32).next_down().max(0.0)
    }
}
