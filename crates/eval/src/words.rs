//! Text functions: citations removed, words normalised, sentences split.
//!
//! Shared by the text metrics, the judged ones and the generation of
//! questions.
//!
//! The normal form is that of SQuAD's evaluation script (P. Rajpurkar et al.,
//! EMNLP 2016), in own code: lower case, no punctuation, no English articles,
//! single spaces. Two differences: typographic punctuation is removed like ASCII
//! punctuation, and dashes longer than a hyphen separate words.

use rag::analysis::{Language, text_language};
use regex::Regex;
use rust_stemmers::{Algorithm, Stemmer};
use std::{collections::HashSet, sync::LazyLock};

/// A constant pattern, compiled when it is first used.
pub(crate) type Pattern = LazyLock<Regex>;

/// Compiles a constant pattern.
#[expect(clippy::expect_used, reason = "constant patterns, which the tests compile")]
pub(crate) fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is valid")
}

/// The highest number that counts as a citation if the passages are unknown. No model
/// gets more passages.
const MOST_PASSAGES: u32 = 99;

/// Removes citations such as ` [1]` or `[1, 3]` from an answer. Only `citations`
/// count, and not within backticks, so that `x[1]` in code survives.
pub(crate) fn without_citations(text: &str, citations: &[u32]) -> String {
    take_citations(text, citations).0.trim().to_owned()
}

/// A text without its citations, and the position of each citation in that text,
/// in bytes.
fn take_citations(text: &str, citations: &[u32]) -> (String, Vec<(usize, u32)>) {
    let mut out = String::with_capacity(text.len());
    let mut taken = Vec::new();
    let mut in_code = false;
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        if next == '['
            && !in_code
            && let Some(length) = citation_length(rest, citations)
        {
            out.truncate(out.trim_end().len());
            taken.extend(numbers(&rest[..length]).flatten().map(|number| (out.len(), number)));
            rest = &rest[length..];
            continue;
        }
        in_code ^= next == '`';
        out.push(next);
        rest = &rest[next.len_utf8()..];
    }
    (out, taken)
}

/// The sentences of an answer without citations, each with the numbers that it
/// cites, once each and in order. A citation belongs to the sentence that it is in
/// or that it follows: `So it is. [1]`.
pub(crate) fn cited_sentences(text: &str, citations: &[u32]) -> Vec<(String, Vec<u32>)> {
    let (plain, taken) = take_citations(text, citations);
    let mut found: Vec<(usize, String, Vec<u32>)> = Vec::new();
    let mut start = 0;
    for sentence in sentences(&plain) {
        let begin = plain[start..].find(sentence).map_or(start, |at| start + at);
        start = begin + sentence.len();
        found.push((begin, sentence.to_owned(), Vec::new()));
    }
    for (at, number) in taken {
        let behind = found.iter().rposition(|(begin, _, _)| *begin < at).unwrap_or_default();
        if let Some((_, _, cited)) = found.get_mut(behind).filter(|(_, _, cited)| !cited.contains(&number)) {
            cited.push(number);
        }
    }
    found.into_iter().map(|(_, sentence, cited)| (sentence, cited)).collect()
}

/// The passages that an answer cites which Reverie did not write (a user's file of answers): numbers in brackets for which
/// there is a passage, not within backticks; each once, in order.
pub(crate) fn citations(text: &str, n_passages: usize) -> Vec<u32> {
    let possible: Vec<u32> = (1..=u32::try_from(n_passages).unwrap_or(u32::MAX)).collect();
    each_once(take_citations(text, &possible).1.into_iter().map(|(_, number)| number))
}

fn each_once(numbers: impl IntoIterator<Item = u32>) -> Vec<u32> {
    let mut seen = HashSet::new();
    numbers.into_iter().filter(|number| seen.insert(*number)).collect()
}

/// [`citations`] if the passages are unknown: numbers up to [`MOST_PASSAGES`] in
/// brackets after a space, punctuation or another citation, as in `Paris [1].`;
/// `a[1]`, `[1] Paris` and `[2024]` are no citations.
pub(crate) fn unchecked_citations(text: &str) -> Vec<u32> {
    let possible: Vec<u32> = (1..=MOST_PASSAGES).collect();
    let (mut cited, mut before, mut in_code) = (Vec::new(), None, false);
    for (at, next) in text.char_indices() {
        in_code ^= next == '`';
        let is_behind = before.is_some_and(|before: char| before.is_whitespace() || ".,;:!?)]\"'”’".contains(before));
        if next == '['
            && !in_code
            && is_behind
            && !text[..at].trim().is_empty()
            && let Some(length) = citation_length(&text[at..], &possible)
        {
            cited.extend(numbers(&text[at..at + length]).flatten());
        }
        before = Some(next);
    }
    each_once(cited)
}

