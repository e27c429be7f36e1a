//! Filters: conditions on the fields of chunks, so that only chunks for which
//! all conditions hold are searched.
//!
//! Fields are those that every chunk has (`path`, `title`, `page`, `heading`)
//! and the metadata of its document: what its file says (`author`, `date`,
//! `language`, the front matter of Markdown) and the columns of the corpus'
//! table of metadata.

use crate::{Document, load::MATCHING};
use databases::{FieldBounds, FieldTest, RecordFilter, ScalarValue};
use glob::Pattern;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;
use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// Conditions by field; all must hold. A chunk without a field meets no
/// condition on it.
///
/// In a file, `{ year = { ge = 2020 }, language = ["en", "de"], path = { glob = "guides/**" } }`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct Filter(BTreeMap<String, Condition>);

/// A condition on one field: a value that it equals, a list of which it equals
/// one, or bounds. Texts are compared letter by letter, so that dates such as
/// `2024-05-01` have their order; a text and a number are never equal. A field
/// that holds a list meets a condition if one of its items does.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum Condition {
    /// Bounds and other tests, all of which must hold.
    Tests(Box<Tests>),
    /// It equals one of these.
    OneOf(Vec<Value>),
    /// It equals this.
    Equals(Value),
}

/// Tests of one field; all that are there must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tests {
    /// More than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gt: Option<Value>,
    /// At least this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ge: Option<Value>,
    /// Less than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lt: Option<Value>,
    /// At most this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub le: Option<Value>,
    /// Not this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ne: Option<Value>,
    /// A text that this pattern matches, such as `guides/**`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glob: Option<String>,
}

impl<'de> Deserialize<'de> for Filter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = BTreeMap::<String, Value>::deserialize(deserializer)?;
        let condition = |(field, value)| {
            let condition = condition(value).map_err(|error| de::Error::custom(format!("{field}: {error}")))?;
            Ok((field, condition))
        };
        fields.into_iter().map(condition).collect::<Result<_, _>>().map(Self)
    }
}

/// What is wrong with a condition.
#[derive(Debug, thiserror::Error)]
enum ConditionError {
    #[error("the list is empty, so nothing would be found")]
    EmptyList,
    #[error(transparent)]
    Tests(#[from] serde_json::Error),
    #[error("the condition is empty; give one of gt, ge, lt, le, ne, glob")]
    NoTest,
    #[error("a test compares with a text, a number, true or false")]
    NotScalar,
    #[error("glob: {0}")]
    Glob(#[from] glob::PatternError),
    #[error("a condition is a value, a list of values, or tests such as {{ ge = 2020 }}")]
    Shape,
}

fn condition(value: Value) -> Result<Condition, ConditionError> {
    let is_scalar = |value: &Value| value.is_string() || value.is_number() || value.is_boolean();
    match value {
        Value::Array(values) if values.is_empty() => Err(ConditionError::EmptyList),
        Value::Array(values) if values.iter().all(is_scalar) => Ok(Condition::OneOf(values)),
        Value::Object(_) => {
            let tests: Tests = serde_json::from_value(value)?;
            let Tests { gt, ge, lt, le, ne, glob } = &tests;
            let given: Vec<&Value> = [gt, ge, lt, le, ne].into_iter().flatten().collect();
            if given.is_empty() && glob.is_none() {
                return Err(ConditionError::NoTest);
            }
            if !given.into_iter().all(is_scalar) {
                return Err(ConditionError::NotScalar);
            }
            glob.as_deref().map(Pattern::new).transpose()?;
            Ok(Condition::Tests(Box::new(tests)))
        }
        value if is_scalar(&value) => Ok(Condition::Equals(value)),
        _ => Err(ConditionError::Shape),
    }
}

impl Condition {
    fn field_test(&self) -> Option<FieldTest> {
        let scalar = ScalarValue::of_json;
        match self {
            Self::Equals(wanted) => Some(FieldTest::OneOf(vec![scalar(wanted)?])),
            Self::OneOf(wanted) => Some(FieldTest::OneOf(wanted.iter().map(scalar).collect::<Option<_>>()?)),
            Self::Tests(tests) => {
                let Tests { gt, ge, lt, le, ne, glob } = &**tests;
                if glob.is_some() {
                    return None;
                }
                let [gt, ge, lt, le, ne] = [gt, ge, lt, le, ne].map(|bound| bound.as_ref().and_then(scalar));
                Some(FieldTest::Within(FieldBounds { gt, ge, lt, le, ne }))
            }
        }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).unwrap_or_default())
    }
}

impl Filter {
    /// Whether every chunk passes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields that it looks at.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Both filters: where both have conditions on a field, those of `other` hold.
    #[must_use]
    pub fn overridden_by(mut self, other: &Self) -> Self {
        self.0.extend(other.0.clone());
        self
    }

    /// The same tests for a database whose records have these fields ([`crate::vector_index::record_of`]); none if one of
    /// them is a pattern, which databases do not have.
    pub(crate) fn record_filter(&self) -> Option<RecordFilter> {
        let tests = self.0.iter().map(|(field, condition)| Some((field.clone(), condition.field_test()?)));
        Some(RecordFilter { ids: None, tests: tests.collect::<Option<_>>()? })
    }

    /// The fields, each with the test of its values.
    pub(crate) fn matchers(&self) -> impl Iterator<Item = (&str, Matcher<'_>)> {
        self.0.iter().map(|(field, condition)| {
            let glob = match condition {
                Condition::Tests(tests) => tests.glob.as_deref().and_then(|glob| Pattern::new(glob).ok()),
                _ => None,
            };
            (field.as_str(), Matcher { condition, glob })
        })
    }
}

