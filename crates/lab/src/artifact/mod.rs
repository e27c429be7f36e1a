//! Artifacts as Parquet tables, so that pandas, Polars, DuckDB and Ray Data
//! read them. One file per kind of row; all tables but those of vectors have the
//! schema's version in their metadata.

mod answers;
mod chunks;
mod documents;
mod enriched;
mod passages;
mod queries;
mod replies;
mod scores;
mod text_rows;
mod vectors;

pub use answers::{AnswerRow, NoAnswer};
pub use documents::DocumentRow;
pub use enriched::EnrichedRow;
pub use passages::PassageRow;
pub use queries::QueryRow;
pub use replies::ReplyRow;
pub use scores::ScoreRow;
pub(crate) use text_rows::{TableSubject, TextRow, table_subject, text_rows};
pub use vectors::{decode_vectors, encode_vectors};

use crate::Error;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, StringViewArray, UInt8Array, UInt32Array,
    UInt64Array,
};
use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;
use parquet::{
    arrow::{
        ArrowWriter,
        arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder},
    },
    basic::{Compression, ZstdLevel},
    file::properties::{WriterProperties, WriterPropertiesBuilder},
    schema::types::ColumnPath,
};
use std::{collections::HashMap, sync::Arc};

/// Raise when any table's columns change their meaning: part of every task key.
pub const VERSION: u32 = 2;

/// Rows of one kind.
pub trait ArtifactTable: Sized {
    /// The columns, in order.
    fn columns(rows: &[Self]) -> TableColumns;
    /// The rows of one batch.
    ///
    /// # Errors
    /// If a column is missing or of another type.
    fn rows(batch: &TableBatch<'_>) -> Result<Vec<Self>, Error>;
}

/// The columns of a table that is being built.
#[derive(Default)]
pub struct TableColumns(Vec<(Field, ArrayRef)>);

impl TableColumns {
    /// `nullable` depends on the table, never on its present rows: all tables
    /// of one kind have the same schema.
    fn push(mut self, name: &str, nullable: bool, array: impl Array + 'static) -> Self {
        let field = Field::new(name, array.data_type().clone(), nullable);
        self.0.push((field, Arc::new(array)));
        self
    }

    pub(crate) fn text<'a>(self, name: &str, values: impl Iterator<Item = &'a str>) -> Self {
        self.push(name, false, StringArray::from_iter_values(values))
    }

    pub(crate) fn optional_text<'a>(self, name: &str, values: impl Iterator<Item = Option<&'a str>>) -> Self {
        self.push(name, true, values.collect::<StringArray>())
    }

    /// A nested value as JSON text.
    pub(crate) fn json<T: serde::Serialize>(self, name: &str, values: impl Iterator<Item = T>) -> Self {
        let texts = values.map(|value| serde_json::to_string(&value).unwrap_or_else(|error| format!("\"{error}\"")));
        self.push(name, false, StringArray::from_iter_values(texts))
    }

    /// An optional nested value as JSON text.
    pub(crate) fn optional_json<T: serde::Serialize>(
        self,
        name: &str,
        values: impl Iterator<Item = Option<T>>,
    ) -> Self {
        let text = |value: T| serde_json::to_string(&value).unwrap_or_else(|error| format!("\"{error}\""));
        self.push(name, true, values.map(|value| value.map(text)).collect::<StringArray>())
    }

    fn u8(self, name: &str, values: impl Iterator<Item = u8>) -> Self {
        self.push(name, false, UInt8Array::from_iter_values(values))
    }

    fn u32(self, name: &str, values: impl Iterator<Item = u32>) -> Self {
        self.push(name, false, UInt32Array::from_iter_values(values))
    }

    fn optional_u32(self, name: &str, values: impl Iterator<Item = Option<u32>>) -> Self {
        self.push(name, true, values.collect::<UInt32Array>())
    }

    fn u64(self, name: &str, values: impl Iterator<Item = u64>) -> Self {
        self.push(name, false, UInt64Array::from_iter_values(values))
    }

    pub(crate) fn optional_u64(self, name: &str, values: impl Iterator<Item = Option<u64>>) -> Self {
        self.push(name, true, values.collect::<UInt64Array>())
    }

    fn f64(self, name: &str, values: impl Iterator<Item = f64>) -> Self {
        self.push(name, false, Float64Array::from_iter_values(values))
    }

    pub(crate) fn optional_f64(self, name: &str, values: impl Iterator<Item = Option<f64>>) -> Self {
        self.push(name, true, values.collect::<Float64Array>())
    }

    fn boolean(self, name: &str, values: impl Iterator<Item = bool>) -> Self {
        self.push(name, false, BooleanArray::from(values.collect::<Vec<_>>()))
    }

    fn batch(self) -> Result<RecordBatch, Error> {
        let (fields, arrays): (Vec<_>, Vec<_>) = self.0.into_iter().unzip();
        let metadata = HashMap::from([("reverie.version".to_owned(), VERSION.to_string())]);
        RecordBatch::try_new(Arc::new(Schema::new_with_metadata(fields, metadata)), arrays).map_err(Error::table)
    }
}

