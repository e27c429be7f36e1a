//! The leaderboard for people.

use super::{aligned, count, table};
use eval::{dataset::Split, statistics::Summary};
use lab::{
    MetricResult, Results, TrialResult, Winner,
    search::{SearchResult, StopKind},
};
use models::{Cap, Spent};
use std::fmt::Write;

const AXES: [&str; 5] = ["chunker", "embedder", "retriever", "reranker", "generator"];

/// All trials, best first, with intervals and what is tied.
pub fn leaderboard(results: &Results) -> String {
    let mut text = format!(
        "{}: {} documents ({:.2} MB of text), {} questions, {} trials",
        results.experiment,
        count(results.documents),
        results.text_bytes as f64 / 1e6,
        results.questions.len(),
        results.trials.len()
    );
    if !results.rejected.is_empty() {
        let _ = write!(text, ", not read: {}", count(results.rejected.len()));
    }
    if let Some(partial) = &results.partial {
        let _ = write!(text, "\nPARTIAL: {partial} (--budget-usd, or `budget` under [evaluate])");
    }
    if results.questions.is_empty() {
        let ids: Vec<&str> = results.trials.iter().map(|trial| trial.trial.id.as_str()).collect();
        let _ = write!(
            text,
            "\neverything is indexed by {}; without golden questions there is nothing to score\nask: reverie query \"…\" --trial {}",
            ids.join(", "),
            ids.first().copied().unwrap_or("t01")
        );
        return text;
    }
    // An axis with one value tells nothing.
    let axes: Vec<&str> = AXES
        .into_iter()
        .filter(|axis| {
            results.trials.windows(2).any(|pair| pair[0].trial.labels.get(*axis) != pair[1].trial.labels.get(*axis))
        })
        .collect();
    let mut header = vec!["", "trial"];
    header.extend(&axes);
    // Words below each other keep the table narrow enough for a terminal.
    let name = |metric: &MetricResult| metric.name.replace('_', "\n") + if metric.judged { "*" } else { "" };
    let names: Vec<String> = results.metrics.iter().map(name).collect();
    if !results.objective.is_empty() {
        header.push("objective [95 %]");
    }
    let split = results.trials.iter().any(|trial| trial.test.is_some());
    if split {
        header.push("on test\nquestions");
    }
    header.extend(names.iter().map(String::as_str));
    let answers = results.trials.iter().any(|trial| trial.latency_p50.is_some());
    let paid = results.trials.iter().any(|trial| trial.cost_usd > 0.0);
    if answers {
        header.extend(["s p50", "s p95", "tokens"]);
    }
    if paid {
        header.push("$");
    }
    let mut rows = table(&header, axes.len() + 2);
    let separated = results.trials.iter().any(|trial| trial.group.is_some_and(|group| group > 1));
    for trial in &results.trials {
        let mark = match results.winner.trial() {
            // A star only where something is worse.
            Some(winner) if winner == trial.trial.id && separated => "★",
            Some(winner) if winner == trial.trial.id || trial.tied => "=",
            _ if trial.stopped.as_ref().is_some_and(|stop| stop.kind == StopKind::Eliminated) => "×",
            _ if trial.stopped.is_some() => "…",
            _ => "",
        };
        let mut row = vec![aligned(mark, false), aligned(&trial.trial.id, false)];
        row.extend(axes.iter().map(|axis| aligned(trial.trial.labels.get(*axis).map_or("", String::as_str), false)));
        if !results.objective.is_empty() {
            row.push(aligned(trial.objective.as_ref().map_or_else(|| "–".to_owned(), interval), true));
        }
        if split {
            row.push(aligned(trial.test.as_ref().map_or_else(|| "–".to_owned(), interval), true));
        }
        row.extend(
            results
                .metrics
                .iter()
                .map(|metric| aligned(trial.metrics.get(&metric.name).map_or_else(String::new, value), true)),
        );
        if answers {
            let seconds = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.2}"));
            row.push(aligned(seconds(trial.latency_p50), true));
            row.push(aligned(seconds(trial.latency_p95), true));
            row.push(aligned(trial.tokens.map_or_else(|| "–".to_owned(), |tokens| format!("{tokens:.0}")), true));
        }
        if paid {
            row.push(aligned(format!("{:.4}", trial.cost_usd), true));
        }
        rows.add_row(row);
    }
    let _ = write!(text, "\n{rows}");
    for sentence in &results.verdict {
        let _ = write!(text, "\n{sentence}");
    }
    if let Winner::Trial(id) = &results.winner {
        if let Some(gap) = gap(results, id) {
            let _ = write!(text, "\n{gap}");
        }
        if let Some(groups) = groups(results) {
            let _ = write!(text, "\n{groups}");
        }
        let front: Vec<&str> =
            results.trials.iter().filter(|trial| trial.front).map(|trial| trial.trial.id.as_str()).collect();
        if front.len() > 1 {
            let _ = write!(text, "\nnone beats {} on quality, cost and latency together", front.join(", "));
        }
    }
    if let Some(search) = &results.search {
        let _ = write!(text, "\n{}", searched(search));
    }
    if results.metrics.iter().any(|metric| metric.judged) {
        let _ = write!(text, "\n{}", super::judges(&results.judges));
    }
    let failures: Vec<String> = results
        .trials
        .iter()
        .flat_map(|trial| trial.failures.iter().map(|failure| format!("{}: {failure}", trial.trial.id)))
        .collect();
    if !failures.is_empty() {
        let _ = write!(text, "\nfailed:\n  {}", failures.join("\n  "));
    }
    if results.provider_errors > 0 {
        let reason = match results.partial {
            Some(_) => "because the budget was reached or a model failed",
            None => "because a model failed",
        };
        let missing = results.provider_errors;
        let _ = write!(text, "\n{missing} answers or verdicts are missing {reason}: run again to ask for them");
    }
    for unread in &results.unread {
        let path = super::visible_line(&unread.path);
        let _ = write!(text, "\n{path} could not be read, so all of this is without it: {}; run again", unread.reason);
    }
    if !results.left_out.is_empty() {
        let _ = write!(text, "\n{} questions were left out for that", count(results.left_out.len()));
    }
    if results.function_errors > 0 {
        let missing = count(results.function_errors);
        let _ = write!(text, "\n{missing} stages, answers or scores are missing because a function of your own failed");
    }
    let _ =
        write!(text, "\n{} tasks executed, {} taken from the store", count(results.executed), count(results.reused));
    if results.repeated > 0 {
        let _ = write!(text, ", {} repeated because a worker died", count(results.repeated));
    }
    for (model, spending) in &results.spending {
        let _ = write!(
            text,
            "\n{model}: {} calls, {} from the journal, {} tokens read ({} from a shared prefix), {} written",
            count(spending.calls as usize),
            count(spending.from_journal as usize),
            count(spending.prompt_tokens as usize),
            count(spending.cached_tokens as usize),
            count(spending.completion_tokens as usize),
        );
        if spending.cost_usd > 0.0 {
            let _ = write!(text, ", $ {:.4}", spending.cost_usd);
        }
        if spending.refused > 0 {
            let _ = write!(text, ", {} refused by the provider and made again", count(spending.refused as usize));
        }
    }
    if let Some(budget) = &results.budget {
        let Spent { usd, tokens, calls, minutes, .. } = budget.spent;
        let amounts =
            [(Cap::Usd, usd), (Cap::Tokens, tokens as f64), (Cap::Calls, calls as f64), (Cap::Minutes, minutes)];
        let spent = amounts.map(|(cap, amount)| cap.amount(amount)).join(", ");
        let _ = write!(text, "\nof the budget of {}, this run used {spent}", budget.caps);
    }
    if results.damaged_entries > 0 {
        let _ = write!(
            text,
            "\n{} answers in the journal were damaged and were asked for again: see `reverie journal verify`",
            count(results.damaged_entries as usize)
        );
    }
    text
}

