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

#![expect(unsafe_code, reason = "run-time dispatch to vector instructions, and loads of whole registers")]

#[cfg(target_arch = "x86_64")]
use super::kernel::AHEAD;
use super::{share::share, top::Top};
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
/// How many rows a thread reads in one batch.
const BATCH_ROWS: usize = 1024;
/// How many numbers of a row are handled at once.
const LANES: usize = 8;
/// From this number on, `f32` holds only whole numbers.
const WHOLE: f32 = 8_388_608.0;
/// More than the rounding error of a number of at most 16 that was multiplied by the inverse of the scale, and than the
/// relative error of a sum of 16 squares.
const ROUNDING: f64 = 32.0 * f32::EPSILON as f64;
/// A row or a query with a smaller scale is taken as zeros: the product of two such scales could be too small for `f32`.
const LEAST_SCALE: f32 = 1.0 / (1u64 << 60) as f32;

/// Rows in five bits per number, and how far each is from its exact row.
#[derive(Debug)]
pub(super) struct Coarse {
    columns: usize,
    groups: usize,
    bits: MmapMut,
    rows: Vec<CoarseRow>,
    /// The greatest length of a row, exact or coarse.
    longest: f64,
    /// The processor instructions that it is read with.
    dot_product: DotProduct,
    /// Memory for the bounds of the next query: new memory would cost a page fault
    /// for every thousand bounds.
    spare: Mutex<Vec<f32>>,
}

/// What is kept about a row besides its bits.
#[derive(Debug, Clone, Copy, Default)]
struct CoarseRow {
    scale: f32,
    /// The length of the difference to the exact row, rounded up.
    residual: f32,
}

/// Bounds on the scores of entries, and the entries that look best.
#[derive(Debug)]
pub(super) struct Bounds {
    /// An upper bound of each entry's score.
    pub(super) upper: Vec<f32>,
    /// The entries that look best.
    pub(super) likely: Vec<u32>,
}

/// A query in eight bits.
#[derive(Debug)]
struct CoarseQuery {
    values: Vec<i8>,
    sum: i32,
    scale: f32,
    /// Of the exact query.
    length: f64,
    /// Of the difference between the two.
    residual: f64,
}

impl Coarse {
    /// Whether this processor reads the copy faster than the exact rows:
    /// without instructions for products of bytes, unpacking costs more than it saves.
    pub(super) fn is_fast_here() -> bool {
        DotProduct::available()[0] != DotProduct::Plain
    }

    /// Makes the copy, on the threads of the current rayon pool. `data` holds
    /// whole rows of `columns` finite numbers. Fails if there is no memory for it.
    pub(super) fn new(data: &[f32], columns: usize) -> io::Result<Self> {
        let groups = columns.div_ceil(GROUP);
        let n_rows = data.len() / columns.max(1);
        // A map instead of a vector, since a map can ask for large pages.
        let mut bits = MmapMut::map_anon((n_rows * groups * GROUP_BYTES).max(1))?;
        #[cfg(target_os = "linux")]
        drop(bits.advise(memmap2::Advice::HugePage));
        let mut rows = vec![CoarseRow::default(); n_rows];
        let longest = bits
            .par_chunks_mut((groups * GROUP_BYTES).max(1))
            .zip(&mut rows)
            .zip(data.par_chunks(columns.max(1)))
            .with_min_len(BATCH_ROWS)
            .map(|((bits, row), exact)| {
                let (made, length) = quantize(exact, bits);
                *row = made;
                length
            })
            .reduce(|| 0.0, f64::max);
        Ok(Self {
            columns,
            groups,
            bits,
            rows,
            longest,
            dot_product: DotProduct::available()[0],
            spare: Mutex::default(),
        })
    }

