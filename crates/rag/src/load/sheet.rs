//! `load::sheet`: a sheet of cells as blocks of text: tables, and the lines around them.
//!
//! An empty row divides a sheet into blocks. So does an empty column if the cells to its right have row labels of their
//! own. A block of several rows and columns is a table, and lines above it that begin in its first column
//! are its title. Cells that are merged stand in each place that they cover.

use super::table::{CellPlace, TableBuilder};
use super::{LoadError, ParseLimits, Parsed};
use crate::types::{ReadingProblem, ReadingProblemKind};

/// The most cells of a file. Each takes about a hundred bytes of memory while the file is read.
const MOST_CELLS: usize = 10_000_000;

/// The cells of one sheet, row by row.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    rows: Vec<SheetRow>,
    /// The bytes of its texts, and the number of its cells.
    size: usize,
    cells: usize,
}

#[derive(Debug)]
struct SheetRow {
    number: u32,
    cells: Vec<SheetCell>,
}

/// A cell that has text.
#[derive(Debug)]
struct SheetCell {
    column: u32,
    text: String,
    /// How many rows and columns it covers.
    covers: (u32, u32),
}

impl Sheet {
    /// Adds a cell that covers so many rows and columns. Cells come row by row, from left to right. A blank cell is
    /// left out.
    ///
    /// # Errors
    /// If the sheet is larger than the limits allow.
    pub(super) fn push(
        &mut self,
        (row, column): (u32, u32),
        text: String,
        covers: (u32, u32),
        limits: &ParseLimits,
    ) -> Result<(), LoadError> {
        if text.trim().is_empty() {
            return Ok(());
        }
        self.size += text.len() + 3;
        self.cells += 1;
        limits.check_text(self.size)?;
        if self.cells > MOST_CELLS {
            return Err(LoadError::OverLimit(format!("a sheet has more than {MOST_CELLS} cells")));
        }
        let cell = SheetCell { column, text, covers };
        match self.rows.last_mut() {
            Some(last) if last.number == row => last.cells.push(cell),
            _ => self.rows.push(SheetRow { number: row, cells: vec![cell] }),
        }
        Ok(())
    }

    /// Appends the sheet to a document, under its name if it has one.
    ///
    /// # Errors
    /// If the text becomes longer than the limits allow.
    pub(super) fn finish(
        self,
        name: Option<&str>,
        is_hidden: bool,
        parsed: &mut Parsed,
        limits: &ParseLimits,
    ) -> Result<(), LoadError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        if let Some(name) = name {
            parsed.push_heading(1, &if is_hidden { format!("{name} (hidden sheet)") } else { name.to_owned() });
        }
        if is_hidden {
            let detail = format!("the sheet `{}` is hidden; it was read", name.unwrap_or_default());
            parsed.problems.push(ReadingProblem { kind: ReadingProblemKind::HiddenPart, page: None, detail });
        }
        // Areas that may be divided further, the first one last.
        let mut areas = vec![self.rows];
        while let Some(area) = areas.pop() {
            let mut blocks = divided_by_rows(area);
            if blocks.len() == 1 {
                blocks = blocks.into_iter().flat_map(divided_by_columns).collect();
            }
            match blocks.len() {
                1 => blocks.into_iter().try_for_each(|block| push_block(block, parsed, limits))?,
                _ => areas.extend(blocks.into_iter().rev()),
            }
        }
        Ok(())
    }
}

/// Rows that follow each other, with those that merged cells cover.
fn divided_by_rows(rows: Vec<SheetRow>) -> Vec<Vec<SheetRow>> {
    let mut blocks: Vec<Vec<SheetRow>> = Vec::new();
    let mut reach = 0;
    for row in rows {
        let covered = row.cells.iter().map(|cell| cell.covers.0).max().unwrap_or(1);
        let last = row.number.saturating_add(covered.saturating_sub(1));
        match blocks.last_mut().filter(|_| row.number <= reach + 1) {
            Some(block) => {
                reach = reach.max(last);
                block.push(row);
            }
            None => {
                reach = last;
                blocks.push(vec![row]);
            }
        }
    }
    blocks
}

