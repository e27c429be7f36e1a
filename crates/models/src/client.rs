//! The only way to a model. Every call of a handle passes, in this order: an
//! identical call in flight, the journal, the limiter (concurrency, retries,
//! cancellation), the budget, the model. Its answer is in the journal before
//! anyone sees it. The budget comes after the journal and the limiter because
//! an answer from the journal is free and a waiting call is not paid yet: each
//! attempt, also a retry, asks the budget when it has its slot.

mod answer_stream;
mod budget;
mod chat;
mod draft;
mod estimate;
mod flight;
mod handle;
mod lease;
mod meter;
mod structured;
mod texts;
mod unkept;

pub use answer_stream::{AnswerStream, Piece, Pieces};
pub use budget::{Allowance, AllowanceRequest, Allowances, Amount, Budget, BudgetReport, Cap, Caps, Exhausted, Spent};
pub use chat::Chat;
pub use handle::{Embedder, Reranker};
pub use lease::{LeaseRequest, Lessor};
pub use meter::{Meter, Spending};

use crate::{
    ChatModel, ChatRequest, ChatResponse, EmbeddingModel, Error, Identity, ModelUsage, RerankModel, Usage, ledger,
    provider::Limits, trace,
};
use answer_stream::View;
use budget::Estimate;
use executor::{
    Adaptive, AdaptiveSettings, Call, ErrorClass, Limiter, LimiterStatus, OutcomeKind, RateHints, RetryPolicy,
    Retryable,
};
use flight::Flights;
use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use store::{Journal, JournalEntry, Key, KeyBuilder, SharedJournal};
use texts::{Texts, shares};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::{Instrument, Span};
use unkept::{Running, Unkept};

/// Raise this when the stored form of an answer changes.
const ANSWER_VERSION: u32 = 1;
/// How often a call asks an authority over a budget that does not answer, and
/// how long before the call is given up. An authority that was lost is back
/// within seconds, and answers that were paid are kept in any case.
const ASK_AUTHORITY: Duration = Duration::from_secs(1);
const AUTHORITY_AWAY: Duration = Duration::from_secs(120);

/// Makes handles to models, and remembers what their calls cost. Clones share
/// journal, limits, budget and meter; cancellation, priority and retries belong to
/// each clone and the handles it makes.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
    budget: Budget,
    cancel: CancellationToken,
    call: Call,
    retry: RetryPolicy,
    lessor: Option<Arc<dyn Lessor>>,
    listener: Option<Listener>,
}

/// What a chat model was asked, and what became of it.
#[derive(Debug, Clone, Copy)]
pub struct Exchange<'a> {
    /// The model.
    pub model: &'a Identity,
    /// The request, in full.
    pub request: &'a ChatRequest,
    /// The answer, or why there is none.
    pub outcome: &'a Result<ChatResponse, Error>,
}

