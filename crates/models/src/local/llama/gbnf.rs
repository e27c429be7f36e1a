//! A JSON Schema as a grammar in GBNF, the notation of llama.cpp. `schema` has
//! refused all keywords that are not here.
//!
//! llama.cpp has this conversion too, in its library `common`. That library
//! holds everything that llama.cpp's programs share, and takes as long to
//! compile as the rest of llama.cpp: too long for this conversion alone.
//!
//! Sources: RFC 8259 for the texts, RFC 3339 for dates and times, JSON Schema
//! 2020-12 for the keywords, `grammars/README.md` of llama.cpp for GBNF.

use serde_json::{Map, Value};
use std::{collections::BTreeMap, fmt::Write};

/// Rules that every grammar may refer to. `space` limits the white space between two
/// tokens to one space, or to one or two line ends with an indentation: otherwise a
/// model may write white space for ever.
const COMMON: &str = r#"space ::= | " " | "\n"{1,2} [ \t]{0,20}
char ::= [^"\\\x7F\x00-\x1F] | [\\] (["\\bfnrt] | "u" [0-9a-fA-F]{4})
string ::= "\"" char* "\"" space
whole ::= [0] | [1-9] [0-9]{0,15}
integer ::= "-"? whole space
number ::= "-"? whole ("." [0-9]{1,16})? ([eE] [-+]? whole)? space
boolean ::= ("true" | "false") space
null ::= "null" space
pair ::= string ":" space value
object ::= "{" space (pair ("," space pair)*)? "}" space
array ::= "[" space (value ("," space value)*)? "]" space
value ::= object | array | string | number | boolean | null
date ::= [0-9]{4} "-" ("0" [1-9] | "1" [0-2]) "-" ("0" [1-9] | [12] [0-9] | "3" [01])
time ::= ([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9] ":" [0-5] [0-9] ("." [0-9]{3})? ("Z" | [-+] ([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9])
"#;

/// The largest whole number without a bound has 16 digits, as in [`COMMON`].
const UNBOUNDED: i64 = 9_999_999_999_999_999;

/// Why a schema cannot become a grammar.
#[derive(Debug, thiserror::Error)]
pub(super) enum GrammarError {
    #[error("the schema has no `{0}`")]
    NoTarget(String),
    #[error("`allOf` can join objects with `properties` only")]
    NotJoinable,
}

/// The grammar of a schema, with the rule `root`.
pub(super) fn of_schema(schema: &Value) -> Result<String, GrammarError> {
    let mut rules = Rules { schema, names: BTreeMap::new(), text: String::new() };
    let root = rules.expression(schema)?;
    Ok(format!("root ::= {root}\n{}{COMMON}", rules.text))
}

struct Rules<'a> {
    /// What references point into.
    schema: &'a Value,
    /// The rule of each reference.
    names: BTreeMap<&'a str, String>,
    /// The rules so far.
    text: String,
}

impl<'a> Rules<'a> {
    /// Adds a rule and returns its name.
    fn add(&mut self, name: &str, body: &str) -> String {
        let _ = writeln!(self.text, "{name} ::= {body}");
        name.to_owned()
    }

    /// A name that no rule has yet.
    fn fresh(&self, kind: &str) -> String {
        format!("{kind}-{}", self.text.lines().count() + self.names.len())
    }

    /// An expression for what a schema admits: one name or one group.
    fn expression(&mut self, schema: &'a Value) -> Result<String, GrammarError> {
        let Some(object) = schema.as_object() else { return Ok("value".to_owned()) };
        if let Some(target) = object.get("$ref").and_then(Value::as_str) {
            return self.reference(target);
        }
        if let Some(value) = object.get("const") {
            return Ok(literal_value(value));
        }
        if let Some(values) = object.get("enum").and_then(Value::as_array) {
            return Ok(one_of(values.iter().map(literal_value).collect()));
        }
        for several in ["oneOf", "anyOf"] {
            if let Some(parts) = object.get(several).and_then(Value::as_array) {
                return Ok(one_of(parts.iter().map(|part| self.expression(part)).collect::<Result<_, _>>()?));
            }
        }
        if let Some(parts) = object.get("allOf").and_then(Value::as_array) {
            return self.all_of(parts);
        }
        match object.get("type") {
            Some(Value::Array(kinds)) => {
                let kinds = kinds.iter().filter_map(Value::as_str);
                Ok(one_of(kinds.map(|kind| self.of_type(kind, object)).collect::<Result<_, _>>()?))
            }
            Some(Value::String(kind)) => self.of_type(kind, object),
            _ if object.contains_key("properties") => self.of_type("object", object),
            _ => Ok("value".to_owned()),
        }
    }

    fn of_type(&mut self, kind: &str, schema: &'a Map<String, Value>) -> Result<String, GrammarError> {
        let number = |key: &str| schema.get(key).and_then(Value::as_i64);
        match kind {
            "object" => {
                let properties = schema.get("properties").and_then(Value::as_object);
                let required = schema.get("required").and_then(Value::as_array);
                let is_required = |name: &str| required.is_some_and(|all| all.iter().any(|one| one == name));
                let properties: Vec<(&str, &Value, bool)> = properties
                    .into_iter()
                    .flatten()
                    .map(|(name, schema)| (name.as_str(), schema, is_required(name)))
                    .collect();
                match schema.get("additionalProperties") {
                    None if properties.is_empty() => Ok("object".to_owned()),
                    None | Some(Value::Bool(false)) => self.object(&properties, None),
                    Some(more) => self.object(&properties, Some(more)),
                }
            }
            "array" => {
                let one = schema.get("items").or_else(|| schema.get("prefixItems"));
                if let Some(Value::Array(items)) = one {
                    let items = items.iter().map(|item| self.expression(item)).collect::<Result<Vec<_>, _>>()?;
                    return Ok(format!("(\"[\" space {} \"]\" space)", items.join(" \",\" space ")));
                }
                let item = one.map_or_else(|| Ok("value".to_owned()), |item| self.expression(item))?;
                let (least, most) = (number("minItems").unwrap_or(0).max(0), number("maxItems"));
                Ok(format!("(\"[\" space {} \"]\" space)", listed(&item, least, most)))
            }
            "string" => match schema.get("format").and_then(Value::as_str) {
                Some("date") => Ok(quoted("date")),
                Some("time") => Ok(quoted("time")),
                Some("date-time") => Ok(quoted("date \"T\" time")),
                Some("uuid") => {
                    let digits = |n: usize| format!("[0-9a-fA-F]{{{n}}}");
                    Ok(quoted(&[8, 4, 4, 4, 12].map(digits).join(" \"-\" ")))
                }
                _ => match (number("minLength").unwrap_or(0).max(0), number("maxLength")) {
                    (0, None) => Ok("string".to_owned()),
                    (least, None) => Ok(quoted(&format!("char{{{least},}}"))),
                    (_, Some(0)) => Ok(quoted("")),
                    (least, Some(most)) => Ok(quoted(&format!("char{{{least},{most}}}"))),
                },
            },
            "integer" => {
                let least =
                    number("minimum").or_else(|| number("exclusiveMinimum").map(|bound| bound.saturating_add(1)));
                let most =
                    number("maximum").or_else(|| number("exclusiveMaximum").map(|bound| bound.saturating_sub(1)));
                if (least, most) == (None, None) {
                    return Ok("integer".to_owned());
                }
                let (least, most) = (least.unwrap_or(-UNBOUNDED), most.unwrap_or(UNBOUNDED));
                Ok(format!("({} space)", whole_numbers(least, most)))
            }
            // `number`, `boolean` and `null` are rules of their own.
            other => Ok(other.to_owned()),
        }
    }

    /// An object: the required properties in their order, then any of the
    /// others in theirs, then further ones if they are allowed.
    fn object(
        &mut self,
        properties: &[(&'a str, &'a Value, bool)],
        more: Option<&'a Value>,
    ) -> Result<String, GrammarError> {
        let (mut required, mut optional) = (Vec::new(), Vec::new());
        for (name, schema, is_required) in properties {
            let value = self.expression(schema)?;
            let pair = format!("{} space \":\" space {value}", literal(&Value::from(*name).to_string()));
            let pair = self.add(&self.fresh("pair"), &pair);
            if *is_required { required.push(pair) } else { optional.push(pair) }
        }
        // From last to first: a rule says what may follow its pair.
        let mut rest = match more {
            None => None,
            Some(schema) => {
                let value = self.expression(if schema.is_boolean() { &Value::Null } else { schema })?;
                let pair = self.add(&self.fresh("more"), &format!("string \":\" space {value}"));
                Some(self.add(&self.fresh("rest"), &format!("{pair} (\",\" space {pair})*")))
            }
        };
        for pair in optional.iter().rev() {
            let body = match &rest {
                None => pair.clone(),
                Some(rest) => format!("{pair} (\",\" space {rest})? | {rest}"),
            };
            rest = Some(self.add(&self.fresh("rest"), &body));
        }
        let required = required.join(" \",\" space ");
        let content = match (required.is_empty(), rest) {
            (true, None) => String::new(),
            (true, Some(rest)) => format!("({rest})?"),
            (false, None) => required,
            (false, Some(rest)) => format!("{required} (\",\" space {rest})?"),
        };
        Ok(format!("(\"{{\" space {content} \"}}\" space)"))
    }

    /// Objects that have the properties of all parts.
    fn all_of(&mut self, parts: &'a [Value]) -> Result<String, GrammarError> {
        let mut properties: Vec<(&str, &Value, bool)> = Vec::new();
        for part in parts {
            let mut part = part;
            while let Some(target) = part.get("$ref").and_then(Value::as_str) {
                part = self.target(target)?;
            }
            let Some(named) = part.get("properties").and_then(Value::as_object) else {
                return match parts {
                    [only] => self.expression(only),
                    _ => Err(GrammarError::NotJoinable),
                };
            };
            let required = part.get("required").and_then(Value::as_array);
            for (name, schema) in named {
                let is_required = required.is_some_and(|all| all.iter().any(|one| one == name));
                properties.retain(|(other, ..)| other != name);
                properties.push((name, schema, is_required));
            }
        }
        self.object(&properties, None)
    }

    fn reference(&mut self, target: &'a str) -> Result<String, GrammarError> {
        if let Some(name) = self.names.get(target) {
            return Ok(name.clone());
        }
        let schema = self.target(target)?;
        // The name comes first, because the schema may refer to itself.
        let name = format!("ref-{}", self.names.len());
        self.names.insert(target, name.clone());
        let body = self.expression(schema)?;
        Ok(self.add(&name, &body))
    }

    fn target(&self, target: &str) -> Result<&'a Value, GrammarError> {
        let found = target.strip_prefix('#').and_then(|pointer| self.schema.pointer(pointer));
        found.ok_or_else(|| GrammarError::NoTarget(target.to_owned()))
    }
}

