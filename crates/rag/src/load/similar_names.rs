//! Names that look the same: they differ only in case, or in how their letters are put together.

use std::hash::BuildHasher;
use unicode_normalization::UnicodeNormalization;

/// The pairs of paths that are equal without regard to case and to the normal form of their letters (Unicode's NFC and NFD),
/// at most `most`. On some file systems the two of a pair are one file.
pub fn similar_names<'a>(paths: impl Iterator<Item = &'a str> + Clone, most: usize) -> Vec<(&'a str, &'a str)> {
    let hasher = foldhash::fast::FixedState::default();
    // Hashes first, because there may be a million paths.
    let mut hashes: Vec<(u64, u32)> =
        paths.clone().zip(0..).map(|(path, i)| (hasher.hash_one(folded(path)), i)).collect();
    hashes.sort_unstable();
    let same: Vec<[u32; 2]> =
        hashes.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| [pair[0].1, pair[1].1]).collect();
    let path = |place: u32| paths.clone().nth(place as usize).unwrap_or_default();
    let pairs = same.into_iter().take(2 * most).map(|pair| pair.map(path).into());
    pairs.filter(|(one, other): &(&str, &str)| folded(one) == folded(other)).take(most).collect()
}

/// A path as it is compared.
fn folded(path: &str) -> String {
    match path.is_ascii() {
        true => path.to_ascii_lowercase(),
        false => path.nfc().collect::<String>().to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_case_or_in_normal_form_are_paired() {
        let paths = ["A.txt", "a.txt", "b/A.txt", "A\u{308}.txt", "\u{c4}.txt", "\u{e4}.txt", "c.txt"];
        let found = similar_names(paths.into_iter(), 10);
        let is_pair = |one: &str, other: &str| found.contains(&(one, other));
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(
            is_pair("A.txt", "a.txt") && is_pair("A\u{308}.txt", "\u{c4}.txt") && is_pair("\u{c4}.txt", "\u{e4}.txt")
        );
        assert_eq!(similar_names(paths.into_iter(), 1).len(), 1);
        assert!(similar_names(["x", "y"].into_iter(), 10).is_empty());
    }
}
