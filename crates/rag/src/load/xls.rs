//! `load::xls`: an Excel workbook in the form of Excel 97 to 2003: each sheet under its name, as in `xlsx`. A share
//! stands as a fraction, because the library that reads this form tells no formats.

use super::format::{FileFormat, NO_TEXT, Signature};
use super::sheet::Sheet;
use super::sniff::COMPOUND_FILE;
use super::workbook::{covered_by, text_of};
use super::{LoadError, ParseLimits, Parsed};
use calamine::{Reader, SheetType, SheetVisible, Xls, XlsError};
use cfb::CompoundFile;
use std::io::{Cursor, Read};

pub(super) const FORMAT: FileFormat = FileFormat {
    extensions: &["xls", "xlt"],
    signature: Signature::Bytes(is_xls),
    parse,
    inner_files: None,
    keeps_headings: true,
    without_text: NO_TEXT,
    library: None,
    #[cfg(test)]
    sample: tests::sample,
};

/// The names of the stream with the sheets.
const STREAMS: [&str; 2] = ["/Workbook", "/Book"];
/// The most places between the outermost cells of all sheets: the library holds each in memory, in about 50 bytes.
const MOST_PLACES: u64 = 20_000_000;

fn is_xls(bytes: &[u8], _: bool) -> bool {
    bytes.starts_with(COMPOUND_FILE)
        && CompoundFile::open(Cursor::new(bytes)).is_ok_and(|file| STREAMS.iter().any(|stream| file.is_stream(stream)))
}

fn parse(bytes: &[u8], limits: &ParseLimits) -> Result<Parsed, LoadError> {
    check_places(bytes)?;
    let mut book = Xls::new(Cursor::new(bytes)).map_err(reason)?;
    let mut parsed = Parsed::default();
    for about in book.sheets_metadata().to_vec() {
        if about.typ != SheetType::WorkSheet {
            continue;
        }
        let merged = covered_by(&book.merge_cells_by_sheet_name(&about.name).unwrap_or_default());
        let cells = book.worksheet_range(&about.name).map_err(reason)?;
        let (first_row, first_column) = cells.start().unwrap_or_default();
        let mut sheet = Sheet::default();
        for (row, column, value) in cells.used_cells() {
            let place = (first_row + row as u32, first_column + column as u32);
            let covers = merged.get(&place).copied().unwrap_or((1, 1));
            sheet.push(place, text_of(value.clone(), false), covers, limits)?;
        }
        sheet.finish(Some(&about.name), about.visible != SheetVisible::Visible, &mut parsed, limits)?;
    }
    Ok(parsed)
}

fn reason(error: XlsError) -> LoadError {
    match error {
        XlsError::Password => LoadError::Encrypted,
        other => LoadError::Broken(format!("the workbook cannot be read: {other}")),
    }
}

/// Refuses a workbook whose cells lie so far apart that the library would need all memory for the places between them.
fn check_places(bytes: &[u8]) -> Result<(), LoadError> {
    let broken = |error: std::io::Error| LoadError::Broken(format!("the workbook cannot be read: {error}"));
    let mut file = CompoundFile::open(Cursor::new(bytes)).map_err(broken)?;
    let mut stream = Vec::new();
    let name = STREAMS.into_iter().find(|name| file.is_stream(name));
    let name = name.ok_or_else(|| LoadError::Broken("the workbook has no sheets".to_owned()))?;
    file.open_stream(name).map_err(broken)?.take(bytes.len() as u64).read_to_end(&mut stream).map_err(broken)?;
    let (mut places, mut area) = (0_u64, None);
    for (kind, content) in records(&stream) {
        match kind {
            // Where a sheet begins.
            0x0809 => places += size(area.take()),
            // The kinds of cells: formulas, numbers, texts, truth values, and rows of numbers.
            0x0006 | 0x0203 | 0x027E | 0x00FD | 0x0204 | 0x00D6 | 0x0205 | 0x00BD | 0x0201 | 0x0207 => {
                let number =
                    |at: usize| content.get(at..at + 2).map(|two| u32::from(u16::from_le_bytes([two[0], two[1]])));
                let (Some(row), Some(column)) = (number(0), number(2)) else { continue };
                // A row of numbers ends with the number of its last column.
                let last =
                    if kind == 0x00BD { number(content.len().saturating_sub(2)).unwrap_or(column) } else { column };
                area = Some(match area {
                    None => [row, row, column.min(last), column.max(last)],
                    Some([top, bottom, left, right]) => {
                        [row.min(top), row.max(bottom), column.min(last).min(left), column.max(last).max(right)]
                    }
                });
            }
            _ => {}
        }
    }
    places += size(area);
    if places > MOST_PLACES {
        let reason =
            format!("the cells of its sheets lie in areas of {places} places, and at most {MOST_PLACES} are read");
        return Err(LoadError::OverLimit(reason));
    }
    Ok(())
}

/// How many places lie between outermost rows and columns.
fn size(area: Option<[u32; 4]>) -> u64 {
    area.map_or(0, |[top, bottom, left, right]| u64::from(bottom - top + 1) * u64::from(right - left + 1))
}

