//! `load::table`: turns the cells of a table into Markdown rows; a table that
//! only arranges a page becomes blocks one after another.

use std::fmt::Write;

/// A table being read. Cells hold Markdown.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
    has_blocks: bool,
    /// The bytes of all cells.
    content: usize,
    columns: usize,
}

impl Table {
    pub(super) fn row(&mut self) {
        self.rows.push(Vec::new());
    }

    /// A cell of the last row.
    pub(super) fn cell(&mut self, content: String) {
        if self.rows.is_empty() {
            self.row();
        }
        if let Some(row) = self.rows.last_mut() {
            self.content += content.len();
            row.push(content);
            self.columns = self.columns.max(row.len());
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

    pub(super) fn finish(self) -> String {
        let is_empty = |cell: &String| cell.trim().is_empty();
        let rows: Vec<Vec<String>> = self.rows.into_iter().filter(|row| !row.iter().all(is_empty)).collect();
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        if columns < 2 || rows.len() < 2 || self.has_blocks {
            let cells: Vec<String> = rows.into_iter().flatten().filter(|cell| !is_empty(cell)).collect();
            return cells.join("\n\n");
        }
        let mut text = String::new();
        for (index, row) in rows.iter().enumerate() {
            text.push('|');
            for cell in row {
                let words = cell.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
                // Writing to a string cannot fail.
                let _ = write!(text, " {words} |");
            }
            text.push_str(&"  |".repeat(columns - row.len()));
            text.push('\n');
            if index == 0 {
                text.push('|');
                text.push_str(&" --- |".repeat(columns));
                text.push('\n');
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[&[&str]]) -> Table {
        let mut table = Table::default();
        for row in rows {
            table.row();
            row.iter().for_each(|cell| table.cell((*cell).to_owned()));
        }
        table
    }

    #[test]
    fn rows_are_padded_and_bars_escaped() {
        let text = table(&[&["a", "b"], &["c|d"], &["", ""]]).finish();
        assert_eq!(text, "| a | b |\n| --- | --- |\n| c\\|d |  |\n");
    }

    #[test]
    fn one_column_or_row_is_no_table() {
        assert_eq!(table(&[&["a"], &["b"]]).finish(), "a\n\nb");
        assert_eq!(table(&[&["Note", "b"]]).finish(), "Note\n\nb");
    }

    #[test]
    fn cells_with_blocks_follow_each_other() {
        let mut layout = table(&[&["left", "# right"]]);
        layout.mark_blocks();
        assert_eq!(layout.finish(), "left\n\n# right");
    }
}
