//! Tables whose cells are not drawn: words stand below each other, with gaps between the columns. Lines between rows, as
//! far as there are some, tell which rows belong together.

use super::area::Area;
use super::columns::{self, RowPiece};
use super::row_groups;
use super::rows::{PageRow, median};
use super::rules::DrawnLine;
use super::table_grid::{GridCell, TableGrid};
use super::{lists, words::Phrase};
use std::ops::Range;

/// Rows of a table are at most so far from each other, in sizes of the font.
const ROW_DISTANCE: f32 = 3.6;
/// A line that is so wide, as a part of its table's width, divides rows.
const FULL_WIDTH: f32 = 0.8;
/// A bold row whose font is so much larger than that of the rows above is the heading of what follows.
const HEADING_SIZE: f32 = 1.15;
/// Texts in cells are longer than this, in characters, if the column is one of texts.
const TEXT_LENGTH: f32 = 28.0;

/// Which rows may be tables.
pub(super) fn runs(rows: &[PageRow]) -> Vec<Range<usize>> {
    let mut runs = Vec::new();
    let mut start = 0;
    while start < rows.len() {
        if !rows[start].is_split() || is_title(rows, start) || rows[start].is_code() && is_code_beside(rows, start) {
            start += 1;
            continue;
        }
        let end = last_cell_lines(rows, start..end_of_run(rows, start));
        let least = runs.last().map_or(0, |run: &Range<usize>| run.end);
        let has_header = start > least && is_header_above(&rows[start - 1], &rows[start]) && !is_title(rows, start - 1);
        let first = if has_header { start - 1 } else { start };
        runs.push(first..end);
        start = end;
    }
    runs
}

/// Whether a row below others is a heading: it is bold, and its font is larger than this size.
fn is_heading(row: &PageRow, above: f32) -> bool {
    row.is_bold() && row.size > HEADING_SIZE * above
}

/// Whether a row is the number and the title of a section, in a larger font than the row below.
pub(super) fn is_title(rows: &[PageRow], at: usize) -> bool {
    rows[at].is_numbered_title() && rows.get(at + 1).is_some_and(|below| rows[at].size > HEADING_SIZE * below.size)
}

/// Whether a row above the first one of a table has narrow gaps, but begins where the columns begin.
fn is_header_above(above: &PageRow, first: &PageRow) -> bool {
    let begins = |phrase: &Phrase| first.phrases.iter().any(|other| (other.area.left - phrase.area.left).abs() < 2.0);
    let is_near = first.baseline - above.baseline <= 1.7 * above.size.max(first.size);
    is_near && above.phrases.len() == first.phrases.len() && above.phrases.len() > 1 && above.phrases.iter().all(begins)
}

/// Where the rows end that may be one table with the row at `start`.
fn end_of_run(rows: &[PageRow], start: usize) -> usize {
    let mut end = start + 1;
    let mut area = rows[start].area;
    let mut pitches: Vec<f32> = Vec::new();
    for next in start + 1..rows.len() {
        let row = &rows[next];
        let pitch = row.baseline - rows[next - 1].baseline;
        let is_far = pitch > ROW_DISTANCE * row.size.max(rows[next - 1].size);
        let largest = rows[start..next].iter().map(|above| above.size).fold(0.0, f32::max);
        if is_far || is_heading(row, largest) || row.is_code() && is_code_beside(rows, next) {
            break;
        }
        let is_within = row.area.left >= area.left - row.size && row.area.right <= area.right + row.size;
        if row.is_split() || row.parts() > 1 && (is_within || stands_below(row, &rows[start..next])) {
            end = next + 1;
            area = area.with(&row.area);
        } else {
            let usual = median(&pitches).unwrap_or(pitch);
            let begins_below_a_cell = || {
                let cells = rows[start..next].iter().flat_map(|row| row.phrases.iter().skip(1));
                cells.into_iter().any(|phrase| (phrase.area.left - row.area.left).abs() < 2.0)
            };
            let is_cell_line = pitch <= 1.4 * row.size && begins_below_a_cell();
            let is_narrow = is_within && row.area.width() < 0.7 * area.width();
            if !is_cell_line && (!is_narrow || pitch > 1.4 * usual || next - end >= 3) {
                break;
            }
        }
        pitches.push(pitch);
    }
    end
}

