//! A copy of the rows in five bits per number: what a single query reads
//! first, so that it reads the exact rows only where they could matter.
//!
//! One query over exact rows is bound by the memory. The copy is 6.4 times
//! smaller, and what it leaves out is known: a row `x` is `x' + r` with `x'`
//! in the copy, a query `q` is `q' + e` with `q'` in eight bits, so by Cauchy
//! and Schwarz
//!
//! > |x·q − x'·q'| ≤ ‖r‖·‖q‖ + ‖x'‖·‖e‖
//!
//! with `‖r‖` kept for every row. Every entry whose score could reach the
//! `k`-th best is then scored on its exact row, so the result is that of the
//! plain scan, bit by bit: only the way to the result is approximate.
//!
//! A number is `(v − 15.5) · scale` with `v` in 0..32 and a scale for each row,
//! and is kept as four high bits and one low bit in two planes. Rows are
//! filled up to a multiple of [`GROUP`] columns, where the query is zero.

#![expect(unsafe_code, reason = "run-time dispatch to AVX-512 and loads of whole registers; see `avx512`")]

use super::top::Top;
use memmap2::MmapMut;
use rayon::prelude::*;
use std::{
    io,
    sync::{Mutex, PoisonError},
};

/// Columns that are kept together: 64 bytes of high bits, 16 of low bits.
const GROUP: usize = 128;
const HIGH_BYTES: usize = GROUP / 2;
const GROUP_BYTES: usize = HIGH_BYTES + GROUP / 8;
/// The middle of the 32 values.
const MIDDLE: f32 = 15.5;
/// The greatest absolute value of a number of the query.
const QUERY_MAX: f32 = 127.0;
/// How many rows a task scores.
const TASK_ROWS: usize = 1024;

/// Rows in five bits per number, and how far each is from its exact row.
#[derive(Debug)]
pub(super) struct Coarse {
    columns: usize,
    groups: usize,
    bits: MmapMut,
    rows: Vec<Row>,
    /// The greatest length of a row, exact or coarse.
    longest: f64,
    /// Bounds that are no longer read: new memory for each query would cost a
    /// page fault for every thousand of them.
    spare: Mutex<Vec<f32>>,
}

/// The facts about a row that its bits do not hold.
#[derive(Debug, Clone, Copy, Default)]
struct Row {
    scale: f32,
    /// The length of the difference to the exact row, rounded up.
    residual: f32,
}

/// Entries that could be among the best, and the most likely of them.
#[derive(Debug)]
pub(super) struct Bounds {
    /// An upper bound of each entry's score.
    pub(super) upper: Vec<f32>,
    /// The entries that look best.
    pub(super) likely: Vec<u32>,
}

/// A query in eight bits.
#[derive(Debug)]
struct Query {
    values: Vec<i8>,
    sum: i32,
    scale: f32,
    /// Of the exact query.
    length: f64,
    /// Of the difference between the two.
    residual: f64,
}

