//! `load::xlsx`: an Excel workbook: each sheet under its name, as tables and the lines around them. Formulas give the
//! values that Excel stored, merged cells stand in each place that they cover, and hidden sheets are read and named.

use super::archive::Archive;
use super::format::{Entries, FileFormat, NO_TEXT, Signature};
use super::office_package::with_core_properties;
use super::sheet::Sheet;
use super::workbook::{check_parts, covered_by, text_of};
use super::{LoadError, ParseLimits, Parsed};
use calamine::{Data, Reader, SheetType, SheetVisible, Xlsx, XlsxError};
use std::io::Cursor;

pub(super) const FORMAT: FileFormat = FileFormat {
    extensions: &["xlsx", "xlsm", "xltx", "xltm"],
    signature: Signature::Archive(is_xlsx),
    parse,
    inner_files: None,
    keeps_headings: true,
    without_text: NO_TEXT,
    library: None,
    #[cfg(test)]
    sample: tests::sample,
};

fn is_xlsx(entries: &Entries<'_>) -> bool {
    entries.has("xl/workbook.xml")
}

fn parse(bytes: &[u8], limits: &ParseLimits) -> Result<Parsed, LoadError> {
    let mut archive = Archive::open(bytes, limits)?;
    check_parts(&mut archive)?;
    let mut book = Xlsx::new(Cursor::new(bytes)).map_err(reason)?;
    let mut parsed = Parsed::default();
    for about in book.sheets_metadata().to_vec() {
        if about.typ != SheetType::WorkSheet {
            continue;
        }
        let merged = covered_by(&book.merge_cells_by_sheet_name(&about.name).map_err(reason)?);
        let mut cells = book.worksheet_cells_reader(&about.name).map_err(reason)?;
        let is_percent = |format: &str| format.contains('%');
        let percents: Vec<bool> = cells
            .styles()
            .iter()
            .map(|style| style.number_format.as_ref().is_some_and(|format| is_percent(&format.format_code)))
            .collect();
        let mut sheet = Sheet::default();
        while let Some((cell, style)) = cells.next_cell_with_style_id().map_err(reason)? {
            let place = cell.get_position();
            let text = text_of(Data::from(cell.get_value().clone()), percents.get(style) == Some(&true));
            sheet.push(place, text, merged.get(&place).copied().unwrap_or((1, 1)), limits)?;
        }
        sheet.finish(Some(&about.name), about.visible != SheetVisible::Visible, &mut parsed, limits)?;
    }
    with_core_properties(parsed, &mut archive, limits)
}

