//! Characters: brings texts that look the same into one form, and knows punctuation, marks
//! and the scripts that put no spaces between words.

use std::borrow::Cow;
use unicode_general_category::{GeneralCategory, get_general_category};
use unicode_normalization::{UnicodeNormalization, char::is_combining_mark};

/// Brings a text into the form in which words are compared: NFKC, small letters, without
/// invisible characters and vowel points. Then characters of full and half width, and composed
/// and decomposed characters, are equal; so are `ß` and `ss`, `ё` and `е`, `ı` and `i`, and the
/// digits of the scripts in [`ZEROS`].
///
/// In a text of ASCII, only the case of letters changes.
pub(crate) fn folded(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return match text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => text.to_ascii_lowercase().into(),
            false => text.into(),
        };
    }
    let mut folded = String::with_capacity(text.len());
    // NFKC would turn a spacing accent such as `´` into a space and a combining mark.
    let visible = text.chars().filter(|c| c.is_ascii() || get_general_category(*c) != GeneralCategory::ModifierSymbol);
    for c in visible.nfkc() {
        match c {
            'İ' | 'ı' => folded.push('i'),
            'ß' | 'ẞ' => folded.push_str("ss"),
            'ς' => folded.push('σ'),
            'ё' | 'Ё' => folded.push('е'),
            c if is_invisible(c) => {}
            c if c.is_ascii() => folded.push(c.to_ascii_lowercase()),
            c => match decimal_digit(c) {
                Some(digit) => folded.push(digit),
                None => folded.extend(c.to_lowercase()),
            },
        }
    }
    folded.into()
}

/// Whether a character is invisible or usually left out in writing: format characters, variation
/// selectors, the vowel points of Arabic and Hebrew, and the Arabic tatweel, which only stretches
/// a word.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' | '\u{0640}' | '\u{064b}'..='\u{065f}' | '\u{0670}')
        || matches!(
            c,
            '\u{0591}'..='\u{05bd}' | '\u{05bf}' | '\u{05c1}' | '\u{05c2}' | '\u{05c4}' | '\u{05c5}' | '\u{05c7}'
        )
        || (!c.is_ascii() && get_general_category(c) == GeneralCategory::Format)
}

/// The zero of each script that has its own digits. The digits 1 to 9 follow it in Unicode.
const ZEROS: [char; 16] = [
    '\u{0660}', '\u{06f0}', '\u{0966}', '\u{09e6}', '\u{0a66}', '\u{0ae6}', '\u{0b66}', '\u{0be6}', '\u{0c66}',
    '\u{0ce6}', '\u{0d66}', '\u{0e50}', '\u{0ed0}', '\u{0f20}', '\u{1040}', '\u{17e0}',
];

/// The ASCII digit with the value of a digit of another script; `None` for all other characters.
fn decimal_digit(c: char) -> Option<char> {
    let value = ZEROS.iter().find_map(|&zero| u32::from(c).checked_sub(zero.into()).filter(|value| *value < 10))?;
    char::from_digit(value, 10)
}

/// Whether a character is punctuation: Unicode's category P and, as in SQuAD, all ASCII symbols.
/// The minus sign, the fraction slash and the commercial minus count like `-` and `/`.
pub(crate) fn is_punctuation(c: char) -> bool {
    use GeneralCategory::{
        ClosePunctuation, ConnectorPunctuation, DashPunctuation, FinalPunctuation, InitialPunctuation, OpenPunctuation,
        OtherPunctuation,
    };
    if c.is_ascii() {
        return c.is_ascii_punctuation();
    }
    matches!(c, '\u{2044}' | '\u{2052}' | '\u{2212}')
        || matches!(
            get_general_category(c),
            ConnectorPunctuation
                | DashPunctuation
                | OpenPunctuation
                | ClosePunctuation
                | InitialPunctuation
                | FinalPunctuation
                | OtherPunctuation
        )
}

