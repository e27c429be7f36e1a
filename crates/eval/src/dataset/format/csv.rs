//! `csv`: a table with a header; a file that is read or changed may have tabs
//! or semicolons between cells. Lists and objects are JSON in a cell.

use super::{ChangedRecord, OriginalFile, RecordFormat, WriteError};
use crate::dataset::cells::cell;
use crate::dataset::fault::RowError;
use crate::dataset::rows::{FileRecord, RawRecord, TableHeader};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// The format, for the list in [`super`].
pub(super) const FORMAT: RecordFormat = RecordFormat {
    title: "CSV",
    written_as: &["csv"],
    read_as: &["csv", "tsv"],
    signature: None,
    begins_with: b"",
    read: |name, bytes, _| read_table(bytes, delimiter(name, bytes)),
    header: Some(header),
    write,
    rewrite: Some(rewrite),
};

fn header(name: &str, bytes: &[u8]) -> TableHeader {
    let delimiter = delimiter(name, bytes);
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).flexible(true).from_reader(bytes);
    let names = match reader.byte_headers() {
        Ok(names) => names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect(),
        Err(_) => Vec::new(),
    };
    TableHeader { names, delimiter }
}

fn write(rows: &[Map<String, Value>], columns: &[&str]) -> Result<Vec<u8>, WriteError> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(columns)?;
    for row in rows {
        writer.write_record(columns.iter().map(|name| cell(row.get(*name))))?;
    }
    Ok(writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))?)
}

/// The records of a table.
fn read_table(bytes: &[u8], delimiter: u8) -> (Vec<FileRecord>, Vec<RowError>) {
    let (mut rows, mut faults) = (Vec::new(), Vec::new());
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).flexible(true).from_reader(bytes);
    let header: Vec<String> = match reader.byte_headers() {
        Ok(header) => header.iter().map(|name| String::from_utf8_lossy(name).trim().to_owned()).collect(),
        Err(error) => return (rows, vec![RowError::new(1, format!("cannot be read: {error}"))]),
    };
    for (i, name) in header.iter().enumerate() {
        if !name.is_empty() && header[..i].contains(name) {
            faults.push(RowError::new(1, format!("has two columns `{name}`: remove one")));
        }
    }
    let mut lines = LineCounter { bytes, counted: 0, line: 1 };
    let mut record = csv::ByteRecord::new();
    loop {
        match reader.read_byte_record(&mut record) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                // The reader cannot go on after such a fault.
                faults.push(RowError::new(lines.at(error.position()), format!("cannot be read: {error}")));
                break;
            }
        }
        let line = lines.at(record.position());
        if record.len() != header.len() {
            let (got, wanted) = (record.len(), header.len());
            faults.push(RowError::new(
                line,
                format!("has {got} fields where the header has {wanted}: put fields with commas, quotes or line ends between \"…\""),
            ));
            continue;
        }
        let mut fields = Map::new();
        let mut cells = Vec::with_capacity(record.len());
        let n_faults = faults.len();
        for (name, field) in header.iter().zip(record.iter()) {
            match std::str::from_utf8(field) {
                Ok(text) => {
                    cells.push(text.to_owned());
                    // Nothing can refer to a column without a name.
                    if !name.is_empty() {
                        fields.insert(name.clone(), Value::String(text.to_owned()));
                    }
                }
                Err(_) => {
                    faults.push(RowError::new(line, format!("field `{name}` is not UTF-8: save the file as UTF-8")))
                }
            }
        }
        if faults.len() == n_faults {
            rows.push(FileRecord { line, fields, raw: RawRecord::Cells(cells) });
        }
    }
    (rows, faults)
}

/// Counts lines. The reader's own count is one short after `\r\n`.
struct LineCounter<'a> {
    bytes: &'a [u8],
    counted: usize,
    line: usize,
}

impl LineCounter<'_> {
    /// The line on which a record begins; records come in order.
    fn at(&mut self, position: Option<&csv::Position>) -> usize {
        let byte = position.and_then(|position| usize::try_from(position.byte()).ok()).unwrap_or(0);
        // The reader may be before the line end of the previous record.
        let is_content = |byte: &u8| !matches!(byte, b'\r' | b'\n');
        let rest = self.bytes.get(byte..).unwrap_or_default();
        let begin = byte + rest.iter().position(is_content).unwrap_or(0);
        let between = self.bytes.get(self.counted..begin).unwrap_or_default();
        self.line += between.iter().filter(|byte| **byte == b'\n').count();
        self.counted = self.counted.max(begin);
        self.line
    }
}

/// A changed table, with its old delimiter, byte order mark and line ends, and
/// new columns at its end.
fn rewrite(file: &OriginalFile<'_>, changed: &[ChangedRecord]) -> Result<Vec<u8>, WriteError> {
    let mut header = file.layout.header.names.clone();
    for (name, _) in changed.iter().flat_map(|(_, changes)| changes) {
        if !header.iter().any(|known| known.trim() == name) {
            header.push(name.clone());
        }
    }
    let place: HashMap<&str, usize> = header.iter().enumerate().rev().map(|(i, name)| (name.trim(), i)).collect();
    let terminator = if file.layout.line_end == "\r\n" { csv::Terminator::CRLF } else { csv::Terminator::Any(b'\n') };
    let mut writer = csv::WriterBuilder::new()
        .delimiter(file.layout.header.delimiter)
        .terminator(terminator)
        .from_writer(file.layout.mark().to_vec());
    writer.write_record(&header)?;
    for (row, changes) in changed {
        let mut cells = match row.map(|i| &file.rows[i].raw) {
            Some(RawRecord::Cells(cells)) => cells.clone(),
            _ => Vec::new(),
        };
        cells.resize(header.len(), String::new());
        for (name, value) in changes {
            cells[place[name.as_str()]] = cell(Some(value));
        }
        writer.write_record(&cells)?;
    }
    Ok(writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))?)
}

/// A tab for `.tsv`, a semicolon where the header has one and no comma (as
/// spreadsheets write in some countries), else a comma.
fn delimiter(name: &str, bytes: &[u8]) -> u8 {
    if name.to_ascii_lowercase().ends_with(".tsv") {
        return b'\t';
    }
    let header = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    if header.contains(&b';') && !header.contains(&b',') { b';' } else { b',' }
}
