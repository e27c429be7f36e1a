//! A journal that cannot be written: payments stop, and what was paid is kept as soon as that is possible.

use super::*;
use crate::{ChatResponse, Finish, Message, Model, Usage};
use async_trait::async_trait;
use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};
use tokio::sync::Semaphore;

const CONCURRENCY: usize = 4;

/// Answers with its prompt; its call of this number finds the journal moved away.
struct Moving {
    identity: Identity,
    n_calls: AtomicUsize,
    at: usize,
    /// That call waits until so many have begun.
    with: usize,
    journal: PathBuf,
    /// Calls from this one on need a permit to end.
    gate: Semaphore,
}

impl Moving {
    fn new(at: usize, journal: &Path) -> Arc<Self> {
        let identity = Identity {
            provider: "openai".to_owned(),
            model: "toy".to_owned(),
            revision: "http://127.0.0.1:1/v1".to_owned(),
            parameters: serde_json::Value::Null,
        };
        let (n_calls, gate) = (AtomicUsize::new(0), Semaphore::new(0));
        Arc::new(Self { identity, n_calls, at, with: at, journal: journal.to_owned(), gate })
    }

    fn n_calls(&self) -> usize {
        self.n_calls.load(Ordering::SeqCst)
    }
}

impl Model for Moving {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn concurrency(&self) -> usize {
        CONCURRENCY
    }

    fn limits(&self) -> Limits {
        Limits::Fixed(CONCURRENCY)
    }
}

#[async_trait]
impl ChatModel for Moving {
    fn context_length(&self) -> usize {
        100
    }

    fn count_tokens(&self, text: &str) -> usize {
        text.len()
    }

    fn price(&self) -> (f64, f64) {
        (1.0, 1.0)
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, Error> {
        let number = self.n_calls.fetch_add(1, Ordering::SeqCst) + 1;
        if number == self.at {
            while self.n_calls() < self.with {
                tokio::task::yield_now().await;
            }
            std::fs::rename(&self.journal, away(&self.journal)).expect("it is moved away");
        } else if number > self.at {
            let _permit = self.gate.acquire().await.expect("open");
        }
        let usage = Usage { prompt_tokens: 1_000_000, ..Usage::default() };
        let text = request.messages[0].content.clone();
        Ok(ChatResponse { text, finish: Finish::Stop, usage, choices: Vec::new(), seconds: 0.1 })
    }
}

fn away(journal: &Path) -> PathBuf {
    journal.with_extension("away")
}

fn bring_back(journal: &Path) {
    std::fs::rename(away(journal), journal).expect("it is moved back");
}

fn requests(n: usize) -> Vec<ChatRequest> {
    (0..n).map(|i| ChatRequest::new(vec![Message::user(i.to_string())], 8)).collect()
}

fn journal() -> (tempfile::TempDir, PathBuf, Arc<Journal>) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal.db");
    let journal = Arc::new(Journal::open(&path).expect("a journal"));
    (folder, path, journal)
}

async fn all(chat: &Chat, requests: &[ChatRequest]) -> Vec<Result<ChatResponse, Error>> {
    futures::future::join_all(requests.iter().map(|request| chat.chat(request))).await
}

#[tokio::test]
async fn an_answer_that_cannot_be_kept_stops_payments_and_is_kept_when_that_is_possible() {
    let (_folder, path, journal) = journal();
    let model = Moving::new(10, &path);
    let client = Client::new(Some(journal.clone()));
    let (chat, requests) = (client.chat(model.clone()), requests(100));
    let release = async {
        while client.failure().is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        model.gate.add_permits(100);
    };
    let (answers, ()) = tokio::join!(all(&chat, &requests), release);
    let paid = model.n_calls();
    assert!((10..10 + CONCURRENCY).contains(&paid), "{paid} of 100 were paid: those in flight end, none begins");
    let failed: Vec<&Error> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    assert!(failed.iter().all(|error| matches!(error, Error::Journal(_)) && error.ends_work()), "{failed:?}");
    // Those answered before are kept in batches: how many of them in time depends on the machine.
    let kept = answers.len() - failed.len();
    assert!(kept < 10, "{kept} answers, although the tenth could not be kept");
    let spent = client.meter().total();
    assert_eq!((spent.calls, spent.cost_usd), (paid as u64, paid as f64), "what was paid counts, kept or not");
    let later = chat.chat(&self::requests(101)[100]).await;
    assert!(matches!(later, Err(Error::Journal(_))), "nothing begins afterwards: {later:?}");
    assert_eq!(client.drain(|_| ()).await, paid - kept, "these would be lost now");

    bring_back(&path);
    assert_eq!(client.drain(|_| ()).await, 0);
    assert_eq!(journal.statistics().expect("statistics").entries, paid as u64);
    let second = Moving::new(usize::MAX, &path);
    let chat = Client::new(Some(journal)).chat(second.clone());
    assert!(all(&chat, &requests).await.iter().all(Result::is_ok));
    assert_eq!(second.n_calls(), 100 - paid, "nothing is paid twice");
}

#[tokio::test]
async fn calls_in_flight_end_and_are_kept_although_nobody_waits_for_them() {
    let (_folder, path, journal) = journal();
    let model = Arc::new(Moving { with: 3, ..Arc::into_inner(Moving::new(1, &path)).expect("one owner") });
    let client = Client::new(Some(journal.clone()));
    let (chat, requests) = (client.chat(model.clone()), requests(3));
    // The first failure ends the work that asked, and drops what else it waited for.
    let first = futures::future::try_join_all(requests.iter().map(|request| chat.chat(request))).await;
    assert!(matches!(first, Err(Error::Journal(_))), "{first:?}");
    assert_eq!(model.n_calls(), 3);
    bring_back(&path);
    model.gate.add_permits(3);
    assert_eq!(client.drain(|_| ()).await, 0);
    assert_eq!(journal.statistics().expect("statistics").entries, 3);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_lives_on_asks_again_once_answers_can_be_kept() {
    let (_folder, path, journal) = journal();
    let model = Moving::new(1, &path);
    model.gate.add_permits(3);
    let client = Client::new(Some(journal.clone()));
    let (chat, requests) = (client.chat(model.clone()), requests(2));
    assert!(matches!(chat.chat(&requests[0]).await, Err(Error::Journal(_))));
    assert!(matches!(chat.chat(&requests[1]).await, Err(Error::Journal(_))));
    bring_back(&path);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(chat.chat(&requests[1]).await.expect("an answer").text, "1");
    assert!(client.failure().is_none());
    assert_eq!(chat.chat(&requests[0]).await.expect("kept").text, "0");
    assert_eq!((model.n_calls(), journal.statistics().expect("statistics").entries), (2, 2));
}
