//! Detects the language of a document or of a short text, to choose the rules for it.

use super::{
    language::{FEWEST_LETTERS, Language},
    rules::stop_words,
};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, HashMap},
    sync::LazyLock,
};
use whatlang::Lang;

/// The size of the sample in which the language of a text is detected, in bytes.
const SAMPLE_BYTES: usize = 1_536;
/// About how many bytes of the beginnings of a document's texts are joined.
const BEGINNINGS_BYTES: usize = 6_000;
/// How many stretches of a longer text make up its sample. There are several, so that a title
/// page or a licence in another language does not decide.
const STRETCHES: usize = 8;
/// The first Greek character. Letters from here on count as not Latin, also the letters of Latin Extended
/// Additional (U+1E00 to U+1EFF), which Vietnamese uses.
const FIRST_OF_OTHER_SCRIPTS: char = '\u{370}';
/// How many letters a passage or an answer must have for [`text_language`] to detect its language.
const FEWEST_OF_TEXT: usize = 40;

/// The language of a document; `None` if the document is too short or its language is not clear.
///
/// A long document is represented by eight stretches. If at least a quarter of the letters are
/// not Latin, the Latin ones are left out, because a Japanese manual may hold more code than
/// prose. Plain text in a dozen languages is recognised by its frequent words, or by its letters, because
/// `whatlang` takes 0.3 ms for each document, half as long as to cut it into chunks.
pub(crate) fn document_language(text: &str) -> Option<Language> {
    let sample = sample(text);
    let is_other = |c: char| c >= FIRST_OF_OTHER_SCRIPTS && c.is_alphabetic();
    let n_letters = sample.chars().filter(|c| c.is_alphabetic()).count();
    let n_others = sample.chars().filter(|c| is_other(*c)).count();
    if n_others * 4 < n_letters {
        return language_of_words(&sample).or_else(|| Language::of(&sample));
    }
    let others: String = sample.chars().filter(|c| is_other(*c) || !c.is_alphabetic()).collect();
    if is_plain_russian(&others) { Some(Language::RUSSIAN) } else { Language::of(&others) }
}

/// The language of each document. `texts` holds the texts of all documents one after another, and
/// `firsts` the index of each document's first text. If a document is too short or its language is not
/// clear, it counts as written in the language with the most text in the other documents, or in English
/// if there is none.
pub fn document_languages(texts: &[&str], firsts: &[usize]) -> Vec<Language> {
    let mut languages = DocumentLanguages::default();
    languages.add(texts, firsts);
    languages.finish()
}

/// The languages of documents, of which a few at a time are in memory.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct DocumentLanguages {
    /// The language of each document so far; none if it is not clear.
    found: Vec<Option<Language>>,
    /// The bytes of text in each language.
    sizes: BTreeMap<Language, usize>,
}

impl DocumentLanguages {
    /// Detects the languages of the next documents, which are given as to [`document_languages`].
    pub fn add(&mut self, texts: &[&str], firsts: &[usize]) {
        let ends = firsts.iter().skip(1).copied().chain([texts.len()]);
        let documents: Vec<&[&str]> = firsts.iter().zip(ends).map(|(&first, end)| &texts[first..end]).collect();
        let found: Vec<Option<Language>> =
            documents.par_iter().map(|texts| document_language(&beginnings(texts))).collect();
        for (language, texts) in found.iter().zip(&documents) {
            if let Some(language) = language {
                *self.sizes.entry(*language).or_default() += texts.iter().map(|text| text.len()).sum::<usize>();
            }
        }
        self.found.extend(found);
    }

    /// Adds the languages of the documents that come next.
    pub fn append(&mut self, next: &Self) {
        self.found.extend_from_slice(&next.found);
        for (language, size) in &next.sizes {
            *self.sizes.entry(*language).or_default() += size;
        }
    }

    /// Whether the language of some document is not clear.
    pub fn has_unclear(&self) -> bool {
        self.found.contains(&None)
    }