impl Coarse {
    /// Whether this processor reads the copy faster than the exact rows.
    /// Without AVX-512's byte products unpacking costs more than it saves.
    pub(super) fn is_fast_here() -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vnni")
        }
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// Makes the copy, on the threads of the current rayon pool. `data` holds
    /// whole rows of `columns` finite numbers.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(super) fn new(data: &[f32], columns: usize) -> io::Result<Self> {
        let groups = columns.div_ceil(GROUP);
        let n_rows = data.len() / columns.max(1);
        // A map instead of a vector, since a map can ask for large pages.
        let mut bits = MmapMut::map_anon((n_rows * groups * GROUP_BYTES).max(1))?;
        #[cfg(target_os = "linux")]
        drop(bits.advise(memmap2::Advice::HugePage));
        let mut rows = vec![Row::default(); n_rows];
        let longest = bits
            .par_chunks_mut((groups * GROUP_BYTES).max(1))
            .zip(&mut rows)
            .zip(data.par_chunks(columns.max(1)))
            .with_min_len(TASK_ROWS)
            .map(|((bits, row), exact)| {
                let (made, length) = quantize(exact, bits);
                *row = made;
                length
            })
            .reduce(|| 0.0, f64::max);
        Ok(Self { columns, groups, bits, rows, longest, spare: Mutex::default() })
    }

    /// Bounds for all entries, or for some in ascending order, and the `k` of
    /// them that look best.
    pub(super) fn bounds(&self, query: &[f32], k: usize, among: Option<&[u32]>) -> Bounds {
        let query = Query::new(query, self.groups * GROUP);
        // What rounding adds: the exact score is a sum of `columns` products in
        // `f32`, the coarse one a product of three numbers.
        let rounding = (self.columns + 8) as f64 * f64::from(f32::EPSILON);
        let slack = self.longest * (query.residual + 2.0 * rounding * (query.length + query.residual));
        let (slack, length, half) = (round_up(slack), round_up(query.length), 0.5 * query.scale);
        let mut upper = std::mem::take(&mut *self.spare.lock().unwrap_or_else(PoisonError::into_inner));
        upper.resize(among.map_or(self.rows.len(), <[u32]>::len), 0.0);
        let likely = upper
            .par_chunks_mut(TASK_ROWS)
            .enumerate()
            .fold(
                || Top::new(k),
                |mut top, (task, upper)| {
                    let first = task * TASK_ROWS;
                    let mut products = [0; TASK_ROWS];
                    let products = &mut products[..upper.len()];
                    let mut bound = |entry: usize, product: i32, upper: &mut f32| {
                        let row = &self.rows[entry];
                        // Doubled, so that the middle is whole.
                        let score = (2 * product - 31 * query.sum) as f32 * (row.scale * half);
                        *upper = score + row.residual * length + slack;
                        if score >= top.threshold() {
                            top.push(entry as u32, score);
                        }
                    };
                    match among {
                        None => {
                            self.products(&self.bits[first * self.groups * GROUP_BYTES..], &query.values, products);
                            let bounds = upper.iter_mut().zip(products).enumerate();
                            bounds.for_each(|(i, (upper, product))| bound(first + i, *product, upper));
                        }
                        Some(entries) => {
                            let entries = &entries[first..];
                            self.products_of(entries, &query.values, products);
                            let bounds = upper.iter_mut().zip(products).zip(entries);
                            bounds.for_each(|((upper, product), entry)| bound(*entry as usize, *product, upper));
                        }
                    }
                    top
                },
            )
            .reduce(|| Top::new(k), Top::merge);
        Bounds { upper, likely: likely.into_sorted().into_iter().map(|(entry, _)| entry).collect() }
    }

    /// Takes bounds back that are no longer needed.
    pub(super) fn recycle(&self, bounds: Bounds) {
        *self.spare.lock().unwrap_or_else(PoisonError::into_inner) = bounds.upper;
    }

    /// The sums of `v · q'` of as many rows as there is room for.
    fn products(&self, bits: &[u8], query: &[i8], products: &mut [i32]) {
        #[cfg(target_arch = "x86_64")]
        if Self::is_fast_here() {
            // SAFETY: the instructions were just seen.
            unsafe { avx512::products(bits, self.groups, query, products) };
            return;
        }
        for (product, bits) in products.iter_mut().zip(bits.chunks_exact((self.groups * GROUP_BYTES).max(1))) {
            *product = plain_product(bits, query);
        }
    }

    /// The sums of `v · q'` of as many of these entries as there is room for.
    fn products_of(&self, entries: &[u32], query: &[i8], products: &mut [i32]) {
        #[cfg(target_arch = "x86_64")]
        if Self::is_fast_here() {
            // SAFETY: the instructions were just seen.
            unsafe { avx512::products_of(&self.bits, self.groups, entries, query, products) };
            return;
        }
        let bytes = self.groups * GROUP_BYTES;
        for (product, entry) in products.iter_mut().zip(entries) {
            *product = plain_product(&self.bits[*entry as usize * bytes..][..bytes], query);
        }
    }
}

