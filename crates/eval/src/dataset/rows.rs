//! Files of records: one JSON object per line, or CSV with a header.
//!
//! It knows nothing of questions: it gives fields with the line on which they
//! stand, and every fault of the file, not only the first.

use serde_json::{Map, Value};

/// A record and where it stands.
#[derive(Debug)]
pub(super) struct Row {
    /// The line on which it begins, from 1.
    pub(super) line: usize,
    pub(super) fields: Map<String, Value>,
    /// The same as it stands in the file.
    pub(super) raw: Raw,
}

/// A record as it stands in its file.
#[derive(Debug)]
pub(super) enum Raw {
    /// A line of JSON.
    Line(String),
    /// The cells of a CSV file, as many as its header has.
    Cells(Vec<String>),
}

/// How a file is written, beside its records.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) shape: Shape,
    /// Whether it begins with a byte order mark.
    has_mark: bool,
    pub(super) line_end: &'static str,
    /// Between the cells of a CSV file.
    pub(super) delimiter: u8,
    /// The names of its columns, as they stand there.
    pub(super) header: Vec<String>,
}

impl Layout {
    /// The byte order mark, if there is one.
    pub(super) fn mark(&self) -> &'static [u8] {
        if self.has_mark { MARK } else { b"" }
    }
}

const MARK: &[u8] = b"\xEF\xBB\xBF";

/// How a file is written.
pub(super) fn layout(name: &str, bytes: &[u8]) -> Layout {
    let content = without_mark(bytes);
    let shape = shape(name, content);
    let delimiter = delimiter(name, content);
    let first_line = content.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut header = Vec::new();
    if shape == Shape::Csv {
        let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).flexible(true).from_reader(content);
        if let Ok(names) = reader.byte_headers() {
            header = names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        }
    }
    let line_end = if first_line.ends_with(b"\r") { "\r\n" } else { "\n" };
    Layout { shape, has_mark: content.len() < bytes.len(), line_end, delimiter, header }
}

/// A line and what is wrong with it.
pub(super) type Fault = (usize, String);

/// What kind of file it is, by its name, else by its first character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Jsonl,
    Csv,
}

pub(super) fn shape(name: &str, bytes: &[u8]) -> Shape {
    let bytes = without_mark(bytes);
    let extension = name.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    match extension.as_str() {
        "jsonl" | "ndjson" | "json" => Shape::Jsonl,
        "csv" | "tsv" => Shape::Csv,
        _ => match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'{' | b'[') => Shape::Jsonl,
            _ => Shape::Csv,
        },
    }
}

/// Reads all records; the file may begin with a byte order mark.
pub(super) fn read(name: &str, bytes: &[u8]) -> (Vec<Row>, Vec<Fault>) {
    if bytes.starts_with(b"PAR1") {
        let how = "is a Parquet file, which is not read here: write CSV or JSONL (pandas: `frame.to_json(\"golden.jsonl\", \
                   orient=\"records\", lines=True)`)";
        return (Vec::new(), vec![(1, how.to_owned())]);
    }
    let bytes = without_mark(bytes);
    match shape(name, bytes) {
        Shape::Jsonl => read_jsonl(bytes),
        Shape::Csv => read_csv(name, bytes),
    }
}

fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(MARK).unwrap_or(bytes)
}

fn read_jsonl(bytes: &[u8]) -> (Vec<Row>, Vec<Fault>) {
    let (mut rows, mut faults) = (Vec::new(), Vec::new());
    for (i, bytes) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let line = i + 1;
        let Ok(text) = std::str::from_utf8(bytes) else {
            faults.push((line, "is not UTF-8: save the file as UTF-8".to_owned()));
            continue;
        };
        if text.trim().is_empty() {
            continue;
        }
        if rows.is_empty() && faults.is_empty() && text.trim_start().starts_with('[') {
            // One fault, and not one per line of the array.
            faults.push((line, "is a JSON array: write one object per line (`jq -c '.[]'` does it)".to_owned()));
            break;
        }
        match serde_json::from_str(text) {
            Ok(Value::Object(fields)) => rows.push(Row { line, fields, raw: Raw::Line(text.trim().to_owned()) }),
            Ok(_) => faults.push((line, "is no JSON object: write one {…} per line".to_owned())),
            Err(error) => faults.push((line, json_fault(text, &error))),
        }
    }
    (rows, faults)
}

fn json_fault(text: &str, error: &serde_json::Error) -> String {
    // Python writes what JSON does not know.
    if text.contains("NaN") {
        return "is not JSON: `NaN` has no place in it; write null".to_owned();
    }
    // The error's own line number is that within the line.
    let reason = error.to_string();
    let reason = reason.split(" at line ").next().unwrap_or_default();
    format!("is not JSON (column {}): {reason}", error.column())
}

fn read_csv(name: &str, bytes: &[u8]) -> (Vec<Row>, Vec<Fault>) {
    let (mut rows, mut faults) = (Vec::new(), Vec::new());
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter(name, bytes)).flexible(true).from_reader(bytes);
    let header: Vec<String> = match reader.byte_headers() {
        Ok(header) => header.iter().map(|name| String::from_utf8_lossy(name).trim().to_owned()).collect(),
        Err(error) => return (rows, vec![(1, format!("cannot be read: {error}"))]),
    };
    for (i, name) in header.iter().enumerate() {
        if !name.is_empty() && header[..i].contains(name) {
            faults.push((1, format!("has two columns `{name}`: remove one")));
        }
    }
    let mut lines = Lines { bytes, counted: 0, line: 1 };
    let mut record = csv::ByteRecord::new();
    loop {
        match reader.read_byte_record(&mut record) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                // The reader cannot go on behind such a fault.
                faults.push((lines.at(error.position()), format!("cannot be read: {error}")));
                break;
            }
        }
        let line = lines.at(record.position());
        if record.len() != header.len() {
            let (got, wanted) = (record.len(), header.len());
            faults.push((
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
                    // A column without a name holds nothing that could be meant.
                    if !name.is_empty() {
                        fields.insert(name.clone(), Value::String(text.to_owned()));
                    }
                }
                Err(_) => faults.push((line, format!("field `{name}` is not UTF-8: save the file as UTF-8"))),
            }
        }
        if faults.len() == n_faults {
            rows.push(Row { line, fields, raw: Raw::Cells(cells) });
        }
    }
    (rows, faults)
}

/// Counts lines. The reader's own count is one short after `\r\n`.
struct Lines<'a> {
    bytes: &'a [u8],
    counted: usize,
    line: usize,
}

impl Lines<'_> {
    /// The line on which a record begins; records come in order.
    fn at(&mut self, position: Option<&csv::Position>) -> usize {
        let byte = position.and_then(|position| usize::try_from(position.byte()).ok()).unwrap_or(0);
        // The reader may stand before the line end of the record before.
        let is_content = |byte: &u8| !matches!(byte, b'\r' | b'\n');
        let rest = self.bytes.get(byte..).unwrap_or_default();
        let begin = byte + rest.iter().position(is_content).unwrap_or(0);
        let between = self.bytes.get(self.counted..begin).unwrap_or_default();
        self.line += between.iter().filter(|byte| **byte == b'\n').count();
        self.counted = self.counted.max(begin);
        self.line
    }
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