/// The parts of rows between columns without a cell, from left to right. A part without row labels belongs to the part
/// left of it: the column between them only sets them apart.
fn divided_by_columns(rows: Vec<SheetRow>) -> Vec<Vec<SheetRow>> {
    let mut ranges: Vec<(u32, u32)> = rows
        .iter()
        .flat_map(|row| &row.cells)
        .map(|cell| (cell.column, cell.column.saturating_add(cell.covers.1.max(1))))
        .collect();
    ranges.sort_unstable();
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for (start, end) in ranges {
        match parts.last_mut().filter(|last| start <= last.1) {
            Some(last) => last.1 = last.1.max(end),
            None => parts.push((start, end)),
        }
    }
    let mut starts: Vec<u32> = Vec::new();
    for (number, (start, end)) in parts.iter().enumerate() {
        if number == 0 || end - start > 1 && has_labels(&rows, *start) {
            starts.push(*start);
        }
    }
    let mut divided: Vec<Vec<SheetRow>> = starts.iter().map(|_| Vec::new()).collect();
    for row in rows {
        for cell in row.cells {
            let part = starts.partition_point(|start| *start <= cell.column).saturating_sub(1);
            match divided[part].last_mut().filter(|last| last.number == row.number) {
                Some(last) => last.cells.push(cell),
                None => divided[part].push(SheetRow { number: row.number, cells: vec![cell] }),
            }
        }
    }
    divided
}

/// Whether most cells of a column begin with a letter, its first one aside.
fn has_labels(rows: &[SheetRow], column: u32) -> bool {
    let cells = rows.iter().flat_map(|row| &row.cells).filter(|cell| cell.column == column).skip(1);
    let begins = cells.map(|cell| cell.text.trim_start().starts_with(char::is_alphabetic));
    let (labels, all) = begins.fold((0, 0), |(labels, all), is_label| (labels + usize::from(is_label), all + 1));
    labels * 2 > all
}

/// Appends rows that follow each other.
fn push_block(mut rows: Vec<SheetRow>, parsed: &mut Parsed, limits: &ParseLimits) -> Result<(), LoadError> {
    let cells = || rows.iter().flat_map(|row| &row.cells);
    let first = cells().map(|cell| cell.column).min().unwrap_or(0);
    let width = cells().map(|cell| (cell.column - first).saturating_add(cell.covers.1)).max().unwrap_or(0);
    let is_title = |row: &SheetRow| match &row.cells[..] {
        [cell] => cell.column == first || cell.covers.1 >= width,
        _ => false,
    };
    let titles = rows.iter().take_while(|row| is_title(row)).count();
    let body = rows.split_off(titles);
    let lines: Vec<&str> = rows.iter().flat_map(|row| &row.cells).map(|cell| cell.text.trim()).collect();
    parsed.push_block(&lines.join("\n"));
    if let [only] = &body[..] {
        let words: Vec<&str> = only.cells.iter().map(|cell| cell.text.trim()).collect();
        parsed.push_block(&words.join(" "));
    } else if !body.is_empty() {
        push_rows(body, parsed, limits)?;
    }
    limits.check_text(parsed.text.len())
}

