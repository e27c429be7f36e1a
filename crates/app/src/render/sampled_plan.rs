//! The cost of a run that was estimated from a sample of the files, as text.

use super::{count, counted, duration, left, table, visible_line};
use lab::{Estimate, SampledCost, SampledPlan};
use models::Cap;
use std::fmt::Write;

/// The most characters of a line of the first column, so that the table fits into 80 columns.
const LABEL_CHARACTERS: usize = 26;
/// The most endings that are listed.
const ENDINGS_LISTED: usize = 6;
/// The most unread files that are named.
const UNREAD_NAMED: usize = 5;

/// What a first run would cost.
pub fn sampled_plan(plan: &SampledPlan) -> String {
    let mut text = format!(
        "{}, {} ({}), as if nothing was stored",
        counted(plan.trials, "trial"),
        counted(plan.files, "file"),
        lab::board::size(plan.bytes as usize)
    );
    for line in plan.dataset.iter().flat_map(super::dataset_report) {
        let _ = write!(text, "\n{line}");
    }
    let _ = write!(text, "\n{}", sample(plan));
    for line in rejected(plan).into_iter().chain(unread(plan)).chain(super::warning_lines(&plan.warnings)) {
        let _ = write!(text, "\n{line}");
    }
    let _ = write!(text, "\n{}", corpus(plan));
    if let Some(search) = &plan.search {
        let _ = write!(text, "\nthis is the full grid: the {search} search runs only part of it, step by step");
    }
    text.push_str(&cost(&plan.cost));
    text.push_str(
        "\n`reverie plan` without --sample reads all files, looks for the evidence of the questions, and says what is \
         stored already and what the rest costs",
    );
    text
}

/// Which files were read.
fn sample(plan: &SampledPlan) -> String {
    if plan.is_whole {
        return "all files were read, because they are no more than the sample: the estimates have no sampling error"
            .to_owned();
    }
    let share = 100.0 * plan.sampled_bytes as f64 / plan.bytes.max(1) as f64;
    let (sampled, files) = (count(plan.sampled_files), count(plan.files));
    let mut text =
        format!("estimated from a sample of {sampled} of {files} files, which hold {share:.1} % of the bytes");
    if plan.endings.len() > 1 {
        let name = |ending: &str| match ending {
            "" => "without an ending".to_owned(),
            ending => visible_line(ending).into_owned(),
        };
        let listed = plan.endings.iter().take(ENDINGS_LISTED);
        let listed = listed.map(|it| format!("{} of {} {}", count(it.sampled), count(it.files), name(&it.ending)));
        let more = if plan.endings.len() > ENDINGS_LISTED { ", …" } else { "" };
        let _ = write!(text, ": {}{more}", listed.collect::<Vec<_>>().join(", "));
    }
    text
}

/// The reasons why files give no document, a line each.
fn rejected(plan: &SampledPlan) -> Vec<String> {
    let reasons = plan.rejected.reasons.iter();
    let of = |files: usize| if files == 1 { String::new() } else { format!(" (the first of {})", count(files)) };
    reasons.map(|it| format!("gives no document: {}{}: {}", visible_line(&it.path), of(it.files), it.reason)).collect()
}

/// The files that cannot be read now.
fn unread(plan: &SampledPlan) -> Vec<String> {
    let named = plan.unread.iter().take(UNREAD_NAMED);
    let line = |path: &str, reason: &str| format!("cannot be read now: {}: {reason}", visible_line(path));
    let mut lines: Vec<String> = named.map(|unread| line(&unread.path, &unread.reason)).collect();
    let more = plan.unread.len().saturating_sub(UNREAD_NAMED);
    if more > 0 {
        lines.push(format!("and {} more cannot be read now: --json lists them all", count(more)));
    }
    lines
}

/// The table of what the corpus holds.
fn corpus(plan: &SampledPlan) -> String {
    let mut rows = table(&["corpus", "estimate", "low to high"], 1);
    let mut add = |label: &str, [estimate, range]: [String; 2]| {
        rows.add_row(vec![left(wrap(label)), estimate.into(), range.into()]);
    };
    add("documents", number(&plan.documents));
    add("files without a document", number(&plan.rejected.files));
    add("bytes of text", number(&plan.text_bytes));
    add("tokens", number(&plan.tokens));
    for chunker in &plan.chunks {
        add(&format!("chunks of {}", chunker.chunker), number(&chunker.chunks));
    }
    add("time to parse all files", cells(&plan.parse_seconds, duration));
    rows.to_string()
}

