//! Words of texts for comparing them: stemmed in their language, without stop words.

use super::script::{folded, is_unspaced, is_word_character, parts};
use rust_stemmers::{Algorithm, Stemmer};
use std::{
    collections::{HashMap, HashSet},
    sync::LazyLock,
};
use whatlang::{Lang, Script};

/// Stop words of English, which are ignored when questions are compared or an answer is
/// searched in a passage.
const STOP_WORDS: &[&str] = &[
    "a", "an", "and", "are", "as", "at", "be", "by", "can", "could", "did", "do", "does", "for", "from", "had", "has",
    "have", "how", "if", "in", "into", "is", "it", "its", "must", "not", "of", "on", "or", "should", "so", "such",
    "than", "that", "the", "their", "them", "then", "there", "these", "they", "this", "those", "to", "was", "were",
    "what", "when", "where", "which", "who", "whom", "why", "will", "with", "would", "you", "your",
];

/// Languages with their Snowball stemmer and the code of NLTK's list of stop words, which has
/// none for Tamil.
const LANGUAGES: [(Lang, Algorithm, Option<&str>); 17] = [
    (Lang::Ara, Algorithm::Arabic, Some("ar")),
    (Lang::Dan, Algorithm::Danish, Some("da")),
    (Lang::Nld, Algorithm::Dutch, Some("nl")),
    (Lang::Fin, Algorithm::Finnish, Some("fi")),
    (Lang::Fra, Algorithm::French, Some("fr")),
    (Lang::Deu, Algorithm::German, Some("de")),
    (Lang::Ell, Algorithm::Greek, Some("el")),
    (Lang::Hun, Algorithm::Hungarian, Some("hu")),
    (Lang::Ita, Algorithm::Italian, Some("it")),
    (Lang::Nob, Algorithm::Norwegian, Some("no")),
    (Lang::Por, Algorithm::Portuguese, Some("pt")),
    (Lang::Ron, Algorithm::Romanian, Some("ro")),
    (Lang::Rus, Algorithm::Russian, Some("ru")),
    (Lang::Spa, Algorithm::Spanish, Some("es")),
    (Lang::Swe, Algorithm::Swedish, Some("sv")),
    (Lang::Tam, Algorithm::Tamil, None),
    (Lang::Tur, Algorithm::Turkish, Some("tr")),
];

/// The folded stop words of each language that has some.
static LISTS: LazyLock<HashMap<Lang, HashSet<String>>> = LazyLock::new(|| {
    let mut lists: HashMap<Lang, HashSet<String>> = HashMap::new();
    lists.insert(Lang::Eng, STOP_WORDS.iter().map(|&word| word.to_owned()).collect());
    for (language, _, code) in LANGUAGES {
        let words = code.map(stop_words::get).unwrap_or_default();
        lists.insert(language, words.iter().map(|word| folded(word).into_owned()).collect());
    }
    lists
});

/// Whether a text has a stop word of a language that is none of English. Of a language without a
/// list, and of one in other letters than Latin ones, nothing is asked.
pub(super) fn has_frequent_words(text: &str, language: Lang) -> bool {
    let Some(list) = LISTS.get(&language).filter(|list| !list.is_empty() && is_latin(language)) else { return true };
    runs(&folded(text)).any(|word| list.contains(word) && !STOP_WORDS.contains(&word))
}

fn is_latin(language: Lang) -> bool {
    Script::Latin.langs().contains(&language)
}

fn stemmer(language: Lang) -> Option<Stemmer> {
    if language == Lang::Eng {
        return Some(Stemmer::create(Algorithm::English));
    }
    LANGUAGES.iter().find(|(known, _, _)| *known == language).map(|(_, algorithm, _)| Stemmer::create(*algorithm))
}

/// The stemmers of a text: of its language, and of English for Latin words among other
/// scripts.
struct Stemmers {
    own: Option<Stemmer>,
    latin: Option<Stemmer>,
}

impl Stemmers {
    fn new(language: Lang) -> Self {
        let latin = if is_latin(language) { None } else { stemmer(Lang::Eng) };
        Self { own: stemmer(language), latin }
    }

    /// The stem of a word with more than three letters.
    fn stem(&self, word: &str) -> String {
        let stemmer = match &self.latin {
            Some(latin) if word.starts_with(|c: char| c.is_ascii()) => Some(latin),
            _ => self.own.as_ref(),
        };
        match stemmer.filter(|_| word.chars().nth(3).is_some()) {
            Some(stemmer) => stemmer.stem(word).into_owned(),
            None => word.to_owned(),
        }
    }
}

/// The runs of letters, digits and marks of a folded text.
fn runs(folded: &str) -> impl Iterator<Item = &str> {
    folded.split(|c: char| !is_word_character(c)).filter(|run| !run.is_empty())
}

