//! Filters as queries.
//!
//! An index that Reverie fills has all values of a record's fields once more as terms of one keyword field. A term is
//! the name as JSON text, a letter for the type and the value, written so that the order of terms is the order of
//! values. So every test is a list or a range of terms, with the same meaning in Elasticsearch and OpenSearch.

use super::index::{MappedFieldKind, SearchIndex};
use crate::{
    DatabaseProblem, ExistingFields, FieldBounds, FieldTest, RecordFilter, RecordId, RecordLayout, ScalarValue,
    filter::BoundKind,
};
use serde_json::{Map, Value, json};

/// The keyword field with the terms.
pub(super) const TERMS: &str = "field_terms";
/// Names with more bytes have no terms.
const MAX_NAME: usize = 512;
/// Texts with more bytes are cut.
const MAX_TEXT: usize = 512;
/// Bounds with more bytes are cut. A text that was cut is longer than each bound that was not.
const MAX_BOUND: usize = MAX_TEXT - 4;
/// Ends a text that was cut: it comes after all other characters.
const CUT: char = '\u{10ffff}';
/// Values of one test in a condition; servers take 65,536.
const MAX_VALUES: usize = 10_000;
/// Beyond it not every integer is a 64-bit float.
const EXACT_INTEGERS: f64 = 9_007_199_254_740_992.0;
/// The letter after those of all types.
const AFTER_TYPES: char = 't';

/// FilterClauses that all must be met.
#[derive(Debug, Default)]
pub(super) struct FilterClauses {
    pub(super) all: Vec<Value>,
    /// Whether each record that meets them passes the filter; otherwise records have to be looked at again.
    pub(super) is_exact: bool,
}

impl FilterClauses {
    /// The conditions of a filter and of the user's own.
    pub(super) fn of(
        index: &SearchIndex,
        layout: &RecordLayout,
        filter: Option<&RecordFilter>,
    ) -> Result<Self, DatabaseProblem> {
        let mut conditions = Self { all: Vec::new(), is_exact: true };
        if let RecordLayout::Existing(existing) = layout
            && let Some(own) = &existing.condition
        {
            let own = serde_json::from_str(own).map_err(|error| DatabaseProblem::InvalidSettings {
                reason: format!("the condition on all records is not JSON: {error}"),
            })?;
            conditions.all.push(own);
        }
        let Some(filter) = filter else { return Ok(conditions) };
        if let Some(ids) = &filter.ids {
            conditions.all.push(id_condition(index, layout, ids)?);
        }
        for (field, test) in &filter.tests {
            let (condition, is_exact) = match layout {
                RecordLayout::Filled => filled_test(field, test),
                RecordLayout::Existing(existing) => (existing_test(index, existing, field, test), false),
            };
            conditions.all.extend(condition);
            conditions.is_exact &= is_exact;
        }
        Ok(conditions)
    }

    /// One query that finds what meets them.
    pub(super) fn query(&self) -> Value {
        match self.all.is_empty() {
            true => json!({ "match_all": {} }),
            false => json!({ "bool": { "filter": self.all } }),
        }
    }
}

/// That a record has one of these ids.
pub(super) fn id_condition(
    index: &SearchIndex,
    layout: &RecordLayout,
    ids: &[RecordId],
) -> Result<Value, DatabaseProblem> {
    let texts: Vec<String> = ids.iter().map(|id| id_text(layout, id)).collect();
    let field = match layout {
        RecordLayout::Existing(existing) => existing.id_field(),
        RecordLayout::Filled => None,
    };
    let Some(field) = field else { return Ok(json!({ "ids": { "values": texts } })) };
    let numbers = || texts.iter().filter_map(|text| text.parse::<i64>().ok()).collect::<Vec<_>>();
    match index.kind(field)? {
        MappedFieldKind::Keyword { name, .. } => Ok(json!({ "terms": { name: texts } })),
        MappedFieldKind::Integer => Ok(json!({ "terms": { field: numbers() } })),
        _ => Err(DatabaseProblem::InvalidSettings {
            reason: format!("`{field}` cannot be the id: it is neither a keyword nor an integer"),
        }),
    }
}

/// An id as it is stored. Numbers have leading zeros, so that their texts have the same order.
pub(super) fn id_text(layout: &RecordLayout, id: &RecordId) -> String {
    match (layout, id) {
        (RecordLayout::Filled, RecordId::Number(number)) => format!("{number:020}"),
        (_, id) => id.to_string(),
    }
}

impl ExistingFields {
    /// The field with the id; none if it is the id that the database itself has.
    pub(super) fn id_field(&self) -> Option<&str> {
        self.id.as_deref().filter(|field| *field != "_id")
    }

