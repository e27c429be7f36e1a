//! A small seeded generator of random numbers: SplitMix64.
//!
//! Used for resampling and for choosing passages, where results must be the
//! same in all versions, which no library promises. Not for secrets.
//!
//! Source: G. L. Steele, D. Lea, C. H. Flood, "Fast Splittable Pseudorandom
//! Number Generators", OOPSLA 2014.

/// A stream of random numbers that depends on its seed alone.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Starts the stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The stream of one resample of a seed, so that resamples can be made in any
    /// order.
    pub(super) fn of_resample(seed: u64, resample: usize) -> Self {
        Self::new(seed.wrapping_add((resample as u64).wrapping_mul(0xA076_1D64_78BD_642F)))
    }

    /// The next 64 random bits.
    pub(super) fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below the bound, each equally likely but for a bias of at
    /// most bound / 2⁶⁴. 0 for a bound of 0.
    pub fn below(&mut self, bound: usize) -> usize {
        // The high half of the product is the scaled number; it is below `bound`.
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }

    /// A number in (0, 1], each of 2⁵³ equally likely.
    pub fn open_unit(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// A number of the standard normal distribution.
    ///
    /// Source: G. E. P. Box and M. E. Muller, "A Note on the Generation of Random
    /// Normal Deviates", Annals of Mathematical Statistics 29 (1958).
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.open_unit().ln()).sqrt() * (std::f64::consts::TAU * self.open_unit()).cos()
    }

    /// Puts the items into a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_that_of_the_published_algorithm() {
        let mut random = Random::new(1_234_567);
        assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(random.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn numbers_below_a_bound_reach_every_value_and_no_other() {
        let mut random = Random::new(7);
        let mut seen = [0; 5];
        for _ in 0..5_000 {
            seen[random.below(5)] += 1;
        }
        assert!(seen.iter().all(|&count| (800..1_200).contains(&count)), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn a_shuffle_keeps_every_item_and_depends_on_the_seed_alone() {
        let shuffled = |seed| {
            let mut items: Vec<u32> = (0..50).collect();
            Random::new(seed).shuffle(&mut items);
            items
        };
        let mut sorted = shuffled(1);
        assert_eq!(shuffled(1), sorted);
        assert_ne!(shuffled(2), sorted);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..50).collect::<Vec<_>>());
    }
}