/// How much better the winner looks on the questions that chose it than on
/// those that did not.
fn gap(results: &Results, winner: &str) -> Option<String> {
    let trial = results.trials.iter().find(|trial| trial.trial.id == winner)?;
    let (tune, test) = (trial.objective.as_ref()?, trial.test.as_ref()?);
    let (chosen, reported) = (tune.mean?, test.mean?);
    Some(format!(
        "chosen on {} questions: {chosen:.3}; on the {} that nothing was chosen by: {reported:.3}, a gap of {:+.3}",
        results.questions.iter().filter(|question| question.split != Some(Split::Test)).count(),
        results.questions.iter().filter(|question| question.split == Some(Split::Test)).count(),
        chosen - reported
    ))
}

/// Trials that cannot be told apart, where there are several such groups.
fn groups(results: &Results) -> Option<String> {
    let most = results.trials.iter().filter_map(|trial| trial.group).max()?;
    if most < 2 || most == results.trials.len() {
        return None;
    }
    let of = |group: usize| {
        let members = results.trials.iter().filter(|trial| trial.group == Some(group));
        members.map(|trial| trial.trial.id.as_str()).collect::<Vec<_>>().join(" = ")
    };
    Some(format!("groups, each better than the next: {}", (1..=most).map(of).collect::<Vec<_>>().join("  >  ")))
}

