//! Checks a JSON Schema and converts it to a grammar: every keyword that the
//! grammar would ignore is an error before anything runs.

use super::gbnf;
use crate::Error;
use serde_json::{Map, Value};

/// A grammar all of whose texts the schema admits, but not every text that the
/// schema admits: objects hold the declared properties in a fixed order, required
/// ones first, and no others unless `additionalProperties` says otherwise;
/// numbers have a limited number of digits, and white space is limited.
pub(crate) fn grammar(schema: &Value) -> Result<String, Error> {
    check(schema, "#")?;
    gbnf::of_schema(schema).map_err(|reason| Error::Config(format!("the JSON Schema of the answer: {reason}")))
}

/// Keywords that describe and do not constrain.
const NEUTRAL: &[&str] =
    &["$schema", "$id", "$comment", "title", "description", "default", "examples", "deprecated", "strict", "name"];

/// The keywords that constrain each type and are enforced.
fn keywords_of(kind: &str) -> Option<&'static [&'static str]> {
    Some(match kind {
        "object" => &["properties", "required", "additionalProperties"],
        "array" => &["items", "prefixItems", "minItems", "maxItems"],
        "string" => &["minLength", "maxLength", "format"],
        "integer" => &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"],
        "number" | "boolean" | "null" => &[],
        _ => return None,
    })
}

const FORMATS: &[&str] = &["date", "time", "date-time", "uuid"];

fn check(schema: &Value, path: &str) -> Result<(), Error> {
    let Value::Object(object) = schema else {
        return refuse(path, "a schema must be an object");
    };
    for definitions in ["$defs", "definitions"] {
        each_value(object, definitions, path)?;
    }
    // The first of these is the whole schema: keywords beside it would be ignored.
    for whole in ["$ref", "oneOf", "anyOf", "const", "enum", "allOf"] {
        if let Some(value) = object.get(whole) {
            only(object, &[whole, "type"], path)?;
            return match (whole, value) {
                ("$ref", Value::String(target)) if target.starts_with("#/") => Ok(()),
                ("$ref", _) => refuse(path, "`$ref` must point into the same schema (`#/…`)"),
                ("oneOf" | "anyOf" | "allOf", Value::Array(parts)) if !parts.is_empty() => {
                    check_each(parts, whole, path)
                }
                ("enum", Value::Array(values)) if !values.is_empty() => Ok(()),
                ("const", _) => Ok(()),
                _ => refuse(path, &format!("`{whole}` must be a list with at least one entry")),
            };
        }
    }
    let kinds: Vec<&str> = match object.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) if !kinds.is_empty() => kinds.iter().filter_map(Value::as_str).collect(),
        None if object.contains_key("properties") => vec!["object"],
        None => vec![],
        Some(_) => return refuse(path, "`type` must be a name or a list of names"),
    };
    let mut kept = vec!["type"];
    for kind in &kinds {
        let Some(keywords) = keywords_of(kind) else {
            return refuse(path, &format!("there is no type `{kind}`"));
        };
        kept.extend(keywords);
    }
    only(object, &kept, path)?;
    if let Some(format) = object.get("format")
        && !format.as_str().is_some_and(|format| FORMATS.contains(&format))
    {
        return refuse(path, &format!("the format {format} cannot be enforced; it can be {}", FORMATS.join(", ")));
    }
    check_bounds(object, path)?;
    check_object(object, path)?;
    match object.get("items").or_else(|| object.get("prefixItems")) {
        Some(Value::Array(items)) => check_each(items, "items", path),
        Some(item) => check(item, &format!("{path}/items")),
        None => Ok(()),
    }
}

fn check_object(object: &Map<String, Value>, path: &str) -> Result<(), Error> {
    each_value(object, "properties", path)?;
    match object.get("additionalProperties") {
        None | Some(Value::Bool(_)) => {}
        Some(schema) => check(schema, &format!("{path}/additionalProperties"))?,
    }
    let Some(required) = object.get("required") else { return Ok(()) };
    let Some(names) = required.as_array() else { return refuse(path, "`required` must be a list of names") };
    for name in names {
        let declared =
            name.as_str().is_some_and(|name| object.get("properties").is_some_and(|all| all.get(name).is_some()));
        if !declared {
            return refuse(path, &format!("{name} is required but not among the properties"));
        }
    }
    Ok(())
}

