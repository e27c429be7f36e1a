//! Runs batches of work on the calling thread and on the threads of the current rayon pool.
//!
//! When to use it: for about a millisecond of work that a caller waits for. With
//! rayon's own iterators, a caller outside the pool sleeps until threads of the
//! pool have woken up and done all of the work. Here the caller begins at once,
//! and threads that wake up in time take batches from it.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// About how long it takes to sleep and to wake up again.
const A_MOMENT: Duration = Duration::from_micros(50);

/// Folds all batches. They run in any order and on any number of threads: each
/// thread folds its batches with `push`, from `none` on, and `merge` joins the
/// results of two threads.
pub(super) fn share<Batch, T: Send>(
    batches: impl ExactSizeIterator<Item = Batch> + Send,
    none: impl Fn() -> T + Sync,
    push: impl Fn(T, Batch) -> T + Sync,
    merge: impl Fn(T, T) -> T,
) -> T {
    let others = rayon::current_num_threads().min(batches.len()).saturating_sub(1);
    let batches = Mutex::new(batches);
    let work = || {
        let mut made = none();
        // The lock is held no longer than it takes to get a batch.
        while let Some(batch) = { batches.lock().unwrap_or_else(PoisonError::into_inner).next() } {
            made = push(made, batch);
        }
        made
    };
    if others == 0 {
        return work();
    }
    let results_of_others = Mutex::new(Vec::with_capacity(others));
    let at_work = AtomicUsize::new(0);
    let own_result = rayon::in_place_scope(|scope| {
        for _ in 0..others {
            scope.spawn(|_| {
                at_work.fetch_add(1, Ordering::SeqCst);
                let made = work();
                results_of_others.lock().unwrap_or_else(PoisonError::into_inner).push(made);
                at_work.fetch_sub(1, Ordering::SeqCst);
            });
        }
        let made = work();
        // A thread at its last batch ends before this one could fall asleep and wake up again.
        let since = Instant::now();
        while at_work.load(Ordering::SeqCst) > 0 && since.elapsed() < A_MOMENT {
            std::hint::spin_loop();
        }
        made
    });
    results_of_others.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().fold(own_result, merge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_batch_is_done_once_from_outside_and_inside_a_pool_of_any_size() {
        for threads in [1, 2, 5] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            for n in [0u64, 1, 2, 1000] {
                let sum = || share(0..n as usize, || 0, |sum, batch| sum + batch as u64, |a, b| a + b);
                assert_eq!(pool.install(sum), n * n.saturating_sub(1) / 2);
                assert_eq!(sum(), n * n.saturating_sub(1) / 2);
            }
        }
    }

    #[test]
    fn nobody_waits_for_threads_that_are_busy_elsewhere() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let (go, gate) = std::sync::mpsc::channel::<()>();
        let gate = Mutex::new(gate);
        let sum = pool.install(|| {
            rayon::scope(|scope| {
                scope.spawn(|_| gate.lock().unwrap().recv().unwrap());
                // The other thread of the pool has that, or this one will.
                while gate.try_lock().is_ok() {
                    std::thread::yield_now();
                }
                let sum = share(0..100, || 0, |sum, batch| sum + batch, |a, b| a + b);
                go.send(()).unwrap();
                sum
            })
        });
        assert_eq!(sum, 4950);
    }
}