    /// Where the field of this name is.
    pub(super) fn path_of(&self, field: &str) -> String {
        match (self.fields.get(field), &self.metadata) {
            (Some(path), _) => path.clone(),
            (None, Some(metadata)) => format!("{metadata}.{field}"),
            (None, None) => field.to_owned(),
        }
    }
}

/// The terms of a record's fields.
pub(super) fn terms(fields: &Map<String, Value>) -> Vec<String> {
    let mut terms = Vec::new();
    for (name, value) in fields {
        let Some(name) = name_text(name) else { continue };
        match value {
            Value::Array(items) => terms.extend(items.iter().map(|item| format!("{name}{}", value_text(item)))),
            value => terms.push(format!("{name}{}", value_text(value))),
        }
    }
    terms.sort_unstable();
    terms.dedup();
    terms
}

/// The name as JSON text: no such text is the beginning of another one.
fn name_text(name: &str) -> Option<String> {
    let text = Value::from(name).to_string();
    (text.len() <= MAX_NAME).then_some(text)
}

fn value_text(value: &Value) -> String {
    match ScalarValue::of_json(value) {
        Some(scalar) => scalar_text(&scalar),
        None => "o".to_owned(),
    }
}

fn scalar_text(value: &ScalarValue) -> String {
    match value {
        ScalarValue::Bool(flag) => format!("b{}", u8::from(*flag)),
        ScalarValue::Number(number) => format!("n{:016x}", ordered_bits(*number)),
        ScalarValue::Text(text) if text.len() > MAX_TEXT => format!("s{}{CUT}", beginning(text, MAX_TEXT)),
        ScalarValue::Text(text) => format!("s{text}"),
    }
}

/// Bits whose order is that of the numbers; -0 and 0 are equal.
fn ordered_bits(number: f64) -> u64 {
    let bits = if number == 0.0 { 0 } else { number.to_bits() };
    match bits >> 63 {
        0 => bits | (1 << 63),
        _ => !bits,
    }
}

fn beginning(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    &text[..end]
}

/// The condition of a test on an index that Reverie fills, and whether it means exactly the test.
fn filled_test(field: &str, test: &FieldTest) -> (Option<Value>, bool) {
    let Some(name) = name_text(field) else { return (None, false) };
    match test {
        FieldTest::OneOf(wanted) if wanted.len() > MAX_VALUES => (None, false),
        FieldTest::OneOf(wanted) => {
            let is_exact = !wanted.iter().any(|value| is_longer(value, MAX_TEXT));
            let terms: Vec<String> = wanted.iter().map(|value| format!("{name}{}", scalar_text(value))).collect();
            (Some(json!({ "terms": { TERMS: terms } })), is_exact)
        }
        FieldTest::Within(bounds) => {
            let is_exact = !bounds.each().any(|(_, value)| is_longer(value, MAX_BOUND));
            (Some(within(&name, bounds)), is_exact)
        }
    }
}

fn is_longer(value: &ScalarValue, bytes: usize) -> bool {
    matches!(value, ScalarValue::Text(text) if text.len() > bytes)
}

/// The terms between two others.
#[derive(Debug, Clone)]
struct TermRange {
    least: String,
    with_least: bool,
    most: String,
    with_most: bool,
}

impl TermRange {
    fn raise(&mut self, least: String, with_least: bool) {
        // Of two equal bounds, the one without its own value is narrower.
        if (&least, !with_least) > (&self.least, !self.with_least) {
            (self.least, self.with_least) = (least, with_least);
        }
    }

    fn lower(&mut self, most: String, with_most: bool) {
        if (&most, with_most) < (&self.most, self.with_most) {
            (self.most, self.with_most) = (most, with_most);
        }
    }

    fn query(&self) -> Value {
        let least = if self.with_least { "gte" } else { "gt" };
        let most = if self.with_most { "lte" } else { "lt" };
        json!({ "range": { TERMS: { least: self.least, most: self.most } } })
    }
}

