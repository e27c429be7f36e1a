//! Caps over all starts, with a journal of each kind. A start is a budget; a killed one is a budget that is dropped
//! without [`Budget::give_back_total`].

use super::super::Budget;
use super::*;
use crate::Usage;
use std::path::Path;
use store::{ArtifactStore, Journal, NoLayout};

fn usd(limit: f64) -> TotalCaps {
    TotalCaps { usd: Some(limit), ..TotalCaps::default() }
}

/// A start of the experiment `zoo` with its journal in a folder.
fn start(folder: &Path, caps: TotalCaps) -> Budget {
    let journal = Journal::open(folder.join("journal.db")).unwrap();
    start_with(SharedJournal::from(Arc::new(journal)), caps)
}

fn start_with(journal: SharedJournal, caps: TotalCaps) -> Budget {
    let budget = Budget::default();
    budget.count_total(caps, journal, "zoo");
    budget
}

/// Makes a call that should cost `estimate` dollars and costs `usd`.
async fn call(budget: &Budget, estimate: f64, usd: f64) -> Result<(), Error> {
    let reservation = budget.reserve_paid(BudgetAmount::cost(estimate, 10)).await?;
    reservation.settle(Usage { prompt_tokens: 10, ..Usage::default() }, usd);
    budget.cover_total().await;
    Ok(())
}

fn spent(budget: &Budget) -> (f64, f64) {
    let total = budget.total().unwrap();
    (total.earlier.usd, total.here.usd)
}

#[tokio::test]
async fn the_second_start_is_cut_by_what_the_first_has_spent() {
    let folder = tempfile::tempdir().unwrap();
    let first = start(folder.path(), usd(1.0));
    for _ in 0..7 {
        call(&first, 0.1, 0.1).await.unwrap();
    }
    first.give_back_total().await;
    drop(first);
    let second = start(folder.path(), usd(1.0));
    second.look_at_total().await.unwrap();
    assert_eq!(spent(&second), (0.7, 0.0));
    for _ in 0..3 {
        call(&second, 0.1, 0.1).await.unwrap();
    }
    let error = call(&second, 0.1, 0.1).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the total budget of $1.00 for all starts of this experiment was reached ($0.70 spent by other starts, $0.30 by \
         this one); raise `total` of the budget to go on: nothing is paid twice"
    );
    let total = second.total().unwrap();
    assert_eq!((total.reached, total.used_up()), (Some(Cap::Usd), vec![Cap::Usd]));
    assert_eq!((second.reached(), second.spent().calls), (None, 3), "the budget of the run was not reached");
    assert!(second.reserve(BudgetAmount::cost(0.0, 10)).await.is_ok(), "a model of this process does not count");
    assert!(call(&start(folder.path(), usd(2.0)), 0.1, 0.1).await.is_ok(), "a larger total goes on");
}

#[tokio::test]
async fn what_was_paid_without_a_cap_counts_for_a_cap_that_comes_later() {
    let folder = tempfile::tempdir().unwrap();
    call(&start(folder.path(), TotalCaps::default()), 0.5, 0.4).await.unwrap();
    let capped = start(folder.path(), usd(0.5));
    assert!(matches!(call(&capped, 0.2, 0.2).await, Err(Error::BudgetExhausted { earlier: Some(_), .. })));
}

#[tokio::test]
async fn a_killed_start_counts_with_what_its_calls_in_flight_may_cost() {
    let folder = tempfile::tempdir().unwrap();
    let killed = start(folder.path(), usd(1.0));
    call(&killed, 0.3, 0.2).await.unwrap();
    let in_flight = killed.reserve_paid(BudgetAmount::cost(0.4, 10)).await.unwrap();
    // A kill runs no destructor.
    std::mem::forget(in_flight);
    drop(killed);
    let next = start(folder.path(), usd(1.0));
    next.look_at_total().await.unwrap();
    // It may live for ten more seconds, and its call may turn out cheaper.
    assert_eq!(spent(&next).0, 0.2);
    let waits = next.reserve_paid(BudgetAmount::cost(0.5, 10));
    let mut waits = Box::pin(waits);
    assert!(timeout(Duration::from_millis(600), &mut waits).await.is_err(), "0.2 + 0.4 + 0.5 may still fit");
    let error = waits.await.unwrap_err();
    assert!(matches!(error, Error::BudgetExhausted { cap: Cap::Usd, .. }), "{error:?}");
    assert_eq!(spent(&next).0, 0.6);
    assert!(call(&next, 0.4, 0.4).await.is_ok(), "the rest is there");
}

#[tokio::test]
async fn a_call_that_cost_more_than_it_reserved_is_written_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let killed = start(folder.path(), TotalCaps::default());
    call(&killed, 0.1, 0.9).await.unwrap();
    let next = start(folder.path(), usd(1.0));
    next.look_at_total().await.unwrap();
    assert_eq!(spent(&next), (0.9, 0.0));
}