/// The words of a text in small letters: runs of letters and digits, and single characters of
/// scripts without spaces. With a language, words of more than three letters are stemmed by
/// its Snowball stemmer, if it has one.
///
/// Source of stemming and cutting by language: XL-Sum's multilingual ROUGE (T. Hasan et al.,
/// 2021).
pub(crate) fn tokens(text: &str, stemmed: Option<Lang>) -> Vec<String> {
    let stemmers = stemmed.map(Stemmers::new);
    let text = folded(text);
    let words = runs(&text).flat_map(parts).map(|(is_single, word)| match &stemmers {
        Some(stemmers) if !is_single => stemmers.stem(word),
        _ => word.to_owned(),
    });
    words.collect()
}

/// The stems of a text without the stop words of its language. Of scripts without spaces it
/// has each two neighbours, because single characters stand in nearly every passage.
pub(crate) fn content_stems(text: &str, language: Lang) -> HashSet<String> {
    let stemmers = Stemmers::new(language);
    let lists = [language, Lang::Eng].map(|language| LISTS.get(&language));
    // Latin words among other scripts are mostly English.
    let lists = if stemmers.latin.is_some() { &lists[..] } else { &lists[..1] };
    let is_stop_word = |word: &str| lists.iter().flatten().any(|list| list.contains(word));
    let mut stems = HashSet::new();
    let text = folded(text);
    for run in runs(&text) {
        if !run.chars().any(is_unspaced) {
            if !is_stop_word(run) {
                stems.insert(stemmers.stem(run));
            }
            continue;
        }
        let parts: Vec<(bool, &str)> = parts(run).collect();
        stems.extend(parts.iter().filter(|(is_single, _)| !is_single).map(|(_, word)| stemmers.stem(word)));
        for singles in parts.split(|(is_single, _)| !is_single) {
            match singles {
                [(_, alone)] => stems.extend([(*alone).to_owned()]),
                several => stems.extend(several.windows(2).map(|pair| format!("{}{}", pair[0].1, pair[1].1))),
            }
        }
    }
    stems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_stemmed_beyond_three_letters() {
        assert_eq!(tokens("Running dogs' IDs, v2.1", Some(Lang::Eng)), ["run", "dog", "ids", "v2", "1"]);
        assert_eq!(tokens("Running", None), ["running"]);
    }

    #[test]
    fn english_ascii_is_cut_as_before() {
        let before = |text: &str| -> Vec<String> {
            let stemmer = Stemmer::create(Algorithm::English);
            let lower = text.to_lowercase();
            let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
            let stem = |word: &str| match word.chars().nth(3) {
                Some(_) => stemmer.stem(word).into_owned(),
                None => word.to_owned(),
            };
            words.map(stem).collect()
        };
        let all: String = (0..128u8).map(char::from).collect();
        for text in [all.as_str(), "Generously running; don't_stop e-mails 3.5kg", ""] {
            assert_eq!(tokens(text, Some(Lang::Eng)), before(text), "{text:?}");
        }
    }

    #[test]
    fn words_lose_the_endings_of_their_language() {
        assert_eq!(tokens("Die Pakete", Some(Lang::Deu)), ["die", "paket"]);
        assert_eq!(tokens("пакетами packages", Some(Lang::Rus)), ["пакет", "packag"]);
        assert_eq!(tokens("अनुवादों", Some(Lang::Hin)), ["अनुवादों"], "marks are part of a word");
        assert_eq!(
            tokens("Pakietami", Some(Lang::Pol)),
            ["pakietami"],
            "no stemmer is better than that of another language"
        );
        assert_eq!(tokens("安装apt软件", Some(Lang::Cmn)), ["安", "装", "apt", "软", "件"]);
    }

    #[test]
    fn content_stems_leave_small_words_out() {
        let of = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<HashSet<String>>();
        assert_eq!(content_stems("What is the size of the packages?", Lang::Eng), of(&["size", "packag"]));
        assert_eq!(content_stems("Wie groß sind die Pakete?", Lang::Deu), of(&["gross", "paket"]));
        assert_eq!(content_stems("Какой размер у пакетов?", Lang::Rus), of(&["размер", "пакет"]));
    }

    #[test]
    fn scripts_without_spaces_have_pairs_of_characters() {
        let of = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<HashSet<String>>();
        assert_eq!(content_stems("软件包，the apt工具。包", Lang::Cmn), of(&["软件", "件包", "apt", "工具", "包"]));
    }

    #[test]
    fn every_stemmer_has_a_list_but_tamil() {
        for (language, _, code) in LANGUAGES {
            assert_eq!(LISTS[&language].is_empty(), code.is_none(), "{language:?}");
        }
    }
}
