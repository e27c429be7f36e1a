//! The progress of a run, per operator and per model: live tables for anyone
//! who draws them.

mod traffic;

pub use traffic::ModelTraffic;

use crate::{
    operator::Operator,
    plan::{Plan, TaskId},
};
use models::Client;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// The time over which the current rate is taken.
const WINDOW: Duration = Duration::from_secs(3);

/// How an operator is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperatorStatus {
    /// No task has started.
    Pending,
    /// Some tasks are running or waiting.
    Running,
    /// All tasks are done.
    Finished,
    /// All tasks are done or failed.
    Failed,
}

/// One row of the table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperatorProgress {
    /// The operator.
    pub operator: Operator,
    /// How it is doing.
    pub status: OperatorStatus,
    /// Rows made in this run.
    pub rows_done: usize,
    /// Rows among these that have no result, because a model or a function failed.
    pub rows_failed: usize,
    /// Rows that it will have made in the end: known, or estimated from the
    /// average of finished tasks.
    pub rows_estimated: Option<usize>,
    /// Tasks that are not started.
    pub queued: usize,
    /// Tasks that are running.
    pub active: usize,
    /// Tasks that ended in this run.
    pub finished: usize,
    /// Tasks that were in the store already.
    pub reused: usize,
    /// Tasks that failed, or could not run because another did.
    pub failed: usize,
    /// The other run that does a task for which this run waits.
    pub held_by: Option<String>,
    /// Rows per second over the last three seconds.
    pub rate_now: f64,
    /// Rows per second since its first task started.
    pub rate_average: f64,
    /// Seconds until its last row at the average rate; none if the operator waits, or if its last
    /// row is longer ago than that.
    pub seconds_left: Option<f64>,
    /// The operator before it whose outputs it waits for: none of its own tasks
    /// can run now.
    pub waits_for: Option<Operator>,
}

/// The seconds until the end of a run, if they can be estimated: those of the
/// operator at work that needs the most.
pub fn seconds_left(operators: &[OperatorProgress]) -> Option<f64> {
    operators.iter().filter_map(|operator| operator.seconds_left).reduce(f64::max)
}

#[derive(Debug, Default)]
struct ProgressState {
    queued: usize,
    active: usize,
    finished: usize,
    reused: usize,
    failed: usize,
    rows: usize,
    finished_rows: usize,
    failed_rows: usize,
    known_rows: Option<usize>,
    expected: ExpectedRows,
    held_by: Option<String>,
    started: Option<Instant>,
    last: Option<Instant>,
    samples: VecDeque<(Instant, usize)>,
    /// Rows that [`Progress::take_rows`] has not returned yet.
    unreported: usize,
    unreported_expected: ExpectedRows,
}

/// The rows that running tasks announced, and how many tasks announced them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExpectedRows {
    tasks: usize,
    rows: usize,
}

impl ExpectedRows {
    fn add(&mut self, more: Self) {
        self.tasks += more.tasks;
        self.rows += more.rows;
    }
}

/// The counts of a run; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    operators: Arc<Mutex<BTreeMap<Operator, ProgressState>>>,
    traffic: Arc<Mutex<traffic::TrafficCounts>>,
    elsewhere: Arc<Mutex<BTreeMap<u64, Vec<ModelTraffic>>>>,
    problems: Arc<Mutex<BTreeMap<String, String>>>,
    warnings: Arc<Mutex<Vec<String>>>,
}

impl Progress {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Operator, ProgressState>> {
        self.operators.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches the calls that go through this client.
    pub fn watch(&self, client: &Client) {
        *self.traffic.lock().unwrap_or_else(PoisonError::into_inner) = traffic::TrafficCounts::of(client.clone());
    }

    /// Records why a tracker is behind, or why a stage waits for a worker of a cluster; none once
    /// that is over.
    pub fn set_problem(&self, name: &str, reason: Option<String>) {
        let mut problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        match reason {
            Some(reason) => problems.insert(name.to_owned(), reason),
            None => problems.remove(name),
        };
    }

