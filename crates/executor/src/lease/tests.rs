//! Leases: fair, never more than the limit, and gone with their holder.

use super::*;
use crate::{Call, Limiter, Retryable};
use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

const VALID: Duration = Duration::from_secs(2);

fn authority(limit: usize) -> Authority {
    let settings = AdaptiveSettings { initial: limit, maximum: limit, ..AdaptiveSettings::default() };
    Authority::new(settings, VALID)
}

fn needs(waiting: usize) -> LeaseReport {
    LeaseReport { waiting, ..LeaseReport::default() }
}

#[tokio::test(start_paused = true)]
async fn shares_are_fair_by_need_and_never_exceed_the_limit() {
    let mut authority = authority(12);
    let now = Instant::now();
    assert_eq!(authority.renew(1, &needs(100), now).concurrency, 12);
    assert_eq!(authority.renew(2, &needs(100), now).concurrency, 0, "all of it is holder out");
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
    let holder = Arc::new(Leaseholder::new(4));
    let limiter = Limiter::new(holder.clone());
    let cancel = CancellationToken::new();
    let call = || limiter.call(Call::default(), &cancel, || std::future::ready(Ok::<_, Infallible>(())));
    assert!(tokio::time::timeout(Duration::from_secs(60), call()).await.is_err());
    let lease = Lease { concurrency: 2, requests_per_minute: None, tokens_per_minute: None, valid: VALID };
    holder.hold(&lease);
    assert!(call().await.is_ok());
    sleep(VALID).await;
    assert!(tokio::time::timeout(Duration::from_secs(60), call()).await.is_err(), "it has run out");
    let (waiting, ()) = tokio::join!(call(), async { holder.hold(&lease) });
    assert!(waiting.is_ok(), "a lease wakes those who wait");
    assert_eq!(holder.report(0, 0).outcomes.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_lease_whose_last_place_was_refused_says_so_until_the_next() {
    let holder = Arc::new(Leaseholder::new(8));
    let lease = Lease { concurrency: 1, requests_per_minute: None, tokens_per_minute: None, valid: VALID };
    holder.hold(&lease);
    assert!(!holder.is_refused());
    let limiter = Limiter::new(holder.clone());
    let cancel = CancellationToken::new();
    let call = limiter.call(Call::default(), &cancel, || std::future::ready(Err::<(), _>(Refused)));
    assert!(tokio::time::timeout(VALID / 2, call).await.is_err(), "it is tried again with the next lease");
    assert_eq!((holder.target(), holder.is_refused()), (0, true));
    assert_eq!(holder.report(0, 1).outcomes.len(), 1, "and not before");
    holder.hold(&lease);
    assert_eq!((holder.target(), holder.is_refused()), (1, false));
}

fn per_minute(requests: f64) -> AdaptiveSettings {
    let requests_per_minute = Some(requests);
    AdaptiveSettings { initial: 8, maximum: 64, requests_per_minute, ..AdaptiveSettings::default() }
}

/// The calls per minute that a process gets which needs all there is.
fn rate(authorities: &mut Authorities, process: u64, requests: f64) -> f64 {
    let when = (Instant::now(), VALID);
    let lease = authorities.renew("gpt", (process, per_minute(requests)), &needs(1000), when);
    lease.requests_per_minute.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_is_raised_reaches_a_living_cluster() {
    let mut authorities = Authorities::default();
    assert_eq!(rate(&mut authorities, 1, 60.0).round(), 60.0);
    // The run with the lower limit is over, and the next begins at once.
    sleep(VALID).await;
    assert_eq!(rate(&mut authorities, 2, 600.0).round(), 600.0);
    // And down again.
    sleep(VALID).await;
    assert_eq!(rate(&mut authorities, 3, 30.0).round(), 30.0);
}

#[tokio::test(start_paused = true)]
async fn while_another_process_holds_the_lower_limit_that_one_holds() {
    let mut authorities = Authorities::default();
    rate(&mut authorities, 1, 60.0);
    let both = |authorities: &mut Authorities| rate(authorities, 1, 60.0) + rate(authorities, 2, 600.0);
    for _ in 0..10 {
        sleep(VALID / 2).await;
        let sum = both(&mut authorities);
        assert!(sum <= 60.0 + 1e-6, "{sum}");
    }
    // The first process ends: its statement goes with its lease.
    sleep(VALID).await;
    assert_eq!(rate(&mut authorities, 2, 600.0).round(), 600.0);
}

#[tokio::test(start_paused = true)]
async fn a_maximum_that_is_raised_holds_before_and_after_the_first_answer() {
    let with = |maximum: usize| AdaptiveSettings { initial: maximum, maximum, ..AdaptiveSettings::default() };
    let mut authority = Authority::new(with(4), VALID);
    let mut granted = |maximum: usize, report: LeaseReport| {
        let now = Instant::now();
        authority.declare_for(1, with(maximum), now);
        authority.renew(1, &report, now).concurrency
    };
    assert_eq!((granted(4, needs(100)), granted(16, needs(100))), (4, 16));
    let completed = Outcome {
        kind: crate::OutcomeKind::Completed,
        latency: Duration::from_millis(10),
        in_flight: 16,
        others: 15,
        cost: 1,
        retry_after: None,
        will_retry: false,
    };
    granted(16, LeaseReport { outcomes: vec![completed], ..needs(100) });
    assert!(granted(2, needs(100)) <= 2);
    assert!(granted(64, needs(100)) > 2, "what was learned is not forgotten");
}

#[tokio::test(start_paused = true)]
async fn an_authority_that_nobody_asks_for_minutes_is_forgotten_with_what_it_learned() {
    let mut authorities = Authorities::default();
    rate(&mut authorities, 1, 60.0);
    assert_eq!(authorities.targets().len(), 1);
    sleep(UNUSED).await;
    let when = (Instant::now(), VALID);
    authorities.renew("other", (1, per_minute(60.0)), &needs(1), when);
    assert_eq!(authorities.targets().keys().collect::<Vec<_>>(), ["other"]);
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
            let holder = Arc::new(Leaseholder::new(64));
            let limiter = Limiter::new(holder.clone());
            let cancel = CancellationToken::new();
            let calls = futures::future::join_all((0..200).map(|_| {
                limiter.call(0, &cancel, || {
                    let (in_flight, refused) = (in_flight.clone(), refused.clone());
                    async move {
                        let accepted = in_flight.fetch_add(1, Ordering::SeqCst) < limit;
                        let seconds = if accepted { 0.3 } else { 0.002 };
                        sleep(Duration::from_secs_f64(seconds)).await;
                        in_flight.fetch_sub(1, Ordering::SeqCst);
                        refused.fetch_add(usize::from(!accepted), Ordering::SeqCst);
                        if accepted { Ok(()) } else { Err(Refused) }
                    }
                })
            }));
            let renewing = async {
                // Not all at the same moment.
                sleep(often * number as u32 / 3).await;
                loop {
                    let status = limiter.status();
                    let report = holder.report(status.in_flight, status.waiting);
                    holder.hold(&authority.lock().unwrap().renew(number, &report, Instant::now()));
                    sleep(often).await;
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

/// The requests of a renewal, and when they were made.
#[derive(Default)]
struct Asked(Mutex<Vec<Instant>>);

impl Asked {
    fn note(&self) -> usize {
        let mut asked = self.0.lock().unwrap();
        asked.push(Instant::now());
        asked.len()
    }

    fn n(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

fn lease_of(concurrency: usize) -> Lease {
    Lease { concurrency, requests_per_minute: None, tokens_per_minute: None, valid: VALID }
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_asked_for_by_the_first_call_at_once_and_renewed_only_while_there_are_calls() {
    let (holder, asked) = (Arc::new(Leaseholder::new(4)), Asked::default());
    let (limiter, cancel) = (Limiter::new(holder.clone()), CancellationToken::new());
    let renewing = holder.renew(&limiter, |_| {
        asked.note();
        std::future::ready(Ok::<_, Infallible>(lease_of(2)))
    });
    let calls = async {
        let call = |seconds| {
            let task = move || async move {
                sleep(Duration::from_secs_f64(seconds)).await;
                Ok::<_, Infallible>(Instant::now())
            };
            limiter.call(0, &cancel, task)
        };
        sleep(Duration::from_secs(60)).await;
        assert_eq!(asked.n(), 0, "without calls nothing is asked");
        for _ in 0..2 {
            let (started, before) = (Instant::now(), asked.n());
            assert_eq!(call(1.0).await.unwrap() - started, Duration::from_secs(1), "it waited for nothing");
            assert_eq!(asked.n() - before, 4, "at once, and every 300 ms");
            sleep(Duration::from_secs(60)).await;
            assert_eq!(asked.n() - before, 4, "and not after it has ended");
        }
    };
    tokio::select! { biased; () = calls => {}, () = renewing => unreachable!() }
}

#[tokio::test(start_paused = true)]
async fn who_was_given_nothing_asks_again_soon_and_who_cannot_ask_later() {
    let (holder, asked) = (Arc::new(Leaseholder::new(4)), Asked::default());
    let (limiter, cancel) = (Limiter::new(holder.clone()), CancellationToken::new());
    let renewing = holder.renew(&limiter, |_| {
        std::future::ready(match asked.note() {
            1 => Err("away"),
            2..=5 => Ok(lease_of(0)),
            _ => Ok(lease_of(1)),
        })
    });
    let call = limiter.call(0, &cancel, || std::future::ready(Ok::<_, Infallible>(Instant::now())));
    let started = Instant::now();
    let made = tokio::select! { biased; made = call => made, () = renewing => unreachable!() };
    assert_eq!(asked.n(), 6);
    let waited = made.unwrap() - started;
    let expected = Duration::from_secs(1) + 5 * Duration::from_millis(25);
    assert!(waited >= expected && waited < expected + Duration::from_millis(20), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_begins_to_wait_while_older_ones_hold_all_places_asks_soon() {
    let (holder, asked) = (Arc::new(Leaseholder::new(4)), Asked::default());
    let (limiter, cancel) = (Limiter::new(holder.clone()), CancellationToken::new());
    // The share is taken back while its call is still in flight.
    let renewing = holder.renew(&limiter, |_| {
        let concurrency = match asked.note() {
            1 => 1,
            2..=3 => 0,
            _ => 2,
        };
        std::future::ready(Ok::<_, Infallible>(lease_of(concurrency)))
    });
    let calls = async {
        let slow = limiter.call(0, &cancel, || async {
            sleep(Duration::from_secs(1)).await;
            Ok::<_, Infallible>(())
        });
        let late = async {
            sleep(Duration::from_millis(400)).await;
            assert_eq!(asked.n(), 2);
            limiter.call(0, &cancel, || std::future::ready(Ok::<_, Infallible>(Instant::now()))).await
        };
        let started = Instant::now();
        let (slow, late) = tokio::join!(slow, late);
        slow.unwrap();
        let waited = late.unwrap() - started;
        assert!(waited < Duration::from_millis(460), "{waited:?}");
    };
    tokio::select! { biased; () = calls => {}, () = renewing => unreachable!() }
}
