//! Settings in the forms that Python programs use: dictionaries, names of
//! components, objects of classes such as `reverie.chunker.Sentence`, decorated
//! functions, paths, NumPy numbers. Only this module converts them to the
//! values that Rust reads settings from.

use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyBool, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple, PyType},
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value, json};

/// Settings that contain themselves would never end.
const DEEPEST: usize = 64;

/// The value of a Python object. In a dictionary, `None` is the same as leaving
/// a setting out.
///
/// # Errors
/// `ValueError` with the place of a value that cannot be a setting.
pub(crate) fn value(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    convert(object, "", 0)
}

/// The value of a Python object, which messages call `name`.
pub(crate) fn value_of(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Value> {
    convert(object, name, 0)
}

/// The same for a component: a name alone is the component with its default
/// settings.
pub(crate) fn component(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    named(object, |name| json!({ name: {} }))
}

/// The same for an embedding model: a name is that of a local model.
pub(crate) fn embedder(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    named(object, |name| json!({ "embedding": { "local": { "model": name } } }))
}

/// The same for a table of settings; without one, all settings have their
/// defaults.
pub(crate) fn table(object: Option<&Bound<'_, PyAny>>) -> PyResult<Value> {
    object.map_or_else(|| Ok(json!({})), |object| named(object, |text| text.into()))
}

/// The value of an object, or of a name. A text that is JSON is parsed.
fn named(object: &Bound<'_, PyAny>, made: impl FnOnce(&str) -> Value) -> PyResult<Value> {
    let Ok(text) = object.cast::<PyString>() else { return value(object) };
    let text = text.to_str()?;
    if text.trim_start().starts_with('{') { parse(text) } else { Ok(made(text)) }
}

fn parse(text: &str) -> PyResult<Value> {
    serde_json::from_str(text).map_err(|error| PyValueError::new_err(format!("{text}: {error}")))
}

/// Settings of a type, from the value that Python gave for `what`.
pub(crate) fn read<T: DeserializeOwned>(what: &str, value: Value) -> PyResult<T> {
    serde_json::from_value(value).map_err(|error| PyValueError::new_err(format!("{what}: {error}")))
}

/// Settings of components as a text, equal for equal settings: for Python's own
/// caches and for other processes.
#[pyfunction]
pub(crate) fn settings(object: &Bound<'_, PyAny>) -> PyResult<String> {
    component(object).map(|value| value.to_string())
}

fn convert(object: &Bound<'_, PyAny>, place: &str, depth: usize) -> PyResult<Value> {
    if depth > DEEPEST {
        return Err(wrong("", "settings are nested too deep: do they hold themselves?"));
    }
    if object.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(truth) = object.cast::<PyBool>() {
        return Ok(truth.is_true().into());
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(text.to_str()?.into());
    }
    if let Ok(number) = object.cast::<PyInt>() {
        let small = number.extract::<i64>().map(Number::from);
        let number = small.or_else(|_| number.extract::<u64>().map(Number::from));
        return number.map(Value::Number).map_err(|_| wrong(place, "the number is too large"));
    }
    if let Ok(number) = object.cast::<PyFloat>() {
        let number = Number::from_f64(number.value());
        return number.map(Value::Number).ok_or_else(|| wrong(place, "expected a finite number"));
    }
    if object.is_instance_of::<PyType>() {
        let name = object.getattr("__name__")?;
        return Err(wrong(place, &format!("`{name}` is a class: write `{name}()`")));
    }
    // A component with its settings, or a function that was decorated.
    if object.hasattr("setting")? && !object.is_instance_of::<PyMapping>() {
        return convert(&object.call_method0("setting")?, place, depth + 1);
    }
    if let Ok(mapping) = object.cast::<PyMapping>() {
        return convert_mapping(mapping, place, depth);
    }
    if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        let items = object.try_iter()?.enumerate();
        let items = items.map(|(i, item)| convert(&item?, &format!("{place}[{i}]"), depth + 1));
        return items.collect::<PyResult<Vec<Value>>>().map(Value::Array);
    }
    // Numbers and arrays of NumPy.
    if object.hasattr("tolist")? {
        return convert(&object.call_method0("tolist")?, place, depth + 1);
    }
    if object.hasattr("__fspath__")? {
        return convert(&object.call_method0("__fspath__")?, place, depth + 1);
    }
    if object.is_callable() {
        let name = object.getattr("__name__").or_else(|_| object.str().map(Bound::into_any))?;
        if place == "evaluate.judge" || place.starts_with("evaluate.judge[") {
            let reason = "an experiment is run again without this program, so its judges are models with names: put one \
                          into `models`, or score answers with a function by `reverie.evaluate(judge=…)`";
            return Err(wrong(place, &format!("`{name}` is a function: {reason}")));
        }
        return Err(wrong(
            place,
            &format!(
                "`{name}` is a function: decorate it with `reverie.metric`, `reverie.chunker` or another stage's name"
            ),
        ));
    }
    let kind = object.get_type().name()?;
    Err(PyTypeError::new_err(at(place, &format!("expected a text, a number, a list or a dictionary, not a {kind}"))))
}

fn convert_mapping(mapping: &Bound<'_, PyMapping>, place: &str, depth: usize) -> PyResult<Value> {
    let mut table = Map::new();
    for pair in mapping.items()?.iter() {
        let (key, value) = pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
        let key = key.str()?.to_str()?.to_owned();
        let below = if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
        if !value.is_none() {
            table.insert(key, convert(&value, &below, depth + 1)?);
        }
    }
    Ok(Value::Object(table))
}

fn at(place: &str, reason: &str) -> String {
    if place.is_empty() { reason.to_owned() } else { format!("{place}: {reason}") }
}

fn wrong(place: &str, reason: &str) -> PyErr {
    PyValueError::new_err(at(place, reason))
}
