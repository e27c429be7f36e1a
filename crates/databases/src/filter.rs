//! Filters on the fields of records, with the meaning that `rag`'s filters have: a record without a field passes no
//! test of it, a list passes if one of its items does, and values of different types are never equal and have no order.

use crate::RecordId;
use serde_json::{Map, Value};
use std::{cmp::Ordering, collections::BTreeMap};

/// Which records a search may find: all tests must hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordFilter {
    /// Only records with one of these ids.
    pub ids: Option<Vec<RecordId>>,
    /// Tests by field.
    pub tests: BTreeMap<String, FieldTest>,
}

/// A test of one field.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldTest {
    /// It equals one of these.
    OneOf(Vec<ScalarValue>),
    /// All of these bounds hold. Of a list, one item must be within all of them.
    Within(FieldBounds),
}

/// Bounds of a field. Texts are compared by code points.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FieldBounds {
    /// More than this.
    pub gt: Option<ScalarValue>,
    /// At least this.
    pub ge: Option<ScalarValue>,
    /// Less than this.
    pub lt: Option<ScalarValue>,
    /// At most this.
    pub le: Option<ScalarValue>,
    /// Not this; a value of another type is not this.
    pub ne: Option<ScalarValue>,
}

/// A value that fields are compared with.
#[derive(Debug, Clone, PartialEq)]
pub enum ScalarValue {
    /// A text.
    Text(String),
    /// A number. Numbers of fields are rounded to 64-bit floats before they are compared.
    Number(f64),
    /// True or false.
    Bool(bool),
}

impl ScalarValue {
    /// The value of a JSON text, number or boolean; none for others.
    pub fn of_json(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self::Text(text.clone())),
            Value::Number(number) => number.as_f64().map(Self::Number),
            Value::Bool(flag) => Some(Self::Bool(*flag)),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// The order of a field's value relative to this one; none if their types differ.
    fn order_of(&self, value: &Value) -> Option<Ordering> {
        match (value, self) {
            (Value::String(value), Self::Text(text)) => Some(value.as_str().cmp(text)),
            (Value::Number(value), Self::Number(number)) => value.as_f64()?.partial_cmp(number),
            (Value::Bool(value), Self::Bool(flag)) => Some(value.cmp(flag)),
            _ => None,
        }
    }
}

impl FieldBounds {
    /// Each bound that is set, with the comparison that it asks for.
    pub(crate) fn each(&self) -> impl Iterator<Item = (BoundKind, &ScalarValue)> {
        let bounds = [
            (BoundKind::More, &self.gt),
            (BoundKind::AtLeast, &self.ge),
            (BoundKind::Less, &self.lt),
            (BoundKind::AtMost, &self.le),
            (BoundKind::Not, &self.ne),
        ];
        bounds.into_iter().filter_map(|(kind, value)| value.as_ref().map(|value| (kind, value)))
    }
}

/// What a bound demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BoundKind {
    More,
    AtLeast,
    Less,
    AtMost,
    Not,
}

impl BoundKind {
    fn holds(self, order: Option<Ordering>) -> bool {
        match self {
            Self::More => order.is_some_and(Ordering::is_gt),
            Self::AtLeast => order.is_some_and(Ordering::is_ge),
            Self::Less => order.is_some_and(Ordering::is_lt),
            Self::AtMost => order.is_some_and(Ordering::is_le),
            Self::Not => order != Some(Ordering::Equal),
        }
    }
}

impl FieldTest {
    /// Whether a field with this value passes.
    pub fn passes(&self, value: &Value) -> bool {
        let holds = |value: &Value| match self {
            Self::OneOf(wanted) => wanted.iter().any(|wanted| wanted.order_of(value) == Some(Ordering::Equal)),
            Self::Within(bounds) => bounds.each().all(|(kind, bound)| kind.holds(bound.order_of(value))),
        };
        match value {
            Value::Array(items) => items.iter().any(holds),
            value => holds(value),
        }
    }
}

impl RecordFilter {
    /// Only the records that have these numbers.
    pub fn of_entries(entries: &[u32]) -> Self {
        let ids = entries.iter().map(|&entry| RecordId::Number(entry.into())).collect();
        Self { ids: Some(ids), tests: BTreeMap::new() }
    }

    /// Whether every record passes.
    pub fn is_empty(&self) -> bool {
        self.ids.is_none() && self.tests.is_empty()
    }

    /// Whether a record with these fields passes the tests; its id is not looked at.
    pub fn passes(&self, fields: &Map<String, Value>) -> bool {
        self.tests.iter().all(|(field, test)| fields.get(field).is_some_and(|value| test.passes(value)))
    }

    /// Whether a record passes.
    pub fn passes_record(&self, id: &RecordId, fields: &Map<String, Value>) -> bool {
        self.ids.as_ref().is_none_or(|ids| ids.contains(id)) && self.passes(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text(value: &str) -> ScalarValue {
        ScalarValue::Text(value.to_owned())
    }

    fn passes(fields: Value, test: FieldTest) -> bool {
        let filter = RecordFilter { ids: None, tests: [("f".to_owned(), test)].into() };
        filter.passes(fields.as_object().unwrap())
    }

    #[test]
    fn a_missing_field_passes_no_test_and_null_only_that_it_is_not_something() {
        let not = FieldTest::Within(FieldBounds { ne: Some(text("x")), ..FieldBounds::default() });
        assert!(!passes(json!({}), not.clone()));
        assert!(passes(json!({ "f": null }), not.clone()) && passes(json!({ "f": 1 }), not.clone()));
        assert!(!passes(json!({ "f": "x" }), not));
        assert!(!passes(json!({ "f": null }), FieldTest::OneOf(vec![text("null")])));
    }

    #[test]
    fn one_item_of_a_list_must_pass_all_bounds() {
        let between = FieldTest::Within(FieldBounds {
            ge: Some(ScalarValue::Number(3.0)),
            lt: Some(ScalarValue::Number(5.0)),
            ..FieldBounds::default()
        });
        assert!(passes(json!({ "f": [1, 4, 9] }), between.clone()));
        assert!(!passes(json!({ "f": [1, 9] }), between.clone()));
        assert!(!passes(json!({ "f": [[4]] }), between.clone()) && !passes(json!({ "f": [] }), between.clone()));
        assert!(!passes(json!({ "f": "4" }), between));
    }
}