/// Whether each part of a row begins where one of a row above begins.
fn stands_below(row: &PageRow, above: &[PageRow]) -> bool {
    let begins = |phrase: &Phrase| {
        let mut phrases = above.iter().flat_map(|row| &row.phrases);
        phrases.any(|other| (other.area.left - phrase.area.left).abs() < 2.0)
    };
    row.phrases.iter().all(begins)
}

/// The end of a run with the lines that belong to the cells of its last row.
fn last_cell_lines(rows: &[PageRow], run: Range<usize>) -> usize {
    let area = Area::around(rows[run.clone()].iter().map(|row| &row.area));
    let mut end = run.end;
    while end < rows.len() && rows[end].baseline - rows[end - 1].baseline <= 1.35 * rows[end].size {
        let row = &rows[end];
        let begins_below = |above: &Phrase| (above.area.left - row.area.left).abs() < 2.0;
        let is_cell_line = row.area.width() < 0.6 * area.width() && rows[end - 1].phrases.iter().any(begins_below);
        if row.is_split() || is_heading(row, rows[end - 1].size) || !is_cell_line {
            break;
        }
        end += 1;
    }
    end
}

/// Whether the row before or behind is a line of the same listing.
fn is_code_beside(rows: &[PageRow], at: usize) -> bool {
    let is_beside = |other: usize| {
        rows.get(other).is_some_and(|row| {
            row.is_code() && (row.baseline - rows[at].baseline).abs() < 1.6 * rows[at].size.max(row.size)
        })
    };
    at > 0 && is_beside(at - 1) || is_beside(at + 1)
}

/// Whether most rows have a line below them.
fn has_lines_between(lines: &[DrawnLine], rows: &[PageRow]) -> bool {
    let is_divided = |pair: &&[PageRow]| {
        lines.iter().any(|line| {
            let is_between = line.at > pair[0].area.middle_y() && line.at < pair[1].area.middle_y();
            is_between && line.from < pair[0].area.right && line.to > pair[0].area.left
        })
    };
    rows.windows(2).filter(is_divided).count() * 2 >= rows.len()
}

/// The table of these rows. `lines` are the level lines around. `is_bounded` tells that lines stand above and below it.
pub(super) fn table(rows: &[PageRow], lines: &[DrawnLine], is_bounded: bool) -> Option<TableGrid> {
    let split = rows.iter().filter(|row| row.is_split()).count();
    let least = if is_bounded { 0.2 } else { 0.4 };
    if split < 2 || (split as f32) < least * rows.len() as f32 {
        return None;
    }
    let share = |is: fn(&PageRow) -> bool| rows.iter().filter(|row| is(row)).count() as f32 / rows.len() as f32;
    // Listings, tables of contents and titles of sections have gaps too.
    if !is_bounded && rows.iter().all(PageRow::is_numbered_title) {
        return None;
    }
    if share(PageRow::is_code) > 0.5 && !has_lines_between(lines, rows) || share(PageRow::has_leader) > 0.3 {
        return None;
    }
    let area = Area::around(rows.iter().map(|row| &row.area));
    let size = median(&rows.iter().map(|row| row.size).collect::<Vec<_>>())?;
    let columns = columns::columns(rows, size);
    if columns.len() < 2 {
        return None;
    }
    let inside: Vec<DrawnLine> = lines
        .iter()
        .filter(|line| line.at > area.top - size && line.at < area.bottom + size)
        .filter(|line| line.from < area.right && line.to > area.left)
        .copied()
        .collect();
    let is_dividing =
        |line: &&DrawnLine| line.to.min(area.right) - line.from.max(area.left) >= FULL_WIDTH * area.width();
    let dividing: Vec<f32> = inside.iter().filter(is_dividing).map(|line| line.at).collect();
    let grid = grid(rows, &columns, size, &inside, &dividing, is_bounded)?;
    let is_ruled = is_bounded && dividing.len() + 1 >= grid.rows;
    (is_ruled || is_table(&grid, is_bounded)).then_some(grid)
}

