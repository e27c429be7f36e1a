//! Cuts texts of one language into terms.

use super::{
    Language, TextAnalysis, Tokens,
    characters::{Alphabet, ScriptKind, alphabet, folded, is_vowel_point, pairs, parts, without_accents, word_runs},
    recognition::document_language,
    rules,
    words::words,
};
use foldhash::HashMap as FastHashMap;
use rust_stemmers::{Algorithm, Stemmer};
use std::{borrow::Cow, collections::HashSet};
use unicode_segmentation::UnicodeSegmentation;

/// The length of an n-gram, in characters.
const NGRAM: usize = 4;
/// Marks the beginning and the end of a word that is cut into n-grams.
const BORDER: char = '_';
/// The first character of each n-gram term. It distinguishes the n-gram `port` of a German word from the English
/// word.
const MARK: char = '\u{1}';
/// The longest word, in characters. Longer ones are cut into pieces, because a file without spaces
/// is one word.
const LONGEST_WORD: usize = 128;
/// The most words whose terms are cached for an alphabet. A full cache is emptied.
const REMEMBERED: usize = 1 << 17;

/// Cuts texts of one language into terms, and caches the terms of words.
pub struct Analyzer {
    /// `language = "english"`: texts are only lower-cased, as in LlamaIndex.
    unfolded: bool,
    analysis: TextAnalysis,
    language: Language,
    /// The rules for words of each alphabet, created when the first such word is read.
    words: [Option<Words>; Alphabet::COUNT],
    /// The alphabet of the language.
    alphabet: Alphabet,
}

impl Analyzer {
    /// An analyzer for texts in this language. If the settings name a language, that one is used instead.
    pub fn new(analysis: &TextAnalysis, language: Language) -> Self {
        let language = analysis.language.language().unwrap_or(language);
        Self {
            unfolded: analysis.is_llama_index(),
            analysis: *analysis,
            language,
            words: Default::default(),
            alphabet: rules::alphabet_of(language),
        }
    }

    /// An analyzer with default settings for the language of this text, or for English if the
    /// language is not clear.
    pub fn for_text(text: &str) -> Self {
        Self::new(&TextAnalysis::default(), document_language(text).unwrap_or(Language::ENGLISH))
    }

    /// Calls `each` with every term of a text, in order, repetitions included.
    pub fn terms(&mut self, text: &str, mut each: impl FnMut(&str)) {
        let text =
            if self.unfolded { text.to_lowercase().into() } else { folded(text, rules::has_dotless_i(self.language)) };
        for run in word_runs(&text) {
            if run.is_ascii() || (self.unfolded && self.analysis.tokens != Tokens::Bigrams) {
                self.word(run, &mut each);
                continue;
            }
            for (script, part) in parts(run) {
                match script {
                    ScriptKind::Spaced => self.word(part, &mut each),
                    _ if self.analysis.tokens == Tokens::Words => self.word(part, &mut each),
                    ScriptKind::Ideographic => {
                        part.chars().for_each(|c| each(c.encode_utf8(&mut [0; 4])));
                        if part.chars().nth(1).is_some() {
                            pairs(part, part.char_indices().map(|(at, _)| at)).for_each(|(_, pair)| each(pair));
                        }
                    }
                    ScriptKind::Syllabic => {
                        pairs(part, part.grapheme_indices(true).map(|(at, _)| at)).for_each(|(_, pair)| each(pair));
                    }
                }
            }
        }
    }

    /// The terms of a text, in order, repetitions included.
    pub fn terms_of(&mut self, text: &str) -> Vec<String> {
        let mut terms = Vec::new();
        self.terms(text, |term| terms.push(term.to_owned()));
        terms
    }

    fn word(&mut self, word: &str, each: &mut impl FnMut(&str)) {
        let own = self.alphabet;
        // With `language = "english"` every word is cut as English, whatever its alphabet.
        let alphabet = if self.unfolded { own } else { alphabet(word) };
        let make = || {
            let other = rules::usual_language(alphabet).filter(|_| alphabet != own);
            Words::new(&self.analysis, other.unwrap_or(self.language))
        };
        let words = self.words[alphabet as usize].get_or_insert_with(make);
        let mut rest = word;
        while !self.unfolded
            && rest.len() > LONGEST_WORD
            && let Some((cut, _)) = rest.char_indices().nth(LONGEST_WORD)
        {
            words.terms(&rest[..cut], each);
            rest = &rest[cut..];
        }
        words.terms(rest, each);
    }
}

