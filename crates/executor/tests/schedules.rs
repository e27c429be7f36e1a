//! Model checks: many seeded schedules of the same calls. Each step polls,
//! drops, cancels or finishes something at random, on a simulated clock, and
//! after each step the promises of the limiter must hold.

#![expect(clippy::unwrap_used, reason = "a check that cannot go on ends, and says where")]

use executor::{
    AdaptiveController, AdaptiveSettings, Call, Controller, Error, ErrorClass, Limiter, Outcome, RetryPolicy, Retryable,
};
use std::{
    collections::{BTreeSet, VecDeque},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Unrelated numbers, repeatable from a seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
}

#[derive(Debug)]
struct Fault(ErrorClass);

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl Retryable for Fault {
    fn class(&self) -> ErrorClass {
        self.0
    }
}

/// A target that changes at random, and times in which nothing may start.
#[derive(Default)]
struct Moody {
    target: AtomicUsize,
    closed_until: Mutex<Option<Instant>>,
    listener: Mutex<Option<Arc<dyn Fn() + Send + Sync>>>,
}

impl std::fmt::Debug for Moody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Moody")
    }
}

impl Controller for Moody {
    fn target(&self) -> usize {
        self.target.load(Ordering::SeqCst)
    }
    fn maximum(&self) -> usize {
        16
    }
    fn record(&self, _: &Outcome) {}
    fn admit(&self, _: u64, now: Instant) -> Result<(), Instant> {
        match *self.closed_until.lock().unwrap() {
            Some(until) if until > now => Err(until),
            _ => Ok(()),
        }
    }
    fn on_change(&self, listener: Arc<dyn Fn() + Send + Sync>) {
        *self.listener.lock().unwrap() = Some(listener);
    }
}

/// What tasks do, and what is known of them.
#[derive(Default)]
struct World {
    running: AtomicUsize,
    /// Attempts that wait for a sign to end.
    open: Mutex<VecDeque<tokio::sync::oneshot::Sender<Result<(), Fault>>>>,
    finished: Mutex<BTreeSet<usize>>,
}

