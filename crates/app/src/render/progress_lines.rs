//! Progress for places where a table cannot be redrawn: a log, a pipe, CI.
//! An operator gets a line when it begins, one every ten seconds while it runs, and
//! one when it ends. The time left is that of the whole run.

use super::{count, counted, duration};
use lab::{Operator, OperatorProgress, OperatorStatus};
use std::{
    collections::BTreeMap,
    fmt::Write,
    time::{Duration, Instant},
};

/// How long the first line of an operator waits for the number of its rows.
const FIRST_LINE_WAIT: Duration = Duration::from_secs(1);
/// How often a running operator gets a line.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// What was already written about each operator.
#[derive(Default)]
pub struct ProgressLines {
    reported: BTreeMap<Operator, ReportState>,
    /// The other run that an operator was reported to wait for.
    held: BTreeMap<Operator, String>,
}

#[derive(Clone, Copy)]
enum ReportState {
    /// Nothing yet. The operator was first seen running at this time.
    Nothing(Instant),
    /// That it began or continues, last reported at this time with this many rows.
    Going(Instant, usize),
    /// That it ended, with this many tasks.
    Ended(usize),
}

impl ProgressLines {
    /// The lines to write now; `seconds` is the duration of the run so far.
    pub fn next(&mut self, operators: &[OperatorProgress], seconds: f64, now: Instant) -> String {
        let (mut text, mut is_going) = (String::new(), false);
        for operator in operators {
            let name = operator.operator.name();
            let state = self.reported.get(&operator.operator).copied();
            let n_ended = operator.finished + operator.failed;
            let mut say = |line: String| _ = writeln!(text, "[{seconds:6.1}s] {name}: {line}");
            match &operator.held_by {
                Some(by) if self.held.get(&operator.operator) != Some(by) => {
                    say(format!("waits for {by}, which does the same work"));
                    self.held.insert(operator.operator, by.clone());
                }
                Some(_) => {}
                None => _ = self.held.remove(&operator.operator),
            }
            match (operator.status, state) {
                (OperatorStatus::Running, Some(ReportState::Going(at, _)))
                    if now.duration_since(at) < REPORT_INTERVAL => {}
                (OperatorStatus::Running, Some(ReportState::Going(at, rows))) => {
                    let new_rows = operator.rows_done.saturating_sub(rows);
                    say(describe_progress(operator, new_rows as f64 / now.duration_since(at).as_secs_f64()));
                    is_going = true;
                    self.reported.insert(operator.operator, ReportState::Going(now, operator.rows_done));
                }
                (OperatorStatus::Running, _) if operator.active > 0 => {
                    let since = if let Some(ReportState::Nothing(since)) = state { since } else { now };
                    let is_known = operator.rows_estimated.is_some() || now.duration_since(since) >= FIRST_LINE_WAIT;
                    if is_known {
                        say(describe_start(operator));
                    }
                    self.reported.insert(
                        operator.operator,
                        if is_known {
                            ReportState::Going(now, operator.rows_done)
                        } else {
                            ReportState::Nothing(since)
                        },
                    );
                }
                (OperatorStatus::Finished | OperatorStatus::Failed, state)
                    if n_ended > 0 && !matches!(state, Some(ReportState::Ended(n)) if n == n_ended) =>
                {
                    say(describe_end(operator));
                    self.reported.insert(operator.operator, ReportState::Ended(n_ended));
                }
                (OperatorStatus::Pending, _) => _ = self.reported.remove(&operator.operator),
                _ => {}
            }
        }
        if let Some(left) = lab::seconds_left(operators).filter(|_| is_going) {
            let _ = writeln!(text, "[{seconds:6.1}s] the run: about {} left", duration(left));
        }
        text
    }
}

/// The rows that are done, and their total if it is known.
fn amount(operator: &OperatorProgress) -> String {
    let done = count(operator.rows_done);
    match operator.rows_estimated {
        Some(all) if all > 0 => format!("{done} of {} rows", count(all)),
        _ => format!("{done} rows"),
    }
}

