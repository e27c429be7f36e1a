//! Makes text of documents, models and servers safe for a terminal: characters
//! that would move the cursor, change the title, or hide or reorder words are
//! shown as escapes (`\x1b`, `\u{202e}`).
//!
//! Everything that a command prints passes through here, so that no renderer
//! can forget it. Each character is judged alone, so a text that arrives in
//! pieces needs no state.

use std::borrow::Cow;
use std::fmt::Write;

/// A text with its control characters visible. Line ends and tabs stay.
pub fn visible(text: &str) -> Cow<'_, str> {
    escape(text, |character| is_hidden(character) && !matches!(character, '\n' | '\t'))
}

/// The same on one line: a name must not look like several lines.
pub fn visible_line(text: &str) -> Cow<'_, str> {
    escape(text, is_hidden)
}

/// JSON in which characters that a terminal would obey are escaped; it is still the same JSON.
pub fn visible_json(text: &str) -> Cow<'_, str> {
    // JSON has already escaped characters below a space, except the line ends
    // of its own layout.
    let obeyed = |character: char| is_hidden(character) && !matches!(character, '\n' | '\t');
    replace(text, obeyed, |safe, character| _ = write!(safe, "\\u{:04x}", u32::from(character)))
}

fn escape(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    replace(text, is_escaped, |safe, character| match character {
        '\n' => safe.push_str("\\n"),
        '\t' => safe.push_str("\\t"),
        '\r' => safe.push_str("\\r"),
        character if u32::from(character) < 0x80 => _ = write!(safe, "\\x{:02x}", u32::from(character)),
        character => _ = write!(safe, "\\u{{{:x}}}", u32::from(character)),
    })
}

/// The text, in which `write` replaces some of the characters.
fn replace(text: &str, is_replaced: impl Fn(char) -> bool, write: impl Fn(&mut String, char)) -> Cow<'_, str> {
    if !text.contains(&is_replaced) {
        return Cow::Borrowed(text);
    }
    let mut replaced = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_replaced(character) { write(&mut replaced, character) } else { replaced.push(character) }
    }
    Cow::Owned(replaced)
}

/// Whether a terminal would obey a character instead of showing it: C0 and C1
/// controls, separators of lines and paragraphs, and marks that change the
/// direction of text.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a hostile text may hold, and how it must look.
    const CASES: [(&str, &str); 9] = [
        ("\u{1b}]0;title\u{7}", "\\x1b]0;title\\x07"),
        ("\u{1b}[2Jgone", "\\x1b[2Jgone"),
        ("right\rwrong", "right\\rwrong"),
        ("bell\u{7}", "bell\\x07"),
        ("\u{9b}2J\u{85}", "\\u{9b}2J\\u{85}"),
        ("\u{202e}gpj.exe\u{202c}", "\\u{202e}gpj.exe\\u{202c}"),
        ("\u{2066}x\u{2069}\u{2028}", "\\u{2066}x\\u{2069}\\u{2028}"),
        ("\u{7f}\u{0}", "\\x7f\\x00"),
        ("two\nlines\tand ünïcode → 👩‍👧 עברית", "two\nlines\tand ünïcode → 👩‍👧 עברית"),
    ];

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        for (text, expected) in CASES {
            assert_eq!(visible(text), expected);
        }
        assert!(matches!(visible("plain"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_name_stays_on_its_line() {
        assert_eq!(visible_line("a.txt\nwinner: t99\t!"), "a.txt\\nwinner: t99\\t!");
    }

    #[test]
    fn json_stays_the_same_json() {
        let value = serde_json::json!({ "text": CASES.map(|(text, _)| text).concat() });
        for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            let safe = visible_json(&text);
            assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), value);
            assert!(!safe.contains(|character: char| is_hidden(character) && character != '\n'), "{safe}");
        }
    }
}
