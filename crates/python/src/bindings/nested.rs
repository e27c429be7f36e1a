//! Columns with lists and structures, as data frames have them, for tables of the store, which hold such values as
//! JSON texts; and the columns of a user's own, which become metadata of documents.

use super::{arrow::column, work::value_error};
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use pyo3::prelude::*;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The columns of documents and chunks that hold nested values.
const PAGES: &str = "pages";
const HEADINGS: &str = "headings";
const METADATA: &str = "metadata";
/// The column of the format of documents.
const FORMAT: &str = "format";

/// The batch with nested values as JSON texts. Columns that are texts already stay as they are.
pub(crate) fn with_json_texts(batch: RecordBatch) -> PyResult<RecordBatch> {
    let mut batch = batch;
    for (name, stored) in [(PAGES, stored_page as fn(Value) -> Value), (HEADINGS, stored_heading), (METADATA, given)] {
        let Ok(nested) = column(&batch, name) else { continue };
        if !is_nested(nested.data_type()) {
            continue;
        }
        let texts = values(name, nested)?.into_iter().map(|value| match value {
            Value::Array(items) => Value::Array(items.into_iter().map(stored).collect()).to_string(),
            Value::Object(_) => stored(value).to_string(),
            // A list that is missing is empty.
            _ if name == METADATA => "null".to_owned(),
            _ => "[]".to_owned(),
        });
        batch = replace(&batch, name, Arc::new(StringArray::from_iter_values(texts)))?;
    }
    Ok(batch)
}

/// The batch of documents with its other columns as metadata, so that filters and hits have them: texts, numbers,
/// truth values, and lists of these. What `metadata` itself holds wins. `known` are the columns of documents.
pub(crate) fn with_own_metadata(batch: RecordBatch, known: &Schema) -> PyResult<RecordBatch> {
    let schema = batch.schema();
    let is_own = |name: &str| known.field_with_name(name).is_err() && !is_index(name);
    let own = schema.fields().iter().zip(batch.columns()).filter(|(field, _)| is_own(field.name()));
    // A column of another type, such as bytes, is no metadata.
    let own: Vec<(&String, Vec<Value>)> =
        own.filter_map(|(field, array)| Some((field.name(), values(field.name(), array).ok()?))).collect();
    if own.is_empty() {
        return Ok(batch);
    }
    let given = match column(&batch, METADATA) {
        Ok(array) if *array.data_type() != DataType::Null => values(METADATA, array)?,
        _ => vec![Value::Null; batch.num_rows()],
    };
    let texts = given.into_iter().enumerate().map(|(row, given)| {
        let mut metadata: Map<String, Value> =
            given.as_str().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        for (name, values) in &own {
            if is_metadata(&values[row]) {
                metadata.entry((*name).clone()).or_insert_with(|| values[row].clone());
            }
        }
        Value::Object(metadata).to_string()
    });
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    replace(&batch, METADATA, texts)
}

/// The batch with the format of each document as the store writes it, a JSON text; in Python it is its name alone.
pub(crate) fn with_quoted_format(batch: RecordBatch) -> PyResult<RecordBatch> {
    let Ok(formats) = column(&batch, FORMAT) else { return Ok(batch) };
    let quoted = values(FORMAT, formats)?.into_iter().map(|format| match format {
        // What `Parser.parse` gave.
        Value::String(json) if json.starts_with('"') || json == "null" => json,
        Value::String(name) => Value::String(name).to_string(),
        _ => "\"text\"".to_owned(),
    });
    let quoted: ArrayRef = Arc::new(StringArray::from_iter_values(quoted));
    replace(&batch, FORMAT, quoted)
}

/// The values of a column as JSON.
fn values(name: &str, array: &ArrayRef) -> PyResult<Vec<Value>> {
    let schema = Schema::new(vec![Field::new(name, array.data_type().clone(), true)]);
    let batch = RecordBatch::try_new(Arc::new(schema), vec![array.clone()]).map_err(value_error)?;
    let rows = lab::rows_of_batch(&batch).map_err(value_error)?;
    Ok(rows.into_iter().map(|mut row| row.remove(name).unwrap_or_default()).collect())
}

/// The batch with this column, in the place of one of the same name or at the end.
fn replace(batch: &RecordBatch, name: &str, array: ArrayRef) -> PyResult<RecordBatch> {
    let field = Arc::new(Field::new(name, array.data_type().clone(), true));
    let (mut fields, mut columns) = (batch.schema().fields().to_vec(), batch.columns().to_vec());
    match batch.schema().index_of(name) {
        Ok(place) => (fields[place], columns[place]) = (field, array),
        Err(_) => {
            fields.push(field);
            columns.push(array);
        }
    }
    let schema = Schema::new_with_metadata(fields, batch.schema().metadata().clone());
    RecordBatch::try_new(Arc::new(schema), columns).map_err(value_error)
}

fn is_nested(kind: &DataType) -> bool {
    use DataType::{FixedSizeList, LargeList, List, Struct};
    matches!(kind, List(_) | LargeList(_) | FixedSizeList(..) | Struct(_))
}

/// The index of a data frame, which pandas gives Arrow as a column of such a name.
fn is_index(name: &str) -> bool {
    name.strip_prefix("__index_level_").is_some_and(|rest| rest.ends_with("__"))
}

fn is_metadata(value: &Value) -> bool {
    match value {
        Value::Null | Value::Object(_) => false,
        Value::Array(items) => !items.is_empty() && items.iter().all(|item| !item.is_array() && is_metadata(item)),
        Value::String(_) | Value::Number(_) | Value::Bool(_) => true,
    }
}

/// A page with its place as the store has it. Numbers of data frames may be decimal.
fn stored_page(page: Value) -> Value {
    let span = json!({ "start": whole(&page["start_byte"]), "end": whole(&page["end_byte"]) });
    json!({ "number": whole(&page["number"]), "span": span })
}

fn stored_heading(heading: Value) -> Value {
    json!({ "start": whole(&heading["start_byte"]), "level": whole(&heading["level"]), "title": heading["title"] })
}

fn whole(number: &Value) -> Value {
    match number.as_f64() {
        Some(decimal) if number.as_u64().is_none() && decimal >= 0.0 && decimal.fract() == 0.0 => {
            Value::from(decimal as u64)
        }
        _ => number.clone(),
    }
}

/// Metadata without the fields that this document lacks: a structure has the fields of all rows.
fn given(metadata: Value) -> Value {
    match metadata {
        Value::Object(fields) => fields.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        other => other,
    }
}