/// The terms that a question and a text share, in the order of the question, each once. The rules of
/// the text's language cut both. Where terms are runs of characters of a word, the result has the
/// question's words of which the text has at least half of the runs, because runs cannot be read.
pub fn shared_terms(analysis: &TextAnalysis, question: &str, text: &str) -> Vec<String> {
    let mut analyzer = Analyzer::new(analysis, document_language(text).unwrap_or(Language::ENGLISH));
    let mut held: HashSet<String> = HashSet::new();
    analyzer.terms(text, |term| _ = held.insert(term.to_owned()));
    let mut shared = Vec::new();
    if rules::makes_ngrams(analyzer.language, analysis) {
        for (_, word) in words(question) {
            let runs = analyzer.terms_of(word);
            let n_held = runs.iter().filter(|run| held.contains(*run)).count();
            if n_held > 0 && 2 * n_held >= runs.len() && !shared.iter().any(|known| known == word) {
                shared.push(word.to_owned());
            }
        }
        return shared;
    }
    // `take` removes the term, so a repeated term is listed once.
    analyzer.terms(question, |term| shared.extend(held.take(term)));
    shared.into_iter().map(|term| term.trim_start_matches(MARK).to_owned()).collect()
}

/// How words of one language become terms.
struct Words {
    stemmer: Option<Stemmer>,
    /// The language whose stop words are left out; `None` if they stay.
    stop_words: Option<Language>,
    kept_marks: Option<&'static [char]>,
    unfolded: bool,
    folds_yo: bool,
    ngrams: bool,
    known: FastHashMap<String, Vec<String>>,
}

impl Words {
    fn new(analysis: &TextAnalysis, language: Language) -> Self {
        let ngrams = rules::makes_ngrams(language, analysis);
        let algorithm: Option<Algorithm> = rules::stemmer(language).filter(|_| analysis.stemmer && !ngrams);
        let unfolded = analysis.is_llama_index();
        Self {
            stemmer: algorithm.map(Stemmer::create),
            stop_words: analysis.stop_words.then_some(language),
            kept_marks: rules::kept_marks(language).filter(|_| !unfolded),
            unfolded,
            folds_yo: !unfolded && rules::writes_yo(language),
            ngrams,
            known: FastHashMap::default(),
        }
    }

    fn terms(&mut self, word: &str, each: &mut impl FnMut(&str)) {
        if let Some(terms) = self.known.get(word) {
            terms.iter().for_each(|term| each(term));
            return;
        }
        if self.known.len() >= REMEMBERED {
            self.known.clear();
        }
        let terms = self.cut(word);
        terms.iter().for_each(|term| each(term));
        self.known.insert(word.to_owned(), terms);
    }

    fn cut(&self, word: &str) -> Vec<String> {
        let is_stop_word = || self.stop_words.is_some_and(|language| rules::is_stop_word(language, word));
        if word.chars().nth(1).is_none() || is_stop_word() {
            return Vec::new();
        }
        let plain = match !self.unfolded && word.contains(is_vowel_point) {
            true => without_accents(word, |c| !is_vowel_point(c)),
            false => Cow::Borrowed(word),
        };
        // The stemmer does not know ё, which is mostly written е.
        let plain = if self.folds_yo && plain.contains('ё') { plain.replace('ё', "е").into() } else { plain };
        let stem = match &self.stemmer {
            Some(stemmer) => stemmer.stem(&plain).into_owned(),
            None => plain.into_owned(),
        };
        let term = match self.kept_marks {
            Some(kept) => without_accents(&stem, |c| kept.contains(&c)).into_owned(),
            None => stem,
        };
        match self.ngrams {
            true => ngrams(&term.replace('ß', "ss")),
            false => vec![term],
        }
    }
}

/// The n-grams of a word that has a [`BORDER`] at both ends: all runs of [`NGRAM`] characters.
fn ngrams(word: &str) -> Vec<String> {
    let characters: Vec<char> = std::iter::once(BORDER).chain(word.chars()).chain([BORDER]).collect();
    match characters.len() <= NGRAM {
        true => vec![marked(&characters)],
        false => characters.windows(NGRAM).map(marked).collect(),
    }
}

