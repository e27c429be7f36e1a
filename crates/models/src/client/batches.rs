//! Calls that a provider answers in batches: cheaper, and within hours.
//!
//! The calls of a model gather in a queue until no other call came for a while, and then leave together. A batch is
//! recorded in the journal before it is sent, under a token that the provider keeps with it:
//!
//! 1. The record is written, with the keys of the calls. Calls that another process has in a batch are left to it.
//! 2. The file is uploaded. 3. The batch is created; from here on it is billed. 4. Its id is recorded.
//! 5. The provider is asked again and again whether it is done. 6. All answers are written to the journal.
//! 7. The record is removed, and the callers get their answers.
//!
//! A process that is killed between two steps leaves the record. The next one that makes such a call finds the batch by
//! its id or its token, and takes the answers instead of paying again. If the provider knows no batch of that token,
//! and the process that wrote the record is silent, the batch was never created, and its calls are made anew.

use crate::{BatchEndpoint, BatchLine, BatchState, Error, locked};
use executor::{ErrorClass, Retryable};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use store::{JournalEntry, Key, KeyBuilder, SharedJournal, unique_token};
use tokio::{
    sync::{Notify, OnceCell, oneshot},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

/// Raise this when the fields of a record change.
const VERSION: u32 = 1;
/// The most bytes of a batch's file; OpenAI takes 200 MB.
const MAX_BYTES: usize = 100 << 20;
/// The longest pause between two questions whether a batch is done.
const SLOWEST_POLL: Duration = Duration::from_secs(60);
/// How often the process that sends a batch shows in its record that it lives, and when it counts as dead.
const BEAT: Duration = Duration::from_secs(5);
const SILENT: Duration = Duration::from_secs(30);
/// How often a request of the batch interface is tried, and the first pause in between.
const ATTEMPTS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(500);
/// Answers that are written to the journal at once.
const WRITTEN_AT_ONCE: usize = 200;

/// A batch, in the journal.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct BatchRecord {
    version: u32,
    /// The model and the account.
    scope: String,
    /// The keys of its calls.
    keys: Vec<String>,
    /// Its id; none until it was created.
    batch: Option<String>,
    /// When the process that sends it last wrote this.
    written_unix_ms: i64,
}

impl BatchRecord {
    fn keys(&self) -> impl Iterator<Item = Key> {
        self.keys.iter().filter_map(|key| Key::from_hex(key))
    }

