//! Values of the command line that replace those of an experiment file: `--set`
//! and `--limit`. They are put into the file's document before anything of it
//! is checked, so they can do what the file can, and no more.

use toml::{
    Spanned, Value,
    de::{DeTable, DeValue},
};

/// A value that replaces one of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    flag: Flag,
    /// `key=value`, as it was typed.
    text: String,
}

/// The key of an override leads to nothing in the file.
#[derive(Debug, thiserror::Error)]
#[error("`{table}` of the file has no `{name}`: set the whole of `{table}`, written as in a file")]
struct NoSuchName {
    table: String,
    name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flag {
    Set,
    Limit,
}

impl Override {
    /// `--set key=value`: the key with dots as in the file, the value in TOML,
    /// or a plain text.
    pub fn set(text: impl Into<String>) -> Self {
        Self { flag: Flag::Set, text: text.into() }
    }

    /// `--limit N`: only the first golden questions.
    pub fn limit(questions: usize) -> Self {
        Self { flag: Flag::Limit, text: format!("dataset.limit={questions}") }
    }

    /// Reads `key=value` without a file: the dotted key, and the value, which is TOML or a plain text.
    ///
    /// # Errors
    /// What is wrong, in a sentence.
    pub fn parse_setting(typed: &str) -> Result<(String, serde_json::Value), String> {
        let trimmed = typed.split_once('=').map(|(key, value)| format!("{}={}", key.trim(), value.trim()));
        let (path, text) = read(trimmed.as_deref().unwrap_or(typed));
        if path.is_empty() {
            return Err("it names no key: write KEY=VALUE, such as retriever.bm25.top_k=8".to_owned());
        }
        let table: serde_json::Value = toml::from_str(&text).map_err(|error| error.message().to_owned())?;
        let value = path.iter().try_fold(&table, |value, name| value.get(name));
        Ok((path.join("."), value.cloned().unwrap_or_default()))
    }

    /// The flag as it was typed. Values of sections that may hold secrets are replaced by `…`.
    pub(super) fn without_secrets(&self) -> String {
        let (key, value) = self.text.split_once('=').unwrap_or((&self.text, ""));
        let is_open = ["space", "dataset", "evaluate", "search", "name", "warnings"]
            .iter()
            .any(|section| key.trim() == *section || key.trim().starts_with(&format!("{section}.")));
        match self.flag {
            Flag::Limit => format!("--limit {value}"),
            Flag::Set if is_open => format!("--set {}", self.text),
            Flag::Set => format!("--set {}=…", key.trim()),
        }
    }
}

/// An override, treated as if it were written after the end of the file, so that each mistake in it
/// has a position of its own.
#[derive(Debug)]
pub(super) struct PlacedOverride {
    flag: Flag,
    /// The first byte of what was typed.
    pub(super) start: usize,
    pub(super) typed: String,
    /// The flag and the key, shown in place of a line number.
    pub(super) place: String,
    /// The keys that lead to the value; empty if what was typed has no key.
    path: Vec<String>,
    /// The override as TOML, padded with spaces so that its bytes come after the file's.
    padded: String,
}

impl PlacedOverride {
    /// Places the overrides after a file of `end` bytes.
    pub(super) fn all(overrides: &[Override], mut end: usize) -> Vec<Self> {
        let mut placed = Vec::new();
        for given in overrides {
            let start = end + 1;
            let (path, text) = read(&given.text);
            end = start + text.len().max(given.text.len());
            let place = match given.flag {
                Flag::Limit => "--limit".to_owned(),
                Flag::Set if path.is_empty() => "--set".to_owned(),
                Flag::Set => format!("--set {}", path.join(".")),
            };
            let padded = " ".repeat(start) + &text;
            placed.push(Self { flag: given.flag, start, typed: given.text.clone(), place, path, padded });
        }
        placed
    }

    /// Replaces the value in a file's document. An error holds its position and the reason.
    pub(super) fn apply<'a>(&'a self, root: &mut DeTable<'a>) -> Result<(), (usize, String)> {
        if self.path.is_empty() {
            let how = "write KEY=VALUE with the dotted key of the experiment file, such as \
                       space.retriever.bm25.top_k=3";
            return Err((self.start, format!("`{}` names no key: {how}", self.typed)));
        }
        if self.flag == Flag::Limit && !root.contains_key("dataset") {
            return Err((self.start, "there are no golden questions to limit: the file has no [dataset]".to_owned()));
        }
        let parsed = DeTable::parse(&self.padded).map_err(|error| {
            let at = error.span().map_or(self.start, |span| span.start.max(self.start));
            let how = "a value is TOML, or a plain text that does not begin with a bracket or a quotation mark";
            (at, format!("{}: {how}", error.message()))
        })?;
        put(root, parsed.into_inner(), self.path.len()).map_err(|error| (self.start, error.to_string()))
    }
}

