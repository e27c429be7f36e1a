//! Counts tokens as OpenAI's `cl100k_base` does, fast enough to size every
//! sentence of a corpus.
//!
//! Chunk sizes are given in these tokens because LlamaIndex counts in them.
//! Text is cut into words by hand, since only the number is wanted: no
//! backtracking regex, no list of ids, and a stop as soon as a limit is passed.
//! Source: the published `cl100k_base` pattern and ranks (OpenAI tiktoken).

use super::{
    classes::{ASCII, CharacterKind, kind},
    vocabulary::TokenVocabulary,
};
use std::sync::LazyLock;

/// Tokens that stand for a whole marker and are never cut.
const MARKERS: [&str; 5] = ["<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|endofprompt|>"];

/// Counts tokens of `cl100k_base`.
pub struct TokenCounter {
    /// Loaded at the first count: that takes a fifth of a second, and a service
    /// that only answers never counts.
    vocabulary: LazyLock<TokenVocabulary>,
}

impl TokenCounter {
    /// The one counter of the process.
    pub fn shared() -> &'static Self {
        static SHARED: TokenCounter = TokenCounter { vocabulary: LazyLock::new(TokenVocabulary::load) };
        &SHARED
    }

    /// How many tokens the text has.
    pub fn count(&self, text: &str) -> usize {
        self.count_up_to(text, usize::MAX).unwrap_or(usize::MAX)
    }

    /// How many tokens the text has, or nothing if it has more than `limit`.
    /// Stops as soon as the limit is passed.
    pub fn count_up_to(&self, text: &str, limit: usize) -> Option<usize> {
        // A text that exceeds the limit even with the longest tokens is not counted.
        if text.len() / self.vocabulary.longest > limit {
            return None;
        }
        let (count, end) = self.count_beginning(text, limit);
        (end == text.len()).then_some(count)
    }

    /// The beginning of a text with at most `limit` tokens, up to the end
    /// of a whole word of the counter: what [`TokenCounter::count`] counts of
    /// it is never more than `limit`.
    pub fn beginning<'a>(&self, text: &'a str, limit: usize) -> &'a str {
        &text[..self.count_beginning(text, limit).1]
    }

    /// The tokens of the longest beginning that has at most `limit` and ends with a word, and its end.
    fn count_beginning(&self, text: &str, limit: usize) -> (usize, usize) {
        let (mut count, mut begun) = (0, 0);
        while begun < text.len() {
            let (plain, marker) = next_marker(&text[begun..]);
            let mut at = 0;
            while at < plain.len() {
                let end = word_end(plain, at);
                let tokens = self.vocabulary.count(plain.as_bytes(), at, end);
                if tokens > limit - count {
                    return (count, begun + at);
                }
                count += tokens;
                at = end;
            }
            let tokens = usize::from(marker > 0);
            if tokens > limit - count {
                return (count, begun + plain.len());
            }
            count += tokens;
            begun += plain.len() + marker;
        }
        (count, begun)
    }
}

/// The text before the next marker, and the marker's length (0 at the end).
fn next_marker(text: &str) -> (&str, usize) {
    let mut from = 0;
    while let Some(found) = text[from..].find('<') {
        let at = from + found;
        if let Some(marker) = MARKERS.iter().find(|marker| text[at..].starts_with(**marker)) {
            return (&text[..at], marker.len());
        }
        from = at + 1;
    }
    (text, 0)
}

/// Where the word that starts at `at` ends, by the rules of `cl100k_base`: a
/// contraction's ending; letters with at most one other character before them;
/// up to three digits; punctuation with a space before and line ends after it;
/// white space up to its last line end, or up to the space that belongs to the
/// next word.
fn word_end(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    let Some((first, length)) = kind_at(text, at) else { return bytes.len() };
    if bytes[at] == b'\''
        && let Some(end) = contraction_end(text, at)
    {
        return end;
    }
    let next = at + length;
    match first {
        CharacterKind::Letter => run_end(text, next, CharacterKind::Letter),
        CharacterKind::Number => {
            let mut end = next;
            for _ in 0..2 {
                match kind_at(text, end) {
                    Some((CharacterKind::Number, length)) => end += length,
                    _ => break,
                }
            }
            end
        }
        CharacterKind::Space | CharacterKind::Other => match kind_at(text, next) {
            Some((CharacterKind::Letter, length)) if !matches!(bytes[at], b'\r' | b'\n') => {
                run_end(text, next + length, CharacterKind::Letter)
            }
            Some((CharacterKind::Other, length)) if bytes[at] == b' ' => punctuation_end(text, next + length),
            _ if first == CharacterKind::Other => punctuation_end(text, next),
            _ => space_end(text, at),
        },
    }
}

/// The end of `'s`, `'ll` and their like. The long s folds to s as well.
fn contraction_end(text: &str, at: usize) -> Option<usize> {
    let rest = &text.as_bytes()[at + 1..];
    if text[at + 1..].starts_with('ſ') {
        return Some(at + 1 + 'ſ'.len_utf8());
    }
    match rest {
        [b's' | b'S' | b'd' | b'D' | b'm' | b'M' | b't' | b'T', ..] => Some(at + 2),
        [b'l' | b'L', b'l' | b'L', ..] | [b'v' | b'V' | b'r' | b'R', b'e' | b'E', ..] => Some(at + 3),
        _ => None,
    }
}