/// The cells of rows. `lines` are the level lines among them, and `dividing` the heights of those over the whole width.
fn grid(
    rows: &[PageRow],
    columns: &[(f32, f32)],
    size: f32,
    lines: &[DrawnLine],
    dividing: &[f32],
    is_bounded: bool,
) -> Option<TableGrid> {
    let area = Area::around(rows.iter().map(|row| &row.area));
    let mut placed: Vec<Vec<RowPiece>> = rows.iter().map(|row| columns::pieces(row, columns, size)).collect();
    let halves = row_groups::half_rows(rows, &placed);
    // The cells of rows that stand halfway, each with the row above it.
    let mut between: Vec<(usize, Vec<RowPiece>)> = Vec::new();
    let mut whole: Vec<PageRow> = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        if halves.contains(&at) {
            between.push((whole.len() - 1, std::mem::take(&mut placed[at])));
        } else {
            whole.push(row.clone());
        }
    }
    let mut at = 0;
    placed.retain(|_| {
        at += 1;
        !halves.contains(&(at - 1))
    });
    let heights: Vec<f32> = lines.iter().map(|line| line.at).collect();
    let groups = row_groups::groups(&whole, &placed, dividing, &heights, size, columns.len());
    if groups.len() < 2 || groups.len() == 2 && columns.len() < 3 && !is_bounded {
        return None;
    }
    for (number, (row, pieces)) in whole.iter().zip(&mut placed).enumerate() {
        columns::widen(row, pieces, columns, lines, area.width(), is_bounded, number == 0);
    }
    let mut cells = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        cells.extend(merged_cells(number, placed[group.clone()].iter_mut().flat_map(std::mem::take)));
    }
    for (above, pieces) in between {
        let group = groups.iter().position(|group| group.contains(&above)).unwrap_or(0);
        let rows = if group + 1 < groups.len() && !groups[group].contains(&(above + 1)) { 2 } else { 1 };
        let cell = |piece: RowPiece| {
            let Range { start, end } = piece.columns;
            GridCell { row: group, column: start, rows, columns: end - start, words: piece.words }
        };
        cells.extend(pieces.into_iter().map(cell));
    }
    let mut edges: Vec<f32> = columns.windows(2).map(|pair| f32::midpoint(pair[0].1, pair[1].0)).collect();
    edges.insert(0, area.left);
    edges.push(area.right);
    let mut grid = TableGrid { area, cells, rows: groups.len(), columns: columns.len(), header_rows: 1, edges };
    grid.header_rows =
        row_groups::header_rows_by_line(&groups, &whole, dividing).unwrap_or_else(|| grid.likely_header_rows());
    row_groups::spread_labels(&mut grid);
    grid.join_overlapping_cells();
    Some(grid)
}

/// The cells of one row from the pieces of its lines: pieces that share a column are one cell.
fn merged_cells(row: usize, pieces: impl Iterator<Item = RowPiece>) -> Vec<GridCell> {
    let mut merged: Vec<GridCell> = Vec::new();
    for piece in pieces {
        let Range { start, end } = piece.columns;
        match merged.iter_mut().find(|cell| cell.column < end && start < cell.column + cell.columns) {
            Some(cell) => {
                let end = (cell.column + cell.columns).max(end);
                cell.column = cell.column.min(start);
                cell.columns = end - cell.column;
                cell.words.extend(piece.words);
            }
            None => merged.push(GridCell { row, column: start, rows: 1, columns: end - start, words: piece.words }),
        }
    }
    merged
}

