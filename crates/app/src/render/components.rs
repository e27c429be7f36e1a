//! The components and their settings, from the code: docs of files and JSON
//! Schemas of settings.

use super::{TableLayout, table};
use comfy_table::ContentArrangement;
use rag::Axis;
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write;

/// A component, as a reader of the experiment file needs it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComponentDocs {
    /// Its kind: the axis that lists it, or `metric`.
    pub kind: &'static str,
    /// Its name in the file.
    pub name: &'static str,
    /// What it is for, in paragraphs.
    pub docs: String,
    /// Its settings; a nested one is named `outer.inner`.
    pub settings: Vec<Setting>,
}

/// A setting of a component.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// What it takes, in words.
    pub takes: String,
    /// The value if it is not set, as JSON; `None` if it must be set.
    pub default: Option<Value>,
    /// What it does.
    pub description: String,
}

/// All components: those of each stage, then the metrics.
pub fn components() -> Vec<ComponentDocs> {
    let of = |kind, docs: Vec<(&'static str, String)>, schema: &Value| {
        let one = |(name, docs)| ComponentDocs { kind, name, docs, settings: settings(schema, name) };
        docs.into_iter().map(one).collect::<Vec<_>>()
    };
    let stages = Axis::ALL.iter().map(|axis| of(axis.name(), axis.docs(), &axis.schema().unwrap_or_default()));
    let metrics = eval::MetricConfig::NAMES.iter().copied().zip(eval::MetricConfig::docs()).collect();
    stages.flatten().chain(of("metric", metrics, &eval::MetricConfig::schema())).collect()
}

/// The settings of the component of this name, by the schema of its registry.
fn settings(schema: &Value, name: &str) -> Vec<Setting> {
    let variants = schema["oneOf"].as_array().into_iter().flatten();
    let mut found = variants.filter_map(|variant| variant["properties"].get(name));
    let mut all = Vec::new();
    if let Some(content) = found.next() {
        add_settings(&mut all, &schema["$defs"], content, "");
    }
    all
}

fn add_settings(all: &mut Vec<Setting>, definitions: &Value, schema: &Value, within: &str) {
    let schema = resolve(definitions, schema);
    for (key, field) in schema["properties"].as_object().into_iter().flatten() {
        let name = format!("{within}{key}");
        let description =
            field["description"].as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
        let is_required = schema["required"].as_array().is_some_and(|all| all.contains(&key.as_str().into()));
        // The metric `prompt` needs a `file`. Its default is empty because a program may give the text instead.
        let default = field.get("default").filter(|default| !(key == "file" && **default == "")).cloned();
        let or_nothing = !is_required && takes(definitions, field).contains("nothing");
        let takes_what = takes(definitions, field);
        let takes_what = if is_required { takes_what.trim_end_matches(" or nothing").to_owned() } else { takes_what };
        let default = default.or_else(|| or_nothing.then_some(Value::Null));
        all.push(Setting { name: name.clone(), takes: takes_what, default, description });
        let parts = resolve(definitions, field);
        let choices =
            parts["oneOf"].as_array().into_iter().flatten().filter_map(|choice| choice["properties"].as_object());
        for (tag, content) in choices.flatten() {
            add_settings(all, definitions, content, &format!("{name}.{tag}."));
        }
        add_settings(all, definitions, parts, &format!("{name}."));
    }
}

fn resolve<'a>(definitions: &'a Value, mut schema: &'a Value) -> &'a Value {
    while let Some(name) = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
        schema = &definitions[name];
    }
    schema
}

