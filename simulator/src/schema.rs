//! A small JSON value that a JSON Schema allows. `pattern`, `format`,
//! `multipleOf` and conditions are not looked at.

use crate::reply::{number, word};
use serde_json::{Map, Value, json};

/// Where a schema that refers to itself is cut off.
const MAX_DEPTH: usize = 12;
/// From here on, objects without `required` have no fields, and lists without `minItems` no items.
const OPTIONAL_DEPTH: usize = 6;

/// A value that this schema allows, the same one for the same fingerprint.
pub(crate) fn instance(schema: &Value, fingerprint: u128) -> Value {
    InstanceMaker { root: schema, fingerprint, made: 0 }.make(schema, 0)
}

struct InstanceMaker<'a> {
    root: &'a Value,
    fingerprint: u128,
    /// How many draws were made.
    made: u64,
}

impl<'a> InstanceMaker<'a> {
    fn draw(&mut self) -> u64 {
        self.made += 1;
        number(self.fingerprint, self.made)
    }

    fn make(&mut self, schema: &'a Value, depth: usize) -> Value {
        if depth > MAX_DEPTH {
            return Value::Null;
        }
        if let Some(place) = schema["$ref"].as_str() {
            let target = place.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
            return target.map_or(Value::Null, |target| self.make(target, depth + 1));
        }
        if let Some(value) = schema.get("const") {
            return value.clone();
        }
        if let Some(values) = schema["enum"].as_array().filter(|values| !values.is_empty()) {
            let chosen = self.draw() % values.len() as u64;
            return values[chosen as usize].clone();
        }
        for alternatives in ["anyOf", "oneOf"] {
            if let Some(first) = schema[alternatives].as_array().and_then(|all| all.first()) {
                return self.make(first, depth + 1);
            }
        }
        if let Some(parts) = schema["allOf"].as_array() {
            return self.make_all(parts, depth);
        }
        match kind(schema) {
            "object" => self.object(schema, depth),
            "array" => self.array(schema, depth),
            "string" => json!(self.string(schema)),
            "integer" => json!(self.between(schema, 1.0) as i64),
            "number" => json!(self.between(schema, 0.01)),
            "boolean" => json!(self.draw().is_multiple_of(2)),
            _ => Value::Null,
        }
    }

    /// Fields of all parts, or the value of the last part that is no object.
    fn make_all(&mut self, parts: &'a [Value], depth: usize) -> Value {
        let mut whole = Value::Null;
        for part in parts {
            match (&mut whole, self.make(part, depth + 1)) {
                (Value::Object(fields), Value::Object(more)) => fields.extend(more),
                (whole, value) => *whole = value,
            }
        }
        whole
    }

    fn object(&mut self, schema: &'a Value, depth: usize) -> Value {
        let required = schema["required"].as_array();
        let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|required| required == name));
        let mut fields = Map::new();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            if is_required(name) || (required.is_none() && depth < OPTIONAL_DEPTH) {
                fields.insert(name.clone(), self.make(property, depth + 1));
            }
        }
        Value::Object(fields)
    }

    fn array(&mut self, schema: &'a Value, depth: usize) -> Value {
        let count = |name: &str| schema[name].as_u64();
        let prefix = schema["prefixItems"].as_array().map(Vec::as_slice).unwrap_or_default();
        let usual = if depth < OPTIONAL_DEPTH { 1.max(prefix.len() as u64) } else { 0 };
        let length = count("minItems").unwrap_or(usual).min(count("maxItems").unwrap_or(u64::MAX));
        let item = |i: usize| prefix.get(i).unwrap_or(&schema["items"]);
        (0..length as usize).map(|i| self.make(item(i), depth + 1)).collect()
    }

    fn string(&mut self, schema: &Value) -> String {
        let shortest = schema["minLength"].as_u64().unwrap_or_default() as usize;
        let longest = schema["maxLength"].as_u64().unwrap_or(u64::MAX);
        self.made += 1;
        let mut text = word(self.fingerprint, self.made).to_owned();
        while text.len() < shortest {
            text.push('x');
        }
        text.truncate(usize::try_from(longest).unwrap_or(usize::MAX));
        text
    }

    /// A number of the schema's range, which is 0 to 10 where it does not say.
    fn between(&mut self, schema: &Value, step: f64) -> f64 {
        let bound = |inclusive: &str, exclusive: &str, inwards: f64| {
            schema[inclusive].as_f64().or_else(|| schema[exclusive].as_f64().map(|bound| bound + inwards * step))
        };
        let lowest = bound("minimum", "exclusiveMinimum", 1.0);
        let highest = bound("maximum", "exclusiveMaximum", -1.0);
        let (lowest, highest) = match (lowest, highest) {
            (Some(lowest), Some(highest)) => (lowest, highest),
            (Some(lowest), None) => (lowest, lowest + 10.0),
            (None, Some(highest)) => (highest - 10.0, highest),
            (None, None) => (0.0, 10.0),
        };
        let steps = ((highest - lowest) / step).floor().max(0.0) as u64 + 1;
        lowest + (self.draw() % steps) as f64 * step
    }
}

