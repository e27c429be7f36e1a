//! What a term adds to the score of an entry.

use super::{Saturation, blocks::BLOCK};

/// The lengths whose norms are kept. Texts are rarely longer.
const KEPT: u32 = 4096;

/// The inverse document frequency of a term that this many of all entries contain.
pub(super) fn idf(entries: usize, frequency: u64) -> f64 {
    let (n, frequency) = (entries as f64, frequency as f64);
    (1.0 + (n - frequency + 0.5) / (frequency + 0.5)).ln()
}

/// What the length of an entry adds to a term's count below the fraction: `k1 (1 − b + b · length / mean length)`.
#[derive(Debug, Clone)]
pub(super) struct Norms {
    k1: f64,
    b: f64,
    mean_length: f64,
    of_lengths: Vec<f64>,
}

impl Norms {
    /// The norms of an index with this mean length and longest entry.
    pub(super) fn new(Saturation { k1, b }: Saturation, mean_length: f64, longest: u32) -> Self {
        let mut norms = Self { k1: f64::from(k1), b: f64::from(b), mean_length, of_lengths: Vec::new() };
        norms.of_lengths = (0..=longest.min(KEPT)).map(|length| norms.compute(length)).collect();
        norms
    }

    /// Whether a weight rises with the count, falls with the length, and is never negative.
    pub(super) fn are_usual(&self) -> bool {
        self.k1 >= 0.0 && self.k1.is_finite() && (0.0..=1.0).contains(&self.b) && self.mean_length > 0.0
    }

    pub(super) fn of(&self, length: u32) -> f64 {
        self.of_lengths.get(length as usize).copied().unwrap_or_else(|| self.compute(length))
    }

    fn compute(&self, length: u32) -> f64 {
        self.k1 * (1.0 - self.b + self.b * f64::from(length) / self.mean_length)
    }
}

/// The norms and weights of the entries of a block.
#[derive(Debug)]
pub(super) struct Scratch {
    norms: [f64; BLOCK],
    pub(super) weights: [f32; BLOCK],
}

impl Scratch {
    pub(super) const EMPTY: Self = Self { norms: [0.0; BLOCK], weights: [0.0; BLOCK] };
}

/// The weights of one term.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weights<'a> {
    idf: f64,
    norms: &'a Norms,
}

impl<'a> Weights<'a> {
    pub(super) fn new(idf: f64, norms: &'a Norms) -> Self {
        Self { idf, norms }
    }

    /// What the term adds to the score of an entry of this length that contains it `count` times, before it is rounded
    /// to an `f32`.
    pub(super) fn exact(&self, count: u32, length: u32) -> f64 {
        let count = f64::from(count);
        self.idf * count / (count + self.norms.of(length))
    }

    /// What the term adds to the scores of several entries, of which each has its count and length.
    pub(super) fn of_all(&self, counts: &[u32], lengths: impl Iterator<Item = u32>, scratch: &mut Scratch) {
        let Scratch { norms, weights } = scratch;
        norms.iter_mut().zip(lengths).for_each(|(norm, length)| *norm = self.norms.of(length));
        // Apart from the look-ups, so that the compiler divides several at once.
        for ((weight, &count), norm) in weights.iter_mut().zip(counts).zip(&*norms) {
            let count = f64::from(count);
            *weight = (self.idf * count / (count + norm)) as f32;
        }
    }
}
