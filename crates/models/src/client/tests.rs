//! Calls to simulated models: who is asked, how often, and what is kept.

mod finishing;

use super::*;
use crate::{Cap, ChatRequest, ChatResponse, EndpointLimits, Finish, InputKind, Matrix, Message, Model, Usage};
use async_trait::async_trait;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::{sync::Notify, time::Instant};

/// A model that answers with the number of the call, after as many failures
/// as wanted, and only when it is let go.
struct Toy {
    identity: Identity,
    n_calls: AtomicUsize,
    in_flight: AtomicUsize,
    most_in_flight: AtomicUsize,
    /// What becomes of the next calls, the last one first.
    outcomes: Mutex<Vec<Option<Error>>>,
    gate: Option<Notify>,
    begun: Notify,
    concurrency: usize,
}

impl Toy {
    fn new(provider: &str) -> Self {
        Self {
            identity: Identity {
                provider: provider.to_owned(),
                model: "toy".to_owned(),
                revision: if provider == "openai" { "http://127.0.0.1:1/v1" } else { "1" }.to_owned(),
                parameters: serde_json::Value::Null,
            },
            n_calls: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            most_in_flight: AtomicUsize::new(0),
            outcomes: Mutex::default(),
            gate: None,
            begun: Notify::new(),
            concurrency: 3,
        }
    }

    fn failing(outcomes: Vec<Option<Error>>) -> Self {
        Self { outcomes: Mutex::new(outcomes), ..Self::new("openai") }
    }

    fn gated() -> Self {
        Self { gate: Some(Notify::new()), ..Self::new("openai") }
    }

    fn n_calls(&self) -> usize {
        self.n_calls.load(Ordering::SeqCst)
    }

    async fn called(&self) -> Result<usize, Error> {
        let n_calls = self.n_calls.fetch_add(1, Ordering::SeqCst) + 1;
        let in_flight = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_in_flight.fetch_max(in_flight, Ordering::SeqCst);
        self.begun.notify_one();
        match &self.gate {
            Some(gate) => gate.notified().await,
            None => tokio::task::yield_now().await,
        }
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
        match self.outcomes.lock().expect("no panic").pop().flatten() {
            Some(error) => Err(error),
            None => Ok(n_calls),
        }
    }
}

impl Model for Toy {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn concurrency(&self) -> usize {
        self.concurrency
    }
}

#[async_trait]
impl ChatModel for Toy {
    fn context_length(&self) -> usize {
        100
    }

    fn count_tokens(&self, text: &str) -> usize {
        text.len()
    }

    fn price(&self) -> (f64, f64) {
        (1.0, 10.0)
    }

    async fn chat(&self, _request: &ChatRequest) -> Result<ChatResponse, Error> {
        let text = self.called().await?.to_string();
        let usage =
            Usage { prompt_tokens: 1_000_000, cached_tokens: 5, completion_tokens: 100_000, ..Usage::default() };
        Ok(ChatResponse { text, finish: Finish::Stop, usage, choices: vec![0.1, 0.9], seconds: 1.5 })
    }
}

#[async_trait]
impl EmbeddingModel for Toy {
    fn dimensions(&self) -> usize {
        1
    }

    fn max_tokens(&self) -> usize {
        100
    }

    fn batch_size(&self) -> usize {
        2
    }

    async fn embed(&self, texts: &[String], _kind: InputKind) -> Result<(Matrix, Usage), Error> {
        self.called().await?;
        let data = texts.iter().map(|text| 1.0 / text.len() as f32).collect();
        Ok((Matrix { columns: 1, data }, Usage { prompt_tokens: 1, ..Usage::default() }))
    }
}

#[async_trait]
impl RerankModel for Toy {
    async fn rerank(&self, _query: &str, passages: &[String]) -> Result<(Vec<f32>, Usage), Error> {
        self.called().await?;
        Ok((passages.iter().map(|passage| 0.1 * passage.len() as f32).collect(), Usage::default()))
    }
}

pub(super) fn client(journal: Option<Arc<Journal>>) -> Client {
    let quick = RetryPolicy { base_delay: Duration::from_millis(1), ..RetryPolicy::default() };
    Client::new(journal).with_retry(quick)
}

pub(super) fn journal() -> (tempfile::TempDir, Arc<Journal>) {
    let folder = tempfile::tempdir().expect("a folder");
    let journal = Journal::open(folder.path().join("journal.sqlite")).expect("a journal");
    (folder, Arc::new(journal))
}

