//! Reads TOML so that *all* mistakes are reported at once, each with its line,
//! column and, where a word looks misspelt, a suggestion.
//!
//! Serde stops at the first mistake. So a value that fails is read again
//! without the key that failed, until nothing fails or nothing can be removed.

use super::{overrides::PlacedOverride, wording};
use serde::de::DeserializeOwned;
use std::{collections::BTreeSet, fmt, ops::Range};
use toml::{
    Spanned,
    de::{DeTable, DeValue, ValueDeserializer},
};

/// One mistake in an experiment file, or in an override of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError {
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1, in characters.
    pub column: usize,
    /// What is wrong, where, and what to do.
    pub message: String,
    /// The line as it stands in the file.
    pub source_line: String,
    /// The key that has the mistake, such as `space.chunker[1].sentence`.
    pub key: Option<String>,
    /// Where the mistake stands if not in the file, such as `--set store`.
    pub place: Option<String>,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{place}: {}", self.message),
            None => write!(f, "{}:{}: {}", self.line, self.column, self.message),
        }
    }
}

impl std::error::Error for SpecError {}

impl SpecError {
    /// The message for settings that are not in a file, such as a program's dictionary: if it begins
    /// with a table's name, the key of the mistake replaces that name.
    pub fn message_with_key(&self) -> String {
        let is_name = |table: &str| table.chars().all(|c| c.is_alphanumeric() || "_-.[]".contains(c));
        let Some((table, reason)) = self.message.split_once(": ").filter(|(table, _)| is_name(table)) else {
            return self.message.clone();
        };
        // The key replaces the name in the message only if both name the same thing: the key is in
        // that table, or both end with the same name below tables that are written differently.
        let last = table.rsplit('.').next().unwrap_or_default();
        let names_key = |key: &&str| key.starts_with(table) || key.ends_with(last);
        format!("{}: {reason}", self.key.as_deref().filter(names_key).unwrap_or(table))
    }
}

/// A file being read: its text, its overrides, and the mistakes found so far.
pub(super) struct ExperimentReader<'a> {
    text: &'a str,
    placed: &'a [PlacedOverride],
    /// The whole file, to name the keys of mistakes by their places.
    root: DeTable<'a>,
    errors: Vec<(usize, String)>,
}

impl<'a> ExperimentReader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self::with(text, &[])
    }

    /// A reader of a file with overrides.
    pub(super) fn with(text: &'a str, placed: &'a [PlacedOverride]) -> Self {
        Self { text, placed, root: DeTable::new(), errors: Vec::new() }
    }

    /// Notes a mistake at a byte of the file.
    pub(super) fn error(&mut self, at: usize, message: impl Into<String>) {
        let entry = (at, message.into());
        if !self.errors.contains(&entry) {
            self.errors.push(entry);
        }
    }

    /// All mistakes in the order of the file.
    pub(super) fn finish(mut self) -> Vec<SpecError> {
        self.errors.sort();
        let Self { text, placed, root, errors } = self;
        let located = errors.into_iter().map(|(at, message)| {
            // Missing keys are reported at position 0, where another key may stand.
            let key = key_at(&root, at).filter(|key| at > 0 || message.starts_with(key));
            let found = placed.iter().rev().find(|placed| placed.start <= at);
            let (text, at) = found.map_or((text, at), |placed| (placed.typed.as_str(), at - placed.start));
            SpecError { key, place: found.map(|placed| placed.place.clone()), ..locate(text, at, message) }
        });
        located.collect()
    }

    pub(super) fn is_clean(&self) -> bool {
        self.errors.is_empty()
    }

    /// The whole file as a table, with the overrides; syntax errors are noted.
    pub(super) fn parse(&mut self) -> Option<DeTable<'a>> {
        let (table, errors) = DeTable::parse_recoverable(self.text);
        let is_unclosed = errors.iter().any(|error| error.message().starts_with("unclosed "));
        for error in in_order(&errors) {
            let at = error.span().map_or(0, |span| span.start);
            // Text after an unclosed bracket is parsed as part of its list, which gives misleading
            // errors.
            if let Some(opened) = open_bracket(self.text, at).filter(|_| is_unclosed) {
                self.error(opened, "this bracket is never closed");
                break;
            }
            self.error(at, error.message().to_owned());
        }
        if !errors.is_empty() {
            return None;
        }
        let mut table = table.into_inner();
        for placed in self.placed {
            if let Err((at, message)) = placed.apply(&mut table) {
                self.error(at, message);
            }
        }
        self.root = table.clone();
        Some(table)
    }

    /// Reads one value as `T`, noting every mistake in it.
    pub(super) fn read<T: DeserializeOwned>(&mut self, value: &Spanned<DeValue<'a>>, path: &str) -> Option<T> {
        let mut value = value.clone();
        let mut removed = BTreeSet::new();
        let mut clean = true;
        for _ in 0..64 {
            match T::deserialize(ValueDeserializer::from(value.clone())) {
                Ok(read) => return clean.then_some(read),
                Err(error) => {
                    let missing_because_removed =
                        missing_field(error.message()).is_some_and(|field| removed.contains(field));
                    // A component whose misspelt name was removed is not a second mistake.
                    let is_emptied = !removed.is_empty() && error.message().starts_with("wanted exactly 1 element");
                    clean = false;
                    if missing_because_removed || is_emptied {
                        return None;
                    }
                    let span = error.span().unwrap_or_else(|| value.span());
                    let message = error.message();
                    let hint = suggestion(message).map(|word| format!("; did you mean `{word}`?")).unwrap_or_default();
                    self.error(span.start, format!("{path}: {}{hint}", wording::plain(message)));
                    match remove_at(&mut value, &span) {
                        Some(key) => _ = removed.insert(key),
                        None => return None,
                    }
                }
            }
        }
        None
    }
}