/// Is told of exchanges with chat models, from whichever thread made the call.
pub type Listener = Arc<dyn Fn(&Exchange<'_>) + Send + Sync>;

/// What clones of a client share.
struct Inner {
    journal: Option<SharedJournal>,
    /// One for each model, shared by all its handles.
    limiters: Mutex<HashMap<Key, Limited>>,
    flights: Flights,
    texts: Texts,
    meter: Meter,
    unkept: Unkept,
}

impl Inner {
    fn new(journal: Option<SharedJournal>, meter: Meter) -> Self {
        let (limiters, flights, texts, unkept) =
            (Mutex::default(), Flights::default(), Texts::default(), Unkept::default());
        Self { journal, limiters, flights, texts, meter, unkept }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("call", &self.call).field("retry", &self.retry).finish_non_exhaustive()
    }
}

impl Client {
    /// A client that keeps answers in this journal; without a journal it keeps none.
    pub fn new(journal: Option<Arc<Journal>>) -> Self {
        Self::keeping(journal.map(SharedJournal::from))
    }

    /// A client that keeps answers in a journal that machines share.
    pub fn sharing(journal: SharedJournal) -> Self {
        Self::keeping(Some(journal))
    }

    fn keeping(journal: Option<SharedJournal>) -> Self {
        Self {
            inner: Arc::new(Inner::new(journal, Meter::default())),
            budget: Budget::default(),
            cancel: CancellationToken::new(),
            call: Call::default(),
            retry: RetryPolicy::default(),
            lessor: None,
            listener: None,
        }
    }

    /// This client, for models whose answers another process keeps, limits and
    /// pays: it has no journal, no budget and no limits of before.
    #[must_use]
    pub fn without_journal(&self) -> Self {
        let inner = Arc::new(Inner::new(None, self.meter()));
        Self { inner, budget: Budget::default(), lessor: None, listener: None, ..self.clone() }
    }

    /// This client, with limits that it shares with other processes. Handles
    /// that were made before keep limits of their own.
    #[must_use]
    pub fn with_lessor(self, lessor: Arc<dyn Lessor>) -> Self {
        Self { lessor: Some(lessor), ..self }
    }

    /// This client, with calls that are paid from this budget.
    #[must_use]
    pub fn with_budget(self, budget: Budget) -> Self {
        Self { budget, ..self }
    }

    /// This client, with chat calls that are told to a listener when they have
    /// ended, also those that the journal answers.
    #[must_use]
    pub fn with_listener(self, listener: Option<Listener>) -> Self {
        Self { listener, ..self }
    }

    /// This client, with calls that end with [`Error::Cancelled`] as soon as
    /// the token is cancelled.
    #[must_use]
    pub fn with_cancellation(self, cancel: CancellationToken) -> Self {
        Self { cancel, ..self }
    }

    /// This client, with calls that go before those of a lower priority.
    #[must_use]
    pub fn with_priority(self, priority: i32) -> Self {
        Self { call: self.call.with_priority(priority), ..self }
    }

    /// This client, with calls of a group, such as a trial: at each model's
    /// limit, groups take turns.
    #[must_use]
    pub fn with_group(self, group: u64) -> Self {
        Self { call: self.call.with_group(group), ..self }
    }

    /// This client, with another policy for retries.
    #[must_use]
    pub fn with_retry(self, retry: RetryPolicy) -> Self {
        Self { retry, ..self }
    }

    /// The budget that calls are paid from.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// What all calls cost so far.
    pub fn meter(&self) -> Meter {
        self.inner.meter.clone()
    }

    /// A handle to a chat model.
    pub fn chat(&self, model: Arc<dyn ChatModel>) -> Chat {
        let asked = model.clone();
        let caller =
            self.caller("chat", model.identity(), model.account(), &model.limits(), move || asked.rate_hints());
        Chat::new(caller, model)
    }

    /// A handle to an embedding model.
    pub fn embedder(&self, model: Arc<dyn EmbeddingModel>) -> Embedder {
        let asked = model.clone();
        let caller =
            self.caller("embedding", model.identity(), model.account(), &model.limits(), move || asked.rate_hints());
        Embedder::new(caller, model)
    }

    /// A handle to a rerank model.
    pub fn reranker(&self, model: Arc<dyn RerankModel>) -> Reranker {
        let asked = model.clone();
        let caller =
            self.caller("rerank", model.identity(), model.account(), &model.limits(), move || asked.rate_hints());
        Reranker::new(caller, model)
    }

    /// The state of each model's limit, by kind and name. A model that is
    /// reached with several keys has a limit for each key.
    pub fn limits(&self) -> BTreeMap<String, ModelLimit> {
        let limiters = self.inner.limiters.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = |limited: &Limited| ModelLimit { model: limited.model.clone(), status: limited.limiter.status() };
        limiters.values().map(|limited| (limited.name.clone(), limit(limited))).collect()
    }

    fn caller(
        &self,
        kind: &'static str,
        identity: &Identity,
        account: &str,
        limits: &Limits,
        hints: impl Fn() -> Option<RateHints> + Send + Sync + 'static,
    ) -> Caller {
        // Providers count by model and account, whatever the other parameters are.
        let key = KeyBuilder::new("limit")
            .field("kind", kind)
            .field("provider", &identity.provider)
            .field("model", &identity.model)
            .field("revision", &identity.revision)
            .field("account", account);
        let key = match limits {
            Limits::Learned { .. } => key.finish(),
            // A model of this process is limited by the number of its threads.
            Limits::Fixed(concurrency) => key.field("concurrency", concurrency).finish(),
        };
        let mut limiters = self.inner.limiters.lock().unwrap_or_else(PoisonError::into_inner);
        let name = match account {
            "" => format!("{kind} {}", identity.model),
            account => format!("{kind} {} ({account})", identity.model),
        };
        let limited = limiters.entry(key).or_insert_with(|| {
            let (known, limiter) = match limits.settings() {
                None => (Known::Fixed, Limiter::fixed(limits.maximum())),
                Some(settings) => match &self.lessor {
                    None => {
                        let controller = Arc::new(Adaptive::new(settings));
                        (Known::Here(controller.clone()), Limiter::new(controller))
                    }
                    Some(lessor) => {
                        let settings = Arc::new(Mutex::new(settings));
                        let (limiter, renewal) = lease::limiter(lessor.clone(), key.hex(), settings.clone());
                        (Known::Leased { settings, _renewal: renewal }, limiter)
                    }
                },
            };
            Limited { name, model: identity.model.clone(), limits: *limits, known, limiter }
        });
        limited.restrict(limits);
        let limiter = limited.limiter.clone().with_retry(limits.retry(self.retry.clone()));
        Caller {
            client: self.clone(),
            kind,
            identity: identity.clone(),
            limiter: match limits.second_attempts() {
                Some(hedge) => limiter.with_hedge(hedge),
                None => limiter,
            },
            hints: Arc::new(hints),
            repeat: 0,
        }
    }
}

/// The state of a model's limit.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelLimit {
    /// The model, as the meter names it.
    pub model: String,
    /// Calls in flight and waiting, and how calls ended so far.
    pub status: LimiterStatus,
}

