//! The model catalogue for people.

use super::{row, table};
use models::{Catalogue, CatalogueEntry, Licence, ModelDirectory, ModelLanguages};
use std::fmt::Write;

/// The entries of the catalogue, and whether each is on this machine.
pub fn catalogue(catalogue: &Catalogue, directory: &ModelDirectory) -> String {
    let mut rows = table(&["model", "kind", "licence", "languages", "here", "MB", "dimensions", "tokens"], 5);
    for entry in &catalogue.entries {
        let here = if directory.holds(entry) { "yes" } else { "no" };
        rows.add_row(row(&[
            &entry.name,
            &entry.kind.name(),
            &licence(entry),
            &entry.languages.map(ModelLanguages::name).unwrap_or_default(),
            &here,
            &(entry.bytes() / 1_000_000),
            &number(entry.dimensions),
            &number(entry.max_tokens),
        ]));
    }
    format!(
        "{rows}\nget one with `reverie models pull NAME`; a model can also be a file, a folder, or hf:owner/repository"
    )
}

/// The name of the licence, or `UNKNOWN`.
fn licence(entry: &CatalogueEntry) -> String {
    match &entry.licence {
        Licence::Stated(name) => name.clone(),
        Licence::Unknown(_) => "UNKNOWN".to_owned(),
    }
}

/// A number, or nothing for 0.
fn number(n: usize) -> String {
    if n == 0 { String::new() } else { n.to_string() }
}

/// One entry in full.
pub fn catalogue_entry(entry: &CatalogueEntry, directory: &ModelDirectory) -> String {
    let mut text = format!("{} ({}): {}", entry.name, entry.kind.name(), entry.about);
    match &entry.licence {
        Licence::Stated(name) => _ = write!(text, "\nlicence: {name}"),
        Licence::Unknown(known) => _ = write!(text, "\nlicence: UNKNOWN ({known})"),
    }
    let _ = write!(text, "\nsize: {} MB, run by {}", entry.bytes() / 1_000_000, entry.runtime);
    for (what, n) in [("dimensions", entry.dimensions), ("tokens", entry.max_tokens)] {
        if n > 0 {
            let _ = write!(text, "\n{what}: {n}");
        }
    }
    if let Some(languages) = entry.languages {
        let _ = write!(text, "\nlanguages: {}", languages.name());
    }
    for (what, prefix) in [("queries", &entry.query_prefix), ("documents", &entry.document_prefix)] {
        if !prefix.is_empty() {
            let _ = write!(text, "\nput before {what}: {prefix:?}");
        }
    }
    for file in entry.files_here() {
        let _ = write!(text, "\nfile {}: {} bytes, SHA-256 {}", file.name, file.bytes, file.sha256);
    }
    let here = if directory.holds(entry) { "yes" } else { "no" };
    let _ = write!(text, "\nhere: {here}");
    text
}
