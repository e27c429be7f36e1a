//! How the files of a corpus are cut into what one task reads.
//!
//! A block is the unit that is computed again if one of its files changes. So
//! a file's own path and size alone decide whether a block begins with it,
//! whatever the files around it are (content-defined chunking, with a file in
//! place of a byte). A file that is added, removed or resized moves only the
//! boundary before itself: at most two blocks become new.
//!
//! The price of that is that blocks have no fixed size. The larger a file is,
//! the more often it begins a block, so most blocks have less than two times
//! [`MEAN_BYTES`] or [`MEAN_FILES`], and one in a thousand has seven times that.

use std::ops::Range;
use store::Key;

/// Small files of a block, on average.
const MEAN_FILES: u64 = 48;
/// Bytes of a block, on average, unless its files are so small that their
/// number decides. A file of this size or more always begins a block.
const MEAN_BYTES: u64 = 512 << 10;

/// Groups files into tasks. `files` are the paths and sizes of the files in the
/// order of their paths; each range holds the positions of one task's files.
pub fn file_blocks<'a>(files: impl IntoIterator<Item = (&'a str, u64)>) -> Vec<Range<usize>> {
    let mut blocks: Vec<Range<usize>> = Vec::new();
    for (i, (path, bytes)) in files.into_iter().enumerate() {
        match blocks.last_mut() {
            Some(block) if !begins_block(path, bytes) => block.end += 1,
            _ => blocks.push(i..i + 1),
        }
    }
    blocks
}

/// Whether a block begins with this file: with a probability of one in
/// [`MEAN_FILES`], or of its share of [`MEAN_BYTES`] if that is more.
fn begins_block(path: &str, bytes: u64) -> bool {
    // 2³² stands for a probability of 1.
    let of_bytes = bytes.min(MEAN_BYTES) * ((1 << 32) / MEAN_BYTES);
    let limit = of_bytes.max((1 << 32) / MEAN_FILES);
    let [a, b, c, d, ..] = *Key::of_bytes(path.as_bytes()).bytes();
    u64::from(u32::from_be_bytes([a, b, c, d])) < limit || bytes >= MEAN_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use eval::statistics::Random;
    use std::collections::BTreeMap;

    type Files = BTreeMap<String, u64>;

    fn blocks(files: &Files) -> Vec<Vec<(String, u64)>> {
        let listed: Vec<(String, u64)> = files.iter().map(|(path, bytes)| (path.clone(), *bytes)).collect();
        let ranges = file_blocks(listed.iter().map(|(path, bytes)| (path.as_str(), *bytes)));
        ranges.into_iter().map(|range| listed[range].to_vec()).collect()
    }

    /// So many files of one size.
    fn corpus(count: usize, bytes: u64) -> Files {
        (0..count).map(|i| (format!("folder/{i:06}.txt"), bytes)).collect()
    }

    /// A size: of small, middle and large files equally many.
    fn size(random: &mut Random) -> u64 {
        let most = [5_000, 200_000, 3_000_000][random.below(3)];
        random.below(most) as u64
    }

    #[test]
    fn a_file_that_is_added_removed_or_resized_makes_at_most_two_blocks_new() {
        let (mut random, mut changed) = (Random::new(29), 0);
        for _ in 0..2_000 {
            let count = random.below(300);
            let before: Files = (0..count).map(|_| (random.below(500).to_string(), size(&mut random))).collect();
            let mut after = before.clone();
            let path = random.below(500).to_string();
            match random.below(3) {
                0 => after.remove(&path),
                _ => after.insert(path, size(&mut random)),
            };
            let (before, after) = (blocks(&before), blocks(&after));
            let new = after.iter().filter(|block| !before.contains(block)).count();
            let gone = before.iter().filter(|block| !after.contains(block)).count();
            assert!(new <= 2 && gone <= 2, "{new} blocks are new and {gone} are gone");
            changed += usize::from(new + gone > 0);
        }
        assert!(changed > 1_000, "{changed} of 2,000 lists changed");
    }

    #[test]
    fn every_file_is_in_one_block_in_the_order_of_paths() {
        let files: Files = (0..2000).map(|i| (format!("{i}.md"), i * 100)).collect();
        assert_eq!(blocks(&files).concat(), files.into_iter().collect::<Vec<_>>());
        assert!(file_blocks([]).is_empty());
    }

    #[test]
    fn blocks_have_tens_of_small_files_or_about_half_a_megabyte() {
        for (bytes, files) in [(0, 40.0..56.0), (2_000, 40.0..56.0), (10_000, 44.0..60.0), (100_000, 4.7..5.8)] {
            let blocks = blocks(&corpus(20_000, bytes));
            let mean = 20_000.0 / blocks.len() as f64;
            let largest = blocks.iter().map(Vec::len).max().unwrap_or_default();
            assert!(files.contains(&mean), "{bytes} bytes each: {mean} files on average");
            let mut sizes: Vec<usize> = blocks.iter().map(Vec::len).collect();
            sizes.sort_unstable();
            eprintln!(
                "{bytes}: {} blocks, min {} mean {mean} median {} p90 {} max {largest}",
                blocks.len(),
                sizes[0],
                sizes[sizes.len() / 2],
                sizes[sizes.len() * 9 / 10]
            );
            assert!((largest as f64) < 14.0 * mean, "{bytes} bytes each: {largest} files at most, {mean} on average");
        }
        let large = blocks(&corpus(100, MEAN_BYTES));
        assert_eq!(large.len(), 100, "a large file is a block of its own");
    }
}
