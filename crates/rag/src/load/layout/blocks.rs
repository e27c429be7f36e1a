//! Lines become paragraphs, listings, items of lists and footnotes.

use super::area::Area;
use super::page_parts::PagePart;
use super::table_grid::TableGrid;
use super::text_lines::{TextLine, first_word, footnote};
use super::{PageBlock, lists};
use crate::load::lines;
use serde::{Deserialize, Serialize};

/// The least size of a font whose lines are no footnotes, in points.
const TEXT_SIZE: f32 = 10.0;
/// The most spaces that are kept between two words of a listing.
const MOST_SPACES: usize = 200;

/// What a block is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum BlockKind {
    Paragraph,
    Listing,
    /// An item of a list, with its depth from 0.
    Item(usize),
    /// A footnote with its mark.
    Footnote(String),
}

/// A block of text on a page.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct TextBlock {
    pub(super) text: String,
    pub(super) kind: BlockKind,
    pub(super) size: f32,
    pub(super) is_bold: bool,
    pub(super) lines: usize,
    /// Whether the text goes on where its last word was divided.
    pub(super) is_divided: bool,
    /// Whether it is the rest of the last paragraph of the page before.
    pub(super) goes_on: bool,
}

/// A block on a page.
#[derive(Debug, Clone)]
pub(super) enum DraftBlock {
    Text(TextBlock),
    Table(Box<TableGrid>),
}

/// The blocks of a page's parts.
pub(super) fn blocks(parts: Vec<PagePart>) -> Vec<DraftBlock> {
    let mut blocks: Vec<DraftBlock> = Vec::new();
    let mut open: Vec<TextLine> = Vec::new();
    for part in parts {
        match part {
            PagePart::PageRow(row) => open.push(TextLine::of(&row)),
            PagePart::Break => close(&mut open, &mut blocks),
            PagePart::Table(grid) => {
                close(&mut open, &mut blocks);
                blocks.push(DraftBlock::Table(grid));
            }
        }
    }
    close(&mut open, &mut blocks);
    join_over_columns(blocks)
}

/// Makes blocks of the lines of one place.
fn close(open: &mut Vec<TextLine>, blocks: &mut Vec<DraftBlock>) {
    let lines = std::mem::take(open);
    if lines.is_empty() {
        return;
    }
    let area = Area::around(lines.iter().map(|line| &line.area));
    let mut pitches: Vec<f32> = lines.windows(2).map(|pair| pair[1].baseline - pair[0].baseline).collect();
    pitches.sort_by(f32::total_cmp);
    let pitch = pitches.get(pitches.len() / 3).copied().unwrap_or(0.0);
    // Where the items of lists begin, from the outermost list.
    let mut items: Vec<f32> = Vec::new();
    let mut start = 0;
    for at in 0..lines.len() {
        let is_last = at + 1 == lines.len();
        if is_last || begins(&lines[start..=at], &lines[at + 1], &area, pitch) {
            blocks.push(DraftBlock::Text(block(&lines[start..=at], &mut items)));
            start = at + 1;
        }
    }
}

/// Whether a line begins a new block, behind the lines of the block before. `pitch` is the usual distance of lines.
fn begins(block: &[TextLine], line: &TextLine, area: &Area, pitch: f32) -> bool {
    let (first, last) = (&block[0], &block[block.len() - 1]);
    let size = last.size.max(line.size);
    let distance = line.baseline - last.baseline;
    if last.is_entry || last.code.is_some() != line.code.is_some() {
        return true;
    }
    if line.code.is_some() {
        return distance > 3.0 * size || distance < 0.3 * size;
    }
    if (last.size - line.size).abs() > 0.08 * size || last.is_bold != line.is_bold {
        return true;
    }
    if distance > 1.3 * pitch.max(1.1 * size) || distance < 0.3 * size {
        return true;
    }
    let is_short = last.area.right < area.right - 0.15 * area.width();
    if first.is_field() && (line.is_field() || block.len() == 1 && is_short) {
        return true;
    }
    if line.is_item() {
        return first.is_item() || line.has_bullet() || is_short || last.text.ends_with(':');
    }
    if first.is_item() {
        // Its lines stand behind its mark.
        return line.area.left < first.area.left + 0.5 * size;
    }
    if first.size < TEXT_SIZE && line.is_footnote() && first.is_footnote() {
        return true;
    }
    let is_indented = line.area.left > last.area.left + 0.8 * size && line.area.left < last.area.left + 5.0 * size;
    if is_indented && block.len() > 1 && line.area.left > area.left + 0.8 * size {
        return true;
    }
    is_short && last.text.ends_with(['.', '!', '?', ':', '。']) && !line.text.starts_with(char::is_lowercase)
}

fn block(lines: &[TextLine], items: &mut Vec<f32>) -> TextBlock {
    if lines[0].code.is_some() {
        return listing(lines);
    }
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        if number > 0 {
            join(&mut text, lines[number - 1].is_divided, &line.text);
        } else {
            text.push_str(&line.text);
        }
    }
    let first = &lines[0];
    let mut kind = BlockKind::Paragraph;
    if let Some(mark) = first_word(&text).filter(|word| lists::is_mark(word)).map(str::to_owned) {
        while items.last().is_some_and(|left| *left > first.area.left + 0.5 * first.size) {
            items.pop();
        }
        if items.last().is_none_or(|left| *left < first.area.left - 0.5 * first.size) {
            items.push(first.area.left);
        }
        kind = BlockKind::Item(items.len() - 1);
        if lists::is_bullet(&mark) {
            text = format!("-{}", &text[mark.len()..]);
        }
    } else {
        items.clear();
    }
    TextBlock {
        text,
        kind,
        size: lines.iter().map(|line| line.size).fold(0.0, f32::max),
        is_bold: lines.iter().all(|line| line.is_bold),
        lines: lines.len(),
        is_divided: lines[lines.len() - 1].is_divided,
        goes_on: false,
    }
}

