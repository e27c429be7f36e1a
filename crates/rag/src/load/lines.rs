//! `load::lines`: turns PDFium's output for a page into text: line ends become
//! `\n`, words that were broken at a line end are joined, ligatures become
//! letters.
//!
//! A PDF does not say whether the hyphen of a broken word belongs to it
//! (`Build-Depends`) or not (`installa-tion`). The rest of the document
//! decides: the spelling that it uses elsewhere wins.

use std::collections::HashMap;

/// The character that PDFium writes in place of a hyphen and the line end after it.
pub(super) const BREAK: char = '\u{2}';
pub(super) const SOFT_HYPHEN: char = '\u{ad}';
/// The letters of the ligatures U+FB00 to U+FB06: one glyph each, but search needs the letters.
const LIGATURES: [&str; 7] = ["ff", "fi", "fl", "ffi", "ffl", "st", "st"];

/// How often a document has the words that its broken words could be.
#[derive(Debug, Default)]
pub(super) struct WordCounts {
    counts: HashMap<String, i32>,
}

impl WordCounts {
    /// Counts the words of all pages that matter for a broken one.
    pub(super) fn of<'p>(pages: impl Iterator<Item = &'p String> + Clone) -> Self {
        let mut counts: HashMap<String, i32> = HashMap::new();
        for page in pages.clone() {
            for (at, mark) in page.match_indices([BREAK, '-']) {
                let Some((left, right)) = broken_word(&page[..at], &page[at + mark.len()..], mark) else { continue };
                for word in [format!("{left}{right}"), format!("{left}-{right}")] {
                    counts.entry(word.to_lowercase()).or_default();
                }
                // The halves of a broken word are no evidence for the halves as words.
                for half in [left, right] {
                    *counts.entry(half.to_lowercase()).or_default() -= 1;
                }
            }
        }
        if !counts.is_empty() {
            let mut lower = String::new();
            for word in pages.flat_map(|page| page.split(|character| !is_inside_word(character))) {
                let word = word.trim_matches('-');
                if word.is_empty() {
                    continue;
                }
                lower.clear();
                lower.extend(word.chars().flat_map(char::to_lowercase));
                if let Some(count) = counts.get_mut(&lower) {
                    *count += 1;
                }
            }
        }
        Self { counts }
    }

    /// Whether `left` and `right` are two words with a hyphen between them.
    fn keeps_hyphen(&self, left: &str, right: &str) -> bool {
        let count = |word: &str| self.counts.get(&word.to_lowercase()).copied().unwrap_or(0);
        let (whole, hyphenated) = (count(&format!("{left}{right}")), count(&format!("{left}-{right}")));
        if whole != hyphenated {
            return hyphenated > whole;
        }
        // Never seen in one line: two known words, or a capital inside, make a compound.
        let is_known = |word: &str| word.chars().count() > 2 && count(word) > 0;
        let is_compound = right.contains('-') || is_known(left) && is_known(right);
        let starts_upper = right.starts_with(char::is_uppercase) && left.ends_with(char::is_lowercase);
        is_compound || starts_upper
    }
}

/// Appends a page's text, cleaned.
pub(super) fn push_clean(output: &mut String, page: &str, vocabulary: &WordCounts) {
    let mut rest = page.trim();
    while let Some(character) = rest.chars().next() {
        let after = &rest[character.len_utf8()..];
        match character {
            '\r' | '\n' => {
                output.truncate(output.trim_end_matches([' ', '\t']).len());
                output.push('\n');
                rest = if character == '\r' { after.strip_prefix('\n').unwrap_or(after) } else { after };
                continue;
            }
            BREAK | '-' => {
                let mark = &rest[..character.len_utf8()];
                if let Some((left, right)) = broken_word(output, after, mark) {
                    if vocabulary.keeps_hyphen(left, right) {
                        output.push('-');
                    }
                    rest = after.trim_start_matches(is_line_end);
                    continue;
                }
                output.push('-');
            }
            // The mark shows where a word may be broken, so here the word was broken.
            SOFT_HYPHEN => {
                rest = after.trim_start_matches(is_line_end);
                continue;
            }
            other => push_character(output, other),
        }
        rest = after;
    }
}

