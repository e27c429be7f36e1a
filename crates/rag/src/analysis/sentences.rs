//! Finds sentences in texts of any language, in one pass.
//!
//! A sentence ends
//! - after a full stop, question mark, exclamation mark or ellipsis that is followed by
//!   white space. Exceptions: a small letter or a comma comes next; or the full stop
//!   belongs to an abbreviation, an initial or the number of a list item; or it belongs to
//!   an ordinal number (`am 3. Oktober`), in languages that write ordinals like this;
//! - after an end mark of another script (`。！？`, `؟ ۔`, `।`, `։`, `።`, …), with or without
//!   white space after it, in a text of any language;
//! - at an empty line;
//! - in Thai and Lao, at white space between letters, because these languages do not mark
//!   the ends of sentences. The sentence must have at least [`FEWEST_THAI_LETTERS`] letters.
//!
//! Closing quotes, brackets and footnote numbers stay with their sentence. Short
//! quotations and brackets in Chinese and Japanese are not cut.
//! The rules follow Unicode UAX 29; the rules for abbreviations, ordinals, quotations and
//! Thai are additions. The crate `sentencex` was tried: it cuts identifiers (`util.List`) at
//! their full stops, and its lists of abbreviations contain frequent words.

use super::{
    abbreviations::{abbreviations, closing_phrases},
    graphemes::may_cut,
    language::Language,
    marks::{
        has_case, is_cjk, is_closing, is_invisible, is_latin_mark, is_opening, is_script_mark, is_thai, is_thai_sign,
    },
};
use crate::Span;
use whatlang::Lang;

/// How many letters a sentence in Thai or Lao must have before white space ends it: a rule of thumb.
const FEWEST_THAI_LETTERS: usize = 20;
/// The length up to which a quotation or bracket in Chinese or Japanese is not cut, in characters.
const LONGEST_QUOTATION: usize = 120;
/// How far before a full stop the start of the word in front of it is searched, in bytes.
const LONGEST_WORD: usize = 64;
/// How many characters after a full stop are searched for the next letter behind quotes, brackets, dashes and list
/// marks.
const MOST_OPENING: usize = 8;

/// The sentences of a text. `language` is `None` if it is not known. The sentences tile the
/// text: each runs to the start of the next one and includes the white space between them.
/// A text of nothing but white space has no sentences.
pub fn sentences(text: &str, language: Option<Language>) -> Vec<Span> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    let starts = SentenceScan::new(text, Some(LatinRules::of(language.map(Language::lang)))).starts();
    tiles(text, starts)
}

/// The byte offsets where a sentence starts because the one before it ends by the rules of a
/// script other than Latin, for example with `。`. Empty for a text in Latin letters.
pub(crate) fn starts_by_script(text: &str) -> Vec<usize> {
    // Bytes from 0xD5 on occur only in characters from U+0540 on: Armenian letters and all that follow.
    if text.bytes().all(|byte| byte < 0xD5) { Vec::new() } else { SentenceScan::new(text, None).starts() }
}

/// Cuts a text at these byte offsets, which must ascend. The pieces cover the whole text.
pub(crate) fn tiles(text: &str, starts: impl IntoIterator<Item = usize>) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut start = 0;
    for next in starts.into_iter().chain([text.len()]) {
        if next > start {
            spans.push(Span { start, end: next });
            start = next;
        }
    }
    spans
}

/// The rules that differ between languages whose sentences end with a full stop.
struct LatinRules {
    abbreviations: [&'static [&'static str]; 2],
    closing_phrases: &'static [&'static str],
    /// Whether numbers with a full stop are written within sentences: ordinals (`3.` for "third") or parts of dates.
    has_ordinals: bool,
    /// A character that ends sentences only in this language, such as the Greek `;`.
    own_mark: Option<char>,
}

