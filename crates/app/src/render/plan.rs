//! The plan for people.

use super::{aligned, count, table};
use lab::{CostEstimate, PlanSummary, Prepared};
use models::Cap;
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
    if let Some(search) = &summary.search {
        let _ = write!(text, "\nthis is the full grid: the search by {search} asks for a part of it, step by step");
    }
    if let Some(cost) = &summary.cost {
        text.push_str(&estimate(cost));
    }
    text
}

/// What it should cost, beside the budget. Nothing where nothing is paid and
/// nothing is limited.
pub(super) fn estimate(cost: &CostEstimate) -> String {
    let mut text = String::new();
    if cost.models.is_empty() || (cost.cost_usd == Some(0.0) && cost.budget.is_empty()) {
        return text;
    }
    text.push_str("\nmodel calls to make, roughly and at most:");
    for model in &cost.models {
        let money = match model.cost_usd {
            Some(0.0) => "free".to_owned(),
            Some(usd) => format!("about {}", Cap::Usd.amount(usd)),
            None => "its price is not known: write `price` to see what it costs".to_owned(),
        };
        let _ = write!(
            text,
            "\n  {}: {} calls, {} tokens read, {} written, {money}",
            model.model,
            count(model.calls as usize),
            count(model.prompt_tokens as usize),
            count(model.completion_tokens as usize)
        );
    }
    let total = cost.cost_usd.map_or_else(
        || "the cost is not known".to_owned(),
        |usd| format!("estimated cost: about {}", Cap::Usd.amount(usd)),
    );
    let _ = match (cost.budget.is_empty(), cost.exceeds.is_empty()) {
        (true, _) => write!(text, "\n{total}; no budget: `budget = {{ usd = … }}` under [evaluate] sets one"),
        (false, true) => write!(text, "\n{total}; the budget is {}", cost.budget),
        (false, false) => {
            write!(text, "\n{total}; the budget is {}: a run would end there, with partial results", cost.budget)
        }
    };
    text
}
