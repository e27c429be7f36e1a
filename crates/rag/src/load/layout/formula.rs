//! Formulas that stand apart from the text: their parts stand below and beside each other, as those of a table do.

use super::rows::PageRow;

/// The words of a formula are so short, in characters, in the mean.
const WORD_LENGTH: f32 = 2.6;

/// Whether rows are a formula: short words with operators, or a number in brackets at the end.
pub(super) fn is_formula(rows: &[PageRow]) -> bool {
    let words = || rows.iter().flat_map(|row| &row.phrases).flat_map(|phrase| &phrase.words).map(|word| &word.text);
    let (mut letters, mut count, mut operators) = (0, 0, 0);
    for word in words() {
        letters += word.chars().count();
        count += 1;
        operators += usize::from(word.chars().all(is_operator));
    }
    let is_short = (letters as f32) < WORD_LENGTH * count as f32;
    let has_number = || {
        rows.iter().any(|row| {
            let last = row.phrases.last().and_then(|phrase| phrase.words.last());
            last.and_then(|word| word.text.strip_prefix('(')?.strip_suffix(')'))
                .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
        })
    };
    is_short && operators > 0 && (operators * 8 >= count || has_number())
}

fn is_operator(character: char) -> bool {
    matches!(character, '=' | '+' | '−' | '<' | '>' | '≤' | '≥' | '≡' | '≈' | '∝' | '·' | '√' | '→' | '⇒' | '±' | '×')
        || matches!(character, '\u{2200}'..='\u{22ff}' | '\u{f8e0}'..='\u{f8ff}')
}

#[cfg(test)]
mod tests {
    use super::super::rows;
    use super::super::words::{phrases, tests::word};
    use super::*;

    #[test]
    fn a_fraction_is_a_formula_and_a_table_of_numbers_is_none() {
        let fraction = [("dv", 0.0, 10.0), ("=", 20.0, 18.0), ("−", 40.0, 18.0), ("P", 60.0, 18.0), ("dt", 0.0, 26.0)];
        let numbers = [("a", 0.0, 10.0), ("10", 40.0, 10.0), ("b", 0.0, 24.0), ("12", 40.0, 24.0)];
        let is = |words: &[(&str, f32, f32)]| {
            let words = words.iter().map(|&(text, left, baseline)| word(text, left, baseline)).collect();
            is_formula(&rows::rows(phrases(words)))
        };
        assert!(is(&fraction) && !is(&numbers));
    }
}