/// Appends a text, cleaned, whose hyphens and line ends stay: a listing.
pub(super) fn push_characters(output: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '\n' => output.push('\n'),
            BREAK => output.push('-'),
            other => push_character(output, other),
        }
    }
}

/// Appends a character as it is searched for; one that means nothing is left out.
fn push_character(output: &mut String, character: char) {
    match character {
        '\u{fb00}'..='\u{fb06}' => output.push_str(LIGATURES[character as usize - 0xfb00]),
        '\u{a0}' => output.push(' '),
        '\t' => output.push('\t'),
        '\u{fffe}' | '\u{ffff}' | '\u{feff}' | '\u{200b}' => {}
        other if other.is_control() => {}
        other => output.push(other),
    }
}

/// The two halves of a word that is broken between `before` and `after`. With a
/// plain hyphen, both must be in lower case with a line end between them.
fn broken_word<'t>(before: &'t str, after: &'t str, mark: &str) -> Option<(&'t str, &'t str)> {
    let next = after.trim_start_matches(is_line_end);
    let is_plain = mark == "-";
    if is_plain && (next.len() == after.len() || !next.starts_with(char::is_lowercase)) {
        return None;
    }
    if is_plain && !before.ends_with(char::is_lowercase) {
        return None;
    }
    let start = before
        .rfind(|character| !is_inside_word(character))
        .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
    let left = before[start..].trim_start_matches('-');
    let right = &next[..next.find(|character| !is_inside_word(character)).unwrap_or(next.len())];
    (!left.is_empty() && !right.is_empty()).then_some((left, right.trim_end_matches('-')))
}

fn is_inside_word(character: char) -> bool {
    character.is_alphanumeric() || character == '-'
}

fn is_line_end(character: char) -> bool {
    matches!(character, '\r' | '\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(page: &str) -> String {
        let pages = [page.to_owned()];
        let mut output = String::new();
        push_clean(&mut output, page, &WordCounts::of(pages.iter()));
        output
    }

    #[test]
    fn broken_words_are_whole_again() {
        assert_eq!(clean("the installa\u{2}tion of"), "the installation of");
        assert_eq!(clean("the installa-\r\ntion of"), "the installation of");
        assert_eq!(clean("the installa\u{ad}\r\ntion of"), "the installation of");
    }

    #[test]
    fn the_spelling_elsewhere_decides_about_the_hyphen() {
        assert_eq!(clean("Build-Depends here, Build\u{2}Depends there"), "Build-Depends here, Build-Depends there");
        assert_eq!(clean("run-time here, run-\ntime there"), "run-time here, run-time there");
        assert_eq!(clean("runtime here, run\u{2}time there"), "runtime here, runtime there");
    }

    #[test]
    fn two_known_words_are_a_compound() {
        let text = "a case is compressed: case\u{2}compressed, aes\u{2}thetic, aes\u{2}thetic";
        assert_eq!(clean(text), "a case is compressed: case-compressed, aesthetic, aesthetic");
        assert_eq!(clean("Challenge\u{2}Response"), "Challenge-Response");
    }

    #[test]
    fn hyphens_that_break_no_word_stay() {
        assert_eq!(clean("a - b\r\n- c\r\nx-\r\nY --\r\nno"), "a - b\n- c\nx-\nY --\nno");
        assert_eq!(clean("trailing-"), "trailing-");
    }

    #[test]
    fn odd_characters_are_cleaned() {
        assert_eq!(clean("  e\u{fb03}cient \u{a0}\r\n\0\u{fffe}x\u{ad}y\r\r"), "efficient\nxy");
    }
}
