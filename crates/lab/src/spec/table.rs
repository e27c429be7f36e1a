//! Reads values of an experiment file's tables, with the place of each mistake.

use super::{nearest, reader::ExperimentReader};
use serde::de::DeserializeOwned;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

type Value<'a> = Spanned<DeValue<'a>>;

/// A model's name, and the byte of the file where it is named.
pub(super) type NamedModel = (String, usize);

pub(super) fn key_start(table: &DeTable<'_>, key: &str) -> usize {
    table.get_key_value(key).map_or(0, |(key, _)| key.span().start)
}

pub(super) fn unknown_keys(reader: &mut ExperimentReader<'_>, table: &DeTable<'_>, known: &[&str], place: &str) {
    for key in table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())) {
        let name = key.get_ref();
        let hint = match nearest(name, known.iter().copied()) {
            Some(word) => format!("; did you mean `{word}`?"),
            None => format!("; known keys: {}", known.join(", ")),
        };
        reader.error(key.span().start, format!("{place}: unknown key `{name}`{hint}"));
    }
}

pub(super) fn required<'a, T: DeserializeOwned>(
    reader: &mut ExperimentReader<'a>,
    table: &DeTable<'a>,
    key: &str,
) -> Option<T> {
    match table.get(key) {
        Some(value) => reader.read(value, key),
        None => {
            reader.error(0, format!("`{key}` is missing"));
            None
        }
    }
}

pub(super) fn optional<'a, T: DeserializeOwned>(
    reader: &mut ExperimentReader<'a>,
    table: &DeTable<'a>,
    key: &str,
) -> Option<T> {
    table.get(key).and_then(|value| reader.read(value, key))
}

/// A list of a section, such as an axis, or one value. If `component`, a string names a component
/// with default settings. `consequence` says what an empty list would lead to.
pub(super) fn read_list<'a, T: DeserializeOwned>(
    reader: &mut ExperimentReader<'a>,
    (section, table): (&str, &DeTable<'a>),
    key: &str,
    component: bool,
    consequence: &str,
) -> Vec<(T, usize)> {
    let Some(value) = table.get(key) else { return Vec::new() };
    let items: Vec<Value<'a>> = match value.get_ref() {
        DeValue::Array(items) => items.iter().cloned().collect(),
        _ => vec![value.clone()],
    };
    if items.is_empty() {
        reader.error(value.span().start, format!("{section}.{key}: the list is empty, so {consequence}"));
    }
    items
        .into_iter()
        .enumerate()
        .filter_map(|(i, item)| {
            let span = item.span();
            let item = match item.get_ref() {
                // `"none"` stands for `{ none = {} }`.
                DeValue::String(name) if component => {
                    let mut table = DeTable::new();
                    table.insert(
                        Spanned::new(span.clone(), name.clone()),
                        Spanned::new(span.clone(), DeValue::Table(DeTable::new())),
                    );
                    Spanned::new(span.clone(), DeValue::Table(table))
                }
                _ => item,
            };
            reader.read::<T>(&item, &format!("{section}.{key}[{i}]")).map(|read| (read, span.start))
        })
        .collect()
}

pub(super) fn without_positions<T>(items: Vec<(T, usize)>) -> Vec<T> {
    items.into_iter().map(|(item, _)| item).collect()
}
