//! Services that are simulated: how often they are called, what is kept, and what a budget is charged with.

use super::{
    super::tests::{client, journal},
    *,
};
use crate::{Budget, Cap, Caps, Model, Usage};
use async_trait::async_trait;
use serde_json::json;
use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use store::Journal;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// A service that replies with the number of the call and what it states of its cost.
struct Counter {
    identity: Identity,
    n_calls: AtomicUsize,
    /// What becomes of the next calls, the last one first.
    outcomes: Mutex<Vec<Error>>,
    price: Option<f64>,
    gate: Option<Notify>,
    begun: Notify,
}

impl Counter {
    fn at(address: &str) -> Self {
        let [provider, model, revision] = ["http", address, address].map(str::to_owned);
        Self {
            identity: Identity { provider, model, revision, parameters: json!({}) },
            n_calls: AtomicUsize::new(0),
            outcomes: Mutex::default(),
            price: None,
            gate: None,
            begun: Notify::new(),
        }
    }

    fn new() -> Self {
        Self::at("http://127.0.0.1:1/ask")
    }

    fn n_calls(&self) -> usize {
        self.n_calls.load(Ordering::SeqCst)
    }
}

impl Model for Counter {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn concurrency(&self) -> usize {
        4
    }
}

#[async_trait]
impl JsonService for Counter {
    async fn call(&self, request: &Value) -> Result<ServiceReply, Error> {
        let number = self.n_calls.fetch_add(1, Ordering::SeqCst) + 1;
        self.begun.notify_one();
        match &self.gate {
            Some(gate) => gate.notified().await,
            None => tokio::task::yield_now().await,
        }
        if let Some(error) = self.outcomes.lock().expect("no panic").pop() {
            return Err(error);
        }
        let body =
            json!({ "answer": format!("{number}"), "cost": request.get("cost"), "tokens": request.get("tokens") });
        Ok(ServiceReply { body, headers: [("x-version".to_owned(), "7".to_owned())].into(), seconds: 0.25 })
    }

    fn stated_usage(&self, reply: &ServiceReply) -> StatedUsage {
        let tokens = reply.body["tokens"].as_u64().map(|prompt_tokens| Usage { prompt_tokens, ..Usage::default() });
        StatedUsage { tokens, cost_usd: reply.body["cost"].as_f64().or(self.price) }
    }

    fn price_of_call(&self) -> Option<f64> {
        self.price
    }
}

#[tokio::test]
async fn the_journal_answers_after_a_restart_with_the_whole_reply() {
    let (folder, journal) = journal();
    let service = Arc::new(Counter::new());
    let request = json!({ "body": { "question": "a" }, "cost": 0.5, "tokens": 7 });
    let first = client(Some(journal)).service(service.clone()).ask(&request).await.expect("a reply");
    assert_eq!((first.headers["x-version"].as_str(), first.seconds), ("7", 0.25));
    let journal = Arc::new(Journal::open(folder.path().join("journal.sqlite")).expect("the journal again"));
    let second = client(Some(journal));
    assert_eq!(second.service(service.clone()).ask(&request).await.expect("a reply"), first);
    assert_eq!((service.n_calls(), second.meter().total().from_journal), (1, 1));
    let other = second.service(service.clone()).ask(&json!({ "body": { "question": "b" } })).await.expect("a reply");
    assert_eq!((other.body["answer"].as_str(), service.n_calls()), (Some("2"), 2));
}

#[tokio::test]
async fn each_repeat_has_its_own_reply() {
    let (_folder, journal) = journal();
    let service = Arc::new(Counter::new());
    let handle = client(Some(journal)).service(service.clone());
    let mut answers = Vec::new();
    for repeat in [0, 1, 2, 1, 0] {
        let reply = handle.clone().with_repeat(repeat).with_group(3).with_priority(1).ask(&json!({})).await;
        answers.push(reply.expect("a reply").body["answer"].clone());
    }
    assert_eq!(answers, ["1", "2", "3", "2", "1"]);
    assert_eq!(service.n_calls(), 3);
}

#[tokio::test]
async fn equal_questions_in_flight_are_one_call() {
    let service = Arc::new(Counter { gate: Some(Notify::new()), ..Counter::new() });
    let handle = client(None).service(service.clone());
    let request = json!({ "body": "a" });
    let (first, second, ()) = tokio::join!(handle.ask(&request), handle.ask(&request), async {
        service.begun.notified().await;
        service.gate.as_ref().expect("a gate").notify_one();
    });
    assert_eq!(first.expect("a reply"), second.expect("a reply"));
    assert_eq!(service.n_calls(), 1);
}

