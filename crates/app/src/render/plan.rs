//! The plan, as text.

use super::{combination, count, counted, duration, row, table, visible_line};
use lab::{CostEstimate, PlanSummary, PreparedRun};
use models::{Cap, TotalSpending};
use rag::Component;
use std::fmt::Write;

/// The most trials that are listed.
const TRIALS_LISTED: usize = 40;

/// What would run.
pub fn plan(summary: &PlanSummary, prepared: &PreparedRun) -> String {
    let mut text = format!(
        "{}, {} ({} of text), {}",
        counted(summary.trials, "trial"),
        counted(prepared.documents, "document"),
        lab::board::size(prepared.text_bytes),
        counted(prepared.questions.len(), "question"),
    );
    for line in inputs(prepared) {
        let _ = write!(text, "\n{line}");
    }
    text.push_str(&trials(summary));
    let mut rows = table(&["operator", "unshared tasks", "unique", "stored", "to run", "time"], 1);
    for operator in &summary.operators {
        rows.add_row(row(&[
            &operator.operator.name(),
            &count(operator.planned),
            &count(operator.unique),
            &count(operator.stored),
            &count(operator.unique - operator.stored),
            &time_of(summary, operator.operator),
        ]));
    }
    let _ = write!(text, "\n{rows}");
    text.push_str(&time(summary));
    for operator in summary.operators.iter().filter(|operator| operator.operator == lab::Operator::EMBED) {
        let _ = write!(text, "\neach (embedder, chunker) pair is embedded once, for all trials that share it:");
        for detail in &operator.detail {
            let _ = write!(text, "\n  {detail}");
        }
    }
    if let Some(search) = &summary.search {
        let _ = write!(text, "\nthis is the full grid: the {search} search runs only part of it, step by step");
    }
    if let Some(cost) = &summary.cost {
        text.push_str(&estimate(cost));
    }
    text
}

/// Remarks on the inputs of a run: the questions, the columns that are not used,
/// the files that were not read, and warnings.
pub fn inputs(prepared: &PreparedRun) -> Vec<String> {
    let mut lines: Vec<String> = prepared.dataset.iter().flat_map(super::dataset_report).collect();
    lines.extend(super::file_lines(&prepared.rejected, |file| {
        format!("not read: {}: {}", visible_line(&file.path), lab::error_chain(&file.reason))
    }));
    lines.extend(super::file_lines(&prepared.unread, |file| {
        format!("not read in this run, the next one tries again: {}: {}", visible_line(&file.path), file.reason)
    }));
    lines.extend(super::file_lines(&prepared.similar_names, |(one, other)| {
        let [one, other] = [one, other].map(|path| visible_line(path));
        format!("two documents whose names differ only in case or in the form of their letters: {one} and {other}")
    }));
    if !prepared.left_out.is_empty() {
        let ids: Vec<_> = prepared.left_out.iter().map(|id| visible_line(id)).collect();
        lines.push(format!(
            "questions left out, because their evidence is in files that were not read: {}",
            ids.join(", ")
        ));
    }
    let existing = |trial: &&lab::Trial| trial.pipeline().is_some_and(|it| it.retriever.existing_index().is_some());
    let existing: Vec<&str> = prepared.trials.iter().filter(existing).map(|trial| trial.id.as_str()).collect();
    if let Some((first, rest)) = existing.split_first() {
        let more = if rest.is_empty() { String::new() } else { format!(" and {} more", count(rest.len())) };
        let (search, trials) = if rest.is_empty() { ("searches", "its") } else { ("search", "their") };
        lines.push(format!("{first}{more} {search} an index that exists, so {trials} chunker is `none`"));
    }
    lines.extend(super::warning_lines(&prepared.warnings));
    if prepared.concurrent_runs > 0 {
        let runs = if prepared.concurrent_runs == 1 { "another run uses" } else { "other runs use" };
        lines.push(format!(
            "{runs} this store now, or did in the last 10 minutes: runs on several machines do not see each \
             other's unfinished work, so some of it may be done and paid twice"
        ));
    }
    lines
}

/// The first trials, a line each.
fn trials(summary: &PlanSummary) -> String {
    let mut text = String::new();
    for planned in summary.combinations.iter().take(TRIALS_LISTED) {
        let stored = if planned.stored { " (in the store)" } else { "" };
        let _ = write!(text, "\n  {}: {}{stored}", planned.trial, combination(&planned.labels));
    }
    let more = summary.combinations.len().saturating_sub(TRIALS_LISTED);
    if more > 0 {
        let _ = write!(text, "\n  and {} more: --json lists them all", count(more));
    }
    text
}

