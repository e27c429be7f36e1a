//! Decides which task is next, and what happens to a task when an attempt at it
//! ends: the rules of a run, without a clock, a thread or an event loop.
//!
//! A run has workers, at most as many as the concurrency target. A worker is
//! *hired*, *claims* a task, *begins* an attempt, reports its end, and claims
//! again; if there is no task to claim, it is let go. An attempt that must end
//! early is *cut*: its worker is told, and keeps the attempt until it reports
//! or is let go.
//!
//! A task that was refused for lack of capacity has not failed: it rests, and is
//! then tried again without counting.
//!
//! Failed tasks go before fresh ones. Of the failed tasks, those with more
//! attempts go first, then those that came first.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Names a worker. Never used twice in a run.
pub type WorkerNumber = u64;

/// The settings of a whole run.
#[derive(Debug, Clone)]
pub struct RunRules {
    /// The most attempts at once; 0 counts as 1.
    pub concurrency: usize,
    /// Attempts after the first one. Below 0 counts as 0.
    pub max_retries: i64,
    /// How long an attempt may take.
    pub timeout: Duration,
}

/// A task and how often it was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputTask<P> {
    /// Its place among the inputs.
    pub index: usize,
    /// Failed attempts; refused ones do not count.
    pub attempts: u32,
    /// The input.
    pub payload: P,
}

/// What a worker should do.
#[derive(Debug, PartialEq, Eq)]
pub enum TaskClaim<P> {
    /// Try this task again.
    Again(InputTask<P>),
    /// Fetch the next input, which has this place, and begin; or say that
    /// there is none.
    Fresh(usize),
}

/// Why an attempt must end early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutReason {
    /// It took too long.
    TimedOut,
    /// The run ends.
    Stopped,
}

/// What a failed or refused attempt means for its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptVerdict {
    /// The task's place among the inputs.
    pub index: usize,
    /// Failed attempts so far, this one included unless it was refused.
    pub attempts: u32,
    /// Whether there will be another.
    pub again: bool,
}

/// The state of a task, with the numbers that Python uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InputStatus {
    /// It neither completed nor failed.
    #[default]
    DidNotRun,
    /// The first attempt had a result.
    Completed,
    /// A later attempt had a result.
    CompletedWithRetries,
    /// The last attempt failed.
    Failed,
}

/// The record of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct InputRecord<E> {
    /// The state of the task.
    pub status: InputStatus,
    /// The time spent in attempts that had a result, failed or were refused.
    pub spent: Duration,
    /// The errors of the failed and the refused attempts, in order.
    pub errors: Vec<E>,
}

impl<E> Default for InputRecord<E> {
    fn default() -> Self {
        Self { status: InputStatus::default(), spent: Duration::ZERO, errors: Vec::new() }
    }
}

#[derive(Debug)]
struct AttemptInFlight<P> {
    task: InputTask<P>,
    started: Duration,
    /// How many attempts were in flight once it had started, itself included.
    in_flight_at_start: usize,
    cut: Option<CutReason>,
}

/// The state of a run. `P` is an input, `E` an error; times are counted from
/// any one moment. Its size grows with the concurrency, except for the records and
/// for tasks that were refused.
#[derive(Debug)]
pub struct TaskScheduler<P, E> {
    rules: RunRules,
    length: Option<usize>,
    fetched: usize,
    exhausted: bool,
    stopped: bool,
    hired: WorkerNumber,
    workers: BTreeSet<WorkerNumber>,
    in_flight: BTreeMap<WorkerNumber, AttemptInFlight<P>>,
    /// Tasks that are to be tried again, in the order in which they are claimed.
    waiting: BTreeMap<(Reverse<u32>, usize), InputTask<P>>,
    /// Tasks that were refused, by when they may be tried again and their place.
    resting: BTreeMap<(Duration, usize), InputTask<P>>,
    /// How often each of them was refused, by its place.
    refusals: BTreeMap<usize, u32>,
    records: Vec<InputRecord<E>>,
}

impl<P, E> TaskScheduler<P, E> {
    /// A run over this many inputs; without a number, over as many as there will be.
    pub fn new(rules: RunRules, length: Option<usize>) -> Self {
        Self {
            rules,
            length,
            fetched: 0,
            exhausted: false,
            stopped: false,
            hired: 0,
            workers: BTreeSet::new(),
            in_flight: BTreeMap::new(),
            waiting: BTreeMap::new(),
            resting: BTreeMap::new(),
            refusals: BTreeMap::new(),
            records: std::iter::repeat_with(InputRecord::default).take(length.unwrap_or(0)).collect(),
        }
    }

