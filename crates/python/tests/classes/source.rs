//! Writes Python's classes for components with their settings: the text of one
//! module for each kind. It reads the schema of the kind's registry (names,
//! types, defaults and comments of settings) and the docs of each component's
//! file (what the component is for).

use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

/// The longest line.
const WIDTH: usize = 120;
/// Words that cannot name a class or a setting in Python; such a name gets `_` at its end.
const RESERVED: &[&str] = &["None", "True", "False", "lambda", "from", "in", "is", "class", "global", "with", "as"];

/// A kind of component, as Python sees it.
pub(crate) struct Kind {
    /// The module with its classes.
    pub(crate) module: String,
    /// The name in `reverie`: the decorator, which has the classes as attributes.
    pub(crate) name: &'static str,
    /// The names of its components, each with the docs of its file.
    pub(crate) docs: Vec<(&'static str, String)>,
    /// The schema of its registry.
    pub(crate) schema: Value,
}

impl Kind {
    /// Whether a function can be one of its components. Then `reverie.functions` has a decorator with its name and
    /// its classes.
    fn has_decorator(&self) -> bool {
        self.docs.iter().any(|(component, _)| *component == "python")
    }
}

/// The module's text.
pub(crate) fn module(kind: &Kind, command: &str) -> String {
    let mut writer = Writer { definitions: &kind.schema["$defs"], classes: String::new(), written: BTreeSet::new() };
    let mut names = Vec::new();
    for variant in variants(&kind.schema) {
        let Some((component, content)) = only(&variant["properties"]) else { continue };
        let docs = kind.docs.iter().find(|(name, _)| *name == component);
        let head = docs.map(|(_, docs)| head(docs)).unwrap_or_default();
        writer.class(&class_name(component), Some(component), &head, writer.resolved(content));
        names.push(class_name(component));
    }
    let Kind { module, name, .. } = kind;
    let own = &writer.classes;
    let mut typing = vec!["ClassVar"];
    typing.extend(["Any", "Literal"].into_iter().filter(|word| own.contains(&format!("{word}["))));
    if own.contains("Any]") && !typing.contains(&"Any") {
        typing.push("Any");
    }
    typing.sort_unstable();
    let abstract_types: Vec<&str> =
        ["Mapping", "Sequence"].into_iter().filter(|word| own.contains(&format!("{word}["))).collect();
    let bases: Vec<&str> =
        ["Component", "Part"].into_iter().filter(|base| own.contains(&format!("({base})"))).collect();
    let mut text = format!(
        "\"\"\"The {module} with their settings: `reverie.{name}.{first}` and so on. Each says what it is for.\n\nWritten from \
         the Rust source by `{command}`: change that, not this.\n\"\"\"\n\nfrom __future__ import annotations\n\n",
        first = names.iter().find(|name| !name.ends_with('_')).or(names.first()).map_or("", String::as_str),
    );
    if !abstract_types.is_empty() {
        let _ = writeln!(text, "from collections.abc import {}", abstract_types.join(", "));
    }
    let _ = writeln!(text, "from dataclasses import dataclass\nfrom typing import {}\n", typing.join(", "));
    let _ = writeln!(text, "from reverie._settings import {}", bases.join(", "));
    text.push_str(own);
    let _ = write!(
        text,
        "\n\nclass {}:\n    \"\"\"The {module} by their names: `reverie.{name}` has them.\"\"\"\n\n",
        class_name(module)
    );
    for name in &names {
        let _ = writeln!(text, "    {name} = {name}");
    }
    if !kind.has_decorator() {
        let _ = writeln!(text, "\n\n{name} = {}()", class_name(module));
    }
    text
}

/// The text of the module that lists the modules of all kinds.
pub(crate) fn kinds(kinds: &[Kind], command: &str) -> String {
    let modules: BTreeSet<&str> = kinds.iter().map(|kind| kind.module.as_str()).collect();
    let homes: BTreeMap<&str, &str> =
        kinds.iter().filter(|kind| !kind.has_decorator()).map(|kind| (kind.name, kind.module.as_str())).collect();
    let all: BTreeSet<&str> = modules.iter().chain(homes.keys()).copied().collect();
    let strings = |words: &BTreeSet<&str>| words.iter().map(|word| format!("    \"{word}\",\n")).collect::<String>();
    let imported: String = modules.iter().map(|module| format!("        {module},\n")).collect();
    let mut text = format!(
        "\"\"\"The modules with the classes of components, and the names in `reverie` that have these classes.\n\nWritten \
         from the Rust source by `{command}`: change that, not this.\n\"\"\"\n\nfrom __future__ import annotations\n\nfrom \
         typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from reverie import (\n{imported}    )\n"
    );
    for (name, module) in &homes {
        let _ = writeln!(text, "    from reverie.{module} import {name}");
    }
    let _ = writeln!(text, "\nMODULES = (\n{})", strings(&modules));
    text.push_str(
        "\n# The modules of names that are no decorator; decorators are in `reverie.functions`.\nHOMES = {\n",
    );
    for (name, module) in &homes {
        let _ = writeln!(text, "    \"{name}\": \"{module}\",");
    }
    let _ = writeln!(text, "}}\n\n__all__ = [\n{}]", strings(&all));
    text
}

/// What a component is for: the first two paragraphs of its docs.
fn head(docs: &str) -> String {
    let lines = docs.lines().map(str::trim).collect::<Vec<_>>();
    let said = lines.split(|line| line.is_empty()).filter(|paragraph| !paragraph.is_empty());
    let paragraph = |lines: &[&str]| {
        // Sources and differences are for readers of the Rust source.
        let is_origin = |line: &&&str| line.starts_with("Source") || line.starts_with("Difference");
        let text = lines.iter().take_while(|line| !is_origin(line)).copied().collect::<Vec<_>>().join(" ");
        let text = text.split(" Source: ").next().unwrap_or_default().to_owned();
        // The list after a colon is left out, so the colon becomes a full stop.
        text.strip_suffix(':').map_or_else(|| text.clone(), |text| format!("{text}."))
    };
    said.take(2).map(paragraph).filter(|said| !said.is_empty()).collect::<Vec<_>>().join("\n\n")
}

/// The components that an axis can have. Where it can also have a table of them, they are the first choice.
fn variants(schema: &Value) -> impl Iterator<Item = &Value> {
    let first = schema["anyOf"][0]["$ref"].as_str().and_then(|path| schema.pointer(path.strip_prefix('#')?));
    let components = &first.unwrap_or(schema)["oneOf"];
    components.as_array().into_iter().flatten()
}

/// The one entry of a table that has one.
fn only(table: &Value) -> Option<(&str, &Value)> {
    let table = table.as_object().filter(|table| table.len() == 1)?;
    table.iter().next().map(|(name, value)| (name.as_str(), value))
}

/// `sentence_window` becomes `SentenceWindow`.
fn class_name(component: &str) -> String {
    let capital = |part: &str| part[..1].to_uppercase() + &part[1..];
    unreserved(&component.split('_').map(capital).collect::<String>())
}

fn unreserved(name: &str) -> String {
    format!("{name}{}", if RESERVED.contains(&name) { "_" } else { "" })
}

struct Writer<'a> {
    definitions: &'a Value,
    classes: String,
    written: BTreeSet<String>,
}

