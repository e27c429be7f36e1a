//! A page before its text is put in order: its phrases, drawn tables and lines. Texts that are repeated on several pages
//! are known only after all pages of a segment were read.

use super::area::Area;
use super::blocks::{self, DraftBlock};
use super::drawn_grid::{self, DrawnGrid};
use super::form_fields::FormField;
use super::letters::OrientedText;
use super::page_parts::Item;
use super::rows;
use super::rules::{self, DrawnLine};
use super::running_texts::RunningTexts;
use super::table_grid::TableGrid;
use super::words::{self, Phrase, Word};
use super::zones;
use super::{gaps, table_faults};
use crate::types::TableFault;

/// The most level lines of a page that may bound a table: more are a drawing.
const MOST_BOUNDS: usize = 200;
/// A frame that covers more of a page's width and height is the border of the page.
const BORDER: f32 = 0.85;
/// A grid of so few cells may be a drawing around a table of so many lines.
const OUTER_CELLS: usize = 6;
const INNER_ROWS: usize = 5;
/// A frame that is lower than this, in sizes of the font, is that of one line.
const FIELD_HEIGHT: f32 = 2.6;
/// The size of a value in a form, in points, if its field is not smaller.
const FIELD_SIZE: f32 = 10.0;

/// A page.
#[derive(Debug, Default)]
pub(super) struct PageDraft {
    /// Its texts by direction.
    texts: Vec<OrientedDraft>,
}

/// The text of a page in one direction.
#[derive(Debug)]
struct OrientedDraft {
    phrases: Vec<Phrase>,
    /// Drawn tables and frames.
    items: Vec<Item>,
    horizontal: Vec<DrawnLine>,
    /// The level lines that are no part of a table or a frame.
    free: Vec<DrawnLine>,
    height: f32,
}

impl PageDraft {
    pub(super) fn of(texts: &[OrientedText]) -> Self {
        let mut phrases: Vec<Vec<Phrase>> = texts.iter().map(phrases_of).collect();
        let mut drafts: Vec<OrientedDraft> = Vec::new();
        let Some((main, others)) = texts.split_first() else { return Self::default() };
        // Headers of columns are often turned: they belong to the table that is drawn around them.
        let mut turned: Vec<Turned> = Vec::new();
        for (number, (other, phrases)) in (1..).zip(others.iter().zip(&phrases[1..])) {
            turned.extend(phrases.iter().enumerate().map(|(at, phrase)| Turned::of(phrase, other, main, number, at)));
        }
        for (number, text) in texts.iter().enumerate() {
            let own = std::mem::take(&mut phrases[number]);
            let mut at = 0;
            let is_left = |_: &Phrase| {
                at += 1;
                !turned.iter().any(|turned| turned.is_placed && (turned.text, turned.phrase) == (number, at - 1))
            };
            let own: Vec<Phrase> = own.into_iter().filter(is_left).collect();
            let candidates = if number == 0 { &mut turned[..] } else { &mut [] };
            drafts.push(OrientedDraft::of(text, own, candidates));
        }
        Self { texts: drafts }
    }

    /// A page of a height of which only the phrases are known.
    pub(super) fn of_phrases(phrases: Vec<Phrase>, height: f32) -> Self {
        let (items, horizontal, free) = (Vec::new(), Vec::new(), Vec::new());
        Self { texts: vec![OrientedDraft { phrases, items, horizontal, free, height }] }
    }

    /// Notes what stands at the ends of the page. Pages are counted from 1.
    pub(super) fn note_running_texts(&self, page: u32, running: &mut RunningTexts) {
        if let Some(text) = self.texts.first() {
            running.note(page, &text.phrases, text.height);
        }
    }

    /// Its blocks in reading order, without running texts, each table with its faults.
    pub(super) fn blocks(self, page: u32, running: &RunningTexts) -> Vec<(DraftBlock, Vec<TableFault>)> {
        let mut found = Vec::new();
        for mut text in self.texts {
            text.phrases = running.without_repeated(page, std::mem::take(&mut text.phrases), text.height);
            let bounded = text.take_bounded_tables();
            let areas: Vec<Area> = text.phrases.iter().map(|phrase| phrase.area).collect();
            let mut items: Vec<Item> = text.phrases.into_iter().map(Item::Phrase).collect();
            items.extend(text.items);
            items.extend(bounded.into_iter().map(|grid| Item::Table(Box::new(grid))));
            let blocks = blocks::blocks(zones::read(items, &text.horizontal));
            found.extend(blocks.into_iter().map(|block| {
                let faults = match &block {
                    DraftBlock::Table(grid) => table_faults::faults(grid, &areas),
                    DraftBlock::Text(_) => Vec::new(),
                };
                (block, faults)
            }));
        }
        found
    }
}

