//! `parquet`: a table with lists, for programs that read columns. It is only
//! written.

use super::{FileContent, RecordFormat, WriteError};
use crate::dataset::cells::cell;
use crate::dataset::fault::RowError;
use arrow_array::{
    ArrayRef, BooleanArray, RecordBatch, StringArray,
    builder::{ListBuilder, StringBuilder},
};
use parquet::{arrow::ArrowWriter, errors::ParquetError};
use serde_json::{Map, Value};
use std::sync::Arc;

/// The format, for the list in [`super`].
pub(super) const FORMAT: RecordFormat = RecordFormat {
    title: "Parquet",
    written_as: &["parquet"],
    read_as: &[],
    signature: Some(b"PAR1"),
    begins_with: b"",
    read: |_, _, holds| (Vec::new(), vec![RowError::new(1, unread(holds))]),
    header: None,
    write,
    rewrite: None,
};

/// The error for a file in this format that should be read.
fn unread(holds: FileContent) -> &'static str {
    match holds {
        FileContent::Questions => {
            "is a Parquet file, which is not read here: write CSV or JSONL (pandas: `frame.to_json(\"golden.jsonl\", \
             orient=\"records\", lines=True)`)"
        }
        FileContent::Other => {
            "is a Parquet file, which is not read: write JSONL (pandas: `frame.to_json(\"rows.jsonl\", \
             orient=\"records\", lines=True)`)"
        }
    }
}

fn write(rows: &[Map<String, Value>], columns: &[&str]) -> Result<Vec<u8>, WriteError> {
    let arrays: Vec<(&str, ArrayRef, bool)> = columns.iter().map(|name| (*name, column(rows, name), true)).collect();
    let batch = RecordBatch::try_from_iter_with_nullable(arrays).map_err(ParquetError::from)?;
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None)?;
    writer.write(&batch).and_then(|()| writer.close())?;
    Ok(bytes)
}

/// A column by what its name holds: lists of strings, truth values, or texts
/// (with JSON for what has parts).
fn column(rows: &[Map<String, Value>], name: &str) -> ArrayRef {
    let values = rows.iter().map(|row| row.get(name).filter(|value| !value.is_null()));
    match name {
        "tags" | "contexts" | "reference_contexts" => {
            let mut list = ListBuilder::new(StringBuilder::new());
            for value in values {
                for item in value.and_then(Value::as_array).into_iter().flatten() {
                    list.values().append_value(item.as_str().unwrap_or_default());
                }
                list.append(true);
            }
            Arc::new(list.finish())
        }
        // A field that is left out has its default.
        "answerable" => {
            Arc::new(values.map(|value| Some(value.and_then(Value::as_bool).unwrap_or(true))).collect::<BooleanArray>())
        }
        "episode_done" => Arc::new(values.map(|value| value.and_then(Value::as_bool)).collect::<BooleanArray>()),
        _ => Arc::new(values.map(|value| value.map(|value| cell(Some(value)))).collect::<StringArray>()),
    }
}