fn request(text: &str) -> ChatRequest {
    ChatRequest::new(vec![Message::user(text)], 8)
}

fn server_error(status: u16) -> Error {
    Error::Server { endpoint: "e".to_owned(), status, message: "m".to_owned(), retry_after: None }
}

fn texts(n_texts: usize) -> Vec<String> {
    (1..=n_texts).map(|i| "x".repeat(i)).collect()
}

#[tokio::test]
async fn an_equal_request_is_paid_once_also_by_the_next_process() {
    let (_folder, journal) = journal();
    let toy = Arc::new(Toy::new("llama.cpp"));
    let first = client(Some(journal.clone()));
    let answer = first.chat(toy.clone()).chat(&request("a")).await.expect("an answer");
    assert_eq!(journal.statistics().expect("statistics").entries, 1, "it is kept when it is returned");
    assert_eq!(first.chat(toy.clone()).chat(&request("a")).await.expect("an answer"), answer);
    let second = client(Some(journal));
    assert_eq!(second.chat(toy.clone()).chat(&request("a")).await.expect("an answer"), answer);
    second.chat(toy.clone()).chat(&request("b")).await.expect("an answer");
    assert_eq!(toy.n_calls(), 2);
    let spent = first.meter().of("toy");
    let expected = Spending {
        calls: 1,
        from_journal: 1,
        prompt_tokens: 1_000_000,
        completion_tokens: 100_000,
        cached_tokens: 5,
        cost_usd: 2.0,
        refused: 0,
        seconds: 1.5,
    };
    assert_eq!(spent, expected);
    assert_eq!((second.meter().total().calls, second.meter().total().from_journal), (1, 1));
}

#[tokio::test]
async fn equal_texts_of_a_call_are_embedded_once() {
    let toy = Arc::new(Toy::new("openai"));
    let texts = ["aa", "b", "aa", "b", "aa", "cccc"].map(str::to_owned);
    let matrix = client(None).embedder(toy.clone()).embed(&texts, InputKind::Document).await.expect("vectors");
    assert_eq!(matrix.data, [0.5, 1.0, 0.5, 1.0, 0.5, 0.25]);
    assert_eq!(toy.n_calls(), 2, "three texts, two in a call");
}

#[tokio::test]
async fn equal_calls_in_flight_are_one_call() {
    let toy = Arc::new(Toy::gated());
    let client = client(None);
    let chat = client.chat(toy.clone());
    let same = request("a");
    let calls = (0..10).map(|_| chat.chat(&same));
    let release = async {
        toy.begun.notified().await;
        toy.gate.as_ref().expect("a gate").notify_one();
    };
    let (answers, ()) = tokio::join!(futures::future::join_all(calls), release);
    assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|answer| answer.text == "1")));
    assert_eq!(toy.n_calls(), 1);
    assert_eq!((client.meter().of("toy").calls, client.meter().of("toy").from_journal), (1, 9));
    assert!(format!("{chat:?} {client:?}").contains("toy"));
}

