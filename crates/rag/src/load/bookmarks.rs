//! `load::bookmarks`: a PDF's bookmarks as the headings of its text. A bookmark
//! points to a page, mostly to a height on it. PDFium's text has no heights, so
//! the bookmark's title is searched for in the page's text. If it is not found,
//! the previous part ends at that page, and the new part begins on the next
//! page: nothing is claimed that the file does not say.

use super::headings::clip_title;
use crate::types::{Heading, Page};
use pdfium_render::prelude::{PdfBookmark, PdfDestinationViewSettings, PdfDocument};
use serde::{Deserialize, Serialize};

/// The most bookmarks that are read: a file can hold millions, or a circle.
const MOST_BOOKMARKS: usize = 20_000;
/// How many bytes of text are searched for titles: books need a thousandth of it.
const MOST_SEARCHED: usize = 256 << 20;
/// Deeper bookmarks are not worth citing.
const DEEPEST_LEVEL: u32 = 8;

/// A bookmark that points into the document.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Bookmark {
    pub(super) title: String,
    pub(super) level: u32,
    /// From 1.
    pub(super) page: u32,
    /// Whether it points to the page as a whole, and so to its top.
    is_top: bool,
}

pub(super) fn read(document: &PdfDocument<'_>) -> Vec<Bookmark> {
    let mut found = Vec::new();
    let mut open: Vec<(PdfBookmark<'_>, u32)> = document.bookmarks().root().map(|root| (root, 1)).into_iter().collect();
    for _ in 0..MOST_BOOKMARKS {
        let Some((bookmark, level)) = open.pop() else { break };
        found.extend(one(&bookmark, level));
        open.extend(bookmark.next_sibling().map(|next| (next, level)));
        if level < DEEPEST_LEVEL {
            open.extend(bookmark.first_child().map(|child| (child, level + 1)));
        }
    }
    found
}

fn one(bookmark: &PdfBookmark<'_>, level: u32) -> Option<Bookmark> {
    let destination = bookmark.destination()?;
    let page = u32::try_from(destination.page_index().ok()?).ok()?.checked_add(1)?;
    let title = bookmark.title()?.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_top = matches!(
        destination.view_settings(),
        Ok(PdfDestinationViewSettings::FitPageToWindow | PdfDestinationViewSettings::FitBoundsToWindow)
    );
    (!title.is_empty()).then_some(Bookmark { title, level, page, is_top })
}

/// Headings for the parts that the bookmarks name.
pub(super) fn headings(bookmarks: &[Bookmark], text: &str, pages: &[Page]) -> Vec<Heading> {
    let mut headings: Vec<Heading> = Vec::new();
    // On a page, titles come in the order of the bookmarks.
    let (mut page_before, mut after, mut searched) = (0, 0, 0);
    for (i, bookmark) in bookmarks.iter().enumerate() {
        let Some(page) = pages.get(bookmark.page as usize - 1) else { continue };
        if bookmark.page != page_before {
            (page_before, after) = (bookmark.page, page.span.start);
        }
        let named = |start: usize| Heading { start, level: bookmark.level, title: clip_title(bookmark.title.clone()) };
        searched += page.span.end.saturating_sub(after);
        let found =
            if searched <= MOST_SEARCHED { line_with(text, after, page.span.end, &bookmark.title) } else { None };
        if let Some(start) = found {
            after = start + text[start..].find('\n').map_or(0, |length| length + 1);
            headings.push(named(start));
        } else if bookmark.is_top && after == page.span.start {
            headings.push(named(after));
        } else {
            let ends_on_page = |other: &Bookmark| other.page == bookmark.page && other.level <= bookmark.level;
            let start =
                headings.last().filter(|last| last.start > page.span.start).map_or(page.span.start, |last| last.start);
            headings.push(Heading { start, level: bookmark.level, title: String::new() });
            let next = pages.get(bookmark.page as usize).filter(|_| !bookmarks[i + 1..].iter().any(ends_on_page));
            headings.extend(next.map(|next| named(next.span.start)));
        }
    }
    headings.sort_by_key(|heading| heading.start);
    headings
}

/// Whether a text is a title, whatever its spaces and letter case, with or without a number in front.
pub(super) fn is_title(text: &str, title: &str) -> bool {
    let letters = |text: &str| text.chars().filter(|character| !character.is_whitespace()).count();
    let is_whole = |text: &str| letters(text) == letters(title) && begins(text, title);
    is_whole(text) || is_whole(without_number(text))
}

/// A title without the number in front of it.
fn without_number(text: &str) -> &str {
    text.trim_start_matches(|character: char| {
        character.is_ascii_digit() || character.is_whitespace() || matches!(character, '.' | '§')
    })
}

/// The first line in `from..to` that begins with a title, whatever its spaces
/// and letter case, with or without a number in front.
fn line_with(text: &str, from: usize, to: usize, title: &str) -> Option<usize> {
    let mut start = from;
    for line in text.get(from..to)?.split_inclusive('\n') {
        let bare = without_number(line);
        if begins(&text[start..to], title) || begins(&text[to.min(start + line.len() - bare.len())..to], title) {
            return Some(start);
        }
        start += line.len();
    }
    None
}

/// Whether a text begins with the letters of a title, at the end of a word.
fn begins(text: &str, title: &str) -> bool {
    let mut rest = text.chars();
    let mut wanted = title.chars().filter(|character| !character.is_whitespace()).peekable();
    wanted.peek().is_some()
        && wanted.all(|wanted| {
            let found = rest.find(|character| !character.is_whitespace());
            found.is_some_and(|found| found.to_lowercase().eq(wanted.to_lowercase()))
        })
        && rest.next().is_none_or(|next| !next.is_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Span;

    fn bookmark(title: &str, level: u32, page: u32) -> Bookmark {
        Bookmark { title: title.to_owned(), level, page, is_top: false }
    }

    fn found(bookmarks: &[Bookmark], text: &str) -> Vec<(usize, u32, String)> {
        let half = text.find("\n\n").unwrap();
        let pages = [(1, 0, half), (2, half + 2, text.len())]
            .map(|(number, start, end)| Page { number, span: Span { start, end } });
        let found = headings(bookmarks, text, &pages);
        found.into_iter().map(|heading| (heading.start, heading.level, heading.title)).collect()
    }

    #[test]
    fn a_title_is_found_over_line_ends_and_behind_its_number() {
        let text = "Words.\n5.6.3. Delayed\nuploads to\nx\n\nEnd";
        let expected = [(7, 1, "Delayed uploads to".to_owned())];
        assert_eq!(found(&[bookmark("Delayed uploads to", 1, 1)], text), expected);
    }

    #[test]
    fn titles_on_one_page_are_found_in_their_order() {
        let text = "Mills\na\nNotes\nb\n\nNotesome\nNotes\nc";
        let found = found(&[bookmark("Mills", 1, 1), bookmark("Notes", 2, 1), bookmark("Notes", 2, 2)], text);
        assert_eq!(found.iter().map(|(start, ..)| *start).collect::<Vec<_>>(), [0, 8, 26]);
    }

    #[test]
    fn an_unfound_title_ends_what_was_before_and_begins_on_the_next_page() {
        let text = "Mills\na\nb\n\nc\nd";
        let found = found(&[bookmark("Mills", 1, 1), bookmark("A picture", 1, 1)], text);
        assert_eq!(found, [(0, 1, "Mills".to_owned()), (0, 1, String::new()), (11, 1, "A picture".to_owned())]);
    }
}