    /// Tells the person who watches of something that went wrong, once.
    pub fn warn(&self, text: String) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    /// What went wrong, in order.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The trackers that are behind, and the stages without a worker, and why.
    pub fn problems(&self) -> BTreeMap<String, String> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The traffic of the models that were called so far, by name. Rates are
    /// measured since the call of this function about three seconds ago.
    pub fn models(&self) -> Vec<ModelTraffic> {
        let here = self.traffic.lock().unwrap_or_else(PoisonError::into_inner).look(Instant::now());
        let elsewhere = self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner);
        traffic::sum(elsewhere.values().fold(here, |all, one| all.into_iter().chain(one.iter().cloned()).collect()))
    }

    /// The traffic of the models that a worker on another machine calls.
    pub(crate) fn set_remote_traffic(&self, worker: u64, models: Vec<ModelTraffic>) {
        let mut elsewhere = self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner);
        if models.is_empty() {
            elsewhere.remove(&worker);
        } else {
            elsewhere.insert(worker, models);
        }
    }

    /// The rows made since the last call of this function, for a driver's tables.
    pub(crate) fn take_rows(&self) -> BTreeMap<Operator, usize> {
        let take =
            |(operator, state): (&Operator, &mut ProgressState)| (*operator, std::mem::take(&mut state.unreported));
        self.lock().iter_mut().map(take).filter(|(_, rows)| *rows > 0).collect()
    }

    /// Starts the table anew: the tasks of `to_run` must run, those of `reused` are in the store.
    pub fn begin(&self, plan: &Plan, to_run: &[TaskId], reused: &[TaskId]) {
        let mut states = self.restart(to_run.iter().map(|&id| (plan.tasks[id].operator(), plan.tasks[id].rows)));
        for &id in reused {
            states.entry(plan.tasks[id].operator()).or_default().reused += 1;
        }
    }

    /// Starts the table anew for work without a plan: one task for each
    /// operator, with the rows that it will make.
    pub fn begin_tasks(&self, tasks: impl IntoIterator<Item = (Operator, usize)>) {
        drop(self.restart(tasks.into_iter().map(|(operator, rows)| (operator, Some(rows)))));
    }

    /// Starts the table anew with these tasks, and how many rows each will make, where that is known.
    fn restart(
        &self,
        tasks: impl Iterator<Item = (Operator, Option<usize>)>,
    ) -> MutexGuard<'_, BTreeMap<Operator, ProgressState>> {
        let mut states = self.lock();
        states.clear();
        for (operator, rows) in tasks {
            let new = || ProgressState { known_rows: Some(0), ..ProgressState::default() };
            let state = states.entry(operator).or_insert_with(new);
            state.queued += 1;
            state.known_rows = state.known_rows.zip(rows).map(|(sum, rows)| sum + rows);
        }
        states
    }

    /// A task starts.
    pub fn start(&self, operator: Operator) {
        let mut states = self.lock();
        let state = states.entry(operator).or_default();
        state.queued = state.queued.saturating_sub(1);
        state.active += 1;
        state.started.get_or_insert_with(Instant::now);
    }

    /// Rows were made by a running task.
    pub fn rows(&self, operator: Operator, rows: usize) {
        let now = Instant::now();
        let mut states = self.lock();
        let state = states.entry(operator).or_default();
        state.rows += rows;
        state.unreported += rows;
        state.last = Some(now);
        state.samples.push_back((now, rows));
        while state.samples.front().is_some_and(|(at, _)| now.duration_since(*at) > WINDOW) {
            state.samples.pop_front();
        }
    }

    /// A running task announces how many rows it will make, if the plan did not
    /// know.
    pub fn expect(&self, operator: Operator, rows: usize) {
        self.expect_all(operator, ExpectedRows { tasks: 1, rows });
    }

    /// Adds the announcements of several tasks.
    pub(crate) fn expect_all(&self, operator: Operator, more: ExpectedRows) {
        let mut states = self.lock();
        let state = states.entry(operator).or_default();
        state.expected.add(more);
        state.unreported_expected.add(more);
    }

    /// The announcements since the last call of this function, for a driver's
    /// tables.
    pub(crate) fn take_expected(&self) -> BTreeMap<Operator, ExpectedRows> {
        let take = |(operator, state): (&Operator, &mut ProgressState)| {
            (*operator, std::mem::take(&mut state.unreported_expected))
        };
        self.lock().iter_mut().map(take).filter(|(_, expected)| expected.tasks > 0).collect()
    }

    /// A running task waits for another run that does the same task, or no longer waits.
    pub fn set_holder(&self, operator: Operator, by: Option<String>) {
        self.lock().entry(operator).or_default().held_by = by;
    }

    /// Another run did a task that this run had started.
    pub(crate) fn share(&self, operator: Operator, rows: Option<usize>) {
        let mut states = self.lock();
        let state = states.entry(operator).or_default();
        state.active = state.active.saturating_sub(1);
        state.reused += 1;
        state.known_rows = state.known_rows.map(|known| known.saturating_sub(rows.unwrap_or_default()));
    }

    /// A task ended with this many rows, `failed` without a result.
    pub fn finish(&self, operator: Operator, rows: usize, failed: usize) {
        let mut states = self.lock();
        let state = states.entry(operator).or_default();
        state.active = state.active.saturating_sub(1);
        state.finished += 1;
        state.finished_rows += rows;
        state.failed_rows += failed;
        state.last = Some(Instant::now());
    }

    /// A task failed; `started` tells whether it had been running.
    pub fn fail(&self, operator: Operator, started: bool) {
        let mut states = self.lock();
        let state = states.entry(operator).or_default();
        if started {
            state.active = state.active.saturating_sub(1);
        } else {
            state.queued = state.queued.saturating_sub(1);
        }
        state.failed += 1;
    }

    /// A task that was not started is not needed any more.
    pub(crate) fn withdraw(&self, operator: Operator) {
        let mut states = self.lock();
        let state = states.entry(operator).or_default();
        state.queued = state.queued.saturating_sub(1);
        // The rows of all tasks are no longer those that will be made.
        state.known_rows = None;
    }

    /// The table as it is now, upstream first.
    pub fn snapshot(&self) -> Vec<OperatorProgress> {
        let now = Instant::now();
        let mut table: Vec<_> = self.lock().iter().map(|(&operator, state)| state.progress(operator, now)).collect();
        let mut working = None;
        for row in &mut table {
            if row.active > 0 {
                working = Some(row.operator);
            } else if row.queued > 0 && working.is_some() {
                (row.waits_for, row.seconds_left) = (working, None);
            }
        }
        table
    }
}