#[tokio::test]
async fn other_calls_overlap_up_to_the_concurrency_of_the_model() {
    let toy = Arc::new(Toy::new("openai"));
    let client = client(None);
    // Two handles share the limit.
    let handles = [client.chat(toy.clone()), client.chat(toy.clone())];
    let requests: Vec<ChatRequest> = (0..20).map(|i| request(&i.to_string())).collect();
    let calls = requests.iter().enumerate().map(|(i, request)| handles[i % 2].chat(request));
    let answers = futures::future::join_all(calls).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(toy.most_in_flight.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn passing_errors_are_retried_and_others_are_not() {
    let toy = Arc::new(Toy::failing(vec![Some(server_error(503)), Some(server_error(500))]));
    let patient = client(None);
    let answer = patient.chat(toy.clone()).chat(&request("a")).await.expect("the third attempt");
    assert_eq!((answer.text.as_str(), toy.n_calls()), ("3", 3));
    assert_eq!((patient.meter().of("toy").calls, patient.meter().of("toy").refused), (1, 1), "a 503 is a refusal");
    let refused = Error::Authentication { endpoint: "e".to_owned(), message: "m".to_owned() };
    let toy = Arc::new(Toy::failing(vec![Some(refused)]));
    let outcome = client(None).chat(toy.clone()).chat(&request("a")).await;
    assert!(matches!(outcome, Err(Error::Authentication { .. })));
    assert_eq!(toy.n_calls(), 1);
}

#[test]
fn errors_have_the_classes_that_a_controller_needs() {
    let endpoint = || "e".to_owned();
    let rate =
        Error::RateLimited { endpoint: endpoint(), message: String::new(), retry_after: Some(Duration::from_secs(2)) };
    assert_eq!(rate.class(), ErrorClass::RateLimited);
    assert_eq!(Retryable::retry_after(&rate), Some(Duration::from_secs(2)));
    assert_eq!(server_error(503).class(), ErrorClass::Overloaded);
    assert_eq!(server_error(500).class(), ErrorClass::Transient);
    assert_eq!(Error::QuotaExhausted { endpoint: endpoint(), message: String::new() }.class(), ErrorClass::Budget);
    let capped = Error::BudgetExhausted { cap: Cap::Calls, spent: 1.0, limit: 1.0, earlier: None };
    assert_eq!((capped.class(), capped.is_transient()), (ErrorClass::Budget, false));
    assert_eq!(Error::Config(String::new()).class(), ErrorClass::Permanent);
}

#[tokio::test]
async fn a_cancelled_call_ends_and_one_that_joined_it_goes_on() {
    let toy = Arc::new(Toy::gated());
    let patient = client(None);
    let cancel = CancellationToken::new();
    let hasty = patient.clone().with_cancellation(cancel.clone());
    let (first, second) = (hasty.chat(toy.clone()), patient.chat(toy.clone()));
    let same = request("a");
    let conduct = async {
        toy.begun.notified().await;
        // Both wait for one call by now; the one who began it leaves.
        tokio::task::yield_now().await;
        cancel.cancel();
        toy.begun.notified().await;
        toy.gate.as_ref().expect("a gate").notify_one();
    };
    let (cancelled, answered, ()) = tokio::join!(first.chat(&same), second.chat(&same), conduct);
    assert!(matches!(cancelled, Err(Error::Cancelled)), "{cancelled:?}");
    assert_eq!(answered.expect("an answer").text, "2");
    assert!(matches!(first.chat(&request("b")).await, Err(Error::Cancelled)), "nothing begins after a cancellation");
    assert_eq!(toy.n_calls(), 2);
}

#[tokio::test]
async fn remote_vectors_are_kept_text_by_text() {
    let (_folder, journal) = journal();
    let n_kept = || journal.statistics().expect("statistics").entries;
    // The first batch is paid, the second one refused for good.
    let failing = Toy::failing(vec![Some(Error::Config("no".to_owned())), None]);
    let toy = Arc::new(Toy { concurrency: 1, ..failing });
    let embedder = client(Some(journal.clone())).embedder(toy.clone());
    assert!(matches!(embedder.embed(&texts(5), InputKind::Document).await, Err(Error::Config(_))));
    assert_eq!((toy.n_calls(), n_kept()), (2, 2));
    let matrix = embedder.embed(&texts(5), InputKind::Document).await.expect("vectors");
    assert_eq!(matrix.data, [1.0, 1.0 / 2.0, 1.0 / 3.0, 1.0 / 4.0, 1.0 / 5.0]);
    assert_eq!((toy.n_calls(), n_kept()), (4, 5), "the first batch was not paid again");
    let again = embedder.embed(&texts(5), InputKind::Document).await.expect("vectors");
    assert_eq!((again, toy.n_calls()), (matrix, 4), "exactly the same vectors, without a call");
    embedder.embed(&texts(1), InputKind::Query).await.expect("vectors");
    assert_eq!(toy.n_calls(), 5, "a question is another request than a passage");
    assert_eq!(embedder.embed(&[], InputKind::Query).await.expect("no vectors").columns, 1);
}

#[tokio::test]
async fn what_is_computed_here_is_not_kept_in_the_journal() {
    let (_folder, journal) = journal();
    let toy = Arc::new(Toy::new("onnx"));
    let client = client(Some(journal.clone()));
    let matrix = client.embedder(toy.clone()).embed(&texts(3), InputKind::Query).await.expect("vectors");
    assert_eq!(matrix.rows(), 3);
    let scores = client.reranker(toy.clone()).rerank("q", &texts(2)).await.expect("scores");
    assert_eq!(scores, [0.1, 0.2]);
    assert_eq!(journal.statistics().expect("statistics").entries, 0);
    assert_eq!(client.meter().of("toy").calls, 3);
    assert!(client.embedder(toy).embed_tokens(&texts(1), InputKind::Query).await.is_err(), "the toy has none");
}

#[tokio::test]
async fn remote_scores_are_kept() {
    let (_folder, journal) = journal();
    let toy = Arc::new(Toy::new("openai"));
    let reranker = client(Some(journal)).reranker(toy.clone());
    let scores = reranker.rerank("q", &texts(3)).await.expect("scores");
    assert_eq!(reranker.rerank("q", &texts(3)).await.expect("scores"), scores);
    assert_eq!(toy.n_calls(), 1);
    assert_eq!(reranker.rerank("q", &[]).await.expect("none").len(), 0);
}

#[tokio::test]
async fn texts_and_passages_are_counted_in_the_ledger_with_the_limit_of_the_model() {
    let toy = Arc::new(Toy::new("onnx"));
    let client = client(None);
    let ((), ledger) = crate::ledger::measure(async {
        client.embedder(toy.clone()).embed(&texts(3), InputKind::Query).await.expect("vectors");
    })
    .await;
    let (_, used) = ledger.models().next().expect("an entry");
    assert_eq!((used.texts, used.max_tokens, used.cut_texts), (3, 100, 0));
    let ((), ledger) = crate::ledger::measure(async {
        client.reranker(toy.clone()).rerank("q", &texts(2)).await.expect("scores");
        client.reranker(toy.clone()).rerank("q", &[]).await.expect("none");
    })
    .await;
    let (_, used) = ledger.models().next().expect("an entry");
    assert_eq!(
        (used.calls, used.texts, used.max_tokens),
        (1, 2, 0),
        "the toy does not say how much it reads of a pair"
    );
}

/// A lessor whose authority over budgets is away for a while.
struct Away {
    until: Instant,
    allowances: Mutex<Allowances>,
}

#[async_trait]
impl Lessor for Away {
    async fn renew(&self, _: LeaseRequest) -> Result<executor::Lease, LessorError> {
        Err(LessorError("no limits here".to_owned()))
    }

    async fn allow(&self, request: AllowanceRequest) -> Result<Allowance, LessorError> {
        if Instant::now() < self.until {
            return Err(LessorError("away".to_owned()));
        }
        Ok(self.allowances.lock().expect("no panic").ask(&request, Instant::now()))
    }
}

fn spending_elsewhere(away: Duration) -> Client {
    let caps = Caps { usd: Some(100.0), ..Caps::default() };
    let allowances = Mutex::new(Allowances::new(caps, Instant::now()));
    let lessor = Arc::new(Away { until: Instant::now() + away, allowances });
    client(None).with_budget(Budget::shared("run".to_owned(), caps, lessor))
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_an_allowance_holds_no_slot_and_not_for_ever() {
    let toy = Arc::new(Toy::new("openai"));
    let waiting = spending_elsewhere(Duration::from_secs(60));
    let chat = waiting.chat(toy.clone());
    let first = request("a");
    let call = chat.chat(&first);
    let look = async {
        let mut held = 0;
        for _ in 0..50 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            held += waiting.limits().values().map(|limit| limit.status.in_flight).sum::<usize>();
        }
        held
    };
    let (answer, held) = tokio::join!(call, look);
    answer.expect("an answer, once it is back");
    assert_eq!((held, toy.n_calls()), (0, 1));

    let lost = spending_elsewhere(Duration::from_secs(3600));
    let start = Instant::now();
    let error = lost.chat(toy.clone()).chat(&request("b")).await.expect_err("nobody gives anything");
    assert!(matches!(error, Error::BudgetUnreachable { .. }), "{error:?}");
    assert!(start.elapsed() < Duration::from_secs(150), "{:?}", start.elapsed());
    assert_eq!(toy.n_calls(), 1);
}

/// A toy with limits of its own.
struct Limited(Toy, Limits);

impl Model for Limited {
    fn identity(&self) -> &Identity {
        &self.0.identity
    }

    fn concurrency(&self) -> usize {
        self.1.maximum()
    }

    fn limits(&self) -> Limits {
        self.1
    }
}

#[async_trait]
impl ChatModel for Limited {
    fn context_length(&self) -> usize {
        self.0.context_length()
    }
    fn count_tokens(&self, text: &str) -> usize {
        ChatModel::count_tokens(&self.0, text)
    }
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, Error> {
        tokio::time::sleep(Duration::from_millis(10)).await;
        self.0.chat(request).await
    }
}

/// A lessor that always gives one place, and counts how often it was asked.
struct OnePlace(AtomicUsize);

#[async_trait]
impl Lessor for OnePlace {
    async fn renew(&self, _: LeaseRequest) -> Result<executor::Lease, LessorError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let valid = Duration::from_secs(3);
        Ok(executor::Lease { concurrency: 1, requests_per_minute: None, tokens_per_minute: None, valid })
    }

    async fn allow(&self, _: AllowanceRequest) -> Result<Allowance, LessorError> {
        Err(LessorError("no budgets here".to_owned()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_asked_for_when_a_call_is_made_and_its_renewal_ends_with_the_client() {
    let lessor = Arc::new(OnePlace(AtomicUsize::new(0)));
    let client = client(None).with_lessor(lessor.clone());
    let known = EndpointLimits::default();
    let chat = client.chat(Arc::new(Limited(Toy::new("openai"), known.within(None, 60.0))));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(lessor.0.load(Ordering::SeqCst), 0, "nobody calls");
    chat.chat(&request("a")).await.expect("an answer");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(lessor.0.load(Ordering::SeqCst), 1, "the call takes 10 ms, and then nobody calls");
    drop((client, chat));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(Arc::strong_count(&lessor), 1);
}

#[tokio::test(start_paused = true)]
async fn of_two_handles_with_different_limits_both_hold() {
    let limited = |concurrency, requests_per_minute| {
        let known = EndpointLimits { requests_per_minute, ..EndpointLimits::default() };
        Arc::new(Limited(Toy::new("openai"), known.within(concurrency, 60.0)))
    };
    // Whichever is first, and whichever is called.
    for order in [[0, 1], [1, 0]] {
        let models = [limited(Some(5), None), limited(None, Some(600.0))];
        let client = client(None);
        let handles = order.map(|i| client.chat(models[i].clone()));
        let requests: Vec<ChatRequest> = (0..100).map(|i| request(&i.to_string())).collect();
        let start = Instant::now();
        let calls = requests.iter().enumerate().map(|(i, request)| handles[i % 2].chat(request));
        let most = async {
            let mut most = 0;
            while start.elapsed() < Duration::from_secs(8) {
                tokio::time::sleep(Duration::from_millis(5)).await;
                most = most.max(client.limits().values().map(|limit| limit.status.in_flight).max().unwrap_or_default());
            }
            most
        };
        let (answers, most) = tokio::join!(futures::future::join_all(calls), most);
        assert!(answers.iter().all(Result::is_ok));
        assert_eq!(client.limits().len(), 1, "it is one model");
        assert!(most <= 5, "{most} at once of at most 5");
        let took = start.elapsed().as_secs_f64();
        assert!((8.5..11.5).contains(&took), "100 calls at 10 a second took {took} s");
    }
}

#[tokio::test]
async fn counts_that_no_sum_can_hold_are_no_panic() {
    let (_folder, journal) = journal();
    struct Boasting(Identity);
    impl Model for Boasting {
        fn identity(&self) -> &Identity {
            &self.0
        }

        fn concurrency(&self) -> usize {
            1
        }
    }

    #[async_trait]
    impl ChatModel for Boasting {
        fn context_length(&self) -> usize {
            1
        }
        fn count_tokens(&self, _: &str) -> usize {
            1
        }
        fn price(&self) -> (f64, f64) {
            (1.0, 1.0)
        }
        async fn chat(&self, _: &ChatRequest) -> Result<ChatResponse, Error> {
            let usage = Usage {
                prompt_tokens: u64::MAX,
                cached_tokens: u64::MAX,
                completion_tokens: u64::MAX,
                ..Usage::default()
            };
            let text = "x".to_owned();
            Ok(ChatResponse { text, finish: Finish::Stop, usage, choices: Vec::new(), seconds: 1.0 })
        }
    }
    let caps = Caps { calls: Some(100), ..Caps::default() };
    let client = client(Some(journal.clone())).with_budget(Budget::new(caps));
    let chat = client.chat(Arc::new(Boasting(Toy::new("openai").identity)));
    let mut sum = Usage::default();
    for text in ["a", "b", "a"] {
        sum += chat.chat(&request(text)).await.expect("an answer").usage;
    }
    assert_eq!((sum.total(), sum.cached_tokens), (u64::MAX, u64::MAX));
    let (meter, other) = (client.meter(), Meter::default());
    other.merge(&meter.report());
    other.merge(&meter.report());
    assert_eq!((meter.total().tokens(), other.total().prompt_tokens), (u64::MAX, u64::MAX));
    assert_eq!((client.budget().spent().tokens, client.budget().report().spent.tokens), (u64::MAX, u64::MAX));
    journal.statistics().expect("statistics");
}
