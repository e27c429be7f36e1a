//! Checks a JSON value against a JSON Schema. It checks the keywords that an
//! in-process model is constrained by, and the bounds of numbers. `format` only
//! describes, as in the standard, and keywords that are not in [`CHECKED`] are
//! left to the endpoint.
//!
//! Own code: the crate for it brings two dozen others, for references over
//! the network, regular expressions and formats that no answer needs.
//! Source: JSON Schema 2020-12, "Validation".

use crate::{ChatRequest, Message, Role, visible::shortened};
use serde_json::{Map, Value};

/// The keywords that are checked, for a test that compares them with those of in-process models.
#[cfg(test)]
pub(crate) const CHECKED: &[&str] = &[
    "$ref",
    "type",
    "enum",
    "const",
    "allOf",
    "anyOf",
    "oneOf",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
];

/// Deeper than any answer; a schema that refers to itself without end gets here.
const DEEPEST: usize = 128;
/// How much of a value an explanation repeats, in characters.
const SHOWN: usize = 80;

/// The instruction for a model that is not held to a schema in another way.
pub(crate) fn instruction(schema: &Value) -> String {
    format!("Reply with nothing but one JSON value that matches this JSON Schema:\n{schema}")
}

/// The messages of a request; if `in_words`, with the schema in the instructions, for a model
/// that is not held to it in another way.
pub(crate) fn messages(request: &ChatRequest, in_words: bool) -> Vec<Message> {
    let mut messages = request.messages.clone();
    let Some(instruction) = request.schema.as_ref().filter(|_| in_words).map(instruction) else { return messages };
    match messages.first_mut() {
        Some(first) if first.role == Role::System => first.content = format!("{}\n\n{instruction}", first.content),
        _ => messages.insert(0, Message::system(instruction)),
    }
    messages
}

/// Where a value is not what the schema asks for, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{reason}", if .at.is_empty() { String::new() } else { format!("at {at}: ") })]
pub(crate) struct Mismatch {
    /// The path of the part, such as `/verdicts/0`; empty for the whole value.
    at: String,
    reason: String,
}

/// Checks a value against a schema.
pub(crate) fn check(schema: &Value, value: &Value) -> Result<(), Mismatch> {
    SchemaCheck { root: schema }.value(schema, value, "", 0)
}

/// The value without properties that no part of the schema declares, if the
/// schema forbids others.
pub(crate) fn without_extras(schema: &Value, value: Value) -> Value {
    pruned(schema, schema, value, 0)
}

fn pruned(root: &Value, schema: &Value, value: Value, depth: usize) -> Value {
    if let Some(target) = schema.get("$ref").and_then(Value::as_str)
        && let Some(target) = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer))
        && depth < DEEPEST
    {
        return pruned(root, target, value, depth + 1);
    }
    match value {
        Value::Object(object) => {
            let properties = schema.get("properties");
            // Another shape may declare what this one does not.
            let is_all = ["allOf", "anyOf", "oneOf"].iter().all(|parts| schema.get(parts).is_none());
            let forbids = is_all && schema.get("additionalProperties") == Some(&Value::Bool(false));
            let kept = object.into_iter().filter_map(|(name, value)| {
                match properties.and_then(|properties| properties.get(&name)) {
                    Some(property) => Some((name, pruned(root, property, value, depth))),
                    None => (!forbids).then_some((name, value)),
                }
            });
            Value::Object(kept.collect())
        }
        Value::Array(items) => {
            let schema = schema.get("items").unwrap_or(&Value::Null);
            Value::Array(items.into_iter().map(|item| pruned(root, schema, item, depth)).collect())
        }
        other => other,
    }
}

struct SchemaCheck<'a> {
    root: &'a Value,
}

