//! Calls in batches, against a provider over real connections: each call is billed once, whatever fails and whenever
//! the process is killed.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends, and says where")]

use futures::future::join_all;
use models::{
    Budget, Caps, ChatConfig, ChatRequest, ChatResponse, Client, CpuBudget, EmbeddingConfig, Error, InputKind, Message,
    ModelDirectory, TotalCaps, provider::ModelContext,
};
use simulator::{BatchBehaviour, RunningSimulator, SimulatorSettings};
use std::{path::Path, process::Stdio, sync::Arc, time::Duration};
use store::{Journal, SharedJournal};
use tokio_util::sync::CancellationToken;

/// Calls of one run.
const CALLS: u64 = 40;

fn context() -> ModelContext {
    let directory = ModelDirectory::new(std::env::temp_dir().join("no-models"), Vec::new());
    ModelContext { directory, cpu: CpuBudget::machine(), environment: Arc::new(|_: &str| None) }
}

fn chat_config(url: &str) -> ChatConfig {
    let text = format!(
        "openai = {{ model = \"m\", base_url = \"{url}/v1\", price = {{ input = 10, output = 100 }}, batch = {{ \
         quiet_seconds = 0.2, poll_seconds = 0.05 }} }}"
    );
    toml::from_str(&text).unwrap()
}

fn journal(folder: &Path) -> SharedJournal {
    SharedJournal::from(Arc::new(Journal::open(folder.join("journal.db")).unwrap()))
}

fn client(folder: &Path) -> Client {
    Client::sharing(journal(folder)).with_batches()
}

fn request(i: u64) -> ChatRequest {
    let messages = vec![Message::user(format!("What is {i}?"))];
    ChatRequest::new(messages, 16)
}

/// Makes all calls at once.
async fn ask_all(client: &Client, url: &str) -> Vec<Result<ChatResponse, Error>> {
    let chat = client.chat(chat_config(url).build(&context()).unwrap());
    let calls = (0..CALLS).map(|i| {
        let (chat, request) = (chat.clone(), request(i));
        async move { chat.chat(&request).await }
    });
    join_all(calls).await
}

async fn provider(batches: BatchBehaviour) -> RunningSimulator {
    simulator::start(SimulatorSettings { batches, answer_tokens: 4, ..SimulatorSettings::default() }).await.unwrap()
}

