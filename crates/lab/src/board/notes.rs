//! A leaderboard's remarks beside its table and its verdict: groups of trials,
//! what is missing or left out and why, what the run did and what it cost.

use super::{
    TrialStanding,
    approximation::approximations,
    losses::losses,
    note::{About, Note},
    turns::turns,
};
use crate::{
    budget::BudgetResult,
    number::{count, counted, size},
    plan::trial::is_system,
    results::{CutShare, JudgeResult, NotEnriched, Results, TrialResult, counts_money, cut_share},
    search::{SearchResult, StopKind},
};
use eval::{Missing, Score, dataset::Split, qualify::Qualification, statistics::Interval};
use models::{Cap, Spending, SpentTotals, TotalSpending, TotalSpent};
use std::fmt::Write;

/// How much was read, asked and tried.
pub(super) fn corpus(results: &Results) -> String {
    let mut text = format!(
        "{} ({} of text), {}, {}",
        counted(results.documents, "document"),
        size(results.text_bytes),
        counted(results.questions.len(), "question"),
        counted(results.trials.len(), "trial")
    );
    if !results.rejected.is_empty() {
        let _ = write!(text, ", not read: {}", count(results.rejected.len()));
    }
    text
}

/// How many tasks this run executed, and how many it took from the store.
pub(super) fn work(results: &Results) -> String {
    let mut text =
        format!("{} tasks executed, {} taken from the store", count(results.executed), count(results.reused));
    if results.repeated > 0 {
        let _ = write!(text, ", {} repeated because a worker died", count(results.repeated));
    }
    text
}

/// All remarks, in order.
pub(super) fn notes(results: &Results, groups: &[Vec<String>], front: &[String]) -> Vec<Note> {
    let mut notes = Vec::new();
    choice(&mut notes, results, groups, front);
    notes.extend(turns(results));
    notes.extend(losses(results));
    notes.extend(approximations(results));
    if results.metrics.iter().any(|metric| metric.judged) {
        notes.extend(results.judges.iter().map(judge));
    }
    missing(&mut notes, results);
    notes.push(note(About::Work, work(results)));
    notes.extend(results.spending.iter().map(|(model, spending)| spent(model, spending)));
    notes.extend(results.budget.as_ref().map(budget).unwrap_or_default());
    if results.damaged_entries > 0 {
        let damaged = count(results.damaged_entries as usize);
        let text = format!("{damaged} answers in the journal were damaged and were asked for again");
        notes.push(note(About::Journal, text));
    }
    notes
}

fn note(about: About, text: String) -> Note {
    Note { about, subject: None, text }
}

/// Remarks on the choice of the winner.
fn choice(notes: &mut Vec<Note>, results: &Results, groups: &[Vec<String>], front: &[String]) {
    if let Some(id) = results.winner.first() {
        notes.extend(gap(results, id).map(|text| note(About::Gap, text)));
    }
    if !groups.is_empty() {
        let groups: Vec<String> = groups.iter().map(|group| group.join(" = ")).collect();
        notes.push(note(About::Groups, format!("groups, each better than the next: {}", groups.join("  >  "))));
    }
    if !front.is_empty() {
        let text = format!("none beats {} on quality, cost and latency together", front.join(", "));
        notes.push(note(About::Front, text));
    }
    notes.extend(results.search.as_ref().map(|search| note(About::Search, search_text(search))));
    let done = results.acts.iter().filter(|act| !act.refused);
    notes.extend(done.map(|act| note(About::Steering, act.to_string())));
}

/// How much better the winner looks on the questions that chose it than on
/// those that did not.
fn gap(results: &Results, winner: &str) -> Option<String> {
    let trial = results.trials.iter().find(|trial| trial.trial.id == winner)?;
    let (chosen, reported) = (trial.objective.as_ref()?.mean?, trial.test.as_ref()?.mean?);
    let of_test = results.questions.iter().filter(|question| question.split == Some(Split::Test)).count();
    Some(format!(
        "chosen on {} questions: {chosen:.3}; on the {of_test} held-out questions: {reported:.3}, a gap of {:+.3}",
        results.questions.len() - of_test,
        chosen - reported
    ))
}

