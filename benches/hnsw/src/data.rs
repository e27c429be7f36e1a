//! Vectors to search.

use rand::{Rng, SeedableRng, rngs::StdRng};
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;
use std::path::Path;

/// Vectors of length 1 around √n centres of uneven sizes, and queries drawn the same way. The spread gives the nearest
/// neighbours cosines of 0.6 to 0.9, like those of texts; with fewer or tighter clusters every index looks good.
pub fn clustered(rows: usize, dimensions: usize, queries: usize) -> (Vec<f32>, Vec<f32>) {
    let clusters = (rows as f64).sqrt() as usize;
    let mut random = StdRng::seed_from_u64(5);
    let mut centres = vec![0f32; clusters * dimensions];
    for centre in centres.chunks_mut(dimensions) {
        centre.iter_mut().for_each(|value| *value = StandardNormal.sample(&mut random));
        scale(centre);
    }
    let draw = |count: usize, seed: u64| {
        let mut vectors = vec![0f32; count * dimensions];
        vectors.par_chunks_mut(dimensions).enumerate().for_each(|(number, vector)| {
            let mut random = StdRng::seed_from_u64(seed ^ (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let cluster = ((clusters as f64).powf(random.random::<f64>()) as usize).min(clusters - 1);
            let centre = &centres[cluster * dimensions..(cluster + 1) * dimensions];
            for (value, centre) in vector.iter_mut().zip(centre) {
                let noise: f32 = StandardNormal.sample(&mut random);
                *value = centre + 0.8 * noise / (dimensions as f32).sqrt();
            }
            scale(vector);
        });
        vectors
    };
    (draw(rows, 11), draw(queries, 77))
}

/// The first rows of a file, and its last as queries.
pub fn read(file: &Path, dimensions: usize, rows: usize, queries: usize) -> (Vec<f32>, Vec<f32>) {
    let bytes = std::fs::read(file).unwrap();
    let values: Vec<f32> = bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect();
    let all = values.len() / dimensions;
    let rows = rows.min(all - queries);
    (values[..rows * dimensions].to_vec(), values[(all - queries) * dimensions..].to_vec())
}

fn scale(vector: &mut [f32]) {
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    vector.iter_mut().for_each(|value| *value /= length);
}