fn marked(run: &[char]) -> String {
    std::iter::once(&MARK).chain(run).collect()
}

#[cfg(test)]
mod tests {
    use super::super::LanguageChoice;
    use super::*;

    fn named(name: &str) -> Language {
        Language::named(name).unwrap()
    }

    fn terms(language: &str, text: &str) -> Vec<String> {
        Analyzer::new(&TextAnalysis::default(), named(language)).terms_of(text)
    }

    fn with(analysis: TextAnalysis, language: &str, text: &str) -> Vec<String> {
        Analyzer::new(&analysis, named(language)).terms_of(text)
    }

    #[test]
    fn english_words_are_lowered_stemmed_and_the_frequent_ones_left_out() {
        for analysis in [
            TextAnalysis::default(),
            TextAnalysis { language: LanguageChoice::Named(Language::ENGLISH), ..TextAnalysis::default() },
        ] {
            let cut = |text: &str| with(analysis, "english", text);
            assert_eq!(cut("The CATS and the running dogs, they chased!"), ["cat", "run", "dog", "chase"]);
            assert_eq!(cut("x ab 7 42 my_var c++ e-mail"), ["ab", "42", "my_var", "mail"]);
        }
    }

    #[test]
    fn english_by_name_takes_the_text_as_it_is() {
        let analysis = TextAnalysis { language: LanguageChoice::Named(Language::ENGLISH), ..TextAnalysis::default() };
        let cut = |text: &str| with(analysis, "german", text);
        assert_eq!(cut("Größe, naïve 東京タワー ελλάδα"), ["größe", "naïv", "東京タワー", "ελλάδα"]);
        assert_ne!(cut("ﬁle"), cut("file"));
    }

    #[test]
    fn frequent_words_and_endings_stay_if_the_settings_say_so() {
        let whole = TextAnalysis { stemmer: false, stop_words: false, ..TextAnalysis::default() };
        assert_eq!(with(whole, "english", "The cats"), ["the", "cats"]);
    }

    #[test]
    fn german_compounds_share_terms_with_their_parts() {
        let compound = terms("german", "Zombieprozesse");
        let shared = |text: &str| terms("german", text).iter().filter(|term| compound.contains(term)).count();
        assert!(shared("Prozess") >= 3 && shared("Zombie") >= 3, "{compound:?}");
        assert_eq!(terms("german", "an Größe"), ["\u{1}_gro", "\u{1}gros", "\u{1}ross", "\u{1}osse", "\u{1}sse_"]);
        assert_eq!(terms("german", "Größe"), terms("german", "GRO\u{308}SSE"));
        let words = TextAnalysis { tokens: Tokens::Words, ..TextAnalysis::default() };
        assert_eq!(
            with(words, "german", "die Prozesse"),
            with(TextAnalysis { tokens: Tokens::Bigrams, ..TextAnalysis::default() }, "german", "Prozess")
        );
    }

    #[test]
    fn words_of_other_languages_lose_their_own_endings() {
        assert_eq!(terms("french", "l'élève et les élèves"), ["elev", "elev"]);
        assert_eq!(terms("spanish", "los paquetes"), terms("spanish", "paquete"));
        assert_ne!(terms("spanish", "año"), terms("spanish", "ano"));
        assert_eq!(terms("russian", "пакетами пакетов"), ["пакет", "пакет"]);
        assert_eq!(terms("russian", "ёлка"), terms("russian", "елка"));
        assert_eq!(terms("turkish", "ISPARTA"), terms("turkish", "ısparta"));
    }

    #[test]
    fn words_in_another_alphabet_are_of_its_usual_language() {
        assert_eq!(terms("russian", "пакеты packages"), ["пакет", "packag"]);
        assert_eq!(terms("english", "пакеты packages"), ["пакет", "packag"]);
        assert_eq!(terms("ukrainian", "пакети"), ["пакети"]);
        assert_eq!(terms("japanese", "packagesをdownload"), ["packag", "を", "download"]);
    }

