//! How the files of a corpus are divided into blocks: what one task reads.
//!
//! A block is what is computed again if one of its files changes, so a change
//! must not move other files into other blocks. Blocks are the leaves of a
//! binary tree over the hashes of the files' paths: a node that holds too much
//! is divided by the next bit of the hash (extendible hashing). What a node may
//! hold grows by one file with each level, so the two halves of a node that has
//! become too large by one file are never too large themselves. Hence:
//!
//! - a file that is added or grows divides one block into two, at most;
//! - a file that is removed or shrinks joins blocks into one, at most.
//!
//! So a change makes at most two blocks new, and blocks grow slowly with the
//! corpus.
//!
//! The blocks of a very large corpus are in parts, whose indexes are files of their own, made by tasks of their own. Parts
//! are nodes of the same tree, so a change is in one part, or divides or joins two.
//!
//! Source: R. Fagin, J. Nievergelt, N. Pippenger, H. R. Strong, "Extendible
//! Hashing", ACM Transactions on Database Systems 4 (1979).

use store::Key;

/// The most files of a block in a small corpus.
const MOST_FILES: usize = 64;
/// The most bytes of a block in a small corpus.
const MOST_BYTES: u64 = 1 << 20;
/// A file of this size is a block of its own. With each level, a node may hold this many bytes
/// more.
const LARGE_FILE: u64 = MOST_BYTES / 4;

/// The most files and bytes of a part: about a million chunks of a kilobyte.
const PART_FILES: usize = 1 << 20;
const PART_BYTES: u64 = 1 << 30;

/// A file of a corpus.
struct ListedFile {
    /// Its place in the list.
    place: usize,
    bytes: u64,
    hash: u64,
}

/// Divides files into blocks. `files` are the paths and sizes of the files in
/// the order of their paths. Each block holds the places of its files, in order;
/// the blocks are in the order of their parts, and those of a part in the order of their first files.
pub fn file_blocks<'a>(files: impl IntoIterator<Item = (&'a str, u64)>) -> Vec<Vec<usize>> {
    parts_of_blocks(files).concat()
}

/// The blocks of files, in the parts of the corpus; a corpus without files has one part.
pub(super) fn parts_of_blocks<'a>(files: impl IntoIterator<Item = (&'a str, u64)>) -> Vec<Vec<Vec<usize>>> {
    blocks_of_parts(files, PART_FILES, PART_BYTES)
}

fn blocks_of_parts<'a>(
    files: impl IntoIterator<Item = (&'a str, u64)>,
    most_files: usize,
    most_bytes: u64,
) -> Vec<Vec<Vec<usize>>> {
    let hash = |path: &str| {
        let [a, b, c, d, e, f, g, h, ..] = *Key::of_bytes(path.as_bytes()).bytes();
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    };
    let files = files.into_iter().enumerate();
    let files = files.map(|(place, (path, bytes))| ListedFile { place, bytes, hash: hash(path) }).collect();
    let mut parts = Vec::new();
    divide_into_parts(files, 0, (most_files, most_bytes), &mut parts);
    let blocks_of = |(level, files): (u32, Vec<ListedFile>)| {
        let (large, small): (Vec<ListedFile>, Vec<ListedFile>) =
            files.into_iter().partition(|file| file.bytes >= LARGE_FILE);
        let mut blocks: Vec<Vec<usize>> = large.into_iter().map(|file| vec![file.place]).collect();
        divide(small, level, &mut blocks);
        blocks.sort_unstable();
        blocks
    };
    parts.into_iter().map(blocks_of).collect()
}

/// Adds the parts of a node of the tree, each with its level, in the order of the tree.
fn divide_into_parts(files: Vec<ListedFile>, level: u32, most: (usize, u64), parts: &mut Vec<(u32, Vec<ListedFile>)>) {
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    if (files.len() <= most.0 && bytes <= most.1) || files.len() < 2 || level == u64::BITS {
        if level == 0 || !files.is_empty() {
            parts.push((level, files));
        }
        return;
    }
    let (ones, zeros) = by_bit(files, level);
    divide_into_parts(zeros, level + 1, most, parts);
    divide_into_parts(ones, level + 1, most, parts);
}

/// Files by a bit of their hashes: those with a one, and the others.
fn by_bit(files: Vec<ListedFile>, level: u32) -> (Vec<ListedFile>, Vec<ListedFile>) {
    files.into_iter().partition(|file| file.hash << level >> (u64::BITS - 1) == 1)
}