/// A listing with its lines and the spaces in them.
fn listing(lines: &[TextLine]) -> TextBlock {
    let words = || lines.iter().flat_map(|line| line.code.iter().flatten());
    let letters: usize = lines.iter().map(|line| line.text.chars().count()).sum();
    let width: f32 = lines.iter().map(|line| line.area.width()).sum::<f32>() / letters.max(1) as f32;
    let left = words().map(|word| word.0).fold(f32::INFINITY, f32::min);
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        if number > 0 {
            text.push('\n');
        }
        let mut count = 0;
        for (at, word) in line.code.iter().flatten() {
            let place = ((at - left) / width.max(0.1)).round() as usize;
            let spaces = place.saturating_sub(count).max(usize::from(count > 0)).min(MOST_SPACES);
            text.push_str(&" ".repeat(spaces));
            text.push_str(word);
            count += spaces + word.chars().count();
        }
    }
    let size = lines[0].size;
    let (is_bold, is_divided, goes_on) = (false, false, false);
    TextBlock { text, kind: BlockKind::Listing, size, is_bold, lines: lines.len(), is_divided, goes_on }
}

/// Appends a line to a text whose last word may go on in it.
pub(super) fn join(text: &mut String, is_divided: bool, line: &str) {
    if is_divided {
        let is_marked = text.ends_with(lines::SOFT_HYPHEN);
        // A hyphen before a number stays.
        if is_marked || line.starts_with(char::is_alphabetic) {
            text.truncate(text.trim_end_matches(['-', '\u{2010}', lines::SOFT_HYPHEN]).len());
            // The rest of the document decides about the hyphen.
            text.push(lines::BREAK);
        }
        text.push_str(line);
        return;
    }
    let is_wide = |character: Option<char>| {
        character.is_some_and(|character| matches!(character, '\u{2e80}'..='\u{9fff}' | '\u{ff00}'..='\u{ffef}'))
    };
    if !(is_wide(text.chars().next_back()) && is_wide(line.chars().next())) {
        text.push(' ');
    }
    text.push_str(line);
}

impl TextBlock {
    /// Lines whose places are not known.
    pub(super) fn of_lines(text: String) -> Self {
        let lines = text.lines().count();
        let (is_bold, is_divided, goes_on) = (false, false, false);
        Self { text, kind: BlockKind::Paragraph, size: 0.0, is_bold, lines, is_divided, goes_on }
    }

    /// Takes the rest of a divided word from the paragraph that goes on on the next page.
    pub(super) fn take_divided_word(&mut self, next: &mut Self) {
        if !std::mem::take(&mut self.is_divided) {
            return;
        }
        let end = next.text.find(' ').unwrap_or(next.text.len());
        let rest: String = next.text.drain(..end).collect();
        join(&mut self.text, true, &rest);
        next.text.drain(..next.text.len() - next.text.trim_start().len());
    }

    /// Whether this paragraph goes on in the next block, in another column or on the next page.
    pub(super) fn goes_on_in(&self, next: &Self) -> bool {
        let is_open = self.is_divided || !self.text.ends_with(['.', '!', '?', ':', '"', '”', '。']);
        let is_same = (self.size - next.size).abs() <= 0.08 * self.size && self.is_bold == next.is_bold;
        let is_text = matches!(self.kind, BlockKind::Paragraph | BlockKind::Item(_));
        let is_rest = next.kind == BlockKind::Paragraph && next.text.starts_with(char::is_lowercase);
        is_text && self.lines > 1 && is_open && is_same && is_rest
    }
}

/// A paragraph that goes on in the next column is one.
fn join_over_columns(blocks: Vec<DraftBlock>) -> Vec<DraftBlock> {
    let mut joined: Vec<DraftBlock> = Vec::new();
    for block in blocks {
        if let (Some(DraftBlock::Text(last)), DraftBlock::Text(next)) = (joined.last_mut(), &block)
            && last.goes_on_in(next)
        {
            let is_divided = last.is_divided;
            join(&mut last.text, is_divided, &next.text);
            last.is_divided = next.is_divided;
            last.lines += next.lines;
            continue;
        }
        joined.push(block);
    }
    joined
}

/// Marks the footnotes of a page: small texts below all body text that begin with a mark. Above a table, a text is a footnote
/// only if its mark also stands in the text of the page. A page without body text has no footnotes. `body` is the size of most text.
pub(super) fn mark_footnotes(blocks: &mut [PageBlock], body: f32) {
    let is_body = |block: &PageBlock| matches!(block, PageBlock::Text(block) if block.size > 0.95 * body);
    let Some(last) = blocks.iter().rposition(is_body) else { return };
    let (above, below) = blocks.split_at_mut(last + 1);
    let is_referred_to = |mark: &str| {
        let mark = format!("[^{mark}]");
        above.iter().any(|block| matches!(block, PageBlock::Text(block) if block.text.contains(&mark)))
    };
    // From below, so that it is known whether a table follows.
    let mut is_above_table = false;
    for block in below.iter_mut().rev() {
        let PageBlock::Text(block) = block else {
            is_above_table = true;
            continue;
        };
        if let Some((mark, rest)) = footnote(&block.text)
            && (!is_above_table || is_referred_to(mark))
        {
            let (mark, rest) = (mark.to_owned(), rest.to_owned());
            block.kind = BlockKind::Footnote(mark);
            block.text = rest;
        }
    }
}