    /// Whether the process that wrote it is dead.
    fn is_silent(&self) -> bool {
        u128::from(now().abs_diff(self.written_unix_ms)) > SILENT.as_millis()
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The queues of a client, by scope. Their work ends when this is dropped; batches stay with their providers.
#[derive(Default)]
pub(super) struct BatchQueues {
    queues: Mutex<HashMap<String, Arc<BatchQueue>>>,
    ended: CancellationToken,
}

impl Drop for BatchQueues {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

impl BatchQueues {
    /// The queue of a model and an account.
    pub(super) fn of(
        &self,
        scope: String,
        model: &str,
        endpoint: Arc<dyn BatchEndpoint>,
        journal: SharedJournal,
    ) -> Arc<BatchQueue> {
        let mut queues = locked(&self.queues);
        let queue = queues.entry(scope.clone()).or_insert_with(|| {
            Arc::new(BatchQueue {
                scope,
                model: model.to_owned(),
                endpoint,
                journal,
                state: Mutex::default(),
                arrived: Notify::new(),
                opened: OnceCell::new(),
                ended: self.ended.clone(),
            })
        });
        queue.clone()
    }

    /// Batches that providers work on, and the calls in them.
    pub(super) fn in_progress(&self) -> (usize, usize) {
        let queues = locked(&self.queues);
        let states = queues.values().map(|queue| {
            let state = locked(&queue.state);
            (state.batches.len(), state.batches.values().sum::<usize>())
        });
        states.fold((0, 0), |(batches, calls), (more, others)| (batches + more, calls + others))
    }
}

/// The calls of one model and account that wait for batches.
pub(super) struct BatchQueue {
    scope: String,
    model: String,
    endpoint: Arc<dyn BatchEndpoint>,
    journal: SharedJournal,
    state: Mutex<BatchQueueState>,
    /// Notified when a call arrives.
    arrived: Notify,
    /// Set when the batches of earlier runs are known.
    opened: OnceCell<()>,
    ended: CancellationToken,
}

#[derive(Default)]
struct BatchQueueState {
    /// Calls to be sent, in order. Those that are no longer in `calls` were cancelled.
    waiting: VecDeque<Key>,
    calls: HashMap<Key, GatheredCall>,
    /// Calls in batches that earlier runs or other processes sent.
    adopted: HashSet<Key>,
    /// The batches that are being followed, by token, with their numbers of calls.
    batches: BTreeMap<String, usize>,
}

struct GatheredCall {
    /// The line to send; none for a caller that takes the answer of another process's batch or makes the call itself.
    line: Option<String>,
    is_sent: bool,
    /// Set while the call may be billed.
    submitted: Arc<AtomicBool>,
    callers: Vec<oneshot::Sender<Result<Value, Error>>>,
}

/// Takes a call out of the queue if its caller goes away before it is sent.
struct QueuedGuard<'a> {
    queue: &'a BatchQueue,
    key: Key,
}

impl Drop for QueuedGuard<'_> {
    fn drop(&mut self) {
        let mut state = locked(&self.queue.state);
        let is_over = state.calls.get_mut(&self.key).is_some_and(|call| {
            call.callers.retain(|caller| !caller.is_closed());
            call.callers.is_empty() && !call.is_sent
        });
        if is_over {
            state.calls.remove(&self.key);
        }
    }
}

impl BatchQueue {
    /// The answer of a call, from the next batch. `submitted` is set while the call may be billed without an answer.
    pub(super) async fn call(
        self: &Arc<Self>,
        key: Key,
        body: &Value,
        submitted: Arc<AtomicBool>,
    ) -> Result<Value, Error> {
        self.open().await?;
        let line = self.endpoint.line(&key.hex(), body);
        let answer = {
            let mut state = locked(&self.state);
            let (sender, answer) = oneshot::channel();
            let call = state.calls.entry(key).or_insert_with(|| GatheredCall {
                line: None,
                is_sent: false,
                submitted: submitted.clone(),
                callers: Vec::new(),
            });
            call.callers.push(sender);
            if call.line.is_none() && !call.is_sent {
                (call.line, call.submitted) = (Some(line), submitted);
                state.waiting.push_back(key);
            }
            answer
        };
        self.arrived.notify_one();
        let guard = QueuedGuard { queue: self, key };
        let answer = answer.await.unwrap_or(Err(Error::Cancelled));
        drop(guard);
        answer
    }

    /// The answer of a call that an earlier run or another process has in a batch; none if there is no such batch, or
    /// it has no answer.
    pub(super) async fn earlier_answer(self: &Arc<Self>, key: Key) -> Result<Option<Value>, Error> {
        self.open().await?;
        let Some(answer) = self.wait_for_adopted(key) else {
            // Looked up after the batches: answers are in the journal before their batch is forgotten.
            let kept = self.journal.get(&batch_answer_key(&key)).await.map_err(super::journal_error)?;
            return Ok(kept.and_then(|entry| serde_json::from_str(&entry.response).ok()));
        };
        Ok(answer.await.ok().and_then(Result::ok))
    }

    /// Waits for a call in a batch that an earlier run or another process sent; none if there is no such batch.
    fn wait_for_adopted(&self, key: Key) -> Option<oneshot::Receiver<Result<Value, Error>>> {
        let mut state = locked(&self.state);
        if !state.adopted.contains(&key) {
            return None;
        }
        let (sender, answer) = oneshot::channel();
        let call = state.calls.entry(key).or_insert_with(|| GatheredCall {
            line: None,
            is_sent: true,
            submitted: Arc::default(),
            callers: Vec::new(),
        });
        call.callers.push(sender);
        Some(answer)
    }

