//! One call to a model: taken from an identical call in flight or from the
//! journal, or made within the limits and the budget and then journalled.

use super::{
    Budget, Client, Spending,
    amount::BudgetAmount,
    answer_stream::DraftView,
    batches::BatchQueue,
    finishing::{end_of_cancelled, until_cancelled},
    journal_error,
    reply::{AnswerPart, CallAnswer, StoredAnswer},
    texts::shares,
    unsaved::RunningAttempt,
};
use crate::{Error, Identity, Model, Usage, ledger, trace};
use executor::{Limiter, OutcomeKind, Retryable};
use serde_json::Value;
use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use store::{JournalEntry, Key, KeyBuilder};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

/// Raise this when the stored form of an answer changes.
const ANSWER_VERSION: u32 = 1;
/// The pause before a budget's authority that does not answer is asked again, and
/// the time after which the call is given up. A lost authority is back within
/// seconds, and paid answers are kept in any case.
const ASK_AUTHORITY: Duration = Duration::from_secs(1);
const AUTHORITY_AWAY: Duration = Duration::from_secs(120);

/// Makes the calls of one kind to one model.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) client: Client,
    pub(super) kind: &'static str,
    pub(super) identity: Identity,
    pub(super) limiter: Limiter,
    pub(super) model: Arc<dyn Model>,
    /// Which answer to the same request this is: each number has its own journal entry. Not the number of a
    /// retry; see [`Chat::with_repeat`](super::Chat::with_repeat).
    pub(super) repeat: u32,
    /// The queue of its batches, if calls are sent in batches.
    pub(super) queue: Option<Arc<BatchQueue>>,
    /// The price of a call as a share of the model's price.
    pub(super) price_share: f64,
}

/// Makes an answer of what a provider has answered in a batch.
type AnswerReader = dyn Fn(&Value) -> Result<CallAnswer, Error> + Send + Sync;

/// A call that is sent in a batch.
#[derive(Clone)]
pub(super) struct BatchedCall {
    pub(super) queue: Arc<BatchQueue>,
    /// Set while the call may be billed without an answer.
    pub(super) submitted: Arc<AtomicBool>,
    pub(super) read: Arc<AnswerReader>,
}

/// The settings of calls, for a handle with a [`Caller`].
macro_rules! call_settings {
    ($Handle:ident) => {
        impl $Handle {
            /// This handle, with calls of a group: at the limit of what is called, groups take turns, however many calls
            /// each of them has.
            #[must_use]
            pub fn with_group(mut self, group: u64) -> Self {
                self.caller.client = self.caller.client.with_group(group);
                self
            }

            /// This handle, with calls that precede calls of a lower priority.
            #[must_use]
            pub fn with_priority(mut self, priority: i32) -> Self {
                self.caller.client = self.caller.client.with_priority(priority);
                self
            }

            /// This handle, with calls that are made anew even if equal calls were answered: each repeat has its own
            /// answer, which is kept like any other. Use it to measure how much answers vary. 0 is the ordinary call.
            #[must_use]
            pub fn with_repeat(mut self, repeat: u32) -> Self {
                self.caller.repeat = repeat;
                self
            }
        }
    };
}
pub(super) use call_settings;

/// Begins the key of a call.
pub(super) fn call_key(kind: &str, identity: &Identity, request: &impl serde::Serialize) -> KeyBuilder {
    KeyBuilder::new("call")
        .field("version", &ANSWER_VERSION)
        .field("kind", kind)
        .field("identity", &identity.of_calls())
        .field("request", request)
}

impl Caller {
    /// Whether calls cost money. The journal keeps all answers of chat models; of
    /// embedders and rerankers only remote ones, because the outputs of in-process
    /// ones are artifacts.
    pub(super) fn is_remote(&self) -> bool {
        self.identity.is_remote()
    }

    /// Whether calls cost money and their answers go to the journal, if they have a key of the journal. Such an answer must not be
    /// lost, so a call in flight runs to its end even after a cancellation.
    fn journals_paid_answers(&self) -> bool {
        self.is_remote() && self.client.inner.journal.is_some()
    }

    pub(super) fn key(&self, request: &impl serde::Serialize) -> Key {
        let key = call_key(self.kind, &self.identity, request);
        match self.repeat {
            0 => key.finish(),
            repeat => key.field("repeat", &repeat).finish(),
        }
    }