/// Removes the innermost key whose name or value is at `span`, and returns its name.
fn remove_at<'a>(value: &mut Spanned<DeValue<'a>>, span: &Range<usize>) -> Option<String> {
    match value.get_mut() {
        DeValue::Table(table) => {
            let found = table.iter().find_map(|(key, value)| {
                let name = key.get_ref().to_string();
                (key.span() == *span)
                    .then(|| (name.clone(), true))
                    .or_else(|| holds(value, span).then_some((name, value.span() == *span)))
            });
            let (name, here) = found?;
            if !here
                && let Some(inner) = table.get_mut(name.as_str())
                && let Some(removed) = remove_at(inner, span)
            {
                return Some(removed);
            }
            table.remove(name.as_str());
            Some(name)
        }
        DeValue::Array(items) => {
            let mut kept: Vec<Spanned<DeValue<'a>>> = items.iter().cloned().collect();
            let i = kept.iter().position(|item| holds(item, span))?;
            let removed = remove_at(&mut kept[i], span).unwrap_or_else(|| {
                kept.remove(i);
                String::new()
            });
            *items = kept.into_iter().collect();
            Some(removed)
        }
        _ => None,
    }
}

/// Whether a value, or anything in it, contains this span. An override inside a table has a
/// position outside the table's own span.
fn holds(value: &Spanned<DeValue<'_>>, span: &Range<usize>) -> bool {
    let around = |outer: Range<usize>| outer.start <= span.start && span.end <= outer.end;
    let inside = || match value.get_ref() {
        DeValue::Table(table) => table.iter().any(|(key, value)| around(key.span()) || holds(value, span)),
        DeValue::Array(items) => items.iter().any(|item| holds(item, span)),
        _ => false,
    };
    around(value.span()) || inside()
}

/// The path of the innermost key that stands at a byte, or whose value does.
fn key_at(table: &DeTable<'_>, at: usize) -> Option<String> {
    // An empty span is contained in every value around it.
    let span = at..at;
    let is_key = |key: Range<usize>| key.start <= at && at < key.end;
    let (key, value) = table
        .iter()
        .find(|(key, _)| is_key(key.span()))
        .or_else(|| table.iter().find(|(_, value)| holds(value, &span)))?;
    let name = key.get_ref();
    let rest = if is_key(key.span()) { None } else { path_in(value, at) };
    Some(format!("{name}{}", rest.unwrap_or_default()))
}

fn path_in(value: &Spanned<DeValue<'_>>, at: usize) -> Option<String> {
    match value.get_ref() {
        DeValue::Table(table) => Some(format!(".{}", key_at(table, at)?)),
        DeValue::Array(items) => {
            let (i, item) = items.iter().enumerate().find(|(_, item)| holds(item, &(at..at)))?;
            Some(format!("[{i}]{}", path_in(item, at).unwrap_or_default()))
        }
        _ => None,
    }
}

/// The innermost bracket that is still open at a byte, outside of texts and
/// comments.
fn open_bracket(text: &str, end: usize) -> Option<usize> {
    let (mut open, mut quote) = (Vec::new(), None);
    let mut characters = text.char_indices().take_while(|(at, _)| *at < end);
    while let Some((at, character)) = characters.next() {
        match (quote, character) {
            (Some('"'), '\\') => _ = characters.next(),
            (Some(_), '\n') => quote = None,
            (Some(mark), _) if character == mark => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(character),
            (None, '#') => _ = characters.find(|(_, character)| *character == '\n'),
            (None, '[' | '{') => open.push(at),
            (None, ']' | '}') => _ = open.pop(),
            (None, _) => {}
        }
    }
    open.pop()
}

/// Syntax errors in the order of the file.
fn in_order(errors: &[toml::de::Error]) -> Vec<&toml::de::Error> {
    let mut errors: Vec<_> = errors.iter().collect();
    errors.sort_by_key(|error| error.span().map_or(0, |span| span.start));
    errors
}

fn missing_field(message: &str) -> Option<&str> {
    message.strip_prefix("missing field `")?.split('`').next()
}

/// The expected word nearest to the one found, from serde's "unknown …,
/// expected one of …" messages.
fn suggestion(message: &str) -> Option<String> {
    if !message.starts_with("unknown ") {
        return None;
    }
    let mut words = message.split('`').skip(1).step_by(2);
    let found = words.next()?;
    nearest(found, words)
}