    /// Finds the batches of earlier runs and other processes, and begins to gather calls.
    async fn open(self: &Arc<Self>) -> Result<(), Error> {
        let open = async || {
            let records = self.journal.batches().await.map_err(super::journal_error)?;
            for (token, record) in self.records(records) {
                self.adopt(token, record);
            }
            let queue = self.clone();
            self.spawn(async move { queue.gather().await });
            Ok(())
        };
        self.opened.get_or_try_init(open).await.map(|_| ())
    }

    /// The records of this scope.
    fn records(&self, all: BTreeMap<String, String>) -> Vec<(String, BatchRecord)> {
        let read = |(token, text): (String, String)| Some((token, serde_json::from_str::<BatchRecord>(&text).ok()?));
        let records = all.into_iter().filter_map(read);
        records.filter(|(_, record)| record.version == VERSION && record.scope == self.scope).collect()
    }

    /// Runs a task until the client is dropped.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let ended = self.ended.clone();
        tokio::spawn(async move { ended.run_until_cancelled(task).await });
    }

    /// Follows a batch that this process did not send.
    fn adopt(self: &Arc<Self>, token: String, record: BatchRecord) {
        let is_new = {
            let mut state = locked(&self.state);
            let keys: Vec<Key> = record.keys().collect();
            let is_new = state.batches.insert(token.clone(), keys.len()).is_none();
            state.adopted.extend(keys);
            is_new
        };
        if is_new {
            let queue = self.clone();
            self.spawn(async move { queue.follow(token, record).await });
        }
    }

    /// Sends the calls that wait whenever no other call came for a while.
    async fn gather(self: &Arc<Self>) {
        let settings = self.endpoint.settings();
        loop {
            let arrived = self.arrived.notified();
            let waiting = locked(&self.state).waiting.len();
            if waiting == 0 {
                arrived.await;
                continue;
            }
            if waiting < settings.max_requests && timeout(settings.quiet(), arrived).await.is_ok() {
                continue;
            }
            let calls = self.next_calls(settings.max_requests);
            if !calls.is_empty() {
                let queue = self.clone();
                self.spawn(async move { queue.send(calls).await });
            }
        }
    }

    /// Takes the calls of the next batch out of the queue.
    fn next_calls(&self, at_most: usize) -> Vec<(Key, String)> {
        let mut state = locked(&self.state);
        let (mut calls, mut bytes) = (Vec::new(), 0);
        while calls.len() < at_most
            && bytes < MAX_BYTES
            && let Some(key) = state.waiting.pop_front()
        {
            let Some(call) = state.calls.get_mut(&key).filter(|call| !call.is_sent) else { continue };
            let Some(line) = call.line.clone() else { continue };
            call.is_sent = true;
            bytes += line.len() + 1;
            calls.push((key, line));
        }
        calls
    }

    /// Sends one batch, and follows it to its end.
    async fn send(self: &Arc<Self>, mut calls: Vec<(Key, String)>) {
        let token = unique_token();
        let keys = |calls: &[(Key, String)]| calls.iter().map(|(key, _)| key.hex()).collect();
        let mut record = BatchRecord {
            version: VERSION,
            scope: self.scope.clone(),
            keys: keys(&calls),
            batch: None,
            written_unix_ms: now(),
        };
        let others = match self.write(&token, &record).await {
            Ok(others) => others,
            Err(error) => return self.fail(calls.iter().map(|(key, _)| *key), &error),
        };
        // Another process may have recorded some of these calls since they were looked up; its batch answers them.
        for (other, theirs) in others.into_iter().filter(|(other, _)| *other != token) {
            let known: HashSet<Key> = theirs.keys().collect();
            if calls.iter().any(|(key, _)| known.contains(key)) {
                calls.retain(|(key, _)| !known.contains(key));
                self.adopt(other, theirs);
            }
        }
        // And it may have taken the answers meanwhile.
        let kept = self.take_kept(calls.iter().map(|(key, _)| *key)).await;
        calls.retain(|(key, _)| !kept.contains(key));
        if calls.len() < record.keys.len() {
            record.keys = keys(&calls);
            let written = self.write(&token, &record).await;
            if calls.is_empty() {
                return self.forget(&token).await;
            }
            if let Err(error) = written {
                return self.fail(calls.iter().map(|(key, _)| *key), &error);
            }
        }
        locked(&self.state).batches.insert(token.clone(), calls.len());
        let (keys, lines): (Vec<Key>, Vec<String>) = calls.into_iter().unzip();
        match self.submit(&token, &record, &keys, lines).await {
            Ok(batch) => {
                record.batch = Some(batch);
                // If this cannot be written, the batch is found by its token.
                let _ = self.write(&token, &record).await;
                self.follow(token, record).await;
            }
            Err(SubmitError::NotCreated(error)) => {
                self.forget(&token).await;
                self.fail(keys.into_iter(), &error);
            }
            // The record stays, so that the next run can find out.
            Err(SubmitError::Unknown(error)) => {
                locked(&self.state).batches.remove(&token);
                self.fail_billed(keys.into_iter(), &error);
            }
        }
    }

