//! Inner products of many rows with a few queries, as fast as memory or the
//! vector units allow. With [`coarse`](super::coarse) the only module of this
//! crate with `unsafe` code: calls of functions compiled for instructions that
//! were detected at run time, loads and stores of whole registers, and the view
//! of a memory-mapped file as numbers.
//!
//! The order of the additions is fixed: 16 lanes, each a chain of fused
//! multiply-adds over the columns, then a tree over the lanes that adds halves
//! to halves. So a score has the same bits on every machine, for every number
//! of threads, and whether its query came alone or in a batch.
//!
//! AVX-512 is written out, because what the compiler makes of the generic body
//! was measured at a third of its speed on batches. AVX2 and all others are
//! the generic body.

#![expect(unsafe_code, reason = "run-time dispatch to SIMD code and the view of a mapped file; see the module's head")]

use memmap2::{Advice, Mmap};
use std::{fs::File, io};

/// Rows have a multiple of this many columns: one AVX-512 register.
pub(super) const LANES: usize = 16;
pub(super) const ROWS: usize = 16;
/// The most queries that one call scores.
pub(super) const QUERIES: usize = 4;

type Lanes = [f32; LANES];

/// The instructions to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kernel {
    /// 512-bit registers.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// 256-bit registers and fused multiply-add.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Whatever the compiler may assume. Slow on x86 processors without FMA
    /// (before 2013), where a fused operation is a function call.
    Portable,
}

/// How far ahead of the scan memory is asked for, in bytes. The processor's own
/// prefetching stops at every 4 KiB page, which costs a quarter of the bandwidth.
pub(super) const AHEAD: usize = 2048;

impl Kernel {
    /// The fastest that this processor has.
    pub(super) fn detect() -> Self {
        Self::available().first().copied().unwrap_or(Self::Portable)
    }

    /// All that this processor has, fastest first.
    pub(super) fn available() -> Vec<Self> {
        let mut kernels = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                if is_x86_feature_detected!("avx512f") {
                    kernels.push(Self::Avx512);
                }
                kernels.push(Self::Avx2);
            }
        }
        kernels.push(Self::Portable);
        kernels
    }

    /// Scores up to [`ROWS`] rows against up to [`QUERIES`] queries:
    /// `scores[q][r]` is the inner product of query `q` and row `r`. Entries
    /// beyond the given rows and queries are unspecified.
    ///
    /// `rows` holds whole rows of `columns` values, a multiple of [`LANES`];
    /// every query has `columns` values.
    pub(super) fn scores(self, rows: &[f32], columns: usize, queries: &[&[f32]], scores: &mut [[f32; ROWS]; QUERIES]) {
        match self {
            // SAFETY: these two variants come only from `available`, which saw
            // the instructions.
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => unsafe { avx512::scores(rows, columns, queries, scores) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => unsafe { scores_avx2(rows, columns, queries, scores) },
            Self::Portable => scores_body(rows, columns, queries, scores),
        }
    }

    /// The inner product of one row and one query, with the bits that
    /// [`scores`](Self::scores) gives. Both hold whole [`LANES`].
    pub(super) fn score(self, row: &[f32], query: &[f32]) -> f32 {
        let (row, query) = (row.as_chunks::<LANES>().0, query.as_chunks::<LANES>().0);
        match self {
            // SAFETY: these two variants come only from `available`, which saw
            // AVX2 and FMA for both.
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 | Self::Avx2 => unsafe { score_avx2(row, query) },
            Self::Portable => score_body(row, query),
        }
    }

    /// Raises `best[i]` to the largest product of the vector of the question's
    /// token `i` with any row, times that row's scale.
    ///
    /// `token_vectors` holds these vectors, each of `columns` values between -[`TOKEN_LIMIT`]
    /// and [`TOKEN_LIMIT`]; `rows` holds whole rows, each a little-endian `f32`
    /// scale and `columns` signed bytes. At most [`TOKEN_COLUMNS`] columns: the
    /// products are added as integers, so the result has the same bits on
    /// every machine.
    pub(super) fn best_of_tokens(self, token_vectors: &[i16], columns: usize, rows: &[u8], best: &mut [f32]) {
        match self {
            // SAFETY: these two variants come only from `available`, which saw
            // AVX2 for both.
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 | Self::Avx2 => unsafe { best_of_tokens_avx2(token_vectors, columns, rows, best) },
            Self::Portable => best_of_tokens_body(token_vectors, columns, rows, best),
        }
    }
}