/// The length of the citation with which a text begins.
fn citation_length(text: &str, citations: &[u32]) -> Option<usize> {
    let length = text.find(']')? + 1;
    numbers(&text[..length]).all(|number| number.is_some_and(|number| citations.contains(&number))).then_some(length)
}

/// The numbers of a citation; `None` for what is no number.
fn numbers(citation: &str) -> impl Iterator<Item = Option<u32>> {
    citation[1..citation.len() - 1].split([',', ';']).map(|number| number.trim().parse().ok())
}

/// `a, b or c`.
pub(crate) fn alternatives(words: &[String]) -> String {
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

/// The words of SQuAD's normal form.
pub(crate) fn squad_words(text: &str) -> Vec<String> {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars().flat_map(char::to_lowercase) {
        match c {
            '\u{2012}'..='\u{2015}' => plain.push(' '),
            c if is_punctuation(c) => {}
            c => plain.push(c),
        }
    }
    plain.split_whitespace().filter(|word| !matches!(*word, "a" | "an" | "the")).map(str::to_owned).collect()
}

fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation()
        || matches!(c, '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{205E}' | '\u{3001}'..='\u{3003}' | '«' | '»' | '¡' | '¿' | '·')
}

/// Compares two texts without words in the normal form, such as `+`, or `A` for
/// vitamin A; otherwise all such texts would be equal. `None` if one has words.
pub(crate) fn equal_without_words(left: &[String], right: &[String], texts: (&str, &str)) -> Option<bool> {
    if !left.is_empty() || !right.is_empty() {
        return None;
    }
    Some(texts.0.trim().to_lowercase() == texts.1.trim().to_lowercase())
}

/// Lower-case runs of letters and digits, stemmed if asked (English Snowball,
/// words of more than three letters only).
pub(crate) fn tokens(text: &str, stem: bool) -> Vec<String> {
    let stemmer = Stemmer::create(Algorithm::English);
    text.to_lowercase()
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(
            |word| {
                if stem && word.chars().nth(3).is_some() { stemmer.stem(word).into_owned() } else { word.to_owned() }
            },
        )
        .collect()
}

/// Stop words, which are ignored when questions are compared or an answer is
/// searched in a passage.
const STOP_WORDS: &[&str] = &[
    "a", "an", "and", "are", "as", "at", "be", "by", "can", "could", "did", "do", "does", "for", "from", "had", "has",
    "have", "how", "if", "in", "into", "is", "it", "its", "must", "not", "of", "on", "or", "should", "so", "such",
    "than", "that", "the", "their", "them", "then", "there", "these", "they", "this", "those", "to", "was", "were",
    "what", "when", "where", "which", "who", "whom", "why", "will", "with", "would", "you", "your",
];

/// The stems of a text without stop words.
pub(crate) fn content_stems(text: &str) -> HashSet<String> {
    let lower = text.to_lowercase();
    let kept: Vec<&str> =
        lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !STOP_WORDS.contains(word)).collect();
    tokens(&kept.join(" "), true).into_iter().collect()
}

/// Abbreviations; the full stop after them does not end a sentence.
const ABBREVIATIONS: &[&str] = &[
    "e.g", "i.e", "cf", "vs", "mr", "mrs", "ms", "dr", "prof", "st", "no", "fig", "sec", "vol", "pp", "approx", "resp",
];

/// The sentences of a text, trimmed, without empty ones. Together they hold every word of
/// the text. A text in another language than English, or with letters of other scripts, is
/// cut by [`rag::analysis::sentences`].
pub(crate) fn sentences(text: &str) -> Vec<&str> {
    let language = text_language(text).filter(|language| *language != Language::ENGLISH);
    if language.is_none() && !text.chars().any(|c| c >= FIRST_OF_OTHER_SCRIPTS && c.is_alphabetic()) {
        return english_sentences(text);
    }
    let spans = rag::analysis::sentences(text, language);
    let found = spans.into_iter().map(|span| text[span.start..span.end].trim());
    found.filter(|sentence| sentence.chars().any(char::is_alphanumeric)).collect()
}

/// The first Armenian letter; Latin, Greek and Cyrillic letters come before it.
const FIRST_OF_OTHER_SCRIPTS: char = '\u{531}';

/// English sentences. One ends after `.`, `!` or `?` (and closing quotes or brackets)
/// before white space, unless an abbreviation ends there or a small letter follows, or at
/// an empty line.
fn english_sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut characters = text.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        let mut end = at + c.len_utf8();
        let ends = match c {
            '\n' => text[end..].trim_start_matches([' ', '\t', '\r']).starts_with('\n'),
            '。' | '！' | '？' => true,
            '.' | '!' | '?' => {
                while let Some((_, closing)) =
                    characters.next_if(|(_, next)| matches!(next, '"' | '\'' | ')' | ']' | '”' | '’' | '»'))
                {
                    end += closing.len_utf8();
                }
                ends_sentence(&text[start..at], c, &text[end..])
            }
            _ => false,
        };
        if ends {
            found.push(text[start..end].trim());
            start = end;
        }
    }
    found.push(text[start..].trim());
    found.retain(|sentence| sentence.chars().any(char::is_alphanumeric));
    found
}

