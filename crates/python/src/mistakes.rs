//! Mistakes in an experiment that was a dictionary. They are found in TOML with
//! the same content, which the user did not write, so the messages name keys
//! instead of lines.

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// Added to the message about a list where one value belongs.
const SWEEP: &str = "; a setting has one value: to compare several, list the component once for each";

/// A mistake at a line and column of the text, counted from 1. The message
/// begins with a table; the result names the key at that place instead.
pub fn named(text: &str, line: usize, column: usize, message: &str) -> String {
    let more = if message.contains("invalid type: list") { SWEEP } else { "" };
    let is_place = |place: &str| place.chars().all(|c| c.is_alphanumeric() || "_-.[]".contains(c));
    let Some((place, reason)) = message.split_once(": ").filter(|(place, _)| is_place(place)) else {
        return format!("{message}{more}");
    };
    let found = byte(text, line, column).map(|at| key_at(text, at)).unwrap_or_default();
    let last = place.rsplit('.').next().unwrap_or_default();
    let key = if found.starts_with(place) || found.ends_with(last) { found.as_str() } else { place };
    format!("{key}: {reason}{more}")
}

fn byte(text: &str, line: usize, column: usize) -> Option<usize> {
    let start: usize = text.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum();
    let within = text.get(start..)?.char_indices().nth(column.checked_sub(1)?).map_or(0, |(i, _)| i);
    Some(start + within)
}

/// The key at a byte of a text; empty if there is none.
fn key_at(text: &str, at: usize) -> String {
    let (table, _) = DeTable::parse_recoverable(text);
    let mut best = (0, String::new());
    look(table.get_ref(), at, "", 1, &mut best);
    best.1
}

/// Looks for the innermost key whose name or value is at a byte. A table with
/// a header reaches further than its own span, so all are looked at.
fn look(table: &DeTable<'_>, at: usize, above: &str, depth: usize, best: &mut (usize, String)) {
    for (key, value) in table {
        let name = key.get_ref();
        let path = if above.is_empty() { name.to_string() } else { format!("{above}.{name}") };
        if key.span().contains(&at) && depth > best.0 {
            *best = (depth, path.clone());
        }
        look_at(value, at, &path, depth, best);
    }
}

fn look_at(value: &Spanned<DeValue<'_>>, at: usize, path: &str, depth: usize, best: &mut (usize, String)) {
    if value.span().contains(&at) && depth > best.0 {
        *best = (depth, path.to_owned());
    }
    match value.get_ref() {
        DeValue::Table(table) => look(table, at, path, depth + 1, best),
        DeValue::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                look_at(item, at, &format!("{path}[{i}]"), depth + 1, best);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name = \"mills\"\n\n[space]\nembedder = [\"emb\"]\n\n[[space.chunker]]\n\n[space.chunker.sentence]\n\
        chunk_sise = 4\nchunk_overlap = [1, 2]\n\n[evaluate]\nmetrics = [\"recal\"]\n";

    #[test]
    fn a_mistake_names_its_key() {
        let named = |line, column, message| named(TEXT, line, column, message);
        assert_eq!(
            named(9, 1, "space.chunker[0]: unknown field `chunk_sise`"),
            "space.chunker[0].sentence.chunk_sise: unknown field `chunk_sise`"
        );
        assert_eq!(
            named(10, 17, "space.chunker[0]: invalid type: list, expected u32"),
            format!("space.chunker[0].sentence.chunk_overlap: invalid type: list, expected u32{SWEEP}")
        );
        assert_eq!(
            named(4, 13, "space.embedder: there is no model `emb`"),
            "space.embedder[0]: there is no model `emb`"
        );
        assert_eq!(named(13, 12, "evaluate.metrics[0]: unknown metric"), "evaluate.metrics[0]: unknown metric");
    }

    #[test]
    fn what_is_missing_stands_nowhere_and_is_told_as_it_is() {
        assert_eq!(named(TEXT, 1, 1, "`store` is missing"), "`store` is missing");
        assert_eq!(
            named(TEXT, 1, 1, "space: the axis `retriever` is missing"),
            "space: the axis `retriever` is missing"
        );
        assert_eq!(named(TEXT, 99, 1, "corpus: `source` is missing"), "corpus: `source` is missing");
    }
}
