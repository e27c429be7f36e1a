//! The only way to a model. Every call of a handle passes, in this order: an
//! identical call in flight, the journal, the limiter (concurrency, retries,
//! cancellation), the budget, the model. The whole answer is in the journal before
//! a caller gets it. The budget comes after the journal and the limiter because
//! an answer from the journal is free and a waiting call is not paid yet: each
//! attempt, also a retry, asks the budget when it has its slot.

mod amount;
mod answer_stream;
mod batches;
mod budget;
mod caller;
mod chat;
mod draft;
mod estimate;
mod finishing;
mod flight;
mod handle;
mod lease;
mod meter;
mod reply;
mod service;
mod structured;
mod texts;
mod unsaved;

pub use amount::{
    Allowance, AllowanceRequest, BudgetAmount, Caps, ReachedCap, SpentTotals, TotalCaps, TotalSpending, TotalSpent,
};
pub use answer_stream::{AnswerPiece, AnswerStream, PieceDivider};
pub use batches::batch_answer_key;
pub use budget::{Allowances, Budget, BudgetReport};
pub use chat::Chat;
pub use handle::{Embedder, Reranker, embedding_keys, holds_several_vectors};
pub use lease::{LeaseRequest, Lessor, LessorError};
pub use meter::{Meter, Spending};
pub use service::ServiceHandle;

use crate::{
    BatchEndpoint, ChatModel, ChatRequest, ChatResponse, EmbeddingModel, Error, Identity, JsonService, Limits, Model,
    RerankModel, locked,
};
use batches::{BatchQueue, BatchQueues};
use caller::Caller;
use executor::{
    AdaptiveController, AdaptiveSettings, Call, ErrorClass, Limiter, LimiterStatus, RetryPolicy, Retryable,
};
use flight::Flights;
use handle::EMBEDDING;
use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};
use store::{Journal, Key, KeyBuilder, SharedJournal};
use texts::TextClaims;
use tokio::sync::watch;
use tokio_util::{
    sync::CancellationToken,
    task::{AbortOnDropHandle, TaskTracker},
};
use unsaved::UnsavedAnswers;

/// Makes handles to models, and remembers what their calls cost. Clones share
/// journal, limits, budget and meter; cancellation, priority and retries belong to
/// each clone and the handles it makes.
#[derive(Clone)]
pub struct Client {
    inner: Arc<ClientInner>,
    budget: Budget,
    cancel: CancellationToken,
    /// Whether calls wait at present.
    paused: Option<watch::Receiver<bool>>,
    /// What the limiter needs to know about each call: its priority, group, size and deadline.
    call: Call,
    retry: RetryPolicy,
    lessor: Option<Arc<dyn Lessor>>,
    listener: Option<Listener>,
    /// Whether calls of models whose settings ask for it are sent in batches.
    sends_batches: bool,
}

/// The most calls of one model that wait for batches at once.
const MOST_BATCHED: usize = 200_000;

/// A request to a chat model, and its outcome.
#[derive(Debug, Clone, Copy)]
pub struct Exchange<'a> {
    /// The model.
    pub model: &'a Identity,
    /// The request, in full.
    pub request: &'a ChatRequest,
    /// The answer, or why there is none.
    pub outcome: &'a Result<ChatResponse, Error>,
}