impl LatinRules {
    fn of(language: Option<Lang>) -> Self {
        use Lang::{Aze, Ces, Dan, Deu, Est, Fin, Hrv, Hun, Kor, Lav, Lit, Nob, Slk, Slv, Srp, Tur};
        let has_ordinals = matches!(
            language,
            Some(Aze | Ces | Dan | Deu | Est | Fin | Hrv | Hun | Kor | Lav | Lit | Nob | Slk | Slv | Srp | Tur)
        );
        let own_mark = match language {
            Some(Lang::Ell) => Some(';'),
            Some(Lang::Hye) => Some(':'),
            _ => None,
        };
        Self {
            abbreviations: abbreviations(language),
            closing_phrases: closing_phrases(language),
            has_ordinals,
            own_mark,
        }
    }
}

/// One pass over a text.
struct SentenceScan<'a> {
    text: &'a str,
    /// `None` if only the marks of other scripts end sentences.
    latin: Option<LatinRules>,
    /// The byte offset where the current sentence starts.
    start: usize,
    /// Whether the current sentence has anything but white space so far.
    is_open: bool,
    starts: Vec<usize>,
    /// The number of Thai or Lao letters in the current sentence so far.
    thai_letters: usize,
}

impl<'a> SentenceScan<'a> {
    fn new(text: &'a str, latin: Option<LatinRules>) -> Self {
        Self { text, latin, start: 0, is_open: false, starts: Vec::new(), thai_letters: 0 }
    }

    /// The byte offsets where the second and all later sentences start.
    fn starts(mut self) -> Vec<usize> {
        let bytes = self.text.as_bytes();
        // The last character that is not white space, and whether white space follows it.
        let (mut before, mut is_after_blank) = (' ', false);
        let mut at = 0;
        while at < bytes.len() {
            let byte = bytes[at];
            if byte.is_ascii_alphanumeric() {
                (before, is_after_blank, self.is_open) = (char::from(byte), false, true);
                at += 1;
                continue;
            }
            let Some(c) = self.text[at..].chars().next() else { break };
            let next = at + c.len_utf8();
            let is_border = c == '\u{2029}' || (c == '\n' && is_empty_line(&self.text[next..]));
            if is_border && self.latin.is_some() {
                at = self.end_sentence(next);
                (before, is_after_blank) = (' ', false);
                continue;
            }
            if c.is_whitespace() {
                is_after_blank = true;
                at = next;
                continue;
            }
            if is_thai(c) {
                if is_after_blank && is_thai(before) && self.thai_letters >= FEWEST_THAI_LETTERS && !is_thai_sign(c) {
                    self.push(at);
                }
                self.thai_letters += 1;
            }
            let step = self.quotation(at, c).unwrap_or_else(|| self.marks(at, c, before));
            self.is_open = true;
            at = match step {
                ScanStep::EndAt(end) => self.end_sentence(end),
                ScanStep::GoOnAt(end) => end,
            };
            (before, is_after_blank) = (self.text[..at].chars().next_back().unwrap_or(' '), false);
            if before.is_whitespace() {
                before = ' ';
            }
        }
        self.starts
    }

    /// Ends the current sentence at `end`. Returns the start of the next one, which is after the white space.
    fn end_sentence(&mut self, end: usize) -> usize {
        let rest = &self.text[end..];
        let next = end + (rest.len() - rest.trim_start().len());
        self.push(next);
        next
    }

    fn push(&mut self, start: usize) {
        if start < self.text.len() && self.is_open && may_cut(self.text, start) {
            self.starts.push(start);
            (self.start, self.is_open, self.thai_letters) = (start, false, 0);
        }
    }

