//! A Parquet table as JSON Lines, so that every format of answers is read by
//! the same rules.
//!
//! It reads texts, integers, decimal numbers, booleans, and lists and
//! structures of these, as pandas, Polars and Hugging Face's `datasets` write
//! them. Every row becomes one line.

use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, LargeListArray, ListArray, RecordBatch, StructArray,
    cast::AsArray,
    downcast_integer_array,
    types::{Float32Type, Float64Type},
};
use arrow_schema::{DataType, Field, FieldRef};
use arrow_select::take::take;
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Why rows of a table cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TableRowsError {
    /// The file is no Parquet file, or is damaged.
    #[error("the Parquet file cannot be read: {0}")]
    Parquet(#[from] parquet::errors::ParquetError),
    /// A batch of the file is damaged.
    #[error("the Parquet file cannot be read: {0}")]
    Batch(#[from] arrow_schema::ArrowError),
    /// A column holds something else than texts, numbers, truth values, and lists and structures of these.
    #[error("column `{column}` holds {found}: write texts, or lists of them")]
    Column {
        /// The column's name.
        column: String,
        /// What it holds.
        found: UnreadableType,
    },
}

/// A type whose values have no form in JSON here.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableType {
    /// It is none of the types that are read.
    #[error("the type {0}")]
    Other(DataType),
    /// Its dictionary cannot be unpacked.
    #[error("the type {0}, which cannot be read: {1}")]
    Dictionary(DataType, arrow_schema::ArrowError),
}

/// The rows of a table, one JSON object a line.
///
/// # Errors
/// If the file is damaged, or a column has a type that is not read.
pub(super) fn jsonl(bytes: Vec<u8>) -> Result<Vec<u8>, TableRowsError> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes))?.build()?;
    let mut lines = Vec::new();
    for batch in reader {
        for row in rows_of_batch(&batch?)? {
            lines.extend(Value::Object(row).to_string().into_bytes());
            lines.push(b'\n');
        }
    }
    Ok(lines)
}

/// The rows of an Arrow batch, such as a program's data frame.
///
/// # Errors
/// If a column holds something else than texts, numbers, truth values, and
/// lists and structures of these.
pub fn rows_of_batch(batch: &RecordBatch) -> Result<Vec<Map<String, Value>>, TableRowsError> {
    let schema = batch.schema();
    let mut rows: Vec<Map<String, Value>> = vec![Map::new(); batch.num_rows()];
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        let unreadable = |found| TableRowsError::Column { column: field.name().clone(), found };
        let column = plain(column).map_err(unreadable)?;
        for (row, fields) in rows.iter_mut().enumerate() {
            fields.insert(field.name().clone(), value(column.as_ref(), row).map_err(unreadable)?);
        }
    }
    Ok(rows)
}

/// A column without dictionaries, also within its lists and structures. Each is unpacked once: for
/// each cell it would take quadratic time.
fn plain(column: &ArrayRef) -> Result<ArrayRef, UnreadableType> {
    let unreadable = |error| UnreadableType::Dictionary(column.data_type().clone(), error);
    let nulls = || column.nulls().cloned();
    Ok(match column.data_type() {
        DataType::Dictionary(..) => {
            let dictionary = column.as_any_dictionary();
            plain(&take(dictionary.values(), dictionary.keys(), None).map_err(unreadable)?)?
        }
        kind if !holds_dictionary(kind) => column.clone(),
        DataType::List(field) => {
            let list = column.as_list::<i32>();
            let (field, items) = plain_field(field, list.values())?;
            Arc::new(ListArray::try_new(field, list.offsets().clone(), items, nulls()).map_err(unreadable)?)
        }
        DataType::LargeList(field) => {
            let list = column.as_list::<i64>();
            let (field, items) = plain_field(field, list.values())?;
            Arc::new(LargeListArray::try_new(field, list.offsets().clone(), items, nulls()).map_err(unreadable)?)
        }
        DataType::FixedSizeList(field, size) => {
            let (field, items) = plain_field(field, column.as_fixed_size_list().values())?;
            Arc::new(FixedSizeListArray::try_new(field, *size, items, nulls()).map_err(unreadable)?)
        }
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(column.as_struct().columns());
            let columns = columns.map(|(field, column)| plain_field(field, column));
            let (fields, columns): (Vec<_>, Vec<_>) = columns.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
            Arc::new(StructArray::try_new(fields.into(), columns, nulls()).map_err(unreadable)?)
        }
        _ => column.clone(),
    })
}

/// A column within another one, without dictionaries, and its field.
fn plain_field(field: &Field, column: &ArrayRef) -> Result<(FieldRef, ArrayRef), UnreadableType> {
    let column = plain(column)?;
    // A dictionary of a column without nulls may hold some.
    Ok((Arc::new(Field::new(field.name(), column.data_type().clone(), true)), column))
}

/// Whether a type has a dictionary somewhere that is unpacked.
fn holds_dictionary(kind: &DataType) -> bool {
    match kind {
        DataType::Dictionary(..) => true,
        DataType::List(field) | DataType::LargeList(field) => holds_dictionary(field.data_type()),
        // Lists of size 0 hold no values to unpack, and without values Arrow cannot count the rows.
        DataType::FixedSizeList(field, size) => *size > 0 && holds_dictionary(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| holds_dictionary(field.data_type())),
        _ => false,
    }
}

/// One cell of a column without dictionaries. A NaN becomes a missing value, which is what pandas means by it.
fn value(array: &dyn Array, row: usize) -> Result<Value, UnreadableType> {
    if array.is_null(row) {
        return Ok(Value::Null);
    }
    Ok(downcast_integer_array!(
        array => json!(array.value(row)),
        DataType::Null => Value::Null,
        DataType::Utf8 => json!(array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => json!(array.as_string::<i64>().value(row)),
        DataType::Utf8View => json!(array.as_string_view().value(row)),
        DataType::Boolean => json!(array.as_boolean().value(row)),
        // JSON has no NaN: it becomes null.
        DataType::Float32 => json!(array.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => json!(array.as_primitive::<Float64Type>().value(row)),
        DataType::List(_) => list(array.as_list::<i32>().value(row).as_ref())?,
        DataType::LargeList(_) => list(array.as_list::<i64>().value(row).as_ref())?,
        DataType::FixedSizeList(..) => list(array.as_fixed_size_list().value(row).as_ref())?,
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(array.as_struct().columns());
            let read = columns.map(|(field, column)| Ok((field.name().clone(), value(column.as_ref(), row)?)));
            Value::Object(read.collect::<Result<_, UnreadableType>>()?)
        }
        other => return Err(UnreadableType::Other(other.clone())),
    ))
}

fn list(items: &dyn Array) -> Result<Value, UnreadableType> {
    (0..items.len()).map(|row| value(items, row)).collect::<Result<_, _>>().map(Value::Array)
}

#[cfg(test)]
mod tests;