    fn limit(&self, target: usize) -> usize {
        target.min(self.rules.concurrency).max(1)
    }

    /// Tasks that a worker could claim.
    fn claimable(&self) -> usize {
        let fresh = match (self.exhausted, self.length) {
            (true, _) => 0,
            (false, Some(length)) => length.saturating_sub(self.fetched),
            (false, None) => usize::MAX,
        };
        self.waiting.len().saturating_add(fresh)
    }

    /// Whether there is work for one more worker, if the target were high
    /// enough.
    pub fn wanting(&self) -> bool {
        !self.stopped && self.claimable() > self.workers.len() - self.in_flight.len()
    }

    /// Whether one more worker may be hired.
    pub fn room(&self, target: usize) -> bool {
        self.workers.len() < self.limit(target) && self.wanting()
    }

    /// Hires a worker, if there is room for one.
    pub fn hire(&mut self, target: usize) -> Option<WorkerNumber> {
        if !self.room(target) {
            return None;
        }
        self.hired += 1;
        self.workers.insert(self.hired);
        Some(self.hired)
    }

    /// Whether the worker stays, and there is a task for it.
    pub fn may_claim(&self, worker: WorkerNumber, target: usize) -> bool {
        let stays = !self.stopped && self.workers.contains(&worker) && self.workers.len() <= self.limit(target);
        stays && self.claimable() > 0
    }

    /// What the worker should do. If there is nothing to do, or there are more
    /// workers than the target, it is let go.
    pub fn claim(&mut self, worker: WorkerNumber, target: usize) -> Option<TaskClaim<P>> {
        if !self.may_claim(worker, target) {
            self.let_go(worker);
            return None;
        }
        if let Some((_, task)) = self.waiting.pop_first() {
            return Some(TaskClaim::Again(task));
        }
        self.fetched += 1;
        Some(TaskClaim::Fresh(self.fetched - 1))
    }

    /// There are no more inputs.
    pub fn exhaust(&mut self) {
        self.exhausted = true;
    }

    /// The worker's attempt begins. If the run was stopped, or the worker was
    /// let go while it fetched its input, the task waits for another worker.
    pub fn begin(&mut self, worker: WorkerNumber, task: InputTask<P>, now: Duration) -> bool {
        if task.index >= self.records.len() {
            self.records.resize_with(task.index + 1, InputRecord::default);
        }
        if self.stopped || !self.workers.contains(&worker) {
            self.enqueue(task);
            self.let_go(worker);
            return false;
        }
        let in_flight_at_start = self.in_flight.len() + 1;
        self.in_flight.insert(worker, AttemptInFlight { task, started: now, in_flight_at_start, cut: None });
        true
    }

    /// The worker's attempt has a result. Returns the input's place and the
    /// duration; `None` if the attempt was cut, so that its result is no longer
    /// wanted.
    pub fn complete(&mut self, worker: WorkerNumber, now: Duration) -> Option<(usize, Duration)> {
        if self.in_flight.get(&worker)?.cut.is_some() {
            return None;
        }
        let (task, took) = self.end_attempt(worker, now)?;
        let record = self.records.get_mut(task.index)?;
        record.status = match record.errors.is_empty() {
            true => InputStatus::Completed,
            false => InputStatus::CompletedWithRetries,
        };
        Some((task.index, took))
    }

    /// The worker's attempt failed. `None` if it has none.
    pub fn fail(&mut self, worker: WorkerNumber, error: E, retryable: bool, now: Duration) -> Option<AttemptVerdict> {
        let (mut task, _) = self.end_attempt(worker, now)?;
        let record = self.records.get_mut(task.index)?;
        record.errors.push(error);
        let again = retryable && i64::from(task.attempts) < self.rules.max_retries;
        task.attempts += 1;
        let verdict = AttemptVerdict { index: task.index, attempts: task.attempts, again };
        match again {
            true => self.enqueue(task),
            false => record.status = InputStatus::Failed,
        }
        Some(verdict)
    }

    /// The worker's attempt was refused, for lack of capacity on the other side.
    /// This does not count as failed: the task is tried again after this rest. `None`
    /// if the worker has no attempt.
    pub fn refuse(&mut self, worker: WorkerNumber, error: E, rest: Duration, now: Duration) -> Option<AttemptVerdict> {
        let (task, _) = self.end_attempt(worker, now)?;
        self.records.get_mut(task.index)?.errors.push(error);
        *self.refusals.entry(task.index).or_default() += 1;
        let verdict = AttemptVerdict { index: task.index, attempts: task.attempts, again: true };
        self.resting.insert((now.saturating_add(rest), task.index), task);
        Some(verdict)
    }