/// A batch that is being read.
pub struct TableBatch<'a>(&'a RecordBatch);

impl TableBatch<'_> {
    pub(crate) fn len(&self) -> usize {
        self.0.num_rows()
    }

    fn column<T: Array + 'static>(&self, name: &str) -> Result<&T, Error> {
        self.0
            .column_by_name(name)
            .and_then(|column| column.as_any().downcast_ref::<T>())
            .ok_or_else(|| Error::table(format!("the column `{name}` is missing or of another type")))
    }

    pub(crate) fn text(&self, name: &str) -> Result<&StringArray, Error> {
        self.column(name)
    }

    fn u32(&self, name: &str) -> Result<&UInt32Array, Error> {
        self.column(name)
    }

    fn u64(&self, name: &str) -> Result<&UInt64Array, Error> {
        self.column(name)
    }

    fn f64(&self, name: &str) -> Result<&Float64Array, Error> {
        self.column(name)
    }
}

pub(crate) fn optional_text(array: &StringArray, i: usize) -> Option<String> {
    (!array.is_null(i)).then(|| array.value(i).to_owned())
}

fn optional_u32(array: &UInt32Array, i: usize) -> Option<u32> {
    (!array.is_null(i)).then(|| array.value(i))
}

pub(crate) fn json<T: serde::de::DeserializeOwned>(array: &StringArray, i: usize) -> Result<T, Error> {
    serde_json::from_str(array.value(i)).map_err(Error::table)
}

/// A whole table as one Parquet file. Equal rows give equal bytes.
///
/// # Errors
/// If Arrow or Parquet refuse the rows.
pub fn encode<T: ArtifactTable>(rows: &[T]) -> Result<Bytes, Error> {
    write(&T::columns(rows).batch()?)
}

/// The rows of a Parquet file.
///
/// # Errors
/// If the file is damaged or of another kind.
pub fn decode<T: ArtifactTable>(bytes: Bytes) -> Result<Vec<T>, Error> {
    let mut rows = Vec::new();
    for batch in batches(bytes)? {
        rows.extend(T::rows(&TableBatch(&batch?))?);
    }
    Ok(rows)
}

/// Whether a table can be read, whatever its kind.
pub(crate) fn check(bytes: Bytes) -> Result<(), Error> {
    batches(bytes)?.try_for_each(|batch| batch.map(drop))
}

/// Rows as one Arrow batch, with the columns of their table.
///
/// # Errors
/// If Arrow refuses them.
pub fn to_batch<T: ArtifactTable>(rows: &[T]) -> Result<RecordBatch, Error> {
    T::columns(rows).batch()
}

