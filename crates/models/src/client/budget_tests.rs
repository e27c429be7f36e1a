//! Budgets under calls side by side, with a simulated clock.

use super::*;
use crate::{ChatModel, ChatRequest, ChatResponse, Client, Finish, Identity, Message, Model};
use async_trait::async_trait;
use futures::future::join_all;
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

fn usd(limit: f64) -> Caps {
    Caps { usd: Some(limit), ..Caps::default() }
}

fn estimate(usd: f64, tokens: u64) -> BudgetAmount {
    BudgetAmount::cost(usd, tokens)
}

fn usage(tokens: u64) -> Usage {
    Usage { prompt_tokens: tokens, ..Usage::default() }
}

fn refused(outcome: Result<Reservation<'_>, Error>) -> Cap {
    match outcome {
        Err(Error::BudgetExhausted { cap, .. }) => cap,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_fits_exactly_fits_and_one_more_does_not() {
    let budget = Budget::new(usd(0.3));
    for _ in 0..3 {
        // 0.1 + 0.1 + 0.1 is more than 0.3 in floating point.
        budget.reserve(estimate(0.1, 0)).await.expect("room").settle(usage(7), 0.1);
    }
    let error = budget.reserve(estimate(1e-9, 0)).await.expect_err("no room");
    assert!(
        matches!(error, Error::BudgetExhausted { cap: Cap::Usd, spent: 0.3, limit: 0.3, earlier: None }),
        "{error:?}"
    );
    assert_eq!(
        error.to_string(),
        "the budget of $0.30 was reached ($0.30 spent); run again with a larger one to go on: nothing is paid twice"
    );
    let SpentTotals { usd, tokens, calls, .. } = budget.spent();
    assert_eq!((usd, tokens, calls, budget.reached()), (0.3, 21, 3, Some(Cap::Usd)));
}

#[tokio::test(start_paused = true)]
async fn each_cap_stops_calls_and_names_itself() {
    let budget = Budget::new(Caps { calls: Some(1), ..Caps::default() });
    drop(budget.reserve(BudgetAmount::default()).await.expect("the first"));
    assert_eq!(refused(budget.reserve(BudgetAmount::default()).await), Cap::Calls);

    let budget = Budget::new(Caps { tokens: Some(100), ..Caps::default() });
    assert_eq!(refused(budget.reserve(estimate(0.0, 101)).await), Cap::Tokens);
    assert!(budget.reserve(estimate(9.0, 100)).await.is_ok(), "money is not limited");

    let budget = Budget::new(Caps { minutes: Some(2.0), ..Caps::default() });
    tokio::time::advance(Duration::from_secs(119)).await;
    assert!(budget.reserve(BudgetAmount::default()).await.is_ok());
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(refused(budget.reserve(BudgetAmount::default()).await), Cap::Minutes);

    let budget = Budget::default();
    assert!(budget.reserve(estimate(1e6, u64::MAX)).await.is_ok(), "no caps, no limit");
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_while_those_in_flight_may_leave_room_and_fails_when_they_do_not() {
    let budget = Budget::new(usd(1.0));
    let first = budget.reserve(estimate(0.8, 0)).await.expect("room");
    let second = budget.reserve(estimate(0.5, 0));
    let third = budget.reserve(estimate(0.9, 0));
    let conduct = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        first.settle(usage(1), 0.2);
    };
    let (second, third, ()) = tokio::join!(second, third, conduct);
    let second = second.expect("0.2 + 0.5 fit");
    assert_eq!(refused(third), Cap::Usd, "0.2 + 0.9 never will");
    second.settle(usage(1), 0.5);
    assert_eq!(budget.spent().usd, 0.7);
}

#[tokio::test]
async fn a_call_that_failed_or_was_dropped_gives_its_room_back() {
    let budget = Budget::new(usd(1.0));
    for _ in 0..10 {
        drop(budget.reserve(estimate(1.0, 0)).await.expect("room"));
    }
    assert_eq!((budget.spent().usd, budget.spent().calls), (0.0, 10), "each attempt counts as a call");
    let waiting = {
        let _held = budget.reserve(estimate(1.0, 0)).await.expect("room");
        let mut waiting = Box::pin(budget.reserve(estimate(1.0, 0)));
        assert!(futures::poll!(&mut waiting).is_pending());
        waiting
    };
    assert!(waiting.await.is_ok(), "the drop was heard, though nobody was listening at that moment");
}

#[tokio::test]
async fn what_is_free_passes_a_budget_of_money_that_is_used_up() {
    let budget = Budget::new(usd(0.0));
    assert_eq!(refused(budget.reserve(estimate(0.001, 5)).await), Cap::Usd);
    assert!(budget.reserve(estimate(0.0, 5)).await.is_ok());
    let overspent = Budget::new(usd(0.1));
    overspent.reserve(estimate(0.1, 0)).await.expect("room").settle(usage(1), 0.4);
    assert!(overspent.reserve(estimate(0.0, 5)).await.is_ok());
}

#[test]
fn amounts_are_shown_in_their_units() {
    let shown: Vec<String> = [(Cap::Usd, 0.5), (Cap::Usd, 0.105), (Cap::Usd, 1200.0)]
        .into_iter()
        .chain([(Cap::Tokens, 1_234_567.0), (Cap::Calls, 12.0), (Cap::Minutes, 1.5)])
        .map(|(cap, amount)| cap.amount(amount))
        .collect();
    assert_eq!(shown, ["$0.50", "$0.1050", "$1200.00", "1,234,567 tokens", "12 calls", "1.5 minutes"]);
    let caps = Caps { usd: Some(0.5), calls: Some(1000), ..Caps::default() };
    assert_eq!(caps.to_string(), "$0.50, 1,000 calls");
}

/// A model whose calls take and cost what a fixed sequence says, more often
/// than not less than was reserved, and which notes how far the sum went.
struct Dear {
    identity: Identity,
    budget: Budget,
    limit: f64,
    calls: AtomicU64,
    /// What calls in flight reserved too little, in billionths of a dollar.
    worst_excess: AtomicU64,
}

const PROMPT: u64 = 104;

impl Dear {
    fn new(budget: &Budget, limit: f64) -> Arc<Self> {
        let identity = Identity {
            provider: "openai".to_owned(),
            model: "dear".to_owned(),
            revision: "http://127.0.0.1:1/v1".to_owned(),
            parameters: serde_json::Value::Null,
        };
        let (calls, worst_excess) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { identity, budget: budget.clone(), limit, calls, worst_excess })
    }

    fn note(&self) {
        let excess = (self.budget.spent().usd - self.limit).max(0.0) * 1e9;
        self.worst_excess.fetch_max(excess.round() as u64, Ordering::SeqCst);
    }
}

impl Model for Dear {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn concurrency(&self) -> usize {
        16
    }
}

#[async_trait]
impl ChatModel for Dear {
    fn context_length(&self) -> usize {
        1000
    }

    fn count_tokens(&self, _: &str) -> usize {
        96
    }

    fn price(&self) -> (f64, f64) {
        (10.0, 10.0)
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, Error> {
        let number = self.calls.fetch_add(1, Ordering::SeqCst);
        let draw = blake3::hash(&number.to_le_bytes()).as_bytes()[0];
        tokio::time::sleep(Duration::from_millis(u64::from(draw) + 1)).await;
        self.note();
        if number % 11 == 5 {
            return Err(Error::Server {
                endpoint: String::new(),
                status: 500,
                message: String::new(),
                retry_after: None,
            });
        }
        // At most what was reserved: 104 read and 100 written.
        let completion_tokens = u64::from(request.max_tokens) * u64::from(draw) / 255;
        let usage = Usage { prompt_tokens: PROMPT, completion_tokens, ..Usage::default() };
        Ok(ChatResponse { text: String::new(), finish: Finish::Stop, usage, choices: Vec::new(), seconds: 0.1 })
    }
}

fn requests(count: u64) -> Vec<ChatRequest> {
    (0..count).map(|i| ChatRequest::new(vec![Message::user(i.to_string())], 100)).collect()
}

#[tokio::test(start_paused = true)]
async fn many_calls_with_faults_fill_a_budget_and_never_overshoot_it() {
    for limit in [0.0, 0.001, 0.1, 1.0] {
        let budget = Budget::new(usd(limit));
        let model = Dear::new(&budget, limit);
        let client = Client::new(None).with_budget(budget.clone());
        let chat = client.chat(model.clone());
        let requests = requests(2000);
        let calls = join_all(requests.iter().map(|request| chat.chat(request)));
        let outcomes = tokio::time::timeout(Duration::from_secs(86_400), calls).await.expect("no deadlock");
        let refused =
            outcomes.iter().filter(|outcome| matches!(outcome, Err(Error::BudgetExhausted { .. }))).count() as u64;
        let spent = budget.spent();
        assert_eq!(model.worst_excess.load(Ordering::SeqCst), 0, "limit {limit}");
        assert_eq!(budget.n_refused(), refused);
        assert_eq!(spent.calls, model.calls.load(Ordering::SeqCst), "every attempt is counted");
        assert!((client.meter().total().cost_usd - spent.usd).abs() < 1e-9);
        assert!(spent.usd <= limit, "limit {limit}: {spent:?}");
        // What is left would not have paid for one more call.
        let dearest = (PROMPT + 100) as f64 * 10.0 / 1e6;
        assert!(refused > 0 && limit - spent.usd < dearest, "limit {limit}: {spent:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn calls_that_cost_more_than_was_reserved_overshoot_by_themselves_only() {
    let budget = Budget::new(usd(0.05));
    // The model counts its prompts to a tenth of what they are.
    struct Sly(Arc<Dear>);
    impl Model for Sly {
        fn identity(&self) -> &Identity {
            &self.0.identity
        }

        fn concurrency(&self) -> usize {
            4
        }
    }

    #[async_trait]
    impl ChatModel for Sly {
        fn context_length(&self) -> usize {
            1000
        }
        fn count_tokens(&self, _: &str) -> usize {
            2
        }
        fn price(&self) -> (f64, f64) {
            (10.0, 10.0)
        }
        async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, Error> {
            self.0.chat(request).await
        }
    }
    let model = Dear::new(&budget, 0.05);
    let chat = Client::new(None).with_budget(budget.clone()).chat(Arc::new(Sly(model)));
    let requests = requests(500);
    join_all(requests.iter().map(|request| chat.chat(request))).await;
    let in_flight = 4.0 * (PROMPT + 100) as f64 * 10.0 / 1e6;
    assert!(budget.spent().usd <= 0.05 + in_flight, "{:?}", budget.spent());
    assert!(budget.n_refused() > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn threads_reserve_and_settle_without_losing_a_cent() {
    let budget = Budget::new(Caps { usd: Some(1.0), tokens: Some(100_000), ..Caps::default() });
    let workers = (0..64).map(|worker| {
        let budget = budget.clone();
        tokio::spawn(async move {
            let mut paid = 0;
            for i in 0..100u64 {
                let Ok(reservation) = budget.reserve(estimate(0.002, 200)).await else { break };
                tokio::task::yield_now().await;
                if (worker + i) % 5 == 0 {
                    continue;
                }
                reservation.settle(usage(100), 0.001);
                paid += 1;
            }
            paid
        })
    });
    let paid: u64 = tokio::time::timeout(Duration::from_secs(60), join_all(workers))
        .await
        .expect("no deadlock")
        .into_iter()
        .map(|worker| worker.expect("no panic"))
        .sum();
    let spent = budget.spent();
    assert_eq!((spent.tokens, (spent.usd * 1000.0).round() as u64), (paid * 100, paid));
    assert!(spent.usd <= 1.0 && spent.usd > 0.997, "{spent:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_from_the_journal_costs_nothing_and_needs_no_budget() {
    let folder = tempfile::tempdir().expect("a folder");
    let journal = Arc::new(store::Journal::open(folder.path().join("journal.db")).expect("a journal"));
    let budget = Budget::new(Caps { calls: Some(1), ..Caps::default() });
    let model = Dear::new(&budget, 1.0);
    let chat = |budget: &Budget| Client::new(Some(journal.clone())).with_budget(budget.clone()).chat(model.clone());
    let requests = requests(2);
    chat(&budget).chat(&requests[0]).await.expect("the one call");
    chat(&budget).chat(&requests[0]).await.expect("the same from the journal");
    for _ in 0..2 {
        let outcome = chat(&budget).chat(&requests[1]).await;
        assert!(matches!(outcome, Err(Error::BudgetExhausted { cap: Cap::Calls, .. })), "{outcome:?}");
    }
    assert_eq!((budget.spent().calls, budget.n_refused()), (1, 1), "equal requests are one");
    let larger = Budget::new(Caps { calls: Some(1), ..Caps::default() });
    chat(&larger).chat(&requests[0]).await.expect("not paid twice");
    chat(&larger).chat(&requests[1]).await.expect("the next run goes on");
}