    /// Skips a short quotation or bracket in Chinese or Japanese that starts at `at` with the character `open`.
    /// `None` if there is none: `open` opens nothing, no Chinese or Japanese character follows, or the closing
    /// character is too far away or on another line.
    fn quotation(&self, at: usize, open: char) -> Option<ScanStep> {
        let close = match open {
            '「' => '」',
            '『' => '』',
            '（' => '）',
            '【' => '】',
            '《' => '》',
            '“' => '”',
            _ => return None,
        };
        let inside = &self.text[at + open.len_utf8()..];
        if !inside.starts_with(is_cjk) {
            return None;
        }
        let mut last = open;
        for (offset, c) in inside.char_indices().take(LONGEST_QUOTATION) {
            if c == '\n' {
                return None;
            }
            if c != close {
                last = c;
                continue;
            }
            let end = self.skip_closing(at + open.len_utf8() + offset);
            let is_ended = is_script_mark(last) || matches!(last, '!' | '?');
            let is_quote = matches!(open, '「' | '『' | '“');
            let is_whole = !self.is_open;
            let ends = is_ended && (is_quote || is_whole) && !self.goes_on(end, close);
            return Some(if ends { ScanStep::EndAt(end) } else { ScanStep::GoOnAt(end) });
        }
        None
    }

    /// Decides whether the character `first` at `at` ends a sentence. If it is an end mark, the scan goes on
    /// after all further marks, closing quotes and footnote numbers that follow it. `before` is the last
    /// character before it that is not white space.
    fn marks(&self, at: usize, first: char, before: char) -> ScanStep {
        let mut end = at + first.len_utf8();
        let own_mark = self.latin.as_ref().and_then(|rules| rules.own_mark);
        let is_own = Some(first) == own_mark;
        let is_space_mark = first == '፡' && self.text[end..].starts_with('፡');
        if !is_script_mark(first) && !is_latin_mark(first) && !is_own && !is_space_mark {
            return ScanStep::GoOnAt(end);
        }
        let (mut is_script, mut is_strong) = (is_script_mark(first) || is_space_mark, matches!(first, '!' | '?'));
        let mut last = first;
        while let Some(c) = self.text[end..].chars().next() {
            let goes_on = is_script_mark(c) || is_latin_mark(c) || is_invisible(c) || is_space_mark && c == '፡';
            if !goes_on {
                break;
            }
            is_script |= is_script_mark(c);
            is_strong |= matches!(c, '!' | '?');
            last = c;
            end += c.len_utf8();
        }
        let n_marks = self.text[at..end].chars().filter(|c| !is_invisible(*c)).count();
        let stop = end;
        end = self.skip_closing(end);
        let closing = self.text[stop..end].chars().next_back();
        end = skip_footnotes(self.text, end);
        let after = &self.text[end..];
        let next = after.chars().next();
        let ends = if is_script {
            // A full-width full stop within a number (`3．5`) ends no sentence.
            let is_number = matches!(last, '．') && before.is_numeric() && next.is_some_and(char::is_numeric);
            !is_number && !self.goes_on(end, closing.unwrap_or(last))
        } else if next.is_some_and(|next| is_cjk(before) && is_cjk(next)) {
            is_strong || (first == '.' && n_marks == 1)
        } else if next.is_some_and(|next| is_strong && is_cjk(before) && next.is_alphabetic()) {
            true
        } else if next.is_some_and(|next| !next.is_whitespace()) {
            false
        } else {
            end += spaced_closing_length(after);
            // Full stops with spaces between them, as in a table of contents, end no sentence.
            let is_leader = before == '.' && first == '.' && self.text[..at].ends_with(char::is_whitespace);
            let is_abbreviated = || first == '.' && n_marks == 1 && self.is_abbreviated(at, end);
            self.latin.is_some() && !is_leader && !continues(&self.text[end..], is_own) && !is_abbreviated()
        };
        if ends { ScanStep::EndAt(end) } else { ScanStep::GoOnAt(end) }
    }

    /// Skips closing quotes, closing brackets and invisible characters from `at` on, and returns where they end.
    /// The last of them is not skipped if it is a quote right before a letter or digit: then it opens a quotation.
    fn skip_closing(&self, at: usize) -> usize {
        let rest = self.text[at..].trim_start_matches(|c| is_closing(c) || is_invisible(c));
        let end = self.text.len() - rest.len();
        let last = self.text[at..end].chars().next_back();
        match last.filter(|last| matches!(last, '"' | '\'' | '“' | '‘' | '«' | '‹')) {
            Some(open) if rest.starts_with(char::is_alphanumeric) => end - open.len_utf8(),
            _ => end,
        }
    }

