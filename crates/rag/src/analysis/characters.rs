//! Characters: normalizes texts so that those that look the same are equal, and recognises the
//! scripts that are written without spaces.

use super::marks::is_invisible;
use regex_syntax::is_word_character;
use std::borrow::Cow;
use unicode_normalization::{IsNormalized, UnicodeNormalization, char::is_combining_mark, is_nfkc_quick};

/// How the characters of a script are cut into terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScriptKind {
    /// Words are separated by spaces.
    Spaced,
    /// Han and Kana: a single character is often a word.
    Ideographic,
    /// Hangul, Thai, Lao, Khmer, Myanmar: a single character is seldom a word.
    Syllabic,
}

/// The kind of script that a character belongs to.
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

/// The longest runs of word characters, as the regular expression `\w+` finds them: letters, digits, marks, and
/// punctuation that joins words.
pub(super) fn word_runs(text: &str) -> impl Iterator<Item = &str> {
    // Searching the table of `regex-syntax` takes long, so ASCII does without it.
    let is_inside = |c: char| match c.is_ascii() {
        true => c.is_ascii_alphanumeric() || c == '_',
        false => is_word_character(c),
    };
    text.split(move |c| !is_inside(c)).filter(|run| !run.is_empty())
}

/// Splits a run of characters where the kind of script changes. A combining mark stays with the character before it.
pub(super) fn parts(run: &str) -> impl Iterator<Item = (ScriptKind, &str)> {
    let mut rest = run;
    std::iter::from_fn(move || {
        let first = script(rest.chars().next()?);
        let other = |(_, c): &(usize, char)| script(*c) != first && !is_combining_mark(*c);
        let end = rest.char_indices().skip(1).find(other).map_or(rest.len(), |(at, _)| at);
        let (part, after) = rest.split_at(end);
        rest = after;
        Some((first, part))
    })
}

/// Each pair of neighbouring characters of a text, with the byte offset of the first. `starts` are the byte
/// offsets where the characters (or grapheme clusters) start. A single character is returned alone.
pub(super) fn pairs(text: &str, starts: impl Iterator<Item = usize> + Clone) -> impl Iterator<Item = (usize, &str)> {
    let ends = starts.clone().skip(2).chain([text.len()]);
    starts.zip(ends).map(move |(start, end)| (start, &text[start..end]))
}

/// Alphabets. All but `Other` have a language whose rules cut their words in texts of another alphabet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// The number of alphabets.
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

/// The form in which texts are compared: NFKC, lower case, no invisible characters. With `dotless`
/// (Turkish, Azerbaijani) `I` becomes `ı` and `İ` becomes `i`.
pub(super) fn folded(text: &str, dotless: bool) -> Cow<'_, str> {
    let text: Cow<'_, str> = match text.is_ascii() || is_nfkc_quick(text.chars()) == IsNormalized::Yes {
        true => Cow::Borrowed(text),
        false => text.nfkc().collect::<String>().into(),
    };
    let text = match dotless && text.contains(['I', 'İ']) {
        true => text.replace('I', "ı").replace('İ', "i").into(),
        false => text,
    };
    if !text.chars().any(is_left_out) && text.chars().all(|c| c.is_lowercase() || !c.is_alphabetic()) {
        return text;
    }
    text.to_lowercase().replace(is_left_out, "").into()
}

/// Whether a character is left out of words: it is invisible, or it is the stroke that stretches Arabic words.
fn is_left_out(c: char) -> bool {
    is_invisible(c) || matches!(c, '\u{640}' | '\u{2061}'..='\u{2064}' | '\u{206a}'..='\u{206f}')
}

/// A word without its accents, except for the combining marks that `keeps` returns `true` for.
pub(super) fn without_accents(word: &str, keeps: impl Fn(char) -> bool) -> Cow<'_, str> {
    if word.is_ascii() {
        return Cow::Borrowed(word);
    }
    word.nfd().filter(|&c| !is_combining_mark(c) || keeps(c)).nfc().collect::<String>().into()
}

/// Whether a character is a vowel sign or another sign that is mostly left out in Arabic and Hebrew texts.
pub(super) fn is_vowel_point(c: char) -> bool {
    matches!(c, '\u{0591}'..='\u{05c7}' | '\u{0610}'..='\u{061a}' | '\u{064b}'..='\u{065f}' | '\u{0670}' | '\u{06d6}'..='\u{06ed}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use regex::Regex;

    #[test]
    fn texts_that_look_the_same_have_one_form() {
        assert_eq!(folded("Ｇｒöße ﬁne", false), "größe fine");
        assert_eq!(folded("Gro\u{0308}ße", false), folded("Größe", false));
        assert_eq!(folded("ﾊﾟｯｹｰｼﾞ", false), "パッケージ");
        assert_eq!(folded("Paket\u{ad}ver\u{200b}waltung", false), "paketverwaltung");
        assert!(matches!(folded("plain text, 7", false), Cow::Borrowed(_)));
    }

    #[test]
    fn word_runs_are_those_of_the_regular_expression() {
        let all: String = ('\0'..=char::MAX).flat_map(|c| ['x', c, ' ', c, c]).collect();
        let runs = Regex::new(r"\w+").unwrap();
        assert!(word_runs(&all).eq(runs.find_iter(&all).map(|run| run.as_str())));
        assert_eq!(word_runs(" my_var, e\u{301}t\u{e9}: 7½ ").collect::<Vec<_>>(), ["my_var", "e\u{301}t\u{e9}", "7"]);
        assert_eq!(word_runs("").count() + word_runs(" …").count(), 0);
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
