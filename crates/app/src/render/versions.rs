//! The versions of a pipeline that follows its documents.

use super::{count, table, visible_line};
use comfy_table::Cell;
use lab::{CorpusUpdate, PipelineVersion, utc};

/// A new version, in a line.
pub fn corpus_update(update: &CorpusUpdate) -> String {
    let changes = match &update.changes {
        None => "first look".to_owned(),
        Some(changes) => {
            let kinds = [
                (changes.added.len(), "added"),
                (changes.edited.len(), "edited"),
                (changes.moved.len(), "moved"),
                (changes.removed.len(), "removed"),
            ];
            let told: Vec<String> =
                kinds.into_iter().filter(|(n, _)| *n > 0).map(|(n, kind)| format!("{} {kind}", count(n))).collect();
            if told.is_empty() { "other metadata".to_owned() } else { told.join(", ") }
        }
    };
    let is_served = match update.is_current {
        true => "served",
        false => "made, and not served because another version was chosen",
    };
    format!(
        "{}: {changes}; {} files; {} of {} tasks done; {is_served} after {:.1} s",
        update.version,
        count(update.corpus.files),
        count(update.executed),
        count(update.executed + update.reused),
        update.seconds
    )
}

/// The versions at a place, the newest first.
pub fn pipeline_versions(versions: &[PipelineVersion]) -> String {
    if versions.is_empty() {
        return "no version can be read".to_owned();
    }
    let mut listed = table(&["version", "served", "files", "read", "from", "MB"], 2);
    for version in versions {
        let served = match (version.is_current, version.is_pinned) {
            (true, true) => "yes, chosen",
            (true, false) => "yes",
            (false, _) => "",
        };
        let state = version.corpus.as_ref();
        listed.add_row([
            Cell::new(visible_line(&version.version)),
            Cell::new(served),
            Cell::new(state.map(|state| count(state.files)).unwrap_or_default()),
            Cell::new(utc(state.map_or(version.made_ms, |state| state.read_ms))),
            Cell::new(visible_line(&format!("{} of {}", version.trial, version.run))),
            Cell::new(format!("{:.1}", version.bytes as f64 / 1e6)),
        ]);
    }
    listed.to_string()
}
