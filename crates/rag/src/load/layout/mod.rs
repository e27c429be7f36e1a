//! `load::layout`: a PDF by the places of its letters and lines.
//!
//! Letters become words, words phrases (pieces of a line without a wide gap), and phrases rows. Tables are found by their
//! drawn lines, or by the gaps between their columns; what is left is text, whose columns are read one after another.
//! Lines become paragraphs, lists, listings and footnotes; fonts and bookmarks tell which are headings. Texts that stand
//! at the ends of several pages, and page numbers, are left out.
//!
//! Related work: R. Smith, "Hybrid Page Layout Analysis via Tab-Stop Detection" (ICDAR 2009); A. Nurminen, "Algorithmic
//! Extraction of Data in Tables in PDF Documents" (2013).

mod area;
mod blocks;
mod columns;
mod drawn_grid;
mod form_fields;
mod formula;
mod gaps;
mod glossary;
mod leaf;
mod letters;
mod lists;
mod outline;
mod page_draft;
mod page_parts;
mod recognized;
mod row_groups;
mod rows;
mod rules;
mod running_texts;
mod table_faults;
mod table_grid;
mod text_lines;
mod text_table;
mod words;
mod written_pages;
mod zones;

use super::bookmarks::{self, Bookmark};
use super::pdf_page::UnreadPage;
use super::{LoadError, ParseLimits, Parsed, pdf_page};
use blocks::{BlockKind, DraftBlock, TextBlock};
use outline::HeadingOutline;
use page_draft::PageDraft;
use pdfium_render::prelude::PdfDocument;
pub(super) use recognized::recognized_pages;
use running_texts::RunningTexts;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use text_table::TextTable;
use written_pages::WrittenPages;

/// What stands at the same place of so many pages before or behind is no part of a page's text.
pub(super) const PAGES_AROUND: u32 = 8;
/// Pages with more letters are read line by line.
const MOST_LETTERS: usize = 40_000;

/// A block of the document.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PageBlock {
    Text(TextBlock),
    Table(TextTable),
}

impl PageBlock {
    fn size(&self) -> usize {
        match self {
            Self::Text(block) => block.text.len(),
            Self::Table(table) => table.size(),
        }
    }
}

/// How a page was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PageState {
    /// Its columns and tables were looked for.
    WithLayout,
    /// It has too many letters for that: it was read line by line.
    TooManyLetters,
    Blank,
    /// It was read from a picture, with this confidence in the mean, in percent.
    Recognized(u8),
    Unread(UnreadPage),
}

/// A page with its blocks.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ReadPage {
    number: u32,
    state: PageState,
    blocks: Vec<PageBlock>,
    /// The lines of a picture that were read with the least confidence, in words.
    #[serde(skip)]
    least_sure: String,
}

/// The document of its pages.
///
/// # Errors
/// If no page was read, or the text becomes longer than the limits allow.
pub(super) fn document(
    mut pages: Vec<ReadPage>,
    bookmarks: &[Bookmark],
    limits: &ParseLimits,
) -> Result<Parsed, LoadError> {
    if pages.iter().all(|page| matches!(page.state, PageState::Unread(_))) {
        return Err(LoadError::Broken("no page can be read".to_owned()));
    }
    let texts = pages.iter().flat_map(|page| &page.blocks).filter_map(|block| match block {
        PageBlock::Text(block) => Some(block),
        PageBlock::Table(_) => None,
    });
    let outline = HeadingOutline::of(texts, bookmarks);
    for page in &mut pages {
        blocks::mark_footnotes(&mut page.blocks, outline.body);
    }
    join_over_pages(&mut pages);
    let mut parsed = WrittenPages::write(pages, outline, limits)?;
    let is_named = |title: &str| bookmarks.iter().any(|bookmark| bookmarks::is_title(title, &bookmark.title));
    if !bookmarks.is_empty() && !parsed.headings.iter().any(|heading| is_named(&heading.title)) {
        parsed.headings = bookmarks::headings(bookmarks, &parsed.text, &parsed.pages);
    }
    Ok(parsed)
}

/// Reads pages. If `looks_around`, those before and behind tell which texts stand on several pages. Skipped pages are not
/// looked at.
pub(super) fn read_pages(
    document: &PdfDocument<'_>,
    numbers: RangeInclusive<u32>,
    looks_around: bool,
    skipped: &[u32],
) -> Vec<ReadPage> {
    let count = u32::try_from(document.pages().len()).unwrap_or(0);
    let around = if looks_around { PAGES_AROUND } else { 0 };
    let first = numbers.start().saturating_sub(around).max(1);
    let last = numbers.end().saturating_add(around).min(count);
    let mut running = RunningTexts::default();
    let mut drafts = Vec::new();
    for number in first..=last {
        if skipped.contains(&number) {
            if numbers.contains(&number) {
                drafts.push((ReadPage::unread(number, UnreadPage::Crashed), PageDraft::default()));
            }
            continue;
        }
        let (page, draft) = draft(document, number);
        draft.note_running_texts(number, &mut running);
        if numbers.contains(&number) {
            drafts.push((page, draft));
        }
    }
    drafts.into_iter().map(|(page, draft)| page.with(draft, &running)).collect()
}

