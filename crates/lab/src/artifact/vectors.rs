//! What `embed` makes: one vector per searchable chunk (or question), in order.

use super::{batches, write};
use crate::Error;
use arrow_array::{Array, FixedSizeListArray, Float32Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;
use models::Matrix;
use std::sync::Arc;

/// A matrix as a Parquet table with one column, `vector`.
///
/// # Errors
/// If Arrow or Parquet refuse it.
pub fn encode_vectors(matrix: &Matrix) -> Result<Bytes, Error> {
    let item = Arc::new(Field::new("item", DataType::Float32, false));
    let width = i32::try_from(matrix.columns.max(1)).map_err(Error::table)?;
    let values = Arc::new(Float32Array::from(matrix.data.clone()));
    let list = FixedSizeListArray::try_new(item, width, values, None).map_err(Error::table)?;
    let schema = Schema::new(vec![Field::new("vector", list.data_type().clone(), false)]);
    write(&RecordBatch::try_new(Arc::new(schema), vec![Arc::new(list)]).map_err(Error::table)?)
}

/// The matrix of such a table.
///
/// # Errors
/// If the file is damaged or of another kind.
pub fn decode_vectors(bytes: Bytes) -> Result<Matrix, Error> {
    let mut matrix = Matrix::default();
    for batch in batches(bytes)? {
        let batch = batch?;
        let list =
            batch.column_by_name("vector").and_then(|column| column.as_any().downcast_ref::<FixedSizeListArray>());
        let list = list.ok_or_else(|| Error::table("the column `vector` is missing or of another type"))?;
        let values = list.values().as_any().downcast_ref::<Float32Array>();
        let values = values.ok_or_else(|| Error::table("the vectors are not float32"))?;
        matrix.columns = usize::try_from(list.value_length()).map_err(Error::table)?;
        matrix.data.extend_from_slice(values.values());
    }
    Ok(matrix)
}