impl<'a> Writer<'a> {
    /// What a reference leads to.
    fn resolved(&self, mut schema: &'a Value) -> &'a Value {
        while let Some(name) = reference(schema) {
            schema = &self.definitions[name];
        }
        schema
    }

    /// A model without a name is not valid: a setting that names a model has no
    /// default, and neither have settings that contain one.
    fn must_be_given(&self, key: &str, field: &Value, default: &Value) -> bool {
        let parts = reference(field).map(|name| &self.definitions[name]["properties"]);
        let mut parts = parts.and_then(Value::as_object).into_iter().flatten();
        (key == "model" && default == "")
            || parts.any(|(key, part)| default.get(key).is_some_and(|default| self.must_be_given(key, part, default)))
    }

    /// Writes a class, after the classes of its settings. A class that is one
    /// of several choices carries the name that a file uses for it.
    fn class(&mut self, name: &str, tag: Option<&str>, said: &str, schema: &'a Value) {
        if !self.written.insert(name.to_owned()) {
            return;
        }
        let mut fields = Vec::new();
        for (key, field) in schema["properties"].as_object().into_iter().flatten() {
            let kind = self.kind(field);
            let default = field.get("default").filter(|default| !self.must_be_given(key, field, default));
            let default = match default {
                Some(default) => Some(self.value(field, default)),
                // A setting that is not written if it is none has `None` as its default.
                None => kind.ends_with(" | None").then(|| "None".to_owned()),
            };
            fields.push((unreserved(key), kind, default, field["description"].as_str().unwrap_or_default()));
        }
        // Settings that must be given come first, as Python requires.
        fields.sort_by_key(|(_, _, default, _)| default.is_some());
        let (base, out) = (if tag.is_some() { "Component" } else { "Part" }, &mut self.classes);
        let _ = write!(out, "\n\n@dataclass(frozen=True, kw_only=True)\nclass {name}({base}):\n");
        let mut doc = vec![String::new()];
        for (i, paragraph) in said.split("\n\n").enumerate() {
            doc.extend((i > 0).then(String::new));
            // The first line stands behind the quotes.
            doc.extend(wrapped(&plain(paragraph), if i == 0 { 7 } else { 4 }, 4));
        }
        if !fields.is_empty() {
            doc.extend([String::new(), "    Args:".to_owned()]);
        }
        for (name, _, _, said) in &fields {
            doc.extend(wrapped(&format!("{name}: {}", plain(said)), 8, 12));
        }
        let _ = writeln!(out, "    \"\"\"{}\n    \"\"\"\n", doc.join("\n").trim_start());
        if let Some(tag) = tag {
            let _ = writeln!(out, "    _name: ClassVar[str] = \"{tag}\"");
        }
        if !fields.is_empty() && tag.is_some() {
            out.push('\n');
        }
        for (name, kind, default, _) in fields {
            let default = default.map(|default| format!(" = {default}")).unwrap_or_default();
            let _ = writeln!(out, "    {name}: {kind}{default}");
        }
    }

    /// The type of a setting.
    fn kind(&mut self, schema: &'a Value) -> String {
        if let Some(name) = reference(schema) {
            return self.named(name, &self.definitions[name]);
        }
        if let Some(of) = schema["anyOf"].as_array() {
            return of.iter().map(|schema| self.kind(schema)).collect::<Vec<_>>().join(" | ");
        }
        let types = match &schema["type"] {
            Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
            Value::String(one) => vec![one.as_str()],
            // Anything that JSON has.
            _ => return "Any".to_owned(),
        };
        let written = |one: &str| match one {
            "integer" => "int".to_owned(),
            "number" => "float".to_owned(),
            "boolean" => "bool".to_owned(),
            "string" => "str".to_owned(),
            "null" => "None".to_owned(),
            "array" => self.list(schema),
            _ => "Mapping[str, Any]".to_owned(),
        };
        types.into_iter().map(written).collect::<Vec<_>>().join(" | ")
    }

    fn list(&mut self, schema: &'a Value) -> String {
        let items: Vec<String> = match (schema["prefixItems"].as_array(), schema["maxItems"].as_u64()) {
            (Some(items), _) => items.iter().map(|item| self.kind(item)).collect(),
            (None, Some(length)) => vec![self.kind(&schema["items"]); length as usize],
            (None, None) => return format!("Sequence[{}]", self.kind(&schema["items"])),
        };
        format!("tuple[{}]", items.join(", "))
    }

    /// The type of something with a name: a choice of words, a choice of
    /// classes, or one class. A table is the same everywhere.
    fn named(&mut self, name: &str, schema: &'a Value) -> String {
        // A choice of too many words for a `Literal`, such as the languages, is a plain `str`.
        if schema["type"] == "string" {
            return "str".to_owned();
        }
        let Some(choices) = schema["oneOf"].as_array() else {
            self.class(name, None, schema["description"].as_str().unwrap_or_default(), schema);
            return format!("{name} | Mapping[str, Any]");
        };
        let (mut words, mut classes) = (Vec::new(), Vec::new());
        let mut tables = false;
        for choice in choices {
            if let Some(word) = choice["const"].as_str() {
                words.push(format!("\"{word}\""));
            } else if let Some((tag, content)) = only(&choice["properties"]) {
                tables = true;
                if reference(content).is_some() {
                    let said = choice["description"].as_str().unwrap_or_default();
                    self.class(&class_name(tag), Some(tag), said, self.resolved(content));
                    classes.push(class_name(tag));
                }
            }
        }
        let mut kinds = Vec::new();
        kinds.extend((!words.is_empty()).then(|| format!("Literal[{}]", words.join(", "))));
        kinds.extend(classes);
        kinds.extend(tables.then(|| "Mapping[str, Any]".to_owned()));
        kinds.join(" | ")
    }

    /// A default as Python writes it.
    fn value(&self, schema: &Value, value: &Value) -> String {
        match value {
            Value::Null => "None".to_owned(),
            Value::Bool(true) => "True".to_owned(),
            Value::Bool(false) => "False".to_owned(),
            // A 32-bit number is not the 64-bit number nearest to it.
            Value::Number(number) if schema["format"] == "float" => {
                format!("{:?}", number.as_f64().unwrap_or_default() as f32)
            }
            Value::Number(number) => number.to_string(),
            Value::String(text) => serde_json::to_string(text).unwrap_or_default(),
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(|item| self.value(&schema["items"], item)).collect();
                format!("({}{})", items.join(", "), if items.len() == 1 { "," } else { "" })
            }
            Value::Object(_) => self.object(schema, value),
        }
    }

