//! `parse`: a file becomes a document. The default reads every format by itself; other parsers read some formats, or
//! all, in another way.

pub use ocr::set_model_directory;
pub use view::view_page;

mod view;

use crate::{
    AxisValue, Choice, Component, Context, Document, Error,
    component::components,
    load::{Format, LoadError, MATCHING, ParseLimits, format_of},
};
use glob::Pattern;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser::SerializeMap};
use serde_json::{Map, Value, json};
use std::{borrow::Cow, collections::BTreeMap, fmt};

components! {
    /// One parser, and its settings.
    #[derive(schemars::JsonSchema)]
    pub enum ParserConfig builds Box<dyn Parser>, each crate::Component {
        Text => text,
        Layout => layout,
        Ocr => ocr,
        Command => command,
        Python => python,
    }
}

/// Makes documents of files.
pub trait Parser: Send + Sync {
    /// The document of a file's bytes. `path` names the document. It computes, or waits for another process, so it
    /// belongs on a thread that may do so.
    ///
    /// # Errors
    /// See [`ParseError`].
    fn parse(&self, path: &str, bytes: &[u8], limits: &ParseLimits) -> Result<Document, ParseError>;
}

/// Why a parser gave no document.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// The file gives none, now and later.
    #[error(transparent)]
    Rejected(LoadError),
    /// It was not read this time, which says nothing about the file.
    #[error("{0}")]
    Failed(String),
    /// The parser cannot work on any file.
    #[error(transparent)]
    Component(#[from] Error),
}

impl From<LoadError> for ParseError {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::NotRead(reason) => Self::Failed(reason),
            other => Self::Rejected(other),
        }
    }
}

/// Which parser reads which file. In a file: the name of a parser, a parser with its settings, or a table of formats and
/// patterns with the parser of each, and `default` for all other files:
/// `{ pdf = "layout", "scans/**" = "ocr", default = "text" }`. A pattern goes before a format, and the longer of two
/// patterns before the shorter.
#[derive(Debug, Clone, PartialEq)]
pub struct ParseConfig {
    /// By format or pattern.
    by_file: BTreeMap<String, ParserConfig>,
    default: ParserConfig,
    name: String,
}

/// The key of the parser for all other files.
const DEFAULT: &str = "default";

impl ParseConfig {
    fn new(by_file: BTreeMap<String, ParserConfig>, default: ParserConfig) -> Self {
        let mut name = default.name().to_owned();
        if !by_file.is_empty() {
            let named = by_file.iter().map(|(key, parser)| format!("{key}={}", parser.name()));
            name = named.chain([format!("{DEFAULT}={name}")]).collect::<Vec<_>>().join(" ");
        }
        Self { by_file, default, name }
    }

    /// Whether every file is read as by default.
    pub fn is_default(&self) -> bool {
        self.is_nothing()
    }

    /// Makes the parsers.
    ///
    /// # Errors
    /// Settings that cannot work.
    pub fn build(&self, cx: &Context<'_>) -> Result<FileParser, Error> {
        self.choice(|parser| parser.build(cx)).map(FileParser)
    }

    /// Makes something of each parser, and keeps which files it reads.
    fn choice<'c, T>(&'c self, make: impl Fn(&'c ParserConfig) -> Result<T, Error>) -> Result<ParserChoice<T>, Error> {
        let (mut patterns, mut formats) = (Vec::new(), Vec::new());
        for (key, parser) in &self.by_file {
            match named_format(key) {
                Some(format) => formats.push((format, make(parser)?)),
                None => patterns.push((pattern(key)?, make(parser)?)),
            }
        }
        patterns.sort_by_key(|(pattern, _)| std::cmp::Reverse(pattern.as_str().len()));
        Ok(ParserChoice { patterns, formats, default: make(&self.default)? })
    }

    /// Returns a function that says whether Reverie itself reads the PDF of a path. It does not if a program or a function of
    /// the user does, and then no PDF library is needed.
    pub fn reads_pdf(&self) -> impl Fn(&str) -> bool {
        let is_external = |parser: &ParserConfig| matches!(parser, ParserConfig::Command(_) | ParserConfig::Python(_));
        let choice = self.choice(|parser| Ok(!is_external(parser))).ok();
        move |path| choice.as_ref().is_none_or(|choice| *choice.of(path, || Some(Format::Pdf)))
    }
}

/// What is chosen by the path or the format of a file.
struct ParserChoice<T> {
    patterns: Vec<(Pattern, T)>,
    formats: Vec<(Format, T)>,
    default: T,
}

