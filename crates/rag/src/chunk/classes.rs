//! What kind of character each character is, by Unicode's general categories.
//!
//! The token counter and the sentence finder ask this for every character, and
//! the standard library answers slightly different questions (`is_alphabetic`
//! includes marks and letter-like numbers). So the answers for everything
//! outside ASCII are computed once from the tables of the `regex` crate.

use regex::Regex;
use std::sync::OnceLock;

/// Past the last assigned letter or digit; what is above has no class.
const END: u32 = 0x3_3480;

const LETTER: u8 = 1;
const NUMBER: u8 = 2;
const DECIMAL: u8 = 4;
const WORD: u8 = 8;

/// The kinds that a byte-pair tokenizer tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CharacterKind {
    /// General category L.
    Letter,
    /// General category N.
    Number,
    /// White space.
    Space,
    /// Everything else: punctuation, symbols, marks.
    Other,
}

/// The kind of each ASCII character.
pub(super) const ASCII: [CharacterKind; 128] = {
    let mut kinds = [CharacterKind::Other; 128];
    let mut byte = 0u8;
    while byte < 128 {
        kinds[byte as usize] = match byte {
            b'a'..=b'z' | b'A'..=b'Z' => CharacterKind::Letter,
            b'0'..=b'9' => CharacterKind::Number,
            b'\t'..=b'\r' | b' ' => CharacterKind::Space,
            _ => CharacterKind::Other,
        };
        byte += 1;
    }
    kinds
};

/// The kind of any character.
pub(super) fn kind(character: char) -> CharacterKind {
    if let Some(kind) = ASCII.get(character as usize) {
        return *kind;
    }
    if character.is_whitespace() {
        return CharacterKind::Space;
    }
    match flags(character) {
        flags if flags & LETTER != 0 => CharacterKind::Letter,
        flags if flags & NUMBER != 0 => CharacterKind::Number,
        _ => CharacterKind::Other,
    }
}

/// Whether it is a decimal digit of any script.
pub(super) fn is_decimal(character: char) -> bool {
    if character.is_ascii() { character.is_ascii_digit() } else { flags(character) & DECIMAL != 0 }
}

/// Whether it can be part of a word but is no decimal digit.
pub(super) fn is_word_not_decimal(character: char) -> bool {
    if character.is_ascii() {
        character.is_ascii_alphabetic() || character == '_'
    } else {
        flags(character) & (WORD | DECIMAL) == WORD
    }
}

/// Whether Python's `str.strip` removes it: white space and the four ASCII
/// separators, which Unicode does not call white space.
pub(super) fn is_blank(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

fn flags(character: char) -> u8 {
    static FLAGS: OnceLock<Vec<u8>> = OnceLock::new();
    FLAGS.get_or_init(compute).get(character as usize).copied().unwrap_or(0)
}

/// Runs each class over a text of all characters: a few milliseconds, once.
fn compute() -> Vec<u8> {
    let all: String = (0..END).filter_map(char::from_u32).collect();
    let mut flags = vec![0; END as usize];
    for (pattern, flag) in [(r"\p{L}+", LETTER), (r"\p{N}+", NUMBER), (r"\d+", DECIMAL), (r"\w+", WORD)] {
        // These patterns are constants that compile; were one ever refused,
        // its characters would count as punctuation.
        let Ok(pattern) = Regex::new(pattern) else { continue };
        for found in pattern.find_iter(&all) {
            for character in found.as_str().chars() {
                if let Some(entry) = flags.get_mut(character as usize) {
                    *entry |= flag;
                }
            }
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_exclude_marks_and_letter_like_numbers() {
        assert_eq!(kind('é'), CharacterKind::Letter);
        assert_eq!(kind('中'), CharacterKind::Letter);
        assert_eq!(kind('\u{0301}'), CharacterKind::Other);
        assert_eq!(kind('Ⅳ'), CharacterKind::Number);
        assert_eq!(kind('½'), CharacterKind::Number);
        assert_eq!(kind('\u{3000}'), CharacterKind::Space);
        assert_eq!(kind('🦀'), CharacterKind::Other);
    }

    #[test]
    fn decimals_are_digits_of_any_script_but_not_fractions() {
        assert!(is_decimal('7') && is_decimal('٣'));
        assert!(!is_decimal('½') && !is_decimal('Ⅳ'));
        assert!(is_word_not_decimal('_') && is_word_not_decimal('é') && !is_word_not_decimal('٣'));
    }
}