/// Counts an attempt as running for as long as it lives.
struct Running(Arc<World>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn attempt(world: Arc<World>) -> Result<(), Fault> {
    world.running.fetch_add(1, Ordering::SeqCst);
    let running = Running(world);
    let (sender, receiver) = tokio::sync::oneshot::channel();
    running.0.open.lock().unwrap().push_back(sender);
    receiver.await.unwrap_or(Err(Fault(ErrorClass::Transient)))
}

type Task = Pin<Box<dyn Future<Output = (usize, Result<(), Error<Fault>>)>>>;

async fn schedule(seed: u64, max_refused: Duration) -> usize {
    let mut dice = Dice(seed);
    let moody = Arc::new(Moody::default());
    moody.target.store(1 + dice.roll(4) as usize, Ordering::SeqCst);
    let retry = RetryPolicy { max_attempts: 4, seed, max_refused, ..RetryPolicy::default() };
    let limiter = Limiter::new(moody.clone()).with_retry(retry);
    let world = Arc::new(World::default());
    let cancels: Vec<CancellationToken> = (0..24).map(|_| CancellationToken::new()).collect();
    let mut tasks: Vec<Task> = Vec::new();
    for (number, cancel) in cancels.iter().enumerate() {
        let (limiter, world, cancel) = (limiter.clone(), world.clone(), cancel.clone());
        let call = Call::from(dice.roll(3) as i32).with_group(dice.roll(3));
        tasks.push(Box::pin(async move {
            let result = limiter.call(call, &cancel, || attempt(world.clone())).await;
            (number, result)
        }));
    }
    let (mut given_up, mut stalled, mut cx) = (0, 0, Context::from_waker(Waker::noop()));
    let mut highest = moody.target();
    for step in 0.. {
        assert!(step < 100_000, "seed {seed}: {} calls are stuck", tasks.len());
        if tasks.is_empty() {
            break;
        }
        // At the end nothing is in the way any more.
        let ending = step > 600;
        match dice.roll(if ending { 34 } else { 40 }) {
            0..16 => {
                let chosen = dice.roll(tasks.len() as u64) as usize;
                if let Poll::Ready((number, result)) = tasks[chosen].as_mut().poll(&mut cx) {
                    assert!(world.finished.lock().unwrap().insert(number), "seed {seed}: {number} ended twice");
                    match result {
                        Err(Error::Cancelled) => assert!(cancels[number].is_cancelled(), "seed {seed}"),
                        Ok(()) | Err(Error::Failed(_)) => {}
                        Err(Error::Stalled { .. }) => stalled += 1,
                        Err(other) => unreachable!("seed {seed}: {other}"),
                    }
                    drop(tasks.swap_remove(chosen));
                }
            }
            16..28 => {
                let sender = world.open.lock().unwrap().pop_front();
                let result = match dice.roll(5) {
                    0 if !ending => Err(Fault(ErrorClass::RateLimited)),
                    1 => Err(Fault(ErrorClass::Permanent)),
                    _ => Ok(()),
                };
                let _ = sender.map(|sender| sender.send(result));
            }
            28..34 => {
                tokio::time::advance(Duration::from_millis(dice.roll(4000))).await;
                tokio::task::yield_now().await;
            }
            34..36 => {
                moody.target.store(dice.roll(6) as usize, Ordering::SeqCst);
                highest = highest.max(moody.target());
                let listener = moody.listener.lock().unwrap().clone();
                listener.iter().for_each(|listener| listener());
            }
            36..38 => {
                let until = Instant::now() + Duration::from_millis(dice.roll(3000));
                *moody.closed_until.lock().unwrap() = Some(until);
            }
            38 => cancels[dice.roll(24) as usize].cancel(),
            _ => {
                // Whoever waits, runs or backs off gives up without a word.
                drop(tasks.swap_remove(dice.roll(tasks.len() as u64) as usize));
                given_up += 1;
            }
        }
        let (running, in_flight) = (world.running.load(Ordering::SeqCst), limiter.status().in_flight);
        assert!(running <= in_flight, "seed {seed}: {running} attempts run in {in_flight} slots");
        assert!(in_flight <= highest.max(1), "seed {seed}: {in_flight} in flight of at most {highest}");
    }
    assert_eq!(world.finished.lock().unwrap().len() + given_up, 24, "seed {seed}: a call is lost");
    let status = limiter.status();
    assert_eq!((status.in_flight, status.waiting), (0, 0), "seed {seed}: slots leak");
    stalled
}

#[tokio::test(start_paused = true)]
async fn no_schedule_loses_a_call_or_leaks_a_slot() {
    for seed in 0..2000 {
        schedule(seed, RetryPolicy::default().max_refused).await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_schedule_loses_a_call_or_leaks_a_slot_where_waiting_is_given_up() {
    let mut stalled = 0;
    for seed in 0..1000 {
        stalled += schedule(seed, Duration::from_secs(2)).await;
    }
    assert!(stalled > 100, "only {stalled} calls were given up");
}

#[tokio::test(start_paused = true)]
async fn groups_take_turns_however_many_calls_they_have() {
    let limiter = Limiter::fixed(1);
    let (cancel, order) = (CancellationToken::new(), Mutex::new(Vec::new()));
    let call = |group: u64| {
        let (limiter, cancel, order) = (&limiter, &cancel, &order);
        async move {
            let task = || async {
                order.lock().unwrap().push(group);
                tokio::time::sleep(Duration::from_millis(10)).await;
                Ok::<_, Fault>(())
            };
            limiter.call(Call::default().with_group(group), cancel, task).await.unwrap();
        }
    };
    let many = futures::future::join_all((0..8).map(|_| call(1)));
    let few = futures::future::join_all((0..2).map(|_| call(2)));
    futures::join!(many, few);
    let order = order.into_inner().unwrap();
    assert!(order[..5].iter().filter(|group| **group == 2).count() == 2, "{order:?}");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_waiting_running_and_backing_off() {
    let limiter = Limiter::new(Arc::new(AdaptiveController::new(AdaptiveSettings::default())));
    let cancel = CancellationToken::new();
    let started = Instant::now();
    let call = Call::default().with_deadline(started + Duration::from_secs(2));
    let hanging = limiter.call(call, &cancel, std::future::pending::<Result<(), Fault>>).await;
    assert!(matches!(hanging, Err(Error::DeadlineExceeded { last: None })), "{hanging:?}");
    assert_eq!(started.elapsed(), Duration::from_secs(2));
    let failing = || std::future::ready(Err::<(), _>(Fault(ErrorClass::Transient)));
    let call = Call::default().with_deadline(Instant::now() + Duration::from_secs(1));
    let result = limiter.call(call, &cancel, failing).await;
    assert!(matches!(result, Err(Error::Failed(_))), "{result:?}");
    assert!(started.elapsed() < Duration::from_secs(3) && limiter.status().failed > 0);
    assert_eq!(limiter.status().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn a_late_attempt_gets_a_second_one_within_the_bound() {
    let hedge = executor::Hedge { extra_share: 0.1, factor: 2.0 };
    let limiter = Limiter::fixed(4).with_hedge(hedge);
    let cancel = CancellationToken::new();
    let attempts = AtomicUsize::new(0);
    for number in 0..100 {
        let first = AtomicUsize::new(0);
        let task = || {
            attempts.fetch_add(1, Ordering::SeqCst);
            let hangs = number >= 50 && number % 10 == 0 && first.fetch_add(1, Ordering::SeqCst) == 0;
            async move {
                let seconds = if hangs { 3600 } else { 1 };
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                Ok::<_, Fault>(())
            }
        };
        let started = Instant::now();
        limiter.call(0, &cancel, task).await.unwrap();
        assert!(started.elapsed() <= Duration::from_secs(3), "{number}: {:?}", started.elapsed());
    }
    assert_eq!((attempts.load(Ordering::SeqCst), limiter.status().hedged), (105, 5));
}

#[tokio::test(start_paused = true)]
async fn a_line_held_back_again_and_again_is_looked_at_each_time() {
    let moody = Arc::new(Moody::default());
    moody.target.store(2, Ordering::SeqCst);
    let (limiter, cancel) = (Limiter::new(moody.clone()), CancellationToken::new());
    for round in 1..=3 {
        let opens = Instant::now() + Duration::from_millis(700 * round);
        *moody.closed_until.lock().unwrap() = Some(opens);
        let done = || std::future::ready(Ok::<_, Fault>(Instant::now()));
        let waiting = limiter.call(0, &cancel, done);
        let at = tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap().unwrap();
        assert_eq!(at, opens);
    }
}