/// What a search asked for, and how trials were stopped.
fn search_text(search: &SearchResult) -> String {
    let stopped = |kind: StopKind| search.stops.values().filter(|stop| stop.kind == kind).count();
    let share = 100.0 * search.answers as f64 / search.all_answers.max(1) as f64;
    let mut text = format!(
        "search by {}: {} of {} answers asked for ({share:.0} %)",
        search.strategy,
        count(search.answers),
        count(search.all_answers)
    );
    let (eliminated, out_of_calls) = (TrialStanding::Eliminated.mark(), TrialStanding::OutOfCalls.mark());
    for (kind, what) in [
        (StopKind::Eliminated, format!("{eliminated} eliminated, another one is better")),
        (StopKind::OutOfCalls, format!("{out_of_calls} out of calls, not shown to be worse")),
        (StopKind::NotTried, "never tried".to_owned()),
    ] {
        if stopped(kind) > 0 {
            let _ = write!(text, "; {} {what}", stopped(kind));
        }
    }
    text
}

/// How a judge did on labelled cases.
fn judge(judge: &JudgeResult) -> Note {
    let (about, text) = match &judge.record {
        None => (About::UntriedJudge, format!("judged by {}, never tried on labelled cases", judge.judge)),
        Some(record) => {
            let kinds: Vec<String> = record.kinds.iter().map(qualification_text).collect();
            (About::Judge, format!("judged by {}: {}", judge.judge, kinds.join("; ")))
        }
    };
    Note { about, subject: Some(judge.judge.clone()), text }
}

fn qualification_text(found: &Qualification) -> String {
    let number = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.2}"));
    let interval = |value: Option<Interval>| {
        value.map_or_else(String::new, |value| format!(" [{:.2}, {:.2}]", value.low, value.high))
    };
    format!(
        "{} {} (balanced accuracy {}{}, AUC {})",
        found.kind.name(),
        if found.qualified { "qualified" } else { "NOT qualified" },
        number(found.balanced_accuracy),
        interval(found.accuracy_interval),
        number(found.auc)
    )
}

/// What failed, is missing or was left out.
fn missing(notes: &mut Vec<Note>, results: &Results) {
    for trial in &results.trials {
        let id = &trial.trial.id;
        notes.extend(trial.failures.iter().map(|failure| Note {
            about: About::Failure,
            subject: Some(id.clone()),
            text: format!("{id}: {failure}"),
        }));
    }
    notes.extend(fallbacks(results));
    notes.extend(not_enriched(results));
    // Runs of this version have the warning `long-texts` instead, unless it is ignored.
    if results.looked_for.is_none() {
        notes.extend(cut_texts(results));
    }
    notes.extend(unknown_prices(results));
    notes.extend(unpriced(results));
    let unpaid = count_unpaid(results);
    if unpaid > 0 {
        let text = format!("{} scores were not asked for, because of the budget: run again to go on", count(unpaid));
        notes.push(note(About::Missing, text));
    }
    if results.provider_errors > 0 && !(results.partial.is_some() && unpaid > 0) {
        let reason = match results.partial {
            Some(_) => "because the budget was reached or a model failed",
            None => "because a model failed",
        };
        let missing = results.provider_errors;
        let text = format!("{missing} answers or verdicts are missing {reason}: run again to ask for them");
        notes.push(note(About::Missing, text));
    }
    notes.extend(results.unread.iter().map(|unread| Note {
        about: About::Unread,
        subject: Some(unread.path.clone()),
        text: format!(
            "{} could not be read, so these results are without it: {}; run again",
            unread.path, unread.reason
        ),
    }));
    if !results.left_out.is_empty() {
        let were = if results.left_out.len() == 1 { "was" } else { "were" };
        let text = format!("{} {were} left out because of unread files", counted(results.left_out.len(), "question"));
        notes.push(note(About::LeftOut, text));
    }
    if results.function_errors > 0 {
        let missing = count(results.function_errors);
        let text = format!("{missing} stages, answers or scores are missing because a function of your own failed");
        notes.push(note(About::Functions, text));
    }
}