/// The records of a stream: the kind of each, and its content.
fn records(stream: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = stream;
    std::iter::from_fn(move || {
        let (head, behind) = rest.split_at_checked(4)?;
        let length = usize::from(u16::from_le_bytes([head[2], head[3]]));
        let (content, behind) = behind.split_at_checked(length)?;
        rest = behind;
        Some((u16::from_le_bytes([head[0], head[1]]), content))
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::load::format::sample::Sample;
    use crate::types::ReadingProblemKind;
    use std::io::Write;

    /// A workbook of these sheets: name, visibility (0 is shown, 1 hidden), and records of cells.
    pub(in crate::load) fn workbook(sheets: &[(&str, u8, Vec<u8>)]) -> Vec<u8> {
        let begins = |kind: u16| record(0x0809, &[&[0, 6][..], &kind.to_le_bytes(), &[0; 12]].concat());
        let end = record(0x000A, &[]);
        let entry = |place: usize, (name, visibility, _): &(&str, u8, Vec<u8>)| {
            let place = (place as u32).to_le_bytes();
            record(0x0085, &[&place[..], &[*visibility, 0, name.len() as u8, 0], name.as_bytes()].concat())
        };
        let head: usize = begins(5).len() + sheets.iter().map(|sheet| entry(0, sheet).len()).sum::<usize>() + end.len();
        let (mut list, mut bodies) = (Vec::new(), Vec::new());
        for sheet in sheets {
            list.extend(entry(head + bodies.len(), sheet));
            bodies.extend([begins(0x10), sheet.2.clone(), end.clone()].concat());
        }
        let mut file = CompoundFile::create(Cursor::new(Vec::new())).unwrap();
        let stream = [begins(5), list, end, bodies].concat();
        file.create_stream("/Workbook").unwrap().write_all(&stream).unwrap();
        file.into_inner().into_inner()
    }

    fn record(kind: u16, content: &[u8]) -> Vec<u8> {
        [&kind.to_le_bytes()[..], &(content.len() as u16).to_le_bytes(), content].concat()
    }

    fn place(row: u16, column: u16) -> Vec<u8> {
        [row, column, 0].map(u16::to_le_bytes).concat()
    }

    fn text(row: u16, column: u16, text: &str) -> Vec<u8> {
        let units: Vec<u16> = text.encode_utf16().collect();
        let length = (units.len() as u16).to_le_bytes();
        let units: Vec<u8> = units.into_iter().flat_map(u16::to_le_bytes).collect();
        record(0x0204, &[&place(row, column)[..], &length, &[1], &units].concat())
    }

    fn number(row: u16, column: u16, value: f64) -> Vec<u8> {
        record(0x0203, &[&place(row, column)[..], &value.to_le_bytes()].concat())
    }

    /// What the format's output is pinned for.
    pub(super) fn sample() -> Sample {
        let merged = record(0x00E5, &[1_u16, 0, 0, 1, 2].map(u16::to_le_bytes).concat());
        let stock = [
            text(0, 0, "part"),
            text(0, 1, "sizes"),
            text(1, 0, "Größe"),
            number(1, 1, 3.0),
            number(1, 2, 2.5),
            merged,
        ];
        Sample {
            source: serde_json::json!("xls"),
            ..Sample::plain("a.xls", &workbook(&[("Stock", 0, stock.concat()), ("Old", 1, text(0, 0, "x"))]))
        }
    }

    #[test]
    fn each_sheet_is_a_table_under_its_name() {
        let parsed = parse(&sample().bytes, &ParseLimits::default()).unwrap();
        let expected = "# Stock\n\n| part | sizes | sizes |\n| --- | --- | --- |\n| Größe | 3 | 2.5 |\n\n# Old (hidden sheet)\n\nx";
        assert_eq!(parsed.text, expected);
        assert_eq!(parsed.problems[0].kind, ReadingProblemKind::HiddenPart);
    }

    /// The library panics on some of them, which loses only the one file.
    #[test]
    fn damaged_workbooks_are_refused_or_read() {
        let whole = sample().bytes;
        let mut draw = fuzz::Draw::new(1);
        for _ in 0..500 {
            let mut damaged = whole.clone();
            for _ in 0..=draw.below(4) {
                let at = draw.below(damaged.len());
                damaged[at] = draw.below(256) as u8;
            }
            drop(crate::load::parse("a.xls", &damaged, &ParseLimits::default()));
        }
    }

    #[test]
    fn cells_far_apart_on_many_sheets_are_refused_before_memory_is_taken_for_what_lies_between() {
        let corners = [number(0, 0, 1.0), number(65_535, 255, 2.0)].concat();
        let sheets: Vec<(&str, u8, Vec<u8>)> = (0..50).map(|_| ("wide", 0, corners.clone())).collect();
        let refused = parse(&workbook(&sheets), &ParseLimits::default()).unwrap_err();
        assert!(matches!(&refused, LoadError::OverLimit(reason) if reason.contains("places")), "{refused}");
    }
}