fn one_of(options: Vec<String>) -> String {
    match &options[..] {
        [one] => one.clone(),
        _ => format!("({})", options.join(" | ")),
    }
}

fn quoted(content: &str) -> String {
    format!("(\"\\\"\" {content} \"\\\"\" space)")
}

/// A value as it is written in JSON without spaces.
fn literal_value(value: &Value) -> String {
    format!("({} space)", literal(&value.to_string()))
}

/// JSON as it is, in the notation of the grammar. JSON holds no raw control characters.
fn literal(json: &str) -> String {
    format!("\"{}\"", json.replace('\\', r"\\").replace('"', "\\\""))
}

/// `least` to `most` items, with commas.
fn listed(item: &str, least: i64, most: Option<i64>) -> String {
    let following = |least: i64| match most {
        None if least == 0 => "*".to_owned(),
        None => format!("{{{least},}}"),
        Some(most) => format!("{{{least},{}}}", most - 1),
    };
    match most {
        Some(most) if most <= 0 => String::new(),
        Some(1) if least == 0 => format!("({item})?"),
        Some(1) => item.to_owned(),
        _ if least == 0 => format!("({item} (\",\" space {item}){})?", following(0)),
        _ => format!("{item} (\",\" space {item}){}", following(least - 1)),
    }
}