    /// The place of the worker's task, and how often it was refused.
    pub fn refusals(&self, worker: WorkerNumber) -> Option<(usize, u32)> {
        let index = self.in_flight.get(&worker)?.task.index;
        Some((index, self.refusals.get(&index).copied().unwrap_or_default()))
    }

    /// For how long the worker's attempt has been running, how many attempts
    /// were in flight once it had started, and how many others are now.
    pub fn attempt_load(&self, worker: WorkerNumber, now: Duration) -> Option<(Duration, usize, usize)> {
        let attempt = self.in_flight.get(&worker)?;
        Some((now.saturating_sub(attempt.started), attempt.in_flight_at_start, self.in_flight.len() - 1))
    }

    /// Tasks that have rested for long enough may be tried again.
    pub fn wake(&mut self, now: Duration) {
        while let Some(rested) = self.resting.first_entry().filter(|rested| rested.key().0 <= now) {
            let task = rested.remove();
            self.enqueue(task);
        }
    }

    /// How long until the next task has rested; `None` if no task rests.
    pub fn next_wake(&self, now: Duration) -> Option<Duration> {
        let ((until, _), _) = self.resting.first_key_value().filter(|_| !self.stopped)?;
        Some(until.saturating_sub(now))
    }

    fn enqueue(&mut self, task: InputTask<P>) {
        self.waiting.insert((Reverse(task.attempts), task.index), task);
    }

    /// The worker's attempt is over: its task, and how long it took.
    fn end_attempt(&mut self, worker: WorkerNumber, now: Duration) -> Option<(InputTask<P>, Duration)> {
        let attempt = self.in_flight.remove(&worker)?;
        let took = now.saturating_sub(attempt.started);
        if let Some(record) = self.records.get_mut(attempt.task.index) {
            record.spent += took;
        }
        Some((attempt.task, took))
    }

    /// Whether the worker has an attempt, and whether that was cut.
    pub fn attempt(&self, worker: WorkerNumber) -> Option<Option<CutReason>> {
        self.in_flight.get(&worker).map(|attempt| attempt.cut)
    }

    /// Lets the worker go. An attempt that it still has is forgotten.
    pub fn let_go(&mut self, worker: WorkerNumber) {
        self.workers.remove(&worker);
        self.in_flight.remove(&worker);
    }

    /// Cuts the attempts that take too long, and returns their workers.
    pub fn cut_overdue(&mut self, now: Duration) -> Vec<WorkerNumber> {
        let timeout = self.rules.timeout;
        self.cut(CutReason::TimedOut, |attempt| attempt.cut.is_none() && now.saturating_sub(attempt.started) >= timeout)
    }

    /// How long until the first attempt could be overdue, one that begins now included.
    pub fn next_deadline(&self, now: Duration) -> Duration {
        let earliest =
            self.in_flight.values().filter(|attempt| attempt.cut.is_none()).map(|attempt| attempt.started).min();
        self.rules.timeout.saturating_sub(now.saturating_sub(earliest.unwrap_or(now)))
    }

    /// Nothing begins from now on. Cuts all attempts, and returns their workers.
    pub fn stop(&mut self) -> Vec<WorkerNumber> {
        self.stopped = true;
        self.cut(CutReason::Stopped, |attempt| attempt.cut != Some(CutReason::Stopped))
    }

    fn cut(&mut self, reason: CutReason, which: impl Fn(&AttemptInFlight<P>) -> bool) -> Vec<WorkerNumber> {
        let mut workers = Vec::new();
        for (worker, attempt) in &mut self.in_flight {
            if which(attempt) {
                attempt.cut = Some(reason);
                workers.push(*worker);
            }
        }
        workers
    }

    /// Whether nothing more will happen.
    pub fn finished(&self) -> bool {
        self.workers.is_empty() && (self.stopped || (self.claimable() == 0 && self.resting.is_empty()))
    }

    /// The records of the tasks, in the order of the inputs. Afterwards there
    /// are none.
    pub fn take_records(&mut self) -> Vec<InputRecord<E>> {
        self.waiting.clear();
        self.resting.clear();
        std::mem::take(&mut self.records)
    }
}

#[cfg(test)]
#[path = "scheduler_tests.rs"]
mod tests;