/// Each of the calls was billed once, and none outside of a batch.
fn assert_billed_once(provider: &RunningSimulator, calls: u64) {
    let stats = provider.stats();
    assert_eq!((stats.answered, stats.unique_answered, stats.answered_twice), (calls, calls, 0), "{:?}", stats.batches);
    assert_eq!(stats.requests, 0, "no call outside of a batch");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_leave_together_and_cost_half() {
    let (provider, folder) = (provider(BatchBehaviour::default()).await, tempfile::tempdir().unwrap());
    let client = client(folder.path());
    let answers = ask_all(&client, &provider.url).await;
    let tokens = |of: fn(&ChatResponse) -> u64| answers.iter().map(|answer| of(answer.as_ref().unwrap())).sum::<u64>();
    let (read, written) = (tokens(|it| it.usage.prompt_tokens), tokens(|it| it.usage.completion_tokens));
    let spent = client.meter().total();
    assert_eq!(spent.calls, CALLS);
    assert!((spent.cost_usd - (read as f64 * 5.0 + written as f64 * 50.0) / 1e6).abs() < 1e-12, "{spent:?}");
    assert_billed_once(&provider, CALLS);
    assert_eq!((provider.stats().batches.created, provider.stats().batches.lines), (1, CALLS));
    assert_eq!(client.n_batched(), (0, 0));
    assert!(journal(folder.path()).batches().await.unwrap().is_empty(), "no record is left");
    // Everything is in the journal now.
    let again = ask_all(&self::client(folder.path()), &provider.url).await;
    let text = |answer: &Result<ChatResponse, Error>| answer.as_ref().unwrap().text.clone();
    assert_eq!(again.iter().map(text).collect::<Vec<_>>(), answers.iter().map(text).collect::<Vec<_>>());
    assert_billed_once(&provider, CALLS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_batch_leaves_out_is_sent_in_the_next_one_and_nothing_is_billed_twice() {
    let faults = BatchBehaviour {
        expired: 0.15,
        failed: 0.1,
        missing: 0.1,
        duplicated: 0.2,
        poll_errors: 0.3,
        lost_replies: 1,
        padding: 20_000,
        seconds: 0.2,
        ..BatchBehaviour::default()
    };
    let (provider, folder) = (provider(faults).await, tempfile::tempdir().unwrap());
    let mut failed = 0;
    // A call that has bad luck in all its attempts is left to the next run.
    for _ in 0..4 {
        let answers = ask_all(&client(folder.path()), &provider.url).await;
        failed = answers.iter().filter(|answer| answer.is_err()).count();
        if failed == 0 {
            break;
        }
    }
    assert_eq!(failed, 0);
    assert!(provider.stats().batches.created > 1);
    assert_billed_once(&provider, CALLS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_run_leaves_its_batch_and_the_next_run_takes_the_answers_for_nothing() {
    let behaviour = BatchBehaviour { seconds: 1.0, ..BatchBehaviour::default() };
    let (provider, folder) = (provider(behaviour).await, tempfile::tempdir().unwrap());
    let cancel = CancellationToken::new();
    let budget = Budget::new(Caps { usd: Some(1.0), ..Caps::default() });
    budget.count_total(TotalCaps::default(), journal(folder.path()), "zoo");
    let first = client(folder.path()).with_cancellation(cancel.clone()).with_budget(budget.clone());
    let stop = async {
        while provider.stats().batches.created == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        cancel.cancel();
    };
    let (answers, ()) = tokio::join!(ask_all(&first, &provider.url), stop);
    assert!(answers.iter().all(|answer| matches!(answer, Err(Error::Cancelled))), "{:?}", answers[0]);
    assert_eq!(first.n_batched(), (1, CALLS as usize));
    first.drain(|_| ()).await;
    let counted = budget.spent().usd;
    assert!(counted > 0.0, "what may be billed counts");
    assert!((budget.total().unwrap().here.usd - counted).abs() < 1e-12);
    drop(first);

    let nothing = Budget::new(Caps { usd: Some(0.0), ..Caps::default() });
    let next = client(folder.path()).with_budget(nothing.clone());
    let answers = ask_all(&next, &provider.url).await;
    assert!(answers.iter().all(Result::is_ok), "{:?}", answers.iter().find(|answer| answer.is_err()));
    assert_eq!((nothing.spent().usd, nothing.reached()), (0.0, None));
    assert_billed_once(&provider, CALLS);
    assert_eq!(provider.stats().batches.created, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_at_once_send_no_call_twice() {
    let behaviour = BatchBehaviour { seconds: 0.3, ..BatchBehaviour::default() };
    let (provider, folder) = (provider(behaviour).await, tempfile::tempdir().unwrap());
    let (one, other) = (client(folder.path()), client(folder.path()));
    let (ours, theirs) = tokio::join!(ask_all(&one, &provider.url), ask_all(&other, &provider.url));
    assert!(ours.iter().chain(&theirs).all(Result::is_ok));
    assert_billed_once(&provider, CALLS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_are_embedded_in_batches_too() {
    let (provider, folder) = (provider(BatchBehaviour::default()).await, tempfile::tempdir().unwrap());
    let text = |batch: &str| format!("openai = {{ model = \"m\", base_url = \"{}/v1\"{batch} }}", provider.url);
    let texts: Vec<String> = (0..30).map(|i| format!("Text {i}.")).collect();
    let embed = async |client: &Client, batch: &str| {
        let config: EmbeddingConfig = toml::from_str(&text(batch)).unwrap();
        client.embedder(config.build(&context()).unwrap()).embed(&texts, InputKind::Document).await.unwrap()
    };
    let batched = embed(&client(folder.path()), ", batch = { quiet_seconds = 0.2, poll_seconds = 0.05 }").await;
    assert_billed_once(&provider, 30);
    assert_eq!(provider.stats().batches.created, 1);
    let other = tempfile::tempdir().unwrap();
    assert_eq!(batched, embed(&client(other.path()), "").await, "the same vectors as one by one");
    assert!(provider.stats().requests > 0);
}

#[tokio::test]
async fn a_client_that_sends_no_batches_calls_at_once_for_the_whole_price() {
    let (provider, folder) = (provider(BatchBehaviour::default()).await, tempfile::tempdir().unwrap());
    for client in [Client::new(None).with_batches(), Client::sharing(journal(folder.path()))] {
        let chat = client.chat(chat_config(&provider.url).build(&context()).unwrap());
        assert_eq!(chat.price(), (10.0, 100.0));
        chat.chat(&request(1)).await.unwrap();
    }
    assert_eq!((provider.stats().requests, provider.stats().batches.created), (2, 0));
}

/// Where a run is killed.
#[derive(Debug, Clone, Copy)]
enum Moment {
    Gathering,
    Uploading,
    /// The batch exists, and the reply has not come.
    Creating,
    Running,
    /// The answers were read, and may be in the journal or not.
    Reading,
    Ended,
}

/// The process that is killed: [`runs_are_killed`] starts this test.
#[tokio::test]
#[ignore = "a part of another test"]
async fn killed_run() {
    let (Ok(url), Ok(folder)) = (std::env::var("BATCH_URL"), std::env::var("BATCH_FOLDER")) else { return };
    ask_all(&client(Path::new(&folder)), &url).await;
}

async fn runs_are_killed(moment: Moment) {
    let behaviour =
        BatchBehaviour { upload_seconds: 0.4, create_seconds: 0.4, seconds: 0.6, ..BatchBehaviour::default() };
    let (provider, folder) = (provider(behaviour).await, tempfile::tempdir().unwrap());
    let mut run = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["killed_run", "--exact", "--ignored"])
        .env("BATCH_URL", &provider.url)
        .env("BATCH_FOLDER", folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let is_due = || {
        let counts = provider.stats().batches;
        match moment {
            Moment::Gathering => folder.path().join("journal.db").exists(),
            Moment::Uploading => {
                let journal = Journal::open_to_read(folder.path().join("journal.db"));
                journal.and_then(|journal| journal.batches()).is_ok_and(|records| !records.is_empty())
            }
            Moment::Creating => counts.created == 1,
            Moment::Running => counts.polls >= 2,
            Moment::Reading => counts.downloads >= 1,
            Moment::Ended => false,
        }
    };
    while !is_due() && run.try_wait().unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    run.kill().unwrap();
    run.wait().unwrap();
    let answers = ask_all(&client(folder.path()), &provider.url).await;
    assert!(answers.iter().all(Result::is_ok), "{moment:?}: {:?}", answers.iter().find(|answer| answer.is_err()));
    assert_billed_once(&provider, CALLS);
    assert!(journal(folder.path()).batches().await.unwrap().is_empty(), "{moment:?}: no record is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_killed_at_any_step_pays_for_nothing_twice() {
    for moment in [Moment::Gathering, Moment::Creating, Moment::Running, Moment::Reading, Moment::Ended] {
        runs_are_killed(moment).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_was_never_created_is_made_anew_when_its_process_is_silent() {
    runs_are_killed(Moment::Uploading).await;
}
