//! Answers that are read while they are written: in which order what is
//! told, kept and paid.

use super::*;
use crate::{
    AnswerPiece, AnswerStream, ChatConfig, ChatRequest, ChatResponse, CpuBudget, Finish, Message, Model,
    ModelDirectory, OnPiece, Usage, provider::ModelContext,
};
use async_trait::async_trait;
use futures::{FutureExt, StreamExt};
use serde_json::json;
use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
};
use tokio::sync::Semaphore;

/// What a speaker does in an attempt.
#[derive(Clone)]
pub(super) enum Step {
    Say(&'static str),
    /// Waits until it is let go.
    Wait,
    Fail,
}

use Step::{Fail, Say, Wait};

/// A model that speaks as its script says, an attempt a line.
pub(super) struct Speaker {
    identity: Identity,
    pub(super) requests: Mutex<Vec<ChatRequest>>,
    script: Mutex<VecDeque<Vec<Step>>>,
    go_on: Semaphore,
    n_calls: AtomicUsize,
    n_whole: AtomicUsize,
}

impl Speaker {
    fn new(script: Vec<Vec<Step>>) -> Arc<Self> {
        Self::of("openai", script)
    }

    pub(super) fn of(provider: &str, script: Vec<Vec<Step>>) -> Arc<Self> {
        let identity = Identity {
            provider: provider.to_owned(),
            model: "speaker".to_owned(),
            revision: if provider == "openai" { "http://127.0.0.1:1/v1" } else { "1" }.to_owned(),
            parameters: serde_json::Value::Null,
        };
        Arc::new(Self {
            identity,
            requests: Mutex::default(),
            script: Mutex::new(script.into()),
            go_on: Semaphore::new(0),
            n_calls: AtomicUsize::new(0),
            n_whole: AtomicUsize::new(0),
        })
    }
}

impl Model for Speaker {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn concurrency(&self) -> usize {
        4
    }
}

#[async_trait]
impl ChatModel for Speaker {
    fn context_length(&self) -> usize {
        100
    }