/// Called after each exchange with a chat model, on the thread that made the call.
pub type Listener = Arc<dyn Fn(&Exchange<'_>) + Send + Sync>;

/// What clones of a client share.
#[derive(Default)]
struct ClientInner {
    journal: Option<SharedJournal>,
    /// One for each model, shared by all its handles.
    limiters: Mutex<HashMap<Key, SharedLimit>>,
    flights: Flights,
    texts: TextClaims,
    meter: Meter,
    unsaved: UnsavedAnswers,
    batches: BatchQueues,
    /// Calls that go on although they were cancelled.
    finishing: TaskTracker,
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
            inner: Arc::new(ClientInner { journal, ..ClientInner::default() }),
            budget: Budget::default(),
            cancel: CancellationToken::new(),
            paused: None,
            call: Call::default(),
            retry: RetryPolicy::default(),
            lessor: None,
            listener: None,
            sends_batches: false,
        }
    }

    /// This client without journal, budget, listener and earlier limits, for models
    /// whose calls another process keeps, pays and limits.
    #[must_use]
    pub fn without_journal(&self) -> Self {
        let inner = Arc::new(ClientInner { meter: self.meter(), ..ClientInner::default() });
        Self { inner, budget: Budget::default(), lessor: None, listener: None, ..self.clone() }
    }

    /// This client, which sends calls in batches where the settings of a model ask for it. Batches take hours, so only
    /// runs use them. Without a journal, no call is sent in a batch.
    #[must_use]
    pub fn with_batches(self) -> Self {
        Self { sends_batches: true, ..self }
    }

    /// Batches that providers work on, and the calls in them. They go on when this program ends, and the next run takes
    /// their answers.
    pub fn n_batched(&self) -> (usize, usize) {
        self.inner.batches.in_progress()
    }

    /// This client, with limits that it shares with other processes. Models for
    /// which a handle was made before keep limits of this process alone.
    #[must_use]
    pub fn with_lessor(self, lessor: Arc<dyn Lessor>) -> Self {
        Self { lessor: Some(lessor), ..self }
    }

    /// This client, with calls that are paid from this budget.
    #[must_use]
    pub fn with_budget(self, budget: Budget) -> Self {
        Self { budget, ..self }
    }

    /// This client, with a listener that is called after each chat call, also if the
    /// journal answered it.
    #[must_use]
    pub fn with_listener(self, listener: Option<Listener>) -> Self {
        Self { listener, ..self }
    }

    /// This client, with calls that end with [`Error::Cancelled`] as soon as
    /// the token is cancelled. A call that has begun at a remote model is paid, so it
    /// runs on in the background, two minutes at most, and its answer is kept.
    #[must_use]
    pub fn with_cancellation(self, cancel: CancellationToken) -> Self {
        Self { cancel, ..self }
    }

    /// This client, whose calls do not begin as long as this is true. Calls in flight go on.
    #[must_use]
    pub fn with_pause(self, paused: watch::Receiver<bool>) -> Self {
        Self { paused: Some(paused), ..self }
    }

    /// Waits while calls may not begin. Calls of a replay are not made, so they do not wait.
    async fn wait_while_paused(&self, replays: bool) -> Result<(), Error> {
        let Some(paused) = self.paused.as_ref().filter(|paused| !replays && *paused.borrow()) else { return Ok(()) };
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(Error::Cancelled),
            // If whoever could end the pause is gone, the pause is over.
            _ = async { paused.clone().wait_for(|paused| !paused).await.map(drop) } => Ok(()),
        }
    }

    /// This client, with calls that precede calls of a lower priority.
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
        Chat { caller: self.caller("chat", model.clone(), model.batches()), model }
    }

    /// A handle to an embedding model.
    pub fn embedder(&self, model: Arc<dyn EmbeddingModel>) -> Embedder {
        Embedder { caller: self.caller(EMBEDDING, model.clone(), model.batches()), model }
    }

    /// A handle to a rerank model.
    pub fn reranker(&self, model: Arc<dyn RerankModel>) -> Reranker {
        Reranker { caller: self.caller("rerank", model.clone(), None), model }
    }

    /// A handle to a service, such as a RAG system.
    pub fn service(&self, service: Arc<dyn JsonService>) -> ServiceHandle {
        ServiceHandle { caller: self.caller("system", service.clone(), None), service, uses_journal: true }
    }

    /// The state of each model's limit, by kind and name. A model that is
    /// reached with several keys has a limit for each key.
    pub fn limits(&self) -> BTreeMap<String, ModelLimit> {
        let limiters = locked(&self.inner.limiters);
        let limit =
            |limited: &SharedLimit| ModelLimit { model: limited.model.clone(), status: limited.limiter.status() };
        limiters.values().map(|limited| (limited.name.clone(), limit(limited))).collect()
    }

    /// Sets how many calls of a model may be in flight at most, whatever its settings say. `name` is that of
    /// [`Client::limits`].
    ///
    /// # Errors
    /// Why this limit cannot be set, in a sentence.
    pub fn set_concurrency(&self, name: &str, concurrency: usize) -> Result<(), String> {
        let mut limiters = locked(&self.inner.limiters);
        let mut found = limiters.values_mut().filter(|limited| limited.name == name).peekable();
        if found.peek().is_none() {
            return Err(format!("no model `{name}` was called yet"));
        }
        found.try_for_each(|limited| limited.set_concurrency(concurrency.max(1)))
    }

    /// The queue of a model's batches, if its calls are sent in batches.
    fn batch_queue(
        &self,
        kind: &'static str,
        model: &dyn Model,
        endpoint: Arc<dyn BatchEndpoint>,
    ) -> Option<Arc<BatchQueue>> {
        let journal = self.inner.journal.as_ref().filter(|journal| self.sends_batches && journal.is_writable())?;
        let identity = model.identity();
        let scope = KeyBuilder::new("batches")
            .field("kind", kind)
            .field("identity", &identity.of_calls())
            .field("account", model.account())
            .finish();
        Some(self.inner.batches.of(scope.hex(), &identity.model, endpoint, journal.clone()))
    }

    fn caller(&self, kind: &'static str, model: Arc<dyn Model>, batches: Option<Arc<dyn BatchEndpoint>>) -> Caller {
        let share = batches.as_ref().map(|batches| batches.settings().price_share);
        let queue = batches.and_then(|batches| self.batch_queue(kind, &*model, batches));
        let price_share = share.filter(|_| queue.is_some()).unwrap_or(1.0);
        let (identity, account) = (model.identity(), model.account());
        // Calls that wait for batches keep to no rate, and there may be very many.
        let limits = if queue.is_some() { Limits::Fixed(MOST_BATCHED) } else { model.limits() };
        // Providers count by model and account, whatever the other parameters are.
        let key = KeyBuilder::new("limit")
            .field("kind", kind)
            .field("provider", &identity.provider)
            .field("model", &identity.model)
            .field("revision", &identity.revision)
            .field("account", account);
        let key = match &limits {
            Limits::Learned { .. } => key.finish(),
            // Models of this process that take different numbers of calls do not share a limit.
            Limits::Fixed(concurrency) => key.field("concurrency", concurrency).finish(),
        };
        let mut limiters = locked(&self.inner.limiters);
        let name = match account {
            "" => format!("{kind} {}", identity.model),
            account => format!("{kind} {} ({account})", identity.model),
        };
        let limited = limiters.entry(key).or_insert_with(|| {
            let (source, limiter) = match limits.settings() {
                None => (LimitSource::Fixed, Limiter::fixed(limits.maximum())),
                Some(settings) => match &self.lessor {
                    None => {
                        let controller = Arc::new(AdaptiveController::new(settings));
                        (LimitSource::Here(controller.clone()), Limiter::new(controller))
                    }
                    Some(lessor) => {
                        let settings = Arc::new(Mutex::new(settings));
                        let (limiter, renewal) = lease::limiter(lessor.clone(), key.hex(), settings.clone());
                        (LimitSource::Leased { settings, _renewal: renewal }, limiter)
                    }
                },
            };
            SharedLimit { name, model: identity.model.clone(), limits, source, limiter }
        });
        limited.restrict(&limits);
        let limiter = limited.limiter.clone().with_retry(limits.retry_policy(self.retry.clone()));
        Caller {
            client: self.clone(),
            kind,
            identity: identity.clone(),
            limiter: match limits.second_attempts() {
                Some(hedge) => limiter.with_hedge(hedge),
                None => limiter,
            },
            model: model.clone(),
            repeat: 0,
            queue,
            price_share,
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
struct SharedLimit {
    name: String,
    model: String,
    /// The limits that all handles of the model so far have stated.
    limits: Limits,
    source: LimitSource,
    limiter: Limiter,
}

/// Where a limit comes from.
enum LimitSource {
    /// It never changes.
    Fixed,
    /// A controller of this process learns it.
    Here(Arc<AdaptiveController>),
    /// Processes share it. The renewal of this process's lease ends with the client.
    Leased { settings: Arc<Mutex<AdaptiveSettings>>, _renewal: AbortOnDropHandle<()> },
}

impl SharedLimit {
    /// Also applies the limits of another handle of the same model: if both
    /// state a number, the smaller one holds.
    fn restrict(&mut self, limits: &Limits) {
        self.limits = self.limits.stricter(limits);
        let Some(settings) = self.limits.settings() else { return };
        match &self.source {
            LimitSource::Fixed => {}
            LimitSource::Here(controller) => controller.restrict(&settings),
            LimitSource::Leased { settings: known, .. } => *locked(known) = settings,
        }
    }
}

impl SharedLimit {
    fn set_concurrency(&mut self, concurrency: usize) -> Result<(), String> {
        let controller = match &self.source {
            LimitSource::Here(controller) => controller.clone(),
            LimitSource::Fixed => return Err(format!("the calls of `{}` are limited by what it can do", self.name)),
            LimitSource::Leased { .. } => return Err(format!("the limit of `{}` belongs to the cluster", self.name)),
        };
        self.limits = self.limits.with_concurrency(concurrency);
        if let Some(settings) = self.limits.settings() {
            controller.declare(&settings);
        }
        Ok(())
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
        matches!(self, Self::Timeout { .. } | Self::FinalTimeout { .. })
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
mod unsaved_tests;
