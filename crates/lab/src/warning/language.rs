//! Decides which languages of texts count for warnings. A language of only a few texts does not count, because
//! detection is sometimes wrong.
//!
//! Of 1,420 English questions (BEIR's SciFact and FiQA, Chroma's study), `whatlang` was certain about 871, and wrong
//! about 2 of these.

use std::collections::BTreeMap;

/// A language counts if at least this share of the texts whose language is known is in it.
const LEAST_SHARE: f64 = 0.05;

/// The languages that count, the most frequent first, with their number of texts. They have two texts or more, and at
/// least one text in twenty. If there is only one text, its language counts.
pub(super) fn of_many(languages: &BTreeMap<String, usize>) -> Vec<(&str, usize)> {
    let total: usize = languages.values().sum();
    // The language of a single text may have been detected wrongly.
    let enough = |n: usize| (n > 1 || n == total) && n as f64 >= LEAST_SHARE * total as f64;
    let mut many: Vec<(&str, usize)> =
        languages.iter().filter(|(_, n)| **n > 0 && enough(**n)).map(|(name, n)| (name.as_str(), *n)).collect();
    many.sort_by_key(|(name, n)| (std::cmp::Reverse(*n), *name));
    many
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_of_few_texts_do_not_count() {
        let languages = |counts: &[(&str, usize)]| -> BTreeMap<String, usize> {
            counts.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect()
        };
        let found = languages(&[("German", 96), ("English", 100), ("Dutch", 4)]);
        assert_eq!(of_many(&found), [("English", 100), ("German", 96)]);
        assert_eq!(of_many(&languages(&[("German", 1)])), [("German", 1)], "there is no other text");
        assert_eq!(of_many(&languages(&[("German", 5), ("French", 1)])), [("German", 5)]);
        assert!(of_many(&languages(&[])).is_empty());
        assert!(of_many(&languages(&[("German", 0)])).is_empty());
    }
}