/// The phrases of a text, with the values of its form as words in the lines of their names.
fn phrases_of(text: &OrientedText) -> Vec<Phrase> {
    let mut words = words::words(&text.letters);
    for FormField { area, value } in &text.fields {
        let size = (0.75 * area.height()).min(FIELD_SIZE);
        // Its name stands before it, in the same line.
        let names = words.iter().filter(|word| word.area.overlap_y(area) > 0.5 && word.area.right <= area.left + 2.0);
        let name = names.max_by(|one, other| one.area.right.total_cmp(&other.area.right));
        let baseline = name.map_or(area.middle_y() + 0.35 * size, |name| name.baseline);
        let area = Area { top: baseline - size, bottom: baseline + 0.2 * size, ..*area };
        words.push(Word::plain(value.clone(), area, baseline, size));
    }
    words::phrases(words)
}

/// A phrase that runs in another direction than the page, as a word where it stands on the page.
struct Turned {
    word: Word,
    /// The number of its text, and its own in it.
    text: usize,
    phrase: usize,
    /// Whether a table has it.
    is_placed: bool,
}

impl Turned {
    fn of(phrase: &Phrase, from: &OrientedText, main: &OrientedText, text: usize, number: usize) -> Self {
        let area = from.area_in(main, &phrase.area);
        let word =
            Word { text: phrase.text(), area, baseline: area.bottom, size: phrase.size, ..phrase.words[0].clone() };
        Self { word, text, phrase: number, is_placed: false }
    }
}

impl OrientedDraft {
    fn of(text: &OrientedText, phrases: Vec<Phrase>, turned: &mut [Turned]) -> Self {
        let mut words: Vec<Word> = phrases.into_iter().flat_map(|phrase| phrase.words).collect();
        let horizontal = rules::lines(&text.rules, true);
        let vertical = rules::lines(&text.rules, false);
        let mut items = Vec::new();
        let mut free = horizontal.clone();
        let mut outside_tables = Vec::new();
        for drawn in drawn_grid::grids(&horizontal, &vertical) {
            let area = drawn.area();
            if area.height() > BORDER * text.height && area.width() > BORDER * text.width {
                continue;
            }
            let (mut inside, outside): (Vec<Word>, Vec<Word>) =
                words.into_iter().partition(|word| area.holds(&word.area));
            words = outside;
            let outer = free.clone();
            free.retain(|line| !drawn.has(line));
            if drawn.is_tick_box() && inside.len() < 2 {
                outside_tables.push(tick(&area, inside.pop(), &text.strokes));
                continue;
            }
            if inside.is_empty() {
                continue;
            }
            if drawn.is_frame() {
                match framed(&drawn, words::phrases(inside), &horizontal) {
                    Ok(item) => items.push(item),
                    // The box around the value of a field: it belongs to the line of its name.
                    Err(line) => outside_tables.extend(line.words),
                }
                continue;
            }
            let mut placed: Vec<&mut Turned> =
                turned.iter_mut().filter(|turned| !turned.is_placed && area.holds(&turned.word.area)).collect();
            inside.extend(placed.iter().map(|turned| turned.word.clone()));
            match drawn.with_words(inside).and_then(in_order) {
                Ok(grid) if holds_table(&grid, &horizontal) => {
                    // A drawing around a table: its lines may be those of the table.
                    free = outer;
                    outside_tables.extend(grid.cells.into_iter().flat_map(|cell| cell.words));
                }
                Ok(grid) => {
                    placed.iter_mut().for_each(|turned| turned.is_placed = true);
                    items.push(Item::Table(Box::new(grid)));
                }
                Err(inside) => {
                    // Turned words stay in their own text.
                    let is_turned = |word: &Word| placed.iter().any(|turned| turned.word.area == word.area);
                    outside_tables.extend(inside.into_iter().filter(|word| !is_turned(word)));
                }
            }
        }
        words.extend(outside_tables);
        Self { phrases: words::phrases(words), items, horizontal, free, height: text.height }
    }

