//! A part of a page without columns of text: lines below each other, with tables among them.

use super::area::Area;
use super::page_parts::{Item, PagePart};
use super::rows::{self, PageRow};
use super::rules::DrawnLine;
use super::table_grid::TableGrid;
use super::{formula, gaps, glossary, table_faults};
use std::ops::Range;

/// Lines below each other, with tables among them.
pub(super) fn read(items: Vec<Item>, lines: &[DrawnLine], parts: &mut Vec<PagePart>) {
    if items.is_empty() {
        return;
    }
    let (mut phrases, mut tables) = (Vec::new(), Vec::new());
    for item in items {
        match item {
            Item::Phrase(phrase) => phrases.push(phrase),
            other => tables.push(other),
        }
    }
    let rows = rows::rows(phrases);
    let mut tables = from_the_top(tables).into_iter().peekable();
    let mut runs = gaps::runs(&rows).into_iter().peekable();
    parts.push(PagePart::Break);
    let mut at = 0;
    while at < rows.len() {
        while let Some(table) = tables.next_if(|table| table.area().top < rows[at].area.middle_y()) {
            push_item(table, lines, parts);
        }
        while runs.next_if(|run| run.start < at).is_some() {}
        if let Some(run) = runs.next_if(|run| run.start == at) {
            let bottom = Area::around(rows[run.clone()].iter().map(|row| &row.area)).bottom;
            let crosses_table = tables.peek().is_some_and(|table| table.area().top < bottom);
            let found = if crosses_table { None } else { parts_of_run(&rows, run.clone(), lines) };
            if let Some(found) = found {
                parts.extend(found);
                at = run.end;
                continue;
            }
        }
        parts.push(PagePart::PageRow(rows[at].clone()));
        at += 1;
    }
    for table in tables {
        push_item(table, lines, parts);
    }
}

/// A table of fewer rows is one only if it is no part of a paragraph.
const FEW_ROWS: usize = 4;
/// A page with so many entries of a table of contents has others without points between title and number.
const CONTENTS_ENTRIES: usize = 3;

/// The tables that some of the rows are, or the terms of a glossary. None if they are lines of text.
fn parts_of_run(all: &[PageRow], run: Range<usize>, lines: &[DrawnLine]) -> Option<Vec<PagePart>> {
    let rows = &all[run.clone()];
    if let Some((captions, grids)) = gaps::tables_beside(rows, lines) {
        let captions = captions.into_iter().flat_map(|caption| [PagePart::PageRow(caption), PagePart::Break]);
        return Some(captions.chain(grids.into_iter().map(|grid| PagePart::Table(Box::new(grid)))).collect());
    }
    if formula::is_formula(rows) || rows.len() < FEW_ROWS && is_in_paragraph(all, run) {
        return None;
    }
    let grid = gaps::table(rows, lines, false).filter(|grid| !table_faults::has_overlaps(grid))?;
    let entries = all.iter().filter(|row| row.has_leader()).count();
    if entries >= CONTENTS_ENTRIES && is_contents(&grid) {
        return None;
    }
    if glossary::is_glossary(&grid) {
        return Some([vec![PagePart::Break], glossary::terms(grid)].concat());
    }
    Some(vec![PagePart::Table(Box::new(grid))])
}

/// Whether the line above or below the rows has the same sides and stands as near as a line of the same paragraph.
fn is_in_paragraph(all: &[PageRow], run: Range<usize>) -> bool {
    let goes_on = |one: &PageRow, other: &PageRow| {
        let size = one.size.max(other.size);
        let same_side = |one: f32, other: f32| (one - other).abs() < size;
        (other.baseline - one.baseline).abs() < 1.5 * size
            && same_side(one.area.left, other.area.left)
            && same_side(one.area.right, other.area.right)
    };
    let above = run.start.checked_sub(1).is_some_and(|above| goes_on(&all[above], &all[run.start]));
    above || all.get(run.end).is_some_and(|below| goes_on(below, &all[run.end - 1]))
}

/// Whether two columns are titles and the numbers of their pages.
fn is_contents(grid: &TableGrid) -> bool {
    let mut pages = grid.cells.iter().filter(|cell| cell.column == 1);
    grid.columns == 2 && pages.all(|cell| matches!(&cell.words[..], [word] if word.text.parse::<u32>().is_ok()))
}

fn push_item(item: Item, lines: &[DrawnLine], parts: &mut Vec<PagePart>) {
    match item {
        Item::Table(grid) => parts.push(PagePart::Table(grid)),
        Item::Frame(_, items) => {
            read(items, lines, parts);
            parts.push(PagePart::Break);
        }
        Item::Phrase(_) => {}
    }
}

/// From the top to the bottom, and from left to right where they stand beside each other.
fn from_the_top(mut items: Vec<Item>) -> Vec<Item> {
    items.sort_by(|one, other| one.area().top.total_cmp(&other.area().top));
    let mut levels: Vec<Vec<Item>> = Vec::new();
    for item in items {
        let is_beside = |level: &&mut Vec<Item>| {
            let first = level[0].area();
            item.area().top < first.top + 0.5 * first.height().min(item.area().height())
        };
        match levels.last_mut().filter(is_beside) {
            Some(level) => level.push(item),
            None => levels.push(vec![item]),
        }
    }
    for level in &mut levels {
        level.sort_by(|one, other| one.area().left.total_cmp(&other.area().left));
    }
    levels.into_iter().flatten().collect()
}
