//! Writes the blocks of all pages as Markdown, with the place of each page in it.

use super::blocks::{BlockKind, TextBlock};
use super::outline::HeadingOutline;
use super::text_table::TextTable;
use super::{MOST_LETTERS, PageBlock, PageState, ReadPage};
use crate::load::lines::{self, WordCounts};
use crate::load::{LoadError, ParseLimits, Parsed, pdf_page};
use crate::types::{Page, ReadingProblem, ReadingProblemKind, Span};

/// Pages that were read with less confidence, in percent, are told.
const UNSURE: u8 = 85;

/// The text of a document while it is written.
pub(super) struct WrittenPages<'b> {
    parsed: Parsed,
    /// Where each page is, from page 1. None so far for pages without text.
    spans: Vec<Option<Span>>,
    outline: HeadingOutline<'b>,
    vocabulary: WordCounts,
    /// Whether the last block is an item of a list.
    in_list: bool,
    /// Whether the last block is a heading.
    after_heading: bool,
}

impl<'b> WrittenPages<'b> {
    /// The document that these pages are.
    ///
    /// # Errors
    /// If the text becomes longer than the limits allow.
    pub(super) fn write(
        pages: Vec<ReadPage>,
        outline: HeadingOutline<'b>,
        limits: &ParseLimits,
    ) -> Result<Parsed, LoadError> {
        let vocabulary = WordCounts::of(texts(&pages).into_iter());
        let (parsed, spans) = (Parsed::default(), vec![None; pages.len()]);
        let mut written = Self { parsed, spans, outline, vocabulary, in_list: false, after_heading: false };
        let mut states = Vec::with_capacity(pages.len());
        for page in pages {
            states.push((page.state, page.least_sure));
            for block in page.blocks {
                match block {
                    PageBlock::Text(block) => written.text(&block, page.number),
                    PageBlock::Table(table) => written.table(table),
                }
                limits.check_text(written.parsed.text.len())?;
            }
        }
        Ok(written.finish(&states))
    }

    fn text(&mut self, block: &TextBlock, page: u32) {
        let level = self.outline.level(block, page);
        let is_item = level.is_none() && matches!(block.kind, BlockKind::Item(_));
        let words = self.words(block);
        if words.is_empty() {
            return;
        }
        if let Some(level) = level {
            let start = self.parsed.text.len();
            self.parsed.push_heading(level, &words);
            self.cover(page, start, self.parsed.text.len());
            (self.in_list, self.after_heading) = (false, true);
            return;
        }
        let start = if block.goes_on && !self.after_heading && !self.parsed.text.is_empty() {
            self.parsed.text.push(' ');
            self.parsed.text.len()
        } else if is_item && self.in_list {
            self.parsed.text.push('\n');
            self.parsed.text.len()
        } else {
            self.parsed.begin_block()
        };
        match &block.kind {
            BlockKind::Item(depth) => self.parsed.text.push_str(&"  ".repeat(*depth)),
            BlockKind::Footnote(mark) => self.parsed.text.push_str(&format!("[^{mark}]: ")),
            BlockKind::Listing | BlockKind::Paragraph => {}
        }
        self.parsed.text.push_str(&words);
        self.cover(page, start, self.parsed.text.len());
        (self.in_list, self.after_heading) = (is_item, false);
    }

    /// The cleaned text of a block; a listing between its fences.
    fn words(&self, block: &TextBlock) -> String {
        let mut words = String::new();
        match block.kind {
            BlockKind::Listing => {
                lines::push_characters(&mut words, &block.text);
                if !words.trim().is_empty() {
                    words = format!("```\n{}\n```", words.trim_end());
                }
            }
            _ => lines::push_clean(&mut words, &block.text, &self.vocabulary),
        }
        words
    }

    fn table(&mut self, table: TextTable) {
        let pages = table.pages.clone();
        let page = pages.first().map(|(page, _)| *page);
        if !table.faults.is_empty() {
            let detail = format!("{} may be wrong: {}", table.in_words(), in_words(&table));
            self.parsed.problems.push(ReadingProblem { kind: ReadingProblemKind::BrokenTable, page, detail });
        }
        let built = table.build(&self.vocabulary);
        let before = self.parsed.text.len();
        self.parsed.push_table(built);
        (self.in_list, self.after_heading) = (false, false);
        let start = before + self.parsed.text[before..].len() - self.parsed.text[before..].trim_start().len();
        let end = self.parsed.text.len();
        // The line of dashes stands behind the first row.
        let starts: Vec<usize> = self.parsed.text[start..]
            .split_inclusive('\n')
            .scan(start, |at, line| {
                let start = *at;
                *at += line.len();
                Some(start)
            })
            .collect();
        let line_of = |row: usize| if row == 0 { start } else { starts.get(row + 1).copied().unwrap_or(end) };
        for (number, &(page, row)) in pages.iter().enumerate() {
            let next = pages.get(number + 1).map_or(end, |&(_, row)| line_of(row));
            self.cover(page, line_of(row), next);
        }
    }

    /// Notes that a part of the text is of a page.
    fn cover(&mut self, page: u32, start: usize, end: usize) {
        let text = &self.parsed.text[start..end];
        let start = start + (text.len() - text.trim_start().len());
        let end = start + text.trim().len();
        let Some(span) = self.spans.get_mut(page as usize - 1) else { return };
        *span = Some(span.map_or(Span { start, end }, |span| Span { start: span.start, end }));
    }

    fn finish(mut self, states: &[(PageState, String)]) -> Parsed {
        let mut last = 0;
        for (number, (span, (state, least_sure))) in (1_u32..).zip(self.spans.iter().zip(states)) {
            let span = span.unwrap_or(Span { start: last, end: last });
            last = span.end;
            self.parsed.pages.push(Page { number, span });
            let text = &self.parsed.text[span.start..span.end];
            let unread = match state {
                PageState::Unread(reason) => Some(*reason),
                PageState::WithLayout | PageState::TooManyLetters | PageState::Blank | PageState::Recognized(_) => None,
            };
            let mut problems = pdf_page::problems(number, unread, *state == PageState::Blank, text);
            if let PageState::Recognized(percent) = state
                && *percent < UNSURE
            {
                let detail = format!(
                    "the page is a picture, and was read with only {percent} % confidence; least sure: {least_sure}"
                );
                problems.push(ReadingProblem { kind: ReadingProblemKind::LowConfidence, page: Some(number), detail });
            }
            if *state == PageState::TooManyLetters {
                let detail = format!(
                    "the page has more than {MOST_LETTERS} letters, so its columns and tables were not looked for"
                );
                problems.push(ReadingProblem { kind: ReadingProblemKind::UnreadPart, page: Some(number), detail });
            }
            self.parsed.problems.extend(problems);
        }
        self.parsed.problems.sort_by_key(|problem| problem.page);
        let first = self.parsed.headings.first().filter(|heading| heading.level == 1);
        self.parsed.title = first.filter(|heading| heading.start == 0).map(|heading| heading.title.clone());
        self.parsed
    }
}

/// What is wrong with a table, in words.
fn in_words(table: &TextTable) -> String {
    let words: Vec<&str> = table.faults.iter().map(|fault| fault.in_words()).collect();
    words.join(", ")
}

fn texts(pages: &[ReadPage]) -> Vec<&String> {
    let mut texts = Vec::new();
    for block in pages.iter().flat_map(|page| &page.blocks) {
        match block {
            PageBlock::Text(block) => texts.push(&block.text),
            PageBlock::Table(table) => texts.extend(table.texts()),
        }
    }
    texts
}