/// A panic concerns only the page.
fn unless_panicked<T>(read: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(read)).ok()
}

/// A page as far as it can be read by itself.
fn draft(document: &PdfDocument<'_>, number: u32) -> (ReadPage, PageDraft) {
    let page = pdf_page::page(document, number);
    let read = || {
        let texts = page.as_ref().and_then(|page| letters::oriented_texts(page, MOST_LETTERS))?;
        let state = if texts.is_empty() { PageState::Blank } else { PageState::WithLayout };
        Some((ReadPage::new(number, state, Vec::new()), PageDraft::of(&texts)))
    };
    match unless_panicked(read) {
        Some(Some(read)) => return read,
        Some(None) => {}
        None => return (ReadPage::unread(number, UnreadPage::Damaged), PageDraft::default()),
    }
    let Some(lines) = page.and_then(|page| pdf_page::page_text(&page)) else {
        return (ReadPage::unread(number, UnreadPage::Damaged), PageDraft::default());
    };
    let blocks = vec![PageBlock::Text(TextBlock::of_lines(lines))];
    (ReadPage::new(number, PageState::TooManyLetters, blocks), PageDraft::default())
}

impl ReadPage {
    /// A page that was not read.
    pub(super) fn unread(number: u32, reason: UnreadPage) -> Self {
        Self::new(number, PageState::Unread(reason), Vec::new())
    }

    fn new(number: u32, state: PageState, blocks: Vec<PageBlock>) -> Self {
        Self { number, state, blocks, least_sure: String::new() }
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Whether it has no letters: it may be a picture of a text.
    pub(super) fn is_blank(&self) -> bool {
        self.state == PageState::Blank
    }

    /// About how many bytes of text it has.
    pub(super) fn size(&self) -> usize {
        self.blocks.iter().map(PageBlock::size).sum()
    }

    fn with(mut self, draft: PageDraft, running: &RunningTexts) -> Self {
        let number = self.number;
        let read = || -> Vec<PageBlock> {
            let of_block = |(block, faults)| match block {
                DraftBlock::Text(block) => PageBlock::Text(block),
                DraftBlock::Table(grid) => PageBlock::Table(TextTable::of(*grid, number, faults)),
            };
            draft.blocks(number, running).into_iter().map(of_block).collect()
        };
        match unless_panicked(read) {
            Some(blocks) => self.blocks.extend(blocks),
            None => self.state = PageState::Unread(UnreadPage::Damaged),
        }
        self
    }
}

/// Joins tables and paragraphs that go on over the next page.
fn join_over_pages(pages: &mut [ReadPage]) {
    // The page with the table that goes on over all pages since.
    let mut open: Option<usize> = None;
    for at in 1..pages.len() {
        let (before, after) = pages.split_at_mut(at);
        let below = &mut after[0].blocks;
        let first = open.unwrap_or(at - 1);
        if join_tables(&mut before[first].blocks, below) {
            open = below.is_empty().then_some(first);
        } else {
            open = None;
            continue_paragraph(&mut before[at - 1].blocks, below);
        }
    }
}

/// Joins the table at the end of a page, whatever footnotes stand below it, with the one at the top of the next page.
/// Returns whether there are such tables.
fn join_tables(above: &mut [PageBlock], below: &mut Vec<PageBlock>) -> bool {
    let is_footnote =
        |block: &PageBlock| matches!(block, PageBlock::Text(block) if matches!(block.kind, BlockKind::Footnote(_)));
    let Some(last) = above.iter().rposition(|block| !is_footnote(block)) else { return false };
    // Its caption may be repeated.
    let caption = last.checked_sub(1).and_then(|before| match &above[before] {
        PageBlock::Text(block) => block.text.split_whitespace().take(2).map(str::to_owned).collect::<Vec<_>>().into(),
        PageBlock::Table(_) => None,
    });
    let is_caption = |block: &TextBlock| {
        caption.as_ref().is_some_and(|caption: &Vec<String>| {
            caption.len() == 2 && block.text.split_whitespace().take(2).eq(caption.iter().map(String::as_str))
        })
    };
    let first = match &below[..] {
        [PageBlock::Table(_), ..] => 0,
        [PageBlock::Text(block), PageBlock::Table(_), ..] if is_caption(block) => 1,
        _ => return false,
    };
    let PageBlock::Table(table) = &mut above[last] else { return false };
    if !matches!(&below[first], PageBlock::Table(next) if table.goes_on_in(next)) {
        return false;
    }
    for block in below.drain(..=first) {
        if let PageBlock::Table(next) = block {
            table.append(next);
        }
    }
    // The footnotes of the first page come before the rows of the next one.
    above[last..].rotate_left(1);
    true
}

/// Marks the first paragraph of a page if it is the rest of the last one of the page before.
fn continue_paragraph(above: &mut [PageBlock], below: &mut [PageBlock]) {
    let (Some(PageBlock::Text(last)), Some(PageBlock::Text(next))) = (above.last_mut(), below.first_mut()) else {
        return;
    };
    if last.goes_on_in(next) {
        next.goes_on = true;
        last.take_divided_word(next);
    }
}
