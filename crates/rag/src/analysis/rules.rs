//! Rules for each language: stemmer, stop words, alphabet, accents.

use super::{Language, TextAnalysis, Tokens, characters::Alphabet};
use rust_stemmers::Algorithm;
use std::{
    collections::{HashMap, HashSet},
    sync::LazyLock,
};
use whatlang::{Lang, Script};

/// The Snowball stemmer of a language; `None` if there is none.
pub fn stemmer(language: Language) -> Option<Algorithm> {
    Some(match language.lang() {
        Lang::Ara => Algorithm::Arabic,
        Lang::Dan => Algorithm::Danish,
        Lang::Nld => Algorithm::Dutch,
        Lang::Eng => Algorithm::English,
        Lang::Fin => Algorithm::Finnish,
        Lang::Fra => Algorithm::French,
        Lang::Deu => Algorithm::German,
        Lang::Ell => Algorithm::Greek,
        Lang::Hun => Algorithm::Hungarian,
        Lang::Ita => Algorithm::Italian,
        Lang::Nob => Algorithm::Norwegian,
        Lang::Por => Algorithm::Portuguese,
        Lang::Ron => Algorithm::Romanian,
        Lang::Rus => Algorithm::Russian,
        Lang::Spa => Algorithm::Spanish,
        Lang::Swe => Algorithm::Swedish,
        Lang::Tam => Algorithm::Tamil,
        Lang::Tur => Algorithm::Turkish,
        _ => return None,
    })
}

/// The English stop words: the list of Lucene and LlamaIndex.
const ENGLISH_STOP_WORDS: [&str; 33] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of",
    "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with",
];

/// The stop words of a language, which nearly every text contains; empty if there is no list.
pub fn stop_words(language: Language) -> &'static [&'static str] {
    // NLTK's lists are found by their ISO 639-1 codes.
    let code = match language.lang() {
        Lang::Eng => return &ENGLISH_STOP_WORDS,
        Lang::Ara => "ar",
        Lang::Aze => "az",
        Lang::Dan => "da",
        Lang::Deu => "de",
        Lang::Ell => "el",
        Lang::Fin => "fi",
        Lang::Fra => "fr",
        Lang::Hun => "hu",
        Lang::Ind => "id",
        Lang::Ita => "it",
        Lang::Nep => "ne",
        Lang::Nld => "nl",
        Lang::Nob => "no",
        Lang::Por => "pt",
        Lang::Ron => "ro",
        Lang::Rus => "ru",
        Lang::Slv => "sl",
        Lang::Spa => "es",
        Lang::Swe => "sv",
        Lang::Tur => "tr",
        _ => return &[],
    };
    stop_words::get(code)
}

/// The stop words of each language, built once.
static STOP_WORDS: LazyLock<HashMap<Language, HashSet<&'static str>>> = LazyLock::new(|| {
    let of = |language: Language| (language, stop_words(language).iter().copied().collect());
    Language::all().into_iter().map(of).collect()
});

/// Whether a word is a stop word of a language.
pub(super) fn is_stop_word(language: Language, word: &str) -> bool {
    STOP_WORDS.get(&language).is_some_and(|words| words.contains(word))
}

/// Whether a language writes compounds as one word.
pub(super) fn joins_words(language: Language) -> bool {
    matches!(language.lang(), Lang::Deu | Lang::Nld | Lang::Dan | Lang::Nob | Lang::Swe | Lang::Fin)
}

/// The alphabet that a language is written in.
pub(super) fn alphabet_of(language: Language) -> Alphabet {
    let all = [
        (Script::Latin, Alphabet::Latin),
        (Script::Greek, Alphabet::Greek),
        (Script::Cyrillic, Alphabet::Cyrillic),
        (Script::Arabic, Alphabet::Arabic),
        (Script::Tamil, Alphabet::Tamil),
    ];
    let found = all.into_iter().find(|(script, _)| script.langs().contains(&language.lang()));
    found.map_or(Alphabet::Other, |(_, alphabet)| alphabet)
}

/// The language whose rules cut words of this alphabet in a text of another alphabet.
pub(super) fn usual_language(alphabet: Alphabet) -> Option<Language> {
    let name = match alphabet {
        Alphabet::Latin => "english",
        Alphabet::Greek => "greek",
        Alphabet::Cyrillic => "russian",
        Alphabet::Arabic => "arabic",
        Alphabet::Tamil => "tamil",
        Alphabet::Other => return None,
    };
    Language::named(name)
}

/// Whether a language has the letter `ı` without a dot, so that the small letter of `I` is `ı`.
pub(super) fn has_dotless_i(language: Language) -> bool {
    matches!(language.lang(), Lang::Tur | Lang::Aze)
}

/// The combining marks that stay in the terms of a language, because they distinguish its letters. All
/// others are removed. `None` if all marks stay.
pub(super) fn kept_marks(language: Language) -> Option<&'static [char]> {
    Some(match language.lang() {
        // The tilde of ñ and the breve of й stay. The dots of ё go, because ё is mostly written е.
        Lang::Spa => &['\u{303}'],
        Lang::Rus => &['\u{306}'],
        Lang::Deu | Lang::Nld | Lang::Fra | Lang::Ita | Lang::Por | Lang::Cat | Lang::Ron | Lang::Ell => &[],
        _ => return None,
    })
}

/// Whether a language has the letter `ё`. It is mostly written `е`, and the stemmer does not know it.
pub(super) fn writes_yo(language: Language) -> bool {
    language.lang() == Lang::Rus
}

/// Whether the words of a language are cut into n-grams with these settings.
pub(super) fn makes_ngrams(language: Language, analysis: &TextAnalysis) -> bool {
    match analysis.tokens {
        Tokens::Ngrams => true,
        Tokens::Auto => joins_words(language),
        Tokens::Words | Tokens::Bigrams => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Language {
        Language::named(name).unwrap()
    }

    #[test]
    fn lists_of_stop_words_are_there_for_every_language_with_a_stemmer_but_tamil() {
        for language in Language::all().into_iter().filter(|&language| stemmer(language).is_some()) {
            assert_eq!(stop_words(language).is_empty(), language == named("tamil"), "{language}");
        }
        assert!(ENGLISH_STOP_WORDS.is_sorted());
    }

    #[test]
    fn alphabets_of_languages_are_known() {
        for (alphabet, names) in [
            (Alphabet::Latin, &["german", "turkish", "vietnamese", "polish"][..]),
            (Alphabet::Cyrillic, &["russian", "ukrainian"]),
            (Alphabet::Arabic, &["arabic", "persian", "urdu"]),
            (Alphabet::Greek, &["greek"]),
            (Alphabet::Tamil, &["tamil"]),
            (Alphabet::Other, &["japanese", "korean", "thai", "hindi"]),
        ] {
            for name in names {
                assert_eq!(alphabet_of(named(name)), alphabet, "{name}");
            }
            if let Some(usual) = usual_language(alphabet) {
                assert_eq!(alphabet_of(usual), alphabet);
            }
        }
    }
}