    /// Writes a record, and returns all records of this scope.
    async fn write(&self, token: &str, record: &BatchRecord) -> Result<Vec<(String, BatchRecord)>, Error> {
        let record = BatchRecord { written_unix_ms: now(), ..record.clone() };
        let text = serde_json::to_string(&record).map_err(|error| Error::KeptForm(error.to_string()))?;
        let all = self.journal.put_batch(token, text).await.map_err(super::journal_error)?;
        Ok(self.records(all))
    }

    async fn forget(&self, token: &str) {
        locked(&self.state).batches.remove(token);
        // A record that stays is looked at by the next run, which finds its answers in the journal.
        let _ = self.journal.remove_batch(token).await;
    }

    /// Uploads the lines of a batch, and creates it; returns its id.
    async fn submit(
        &self,
        token: &str,
        record: &BatchRecord,
        keys: &[Key],
        lines: Vec<String>,
    ) -> Result<String, SubmitError> {
        let lines = lines.join("\n") + "\n";
        let shows_life = async {
            loop {
                sleep(BEAT).await;
                let _ = self.write(token, record).await;
            }
        };
        let submit = async {
            let file = retried(|| self.endpoint.upload(token, lines.clone())).await.map_err(SubmitError::NotCreated)?;
            // The batch may be billed from now on, also if its reply is lost.
            self.mark(keys, true);
            let mut pause = PAUSE;
            for attempt in 1.. {
                let error = match self.endpoint.create(&file, token).await {
                    Ok(batch) => return Ok(batch),
                    Err(error) => error,
                };
                if !may_pass(&error) {
                    self.mark(keys, false);
                    return Err(SubmitError::NotCreated(error));
                }
                // The request may have arrived although its reply did not.
                match retried(|| self.endpoint.find(token)).await {
                    Ok(Some(batch)) => return Ok(batch),
                    Ok(None) if attempt < ATTEMPTS => {}
                    Ok(None) => {
                        self.mark(keys, false);
                        return Err(SubmitError::NotCreated(error));
                    }
                    Err(_) => return Err(SubmitError::Unknown(error)),
                }
                sleep(error.retry_after().unwrap_or(pause)).await;
                pause = (pause * 2).min(SLOWEST_POLL);
            }
            Err(SubmitError::Unknown(Error::Cancelled))
        };
        tokio::select! {
            submitted = submit => submitted,
            () = shows_life => Err(SubmitError::Unknown(Error::Cancelled)),
        }
    }

    /// Notes whether calls may be billed.
    fn mark(&self, keys: &[Key], is_billed: bool) {
        let state = locked(&self.state);
        for call in keys.iter().filter_map(|key| state.calls.get(key)) {
            call.submitted.store(is_billed, Ordering::Relaxed);
        }
    }

