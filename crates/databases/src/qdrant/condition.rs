//! Filters in Qdrant's language, as far as it can say them.

use super::messages::PointId;
use crate::{FieldTest, RecordFilter, ScalarValue, filter::BoundKind};
use serde_json::{Map, Value, json};

/// Numbers of one test in a condition; more would only slow the server down.
const MAX_NUMBERS: usize = 256;

/// What a server is asked for a filter.
#[derive(Debug, Default, PartialEq)]
pub(super) struct QdrantFilter {
    /// Conditions that all points meet that pass.
    pub(super) must: Vec<Value>,
    /// Whether only points meet them that pass; otherwise the fields have to be looked at again.
    pub(super) is_exact: bool,
    /// No point can pass.
    pub(super) is_never: bool,
}

/// A test in Qdrant's language.
#[derive(Debug, PartialEq)]
enum TranslatedTest {
    /// Exactly those points pass that meet the condition.
    Exact(Value),
    /// All points that pass meet the condition, and others may.
    Wider(Value),
    /// There is no condition.
    None,
    /// Nothing passes.
    Never,
}

/// Translates a filter. `key_of` is Qdrant's path of a field, if it has one.
pub(super) fn translate(
    filter: &RecordFilter,
    ids: Option<&[PointId]>,
    key_of: impl Fn(&str) -> Option<String>,
) -> QdrantFilter {
    let mut translated = QdrantFilter { is_exact: true, ..QdrantFilter::default() };
    if let Some(ids) = ids {
        translated.is_never = ids.is_empty();
        translated.must.push(json!({ "has_id": ids }));
    }
    for (field, test) in &filter.tests {
        let translation = match key_of(field) {
            Some(key) => translate_test(&key, test),
            None => TranslatedTest::None,
        };
        match translation {
            TranslatedTest::Exact(condition) => translated.must.push(condition),
            TranslatedTest::Wider(condition) => {
                translated.must.push(condition);
                translated.is_exact = false;
            }
            TranslatedTest::None => translated.is_exact = false,
            TranslatedTest::Never => translated.is_never = true,
        }
    }
    translated
}

fn translate_test(key: &str, test: &FieldTest) -> TranslatedTest {
    match test {
        FieldTest::OneOf(wanted) => one_of(key, wanted),
        FieldTest::Within(bounds) => {
            let bounds: Vec<(BoundKind, &ScalarValue)> = bounds.each().collect();
            within(key, test, &bounds)
        }
    }
}

fn one_of(key: &str, wanted: &[ScalarValue]) -> TranslatedTest {
    let mut texts = Vec::new();
    let mut either = Vec::new();
    for value in wanted {
        match value {
            ScalarValue::Text(text) => texts.push(text.as_str()),
            // No field has another number.
            ScalarValue::Number(number) if number.is_finite() => {
                either.push(json!({ "key": key, "range": { "gte": number, "lte": number } }));
            }
            ScalarValue::Number(_) => {}
            ScalarValue::Bool(flag) => either.push(json!({ "key": key, "match": { "value": flag } })),
        }
    }
    if either.len() > MAX_NUMBERS {
        return TranslatedTest::None;
    }
    if !texts.is_empty() {
        either.push(json!({ "key": key, "match": { "any": texts } }));
    }
    match either.len() {
        0 => TranslatedTest::Never,
        1 => TranslatedTest::Exact(either.remove(0)),
        _ => TranslatedTest::Exact(json!({ "should": either })),
    }
}