/// Scores that are missing because the budget was reached before their call.
fn count_unpaid(results: &Results) -> usize {
    let questions = results.trials.iter().flat_map(|trial| &trial.questions);
    let scores = questions.flat_map(|question| question.scores.values());
    scores.filter(|scored| matches!(scored.score, Score::Missing(Missing::Budget(_)))).count()
}

/// The texts of notes on trials, each once, with the trials that share it.
fn group_by_text<'a>(
    results: &'a Results,
    texts: impl Fn(&'a TrialResult) -> Vec<String>,
) -> impl Iterator<Item = (String, Vec<&'a str>)> {
    let mut trials_by_text: Vec<(String, Vec<&str>)> = Vec::new();
    for found in &results.trials {
        for text in texts(found) {
            match trials_by_text.iter_mut().find(|(other, _)| *other == text) {
                Some((_, trials)) => trials.push(&found.trial.id),
                None => trials_by_text.push((text, vec![&found.trial.id])),
            }
        }
    }
    trials_by_text.into_iter()
}

/// A note about queries or chunks of some trials.
fn of_trials((text, trials): (String, Vec<&str>)) -> Note {
    Note {
        about: About::Queries,
        subject: trials.first().filter(|_| trials.len() == 1).map(|&id| id.to_owned()),
        text: format!("{}: {text}", trials.join(", ")),
    }
}

/// Notes on chunks for which an `enrich` component wrote nothing usable.
fn not_enriched(results: &Results) -> impl Iterator<Item = Note> {
    let text = |found: &TrialResult| {
        let NotEnriched { chunks, total, reason } = found.not_enriched.as_ref()?;
        let (n, all, name) = (count(*chunks), count(*total), found.trial.pipeline()?.enrich.name());
        Some(format!("{name} wrote nothing usable for {n} of {all} chunks, most often because: {reason}"))
    };
    group_by_text(results, move |found| Vec::from_iter(text(found))).map(of_trials)
}

/// Notes on models that read only the beginning of some texts.
fn cut_texts(results: &Results) -> impl Iterator<Item = Note> {
    let texts = |found: &TrialResult| {
        let index = found.usage.index.models().map(|(_, used)| (used, "chunks", ", or set `long_texts` of the model"));
        // Among these models are rerankers, which have no such setting.
        let questions = found.usage.questions.models().map(|(_, used)| (used, "texts", ""));
        let note = |(used, texts, setting)| {
            let cut = cut_text(&cut_share(used)?, texts);
            Some(format!("{cut}: use smaller chunks, or a model that reads more{setting}"))
        };
        index.chain(questions).filter_map(note).collect()
    };
    group_by_text(results, texts).map(of_trials)
}

/// A sentence on what a model did not read. `texts` is the plural noun for its texts, such as
/// "chunks".
fn cut_text(share: &CutShare, texts: &str) -> String {
    let number = |n: u64| count(usize::try_from(n).unwrap_or(usize::MAX));
    let (model, cut) = (&share.model, number(share.cut_texts));
    let limit = share.max_tokens.map_or_else(|| "its limit".to_owned(), |limit| format!("{} tokens", number(limit)));
    let of = share.texts.map_or_else(String::new, |all| format!(" of {}", number(all)));
    let mut text = format!("{model} read only the beginning of {cut}{of} {texts}, which are longer than {limit}");
    let _ = match share.lost.map(|lost| (100.0 * lost).round()) {
        None => Ok(()),
        Some(0.0) => write!(text, ", and less than 1 % of all their text was not read"),
        Some(percent) => write!(text, ", and {percent:.0} % of all their text was not read"),
    };
    text
}

