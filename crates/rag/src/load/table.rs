//! `load::table`: turns the cells of a table into Markdown rows, and notes what Markdown cannot say: which rows are
//! headers, and which cells cover several places. A table that only arranges a page becomes blocks one after another.
//!
//! A cell that covers several places stands in each of them, so that every row can be read by itself. A cell over the
//! whole width is a heading inside the table: it stands once.

use crate::types::{MergedCells, Span, Table};
use std::collections::BTreeMap;

/// The most columns that a cell covers, as in HTML. Rows are held to the same.
const MOST_COVERED: u32 = 1000;

/// A table being read. Cells hold Markdown.
#[derive(Debug, Default)]
pub(super) struct TableBuilder {
    rows: Vec<BuiltRow>,
    has_blocks: bool,
    /// The bytes of all cells, in each place that they cover.
    content: usize,
    columns: usize,
}

#[derive(Debug, Default)]
struct BuiltRow {
    cells: Vec<BuiltCell>,
    is_header: bool,
    columns: usize,
}

#[derive(Debug)]
struct BuiltCell {
    text: String,
    place: CellPlace,
}

/// How many places a cell covers, and what it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct CellPlace {
    /// How many rows it covers, itself included.
    pub(super) rows: u32,
    /// How many columns it covers, itself included.
    pub(super) columns: u32,
    pub(super) is_header: bool,
    /// Whether it is the lower part of the cell above.
    pub(super) continues: bool,
    /// Its column, counted from 0, if it does not simply follow the cell before it.
    pub(super) column: Option<u32>,
}

impl Default for CellPlace {
    fn default() -> Self {
        Self { rows: 1, columns: 1, is_header: false, continues: false, column: None }
    }
}

/// A table in Markdown.
#[derive(Debug, Default)]
pub(super) struct BuiltTable {
    /// Its lines, or the blocks of a table that only arranges a page.
    pub(super) text: String,
    /// What is known of the table; none if it only arranges a page. Its span is that of `text`.
    pub(super) table: Option<Table>,
}

impl TableBuilder {
    pub(super) fn row(&mut self) {
        self.rows.push(BuiltRow::default());
    }

    /// Records that the last row is a header.
    pub(super) fn mark_header(&mut self) {
        if let Some(row) = self.rows.last_mut() {
            row.is_header = true;
        }
    }

    /// A cell of the last row.
    pub(super) fn cell(&mut self, text: String, place: CellPlace) {
        if self.rows.is_empty() {
            self.row();
        }
        if let Some(row) = self.rows.last_mut() {
            let held = |covered: u32| covered.clamp(1, MOST_COVERED);
            let place = CellPlace { rows: held(place.rows), columns: held(place.columns), ..place };
            let covered = place.rows as usize * place.columns as usize;
            self.content = self.content.saturating_add(text.len().saturating_mul(covered));
            row.columns =
                place.column.map_or(row.columns, |column| row.columns.max(column as usize)) + place.columns as usize;
            self.columns = self.columns.max(row.columns);
            row.cells.push(BuiltCell { text, place });
        }
    }

    /// Records that a cell holds something that no Markdown row can hold: a
    /// heading, code or a table.
    pub(super) fn mark_blocks(&mut self) {
        self.has_blocks = true;
    }

    /// About how many bytes it will be: short rows are padded to the longest.
    pub(super) fn size(&self) -> usize {
        let padding = if self.has_blocks { 0 } else { self.rows.len().saturating_mul(self.columns).saturating_mul(3) };
        padding.saturating_add(self.content)
    }

    pub(super) fn finish(self) -> BuiltTable {
        let grid = CellGrid::of(&self.rows);
        let is_small = grid.columns < 2 || grid.rows.len() < 2;
        if is_small || self.has_blocks {
            let cells = self.rows.iter().flat_map(|row| &row.cells).map(|cell| cell.text.as_str());
            let cells: Vec<&str> = cells.filter(|text| !text.trim().is_empty()).collect();
            return BuiltTable { text: cells.join("\n\n"), table: None };
        }
        grid.write()
    }
}

/// The cells in their places. A row without text is left out.
struct CellGrid<'a> {
    cells: Vec<&'a BuiltCell>,
    /// For each row, the number of the cell at each column.
    rows: Vec<(Vec<Option<u32>>, bool)>,
    columns: usize,
}