    /// Waits for the end of a batch, and hands out its answers.
    async fn follow(self: &Arc<Self>, token: String, record: BatchRecord) {
        let keys: Vec<Key> = record.keys().collect();
        let batch = match record.batch.clone() {
            Some(batch) => Some(batch),
            None => self.find_created(&token, record).await,
        };
        let Some(batch) = batch else {
            self.forget(&token).await;
            // Its process may have taken the answers and removed the record.
            let kept = self.take_kept(keys.iter().copied()).await;
            return self.make_anew(keys.into_iter().filter(|key| !kept.contains(key)));
        };
        let (status, files, message) = match self.wait_for_end(&batch).await {
            Ok(ended) => ended,
            // The provider does not know it any more.
            Err(error @ Error::Refused { status: 404, .. }) => {
                self.forget(&token).await;
                return self.fail(keys.into_iter(), &error);
            }
            // Such as a key that is refused now. The record stays for the next run.
            Err(error) => {
                locked(&self.state).batches.remove(&token);
                return self.fail_billed(keys.into_iter(), &error);
            }
        };
        let wanted: HashSet<Key> = keys.iter().copied().collect();
        let mut outcomes: HashMap<Key, Result<Value, Error>> = HashMap::new();
        for file in files {
            let lines = match retried(|| self.endpoint.outcomes(&file)).await {
                Ok(lines) => lines,
                Err(Error::Refused { status: 404, .. }) => Vec::new(),
                Err(error) => {
                    locked(&self.state).batches.remove(&token);
                    return self.fail_billed(keys.into_iter(), &error);
                }
            };
            for BatchLine { id, outcome } in lines {
                let Some(key) = Key::from_hex(&id).filter(|key| wanted.contains(key)) else { continue };
                // The first answer to a call stays; an answer replaces an error.
                match outcomes.get(&key) {
                    Some(Ok(_)) => {}
                    Some(Err(_)) if outcome.is_err() => {}
                    _ => _ = outcomes.insert(key, outcome),
                }
            }
        }
        if let Err(error) = self.keep(&outcomes).await {
            locked(&self.state).batches.remove(&token);
            return self.fail_billed(keys.into_iter(), &error);
        }
        self.forget(&token).await;
        let reason = match message.is_empty() {
            true => format!("it ended as {status}"),
            false => format!("it ended as {status}: {message}"),
        };
        for key in keys {
            let outcome = outcomes.remove(&key).unwrap_or_else(|| Err(self.endpoint.unanswered(&reason)));
            self.resolve(key, outcome);
        }
    }

    /// The id of a batch whose record has none; none if it was never created.
    async fn find_created(&self, token: &str, mut record: BatchRecord) -> Option<String> {
        loop {
            // Looked at before the provider is asked: a dead process creates nothing after that.
            let is_silent = record.is_silent();
            match self.endpoint.find(token).await {
                Ok(Some(batch)) => {
                    record.batch = Some(batch.clone());
                    let _ = self.write(token, &record).await;
                    return Some(batch);
                }
                Ok(None) if is_silent => return None,
                Ok(None) | Err(_) => {}
            }
            sleep(self.endpoint.settings().poll()).await;
            let Ok(all) = self.journal.batches().await else { continue };
            match self.records(all).into_iter().find(|(other, _)| other == token) {
                Some((_, now)) if now.batch.is_some() => return now.batch,
                Some((_, now)) => record = now,
                // Its process has given up, or has taken the answers.
                None => return None,
            }
        }
    }

    /// The status, the files and the message of a batch that has ended.
    async fn wait_for_end(&self, batch: &str) -> Result<(String, Vec<String>, String), Error> {
        let mut pause = self.endpoint.settings().poll();
        loop {
            sleep(pause).await;
            match self.endpoint.state(batch).await {
                Ok(BatchState::Ended { status, files, message }) => return Ok((status, files, message)),
                Ok(BatchState::Running) => {}
                // It goes on, whether the provider can be asked or not.
                Err(error) if may_pass(&error) => {}
                Err(error) => return Err(error),
            }
            pause = pause.mul_f64(1.5).min(SLOWEST_POLL.max(self.endpoint.settings().poll()));
        }
    }

    /// Writes the answers of a batch to the journal as they came.
    async fn keep(&self, outcomes: &HashMap<Key, Result<Value, Error>>) -> Result<(), Error> {
        let answers = outcomes.iter().filter_map(|(key, outcome)| Some((key, outcome.as_ref().ok()?)));
        let entries: Vec<(Key, JournalEntry)> = answers
            .map(|(key, body)| {
                let entry = JournalEntry {
                    model: self.model.clone(),
                    kind: "batch".to_owned(),
                    response: body.to_string(),
                    // The entry of the call has tokens and cost.
                    prompt_tokens: 0,
                    completion_tokens: 0,
                    cost_usd: 0.0,
                    seconds: 0.0,
                    created_unix_ms: now(),
                };
                (batch_answer_key(key), entry)
            })
            .collect();
        for part in entries.chunks(WRITTEN_AT_ONCE) {
            self.journal.put_all(part.to_vec()).await.map_err(super::journal_error)?;
        }
        Ok(())
    }