fn punctuation_end(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    let mut end = run_end(text, at, CharacterKind::Other);
    while matches!(bytes.get(end), Some(b'\r' | b'\n')) {
        end += 1;
    }
    end
}

fn space_end(text: &str, at: usize) -> usize {
    let end = run_end(text, at, CharacterKind::Space);
    let run = &text[at..end];
    if end == text.len() {
        return end;
    }
    if let Some(line_end) = run.rfind(['\r', '\n']) {
        return at + line_end + 1;
    }
    match run.char_indices().next_back() {
        Some((last, _)) if last > 0 => at + last,
        _ => end,
    }
}

/// The end of the run of one kind that goes on at `at`.
fn run_end(text: &str, mut at: usize, wanted: CharacterKind) -> usize {
    while let Some((found, length)) = kind_at(text, at) {
        if found != wanted {
            break;
        }
        at += length;
    }
    at
}

/// The kind and the length in bytes of the character at a byte.
fn kind_at(text: &str, at: usize) -> Option<(CharacterKind, usize)> {
    let byte = *text.as_bytes().get(at)?;
    match ASCII.get(usize::from(byte)) {
        Some(kind) => Some((*kind, 1)),
        None => text[at..].chars().next().map(|character| (kind(character), character.len_utf8())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Small generator of repeatable pseudo-random numbers (an LCG).
    fn numbers(mut state: u64) -> impl FnMut(usize) -> usize {
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        }
    }

    #[test]
    fn counts_equal_tiktoken_on_random_mixtures() {
        let tiktoken = tiktoken_rs::cl100k_base().unwrap();
        let all: HashSet<&str> = tiktoken.special_tokens();
        let pieces = [
            "a",
            "the",
            "Word",
            "é",
            "naïve",
            "中文",
            "日本語",
            "🦀",
            "👩‍👩‍👧",
            "\u{301}",
            " ",
            "  ",
            "\n",
            "\r\n",
            "\t",
            "\u{a0}",
            "\u{3000}",
            "1",
            "12",
            "1234567",
            "½",
            "Ⅳ",
            "٣",
            "'s",
            "'LL",
            "'ſ",
            "'x",
            "'",
            ".",
            "...",
            "?!",
            "--",
            "(",
            "<",
            "<|",
            "<|endoftext|>",
            "<|fim_prefix|>",
            "|>",
            "_",
            "supercalifragilistic",
            "qzxv",
            "http://example.org/a?b=c",
            "\u{85}",
            "\u{1c}",
            "ﬁ",
            "ß",
            "АБВ",
            "привет",
            "नमस्ते",
            "مرحبا",
            "한국어",
        ];
        let mut next = numbers(7);
        for _ in 0..4000 {
            let text: String = (0..next(12)).map(|_| pieces[next(pieces.len())]).collect();
            let expected = tiktoken.encode(&text, &all).unwrap().0.len();
            assert_eq!(TokenCounter::shared().count(&text), expected, "{text:?}");
            assert_eq!(TokenCounter::shared().count_up_to(&text, expected), Some(expected));
            if expected > 0 {
                assert_eq!(TokenCounter::shared().count_up_to(&text, expected - 1), None);
            }
        }
    }

    #[test]
    fn counts_equal_tiktoken_on_long_words_without_meaning() {
        let tiktoken = tiktoken_rs::cl100k_base().unwrap();
        let mut next = numbers(11);
        for length in [1, 2, 3, 50, 99, 100, 101, 5000] {
            for letters in ["ab", "aAbBeErRsStT", "xyz", "=-~^"] {
                let letters: Vec<char> = letters.chars().collect();
                let text: String = (0..length).map(|_| letters[next(letters.len())]).collect();
                assert_eq!(TokenCounter::shared().count(&text), tiktoken.count_ordinary(&text), "{text:?}");
            }
        }
    }

    #[test]
    fn a_megabyte_without_a_space_is_counted() {
        assert!(TokenCounter::shared().count(&"a".repeat(1 << 20)) > 1000);
        assert!(TokenCounter::shared().count(&"^".repeat(1 << 20)) > 1000);
        assert_eq!(TokenCounter::shared().count_up_to("", 0), Some(0));
    }

    #[test]
    fn the_beginning_of_a_text_ends_with_a_whole_word_and_keeps_the_limit() {
        let counter = TokenCounter::shared();
        let text = "The Ostra mill — built 1790 — ground rye.<|endoftext|> Swallows nest below it.";
        for limit in 0..=counter.count(text) {
            let beginning = counter.beginning(text, limit);
            assert!(text.starts_with(beginning) && counter.count(beginning) <= limit, "{limit}: {beginning:?}");
        }
        assert_eq!(counter.beginning(text, 0), "");
        assert_eq!(counter.beginning(text, counter.count(text)), text);
        assert_eq!(counter.beginning("one two three", 2), "one two");
    }
}