/// A limit, with the model that it belongs to.
struct Limited {
    name: String,
    model: String,
    /// The limits that all handles of the model so far have stated.
    limits: Limits,
    known: Known,
    limiter: Limiter,
}

/// How a limit learns about further settings.
enum Known {
    /// It never changes.
    Fixed,
    /// A controller of this process learns it.
    Here(Arc<Adaptive>),
    /// Processes share it. The renewal of this process's lease ends with the client.
    Leased { settings: Arc<Mutex<AdaptiveSettings>>, _renewal: AbortOnDropHandle<()> },
}

impl Limited {
    /// Also applies the limits of another handle of the same model: if both
    /// state a number, the smaller one holds.
    fn restrict(&mut self, limits: &Limits) {
        self.limits = self.limits.stricter(limits);
        let Some(settings) = self.limits.settings() else { return };
        match &self.known {
            Known::Fixed => {}
            Known::Here(controller) => controller.restrict(&settings),
            Known::Leased { settings: known, .. } => *known.lock().unwrap_or_else(PoisonError::into_inner) = settings,
        }
    }
}

/// A finished call, as a model made it.
#[derive(Debug, Default)]
struct Answer {
    /// What the journal keeps, as JSON.
    response: String,
    usage: Usage,
    cost_usd: f64,
    seconds: f64,
    /// The parts that the journal keeps instead, each under its own key; `response` then has a line for each.
    parts: Vec<AnswerPart>,
}

/// A part of an answer that has an entry of its own.
#[derive(Debug)]
struct AnswerPart {
    key: Key,
    response: String,
    /// Its part of tokens, cost and time is in proportion to this.
    weight: u64,
}

impl Answer {
    fn used(&self) -> ModelUsage {
        ModelUsage {
            model: String::new(),
            calls: 1,
            prompt_tokens: self.usage.prompt_tokens,
            completion_tokens: self.usage.completion_tokens,
            cost_usd: self.cost_usd,
            seconds: self.seconds,
            cut_texts: self.usage.cut_texts,
        }
    }
}

