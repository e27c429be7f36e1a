//! The normal form in which answers are compared.
//!
//! For English it is the form of SQuAD's evaluation script (P. Rajpurkar et al.,
//! EMNLP 2016): small letters, no punctuation, no articles, single spaces. For other
//! languages it is the form of MLQA's script (P. Lewis et al., ACL 2020), which extends
//! SQuAD's: it removes the articles of the language and all characters of Unicode's
//! category P, and counts each Chinese character as a word.
//!
//! Other data sets decide what a word is in these texts:
//!
//! | texts | words | source |
//! |-------|-------|--------|
//! | Han and Kana | each character | CMRC 2018 (Y. Cui et al., 2019), JSQuAD (K. Kurihara et al., 2022) |
//! | Hangul | each syllable | KorQuAD 1.0 (S. Lim et al., 2019), whose F1 counts characters |
//! | Thai, Lao, Khmer, Myanmar, Tibetan | each character with its marks | as for Han |
//! | French | articles with `du`, `des`, `au`, `aux`, and `l'` | FQuAD (M. d'Hoffschmidt et al., 2020) |
//!
//! Differences from these scripts:
//!
//! - CMRC scores the longest run of characters that both texts share. Here the order of
//!   words does not matter, as in SQuAD.
//! - KorQuAD and JSQuAD also cut Latin words and numbers into characters. Here these stay
//!   whole words, as in MLQA.
//! - Spaces between characters of the scripts in the table do not matter.
//! - Typographic dashes that are longer than a hyphen separate words.
//! - Texts are first brought into one Unicode form ([`folded`]).

use super::script::{folded, is_punctuation, parts};
use super::stems::has_frequent_words;
use whatlang::Lang;

/// Detects the one language of several texts, such as a question and its reference.
/// English if the detection is uncertain, or if the texts have no stop word of the detected
/// language (see [`has_frequent_words`]).
pub(crate) fn language_of(texts: &[&str]) -> Lang {
    let text = texts.join("\n");
    match rag::language_of_short_text(&text) {
        Some(language) if language != Lang::Eng && has_frequent_words(&text, language) => language,
        _ => Lang::Eng,
    }
}

/// The articles of a language, in the form of [`folded`]. Empty for languages that have none
/// or are not listed.
fn articles(language: Lang) -> &'static [&'static str] {
    match language {
        Lang::Eng => &["a", "an", "the"],
        Lang::Deu => &["ein", "eine", "einen", "einem", "eines", "einer", "der", "die", "das", "den", "dem", "des"],
        Lang::Spa => &["un", "una", "unos", "unas", "el", "la", "los", "las"],
        Lang::Fra => &["le", "la", "les", "du", "des", "au", "aux", "un", "une"],
        Lang::Ita => &["il", "lo", "la", "i", "gli", "le", "un", "uno", "una"],
        Lang::Por => &["o", "a", "os", "as", "um", "uma", "uns", "umas"],
        Lang::Cat => &["el", "la", "els", "les", "un", "una", "uns", "unes"],
        Lang::Nld => &["de", "het", "een"],
        Lang::Dan => &["en", "et", "den", "det", "de"],
        Lang::Nob => &["en", "ei", "et", "den", "det", "de"],
        Lang::Swe => &["en", "ett", "den", "det", "de"],
        Lang::Ron => &["un", "o", "niște", "unui", "unei"],
        Lang::Hun => &["a", "az", "egy"],
        Lang::Ell => &[
            "ο", "η", "το", "οι", "τα", "του", "τησ", "των", "τον", "την", "τη", "τουσ", "τισ", "ένασ", "μία", "μια",
            "ένα",
        ],
        Lang::Vie => &["của", "là", "cái", "chiếc", "những"],
        _ => &[],
    }
}