    /// The language with the most text.
    pub fn most_text(&self) -> Language {
        let largest = self.sizes.iter().max_by_key(|(_, size)| **size);
        largest.map_or(Language::ENGLISH, |(language, _)| *language)
    }

    /// The language of each document; `other` for those whose language is not clear.
    pub fn or(&self, other: Language) -> Vec<Language> {
        self.found.iter().map(|language| language.unwrap_or(other)).collect()
    }

    /// The language of each document, as [`document_languages`] tells it.
    pub fn finish(self) -> Vec<Language> {
        self.or(self.most_text())
    }
}

/// The beginnings of up to 12 evenly spaced texts of a document. They are spread over the document, so
/// that an English preface does not decide the language of a translated manual.
fn beginnings(texts: &[&str]) -> String {
    let step = texts.len().div_ceil(12).max(1);
    let most = BEGINNINGS_BYTES / texts.len().clamp(1, 12);
    let mut joined = String::with_capacity(BEGINNINGS_BYTES);
    for text in texts.iter().step_by(step) {
        joined.push_str(&text[..text.floor_char_boundary(most)]);
        joined.push('\n');
    }
    joined
}

/// The language of a passage or an answer. `None` if it is English, if it is not clear, or if the
/// text has fewer than 40 letters. A text whose letters are all ASCII counts as English, so that
/// plain English is never mistaken for another language.
pub fn text_language(text: &str) -> Option<Language> {
    let sample = sample(text);
    if !sample.chars().any(|c| !c.is_ascii() && c.is_alphabetic()) {
        return None;
    }
    let is_short = sample.chars().filter(|c| c.is_alphabetic()).nth(FEWEST_OF_TEXT - 1).is_none();
    if is_short {
        return None;
    }
    let language = language_of_words(&sample).or_else(|| Language::detected(&sample));
    language.filter(|language| *language != Language::ENGLISH)
}

/// The languages that [`language_of_words`] recognises, besides English. Others are too like a language without a list
/// of stop words (Dutch like Afrikaans, Slovenian like Croatian), or have stop words that are words of many languages
/// (Romanian).
const PLAIN: [Lang; 9] =
    [Lang::Deu, Lang::Fin, Lang::Fra, Lang::Hun, Lang::Ita, Lang::Por, Lang::Spa, Lang::Swe, Lang::Tur];

/// Words that are frequent in English and rare in other languages.
const ENGLISH_WORDS: [&str; 12] =
    ["the", "and", "that", "with", "this", "are", "you", "have", "from", "which", "not", "they"];

/// Frequent Catalan words. There is no list of its stop words, and many of them are Spanish, French or Italian.
const CATALAN_WORDS: [&str; 34] = [
    "a", "al", "als", "amb", "aquest", "aquesta", "cal", "com", "de", "del", "dels", "des", "el", "els", "en", "es",
    "és", "i", "ja", "la", "les", "més", "no", "o", "per", "però", "pot", "que", "seva", "seu", "si", "són", "un",
    "una",
];

/// The stop words of all languages in Latin letters except English. The bits of a word are its languages,
/// by their places in [`Lang::all`].
static FREQUENT: LazyLock<HashMap<&'static str, u128>> = LazyLock::new(|| {
    let mut words: HashMap<&'static str, u128> = HashMap::new();
    for lang in Lang::all().iter().copied().filter(|lang| *lang != Lang::Eng) {
        let words_of = if lang == Lang::Cat { &CATALAN_WORDS } else { stop_words(lang.into()) };
        for word in words_of.iter().filter(|word| word.chars().all(|c| c < FIRST_OF_OTHER_SCRIPTS)) {
            *words.entry(word).or_default() |= 1 << lang as usize;
        }
    }
    words
});

