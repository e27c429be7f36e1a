//! Which languages count: a few texts of another language, or texts that were taken for one, are no warning.

use std::collections::BTreeMap;

/// The least share of the texts whose language is known.
const LEAST_SHARE: f64 = 0.05;

/// The languages of at least one in twenty texts, the most frequent first, with the number of texts.
pub(super) fn of_many(languages: &BTreeMap<String, usize>) -> Vec<(&str, usize)> {
    let total: usize = languages.values().sum();
    let enough = |n: usize| n > 0 && n as f64 >= LEAST_SHARE * total as f64;
    let mut many: Vec<(&str, usize)> =
        languages.iter().filter(|(_, n)| enough(**n)).map(|(name, n)| (name.as_str(), *n)).collect();
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
        assert_eq!(of_many(&languages(&[("German", 1)])), [("German", 1)]);
        assert!(of_many(&languages(&[])).is_empty());
        assert!(of_many(&languages(&[("German", 0)])).is_empty());
    }
}