impl<'a> CellGrid<'a> {
    fn of(built: &'a [BuiltRow]) -> Self {
        let mut grid = Self { cells: Vec::new(), rows: Vec::with_capacity(built.len()), columns: 0 };
        // For each column, the cell that still covers rows below, and how many.
        let mut covering: Vec<Option<(u32, u32)>> = Vec::new();
        let mut above: Vec<Option<u32>> = Vec::new();
        for row in built {
            let mut places: Vec<Option<u32>> = Vec::with_capacity(row.columns);
            let covered = |places: &mut Vec<Option<u32>>, covering: &mut [Option<(u32, u32)>]| {
                while let Some(left) = covering.get_mut(places.len()).filter(|left| left.is_some()) {
                    places.push(left.map(|(cell, _)| cell));
                    *left = left.map(|(cell, rows)| (cell, rows - 1)).filter(|(_, rows)| *rows > 0);
                }
            };
            for cell in &row.cells {
                covered(&mut places, &mut covering);
                while places.len() < cell.place.column.map_or(0, |column| column as usize) {
                    places.push(None);
                    covered(&mut places, &mut covering);
                }
                let upper = above.get(places.len()).copied().flatten().filter(|_| cell.place.continues);
                let number = upper.unwrap_or(grid.cells.len() as u32);
                if upper.is_none() {
                    grid.cells.push(cell);
                }
                for _ in 0..cell.place.columns {
                    let column = places.len();
                    if covering.get(column).is_some_and(Option::is_some) {
                        // Two cells claim this place: the upper one has it.
                        break;
                    }
                    places.push(Some(number));
                    if cell.place.rows > 1 {
                        covering.resize(covering.len().max(column + 1), None);
                        covering[column] = Some((number, cell.place.rows - 1));
                    }
                }
            }
            // Cells from above may reach behind the last cell of the row, with a gap before them.
            if let Some(last) = covering.iter().rposition(Option::is_some).filter(|last| *last >= places.len()) {
                while places.len() <= last {
                    covered(&mut places, &mut covering);
                    if places.len() <= last {
                        places.push(None);
                    }
                }
            }
            let has_text =
                |place: &Option<u32>| place.is_some_and(|cell| !grid.cells[cell as usize].text.trim().is_empty());
            if places.iter().any(has_text) {
                let is_header = row.is_header
                    || places
                        .iter()
                        .filter(|place| has_text(place))
                        .flatten()
                        .all(|&cell| grid.cells[cell as usize].place.is_header);
                grid.columns = grid.columns.max(places.len());
                grid.rows.push((places.clone(), is_header));
            }
            above = places;
        }
        grid
    }

    fn write(&self) -> BuiltTable {
        let columns = self.columns;
        let mut text = String::new();
        let mut areas: BTreeMap<u32, MergedCells> = BTreeMap::new();
        for (number, (row, _)) in (0_u32..).zip(&self.rows) {
            let is_wide = row.len() == columns && row[0].is_some() && row.iter().all(|place| *place == row[0]);
            text.push('|');
            for (column, place) in (0_u32..).zip(row) {
                let Some(cell) = *place else {
                    text.push_str("  |");
                    continue;
                };
                let area = areas.entry(cell).or_insert(MergedCells { row: number, column, rows: 1, columns: 1 });
                area.rows = number - area.row + 1;
                area.columns = area.columns.max(column + 1 - area.column.min(column));
                text.push(' ');
                if !is_wide || column == 0 {
                    push_words(&mut text, &self.cells[cell as usize].text);
                }
                text.push_str(" |");
            }
            text.push_str(&"  |".repeat(columns - row.len()));
            text.push('\n');
            if number == 0 {
                text.push('|');
                text.push_str(&" --- |".repeat(columns));
                text.push('\n');
            }
        }
        let headers = self.rows.iter().take_while(|(_, is_header)| *is_header).count();
        let rows = self.rows.len();
        let table = Table {
            span: Span { start: 0, end: text.trim_end().len() },
            page: None,
            rows: rows as u32,
            columns: columns as u32,
            // Markdown has a header in any case, and a table of headers alone has none.
            header_rows: if headers < rows { headers.max(1) as u32 } else { 1 },
            merged: areas.into_values().filter(|area| area.rows > 1 || area.columns > 1).collect(),
            faults: Vec::new(),
        };
        BuiltTable { text, table: Some(table) }
    }
}