/// The language of a text of at least 30 words, if its frequent words leave no doubt. One word in 16 is enough for
/// English, because its words are rare in other languages. In other languages, at least one word in five must be a
/// stop word, and half as many more as of any other language. In 3,959 stretches of the Universal Declaration of Human
/// Rights, in 500 languages, no language that `whatlang` knows was taken for another.
fn language_of_words(text: &str) -> Option<Language> {
    let (mut n_words, mut n_english, mut n_frequent) = (0, 0, [0_usize; 128]);
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        n_words += 1;
        n_english += usize::from(ENGLISH_WORDS.contains(&word));
        let mut languages = match FREQUENT.get(word) {
            Some(languages) => *languages,
            None if word.starts_with(char::is_uppercase) => {
                FREQUENT.get(word.to_lowercase().as_str()).copied().unwrap_or(0)
            }
            None => 0,
        };
        while languages > 0 {
            n_frequent[languages.trailing_zeros() as usize] += 1;
            languages &= languages - 1;
        }
    }
    if n_words < 30 {
        return None;
    }
    if n_english * 16 >= n_words {
        return Some(Language::ENGLISH);
    }
    let place = (0..n_frequent.len()).max_by_key(|place| n_frequent[*place])?;
    let most = n_frequent[place];
    let next = n_frequent.iter().enumerate().filter(|(other, _)| *other != place).map(|(_, n)| *n).max()?;
    let lang = *Lang::all().get(place)?;
    (most * 5 >= n_words && 2 * most >= 3 * next && PLAIN.contains(&lang)).then(|| lang.into())
}

/// Whether a text of at least 200 letters is Russian by its letters: it has `ы`, and no letter that Belarusian,
/// Ukrainian or a South Slavic language has and Russian does not.
fn is_plain_russian(text: &str) -> bool {
    let letters = text.chars().filter(|c| c.is_alphabetic());
    let is_russian = |c| matches!(c, 'а'..='я' | 'А'..='Я' | 'ё' | 'Ё');
    text.contains('ы') && letters.clone().all(is_russian) && letters.count() >= FEWEST_LETTERS
}

