//! Tables whose cells are drawn: lines that cross each other make a grid. Cells without a line between them are one.

use super::area::Area;
use super::rules::{DrawnLine, SAME_LINE};
use super::table_grid::{GridCell, TableGrid};
use super::words::Word;
use std::collections::BTreeMap;

/// A line may end so far before the one that it meets, in points.
const MEETS: f32 = 3.5;
/// The least height and width of a cell, in points.
const LEAST_CELL: f32 = 4.0;
/// A side of a cell is drawn if so much of it is.
const DRAWN: f32 = 0.6;
/// The most cells of a grid, each counted once for each line of the grid: more is a drawing.
const MOST_WORK: usize = 20_000_000;
/// How wide and high boxes are that are ticked, in points.
const TICK_BOX: std::ops::Range<f32> = 5.0..18.0;
/// The most pairs of lines of a page that are looked at.
const MOST_PAIRS: usize = 40_000_000;

/// The grids that the lines of a page make, from top to bottom.
pub(super) fn grids(horizontal: &[DrawnLine], vertical: &[DrawnLine]) -> Vec<DrawnGrid> {
    if horizontal.len() * vertical.len() > MOST_PAIRS {
        return Vec::new();
    }
    // Lines that cross each other, directly or by others, belong together.
    let mut groups: Vec<usize> = (0..horizontal.len() + vertical.len()).collect();
    for (i, one) in horizontal.iter().enumerate() {
        for (j, other) in vertical.iter().enumerate() {
            let crosses = other.from - MEETS <= one.at
                && one.at <= other.to + MEETS
                && one.from - MEETS <= other.at
                && other.at <= one.to + MEETS;
            if crosses {
                let (a, b) = (root(&mut groups, i), root(&mut groups, horizontal.len() + j));
                groups[a] = b;
            }
        }
    }
    // The lines of each group in both directions.
    let mut by_root: BTreeMap<usize, (Vec<DrawnLine>, Vec<DrawnLine>)> = BTreeMap::new();
    for (number, line) in horizontal.iter().enumerate() {
        by_root.entry(root(&mut groups, number)).or_default().0.push(*line);
    }
    for (number, line) in vertical.iter().enumerate() {
        by_root.entry(root(&mut groups, horizontal.len() + number)).or_default().1.push(*line);
    }
    let mut found: Vec<DrawnGrid> =
        by_root.into_values().filter_map(|(horizontal, vertical)| DrawnGrid::of(horizontal, vertical)).collect();
    found.sort_by(|one, other| one.area().top.total_cmp(&other.area().top));
    found
}

fn root(groups: &mut [usize], mut member: usize) -> usize {
    while groups[member] != member {
        groups[member] = groups[groups[member]];
        member = groups[member];
    }
    member
}

/// Lines that cross each other.
#[derive(Debug)]
pub(super) struct DrawnGrid {
    horizontal: Vec<DrawnLine>,
    vertical: Vec<DrawnLine>,
    /// The heights of its rows' sides, from the top.
    ys: Vec<f32>,
    xs: Vec<f32>,
}

impl DrawnGrid {
    fn of(mut horizontal: Vec<DrawnLine>, mut vertical: Vec<DrawnLine>) -> Option<Self> {
        let (ys, xs) = (distinct(horizontal.iter().map(|line| line.at)), distinct(vertical.iter().map(|line| line.at)));
        if ys.is_empty() || xs.is_empty() {
            return None;
        }
        // Tables are often open at their sides: the lines that cross tell how far they go.
        let around = |lines: &[DrawnLine]| {
            let from = lines.iter().map(|line| line.from).fold(f32::INFINITY, f32::min);
            (from, lines.iter().map(|line| line.to).fold(f32::NEG_INFINITY, f32::max))
        };
        let (left, right) = around(&horizontal);
        let (top, bottom) = around(&vertical);
        let open =
            |edges: &mut Vec<f32>, lines: &mut Vec<DrawnLine>, (low, high): (f32, f32), (from, to): (f32, f32)| {
                if edges[0] - low > 2.0 * LEAST_CELL {
                    edges.insert(0, low);
                    lines.push(DrawnLine { at: low, from, to });
                }
                if high - edges[edges.len() - 1] > 2.0 * LEAST_CELL {
                    edges.push(high);
                    lines.push(DrawnLine { at: high, from, to });
                }
            };
        let (mut ys, mut xs) = (ys, xs);
        open(&mut xs, &mut vertical, (left, right), (top, bottom));
        open(&mut ys, &mut horizontal, (top, bottom), (left, right));
        (ys.len() >= 2 && xs.len() >= 2).then_some(Self { horizontal, vertical, ys, xs })
    }

    /// Whether it is a frame around something.
    pub(super) fn is_frame(&self) -> bool {
        self.xs.len() == 2
    }

    /// Whether it is a box that is ticked, in a form.
    pub(super) fn is_tick_box(&self) -> bool {
        let (width, height) = (self.area().width(), self.area().height());
        self.is_frame()
            && self.ys.len() == 2
            && TICK_BOX.contains(&width)
            && TICK_BOX.contains(&height)
            && (width - height).abs() < 0.3 * width
    }