    fn count_tokens(&self, text: &str) -> usize {
        text.len()
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, Error> {
        self.n_whole.fetch_add(1, Ordering::SeqCst);
        let nobody: OnPiece = Arc::new(|_| ());
        self.chat_streaming(request, &nobody).await
    }

    async fn chat_streaming(&self, request: &ChatRequest, on_piece: &OnPiece) -> Result<ChatResponse, Error> {
        self.requests.lock().expect("no panic").push(request.clone());
        self.n_calls.fetch_add(1, Ordering::SeqCst);
        let steps = self.script.lock().expect("no panic").pop_front().expect("a line for this attempt");
        let mut text = String::new();
        for step in steps {
            match step {
                Say(piece) => {
                    text.push_str(piece);
                    on_piece(piece);
                    tokio::task::yield_now().await;
                }
                Wait => self.go_on.acquire().await.expect("it stays open").forget(),
                Fail => return Err(Error::connection("e", "r")),
            }
        }
        let usage = Usage { prompt_tokens: 3, cached_tokens: 0, completion_tokens: 2, ..Usage::default() };
        Ok(ChatResponse { text, finish: Finish::Stop, usage, choices: Vec::new(), seconds: 1.0 })
    }
}

pub(super) fn client(journal: Option<Arc<Journal>>) -> Client {
    let (base_delay, max_delay) = (Duration::from_millis(1), Duration::from_millis(5));
    let quick = RetryPolicy { max_attempts: 40, base_delay, max_delay, ..RetryPolicy::default() };
    Client::new(journal).with_retry(quick)
}

pub(super) fn journal() -> (tempfile::TempDir, Arc<Journal>) {
    let folder = tempfile::tempdir().expect("a folder");
    let journal = Journal::open(folder.path().join("journal.sqlite")).expect("a journal");
    (folder, Arc::new(journal))
}

pub(super) fn n_kept(journal: &Journal) -> u64 {
    journal.statistics().expect("statistics").entries
}

pub(super) fn request(text: &str) -> ChatRequest {
    ChatRequest::new(vec![Message::user(text)], 8)
}

pub(super) fn text(text: &str) -> AnswerPiece {
    AnswerPiece::Text(text.to_owned())
}

pub(super) async fn pieces(answering: &mut AnswerStream) -> Vec<AnswerPiece> {
    answering.map(|piece| piece.expect("a piece")).collect().await
}

/// What a reader has in front of it after these pieces.
fn read(pieces: &[AnswerPiece]) -> String {
    let mut page = String::new();
    for piece in pieces {
        match piece {
            AnswerPiece::Text(text) => page.push_str(text),
            AnswerPiece::Restart => page.clear(),
        }
    }
    page
}

#[tokio::test]
async fn pieces_come_while_it_is_written_and_the_end_when_it_is_kept() {
    let (_folder, journal) = journal();
    let speaker = Speaker::new(vec![vec![Say("one "), Wait, Say("two"), Wait]]);
    let client = client(Some(journal.clone()));
    let mut answering = client.chat(speaker.clone()).stream(&request("a"));
    assert_eq!(answering.next().await.expect("more").expect("a piece"), text("one "));
    assert!(answering.next().now_or_never().is_none(), "the rest is not written yet");
    assert_eq!(n_kept(&journal), 0);
    speaker.go_on.add_permits(1);
    assert_eq!(answering.next().await.expect("more").expect("a piece"), text("two"));
    assert!(answering.next().now_or_never().is_none(), "it is not known yet that this is all");
    speaker.go_on.add_permits(1);
    assert!(answering.next().await.is_none());
    assert_eq!(n_kept(&journal), 1, "it is kept before the stream ends");
    let response = answering.finish().await.expect("an answer");
    assert_eq!((response.text.as_str(), client.meter().of("speaker").calls), ("one two", 1));
}

#[tokio::test]
async fn a_streamed_answer_and_a_whole_one_are_the_same_entry() {
    let (_folder, journal) = journal();
    let speaker = Speaker::new(vec![vec![Say("a"), Say("b")], vec![Say("c"), Say("d")]]);
    let chat = client(Some(journal.clone())).chat(speaker.clone());
    let streamed = chat.stream(&request("1")).finish().await.expect("an answer");
    assert_eq!(chat.chat(&request("1")).await.expect("from the journal"), streamed);
    let whole = chat.chat(&request("2")).await.expect("an answer");
    let mut again = chat.stream(&request("2"));
    assert_eq!(pieces(&mut again).await, [text("cd")], "what is there is one piece");
    assert_eq!(again.finish().await.expect("from the journal"), whole);
    assert_eq!((speaker.n_calls.load(Ordering::SeqCst), n_kept(&journal)), (2, 2));
}

#[tokio::test]
async fn an_attempt_that_failed_is_continued_where_the_next_one_repeats_it() {
    let lines = vec![vec![Say("one "), Say("two"), Fail], vec![Fail], vec![Say("one"), Say(" two"), Say(" three")]];
    let mut answering = client(None).chat(Speaker::new(lines)).stream(&request("a"));
    assert_eq!(pieces(&mut answering).await, [text("one "), text("two"), text(" three")]);
    assert_eq!(answering.finish().await.expect("the third attempt").text, "one two three");
}

#[tokio::test]
async fn an_attempt_that_failed_is_taken_back_where_the_next_one_differs() {
    let lines = vec![vec![Say("one "), Say("two"), Fail], vec![Say("one "), Say("more")]];
    let mut answering = client(None).chat(Speaker::new(lines)).stream(&request("a"));
    let told = pieces(&mut answering).await;
    assert_eq!(told, [text("one "), text("two"), AnswerPiece::Restart, text("one more")]);
    assert_eq!(read(&told), answering.finish().await.expect("the second attempt").text);
}

#[tokio::test]
async fn an_error_is_the_last_item_and_what_finish_gives() {
    let once = Client::new(None).with_retry(RetryPolicy::never());
    let mut answering = once.chat(Speaker::new(vec![vec![Say("half"), Fail]])).stream(&request("a"));
    assert_eq!(answering.next().await.expect("more").expect("a piece"), text("half"));
    assert!(matches!(answering.next().await, Some(Err(Error::Connection { .. }))));
    assert!(answering.next().await.is_none() && answering.next().await.is_none());
    assert!(matches!(answering.finish().await, Err(Error::Connection { .. })));
}

#[tokio::test]
async fn whoever_asks_the_same_meanwhile_joins_and_sees_it_from_the_beginning() {
    let speaker = Speaker::new(vec![vec![Say("one "), Wait, Say("two")]]);
    let client = client(None);
    let chat = client.chat(speaker.clone());
    let same = request("a");
    let mut first = chat.stream(&same);
    assert_eq!(first.next().await.expect("more").expect("a piece"), text("one "));
    let mut second = chat.stream(&same);
    assert_eq!(second.next().await.expect("more").expect("a piece"), text("one "));
    let mut whole = Box::pin(chat.chat(&same));
    assert!(whole.as_mut().now_or_never().is_none());
    // Who began it leaves; the others still wait for it.
    drop(first);
    speaker.go_on.add_permits(1);
    assert_eq!(pieces(&mut second).await, [text("two")]);
    assert_eq!(whole.await.expect("an answer").text, "one two");
    assert_eq!((speaker.n_calls.load(Ordering::SeqCst), client.meter().of("speaker").from_journal), (1, 2));
}

#[tokio::test]
async fn who_joins_a_call_that_nobody_looks_at_gets_one_piece() {
    let speaker = Speaker::new(vec![vec![Say("one "), Wait, Say("two")]]);
    let chat = client(None).chat(speaker.clone());
    let same = request("a");
    let mut whole = Box::pin(chat.chat(&same));
    assert!(whole.as_mut().now_or_never().is_none());
    let mut late = chat.stream(&same);
    assert!(late.next().now_or_never().is_none());
    speaker.go_on.add_permits(1);
    assert_eq!(pieces(&mut late).await, [text("one two")]);
    assert_eq!(whole.await.expect("an answer").text, "one two");
    assert_eq!((speaker.n_calls.load(Ordering::SeqCst), speaker.n_whole.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test]
async fn a_stream_that_nobody_reads_any_more_ends_its_call() {
    let (_folder, journal) = journal();
    let speaker = Speaker::new(vec![vec![Say("one "), Wait, Say("two")], vec![Say("all")]]);
    let client = client(Some(journal.clone()));
    let chat = client.chat(speaker.clone());
    let mut answering = chat.stream(&request("a"));
    assert_eq!(answering.next().await.expect("more").expect("a piece"), text("one "));
    assert_eq!(client.limits()["chat speaker"].status.in_flight, 1);
    drop(answering);
    assert_eq!((client.limits()["chat speaker"].status.in_flight, n_kept(&journal)), (0, 0));
    assert_eq!(chat.stream(&request("a")).finish().await.expect("another call").text, "all");
    assert_eq!((speaker.n_calls.load(Ordering::SeqCst), n_kept(&journal)), (2, 1));
}

#[tokio::test]
async fn a_cancelled_stream_ends_with_that_error() {
    let cancel = CancellationToken::new();
    let client = client(None).with_cancellation(cancel.clone());
    let mut answering = client.chat(Speaker::new(vec![vec![Say("one "), Wait]])).stream(&request("a"));
    assert_eq!(answering.next().await.expect("more").expect("a piece"), text("one "));
    cancel.cancel();
    assert!(matches!(answering.next().await, Some(Err(Error::Cancelled))));
    assert!(answering.next().await.is_none());
}

/// A model behind a simulated provider.
fn remote(provider: &simulator::RunningSimulator) -> Arc<dyn ChatModel> {
    let config = json!({ "openai": {
        "model": "m", "base_url": format!("{}/v1", provider.url), "concurrency": 8, "timeout_seconds": 300.0
    } });
    let config: ChatConfig = serde_json::from_value(config).expect("settings");
    let cx = ModelContext {
        directory: ModelDirectory::new(PathBuf::from("/nonexistent"), Vec::new()),
        cpu: CpuBudget::new(1),
        environment: Arc::new(|_| None),
    };
    config.build(&cx).expect("a model")
}

#[tokio::test]
async fn streams_through_every_fault_give_each_answer_once() {
    const CALLS: u64 = 60;
    let faults = simulator::Faults {
        rate_limited: 0.05,
        overloaded: 0.05,
        server_error: 0.05,
        reset: 0.1,
        truncated: 0.25,
        malformed: 0.1,
        ..simulator::Faults::default()
    };
    let settings =
        simulator::SimulatorSettings { faults, answer_tokens: 20, seed: 3, ..simulator::SimulatorSettings::default() };
    let provider = simulator::start(settings).await.expect("a provider");
    let (_folder, journal) = journal();
    let chat = client(Some(journal.clone())).chat(remote(&provider));
    let streams = (0..CALLS).map(|i| {
        let mut answering = chat.stream(&request(&format!("question {i}")));
        async move {
            let told = pieces(&mut answering).await;
            (told, answering.finish().await.expect("an answer"))
        }
    });
    let answers = futures::future::join_all(streams).await;
    for (told, response) in &answers {
        assert_eq!(read(told), response.text);
        assert_eq!((response.usage.completion_tokens, response.finish), (20 - 12, Finish::Length));
        // The provider repeats itself, so what was shown of a failed attempt stays.
        assert!(!told.contains(&AnswerPiece::Restart) && told.len() > 1, "{told:?}");
    }
    let stats = provider.stats();
    let (broken, kept) = (stats.faults.truncated + stats.faults.malformed, n_kept(&journal));
    assert!(broken > 10, "too few streams broke off: {stats:?}");
    assert_eq!((stats.answered, stats.unique_answered, stats.answered_twice, kept), (CALLS, CALLS, 0, CALLS));
    // The next process pays nothing.
    let chat = client(Some(journal)).chat(remote(&provider));
    for (i, (_, response)) in answers.iter().enumerate() {
        let mut again = chat.stream(&request(&format!("question {i}")));
        assert_eq!(pieces(&mut again).await, [text(&response.text)]);
        assert_eq!(&again.finish().await.expect("from the journal"), response);
    }
    assert_eq!(provider.stats().requests, stats.requests);
}

#[tokio::test]
async fn a_streamed_answer_of_a_provider_has_all_that_a_whole_one_has() {
    let provider = simulator::start(simulator::SimulatorSettings::default()).await.expect("a provider");
    let (streaming, waiting) = (client(None).chat(remote(&provider)), client(None).chat(remote(&provider)));
    let schema = json!({ "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"] });
    let long = |request: ChatRequest| ChatRequest { max_tokens: 100, ..request };
    let requests = [
        long(request("why?")),
        ChatRequest { schema: Some(schema), ..long(request("why?")) },
        ChatRequest { choices: vec!["Yes".to_owned(), "No".to_owned()], ..request("is it?") },
    ];
    for request in requests {
        let mut answering = streaming.stream(&request);
        let told = pieces(&mut answering).await;
        let streamed = answering.finish().await.expect("an answer");
        // It draws its answers from the request, which names the stream.
        let whole = waiting.chat(&request).await.expect("an answer");
        assert_eq!(read(&told), streamed.text);
        assert_eq!((streamed.finish, streamed.usage.prompt_tokens), (whole.finish, whole.usage.prompt_tokens));
        assert_eq!(streamed.choices.len(), whole.choices.len());
        assert!(streamed.usage.completion_tokens > 0);
    }
}