    /// The answer in its stored form: from an identical call in flight, from
    /// the journal, or made now and journalled. If the caller that began the
    /// call has a view, the view shows the answer while it is written.
    pub(super) async fn answer<Fut>(
        &self,
        key: Key,
        estimate: impl Fn() -> BudgetAmount + Clone + Send + Sync + 'static,
        make: impl Fn() -> Fut + Clone + Send + Sync + 'static,
        mut view: Option<&mut DraftView>,
        batched: Option<BatchedCall>,
    ) -> Result<Arc<str>, Error>
    where
        Fut: Future<Output = Result<CallAnswer, Error>> + Send + 'static,
    {
        let (began, cancel) = (Instant::now(), &self.client.cancel);
        // A batch goes on at the provider whoever waits for it.
        let finishes = self.journals_paid_answers() && batched.is_none();
        let StoredAnswer { response, used } = loop {
            if ledger::replays() {
                let Some(journal) = &self.client.inner.journal else { return Err(Error::Cancelled) };
                let entry = journal.get(&key).await.map_err(journal_error)?;
                break entry.ok_or(Error::Cancelled)?.into();
            }
            if cancel.is_cancelled() {
                return Err(Error::Cancelled);
            }
            let draft = view.as_ref().map(|view| &view.draft);
            let flight = self.client.inner.flights.join(key, draft, || {
                let (caller, estimate, make) = (self.clone(), estimate.clone(), make.clone());
                let batched = batched.clone();
                // Looked up now: later this call may itself be cancelled and run on without a caller (see
                // `finishing`), and then it would find its own entry and wait for itself.
                let before = finishes.then(|| end_of_cancelled(&key)).flatten();
                // Other callers may join the call and drive it; its span stays that of the caller that began it.
                async move {
                    if let Some(ended) = before {
                        ended.cancelled().await;
                    }
                    if let Some(entry) = caller.kept(vec![key]).await?.pop().flatten() {
                        return Ok(StoredAnswer::from(entry));
                    }
                    if let Some(batched) = &batched
                        && let Some(answer) = caller.earlier_answer(key, batched).await?
                    {
                        return Ok(answer.into());
                    }
                    let submitted = batched.map(|batched| batched.submitted);
                    let make = &make;
                    let make = || async move { Ok((make().await?, ())) };
                    let made = caller.limited(Some(key), submitted, estimate, make).await?;
                    Ok::<_, Error>(made.0.into())
                }
                .in_current_span()
            });
            let joined = flight.joined;
            // If this future is dropped after a cancellation, a call that it began runs on in the background.
            let _finishes = (!joined && finishes).then(|| self.client.finish_if_cancelled(key, flight.call()));
            let answer = tokio::select! {
                biased;
                answer = flight.answer(view.as_deref_mut()) => answer,
                () = cancel.cancelled() => return Err(Error::Cancelled),
            };
            // If the caller that began the call was cancelled, and this one was not, the call is made again.
            if joined && matches!(answer, Err(Error::Cancelled)) && !cancel.is_cancelled() {
                continue;
            }
            let answer = answer?;
            if joined {
                self.client.inner.meter.add(&self.identity.model, |spending| spending.from_journal += 1);
            }
            break answer;
        };
        ledger::record(&self.identity, &used, began);
        if self.client.inner.journal.is_some() {
            ledger::record_keys(&[key]);
        }
        Ok(response)
    }

    /// Makes a call whose answer is not kept, and returns what `make` gives besides the answer.
    pub(super) async fn direct<T, Fut>(
        &self,
        estimate: impl Fn() -> BudgetAmount,
        make: impl Fn() -> Fut,
    ) -> Result<T, Error>
    where
        Fut: Future<Output = Result<(CallAnswer, T), Error>>,
    {
        let began = Instant::now();
        let (answer, made) = self.limited(None, None, estimate, make).await?;
        ledger::record(&self.identity, &answer.used(), began);
        Ok(made)
    }

    /// The entries of calls in the journal, in order; they cost nothing.
    pub(super) async fn kept(&self, keys: Vec<Key>) -> Result<Vec<Option<JournalEntry>>, Error> {
        let inner = &self.client.inner;
        let Some(journal) = &inner.journal else { return Ok(vec![None; keys.len()]) };
        // A lookup that fails must not lead to a second payment, neither here nor in another call.
        let entries = journal.get_all(&keys).await.map_err(|error| inner.stop(error))?;
        let found = entries.iter().flatten().count() as u64;
        if found > 0 {
            inner.meter.add(&self.identity.model, |spending| spending.from_journal += found);
        }
        Ok(entries)
    }