/// Adds the blocks of a node at a level of the tree: the first `level` bits of
/// its files' hashes are equal.
fn divide(files: Vec<ListedFile>, level: u32, blocks: &mut Vec<Vec<usize>>) {
    if files.is_empty() {
        return;
    }
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    let fits = files.len() <= MOST_FILES + level as usize && bytes <= MOST_BYTES + u64::from(level) * LARGE_FILE;
    if fits || level == u64::BITS {
        blocks.push(files.into_iter().map(|file| file.place).collect());
        return;
    }
    let (ones, zeros) = by_bit(files, level);
    divide(zeros, level + 1, blocks);
    divide(ones, level + 1, blocks);
}

#[cfg(test)]
mod tests {
    use super::*;
    use eval::statistics::Random;
    use std::collections::BTreeMap;

    type Files = BTreeMap<String, u64>;

    fn blocks(files: &Files) -> Vec<Vec<(String, u64)>> {
        let listed: Vec<(String, u64)> = files.iter().map(|(path, bytes)| (path.clone(), *bytes)).collect();
        let blocks = file_blocks(listed.iter().map(|(path, bytes)| (path.as_str(), *bytes)));
        blocks.into_iter().map(|block| block.into_iter().map(|place| listed[place].clone()).collect()).collect()
    }

    /// So many files of one size.
    fn corpus(count: usize, bytes: u64) -> Files {
        (0..count).map(|i| (format!("folder/{i:06}.txt"), bytes)).collect()
    }

    /// A size: of small, middle, large and very large files equally many.
    fn size(random: &mut Random) -> u64 {
        let most = [5_000, 100_000, LARGE_FILE as usize, 3_000_000][random.below(4)];
        random.below(most) as u64
    }

    #[test]
    fn a_file_that_is_added_removed_or_resized_makes_at_most_two_blocks_new() {
        let (mut random, mut changed) = (Random::new(29), 0);
        for _ in 0..3_000 {
            let count = random.below(400);
            let before: Files = (0..count).map(|_| (random.below(600).to_string(), size(&mut random))).collect();
            let mut after = before.clone();
            let path = random.below(600).to_string();
            match random.below(3) {
                0 => after.remove(&path),
                _ => after.insert(path, size(&mut random)),
            };
            let (before, after) = (blocks(&before), blocks(&after));
            let new = after.iter().filter(|block| !before.contains(block)).count();
            assert!(new <= 2, "{new} blocks are new");
            changed += usize::from(new > 0);
        }
        assert!(changed > 1_500, "{changed} of 3,000 lists changed");
    }

    #[test]
    fn a_small_corpus_is_one_part_and_a_large_one_has_parts_within_their_limits() {
        let of = |files: &Files| {
            let listed: Vec<(&str, u64)> = files.iter().map(|(path, bytes)| (path.as_str(), *bytes)).collect();
            let parts = blocks_of_parts(listed.iter().copied(), 1_000, 10 << 20);
            let bytes = |part: &Vec<Vec<usize>>| part.iter().flatten().map(|&place| listed[place].1).sum::<u64>();
            assert!(parts.iter().all(|part| part.iter().flatten().count() <= 1_000 && bytes(part) <= 10 << 20));
            let mut places: Vec<usize> = parts.iter().flatten().flatten().copied().collect();
            places.sort_unstable();
            assert!(places.into_iter().eq(0..files.len()), "every file is in one part");
            parts
        };
        let small = corpus(1_000, 10_000);
        let parts = of(&small);
        assert_eq!(parts.len(), 1);
        let listed = || small.iter().map(|(path, bytes)| (path.as_str(), *bytes));
        assert_eq!(parts.concat(), file_blocks(listed()), "in the same blocks and the same order");
        assert_eq!(of(&Files::new()), [Vec::<Vec<usize>>::new()], "no files are one part");
        let by_files = of(&corpus(3_000, 10)).len();
        let by_bytes = of(&corpus(900, 40_000)).len();
        assert!((4..=8).contains(&by_files) && (4..=8).contains(&by_bytes), "{by_files} and {by_bytes} parts");
        let large = [("a".to_owned(), 20 << 20), ("b".to_owned(), 1)].into_iter();
        let listed: Vec<_> = large.collect();
        let parts = blocks_of_parts(listed.iter().map(|(path, bytes)| (path.as_str(), *bytes)), 1_000, 10 << 20);
        assert_eq!(parts.len(), 2, "a file that is too large is a part of its own");
    }

