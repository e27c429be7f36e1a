//! Artifacts as Parquet tables, so that pandas, Polars, DuckDB and Ray Data
//! read them. One file per kind of row; the schema's version is in its metadata.

mod answers;
mod chunks;
mod documents;
mod enriched;
mod passages;
mod queries;
mod scores;
mod vectors;

pub use answers::{AnswerRow, NoAnswer};
pub use documents::DocumentRow;
pub use enriched::EnrichedRow;
pub use passages::PassageRow;
pub use queries::QueryRow;
pub use scores::ScoreRow;
pub use vectors::{decode_vectors, encode_vectors};

use crate::Error;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt8Array, UInt32Array, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;
use parquet::{
    arrow::{ArrowWriter, arrow_reader::ParquetRecordBatchReaderBuilder},
    basic::{Compression, ZstdLevel},
    file::properties::WriterProperties,
};
use std::{collections::HashMap, sync::Arc};

/// Raise when any table's columns change their meaning: part of every task key.
pub const VERSION: u32 = 2;

/// Rows of one kind.
pub trait Table: Sized {
    /// The columns, in order.
    fn columns(rows: &[Self]) -> Columns;
    /// The rows of one batch.
    ///
    /// # Errors
    /// If a column is missing or of another type.
    fn rows(batch: &Batch<'_>) -> Result<Vec<Self>, Error>;
}

/// Columns being built.
#[derive(Default)]
pub struct Columns(Vec<(Field, ArrayRef)>);

impl Columns {
    /// `nullable` depends on the table, never on its present rows: all tables
    /// of one kind have the same schema.
    fn push(mut self, name: &str, nullable: bool, array: impl Array + 'static) -> Self {
        let field = Field::new(name, array.data_type().clone(), nullable);
        self.0.push((field, Arc::new(array)));
        self
    }

    fn text<'a>(self, name: &str, values: impl Iterator<Item = &'a str>) -> Self {
        self.push(name, false, StringArray::from_iter_values(values))
    }

    fn optional_text<'a>(self, name: &str, values: impl Iterator<Item = Option<&'a str>>) -> Self {
        self.push(name, true, values.collect::<StringArray>())
    }

    /// A nested value as JSON text.
    fn json<T: serde::Serialize>(self, name: &str, values: impl Iterator<Item = T>) -> Self {
        let texts = values.map(|value| serde_json::to_string(&value).unwrap_or_else(|error| format!("\"{error}\"")));
        self.push(name, false, StringArray::from_iter_values(texts))
    }

    /// The same where there is one.
    fn optional_json<T: serde::Serialize>(self, name: &str, values: impl Iterator<Item = Option<T>>) -> Self {
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

    fn f64(self, name: &str, values: impl Iterator<Item = f64>) -> Self {
        self.push(name, false, Float64Array::from_iter_values(values))
    }

    fn optional_f64(self, name: &str, values: impl Iterator<Item = Option<f64>>) -> Self {
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

/// A batch being read.
pub struct Batch<'a>(&'a RecordBatch);

impl Batch<'_> {
    fn len(&self) -> usize {
        self.0.num_rows()
    }

    fn column<T: Array + 'static>(&self, name: &str) -> Result<&T, Error> {
        self.0
            .column_by_name(name)
            .and_then(|column| column.as_any().downcast_ref::<T>())
            .ok_or_else(|| Error::table(format!("the column `{name}` is missing or of another type")))
    }

    fn text(&self, name: &str) -> Result<&StringArray, Error> {
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

fn optional_text(array: &StringArray, i: usize) -> Option<String> {
    (!array.is_null(i)).then(|| array.value(i).to_owned())
}

fn optional_u32(array: &UInt32Array, i: usize) -> Option<u32> {
    (!array.is_null(i)).then(|| array.value(i))
}

fn json<T: serde::de::DeserializeOwned>(array: &StringArray, i: usize) -> Result<T, Error> {
    serde_json::from_str(array.value(i)).map_err(Error::table)
}

/// A whole table as one Parquet file. Equal rows give equal bytes.
///
/// # Errors
/// If Arrow or Parquet refuse the rows.
pub fn encode<T: Table>(rows: &[T]) -> Result<Bytes, Error> {
    write(&T::columns(rows).batch()?)
}

/// The rows of a Parquet file.
///
/// # Errors
/// If the file is damaged or of another kind.
pub fn decode<T: Table>(bytes: Bytes) -> Result<Vec<T>, Error> {
    let mut rows = Vec::new();
    for batch in read(bytes)? {
        rows.extend(T::rows(&Batch(&batch))?);
    }
    Ok(rows)
}

/// Whether a table can be read, whatever its kind.
pub(crate) fn check(bytes: Bytes) -> Result<(), Error> {
    read(bytes).map(drop)
}

/// Rows as one Arrow batch, with the columns of their table.
///
/// # Errors
/// If Arrow refuses them.
pub fn to_batch<T: Table>(rows: &[T]) -> Result<RecordBatch, Error> {
    T::columns(rows).batch()
}

/// The columns of a table: what [`to_batch`] makes, whatever the rows.
///
/// # Errors
/// If Arrow refuses them.
pub fn schema<T: Table>() -> Result<Arc<Schema>, Error> {
    Ok(to_batch::<T>(&[])?.schema())
}

/// The rows of an Arrow batch; columns that do not belong to their table are ignored.
///
/// # Errors
/// If a column is missing or of another type.
pub fn from_batch<T: Table>(batch: &RecordBatch) -> Result<Vec<T>, Error> {
    T::rows(&Batch(batch))
}

fn write(batch: &RecordBatch) -> Result<Bytes, Error> {
    let level = ZstdLevel::try_new(3).map_err(Error::table)?;
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).map_err(Error::table)?;
    writer.write(batch).map_err(Error::table)?;
    Ok(Bytes::from(writer.into_inner().map_err(Error::table)?))
}

fn read(bytes: Bytes) -> Result<Vec<RecordBatch>, Error> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).and_then(ParquetRecordBatchReaderBuilder::build);
    reader.map_err(Error::table)?.collect::<Result<_, _>>().map_err(Error::table)
}

/// An empty column of the given type, for tables without rows.
fn empty_field(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, false)
}