    /// Bounds for all entries, or for some in ascending order, and the `k` of
    /// them that look best.
    pub(super) fn bounds(&self, query: &[f32], k: usize, among: Option<&[u32]>) -> Bounds {
        let query = CoarseQuery::new(query, self.groups * GROUP);
        // What rounding adds: the exact score is a sum of `columns` products in
        // `f32`, the coarse one a product of three numbers.
        let rounding = (self.columns + 8) as f64 * f64::from(f32::EPSILON);
        let slack = self.longest * (query.residual + 2.0 * rounding * (query.length + query.residual));
        let (slack, length, half) = (round_up(slack), round_up(query.length), 0.5 * query.scale);
        let mut upper = std::mem::take(&mut *self.spare.lock().unwrap_or_else(PoisonError::into_inner));
        upper.resize(among.map_or(self.rows.len(), <[u32]>::len), 0.0);
        let score = |mut top: Top, (batch, upper): (usize, &mut [f32])| {
            let first = batch * BATCH_ROWS;
            let mut products = [0; BATCH_ROWS];
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
        };
        let likely = share(upper.chunks_mut(BATCH_ROWS).enumerate(), || Top::new(k), score, Top::merge);
        Bounds { upper, likely: likely.into_sorted().into_iter().map(|(entry, _)| entry).collect() }
    }

    /// Keeps the memory of bounds for the next query.
    pub(super) fn recycle(&self, bounds: Bounds) {
        *self.spare.lock().unwrap_or_else(PoisonError::into_inner) = bounds.upper;
    }

    /// Fills `products` with the sums of `v · q'` of the first rows.
    fn products(&self, bits: &[u8], query: &[i8], products: &mut [i32]) {
        self.dot_product.products(&bits.as_chunks().0[..products.len() * self.groups], self.groups, query, products);
    }

    /// Fills `products` with the sums of `v · q'` of the first of these entries.
    fn products_of(&self, entries: &[u32], query: &[i8], products: &mut [i32]) {
        self.dot_product.products_of(self.bits.as_chunks().0, self.groups, entries, query, products);
    }
}