/// The first type that is not `null`; what has fields is an object.
fn kind(schema: &Value) -> &str {
    match &schema["type"] {
        Value::String(name) => name,
        Value::Array(names) => names.iter().filter_map(Value::as_str).find(|name| *name != "null").unwrap_or("null"),
        _ if schema.get("properties").is_some() => "object",
        _ if schema.get("items").is_some() => "array",
        _ => "null",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_judgement_has_all_that_is_required_and_nothing_else() {
        let schema = json!({
            "type": "object",
            "properties": {
                "reason": { "type": "string", "minLength": 20, "maxLength": 20 },
                "verdict": { "enum": ["yes", "no"] },
                "score": { "type": "integer", "minimum": 1, "maximum": 5 },
                "share": { "type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1 },
                "sure": { "type": ["null", "boolean"] },
                "version": { "const": 2 },
                "extra": { "type": "string" },
            },
            "required": ["reason", "verdict", "score", "share", "sure", "version"],
            "additionalProperties": false,
        });
        for fingerprint in 0..100 {
            let value = instance(&schema, fingerprint);
            assert_eq!(value.as_object().map(Map::len), Some(6), "{value}");
            assert_eq!(value["reason"].as_str().map(str::len), Some(20));
            assert!(["yes", "no"].contains(&value["verdict"].as_str().expect("a text")));
            assert!((1..=5).contains(&value["score"].as_i64().expect("an integer")));
            let share = value["share"].as_f64().expect("a number");
            assert!(share > 0.0 && share < 1.0);
            assert!(value["sure"].is_boolean() && value["version"] == 2);
            assert_eq!(value, instance(&schema, fingerprint));
        }
    }

    #[test]
    fn lists_references_and_alternatives_are_followed() {
        let schema = json!({
            "properties": {
                "statements": { "type": "array", "minItems": 2, "items": { "$ref": "#/$defs/statement" } },
                "either": { "anyOf": [{ "type": "integer" }, { "type": "null" }] },
                "both": { "allOf": [{ "$ref": "#/$defs/statement" }, { "properties": { "n": { "type": "number" } } }] },
            },
            "$defs": { "statement": { "type": "object", "properties": { "text": { "type": "string" } } } },
        });
        let value = instance(&schema, 7);
        assert_eq!(value["statements"].as_array().map(Vec::len), Some(2));
        assert!(value["statements"][1]["text"].is_string() && value["either"].is_i64());
        assert!(value["both"]["text"].is_string() && value["both"]["n"].is_number());
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let schema = json!({ "type": "object", "properties": { "next": { "$ref": "#" }, "children": {
            "type": "array", "items": { "$ref": "#" } } } });
        assert!(instance(&schema, 1).is_object());
    }
}
