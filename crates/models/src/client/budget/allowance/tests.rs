//! One budget for several processes, with a simulated clock.

use super::super::{Budget, BudgetAmount, dollars};
use super::*;
use crate::Cap;
use crate::{Error, LeaseRequest, LessorError, Usage};
use async_trait::async_trait;
use executor::Lease;
use futures::future::join_all;
use std::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// The authority, a request away.
struct Authority {
    allowances: Mutex<Allowances>,
    requests: AtomicUsize,
    away: AtomicBool,
}

impl Authority {
    fn new(caps: Caps) -> Arc<Self> {
        let allowances = Mutex::new(Allowances::new(caps, Instant::now()));
        Arc::new(Self { allowances, requests: AtomicUsize::new(0), away: AtomicBool::new(false) })
    }

    fn process(self: &Arc<Self>, caps: Caps) -> Budget {
        Budget::shared("run".to_owned(), caps, self.clone())
    }
}

#[async_trait]
impl Lessor for Authority {
    async fn renew(&self, _: LeaseRequest) -> Result<Lease, LessorError> {
        Err(LessorError("no limits here".to_owned()))
    }

    async fn allow(&self, request: AllowanceRequest) -> Result<Allowance, LessorError> {
        tokio::time::sleep(Duration::from_millis(2)).await;
        if self.away.load(Ordering::Relaxed) {
            return Err(LessorError("away".to_owned()));
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        Ok(self.allowances.lock().unwrap().ask(&request, Instant::now()))
    }
}

fn usd(limit: f64) -> Caps {
    Caps { usd: Some(limit), ..Caps::default() }
}

/// A call that should cost a cent and does; it takes a while.
async fn call(budget: &Budget) -> Result<(), Error> {
    let reservation = budget.reserve(BudgetAmount::cost(0.01, 10)).await?;
    tokio::time::sleep(Duration::from_millis(100)).await;
    reservation.settle(Usage { prompt_tokens: 10, ..Usage::default() }, 0.01);
    Ok(())
}

/// Makes calls, eight at once, until there is no room: how many, and the cap.
async fn spend(budget: &Budget) -> (usize, Cap) {
    let made = AtomicUsize::new(0);
    let caps = join_all((0..8).map(|_| async {
        loop {
            match call(budget).await {
                Ok(()) => _ = made.fetch_add(1, Ordering::Relaxed),
                Err(Error::BudgetExhausted { cap, .. }) => return cap,
                Err(error) => panic!("{error:?}"),
            }
        }
    }));
    let cap = caps.await[0];
    (made.into_inner(), cap)
}

#[tokio::test(start_paused = true)]
async fn processes_together_spend_all_of_a_budget_and_no_more() {
    for (caps, cap, calls) in [
        (usd(3.0), Cap::Usd, 300),
        (Caps { calls: Some(123), ..Caps::default() }, Cap::Calls, 123),
        (Caps { tokens: Some(777), ..Caps::default() }, Cap::Tokens, 77),
    ] {
        let authority = Authority::new(caps);
        let processes: Vec<Budget> = (0..5).map(|_| authority.process(caps)).collect();
        let made = join_all(processes.iter().map(spend)).await;
        assert_eq!(made.iter().map(|(made, _)| made).sum::<usize>(), calls, "{caps}: {made:?}");
        assert!(made.iter().all(|(_, reached)| *reached == cap), "{made:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_one_process_does_not_need_goes_to_another() {
    let authority = Authority::new(usd(1.0));
    let (idle, busy) = (authority.process(usd(1.0)), authority.process(usd(1.0)));
    call(&idle).await.expect("room");
    assert_eq!(spend(&busy).await, (99, Cap::Usd));
}

#[tokio::test(start_paused = true)]
async fn calls_in_a_large_budget_seldom_ask() {
    let authority = Authority::new(usd(100.0));
    let process = authority.process(usd(100.0));
    for _ in 0..50 {
        join_all((0..20).map(|_| call(&process))).await;
    }
    let requests = authority.requests.load(Ordering::Relaxed);
    assert!(requests < 100, "{requests} requests for 1,000 calls");
    assert_eq!(process.spent().calls, 1000);
}

#[tokio::test(start_paused = true)]
async fn a_dead_process_may_have_spent_what_it_held_and_nobody_waits_for_it_for_ever() {
    let authority = Authority::new(usd(0.1));
    let dead = authority.process(usd(0.1));
    let reservation = dead.reserve(BudgetAmount::cost(0.06, 0)).await.expect("room");
    std::mem::forget(reservation);
    drop(dead);
    let living = authority.process(usd(0.1));
    let start = Instant::now();
    let error = living.reserve(BudgetAmount::cost(0.05, 0)).await.map(drop).expect_err("no room");
    assert!(matches!(error, Error::BudgetExhausted { cap: Cap::Usd, .. }), "{error:?}");
    assert!(start.elapsed() > SILENT_AFTER - Duration::from_secs(1), "it might have come back");
    assert!(living.reserve(BudgetAmount::cost(0.04, 0)).await.is_ok(), "the rest is free");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_spent_while_the_authority_is_away() {
    let authority = Authority::new(usd(1.0));
    authority.away.store(true, Ordering::Relaxed);
    let process = authority.process(usd(1.0));
    let error = call(&process).await.expect_err("nobody gives anything");
    assert!(matches!(&error, Error::BudgetUnreachable { reason, .. } if reason == "away"), "{error:?}");
    authority.away.store(false, Ordering::Relaxed);
    call(&process).await.expect("room, once it is back");
}

#[tokio::test(start_paused = true)]
async fn an_authority_that_does_not_answer_holds_nobody_for_long() {
    struct Silent;
    #[async_trait]
    impl Lessor for Silent {
        async fn renew(&self, _: LeaseRequest) -> Result<Lease, LessorError> {
            std::future::pending().await
        }
        async fn allow(&self, _: AllowanceRequest) -> Result<Allowance, LessorError> {
            std::future::pending().await
        }
    }
    let start = Instant::now();
    let process = Budget::shared("run".to_owned(), usd(1.0), Arc::new(Silent));
    let error = call(&process).await.expect_err("nobody gives anything");
    assert!(matches!(error, Error::BudgetUnreachable { .. }), "{error:?}");
    // The beat of the process may ask first.
    assert!(start.elapsed() <= 2 * PATIENCE + BEAT, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn time_is_that_of_the_authority() {
    let caps = Caps { minutes: Some(1.0), ..Caps::default() };
    let authority = Authority::new(caps);
    tokio::time::sleep(Duration::from_secs(50)).await;
    let late = authority.process(caps);
    let (made, cap) = spend(&late).await;
    assert_eq!(cap, Cap::Minutes);
    assert!((700..=808).contains(&made), "eight at once, a tenth of a second each, for ten seconds: {made}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_costs_more_than_was_held_takes_it_from_the_others() {
    let authority = Authority::new(usd(1.0));
    let (dear, cheap) = (authority.process(usd(1.0)), authority.process(usd(1.0)));
    let reservation = dear.reserve(BudgetAmount::cost(0.01, 0)).await.expect("room");
    reservation.settle(Usage::default(), 0.5);
    call(&dear).await.expect("room");
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (made, _) = spend(&cheap).await;
    assert_eq!(made, 49, "of the rest of {}", dollars(490_000_000_000));
}
