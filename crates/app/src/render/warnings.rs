//! The output of `reverie warnings`: the list of all kinds, and one kind in full.

use super::{TableLayout, table};
use comfy_table::ContentArrangement;
use lab::{WarningCode, WarningKind};
use serde::Serialize;

/// A kind of warning with its code.
#[derive(Debug, Serialize)]
pub struct WarningDocs {
    /// Its code.
    pub code: WarningCode,
    /// What it means and what to do.
    #[serde(flatten)]
    pub kind: &'static WarningKind,
}

/// All kinds of warnings, the most serious first.
pub fn warning_docs() -> Vec<WarningDocs> {
    WarningCode::ALL.iter().map(|&code| WarningDocs { code, kind: code.kind() }).collect()
}

/// The kinds of warnings as a list.
pub fn warning_list(kinds: &[&WarningDocs], layout: &TableLayout) -> String {
    let mut rows = table(&["code", "what it tells", "found"], 3);
    if let Some(width) = layout.width.and_then(|width| u16::try_from(width).ok()) {
        rows.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    for docs in kinds {
        rows.add_row([docs.code.name(), docs.kind.title.to_owned(), docs.kind.found.words().to_owned()]);
    }
    rows.to_string()
}

/// One kind of warning in full.
pub fn warning_kind(docs: &WarningDocs, layout: &TableLayout) -> String {
    let WarningKind { title, meaning, action, found, .. } = docs.kind;
    let parts = [
        format!("{}: {title}", docs.code.name()),
        (*meaning).to_owned(),
        format!("What to do: {action}."),
        format!("It is found {}.", found.words()),
        format!("To hide it, add it to `ignore` under [warnings]: ignore = [\"{}\"].", docs.code.name()),
    ];
    parts.map(|part| layout.fill(&part)).join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_in_the_list_and_is_told_in_full() {
        let all = warning_docs();
        let list = warning_list(&all.iter().collect::<Vec<_>>(), &TableLayout::default());
        for docs in &all {
            assert!(list.contains(&docs.code.name()) && list.contains(docs.kind.title), "{list}");
            let text = warning_kind(docs, &TableLayout::default());
            assert!(text.contains(docs.kind.meaning) && text.contains(docs.kind.action), "{text}");
        }
    }

    #[test]
    fn a_kind_is_written_with_its_code() {
        let written = serde_json::to_value(&warning_docs()[0]).unwrap();
        assert_eq!((&written["code"], &written["found"]), (&"retrieves-nothing".into(), &"after".into()));
        assert!(written["title"].is_string() && written.get("find").is_none());
    }
}