fn describe_start(operator: &OperatorProgress) -> String {
    let tasks = operator.queued + operator.active;
    let rows = operator.rows_estimated.filter(|rows| *rows > 0);
    let rows = rows.map_or_else(String::new, |rows| format!(", {} rows", count(rows)));
    let stored = if operator.reused > 0 { format!(", {} in the store", count(operator.reused)) } else { String::new() };
    format!("begins, {}{rows}{stored}", counted(tasks, "task"))
}

/// The state of an operator that had `rate` rows a second since its line before.
fn describe_progress(operator: &OperatorProgress, rate: f64) -> String {
    match operator.waits_for {
        Some(before) => format!("{}, waits for {}", amount(operator), before.name()),
        None => format!("{}, {rate:.1} rows/s{}", amount(operator), describe_wait(operator)),
    }
}

fn describe_end(operator: &OperatorProgress) -> String {
    let failed =
        if operator.failed > 0 { format!(", {} failed", counted(operator.failed, "task")) } else { String::new() };
    let word = if operator.failed > 0 { "ended" } else { "done" };
    let all = count(operator.rows_done);
    let rows = match operator.rows_failed {
        0 => format!("{all} rows"),
        missing => format!("{} of {all} rows", count(operator.rows_done.saturating_sub(missing))),
    };
    format!("{word}, {rows}, {:.1} rows/s{failed}", operator.rate_average)
}

/// The other run that an operator waits for; empty if there is none.
pub(super) fn describe_wait(operator: &OperatorProgress) -> String {
    operator.held_by.as_ref().map_or_else(String::new, |by| format!("; waits for {by}, which does the same work"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::Progress;

    #[test]
    fn an_operator_is_told_when_it_begins_every_ten_seconds_and_when_it_ends() {
        let progress = Progress::default();
        progress.begin_tasks([(Operator::EMBED, 2000), (Operator::Score, 3)]);
        let (mut lines, start) = (ProgressLines::default(), Instant::now());
        let mut at = |seconds: f64| lines.next(&progress.snapshot(), seconds, start + Duration::from_secs_f64(seconds));
        assert_eq!(at(0.0), "");
        progress.start(Operator::EMBED);
        assert_eq!(at(0.2), "[   0.2s] embed: begins, 1 task, 2,000 rows\n");
        progress.rows(Operator::EMBED, 500);
        assert_eq!(at(9.0), "");
        let told = at(10.3);
        assert!(told.starts_with("[  10.3s] embed: 500 of 2,000 rows, 49.5 rows/s\n"), "since its last line: {told}");
        assert!(told.contains("[  10.3s] the run: about ") && told.ends_with(" left\n"), "{told}");
        assert_eq!(at(12.0), "");
        progress.set_holder(Operator::EMBED, Some("another run (process 7 on here)".to_owned()));
        assert!(at(20.4).contains("waits for another run (process 7 on here)"));
        progress.set_holder(Operator::EMBED, None);
        progress.rows(Operator::EMBED, 1500);
        progress.finish(Operator::EMBED, 2000, 0);
        let told = at(21.0);
        assert!(told.starts_with("[  21.0s] embed: done, 2,000 rows, "), "{told}");
        assert_eq!(at(40.0), "", "what ended is told once");
        // A next step of a search.
        progress.begin_tasks([(Operator::EMBED, 10)]);
        assert_eq!(at(41.0), "");
        progress.start(Operator::EMBED);
        assert!(at(41.2).contains("embed: begins"));
        progress.fail(Operator::EMBED, true);
        assert!(at(41.4).contains("embed: ended, 0 rows, 0.0 rows/s, 1 task failed"));
        progress.begin_tasks([(Operator::GENERATE, 600)]);
        progress.start(Operator::GENERATE);
        progress.rows(Operator::GENERATE, 600);
        progress.finish(Operator::GENERATE, 600, 586);
        let told = at(42.0);
        assert!(told.contains("generate: done, 14 of 600 rows, "), "{told}");
    }
}
