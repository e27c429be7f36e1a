//! How the files of a corpus are cut into what one task reads.

use std::ops::Range;

/// Files parsed by one task, at most.
const MOST_FILES: usize = 64;
/// Bytes of files parsed by one task, unless one file is larger.
const MOST_BYTES: u64 = 1 << 20;

/// Groups files into tasks. `sizes` are the files' sizes in the order of their
/// paths; each range holds the positions of one task's files.
pub fn file_blocks(sizes: impl IntoIterator<Item = u64>) -> Vec<Range<usize>> {
    let mut blocks: Vec<Range<usize>> = Vec::new();
    let mut bytes = 0;
    for (i, size) in sizes.into_iter().enumerate() {
        match blocks.last_mut() {
            Some(block) if block.len() < MOST_FILES && bytes + size <= MOST_BYTES => {
                block.end += 1;
                bytes += size;
            }
            _ => {
                blocks.push(i..i + 1);
                bytes = size;
            }
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_hold_about_equally_many_bytes_in_order() {
        let sizes = [vec![10; 70], vec![2 << 20], vec![600 << 10; 2]].concat();
        let lengths: Vec<usize> = file_blocks(sizes).into_iter().map(|block| block.len()).collect();
        assert_eq!(lengths, [64, 6, 1, 1, 1]);
        assert!(file_blocks([]).is_empty());
    }
}
