//! Reads Arrow batches that pandas, Polars and other programs made from batches
//! of our stages. They use other types for the same texts and numbers, lose the
//! flags of nullable columns, and may lack columns that are not needed.

use super::work::value_error;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Float32Array, RecordBatch, RecordBatchReader, StringArray, UInt8Array,
    UInt32Array, UInt64Array,
    cast::AsArray,
    ffi_stream::RecordBatchStreamReader,
    new_null_array,
    types::{
        ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
        UInt32Type, UInt64Type,
    },
};
use arrow_pyarrow::FromPyArrow;
use arrow_schema::{DataType, Schema};
use arrow_select::{concat::concat_batches, take::take};
use pyo3::prelude::*;
use std::sync::Arc;

/// A batch from Python: a record batch, or an object that streams batches, such as
/// a table or a data frame.
pub(crate) struct ArrowBatch(pub(crate) RecordBatch);

impl<'py> FromPyObject<'_, 'py> for ArrowBatch {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let value: &Bound<'py, PyAny> = &object;
        if value.hasattr("__arrow_c_array__")? || !value.hasattr("__arrow_c_stream__")? {
            return RecordBatch::from_pyarrow_bound(value).map(Self);
        }
        let reader = RecordBatchStreamReader::from_pyarrow_bound(value)?;
        let schema = reader.schema();
        let batches: Vec<RecordBatch> = reader.collect::<Result<_, _>>().map_err(value_error)?;
        concat_batches(&schema, &batches).map(Self).map_err(value_error)
    }
}

/// The batch with exactly these columns. A missing column is made by `fill`, or
/// is all nulls if the schema allows nulls.
pub(crate) fn select_columns(
    batch: &RecordBatch,
    schema: &Arc<Schema>,
    fill: impl Fn(&str) -> Option<ArrayRef>,
) -> PyResult<RecordBatch> {
    let column = |name: &str, to: &DataType, nullable: bool| {
        let Some(array) = batch.column_by_name(name).filter(|array| *array.data_type() != DataType::Null) else {
            let missing = || nullable.then(|| new_null_array(to, batch.num_rows()));
            return fill(name).or_else(missing).ok_or_else(|| missing_column(batch, name));
        };
        let array = convert(name, array, to)?;
        match array.null_count() {
            1.. if !nullable => Err(value_error(format!(
                "the column `{name}` has no value in row {}",
                (0..array.len()).find(|&row| array.is_null(row)).unwrap_or_default()
            ))),
            _ => Ok(array),
        }
    };
    let columns = schema.fields().iter().map(|field| column(field.name(), field.data_type(), field.is_nullable()));
    RecordBatch::try_new(schema.clone(), columns.collect::<PyResult<_>>()?).map_err(value_error)
}

/// A column by its name.
pub(crate) fn column<'a>(batch: &'a RecordBatch, name: &str) -> PyResult<&'a ArrayRef> {
    batch.column_by_name(name).ok_or_else(|| missing_column(batch, name))
}

fn missing_column(batch: &RecordBatch, name: &str) -> PyErr {
    let schema = batch.schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    value_error(format!("the column `{name}` is missing; there are {}", names.join(", ")))
}

/// A column of texts.
pub(crate) fn texts(batch: &RecordBatch, name: &str) -> PyResult<StringArray> {
    Ok(convert(name, column(batch, name)?, &DataType::Utf8)?.as_string::<i32>().clone())
}

/// A column of bytes.
pub(crate) fn bytes(batch: &RecordBatch, name: &str) -> PyResult<BinaryArray> {
    Ok(convert(name, column(batch, name)?, &DataType::Binary)?.as_binary::<i32>().clone())
}

/// A column of truth values; all true if the column is missing.
pub(crate) fn truths(batch: &RecordBatch, name: &str) -> PyResult<BooleanArray> {
    match batch.column_by_name(name) {
        None => Ok(BooleanArray::from(vec![true; batch.num_rows()])),
        Some(array) => Ok(convert(name, array, &DataType::Boolean)?.as_boolean().clone()),
    }
}

/// The length of a column's vectors, and the vector of each row; `None` for a row without
/// a vector.
pub(crate) fn vectors(batch: &RecordBatch, name: &str) -> PyResult<(usize, Vec<Option<ArrayRef>>)> {
    let array = column(batch, name)?;
    let is_null = |row: usize| array.is_null(row);
    let row = |row: usize| match array.data_type() {
        DataType::FixedSizeList(..) => Some(array.as_fixed_size_list().value(row)),
        DataType::List(_) => Some(array.as_list::<i32>().value(row)),
        DataType::LargeList(_) => Some(array.as_list::<i64>().value(row)),
        _ => None,
    };
    let mut width = None;
    let mut found = Vec::with_capacity(array.len());
    for i in 0..array.len() {
        if is_null(i) {
            found.push(None);
            continue;
        }
        let items = row(i).ok_or_else(|| wrong_type(name, array.data_type(), "lists of numbers"))?;
        let items = match items.data_type() {
            DataType::Float32 => items,
            DataType::Float64 => {
                let numbers = items.as_primitive::<Float64Type>().iter().map(|number| number.map(|n| n as f32));
                Arc::new(numbers.collect::<Float32Array>()) as ArrayRef
            }
            other => return Err(wrong_type(name, other, "numbers")),
        };
        if *width.get_or_insert(items.len()) != items.len() || items.null_count() > 0 {
            return Err(value_error(format!(
                "the column `{name}` has vectors of different lengths, or with missing numbers (row {i})"
            )));
        }
        found.push(Some(items));
    }
    Ok((width.unwrap_or_default(), found))
}

