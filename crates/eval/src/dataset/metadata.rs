//! Reads a table of metadata: JSONL or CSV with a column `path` and columns of any
//! other names, one row for each document.

use super::{
    fault::{ImportError, RowError},
    format::{self, DatasetFormat, FileContent},
    rows::FileRecord,
};
use rag::Metadata;
use serde_json::{Number, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The column that names the document.
const PATH: &str = "path";

/// Fields that are read from the document itself.
const OWN: &[&str] = &["title", "page", "heading"];

/// A document's row.
#[derive(Debug, Clone, PartialEq)]
pub struct MetadataRow {
    /// The line of the file, from 1.
    pub line: usize,
    /// The values of its columns, without empty cells.
    pub metadata: Metadata,
}

/// Reads the rows of a table by document. A column of a CSV file has numbers or
/// booleans if all its cells can be read as such, else texts.
///
/// # Errors
/// All errors of the file, in the order of their lines: a row without a path,
/// two rows of one path, a value that is no text, number, true or false, nor a
/// list of these.
pub fn import_metadata(name: &str, bytes: &[u8]) -> Result<BTreeMap<String, MetadataRow>, Vec<ImportError>> {
    let (records, mut faults) = format::read(name, bytes, FileContent::Other);
    let is_text = DatasetFormat::of_file(name, bytes) == DatasetFormat::Csv;
    let mut found: BTreeMap<String, MetadataRow> = BTreeMap::new();
    for FileRecord { line, mut fields, .. } in records {
        let mut fault = |reason: String| faults.push(RowError::new(line, reason));
        let path = fields.remove(PATH).and_then(|path| path.as_str().map(|path| path.trim().to_owned()));
        let Some(path) = path.filter(|path| !path.is_empty()) else {
            fault(format!("names no document: give its path below the corpus in the column `{PATH}`"));
            continue;
        };
        let mut metadata = Metadata::new();
        for (column, value) in fields {
            if OWN.contains(&column.as_str()) {
                fault(format!("`{column}` is read from the document itself: give the column another name"));
                continue;
            }
            match check_value(value) {
                Ok(None) => {}
                Ok(Some(value)) => drop(metadata.insert(column, value)),
                Err(reason) => fault(format!("`{column}` {reason}")),
            }
        }
        if let Some(earlier) = found.get(&path) {
            fault(format!("`{path}` has a row already, in line {}: remove one", earlier.line));
            continue;
        }
        found.insert(path, MetadataRow { line, metadata });
    }
    if found.is_empty() && faults.is_empty() {
        let reason = format!("holds no row: write a header with the column `{PATH}`, and a row for each document");
        faults.push(RowError::new(1, reason));
    }
    if !faults.is_empty() {
        faults.sort_by_key(|fault| (fault.number, fault.to_string()));
        return Err(faults.into_iter().map(|fault| fault.in_file(name)).collect());
    }
    if is_text {
        convert_columns(&mut found);
    }
    Ok(found)
}

fn check_value(value: Value) -> Result<Option<Value>, &'static str> {
    let is_scalar = |value: &Value| value.is_string() || value.is_number() || value.is_boolean();
    match value {
        Value::Null => Ok(None),
        Value::String(text) if text.trim().is_empty() => Ok(None),
        Value::Array(values) if values.iter().all(is_scalar) => Ok(Some(Value::Array(values))),
        value if is_scalar(&value) => Ok(Some(value)),
        _ => Err("is neither a text, a number, true or false, nor a list of these"),
    }
}

fn number(text: &str) -> Option<Value> {
    serde_json::from_str::<Number>(text.trim()).ok().map(Value::from)
}

fn boolean(text: &str) -> Option<Value> {
    text.trim().to_ascii_lowercase().parse::<bool>().ok().map(Value::from)
}

/// Converts columns of texts whose cells are all numbers or all booleans.
fn convert_columns(rows: &mut BTreeMap<String, MetadataRow>) {
    let columns: Vec<String> = {
        let names: BTreeSet<&String> = rows.values().flat_map(|row| row.metadata.keys()).collect();
        names.into_iter().cloned().collect()
    };
    for column in columns {
        let types: [fn(&str) -> Option<Value>; 2] = [number, boolean];
        let cells = || rows.values().filter_map(|row| row.metadata.get(&column)?.as_str());
        let Some(read) = types.into_iter().find(|read| cells().all(|text| read(text).is_some())) else { continue };
        for row in rows.values_mut() {
            if let Some(value) = row.metadata.get_mut(&column)
                && let Some(typed) = value.as_str().and_then(read)
            {
                *value = typed;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(name: &str, text: &str) -> Result<Value, Vec<String>> {
        let rows = import_metadata(name, text.as_bytes());
        let rows = rows.map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        Ok(rows.into_iter().map(|(path, row)| (path, serde_json::to_value(row.metadata).unwrap())).collect())
    }

    #[test]
    fn columns_have_the_type_of_all_their_cells_and_empty_cells_say_nothing() {
        let text = "path,year,final,label,zip\na.md,2020,true,1,01234\nb.md,,False,x,99\n";
        let expected = json!({
            "a.md": { "year": 2020, "final": true, "label": "1", "zip": "01234" },
            "b.md": { "final": false, "label": "x", "zip": "99" },
        });
        assert_eq!(read("m.csv", text).unwrap(), expected);
        let lines = "{\"path\": \"a.md\", \"year\": \"2020\", \"tags\": [\"x\"], \"none\": null}\n";
        assert_eq!(read("m.jsonl", lines).unwrap(), json!({ "a.md": { "year": "2020", "tags": ["x"] } }));
    }

    #[test]
    fn every_fault_is_told_with_its_line() {
        let told = read("m.csv", "path,year\na.md,1\n,2\na.md,3\n").unwrap_err();
        assert!(told[0].contains("m.csv:3") && told[0].contains("names no document"), "{told:?}");
        assert!(told[1].contains("m.csv:4") && told[1].contains("has a row already, in line 2"), "{told:?}");
        assert!(read("m.jsonl", "{\"path\": \"a\", \"x\": {}}\n").unwrap_err()[0].contains("`x` is neither"));
        assert!(read("m.csv", "path,year\n").unwrap_err()[0].contains("holds no row"));
    }
}
