//! `load::ods`: an OpenDocument spreadsheet: each sheet under its name, as tables and the lines around them. Numbers and
//! dates are those that are stored; amounts of money and shares stand as they are shown.

use super::archive::Archive;
use super::format::{Entries, FileFormat, NO_TEXT, Signature};
use super::open_document::{MOST_REPEATED, RunText, content, count, hidden_styles, is_type, with_properties};
use super::sheet::Sheet;
use super::workbook::number_text;
use super::xml::{self, Node, Xml};
use super::{LoadError, ParseLimits, Parsed};
use quick_xml::events::BytesStart;

pub(super) const FORMAT: FileFormat = FileFormat {
    extensions: &["ods", "ots"],
    signature: Signature::Archive(is_ods),
    parse,
    inner_files: None,
    keeps_headings: true,
    without_text: NO_TEXT,
    library: None,
    #[cfg(test)]
    sample: tests::sample,
};

fn is_ods(entries: &Entries<'_>) -> bool {
    is_type(entries, "spreadsheet")
}

fn parse(bytes: &[u8], limits: &ParseLimits) -> Result<Parsed, LoadError> {
    let mut archive = Archive::open(bytes, limits)?;
    let content = content(&mut archive)?;
    with_properties(read(&content, limits)?, &mut archive, limits)
}

/// The sheet being read, and the place of the next cell.
#[derive(Default)]
struct OpenSheet {
    name: String,
    is_hidden: bool,
    sheet: Sheet,
    row: u32,
    column: u32,
    row_repeated: u32,
    /// The cells of the open row: column, text, and what each covers.
    cells: Vec<(u32, String, (u32, u32))>,
}

/// A cell being read.
struct OpenCell {
    /// The stored value, which is written in place of what is shown.
    value: Option<String>,
    shown: RunText,
    paragraphs: usize,
    covers: (u32, u32),
    repeated: u32,
}

impl OpenCell {
    fn of(start: &BytesStart<'_>) -> Self {
        let get = |name| xml::attribute(start, name);
        let value = match get("value-type").as_deref() {
            Some("float") => get("value").map(|value| value.parse().map_or_else(|_| value.to_string(), number_text)),
            Some("date") => get("date-value").map(|date| {
                let date = date.strip_suffix("T00:00:00").unwrap_or(&date);
                date.replacen('T', " ", 1)
            }),
            _ => None,
        };
        let covers = (count(start, "number-rows-spanned"), count(start, "number-columns-spanned"));
        let repeated = count(start, "number-columns-repeated");
        Self { value, shown: RunText::default(), paragraphs: 0, covers, repeated }
    }
}

fn read(content: &str, limits: &ParseLimits) -> Result<Parsed, LoadError> {
    let hidden = hidden_styles(content, limits)?;
    let mut parsed = Parsed::default();
    let mut xml = Xml::new(content, limits);
    let mut open = OpenSheet::default();
    let mut cell: Option<OpenCell> = None;
    // For each open element, whether it is a table, a row or a cell; and how many are inside one that is left out.
    let mut elements: Vec<SheetElement> = Vec::new();
    let mut skipped = 0_usize;
    while let Some(node) = xml.next()? {
        match node {
            Node::Open(start) => {
                let name = xml::local(&start);
                // Remarks of readers, and drawings over the cells.
                if skipped > 0 || matches!(name, "annotation" | "shapes" | "tracked-changes") {
                    skipped += 1;
                    continue;
                }
                let element = match name {
                    "table" => {
                        let named = |name| xml::attribute(&start, name).unwrap_or_default().into_owned();
                        let is_hidden = hidden.contains(&named("style-name"));
                        open = OpenSheet { name: named("name"), is_hidden, ..OpenSheet::default() };
                        SheetElement::Table
                    }
                    "table-row" => {
                        open.row_repeated = count(&start, "number-rows-repeated");
                        open.column = 0;
                        SheetElement::Row
                    }
                    "table-cell" => {
                        cell = Some(OpenCell::of(&start));
                        SheetElement::Cell
                    }
                    "covered-table-cell" => {
                        open.column = open.column.saturating_add(count(&start, "number-columns-repeated"));
                        SheetElement::Covered
                    }
                    _ => {
                        if let Some(cell) = &mut cell
                            && !cell.shown.space(&start)
                            && name == "p"
                        {
                            cell.paragraphs += 1;
                            if cell.paragraphs > 1 {
                                cell.shown.push_str("\n");
                            }
                        }
                        SheetElement::Other
                    }
                };
                elements.push(element);
            }
            Node::Close if skipped > 0 => skipped -= 1,
            Node::Close => match elements.pop() {
                Some(SheetElement::Table) => {
                    let OpenSheet { name, is_hidden, sheet, .. } = std::mem::take(&mut open);
                    sheet.finish(Some(&name), is_hidden, &mut parsed, limits)?;
                }
                Some(SheetElement::Row) => open.end_row(limits)?,
                Some(SheetElement::Cell) => cell.take().into_iter().for_each(|cell| open.push_cell(cell)),
                Some(SheetElement::Covered | SheetElement::Other) | None => {}
            },
            Node::Text(text) if skipped == 0 && !matches!(elements.last(), Some(SheetElement::Cell)) => {
                cell.iter_mut().for_each(|cell| cell.shown.words(&text));
            }
            Node::Text(_) => {}
            Node::Entity(name) => return Err(LoadError::Broken(format!("the entity &{name}; is not expanded"))),
        }
    }
    Ok(parsed)
}