    /// Whether a level line is one of its own.
    pub(super) fn has(&self, line: &DrawnLine) -> bool {
        self.horizontal.iter().any(|own| own.at == line.at && own.from == line.from)
    }

    pub(super) fn area(&self) -> Area {
        Area {
            left: self.xs[0],
            top: self.ys[0],
            right: self.xs[self.xs.len() - 1],
            bottom: self.ys[self.ys.len() - 1],
        }
    }

    /// The table with its words, or the words again if it is none: a drawing, or the boxes of a form.
    pub(super) fn with_words(self, words: Vec<Word>) -> Result<TableGrid, Vec<Word>> {
        let area = self.area();
        let (rows, columns) = (self.ys.len() - 1, self.xs.len() - 1);
        let work = rows.saturating_mul(columns).saturating_mul(self.horizontal.len() + self.vertical.len());
        if columns < 2 || rows < 2 && self.vertical.len() < 3 || work > MOST_WORK {
            return Err(words);
        }
        let mut cells = self.cells(rows, columns);
        let mut cell_at = vec![0; rows * columns];
        for (index, cell) in cells.iter().enumerate() {
            for row in cell.row..cell.row + cell.rows {
                for column in cell.column..cell.column + cell.columns {
                    cell_at[row * columns + column] = index;
                }
            }
        }
        for word in words {
            let place =
                |edges: &[f32], at: f32| edges.partition_point(|edge| *edge <= at).clamp(1, edges.len() - 1) - 1;
            let (row, column) = (place(&self.ys, word.area.middle_y()), place(&self.xs, word.area.middle_x()));
            cells[cell_at[row * columns + column]].words.push(word);
        }
        let with_text = cells.iter().filter(|cell| !cell.words.is_empty()).count();
        let is_comb = rows == 1 && cells.iter().flat_map(|cell| &cell.words).all(|word| word.text.chars().count() == 1);
        if is_comb && with_text > 1 {
            return Err(comb(cells).into_iter().collect());
        }
        if with_text < 2 || cells.len() < 2 || rows == 1 && columns < 3 {
            return Err(cells.into_iter().flat_map(|cell| cell.words).collect());
        }
        let mut grid = TableGrid { area, cells, rows, columns, header_rows: 1, edges: self.xs };
        grid.divide_rows();
        grid.header_rows = grid.likely_header_rows();
        Ok(grid)
    }

    /// Rectangles of places without a line between them.
    fn cells(&self, rows: usize, columns: usize) -> Vec<GridCell> {
        let is_drawn = |lines: &[DrawnLine], at: f32, from: f32, to: f32| {
            let drawn: f32 = lines
                .iter()
                .filter(|line| (line.at - at).abs() <= SAME_LINE)
                .map(|line| (line.to.min(to) - line.from.max(from)).max(0.0))
                .sum();
            drawn >= DRAWN * (to - from)
        };
        let right_is_open =
            |row: usize, column: usize| !is_drawn(&self.vertical, self.xs[column + 1], self.ys[row], self.ys[row + 1]);
        let below_is_open = |row: usize, column: usize| {
            !is_drawn(&self.horizontal, self.ys[row + 1], self.xs[column], self.xs[column + 1])
        };
        let mut taken = vec![false; rows * columns];
        let mut cells = Vec::new();
        for row in 0..rows {
            for column in 0..columns {
                if taken[row * columns + column] {
                    continue;
                }
                let mut width = 1;
                while column + width < columns
                    && !taken[row * columns + column + width]
                    && right_is_open(row, column + width - 1)
                {
                    width += 1;
                }
                let mut height = 1;
                while row + height < rows
                    && (column..column + width).all(|column| {
                        !taken[(row + height) * columns + column] && below_is_open(row + height - 1, column)
                    })
                    && (column..column + width - 1).all(|column| right_is_open(row + height, column))
                {
                    height += 1;
                }
                for row in row..row + height {
                    taken[row * columns + column..row * columns + column + width].fill(true);
                }
                cells.push(GridCell { row, column, rows: height, columns: width, words: Vec::new() });
            }
        }
        cells
    }
}

/// The letters of a form's field, of which each has a box of its own. An empty box is a space.
fn comb(cells: Vec<GridCell>) -> Option<Word> {
    let mut found: Option<Word> = None;
    for cell in cells {
        match (&mut found, cell.words.into_iter().next()) {
            (Some(all), Some(word)) => {
                all.text.push_str(&word.text);
                all.area = all.area.with(&word.area);
            }
            (Some(all), None) => all.text.push(' '),
            (none, first) => *none = first,
        }
    }
    found.map(|word| Word { text: word.text.trim_end().to_owned(), ..word })
}

fn distinct(values: impl Iterator<Item = f32>) -> Vec<f32> {
    let mut values: Vec<f32> = values.collect();
    values.sort_by(f32::total_cmp);
    let mut found: Vec<f32> = Vec::new();
    for value in values {
        if found.last().is_none_or(|last| value - last > LEAST_CELL) {
            found.push(value);
        }
    }
    found
}
