//! The jobs that wait for a thread, and the threads that wait for a job. A
//! job goes to the waiting thread that already holds most of its prompt. If
//! another thread holds more of the prompt, it is asked for a copy.

use super::slots::shared_prefix;
use crate::locked;
use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

/// A queue that threads sleep on. Its length is bounded by the callers, each
/// of which waits for its answer.
pub(super) struct JobQueue<T, C> {
    state: Mutex<QueueState<T, C>>,
    changed: Condvar,
}

struct QueueState<T, C> {
    jobs: VecDeque<T>,
    /// The threads that wait, the longest waiting first.
    idle: Vec<IdleThread<T>>,
    /// For each thread the prompts that it held when it last asked for a job.
    held: Vec<Vec<Vec<i32>>>,
    loans: Vec<Loan<C>>,
    threads: usize,
}

struct IdleThread<T> {
    thread: usize,
    job: Option<T>,
}

/// A request of one thread for a copy of what another has computed.
struct Loan<C> {
    from: usize,
    to: usize,
    prompt: Vec<i32>,
    /// `None` until the lender has looked; then the copy, if there is one.
    copy: Option<Option<C>>,
}

/// A copy of fewer tokens is not worth waiting until the other thread's
/// current step ends.
const MIN_COPY_TOKENS: usize = 64;

impl<T, C> JobQueue<T, C> {
    /// A queue for this many threads, which closes when all of them have left.
    pub(super) fn new(threads: usize) -> Self {
        let held = vec![Vec::new(); threads];
        let state = QueueState { jobs: VecDeque::new(), idle: Vec::new(), held, loans: Vec::new(), threads };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Hands a job over. It is dropped if the queue is closed.
    pub(super) fn push(&self, prompt: &[i32], job: T) {
        let mut state = self.lock();
        if state.threads == 0 {
            return;
        }
        let QueueState { idle, held, .. } = &mut *state;
        // Of threads that hold equally much, the one that was idle for the shortest
        // time is taken, so that calls one after the other meet the same thread and its
        // prompts.
        let free = idle.iter_mut().filter(|idle| idle.job.is_none());
        match free.max_by_key(|idle| longest_shared(&held[idle.thread], prompt)) {
            Some(idle) => idle.job = Some(job),
            None => state.jobs.push_back(job),
        }
        drop(state);
        self.changed.notify_all();
    }

    /// The next job for a thread that holds these prompts; `None` once the
    /// queue is closed. `answer` is called as soon as the thread is known to be
    /// free, so that a caller who gets the answer and asks again meets this
    /// thread. While it waits, `copy` is called for what other threads want.
    pub(super) fn next(
        &self,
        thread: usize,
        prompts: Vec<Vec<i32>>,
        answer: impl FnOnce(),
        mut copy: impl FnMut(&[i32]) -> Option<C>,
    ) -> Option<T> {
        let mut state = self.lock();
        state.held[thread] = prompts;
        if let Some(job) = state.jobs.pop_front() {
            drop(state);
            answer();
            return Some(job);
        }
        state.idle.push(IdleThread { thread, job: None });
        answer();
        loop {
            state = self.lend_all(state, thread, &mut copy);
            let closed = state.threads == 0;
            let at = state.idle.iter().position(|idle| idle.thread == thread)?;
            if closed || state.idle[at].job.is_some() {
                return state.idle.remove(at).job;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A copy of what another thread has computed of a prompt, if that is
    /// clearly more than the `own` tokens that this thread holds.
    pub(super) fn borrow(&self, thread: usize, prompt: &[i32], own: usize) -> Option<C> {
        let mut state = self.lock();
        let others = (0..state.held.len()).filter(|other| *other != thread);
        let from = others.max_by_key(|other| longest_shared(&state.held[*other], prompt))?;
        if longest_shared(&state.held[from], prompt) < own + MIN_COPY_TOKENS {
            return None;
        }
        state.loans.push(Loan { from, to: thread, prompt: prompt.to_vec(), copy: None });
        self.changed.notify_all();
        loop {
            // Two threads that want a copy of each other must not both wait.
            state = self.lend_all(state, thread, &mut |_| None);
            let at = state.loans.iter().position(|loan| loan.to == thread)?;
            if state.threads == 0 || state.loans[at].copy.is_some() {
                return state.loans.swap_remove(at).copy.flatten();
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Copies what other threads want of this one, between two of its steps.
    pub(super) fn lend(&self, thread: usize, mut copy: impl FnMut(&[i32]) -> Option<C>) {
        drop(self.lend_all(self.lock(), thread, &mut copy));
    }

    fn lend_all<'a>(
        &'a self,
        mut state: MutexGuard<'a, QueueState<T, C>>,
        thread: usize,
        copy: &mut dyn FnMut(&[i32]) -> Option<C>,
    ) -> MutexGuard<'a, QueueState<T, C>> {
        let wanted = |loan: &Loan<C>| loan.from == thread && loan.copy.is_none();
        while let Some(loan) = state.loans.iter().find(|loan| wanted(loan)) {
            let (to, prompt) = (loan.to, loan.prompt.clone());
            drop(state);
            let made = copy(&prompt);
            state = self.lock();
            // A thread waits for one copy at a time, so its number identifies the loan.
            if let Some(loan) = state.loans.iter_mut().find(|loan| loan.to == to) {
                loan.copy = Some(made);
            }
            self.changed.notify_all();
        }
        state
    }

    /// A thread has ended. With the last of them the queue is closed.
    pub(super) fn leave(&self, thread: usize) {
        drop(self.lend_all(self.lock(), thread, &mut |_| None));
        let mut state = self.lock();
        state.held[thread].clear();
        state.threads = state.threads.saturating_sub(1);
        if state.threads == 0 {
            state.jobs.clear();
        }
    }

    /// Drops all jobs and ends all threads that wait here, or will.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.threads = 0;
        state.jobs.clear();
        drop(state);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<T, C>> {
        // The state is whole at every point at which a thread can fail.
        locked(&self.state)
    }
}

fn longest_shared(held: &[Vec<i32>], prompt: &[i32]) -> usize {
    held.iter().map(|held| shared_prefix(held, prompt)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Two threads that hold a prompt each and report what they were given.
    fn given(jobs: &[&[i32]]) -> Vec<(usize, usize)> {
        let queue: JobQueue<_, ()> = JobQueue::new(2);
        let (report, reports) = mpsc::channel();
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (queue, report) = (&queue, report.clone());
                scope.spawn(move || {
                    while let Some(job) = queue.next(thread, vec![vec![thread as i32; 50]], || (), |_| None) {
                        report.send((thread, job)).expect("the test waits");
                    }
                });
            }
            let answers = jobs
                .iter()
                .enumerate()
                .map(|(index, prompt)| {
                    while queue.lock().idle.iter().filter(|idle| idle.job.is_none()).count() < 2 {
                        std::thread::yield_now();
                    }
                    queue.push(prompt, index);
                    reports.recv().expect("an answer")
                })
                .collect();
            queue.close();
            answers
        })
    }

    #[test]
    fn a_job_goes_to_the_thread_that_holds_its_prompt() {
        assert_eq!(given(&[&[1; 60], &[0; 60], &[1; 9]]), [(1, 0), (0, 1), (1, 2)]);
    }

    #[test]
    fn unrelated_jobs_one_after_the_other_meet_the_same_thread() {
        let answers = given(&[&[7], &[8], &[9]]);
        assert!(answers.iter().all(|(thread, _)| *thread == answers[0].0), "{answers:?}");
    }

    #[test]
    fn a_queue_without_threads_takes_no_job() {
        let queue: JobQueue<_, ()> = JobQueue::new(1);
        queue.push(&[], 1);
        queue.leave(0);
        queue.push(&[], 2);
        assert!(queue.lock().jobs.is_empty());
        assert_eq!(queue.next(0, Vec::new(), || (), |_| None), None);
    }

    /// What the first of two threads gets of the second, which holds `held`.
    fn borrowed(held: Vec<i32>, own: usize) -> Option<usize> {
        let queue: JobQueue<(), usize> = JobQueue::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| queue.next(1, vec![held.clone()], || (), |prompt| Some(shared_prefix(&held, prompt))));
            while queue.lock().idle.is_empty() {
                std::thread::yield_now();
            }
            let copy = queue.borrow(0, &[5; 500], own);
            queue.close();
            copy
        })
    }