/// Qdrant has an order of numbers only, and its `must_not` leaves out lists with another item that passes.
fn within(key: &str, test: &FieldTest, bounds: &[(BoundKind, &ScalarValue)]) -> TranslatedTest {
    let ordered = || bounds.iter().filter(|(kind, _)| *kind != BoundKind::Not).map(|(_, value)| *value);
    let Some(first) = ordered().next() else { return TranslatedTest::None };
    // Values of different types have no order.
    if ordered().any(|value| std::mem::discriminant(value) != std::mem::discriminant(first)) {
        return TranslatedTest::Never;
    }
    match first {
        ScalarValue::Text(_) => TranslatedTest::None,
        ScalarValue::Bool(_) => {
            let passing: Vec<bool> = [false, true].into_iter().filter(|flag| test.passes(&json!(flag))).collect();
            let mut either: Vec<Value> =
                passing.iter().map(|flag| json!({ "key": key, "match": { "value": flag } })).collect();
            match either.len() {
                0 => TranslatedTest::Never,
                1 => TranslatedTest::Exact(either.remove(0)),
                _ => TranslatedTest::Exact(json!({ "should": either })),
            }
        }
        ScalarValue::Number(_) => {
            let mut range = Map::new();
            let mut is_exact = true;
            for (kind, value) in bounds {
                let name = match kind {
                    BoundKind::More => "gt",
                    BoundKind::AtLeast => "gte",
                    BoundKind::Less => "lt",
                    BoundKind::AtMost => "lte",
                    BoundKind::Not => {
                        is_exact = false;
                        continue;
                    }
                };
                match value {
                    ScalarValue::Number(number) if number.is_nan() => return TranslatedTest::Never,
                    // JSON has no infinite numbers.
                    ScalarValue::Number(number) if number.is_infinite() => is_exact = false,
                    ScalarValue::Number(number) => drop(range.insert(name.to_owned(), json!(number))),
                    ScalarValue::Text(_) | ScalarValue::Bool(_) => {}
                }
            }
            let condition = json!({ "key": key, "range": range });
            match (range.is_empty(), is_exact) {
                (true, _) => TranslatedTest::None,
                (false, true) => TranslatedTest::Exact(condition),
                (false, false) => TranslatedTest::Wider(condition),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FieldBounds;

    fn number(value: f64) -> Option<ScalarValue> {
        Some(ScalarValue::Number(value))
    }

    #[test]
    fn a_test_is_translated_exactly_widely_or_not_at_all() {
        let range = |range: Value| json!({ "key": "f", "range": range });
        let within = |bounds| translate_test("f", &FieldTest::Within(bounds));
        let usual = FieldBounds::default;
        assert_eq!(
            within(FieldBounds { ge: number(3.0), lt: number(5.0), ..usual() }),
            TranslatedTest::Exact(range(json!({ "gte": 3.0, "lt": 5.0 })))
        );
        assert_eq!(
            within(FieldBounds { gt: number(3.0), ne: number(4.0), ..usual() }),
            TranslatedTest::Wider(range(json!({ "gt": 3.0 })))
        );
        assert_eq!(
            within(FieldBounds { le: number(3.0), ge: number(f64::NEG_INFINITY), ..usual() }),
            TranslatedTest::Wider(range(json!({ "lte": 3.0 })))
        );
        let text = || Some(ScalarValue::Text("z".to_owned()));
        assert_eq!(within(FieldBounds { gt: number(3.0), lt: text(), ..usual() }), TranslatedTest::Never);
        assert_eq!(within(FieldBounds { gt: number(f64::NAN), ..usual() }), TranslatedTest::Never);
        for bounds in [usual(), FieldBounds { ne: text(), ..usual() }, FieldBounds { lt: text(), ..usual() }] {
            assert_eq!(within(bounds), TranslatedTest::None);
        }
        let flag = FieldBounds { gt: Some(ScalarValue::Bool(false)), ..usual() };
        assert_eq!(within(flag), TranslatedTest::Exact(json!({ "key": "f", "match": { "value": true } })));
        let one_of = |wanted| translate_test("f", &FieldTest::OneOf(wanted));
        assert_eq!(one_of(Vec::new()), TranslatedTest::Never);
        assert_eq!(one_of(vec![ScalarValue::Number(f64::NAN)]), TranslatedTest::Never);
        assert_eq!(one_of(vec![ScalarValue::Number(1.0); MAX_NUMBERS + 1]), TranslatedTest::None);
    }
}
