//! The jobs that wait for a thread, and the threads that wait for a job. A
//! job goes to the waiting thread that already holds most of its prompt.

use super::slots::shared_prefix;
use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

/// A queue that threads sleep on. Its length is bounded by the callers, each
/// of which waits for its answer.
#[derive(Debug)]
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<T> {
    jobs: VecDeque<T>,
    /// The threads that wait, last come last.
    idle: Vec<Idle<T>>,
    threads: usize,
}

#[derive(Debug)]
struct Idle<T> {
    thread: usize,
    prompts: Vec<Vec<i32>>,
    job: Option<T>,
}

impl<T> Queue<T> {
    /// A queue that closes when so many threads have left.
    pub(super) fn new(threads: usize) -> Self {
        Self { state: Mutex::new(State { jobs: VecDeque::new(), idle: Vec::new(), threads }), changed: Condvar::new() }
    }

    /// Hands a job over. It is dropped if the queue is closed.
    pub(super) fn push(&self, prompt: &[i32], job: T) {
        let mut state = self.lock();
        if state.threads == 0 {
            return;
        }
        let shared = |idle: &Idle<T>| idle.prompts.iter().map(|held| shared_prefix(held, prompt)).max().unwrap_or(0);
        // Of several threads, the one that was idle for the shortest time is
        // taken, so that calls one after the other meet the same thread and its
        // prompts.
        match state.idle.iter_mut().filter(|idle| idle.job.is_none()).max_by_key(|idle| shared(idle)) {
            Some(idle) => idle.job = Some(job),
            None => state.jobs.push_back(job),
        }
        drop(state);
        self.changed.notify_all();
    }

    /// The next job for a thread that holds these prompts; `None` once the
    /// queue is closed. `answer` is called as soon as the thread is known to be
    /// free, so that a caller who gets the answer and asks again meets this
    /// thread.
    pub(super) fn next(&self, thread: usize, prompts: Vec<Vec<i32>>, answer: impl FnOnce()) -> Option<T> {
        let mut state = self.lock();
        if let Some(job) = state.jobs.pop_front() {
            drop(state);
            answer();
            return Some(job);
        }
        state.idle.push(Idle { thread, prompts, job: None });
        answer();
        loop {
            let closed = state.threads == 0;
            let at = state.idle.iter().position(|idle| idle.thread == thread)?;
            if closed || state.idle[at].job.is_some() {
                return state.idle.remove(at).job;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A thread has ended. With the last of them the queue is closed.
    pub(super) fn leave(&self) {
        let mut state = self.lock();
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

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // The state is whole at every point at which a thread can fail.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Two threads that hold a prompt each and report what they were given.
    fn given(jobs: &[&[i32]]) -> Vec<(usize, usize)> {
        let queue = Queue::new(2);
        let (report, reports) = mpsc::channel();
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (queue, report) = (&queue, report.clone());
                scope.spawn(move || {
                    while let Some(job) = queue.next(thread, vec![vec![thread as i32; 50]], || ()) {
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
        let queue = Queue::new(1);
        queue.push(&[], 1);
        queue.leave();
        queue.push(&[], 2);
        assert!(queue.lock().jobs.is_empty());
        assert_eq!(queue.next(0, Vec::new(), || ()), None);
    }
}