/// Appends the words of a cell, in one line.
fn push_words(text: &mut String, cell: &str) {
    for (number, word) in cell.split_whitespace().enumerate() {
        if number > 0 {
            text.push(' ');
        }
        match word.contains('|') {
            true => text.push_str(&word.replace('|', "\\|")),
            false => text.push_str(word),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[&[&str]]) -> TableBuilder {
        let mut table = TableBuilder::default();
        for row in rows {
            table.row();
            row.iter().for_each(|cell| table.cell((*cell).to_owned(), CellPlace::default()));
        }
        table
    }

    fn covering(rows: u32, columns: u32) -> CellPlace {
        CellPlace { rows, columns, ..CellPlace::default() }
    }

    #[test]
    fn rows_are_padded_and_bars_escaped() {
        let built = table(&[&["a", "b"], &["c|d"], &["", ""]]).finish();
        assert_eq!(built.text, "| a | b |\n| --- | --- |\n| c\\|d |  |\n");
        let found = built.table.unwrap();
        assert_eq!((found.rows, found.columns, found.header_rows), (2, 2, 1));
        assert_eq!(found.cells(&built.text), [["a", "b"], ["c|d", ""]]);
    }

    #[test]
    fn one_column_or_row_is_no_table() {
        for (rows, expected) in [(&[&["a"][..], &["b"]][..], "a\n\nb"), (&[&["Note", "b"]], "Note\n\nb")] {
            let built = table(rows).finish();
            assert!(built.table.is_none());
            assert_eq!(built.text, expected);
        }
    }

    #[test]
    fn cells_with_blocks_follow_each_other() {
        let mut layout = table(&[&["left", "# right"]]);
        layout.mark_blocks();
        assert_eq!(layout.finish().text, "left\n\n# right");
    }

    #[test]
    fn a_cell_stands_in_each_place_that_it_covers() {
        let mut table = TableBuilder::default();
        table.row();
        table.cell("city".to_owned(), CellPlace { is_header: true, ..covering(2, 1) });
        table.cell("2024".to_owned(), CellPlace { is_header: true, ..covering(1, 2) });
        table.row();
        for quarter in ["Q1", "Q2"] {
            table.cell(quarter.to_owned(), CellPlace { is_header: true, ..CellPlace::default() });
        }
        table.row();
        ["Oslo", "1", "2"].iter().for_each(|cell| table.cell((*cell).to_owned(), CellPlace::default()));
        let built = table.finish();
        let lines = "| city | 2024 | 2024 |\n| --- | --- | --- |\n| city | Q1 | Q2 |\n| Oslo | 1 | 2 |\n";
        assert_eq!(built.text, lines);
        let found = built.table.unwrap();
        assert_eq!((found.rows, found.header_rows), (3, 2));
        let merged = |row, column, rows, columns| MergedCells { row, column, rows, columns };
        assert_eq!(found.merged, [merged(0, 0, 2, 1), merged(0, 1, 1, 2)]);
    }

    #[test]
    fn a_cell_over_the_whole_width_stands_once() {
        let mut table = table(&[&["a", "b"], &["1", "2"]]);
        table.row();
        table.cell("Europe".to_owned(), covering(1, 2));
        table.row();
        ["3", "4"].iter().for_each(|cell| table.cell((*cell).to_owned(), CellPlace::default()));
        assert!(table.finish().text.contains("| Europe |  |\n| 3 | 4 |"));
    }

    #[test]
    fn a_cell_that_goes_on_below_is_one_cell() {
        let mut table = table(&[&["a", "b"], &["wheel", "1"]]);
        table.row();
        table.cell(String::new(), CellPlace { continues: true, ..CellPlace::default() });
        table.cell("2".to_owned(), CellPlace::default());
        let built = table.finish();
        assert!(built.text.ends_with("| wheel | 1 |\n| wheel | 2 |\n"), "{}", built.text);
        assert_eq!(built.table.unwrap().merged, [MergedCells { row: 1, column: 0, rows: 2, columns: 1 }]);
    }

    #[test]
    fn cells_that_claim_more_than_there_is_are_held_to_the_table() {
        let mut table = table(&[&["a", "b"]]);
        table.row();
        table.cell("down".to_owned(), covering(60_000, 1));
        table.cell("x".to_owned(), covering(1, 1));
        table.row();
        table.cell("y".to_owned(), CellPlace::default());
        let built = table.finish();
        assert!(built.text.ends_with("| down | x |\n| down | y |\n"), "{}", built.text);
        let mut wide = TableBuilder::default();
        for _ in 0..3000 {
            wide.row();
            wide.cell("x".repeat(100), covering(1000, 1_000_000));
        }
        assert!(wide.size() > 1 << 30, "its size is known before it is made");
    }
}
