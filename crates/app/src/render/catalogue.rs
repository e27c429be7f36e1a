//! The model catalogue for people.

use super::{aligned, table};
use models::{Catalogue, CatalogueEntry, Licence, ModelDirectory};
use std::fmt::Write;

/// All entries, and which are here.
pub fn catalogue(catalogue: &Catalogue, directory: &ModelDirectory) -> String {
    let mut rows = table(&["model", "kind", "licence", "here", "MB", "dimensions", "tokens"], 4);
    for entry in &catalogue.entries {
        let here = directory.holds(entry);
        rows.add_row(vec![
            aligned(&entry.name, false),
            aligned(entry.kind.name(), false),
            aligned(licence(entry), false),
            aligned(if here { "yes" } else { "no" }, false),
            aligned(entry.bytes() / 1_000_000, true),
            aligned(number(entry.dimensions), true),
            aligned(number(entry.max_tokens), true),
        ]);
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
    for file in entry.files_here() {
        let _ = write!(text, "\nfile {}: {} bytes, SHA-256 {}", file.name, file.bytes, file.sha256);
    }
    let here = if directory.holds(entry) { "yes" } else { "no" };
    let _ = write!(text, "\nhere: {here}");
    text
}
