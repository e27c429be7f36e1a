//! Filters in Chroma's language. Chroma cannot say all of them, so each condition here lets through at least what
//! passes, and the records are looked at again.

use crate::{FieldTest, RecordFilter, ScalarValue, filter::BoundKind};
use serde_json::{Map, Value, json};

/// A key of the metadata of records that have a field that is no plain text, number or boolean.
pub(super) const IRREGULAR: &str = "reverie_irregular";
/// Beyond it not every integer is a 64-bit float.
const EXACT_INTEGERS: f64 = 9_007_199_254_740_992.0;
/// Values of one test in a condition; more would only slow the server down.
const MAX_VALUES: usize = 256;

/// A condition that all records meet that pass the filter, none if there is nothing to say. `key_of` names the key of
/// a field.
pub(super) fn condition(filter: &RecordFilter, is_filled: bool, key_of: impl Fn(&str) -> String) -> Option<Value> {
    let tests = filter.tests.iter().filter_map(|(field, test)| {
        let key = key_of(field);
        match is_filled {
            // Lists are marked, so that only plain values have to be compared.
            true => plain(&key, test).map(|condition| any(vec![condition, json!({ IRREGULAR: true })])),
            false => one_of(&key, test),
        }
    });
    all(tests.collect())
}

/// A condition on plain values.
fn plain(key: &str, test: &FieldTest) -> Option<Value> {
    match test {
        FieldTest::OneOf(wanted) if (1..=MAX_VALUES).contains(&wanted.len()) => {
            Some(any(wanted.iter().map(|value| json!({ key: { "$eq": json_of(value) } })).collect()))
        }
        FieldTest::OneOf(_) => None,
        FieldTest::Within(bounds) => {
            let bounds = bounds.each().filter_map(|(kind, value)| match (kind, value) {
                // Chroma has an order of numbers only, and compares integers with bounds that are rounded to zero.
                (BoundKind::More | BoundKind::AtLeast, ScalarValue::Number(least)) => bound(key, "$gte", least.floor()),
                (BoundKind::Less | BoundKind::AtMost, ScalarValue::Number(most)) => bound(key, "$lte", most.ceil()),
                _ => None,
            });
            all(bounds.collect())
        }
    }
}

/// A bound that is an integer, unless it is too large to be one.
fn bound(key: &str, operator: &str, number: f64) -> Option<Value> {
    (number.abs() < EXACT_INTEGERS).then(|| json!({ key: { operator: number as i64 } }))
}

/// A condition on values and lists of an unknown collection.
fn one_of(key: &str, test: &FieldTest) -> Option<Value> {
    let FieldTest::OneOf(wanted) = test else { return None };
    if !(1..=MAX_VALUES).contains(&wanted.len()) {
        return None;
    }
    let values = wanted.iter().flat_map(|value| {
        let mut either =
            vec![json!({ key: { "$eq": json_of(value) } }), json!({ key: { "$contains": json_of(value) } })];
        if let ScalarValue::Number(number) = value {
            // Items of lists are compared as integers or as floats.
            either.push(json!({ key: { "$contains": number } }));
        }
        either
    });
    Some(any(values.collect()))
}

fn json_of(value: &ScalarValue) -> Value {
    match value {
        ScalarValue::Text(text) => json!(text),
        ScalarValue::Number(number) if number.fract() == 0.0 && number.abs() < EXACT_INTEGERS => json!(*number as i64),
        ScalarValue::Number(number) => json!(number),
        ScalarValue::Bool(flag) => json!(flag),
    }
}

fn any(mut conditions: Vec<Value>) -> Value {
    match conditions.len() {
        1 => conditions.remove(0),
        _ => json!({ "$or": conditions }),
    }
}

/// All conditions together, none if there are none.
pub(super) fn all(mut conditions: Vec<Value>) -> Option<Value> {
    match conditions.len() {
        0 => None,
        1 => Some(conditions.remove(0)),
        _ => Some(json!({ "$and": conditions })),
    }
}

/// The fields that Chroma can keep beside the JSON text of all fields, with the mark if there are others.
pub(super) fn metadata(fields: &Map<String, Value>) -> Map<String, Value> {
    let mut plain = Map::new();
    let mut is_irregular = false;
    for (name, value) in fields {
        let is_plain = match value {
            Value::String(_) | Value::Bool(_) => true,
            Value::Number(number) => number.as_f64().is_some_and(|number| number.abs() < EXACT_INTEGERS),
            Value::Null | Value::Array(_) | Value::Object(_) => false,
        };
        match is_plain && !name.starts_with("reverie_") && !name.starts_with("chroma:") && !name.is_empty() {
            true => drop(plain.insert(name.clone(), value.clone())),
            false => is_irregular = true,
        }
    }
    plain.insert(IRREGULAR.to_owned(), is_irregular.into());
    plain
}