/// The tables of these rows, if two stand beside each other: a gap that is much wider than all others lies between them,
/// and one of both ends before the other. Their captions come first.
pub(super) fn tables_beside(rows: &[PageRow], lines: &[DrawnLine]) -> Option<(Vec<PageRow>, Vec<TableGrid>)> {
    let size = median(&rows.iter().map(|row| row.size).collect::<Vec<_>>())?;
    let columns = columns::columns(rows, size);
    if columns.len() < 4 {
        return None;
    }
    let gaps: Vec<f32> = columns.windows(2).map(|pair| pair[1].0 - pair[0].1).collect();
    let at = (0..gaps.len()).max_by(|&one, &other| gaps[one].total_cmp(&gaps[other]))?;
    let next = (0..gaps.len()).filter(|&other| other != at).map(|other| gaps[other]).fold(0.0, f32::max);
    if gaps[at] < 2.0 * size || gaps[at] < 1.8 * next || at == 0 || at + 2 >= columns.len() {
        return None;
    }
    let middle = f32::midpoint(columns[at].1, columns[at + 1].0);
    let side = |is_left: bool| -> Vec<PageRow> {
        let phrases = |row: &PageRow| -> Vec<Phrase> {
            row.phrases.iter().filter(|phrase| (phrase.area.middle_x() < middle) == is_left).cloned().collect()
        };
        rows.iter().map(phrases).filter(|phrases| !phrases.is_empty()).map(PageRow::of).collect()
    };
    let (left, right) = (side(true), side(false));
    if left.len() == right.len() {
        return None;
    }
    let (mut captions, mut grids) = (Vec::new(), Vec::new());
    for side in [left, right] {
        let first = side.iter().position(|row| row.parts() > 1)?;
        grids.push(table(&side[first..], lines, false)?);
        captions.extend(side.into_iter().take(first));
    }
    Some((captions, grids))
}

/// Whether a grid that was found by gaps alone is a table, and not two columns of a text, a list, a form or the terms of a
/// glossary.
fn is_table(grid: &TableGrid, is_bounded: bool) -> bool {
    let filled = grid.cells.len() as f32 / (grid.rows * grid.columns) as f32;
    if filled < 0.4 || !is_bounded && (!is_regular(grid) || is_form(grid) || is_marked_list(grid) || has_comments(grid))
    {
        return false;
    }
    let words = |cell: &GridCell| cell.words.iter().map(|word| word.text.chars().count() + 1).sum::<usize>();
    let holds_texts = |column: usize| {
        let lengths: Vec<usize> = grid.cells.iter().filter(|cell| cell.column == column).map(words).collect();
        let mean = lengths.iter().sum::<usize>() as f32 / lengths.len().max(1) as f32;
        mean > TEXT_LENGTH && lengths.len() * 10 > grid.rows * 6
    };
    let texts = (0..grid.columns).filter(|&column| holds_texts(column)).count();
    // A column of long texts is common, two of them beside each other are a page.
    texts < 2 || grid.columns > if is_bounded { 2 } else { 3 }
}

/// Whether two rows have all their cells, and few texts below the headers reach over several columns: lines of text, whose
/// gaps are where they happen to be, do not.
fn is_regular(grid: &TableGrid) -> bool {
    if grid.rows == 2 {
        return grid.columns > 2 && grid.cells.len() == 2 * grid.columns;
    }
    let is_text = |cell: &&GridCell| {
        let letters = cell.words.iter().map(|word| word.text.chars().count()).sum::<usize>();
        cell.row >= grid.header_rows && cell.columns > 1 && letters as f32 > TEXT_LENGTH
    };
    grid.cells.iter().filter(is_text).count() * 10 <= grid.rows * 3
}

/// Whether most cells of the first column are names of fields, with a colon.
fn is_form(grid: &TableGrid) -> bool {
    let firsts = || grid.cells.iter().filter(|cell| cell.column == 0);
    let is_name = |cell: &&GridCell| cell.words.last().is_some_and(|word| word.text.ends_with(':'));
    firsts().filter(is_name).count() * 2 > firsts().count()
}

/// Whether the first of two columns holds the marks of a list.
fn is_marked_list(grid: &TableGrid) -> bool {
    let firsts = || grid.cells.iter().filter(|cell| cell.column == 0);
    let is_mark = |cell: &&GridCell| match &cell.words[..] {
        [word] => lists::is_mark(&word.text) || word.text.chars().count() < 3,
        _ => false,
    };
    grid.columns == 2 && firsts().filter(is_mark).count() * 2 > firsts().count()
}

/// Whether most cells of the last column are comments in a listing.
fn has_comments(grid: &TableGrid) -> bool {
    let lasts = || grid.cells.iter().filter(|cell| cell.column + 1 == grid.columns);
    let begins = |word: &str| ["#", "//", "/*", "%", ";", "--"].iter().any(|mark| word.starts_with(mark));
    let is_comment = |cell: &&GridCell| cell.words.first().is_some_and(|word| begins(&word.text));
    grid.columns == 2 && lasts().filter(is_comment).count() * 2 > lasts().count()
}