    /// Hands an outcome to those who wait for it.
    fn resolve(&self, key: Key, outcome: Result<Value, Error>) {
        let mut state = locked(&self.state);
        let was_adopted = state.adopted.remove(&key);
        let Some(call) = state.calls.remove(&key) else { return };
        // A call that was left to the batch of another process is sent after all.
        if outcome.is_err() && was_adopted && call.line.is_some() {
            state.calls.insert(key, GatheredCall { is_sent: false, ..call });
            state.waiting.push_back(key);
            drop(state);
            return self.arrived.notify_one();
        }
        drop(state);
        if outcome.is_err() {
            call.submitted.store(false, Ordering::Relaxed);
        }
        for caller in call.callers {
            // Whoever is gone finds the answer in the journal.
            let _ = caller.send(outcome.clone());
        }
    }

    /// Fails calls that are not billed.
    fn fail(&self, keys: impl Iterator<Item = Key>, error: &Error) {
        keys.for_each(|key| self.resolve(key, Err(error.clone())));
    }

    /// Fails calls of a batch that may be billed: the next run takes its answers.
    fn fail_billed(&self, keys: impl Iterator<Item = Key>, error: &Error) {
        let mut state = locked(&self.state);
        let calls: Vec<GatheredCall> = keys.filter_map(|key| state.calls.remove(&key)).collect();
        drop(state);
        // Not repeated in this run: another attempt would pay again.
        let error = Error::BatchLost { model: self.model.clone(), reason: store::error_chain(error) };
        for caller in calls.into_iter().flat_map(|call| call.callers) {
            let _ = caller.send(Err(error.clone()));
        }
    }

    /// Hands out the answers of batches that are in the journal; returns the keys of their calls.
    async fn take_kept(&self, keys: impl Iterator<Item = Key>) -> HashSet<Key> {
        let keys: Vec<Key> = keys.collect();
        let entries =
            self.journal.get_all(&keys.iter().map(batch_answer_key).collect::<Vec<_>>()).await.unwrap_or_default();
        let mut kept = HashSet::new();
        for (key, entry) in keys.into_iter().zip(entries) {
            if let Some(body) = entry.and_then(|entry| serde_json::from_str(&entry.response).ok()) {
                self.resolve(key, Ok(body));
                kept.insert(key);
            }
        }
        kept
    }

    /// Sends the calls of a batch that was never created.
    fn make_anew(&self, keys: impl Iterator<Item = Key>) {
        self.fail(keys, &self.endpoint.unanswered("it was never created"));
    }
}

/// Why a batch was not submitted.
enum SubmitError {
    /// It does not exist.
    NotCreated(Error),
    /// Nobody knows whether it exists.
    Unknown(Error),
}

/// Whether the same request may succeed later.
fn may_pass(error: &Error) -> bool {
    matches!(error.class(), ErrorClass::Transient | ErrorClass::RateLimited | ErrorClass::Overloaded)
}

/// Repeats a request of the batch interface that fails for a while.
async fn retried<T, Fut>(request: impl Fn() -> Fut) -> Result<T, Error>
where
    Fut: Future<Output = Result<T, Error>>,
{
    let mut pause = PAUSE;
    for _ in 1..ATTEMPTS {
        match request().await {
            Err(error) if may_pass(&error) => sleep(error.retry_after().unwrap_or(pause)).await,
            outcome => return outcome,
        }
        pause = (pause * 2).min(SLOWEST_POLL);
    }
    request().await
}

/// The key under which the journal keeps the answer to a call as it came in a batch.
pub fn batch_answer_key(call: &Key) -> Key {
    KeyBuilder::new("batch answer").field("call", &call.hex()).finish()
}