impl<T> ParserChoice<T> {
    /// What is chosen for a file. Its format is only asked for where it matters.
    fn of(&self, path: &str, format: impl FnOnce() -> Option<Format>) -> &T {
        let matches = |pattern: &Pattern| {
            let name = if pattern.as_str().contains('/') { path } else { path.rsplit('/').next().unwrap_or(path) };
            pattern.matches_with(name, MATCHING)
        };
        let by_pattern = self.patterns.iter().find(|(pattern, _)| matches(pattern)).map(|(_, chosen)| chosen);
        let by_format = || {
            let format = if self.formats.is_empty() { None } else { format() };
            self.formats.iter().find(|(known, _)| Some(*known) == format).map(|(_, chosen)| chosen)
        };
        by_pattern.or_else(by_format).unwrap_or(&self.default)
    }
}

/// The parsers of a pipeline.
pub struct FileParser(ParserChoice<Box<dyn Parser>>);

impl Parser for FileParser {
    fn parse(&self, path: &str, bytes: &[u8], limits: &ParseLimits) -> Result<Document, ParseError> {
        self.0.of(path, || format_of(path, bytes).ok()).parse(path, bytes, limits)
    }
}

/// The format of this name.
fn named_format(name: &str) -> Option<Format> {
    serde_json::from_value(Value::String(name.to_owned())).ok()
}

fn pattern(text: &str) -> Result<Pattern, Error> {
    let reason = |error| format!("bad pattern `{text}`: {error}");
    let whole = if text.ends_with('/') { format!("{text}**") } else { text.to_owned() };
    Pattern::new(&whole).map_err(|error| Error::Config { component: "parse", reason: reason(error) })
}

/// Whether a key can be a pattern: it has a wildcard, a folder or an ending.
fn is_pattern(key: &str) -> bool {
    key.contains(['*', '?', '[', '/', '.'])
}

impl Serialize for ParseConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.by_file.is_empty() {
            return self.default.serialize(serializer);
        }
        let mut map = serializer.serialize_map(Some(self.by_file.len() + 1))?;
        for (key, parser) in &self.by_file {
            map.serialize_entry(key, parser)?;
        }
        map.serialize_entry(DEFAULT, &self.default)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for ParseConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = Value::deserialize(deserializer)?;
        let table = match read {
            Value::String(_) => return one_parser(read).map(|parser| Self::new(BTreeMap::new(), parser)),
            Value::Object(table) => table,
            _ => return Err(de::Error::custom("expected a parser such as \"text\", or a table of formats")),
        };
        let is_parser = |key: &str| ParserConfig::NAMES.contains(&key);
        // `text` is the name of a parser and of a format: what stands behind it decides.
        let holds_a_parser = |value: &Value| match value {
            Value::String(_) => true,
            Value::Object(table) => table.len() == 1 && table.keys().all(|key| is_parser(key)),
            _ => false,
        };
        let is_one = |(key, value): (&String, &Value)| !is_key(key) || is_parser(key) && !holds_a_parser(value);
        if table.len() == 1 && table.iter().all(is_one) {
            return one_parser(Value::Object(table)).map(|parser| Self::new(BTreeMap::new(), parser));
        }
        by_file(table)
    }
}

/// Whether this can stand for files: a format, a pattern, or `default`.
fn is_key(key: &str) -> bool {
    key == DEFAULT || named_format(key).is_some() || is_pattern(key)
}

fn by_file<E: de::Error>(table: Map<String, Value>) -> Result<ParseConfig, E> {
    let (mut parsers, mut default) = (BTreeMap::new(), None);
    for (key, value) in table {
        if !is_key(&key) {
            let formats: Vec<String> =
                Format::ALL.iter().map(|format| format!("`{}`", json!(format).as_str().unwrap_or_default())).collect();
            return Err(E::custom(format!(
                "`{key}` is no format, no pattern such as `scans/**`, and not `default`: the formats are {}",
                formats.join(", ")
            )));
        }
        let parser = one_parser(value)?;
        match key.as_str() {
            DEFAULT => default = Some(parser),
            _ => _ = parsers.insert(key, parser),
        }
    }
    let text = || ParserConfig::Text(text::Config::default());
    Ok(ParseConfig::new(parsers, default.unwrap_or_else(text)))
}

/// A parser as it is written: its name, or a table of its name and settings.
fn one_parser<E: de::Error>(written: Value) -> Result<ParserConfig, E> {
    let written = match written {
        Value::String(name) => json!({ name: {} }),
        other => other,
    };
    serde_json::from_value(written).map_err(E::custom)
}

impl JsonSchema for ParseConfig {
    fn schema_name() -> Cow<'static, str> {
        "ParseConfig".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let parser = generator.subschema_for::<ParserConfig>();
        let names: Vec<Value> = Format::ALL.iter().map(|format| json!(format)).chain([json!(DEFAULT)]).collect();
        json_schema!({
            "anyOf": [
                parser,
                {
                    "description": "By format or pattern, and `default` for all other files.",
                    "type": "object",
                    "minProperties": 1,
                    "propertyNames": { "anyOf": [{ "enum": names }, { "pattern": r"[*?\[/.]" }] },
                    "additionalProperties": { "anyOf": [{ "enum": ParserConfig::NAMES }, parser] },
                },
            ],
        })
    }
}