/// Writes a row's bits; with them the greater of the two rows' lengths.
fn quantize(exact: &[f32], bits: &mut [u8]) -> (Row, f64) {
    let most = exact.iter().fold(0.0f32, |most, value| most.max(value.abs()));
    let scale = most / MIDDLE;
    let (mut residual, mut exact_length, mut coarse_length) = (0.0, 0.0, 0.0);
    for (exact, bits) in exact.chunks(GROUP).zip(bits.chunks_exact_mut(GROUP_BYTES)) {
        let (high, low) = bits.split_at_mut(HIGH_BYTES);
        for (i, &value) in exact.iter().enumerate() {
            // A row of zeros, or of numbers too small to divide, gives no
            // number here, which the cast turns into 0.
            let level = (value / scale + MIDDLE).round().clamp(0.0, 31.0) as u8;
            let coarse = (f64::from(level) - f64::from(MIDDLE)) * f64::from(scale);
            residual += (f64::from(value) - coarse).powi(2);
            exact_length += f64::from(value).powi(2);
            coarse_length += coarse.powi(2);
            high[i % HIGH_BYTES] |= (level >> 1) << (4 * (i / HIGH_BYTES));
            low[i / 8] |= (level & 1) << (i % 8);
        }
    }
    let length = f64::max(exact_length, coarse_length).sqrt();
    (Row { scale, residual: round_up(residual.sqrt()) }, length)
}

impl Query {
    fn new(exact: &[f32], columns: usize) -> Self {
        let most = exact.iter().fold(0.0f32, |most, value| most.max(value.abs()));
        let scale = most / QUERY_MAX;
        let (mut length, mut residual) = (0.0, 0.0);
        let mut values = vec![0i8; columns];
        for (coarse, &value) in values.iter_mut().zip(exact) {
            *coarse = (value / scale).round().clamp(-QUERY_MAX, QUERY_MAX) as i8;
            length += f64::from(value).powi(2);
            residual += (f64::from(value) - f64::from(*coarse) * f64::from(scale)).powi(2);
        }
        let sum = values.iter().map(|&value| i32::from(value)).sum();
        Self { values, sum, scale, length: f64::sqrt(length), residual: f64::sqrt(residual) }
    }
}

fn round_up(value: f64) -> f32 {
    (value as f32).next_up()
}

