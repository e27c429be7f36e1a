//! Words with their byte offsets, for excerpts and for comparisons of texts that need no index.

use super::characters::{ScriptKind, pairs, parts, script};
use unicode_normalization::char::is_combining_mark;

/// The words of a text, each with the byte offset where it starts. In scripts without spaces, each
/// pair of neighbouring characters is a word; so is a single character without such a neighbour.
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

/// Adds the words of `text[start..end]`, a run of letters, digits and combining marks, to `found`.
fn run<'a>(text: &'a str, start: usize, end: usize, found: &mut Vec<(usize, &'a str)>) {
    let mut from = start;
    for (kind, part) in parts(&text[start..end]) {
        match kind {
            ScriptKind::Spaced => found.push((from, part)),
            _ => found.extend(pairs(part, part.char_indices().map(|(at, _)| at)).map(|(at, pair)| (from + at, pair))),
        }
        from += part.len();
    }
}

/// Whether a text contains characters of a script without spaces, such as Han or Thai.
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