/// Says which values meet a condition.
pub(crate) struct Matcher<'f> {
    condition: &'f Condition,
    glob: Option<Pattern>,
}

impl Matcher<'_> {
    /// Whether a value, or an item of a list, meets the condition.
    pub(crate) fn matches(&self, value: &Value) -> bool {
        let holds = |value: &Value| holds(self.condition, self.glob.as_ref(), value);
        match value {
            Value::Array(values) => values.iter().any(holds),
            value => holds(value),
        }
    }
}

/// Adds the fields that the chunks of a document will have: `page` only if it
/// has pages, `heading` only if it has headings.
pub fn add_fields(fields: &mut BTreeSet<String>, document: &Document) {
    let own = [
        ("path", true),
        ("title", document.title.is_some()),
        ("page", !document.pages.is_empty()),
        ("heading", !document.headings.is_empty()),
        ("author", document.author.is_some()),
    ];
    let own = own.into_iter().filter(|(_, has)| *has).map(|(name, _)| name.to_owned());
    fields.extend(own.chain(document.metadata.keys().cloned()));
}

fn holds(condition: &Condition, glob: Option<&Pattern>, value: &Value) -> bool {
    let is = |wanted: &Value| order(value, wanted) == Some(Ordering::Equal);
    match condition {
        Condition::Equals(wanted) => is(wanted),
        Condition::OneOf(wanted) => wanted.iter().any(is),
        Condition::Tests(tests) => {
            let Tests { gt, ge, lt, le, ne, glob: pattern } = &**tests;
            let test = |bound: &Option<Value>, holds: fn(Ordering) -> bool| {
                bound.as_ref().is_none_or(|bound| order(value, bound).is_some_and(holds))
            };
            test(gt, Ordering::is_gt)
                && test(ge, Ordering::is_ge)
                && test(lt, Ordering::is_lt)
                && test(le, Ordering::is_le)
                && ne.as_ref().is_none_or(|other| !is(other))
                && (pattern.is_none()
                    || value.as_str().zip(glob).is_some_and(|(text, glob)| glob.matches_with(text, MATCHING)))
        }
    }
}

/// The order of two values of one type; none for others.
fn order(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Number(a), Value::Number(b)) => a.as_f64()?.partial_cmp(&b.as_f64()?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Chunk, ChunkTable, retrieve::tests::Fixture};
    use serde_json::json;

    fn read(value: Value) -> Result<Filter, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    fn chunk() -> Chunk {
        let mut chunk = Fixture::new().table.chunk(0).to_chunk();
        chunk.document = "guides/mill.md".to_owned();
        chunk.page = Some(12);
        let fields =
            json!({ "year": 2021, "language": "en", "date": "2021-05-01", "tags": ["old", "water"], "draft": false });
        chunk.metadata = serde_json::from_value(fields).unwrap();
        chunk
    }

    #[test]
    fn a_chunk_passes_if_all_conditions_hold() {
        let table = ChunkTable::new(vec![Chunk { number: 0, ..chunk() }]);
        let passes = |filter: Value| {
            let filter = read(filter).unwrap();
            filter.matchers().all(|(field, test)| table.chunk(0).field(field).is_some_and(|value| test.matches(&value)))
        };
        for filter in [
            json!({}),
            json!({ "year": 2021 }),
            json!({ "year": { "ge": 2021, "lt": 2022 } }),
            json!({ "language": ["de", "en"], "draft": false }),
            json!({ "date": { "gt": "2021-04-30", "le": "2021-05-01" } }),
            json!({ "tags": "water" }),
            json!({ "path": { "glob": "guides/*.md" }, "page": { "le": 12.0 } }),
            json!({ "language": { "ne": "de" } }),
        ] {
            assert!(passes(filter.clone()), "{filter}");
        }
        for filter in [
            json!({ "year": 2020 }),
            json!({ "year": "2021" }),
            json!({ "year": 2021, "language": "de" }),
            json!({ "nothing": { "ne": 1 } }),
            json!({ "tags": "wind" }),
            json!({ "path": { "glob": "*.txt" } }),
            json!({ "year": { "glob": "2*" } }),
        ] {
            assert!(!passes(filter.clone()), "{filter}");
        }
    }

    #[test]
    fn a_filter_is_written_as_it_was_read_and_mistakes_name_the_field() {
        let filter = json!({ "a": { "ge": 1 }, "b": ["x", "y"], "c": true });
        assert_eq!(serde_json::to_value(read(filter.clone()).unwrap()).unwrap(), filter);
        for (filter, expected) in [
            (json!({ "year": { "from": 1 } }), "year: unknown field `from`"),
            (json!({ "year": {} }), "year: the condition is empty"),
            (json!({ "year": [] }), "year: the list is empty"),
            (json!({ "year": null }), "year: a condition is"),
            (json!({ "path": { "glob": "a[" } }), "path: glob"),
            (json!({ "year": { "ge": [1] } }), "year: a test compares"),
        ] {
            let error = read(filter).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_field_that_no_document_has_is_named_with_those_that_there_are() {
        let table = ChunkTable::new(vec![Chunk { number: 0, searchable: true, ..chunk() }]);
        let entries = |filter: Value| table.entries_passing(&read(filter).unwrap()).map(|passing| passing.entries());
        assert_eq!(entries(json!({ "year": 2021 })).unwrap(), [0]);
        assert!(entries(json!({ "year": 1 })).unwrap().is_empty());
        let error = entries(json!({ "yaer": 2021 })).unwrap_err().to_string();
        assert!(error.contains("no document has the field `yaer`; there are path"), "{error}");
        assert!(error.contains("year"), "{error}");
    }
}