/// The keys of `key=value`, and the whole as TOML.
fn read(typed: &str) -> (Vec<String>, String) {
    // A quoted key may have a `=` in it.
    let split = typed.match_indices('=').find_map(|(i, _)| {
        let (key, value) = (&typed[..i], &typed[i + 1..]);
        Some((path(&DeTable::parse(&format!("{key}=0")).ok()?.into_inner())?, key, value))
    });
    let Some((path, key, value)) = split else { return (Vec::new(), String::new()) };
    let is_toml = value.trim_start().starts_with(['[', '{', '"', '\''])
        || DeTable::parse(typed).is_ok_and(|table| table.get_ref().len() == 1);
    if is_toml {
        return (path, typed.to_owned());
    }
    (path, format!("{key}={}", Value::String(value.to_owned())))
}

/// The keys that lead to the only value of a table.
fn path(table: &DeTable<'_>) -> Option<Vec<String>> {
    let (key, value) = table.iter().next().filter(|_| table.len() == 1)?;
    let mut keys = vec![key.get_ref().to_string()];
    if let DeValue::Table(inner) = value.get_ref() {
        keys.extend(path(inner)?);
    }
    Some(keys)
}

/// Puts the value that is `depth` keys deep in `given` into `table`.
fn put<'a>(table: &mut DeTable<'a>, given: DeTable<'a>, depth: usize) -> Result<(), NoSuchName> {
    for (key, value) in given {
        let name = key.get_ref().to_string();
        let span = value.span();
        match (value.into_inner(), table.get_mut(name.as_str())) {
            (DeValue::Table(inner), Some(there)) if depth > 1 => put_into(there, inner, depth - 1, &name)?,
            (value, _) => {
                // Removed first, so that the new key's position replaces the old one.
                table.remove(name.as_str());
                table.insert(key, Spanned::new(span, value));
            }
        }
    }
    Ok(())
}

/// Puts the value into what the file has under `name`: a table, or the items of a list that the
/// next key names.
fn put_into<'a>(
    there: &mut Spanned<DeValue<'a>>,
    given: DeTable<'a>,
    depth: usize,
    name: &str,
) -> Result<(), NoSuchName> {
    let Some((key, span)) = given.keys().next().map(|key| (key.get_ref().to_string(), key.span())) else {
        return Ok(());
    };
    match there.get_mut() {
        DeValue::Table(table) => return put(table, given, depth),
        DeValue::Array(items) => {
            let mut found = false;
            for item in items.iter_mut().filter(|item| is_named(item, &key)) {
                put_into(item, given.clone(), depth, name)?;
                found = true;
            }
            if found {
                return Ok(());
            }
        }
        // `"bm25"` stands for `{ bm25 = {} }`.
        DeValue::String(text) if *text == key => {
            *there = Spanned::new(span, DeValue::Table(given));
            return Ok(());
        }
        _ => {}
    }
    Err(NoSuchName { table: name.to_owned(), name: key })
}

