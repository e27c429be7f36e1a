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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize)]
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
    behind: Arc<Mutex<BTreeMap<String, String>>>,
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

    /// Records that a tracker is behind, and why, or that it no longer is.
    pub fn set_behind(&self, tracker: &str, reason: Option<String>) {
        let mut behind = self.behind.lock().unwrap_or_else(PoisonError::into_inner);
        match reason {
            Some(reason) => behind.insert(tracker.to_owned(), reason),
            None => behind.remove(tracker),
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

    /// The trackers that are behind, and why.
    pub fn trackers_behind(&self) -> BTreeMap<String, String> {
        self.behind.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
mod tests {
    use super::*;

    fn table(progress: &Progress) -> OperatorProgress {
        progress.snapshot().remove(0)
    }

    #[test]
    fn rows_that_a_running_task_tells_are_the_estimate_from_its_first_second() {
        let progress = Progress::default();
        progress.begin_tasks([(Operator::EMBED, 0), (Operator::EMBED, 0)]);
        progress.lock().get_mut(&Operator::EMBED).unwrap().known_rows = None;
        assert_eq!(table(&progress).rows_estimated, None);
        progress.start(Operator::EMBED);
        progress.expect(Operator::EMBED, 300);
        assert_eq!((table(&progress).rows_done, table(&progress).rows_estimated), (0, Some(600)));
        progress.rows(Operator::EMBED, 300);
        progress.finish(Operator::EMBED, 300, 0);
        progress.start(Operator::EMBED);
        progress.expect(Operator::EMBED, 100);
        assert_eq!((table(&progress).rows_done, table(&progress).rows_estimated), (300, Some(400)));
        let told = progress.take_expected();
        assert_eq!(told[&Operator::EMBED], ExpectedRows { tasks: 2, rows: 400 });
        assert!(progress.take_expected().is_empty());
    }

    #[test]
    fn an_operator_without_a_running_task_waits_for_the_one_before_it_and_has_no_time_left() {
        let progress = Progress::default();
        progress.begin_tasks([(Operator::EMBED, 100), (Operator::Index, 50), (Operator::Index, 100)]);
        assert_eq!(progress.snapshot()[1].waits_for, None, "nothing is at work");
        progress.start(Operator::Index);
        progress.rows(Operator::Index, 50);
        progress.finish(Operator::Index, 50, 0);
        progress.start(Operator::EMBED);
        progress.rows(Operator::EMBED, 10);
        let table = progress.snapshot();
        let [embed, index] = &table[..] else { unreachable!() };
        assert_eq!((embed.waits_for, index.waits_for), (None, Some(Operator::EMBED)));
        assert_eq!(index.seconds_left, None);
        assert!(embed.seconds_left.is_some());
        assert_eq!(seconds_left(&table), embed.seconds_left, "that of the run");
    }

    #[test]
    fn rows_that_do_not_come_have_no_estimate() {
        let progress = Progress::default();
        progress.begin_tasks([(Operator::Score, 90)]);
        progress.start(Operator::Score);
        progress.rows(Operator::Score, 87);
        let begin = Instant::now().checked_sub(Duration::from_secs(30)).unwrap();
        let at = |last: u64| {
            let mut states = progress.lock();
            let state = states.get_mut(&Operator::Score).unwrap();
            (state.started, state.last) = (Some(begin), Some(begin + Duration::from_secs(last)));
        };
        at(30);
        assert!(table(&progress).seconds_left.is_some());
        at(10);
        assert_eq!(table(&progress).seconds_left, None, "the last three are slow");
    }

    #[test]
    fn what_another_run_does_is_told_and_then_counts_as_stored() {
        let progress = Progress::default();
        progress.begin_tasks([(Operator::Load, 5), (Operator::Load, 7)]);
        progress.start(Operator::Load);
        progress.set_holder(Operator::Load, Some("another run".to_owned()));
        assert_eq!(table(&progress).held_by.as_deref(), Some("another run"));
        progress.set_holder(Operator::Load, None);
        progress.share(Operator::Load, Some(5));
        let seen = table(&progress);
        assert_eq!((seen.held_by, seen.reused, seen.queued, seen.rows_estimated), (None, 1, 1, Some(7)));
    }

    /// The row of a table with these calls.
    fn row(calls: impl FnOnce(&Progress)) -> OperatorProgress {
        let progress = Progress::default();
        calls(&progress);
        table(&progress)
    }

    const LOAD: Operator = Operator::Load;

    #[test]
    fn an_operator_is_at_work_from_its_first_task_to_its_last() {
        use OperatorStatus::{Failed, Finished, Pending, Running};
        type Calls = fn(&Progress);
        // Each begins with two tasks.
        let table: [(&str, Calls, OperatorStatus); 9] = [
            ("nothing has started", |_| {}, Pending),
            ("one runs", |it| it.start(LOAD), Running),
            (
                "one is done",
                |it| {
                    it.start(LOAD);
                    it.finish(LOAD, 5, 0);
                },
                Running,
            ),
            (
                "one is done by another run",
                |it| {
                    it.start(LOAD);
                    it.share(LOAD, Some(5));
                },
                Running,
            ),
            ("one could not run", |it| it.fail(LOAD, false), Running),
            (
                "both are done",
                |it| {
                    for _ in 0..2 {
                        it.start(LOAD);
                        it.finish(LOAD, 5, 0);
                    }
                },
                Finished,
            ),
            (
                "both are done, with rows that have no result",
                |it| {
                    for _ in 0..2 {
                        it.start(LOAD);
                        it.finish(LOAD, 5, 5);
                    }
                },
                Finished,
            ),
            (
                "one is done and one failed",
                |it| {
                    it.start(LOAD);
                    it.start(LOAD);
                    it.finish(LOAD, 5, 0);
                    it.fail(LOAD, true);
                },
                Failed,
            ),
            (
                "none could run",
                |it| {
                    it.fail(LOAD, false);
                    it.fail(LOAD, false);
                },
                Failed,
            ),
        ];
        for (case, calls, expected) in table {
            let row = row(|progress| {
                progress.begin_tasks([(LOAD, 5), (LOAD, 7)]);
                calls(progress);
            });
            assert_eq!(row.status, expected, "{case}");
            let all = row.queued + row.active + row.finished + row.failed + row.reused;
            assert_eq!(all, 2, "{case}: no task is lost or counted twice");
        }
    }

    #[test]
    fn rows_are_estimated_by_the_plan_else_by_announcements_else_by_finished_tasks() {
        let unknown = |progress: &Progress| progress.lock().get_mut(&LOAD).unwrap().known_rows = None;
        let begin = |tasks: usize| {
            let progress = Progress::default();
            progress.begin_tasks((0..tasks).map(|_| (LOAD, 10)));
            progress
        };
        let estimated = |progress: &Progress| table(progress).rows_estimated;
        let known = begin(3);
        assert_eq!(estimated(&known), Some(30));
        known.start(LOAD);
        known.rows(LOAD, 31);
        assert_eq!(estimated(&known), Some(31), "more were made than were known");

        let finished = begin(4);
        unknown(&finished);
        assert_eq!(estimated(&finished), None);
        for rows in [6, 9] {
            finished.start(LOAD);
            finished.rows(LOAD, rows);
            finished.finish(LOAD, rows, 0);
        }
        assert_eq!(estimated(&finished), Some(15 * 4 / 2), "the average of two of four");

        let announced = begin(4);
        unknown(&announced);
        announced.expect(LOAD, 7);
        announced.expect(LOAD, 8);
        assert_eq!(estimated(&announced), Some(15 * 4 / 2));
        announced.rows(LOAD, 40);
        assert_eq!(estimated(&announced), Some(40));

        let over = begin(1);
        unknown(&over);
        over.start(LOAD);
        over.rows(LOAD, 3);
        over.finish(LOAD, 3, 0);
        assert_eq!(estimated(&over), Some(3), "what was made, where nothing is open");
    }

    #[test]
    fn rows_of_a_plan_are_known_only_where_each_of_its_tasks_knows_them() {
        let fixture = crate::plan::tests::Fixture::new("chunker = \"sentence\"\nretriever = \"bm25\"\n");
        let plan = fixture.plan();
        let progress = Progress::default();
        let (to_run, reused): (Vec<TaskId>, Vec<TaskId>) = (0..plan.tasks.len()).partition(|&id| id != 0);
        progress.begin(&plan, &to_run, &reused);
        let of = |name: &str| {
            let table = progress.snapshot();
            let row = table.into_iter().find(|row| row.operator.name() == name).unwrap();
            (row.queued, row.reused, row.rows_estimated)
        };
        assert_eq!(of("load"), (2, 1, Some(2)), "a file for each of the two that are left");
        assert_eq!(of("chunk"), (3, 0, None), "nobody knows how many chunks there will be");
        assert_eq!(of("retrieve"), (1, 0, Some(20)));
        progress.begin_tasks([]);
        assert!(progress.snapshot().is_empty(), "a new table begins empty");
    }

    #[test]
    fn only_what_was_not_taken_before_is_taken() {
        let progress = Progress::default();
        assert!(progress.take_rows().is_empty());
        progress.rows(LOAD, 2);
        progress.rows(LOAD, 3);
        progress.rows(Operator::Score, 0);
        assert_eq!(progress.take_rows(), [(LOAD, 5)].into(), "none of an operator that made none");
        assert!(progress.take_rows().is_empty());
        progress.rows(LOAD, 1);
        assert_eq!(progress.take_rows(), [(LOAD, 1)].into());
        assert_eq!(table(&progress).rows_done, 6, "the table keeps them all");
    }

    #[test]
    fn the_rate_of_now_is_that_of_the_last_three_seconds_and_of_the_average_since_the_start() {
        let begin = Instant::now();
        let at = |seconds: f64| begin + Duration::from_secs_f64(seconds);
        let state = |queued: usize, last: f64| ProgressState {
            queued,
            rows: 100,
            known_rows: Some(150),
            started: Some(begin),
            last: Some(at(last)),
            samples: [(at(1.0), 10), (at(8.0), 60), (at(9.5), 30)].into(),
            ..ProgressState::default()
        };
        let seen = state(1, 9.5).progress(LOAD, at(10.0));
        assert_eq!((seen.rate_now, seen.rate_average), ((60.0 + 30.0) / 3.0, 10.0));
        assert_eq!(seen.seconds_left, Some(5.0), "50 rows at ten a second");
        let done = state(0, 5.0).progress(LOAD, at(10.0));
        assert_eq!(
            (done.rate_now, done.rate_average, done.seconds_left),
            (0.0, 20.0, None),
            "it ended after five seconds"
        );
        // In its first second, the window is as long as the work.
        let first = ProgressState { samples: [(at(0.5), 5)].into(), rows: 5, ..state(1, 0.5) }.progress(LOAD, at(0.5));
        assert_eq!((first.rate_now, first.rate_average), (10.0, 10.0));
        let never = ProgressState { queued: 1, ..ProgressState::default() }.progress(LOAD, at(1.0));
        assert_eq!((never.rate_now, never.rate_average, never.seconds_left), (0.0, 0.0, None));
    }

    #[test]
    fn an_estimate_holds_as_long_as_no_row_is_overdue_by_it() {
        let begin = Instant::now();
        // 80 of 100 rows in the seconds up to now: 20 rows are left.
        let left = |now: u64, last: u64| {
            let state = ProgressState {
                active: 1,
                rows: 80,
                known_rows: Some(100),
                started: Some(begin),
                last: Some(begin + Duration::from_secs(last)),
                ..ProgressState::default()
            };
            state.progress(LOAD, begin + Duration::from_secs(now)).seconds_left
        };
        assert_eq!(left(40, 40), Some(10.0));
        assert_eq!(left(40, 30), Some(10.0), "the next row may come now");
        assert_eq!(left(40, 29), None);
        assert_eq!(left(2, 1), Some(0.5), "a second is never too long");
    }

    #[test]
    fn the_time_of_a_run_is_that_of_its_slowest_operator() {
        let of = |seconds: &[Option<f64>]| {
            let row = row(|progress| progress.begin_tasks([(LOAD, 1)]));
            let rows: Vec<_> =
                seconds.iter().map(|&seconds_left| OperatorProgress { seconds_left, ..row.clone() }).collect();
            seconds_left(&rows)
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[None, None]), None);
        assert_eq!(of(&[Some(1.0), None, Some(3.0), Some(2.0)]), Some(3.0));
    }

    #[test]
    fn a_warning_is_told_once_and_a_tracker_is_behind_until_it_is_not() {
        let progress = Progress::default();
        for text in ["b", "a", "b"] {
            progress.warn(text.to_owned());
        }
        assert_eq!(progress.warnings(), ["b", "a"], "in the order in which they came");
        progress.set_behind("MLflow", Some("away".to_owned()));
        progress.set_behind("MLflow", Some("still away".to_owned()));
        assert_eq!(progress.trackers_behind(), [("MLflow".to_owned(), "still away".to_owned())].into());
        progress.set_behind("MLflow", None);
        progress.set_behind("other", None);
        assert!(progress.trackers_behind().is_empty());
    }

    #[test]
    fn models_of_workers_are_added_up_until_a_worker_has_none() {
        let progress = Progress::default();
        let traffic = |answered| ModelTraffic {
            name: "chat gpt".to_owned(),
            in_flight: 1,
            target: 2,
            waiting: 0,
            answered,
            goodput: 1.0,
            tokens_per_second: 1.0,
            refused_share: 0.0,
        };
        let answered = || progress.models().iter().map(|model| model.answered).collect::<Vec<_>>();
        assert!(answered().is_empty());
        progress.set_remote_traffic(1, vec![traffic(3)]);
        progress.set_remote_traffic(2, vec![traffic(4)]);
        assert_eq!(answered(), [7]);
        progress.set_remote_traffic(1, vec![traffic(5)]);
        assert_eq!(answered(), [9], "its newest numbers are in place of the earlier ones");
        progress.set_remote_traffic(2, Vec::new());
        assert_eq!(answered(), [5], "it is gone");
    }
}
