//! The statistics and the cleanup of the journal, as text.

use super::{count, row, table};
use std::{fmt::Write, path::Path};
use store::{DamagedEntry, JournalStatistics, ModelStatistics, Sweep};

/// What a journal holds and has saved.
pub fn journal(path: &Path, statistics: &JournalStatistics, models: &[ModelStatistics]) -> String {
    let mut text = format!(
        "{}: {} answers, {:.2} MB, {}",
        path.display(),
        count(statistics.entries as usize),
        statistics.bytes as f64 / 1e6,
        format_usd(statistics.cost_usd),
    );
    let mut rows = table(&["model", "kind", "answers", "tokens read", "written", "paid"], 2);
    for model in models {
        rows.add_row(row(&[
            &model.model,
            &model.kind,
            &count(model.entries as usize),
            &count(model.prompt_tokens as usize),
            &count(model.completion_tokens as usize),
            &format_usd(model.cost_usd),
        ]));
    }
    let _ = write!(
        text,
        "\n{rows}\nreused without paying: {} answers, {} saved",
        count(statistics.reused as usize),
        format_usd(statistics.saved_usd)
    );
    if statistics.unsent > 0 {
        let _ = write!(text, "\nnot in the shared store yet: {} answers", count(statistics.unsent as usize));
    }
    text
}

/// The damaged entries of a journal with this many entries.
pub fn journal_damage(path: &Path, entries: u64, damaged: &[DamagedEntry]) -> String {
    let entries = count(entries as usize);
    if damaged.is_empty() {
        return format!("{}: all of {entries} are intact", path.display());
    }
    let line = |DamagedEntry { key, reason }: &DamagedEntry| {
        format!("damaged: {}: {reason}\n", if key.is_empty() { "the file" } else { key })
    };
    let lines: String = damaged.iter().map(line).collect();
    // Of a damaged file, the reason names the command that rebuilds it.
    if damaged.iter().any(|entry| entry.key.is_empty()) {
        return lines.trim_end().to_owned();
    }
    let damaged = count(damaged.len());
    format!(
        "{lines}{damaged} of {entries} damaged: the next run asks for them again; `reverie journal gc --yes` removes them"
    )
}

/// What was, or would be, taken out.
pub fn sweep(sweep: &Sweep, removed: bool) -> String {
    let Sweep { selected, damaged, cost_usd, bytes_before, bytes_after } = *sweep;
    let what = format!("{} answers and {} damaged entries", count(selected as usize), count(damaged as usize));
    let again =
        if cost_usd > 0.0 { format!("; to ask for them again costs {}", format_usd(cost_usd)) } else { String::new() };
    match (removed, selected + damaged) {
        (_, 0) => "there is nothing to remove".to_owned(),
        (false, _) => format!("would remove {what}{again}\nnothing was removed: add --yes to do it"),
        (true, _) => format!(
            "removed {what}{again}\nthe journal had {:.2} MB and now has {:.2} MB",
            bytes_before as f64 / 1e6,
            bytes_after as f64 / 1e6
        ),
    }
}

/// An amount of money, in its shortest form.
fn format_usd(usd: f64) -> String {
    models::Cap::Usd.amount(usd)
}