/// Writes a row's bits. Also returns the length of the exact or of the coarse
/// row, whichever is greater.
fn quantize(exact: &[f32], bits: &mut [u8]) -> (CoarseRow, f64) {
    // In lanes, so that no number waits for the one before it.
    let (pieces, rest) = exact.as_chunks::<LANES>();
    let mut most = [0.0f32; LANES];
    pieces
        .iter()
        .for_each(|values| most.iter_mut().zip(values).for_each(|(most, value)| *most = most.max(value.abs())));
    let most = most.iter().chain(rest).fold(0.0f32, |most, value| most.max(value.abs()));
    let (scale, columns) = (most / MIDDLE, exact.len() as f64);
    if scale < LEAST_SCALE {
        let length = f64::from(most) * columns.sqrt();
        bits.fill(0);
        return (CoarseRow { scale: 0.0, residual: round_up(length) }, length);
    }
    let inverse = 1.0 / scale;
    // The squares of the differences, of the exact row and of the coarse one, in units of the scale.
    let mut sums = [0.0f64; 3];
    for (exact, bits) in exact.chunks(GROUP).zip(bits.chunks_exact_mut(GROUP_BYTES)) {
        let (mut values, mut levels) = ([0.0f32; GROUP], [0u8; GROUP]);
        values[..exact.len()].copy_from_slice(exact);
        let mut of_group = [[0.0f32; LANES]; 3];
        let [differences, exacts, coarses] = &mut of_group;
        let pieces = levels.as_chunks_mut::<LANES>().0.iter_mut().zip(values.as_chunks::<LANES>().0);
        for (levels, values) in pieces.take(exact.len().div_ceil(LANES)) {
            for place in 0..LANES {
                let value = values[place] * inverse;
                // The sum has no bits for fractions: its lowest byte is the level.
                let whole = value + MIDDLE + WHOLE;
                levels[place] = whole.to_bits() as u8;
                let coarse = whole - WHOLE - MIDDLE;
                let difference = value - coarse;
                differences[place] += difference * difference;
                exacts[place] += value * value;
                coarses[place] += coarse * coarse;
            }
        }
        for (sum, of_group) in sums.iter_mut().zip(of_group) {
            *sum += of_group.into_iter().map(f64::from).sum::<f64>();
        }
        let (high, low) = bits.split_at_mut(HIGH_BYTES);
        let (left, right) = levels.split_at(HIGH_BYTES);
        for ((high, left), right) in high.iter_mut().zip(left).zip(right) {
            *high = left >> 1 | (right >> 1) << 4;
        }
        for (low, levels) in low.iter_mut().zip(levels.as_chunks::<8>().0) {
            // The product brings the lowest bit of each byte into the highest byte.
            let lowest = u64::from_le_bytes(*levels) & 0x0101_0101_0101_0101;
            *low = (lowest.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8;
        }
    }
    let [residual, exact_length, coarse_length] = sums.map(|squares| {
        // Each number is off by rounding, and so is the sum of their squares.
        let length = squares.sqrt() * (1.0 + ROUNDING) + columns.sqrt() * ROUNDING;
        length * f64::from(scale)
    });
    (CoarseRow { scale, residual: round_up(residual) }, f64::max(exact_length, coarse_length))
}

impl CoarseQuery {
    fn new(exact: &[f32], columns: usize) -> Self {
        let most = exact.iter().fold(0.0f32, |most, value| most.max(value.abs()));
        let scale = most / QUERY_MAX;
        let (mut length, mut residual) = (0.0, 0.0);
        let mut values = vec![0i8; columns];
        if scale < LEAST_SCALE {
            let length = exact.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
            return Self { values, sum: 0, scale: 0.0, length, residual: length };
        }
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

/// The bits of [`GROUP`] columns of a row.
type Group = [u8; GROUP_BYTES];
type QueryGroup = [i8; GROUP];

/// The instructions that multiply a query with rows. All give the same sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DotProduct {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Plain,
}

impl DotProduct {
    /// The instructions of this processor, the fastest first.
    fn available() -> Vec<Self> {
        let mut available = Vec::new();
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vnni")
            {
                available.push(Self::Avx512);
            }
            available.push(Self::Avx2);
        }
        available.push(Self::Plain);
        available
    }

    fn products(self, bits: &[Group], groups: usize, query: &[i8], products: &mut [i32]) {
        let query = &query.as_chunks().0[..groups];
        match self {
            // SAFETY: these two variants come only from `available`, which saw the instructions.
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => unsafe { avx512::products(bits, query, products) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => unsafe { avx2::products(bits, query, products) },
            Self::Plain => {
                let rows = bits.chunks_exact(groups.max(1));
                rows.zip(products).for_each(|(row, product)| *product = plain_product(row, query));
            }
        }
    }

    fn products_of(self, bits: &[Group], groups: usize, entries: &[u32], query: &[i8], products: &mut [i32]) {
        let query = &query.as_chunks().0[..groups];
        match self {
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => unsafe { avx512::products_of(bits, entries, query, products) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => unsafe { avx2::products_of(bits, entries, query, products) },
            Self::Plain => {
                let rows = entries.iter().map(|entry| &bits[*entry as usize * groups..][..groups]);
                rows.zip(products).for_each(|(row, product)| *product = plain_product(row, query));
            }
        }
    }
}

/// The sum of `v · q'` over all columns of a row.
fn plain_product(row: &[Group], query: &[QueryGroup]) -> i32 {
    let group = |(bits, query): (&Group, &QueryGroup)| -> i32 {
        let (high, low) = bits.split_at(HIGH_BYTES);
        let level = |i: usize| {
            i32::from(high[i % HIGH_BYTES] >> (4 * (i / HIGH_BYTES)) & 15) << 1 | i32::from(low[i / 8] >> (i % 8) & 1)
        };
        query.iter().enumerate().map(|(i, &query)| level(i) * i32::from(query)).sum()
    };
    row.iter().zip(query).map(group).sum()
}

/// The products of all rows, by a function that makes one.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn scan(bits: &[Group], query: &[QueryGroup], products: &mut [i32], one: impl Fn(&[Group], &[QueryGroup]) -> i32) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    for (product, row) in products.iter_mut().zip(bits.chunks_exact(query.len().max(1))) {
        for line in (0..size_of_val(row)).step_by(64) {
            // SAFETY: a hint, which reads nothing.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(row.as_ptr().cast::<i8>().wrapping_add(AHEAD + line)) };
        }
        *product = one(row, query);
    }
}

/// [`scan`] of the rows of some entries, which may be anywhere.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn visit(
    bits: &[Group],
    entries: &[u32],
    query: &[QueryGroup],
    products: &mut [i32],
    one: impl Fn(&[Group], &[QueryGroup]) -> i32,
) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    let groups = query.len();
    let ahead = (AHEAD / (groups * GROUP_BYTES).max(1)).max(1);
    for (i, (product, entry)) in products.iter_mut().zip(entries).enumerate() {
        if let Some(next) = entries.get(i + ahead) {
            let next = bits.as_ptr().wrapping_add(*next as usize * groups).cast::<i8>();
            for line in (0..groups * GROUP_BYTES + 63).step_by(64) {
                // SAFETY: a hint, which reads nothing.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(next.wrapping_add(line)) };
            }
        }
        *product = one(&bits[*entry as usize * groups..][..groups], query);
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::{GROUP, Group, HIGH_BYTES, QueryGroup, scan, visit};
    use std::arch::x86_64::{
        __m512i, _mm512_add_epi32, _mm512_and_si512, _mm512_dpbusd_epi32, _mm512_loadu_si512, _mm512_mask_add_epi8,
        _mm512_reduce_add_epi32, _mm512_set1_epi8, _mm512_setzero_si512, _mm512_slli_epi16, _mm512_srli_epi16,
    };

    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(super) fn products(bits: &[Group], query: &[QueryGroup], products: &mut [i32]) {
        scan(bits, query, products, |row, query| one_product(row, query));
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(super) fn products_of(bits: &[Group], entries: &[u32], query: &[QueryGroup], products: &mut [i32]) {
        visit(bits, entries, query, products, |row, query| one_product(row, query));
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    fn one_product(row: &[Group], query: &[QueryGroup]) -> i32 {
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

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{Group, HIGH_BYTES, QueryGroup, scan, visit};
    use std::arch::x86_64::{
        __m256i, _mm_loadu_si128, _mm256_add_epi16, _mm256_add_epi32, _mm256_and_si256, _mm256_broadcastsi128_si256,
        _mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_maddubs_epi16, _mm256_set_epi64x,
        _mm256_set1_epi8, _mm256_set1_epi16, _mm256_set1_epi64x, _mm256_setzero_si256, _mm256_shuffle_epi8,
        _mm256_slli_epi16, _mm256_srli_epi16, _mm256_storeu_si256, _mm256_sub_epi8,
    };

    #[target_feature(enable = "avx2")]
    pub(super) fn products(bits: &[Group], query: &[QueryGroup], products: &mut [i32]) {
        scan(bits, query, products, |row, query| one_product(row, query));
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn products_of(bits: &[Group], entries: &[u32], query: &[QueryGroup], products: &mut [i32]) {
        visit(bits, entries, query, products, |row, query| one_product(row, query));
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn one_product(row: &[Group], query: &[QueryGroup]) -> i32 {
        let mask = _mm256_set1_epi8(0b1_1110);
        // Each of the 32 bytes that hold a column's bits gets the byte of the low plane where its own bit is.
        const EIGHT: i64 = 0x0101_0101_0101_0101;
        let place = |first: i64| {
            _mm256_set_epi64x((first + 3) * EIGHT, (first + 2) * EIGHT, (first + 1) * EIGHT, first * EIGHT)
        };
        let places = [place(0), place(4), place(8), place(12)];
        let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64.cast_signed());
        let mut sum = _mm256_setzero_si256();
        for (bits, query) in row.iter().zip(query) {
            // SAFETY: 32, 32 and 16 bytes of a group.
            let (left, right, low) = unsafe {
                let start = bits.as_ptr();
                let low = _mm_loadu_si128(start.add(HIGH_BYTES).cast());
                (load(start), load(start.add(32)), _mm256_broadcastsi128_si256(low))
            };
            let levels = [
                _mm256_slli_epi16::<1>(left),
                _mm256_slli_epi16::<1>(right),
                _mm256_srli_epi16::<3>(left),
                _mm256_srli_epi16::<3>(right),
            ];
            // Four products of two columns each: at most 4 · 2 · 31 · 127 = 31,496, which 16 bits hold.
            let mut part = _mm256_setzero_si256();
            for (i, (level, place)) in levels.into_iter().zip(places).enumerate() {
                let low = _mm256_and_si256(_mm256_shuffle_epi8(low, place), bit);
                // All ones, which is -1, where the bit is set.
                let level = _mm256_sub_epi8(_mm256_and_si256(level, mask), _mm256_cmpeq_epi8(low, bit));
                // SAFETY: 32 of the 128 bytes of a query's group.
                let query = unsafe { load(query.as_ptr().add(32 * i).cast()) };
                part = _mm256_add_epi16(part, _mm256_maddubs_epi16(level, query));
            }
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(part, _mm256_set1_epi16(1)));
        }
        let mut sums = [0i32; 8];
        // SAFETY: the array holds the 32 bytes that are written.
        unsafe { _mm256_storeu_si256(sums.as_mut_ptr().cast(), sum) };
        sums.iter().sum()
    }

    /// Loads 32 bytes.
    ///
    /// # Safety
    /// They must be there.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load(bytes: *const u8) -> __m256i {
        // SAFETY: the caller's.
        unsafe { _mm256_loadu_si256(bytes.cast()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::dense_part::tests::matrix;

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
        let numbers = [0.0f32, -0.0, 1e-42, 5.1e-38, 7e-38, -1e-20, 1e-17, 1e-3, -3.0, 1e18, 1e36];
        for number in numbers {
            // Alone, because a copy allows for the longest of its rows.
            let mixed: Vec<f32> = (0..16).map(|place| number * [1.0, -0.3, 0.01][place % 3]).collect();
            let rows = [vec![number; 16], mixed].concat();
            let coarse = Coarse::new(&rows, 16).unwrap();
            for query in [1.0f32, -1.0, 0.0, 1e-40, 1e-38, -1e-19] {
                let bounds = coarse.bounds(&[query; 16], 2, None);
                for (row, upper) in rows.chunks(16).zip(bounds.upper) {
                    let score: f64 = row.iter().map(|value| f64::from(*value) * f64::from(query)).sum();
                    assert!(f64::from(upper) >= score, "{number} {query}: {score} is above {upper}");
                }
            }
        }
    }

    #[test]
    fn all_instructions_of_this_processor_give_the_same_sums() {
        for columns in [16, 128, 256, 400] {
            let rows = matrix(50, columns, 3);
            let coarse = Coarse::new(&rows.data, columns).unwrap();
            let mut queries = vec![CoarseQuery::new(rows.row(7), coarse.groups * GROUP).values];
            // The greatest sums that there can be.
            queries.extend([i8::MAX, -i8::MAX].map(|most| vec![most; coarse.groups * GROUP]));
            let mut highest = coarse.bits.to_vec();
            highest[..coarse.groups * GROUP_BYTES].fill(u8::MAX);
            let bits = highest.as_chunks().0;
            for query in queries {
                let found = DotProduct::available().into_iter().map(|dot_product| {
                    let (mut all, mut some) = ([0; 50], [0; 4]);
                    dot_product.products(bits, coarse.groups, &query, &mut all);
                    dot_product.products_of(bits, coarse.groups, &[0, 3, 17, 49], &query, &mut some);
                    assert_eq!(some, [all[0], all[3], all[17], all[49]]);
                    all
                });
                let found: Vec<_> = found.collect();
                assert!(found.iter().all(|sums| *sums == found[0]), "{columns}: {found:?}");
            }
        }
    }
}
