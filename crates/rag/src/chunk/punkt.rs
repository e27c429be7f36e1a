//! Finds sentences as NLTK's untrained Punkt tokenizer does.
//!
//! Untrained Punkt knows no abbreviations, so `Dr. Smith` is cut after `Dr.`;
//! it does know initials (`J. Smith`), numbers (`1. the`), ellipses and closing
//! quotes. LlamaIndex cuts sentences this way, so equal chunks need equal cuts.
//! Written from the behaviour of the algorithm, by hand and in linear time.
//! Source: Kiss and Strunk, "Unsupervised Multilingual Sentence Boundary
//! Detection", 2006; NLTK 3.10 `PunktSentenceTokenizer` without parameters.

use super::classes::{is_blank, is_decimal, is_word_not_decimal};
use crate::Span;

/// The sentences of a text. They tile it: each runs to the start of the next,
/// with the white space between. A text of white space has none.
pub(super) fn sentences(text: &str) -> Vec<Span> {
    let starts = realigned_starts(text, &slices(text));
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().zip(ends).map(|(&start, end)| Span { start, end }).collect()
}

/// A place that looks like the end of a sentence.
#[derive(Clone, Copy)]
struct Candidate {
    /// The byte of the full stop, question or exclamation mark.
    at: usize,
    /// Where the word that it ends starts.
    word: usize,
    /// Where the token after it ends.
    context_end: usize,
    /// Where the token after it starts, if white space is between.
    next_token: Option<usize>,
}

/// Sentences before [`realigned_starts`] gives them their closing quotes and brackets.
fn slices(text: &str) -> Vec<Span> {
    let mut slices = Vec::new();
    let mut start = 0;
    let mut previous: Option<Candidate> = None;
    let mut judge = |candidate: Candidate| {
        if has_break(&text[candidate.word..candidate.context_end]) {
            slices.push(Span { start, end: candidate.at + 1 });
            start = candidate.next_token.unwrap_or(candidate.at + 1);
        }
    };
    for (at, byte) in text.bytes().enumerate() {
        if !matches!(byte, b'.' | b'?' | b'!') {
            continue;
        }
        let Some((context_end, next_token)) = token_after(text, at + 1) else { continue };
        let (word, before) = previous.map_or((0, 0), |candidate| (candidate.word, candidate.at));
        // An offset of 0 does not count, because NLTK takes it for "not found".
        let word = match text.as_bytes()[before..at].iter().rposition(|byte| matches!(byte, b' ' | b'\t'..=b'\r')) {
            Some(offset) if offset > 0 => before + offset + 1,
            _ => word,
        };
        // Candidates within one word are one candidate: the last of them.
        if let Some(previous) = previous.filter(|candidate| candidate.at <= word) {
            judge(previous);
        }
        previous = Some(Candidate { at, word, context_end, next_token });
    }
    if let Some(last) = previous {
        judge(last);
    }
    let end = text.trim_end_matches(is_blank).len();
    slices.push(Span { start, end: end.max(start) });
    slices
}

/// What follows a candidate: punctuation that ends a word, or white space and
/// a token. Gives the end of it, and the start of the token.
fn token_after(text: &str, at: usize) -> Option<(usize, Option<usize>)> {
    let rest = &text[at..];
    let first = rest.chars().next()?;
    if ends_word(first) {
        return Some((at + first.len_utf8(), None));
    }
    let token = rest.trim_start();
    if !first.is_whitespace() || token.is_empty() {
        return None;
    }
    let start = text.len() - token.len();
    Some((start + token.find(char::is_whitespace).unwrap_or(token.len()), Some(start)))
}

/// Moves closing quotes and brackets at the start of a slice to the sentence
/// before it, and drops slices that are empty then.
fn realigned_starts(text: &str, slices: &[Span]) -> Vec<usize> {
    let mut starts = Vec::with_capacity(slices.len());
    let mut moved = 0;
    for (i, slice) in slices.iter().enumerate() {
        let start = slice.start + moved;
        let closing = slices.get(i + 1).and_then(|next| closing_length(&text[next.start..next.end]));
        if closing.is_some() || start < slice.end {
            starts.push(start);
        }
        moved = closing.unwrap_or(0);
    }
    starts
}

/// The length of closing punctuation at the start of a slice, with the white
/// space after it, if white space, a dash or the end follows it.
fn closing_length(slice: &str) -> Option<usize> {
    let rest = slice.trim_start_matches(['"', '\'', ')', ']', '}', '‘', '’', '“', '”', '«', '»']);
    if rest.len() == slice.len() {
        return None;
    }
    let next = rest.trim_start();
    (rest.is_empty() || next.len() < rest.len() || rest.starts_with("--")).then_some(slice.len() - next.len())
}

/// Whether a sentence ends within these few tokens, before the last.
fn has_break(context: &str) -> bool {
    let mut previous: Option<&str> = None;
    for line in context.split('\n').filter(|line| !line.chars().all(is_blank)) {
        let mut at = 0;
        while let Some((start, end)) = next_token(line, at) {
            let token = &line[start..end];
            if previous.is_some_and(|previous| is_break(previous, token)) {
                return true;
            }
            previous = Some(token);
            at = end;
        }
    }
    false
}