enum SheetElement {
    Table,
    Row,
    Cell,
    Covered,
    Other,
}

impl OpenSheet {
    fn push_cell(&mut self, cell: OpenCell) {
        let OpenCell { value, mut shown, covers, repeated, .. } = cell;
        let text = value.unwrap_or_else(|| shown.take());
        if !text.trim().is_empty() {
            for i in 0..repeated.min(MOST_REPEATED) {
                self.cells.push((self.column.saturating_add(i), text.clone(), covers));
            }
        }
        self.column = self.column.saturating_add(repeated);
    }

    fn end_row(&mut self, limits: &ParseLimits) -> Result<(), LoadError> {
        let cells = std::mem::take(&mut self.cells);
        if !cells.is_empty() {
            for i in 0..self.row_repeated.min(MOST_REPEATED) {
                for (column, text, covers) in &cells {
                    self.sheet.push((self.row.saturating_add(i), *column), text.clone(), *covers, limits)?;
                }
            }
        }
        self.row = self.row.saturating_add(self.row_repeated);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::format::sample::Sample;

    const CONTENT: &str = "<office:document-content><office:automatic-styles><style:style style:name='h' style:family='table'>
        <style:table-properties table:display='false'/></style:style></office:automatic-styles>
        <office:body><office:spreadsheet>
        <table:table table:name='Stock'>
          <table:table-row><table:table-cell><text:p>part</text:p></table:table-cell><table:table-cell table:number-columns-spanned='2'><text:p>sizes</text:p></table:table-cell><table:covered-table-cell/><table:table-cell table:number-columns-repeated='16381'/></table:table-row>
          <table:table-row><table:table-cell><text:p>Rad</text:p><office:annotation><text:p>no</text:p></office:annotation></table:table-cell><table:table-cell office:value-type='float' office:value='3.14159'><text:p>3,1</text:p></table:table-cell><table:table-cell office:value-type='date' office:date-value='2024-05-01'><text:p>1.5.24</text:p></table:table-cell></table:table-row>
          <table:table-row table:number-rows-repeated='2'><table:table-cell office:value-type='percentage' office:value='0.07'><text:p>7 %</text:p></table:table-cell><table:table-cell table:number-columns-repeated='2'><text:p>größer</text:p></table:table-cell></table:table-row>
          <table:table-row table:number-rows-repeated='1048570'><table:table-cell table:number-columns-repeated='16384'/></table:table-row>
        </table:table>
        <table:table table:name='Old' table:style-name='h'><table:table-row><table:table-cell><text:p>x</text:p></table:table-cell></table:table-row></table:table>
        </office:spreadsheet></office:body></office:document-content>";

    /// What the format's output is pinned for.
    pub(super) fn sample() -> Sample {
        let entries = [("mimetype", "application/vnd.oasis.opendocument.spreadsheet"), ("content.xml", CONTENT)];
        Sample::archive("a.ods", &entries)
    }

    #[test]
    fn each_sheet_is_a_table_under_its_name() {
        let parsed = parse(&sample().bytes, &ParseLimits::default()).unwrap();
        let expected = "# Stock\n\n| part | sizes | sizes |\n| --- | --- | --- |\n| Rad | 3.14159 | 2024-05-01 |\n\
                        | 7 % | größer | größer |\n| 7 % | größer | größer |\n\n# Old (hidden sheet)\n\nx";
        assert_eq!(parsed.text, expected);
        assert_eq!(parsed.problems.len(), 1);
    }

    #[test]
    fn cells_that_claim_to_be_repeated_without_end_are_held() {
        let content =
            "<d><table name='t'><table-row number-rows-repeated='1048576'><table-cell number-columns-repeated='16384'>
            <p>a cell with words</p></table-cell></table-row></table></d>";
        let limits = ParseLimits { text_bytes: 1 << 20, ..ParseLimits::default() };
        assert!(matches!(read(content, &limits), Err(LoadError::OverLimit(_))));
    }
}
