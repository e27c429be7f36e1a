//! Reads files of answers that exist already: JSON Lines, a list in JSON, CSV, TSV and Parquet.

mod parquet;

pub use parquet::{TableRowsError, UnreadableType, rows_of_batch};

use eval::dataset::{AnsweredRow, ImportError, import_answers};
use serde_json::{Map, Value};

/// The rows of a file, or all its faults. `documents` are those that passages refer to, if they are known.
pub(crate) fn read(name: &str, bytes: Vec<u8>, documents: &[rag::Document]) -> Result<Vec<AnsweredRow>, Vec<String>> {
    let lines = |errors: Vec<ImportError>| errors.iter().map(ToString::to_string).collect();
    let of_file = |reason: String| vec![format!("{name}: {reason}")];
    let table = if bytes.starts_with(b"PAR1") {
        parquet::jsonl(bytes).map_err(|reason| of_file(reason.to_string()))?
    } else if bytes.trim_ascii_start().starts_with(b"[") {
        list_of_rows(&bytes).map_err(|error| of_file(format!("it is no list of rows in JSON: {error}")))?
    } else {
        return import_answers(name, &bytes, documents).map_err(lines);
    };
    // This name tells the importer the format of the rows; the file's own name may tell another.
    import_answers("rows.jsonl", &table, documents).map_err(|errors| {
        let row = |error: ImportError| format!("{name}: row {}: {}", error.line, error.reason());
        errors.into_iter().map(row).collect()
    })
}

/// A list in JSON as JSON Lines.
fn list_of_rows(bytes: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
    let rows: Vec<Map<String, Value>> = serde_json::from_slice(bytes)?;
    let mut lines = Vec::with_capacity(bytes.len());
    for row in rows {
        serde_json::to_writer(&mut lines, &row)?;
        lines.push(b'\n');
    }
    Ok(lines)
}
