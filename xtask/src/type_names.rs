//! One name, one type: a search for the name of a type finds one definition in the workspace.

use crate::{tracked, without_tests};
use std::{collections::BTreeMap, fs, path::Path};

/// Names that stand for the same in every file: the settings and the error of a component.
const SHARED: &[&str] = &["Config", "Error"];

/// Complains of every name that two types have.
pub(crate) fn check(root: &Path, complaints: &mut Vec<String>) {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in tracked(root, "*.rs") {
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let is_test = name.contains("/tests/") || name.ends_with("tests.rs") || name.ends_with("testing.rs");
        let is_checked = ["crates/", "simulator/", "xtask/"].iter().any(|folder| name.starts_with(folder));
        if !is_checked || !name.contains("/src/") || is_test {
            continue;
        }
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for (line, type_name) in definitions(&without_tests(&text)) {
            found.entry(type_name).or_default().push(format!("{name}:{line}"));
        }
    }
    let is_shared = |name: &String| SHARED.contains(&name.as_str());
    for (name, places) in found.iter().filter(|(name, places)| places.len() > 1 && !is_shared(name)) {
        complaints.push(format!("`{name}` is the name of {} types: {}", places.len(), places.join(", ")));
    }
}

/// The types that code defines outside functions and blocks, each with its line. Code is formatted, so that such a
/// definition begins at the start of a line.
fn definitions(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, text) in (1..).zip(code.lines()) {
        let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
        if text.starts_with(' ') || text.starts_with("//") {
            continue;
        }
        let is_visibility = |word: &str| ["pub", "crate", "super", "in", "unsafe"].contains(&word);
        let Some(keyword) = words.by_ref().find(|word| !is_visibility(word)) else { continue };
        if ["struct", "enum", "trait", "union", "type"].contains(&keyword)
            && let Some(name) = words.next()
        {
            found.push((line, name.to_owned()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::definitions;

    #[test]
    fn types_are_found_whatever_their_visibility_and_not_within_blocks() {
        let code = "//! struct Docs\npub(crate) struct Place<'a> {\n}\nenum Place2 { A }\nimpl Iterator for X {\n    type Item = u8;\n}\n\
                    pub type Alias = u8;\npub unsafe trait T {}\nfn f() {\n    struct Local;\n}\n";
        let names: Vec<String> = definitions(code).into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["Place", "Place2", "Alias", "T"]);
        assert_eq!(definitions(code)[0].0, 2);
    }
}