    #[test]
    fn a_thread_that_waits_lends_what_it_holds() {
        assert_eq!(borrowed(vec![5; 300], 100), Some(300));
    }

    #[test]
    fn what_is_hardly_more_than_ones_own_is_not_borrowed() {
        assert_eq!(borrowed(vec![5; 300], 300 - MIN_COPY_TOKENS + 1), None);
        assert_eq!(borrowed(vec![6; 300], 0), None);
    }

    #[test]
    fn threads_that_want_something_of_each_other_do_not_wait_for_ever() {
        let queue: JobQueue<(), usize> = JobQueue::new(2);
        queue.lock().held = vec![vec![vec![1; 100]], vec![vec![2; 100]]];
        std::thread::scope(|scope| {
            let first = scope.spawn(|| queue.borrow(0, &[2; 100], 0));
            let second = scope.spawn(|| queue.borrow(1, &[1; 100], 0));
            // The one that asks last may find the other one gone on with its job, where it lends between steps.
            while !(first.is_finished() && second.is_finished()) {
                if first.is_finished() {
                    queue.lend(0, |_| Some(7));
                }
                if second.is_finished() {
                    queue.lend(1, |_| Some(7));
                }
                std::thread::yield_now();
            }
        });
    }

    #[test]
    fn a_thread_that_ended_lends_nothing_and_nobody_waits_for_it() {
        let queue: JobQueue<(), usize> = JobQueue::new(2);
        queue.lock().held[1] = vec![vec![5; 300]];
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| queue.borrow(0, &[5; 500], 0));
            while queue.lock().loans.is_empty() {
                std::thread::yield_now();
            }
            queue.leave(1);
            assert_eq!(waits.join().expect("no panic"), None);
        });
        assert_eq!(queue.borrow(0, &[5; 500], 0), None);
    }
}