/// The calls, what they should cost, and the budget; empty if no model is called.
fn cost(cost: &SampledCost) -> String {
    if cost.models.is_empty() {
        return String::new();
    }
    let mut rows = table(&["model", "amount", "estimate", "low to high"], 2);
    let mut add = |model: &str, amount: &str, [estimate, range]: [String; 2]| {
        rows.add_row(vec![left(wrap(model)), left(amount), estimate.into(), range.into()]);
    };
    let dollars = |usd: &Estimate<f64>| cells(usd, |usd| Cap::Usd.amount(usd));
    for model in &cost.models {
        add(&model.model, "calls", number(&model.calls));
        if !model.is_system {
            add("", "tokens read", number(&model.prompt_tokens));
            add("", "tokens written", number(&model.completion_tokens));
        }
        match model.cost_usd.filter(|_| !model.here) {
            Some(usd) => add("", "dollars", dollars(&usd)),
            None if model.here => add("", "dollars", ["none, it runs here".to_owned(), String::new()]),
            None => add("", "dollars", ["unknown, no `price`".to_owned(), String::new()]),
        }
    }
    if cost.models.len() > 1 {
        add("all models", "calls", number(&cost.calls));
        add("", "tokens", number(&cost.tokens));
        if let Some(usd) = &cost.cost_usd {
            add("", "dollars", dollars(usd));
        }
    }
    let mut text = format!(
        "\nmodel calls of a first run, a rough upper limit; 95 % intervals for what was not read of the corpus, empty \
         where nothing depends on it:\n{rows}"
    );
    if !cost.budget.is_empty() {
        let _ = write!(text, "\nthe budget is {}{}", cost.budget, end(&cost.exceeds, &cost.may_exceed));
    }
    if let Some(total) = &cost.total {
        let line = super::plan::total_left(total, end(&cost.exceeds_total, &cost.may_exceed_total));
        let _ = write!(text, "\n{line}");
    }
    text
}

/// Whether a run would end at a cap, as the end of a sentence about it.
fn end(exceeds: &[Cap], may_exceed: &[Cap]) -> &'static str {
    match (exceeds.is_empty(), may_exceed.is_empty()) {
        (false, _) => ": a run would end there, with partial results",
        (true, false) => ": a run may end there, with partial results",
        (true, true) => "",
    }
}

/// The cells of an estimate and of its interval, which is empty if there is no sampling error.
fn cells<T: Copy + PartialEq>(estimate: &Estimate<T>, words: impl Fn(T) -> String) -> [String; 2] {
    let range = || format!("{} to {}", words(estimate.low), words(estimate.high));
    [words(estimate.estimate), if estimate.is_exact() { String::new() } else { range() }]
}

/// The cells of a whole number.
fn number(estimate: &Estimate<u64>) -> [String; 2] {
    cells(estimate, |n| count(n as usize))
}

/// A label in lines that fit into the first column; a word that is too long keeps its length.
fn wrap(label: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in label.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= LABEL_CHARACTERS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.iter().map(|line| visible_line(line)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_label_is_cut_between_words() {
        assert_eq!(wrap("tokens"), "tokens");
        assert_eq!(
            wrap("chunks of sentence(chunk_size=64 chunk_overlap=0)"),
            "chunks of\nsentence(chunk_size=64\nchunk_overlap=0)"
        );
    }

    #[test]
    fn a_number_without_sampling_error_has_no_interval() {
        let estimate = |low, high| Estimate { estimate: 1_200, low, high };
        assert_eq!(number(&estimate(1_000, 1_500)), ["1,200", "1,000 to 1,500"]);
        assert_eq!(number(&estimate(1_200, 1_200)), ["1,200", ""]);
    }

    #[test]
    fn a_cap_is_only_said_to_end_a_run_if_the_low_end_exceeds_it() {
        assert_eq!(end(&[Cap::Usd], &[Cap::Calls]), ": a run would end there, with partial results");
        assert_eq!(end(&[], &[Cap::Calls]), ": a run may end there, with partial results");
        assert_eq!(end(&[], &[]), "");
    }
}
