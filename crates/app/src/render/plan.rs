//! The plan for people.

use super::{aligned, count, table};
use lab::{PlanSummary, Prepared};
use std::fmt::Write;

/// What would run.
pub fn plan(summary: &PlanSummary, prepared: &Prepared) -> String {
    let mut text = format!(
        "{} trials, {} documents ({:.2} MB of text), {} questions",
        summary.trials,
        count(prepared.documents),
        prepared.text_bytes as f64 / 1e6,
        count(prepared.questions.len()),
    );
    for rejected in &prepared.rejected {
        let _ = write!(text, "\nnot read: {}: {}", rejected.path, rejected.reason);
    }
    let mut rows = table(&["operator", "tasks if alone", "unique", "stored", "to run"], 1);
    for operator in &summary.operators {
        rows.add_row(vec![
            aligned(operator.operator.name(), false),
            aligned(count(operator.planned), true),
            aligned(count(operator.unique), true),
            aligned(count(operator.stored), true),
            aligned(count(operator.unique - operator.stored), true),
        ]);
    }
    let _ = write!(text, "\n{rows}");
    for operator in summary.operators.iter().filter(|operator| matches!(operator.operator, lab::Operator::Embed)) {
        let _ = write!(text, "\neach (embedder, chunker) pair is embedded once, for all trials that share it:");
        for detail in &operator.detail {
            let _ = write!(text, "\n  {detail}");
        }
    }
    text
}
