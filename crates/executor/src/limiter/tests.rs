//! Calls through a limiter, on tokio's paused clock where time matters.

use super::*;
use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

#[derive(Debug, Clone, PartialEq)]
struct Fault(ErrorClass, Option<Duration>);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl std::error::Error for Fault {}

impl Retryable for Fault {
    fn class(&self) -> ErrorClass {
        self.0
    }
    fn retry_after(&self) -> Option<Duration> {
        self.1
    }
}

/// Calls in flight, calls waiting, and the target.
fn places(limiter: &Limiter) -> (usize, usize, usize) {
    let status = limiter.status();
    (status.in_flight, status.waiting, status.target)
}

/// Counts how often a task is tried.
fn counted<F>(count: &AtomicU32, mut task: impl FnMut() -> F) -> impl FnMut() -> F {
    move || {
        count.fetch_add(1, Ordering::SeqCst);
        task()
    }
}

const TRANSIENT: Fault = Fault(ErrorClass::Transient, None);

/// A task that fails with each of these in turn, then succeeds.
fn failing(faults: &[Fault]) -> impl FnMut() -> std::future::Ready<Result<u32, Fault>> + use<> {
    let mut faults: VecDeque<Fault> = faults.iter().cloned().collect();
    move || std::future::ready(faults.pop_front().map_or(Ok(7), Err))
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured_to_the_millisecond() {
    let limiter = Limiter::fixed(1);
    let wishes = [7_001, 250].map(|ms| Fault(ErrorClass::RateLimited, Some(Duration::from_millis(ms))));
    let started = Instant::now();
    let attempts = AtomicU32::new(0);
    assert_eq!(limiter.call(0, &CancellationToken::new(), counted(&attempts, failing(&wishes))).await, Ok(7));
    assert_eq!(started.elapsed(), Duration::from_millis(7_251));
    assert_eq!(attempts.into_inner(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_backs_off_holds_no_slot() {
    let limiter = Limiter::fixed(1);
    let cancel = CancellationToken::new();
    let limited = Fault(ErrorClass::RateLimited, Some(Duration::from_secs(60)));
    let task = failing(&[limited]);
    let slow = limiter.call(0, &cancel, task);
    let quick = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(places(&limiter), (0, 0, 1));
        let output = limiter.call(0, &cancel, failing(&[])).await;
        (output, Instant::now())
    };
    let started = Instant::now();
    let (slow, (quick, quick_end)) = tokio::join!(slow, quick);
    assert_eq!((slow, quick), (Ok(7), Ok(7)));
    assert_eq!(quick_end - started, Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_hangs_is_dropped_and_tried_again() {
    let limiter = Limiter::fixed(1).with_attempt_timeout(Duration::from_secs(3));
    let attempts = AtomicU32::new(0);
    let task = || async {
        if attempts.fetch_add(1, Ordering::SeqCst) < 2 {
            std::future::pending::<()>().await;
        }
        Ok::<_, Fault>(())
    };
    assert_eq!(limiter.call(0, &CancellationToken::new(), task).await, Ok(()));
    assert_eq!((attempts.into_inner(), limiter.status().timed_out), (3, 2));

    let limiter = limiter.with_retry(RetryPolicy::never());
    let hanging = || std::future::pending::<Result<(), Fault>>();
    let output = limiter.call(0, &CancellationToken::new(), hanging).await;
    assert_eq!(output, Err(Error::TimedOut { after: Duration::from_secs(3) }));
}

#[tokio::test(start_paused = true)]
async fn attempts_are_counted_and_the_last_error_is_the_result() {
    let limiter = Limiter::fixed(1).with_retry(RetryPolicy { max_attempts: 3, ..RetryPolicy::default() });
    let (cancel, attempts) = (CancellationToken::new(), AtomicU32::new(0));
    let fourth = Fault(ErrorClass::Permanent, None);
    let task = counted(&attempts, failing(&[TRANSIENT, TRANSIENT, TRANSIENT, fourth]));
    assert_eq!(limiter.call(0, &cancel, task).await, Err(Error::Failed(TRANSIENT)));
    assert_eq!(attempts.into_inner(), 3);

    for class in [ErrorClass::Permanent, ErrorClass::Budget] {
        let fault = Fault(class, None);
        let attempts = AtomicU32::new(0);
        let task = counted(&attempts, failing(std::slice::from_ref(&fault)));
        assert_eq!(limiter.call(0, &cancel, task).await, Err(Error::Failed(fault)));
        assert_eq!(attempts.into_inner(), 1);
    }
}

#[tokio::test]
async fn a_panic_is_an_error_and_frees_its_slot() {
    let limiter = Limiter::fixed(1);
    let cancel = CancellationToken::new();
    // Once while the future is made, and once while it runs.
    let early = || -> std::future::Ready<Result<(), Fault>> { std::panic::panic_any("early") };
    let late = || async { std::panic::panic_any::<Result<(), Fault>>(Ok(())) };
    let panicked = |message: &str| Err(Error::Panicked { message: message.to_owned() });
    assert_eq!(limiter.call(0, &cancel, early).await, panicked("early"));
    assert_eq!(limiter.call::<(), Fault, _, _>(0, &cancel, || async { late().await }).await, panicked("(no message)"));
    assert_eq!(limiter.call(0, &cancel, failing(&[])).await, Ok(7));
    assert_eq!(limiter.status().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_ends_waiting_running_and_backing_off() {
    let limiter = Limiter::fixed(1);
    let cancel = CancellationToken::new();
    let hour = Fault(ErrorClass::RateLimited, Some(Duration::from_secs(300)));
    let task = failing(&[hour]);
    let backing_off = limiter.call(1, &cancel, task);
    let running = limiter.call(0, &cancel, std::future::pending::<Result<u32, Fault>>);
    let waiting = limiter.call(0, &cancel, failing(&[]));
    let canceller = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(places(&limiter), (1, 1, 1));
        cancel.cancel();
    };
    let started = Instant::now();
    let outputs = tokio::join!(backing_off, running, waiting, canceller);
    assert_eq!(outputs, (Err(Error::Cancelled), Err(Error::Cancelled), Err(Error::Cancelled), ()));
    assert_eq!(started.elapsed(), Duration::from_secs(1));
    assert_eq!(places(&limiter), (0, 0, 1));
    assert_eq!(limiter.call(0, &cancel, failing(&[])).await, Err(Error::Cancelled), "and nothing starts after it");
}

#[derive(Debug, Default)]
struct Recorder(Mutex<Vec<Outcome>>);

impl Controller for Recorder {
    fn target(&self) -> usize {
        1
    }
    fn maximum(&self) -> usize {
        1
    }
    fn record(&self, outcome: &Outcome) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(*outcome);
    }
}

#[tokio::test(start_paused = true)]
async fn the_controller_hears_of_every_attempt() {
    let recorder = Arc::new(Recorder::default());
    let retry = RetryPolicy { max_attempts: 2, ..RetryPolicy::default() };
    let limiter = Limiter::new(recorder.clone()).with_retry(retry);
    let wish = Some(Duration::from_secs(2));
    let limited = Fault(ErrorClass::RateLimited, wish);
    let cancel = CancellationToken::new();
    let _ = limiter.call(0, &cancel, failing(std::slice::from_ref(&limited))).await;
    let _ = limiter.call(0, &cancel, failing(&[TRANSIENT, TRANSIENT])).await;
    let heard: Vec<_> = recorder
        .0
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .iter()
        .map(|outcome| (outcome.kind, outcome.retry_after, outcome.will_retry))
        .collect();
    let transient = OutcomeKind::Failed(ErrorClass::Transient);
    assert_eq!(
        heard,
        [
            (OutcomeKind::Failed(ErrorClass::RateLimited), wish, true),
            (OutcomeKind::Completed, None, false),
            (transient, None, true),
            (transient, None, false),
        ]
    );
}

const DAY: Duration = Duration::from_secs(86_400);

fn limited(wish: Option<Duration>) -> Fault {
    Fault(ErrorClass::RateLimited, wish)
}

#[tokio::test(start_paused = true)]
async fn a_refusal_costs_no_attempt_while_anything_gets_through() {
    let limiter = Limiter::fixed(2).with_retry(RetryPolicy { max_attempts: 2, ..RetryPolicy::default() });
    let cancel = CancellationToken::new();
    let refused = vec![limited(Some(Duration::from_secs(20))); 100];
    let attempts = AtomicU32::new(0);
    let unlucky = limiter.call(0, &cancel, counted(&attempts, failing(&refused)));
    let others = async {
        for _ in 0..2000 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(limiter.call(0, &cancel, failing(&[])).await, Ok(7));
        }
    };
    let (output, ()) = tokio::join!(unlucky, others);
    assert_eq!((output, attempts.into_inner()), (Ok(7), 101));
    // A failure is another matter, before and after a refusal.
    let mixed = [TRANSIENT, limited(None), TRANSIENT];
    assert_eq!(limiter.call(0, &cancel, failing(&mixed)).await, Err(Error::Failed(TRANSIENT)));
}

#[tokio::test(start_paused = true)]
async fn a_wait_of_a_day_sends_the_call_to_the_end_of_the_line() {
    let limiter = Limiter::fixed(1);
    let cancel = CancellationToken::new();
    let order = Mutex::new(Vec::new());
    let call = |name: &'static str, faults: &[Fault]| {
        let (limiter, cancel, order, mut task) = (&limiter, &cancel, &order, failing(faults));
        async move {
            let slow = || {
                let result = task();
                async move {
                    tokio::time::sleep(Duration::from_secs(2)).await;
                    result.await
                }
            };
            let output = limiter.call(0, cancel, slow).await;
            order.lock().unwrap_or_else(PoisonError::into_inner).push(name);
            output
        }
    };
    let started = Instant::now();
    let sent_away = call("a day", &[limited(Some(DAY))]);
    let asked_to_wait = call("a second", &[limited(Some(Duration::from_secs(1)))]);
    let [first, second, third, fourth] = ["1", "2", "3", "4"].map(|name| call(name, &[]));
    let outputs = tokio::join!(sent_away, asked_to_wait, first, second, third, fourth);
    assert_eq!(outputs, (Ok(7), Ok(7), Ok(7), Ok(7), Ok(7), Ok(7)));
    let order = order.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(order, ["1", "a second", "2", "3", "4", "a day"]);
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn calls_are_given_up_when_nothing_gets_through_and_all_at_once() {
    let patience = Duration::from_secs(60);
    for wish in [None, Some(Duration::from_secs(7)), Some(DAY), Some(Duration::MAX)] {
        let limiter = Limiter::fixed(2).with_retry(RetryPolicy { max_refused: patience, ..RetryPolicy::default() });
        let cancel = CancellationToken::new();
        let attempts = AtomicU32::new(0);
        let refused = || {
            attempts.fetch_add(1, Ordering::SeqCst);
            async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Err::<u32, _>(limited(wish))
            }
        };
        let started = Instant::now();
        let calls = (0..5000).map(|_| limiter.call(0, &cancel, refused));
        let outputs = futures::future::join_all(calls).await;
        let stalled = Error::Stalled { after: patience, last: "RateLimited".to_owned() };
        assert!(outputs.iter().all(|output| *output == Err(stalled.clone())), "{wish:?}");
        let took = started.elapsed();
        assert!((patience..patience + Duration::from_secs(20)).contains(&took), "{wish:?}: {took:?}");
        let n_attempts = attempts.load(Ordering::SeqCst);
        assert!(n_attempts < 200, "{wish:?}: {n_attempts} attempts, though nothing got through");
        assert_eq!(places(&limiter), (0, 0, 2));
        // What comes later is another matter, and is not given up at once.
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert_eq!(limiter.call(0, &cancel, failing(&vec![limited(wish); 3])).await, Ok(7));
    }
}

#[tokio::test(start_paused = true)]
async fn one_call_an_hour_is_enough_to_wait_for() {
    let patience = Duration::from_secs(3700);
    let limiter = Limiter::fixed(64).with_retry(RetryPolicy { max_refused: patience, ..RetryPolicy::default() });
    let cancel = CancellationToken::new();
    let next = Mutex::new(Instant::now());
    let hourly = || async {
        let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
        if *next <= Instant::now() {
            *next = Instant::now() + Duration::from_secs(3600);
            return Ok(());
        }
        Err(limited(Some(DAY)))
    };
    let outputs = futures::future::join_all((0..20).map(|_| limiter.call(0, &cancel, hourly))).await;
    assert!(outputs.iter().all(Result::is_ok), "{outputs:?}");
}

#[derive(Debug, Clone, PartialEq)]
struct Late;

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("late")
    }
}

impl Retryable for Late {
    fn class(&self) -> ErrorClass {
        ErrorClass::Transient
    }
    fn is_timeout(&self) -> bool {
        true
    }
}

#[tokio::test(start_paused = true)]
async fn three_time_outs_of_a_task_s_own_halve_the_concurrency() {
    let limiter = Limiter::new(Arc::new(crate::AdaptiveController::new(crate::AdaptiveSettings::default())))
        .with_retry(RetryPolicy::never());
    let cancel = CancellationToken::new();
    for _ in 0..8 {
        assert_eq!(limiter.call(0, &cancel, failing(&[])).await, Ok(7));
    }
    let before = limiter.status().target;
    for _ in 0..3 {
        let late = || std::future::ready(Err::<(), _>(Late));
        assert_eq!(limiter.call(0, &cancel, late).await, Err(Error::Failed(Late)));
    }
    assert_eq!((limiter.status().target, limiter.status().timed_out), (before / 2, 3));
}

/// Unrelated numbers from neighbouring ones.
fn draw(number: u64) -> u64 {
    let mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40
}

#[tokio::test(start_paused = true)]
async fn six_hundred_calls_with_random_failures_all_complete_once() {
    let limiter = Limiter::fixed(20).with_retry(RetryPolicy { max_attempts: 50, ..RetryPolicy::default() });
    let (cancel, failed, completed) = (CancellationToken::new(), AtomicU32::new(0), AtomicU32::new(0));
    let call = |number: u64| {
        let (limiter, cancel, failed, completed) = (&limiter, &cancel, &failed, &completed);
        let mut attempt = 0;
        let task = move || {
            attempt += 1;
            let luck = draw(number * 100 + attempt);
            async move {
                tokio::time::sleep(Duration::from_millis(luck % 300)).await;
                // Three of ten attempts fail, each for a passing reason.
                let class = match luck % 10 {
                    0 => ErrorClass::RateLimited,
                    1 => ErrorClass::Overloaded,
                    2 => ErrorClass::Transient,
                    _ => {
                        completed.fetch_add(1, Ordering::SeqCst);
                        return Ok(number * 2);
                    }
                };
                failed.fetch_add(1, Ordering::SeqCst);
                Err(Fault(class, None))
            }
        };
        limiter.call(0, cancel, task)
    };
    let outputs = futures::future::join_all((0..600).map(call)).await;
    assert!(outputs.into_iter().enumerate().all(|(number, output)| output == Ok(number as u64 * 2)));
    let (status, failed) = (limiter.status(), u64::from(failed.into_inner()));
    assert_eq!((completed.into_inner(), status.completed, status.failed + status.refused), (600, 600, failed));
    assert!(failed > 100, "only {failed} attempts failed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_limit_is_never_exceeded_by_calls_on_many_threads() {
    let limiter = Limiter::fixed(5).with_retry(RetryPolicy::never());
    let (running, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let mut callers = tokio::task::JoinSet::new();
    for number in 0..3000 {
        let (limiter, running, most) = (limiter.clone(), running.clone(), most.clone());
        callers.spawn(async move {
            let task = || async {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                for _ in 0..draw(number) % 5 {
                    tokio::task::yield_now().await;
                }
                running.fetch_sub(1, Ordering::SeqCst);
                if number % 10 == 3 { Err(TRANSIENT) } else { Ok(()) }
            };
            limiter.call(0, &CancellationToken::new(), task).await.is_ok()
        });
    }
    let completed = callers.join_all().await.into_iter().filter(|completed| *completed).count();
    assert_eq!(completed, 2700);
    assert!((1..=5).contains(&most.load(Ordering::SeqCst)));
    assert_eq!(places(&limiter), (0, 0, 5));
}
