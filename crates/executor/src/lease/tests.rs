//! Leases: fair, never more than the limit, and gone with their holder.

use super::*;
use crate::{Call, Limiter, Retryable};
use std::convert::Infallible;
use tokio_util::sync::CancellationToken;

const VALID: Duration = Duration::from_secs(2);

fn authority(limit: usize) -> Authority {
    let settings = AdaptiveSettings { initial: limit, maximum: limit, ..AdaptiveSettings::default() };
    Authority::new(settings, VALID)
}

fn needs(waiting: usize) -> Report {
    Report { waiting, ..Report::default() }
}

#[tokio::test(start_paused = true)]
async fn shares_are_fair_by_need_and_never_exceed_the_limit() {
    let mut authority = authority(12);
    let now = Instant::now();
    assert_eq!(authority.renew(1, &needs(100), now).concurrency, 12);
    assert_eq!(authority.renew(2, &needs(100), now).concurrency, 0, "all of it is leased out");
    assert_eq!(authority.renew(1, &needs(100), now).concurrency, 6);
    assert_eq!(authority.renew(2, &needs(100), now).concurrency, 6);
    assert_eq!(authority.renew(3, &needs(2), now).concurrency, 0);
    assert_eq!(authority.renew(1, &needs(100), now).concurrency, 4, "two are kept for the third, the second has six");
    assert_eq!(authority.renew(2, &needs(100), now).concurrency, 5);
    assert_eq!(authority.renew(3, &needs(2), now).concurrency, 2);
    assert_eq!(authority.renew(1, &needs(100), now).concurrency, 5);
}

#[tokio::test(start_paused = true)]
async fn nobody_goes_without_while_another_has_two() {
    let mut authority = authority(4);
    let now = Instant::now();
    let mut shares = [0; 3];
    for _ in 0..3 {
        for (process, share) in shares.iter_mut().enumerate() {
            *share = authority.renew(process as u64, &needs(50), now).concurrency;
        }
    }
    assert_eq!((shares.iter().sum::<usize>(), shares.iter().min()), (4, Some(&1)), "{shares:?}");
}

#[tokio::test(start_paused = true)]
async fn the_share_of_a_process_that_died_is_free_when_its_lease_has_run_out() {
    let mut authority = authority(8);
    let start = Instant::now();
    assert_eq!(authority.renew(1, &needs(50), start).concurrency, 8);
    assert_eq!(authority.renew(2, &needs(50), start + VALID / 2).concurrency, 0);
    assert_eq!(authority.renew(2, &needs(50), start + VALID).concurrency, 8);
    authority.leave(2);
    assert_eq!(authority.renew(3, &needs(50), start + VALID).concurrency, 8);
}

#[tokio::test(start_paused = true)]
async fn rates_are_divided_like_places() {
    let settings =
        AdaptiveSettings { initial: 10, maximum: 10, requests_per_minute: Some(600.0), ..AdaptiveSettings::default() };
    let mut authority = Authority::new(settings, VALID);
    let now = Instant::now();
    authority.renew(1, &needs(5), now);
    let second = authority.renew(2, &needs(50), now);
    let first = authority.renew(1, &needs(5), now);
    let total = first.requests_per_minute.unwrap() + second.requests_per_minute.unwrap();
    assert!(total <= 600.0 + 1e-9 && first.requests_per_minute.unwrap() > 0.0, "{first:?} {second:?}");
}

