//! Rows become lines of text, with what tells where paragraphs begin and end.

use super::area::Area;
use super::lists;
use super::rows::PageRow;
use super::words::{SMALL, Word, text_of};

/// A line of text.
#[derive(Debug, Clone)]
pub(super) struct TextLine {
    pub(super) text: String,
    pub(super) area: Area,
    pub(super) baseline: f32,
    pub(super) size: f32,
    pub(super) is_bold: bool,
    /// Whether its last word goes on in the next line.
    pub(super) is_divided: bool,
    /// Whether it is an entry of a table of contents.
    pub(super) is_entry: bool,
    /// The places of its words, if it is a line of a listing.
    pub(super) code: Option<Vec<(f32, String)>>,
}

impl TextLine {
    pub(super) fn of(row: &PageRow) -> Self {
        let mut words: Vec<&Word> = row.phrases.iter().flat_map(|phrase| &phrase.words).collect();
        if row.has_leader() {
            words.retain(|word| !word.text.bytes().all(|byte| byte == b'.'));
        }
        let letters = |is_bold: bool| -> usize {
            words.iter().filter(|word| word.is_bold == is_bold).map(|word| word.text.chars().count()).sum()
        };
        let code = row.is_code().then(|| words.iter().map(|word| (word.area.left, word.text.clone())).collect());
        Self {
            text: text(row, &words),
            area: row.area,
            baseline: row.baseline,
            size: row.size,
            is_bold: letters(true) > 3 * letters(false),
            is_divided: words.last().is_some_and(|word| word.is_divided || ends_divided(&word.text)),
            is_entry: row.has_leader(),
            code,
        }
    }

    /// Whether it begins with the mark of a list.
    pub(super) fn is_item(&self) -> bool {
        first_word(&self.text).is_some_and(lists::is_mark)
    }

    /// Whether it begins with a bullet.
    pub(super) fn has_bullet(&self) -> bool {
        first_word(&self.text).is_some_and(lists::is_bullet)
    }

    /// Whether it is a field of a form: its name, with a colon, and its value.
    pub(super) fn is_field(&self) -> bool {
        let names_it = |name: &str| {
            name.starts_with(char::is_uppercase) && name.chars().count() < 40 && name.split(' ').count() <= 5
        };
        self.text.split_once(':').is_some_and(|(name, _)| names_it(name))
    }

    /// Whether it begins with the mark of a footnote.
    pub(super) fn is_footnote(&self) -> bool {
        footnote(&self.text).is_some()
    }
}

/// The words of a row with spaces between them, and the marks of footnotes as `[^1]`.
fn text(row: &PageRow, words: &[&Word]) -> String {
    let is_mark = |number: usize, word: &Word| {
        let is_lifted = word.size < SMALL * row.size && word.baseline < row.baseline - 0.1 * row.size;
        is_lifted && number > 0 && is_note_mark(&word.text)
    };
    if !words.iter().enumerate().any(|(number, word)| is_mark(number, word)) {
        return text_of(words.iter().copied());
    }
    let mut text = String::new();
    for (number, word) in words.iter().enumerate() {
        if is_mark(number, word) {
            text.push_str(&format!("[^{}]", word.text));
        } else {
            if number > 0 {
                text.push(' ');
            }
            text.push_str(&word.text);
        }
    }
    text
}

/// The first word of a text of several words.
pub(super) fn first_word(text: &str) -> Option<&str> {
    text.split(' ').next().filter(|word| word.len() < text.len())
}

/// Whether a word at the end of a line may go on in the next one.
fn ends_divided(word: &str) -> bool {
    let mut letters = word.chars().rev();
    letters.next().is_some_and(|last| matches!(last, '-' | '\u{2010}'))
        && letters.next().is_some_and(char::is_alphabetic)
}

fn is_note_mark(word: &str) -> bool {
    let is_number = word.len() <= 3 && !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    is_number || matches!(word, "*" | "†" | "‡" | "§" | "**")
}

/// The mark and the text of a footnote.
pub(super) fn footnote(text: &str) -> Option<(&str, &str)> {
    let (mark, rest) = text.split_once(' ')?;
    let bare = mark.trim_start_matches("[^").trim_end_matches(']');
    is_note_mark(bare).then_some((bare, rest))
}