impl SchemaCheck<'_> {
    fn value(&self, schema: &Value, value: &Value, at: &str, depth: usize) -> Result<(), Mismatch> {
        if depth > DEEPEST {
            return wrong(at, "it is nested too deeply");
        }
        let schema = match schema {
            Value::Bool(false) => return wrong(at, "nothing is allowed here"),
            Value::Object(schema) => schema,
            _ => return Ok(()),
        };
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            match target.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer)) {
                Some(target) => self.value(target, value, at, depth + 1)?,
                None => return wrong(at, &format!("the schema refers to `{target}`, which is not in it")),
            }
        }
        check_scalar(schema, value, at)?;
        self.parts(schema, value, at, depth)?;
        match value {
            Value::Object(object) => self.object(schema, object, at, depth),
            Value::Array(items) => self.array(schema, items, at, depth),
            _ => Ok(()),
        }
    }

    /// `allOf`, `anyOf`, `oneOf`.
    fn parts(&self, schema: &Map<String, Value>, value: &Value, at: &str, depth: usize) -> Result<(), Mismatch> {
        let parts = |name: &str| schema.get(name).and_then(Value::as_array);
        for part in parts("allOf").into_iter().flatten() {
            self.value(part, value, at, depth + 1)?;
        }
        for (name, most) in [("anyOf", usize::MAX), ("oneOf", 1)] {
            let Some(parts) = parts(name) else { continue };
            let outcomes = parts.iter().map(|part| self.value(part, value, at, depth + 1));
            let (fitting, others): (Vec<_>, Vec<_>) = outcomes.partition(Result::is_ok);
            match (fitting.len(), others.into_iter().find_map(Result::err)) {
                (0, Some(reason)) => return Err(reason),
                (n, _) if n > most => {
                    return wrong(at, "it fits several shapes of which it may have one");
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn object(
        &self,
        schema: &Map<String, Value>,
        object: &Map<String, Value>,
        at: &str,
        depth: usize,
    ) -> Result<(), Mismatch> {
        let names = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        if let Some(missing) = names.into_iter().find(|name| !object.contains_key(*name)) {
            return wrong(at, &format!("`{missing}` is missing"));
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, value) in object {
            let at = format!("{at}/{name}");
            match (properties.and_then(|properties| properties.get(name)), schema.get("additionalProperties")) {
                (Some(property), _) => self.value(property, value, &at, depth + 1)?,
                (None, Some(Value::Bool(false))) => return wrong(&at, "nothing of this name was asked for"),
                (None, Some(other)) => self.value(other, value, &at, depth + 1)?,
                (None, None) => {}
            }
        }
        Ok(())
    }

    fn array(&self, schema: &Map<String, Value>, items: &[Value], at: &str, depth: usize) -> Result<(), Mismatch> {
        let n = items.len();
        bounds(schema, ("minItems", "maxItems"), n as f64, |bound| {
            wrong(at, &format!("it has {n} entries, not {bound}"))
        })?;
        // Before 2020 the first entries were described by a list of `items`.
        let first = schema.get("prefixItems").or_else(|| schema.get("items").filter(|items| items.is_array()));
        let first = first.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let rest = schema.get("items").filter(|items| !items.is_array());
        for (i, item) in items.iter().enumerate() {
            if let Some(schema) = first.get(i).or(rest) {
                self.value(schema, item, &format!("{at}/{i}"), depth + 1)?;
            }
        }
        Ok(())
    }
}

/// The checks of a value without its parts.
fn check_scalar(schema: &Map<String, Value>, value: &Value, at: &str) -> Result<(), Mismatch> {
    let shown = || shown(value);
    if let Some(kinds) = schema.get("type") {
        let kinds: Vec<&str> = match kinds {
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
            kind => kind.as_str().into_iter().collect(),
        };
        if !kinds.iter().any(|kind| is_a(value, kind)) {
            return wrong(at, &format!("{} is not of the type {}", shown(), kinds.join(" or ")));
        }
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array)
        && !values.contains(value)
    {
        return wrong(at, &format!("{} is none of {}", shown(), self::shown(&Value::Array(values.clone()))));
    }
    if let Some(constant) = schema.get("const").filter(|constant| *constant != value) {
        return wrong(at, &format!("{} is not {}", shown(), self::shown(constant)));
    }
    match value {
        Value::String(text) => {
            let n = text.chars().count();
            let outside = |bound: &str| wrong(at, &format!("it has {n} characters, not {bound}"));
            bounds(schema, ("minLength", "maxLength"), n as f64, outside)
        }
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or_default();
            let outside = |bound: &str| wrong(at, &format!("{} is not {bound}", shown()));
            bounds(schema, ("minimum", "maximum"), number, outside)?;
            let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
            match (bound("exclusiveMinimum"), bound("exclusiveMaximum")) {
                (Some(least), _) if number <= least => outside(&format!("above {least}")),
                (_, Some(most)) if number >= most => outside(&format!("below {most}")),
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// `1.0` is no integer here, because programs that read an integer refuse it.
fn is_a(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        _ => false,
    }
}

fn bounds(
    schema: &Map<String, Value>,
    (least, most): (&str, &str),
    number: f64,
    outside: impl Fn(&str) -> Result<(), Mismatch>,
) -> Result<(), Mismatch> {
    let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
    match (bound(least), bound(most)) {
        (Some(least), _) if number < least => outside(&format!("at least {least}")),
        (_, Some(most)) if number > most => outside(&format!("at most {most}")),
        _ => Ok(()),
    }
}

fn wrong(at: &str, reason: &str) -> Result<(), Mismatch> {
    Err(Mismatch { at: at.to_owned(), reason: reason.to_owned() })
}

fn shown(value: &Value) -> String {
    shortened(&value.to_string(), SHOWN).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn mismatch(schema: &Value, value: &Value) -> Option<String> {
        check(schema, value).err().map(|mismatch| mismatch.to_string())
    }

    fn verdicts() -> Value {
        json!({
            "type": "object",
            "properties": {
                "verdicts": {
                    "type": "array", "minItems": 1, "maxItems": 2,
                    "items": { "$ref": "#/$defs/verdict" }
                },
                "note": { "type": ["string", "null"], "maxLength": 5 },
                "share": { "type": "number", "minimum": 0, "exclusiveMaximum": 1 }
            },
            "required": ["verdicts"],
            "additionalProperties": false,
            "$defs": { "verdict": {
                "type": "object",
                "properties": { "number": { "type": "integer", "minimum": 1 }, "verdict": { "enum": ["Yes", "No"] } },
                "required": ["number", "verdict"]
            } }
        })
    }

    #[test]
    fn what_the_schema_asks_for_fits() {
        let verdict = json!({ "number": 1, "verdict": "Yes", "reason": "not declared, and not forbidden" });
        for value in [
            json!({ "verdicts": [verdict] }),
            json!({ "verdicts": [verdict, verdict], "note": null, "share": 0.99 }),
            json!({ "note": "éééé!", "verdicts": [verdict], "share": 0 }),
        ] {
            assert_eq!(mismatch(&verdicts(), &value), None, "{value}");
        }
    }

    #[test]
    fn what_does_not_fit_is_named_with_its_place() {
        let verdict = |number: Value, verdict: &str| json!({ "verdicts": [{ "number": number, "verdict": verdict }] });
        let with = |name: &str, value: Value| {
            let mut object = verdict(json!(1), "No");
            object[name] = value;
            object
        };
        let cases = [
            (json!([]), "[] is not of the type object"),
            (json!({}), "`verdicts` is missing"),
            (json!({ "verdicts": [] }), "at /verdicts: it has 0 entries, not at least 1"),
            (json!({ "verdicts": [1, 2, 3] }), "at /verdicts: it has 3 entries, not at most 2"),
            (json!({ "verdicts": [{ "number": 1 }] }), "at /verdicts/0: `verdict` is missing"),
            (verdict(json!(1), "maybe"), "at /verdicts/0/verdict: \"maybe\" is none of [\"Yes\",\"No\"]"),
            (verdict(json!(0), "No"), "at /verdicts/0/number: 0 is not at least 1"),
            (verdict(json!(1.0), "No"), "at /verdicts/0/number: 1.0 is not of the type integer"),
            (verdict(json!("1"), "No"), "at /verdicts/0/number: \"1\" is not of the type integer"),
            (with("note", json!("longer")), "at /note: it has 6 characters, not at most 5"),
            (with("note", json!(1)), "at /note: 1 is not of the type string or null"),
            (with("share", json!(1)), "at /share: 1 is not below 1"),
            (with("share", json!(-0.5)), "at /share: -0.5 is not at least 0"),
            (with("other", json!(1)), "at /other: nothing of this name was asked for"),
        ];
        for (value, reason) in cases {
            assert_eq!(mismatch(&verdicts(), &value).as_deref(), Some(reason), "{value}");
        }
    }

    #[test]
    fn one_of_several_shapes_is_enough_and_may_have_to_be_the_only_one() {
        let any = json!({ "anyOf": [{ "type": "integer" }, { "const": "none" }] });
        assert!(mismatch(&any, &json!(3)).is_none() && mismatch(&any, &json!("none")).is_none());
        assert!(mismatch(&any, &json!("some")).is_some());
        let one = json!({ "oneOf": [{ "type": "number" }, { "type": "integer" }] });
        assert!(mismatch(&one, &json!(0.5)).is_none() && mismatch(&one, &json!(1)).is_some());
        let all = json!({ "allOf": [{ "type": "integer" }, { "exclusiveMinimum": 2 }] });
        assert!(mismatch(&all, &json!(3)).is_none() && mismatch(&all, &json!(2)).is_some());
    }

    #[test]
    fn first_entries_and_other_properties_have_their_own_schemas() {
        let pair = json!({ "prefixItems": [{ "type": "string" }], "items": { "type": "integer" } });
        assert!(mismatch(&pair, &json!(["a", 1, 2])).is_none() && mismatch(&pair, &json!(["a", "b"])).is_some());
        let older = json!({ "items": [{ "type": "string" }] });
        assert!(mismatch(&older, &json!(["a", 1])).is_none() && mismatch(&older, &json!([1])).is_some());
        let counts = json!({ "type": "object", "additionalProperties": { "type": "integer" } });
        assert!(mismatch(&counts, &json!({ "a": 1 })).is_none() && mismatch(&counts, &json!({ "a": "1" })).is_some());
    }

    #[test]
    fn what_nobody_asked_for_is_left_out_where_it_is_forbidden() {
        let verdict = json!({ "number": 1, "verdict": "Yes", "reason": "others are allowed here" });
        let value = json!({ "because": 1, "verdicts": [verdict], "share": 0.5 });
        assert!(mismatch(&verdicts(), &value).is_some());
        assert_eq!(without_extras(&verdicts(), value), json!({ "verdicts": [verdict], "share": 0.5 }));
        let either = json!({ "anyOf": [{ "properties": { "a": {} } }], "additionalProperties": false });
        assert_eq!(without_extras(&either, json!({ "a": 1 })), json!({ "a": 1 }));
        assert_eq!(without_extras(&json!({ "$ref": "#" }), json!(1)), json!(1));
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let list = json!({ "type": "object", "properties": { "next": { "$ref": "#" } } });
        assert_eq!(mismatch(&list, &json!({ "next": { "next": {} } })), None);
        assert!(mismatch(&list, &json!({ "next": { "next": 1 } })).is_some());
        assert!(mismatch(&json!({ "$ref": "#" }), &json!(1)).is_some());
        assert!(mismatch(&json!({ "$ref": "#/$defs/none" }), &json!(1)).is_some());
    }
}
