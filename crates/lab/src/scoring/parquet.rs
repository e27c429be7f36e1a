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
/// If the file is damaged, or a column holds something else.
pub(super) fn jsonl(bytes: Vec<u8>) -> Result<Vec<u8>, TableRowsError> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes))?.build()?;
    let mut lines = Vec::new();
    for batch in reader {
        for row in records(&batch?)? {
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
pub fn records(batch: &RecordBatch) -> Result<Vec<Map<String, Value>>, TableRowsError> {
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

/// A column without dictionaries, also within its lists and structures. Each is
/// unpacked once: unpacked for each cell, it takes time with the square of the rows.
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
        // A list of no items has none to unpack, and does not say its length.
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
mod tests {
    use super::*;
    use arrow_array::{
        BooleanArray, DictionaryArray, Float64Array, LargeStringArray, StringArray, TimestampSecondArray,
        builder::{FixedSizeListBuilder, ListBuilder, StringBuilder, StringDictionaryBuilder},
        types::Int32Type,
    };
    use parquet::arrow::ArrowWriter;

    fn lines(columns: Vec<(&str, ArrayRef)>) -> Result<Vec<Value>, TableRowsError> {
        let batch = RecordBatch::try_from_iter(columns).expect("a batch");
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).expect("a writer");
        writer.write(&batch).expect("rows");
        let text = String::from_utf8(jsonl(writer.into_inner().expect("a file"))?).expect("UTF-8");
        Ok(text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect())
    }

    fn texts(lists: &[Option<&[&str]>]) -> ListArray {
        let mut builder = ListBuilder::new(StringBuilder::new());
        for list in lists {
            for text in list.unwrap_or_default() {
                builder.values().append_value(text);
            }
            builder.append(list.is_some());
        }
        builder.finish()
    }

    #[test]
    fn rows_are_lines_with_every_kind_of_cell() {
        let part: ArrayRef = Arc::new(StringArray::from(vec!["x", "y"]));
        let structure = StructArray::from(vec![(Arc::new(Field::new("text", DataType::Utf8, true)), part)]);
        let kind: DictionaryArray<arrow_array::types::Int32Type> = vec!["b", "a"].into_iter().collect();
        let rows = lines(vec![
            ("question", Arc::new(StringArray::from(vec!["Why?", "How?"])) as ArrayRef),
            ("answer", Arc::new(LargeStringArray::from(vec![Some("So."), None]))),
            ("contexts", Arc::new(texts(&[Some(&["a", "b"]), None]))),
            ("answerable", Arc::new(BooleanArray::from(vec![true, false]))),
            ("score", Arc::new(Float64Array::from(vec![0.5, f64::NAN]))),
            ("passage", Arc::new(structure)),
            ("kind", Arc::new(kind)),
        ]);
        let first = json!({
            "question": "Why?", "answer": "So.", "contexts": ["a", "b"], "answerable": true, "score": 0.5,
            "passage": { "text": "x" }, "kind": "b"
        });
        let second = json!({
            "question": "How?", "answer": null, "contexts": null, "answerable": false, "score": null,
            "passage": { "text": "y" }, "kind": "a"
        });
        assert_eq!(rows.unwrap(), [first, second]);
    }

    /// A structure with a dictionary, in which the second text and the third row are null.
    fn passages() -> StructArray {
        let kinds: DictionaryArray<Int32Type> = vec![Some("b"), None, Some("a"), Some("b")].into_iter().collect();
        let field = Arc::new(Field::new("kind", kinds.data_type().clone(), true));
        let nulls = BooleanArray::from(vec![Some(true), Some(true), None, Some(true)]).nulls().cloned();
        StructArray::try_new(vec![field].into(), vec![Arc::new(kinds) as ArrayRef], nulls).expect("a structure")
    }

    #[test]
    fn dictionaries_within_structures_and_lists_are_unpacked() {
        let mut contexts = ListBuilder::new(StringDictionaryBuilder::<Int32Type>::new());
        contexts.append_value([Some("owl"), Some("bat"), Some("owl")]);
        contexts.append_null();
        contexts.append_value(Vec::<Option<&str>>::new());
        contexts.append_value([None, Some("bat")]);
        let mut pairs = FixedSizeListBuilder::new(StringDictionaryBuilder::<Int32Type>::new(), 2);
        for pair in [["x", "y"], ["y", "x"], ["x", "x"], ["y", "y"]] {
            pair.iter().for_each(|text| pairs.values().append_value(text));
            pairs.append(true);
        }
        let batch = RecordBatch::try_from_iter([
            ("passage", Arc::new(passages()) as ArrayRef),
            ("contexts", Arc::new(contexts.finish())),
            ("pair", Arc::new(pairs.finish())),
        ])
        .expect("a batch");
        let expected = [
            json!({ "passage": { "kind": "b" }, "contexts": ["owl", "bat", "owl"], "pair": ["x", "y"] }),
            json!({ "passage": { "kind": null }, "contexts": null, "pair": ["y", "x"] }),
            json!({ "passage": null, "contexts": [], "pair": ["x", "x"] }),
            json!({ "passage": { "kind": "b" }, "contexts": [null, "bat"], "pair": ["y", "y"] }),
        ];
        let rows =
            |batch: &RecordBatch| records(batch).expect("rows").into_iter().map(Value::Object).collect::<Vec<_>>();
        assert_eq!(rows(&batch), expected);
        assert_eq!(rows(&batch.slice(1, 3)), expected[1..], "a part of a table");
        let column = plain(batch.column(0)).expect("a structure");
        assert!(!holds_dictionary(column.data_type()), "{}", column.data_type());
    }

    #[test]
    fn every_usual_compression_is_read() {
        use parquet::{basic::Compression, file::properties::WriterProperties};
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["a mill grinds oats, and oats, and oats"; 50]));
        let batch = RecordBatch::try_from_iter([("answer", texts)]).expect("a batch");
        for codec in [
            Compression::UNCOMPRESSED,
            Compression::SNAPPY,
            Compression::GZIP(Default::default()),
            Compression::BROTLI(Default::default()),
            Compression::LZ4,
            Compression::LZ4_RAW,
            Compression::ZSTD(Default::default()),
        ] {
            let properties = WriterProperties::builder().set_compression(codec).build();
            let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).expect("a writer");
            writer.write(&batch).expect("rows");
            let text = jsonl(writer.into_inner().expect("a file")).unwrap_or_else(|error| panic!("{codec}: {error}"));
            assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), 50, "{codec}");
        }
    }

    #[test]
    fn what_cannot_be_read_says_where() {
        let error =
            lines(vec![("when", Arc::new(TimestampSecondArray::from(vec![1])) as ArrayRef)]).expect_err("a time");
        assert!(error.to_string().contains("column `when`"), "{error}");
        assert!(jsonl(b"PAR1 and no more".to_vec()).expect_err("damaged").to_string().contains("cannot be read"));
    }
}