/// What a search asked for, and how trials were stopped.
fn searched(search: &SearchResult) -> String {
    let of = |kind: StopKind| search.stops.values().filter(|stop| stop.kind == kind).count();
    let share = 100.0 * search.answers as f64 / search.all_answers.max(1) as f64;
    let mut text = format!(
        "search by {}: {} of {} answers asked for ({share:.0} %)",
        search.strategy,
        count(search.answers),
        count(search.all_answers)
    );
    for (kind, what) in [
        (StopKind::Eliminated, "× eliminated, another one is better"),
        (StopKind::OutOfCalls, "… out of calls, not shown to be worse"),
        (StopKind::NotTried, "never tried"),
    ] {
        if of(kind) > 0 {
            let _ = write!(text, "; {} {what}", of(kind));
        }
    }
    text + ". Why, for each: reverie leaderboard --json | jq .search.stops"
}

fn interval(summary: &Summary) -> String {
    match (summary.mean, summary.low, summary.high) {
        (Some(mean), Some(low), Some(high)) => format!("{mean:.3} [{low:.3}, {high:.3}]"),
        (Some(mean), _, _) => format!("{mean:.3}"),
        _ => "–".to_owned(),
    }
}

/// The mean, and n scored of n total where some are missing.
fn value(summary: &Summary) -> String {
    match summary.mean {
        Some(mean) if summary.n_failed == 0 => format!("{mean:.3}"),
        Some(mean) => format!("{mean:.3} ({}/{})", summary.n_scored, summary.n_total),
        None => format!("– (0/{})", summary.n_total),
    }
}

/// One trial, a line per question.
pub fn trial(results: &Results, trial: &TrialResult) -> String {
    let labels: Vec<String> = trial.trial.labels.iter().map(|(axis, label)| format!("{axis} {label}")).collect();
    let mut header = vec!["question"];
    header.extend(results.metrics.iter().map(|metric| metric.name.as_str()));
    let mut rows = table(&header, 1);
    for result in &trial.questions {
        let mut row = vec![aligned(&result.question, false)];
        row.extend(results.metrics.iter().map(|metric| {
            let score = result.scores.get(&metric.name).and_then(|scored| scored.score.value());
            aligned(score.map_or_else(|| "–".to_owned(), |value| format!("{value:.3}")), true)
        }));
        rows.add_row(row);
    }
    let mut text = format!("{}: {}\n{rows}", trial.trial.id, labels.join(", "));
    let _ = write!(text, "\none question in full: reverie show {} QUESTION", trial.trial.id);
    text
}
