//! Characters: one form for texts that look the same, and the scripts that are cut
//! without spaces.

use std::borrow::Cow;
use unicode_normalization::{IsNormalized, UnicodeNormalization, char::is_combining_mark, is_nfkc_quick};

/// How a run of characters is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScriptKind {
    /// Words are separated by spaces.
    Spaced,
    /// Han and Kana: a single character often is a word.
    Ideographic,
    /// Hangul, Thai, Lao, Khmer, Myanmar: a single character seldom is a word.
    Syllabic,
}

/// How the run is cut that a character belongs to. A combining mark belongs to the run
/// before it.
pub(super) fn script(c: char) -> ScriptKind {
    match c {
        '\0'..='\u{0dff}' => ScriptKind::Spaced,
        // Thai, Lao; Myanmar; Khmer; Hangul in its three blocks.
        '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{1100}'..='\u{11ff}' => {
            ScriptKind::Syllabic
        }
        '\u{3130}'..='\u{318f}' | '\u{ac00}'..='\u{d7ff}' => ScriptKind::Syllabic,
        // Iteration marks and the ideographic zero; Kana; Bopomofo; Han.
        '\u{3005}'..='\u{3007}' | '\u{3031}'..='\u{312f}' | '\u{31a0}'..='\u{31bf}' | '\u{31f0}'..='\u{31ff}' => {
            ScriptKind::Ideographic
        }
        '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{1b000}'..='\u{1b16f}' => {
            ScriptKind::Ideographic
        }
        '\u{20000}'..='\u{3ffff}' => ScriptKind::Ideographic,
        _ => ScriptKind::Spaced,
    }
}

/// Alphabets whose words have rules of a language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Alphabet {
    /// Latin letters, and digits.
    Latin,
    /// Greek letters.
    Greek,
    /// Cyrillic letters.
    Cyrillic,
    /// Arabic letters.
    Arabic,
    /// The Tamil script.
    Tamil,
    /// All others.
    Other,
}

impl Alphabet {
    /// How many there are.
    pub(super) const COUNT: usize = Self::Other as usize + 1;
}

/// The alphabet of a word, by its first character.
pub(super) fn alphabet(word: &str) -> Alphabet {
    match word.chars().next() {
        Some('\0'..='\u{24f}' | '\u{1e00}'..='\u{1eff}') => Alphabet::Latin,
        Some('\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}') => Alphabet::Greek,
        Some('\u{400}'..='\u{52f}' | '\u{1c80}'..='\u{1c8f}') => Alphabet::Cyrillic,
        Some('\u{600}'..='\u{6ff}' | '\u{750}'..='\u{77f}' | '\u{8a0}'..='\u{8ff}') => Alphabet::Arabic,
        Some('\u{b80}'..='\u{bff}') => Alphabet::Tamil,
        _ => Alphabet::Other,
    }
}

/// A text in small letters, in the normal form NFKC, without characters that are not
/// seen. `dotless` is for Turkish and Azerbaijani, where `I` and `İ` are other letters
/// than elsewhere.
pub(super) fn folded(text: &str, dotless: bool) -> Cow<'_, str> {
    let text: Cow<'_, str> = match text.is_ascii() || is_nfkc_quick(text.chars()) == IsNormalized::Yes {
        true => Cow::Borrowed(text),
        false => text.nfkc().collect::<String>().into(),
    };
    let text = match dotless && text.contains(['I', 'İ']) {
        true => text.replace('I', "ı").replace('İ', "i").into(),
        false => text,
    };
    if !text.chars().any(is_invisible) && text.chars().all(|c| c.is_lowercase() || !c.is_alphabetic()) {
        return text;
    }
    text.to_lowercase().replace(is_invisible, "").into()
}

/// Characters within words that are not seen: the soft hyphen, joiners, marks of the
/// direction, variation selectors, the long stroke of Arabic, the byte order mark.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{00ad}' | '\u{0640}' | '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{2064}' | '\u{2066}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
    )
}

/// A word without its accents; `keeps` says which marks stay.
pub(super) fn without_accents(word: &str, keeps: impl Fn(char) -> bool) -> Cow<'_, str> {
    if word.is_ascii() {
        return Cow::Borrowed(word);
    }
    word.nfd().filter(|&c| !is_combining_mark(c) || keeps(c)).nfc().collect::<String>().into()
}

/// Whether a mark is a vowel sign or another sign that Arabic and Hebrew texts mostly leave out.
pub(super) fn is_vowel_point(c: char) -> bool {
    matches!(c, '\u{0591}'..='\u{05c7}' | '\u{0610}'..='\u{061a}' | '\u{064b}'..='\u{065f}' | '\u{0670}' | '\u{06d6}'..='\u{06ed}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_look_the_same_have_one_form() {
        assert_eq!(folded("Ｇｒöße ﬁne", false), "größe fine");
        assert_eq!(folded("Gro\u{0308}ße", false), folded("Größe", false));
        assert_eq!(folded("ﾊﾟｯｹｰｼﾞ", false), "パッケージ");
        assert_eq!(folded("Paket\u{ad}ver\u{200b}waltung", false), "paketverwaltung");
        assert!(matches!(folded("plain text, 7", false), Cow::Borrowed(_)));
    }

    #[test]
    fn turkish_has_two_letters_i() {
        assert_eq!(folded("ISPARTA İzmir", true), "ısparta izmir");
        assert_eq!(folded("ISPARTA", false), "isparta");
    }

    #[test]
    fn accents_go_and_the_marks_that_are_kept_stay() {
        assert_eq!(without_accents("élève", |_| false), "eleve");
        assert_eq!(without_accents("mañana", |c| c == '\u{303}'), "mañana");
        assert_eq!(without_accents("йод", |c| c == '\u{306}'), "йод");
    }

    #[test]
    fn scripts_without_spaces_are_known() {
        for (text, expected) in [
            ("aß_Жα7عह", ScriptKind::Spaced),
            ("東々〇カなー𠀀ㄅ", ScriptKind::Ideographic),
            ("한ไລမក", ScriptKind::Syllabic),
        ] {
            assert!(text.chars().all(|c| script(c) == expected), "{text}");
        }
    }
}
