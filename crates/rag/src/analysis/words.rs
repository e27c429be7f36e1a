//! Words with their places in a text, for what shows or compares texts without an index.

use super::characters::{ScriptKind, script};
use unicode_normalization::char::is_combining_mark;

/// The words of a text, each with its first byte. In scripts without spaces every two
/// neighbouring characters are a word, and a character that stands alone.
pub fn words(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let inside = |c: char| c.is_alphanumeric() || is_combining_mark(c);
    let mut rest = 0;
    while let Some(start) = text[rest..].find(inside).map(|at| rest + at) {
        let end = text[start..].find(|c| !inside(c)).map_or(text.len(), |length| start + length);
        run(text, start, end, &mut found);
        rest = end;
    }
    found
}

/// The words of a run of letters and digits.
fn run<'a>(text: &'a str, start: usize, end: usize, found: &mut Vec<(usize, &'a str)>) {
    let mut from = start;
    while let Some(first) = text[from..end].chars().next() {
        let kind = script(first);
        let other = |(_, c): &(usize, char)| script(*c) != kind && !is_combining_mark(*c);
        let to = text[from..end].char_indices().skip(1).find(other).map_or(end, |(at, _)| from + at);
        let part = &text[from..to];
        match kind {
            ScriptKind::Spaced => found.push((from, part)),
            _ => {
                let starts: Vec<usize> = part.char_indices().map(|(at, _)| at).chain([part.len()]).collect();
                if starts.len() <= 2 {
                    found.push((from, part));
                }
                found.extend(starts.windows(3).map(|three| (from + three[0], &part[three[0]..three[2]])));
            }
        }
        from = to;
    }
}

/// Whether a text has characters of a script without spaces.
pub fn has_spaceless_script(text: &str) -> bool {
    !text.is_ascii() && text.chars().any(|c| script(c) != ScriptKind::Spaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_their_places() {
        let text = "Ein Wort, 2 Wörter: 東京タ語 a漢";
        let found = words(text);
        assert!(found.iter().all(|(at, word)| text[*at..].starts_with(word)));
        let words: Vec<&str> = found.into_iter().map(|(_, word)| word).collect();
        assert_eq!(words, ["Ein", "Wort", "2", "Wörter", "東京", "京タ", "タ語", "a", "漢"]);
        assert!(super::words(" …").is_empty());
    }

    #[test]
    fn scripts_without_spaces_are_seen() {
        assert!(has_spaceless_script("apt で") && has_spaceless_script("한"));
        assert!(!has_spaceless_script("Größe, дом, عربي"));
    }
}