    #[test]
    fn a_file_that_is_added_changes_one_part_or_divides_one() {
        let of = |files: &Files| {
            let listed: Vec<(&str, u64)> = files.iter().map(|(path, bytes)| (path.as_str(), *bytes)).collect();
            let parts = blocks_of_parts(listed.iter().copied(), 100, 1 << 30);
            let named = |part: Vec<Vec<usize>>| -> Vec<Vec<String>> {
                part.into_iter().map(|block| block.iter().map(|&place| listed[place].0.to_owned()).collect()).collect()
            };
            parts.into_iter().map(named).collect::<Vec<_>>()
        };
        let mut files = corpus(900, 10);
        let mut before = of(&files);
        for i in 0..300 {
            files.insert(format!("new/{i}.txt"), 10);
            let after = of(&files);
            let new = after.iter().filter(|part| !before.contains(part)).count();
            assert!((1..=2).contains(&new), "{new} parts are new");
            before = after;
        }
    }

    #[test]
    fn every_file_is_in_one_block() {
        let files: Files = (0..2000).map(|i| (format!("{i}.md"), i * 200)).collect();
        let blocks = blocks(&files);
        assert!(blocks.iter().all(|block| block.is_sorted()) && blocks.is_sorted());
        let mut all = blocks.concat();
        all.sort();
        assert_eq!(all, files.into_iter().collect::<Vec<_>>());
        assert!(file_blocks([]).is_empty());
    }

    #[test]
    fn a_small_corpus_is_one_block_in_the_order_of_its_paths() {
        assert_eq!(blocks(&corpus(64, 10_000)).len(), 1);
        assert_eq!(blocks(&corpus(65, 10_000)).len(), 2);
        assert_eq!(blocks(&corpus(20, 60_000)).len(), 2);
    }

    #[test]
    fn blocks_have_tens_of_files_and_about_a_megabyte() {
        for (count, bytes, files, most) in [
            (200, 3_000, 45..=55, 66),
            (20_000, 700, 40..=50, 73),
            (20_000, 10_000, 40..=50, 73),
            (20_000, 100_000, 15..=25, 40),
            (1_000, LARGE_FILE, 1..=1, 1),
        ] {
            let blocks = blocks(&corpus(count, bytes));
            let largest = blocks.iter().map(Vec::len).max().unwrap_or_default();
            let mean = count / blocks.len();
            assert!(files.contains(&mean) && largest <= most, "{bytes} bytes each: {mean} files, at most {largest}");
        }
    }

    #[test]
    fn a_file_of_a_quarter_of_a_megabyte_is_a_block_of_its_own() {
        let of = |sizes: &[u64]| {
            let paths: Vec<String> = (0..sizes.len()).map(|i| format!("{i}.txt")).collect();
            file_blocks(paths.iter().map(String::as_str).zip(sizes.iter().copied()))
        };
        let large = 256 << 10;
        assert_eq!(of(&[large - 1, large - 1]), [vec![0, 1]]);
        assert_eq!(of(&[large, large - 1, 0]), [vec![0], vec![1, 2]]);
        assert_eq!(of(&[1, large, 1, large]), [vec![0, 2], vec![1], vec![3]], "in the order of their first files");
        assert_eq!(of(&[10 * large]), [[0]], "however large");
        assert_eq!(of(&[0]), [[0]]);
    }

    #[test]
    fn a_block_holds_a_megabyte_and_not_a_byte_more_where_it_can_be_divided() {
        // Five files of a fifth of a megabyte each, with the rest in the last one.
        let of = |rest: u64| {
            let fifth = (1 << 20) / 5;
            let sizes = [fifth, fifth, fifth, fifth, (1 << 20) - 4 * fifth + rest];
            let files: Files = sizes.iter().enumerate().map(|(i, bytes)| (format!("{i}.txt"), *bytes)).collect();
            blocks(&files).len()
        };
        assert_eq!(of(0), 1);
        assert!(of(1) > 1);
    }

    #[test]
    fn which_block_a_file_is_in_depends_on_no_other_name() {
        // Whatever is listed first, the blocks hold the same files.
        let names: Vec<String> = (0..200).map(|i| format!("folder/{i}.txt")).collect();
        let blocks_of = |names: &[String]| {
            let blocks = file_blocks(names.iter().map(|name| (name.as_str(), 10_000)));
            let named = |block: Vec<usize>| {
                let mut block: Vec<String> = block.into_iter().map(|place| names[place].clone()).collect();
                block.sort();
                block
            };
            blocks.into_iter().map(named).collect::<std::collections::BTreeSet<_>>()
        };
        let reversed: Vec<String> = names.iter().rev().cloned().collect();
        assert_eq!(blocks_of(&names), blocks_of(&reversed));
    }
}