/// The columns of a table: what [`to_batch`] makes, whatever the rows.
///
/// # Errors
/// If Arrow refuses them.
pub fn schema<T: ArtifactTable>() -> Result<Arc<Schema>, Error> {
    Ok(to_batch::<T>(&[])?.schema())
}

/// The rows of an Arrow batch; columns that do not belong to their table are ignored.
///
/// # Errors
/// If a column is missing or of another type.
pub fn from_batch<T: ArtifactTable>(batch: &RecordBatch) -> Result<Vec<T>, Error> {
    T::rows(&TableBatch(batch))
}

fn write(batch: &RecordBatch) -> Result<Bytes, Error> {
    let schema = batch.schema();
    let properties = writer_properties(&schema, batch.columns().iter().map(content_bytes))?;
    let mut writer = ArrowWriter::try_new(Vec::new(), schema, Some(properties)).map_err(Error::table)?;
    writer.write(batch).map_err(Error::table)?;
    Ok(Bytes::from(writer.into_inner().map_err(Error::table)?))
}

/// How the file of a table is written. `bytes` are those of each column in all rows ([`content_bytes`]).
///
/// # Errors
/// If Parquet refuses the level of its compression.
pub fn writer_properties(schema: &Schema, bytes: impl IntoIterator<Item = usize>) -> Result<WriterProperties, Error> {
    let short = schema.fields().iter().zip(bytes).filter(|(_, bytes)| *bytes < FEW_BYTES);
    let properties = short.fold(properties()?, |properties, (field, _)| {
        let path = ColumnPath::new(vec![field.name().clone()]);
        properties.set_column_compression(path, Compression::UNCOMPRESSED)
    });
    Ok(properties.build())
}

fn properties() -> Result<WriterPropertiesBuilder, Error> {
    let level = ZstdLevel::try_new(3).map_err(Error::table)?;
    Ok(WriterProperties::builder().set_compression(Compression::ZSTD(level)))
}

/// Artifacts that are read and decoded at once.
pub(crate) const SHARDS_AT_ONCE: usize = 8;

/// A column of fewer bytes is not compressed: a shard of a corpus has many short columns, and making ready to pack or unpack
/// one takes longer than reading it.
const FEW_BYTES: usize = 4096;

/// The bytes of a column's values.
pub fn content_bytes(column: &ArrayRef) -> usize {
    let texts = column.as_any().downcast_ref::<StringArray>();
    let width = || column.data_type().primitive_width().unwrap_or(1);
    texts.map_or_else(|| column.len() * width(), |texts| texts.value_data().len())
}

/// Rows that are unpacked at once.
const ROWS_AT_ONCE: usize = 256;
/// The most numbers of a vector.
const MOST_NUMBERS: i32 = 1 << 16;
/// A table may unpack to this many bytes plus [`MOST_EXPANSION`] times the bytes of its file. Tables of Reverie unpack
/// to 2 to 30 times their file; a malicious file unpacks to a hundred thousand times.
const MOST_BYTES: u64 = 256 << 20;
const MOST_EXPANSION: u64 = 100;

/// The batches of a Parquet file. A file of a few kilobytes may be made to fill the memory: it holds a long text once, and
/// names it in all rows. So texts are read as views of the file's pages, and counted before they are copied.
///
/// # Errors
/// If the file is damaged, or unpacks to more than its bytes allow.
fn batches(bytes: Bytes) -> Result<impl Iterator<Item = Result<RecordBatch, Error>>, Error> {
    let n_bytes = bytes.len() as u64;
    let metadata = ArrowReaderMetadata::load(&bytes, ArrowReaderOptions::new()).map_err(Error::table)?;
    let views = metadata.schema().fields().iter().map(|field| view_of(field)).collect::<Result<Vec<_>, _>>()?;
    let (schema, views) = (metadata.schema().clone(), Schema::new_with_metadata(views, HashMap::new()));
    let options = ArrowReaderOptions::new().with_schema(Arc::new(views));
    let metadata = ArrowReaderMetadata::try_new(metadata.metadata().clone(), options).map_err(Error::table)?;
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(bytes, metadata).with_batch_size(ROWS_AT_ONCE);
    let mut unpacked = 0;
    Ok(reader.build().map_err(Error::table)?.map(move |batch| {
        let batch = batch.map_err(Error::table)?;
        unpacked += batch.columns().iter().map(unpacked_bytes).sum::<u64>();
        if unpacked > MOST_BYTES + MOST_EXPANSION * n_bytes {
            let reason = format!("it has {n_bytes} bytes, and unpacks to far more than a table does");
            return Err(Error::table(reason));
        }
        let columns = batch.columns().iter().map(|column| match column.as_any().downcast_ref::<StringViewArray>() {
            Some(texts) => Arc::new(texts.iter().collect::<StringArray>()) as ArrayRef,
            None => column.clone(),
        });
        RecordBatch::try_new(schema.clone(), columns.collect()).map_err(Error::table)
    }))
}