/// Evenly spaced stretches of a text, one on each line. A text that is no longer than the sample is returned whole.
fn sample(text: &str) -> String {
    if text.len() <= SAMPLE_BYTES {
        return text.to_owned();
    }
    let length = SAMPLE_BYTES / STRETCHES;
    let starts = (0..STRETCHES).map(|i| (text.len() - length) / (STRETCHES - 1) * i);
    let stretch = |start: usize| &text[text.floor_char_boundary(start)..text.floor_char_boundary(start + length)];
    starts.map(stretch).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GERMAN: &str = "Das Paketverwaltungssystem löst Abhängigkeiten selbst auf und entfernt Pakete, die nicht mehr \
                          gebraucht werden. Wer eine ältere Version behalten will, hält das Paket fest. Danach wird es \
                          bei keiner Aktualisierung des Systems angefasst, bis die Sperre aufgehoben ist. ";
    const ENGLISH: &str = "The package manager resolves dependencies on its own and removes packages that are no longer \
                           needed. Whoever wants to keep an older version holds the package. After that no upgrade of \
                           the system touches it until the hold is removed again. ";

    fn named(name: &str) -> Language {
        Language::named(name).unwrap()
    }

    #[test]
    fn a_title_page_does_not_decide() {
        let text = ENGLISH.repeat(10) + &GERMAN.repeat(200);
        assert_eq!(document_language(&text), Language::named("german"));
        assert_eq!(document_language(GERMAN), Language::named("german"));
        assert_eq!(document_language(ENGLISH), Some(Language::ENGLISH));
        assert_eq!(document_language("Kurz."), None);
        assert_eq!(document_language(""), None);
    }

    #[test]
    fn plain_texts_are_recognised_by_their_words() {
        assert_eq!(language_of_words(ENGLISH), Some(Language::ENGLISH));
        assert_eq!((language_of_words("the and that"), language_of_words("")), (None, None));
        let texts = [
            ("german", GERMAN),
            (
                "french",
                "Le gestionnaire de paquets résout lui-même les dépendances et supprime les paquets dont on n'a plus besoin. \
                 Si vous voulez garder une version plus ancienne, il faut la bloquer dans la configuration du système.",
            ),
            (
                "spanish",
                "El gestor de paquetes resuelve por sí mismo las dependencias y elimina los paquetes que ya no se necesitan. \
                 Si usted quiere conservar una versión más antigua, es necesario que la bloquee en la configuración.",
            ),
            (
                "italian",
                "Il gestore dei pacchetti risolve da solo le dipendenze e rimuove i pacchetti che non sono più necessari. Se \
                 si vuole tenere una versione più vecchia, è necessario che questa sia bloccata nella configurazione.",
            ),
        ];
        for (name, text) in texts {
            assert_eq!(language_of_words(text), Language::named(name), "{text}");
        }
        // Near languages are left to trigrams.
        let catalan = "El gestor de paquets resol ell mateix les dependències i elimina els paquets que ja no es necessiten. \
                       Si voleu conservar una versió més antiga, cal que la bloquegeu a la configuració del vostre sistema.";
        let afrikaans = "Die pakketbestuurder los die afhanklikhede self op en verwyder die pakkette wat nie meer nodig is nie. \
                         As jy van plan is om die ouer weergawe te hou, is dit nodig dat dit in die opstelling gesluit is.";
        assert_eq!((language_of_words(catalan), language_of_words(afrikaans)), (None, None));
        let mixed = format!("{GERMAN}{GERMAN}{ENGLISH}");
        assert_eq!(document_language(&mixed), Language::named("german"));
    }

    #[test]
    fn code_does_not_decide_the_language_of_a_japanese_manual() {
        let prose = "パッケージ管理システムは依存関係を自動的に解決します。";
        let text = format!("{prose} sudo apt-get install --no-install-recommends\n").repeat(60);
        assert_eq!(document_language(&text), Language::named("japanese"));
        let russian = "Система управления пакетами сама разрешает зависимости. apt-get install package\n".repeat(60);
        assert_eq!(document_language(&russian), Language::named("russian"));
        let others = [
            (
                "ukrainian",
                "Система керування пакунками сама розв'язує залежності та вилучає пакунки, які більше не потрібні. ",
            ),
            (
                "bulgarian",
                "Системата за управление на пакети сама разрешава зависимостите и премахва пакетите, които вече не са нужни. ",
            ),
            (
                "belarusian",
                "Сістэма кіравання пакетамі сама вырашае залежнасці і выдаляе пакеты, якія больш не патрэбныя. ",
            ),
        ];
        for (name, text) in others {
            assert_eq!(document_language(&text.repeat(9)), Language::named(name), "{text}");
        }
    }

    #[test]
    fn short_texts_of_ascii_count_as_english_and_others_are_recognised() {
        assert_eq!(text_language("Das Paket wird entfernt."), None);
        assert_eq!(text_language(ENGLISH), None);
        assert_eq!(text_language(GERMAN), Language::named("german"));
        assert_eq!(text_language("naïve"), None);
    }

    #[test]
    fn a_sample_is_short_and_cut_between_characters() {
        for text in ["日本語".repeat(5_000), "é".repeat(SAMPLE_BYTES), "👩‍👩‍👧".repeat(999)] {
            let sample = sample(&text);
            assert!(sample.len() <= SAMPLE_BYTES + 4 * STRETCHES && sample.len() > SAMPLE_BYTES / 2);
        }
        assert_eq!(sample("a"), "a");
    }

    #[test]
    fn a_document_without_a_clear_language_has_that_of_most_text() {
        let german =
            "Das Paketverwaltungssystem löst Abhängigkeiten auf und entfernt Pakete, die niemand mehr braucht. ";
        let english = "The package manager resolves dependencies and removes packages that nobody needs any more. ";
        let (german, english) = (german.repeat(9), english.repeat(4));
        let texts = [german.as_str(), "v1.2", english.as_str(), "apt"];
        assert_eq!(document_languages(&texts, &[0, 2, 3]), [named("german"), named("english"), named("german")]);
        assert_eq!(document_languages(&["x", "y"], &[0, 1]), [Language::ENGLISH; 2]);
        assert!(document_languages(&[], &[]).is_empty());
    }
}
