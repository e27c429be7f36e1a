//! Reads TOML so that *all* mistakes are reported at once, each with its line,
//! column and, where a word looks misspelt, a suggestion.
//!
//! Serde stops at the first mistake. So a value that fails is read again
//! without the key that failed, until nothing fails or nothing can be removed.

use serde::de::DeserializeOwned;
use std::{collections::BTreeSet, fmt, ops::Range};
use toml::{
    Spanned,
    de::{DeTable, DeValue, ValueDeserializer},
};

/// One mistake in an experiment file.
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
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

/// A file being read: its text and the mistakes found so far.
pub(super) struct Reader<'a> {
    text: &'a str,
    errors: Vec<(usize, String)>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, errors: Vec::new() }
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
        let text = self.text;
        self.errors.into_iter().map(|(at, message)| locate(text, at, message)).collect()
    }

    pub(super) fn is_clean(&self) -> bool {
        self.errors.is_empty()
    }

    /// The whole file as a table; syntax errors are noted.
    pub(super) fn parse(&mut self) -> Option<DeTable<'a>> {
        let (table, errors) = DeTable::parse_recoverable(self.text);
        for error in &errors {
            self.error(error.span().map_or(0, |span| span.start), error.message().to_owned());
        }
        errors.is_empty().then(|| table.into_inner())
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
                    // A component whose name was removed, since it is misspelt, is no second mistake.
                    let is_emptied = !removed.is_empty() && error.message().starts_with("wanted exactly 1 element");
                    clean = false;
                    if missing_because_removed || is_emptied {
                        return None;
                    }
                    let span = error.span().unwrap_or_else(|| value.span());
                    let message = error.message();
                    let hint = suggestion(message).map(|word| format!("; did you mean `{word}`?")).unwrap_or_default();
                    self.error(span.start, format!("{path}: {message}{hint}"));
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

/// Takes out the innermost key whose name or value is at `span`.
fn remove_at<'a>(value: &mut Spanned<DeValue<'a>>, span: &Range<usize>) -> Option<String> {
    match value.get_mut() {
        DeValue::Table(table) => {
            let found = table.iter().find_map(|(key, value)| {
                let name = key.get_ref().to_string();
                (key.span() == *span).then(|| (name.clone(), true)).or_else(|| {
                    let inside = value.span().start <= span.start && span.end <= value.span().end;
                    inside.then_some((name, value.span() == *span))
                })
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
            let i = kept.iter().position(|item| item.span().start <= span.start && span.end <= item.span().end)?;
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
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance * 3 <= candidate.chars().count().max(word.chars().count()).max(3))
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
        let mut reader = Reader::new(text);
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
    fn syntax_errors_are_reported_by_line() {
        let errors = check("[a]\nsize = \n");
        assert!(errors[0].starts_with("2:"), "{errors:?}");
    }

    #[test]
    fn a_far_word_is_not_suggested() {
        assert_eq!(nearest("zebra", ["sentence", "token"]), None);
        assert_eq!(nearest("sentense", ["sentence", "token"]), Some("sentence".to_owned()));
    }
}