    /// Whether a sentence goes on at `at`, after an end mark of another script and the closing quotes. It does if
    /// a comma or another mark follows, or in Japanese a particle after a closing quote (`「はい。」と言った`).
    fn goes_on(&self, at: usize, closing: char) -> bool {
        const PARTICLES: [char; 11] = ['と', 'っ', 'な', 'の', 'に', 'を', 'は', 'が', 'も', 'で', 'へ'];
        let rest = &self.text[at..];
        rest.starts_with(['，', '、', '；', '：', '،', '؛', ',', ';', ':'])
            || rest.starts_with(['。', '！', '？'])
            || (matches!(closing, '」' | '』') && rest.starts_with(PARTICLES))
    }

    /// Whether the full stop at `at` belongs to the word before it and ends no sentence: the word is an
    /// abbreviation, an initial, the number of a list item, an ordinal or a part of a date. `end` is the byte
    /// offset after the full stop and all that was skipped with it.
    fn is_abbreviated(&self, at: usize, end: usize) -> bool {
        let Some(rules) = &self.latin else { return false };
        let nearest =
            (self.start.max(at.saturating_sub(LONGEST_WORD))..=at).find(|&from| self.text.is_char_boundary(from));
        let before = &self.text[nearest.unwrap_or(at)..at];
        let word_start = before
            .rfind(char::is_whitespace)
            .map_or(0, |blank| blank + before[blank..].chars().next().map_or(1, char::len_utf8));
        let word = before[word_start..].trim_start_matches(|c: char| !c.is_alphanumeric());
        if word.is_empty() {
            return false;
        }
        let lower = before.to_lowercase();
        if rules.closing_phrases.iter().any(|phrase| ends_with_words(&lower, phrase)) {
            return false;
        }
        let next = self.text[end..].trim_start().chars().next();
        let is_reached = nearest == Some(self.start);
        if word.chars().all(|c| c.is_numeric() || c == '.') {
            let line = before[..word_start].trim_end_matches([' ', '\t']);
            let begins_line = (is_reached || !line.is_empty()) && (line.is_empty() || line.ends_with('\n'));
            let is_date = word.len() <= 5 && next.is_some_and(char::is_numeric);
            let is_ordinal = word.len() <= 3 && may_be_counted(&before[..word_start], is_reached);
            return begins_line || (rules.has_ordinals && (is_ordinal || is_date));
        }
        let is_roman = (2..=6).contains(&word.len()) && word.chars().all(|c| "IVXLCDM".contains(c));
        (is_roman && rules.has_ordinals && may_be_counted(&before[..word_start], is_reached))
            || is_abbreviation(word, &rules.abbreviations)
    }
}

/// Where the scan goes on after a character, and whether a sentence ends there.
enum ScanStep {
    /// A sentence ends at this byte.
    EndAt(usize),
    /// The sentence goes on at this byte.
    GoOnAt(usize),
}

/// Whether a word before a full stop is an initial, has stops between single letters, or is in a list.
fn is_abbreviation(word: &str, lists: &[&[&str]]) -> bool {
    // Letters that are words by themselves, such as the Italian `è` and the Russian `я`. A sentence may end with
    // one, so they are not taken for initials.
    const SHORT_WORDS: &str = "éèóőöåяюі";
    let word = word.to_lowercase();
    let is_listed = |word: &str| lists.iter().any(|list| list.contains(&word));
    // Of `Dipl.-Ing` and `l'art`, only the last part may be in the list.
    let last = word.rsplit(['-', '.', '/', '\'', '’']).next().unwrap_or_default();
    let mut characters = last.chars();
    let is_initial = match (characters.next(), characters.next()) {
        (Some(only), None) => has_case(only) && !SHORT_WORDS.contains(only),
        _ => false,
    };
    let has_stops = word.contains('.')
        && word.split('.').all(|part| part.chars().all(has_case) && (1..=2).contains(&part.chars().count()));
    is_initial || has_stops || is_listed(&word) || (last.len() < word.len() && is_listed(last))
}

