//! The content, verification, cleanup and copies of stores, as text.

use super::{count, progress_bar, row, table};
use crate::environment::Audience;
use indicatif::ProgressBar;
use lab::UnusedCollection;
use std::fmt::Write;
use store::{
    Location,
    upkeep::{CopyPlan, CopyReport, Garbage, Inventory, ObjectAmount, VerifyReport},
};

/// At most this many damaged or different objects are named.
const MAX_NAMED: usize = 50;

/// A progress bar of bytes, if standard error is a terminal.
pub struct ByteBar(ProgressBar);

impl ByteBar {
    /// A bar at its beginning.
    pub fn start(audience: Audience) -> Self {
        Self(progress_bar(0, "{bar:30} {bytes:>11}/{total_bytes:<11} {bytes_per_sec:>12} {eta:>4}", audience))
    }

    /// Shows how many bytes are done, and the total if it is known.
    pub fn show(&self, done: u64, all: Option<u64>) {
        self.0.set_length(all.unwrap_or(done));
        self.0.set_position(done);
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}

/// What is in a store.
pub fn inventory(location: &Location, inventory: &Inventory) -> String {
    let mut text = format!("{location}: {}", amount(inventory.all));
    let mut rows = table(&["kind", "objects", "MB"], 1);
    for (kind, of_kind) in &inventory.kinds {
        rows.add_row(row(&[&kind, &count(of_kind.objects as usize), &megabytes(of_kind.bytes)]));
    }
    let _ = write!(text, "\n{rows}");
    if inventory.runs.is_empty() {
        return text + "\nno finished run";
    }
    let mut rows = table(&["run", "files", "MB", "artifacts", "MB", "missing"], 1);
    for run in &inventory.runs {
        let artifacts = run.artifacts.unwrap_or_default();
        let known = |value: String| if run.artifacts.is_some() { value } else { "not listed".to_owned() };
        rows.add_row(row(&[
            &run.run,
            &count(run.files.objects as usize),
            &megabytes(run.files.bytes),
            &known(count(artifacts.objects as usize)),
            &known(megabytes(artifacts.bytes)),
            &count(run.missing as usize),
        ]));
    }
    let _ = write!(text, "\n{rows}");
    text
}

/// What a verification found.
pub fn verification(location: &Location, verified: &VerifyReport) -> String {
    let mut text = String::new();
    for damaged in verified.damaged.iter().take(MAX_NAMED) {
        let _ = writeln!(text, "damaged: {}: {}", damaged.name, damaged.reason);
    }
    let read = amount(verified.read);
    let _ = match verified.damaged.len() {
        0 => write!(text, "{location}: all of {read} is intact"),
        n => write!(
            text,
            "{location}: {} of {read} damaged; --json names all of them; `reverie run` makes the artifacts among them again",
            count(n)
        ),
    };
    if verified.without_checksum.objects > 0 {
        let old = amount(verified.without_checksum);
        let _ = write!(text, "\nwithout a checksum, since an earlier version wrote it: {old}, checked by its format");
    }
    if verified.set_aside.objects > 0 {
        let aside = amount(verified.set_aside);
        let _ = write!(text, "\nset aside as damaged: {aside}, below damaged/; `reverie store gc` removes it");
    }
    text
}

/// What was, or would be, removed.
pub fn garbage(garbage: &Garbage, collections: &[UnusedCollection], removed: bool) -> String {
    if garbage.all.objects == 0 && collections.is_empty() {
        return "there is nothing to remove".to_owned();
    }
    let parts = format!(
        "{}: {} partial outputs, {} leftovers of killed writers, {} damaged, {} unused artifacts",
        amount(garbage.all),
        count(garbage.partial.len()),
        count(garbage.staged.len() + garbage.leftovers.len()),
        count(garbage.damaged.len()),
        count(garbage.unused.len())
    );
    let mut text = format!("{} {parts}", if removed { "removed" } else { "would remove" });
    for UnusedCollection { address, collection, kept, .. } in collections {
        let _ = match (kept, removed) {
            (Some(reason), _) => write!(text, "\nkept the collection {collection} of {address}: {reason}"),
            (None, true) => write!(text, "\nremoved the collection {collection} of {address}"),
            (None, false) => write!(text, "\nwould remove the collection {collection} of {address}"),
        };
    }
    if !removed {
        text.push_str("\nnothing was removed: add --yes to do it");
    }
    text
}

/// What would be copied.
pub fn copy_plan(to: &str, plan: &CopyPlan) -> String {
    let mut text = format!("{to}: would write {}, {} are there already", amount(plan.missing), amount(plan.there));
    text.push_str("\nmissing model calls of the journal file are copied too");
    for name in plan.different.iter().take(MAX_NAMED) {
        let _ = write!(text, "\nwould be left as it is: {name} has another size there");
    }
    text
}

/// What was copied.
pub fn copy_result(to: &Location, copied: &CopyReport) -> String {
    let mut text = format!("{to}: {} written, {} there already", amount(copied.written), amount(copied.there));
    let calls = &copied.calls;
    if calls.written + calls.there > 0 {
        let (written, there) = (count(calls.written as usize), count(calls.there as usize));
        let _ = write!(text, "\nmodel calls of a journal file: {written} written, {there} there already");
    }
    if calls.damaged > 0 {
        let _ = write!(
            text,
            "\nnot copied: {} damaged model calls (`reverie journal verify` or `store verify` names them)",
            count(calls.damaged as usize)
        );
    }
    if let Some(problem) = &calls.problem {
        let _ = write!(text, "\nnot copied: the model calls of a journal file: {}", lab::error_chain(&**problem));
    }
    for damaged in copied.damaged.iter().take(MAX_NAMED) {
        let _ = write!(text, "\nnot copied: {} is damaged: {}", damaged.name, damaged.reason);
    }
    if copied.n_left_on_machine > 0 {
        let _ = write!(text, "\nnot copied: {} machine-specific files", count(copied.n_left_on_machine as usize));
    }
    for name in copied.different.iter().take(MAX_NAMED) {
        let _ = write!(text, "\nleft as it is: {name} has another size there");
    }
    text
}

fn amount(amount: ObjectAmount) -> String {
    format!("{} objects, {} MB", count(amount.objects as usize), megabytes(amount.bytes))
}

fn megabytes(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / 1e6)
}
