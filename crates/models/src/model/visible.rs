//! Makes text from outside safe to show: control characters that a terminal
//! would obey are spelt out.

use std::borrow::Cow;

/// The text with its control characters visible: an escape becomes `\u{1b}`,
/// and so do the marks that turn the direction of writing.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match is_hidden(character) {
            true => shown.extend(character.escape_unicode()),
            false => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

/// At most `most` characters of a text on one line, with control characters visible.
pub(crate) fn on_one_line(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let shortened = shortened(&line, most);
    visible(&shortened).into_owned()
}

/// At most `most` characters of a text, with an ellipsis if some are left out.
pub(crate) fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

fn is_hidden(character: char) -> bool {
    let turns_direction =
        matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    character.is_control() || turns_direction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_spelt_out() {
        let cases = [
            ("\u{1b}[2J\u{1b}]0;title\u{7}gone", "\\u{1b}[2J\\u{1b}]0;title\\u{7}gone"),
            ("a\u{9b}31mb\r\nc", "a\\u{9b}31mb\\u{d}\\u{a}c"),
            ("abc\u{202e}fdp", "abc\\u{202e}fdp"),
            ("plain, äöü, 日本, 🙂", "plain, äöü, 日本, 🙂"),
        ];
        for (text, expected) in cases {
            assert_eq!(visible(text), expected);
        }
    }
}