fn ends_sentence(before: &str, stop: char, after: &str) -> bool {
    let Some(first) = after.chars().next() else { return true };
    if !first.is_whitespace() {
        return false;
    }
    if after.trim_start().chars().next().is_some_and(char::is_lowercase) {
        return false;
    }
    if stop != '.' {
        return true;
    }
    let word = before.rsplit(|c: char| c.is_whitespace() || c == '(').next().unwrap_or_default().to_lowercase();
    !ABBREVIATIONS.contains(&word.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn citations_go_with_the_space_before_them() {
        assert_eq!(without_citations("Paris [1], France [2][3]. [1, 3]", &[1, 2, 3]), "Paris, France.");
    }

    #[test]
    fn a_citation_belongs_to_the_sentence_in_or_behind_which_it_stands() {
        let cited = |text: &str| {
            let sentences = cited_sentences(text, &[1, 2, 3]);
            sentences.into_iter().map(|(sentence, cited)| format!("{sentence}{cited:?}")).collect::<Vec<_>>()
        };
        assert_eq!(cited("Ä is b [1]. C [2][1] is d. [3] E is."), ["Ä is b.[1]", "C is d.[2, 1, 3]", "E is.[]"]);
        assert_eq!(cited("[2] A is.[1] B is [3, 3]."), ["A is.[2, 1]", "B is.[3]"]);
        assert_eq!(cited("A is. A is. [2]"), ["A is.[]", "A is.[2]"]);
        assert!(cited("[1] …").is_empty());
    }

    #[test]
    fn texts_of_others_cite_the_passages_that_there_are() {
        assert_eq!(citations("A [2], b [9] and `x[1]` [2; 3].", 3), [2, 3]);
        assert!(citations("A [1].", 0).is_empty());
    }

    #[test]
    fn brackets_that_cite_nothing_stay() {
        assert_eq!(without_citations("Use `x[1]` or y[2] [sic] [", &[1]), "Use `x[1]` or y[2] [sic] [");
        assert_eq!(without_citations("[] [1", &[1]), "[] [1");
    }

    #[test]
    fn the_normal_form_is_that_of_squad() {
        assert_eq!(squad_words("The  Eiffel-Tower, an icon!"), ["eiffeltower", "icon"]);
        assert_eq!(squad_words("“Don’t” — a test"), ["dont", "test"]);
        assert!(squad_words("The a an …").is_empty());
    }

    #[test]
    fn texts_without_words_are_compared_as_they_are() {
        assert_eq!(equal_without_words(&[], &[], (" A", "a")), Some(true));
        assert_eq!(equal_without_words(&[], &[], ("+", "-")), Some(false));
        assert_eq!(equal_without_words(&["x".into()], &[], ("x", "-")), None);
    }

    #[test]
    fn tokens_are_stemmed_beyond_three_letters() {
        assert_eq!(tokens("Running dogs' IDs, v2.1", true), ["run", "dog", "ids", "v2", "1"]);
        assert_eq!(tokens("Running", false), ["running"]);
    }

    #[test]
    fn sentences_keep_abbreviations_and_numbers_together() {
        let text = "Use apt, e.g. APT 2.0. It works (mostly.) See v. 3!\n\nDone\nnow. and on";
        assert_eq!(
            sentences(text),
            ["Use apt, e.g. APT 2.0.", "It works (mostly.)", "See v.", "3!", "Done\nnow. and on"]
        );
    }

    #[test]
    fn sentences_of_other_languages_end_by_their_own_rules() {
        let german =
            "Das Paket hängt z. B. von Dr. Müllers Bibliothek ab, die größer ist. Prüfen Sie es am 3. Oktober.";
        assert_eq!(
            sentences(german),
            ["Das Paket hängt z. B. von Dr. Müllers Bibliothek ab, die größer ist.", "Prüfen Sie es am 3. Oktober."]
        );
        assert_eq!(sentences("「はい。」第二の文です！本当？"), ["「はい。」", "第二の文です！", "本当？"]);
        assert_eq!(sentences("यह पहला है। यह दूसरा है।"), ["यह पहला है।", "यह दूसरा है।"]);
        assert_eq!(sentences("ما هذا؟ هذا كتاب."), ["ما هذا؟", "هذا كتاب."]);
    }

    #[test]
    fn a_text_without_stops_is_one_sentence_and_no_text_is_none() {
        assert_eq!(sentences("no stop here"), ["no stop here"]);
        assert!(sentences(" . \n\n ?").is_empty());
    }

    #[test]
    fn content_stems_leave_small_words_out() {
        let stems = content_stems("What is the size of the packages?");
        assert_eq!(stems, HashSet::from(["size".to_owned(), "packag".to_owned()]));
    }
}