/// What a setting takes, in words.
fn takes(definitions: &Value, schema: &Value) -> String {
    let schema = resolve(definitions, schema);
    if let Some(of) = schema["anyOf"].as_array() {
        return join_or(of.iter().map(|schema| takes(definitions, schema)));
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let word = |choice: &Value| {
            let tag = choice["properties"].as_object().and_then(|table| table.keys().next().cloned());
            choice["const"].as_str().map(|word| format!("\"{word}\"")).or(tag)
        };
        return join_or(choices.iter().filter_map(word));
    }
    if let Some(words) = schema["enum"].as_array() {
        return join_or(words.iter().filter_map(Value::as_str).map(|word| format!("\"{word}\"")));
    }
    let word = |kind: &str| match kind {
        "integer" => "a whole number".to_owned(),
        "number" => "a number".to_owned(),
        "boolean" => "true or false".to_owned(),
        "string" => "a text".to_owned(),
        "null" => "nothing".to_owned(),
        "array" => match schema.get("items") {
            Some(items) => format!("a list, each {}", takes(definitions, items)),
            None => "a list".to_owned(),
        },
        _ => "a table".to_owned(),
    };
    match &schema["type"] {
        Value::Array(kinds) => join_or(kinds.iter().filter_map(Value::as_str).map(word)),
        Value::String(kind) => word(kind),
        _ => "a table".to_owned(),
    }
}

fn join_or(words: impl Iterator<Item = String>) -> String {
    words.collect::<Vec<_>>().join(" or ")
}

/// The names of all components, with the first sentence about each.
pub fn component_list(all: &[&ComponentDocs], layout: &TableLayout) -> String {
    let mut rows = fitted_table(&["kind", "name", "what it does"], layout);
    let mut before = "";
    for component in all {
        let kind = if component.kind == before { "" } else { component.kind };
        before = component.kind;
        rows.add_row([kind, component.name, &first_sentence(component)]);
    }
    format!("{rows}\none of them, with its settings: reverie components NAME")
}

/// The first sentence, without the name that stands before it in most files.
fn first_sentence(component: &ComponentDocs) -> String {
    let paragraph = store::registry::first_paragraph(&component.docs);
    // `hybrid`: …, or Recall: …
    let is_name = |head: &str| head.split(' ').count() <= 4 && !head.contains('(');
    let text = paragraph.split_once(": ").filter(|(head, _)| is_name(head)).map_or(&*paragraph, |(_, text)| text);
    let end = text.find(". ").map_or(text.len(), |at| at + 1);
    text[..end].trim_end_matches('.').to_owned()
}

/// One component in full.
pub fn component(component: &ComponentDocs, layout: &TableLayout) -> String {
    let ComponentDocs { kind, name, docs, settings } = component;
    let mut text = format!("{kind} {name}\n");
    for paragraph in docs.split("\n\n") {
        // Lists keep their lines.
        let is_item = |line: &str| {
            let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
            ["- ", "  ", "```"].iter().any(|mark| line.starts_with(mark))
                || (number != line && number.starts_with(". "))
        };
        let is_list = paragraph.lines().any(is_item);
        let joined = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = write!(text, "\n{}\n", if is_list { paragraph.to_owned() } else { layout.fill(&joined) });
    }
    if settings.is_empty() {
        text.push_str("\nIt has no settings.\n");
    } else {
        let mut rows = fitted_table(&["setting", "takes", "default", "what it does"], layout);
        for Setting { name, takes, default, description } in settings {
            let default = match default {
                None => "must be set".to_owned(),
                Some(Value::Null) => "nothing".to_owned(),
                Some(value) => number_of_32_bits(value).unwrap_or_else(|| value.to_string()),
            };
            rows.add_row([name, takes, &default, description]);
        }
        let _ = writeln!(text, "\n{rows}");
    }
    let place = if *kind == "metric" { "[evaluate]\nmetrics" } else { "[space]\n" };
    let axis = if *kind == "metric" { "" } else { kind };
    let _ = write!(text, "\nIn an experiment file:\n\n{place}{axis} = {}", example(component));
    text
}

