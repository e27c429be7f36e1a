//! Filters in Milvus' language of conditions. It cannot say all of them, so each condition here lets through at least
//! what passes, and the records are looked at again.

use super::{
    field_data::data_type,
    messages::FieldSchema,
    schema::{DYNAMIC, FieldSource, RecordShape, filled},
};
use crate::{
    FieldTest, RecordFilter, RecordId, RecordLayout, ScalarValue,
    filter::{BoundKind, FieldBounds},
};
use serde_json::{Map, Value};

/// Beyond it not every integer is a 64-bit float.
const EXACT_INTEGERS: f64 = 9_007_199_254_740_992.0;
/// Values of one test in a condition; more would only slow the server down.
const MAX_VALUES: usize = 256;
/// Words that Milvus takes for something else than the name of a field.
const KEYWORDS: &[&str] =
    &["and", "or", "not", "in", "like", "is", "null", "exists", "true", "false", "iso", "interval"];

/// How exactly Milvus can compare the fields of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FieldsKind {
    /// All values are plain.
    Plain = 0,
    /// There are lists, in which Milvus finds texts, but has no order of items.
    WithLists = 1,
    /// There are lists of numbers, or numbers that are no 64-bit floats.
    Irregular = 2,
}

impl FieldsKind {
    pub(super) fn of(fields: &Map<String, Value>) -> Self {
        let of_number = |number: &serde_json::Number| match number.as_f64() {
            Some(number) if number.abs() < EXACT_INTEGERS => Self::Plain,
            _ => Self::Irregular,
        };
        let kinds = fields.values().map(|value| match value {
            Value::Null | Value::Bool(_) | Value::String(_) | Value::Object(_) => Self::Plain,
            Value::Number(number) => of_number(number),
            Value::Array(items) if items.iter().any(Value::is_number) => Self::Irregular,
            Value::Array(_) => Self::WithLists,
        });
        kinds.max().unwrap_or(Self::Plain)
    }
}

/// A text in Milvus' language.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            character => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

/// That a record has one of these ids. An id that the field cannot hold is that of no record.
pub(super) fn has_id(field: &FieldSchema, ids: &[RecordId]) -> String {
    let values: Vec<String> = ids
        .iter()
        .filter_map(|id| match (field.data_type, id) {
            (data_type::VARCHAR, id) => Some(quoted(&id.to_string())),
            (_, RecordId::Number(number)) => i64::try_from(*number).ok().map(|number| number.to_string()),
            (_, RecordId::Text(text)) => text.parse::<i64>().ok().map(|number| number.to_string()),
        })
        .collect();
    format!("{} in [{}]", field.name, values.join(", "))
}

/// That a record comes after one with this primary key.
pub(super) fn is_after(key: &FieldSchema, last: &str) -> String {
    match key.data_type {
        data_type::VARCHAR => format!("{} > {}", key.name, quoted(last)),
        _ => format!("{} > {last}", key.name),
    }
}

/// Whether no record can pass.
pub(super) fn is_never(filter: &RecordFilter) -> bool {
    filter.ids.as_ref().is_some_and(Vec::is_empty)
        || filter.tests.values().any(|test| matches!(test, FieldTest::OneOf(wanted) if wanted.is_empty()))
}

/// A condition that all records meet that pass the tests of a filter and the user's own condition.
pub(super) fn conditions(shape: &RecordShape, filter: Option<&RecordFilter>) -> Vec<String> {
    let own = match &shape.layout {
        RecordLayout::Existing(fields) => fields.condition.as_ref().map(|condition| format!("({condition})")),
        RecordLayout::Filled => None,
    };
    let tests = filter.into_iter().flat_map(|filter| &filter.tests);
    let tests = tests.filter_map(|(field, test)| match shape.filtered(field) {
        FieldSource::Declared(declared) => on_column(declared, test),
        FieldSource::Key { field, key } => on_key(shape, field, key, test),
        FieldSource::Absent => None,
    });
    own.into_iter().chain(tests).collect()
}

/// All conditions together; an empty text if there are none.
pub(super) fn all(conditions: &[String]) -> String {
    conditions.join(" and ")
}

/// A condition on a field of a user's own schema.
fn on_column(field: &FieldSchema, test: &FieldTest) -> Option<String> {
    let name = is_identifier(&field.name).then_some(field.name.as_str())?;
    match (field.data_type, test) {
        (data_type::VARCHAR, FieldTest::OneOf(wanted)) => {
            one_of(name, wanted, |value| matches!(value, ScalarValue::Text(_)))
        }
        (data_type::INT8 | data_type::INT16 | data_type::INT32 | data_type::INT64, FieldTest::OneOf(wanted)) => {
            // An integer that is rounded to a 64-bit float may equal one of these.
            let is_large =
                |value: &ScalarValue| matches!(value, ScalarValue::Number(number) if number.abs() >= EXACT_INTEGERS);
            if wanted.iter().any(is_large) {
                return None;
            }
            one_of(name, wanted, |value| matches!(value, ScalarValue::Number(number) if number.fract() == 0.0))
        }
        (data_type::ARRAY, FieldTest::OneOf(wanted)) if field.element_type == data_type::VARCHAR => {
            let texts = literals(wanted, |value| matches!(value, ScalarValue::Text(_)))?;
            Some(format!("array_contains_any({name}, [{texts}])"))
        }
        (data_type::VARCHAR, FieldTest::Within(bounds)) => {
            within(name, bounds, |value| matches!(value, ScalarValue::Text(_)).then(|| literal(value)).flatten())
        }
        (
            data_type::INT8 | data_type::INT16 | data_type::INT32 | data_type::INT64 | data_type::DOUBLE,
            FieldTest::Within(bounds),
        ) => within(name, bounds, |value| matches!(value, ScalarValue::Number(_)).then(|| literal(value)).flatten()),
        _ => None,
    }
}