    /// Makes a call within the limits and the budget, and counts what it cost.
    async fn limited<T, Fut>(
        &self,
        key: Option<Key>,
        submitted: Option<Arc<AtomicBool>>,
        estimate: impl Fn() -> BudgetAmount,
        make: impl Fn() -> Fut,
    ) -> Result<(CallAnswer, T), Error>
    where
        Fut: Future<Output = Result<(CallAnswer, T), Error>>,
    {
        let span = &trace::call(self.kind, &self.identity);
        trace::in_span(span.clone(), async {
            let Client { inner, budget, cancel, call, .. } = &self.client;
            inner.may_begin(key.is_some() && self.is_remote()).await?;
            // Calls of a replay are neither paid nor counted.
            let (replays, unlimited) = (ledger::replays(), Budget::default());
            let budget = if replays { &unlimited } else { budget };
            let needed = budget.needs_estimates() || self.is_remote();
            let estimate = if needed { estimate() } else { BudgetAmount::default() };
            let make = &make;
            let (attempts, running) = (&AtomicU32::new(0), &AtomicU32::new(0));
            let submitted = &submitted;
            let attempt = || async move {
                self.client.wait_while_paused(replays).await?;
                let mut reservation = match self.is_remote() {
                    true => budget.reserve_paid(estimate).await?,
                    false => budget.reserve(estimate).await?,
                };
                reservation.counts_if(submitted.clone());
                inner.unsaved.check()?;
                if cancel.is_cancelled() {
                    return Err(Error::Cancelled);
                }
                let _running = RunningAttempt::new(running);
                let number = attempts.fetch_add(1, Ordering::Relaxed) + 1;
                // A model of this process is asked once.
                let attempt = if self.is_remote() { trace::attempt(span, number) } else { Span::none() };
                // Called inside the future, so that what `make` does before its first await belongs to the attempt too.
                let made = trace::attempted(span, attempt, async { make().await }).await;
                // Before the slot is given back, so that the next call knows the limits.
                if let Some(hints) = self.model.rate_hints() {
                    self.limiter.apply_hints(&hints);
                }
                let is_refusal = |error: &Error| OutcomeKind::Failed(error.class()).is_refusal();
                if made.as_ref().err().is_some_and(is_refusal) {
                    reservation.uncount();
                    inner.meter.add(&self.identity.model, |spending| spending.refused += 1);
                }
                // After these errors, the limiter makes no other attempt.
                let ended = || inner.unsaved.error().or_else(|| cancel.is_cancelled().then_some(Error::Cancelled));
                let (mut answer, made) = made.map_err(|error| ended().unwrap_or(error))?;
                reservation.settle(answer.usage, answer.cost_usd);
                budget.cover_total().await;
                // It is paid, whatever becomes of it.
                if !replays {
                    self.count(&answer);
                }
                // Before the slot is given back, so that a `kill -9` never loses
                // more than the calls in flight.
                self.journal_answer(key, &mut answer).await?;
                Ok::<_, Error>((answer, made))
            };
            let call = call.with_cost(estimate.tokens);
            // After a cancellation, a paid attempt whose answer goes to the journal runs to its end, so the limiter
            // gets a token that is never cancelled; `until_cancelled` ends all other attempts.
            let never = &CancellationToken::new();
            let finishes = key.is_some() && self.journals_paid_answers() && submitted.is_none();
            let since = Instant::now();
            // Here, and once more with a slot, for calls that were in the queue when the pause began.
            self.client.wait_while_paused(replays).await?;
            let outcome = loop {
                let made =
                    pin!(async { self.limiter.call(call, never, attempt).await.map_err(|error| self.error(error)) });
                let made = until_cancelled(made, cancel, || finishes && running.load(Ordering::Relaxed) > 0);
                match inner.unsaved.unless_stopped(made, running).await {
                    // The slot is given back, so that calls which do not need the authority may run.
                    Err(Error::BudgetUnreachable { reason, .. }) => match since.elapsed() {
                        after if after >= AUTHORITY_AWAY => break Err(Error::BudgetUnreachable { after, reason }),
                        _ => tokio::select! {
                            biased;
                            () = cancel.cancelled() => break Err(Error::Cancelled),
                            () = tokio::time::sleep(ASK_AUTHORITY) => {}
                        },
                    },
                    outcome => break outcome,
                }
            };
            if let Err(Error::BudgetExhausted { .. }) = &outcome {
                budget.record_refusal(key);
            }
            let made = outcome?;
            trace::record_usage(span, made.0.usage);
            Ok(made)
        })
        .await
    }

