//! A table as it goes into the document: the texts of its cells, over as many pages as it has.

use super::blocks::join;
use super::rows;
use super::table_grid::TableGrid;
use super::words::{self, Word};
use crate::load::lines::{self, WordCounts};
use crate::load::table::{BuiltTable, CellPlace, TableBuilder};
use crate::types::TableFault;
use serde::{Deserialize, Serialize};

/// Sides of columns on two pages are the same if they are at most so far from each other, in points.
const SAME_EDGE: f32 = 12.0;

/// A cell with its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TextCell {
    row: usize,
    column: usize,
    rows: usize,
    columns: usize,
    text: String,
}

/// A table of texts.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TextTable {
    cells: Vec<TextCell>,
    rows: usize,
    columns: usize,
    header_rows: usize,
    /// The sides of its columns, from left to right.
    edges: Vec<f32>,
    /// The page of its first row, and for each other page the first row on it.
    pub(super) pages: Vec<(u32, usize)>,
    pub(super) faults: Vec<TableFault>,
}

impl TextTable {
    pub(super) fn of(grid: TableGrid, page: u32, faults: Vec<TableFault>) -> Self {
        let grid = grid.without_empty_rows();
        let cells = grid.cells.iter().map(|cell| TextCell {
            row: cell.row,
            column: cell.column,
            rows: cell.rows,
            columns: cell.columns,
            text: cell_text(&cell.words),
        });
        let mut cells: Vec<TextCell> = cells.collect();
        cells.sort_by_key(|cell| (cell.row, cell.column));
        Self {
            cells,
            rows: grid.rows,
            columns: grid.columns,
            header_rows: grid.header_rows,
            edges: grid.edges,
            pages: vec![(page, 0)],
            faults,
        }
    }

    /// The texts of its cells.
    pub(super) fn texts(&self) -> impl Iterator<Item = &String> + Clone {
        self.cells.iter().map(|cell| &cell.text)
    }

    /// In words, for people.
    pub(super) fn in_words(&self) -> String {
        format!("a table of {} rows and {} columns", self.rows, self.columns)
    }

    /// Whether a table at the top of the next page has the same columns.
    pub(super) fn goes_on_in(&self, next: &Self) -> bool {
        let inner = self.columns.saturating_sub(1);
        let sides = self.edges.iter().zip(&next.edges).skip(1).take(inner);
        self.columns == next.columns && sides.into_iter().all(|(one, other)| (one - other).abs() < SAME_EDGE)
    }

    /// Adds the rows of the next page. Headers that are repeated there are left out.
    pub(super) fn append(&mut self, next: Self) {
        // Cells are in the order of their rows.
        let headers = |table: &'_ Self| table.cells.partition_point(|cell| cell.row < self.header_rows);
        let is_repeated = next.rows > self.header_rows && self.cells[..headers(self)] == next.cells[..headers(&next)];
        let skipped = if is_repeated { self.header_rows } else { 0 };
        let rows = self.rows;
        let moved = |cell: TextCell| TextCell { row: cell.row + rows - skipped, ..cell };
        self.cells.extend(next.cells.into_iter().filter(|cell| cell.row >= skipped).map(moved));
        let pages = next.pages.into_iter().map(|(page, row)| (page, rows + row.saturating_sub(skipped)));
        self.pages.extend(pages);
        self.rows += next.rows - skipped;
        for fault in next.faults {
            if !self.faults.contains(&fault) {
                self.faults.push(fault);
            }
        }
    }

    /// About how many bytes it has.
    pub(super) fn size(&self) -> usize {
        let covered = |cell: &TextCell| cell.text.len().saturating_mul(cell.rows * cell.columns);
        let content: usize = self.cells.iter().map(covered).sum();
        content.saturating_add(self.rows.saturating_mul(self.columns).saturating_mul(3))
    }

    /// As Markdown.
    pub(super) fn build(self, vocabulary: &WordCounts) -> BuiltTable {
        let cells = self.cells;
        let mut builder = TableBuilder::default();
        let mut cells = cells.into_iter().peekable();
        for row in 0..self.rows {
            builder.row();
            if row < self.header_rows {
                builder.mark_header();
            }
            while let Some(cell) = cells.next_if(|cell| cell.row == row) {
                let place = CellPlace {
                    rows: cell.rows as u32,
                    columns: cell.columns as u32,
                    column: Some(cell.column as u32),
                    ..CellPlace::default()
                };
                let mut text = String::new();
                lines::push_clean(&mut text, &cell.text, vocabulary);
                builder.cell(text, place);
            }
        }
        let mut built = builder.finish();
        if let Some(table) = &mut built.table {
            table.faults = self.faults;
        }
        built
    }
}

/// The words of a cell, line by line.
fn cell_text(words: &[Word]) -> String {
    let mut text = String::new();
    let mut is_divided = false;
    for row in rows::rows(words::phrases(words.to_vec())) {
        let words: Vec<&Word> = row.phrases.iter().flat_map(|phrase| &phrase.words).collect();
        let line = words::text_of(words.iter().copied());
        if text.is_empty() {
            text.push_str(&line);
        } else {
            join(&mut text, is_divided, &line);
        }
        is_divided = words.last().is_some_and(|word| word.is_divided);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::words::tests::word;
    use super::super::{area::Area, table_grid::GridCell};
    use super::*;

    fn table(page: u32, rows: &[[&str; 2]], edges: [f32; 3]) -> TextTable {
        let cells = rows.iter().enumerate().flat_map(|(row, texts)| {
            texts.iter().enumerate().map(move |(column, text)| GridCell {
                row,
                column,
                rows: 1,
                columns: 1,
                words: vec![word(text, 0.0, 10.0)],
            })
        });
        let (area, edges) = (Area::NONE, edges.to_vec());
        let grid = TableGrid { area, cells: cells.collect(), rows: rows.len(), columns: 2, header_rows: 1, edges };
        TextTable::of(grid, page, Vec::new())
    }

    #[test]
    fn a_table_over_two_pages_is_one_and_its_repeated_header_stands_once() {
        let mut first = table(1, &[["part", "m"], ["wheel", "3"]], [0.0, 50.0, 100.0]);
        let second = table(2, &[["part", "m"], ["stone", "1"]], [0.0, 53.0, 90.0]);
        assert!(first.goes_on_in(&second));
        assert!(!first.goes_on_in(&table(2, &[["a", "b"]], [0.0, 80.0, 100.0])), "its columns stand elsewhere");
        first.append(second);
        assert_eq!(first.pages, [(1, 0), (2, 2)]);
        let built = first.build(&WordCounts::default());
        assert_eq!(built.text, "| part | m |\n| --- | --- |\n| wheel | 3 |\n| stone | 1 |\n");
    }
}