/// A list with the component and its required settings; if none is required, with its first number or switch.
fn example(component: &ComponentDocs) -> String {
    let ComponentDocs { name, settings, .. } = component;
    let value = |one: &Setting| match one.takes.as_str() {
        list if list.starts_with("a list") => "[\"…\"]",
        table if table.starts_with("a table") => "{ … }",
        _ => "\"…\"",
    };
    let is_table = |name: &str| settings.iter().any(|one| one.name == name && one.takes == "a table");
    let needed = settings.iter().filter(|one| one.default.is_none());
    let needed: Vec<String> = needed
        .filter_map(|one| match one.name.split_once('.') {
            None => Some(format!("{} = {}", one.name, value(one))),
            Some((table, name)) if is_table(table) => Some(format!("{table} = {{ {name} = {} }}", value(one))),
            // A setting of a choice is needed only with that choice.
            Some(_) => None,
        })
        .collect();
    if !needed.is_empty() {
        return format!("[{{ {name} = {{ {} }} }}]", needed.join(", "));
    }
    let simple = |one: &&Setting| one.default.as_ref().is_some_and(|value| value.is_number() || value.is_boolean());
    match settings.iter().find(simple) {
        Some(Setting { name: setting, default: Some(value), .. }) => {
            let value = number_of_32_bits(value).unwrap_or_else(|| value.to_string());
            format!("[\"{name}\"]   # or [{{ {name} = {{ {setting} = {value} }} }}]")
        }
        _ => format!("[\"{name}\"]"),
    }
}

/// Many settings are 32-bit numbers; in 64 bits, 0.3 would be 0.30000001192092896.
fn number_of_32_bits(value: &Value) -> Option<String> {
    let number = value.as_f64().filter(|_| value.is_f64())?;
    Some(format!("{:?}", number as f32))
}

/// A table that fits the width of the layout.
fn fitted_table(header: &[&str], layout: &TableLayout) -> comfy_table::Table {
    let mut table = table(header, header.len());
    if let Some(width) = layout.width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(u16::try_from(width).unwrap_or(u16::MAX));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_component_says_what_it_is_for_and_every_setting_what_it_does() {
        let all = components();
        for component in &all {
            assert!(component.docs.len() > 40, "{component:?}");
            assert!(!component.docs.contains("](crate::"), "{component:?}");
            for setting in &component.settings {
                assert!(!setting.description.is_empty() && !setting.takes.is_empty(), "{} {setting:?}", component.name);
            }
        }
        let stages: usize = Axis::ALL.iter().map(|axis| axis.docs().len()).sum();
        assert_eq!(all.len(), stages + eval::MetricConfig::NAMES.len());
    }

    #[test]
    fn settings_have_types_defaults_and_the_parts_of_choices() {
        let all = components();
        let find = |kind, name| all.iter().find(|one| (one.kind, one.name) == (kind, name)).unwrap();
        let hybrid = find("retriever", "hybrid");
        let setting = |name: &str| hybrid.settings.iter().find(|setting| setting.name == name).unwrap();
        assert_eq!(
            (setting("top_k").takes.as_str(), setting("top_k").default.clone()),
            ("a whole number", Some(5.into()))
        );
        assert_eq!(setting("fusion").takes, "rrf or weighted");
        assert_eq!(setting("fusion.rrf.k").default, Some(60.into()));
        assert_eq!(setting("candidates").default, Some(Value::Null));
        let listwise = find("reranker", "listwise");
        let model = listwise.settings.iter().find(|setting| setting.name == "model").unwrap();
        assert_eq!(model.default, None, "a model must be named");
        let text = component(find("retriever", "mmr"), &TableLayout { width: Some(80), ..TableLayout::default() });
        assert!(text.lines().all(|line| console::measure_text_width(line) <= 80), "{text}");
        assert!(text.contains("retriever = [\"mmr\"]") && text.contains("lambda"), "{text}");
    }

    #[test]
    fn an_example_holds_what_must_be_set() {
        let all = components();
        let shown = |kind, name| {
            let one = all.iter().find(|one: &&ComponentDocs| (one.kind, one.name) == (kind, name)).unwrap();
            example(one)
        };
        assert_eq!(shown("query", "hyde"), "[{ hyde = { model = \"…\" } }]");
        assert_eq!(shown("metric", "criteria"), "[{ criteria = { criterion = \"…\" } }]");
        assert_eq!(shown("metric", "rubric"), "[{ rubric = { levels = [\"…\"] } }]");
        assert!(shown("query", "self_query").contains("fields = { … }"), "{}", shown("query", "self_query"));
        assert!(
            shown("generator", "python").contains("settings = { model = \"…\" }"),
            "{}",
            shown("generator", "python")
        );
        assert!(!shown("metric", "prompt").contains("output."), "{}", shown("metric", "prompt"));
        assert!(shown("retriever", "bm25").starts_with("[\"bm25\"]"));
    }
}