    /// The answer from a batch that an earlier run or another process has sent. That start has paid for it, so it uses
    /// nothing of this budget.
    async fn earlier_answer(&self, key: Key, batched: &BatchedCall) -> Result<Option<CallAnswer>, Error> {
        let Some(body) = batched.queue.earlier_answer(key).await? else { return Ok(None) };
        // An answer that cannot be read is asked for once more.
        let Ok(mut answer) = (batched.read)(&body) else { return Ok(None) };
        self.count(&answer);
        self.journal_answer(Some(key), &mut answer).await?;
        Ok(Some(answer))
    }

    /// Counts what a call cost.
    fn count(&self, answer: &CallAnswer) {
        self.client.inner.meter.add(&self.identity.model, |spending| {
            *spending += Spending {
                calls: 1,
                prompt_tokens: answer.usage.prompt_tokens,
                cached_tokens: answer.usage.cached_tokens,
                completion_tokens: answer.usage.completion_tokens,
                cost_usd: answer.cost_usd,
                seconds: answer.seconds,
                ..Spending::default()
            };
        });
    }

    /// Journals an answer that has a key. If another machine answered the same
    /// call first, all machines use that answer. If it cannot be kept, no
    /// further call begins.
    async fn journal_answer(&self, key: Option<Key>, answer: &mut CallAnswer) -> Result<(), Error> {
        let inner = &self.client.inner;
        let (Some(key), Some(journal)) = (key, &inner.journal) else { return Ok(()) };
        let calls = if answer.parts.is_empty() {
            vec![(key, self.entry(answer, answer.response.clone()))]
        } else {
            self.entries_of_parts(answer)
        };
        let first = match journal.put_all(calls.clone()).await {
            Ok(first) => first,
            Err(error) => {
                inner.hold(calls);
                return Err(inner.stop(error));
            }
        };
        // The disk is full. This answer is kept in the space that was reserved for the calls in flight, so this call
        // succeeds; answers of further calls would have no room.
        if let Some(shortage) = journal.local().shortage() {
            inner.stop(shortage);
        }
        if first.iter().all(Option::is_none) {
            return Ok(());
        }
        let used = first.into_iter().zip(calls).map(|(first, (_, ours))| first.unwrap_or(ours).response);
        answer.response = used.collect::<Vec<_>>().join("\n");
        Ok(())
    }

    /// An entry for each part, which together have the tokens and the cost of the answer.
    fn entries_of_parts(&self, answer: &CallAnswer) -> Vec<(Key, JournalEntry)> {
        let weights: Vec<u64> = answer.parts.iter().map(|part| part.weight).collect();
        let total = weights.iter().sum::<u64>().max(1) as f64;
        let prompt = shares(answer.usage.prompt_tokens, &weights);
        let completion = shares(answer.usage.completion_tokens, &weights);
        let entry = |(i, part): (usize, &AnswerPart)| {
            let share = part.weight as f64 / total;
            let usage = Usage { prompt_tokens: prompt[i], completion_tokens: completion[i], ..Usage::default() };
            // Each part took the whole time of the call.
            let whole = CallAnswer {
                usage,
                cost_usd: answer.cost_usd * share,
                seconds: answer.seconds,
                ..CallAnswer::default()
            };
            (part.key, self.entry(&whole, part.response.clone()))
        };
        answer.parts.iter().enumerate().map(entry).collect()
    }

    pub(super) fn entry(&self, answer: &CallAnswer, response: String) -> JournalEntry {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        JournalEntry {
            model: self.identity.model.clone(),
            kind: self.kind.to_owned(),
            response,
            prompt_tokens: answer.usage.prompt_tokens,
            completion_tokens: answer.usage.completion_tokens,
            cost_usd: answer.cost_usd,
            seconds: answer.seconds,
            created_unix_ms: i64::try_from(now.as_millis()).unwrap_or(i64::MAX),
        }
    }

    fn error(&self, error: executor::Error<Error>) -> Error {
        let model = self.identity.model.clone();
        match error {
            executor::Error::Failed(error) => error,
            executor::Error::TimedOut { after } => Error::Timeout { model, after },
            executor::Error::Stalled { after, last } => Error::Stalled { model, after, message: last },
            executor::Error::Cancelled => Error::Cancelled,
            other => Error::runtime(&model, other),
        }
    }
}