#[tokio::test(start_paused = true)]
async fn without_a_valid_lease_nothing_starts() {
    let leased = Arc::new(Leased::new(4));
    let limiter = Limiter::new(leased.clone());
    let cancel = CancellationToken::new();
    let call = || limiter.call(Call::default(), &cancel, || std::future::ready(Ok::<_, Infallible>(())));
    assert!(tokio::time::timeout(Duration::from_secs(60), call()).await.is_err());
    let lease = Lease { concurrency: 2, requests_per_minute: None, tokens_per_minute: None, valid: VALID };
    leased.hold(&lease);
    assert!(call().await.is_ok());
    tokio::time::sleep(VALID).await;
    assert!(tokio::time::timeout(Duration::from_secs(60), call()).await.is_err(), "it has run out");
    let (waiting, ()) = tokio::join!(call(), async { leased.hold(&lease) });
    assert!(waiting.is_ok(), "a lease wakes those who wait");
    assert_eq!(leased.report(0, 0).outcomes.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_lease_whose_last_place_was_refused_says_so_until_the_next() {
    let leased = Arc::new(Leased::new(8));
    let lease = Lease { concurrency: 1, requests_per_minute: None, tokens_per_minute: None, valid: VALID };
    leased.hold(&lease);
    assert!(!leased.is_refused());
    let limiter = Limiter::new(leased.clone());
    let cancel = CancellationToken::new();
    let call = limiter.call(Call::default(), &cancel, || std::future::ready(Err::<(), _>(Refused)));
    assert!(tokio::time::timeout(VALID / 2, call).await.is_err(), "it is tried again with the next lease");
    assert_eq!((leased.target(), leased.is_refused()), (0, true));
    assert_eq!(leased.report(0, 1).outcomes.len(), 1, "and not before");
    leased.hold(&lease);
    assert_eq!((leased.target(), leased.is_refused()), (1, false));
}

#[derive(Debug, thiserror::Error)]
#[error("refused")]
struct Refused;

impl Retryable for Refused {
    fn class(&self) -> crate::ErrorClass {
        crate::ErrorClass::RateLimited
    }
}

/// Three processes with 200 calls each of 0.3 s against a limit that nobody
/// told, telling of themselves this often: the share of the optimum, and the
/// refusals.
async fn shared(limit: usize, often: Duration) -> (f64, usize) {
    let authority = Arc::new(Mutex::new(Authority::new(AdaptiveSettings::default(), VALID)));
    let in_flight = Arc::new(AtomicUsize::new(0));
    let refused = Arc::new(AtomicUsize::new(0));
    let process = |number: u64| {
        let (authority, in_flight, refused) = (authority.clone(), in_flight.clone(), refused.clone());
        async move {
            let leased = Arc::new(Leased::new(64));
            let limiter = Limiter::new(leased.clone());
            let cancel = CancellationToken::new();
            let calls = futures::future::join_all((0..200).map(|_| {
                limiter.call(0, &cancel, || {
                    let (in_flight, refused) = (in_flight.clone(), refused.clone());
                    async move {
                        let accepted = in_flight.fetch_add(1, Ordering::SeqCst) < limit;
                        let seconds = if accepted { 0.3 } else { 0.002 };
                        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
                        in_flight.fetch_sub(1, Ordering::SeqCst);
                        refused.fetch_add(usize::from(!accepted), Ordering::SeqCst);
                        if accepted { Ok(()) } else { Err(Refused) }
                    }
                })
            }));
            let renewing = async {
                // Not all at the same moment.
                tokio::time::sleep(often * number as u32 / 3).await;
                loop {
                    let status = limiter.status();
                    let report = leased.report(status.in_flight, status.waiting);
                    leased.hold(&authority.lock().unwrap().renew(number, &report, Instant::now()));
                    tokio::time::sleep(often).await;
                }
            };
            tokio::select! {
                biased;
                done = calls => {
                    authority.lock().unwrap().leave(number);
                    done.into_iter().filter(Result::is_ok).count()
                }
                () = renewing => 0,
            }
        }
    };
    let started = Instant::now();
    let done = futures::join!(process(1), process(2), process(3));
    assert_eq!(done, (200, 200, 200));
    let optimum = 600.0 * 0.3 / limit as f64;
    (optimum / started.elapsed().as_secs_f64(), refused.load(Ordering::SeqCst))
}

#[tokio::test(start_paused = true)]
async fn three_processes_find_and_share_a_limit_that_nobody_told() {
    for (limit, often) in [(12, 100), (12, 300), (12, 900), (4, 100), (4, 300), (4, 900), (30, 300)] {
        let (share, refused) = shared(limit, Duration::from_millis(often)).await;
        println!("limit {limit}, told every {often} ms: {share:.2} of the optimum, {refused} of 600 refused");
        assert!(share > 0.7 && refused < 60, "limit {limit}, {often} ms: {share:.2} of the optimum, {refused} refused");
    }
}
