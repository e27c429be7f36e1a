//! Which lines of a table without drawn cells are one row of it, and which rows are headers.

use super::columns::RowPiece;
use super::rows::PageRow;
use super::table_grid::TableGrid;
use std::collections::BTreeSet;
use std::ops::Range;

/// Lines within a cell are at most so far from each other, in sizes of the font.
const LINE_DISTANCE: f32 = 1.5;

/// Rows that stand halfway between two others, with cells where these have none: each of their cells covers both.
pub(super) fn half_rows(rows: &[PageRow], placed: &[Vec<RowPiece>]) -> Vec<usize> {
    let pitches: Vec<f32> = rows.windows(2).map(|pair| pair[1].baseline - pair[0].baseline).collect();
    let shares = |one: &RowPiece, other: &RowPiece| {
        one.columns.start < other.columns.end && other.columns.start < one.columns.end
    };
    let touches = |one: usize, other: usize| {
        placed[one].iter().any(|piece| placed[other].iter().any(|other| shares(piece, other)))
    };
    let mut found: Vec<usize> = Vec::new();
    for at in 1..rows.len().saturating_sub(1) {
        let (above, below) = (pitches[at - 1], pitches[at]);
        let is_halfway = (above - below).abs() < 0.35 * (above + below) && above + below < 3.0 * rows[at].size;
        let stands_alone = !touches(at, at - 1) && !touches(at, at + 1) && touches(at - 1, at + 1);
        let is_less = placed[at].len() <= placed[at - 1].len().max(placed[at + 1].len());
        if is_halfway && stands_alone && is_less && found.last() != Some(&(at - 1)) {
            found.push(at);
        }
    }
    found
}

/// Which lines are one row of the table. `dividing` are the heights of lines over the whole width, and `heights` those of
/// all lines.
pub(super) fn groups(
    rows: &[PageRow],
    placed: &[Vec<RowPiece>],
    dividing: &[f32],
    heights: &[f32],
    size: f32,
    columns: usize,
) -> Vec<Range<usize>> {
    let breaks = rows.windows(2).filter(|pair| divided(dividing, &pair[0], &pair[1])).count();
    // Lines between all rows tell everything.
    let by_lines = breaks >= 3 && breaks * 5 >= rows.len();
    let pitches: Vec<f32> = rows.windows(2).map(|pair| pair[1].baseline - pair[0].baseline).collect();
    let ends = (f32::INFINITY, 0.0_f32);
    let (least, most) = pitches.iter().fold(ends, |(least, most), pitch| (least.min(*pitch), most.max(*pitch)));
    let has_two_pitches = most > 1.25 * least;
    let mut groups: Vec<Range<usize>> = Vec::new();
    // The columns that the last group has.
    let mut above: BTreeSet<usize> = BTreeSet::new();
    for at in 0..rows.len() {
        let below: BTreeSet<usize> = placed[at].iter().flat_map(|piece| piece.columns.clone()).collect();
        let joins = at > 0 && !divided(heights, &rows[at - 1], &rows[at]) && {
            let pitch = pitches[at - 1];
            let is_near = pitch <= LINE_DISTANCE * size && (!has_two_pitches || pitch <= 1.15 * least);
            if by_lines {
                below.len() * 4 < columns * 3 || above.len() * 4 < columns * 3
            } else if at == 1 {
                is_near && has_two_pitches && above.len() < below.len() && above.is_subset(&below)
            } else {
                let is_less = below.len() < above.len() && below.is_subset(&above);
                is_near && is_less && (has_two_pitches || !below.contains(&0))
            }
        };
        match groups.last_mut().filter(|_| joins) {
            Some(group) => {
                group.end = at + 1;
                above.extend(below);
            }
            None => {
                groups.push(at..at + 1);
                above = below;
            }
        }
    }
    groups
}

/// Whether one of these lines runs between two rows.
fn divided(heights: &[f32], above: &PageRow, below: &PageRow) -> bool {
    heights.iter().any(|height| *height > above.area.middle_y() && *height < below.area.middle_y())
}

/// How many rows stand above a line that runs below the first rows, but not below all. None without such a line.
pub(super) fn header_rows_by_line(groups: &[Range<usize>], rows: &[PageRow], dividing: &[f32]) -> Option<usize> {
    let is_below = |height: f32, group: &Range<usize>| {
        let last = &rows[group.end - 1];
        height > last.area.bottom - 0.5 * last.size
    };
    (1..groups.len().min(5)).find(|&count| {
        let next = rows[groups[count].start].area.middle_y();
        dividing.iter().any(|&height| is_below(height, &groups[count - 1]) && height < next)
    })
}

/// Names of groups often stand in the middle of their rows. If this fits for the whole first column, each covers its group.
pub(super) fn spread_labels(grid: &mut TableGrid) {
    let cells = &mut grid.cells;
    let mut labels: Vec<usize> =
        (0..cells.len()).filter(|&at| cells[at].column == 0 && cells[at].row >= grid.header_rows).collect();
    if labels.iter().any(|&at| cells[at].columns > 1) {
        return;
    }
    labels.sort_by_key(|&at| cells[at].row);
    if labels.first().is_none_or(|&first| cells[first].row == grid.header_rows && cells[first].rows == 1) {
        return;
    }
    let mut start = grid.header_rows;
    let mut spans = Vec::new();
    for &at in &labels {
        // Twice the middle, so that it is whole.
        let middle = 2 * cells[at].row + cells[at].rows - 1;
        let Some(end) = middle.checked_sub(start).filter(|end| *end >= start && *end < grid.rows) else { return };
        spans.push((at, start, end - start + 1));
        start = end + 1;
    }
    if start == grid.rows {
        for (at, row, rows) in spans {
            (cells[at].row, cells[at].rows) = (row, rows);
        }
    }
}