impl Component for ParseConfig {
    fn parts(&self) -> Vec<&dyn Component> {
        self.by_file.values().chain([&self.default]).map(|parser| parser as &dyn Component).collect()
    }
    fn parts_mut(&mut self) -> Vec<&mut dyn Component> {
        self.by_file.values_mut().chain([&mut self.default]).map(|parser| parser as &mut dyn Component).collect()
    }
    fn is_nothing(&self) -> bool {
        self.by_file.is_empty() && self.default.is_nothing()
    }
}

impl Choice for ParseConfig {
    fn name(&self) -> &str {
        &self.name
    }
    /// The version of the table; the versions of the parsers are part of [`Choice::settings_for_key`].
    fn version(&self) -> u32 {
        1
    }
    fn value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
    fn settings_for_key(&self) -> Value {
        let of = |parser: &ParserConfig| json!({ "version": parser.version(), "parser": parser.settings_for_key() });
        let by_file: Map<String, Value> = self.by_file.iter().map(|(key, parser)| (key.clone(), of(parser))).collect();
        json!({ "by_file": by_file, "default": of(&self.default) })
    }
    fn docs() -> Vec<(&'static str, String)> {
        <ParserConfig as Choice>::docs()
    }
    fn check(&self) -> Result<(), Error> {
        self.build(&Context::default()).map(drop)
    }
}

impl AxisValue for ParseConfig {
    fn unlisted() -> Option<Self> {
        ParserConfig::nothing().map(|parser| Self::new(BTreeMap::new(), parser))
    }
}

impl fmt::Debug for FileParser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileParser").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(written: Value) -> Result<ParseConfig, String> {
        serde_json::from_value(written).map_err(|error| error.to_string())
    }

    fn python(source: &str) -> Value {
        json!({ "python": { "source": source } })
    }

    #[test]
    fn a_parser_is_named_alone_with_settings_or_for_some_files() {
        for written in [json!("text"), json!({ "text": {} }), json!({ "default": "text" })] {
            let config = read(written).unwrap();
            assert!(config.is_default() && config.name() == "text");
            assert_eq!(config.value(), json!({ "text": {} }));
        }
        let command = json!({ "command": { "program": "docling" } });
        assert_eq!(read(json!({ "text": command })).unwrap().name(), "text=command default=text", "texts by a program");
        let config = read(json!({ "pdf": command, "scans/**": "text" })).unwrap();
        assert_eq!(config.name(), "pdf=command scans/**=text default=text");
        assert!(!config.is_default());
        assert_eq!(read(config.value()).unwrap(), config, "it is read as it is written");
    }

    #[test]
    fn what_is_no_format_no_pattern_and_no_parser_is_refused() {
        assert!(read(json!({ "pfd": "text", "default": "text" })).unwrap_err().contains("`pfd` is no format"));
        assert!(read(json!({ "pdf": "txet" })).unwrap_err().contains("txet"));
        assert!(read(json!({ "txet": {} })).unwrap_err().contains("unknown variant `txet`"));
        assert!(read(json!(7)).is_err());
        assert!(
            read(json!({ "pdf": "text", "[": "text" }))
                .unwrap()
                .check()
                .unwrap_err()
                .to_string()
                .contains("bad pattern")
        );
    }

    #[test]
    fn pdfs_that_a_program_of_the_user_reads_are_not_read_here() {
        let command = json!({ "command": { "program": "cat" } });
        let reads = |written: Value, path: &str| read(written).unwrap().reads_pdf()(path);
        for written in [json!("text"), json!("ocr"), json!({ "pdf": "layout", "default": command })] {
            assert!(reads(written, "a.pdf"));
        }
        assert!(!reads(command.clone(), "a.pdf"));
        assert!(!reads(json!({ "pdf": command, "default": "text" }), "a.pdf"));
        let scans = json!({ "scans/**": "ocr", "pdf": command, "default": "text" });
        assert_eq!([reads(scans.clone(), "scans/a.pdf"), reads(scans, "a.pdf")], [true, false]);
    }

    #[test]
    fn the_longest_pattern_decides_before_the_format() {
        let parsers = json!({
            "markdown": python("def parse(path):\n    return 'by format'\n"),
            "*.md": python("def parse(path):\n    return 'by pattern'\n"),
            "deep/*.md": python("def parse(path):\n    return 'by folder'\n"),
        });
        let parser = read(parsers).unwrap().build(&Context::default()).unwrap();
        let text = |path: &str| parser.parse(path, b"its own words", &ParseLimits::default()).unwrap().text;
        assert_eq!(text("a.md"), "by pattern");
        assert_eq!(text("deep/a.md"), "by folder");
        assert_eq!(text("a.markdown"), "by format");
        assert_eq!(text("a.txt"), "its own words");
    }
}