/// Whether a number with a full stop may be an ordinal (`am 3. Oktober`), judged by the words `before` it. After
/// a capitalised word or an abbreviation it is the number of a thing instead (`in Kapitel 3. Dann`).
/// `is_whole` says that `before` starts where the sentence starts.
fn may_be_counted(before: &str, is_whole: bool) -> bool {
    let before = before.trim_end();
    let Some(word) = before.split_whitespace().next_back() else { return true };
    // The first word of a sentence always has a capital letter, so the capital proves nothing.
    let is_first = is_whole && before.trim_start().len() == word.len();
    let begins_small = word.trim_start_matches(is_opening).chars().next().is_none_or(|c| !c.is_uppercase());
    let is_number = word.chars().all(|c| c.is_numeric() || c == '.');
    is_number || (!word.ends_with('.') && (is_first || begins_small))
}

/// Whether a text ends with these words, and the first of them is not the end of a longer word.
fn ends_with_words(text: &str, words: &str) -> bool {
    text.strip_suffix(words).is_some_and(|rest| !rest.ends_with(|c: char| c.is_alphanumeric() || c == '.'))
}

/// Whether a sentence goes on after its full stop, question or exclamation mark, because a comma, another mark
/// or a small letter follows. With `needs_capital` it goes on unless a capital letter follows: this is for marks
/// that end sentences in one language only.
fn continues(after: &str, needs_capital: bool) -> bool {
    let rest = after.trim_start();
    let gap = &after[..after.len() - rest.len()];
    let Some(first) = rest.chars().next() else { return false };
    // These marks continue the sentence. Full stops with spaces between them (`. . .`) count as one mark.
    if matches!(first, ',' | ';' | ':' | '.' | '!' | '?') {
        return true;
    }
    let letter = rest.chars().take(MOST_OPENING).find(|&c| !is_opening(c));
    if needs_capital {
        return !letter.is_some_and(char::is_uppercase);
    }
    // A new line that begins with a list mark or a heading mark starts a new sentence.
    let begins_line = gap.contains('\n') && !first.is_alphabetic();
    !begins_line && letter.is_some_and(|letter| letter.is_lowercase() && has_case(letter))
}

/// The length of the white space and the French closing quotes after a mark (`« Oui. » Il`), in bytes; 0 if there
/// are no such quotes.
fn spaced_closing_length(after: &str) -> usize {
    let rest = after.trim_start_matches([' ', '\u{a0}', '\u{202f}']);
    let closed = rest.trim_start_matches('»');
    let is_closing = closed.len() < rest.len()
        && rest.len() < after.len()
        && closed.chars().next().is_none_or(|c| c.is_whitespace() || matches!(c, '.' | ',' | ')'));
    if is_closing { after.len() - closed.len() } else { 0 }
}

/// Skips footnote numbers from `at` on (`Ende.[1][2] Neu`), and returns where they end.
fn skip_footnotes(text: &str, mut at: usize) -> usize {
    while let Some(inside) = text[at..].strip_prefix('[') {
        let digits = inside.bytes().take(4).take_while(u8::is_ascii_digit).count();
        if digits == 0 || inside.as_bytes().get(digits) != Some(&b']') {
            break;
        }
        at += digits + 2;
    }
    at
}

/// Whether an empty line starts here. `rest` is the text after a line end; the line may hold blanks.
fn is_empty_line(rest: &str) -> bool {
    rest.trim_start_matches([' ', '\t', '\r', '\u{a0}', '\u{3000}']).starts_with('\n')
}