/// An answer in its stored form, and what its call used when it was made.
#[derive(Debug, Clone)]
struct Reply {
    response: Arc<str>,
    used: ModelUsage,
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        Self { used: answer.used(), response: answer.response.into() }
    }
}

impl From<JournalEntry> for Reply {
    fn from(entry: JournalEntry) -> Self {
        let used = ModelUsage {
            calls: 1,
            prompt_tokens: entry.prompt_tokens,
            completion_tokens: entry.completion_tokens,
            cost_usd: entry.cost_usd,
            seconds: entry.seconds,
            ..ModelUsage::default()
        };
        Self { response: entry.response.into(), used }
    }
}

/// The last rate headers of a model's provider.
type Hints = Arc<dyn Fn() -> Option<RateHints> + Send + Sync>;

/// Makes the calls of one kind to one model.
#[derive(Clone)]
struct Caller {
    client: Client,
    kind: &'static str,
    identity: Identity,
    limiter: Limiter,
    hints: Hints,
    /// The number of the repeat among equal requests.
    repeat: u32,
}

impl Caller {
    /// Whether calls cost money, so that their answers are kept in the journal.
    /// The outputs of an in-process embedder or reranker are kept as artifacts
    /// instead.
    fn is_remote(&self) -> bool {
        self.identity.is_remote()
    }

    fn key(&self, request: &impl serde::Serialize) -> Key {
        let key = KeyBuilder::new("call")
            .field("version", &ANSWER_VERSION)
            .field("kind", self.kind)
            .field("identity", &self.identity.of_calls())
            .field("request", request);
        match self.repeat {
            0 => key.finish(),
            repeat => key.field("repeat", &repeat).finish(),
        }
    }

    /// The answer in its stored form: from an identical call in flight, from
    /// the journal, or made now and journalled. If the caller that began the
    /// call has a view, the view shows the answer while it is written.
    async fn answer<E, F, Fut>(
        &self,
        key: Key,
        estimate: E,
        make: F,
        view: Option<&mut View>,
    ) -> Result<Arc<str>, Error>
    where
        E: Fn() -> Estimate + Clone + Send + Sync + 'static,
        F: Fn() -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<Answer, Error>> + Send + 'static,
    {
        let began = Instant::now();
        let Reply { response, used } = self.reply(key, estimate, make, view).await?;
        ledger::record(&self.identity, &used, began);
        Ok(response)
    }

    /// Makes a call whose answer is not kept.
    async fn direct<E, F, Fut>(&self, estimate: E, make: F) -> Result<Answer, Error>
    where
        E: Fn() -> Estimate,
        F: Fn() -> Fut,
        Fut: Future<Output = Result<Answer, Error>>,
    {
        let began = Instant::now();
        let answer = self.limited(None, estimate, make).await?;
        ledger::record(&self.identity, &answer.used(), began);
        Ok(answer)
    }

    async fn reply<E, F, Fut>(
        &self,
        key: Key,
        estimate: E,
        make: F,
        mut view: Option<&mut View>,
    ) -> Result<Reply, Error>
    where
        E: Fn() -> Estimate + Clone + Send + Sync + 'static,
        F: Fn() -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<Answer, Error>> + Send + 'static,
    {
        let cancel = &self.client.cancel;
        if ledger::replays() {
            let Some(journal) = &self.client.inner.journal else { return Err(Error::Cancelled) };
            let entry = journal.get(&key).await.map_err(journal_error)?;
            return entry.map(Reply::from).ok_or(Error::Cancelled);
        }
        loop {
            if cancel.is_cancelled() {
                return Err(Error::Cancelled);
            }
            let draft = view.as_ref().map(|view| &view.draft);
            let flight = self.client.inner.flights.join(key, draft, || {
                let (caller, estimate, make) = (self.clone(), estimate.clone(), make.clone());
                // Others may wait for the call and drive it; it stays a part of what began it.
                async move { caller.journalled(key, estimate, make).await }.in_current_span()
            });
            let joined = flight.joined;
            let answer = tokio::select! {
                biased;
                answer = flight.answer(view.as_deref_mut()) => answer,
                () = cancel.cancelled() => return Err(Error::Cancelled),
            };
            match answer {
                // The caller that began this call was cancelled; this one was not.
                Err(Error::Cancelled) if joined && !cancel.is_cancelled() => {}
                Ok(answer) if joined => {
                    self.client.inner.meter.add(&self.identity.model, |spending| spending.from_journal += 1);
                    return Ok(answer);
                }
                answer => return answer,
            }
        }
    }