/// The largest value in a question token's vector: with [`TOKEN_COLUMNS`] columns
/// and signed bytes, a sum of products still fits into an `i32`.
pub(super) const TOKEN_LIMIT: i16 = 2047;
/// The most columns of a row of signed bytes.
pub(super) const TOKEN_COLUMNS: usize = 8192;

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn best_of_tokens_avx2(token_vectors: &[i16], columns: usize, rows: &[u8], best: &mut [f32]) {
    best_of_tokens_body(token_vectors, columns, rows, best);
}

#[inline(always)]
fn best_of_tokens_body(token_vectors: &[i16], columns: usize, rows: &[u8], best: &mut [f32]) {
    // Widened once for all tokens of the question.
    let mut wide = vec![0i16; columns];
    for row in rows.chunks_exact(columns + size_of::<f32>()) {
        let Some((scale, values)) = row.split_first_chunk() else { return };
        let scale = f32::from_le_bytes(*scale);
        wide.iter_mut().zip(values).for_each(|(wide, value)| *wide = i16::from(value.cast_signed()));
        for (token_vector, best) in token_vectors.chunks_exact(columns.max(1)).zip(best.iter_mut()) {
            let product = |(a, b): (&i16, &i16)| i32::from(*a).wrapping_mul(i32::from(*b));
            let sum = token_vector.iter().zip(&wide).map(product).fold(0, i32::wrapping_add);
            *best = best.max(sum as f32 * scale);
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn score_avx2(row: &[Lanes], query: &[Lanes]) -> f32 {
    score_body(row, query)
}

/// One row and one query.
#[inline(always)]
fn score_body(row: &[Lanes], query: &[Lanes]) -> f32 {
    let [[score]] = tile([query], [row], row.len());
    score
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn scores_avx2(rows: &[f32], columns: usize, queries: &[&[f32]], scores: &mut [[f32; ROWS]; QUERIES]) {
    scores_body(rows, columns, queries, scores);
}

#[inline(always)]
fn scores_body(rows: &[f32], columns: usize, queries: &[&[f32]], scores: &mut [[f32; ROWS]; QUERIES]) {
    let steps = columns / LANES;
    let n_rows = rows.len() / columns.max(1);
    if n_rows == 0 || queries.is_empty() {
        return;
    }
    // Beyond the last row the last one is scored again: a branch-free body is
    // worth more than the few products saved.
    let row = |i: usize| {
        let start = i.min(n_rows - 1) * columns;
        &rows[start..start + columns].as_chunks::<LANES>().0[..steps]
    };
    match queries {
        [query] => {
            let query = &query.as_chunks::<LANES>().0[..steps];
            for r in (0..ROWS).step_by(4) {
                let [products] = tile([query], [row(r), row(r + 1), row(r + 2), row(r + 3)], steps);
                scores[0][r..r + 4].copy_from_slice(&products);
            }
        }
        _ => {
            let query = |i: usize| &queries[i.min(queries.len() - 1)].as_chunks::<LANES>().0[..steps];
            let queries = [query(0), query(1), query(2), query(3)];
            for r in (0..ROWS).step_by(4) {
                let products = tile(queries, [row(r), row(r + 1), row(r + 2), row(r + 3)], steps);
                for (scores, products) in scores.iter_mut().zip(products) {
                    scores[r..r + 4].copy_from_slice(&products);
                }
            }
        }
    }
}

/// All products of `Q` queries and `R` rows. Every loaded register is used
/// `R` or `Q` times, and the sums stay in registers.
#[inline(always)]
fn tile<const Q: usize, const R: usize>(queries: [&[Lanes]; Q], rows: [&[Lanes]; R], steps: usize) -> [[f32; R]; Q] {
    let mut sums = [[[0.0f32; LANES]; R]; Q];
    for step in 0..steps {
        for q in 0..Q {
            let query = &queries[q][step];
            for r in 0..R {
                let row = &rows[r][step];
                for lane in 0..LANES {
                    sums[q][r][lane] = query[lane].mul_add(row[lane], sums[q][r][lane]);
                }
            }
        }
    }
    sums.map(|sums| sums.map(tree))
}

/// The sum of 16 lanes: halves are added to halves.
#[inline(always)]
fn tree(mut lanes: Lanes) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// The AVX-512 form of the body above; equal to it bit by bit.
#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::{AHEAD, LANES, Lanes, QUERIES, ROWS};
    use std::arch::x86_64::{
        __m512, _MM_HINT_T0, _mm_prefetch, _mm512_add_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_permutexvar_ps,
        _mm512_setr_epi32, _mm512_setzero_ps, _mm512_shuffle_f32x4, _mm512_shuffle_ps, _mm512_storeu_ps,
    };

    #[target_feature(enable = "avx512f")]
    pub(super) fn scores(rows: &[f32], columns: usize, queries: &[&[f32]], scores: &mut [[f32; ROWS]; QUERIES]) {
        let steps = columns / LANES;
        let n_rows = rows.len() / columns.max(1);
        if n_rows == 0 || queries.is_empty() {
            return;
        }
        let row = |i: usize| {
            let start = i.min(n_rows - 1) * columns;
            &rows[start..start + columns].as_chunks::<LANES>().0[..steps]
        };
        if let [query] = queries {
            let query = &query.as_chunks::<LANES>().0[..steps];
            let mut sums = [_mm512_setzero_ps(); 16];
            for (r, sum) in sums.iter_mut().enumerate() {
                for (query, row) in query.iter().zip(row(r)) {
                    // A prefetch reads nothing that the program could see, so
                    // an address beyond the rows does no harm.
                    _mm_prefetch::<_MM_HINT_T0>(row.as_ptr().cast::<i8>().wrapping_add(AHEAD));
                    *sum = _mm512_fmadd_ps(load(query), load(row), *sum);
                }
            }
            store(trees(sums), &mut scores[0]);
            return;
        }
        let query = |i: usize| &queries[i.min(queries.len() - 1)].as_chunks::<LANES>().0[..steps];
        let queries = [query(0), query(1), query(2), query(3)];
        for r in (0..ROWS).step_by(4) {
            let rows = [row(r), row(r + 1), row(r + 2), row(r + 3)];
            let mut sums = [_mm512_setzero_ps(); 16];
            for step in 0..steps {
                let rows = [load(&rows[0][step]), load(&rows[1][step]), load(&rows[2][step]), load(&rows[3][step])];
                for q in 0..4 {
                    let query = load(&queries[q][step]);
                    for r in 0..4 {
                        sums[4 * q + r] = _mm512_fmadd_ps(query, rows[r], sums[4 * q + r]);
                    }
                }
            }
            let mut products = [0.0; 16];
            store(trees(sums), &mut products);
            for (scores, products) in scores.iter_mut().zip(products.as_chunks::<4>().0) {
                scores[r..r + 4].copy_from_slice(products);
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load(lanes: &Lanes) -> __m512 {
        // SAFETY: the reference covers exactly the 16 values that are read.
        unsafe { _mm512_loadu_ps(lanes.as_ptr()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn store(register: __m512, lanes: &mut Lanes) {
        // SAFETY: the reference covers exactly the 16 values that are written.
        unsafe { _mm512_storeu_ps(lanes.as_mut_ptr(), register) }
    }

    /// The sums of 16 registers' lanes, as the lanes of one. Adding halves to
    /// halves while interleaving the registers needs 15 additions where 16
    /// separate trees need 64.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn trees(a: [__m512; 16]) -> __m512 {
        // Of 16 lanes, 8 are left per register: `i` in the low half, `i + 8` in the high.
        let mut b = [_mm512_setzero_ps(); 8];
        for i in 0..8 {
            let low = _mm512_shuffle_f32x4::<0b01_00_01_00>(a[i], a[i + 8]);
            let high = _mm512_shuffle_f32x4::<0b11_10_11_10>(a[i], a[i + 8]);
            b[i] = _mm512_add_ps(low, high);
        }
        // 4 lanes are left: registers i, i + 8, i + 4, i + 12.
        let mut c = [_mm512_setzero_ps(); 4];
        for i in 0..4 {
            let low = _mm512_shuffle_f32x4::<0b10_00_10_00>(b[i], b[i + 4]);
            let high = _mm512_shuffle_f32x4::<0b11_01_11_01>(b[i], b[i + 4]);
            c[i] = _mm512_add_ps(low, high);
        }
        // 2 lanes are left.
        let mut d = [_mm512_setzero_ps(); 2];
        for i in 0..2 {
            let low = _mm512_shuffle_ps::<0b01_00_01_00>(c[i], c[i + 2]);
            let high = _mm512_shuffle_ps::<0b11_10_11_10>(c[i], c[i + 2]);
            d[i] = _mm512_add_ps(low, high);
        }
        let low = _mm512_shuffle_ps::<0b10_00_10_00>(d[0], d[1]);
        let high = _mm512_shuffle_ps::<0b11_01_11_01>(d[0], d[1]);
        let order = _mm512_setr_epi32(0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7, 12, 14, 13, 15);
        _mm512_permutexvar_ps(order, _mm512_add_ps(low, high))
    }
}

/// Prefetches a row that will be read soon.
pub(super) fn prefetch(row: &[f32]) {
    #[cfg(target_arch = "x86_64")]
    for line in row.chunks(64 / size_of::<f32>()) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 processor has this instruction, and it reads nothing that the program could see.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
}

/// Maps a file that must not change while it is mapped: indexes are written
/// under another name and moved into place once, and never touched again.
///
/// `whole` says that all of it will be read, from start to end.
pub(super) fn map(file: &File, whole: bool) -> io::Result<Mmap> {
    // SAFETY: the file is immutable by the rule above. Whoever truncates it
    // from outside ends the process, as with any mapped file.
    let map = unsafe { Mmap::map(file)? };
    if whole {
        // A hint. Refusal costs only speed.
        drop(map.advise(Advice::WillNeed));
    }
    Ok(map)
}

/// Maps a file of which single places will be read.
pub(crate) fn map_file(file: &File) -> io::Result<Mmap> {
    let map = map(file, false)?;
    // A hint. Refusal costs only speed.
    drop(map.advise(Advice::Random));
    Ok(map)
}

/// Bytes as numbers, if they begin at a multiple of 4.
pub(super) fn floats(bytes: &[u8]) -> Option<&[f32]> {
    // SAFETY: every 4 bytes are a valid `f32`.
    let (before, floats, after) = unsafe { bytes.align_to::<f32>() };
    (before.is_empty() && after.is_empty()).then_some(floats)
}

/// Numbers as the bytes that files hold.
pub(super) fn bytes(floats: &[f32]) -> &[u8] {
    // SAFETY: a byte may have any value and any address.
    unsafe { floats.align_to::<u8>().1 }
}

#[cfg(target_endian = "big")]
compile_error!("index files hold little-endian numbers, and `floats` does not swap them");

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(n: usize, mut seed: u64) -> Vec<f32> {
        (0..n)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (seed >> 40) as f32 / (1u64 << 24) as f32 - 0.5
            })
            .collect()
    }

    #[test]
    fn all_kernels_give_the_same_bits_alone_and_in_batches() {
        for columns in [16, 48, 384, 768] {
            for n_rows in [1, 3, 15, 16] {
                let rows = numbers(columns * n_rows, 1);
                let queries = numbers(columns * 4, 2);
                let queries: Vec<&[f32]> = queries.chunks(columns).collect();
                for n_queries in 1..=4 {
                    for q in 0..n_queries {
                        let mut alone = [[0.0; ROWS]; QUERIES];
                        Kernel::Portable.scores(&rows, columns, &queries[q..=q], &mut alone);
                        for kernel in Kernel::available() {
                            let one = kernel.score(&rows[..columns], queries[q]);
                            assert_eq!(one.to_bits(), alone[0][0].to_bits(), "{kernel:?} {columns}, one row");
                            let mut batch = [[0.0; ROWS]; QUERIES];
                            kernel.scores(&rows, columns, &queries[..n_queries], &mut batch);
                            assert_eq!(
                                alone[0][..n_rows].iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
                                batch[q][..n_rows].iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
                                "{kernel:?} {columns}×{n_rows}, query {q} of {n_queries}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn scores_are_inner_products() {
        let rows = numbers(32 * 5, 3);
        let query = numbers(32, 4);
        let mut scores = [[0.0; ROWS]; QUERIES];
        Kernel::detect().scores(&rows, 32, &[&query], &mut scores);
        for (row, score) in rows.chunks(32).zip(scores[0]) {
            let exact: f64 = row.iter().zip(&query).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
            assert!((f64::from(score) - exact).abs() < 1e-6, "{score} is not {exact}");
        }
    }

    #[test]
    fn nothing_is_scored_without_rows_or_queries() {
        let mut scores = [[7.0; ROWS]; QUERIES];
        Kernel::detect().scores(&[], 16, &[&[0.0; 16]], &mut scores);
        Kernel::detect().scores(&[0.0; 16], 16, &[], &mut scores);
        assert_eq!(scores, [[7.0; ROWS]; QUERIES]);
    }

    #[test]
    fn the_best_product_of_each_token_is_the_same_for_every_kernel() {
        for columns in [1, 16, 37, 384, TOKEN_COLUMNS] {
            let token_vectors: Vec<i16> =
                numbers(columns * 3, 5).iter().map(|x| (x * 2.0 * f32::from(TOKEN_LIMIT)) as i16).collect();
            let mut rows = Vec::new();
            for (row, values) in numbers(columns * 5, 6).chunks(columns).enumerate() {
                rows.extend((0.25 * (row as f32 + 1.0)).to_le_bytes());
                rows.extend(values.iter().map(|x| ((x * 254.0) as i8).cast_unsigned()));
            }
            let row = |r: usize| &rows[r * (columns + 4) + 4..(r + 1) * (columns + 4)];
            let exact = |token_vector: &[i16], r: usize| {
                let products = token_vector.iter().zip(row(r)).map(|(a, b)| i64::from(*a) * i64::from(b.cast_signed()));
                products.sum::<i64>() as f32 * (0.25 * (r as f32 + 1.0))
            };
            let best = |token_vector: &[i16]| (0..5).map(|r| exact(token_vector, r)).fold(f32::NEG_INFINITY, f32::max);
            let expected: Vec<f32> = token_vectors.chunks(columns).map(best).collect();
            for kernel in Kernel::available() {
                let mut found = [f32::NEG_INFINITY; 3];
                kernel.best_of_tokens(&token_vectors, columns, &rows, &mut found);
                assert_eq!(found.as_slice(), expected, "{kernel:?}, {columns} columns");
            }
        }
        // The largest values that there may be do not overflow.
        let token_vectors = vec![TOKEN_LIMIT; TOKEN_COLUMNS];
        let mut rows = 1.0f32.to_le_bytes().to_vec();
        rows.resize(4 + TOKEN_COLUMNS, 127);
        let mut found = [f32::NEG_INFINITY];
        Kernel::detect().best_of_tokens(&token_vectors, TOKEN_COLUMNS, &rows, &mut found);
        assert_eq!(found, [TOKEN_COLUMNS as f32 * 127.0 * f32::from(TOKEN_LIMIT)]);
    }

    #[test]
    fn bytes_that_are_not_whole_numbers_are_refused() {
        let values = [1.0f32, 2.0];
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        assert!(floats(&bytes[..7]).is_none());
    }
}