    #[test]
    fn han_and_kana_become_characters_and_pairs_hangul_and_thai_pairs() {
        assert_eq!(terms("japanese", "東京タ"), ["東", "京", "タ", "東京", "京タ"]);
        assert_eq!(terms("chinese", "包"), ["包"]);
        assert_eq!(terms("korean", "패키지를 한"), ["패키", "키지", "지를", "한"]);
        // A vowel sign stays with its consonant.
        assert_eq!(terms("thai", "ภาษาไ"), ["ภา", "าษ", "ษา", "าไ"]);
        let words = TextAnalysis { tokens: Tokens::Words, ..TextAnalysis::default() };
        assert_eq!(with(words, "japanese", "東京タワー"), ["東京タワー"]);
    }

    #[test]
    fn the_same_word_in_another_form_has_the_same_terms() {
        for (one, other) in [
            ("ﾊﾟｯｹｰｼﾞ", "パッケージ"),
            ("ｐａｃｋａｇｅ", "package"),
            ("pac\u{ad}kage", "package"),
            ("パッケーシ\u{3099}", "パッケージ"),
        ] {
            assert_eq!(terms("japanese", one), terms("japanese", other), "{one}");
        }
        assert_eq!(terms("arabic", "كِتَابٌ"), terms("arabic", "كتاب"));
        assert_eq!(terms("arabic", "كتـــاب"), terms("arabic", "كتاب"));
    }

    #[test]
    fn shared_terms_stand_in_the_order_of_the_question_once_each() {
        let shared_terms = |question: &str, text: &str| shared_terms(&TextAnalysis::default(), question, text);
        let shared = shared_terms("Do cats, cats and dogs run?", "The dog ran. A cat is running; the CAT purrs.");
        assert_eq!(shared, ["cat", "dog", "run"]);
        assert!(shared_terms("Who is it?", "It is the owl.").is_empty(), "frequent words do not count");
        assert!(shared_terms("", "owl").is_empty() && shared_terms("owl", "").is_empty());
    }

    #[test]
    fn shared_runs_of_characters_are_named_by_their_words() {
        let text = "Der Kernel beendet alle Zombieprozesse, die ein Benutzer gestartet hat, und schreibt ein Protokoll. \
                    Dieses Protokoll liegt im Verzeichnis des Benutzers, bis er es löscht oder das System neu startet. Danach \
                    wird es von einem anderen Programm gelesen, das alle Meldungen zusammenfasst und verschickt.";
        let ngrams = shared_terms(&TextAnalysis::default(), "Wer beendet einen Prozess des Archivs?", text);
        assert_eq!(ngrams, ["beendet", "Prozess"]);
        let words = TextAnalysis { tokens: Tokens::Words, ..TextAnalysis::default() };
        assert_eq!(shared_terms(&words, "Wer beendet einen Prozess des Archivs?", text), ["beendet"]);
    }

    #[test]
    fn texts_without_words_have_no_terms() {
        for text in ["", " \u{200b}\u{feff}", "…—“”", "👩\u{200d}👩\u{200d}👧 🇩🇪", "a"] {
            assert!(terms("english", text).is_empty(), "{text:?}");
        }
    }

    #[test]
    fn every_language_and_kind_of_token_reads_mixed_texts() {
        let text = "Ⅷ ½ x\u{301}\u{302}\u{303} שלום עברית اَلعربية हिन्दी में ภาษาไทย 한국어 조선말 漢字かな ﷺ 👩‍👧 \u{202e}abc\u{202c} ﬃ İI";
        for language in Language::all() {
            for tokens in [Tokens::Auto, Tokens::Words, Tokens::Bigrams, Tokens::Ngrams] {
                let analysis = TextAnalysis { tokens, ..TextAnalysis::default() };
                let found = Analyzer::new(&analysis, language).terms_of(text);
                assert!(found.iter().all(|term| !term.is_empty()) && found.len() > 10, "{language} {tokens:?}");
            }
        }
    }

    #[test]
    fn a_text_without_spaces_is_cut_into_words_of_limited_length() {
        let long = "a".repeat(1 << 20);
        let found = terms("english", &long);
        assert_eq!(found.len(), (1 << 20) / LONGEST_WORD);
        assert!(found.iter().all(|term| term.len() <= LONGEST_WORD));
    }
}
