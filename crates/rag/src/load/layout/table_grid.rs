//! A table on a page: cells in rows and columns, with the words of each.

use super::area::Area;
use super::rows::{self, PageRow};
use super::words::{self, Word};

/// Fewer lines than this may be wrapped texts.
const LEAST_LINES: usize = 3;
/// A line that fills so much of its column may be one of a wrapped text.
const WRAPPED: f32 = 0.7;

/// A line of a table: the column and the words of each cell.
type TableLine = Vec<(usize, Vec<Word>)>;

/// A cell, with the places that it covers.
#[derive(Debug, Clone)]
pub(super) struct GridCell {
    pub(super) row: usize,
    pub(super) column: usize,
    /// How many rows and columns it covers.
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) words: Vec<Word>,
}

/// A table on a page.
#[derive(Debug, Clone)]
pub(super) struct TableGrid {
    pub(super) area: Area,
    pub(super) cells: Vec<GridCell>,
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) header_rows: usize,
    /// The sides of its columns, from left to right.
    pub(super) edges: Vec<f32>,
}

impl TableGrid {
    /// How many of its first rows are headers, if no line tells: bold rows, and rows below a cell that covers several of
    /// the columns.
    pub(super) fn likely_header_rows(&self) -> usize {
        let most = self.rows.saturating_sub(1).clamp(1, 4);
        let is_bold = |row: usize| {
            let mut words = self.cells.iter().filter(|cell| cell.row == row).flat_map(|cell| &cell.words).peekable();
            words.peek().is_some() && words.all(|word| word.is_bold)
        };
        let bold = (0..self.rows).take_while(|&row| is_bold(row)).count();
        if bold > 0 && bold <= most {
            return bold;
        }
        let spans = self.cells.iter().any(|cell| cell.row == 0 && cell.columns > 1 && cell.columns < self.columns);
        (1 + usize::from(spans)).min(most)
    }

    /// Divides a row into its lines of text, where no rule was drawn between them: all its cells have the same number of
    /// lines at the same heights, and the lines do not look wrapped. A cell that also covers rows above is divided too, such
    /// as a cell beside the heading of the other columns.
    pub(super) fn divide_rows(&mut self) {
        let mut row = 0;
        while row < self.rows {
            match self.lines_of(row) {
                Some(lines) => {
                    let count = lines.len();
                    self.divide(row, lines);
                    row += count;
                }
                None => row += 1,
            }
        }
    }

    /// The words of each line of a row, by cell, if the lines are rows of their own.
    fn lines_of(&self, row: usize) -> Option<Vec<TableLine>> {
        let cells: Vec<&GridCell> =
            self.cells.iter().filter(|cell| cell.row <= row && row < cell.row + cell.rows).collect();
        let ends_here = |cell: &GridCell| cell.row + cell.rows == row + 1;
        let begins_here = cells.iter().any(|cell| cell.row == row);
        if cells.len() < 2 || !begins_here || cells.iter().any(|cell| cell.columns > 1 || !ends_here(cell)) {
            return None;
        }
        let rows: Vec<Vec<PageRow>> = cells.iter().map(|cell| rows::rows(words::phrases(cell.words.clone()))).collect();
        let count = rows[0].len();
        if count < LEAST_LINES || rows.iter().any(|lines| lines.len() != count) {
            return None;
        }
        let is_level = |line: usize| {
            rows.iter().all(|lines| (lines[line].baseline - rows[0][line].baseline).abs() < 0.4 * rows[0][line].size)
        };
        // Lines of a wrapped text fill their column, the last one aside.
        let is_wrapped = |(lines, cell): (&Vec<PageRow>, &&GridCell)| {
            let width = self.edges[cell.column + 1] - self.edges[cell.column];
            let full = lines[..count - 1].iter().filter(|line| line.area.width() > WRAPPED * width).count();
            full * 2 > count - 1
        };
        let wrapped = rows.iter().zip(&cells).filter(|(lines, cell)| is_wrapped((lines, cell))).count();
        if !(0..count).all(is_level) || wrapped * 2 > cells.len() {
            return None;
        }
        let words = |row: &PageRow| row.phrases.iter().flat_map(|phrase| phrase.words.clone()).collect();
        let line =
            |line: usize| rows.iter().zip(&cells).map(|(lines, cell)| (cell.column, words(&lines[line]))).collect();
        Some((0..count).map(line).collect())
    }