/// Whether a sentence ends after the first of two tokens.
fn is_break(token: &str, next: &str) -> bool {
    if matches!(token, "." | "?" | "!") {
        return true;
    }
    // Two or more full stops are an ellipsis: never the end of a sentence.
    let Some(body) = token.strip_suffix('.').filter(|body| !body.ends_with('.')) else { return false };
    let mut characters = body.chars();
    let is_initial = characters.next().is_some_and(is_word_not_decimal) && characters.next().is_none();
    if !is_initial && !is_number(body) {
        return true;
    }
    let goes_on = matches!(next, ";" | ":" | "," | "." | "!" | "?")
        || next.starts_with(char::is_lowercase)
        || (is_initial && next.starts_with(char::is_uppercase));
    !goes_on
}

/// Digits with separators, maybe with a sign before them.
fn is_number(token: &str) -> bool {
    let token = token.strip_prefix('-').unwrap_or(token);
    let token = token.strip_prefix(['.', ',']).unwrap_or(token);
    token.starts_with(is_decimal)
        && token.chars().all(|character| is_decimal(character) || matches!(character, ',' | '.' | '-'))
}

/// The next token of a line at or after a byte: a dash or an ellipsis, a word
/// with its full stop, or a single mark.
fn next_token(line: &str, at: usize) -> Option<(usize, usize)> {
    let rest = line[at..].trim_start();
    let start = line.len() - rest.len();
    let first = rest.chars().next()?;
    if let Some(length) = marks_length(rest) {
        return Some((start, start + length));
    }
    let mut end = start + first.len_utf8();
    if matches!(first, '(' | '"' | '`' | '{' | '[' | ':' | ';' | '&' | '#' | '*' | '@' | ')' | '}' | ']' | '-' | ',') {
        return Some((start, end));
    }
    while let Some(character) = line[end..].chars().next() {
        let after = &line[end + character.len_utf8()..];
        if stops_word(&line[end..]) || (character == ',' && (after.is_empty() || stops_word(after))) {
            break;
        }
        end += character.len_utf8();
    }
    Some((start, end))
}

/// Whether a word cannot go on with what comes next.
fn stops_word(rest: &str) -> bool {
    match rest.as_bytes().first() {
        // Nearly all characters are letters: decide them without a look ahead.
        Some(byte) if byte.is_ascii_alphanumeric() => false,
        Some(_) => rest.starts_with(|c: char| c.is_whitespace() || ends_word(c)) || marks_length(rest).is_some(),
        None => false,
    }
}

/// The length of a dash (`--`), an ellipsis (`..`) or a spaced one (`. . .`).
fn marks_length(rest: &str) -> Option<usize> {
    for mark in ['-', '.'] {
        let length = rest.len() - rest.trim_start_matches(mark).len();
        if length > 1 {
            return Some(length);
        }
    }
    let mut length = 0;
    let mut n = 0;
    while let Some(after) = rest[length..].strip_prefix('.') {
        match after.chars().next() {
            Some(space) if space.is_whitespace() => {
                length += 1 + space.len_utf8();
                n += 1;
            }
            _ if n >= 2 => return Some(length + 1),
            _ => return None,
        }
    }
    // The run ended on white space: the ellipsis ends at its last full stop.
    (n >= 3).then(|| rest[..length].trim_end().len())
}

/// Characters that are never inside a word.
fn ends_word(character: char) -> bool {
    matches!(
        character,
        ')' | '"'
            | ';'
            | '}'
            | ']'
            | '*'
            | ':'
            | '@'
            | '\''
            | '('
            | '{'
            | '['
            | '‘'
            | '’'
            | '“'
            | '”'
            | '«'
            | '»'
            | '?'
            | '!'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        sentences(text).into_iter().map(|span| &text[span.start..span.end]).collect()
    }

    #[test]
    fn untrained_punkt_cuts_after_abbreviations_but_not_after_initials() {
        assert_eq!(texts("Dr. Smith went."), ["Dr. ", "Smith went."]);
        assert_eq!(texts("Version 1.2 is out."), ["Version 1.2 is out."]);
        assert_eq!(texts("U.S. policy."), ["U.S. ", "policy."]);
        assert_eq!(texts("A. B."), ["A. B."]);
        assert_eq!(texts("Yes... e.g. this."), ["Yes... e.g. ", "this."]);
        assert_eq!(texts("One line\nand another\n\nand more."), ["One line\nand another\n\nand more."]);
    }

    #[test]
    fn closing_quotes_stay_with_their_sentence() {
        assert_eq!(texts("(One.) Two. \"Three!\" Four."), ["(One.) ", "Two. ", "\"Three!\" ", "Four."]);
        assert_eq!(texts("He said “yes.” Then he left."), ["He said “yes.” ", "Then he left."]);
    }

    #[test]
    fn numbers_go_on_before_small_letters() {
        assert_eq!(texts("See 3. the end. Then 4. Next."), ["See 3. the end. ", "Then 4. ", "Next."]);
        assert_eq!(texts("Really?! Yes! No"), ["Really?! ", "Yes! ", "No"]);
    }

    #[test]
    fn sentences_tile_the_text() {
        assert!(sentences("").is_empty() && sentences(" \n\t").is_empty());
        for text in
            ["  a. b?\u{1c} ", ".", "...", ". . . . a", "a.\u{a0}.\u{a0}. B. c.", "!!!! x", "x.)\n--y", "a. \u{1c}"]
        {
            let found = sentences(text);
            assert_eq!(found.first().map(|span| span.start), Some(0), "{text:?}");
            assert_eq!(found.last().map(|span| span.end), Some(text.len()), "{text:?}");
            assert!(found.windows(2).all(|pair| pair[0].end == pair[1].start), "{text:?}");
        }
    }
}
