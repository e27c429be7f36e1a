//! Kinds of characters that decide where sentences end: end marks, quotes, brackets and scripts.

/// Whether a character is a full stop, question mark or exclamation mark of any script. An ellipsis does not count.
pub fn ends_sentence(c: char) -> bool {
    matches!(c, '.' | '!' | '?') || is_script_mark(c)
}

/// Whether a character is an end mark of Latin texts. It ends a sentence only before white space.
pub(super) fn is_latin_mark(c: char) -> bool {
    matches!(c, '.' | '!' | '?' | '…' | '‥' | '‼' | '‽' | '⁇' | '⁈' | '⁉')
}

/// Whether a character is an end mark of another script. It ends a sentence with or without white space after it.
pub(super) fn is_script_mark(c: char) -> bool {
    matches!(
        c,
        // Chinese, Japanese; of full and half width.
        '。' | '！' | '？' | '．' | '｡' | '﹒' | '﹖' | '﹗'
        // Arabic, Urdu, Syriac; Armenian; Devanagari and its relatives.
        | '؟' | '۔' | '܀' | '܁' | '܂' | '։' | '।' | '॥'
        // Ethiopic, Myanmar, Khmer, Tibetan, Mongolian, Ol Chiki, Balinese.
        | '።' | '፧' | '፨' | '။' | '។' | '៕' | '།' | '༎' | '᠃' | '᠉' | '᱾' | '᱿' | '᭚' | '᭛'
    )
}

/// Quotes, brackets and Markdown marks that may follow the end mark of a sentence.
pub(super) fn is_closing(c: char) -> bool {
    matches!(
        c,
        '"' | '\''
            | ')'
            | ']'
            | '}'
            | '’'
            | '‘'
            | '”'
            | '“'
            | '»'
            | '«'
            | '›'
            | '‹'
            | '」'
            | '』'
            | '】'
            | '〉'
            | '》'
            | '〕'
            | '）'
            | '］'
            | '｝'
            | '〗'
            | '〟'
            | '﴾'
            | '*'
            | '_'
            | '`'
    )
}

/// Quotes, brackets, dashes and Markdown marks that may precede the first letter of a sentence.
pub(super) fn is_opening(c: char) -> bool {
    is_closing(c)
        || c.is_whitespace()
        || is_invisible(c)
        || matches!(c, '(' | '[' | '{' | '„' | '‚' | '¿' | '¡' | '-' | '–' | '—' | '―' | '•' | '·' | '#' | '>' | '<')
}

/// Invisible characters: zero-width and directional characters, variation selectors, the soft hyphen.
pub(super) fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}' | '\u{2066}'..='\u{2069}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ad}' | '\u{61c}'
    )
}

/// Han and Kana, which are written without spaces.
pub(super) fn is_cjk(c: char) -> bool {
    matches!(
        c,
        '\u{3005}' | '\u{3007}' | '\u{3041}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}'
            | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ff9f}' | '\u{20000}'..='\u{3ffff}'
    )
}

/// Letters, vowels and tones of Thai and Lao, without digits.
pub(super) fn is_thai(c: char) -> bool {
    matches!(c, '\u{e01}'..='\u{e4e}' | '\u{e81}'..='\u{ecf}')
}

/// Thai and Lao signs for abbreviation and repetition. They belong to the word before them.
pub(super) fn is_thai_sign(c: char) -> bool {
    matches!(c, 'ฯ' | 'ๆ' | 'ຯ' | 'ໆ')
}

/// Whether a character is a letter of a script with small and capital letters. Georgian does not
/// count: Unicode calls its letters small, but texts are written without capitals.
pub(super) fn has_case(c: char) -> bool {
    (c.is_lowercase() || c.is_uppercase()) && !matches!(c, '\u{10d0}'..='\u{10ff}')
}