/// That one value of the field is within all bounds.
fn within(name: &str, bounds: &FieldBounds) -> Value {
    let letter = |value: &ScalarValue| match value {
        ScalarValue::Bool(_) => 'b',
        ScalarValue::Number(_) => 'n',
        ScalarValue::Text(_) => 's',
    };
    let mut range =
        TermRange { least: name.to_owned(), with_least: false, most: format!("{name}{AFTER_TYPES}"), with_most: false };
    for (kind, value) in bounds.each().filter(|(kind, _)| *kind != BoundKind::Not) {
        let letter = letter(value);
        let after = char::from_u32(u32::from(letter) + 1).unwrap_or(AFTER_TYPES);
        range.raise(format!("{name}{letter}"), true);
        range.lower(format!("{name}{after}"), false);
        // A bound that is cut lets through at least what passes.
        let (term, is_cut) = match value {
            ScalarValue::Text(text) if text.len() > MAX_BOUND => {
                (format!("{name}s{}", beginning(text, MAX_BOUND)), true)
            }
            value => (format!("{name}{}", scalar_text(value)), false),
        };
        match (kind, is_cut) {
            (BoundKind::More | BoundKind::AtLeast, true) => range.raise(term, true),
            (BoundKind::More, false) => range.raise(term, false),
            (BoundKind::AtLeast, false) => range.raise(term, true),
            (BoundKind::Less | BoundKind::AtMost, true) => range.lower(format!("{term}{CUT}"), true),
            (BoundKind::Less, false) => range.lower(term, false),
            (BoundKind::AtMost, false) => range.lower(term, true),
            (BoundKind::Not, _) => {}
        }
    }
    match bounds.ne.as_ref().filter(|value| !is_longer(value, MAX_BOUND)) {
        None => range.query(),
        Some(other) => {
            let term = format!("{name}{}", scalar_text(other));
            let (mut below, mut above) = (range.clone(), range);
            below.lower(term.clone(), false);
            above.raise(term, false);
            json!({ "bool": { "should": [below.query(), above.query()], "minimum_should_match": 1 } })
        }
    }
}

/// A condition that records of the user's own meet that pass the test, as far as the field's type can say it.
fn existing_test(index: &SearchIndex, existing: &ExistingFields, field: &str, test: &FieldTest) -> Option<Value> {
    let path = existing.path_of(field);
    match (index.kind(&path).ok()?, test) {
        (MappedFieldKind::Keyword { name, longest }, FieldTest::OneOf(wanted)) if wanted.len() <= MAX_VALUES => {
            // Longer texts are not indexed.
            let texts = wanted.iter().map(|value| match value {
                ScalarValue::Text(text) if text.encode_utf16().count() <= longest => Some(text.as_str()),
                _ => None,
            });
            let texts: Vec<&str> = texts.collect::<Option<_>>()?;
            Some(json!({ "terms": { name: texts } }))
        }
        (MappedFieldKind::Boolean, FieldTest::OneOf(wanted)) => {
            let flags = wanted.iter().map(|value| match value {
                ScalarValue::Bool(flag) => Some(*flag),
                _ => None,
            });
            Some(json!({ "terms": { path: flags.collect::<Option<Vec<_>>>()? } }))
        }
        (MappedFieldKind::Integer, FieldTest::OneOf(wanted)) => {
            // The index has numbers without their fractions.
            let numbers = wanted.iter().map(|value| match value {
                ScalarValue::Number(number) if number.abs() < EXACT_INTEGERS => Some(number.trunc() as i64),
                _ => None,
            });
            Some(json!({ "terms": { path: numbers.collect::<Option<Vec<_>>>()? } }))
        }
        (MappedFieldKind::Integer, FieldTest::Within(bounds)) => {
            let mut range = Map::new();
            for (kind, value) in bounds.each() {
                let ScalarValue::Number(number) = value else { continue };
                match kind {
                    // One item of a list must be within all bounds, so both may be in one range. Of two lower bounds
                    // either will do.
                    BoundKind::More | BoundKind::AtLeast if number.abs() < EXACT_INTEGERS => {
                        range.insert("gte".to_owned(), (number.floor() as i64).into());
                    }
                    BoundKind::Less | BoundKind::AtMost if number.abs() < EXACT_INTEGERS => {
                        range.insert("lte".to_owned(), (number.ceil() as i64).into());
                    }
                    _ => {}
                }
            }
            (!range.is_empty()).then(|| json!({ "range": { path: range } }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_terms_is_the_order_of_values() {
        let numbers = [f64::NEG_INFINITY, -1e300, -3.0, -0.1, 0.0, 1e-300, 0.1, 1.0, 2.0, 1e300];
        let texts: Vec<String> = numbers.iter().map(|number| scalar_text(&ScalarValue::Number(*number))).collect();
        assert!(texts.is_sorted_by(|a, b| a < b), "{texts:?}");
        assert_eq!(ordered_bits(-0.0), ordered_bits(0.0));
    }

    #[test]
    fn long_texts_are_cut_and_still_compared_with_short_bounds_exactly() {
        let long = "ä".repeat(1_000);
        let term = scalar_text(&ScalarValue::Text(long.clone()));
        let bounds = ["a", "z", "ä", "ö"].map(str::to_owned);
        for bound in bounds.into_iter().chain(["ä".repeat(254), "ä".repeat(253) + "z", "ä".repeat(253) + "\u{10ffff}"])
        {
            let bound_term = scalar_text(&ScalarValue::Text(bound.clone()));
            assert_eq!(term.cmp(&bound_term), long.cmp(&bound), "{bound}");
        }
        let test = FieldTest::OneOf(vec![ScalarValue::Text(long)]);
        assert!(!filled_test("f", &test).1);
    }
}
