//! `load::headings`: where the parts of a document begin. A table of contents
//! and the headings of the text often name the same part: then the part gets
//! the longer name of the two. If the names differ, both count.

use super::TITLE_CHARACTERS;
use crate::types::Heading;

/// A line of a table of contents, where it points to in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContentsLine {
    pub(super) start: usize,
    pub(super) level: u32,
    pub(super) title: String,
}

/// Merges a table of contents with the headings of a text, which are placed below
/// its lines. `depth` holds the level of the last line before this text, and
/// afterwards the level of the last line in this text.
pub(super) fn merge(
    text: &str,
    mut contents: Vec<ContentsLine>,
    headings: Vec<Heading>,
    depth: &mut u32,
) -> Vec<Heading> {
    contents.sort_by_key(|entry| entry.start);
    let mut contents = contents.into_iter().peekable();
    let mut all: Vec<Heading> = Vec::new();
    // Lines of the table of contents without text after them so far.
    let mut open: Vec<usize> = Vec::new();
    let mut seen = 0;
    let mut look_between = |open: &mut Vec<usize>, at: usize, behind: usize| {
        if text.get(seen..at).is_some_and(|between| !between.trim().is_empty()) {
            open.clear();
        }
        seen = behind.max(seen);
    };
    for heading in headings {
        while let Some(entry) = contents.next_if(|entry| entry.start <= heading.start) {
            look_between(&mut open, entry.start, entry.start);
            *depth = entry.level;
            open.push(all.len());
            all.push(Heading { start: entry.start, level: entry.level, title: clip_title(entry.title) });
        }
        look_between(&mut open, heading.start, line_end(text, heading.start));
        match open.iter().find(|&&i| say_the_same(&all[i].title, &heading.title)) {
            // Of two equal titles, the one with the number is kept.
            Some(&i) if heading.title.len() > all[i].title.len() => all[i].title = heading.title,
            Some(_) => {}
            None => all.push(Heading { level: heading.level.saturating_add(*depth), ..heading }),
        }
    }
    for entry in contents {
        *depth = entry.level;
        all.push(Heading { start: entry.start, level: entry.level, title: clip_title(entry.title) });
    }
    all
}

/// A title on one line, cut to the longest allowed title.
pub(super) fn clip_title(title: String) -> String {
    match title.char_indices().nth(TITLE_CHARACTERS) {
        Some((end, _)) => format!("{}…", title[..end].trim_end()),
        None => title,
    }
}

fn line_end(text: &str, at: usize) -> usize {
    text.get(at..).and_then(|rest| rest.find('\n')).map_or(text.len(), |length| at + length)
}

/// Whether two titles have the same words, except for a number or a word such
/// as `Chapter` at the beginning of one of them.
fn say_the_same(one: &str, other: &str) -> bool {
    let words = |title: &str| -> Vec<String> {
        let words = title.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_lowercase).collect()
    };
    let (one, other) = (words(one), words(other));
    !one.is_empty() && !other.is_empty() && (one.ends_with(&other) || other.ends_with(&one))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heading(start: usize, level: u32, title: &str) -> Heading {
        Heading { start, level, title: title.to_owned() }
    }

    fn entry(start: usize, level: u32, title: &str) -> ContentsLine {
        ContentsLine { start, level, title: title.to_owned() }
    }

    #[test]
    fn a_heading_that_the_table_of_contents_names_counts_once() {
        let text = "# 5. Managing\n\nWords.\n\n## Delayed uploads\n\nMore.\n\n### Deeper\n\nEnd.";
        let at = |words: &str| text.find(words).unwrap();
        let contents = vec![entry(at("\n\n## D"), 2, "Delayed uploads"), entry(0, 1, "5. Managing")];
        let headings = vec![
            heading(0, 1, "5. Managing"),
            heading(at("## D"), 2, "5.6. Delayed uploads"),
            heading(at("### "), 3, "Deeper"),
        ];
        let mut depth = 0;
        let found = merge(text, contents, headings, &mut depth);
        let expected = [
            heading(0, 1, "5. Managing"),
            heading(at("\n\n## D"), 2, "5.6. Delayed uploads"),
            heading(at("### "), 5, "Deeper"),
        ];
        assert_eq!((found.as_slice(), depth), (&expected[..], 2));
    }

    #[test]
    fn a_heading_of_the_same_words_further_down_is_another_one() {
        let text = "Words.\n\n## Notes\n\nMore.";
        let found = merge(text, vec![entry(0, 1, "Notes")], vec![heading(8, 2, "Notes")], &mut 0);
        assert_eq!(found, [heading(0, 1, "Notes"), heading(8, 3, "Notes")]);
    }

    #[test]
    fn long_titles_are_cut() {
        assert_eq!(clip_title("ä".repeat(500)).chars().count(), TITLE_CHARACTERS + 1);
    }
}