fn wrong_type(name: &str, from: &DataType, wanted: &str) -> PyErr {
    value_error(format!("the column `{name}` is of the type {from}, and {wanted} are wanted"))
}

fn convert(name: &str, array: &ArrayRef, to: &DataType) -> PyResult<ArrayRef> {
    if array.data_type() == to {
        return Ok(array.clone());
    }
    if *array.data_type() == DataType::Null {
        return Ok(new_null_array(to, array.len()));
    }
    if let Some(dictionary) = array.as_any_dictionary_opt() {
        let plain = take(dictionary.values(), dictionary.keys(), None).map_err(value_error)?;
        return convert(name, &plain, to);
    }
    let refused = |wanted: &str| wrong_type(name, array.data_type(), wanted);
    Ok(match to {
        DataType::Utf8 => Arc::new(match array.data_type() {
            DataType::LargeUtf8 => array.as_string::<i64>().iter().collect::<StringArray>(),
            DataType::Utf8View => array.as_string_view().iter().collect(),
            _ => return Err(refused("texts")),
        }),
        DataType::Binary => Arc::new(match array.data_type() {
            DataType::LargeBinary => array.as_binary::<i64>().iter().collect::<BinaryArray>(),
            DataType::BinaryView => array.as_binary_view().iter().collect(),
            DataType::FixedSizeBinary(_) => array.as_fixed_size_binary().iter().collect(),
            _ => return Err(refused("bytes")),
        }),
        DataType::UInt8 => Arc::new(to_integers::<UInt8Type>(name, array)?.collect::<PyResult<UInt8Array>>()?),
        DataType::UInt32 => Arc::new(to_integers::<UInt32Type>(name, array)?.collect::<PyResult<UInt32Array>>()?),
        DataType::UInt64 => Arc::new(to_integers::<UInt64Type>(name, array)?.collect::<PyResult<UInt64Array>>()?),
        _ => return Err(refused(&format!("values of the type {to}"))),
    })
}

/// Numbers as numbers of another type. pandas writes integers as floats if some
/// are missing.
fn to_integers<To: ArrowPrimitiveType>(
    name: &str,
    array: &ArrayRef,
) -> PyResult<impl Iterator<Item = PyResult<Option<To::Native>>>>
where
    To::Native: TryFrom<i128>,
{
    fn whole<T: ArrowPrimitiveType<Native: Into<i128>>>(array: &ArrayRef) -> Vec<Option<i128>> {
        array.as_primitive::<T>().iter().map(|number| number.map(Into::into)).collect()
    }
    fn real<T: ArrowPrimitiveType<Native: Into<f64>>>(array: &ArrayRef) -> Vec<Option<i128>> {
        let number = |number: T::Native| {
            let number: f64 = number.into();
            // A number with a fraction becomes -1, which fits none of the wanted types: all are unsigned.
            if number.is_nan() { None } else { Some(if number.fract() == 0.0 { number as i128 } else { -1 }) }
        };
        array.as_primitive::<T>().iter().map(|value| value.and_then(number)).collect()
    }
    let numbers = match array.data_type() {
        DataType::Int8 => whole::<Int8Type>(array),
        DataType::Int16 => whole::<Int16Type>(array),
        DataType::Int32 => whole::<Int32Type>(array),
        DataType::Int64 => whole::<Int64Type>(array),
        DataType::UInt8 => whole::<UInt8Type>(array),
        DataType::UInt16 => whole::<UInt16Type>(array),
        DataType::UInt32 => whole::<UInt32Type>(array),
        DataType::UInt64 => whole::<UInt64Type>(array),
        DataType::Float32 => real::<Float32Type>(array),
        DataType::Float64 => real::<Float64Type>(array),
        other => return Err(wrong_type(name, other, "whole numbers")),
    };
    let name = name.to_owned();
    Ok(numbers.into_iter().enumerate().map(move |(row, number)| {
        number.map(To::Native::try_from).transpose().map_err(|_| {
            value_error(format!("the column `{name}`: the number in row {row} does not fit the column's type"))
        })
    }))
}