/// The candidate nearest to a word, if any is near enough to be what was meant.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance * 3 <= candidate.chars().count().max(word.chars().count()))
        .min()
        .map(|(_, candidate)| candidate.to_owned())
}

fn locate(text: &str, at: usize, message: String) -> SpecError {
    let at = text.floor_char_boundary(at.min(text.len()));
    let before = &text[..at];
    let line_start = before.rfind('\n').map_or(0, |i| i + 1);
    SpecError {
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
        message,
        source_line: text[line_start..].lines().next().unwrap_or_default().to_owned(),
        key: None,
        place: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only read by serde")]
    struct Plate {
        size: u32,
        colour: String,
        #[serde(default)]
        deep: Option<Box<Plate>>,
    }

    fn check(text: &str) -> Vec<String> {
        let mut reader = ExperimentReader::new(text);
        if let Some(table) = reader.parse() {
            for (key, value) in &table {
                reader.read::<Plate>(value, key.get_ref());
            }
        }
        reader.finish().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_mistake_is_reported_with_its_place_and_a_suggestion() {
        let errors = check(
            "[a]\nsise = 1\nsize = \"x\"\ncolour = 3\n\n[b]\nsize = 1\ncolour = \"red\"\ndeep = { size = 2, colur = \"x\" }\n",
        );
        assert_eq!(errors.len(), 5, "{errors:#?}");
        assert!(errors[0].starts_with("2:1: a: unknown field `sise`") && errors[0].contains("did you mean `size`"));
        assert!(errors[1].starts_with("3:8: a: invalid type"));
        assert!(errors[2].starts_with("4:10: a: invalid type"));
        assert!(errors[3].starts_with("9:"), "{}", errors[3]);
    }

    #[test]
    fn mistakes_name_their_keys() {
        let mut reader = ExperimentReader::new("name = 1\n[a]\nb = [{ c = 1 }, { d = { e = 2 } }]\n");
        reader.parse();
        let text = reader.text;
        for (part, key) in
            [("name", Some("name")), ("= [{ c", None), ("c =", Some("a.b[0].c")), ("2 }", Some("a.b[1].d.e"))]
        {
            let at = text.find(part).unwrap();
            assert_eq!(key_at(&reader.root, at).as_deref().filter(|_| key.is_some()), key, "{part}");
        }
        reader.error(0, "`space` is missing");
        assert_eq!(reader.finish()[0].key, None);
    }

    #[test]
    fn without_a_file_a_mistake_is_told_by_its_key() {
        let text = "name = \"mills\"\n\n[space]\nembedder = [\"emb\"]\n\n[[space.chunker]]\n\n\
            [space.chunker.sentence]\nchunk_sise = 4\nchunk_overlap = [1, 2]\n\n[evaluate]\nmetrics = [\"recal\"]\n";
        let told = |part: &str, message: &str| {
            let mut reader = ExperimentReader::new(text);
            reader.parse();
            reader.error(text.find(part).unwrap(), message);
            reader.finish()[0].message_with_key()
        };
        for (part, message, expected) in [
            ("chunk_sise", "space.chunker[0]: unknown field", "space.chunker[0].sentence.chunk_sise: unknown field"),
            ("[1, 2]", "space.chunker[0]: no list", "space.chunker[0].sentence.chunk_overlap: no list"),
            ("\"emb\"", "space.embedder: no model `emb`", "space.embedder[0]: no model `emb`"),
            ("\"recal\"", "evaluate.metrics[0]: unknown metric", "evaluate.metrics[0]: unknown metric"),
            ("name", "`store` is missing", "`store` is missing"),
            ("name", "space: the axis `retriever` is missing", "space: the axis `retriever` is missing"),
        ] {
            assert_eq!(told(part, message), expected);
        }
    }

    #[test]
    fn a_bracket_that_is_never_closed_is_one_mistake() {
        let text = "[a]\nsize = [\n  1,\n  { x = 2 }\n\n[b]\nsize = 1\ncolour = \"red\"\n[c]\nsize = 2\n";
        for text in [text.to_owned(), text.replace("[\n  1,", "[1, \"x\""), text.replace("{ x = 2 }\n", "{ x = 2\n")] {
            let errors = check(&text);
            assert!(errors.len() == 1 && errors[0].ends_with("this bracket is never closed"), "{errors:#?}");
        }
        let two = check("[a]\nsize = \ncolour = \n");
        assert_eq!(two.len(), 2, "mistakes of their own are all told: {two:#?}");
    }

    #[test]
    fn syntax_errors_are_reported_by_line() {
        let errors = check("[a]\nsize = \n");
        assert!(errors[0].starts_with("2:"), "{errors:?}");
    }

    #[test]
    fn a_far_word_is_not_suggested() {
        assert_eq!(nearest("zebra", ["sentence", "token"]), None);
        assert_eq!(nearest("sentense", ["sentence", "token"]), Some("sentence".to_owned()));
        assert_eq!(nearest("x", ["k"]), None, "one letter is like no other");
        assert_eq!(nearest("gp", ["gpt"]), Some("gpt".to_owned()));
    }
}