#[tokio::test]
async fn what_passes_is_tried_again_and_a_final_timeout_is_not() {
    let server = Error::Server { endpoint: "e".to_owned(), status: 502, message: String::new(), retry_after: None };
    let service = Arc::new(Counter::new());
    service.outcomes.lock().expect("no panic").push(server);
    assert!(client(None).service(service.clone()).ask(&json!({})).await.is_ok());
    assert_eq!(service.n_calls(), 2);
    let late = Error::FinalTimeout { model: "[systems.app]".to_owned(), after: Duration::from_secs(1) };
    service.outcomes.lock().expect("no panic").push(late);
    let error = client(None).service(service.clone()).ask(&json!({})).await.expect_err("no second call");
    assert!(error.to_string().contains("was not called again (`retry_timeouts = false`)"), "{error}");
    assert_eq!(service.n_calls(), 3);
}

#[tokio::test]
async fn a_budget_is_charged_with_the_cost_that_a_reply_states() {
    let service = Arc::new(Counter::new());
    let budget = Budget::new(Caps { usd: Some(1.0), ..Caps::default() });
    let client = client(None).with_budget(budget.clone());
    let handle = client.service(service.clone());
    handle.ask(&json!({ "cost": 0.75, "tokens": 20 })).await.expect("a reply");
    handle.ask(&json!({ "cost": null })).await.expect("a reply of unknown cost");
    handle.ask(&json!({ "cost": -3.0 })).await.expect("a reply of impossible cost");
    let spent = budget.spent();
    assert_eq!((spent.usd, spent.tokens, spent.calls, spent.paid_calls), (0.75, 20, 3, 1));
    assert_eq!(client.meter().total().cost_usd, 0.75);
}

#[tokio::test]
async fn a_price_of_a_call_is_reserved_before_the_call() {
    let service = Arc::new(Counter { price: Some(0.4), ..Counter::new() });
    let budget = Budget::new(Caps { usd: Some(1.0), ..Caps::default() });
    let handle = client(None).with_budget(budget.clone()).service(service.clone());
    for question in ["a", "b"] {
        handle.ask(&json!({ "body": question })).await.expect("a reply");
    }
    let error = handle.ask(&json!({ "body": "c" })).await.expect_err("0.8 + 0.4 is too much");
    assert!(matches!(error, Error::BudgetExhausted { cap: Cap::Usd, .. }), "{error:?}");
    assert_eq!((service.n_calls(), budget.spent().usd), (2, 0.8));
}

#[tokio::test]
async fn a_call_count_holds_for_services_without_a_price() {
    let service = Arc::new(Counter::at("function:1f"));
    let budget = Budget::new(Caps { calls: Some(1), ..Caps::default() });
    let handle = client(None).with_budget(budget).service(service.clone());
    handle.ask(&json!(1)).await.expect("a reply");
    let error = handle.ask(&json!(2)).await.expect_err("one call is allowed");
    assert!(matches!(error, Error::BudgetExhausted { cap: Cap::Calls, .. }), "{error:?}");
}

#[tokio::test]
async fn a_reply_that_was_called_for_is_kept_although_the_run_was_cancelled() {
    let (_folder, journal) = journal();
    let service = Arc::new(Counter { gate: Some(Notify::new()), ..Counter::at("command:./rag") });
    let cancel = CancellationToken::new();
    let handle = client(Some(journal.clone())).with_cancellation(cancel.clone()).service(service.clone());
    let request = json!({ "body": "a" });
    let (outcome, ()) = tokio::join!(handle.ask(&request), async {
        service.begun.notified().await;
        cancel.cancel();
    });
    assert!(matches!(outcome, Err(Error::Cancelled)), "{outcome:?}");
    service.gate.as_ref().expect("a gate").notify_one();
    let kept = client(Some(journal));
    // The call of the cancelled handle ends in the background and is journalled.
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(2)).await;
        if handle.caller.kept(vec![handle.caller.key(&request)]).await.expect("the journal")[0].is_some() {
            break;
        }
    }
    assert_eq!(kept.service(service.clone()).ask(&request).await.expect("a reply").body["answer"], "1");
    assert_eq!(service.n_calls(), 1);
}