/// The expected time of an operator.
fn time_of(summary: &PlanSummary, operator: lab::Operator) -> String {
    let components = summary.time.iter().flat_map(|time| &time.components);
    let mut seconds = components.filter(|component| component.operator == operator).map(|component| component.seconds);
    let Some(first) = seconds.next() else { return String::new() };
    let sum = std::iter::once(first).chain(seconds).sum::<Option<f64>>();
    sum.map_or_else(|| "unknown".to_owned(), |sum| format!("about {}", duration(sum)))
}

/// The basis of expected times.
const BASIS: &str = "estimated from earlier runs, whose answers may have come from the journal";

/// The expected time of the run on this machine.
fn time(summary: &PlanSummary) -> String {
    let Some(time) = summary.time.as_ref().filter(|time| !time.components.is_empty()) else { return String::new() };
    let mut unknown: Vec<String> = time
        .components
        .iter()
        .filter(|component| component.seconds.is_none())
        .map(|component| format!("{} {}", component.operator.name(), component.component))
        .collect();
    // Components that differ in their settings have the same name.
    unknown.dedup();
    match time.seconds {
        Some(seconds) => format!("\nabout {} on this machine, {BASIS}", duration(seconds)),
        None if time.known_seconds > 0.0 => format!(
            "\nabout {} on this machine, {BASIS}, plus an unknown time for {}",
            duration(time.known_seconds),
            unknown.join(", ")
        ),
        None => format!("\nhow long it takes is unknown: nothing of it was run here before ({})", unknown.join(", ")),
    }
}

/// The calls, what they should cost, and the budget; empty if no model is called.
pub fn estimate(cost: &CostEstimate) -> String {
    let mut text = String::new();
    if cost.models.is_empty() {
        return text;
    }
    text.push_str(
        "\nmodel calls of what is to run, a rough upper limit; answers that the journal has already are free and are \
         counted here all the same:",
    );
    for model in &cost.models {
        let money = match model.cost_usd {
            _ if model.here => "on this machine: no money, only time".to_owned(),
            Some(0.0) => "free".to_owned(),
            Some(usd) => format!("about {}", Cap::Usd.amount(usd)),
            None => "its price is not known: write `price` to see what it costs".to_owned(),
        };
        let (calls, read) = (count(model.calls as usize), count(model.prompt_tokens as usize));
        let tokens = match model.is_system {
            true => "its tokens are not known".to_owned(),
            false => format!("{read} tokens read, {} written", count(model.completion_tokens as usize)),
        };
        let _ = write!(text, "\n  {}: {calls} calls, {tokens}, {money}", model.model);
    }
    if cost.cost_usd == Some(0.0) && cost.budget.is_empty() && cost.total.is_none() {
        return text;
    }
    let total = cost.cost_usd.map_or_else(
        || "the cost is not known".to_owned(),
        |usd| format!("estimated cost: about {}", Cap::Usd.amount(usd)),
    );
    let _ = match (cost.budget.is_empty(), cost.exceeds.is_empty()) {
        (true, _) if cost.total.is_some() => write!(text, "\n{total}"),
        (true, _) => write!(text, "\n{total}; no budget: `budget = {{ usd = … }}` under [evaluate] sets one"),
        (false, true) => write!(text, "\n{total}; the budget is {}", cost.budget),
        (false, false) => {
            write!(text, "\n{total}; the budget is {}: a run would end there, with partial results", cost.budget)
        }
    };
    if let Some(total) = &cost.total {
        let end = if cost.exceeds_total.is_empty() { "" } else { ": a run would end there, with partial results" };
        let _ = write!(text, "\n{}", total_left(total, end));
    }
    text
}

/// What is left of the budget of all starts. The sentence ends with whether a run would end there.
pub(super) fn total_left(total: &TotalSpending, end: &str) -> String {
    let left = [Cap::Usd, Cap::Tokens, Cap::Calls].into_iter().filter_map(|cap| Some(cap.amount(total.left(cap)?)));
    let spent = [Cap::Usd, Cap::Tokens, Cap::Calls].into_iter().filter(|cap| total.caps.limit(*cap).is_some());
    let spent: Vec<String> = spent.map(|cap| cap.amount(total.spent(cap))).collect();
    let end = if total.used_up().is_empty() { end } else { ": no paid call will be made" };
    format!(
        "the total budget of all starts is {}, of which {} were spent; {} are left{end}",
        total.caps,
        spent.join(", "),
        left.collect::<Vec<_>>().join(", ")
    )
}