/// The sum of `v · q'` over all columns of a row.
fn plain_product(bits: &[u8], query: &[i8]) -> i32 {
    let group = |(bits, query): (&[u8], &[i8])| -> i32 {
        let (high, low) = bits.split_at(HIGH_BYTES);
        let level = |i: usize| {
            i32::from(high[i % HIGH_BYTES] >> (4 * (i / HIGH_BYTES)) & 15) << 1 | i32::from(low[i / 8] >> (i % 8) & 1)
        };
        query.iter().enumerate().map(|(i, &query)| level(i) * i32::from(query)).sum()
    };
    bits.chunks_exact(GROUP_BYTES).zip(query.chunks_exact(GROUP)).map(group).sum()
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::{GROUP, GROUP_BYTES, HIGH_BYTES};
    use std::arch::x86_64::{
        __m512i, _MM_HINT_T0, _mm_prefetch, _mm512_add_epi32, _mm512_and_si512, _mm512_dpbusd_epi32,
        _mm512_loadu_si512, _mm512_mask_add_epi8, _mm512_reduce_add_epi32, _mm512_set1_epi8, _mm512_setzero_si512,
        _mm512_slli_epi16, _mm512_srli_epi16,
    };

    /// How far ahead of the scan memory is asked for; as in `kernel`.
    const AHEAD: usize = 2048;

    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(super) fn products(bits: &[u8], groups: usize, query: &[i8], products: &mut [i32]) {
        let query = &query.as_chunks::<GROUP>().0[..groups];
        let rows = bits.as_chunks::<GROUP_BYTES>().0.chunks_exact(groups.max(1));
        for (product, row) in products.iter_mut().zip(rows) {
            for line in (0..row.len() * GROUP_BYTES).step_by(64) {
                _mm_prefetch::<_MM_HINT_T0>(row.as_ptr().cast::<i8>().wrapping_add(AHEAD + line));
            }
            *product = one_product(row, query);
        }
    }

    /// The same for rows that lie anywhere.
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(super) fn products_of(bits: &[u8], groups: usize, entries: &[u32], query: &[i8], products: &mut [i32]) {
        let query = &query.as_chunks::<GROUP>().0[..groups];
        let bits = bits.as_chunks::<GROUP_BYTES>().0;
        let ahead = (AHEAD / (groups * GROUP_BYTES).max(1)).max(1);
        for (i, (product, entry)) in products.iter_mut().zip(entries).enumerate() {
            if let Some(next) = entries.get(i + ahead) {
                let next = bits.as_ptr().wrapping_add(*next as usize * groups).cast::<i8>();
                for line in (0..groups * GROUP_BYTES + 63).step_by(64) {
                    _mm_prefetch::<_MM_HINT_T0>(next.wrapping_add(line));
                }
            }
            *product = one_product(&bits[*entry as usize * groups..][..groups], query);
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    fn one_product(row: &[[u8; GROUP_BYTES]], query: &[[i8; GROUP]]) -> i32 {
        let (one, mask) = (_mm512_set1_epi8(1), _mm512_set1_epi8(0b1_1110));
        // Two sums, so that no product waits for the one before it.
        let (mut left, mut right) = (_mm512_setzero_si512(), _mm512_setzero_si512());
        for (bits, query) in row.iter().zip(query) {
            let high = load(bits[..HIGH_BYTES].as_ptr().cast());
            let low = |at: usize| bits[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            let first = _mm512_and_si512(_mm512_slli_epi16::<1>(high), mask);
            let second = _mm512_and_si512(_mm512_srli_epi16::<3>(high), mask);
            let first = _mm512_mask_add_epi8(first, low(HIGH_BYTES), first, one);
            let second = _mm512_mask_add_epi8(second, low(HIGH_BYTES + 8), second, one);
            left = _mm512_dpbusd_epi32(left, first, load(query.as_ptr()));
            right = _mm512_dpbusd_epi32(right, second, load(query[GROUP / 2..].as_ptr()));
        }
        _mm512_reduce_add_epi32(_mm512_add_epi32(left, right))
    }

    /// Loads 64 bytes.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load(bytes: *const i8) -> __m512i {
        // SAFETY: all callers pass the start of at least 64 bytes of a slice.
        unsafe { _mm512_loadu_si512(bytes.cast()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::dense::tests::matrix;

    #[test]
    fn no_score_is_above_its_bound() {
        for columns in [16, 128, 384, 400] {
            let rows = matrix(3000, columns, 11);
            let coarse = Coarse::new(&rows.data, columns).unwrap();
            for query in matrix(5, columns, 12).iter() {
                let bounds = coarse.bounds(query, 10, None);
                for (row, upper) in rows.iter().zip(&bounds.upper) {
                    let score: f64 = row.iter().zip(query).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
                    assert!(f64::from(*upper) >= score, "{columns}: {score} is above {upper}");
                    assert!(f64::from(*upper) < score + 0.3, "{columns}: {upper} says nothing about {score}");
                }
            }
        }
    }

    #[test]
    fn rows_of_zeros_huge_and_tiny_numbers_are_bounded_too() {
        let rows = [[0.0f32; 16], [1e30; 16], [1e-42; 16], [-3.0; 16]].concat();
        let coarse = Coarse::new(&rows, 16).unwrap();
        for query in [[1.0f32; 16], [-1.0; 16], [0.0; 16], [1e-40; 16]] {
            let bounds = coarse.bounds(&query, 2, None);
            for (row, upper) in rows.chunks(16).zip(bounds.upper) {
                let score: f32 = row.iter().zip(&query).map(|(a, b)| a * b).sum();
                assert!(upper >= score, "{score} is above {upper}");
            }
        }
    }

    #[test]
    fn vector_instructions_find_what_plain_code_finds() {
        let rows = matrix(50, 256, 3);
        let coarse = Coarse::new(&rows.data, 256).unwrap();
        let query = Query::new(rows.row(7), 256);
        let mut products = [0; 50];
        coarse.products(&coarse.bits, &query.values, &mut products);
        for (product, bits) in products.iter().zip(coarse.bits.chunks(2 * GROUP_BYTES)) {
            assert_eq!(*product, plain_product(bits, &query.values));
        }
        let mut some = [0; 4];
        coarse.products_of(&[2, 3, 17, 49], &query.values, &mut some);
        assert_eq!(some, [products[2], products[3], products[17], products[49]]);
    }
}