/// Appends the rows of a table.
fn push_rows(rows: Vec<SheetRow>, parsed: &mut Parsed, limits: &ParseLimits) -> Result<(), LoadError> {
    let first = rows.iter().flat_map(|row| &row.cells).map(|cell| cell.column).min().unwrap_or(0);
    let mut next = rows.first().map_or(0, |row| row.number);
    let mut table = TableBuilder::default();
    for row in rows {
        // Rows that only hold parts of merged cells.
        (next..row.number).for_each(|_| table.row());
        next = row.number + 1;
        table.row();
        for SheetCell { column, text, covers: (rows, columns) } in row.cells {
            let column = Some(column - first);
            table.cell(text, CellPlace { rows, columns, column, ..CellPlace::default() });
        }
    }
    limits.check_text(parsed.text.len().saturating_add(table.size()))?;
    parsed.push_table(table.finish());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(cells: &[(u32, u32, &str, (u32, u32))]) -> Parsed {
        let limits = ParseLimits::default();
        let (mut sheet, mut parsed) = (Sheet::default(), Parsed::default());
        for (row, column, text, covers) in cells {
            sheet.push((*row, *column), (*text).to_owned(), *covers, &limits).unwrap();
        }
        sheet.finish(Some("Stock"), false, &mut parsed, &limits).unwrap();
        parsed
    }

    const ONE: (u32, u32) = (1, 1);

    #[test]
    fn empty_rows_divide_a_sheet_and_lines_above_a_table_are_its_title() {
        let parsed = read(&[
            (0, 1, "Stock of parts", (1, 2)),
            (1, 1, "part", ONE),
            (1, 2, "m", ONE),
            (2, 1, "wheel", ONE),
            (2, 2, "3", ONE),
            (5, 0, "A note.", ONE),
        ]);
        let expected = "# Stock\n\nStock of parts\n\n| part | m |\n| --- | --- |\n| wheel | 3 |\n\nA note.";
        assert_eq!(parsed.text, expected);
        assert_eq!(parsed.tables.len(), 1);
        let table = &parsed.tables[0];
        assert_eq!(table.cells(&parsed.text), [["part", "m"], ["wheel", "3"]]);
    }

    #[test]
    fn tables_beside_each_other_are_several_and_a_gap_before_numbers_is_none() {
        let left = [
            (0, 0, "part", ONE),
            (0, 1, "m", ONE),
            (1, 0, "wheel", ONE),
            (1, 1, "3", ONE),
            (2, 0, "stone", ONE),
            (2, 1, "1", ONE),
        ];
        let with = |right: [(u32, u32, &'static str, (u32, u32)); 4]| {
            let mut cells = [&left[..], &right].concat();
            cells.sort_by_key(|(row, column, ..)| (*row, *column));
            read(&cells).text
        };
        let own = with([(0, 3, "site", ONE), (0, 4, "kg", ONE), (1, 3, "Oslo", ONE), (1, 4, "7", ONE)]);
        assert!(own.ends_with("| stone | 1 |\n\n| site | kg |\n| --- | --- |\n| Oslo | 7 |"), "{own}");
        let numbers = with([(0, 3, "2023", ONE), (0, 4, "2024", ONE), (1, 3, "5", ONE), (1, 4, "7", ONE)]);
        assert!(numbers.contains("| part | m |  | 2023 | 2024 |"), "{numbers}");
    }

    #[test]
    fn gaps_between_cells_are_empty_cells() {
        let parsed = read(&[(0, 0, "a", ONE), (0, 2, "c", ONE), (1, 1, "2", ONE), (1, 2, "3", ONE)]);
        assert!(parsed.text.ends_with("| a |  | c |\n| --- | --- | --- |\n|  | 2 | 3 |"), "{}", parsed.text);
    }

    #[test]
    fn merged_cells_stand_in_each_place_and_hold_a_block_together() {
        let parsed = read(&[
            (0, 0, "city", (3, 1)),
            (0, 1, "2024", (1, 2)),
            (1, 1, "Q1", ONE),
            (1, 2, "Q2", ONE),
            (3, 0, "Oslo", ONE),
            (3, 1, "1", ONE),
            (3, 2, "2", ONE),
        ]);
        let expected =
            "| city | 2024 | 2024 |\n| --- | --- | --- |\n| city | Q1 | Q2 |\n| city |  |  |\n| Oslo | 1 | 2 |";
        assert!(parsed.text.ends_with(expected), "{}", parsed.text);
    }

    #[test]
    fn one_column_is_lines_and_one_row_is_a_line() {
        assert!(read(&[(0, 3, "a", ONE), (1, 3, "b", ONE)]).text.ends_with("# Stock\n\na\nb"));
        assert!(read(&[(0, 3, "a", ONE), (0, 5, "b", ONE)]).text.ends_with("# Stock\n\na b"));
    }

    #[test]
    fn a_sheet_of_too_many_bytes_is_refused() {
        let limits = ParseLimits { text_bytes: 100, ..ParseLimits::default() };
        let mut sheet = Sheet::default();
        let refused = (0..100).find_map(|row| sheet.push((row, 0), "words".to_owned(), ONE, &limits).err());
        assert!(matches!(refused, Some(LoadError::OverLimit(_))));
    }
}