    async fn journalled<E, F, Fut>(&self, key: Key, estimate: E, make: F) -> Result<Reply, Error>
    where
        E: Fn() -> Estimate,
        F: Fn() -> Fut,
        Fut: Future<Output = Result<Answer, Error>>,
    {
        if let Some(entry) = self.kept(vec![key]).await?.pop().flatten() {
            return Ok(entry.into());
        }
        Ok(self.limited(Some(key), estimate, make).await?.into())
    }

    /// The entries of calls in the journal, in order; they cost nothing.
    async fn kept(&self, keys: Vec<Key>) -> Result<Vec<Option<JournalEntry>>, Error> {
        let inner = &self.client.inner;
        let Some(journal) = &inner.journal else { return Ok(vec![None; keys.len()]) };
        // A lookup that fails must not lead to a second payment, neither here nor in another call.
        let entries = journal.get_all(&keys).await.map_err(|error| {
            let error = Arc::new(error);
            inner.stop(error.clone());
            Error::Journal(error)
        })?;
        let found = entries.iter().flatten().count() as u64;
        if found > 0 {
            inner.meter.add(&self.identity.model, |spending| spending.from_journal += found);
        }
        Ok(entries)
    }

    /// Makes a call within the limits and the budget, and counts what it cost.
    async fn limited<E, F, Fut>(&self, key: Option<Key>, estimate: E, make: F) -> Result<Answer, Error>
    where
        E: Fn() -> Estimate,
        F: Fn() -> Fut,
        Fut: Future<Output = Result<Answer, Error>>,
    {
        let span = trace::call(self.kind, &self.identity);
        trace::within(span.clone(), self.attempted(&span, key, estimate, make)).await
    }