#[tokio::test]
async fn calls_and_tokens_have_caps_and_refused_attempts_do_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let caps = TotalCaps { calls: Some(2), ..TotalCaps::default() };
    let budget = start(folder.path(), caps);
    let refused = budget.reserve_paid(BudgetAmount::cost(0.0, 10)).await.unwrap();
    refused.uncount();
    drop(refused);
    call(&budget, 0.0, 0.0).await.unwrap();
    call(&budget, 0.0, 0.0).await.unwrap();
    let error = call(&budget, 0.0, 0.0).await.unwrap_err();
    assert!(matches!(error, Error::BudgetExhausted { cap: Cap::Calls, .. }), "{error:?}");
    let tokens = start(folder.path(), TotalCaps { tokens: Some(25), ..TotalCaps::default() });
    let error = call(&tokens, 0.0, 0.0).await.unwrap_err();
    assert!(matches!(error, Error::BudgetExhausted { cap: Cap::Tokens, .. }), "{error:?}");
}

/// Spends until there is no room, with eight calls at once.
async fn spend_all(budget: &Budget) -> usize {
    let one = async || {
        let mut made = 0;
        loop {
            let reservation = match budget.reserve_paid(BudgetAmount::cost(0.01, 10)).await {
                Ok(reservation) => reservation,
                Err(Error::BudgetExhausted { .. }) => return made,
                Err(error) => panic!("{error:?}"),
            };
            tokio::time::sleep(Duration::from_millis(3)).await;
            reservation.settle(Usage { prompt_tokens: 10, ..Usage::default() }, 0.005);
            budget.cover_total().await;
            made += 1;
        }
    };
    let made: usize = futures::future::join_all((0..8).map(|_| one())).await.into_iter().sum();
    budget.give_back_total().await;
    made
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_at_once_spend_all_of_a_total_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let store = ArtifactStore::open("memory:///", &[], &NoLayout).unwrap();
    let machine = |name: &str| {
        let journal = Journal::open(folder.path().join(name).join("journal.db")).unwrap();
        start_with(SharedJournal::new(Arc::new(journal), store.clone()), usd(1.0))
    };
    let in_a_store = [machine("here"), machine("there"), machine("elsewhere")];
    let in_a_file = [0, 1, 2].map(|_| start(folder.path(), usd(1.0)));
    for starts in [in_a_file, in_a_store] {
        let made: usize = futures::future::join_all(starts.iter().map(spend_all)).await.into_iter().sum();
        // Each call costs half a cent and reserves a cent, so the last room of a cent stays.
        assert!((198..=200).contains(&made), "{made}");
        let last = &starts[0];
        last.look_at_total().await.unwrap();
        let (earlier, here) = spent(last);
        assert!((earlier + here - made as f64 * 0.005).abs() < 1e-9, "{earlier} {here} {made}");
    }
}

#[tokio::test]
async fn a_store_that_machines_share_is_written_less_often_than_calls_are_made() {
    let folder = tempfile::tempdir().unwrap();
    let store = ArtifactStore::open("memory:///", &[], &NoLayout).unwrap();
    let journal = || Arc::new(Journal::open(folder.path().join("journal.db")).unwrap());
    let budget = start_with(SharedJournal::new(journal(), store.clone()), usd(100.0));
    for _ in 0..20 {
        call(&budget, 0.01, 0.01).await.unwrap();
    }
    let names = store.list("spending/zoo").await.unwrap();
    let held = || async {
        let object = store.get(&names[0]).await.unwrap().unwrap();
        let share: serde_json::Value = serde_json::from_slice(&object).unwrap();
        (share["spent"]["calls"].as_u64().unwrap(), share["held"]["calls"].as_u64().unwrap())
    };
    let (recorded, claimed) = held().await;
    assert!(recorded <= 2 && claimed >= 20, "{recorded} {claimed}");
    budget.give_back_total().await;
    assert_eq!(held().await, (20, 20));
}

#[tokio::test]
async fn a_journal_that_is_only_read_pays_nothing_under_a_cap() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Arc::new(Journal::open(folder.path().join("journal.db")).unwrap());
    let capped = start_with(SharedJournal::to_read(journal, None, None), usd(1.0));
    assert!(matches!(call(&capped, 0.1, 0.1).await, Err(Error::Journal(_))));
}

#[tokio::test]
async fn a_driver_tells_what_its_workers_spent_as_spent_by_this_start() {
    let folder = tempfile::tempdir().unwrap();
    let earlier = start(folder.path(), usd(1.0));
    call(&earlier, 0.1, 0.1).await.unwrap();
    earlier.give_back_total().await;
    let (driver, worker) = (start(folder.path(), usd(1.0)), start(folder.path(), usd(1.0)));
    call(&worker, 0.2, 0.2).await.unwrap();
    assert!(call(&worker, 0.9, 0.9).await.is_err());
    worker.give_back_total().await;
    driver.merge(worker.report());
    driver.look_at_total().await.unwrap();
    let ((earlier, here), total) = (spent(&driver), driver.total().unwrap());
    assert!((earlier - 0.1).abs() < 1e-9 && (here - 0.2).abs() < 1e-9, "{total:?}");
    assert_eq!(total.reached, Some(Cap::Usd));
}