fn reason(error: XlsxError) -> LoadError {
    match error {
        XlsxError::Password => LoadError::Encrypted,
        other => LoadError::Broken(format!("the workbook cannot be read: {other}")),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::load::archive::tests::zipped;
    use crate::load::format::sample::Sample;
    use crate::types::ReadingProblemKind;

    const RELATIONS: &str = "<Relationships><Relationship Id='r1' Type='http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet' Target='worksheets/sheet1.xml'/>
        <Relationship Id='r2' Type='http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet' Target='worksheets/sheet2.xml'/>
        <Relationship Id='r3' Type='http://schemas.openxmlformats.org/officeDocument/2006/relationships/styles' Target='styles.xml'/>
        <Relationship Id='r4' Type='http://schemas.openxmlformats.org/officeDocument/2006/relationships/sharedStrings' Target='sharedStrings.xml'/></Relationships>";
    const WORKBOOK: &[(&str, &str)] = &[
        ("[Content_Types].xml", "<Types/>"),
        ("_rels/.rels", "<Relationships><Relationship Id='r' Type='http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument' Target='xl/workbook.xml'/></Relationships>"),
        (
            "docProps/core.xml",
            "<cp:coreProperties><dc:title>Parts</dc:title><dc:creator>A. Writer</dc:creator></cp:coreProperties>",
        ),
        (
            "xl/workbook.xml",
            "<workbook xmlns:r='r'><sheets><sheet name='Stock' sheetId='1' r:id='r1'/>
             <sheet name='Old' sheetId='2' state='hidden' r:id='r2'/></sheets></workbook>",
        ),
        ("xl/_rels/workbook.xml.rels", RELATIONS),
        ("xl/sharedStrings.xml", "<sst uniqueCount='2'><si><t>part</t></si><si><r><t xml:space='preserve'>Rad </t></r><r><t>größe</t></r></si></sst>"),
        (
            "xl/styles.xml",
            "<styleSheet><cellXfs><xf numFmtId='0'/><xf numFmtId='14'/><xf numFmtId='9'/></cellXfs></styleSheet>",
        ),
        (
            "xl/worksheets/sheet1.xml",
            "<worksheet><sheetData>
             <row r='1'><c r='A1' t='s'><v>0</v></c><c r='B1' t='inlineStr'><is><t>sizes</t></is></c></row>
             <row r='2'><c r='A2' t='s'><v>1</v></c><c r='B2'><f>1+2</f><v>3</v></c><c r='C2' s='1'><v>45413</v></c></row>
             <row r='3'><c r='A3' t='str'><v>share</v></c><c r='B3' s='2'><v>0.07</v></c><c r='C3' t='e'><v>#DIV/0!</v></c></row>
             </sheetData><mergeCells><mergeCell ref='B1:C1'/></mergeCells></worksheet>",
        ),
        (
            "xl/worksheets/sheet2.xml",
            "<worksheet><sheetData><row r='1'><c r='A1' t='b'><v>1</v></c></row></sheetData></worksheet>",
        ),
    ];

    /// What the format's output is pinned for.
    pub(super) fn sample() -> Sample {
        Sample::archive("a.xlsx", WORKBOOK)
    }

    /// The workbook of the tests, with these parts in place of its own.
    pub(in crate::load) fn workbook(other: &[(&str, &str)]) -> Vec<u8> {
        let own = WORKBOOK.iter().filter(|(name, _)| !other.iter().any(|(replaced, _)| replaced == name));
        zipped(&own.chain(other).copied().collect::<Vec<_>>())
    }

    #[test]
    fn each_sheet_is_a_table_under_its_name() {
        let parsed = parse(&workbook(&[]), &ParseLimits::default()).unwrap();
        let expected = "# Stock\n\n| part | sizes | sizes |\n| --- | --- | --- |\n| Rad größe | 3 | 2024-05-01 |\n\
                        | share | 7% | #DIV/0! |\n\n# Old (hidden sheet)\n\nTRUE";
        assert_eq!(parsed.text, expected);
        assert_eq!((parsed.title.as_deref(), parsed.author.as_deref()), (Some("Parts"), Some("A. Writer")));
        assert_eq!(parsed.tables[0].merged.len(), 1);
        let told: Vec<_> = parsed.problems.iter().map(|problem| problem.kind).collect();
        assert_eq!(told, [ReadingProblemKind::HiddenPart]);
    }

    #[test]
    fn cells_far_apart_take_no_memory_for_what_lies_between() {
        let sheet = "<worksheet><sheetData><row r='1'><c r='A1'><v>1</v></c></row>
            <row r='1048576'><c r='XFD1048576'><v>2</v></c></row></sheetData></worksheet>";
        let parsed = parse(&workbook(&[("xl/worksheets/sheet1.xml", sheet)]), &ParseLimits::default()).unwrap();
        assert!(parsed.text.starts_with("# Stock\n\n1\n\n2"), "{}", parsed.text);
    }

    #[test]
    fn a_row_whose_cells_lie_far_apart_is_refused_before_it_is_made() {
        let row = |number: u32| {
            format!("<row r='{number}'><c r='A{number}'><v>1</v></c><c r='XFD{number}'><v>2</v></c></row>")
        };
        let rows: String = (1..=40_000).map(row).collect();
        let sheet = format!("<worksheet><sheetData>{rows}</sheetData></worksheet>");
        let refused = parse(&workbook(&[("xl/worksheets/sheet1.xml", &sheet)]), &ParseLimits::default());
        assert!(matches!(refused, Err(LoadError::OverLimit(_))), "{:?}", refused.map(|parsed| parsed.text.len()));
    }
}