/// Removes an article that an apostrophe joins to the word: `l'eau` becomes `eau`.
fn without_elided_article(word: &str, language: Lang) -> &str {
    let prefixes: &[&str] = match language {
        Lang::Fra | Lang::Cat => &["l'", "l’"],
        Lang::Ita => &["l'", "l’", "un'", "un’"],
        _ => return word,
    };
    let opened = word.trim_start_matches(is_punctuation);
    let noun = prefixes.iter().find_map(|prefix| opened.strip_prefix(prefix));
    noun.filter(|noun| !noun.is_empty()).unwrap_or(word)
}

/// Removes the article `ال` from an Arabic word if at least two letters remain, as Lucene does.
/// `الله` (God) stays whole.
fn without_arabic_article(word: &str) -> &str {
    let noun = word.strip_prefix("ال").filter(|noun| noun.chars().nth(1).is_some() && word != "الله");
    noun.unwrap_or(word)
}

/// Replaces full-width punctuation with spaces, because Chinese and Japanese put no space behind
/// it. Between two digits it stays, so that `10：30` becomes the same as `10:30`.
fn with_spaces_for_wide_punctuation(text: &str) -> String {
    let mut spaced = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    let mut is_behind_digit = false;
    while let Some(c) = characters.next() {
        let is_wide = matches!(
            c,
            '\u{ff01}'
                | '\u{ff08}'
                | '\u{ff09}'
                | '\u{ff0c}'
                | '\u{ff0f}'
                | '\u{ff1a}'
                | '\u{ff1b}'
                | '\u{ff1f}'
                | '\u{ff61}'
                | '\u{ff64}'
        );
        let is_in_number = is_behind_digit && characters.peek().is_some_and(|next| next.is_numeric());
        spaced.push(if is_wide && !is_in_number { ' ' } else { c });
        is_behind_digit = c.is_numeric();
    }
    spaced
}

/// The words of a text in its normal form, by the rules of this language.
pub(crate) fn answer_words(text: &str, language: Lang) -> Vec<String> {
    let articles = articles(language);
    let text: String = folded(&with_spaces_for_wide_punctuation(text))
        .chars()
        .map(|c| match c {
            '\u{2012}'..='\u{2015}' | '\u{2e3a}' | '\u{2e3b}' => ' ',
            // Chinese and Japanese put no space behind their punctuation.
            '\u{3001}'..='\u{3003}' | '\u{3008}'..='\u{3011}' | '\u{3014}'..='\u{301b}' => ' ',
            c => c,
        })
        .collect();
    let mut words = Vec::new();
    for word in text.split_whitespace() {
        let word: String = without_elided_article(word, language).chars().filter(|c| !is_punctuation(*c)).collect();
        let word = if language == Lang::Ara { without_arabic_article(&word) } else { &word };
        if !articles.contains(&word) {
            words.extend(parts(word).map(|(_, part)| part.to_owned()));
        }
    }
    words
}