fn check_bounds(object: &Map<String, Value>, path: &str) -> Result<(), Error> {
    for (low, high) in [("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems")] {
        for bound in [low, high] {
            if object.get(bound).is_some_and(|value| !value.is_i64()) {
                return refuse(path, &format!("`{bound}` must be a whole number"));
            }
        }
        if let (Some(least), Some(most)) =
            (object.get(low).and_then(Value::as_i64), object.get(high).and_then(Value::as_i64))
            && least > most
        {
            return refuse(path, &format!("`{low}` is above `{high}`"));
        }
    }
    Ok(())
}

fn only(object: &Map<String, Value>, kept: &[&str], path: &str) -> Result<(), Error> {
    let neutral = |key: &str| NEUTRAL.contains(&key) || key == "$defs" || key == "definitions";
    match object.keys().find(|key| !kept.contains(&key.as_str()) && !neutral(key)) {
        Some(key) => refuse(path, &format!("`{key}` cannot be enforced here by an in-process model: leave it out")),
        None => Ok(()),
    }
}

fn each_value(object: &Map<String, Value>, key: &str, path: &str) -> Result<(), Error> {
    match object.get(key) {
        None => Ok(()),
        Some(Value::Object(parts)) => {
            parts.iter().try_for_each(|(name, part)| check(part, &format!("{path}/{key}/{name}")))
        }
        Some(_) => refuse(path, &format!("`{key}` must be an object")),
    }
}

fn check_each(parts: &[Value], key: &str, path: &str) -> Result<(), Error> {
    parts.iter().enumerate().try_for_each(|(index, part)| check(part, &format!("{path}/{key}/{index}")))
}

fn refuse(path: &str, reason: &str) -> Result<(), Error> {
    Err(Error::Config(format!("the JSON Schema of the answer, at {path}: {reason}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn reason(schema: Value) -> String {
        match grammar(&schema) {
            Err(Error::Config(reason)) => reason,
            other => panic!("expected a configuration error, got {other:?}"),
        }
    }

    #[test]
    fn a_judge_schema_becomes_a_grammar() {
        let schema = json!({
            "type": "object", "required": ["verdict", "score"], "additionalProperties": false,
            "properties": {
                "verdict": {"enum": ["yes", "no"]},
                "score": {"type": "integer", "minimum": 0, "maximum": 10},
                "reasons": {"type": "array", "items": {"type": "string", "maxLength": 80}, "maxItems": 3},
            },
        });
        let grammar = grammar(&schema).expect("a grammar");
        assert!(grammar.contains("root ::=") && grammar.contains("verdict"), "{grammar}");
    }

    #[test]
    fn a_reference_into_the_schema_is_followed() {
        let schema = json!({"$defs": {"name": {"type": "string"}}, "type": "array", "items": {"$ref": "#/$defs/name"}});
        assert!(grammar(&schema).is_ok());
        assert!(grammar(&json!({"$ref": "#/$defs/missing"})).is_err());
    }

    #[test]
    fn a_keyword_that_would_be_ignored_is_refused_with_its_place() {
        let reason = reason(json!({"type": "object", "properties": {"p": {"type": "number", "minimum": 0}}}));
        assert!(reason.contains("#/properties/p") && reason.contains("`minimum`"), "{reason}");
    }

    #[test]
    fn what_an_answer_is_held_to_is_also_checked_afterwards() {
        let kinds = ["object", "array", "string", "integer", "number"];
        let kept = kinds.iter().flat_map(|kind| keywords_of(kind).expect("a type")).filter(|key| **key != "format");
        for key in kept.chain(&["$ref", "oneOf", "anyOf", "const", "enum", "allOf", "type"]) {
            assert!(crate::schema::CHECKED.contains(key), "{key}");
        }
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        for schema in [
            json!("yes"),
            json!({"type": "text"}),
            json!({"enum": []}),
            json!({"type": "string", "format": "email"}),
            json!({"type": "string", "pattern": "a+"}),
            json!({"type": "integer", "minimum": 3, "maximum": 2}),
            json!({"type": "object", "properties": {}, "required": ["a"]}),
            json!({"$ref": "https://example.org/schema"}),
        ] {
            assert!(matches!(grammar(&schema), Err(Error::Config(_))), "{schema}");
        }
    }
}
