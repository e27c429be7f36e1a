//! Rows of data from Python: data frames, Arrow tables, lists of
//! dictionaries or of objects that can be written as dictionaries.

use super::{arrow::ArrowBatch, settings, work::value_error};
use pyo3::{
    exceptions::{PyImportError, PyTypeError},
    prelude::*,
    types::{PyFloat, PyMapping, PyString},
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::path::PathBuf;

/// The rows. `name` is what they are called in messages.
///
/// # Errors
/// `TypeError` or `ValueError` with the row and the column of what cannot be read.
pub(crate) fn rows(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<Map<String, Value>>> {
    // `Questions` of this package need no Arrow.
    if object.hasattr("_records")? {
        return rows(&object.call_method0("_records")?, name);
    }
    if object.hasattr("__arrow_c_stream__")? || object.hasattr("__arrow_c_array__")? {
        let batch: ArrowBatch = object.extract().map_err(|error| unreadable(object, name, error))?;
        let records = lab::rows_of_batch(&batch.0).map_err(|reason| value_error(format!("{name}: {reason}")))?;
        return Ok(records.into_iter().map(remove_index).collect());
    }
    let is_one = object.is_instance_of::<PyMapping>() || object.is_instance_of::<PyString>();
    let items = if is_one { None } else { object.try_iter().ok() };
    let Some(items) = items else {
        let kind = object.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "{name}: expected a data frame, an Arrow table, a list of dictionaries or the path of a file, not a {kind}"
        )));
    };
    items.enumerate().map(|(i, item)| row(&item?, &format!("{name}, row {i} (from 0)"))).collect()
}

/// The rows as values of a type; the error lists all mistakes with their rows.
///
/// # Errors
/// As [`rows`], or `ValueError` with what the rows lack.
pub(crate) fn read_typed<T: DeserializeOwned>(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<T>> {
    let (mut read, mut faults) = (Vec::new(), Vec::new());
    for (i, row) in rows(object, name)?.into_iter().enumerate() {
        // A missing value of a data frame is the same as a missing key.
        let given: Map<String, Value> = row.into_iter().filter(|(_, value)| !value.is_null()).collect();
        match serde_json::from_value(Value::Object(given)) {
            Ok(row) => read.push(row),
            Err(error) => faults.push(format!("{name}, row {i} (from 0): {error}")),
        }
    }
    if faults.is_empty() { Ok(read) } else { Err(value_error(faults.join("\n"))) }
}

/// The path, if the object is one.
pub(crate) fn path(object: &Bound<'_, PyAny>) -> PyResult<Option<PathBuf>> {
    match object.is_instance_of::<PyString>() || object.hasattr("__fspath__")? {
        true => object.extract().map(Some),
        false => Ok(None),
    }
}

fn row(item: &Bound<'_, PyAny>, place: &str) -> PyResult<Map<String, Value>> {
    // Samples of Ragas are models of pydantic.
    let dumped = if item.hasattr("model_dump")? { Some(item.call_method0("model_dump")?) } else { None };
    let item = dumped.as_ref().unwrap_or(item);
    let Ok(mapping) = item.cast::<PyMapping>() else {
        let kind = item.get_type().name()?;
        return Err(PyTypeError::new_err(format!("{place}: expected a dictionary, not a {kind}")));
    };
    let mut fields = Map::new();
    for pair in mapping.items()?.iter() {
        let (key, value) = pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
        let key = key.str()?.to_str()?.to_owned();
        // pandas marks a missing value by NaN.
        let is_missing = value.is_none() || value.cast::<PyFloat>().is_ok_and(|number| number.value().is_nan());
        let read = if is_missing { Value::Null } else { settings::value_of(&value, &format!("{place}: `{key}`"))? };
        fields.insert(key, read);
    }
    Ok(fields)
}

/// A row without the index of its data frame, which pandas gives Arrow as a
/// column of such a name: it says which row was taken, and nothing of the row.
fn remove_index(mut row: Map<String, Value>) -> Map<String, Value> {
    row.retain(|name, _| !name.strip_prefix("__index_level_").is_some_and(|rest| rest.ends_with("__")));
    row
}

/// Why a data frame could not be read, with what to do.
fn unreadable(object: &Bound<'_, PyAny>, name: &str, error: PyErr) -> PyErr {
    let py = object.py();
    // pandas raises an ImportError of its own for a package that is missing.
    let how = if error.is_instance_of::<PyImportError>(py) {
        "the package pyarrow is missing: `pip install pyarrow`, or give its rows as dictionaries"
    } else {
        "every column needs values of one type: texts, numbers, truth values, or lists of these"
    };
    let raised = value_error(format!("{name}: the table cannot be read: {how} ({})", error.value(py)));
    raised.set_cause(py, Some(error));
    raised
}
