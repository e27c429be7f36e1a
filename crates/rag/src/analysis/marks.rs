//! Characters that mark the ends of sentences, stand beside such marks, or decide about them.

/// Whether a character is a mark with which sentences end, in any script.
pub fn ends_sentence(c: char) -> bool {
    matches!(c, '.' | '!' | '?') || is_script_mark(c)
}

/// Marks that end a sentence before white space.
pub(super) fn is_latin_mark(c: char) -> bool {
    matches!(c, '.' | '!' | '?' | '…' | '‥' | '‼' | '‽' | '⁇' | '⁈' | '⁉')
}

/// The marks that end a sentence in other scripts than Latin, with or without white space behind them.
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

/// Quotes, brackets and marks of Markdown that may stand behind the last mark of a sentence.
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

/// Quotes, brackets, dashes and marks of Markdown that may stand before the first letter of a sentence.
pub(super) fn is_opening(c: char) -> bool {
    is_closing(c)
        || c.is_whitespace()
        || is_invisible(c)
        || matches!(c, '(' | '[' | '{' | '„' | '‚' | '¿' | '¡' | '-' | '–' | '—' | '―' | '•' | '·' | '#' | '>' | '<')
}

/// Characters that show nothing: zero-width and directional ones, variation selectors.
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

/// Signs that belong to the word before them: abbreviation and repetition.
pub(super) fn is_thai_sign(c: char) -> bool {
    matches!(c, 'ฯ' | 'ๆ' | 'ຯ' | 'ໆ')
}

/// Whether small and capital letters differ. Unicode calls Georgian letters small, but texts have
/// no capitals.
pub(super) fn has_case(c: char) -> bool {
    (c.is_lowercase() || c.is_uppercase()) && !matches!(c, '\u{10d0}'..='\u{10ff}')
}