    fn object(&self, schema: &Value, value: &Value) -> String {
        let name = reference(schema).unwrap_or_default();
        let of = &self.definitions[name];
        let Some((tag, content)) = only(value).filter(|_| of["oneOf"].is_array()) else {
            return self.made(name, of, value);
        };
        let mut choices = variants(of).filter_map(|choice| only(&choice["properties"]));
        let inner = choices.find(|(known, _)| *known == tag).map_or(&Value::Null, |(_, content)| content);
        self.made(&class_name(tag), reference(inner).map_or(inner, |name| &self.definitions[name]), content)
    }

    /// A call of a class, with the settings that differ from the class's own defaults.
    fn made(&self, class: &str, schema: &Value, value: &Value) -> String {
        let other = value.as_object().into_iter().flatten().filter_map(|(key, value)| {
            let field = &schema["properties"][key];
            (field["default"] != *value).then(|| format!("{}={}", unreserved(key), self.value(field, value)))
        });
        format!("{class}({})", other.collect::<Vec<_>>().join(", "))
    }
}

fn reference(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix("#/$defs/")
}

/// Words without rustdoc's links, in one line, for a docstring.
fn plain(text: &str) -> String {
    let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    while let Some((start, end)) = text.find("](crate::").and_then(|at| Some((at + 1, at + text[at..].find(')')?))) {
        text.replace_range(start..=end, "");
    }
    text.replace("[`", "`").replace("`]", "`").replace('\\', "\\\\").replace("\"\"\"", "'''")
}

/// Lines that are not too long; those after the first have another indent.
fn wrapped(text: &str, first: usize, next: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = " ".repeat(first);
    let mut is_empty = true;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(std::mem::replace(&mut line, " ".repeat(next)));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines.push(line);
    lines
}