    async fn attempted<E, F, Fut>(&self, span: &Span, key: Option<Key>, estimate: E, make: F) -> Result<Answer, Error>
    where
        E: Fn() -> Estimate,
        F: Fn() -> Fut,
        Fut: Future<Output = Result<Answer, Error>>,
    {
        let Client { inner, budget, cancel, call, .. } = &self.client;
        inner.may_begin(key.is_some() && self.is_remote()).await?;
        // What is measured after the work is neither paid nor counted.
        let (replays, unlimited) = (ledger::replays(), Budget::default());
        let budget = if replays { &unlimited } else { budget };
        let needed = budget.needs_estimates() || self.is_remote();
        let estimate = if needed { estimate() } else { Estimate::default() };
        let make = &make;
        let (attempts, running) = (&AtomicU32::new(0), &AtomicU32::new(0));
        let attempt = || async move {
            let reservation = budget.reserve(estimate).await?;
            inner.unkept.check()?;
            let _running = Running::new(running);
            let number = attempts.fetch_add(1, Ordering::Relaxed) + 1;
            // A model of this process is asked once.
            let attempt = if self.is_remote() { trace::attempt(span, number) } else { Span::none() };
            // Inside, so that what `make` does before it waits belongs to the attempt too.
            let answer = trace::attempted(span, attempt, async { make().await }).await;
            // Before the slot is given back, so that the next call knows the limits.
            if let Some(hints) = (self.hints)() {
                self.limiter.hear(&hints);
            }
            let is_refusal = |error: &Error| OutcomeKind::Failed(error.class()).is_refusal();
            if answer.as_ref().err().is_some_and(is_refusal) {
                reservation.was_refused();
                inner.meter.add(&self.identity.model, |spending| spending.refused += 1);
            }
            // No other attempt follows.
            let mut answer = answer.map_err(|error| inner.unkept.error().unwrap_or(error))?;
            reservation.settle(answer.usage, answer.cost_usd);
            // It is paid, whatever becomes of it.
            if !replays {
                self.count(&answer);
            }
            // Before the slot is given back, so that a `kill -9` never loses
            // more than the calls in flight.
            self.keep(key, &mut answer).await?;
            Ok::<_, Error>(answer)
        };
        let call = call.with_cost(estimate.tokens);
        let since = Instant::now();
        let outcome = loop {
            let made = async { self.limiter.call(call, cancel, attempt).await.map_err(|error| self.error(error)) };
            match inner.unkept.or_stop(made, running).await {
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
            budget.refused(key);
        }
        let answer = outcome?;
        trace::used(span, answer.usage);
        Ok(answer)
    }

    /// Counts what a call cost.
    fn count(&self, answer: &Answer) {
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
    async fn keep(&self, key: Option<Key>, answer: &mut Answer) -> Result<(), Error> {
        let inner = &self.client.inner;
        let (Some(key), Some(journal)) = (key, &inner.journal) else {
            return Ok(());
        };
        let calls = if answer.parts.is_empty() {
            vec![(key, self.entry(answer, answer.response.clone()))]
        } else {
            self.entries_of_parts(answer)
        };
        let first = match journal.put_all(calls.clone()).await {
            Ok(first) => first,
            Err(error) => {
                let error = Arc::new(error);
                inner.hold(calls);
                inner.stop(error.clone());
                return Err(Error::Journal(error));
            }
        };
        if let Some(shortage) = journal.local().shortage() {
            inner.stop(Arc::new(shortage));
        }
        if first.iter().all(Option::is_none) {
            return Ok(());
        }
        let responses = first.into_iter().zip(calls);
        let responses: Vec<String> =
            responses.map(|(first, (_, ours))| first.map_or(ours.response, |first| first.response)).collect();
        answer.response = responses.join("\n");
        Ok(())
    }

    /// An entry for each part, which together have the tokens and the cost of the answer.
    fn entries_of_parts(&self, answer: &Answer) -> Vec<(Key, JournalEntry)> {
        let weights: Vec<u64> = answer.parts.iter().map(|part| part.weight).collect();
        let total = weights.iter().sum::<u64>().max(1) as f64;
        let prompt = shares(answer.usage.prompt_tokens, &weights);
        let completion = shares(answer.usage.completion_tokens, &weights);
        let entry = |(i, part): (usize, &AnswerPart)| {
            let share = part.weight as f64 / total;
            let usage = Usage { prompt_tokens: prompt[i], completion_tokens: completion[i], ..Usage::default() };
            let (cost_usd, seconds) = (answer.cost_usd * share, answer.seconds * share);
            let whole = Answer { usage, cost_usd, seconds, ..Answer::default() };
            (part.key, self.entry(&whole, part.response.clone()))
        };
        answer.parts.iter().enumerate().map(entry).collect()
    }

    fn entry(&self, answer: &Answer, response: String) -> JournalEntry {
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

fn journal_error(error: store::Error) -> Error {
    Error::Journal(Arc::new(error))
}

impl Retryable for Error {
    fn class(&self) -> ErrorClass {
        match self {
            Self::RateLimited { .. } => ErrorClass::RateLimited,
            // Some providers send 529 instead of 503.
            Self::Server { status: 503 | 529, .. } => ErrorClass::Overloaded,
            Self::QuotaExhausted { .. } | Self::BudgetExhausted { .. } | Self::BudgetUnreachable { .. } => {
                ErrorClass::Budget
            }
            // The limiter has already waited for it.
            Self::Stalled { .. } => ErrorClass::Permanent,
            error if error.is_transient() => ErrorClass::Transient,
            _ => ErrorClass::Permanent,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        Self::retry_after(self)
    }

    fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout { .. })
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod streaming_tests;

#[cfg(test)]
mod structured_tests;

#[cfg(test)]
mod texts_tests;

#[cfg(test)]
mod unkept_tests;
