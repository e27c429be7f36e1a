//! Which blocks are headings, and how deep: by the bookmarks of the file, and by the sizes and weights of the fonts.

use super::blocks::{BlockKind, TextBlock};
use crate::load::bookmarks::{self, Bookmark};
use std::collections::{BTreeMap, HashMap};

/// Headings are so much larger than most text.
const LARGER: f32 = 1.12;
/// Headings have at most so many characters, and bold ones of the size of the text fewer.
const MOST_CHARACTERS: usize = 160;
const MOST_BOLD_CHARACTERS: usize = 110;
/// Headings have at most so many lines.
const MOST_LINES: usize = 3;
/// Markdown has so many levels.
const DEEPEST_LEVEL: u32 = 6;

/// Half points, in which sizes of fonts are compared.
fn half_points(size: f32) -> i32 {
    (size * 2.0).round() as i32
}

/// What tells headings from other text in a document.
#[derive(Debug)]
pub(super) struct HeadingOutline<'b> {
    /// The size of most text, in points.
    pub(super) body: f32,
    is_mostly_bold: bool,
    /// The sizes of headings, from the largest, in half points.
    sizes: Vec<i32>,
    /// The bookmarks of each page.
    bookmarks: HashMap<u32, Vec<&'b Bookmark>>,
    /// The level of the last heading that a bookmark names.
    level: u32,
}

impl<'b> HeadingOutline<'b> {
    pub(super) fn of<'t>(texts: impl Iterator<Item = &'t TextBlock> + Clone, bookmarks: &'b [Bookmark]) -> Self {
        let mut counts: BTreeMap<i32, usize> = BTreeMap::new();
        let (mut bold, mut plain) = (0, 0);
        for block in texts.clone() {
            *counts.entry(half_points(block.size)).or_default() += block.text.len();
            *(if block.is_bold { &mut bold } else { &mut plain }) += block.text.len();
        }
        let body = counts.into_iter().max_by_key(|(_, count)| *count).map_or(10.0, |(size, _)| size as f32 / 2.0);
        let mut of_pages: HashMap<u32, Vec<&Bookmark>> = HashMap::new();
        bookmarks.iter().for_each(|bookmark| of_pages.entry(bookmark.page).or_default().push(bookmark));
        let mut outline = Self { body, is_mostly_bold: bold > plain, sizes: Vec::new(), bookmarks: of_pages, level: 0 };
        let mut sizes: Vec<i32> =
            texts.filter(|block| outline.looks_like_heading(block)).map(|block| half_points(block.size)).collect();
        sizes.sort_unstable_by(|one, other| other.cmp(one));
        sizes.dedup();
        outline.sizes = sizes;
        outline
    }

    /// The level of the heading that a block is, from 1. None for other text. Blocks come in the order of the document.
    pub(super) fn level(&mut self, block: &TextBlock, page: u32) -> Option<u32> {
        if block.lines > MOST_LINES || block.kind == BlockKind::Listing {
            return None;
        }
        let on_page = self.bookmarks.get_mut(&page);
        let named = on_page.and_then(|bookmarks| {
            let at = bookmarks.iter().position(|bookmark| bookmarks::is_title(&block.text, &bookmark.title))?;
            Some(bookmarks.remove(at).level)
        });
        if let Some(level) = named {
            self.level = level;
            return Some(level.min(DEEPEST_LEVEL));
        }
        if !self.looks_like_heading(block) {
            return None;
        }
        let by_size = self.sizes.iter().position(|size| *size == half_points(block.size)).unwrap_or(0) as u32 + 1;
        // What the bookmarks do not name is a part of what they name.
        let level = if self.level > 0 { by_size.max(self.level + 1) } else { by_size };
        Some(level.min(DEEPEST_LEVEL))
    }

    fn looks_like_heading(&self, block: &TextBlock) -> bool {
        let characters = block.text.chars().count();
        let is_numbered = block.text.starts_with(char::is_numeric);
        let can_be = match block.kind {
            BlockKind::Paragraph => true,
            // `1. Introduction` looks like an item of a list.
            BlockKind::Item(_) => is_numbered,
            BlockKind::Listing | BlockKind::Footnote(_) => false,
        };
        let is_short = characters <= MOST_CHARACTERS && block.lines <= MOST_LINES;
        if !can_be || !is_short || block.goes_on || !block.text.chars().any(char::is_alphabetic) {
            return false;
        }
        let is_bold = block.is_bold && !self.is_mostly_bold && block.size >= 0.95 * self.body;
        block.size >= LARGER * self.body
            || is_bold
                && block.lines < MOST_LINES
                && characters < MOST_BOLD_CHARACTERS
                && !block.text.ends_with(['.', ':', ','])
    }
}