fn is_named(item: &Spanned<DeValue<'_>>, key: &str) -> bool {
    match item.get_ref() {
        DeValue::Table(table) => table.contains_key(key),
        DeValue::String(text) => text == key,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Experiment;
    use rag::Axis;

    const FILE: &str = "name = \"x\"\n[corpus]\nsource = \"d\"\n[dataset]\npath = \"g.jsonl\"\n[space]\nchunker = \"sentence\"\nretriever = [\"bm25\", { bm25 = { top_k = 9 } }]\n";

    fn parse(set: &[&str]) -> Result<Experiment, Vec<String>> {
        let overrides: Vec<Override> = set.iter().map(|text| Override::set(*text)).collect();
        Experiment::parse_with(FILE, ".", &overrides)
            .map_err(|errors| errors.iter().map(|error| format!("{error} | {}", error.source_line)).collect())
    }

    fn labels(experiment: &Experiment, axis: Axis) -> Vec<String> {
        experiment.trials().iter().filter_map(|trial| trial.labels.get(axis.name()).cloned()).collect()
    }

    #[test]
    fn a_setting_is_a_key_and_a_value_in_toml_or_a_plain_text() {
        let parse = |typed: &str| Override::parse_setting(typed);
        let of = |key: &str, value: serde_json::Value| Ok((key.to_owned(), value));
        assert_eq!(parse("retriever.bm25.top_k=8"), of("retriever.bm25.top_k", serde_json::json!(8)));
        assert_eq!(parse("chunker = token"), of("chunker", serde_json::json!("token")));
        let sentence = serde_json::json!({ "sentence": { "chunk_size": 64 } });
        assert_eq!(parse("chunker={ sentence = { chunk_size = 64 } }"), of("chunker", sentence));
        assert_eq!(parse("prompt=a=b"), of("prompt", serde_json::json!("a=b")));
        assert!(parse("top_k").unwrap_err().contains("names no key"));
        assert!(parse("chunker={ sentence").is_err());
    }

    #[test]
    fn a_value_replaces_that_of_the_file_and_is_toml_or_a_text() {
        let set = ["name=quick", "store=s3://bucket/a=b", "evaluate.metrics=[\"recall\"]", "dataset.limit=3"];
        let experiment = parse(&set).unwrap();
        assert_eq!((experiment.name.as_str(), experiment.store.as_str()), ("quick", "s3://bucket/a=b"));
        assert_eq!(experiment.evaluate.metrics.len(), 1);
        assert_eq!(experiment.dataset.unwrap().limit, Some(3));
        assert_eq!(parse(&["name=a", "name=\"b\""]).unwrap().name, "b", "the last one counts");
    }

    #[test]
    fn a_key_in_a_list_is_that_of_the_items_with_its_name() {
        let experiment = parse(&["space.retriever.bm25.top_k=3", "space.chunker.sentence.chunk_size=640"]).unwrap();
        let all = experiment.space.on(Axis::Retriever).len();
        assert_eq!(all, 2, "the list stays a list");
        assert!(experiment.portable().matches("top_k = 3").count() == 2, "{}", experiment.portable());
        assert!(experiment.portable().contains("chunk_size = 640"), "{}", experiment.portable());
        assert!(!labels(&experiment, Axis::Chunker).is_empty());
        let refused = parse(&["space.retriever.dense.top_k=3"]).unwrap_err();
        assert!(refused[0].starts_with("--set space.retriever.dense.top_k: `retriever` of the file has no `dense`"));
        let refused = parse(&["name.y=3"]).unwrap_err();
        assert!(refused[0].contains("`name` of the file has no `y`"), "{refused:?}");
        let refused = parse(&["name.x=3"]).unwrap_err();
        assert!(refused[0].starts_with("--set name.x: name: invalid type: table"), "{refused:?}");
    }

    #[test]
    fn mistakes_are_those_of_the_file_with_the_flag_and_the_key_as_place() {
        let refused = parse(&["corpus.incluse=1", "space.retriever.bm25.top_k=three", "evaluate.metrics=[\"recal\"]"]);
        let refused = refused.unwrap_err();
        for part in [
            "--set corpus.incluse: corpus: unknown field `incluse`",
            "did you mean `include`?",
            "--set space.retriever.bm25.top_k: space.retriever",
            "expected a whole number",
            "did you mean `recall`?",
        ] {
            assert!(refused.iter().any(|mistake| mistake.contains(part)), "{part}: {refused:#?}");
        }
        assert!(refused[0].ends_with("| corpus.incluse=1"), "{refused:#?}");
        for (typed, part) in [
            ("metrics", "names no key"),
            ("=3", "names no key"),
            ("evaluate.metrics=[recall]", "--set evaluate.metrics: "),
            ("nam=x", "unknown key `nam`; did you mean `name`?"),
        ] {
            let refused = parse(&[typed]).unwrap_err();
            assert!(refused.len() == 1 && refused[0].contains(part), "{refused:?}");
        }
    }

    #[test]
    fn a_limit_needs_questions() {
        let limit = [Override::limit(3)];
        let limited = Experiment::parse_with(FILE, ".", &limit).unwrap();
        assert_eq!(limited.dataset.as_ref().unwrap().limit, Some(3));
        let without = FILE.replace("[dataset]\npath = \"g.jsonl\"\n", "");
        let refused = Experiment::parse_with(&without, ".", &limit).unwrap_err();
        assert!(refused[0].to_string().starts_with("--limit: there are no golden questions"), "{refused:?}");
    }

    #[test]
    fn what_was_replaced_is_told_as_it_was_typed_without_what_may_be_a_secret() {
        let given =
            [Override::set("dataset.limit=9"), Override::set("store=s3://key:secret@host/a"), Override::limit(3)];
        let experiment = Experiment::parse_with(FILE, ".", &given).unwrap();
        assert_eq!(experiment.overrides, ["--set dataset.limit=9", "--set store=…", "--limit 3"]);
        assert!(Experiment::parse(FILE, ".").unwrap().overrides.is_empty());
    }

    #[test]
    fn the_text_that_is_kept_says_what_was_run() {
        let experiment = parse(&["space.chunker.sentence.chunk_size=640"]).unwrap();
        let again = Experiment::parse(&experiment.text, ".").unwrap();
        assert_eq!(again.space, experiment.space);
        assert_eq!(parse(&[]).unwrap().text, FILE, "without a flag the file is kept as it is");
    }
}
