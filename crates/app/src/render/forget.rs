//! Documents that were, or would be, forgotten, as text.

use super::{count, counted};
use lab::{BeyondReach, ForgetCertificate, Forgetting, ForgottenBefore, ForgottenDocument, RemovedObjects, utc};
use std::{fmt::Write, path::Path};

/// At most this many documents are named.
const MAX_NAMED: usize = 20;

/// What would be removed.
pub fn forgetting(forgetting: &Forgetting) -> String {
    let mut text = String::new();
    if !forgetting.before.is_empty() {
        text = forgotten_before(&forgetting.before) + "\n";
    }
    let _ = write!(text, "would forget {}", documents(&forgetting.documents));
    text += &removed("would remove", &forgetting.removed);
    text += &beyond_reach(&forgetting.beyond_reach);
    text + "\nnothing was removed: add --yes to do it"
}

/// What was removed. `name` is that of the certificate in the store.
pub fn forgotten(certificate: &ForgetCertificate, name: &str, file: Option<&Path>) -> String {
    let mut text = format!("forgot {}", documents(&certificate.documents));
    text += &removed("removed", &certificate.removed);
    text += &beyond_reach(&certificate.beyond_reach);
    for bundle in &certificate.removed.bundles {
        let _ = write!(
            text,
            "\nbundle {} is gone: make it again with `reverie run` and `reverie promote --output {}`",
            bundle.place, bundle.place
        );
    }
    let place = file.map(|file| format!(" and {}", file.display())).unwrap_or_default();
    let _ = write!(
        text,
        "\ncertificate: {name} in {}{place}, digest {}",
        certificate.store,
        &certificate.digest[..certificate.digest.len().min(12)]
    );
    text
}

/// Documents that an earlier removal has forgotten.
pub fn forgotten_before(before: &[ForgottenBefore]) -> String {
    let lines: Vec<String> = before
        .iter()
        .map(|one| format!("{} was forgotten on {}; certificate: {}", one.path, utc(one.time_ms), one.certificate))
        .collect();
    lines.join("\n")
}

fn documents(documents: &[ForgottenDocument]) -> String {
    let mut text = counted(documents.len(), "document");
    for ForgottenDocument { path, digests } in documents.iter().take(MAX_NAMED) {
        let versions = if digests.len() > 1 { format!(" ({} versions)", digests.len()) } else { String::new() };
        let _ = write!(text, "\n  {path}{versions}");
    }
    if documents.len() > MAX_NAMED {
        let _ = write!(text, "\n  and {} more", count(documents.len() - MAX_NAMED));
    }
    text
}

fn removed(verb: &str, removed: &RemovedObjects) -> String {
    let counts = lab::removal_counts(removed);
    if counts.is_empty() {
        return format!("\n{verb} nothing: nothing of it is left");
    }
    let mut text = format!("\n{verb}:");
    for (kind, n) in counts {
        let _ = write!(text, "\n  {} {kind}", count(n));
    }
    text
}

fn beyond_reach(beyond: &[BeyondReach]) -> String {
    let mut text = "\nout of reach, to be looked after by you:".to_owned();
    for BeyondReach { what, action } in beyond {
        let _ = write!(text, "\n  {what}\n    {action}");
    }
    text
}
