//! Terms with their explanations beside them, such as the arguments in a manual: two columns, but no table. Each term is
//! read with its explanation, as a paragraph.

use super::page_parts::PagePart;
use super::rows;
use super::table_grid::{GridCell, TableGrid};
use super::words::{self, Word};

/// Terms are at most so long, in characters, and their explanations at least, both in the mean.
const TERM_LENGTH: f32 = 24.0;
const EXPLANATION_LENGTH: f32 = 28.0;

/// Whether two columns are terms and their explanations: texts that often have several lines.
pub(super) fn is_glossary(grid: &TableGrid) -> bool {
    let of = |column: usize| grid.cells.iter().filter(move |cell| cell.column == column && cell.columns == 1);
    let (terms, explanations) = (of(0).count(), of(1).count());
    if grid.columns != 2 || terms == 0 || explanations < 2 || explanations * 2 < terms {
        return false;
    }
    let length = |cell: &GridCell| cell.words.iter().map(|word| word.text.chars().count() + 1).sum::<usize>();
    let mean = |column: usize, count: usize| of(column).map(length).sum::<usize>() as f32 / count as f32;
    let has_lines = |cell: &&GridCell| {
        let heights = || cell.words.iter().map(|word| word.baseline);
        let size = cell.words.first().map_or(10.0, |word| word.size);
        heights().fold(f32::NEG_INFINITY, f32::max) - heights().fold(f32::INFINITY, f32::min) > 0.8 * size
    };
    // Lines that were not joined are rows without a term.
    let lone = (0..grid.rows).filter(|&row| !of(0).any(|cell| cell.row == row)).count();
    let several = of(1).filter(has_lines).count() + lone;
    mean(0, terms) <= TERM_LENGTH && mean(1, explanations) >= EXPLANATION_LENGTH && several * 6 >= grid.rows
}

/// The lines of each term and its explanation.
pub(super) fn terms(grid: TableGrid) -> Vec<PagePart> {
    let mut of_rows: Vec<(bool, Vec<Word>)> = vec![(false, Vec::new()); grid.rows];
    for cell in grid.cells {
        let (has_term, words) = &mut of_rows[cell.row];
        *has_term |= cell.column == 0;
        words.extend(cell.words);
    }
    let mut parts = Vec::new();
    for (number, (has_term, words)) in of_rows.into_iter().enumerate() {
        if number > 0 && has_term {
            parts.push(PagePart::Break);
        }
        parts.extend(rows::rows(words::phrases(words)).into_iter().map(PagePart::PageRow));
    }
    parts.push(PagePart::Break);
    parts
}