/// Whether each character of this script counts as a word, together with the marks behind it.
/// True for the scripts without spaces between words (Han, Kana, Bopomofo, Thai, Lao, Tibetan,
/// Myanmar, Khmer) and for Hangul, whose syllables are compared one by one.
pub(crate) fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{0e00}'..='\u{0fff}'
        | '\u{1000}'..='\u{109f}' | '\u{a9e0}'..='\u{a9ff}' | '\u{aa60}'..='\u{aa7f}'
        | '\u{1780}'..='\u{17ff}'
        | '\u{1100}'..='\u{11ff}' | '\u{3130}'..='\u{318f}' | '\u{a960}'..='\u{a97f}' | '\u{ac00}'..='\u{d7ff}'
        | '\u{2e80}'..='\u{2fdf}' | '\u{3005}'..='\u{3007}' | '\u{3021}'..='\u{3029}' | '\u{3031}'..='\u{3035}'
        | '\u{3041}'..='\u{30ff}' | '\u{3100}'..='\u{312f}' | '\u{31a0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{1b000}'..='\u{1b16f}' | '\u{20000}'..='\u{3ffff}')
}

/// Whether a character is a combining mark, which belongs to the letter before it.
pub(crate) fn is_mark(c: char) -> bool {
    !c.is_ascii() && is_combining_mark(c)
}

/// Whether a character is part of a word: letters, digits and the marks on them.
pub(crate) fn is_word_character(c: char) -> bool {
    c.is_alphanumeric() || is_mark(c)
}

/// Splits a word into parts. `true`: one character for which [`is_unspaced`] holds, with its
/// marks. `false`: a run of other characters, such as a Latin word.
pub(crate) fn parts(word: &str) -> impl Iterator<Item = (bool, &str)> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let is_single = is_unspaced(rest.chars().next()?);
        let ends = |c: char| !is_mark(c) && (is_single || is_unspaced(c));
        let end = rest.char_indices().skip(1).find(|(_, c)| ends(*c)).map_or(rest.len(), |(at, _)| at);
        let (part, after) = rest.split_at(end);
        rest = after;
        Some((is_single, part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_look_the_same_are_equal() {
        for (one, other) in [
            ("Ｔｏｋｙｏ１２３", "tokyo123"),
            ("ﾊﾟｯｹｰｼﾞ", "パッケージ"),
            ("パッケーシ\u{3099}", "パッケージ"),
            ("Cafe\u{301}", "café"),
            ("STRASSE", "Straße"),
            ("ΟΔΟΣ", "οδος"),
            ("İSTANBUL", "istanbul"),
            ("ещё", "еще"),
            ("مُحَمَّد", "محمد"),
            ("كتـــاب", "كتاب"),
            ("٢٠١٥", "2015"),
            ("२०१५", "2015"),
            ("so\u{ad}ft \u{200b}e\u{2060}nd", "soft end"),
            ("ﬁle", "file"),
            ("한글", "\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}"),
        ] {
            assert_eq!(folded(one), folded(other), "{one}");
        }
        assert_eq!(folded("don´t"), "dont");
    }

    #[test]
    fn ascii_only_becomes_small() {
        let all: String = (0..128u8).map(char::from).collect();
        assert_eq!(folded(&all), all.to_lowercase());
    }

    #[test]
    fn punctuation_of_all_scripts_is_known_and_currency_is_none() {
        for c in "。，、；：？！「」『』《》【】·।؟،؛¿¡«»„“”‘’–—…〜・־".chars()
        {
            assert!(is_punctuation(c), "{c}");
        }
        assert!(('!'..='~').all(|c| is_punctuation(c) != c.is_ascii_alphanumeric()));
        assert!(!"€°©ー々ąж".chars().any(is_punctuation));
    }

    #[test]
    fn a_character_without_spaces_is_a_part_with_its_marks() {
        let of = |word: &'static str| parts(word).map(|(_, part)| part).collect::<Vec<_>>();
        assert_eq!(of("使用apt命令"), ["使", "用", "apt", "命", "令"]);
        assert_eq!(of("ที่นี่"), ["ที่", "นี่"]);
        assert_eq!(of("서울2024"), ["서", "울", "2024"]);
        assert_eq!(of("हिन्दी"), ["हिन्दी"]);
        assert_eq!(of("\u{301}"), ["\u{301}"]);
        assert!(of("").is_empty());
    }
}