/// The field of a table as it is read. Only the types that tables have are allowed: a few bytes of another type may
/// unpack to a row that fills the memory.
fn view_of(field: &Field) -> Result<Field, Error> {
    use DataType::{Boolean, FixedSizeList, Float32, Float64, UInt8, UInt32, UInt64, Utf8, Utf8View};
    match field.data_type() {
        Utf8 => Ok(field.clone().with_data_type(Utf8View)),
        Boolean | Float64 | UInt8 | UInt32 | UInt64 => Ok(field.clone()),
        FixedSizeList(item, 0..=MOST_NUMBERS) if *item.data_type() == Float32 => Ok(field.clone()),
        other => Err(Error::table(format!("the column `{}` is of the type {other}, which no table has", field.name()))),
    }
}

/// The bytes of a column once its texts are copied.
fn unpacked_bytes(column: &ArrayRef) -> u64 {
    match column.as_any().downcast_ref::<StringViewArray>() {
        // The lowest half of a view is the length of its text.
        Some(texts) => texts.views().iter().map(|view| u64::from(*view as u32)).sum(),
        None => column.get_array_memory_size() as u64,
    }
}

#[cfg(test)]
mod round_trip_tests;
#[cfg(test)]
mod tests {
    use super::*;

    /// A file of many rows, all with one long text, which the file holds once.
    fn of_one_text(rows: usize) -> Bytes {
        const BYTES: usize = 120_000;
        let schema = Arc::new(Schema::new(vec![Field::new("text", DataType::Utf8, false)]));
        let text = "otters live ".repeat(BYTES / 12);
        let column = Arc::new(StringArray::from_iter_values(std::iter::repeat_n(text.as_str(), 100)));
        let batch = RecordBatch::try_new(schema.clone(), vec![column]).unwrap();
        let mut writer = ArrowWriter::try_new(Vec::new(), schema, Some(properties().unwrap().build())).unwrap();
        for _ in 0..rows / 100 {
            writer.write(&batch).unwrap();
        }
        Bytes::from(writer.into_inner().unwrap())
    }

    #[test]
    fn a_file_that_unpacks_to_far_more_than_a_table_is_refused_before_it_fills_the_memory() {
        let bomb = of_one_text(3000);
        assert!(bomb.len() < 20_000, "{} bytes", bomb.len());
        let refused = check(bomb).unwrap_err().to_string();
        assert!(refused.contains("unpacks to far more"), "{refused}");
        check(of_one_text(1000)).unwrap();
    }

    #[test]
    fn a_column_of_a_type_that_no_table_has_is_refused_before_it_is_read() {
        let column = Arc::new(arrow_array::Int64Array::from(vec![7; 3]));
        let schema = Arc::new(Schema::new(vec![Field::new("more", DataType::Int64, false)]));
        let refused =
            check(write(&RecordBatch::try_new(schema, vec![column]).unwrap()).unwrap()).unwrap_err().to_string();
        assert!(refused.contains("the column `more` is of the type Int64"), "{refused}");
    }
}