    /// Takes the tables between level lines of the same width out of the phrases.
    fn take_bounded_tables(&mut self) -> Vec<TableGrid> {
        let mut found = Vec::new();
        let free: Vec<DrawnLine> = self.free.iter().filter(|line| line.to - line.from > 60.0).copied().collect();
        if free.len() > MOST_BOUNDS {
            return found;
        }
        let mut used = vec![false; free.len()];
        for at in 0..free.len() {
            if used[at] {
                continue;
            }
            let is_same =
                |line: &DrawnLine| (line.from - free[at].from).abs() < 4.0 && (line.to - free[at].to).abs() < 4.0;
            let same: Vec<usize> = (at..free.len()).filter(|&other| !used[other] && is_same(&free[other])).collect();
            let Some((mut grid, area, last)) = self.longest_table(&free, &same) else { continue };
            same.iter().filter(|&&line| line <= last).for_each(|&line| used[line] = true);
            self.phrases.retain(|phrase| !area.holds(&phrase.area));
            grid.area = area;
            found.push(grid);
        }
        found
    }

    /// The table from the first of these lines to the last one that still bounds it: the table, its area and that line.
    fn longest_table(&self, lines: &[DrawnLine], same: &[usize]) -> Option<(TableGrid, Area, usize)> {
        let (&first, others) = same.split_first()?;
        let mut best = None;
        for &next in others {
            let (from, to) = (lines[first].from - 2.0, lines[first].to + 2.0);
            let area = Area { left: from, right: to, top: lines[first].at, bottom: lines[next].at };
            let inside: Vec<Phrase> = self.phrases.iter().filter(|phrase| area.holds(&phrase.area)).cloned().collect();
            if inside.is_empty() {
                continue;
            }
            let rows = rows::rows(inside);
            let is_text =
                |row: &rows::PageRow| row.parts() == 1 && row.area.width() > 0.7 * area.width() && row.letters() > 40;
            if rows.iter().any(is_text) || (1..rows.len()).any(|at| gaps::is_title(&rows, at)) {
                break;
            }
            let grid = gaps::table(&rows, &self.horizontal, true);
            if let Some(grid) = grid.filter(|grid| grid.cells.len() * 2 >= grid.rows * grid.columns) {
                best = Some((grid, area, next));
            }
        }
        best
    }
}

/// A table whose cells do not overlap; the words of another one, which is a drawing.
fn in_order(grid: TableGrid) -> Result<TableGrid, Vec<Word>> {
    if table_faults::has_overlaps(&grid) {
        return Err(grid.cells.into_iter().flat_map(|cell| cell.words).collect());
    }
    Ok(grid)
}

/// Whether a cell of a small grid holds a table by itself.
fn holds_table(grid: &TableGrid, horizontal: &[DrawnLine]) -> bool {
    let is_table = |words: &[Word]| {
        let rows = rows::rows(words::phrases(words.to_vec()));
        rows.len() >= INNER_ROWS && gaps::table(&rows, horizontal, true).is_some_and(|inner| inner.columns > 2)
    };
    grid.cells.len() <= OUTER_CELLS && grid.cells.iter().any(|cell| is_table(&cell.words))
}

/// What stands in a frame: a table without lines between its columns, or a text of its own. A single phrase in a frame of
/// its height is given back.
fn framed(frame: &DrawnGrid, mut phrases: Vec<Phrase>, horizontal: &[DrawnLine]) -> Result<Item, Phrase> {
    let area = frame.area();
    if phrases.len() == 1 && area.height() < FIELD_HEIGHT * phrases[0].size {
        return Err(phrases.remove(0));
    }
    match gaps::table(&rows::rows(phrases.clone()), horizontal, true) {
        Some(grid) => Ok(Item::Table(Box::new(TableGrid { area, ..grid }))),
        None => Ok(Item::Frame(area, phrases.into_iter().map(Item::Phrase).collect())),
    }
}

/// A box of a form as a word: `[x]` if it is ticked, by strokes or by what stands in it.
fn tick(area: &Area, inside: Option<Word>, strokes: &[Area]) -> Word {
    let is_ticked = inside.is_some() || strokes.iter().any(|stroke| area.holds(stroke));
    let (baseline, size) = (area.bottom - 0.15 * area.height(), area.height());
    let text = if is_ticked { "[x]" } else { "[ ]" }.to_owned();
    Word::plain(text, *area, baseline, size)
}
