//! Text functions: citations removed, words normalised, sentences split.
//!
//! Shared by the text metrics, the judged ones and the generation of
//! questions.
//!
//! `normal_form.rs` has the normal form in which answers are compared, `stems.rs` has
//! stems and stop words, and `script.rs` has the classes of characters that both use.

mod normal_form;
mod script;
mod stems;

pub(crate) use normal_form::{answer_words, equal_without_words, language_of};
pub(crate) use script::{folded, is_mark, is_punctuation, is_unspaced};
pub(crate) use stems::{content_stems, tokens};

use rag::analysis::text_language;
use regex::Regex;
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

/// Brackets around citations. Chinese and Japanese texts also use wide brackets.
const OPENING: [char; 3] = ['[', '【', '［'];
const CLOSING: [char; 3] = [']', '】', '］'];

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
        if OPENING.contains(&next)
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

/// The numbers of the passages that are cited by an answer of another system, such as one
/// from a user's file of answers. Counts numbers in brackets, outside of backticks, for which
/// there is a passage; each once, in order.
pub(crate) fn citations(text: &str, n_passages: usize) -> Vec<u32> {
    let possible: Vec<u32> = (1..=u32::try_from(n_passages).unwrap_or(u32::MAX)).collect();
    each_once(take_citations(text, &possible).1.into_iter().map(|(_, number)| number))
}

fn each_once(numbers: impl IntoIterator<Item = u32>) -> Vec<u32> {
    let mut seen = HashSet::new();
    numbers.into_iter().filter(|number| seen.insert(*number)).collect()
}

/// Like [`citations`], for an answer whose passages are unknown. Counts numbers up to
/// [`MOST_PASSAGES`] in brackets that follow a space, punctuation, another citation, or a
/// character of a script without spaces: `Paris [1].` and `巴黎[1]。`. It does not count
/// `a[1]`, `[1] Paris` and `[2024]`.
pub(crate) fn unchecked_citations(text: &str) -> Vec<u32> {
    let possible: Vec<u32> = (1..=MOST_PASSAGES).collect();
    let (mut cited, mut before, mut in_code) = (Vec::new(), None, false);
    for (at, next) in text.char_indices() {
        in_code ^= next == '`';
        let is_behind = before.is_some_and(|before: char| {
            before.is_whitespace()
                || ".,;:!?)]\"'”’".contains(before)
                || is_unspaced(before)
                || (!before.is_ascii() && is_punctuation(before))
        });
        if OPENING.contains(&next)
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
    let length = text.char_indices().find(|(_, c)| CLOSING.contains(c)).map(|(at, c)| at + c.len_utf8())?;
    numbers(&text[..length]).all(|number| number.is_some_and(|number| citations.contains(&number))).then_some(length)
}

/// The numbers of a citation; `None` for what is no number.
fn numbers(citation: &str) -> impl Iterator<Item = Option<u32>> {
    let inside = citation.strip_prefix(OPENING).unwrap_or(citation);
    let inside = inside.strip_suffix(CLOSING).unwrap_or(inside);
    inside.split([',', ';', '，', '、', '；']).map(|number| folded(number.trim()).parse().ok())
}

/// `a, b or c`.
pub(crate) fn alternatives(words: &[String]) -> String {
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

/// Abbreviations; the full stop after them does not end a sentence.
const ABBREVIATIONS: &[&str] = &[
    "e.g", "i.e", "cf", "vs", "mr", "mrs", "ms", "dr", "prof", "st", "no", "fig", "sec", "vol", "pp", "approx", "resp",
];

/// The sentences of a text, trimmed, without empty ones. Together they hold every word of
/// the text. If the text is clearly not English, or has a letter of a script other than Latin,
/// Greek and Cyrillic, [`rag::analysis::sentences`] splits it; otherwise the rule for English.
pub(crate) fn sentences(text: &str) -> Vec<&str> {
    let language = text_language(text);
    if language.is_none() && !text.chars().any(|c| c >= FIRST_ARMENIAN_LETTER && c.is_alphabetic()) {
        return english_sentences(text);
    }
    let spans = rag::analysis::sentences(text, language);
    let found = spans.into_iter().map(|span| text[span.start..span.end].trim());
    found.filter(|sentence| sentence.chars().any(char::is_alphanumeric)).collect()
}

/// The first Armenian letter. Nearly all Latin, Greek and Cyrillic letters come before it.
const FIRST_ARMENIAN_LETTER: char = '\u{531}';

/// Splits English text into sentences. A sentence ends at an empty line, after `。`, `！` or
/// `？`, and after `.`, `!` or `?` (with closing quotes or brackets) before white space, unless
/// the full stop ends an abbreviation or a small letter follows.
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
    fn citations_in_texts_without_spaces_and_in_wide_brackets_are_read() {
        assert_eq!(unchecked_citations("巴黎[1]是首都。【2】法国［３、４］"), [1, 2, 3, 4]);
        assert_eq!(unchecked_citations("a[1] 【图】 x"), [0u32; 0]);
        assert_eq!(without_citations("巴黎【1】是首都［2］。", &[1, 2]), "巴黎是首都。");
        assert_eq!(without_citations("【1 [[1]", &[1]), "【1 [");
    }

    #[test]
    fn brackets_that_cite_nothing_stay() {
        assert_eq!(without_citations("Use `x[1]` or y[2] [sic] [", &[1]), "Use `x[1]` or y[2] [sic] [");
        assert_eq!(without_citations("[] [1", &[1]), "[] [1");
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
        let german = [
            "Das Paketverwaltungssystem löst Abhängigkeiten z. B. selbst auf und entfernt Pakete, die nicht mehr \
             gebraucht werden.",
            "Wer laut Dr. Müller eine ältere Version behalten will, hält das Paket ab dem 3. Oktober fest.",
            "Danach wird es bei keiner Aktualisierung des Systems angefasst, bis die Sperre aufgehoben ist.",
        ];
        assert_eq!(sentences(&german.join(" ")), german);
        assert_eq!(sentences("「はい。」第二の文です！本当？"), ["「はい。」", "第二の文です！", "本当？"]);
        assert_eq!(sentences("यह पहला है। यह दूसरा है।"), ["यह पहला है।", "यह दूसरा है।"]);
        assert_eq!(sentences("ما هذا؟ هذا كتاب."), ["ما هذا؟", "هذا كتاب."]);
    }

    #[test]
    fn a_text_without_stops_is_one_sentence_and_no_text_is_none() {
        assert_eq!(sentences("no stop here"), ["no stop here"]);
        assert!(sentences(" . \n\n ?").is_empty());
    }
}