/// The whole numbers from `least` to `most`, both included, in decimal digits
/// without leading zeros.
fn whole_numbers(least: i64, most: i64) -> String {
    let mut options = Vec::new();
    if least < 0 {
        let smallest = if most < 0 { most.unsigned_abs() } else { 1 };
        options.push(format!("\"-\" ({})", digits(smallest, least.unsigned_abs())));
    }
    if most >= 0 {
        options.push(digits(least.max(0).unsigned_abs(), most.unsigned_abs()));
    }
    format!("({})", options.join(" | "))
}

fn digits(least: u64, most: u64) -> String {
    let mut options = Vec::new();
    for length in least.to_string().len()..=most.to_string().len() {
        let shortest = if length == 1 { 0 } else { 10_u64.pow(length as u32 - 1) };
        let longest = 10_u64.checked_pow(length as u32).map_or(u64::MAX, |next| next - 1);
        let (from, to) = (least.max(shortest).to_string(), most.min(longest).to_string());
        same_length(from.as_bytes(), to.as_bytes(), String::new(), &mut options);
    }
    options.join(" | ")
}

/// The numbers between two of the same length, as alternatives that begin with `before`.
fn same_length(from: &[u8], to: &[u8], before: String, options: &mut Vec<String>) {
    let class = |low: u8, high: u8| match low == high {
        true => format!("[{}]", char::from(low)),
        false => format!("[{}-{}]", char::from(low), char::from(high)),
    };
    let join = |before: &str, part: &str| [before, part].join(if before.is_empty() { "" } else { " " });
    let (Some((&low, from_rest)), Some((&high, to_rest))) = (from.split_first(), to.split_first()) else {
        options.push(before);
        return;
    };
    let free = from.len() - 1;
    let all = |low: u8, high: u8| match free {
        0 => join(&before, &class(low, high)),
        _ => join(&before, &format!("{} [0-9]{{{free}}}", class(low, high))),
    };
    let starts_low = from_rest.iter().all(|digit| *digit == b'0');
    let ends_high = to_rest.iter().all(|digit| *digit == b'9');
    if starts_low && ends_high {
        options.push(all(low, high));
        return;
    }
    if low == high {
        same_length(from_rest, to_rest, join(&before, &class(low, low)), options);
        return;
    }
    let (mut first, mut last) = (low, high);
    if !starts_low {
        same_length(from_rest, &vec![b'9'; free], join(&before, &class(low, low)), options);
        first += 1;
    }
    if !ends_high {
        last -= 1;
    }
    if first <= last {
        options.push(all(first, last));
    }
    if !ends_high {
        same_length(&vec![b'0'; free], to_rest, join(&before, &class(high, high)), options);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Whether a text is one of an alternative of digit classes, such as `[1-3] [0-9]{2} | [4]`.
    fn admits(options: &str, text: &str) -> bool {
        let pattern = options.replace([' ', '"'], "");
        regex::Regex::new(&format!("^(?:{pattern})$")).unwrap().is_match(text)
    }

    #[test]
    fn a_range_of_whole_numbers_admits_its_numbers_and_no_others() {
        let ranges =
            [(0, 10), (3, 7), (7, 312), (-5, 5), (-120, -7), (0, 0), (1, 1000), (99, 101), (-1, 0), (245, 1199)];
        for (least, most) in ranges {
            let options = whole_numbers(least, most);
            for number in -1300..=1300_i64 {
                assert_eq!(
                    admits(&options, &number.to_string()),
                    (least..=most).contains(&number),
                    "{number}: {options}"
                );
            }
            assert!(!admits(&options, "-0") && !admits(&options, "007") && !admits(&options, ""), "{options}");
        }
        let options = whole_numbers(12, UNBOUNDED);
        assert!(admits(&options, "9999999999999999") && !admits(&options, "11"), "{options}");
    }

    #[test]
    fn lists_have_as_many_items_as_they_may() {
        let repeated = |least, most| {
            let pattern = listed("x", least, most).replace(" space", "").replace([' ', '"'], "");
            let pattern = regex::Regex::new(&format!("^(?:{pattern})$")).unwrap();
            (0..6).filter(|n| pattern.is_match(&vec!["x"; *n].join(","))).collect::<Vec<usize>>()
        };
        assert_eq!(repeated(0, None), [0, 1, 2, 3, 4, 5]);
        assert_eq!(repeated(2, None), [2, 3, 4, 5]);
        assert_eq!(repeated(0, Some(0)), [0]);
        assert_eq!(repeated(0, Some(1)), [0, 1]);
        assert_eq!(repeated(1, Some(1)), [1]);
        assert_eq!(repeated(0, Some(3)), [0, 1, 2, 3]);
        assert_eq!(repeated(2, Some(3)), [2, 3]);
    }

    #[test]
    fn properties_stand_in_their_order_with_the_required_ones_first() {
        let schema = json!({
            "type": "object", "required": ["b"],
            "properties": { "a": { "type": "null" }, "b": { "type": "boolean" }, "c\"": { "type": "integer" } },
        });
        let grammar = of_schema(&schema).unwrap();
        let (own, _) = grammar.split_once("space ::=").unwrap();
        let wanted = "root ::= (\"{\" space pair-1 (\",\" space rest-4)? \"}\" space)\n\
            pair-0 ::= \"\\\"a\\\"\" space \":\" space null\n\
            pair-1 ::= \"\\\"b\\\"\" space \":\" space boolean\n\
            pair-2 ::= \"\\\"c\\\\\\\"\\\"\" space \":\" space integer\n\
            rest-3 ::= pair-2\n\
            rest-4 ::= pair-0 (\",\" space rest-3)? | rest-3\n";
        assert_eq!(own, wanted);
    }

    #[test]
    fn no_two_rules_have_one_name_and_every_name_has_a_rule() {
        let schema = json!({
            "$defs": {
                "tree": { "type": "object", "required": ["name"], "properties": {
                    "name": { "type": "string", "maxLength": 9 },
                    "parts": { "type": "array", "items": { "$ref": "#/$defs/tree" } },
                } },
                "named": { "properties": { "id": { "type": "string", "format": "uuid" } }, "required": ["id"] },
            },
            "type": "object", "additionalProperties": { "type": "number" },
            "properties": {
                "tree": { "$ref": "#/$defs/tree" },
                "both": { "allOf": [{ "$ref": "#/$defs/named" }, { "properties": { "at": { "type": "string", "format": "date-time" } } }] },
                "one": { "anyOf": [{ "type": ["integer", "null"], "minimum": 3 }, { "enum": ["a", 1, null] }, { "const": { "x": [1] } }] },
                "pair": { "type": "array", "items": [{ "type": "boolean" }, {}] },
                "any": {},
            },
        });
        let grammar = of_schema(&schema).unwrap();
        let names: Vec<&str> = grammar.lines().map(|line| line.split_once(" ::= ").unwrap().0).collect();
        let used = regex::Regex::new(r#""(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|\{[\d,]+\}"#).unwrap();
        let words = regex::Regex::new("[a-z][a-z0-9-]*").unwrap();
        for (i, line) in grammar.lines().enumerate() {
            assert!(!names[..i].contains(&names[i]), "{} is there twice\n{grammar}", names[i]);
            let body = used.replace_all(line.split_once(" ::= ").unwrap().1, " ").into_owned();
            for word in words.find_iter(&body) {
                assert!(names.contains(&word.as_str()), "{} of `{line}`", word.as_str());
            }
        }
    }

    #[test]
    fn a_reference_that_leads_nowhere_is_named() {
        assert!(of_schema(&json!({ "$ref": "#/$defs/none" })).unwrap_err().to_string().contains("#/$defs/none"));
    }
}