/// Compares two texts that have no words in the normal form, such as `+`, or the answer `A`
/// (vitamin A). Compares the texts themselves, because their empty lists of words would always
/// be equal. `None` if one of them has words.
pub(crate) fn equal_without_words(left: &[String], right: &[String], texts: (&str, &str)) -> Option<bool> {
    if !left.is_empty() || !right.is_empty() {
        return None;
    }
    Some(folded(texts.0.trim()) == folded(texts.1.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normal_form_of_english_is_that_of_squad() {
        let words = |text: &str| answer_words(text, Lang::Eng);
        assert_eq!(words("The  Eiffel-Tower, an icon!"), ["eiffeltower", "icon"]);
        assert_eq!(words("“Don’t” — a test"), ["dont", "test"]);
        assert!(words("The a an …").is_empty());
    }

    #[test]
    fn english_ascii_is_bit_by_bit_what_the_script_of_squad_gives() {
        let squad = |text: &str| -> Vec<String> {
            let plain: String = text.to_lowercase().chars().filter(|c| !c.is_ascii_punctuation()).collect();
            let words = plain.split_whitespace().filter(|word| !matches!(*word, "a" | "an" | "the"));
            words.map(str::to_owned).collect()
        };
        let all: String = (0..128u8).map(char::from).collect();
        for text in [all.as_str(), "It's the $5.00 (a bargain)\tA\u{b}B", "l'eau un'x -- the-end", "THE", " \n "] {
            assert_eq!(answer_words(text, Lang::Eng), squad(text), "{text:?}");
        }
    }

    #[test]
    fn articles_are_those_of_the_language() {
        for (language, text, words) in [
            (Lang::Deu, "Der Turm, ein Wahrzeichen", vec!["turm", "wahrzeichen"]),
            (Lang::Deu, "a an the", vec!["a", "an", "the"]),
            (Lang::Fra, "« L’eau » du lac, l'île", vec!["eau", "lac", "île"]),
            (Lang::Spa, "¿Los Ángeles?", vec!["ángeles"]),
            (Lang::Ita, "un'opera e l’arte", vec!["opera", "e", "arte"]),
            (Lang::Ell, "της Αθήνας", vec!["αθήνασ"]),
            (Lang::Ara, "الكتاب، الله الالتزام", vec!["كتاب", "الله", "التزام"]),
            (Lang::Rus, "Москва — столица", vec!["москва", "столица"]),
        ] {
            assert_eq!(answer_words(text, language), words, "{text}");
        }
    }

    #[test]
    fn characters_of_scripts_without_spaces_are_words() {
        assert_eq!(answer_words("2008年，北京 奥运会。", Lang::Cmn), ["2008", "年", "北", "京", "奥", "运", "会"]);
        assert_eq!(
            answer_words("東京タワー（Tokyo Tower）", Lang::Jpn),
            ["東", "京", "タ", "ワ", "ー", "tokyo", "tower"]
        );
        assert_eq!(answer_words("서울특별시", Lang::Kor), answer_words("서울 특별시", Lang::Kor));
        assert_eq!(answer_words("ที่นี่", Lang::Tha), ["ที่", "นี่"]);
    }

    #[test]
    fn wide_punctuation_separates_words_as_a_space_does() {
        for wide in "，：；（）／！？｡､".chars() {
            assert_eq!(answer_words(&format!("apt{wide}dpkg"), Lang::Cmn), ["apt", "dpkg"], "{wide}");
        }
        assert_eq!(answer_words("10：30", Lang::Cmn), answer_words("10:30", Lang::Cmn));
    }

    #[test]
    fn forms_of_the_same_text_are_equal() {
        for (language, one, other) in [
            (Lang::Cmn, "（Ａ１）。", "(A1)."),
            (Lang::Fra, "e\u{301}te\u{301}", "été"),
            (Lang::Ara, "٢٠١٥م؟", "2015م"),
            (Lang::Deu, "GROSSE STRASSE", "große Straße!"),
        ] {
            assert_eq!(answer_words(one, language), answer_words(other, language), "{one}");
        }
    }

    #[test]
    fn texts_without_words_are_compared_as_they_are() {
        assert_eq!(equal_without_words(&[], &[], (" A", "a")), Some(true));
        assert_eq!(equal_without_words(&[], &[], ("＋", "+")), Some(true));
        assert_eq!(equal_without_words(&[], &[], ("+", "-")), Some(false));
        assert_eq!(equal_without_words(&["x".into()], &[], ("x", "-")), None);
    }

    #[test]
    fn the_language_is_that_of_question_and_reference_and_english_where_it_is_unclear() {
        assert_eq!(
            language_of(&[
                "Wann wurde der Turm gebaut, und für wen?",
                "Der Turm wurde im Jahre 1889 für die Weltausstellung gebaut."
            ]),
            Lang::Deu
        );
        assert_eq!(language_of(&["什么时候？", "2008年"]), Lang::Cmn);
        assert_eq!(language_of(&["42", ""]), Lang::Eng);
        for words in ["generously generate commune hopping universe light engine", "die dying dies digitizer valency"] {
            assert_eq!(language_of(&[words]), Lang::Eng, "{words}");
        }
    }
}