    /// Puts these lines in the place of a row.
    fn divide(&mut self, row: usize, lines: Vec<TableLine>) {
        let more = lines.len() - 1;
        self.cells.retain(|cell| cell.row != row);
        for cell in &mut self.cells {
            if cell.row > row {
                cell.row += more;
            } else if cell.row + cell.rows > row {
                cell.rows = row - cell.row;
                cell.words.clear();
            }
        }
        self.rows += more;
        for (number, line) in lines.into_iter().enumerate() {
            let cell = |(column, words)| GridCell { row: row + number, column, rows: 1, columns: 1, words };
            self.cells.extend(line.into_iter().map(cell));
        }
    }

    /// Joins cells that cover the same place.
    pub(super) fn join_overlapping_cells(&mut self) {
        self.cells.sort_by_key(|cell| (cell.row, cell.column));
        let (rows, columns) = (self.rows, self.columns);
        // The cell that covers each place.
        let mut covering: Vec<Option<usize>> = vec![None; rows * columns];
        let mut joined: Vec<GridCell> = Vec::with_capacity(self.cells.len());
        for cell in std::mem::take(&mut self.cells) {
            let places = || {
                let covered = cell.column..(cell.column + cell.columns).min(columns);
                (cell.row..(cell.row + cell.rows).min(rows))
                    .flat_map(move |row| covered.clone().map(move |column| row * columns + column))
            };
            let other = places().find_map(|place| covering[place]);
            let number = other.unwrap_or(joined.len());
            places().for_each(|place| _ = covering[place].get_or_insert(number));
            match other {
                // It keeps its own places: they are free of others.
                Some(other) => joined[other].words.extend(cell.words),
                None => joined.push(cell),
            }
        }
        self.cells = joined;
    }

    /// The table without rows that have no text.
    pub(super) fn without_empty_rows(mut self) -> Self {
        let mut has_text = vec![false; self.rows];
        for cell in self.cells.iter().filter(|cell| !cell.words.is_empty()) {
            has_text[cell.row..cell.row + cell.rows].fill(true);
        }
        // The number of each row among those that stay.
        let mut numbers = Vec::with_capacity(self.rows + 1);
        let mut count = 0;
        for has_text in &has_text {
            numbers.push(count);
            count += usize::from(*has_text);
        }
        numbers.push(count);
        self.cells.retain(|cell| has_text[cell.row..cell.row + cell.rows].contains(&true));
        for cell in &mut self.cells {
            let end = numbers[cell.row + cell.rows];
            cell.row = numbers[cell.row];
            cell.rows = end - cell.row;
        }
        self.header_rows = numbers[self.header_rows.min(self.rows)];
        self.rows = count;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::words::tests::word;
    use super::*;

    #[test]
    fn lines_of_the_same_heights_are_rows_and_wrapped_texts_are_none() {
        let grid = |second: &[&str]| {
            let lines = |texts: &[&str], left: f32| -> Vec<Word> {
                texts.iter().zip(0..).map(|(text, line)| word(text, left, 12.0 * line as f32)).collect()
            };
            let cell = |column, words| GridCell { row: 0, column, rows: 1, columns: 1, words };
            let cells = vec![cell(0, lines(&["1", "2", "4"], 0.0)), cell(1, lines(second, 100.0))];
            let edges = vec![0.0, 100.0, 160.0];
            let mut grid = TableGrid { area: Area::NONE, cells, rows: 1, columns: 2, header_rows: 1, edges };
            grid.divide_rows();
            grid.rows
        };
        assert_eq!(grid(&["left", "top", "right"]), 3);
        assert_eq!(grid(&["left", "top"]), 1, "another number of lines");
        assert_eq!(grid(&["a-text-that", "goes-on-and", "ends"]), 3, "only one of two columns is wrapped");
    }

    #[test]
    fn rows_without_text_are_left_out_and_cells_over_them_shrink() {
        let cell = |row, column, rows, text: &str| {
            let words = if text.is_empty() { Vec::new() } else { vec![word(text, 0.0, 10.0)] };
            GridCell { row, column, rows, columns: 1, words }
        };
        let cells =
            vec![cell(0, 0, 1, ""), cell(0, 1, 1, ""), cell(1, 0, 1, "a"), cell(1, 1, 1, "b"), cell(2, 0, 2, "c")];
        let grid = TableGrid { area: Area::NONE, cells, rows: 4, columns: 2, header_rows: 2, edges: Vec::new() };
        let grid = grid.without_empty_rows();
        assert_eq!((grid.rows, grid.header_rows), (3, 1));
        let places: Vec<_> = grid.cells.iter().map(|cell| (cell.row, cell.column, cell.rows)).collect();
        assert_eq!(places, [(0, 0, 1), (0, 1, 1), (1, 0, 2)]);
    }
}
