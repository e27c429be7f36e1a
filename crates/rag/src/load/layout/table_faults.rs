//! The self-check of a table that was read from a page: what shows that its cells are not as they are drawn.

use super::area::Area;
use super::table_grid::{GridCell, TableGrid};
use crate::types::TableFault;

/// Two cells overlap if they share so many points in each direction.
const SHARED: f32 = 3.0;
/// A text lies in a table if so much of its width and height does.
const INSIDE: f32 = 0.6;
/// Larger tables are not checked for cells that overlap.
const MOST_CELLS: usize = 4_000;

/// What is wrong with a table. `others` are the places of the phrases of the page that are in no drawn table.
pub(super) fn faults(grid: &TableGrid, others: &[Area]) -> Vec<TableFault> {
    let mut found = Vec::new();
    if has_overlaps(grid) {
        found.push(TableFault::Overlap);
    }
    if has_lone_cells(grid) {
        found.push(TableFault::UnevenRows);
    }
    if loses_text(grid, others) {
        found.push(TableFault::LostText);
    }
    found
}

fn area_of(cell: &GridCell) -> Area {
    Area::around(cell.words.iter().map(|word| &word.area))
}

/// Whether the texts of two cells lie over each other.
pub(super) fn has_overlaps(grid: &TableGrid) -> bool {
    let mut cells: Vec<Area> = grid.cells.iter().filter(|cell| !cell.words.is_empty()).map(area_of).collect();
    if cells.len() > MOST_CELLS {
        return false;
    }
    cells.sort_by(|one, other| one.top.total_cmp(&other.top));
    cells.iter().enumerate().any(|(at, one)| {
        let near = cells[at + 1..].iter().take_while(|other| other.top < one.bottom - SHARED);
        near.into_iter().any(|other| one.shared_x(other) > SHARED && one.bottom.min(other.bottom) - other.top > SHARED)
    })
}

/// Whether a row below the headers has a single cell that is not the first one, where the row above has several: a line of
/// a cell that was taken for a row, or a text that is no row.
fn has_lone_cells(grid: &TableGrid) -> bool {
    let mut of_rows: Vec<Vec<&GridCell>> = vec![Vec::new(); grid.rows];
    for cell in grid.cells.iter().filter(|cell| !cell.words.is_empty()) {
        for row in &mut of_rows[cell.row..cell.row + cell.rows] {
            row.push(cell);
        }
    }
    of_rows.windows(2).skip(grid.header_rows.saturating_sub(1)).any(|pair| match &pair[1][..] {
        [only] => only.column > 0 && only.columns < grid.columns && pair[0].len() > 1,
        _ => false,
    })
}

/// Whether a phrase inside the table's borders is in none of its cells.
fn loses_text(grid: &TableGrid, others: &[Area]) -> bool {
    let is_inside = |area: &&Area| {
        let (width, height) =
            (area.shared_x(&grid.area), area.bottom.min(grid.area.bottom) - area.top.max(grid.area.top));
        width > INSIDE * area.width() && height > INSIDE * area.height() && width > 0.0 && height > 0.0
    };
    let has = |area: &Area| {
        grid.cells.iter().any(|cell| cell.words.iter().any(|word| area.holds(&word.area) || word.area == *area))
    };
    others.iter().filter(is_inside).any(|area| !has(area))
}
