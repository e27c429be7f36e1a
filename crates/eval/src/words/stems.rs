//! Splits texts into words for comparisons: stemmed by the rules of a language, and without
//! its stop words.

use super::script::{folded, is_unspaced, is_word_character, parts};
use rag::analysis::{Language, stop_words};
use rust_stemmers::Stemmer;
use std::{
    collections::{HashMap, HashSet},
    sync::LazyLock,
};
use whatlang::{Lang, Script};

/// English stop words. They are ignored when questions are compared and when the words of an
/// answer are looked for in a passage.
const STOP_WORDS: &[&str] = &[
    "a", "an", "and", "are", "as", "at", "be", "by", "can", "could", "did", "do", "does", "for", "from", "had", "has",
    "have", "how", "if", "in", "into", "is", "it", "its", "must", "not", "of", "on", "or", "should", "so", "such",
    "than", "that", "the", "their", "them", "then", "there", "these", "they", "this", "those", "to", "was", "were",
    "what", "when", "where", "which", "who", "whom", "why", "will", "with", "would", "you", "your",
];

/// The stop words of each language that has a stemmer, in the form of [`folded`].
static LISTS: LazyLock<HashMap<Lang, HashSet<String>>> = LazyLock::new(|| {
    let list = |language: Language| {
        let words = stop_words(language).iter().map(|word| folded(word).into_owned());
        (language.lang(), words.collect())
    };
    let stemmed = Language::all().into_iter().filter(|&language| rag::analysis::stemmer(language).is_some());
    let mut lists: HashMap<Lang, HashSet<String>> = stemmed.map(list).collect();
    lists.insert(Lang::Eng, STOP_WORDS.iter().map(|&word| word.to_owned()).collect());
    lists
});

/// Whether a text has a stop word of this language that is not also an English stop word. Always
/// true for languages without a list of stop words, and for languages that are not written in
/// Latin letters.
pub(super) fn has_frequent_words(text: &str, language: Lang) -> bool {
    let Some(list) = LISTS.get(&language).filter(|list| !list.is_empty() && is_latin(language)) else { return true };
    runs(&folded(text)).any(|word| list.contains(word) && !STOP_WORDS.contains(&word))
}

fn is_latin(language: Lang) -> bool {
    Script::Latin.langs().contains(&language)
}

fn stemmer(language: Lang) -> Option<Stemmer> {
    rag::analysis::stemmer(language.into()).map(Stemmer::create)
}

/// The stemmers for a text: the stemmer of its language, and the English one for Latin words in
/// a language of another script. `None` where there is no stemmer.
struct Stemmers {
    own: Option<Stemmer>,
    latin: Option<Stemmer>,
}

impl Stemmers {
    fn new(language: Lang) -> Self {
        let latin = if is_latin(language) { None } else { stemmer(Lang::Eng) };
        Self { own: stemmer(language), latin }
    }

    /// Stems a word. Words of up to three letters stay as they are.
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

/// The words of a text, in the form of [`folded`]: runs of letters and digits, and single
/// characters of scripts without spaces. If `stemmed` is a language, words of more than three
/// letters are stemmed, as far as there is a Snowball stemmer (see [`Stemmers`]).
///
/// Source for stemming and splitting by language: XL-Sum's multilingual ROUGE (T. Hasan et al.,
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

/// The stems of a text, without the stop words of its language. In scripts without spaces, each
/// pair of neighbouring characters counts as a stem, because nearly every passage has any
/// frequent character.
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
    use rust_stemmers::Algorithm;

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
}