impl ProgressState {
    fn progress(&self, operator: Operator, now: Instant) -> OperatorProgress {
        let open = self.queued + self.active;
        let status = match (open, self.finished + self.reused, self.failed) {
            (0, _, 0) => OperatorStatus::Finished,
            (0, _, _) => OperatorStatus::Failed,
            (_, 0, 0) if self.active == 0 => OperatorStatus::Pending,
            _ => OperatorStatus::Running,
        };
        let total = self.finished + open;
        let rows_estimated = match (open, self.known_rows) {
            (0, _) => Some(self.rows),
            (_, Some(known)) => Some(known.max(self.rows)),
            _ if self.expected.tasks > 0 => {
                let (tasks, rows) = (self.expected.tasks, self.expected.rows);
                Some((rows * total.max(tasks) / tasks).max(self.rows))
            }
            _ if self.finished > 0 => Some((self.finished_rows * total / self.finished).max(self.rows)),
            _ => None,
        };
        let recent = self.samples.iter().filter(|(at, _)| now.duration_since(*at) <= WINDOW);
        let span = self.started.map_or(WINDOW, |at| now.duration_since(at).min(WINDOW)).as_secs_f64();
        let end = if open > 0 { now } else { self.last.unwrap_or(now) };
        let elapsed = self.started.map_or(0.0, |at| end.duration_since(at).as_secs_f64());
        let rate_average = rate(self.rows, elapsed);
        let left = rows_estimated.filter(|_| open > 0 && rate_average > 0.0).map(|rows| rows - self.rows);
        OperatorProgress {
            operator,
            status,
            rows_done: self.rows,
            rows_failed: self.failed_rows,
            rows_estimated,
            queued: self.queued,
            active: self.active,
            finished: self.finished,
            reused: self.reused,
            failed: self.failed,
            held_by: self.held_by.clone().filter(|_| self.active > 0),
            rate_now: if open > 0 { rate(recent.map(|(_, rows)| rows).sum(), span) } else { 0.0 },
            rate_average,
            seconds_left: left
                .map(|rows| rows as f64 / rate_average)
                .filter(|left| self.last.is_none_or(|last| now.duration_since(last).as_secs_f64() <= left.max(1.0))),
            waits_for: None,
        }
    }
}

fn rate(rows: usize, seconds: f64) -> f64 {
    if seconds > 0.0 { rows as f64 / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests;