/// That a field equals one of those values that it may hold.
fn one_of(name: &str, wanted: &[ScalarValue], may_hold: impl Fn(&ScalarValue) -> bool) -> Option<String> {
    literals(wanted, may_hold).map(|values| format!("{name} in [{values}]"))
}

/// Values in Milvus' language; none if there is none, or one that it cannot say.
fn literals(wanted: &[ScalarValue], may_hold: impl Fn(&ScalarValue) -> bool) -> Option<String> {
    let values: Option<Vec<String>> = wanted.iter().filter(|value| may_hold(value)).map(literal).collect();
    values.filter(|values| (1..=MAX_VALUES).contains(&values.len())).map(|values| values.join(", "))
}

/// A condition on a key of an object.
fn on_key(shape: &RecordShape, field: &str, key: &str, test: &FieldTest) -> Option<String> {
    let path = match field {
        // Milvus Lite finds items of lists of the dynamic field by their plain name only.
        DYNAMIC => is_identifier(key).then(|| key.to_owned())?,
        field => (is_identifier(field) && is_plain_key(key)).then(|| format!("{field}[\"{key}\"]"))?,
    };
    let is_filled = shape.layout == RecordLayout::Filled;
    match test {
        FieldTest::OneOf(wanted) => {
            let values: Vec<String> = wanted.iter().map(literal).collect::<Option<_>>()?;
            if values.len() > MAX_VALUES {
                return None;
            }
            let mut any: Vec<String> = values.iter().map(|value| format!("{path} == {value}")).collect();
            // Items of lists are compared as integers or as floats.
            let as_float = wanted.iter().zip(&values).filter_map(|(value, text)| match value {
                ScalarValue::Number(_) if !text.contains(['.', 'e']) => Some(format!("{text}.0")),
                _ => None,
            });
            let items: Vec<String> = values.iter().cloned().chain(as_float).collect();
            any.push(format!("json_contains_any({path}, [{}])", items.join(", ")));
            if is_filled {
                any.push(format!("{} == {}", filled::FIELDS_KIND, FieldsKind::Irregular as i32));
            }
            Some(format!("({})", any.join(" or ")))
        }
        // Nothing marks records of a user's own collection that have lists.
        FieldTest::Within(_) if !is_filled => None,
        FieldTest::Within(bounds) => within(&path, bounds, literal)
            .map(|within| format!("({within} or {} > {})", filled::FIELDS_KIND, FieldsKind::Plain as i32)),
    }
}

/// The bounds that Milvus can compare.
fn within(value: &str, bounds: &FieldBounds, literal: impl Fn(&ScalarValue) -> Option<String>) -> Option<String> {
    let bounds = bounds.each().filter_map(|(kind, bound)| {
        let operator = match (kind, bound) {
            // Milvus has no order of booleans, and `not equal` would have to find records without the field.
            (BoundKind::Not, _) | (_, ScalarValue::Bool(_)) => return None,
            // Large integers are compared as integers, and we compare them as 64-bit floats.
            (BoundKind::More | BoundKind::AtLeast, _) => ">=",
            (BoundKind::Less | BoundKind::AtMost, _) => "<=",
        };
        literal(bound).map(|literal| format!("{value} {operator} {literal}"))
    });
    let bounds: Vec<String> = bounds.collect();
    (!bounds.is_empty()).then(|| format!("({})", bounds.join(" and ")))
}

/// A value in Milvus' language; none if it cannot say it.
fn literal(value: &ScalarValue) -> Option<String> {
    match value {
        ScalarValue::Text(text) => (!text.contains(char::is_control)).then(|| quoted(text)),
        ScalarValue::Number(number) if number.abs() >= EXACT_INTEGERS || number.is_nan() => None,
        ScalarValue::Number(number) if number.fract() == 0.0 => Some((*number as i64).to_string()),
        ScalarValue::Number(number) => Some(format!("{number:?}")),
        ScalarValue::Bool(flag) => Some(flag.to_string()),
    }
}

fn is_identifier(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|character: char| character.is_ascii_digit())
        && name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
        && !KEYWORDS.contains(&name.to_lowercase().as_str())
}

/// Whether a key means the same to all versions of Milvus: some take `/` and `~` for parts of a path.
fn is_plain_key(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|character| character.is_alphanumeric() || "_- .".contains(character))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn texts_and_ids_are_quoted() {
        assert_eq!(quoted("it's \"q\" \\ \n\u{e9}"), "\"it's \\\"q\\\" \\\\ \\n\u{e9}\"");
        let field = |data_type| FieldSchema { name: "id".to_owned(), data_type, ..FieldSchema::default() };
        let ids = [RecordId::Number(7), RecordId::Text("a\"b".to_owned()), RecordId::Number(u64::MAX)];
        assert_eq!(has_id(&field(data_type::INT64), &ids), "id in [7]");
        assert_eq!(has_id(&field(data_type::VARCHAR), &ids[..2]), "id in [\"7\", \"a\\\"b\"]");
    }

    #[test]
    fn fields_are_as_exact_as_their_worst_value() {
        let kind = |value: Value| FieldsKind::of(value.as_object().unwrap());
        assert_eq!(kind(json!({ "a": 1, "b": null, "c": { "d": [1] } })), FieldsKind::Plain);
        assert_eq!(kind(json!({ "a": ["x", true] })), FieldsKind::WithLists);
        assert_eq!(kind(json!({ "a": ["x"], "b": [1] })), FieldsKind::Irregular);
        assert_eq!(kind(json!({ "a": u64::MAX })), FieldsKind::Irregular);
    }
}