/// Notes on operators whose calls are unknown.
fn unknown_prices(results: &Results) -> impl Iterator<Item = Note> {
    let text = |found: &TrialResult| {
        if found.replies.is_some() && !found.usage.unknown.is_empty() {
            let cost = if found.cost_usd.is_none() { " and the cost" } else { "" };
            return vec![format!("the tokens{cost} are unknown: replies do not state them")];
        }
        // Models of this process cost nothing, whatever their calls were.
        let cost = match found.cost_usd.and(found.index_cost_usd) {
            Some(_) => "",
            None => ", and the cost is unknown",
        };
        let operators = found.usage.unknown.join(", ");
        let text =
            format!("tokens and seconds lack the calls of {operators}, whose outputs an earlier version made{cost}");
        if operators.is_empty() { Vec::new() } else { vec![text] }
    };
    group_by_text(results, text).map(|(text, trials)| note(About::Price, format!("{}: {text}", trials.join(", "))))
}

/// One note for each model without a price, where other costs are known: nothing
/// is compared by money if no trial has a cost.
fn unpriced(results: &Results) -> Vec<Note> {
    if !counts_money(&results.trials) {
        return Vec::new();
    }
    let note = |(model, trials): (String, Vec<&str>)| {
        let section = if is_system(&model) { model.clone() } else { format!("models.{model}") };
        let text = format!(
            "{}: the cost is unknown and counts as the highest, because `{model}` has no price: give its `price` \
             under [{section}], 0 where it is free",
            trials.join(", ")
        );
        Note { about: About::Price, text, subject: Some(model) }
    };
    group_by_text(results, |found| found.usage.unpriced.clone()).map(note).collect()
}

/// Notes on questions for which queries were not written as intended.
fn fallbacks(results: &Results) -> impl Iterator<Item = Note> {
    let text = |found: &TrialResult| {
        let reasons: Vec<&str> =
            found.questions.iter().filter_map(|question| question.query_fallback.as_deref()).collect();
        let times = |reason: &str| reasons.iter().filter(|other| **other == reason).count();
        // Of equally frequent reasons, the first.
        let most = reasons.iter().rev().max_by_key(|reason| times(reason))?;
        let (n, all, often) = (count(reasons.len()), count(found.questions.len()), times(most));
        let why = if often == reasons.len() { (*most).to_owned() } else { format!("{most} ({} times)", count(often)) };
        let name = found.trial.pipeline()?.query.name();
        Some(format!("{name} fell back for {n} of {all} questions, most often because: {why}"))
    };
    group_by_text(results, move |found| Vec::from_iter(text(found))).map(of_trials)
}

/// What calls to a model took.
fn spent(model: &str, spending: &Spending) -> Note {
    let mut text = format!(
        "{model}: {} calls, {} from the journal, {} tokens read ({} from a shared prefix), {} written",
        count(spending.calls as usize),
        count(spending.from_journal as usize),
        count(spending.prompt_tokens as usize),
        count(spending.cached_tokens as usize),
        count(spending.completion_tokens as usize),
    );
    if spending.cost_usd > 0.0 {
        let _ = write!(text, ", ${:.4}", spending.cost_usd);
    }
    if spending.refused > 0 {
        let _ = write!(text, ", {} refused by the provider and made again", count(spending.refused as usize));
    }
    Note { about: About::Spending, subject: Some(model.to_owned()), text }
}

fn budget(budget: &BudgetResult) -> Vec<Note> {
    let SpentTotals { usd, tokens, calls, minutes, .. } = budget.spent;
    let amounts = [(Cap::Usd, usd), (Cap::Tokens, tokens as f64), (Cap::Calls, calls as f64), (Cap::Minutes, minutes)];
    let spent = amounts.map(|(cap, amount)| cap.amount(amount)).join(", ");
    let of_run = (!budget.caps.is_empty()).then(|| format!("of the budget of {}, this run used {spent}", budget.caps));
    let of_total = budget.total.map(|TotalSpending { caps, earlier, here, .. }| {
        let [earlier, here] = [earlier, here].map(|TotalSpent { usd, tokens, calls }| {
            let amounts = [(Cap::Usd, usd), (Cap::Tokens, tokens as f64), (Cap::Calls, calls as f64)];
            amounts.map(|(cap, amount)| cap.amount(amount)).join(", ")
        });
        format!("of the total budget of {caps} for all starts, this run used {here}, and other starts {earlier}")
    });
    of_run.into_iter().chain(of_total).map(|text| note(About::Budget, text)).collect()
}

#[cfg(test)]
mod tests;
