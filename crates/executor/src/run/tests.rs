//! Whole runs. Where time matters it is tokio's paused clock, which jumps
//! from one event to the next: no test measures the machine.

use super::*;
use crate::{ErrorClass, ExecutionStatus, RetryPolicy};
use futures::stream;
use std::{
    convert::Infallible,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
};
use tokio::time::{Instant, sleep};

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("fault {0}")]
struct Fault(u64);

impl Retryable for Fault {
    fn class(&self) -> ErrorClass {
        match self.0 % 4 {
            0 => ErrorClass::RateLimited,
            1 => ErrorClass::Overloaded,
            2 => ErrorClass::Transient,
            _ => ErrorClass::Permanent,
        }
    }
}

/// Unrelated numbers from neighbouring ones.
fn draw(number: u64) -> u64 {
    let mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

#[tokio::test(start_paused = true)]
async fn six_hundred_tasks_with_random_failures_all_complete_once() {
    let limiter = Limiter::fixed(20).with_retry(RetryPolicy { max_attempts: 50, ..RetryPolicy::default() });
    let attempts = Arc::new(Mutex::new(vec![0u64; 600]));
    let counted = attempts.clone();
    let task = move |number: u64| {
        let counted = counted.clone();
        async move {
            let attempt = {
                let mut attempts = counted.lock().unwrap_or_else(PoisonError::into_inner);
                attempts[number as usize] += 1;
                attempts[number as usize]
            };
            let luck = draw(number * 100 + attempt);
            sleep(ms(luck % 300)).await;
            // Three of ten attempts fail, each for a passing reason.
            if luck % 10 < 3 { Err(Fault(luck % 3)) } else { Ok(number * 2) }
        }
    };
    let executor = Executor::builder(limiter).build();
    let all: Vec<_> = executor.run(stream::iter(0..600), task).collect().await;
    assert_eq!(all.len(), 600);
    let mut seen = [false; 600];
    let attempts = attempts.lock().unwrap_or_else(PoisonError::into_inner);
    for done in &all {
        assert!(!std::mem::replace(&mut seen[done.index], true), "task {} came twice", done.index);
        assert_eq!(done.output, Ok(done.index as u64 * 2));
        assert_eq!(done.details.errors.len() as u64 + 1, attempts[done.index]);
        let expected = match done.details.errors.is_empty() {
            true => ExecutionStatus::Completed,
            false => ExecutionStatus::CompletedWithRetries,
        };
        assert_eq!(done.details.status, expected);
    }
    assert!(all.iter().any(|done| done.details.status == ExecutionStatus::CompletedWithRetries));
    assert!(!all.is_sorted_by_key(|done| done.index), "results come as they complete");
}

#[tokio::test(start_paused = true)]
async fn order_is_kept() {
    let executor = Executor::builder(Limiter::fixed(7)).build();
    let task = |number: u64| async move {
        sleep(ms(draw(number) % 500)).await;
        Ok::<_, Infallible>(number)
    };
    let all: Vec<_> = executor.run_ordered(stream::iter(0..300), task).collect().await;
    assert!(all.iter().map(|done| done.index).eq(0..300));
    assert!(all.iter().enumerate().all(|(i, done)| done.output == Ok(i as u64)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_limit_is_never_exceeded_and_is_shared_by_runs() {
    let limiter = Limiter::fixed(5).with_retry(RetryPolicy { base_delay: ms(1), ..RetryPolicy::default() });
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let run = || {
        let (running, most) = (running.clone(), most.clone());
        let task = move |number: u64| {
            let (running, most) = (running.clone(), most.clone());
            async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                for _ in 0..draw(number) % 5 {
                    tokio::task::yield_now().await;
                }
                running.fetch_sub(1, Ordering::SeqCst);
                if number % 10 == 3 { Err(Fault(3)) } else { Ok(()) }
            }
        };
        Executor::builder(limiter.clone()).build().run(stream::iter(0..1000), task).count()
    };
    assert_eq!(futures::join!(run(), run(), run()), (1000, 1000, 1000));
    assert!((1..=5).contains(&most.load(Ordering::SeqCst)));
    let status = limiter.status();
    assert_eq!((status.in_flight, status.waiting, status.target), (0, 0, 5));
}

#[tokio::test(start_paused = true)]
async fn an_endless_input_is_taken_only_as_it_is_read() {
    let taken = Arc::new(AtomicUsize::new(0));
    let counter = taken.clone();
    let endless = stream::iter((0u64..).inspect(move |_| {
        counter.fetch_add(1, Ordering::SeqCst);
    }));
    let executor = Executor::builder(Limiter::fixed(4)).window(10).build();
    let mut results = executor.run(endless, |number| async move {
        sleep(ms(10)).await;
        Ok::<_, Infallible>(number)
    });
    for read in 1..=100 {
        assert!(results.next().await.is_some());
        // All that could happen without another read has happened by then.
        sleep(ms(1000)).await;
        assert!(taken.load(Ordering::SeqCst) <= read + 10);
    }
    drop(results);
    sleep(ms(1000)).await;
    assert!(taken.load(Ordering::SeqCst) <= 110, "a run ends with its results");
}

#[tokio::test(start_paused = true)]
async fn one_late_task_does_not_let_an_ordered_run_grow() {
    let executor = Executor::builder(Limiter::fixed(4)).window(16).build();
    let started = Arc::new(AtomicUsize::new(0));
    let counter = started.clone();
    let mut results = executor.run_ordered(stream::iter(0u64..1000), move |number| {
        counter.fetch_add(1, Ordering::SeqCst);
        async move {
            sleep(if number == 0 { Duration::from_secs(3600) } else { ms(1) }).await;
            Ok::<_, Infallible>(number)
        }
    });
    assert_eq!(results.next().await.map(|done| done.index), Some(0));
    assert!(started.load(Ordering::SeqCst) <= 17);
    assert_eq!(results.count().await, 999);
}

#[tokio::test(start_paused = true)]
async fn tasks_go_on_while_nobody_reads() {
    let executor = Executor::builder(Limiter::fixed(2)).build();
    let started = Instant::now();
    let ended_after = |_: u64| async move {
        sleep(ms(100)).await;
        Ok::<_, Infallible>(Instant::now())
    };
    let results = executor.run(stream::iter(0..4), ended_after);
    sleep(Duration::from_secs(60)).await;
    let all: Vec<_> = results.collect().await;
    assert!(all.iter().all(|done| done.output.as_ref().is_ok_and(|end| *end - started <= ms(200))));
}

/// Tasks 0 and 1 end at once, all others never; the token is used after 1 s.
async fn interrupted(
    builder: impl FnOnce(ExecutorBuilder, CancellationToken) -> ExecutorBuilder,
) -> Vec<Completed<u64, Fault>> {
    let token = CancellationToken::new();
    let executor = builder(Executor::builder(Limiter::fixed(3)).window(5), token.clone()).build();
    let task = |number: u64| async move {
        if number >= 2 {
            sleep(Duration::from_secs(1_000_000)).await;
        }
        Ok(number)
    };
    let results = executor.run(stream::iter(0..100), task);
    let canceller = async {
        sleep(Duration::from_secs(1)).await;
        token.cancel();
    };
    let (mut all, ()) = tokio::join!(results.collect::<Vec<_>>(), canceller);
    all.sort_by_key(|done| done.index);
    all
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_keeps_what_is_finished_and_ends_at_once() {
    let started = Instant::now();
    let all = interrupted(|builder, token| builder.cancel_token(token)).await;
    assert_eq!(started.elapsed(), Duration::from_secs(1));
    // 2 are finished, and of those taken 3 were in flight and 2 in line.
    assert!(all.iter().map(|done| done.index).eq(0..7));
    assert!(all[..2].iter().all(|done| done.output.is_ok()));
    for done in &all[2..] {
        assert_eq!((&done.output, done.details.status), (&Err(Error::Cancelled), ExecutionStatus::DidNotRun));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_lets_tasks_in_flight_finish_and_begins_none() {
    let all = interrupted(|builder, token| builder.stop_token(token)).await;
    assert!(all.iter().map(|done| done.index).eq(0..7));
    assert!(all[..5].iter().all(|done| done.output == Ok(done.index as u64)));
    assert!(all[5..].iter().all(|done| done.output == Err(Error::Cancelled)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_task_that_ignores_cancellation_cannot_hold_the_run() {
    let (release, blocked) = mpsc::channel::<()>();
    let blocked = Arc::new(Mutex::new(blocked));
    let cancel = CancellationToken::new();
    let executor = Executor::builder(Limiter::fixed(2)).cancel_token(cancel.clone()).grace(ms(10)).build();
    let canceller = cancel.clone();
    let mut results = executor.run_ordered(stream::iter(0u64..2), move |number| {
        let (blocked, canceller) = (blocked.clone(), canceller.clone());
        async move {
            if number == 0 {
                canceller.cancel();
                // Blocks its thread until the test has ended: no cancellation can reach it.
                let _ = blocked.lock().unwrap_or_else(PoisonError::into_inner).recv();
            }
            Ok::<_, Infallible>(number)
        }
    });
    while let Some(done) = results.next().await {
        assert_eq!(done.index, 1, "the one that blocks is not waited for");
    }
    drop(release);
}

#[tokio::test]
async fn a_panicking_task_is_an_error_and_the_others_go_on() {
    let executor = Executor::builder(Limiter::fixed(2)).build();
    let task = |number: u64| async move {
        if number == 5 {
            std::panic::panic_any(format!("at {number}"));
        }
        Ok::<_, Infallible>(number)
    };
    let all = executor.run_all((0..20).collect(), task).await;
    assert_eq!(all.len(), 20);
    assert_eq!(all[5].output, Err(Error::Panicked { message: "at 5".to_owned() }));
    assert_eq!(all[5].details.status, ExecutionStatus::Failed);
    assert_eq!(all.iter().filter(|done| done.output.is_ok()).count(), 19);
}

#[tokio::test]
async fn inputs_that_panic_are_reported_after_those_before_them() {
    let executor = Executor::builder(Limiter::fixed(2)).build();
    let inputs = stream::iter((0u64..).inspect(|number| {
        if *number == 3 {
            std::panic::panic_any("no more");
        }
    }));
    let all: Vec<_> = executor.run_ordered(inputs, |number| async move { Ok::<_, Infallible>(number) }).collect().await;
    assert_eq!(all.len(), 4);
    assert!(all[..3].iter().all(|done| done.output.is_ok()));
    assert!(matches!(&all[3].output, Err(Error::Panicked { message }) if message.ends_with("no more")));
}

#[tokio::test(start_paused = true)]
async fn a_failure_ends_the_run_where_that_is_asked_for() {
    let shared = CancellationToken::new();
    let limiter = Limiter::fixed(2);
    let executor = Executor::builder(limiter).on_failure(OnFailure::Cancel).cancel_token(shared.clone()).build();
    let task = |number: u64| async move {
        sleep(Duration::from_secs(number)).await;
        if number == 4 { Err(Fault(3)) } else { Ok(number) }
    };
    let all = executor.run_all((0..50).collect(), task).await;
    assert_eq!(all.len(), 50, "there is an entry for each input");
    assert!(all[..4].iter().all(|done| done.details.status == ExecutionStatus::Completed));
    assert_eq!(all[4].output, Err(Error::Failed(Fault(3))));
    assert!(all[5..].iter().all(|done| done.details.status == ExecutionStatus::DidNotRun));
    assert!(!shared.is_cancelled(), "other runs with the same token go on");
}

#[tokio::test]
async fn a_run_over_nothing_ends() {
    let executor = Executor::builder(Limiter::fixed(2)).build();
    let all = executor.run_all(Vec::<u64>::new(), |number| async move { Ok::<_, Infallible>(number) }).await;
    assert!(all.is_empty());
}
