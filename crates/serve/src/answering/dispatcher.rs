//! Sends a question to the lanes that may answer it: admission, the breakers, and which
//! lane is asked next if one fails.
//!
//! A question has one deadline, from its arrival to the last piece of its answer,
//! through the queue and all lanes. The time that is left is shared equally between the
//! lanes that are left, so that a pipeline that hangs leaves enough for the next ones.
//! Time is read from tokio's clock, which tests replace with virtual time.

use super::{
    admission::AdmissionQueue,
    cache::AnswerCache,
    deadline::Deadline,
    events::{AnswerEvent, Delivery, FoundPassages, SourcedAnswer},
    lanes::{Lane, LaneRole, LaneSet},
    pipeline::{AnswerPipeline, UserQuestion},
    sample::{SampleSink, SampledAnswer, is_in_share},
    sent_text::{Divergence, SentText},
    served::ServedPipeline,
};
use crate::{
    error::ApiError,
    settings::ServiceSettings,
    telemetry::{KindLabel, Metrics, OperatorLog, RoleLabel, RoleOutcomeLabels},
};
use futures::FutureExt;
use models::{
    Usage,
    trace::{SpanError, in_span, record_texts},
};
use rag::{
    Answer,
    pipeline::{PipelineEvent, QueryResult},
};
use std::{
    borrow::Cow,
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};
use tracing::Span;

/// Answers questions with the lanes of a service.
pub(crate) struct LaneDispatcher<P = ServedPipeline> {
    lanes: RwLock<Arc<LaneSet<P>>>,
    /// Limits the answers that are being written.
    pub(crate) admission: AdmissionQueue,
    cache: Option<AnswerCache>,
    sink: Arc<dyn SampleSink<P>>,
    metrics: Arc<Metrics>,
    pub(super) log: Arc<OperatorLog>,
    deadline: Duration,
    first_token: Duration,
    /// The number of questions that were answered for clients.
    answered: AtomicU64,
}

/// Why an attempt gave no answer.
struct LaneFailure {
    error: ApiError,
    /// Whether one of the pipeline's models failed (the chat model, the embedder or
    /// the reranker), so that the lane's breaker counts it.
    is_model_failure: bool,
    /// Whether another pipeline might answer.
    may_try_next: bool,
}

impl From<ApiError> for LaneFailure {
    fn from(error: ApiError) -> Self {
        let may_try_next = error.status.is_server_error() && !error.is_question_refused();
        Self { is_model_failure: error.is_upstream(), may_try_next, error }
    }
}

impl LaneFailure {
    /// Whether the next lane is asked after a failure in this role. A canary passes on
    /// every failure of the service, because the served pipeline may answer.
    fn tries_next_after(&self, role: LaneRole) -> bool {
        self.may_try_next || role == LaneRole::Canary && self.error.status.is_server_error()
    }
}

/// When an attempt reached its steps.
struct AttemptProgress {
    begun: Instant,
    /// The passages were found.
    found: Option<Instant>,
    /// The chat model wrote its latest piece.
    wrote: Option<Instant>,
}

impl<P: AnswerPipeline> LaneDispatcher<P> {
    pub(crate) fn new(
        lanes: LaneSet<P>,
        sink: Arc<dyn SampleSink<P>>,
        metrics: Arc<Metrics>,
        log: Arc<OperatorLog>,
        settings: &ServiceSettings,
    ) -> Self {
        Self {
            lanes: RwLock::new(Arc::new(lanes)),
            admission: AdmissionQueue::new(settings.answers_at_once, settings.queue),
            cache: Some(settings.cache_bytes).filter(|bytes| *bytes > 0).map(AnswerCache::new),
            sink,
            metrics,
            log,
            deadline: settings.deadline,
            first_token: settings.first_token,
            answered: AtomicU64::new(0),
        }
    }

    pub(crate) fn lanes(&self) -> Arc<LaneSet<P>> {
        self.lanes.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the lanes for the next questions. Questions in flight keep the lanes
    /// that they began with.
    pub(crate) fn change_lanes<T>(&self, change: impl FnOnce(&mut LaneSet<P>) -> T) -> T {
        let mut lanes = self.lanes.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut lanes))
    }

    /// Answers a question, and sends the events to `send`.
    ///
    /// # Errors
    /// If no pipeline answers, or if one fails after a piece of its answer was sent.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        question: &UserQuestion,
        delivery: Delivery,
        send: &(dyn Fn(AnswerEvent<P>) + Send + Sync),
    ) -> Result<(), ApiError> {
        let (deadline, arrived) = (Deadline::after(self.deadline), Instant::now());
        let order = self.lanes().order(question);
        if let Some(first) = order.first()
            && let Some(cached) = self.find_cached(&first.pipeline, question)
        {
            send_cached(&first.pipeline, &cached, send);
            record_texts(&Span::current(), &question.text, &cached.answer.text);
            return Ok(());
        }
        let permit = self.admission.enter(deadline.left()).await;
        Span::current().record("reverie.queue.duration", arrived.elapsed().as_secs_f64());
        let _permit = permit?;
        if deadline.left().is_zero() {
            return Err(self.admission.waited_too_long());
        }
        let (mut last, mut breaker_wait) = (None, Duration::ZERO);
        for (at, lane) in order.iter().enumerate() {
            if !lane.pipeline.writes_answers() {
                self.record_hidden(last, question);
                return Err(ApiError::invalid(
                    "the pipeline that is served has no generator: it finds passages and writes no answers; ask /rag/retrieve",
                ));
            }
            if let Err(wait) = lane.breaker.check(Instant::now()) {
                breaker_wait = breaker_wait.max(wait);
                continue;
            }
            let (lanes_left, sent) = (order.len() - at - 1, SentText::default());
            let attempt = LaneAttempt { lane, question, delivery, deadline, lanes_left, sent };
            match self.attempt(&attempt, send).await {
                Ok(sourced) => {
                    lane.breaker.record_success();
                    self.record_hidden(last, question);
                    record_texts(&Span::current(), &question.text, &sourced.answer.text);
                    self.follow_up(lane, question, sourced);
                    return Ok(());
                }
                Err(failure) => {
                    if failure.is_model_failure {
                        lane.breaker.record_failure(Instant::now());
                    }
                    let tries_next = failure.tries_next_after(lane.role) && !attempt.sent.has_begun();
                    self.record_hidden(last.replace((failure.error, lane.role)), question);
                    if !tries_next {
                        break;
                    }
                }
            }
        }
        Err(last.map_or_else(|| all_breakers_open(breaker_wait), |(error, _)| error))
    }

    /// Finds the passages for a question, without an answer. If a pipeline fails, the
    /// next lane is asked.
    ///
    /// # Errors
    /// If every pipeline fails.
    pub(crate) async fn find(
        &self,
        question: &UserQuestion,
        deadline: Deadline,
    ) -> Result<(Arc<P>, QueryResult), ApiError> {
        let order = self.lanes().order(question);
        let mut last = None;
        for (at, lane) in order.iter().enumerate() {
            let lanes_left = order.len() - at - 1;
            // The last lane is asked even if its breaker is open: a refusal would help no other lane.
            if lanes_left > 0 && lane.search_breaker.check(Instant::now()).is_err() {
                continue;
            }
            let begun = Instant::now();
            let search =
                tokio::time::timeout_at(deadline.end_of_share(lanes_left + 1), lane.pipeline.find(question)).await;
            let late = || ApiError::search_timeout(format!("the search was not done within {:?}", begun.elapsed()));
            match search.map_err(|_| late()).and_then(|found| found.map_err(ApiError::from)) {
                Ok(found) => {
                    lane.search_breaker.record_success();
                    self.record_hidden(last, question);
                    return Ok((lane.pipeline.clone(), found));
                }
                Err(error) => {
                    let failure = LaneFailure::from(error);
                    if failure.may_try_next {
                        lane.search_breaker.record_failure(Instant::now());
                    }
                    let tries_next = failure.tries_next_after(lane.role);
                    self.record_hidden(last.replace((failure.error, lane.role)), question);
                    if !tries_next {
                        break;
                    }
                }
            }
        }
        // There is an error, because the last lane is always asked.
        Err(last.map_or_else(|| all_breakers_open(Duration::ZERO), |(error, _)| error))
    }

    /// Records a failure that the client does not see, because another pipeline was
    /// asked afterwards.
    fn record_hidden(&self, failure: Option<(ApiError, LaneRole)>, question: &UserQuestion) {
        if let Some((error, role)) = failure {
            self.log.record_hidden(&error, &question.id, role.name());
        }
    }

    fn find_cached(&self, served: &P, question: &UserQuestion) -> Option<Arc<SourcedAnswer>> {
        let cached = self.cache.as_ref()?.get(served.version(), question);
        let kind = if cached.is_some() { "hit" } else { "miss" };
        self.metrics.cache.get_or_create(&KindLabel { kind }).inc();
        cached
    }

    /// Caches an answer, adds it to the sample, and asks the shadow. The number of the
    /// question decides on both the sample and the shadow, so that they get the same
    /// questions as far as their shares allow.
    fn follow_up(self: &Arc<Self>, lane: &Arc<Lane<P>>, question: &UserQuestion, answer: Arc<SourcedAnswer>) {
        if lane.role != LaneRole::Fallback
            && let Some(cache) = &self.cache
        {
            cache.keep(lane.pipeline.version(), question, answer.clone());
        }
        let number = self.answered.fetch_add(1, Relaxed);
        let is_sampled = is_in_share(number, self.sink.share());
        let lanes = self.lanes();
        let shadow =
            lanes.shadow().filter(|shadow| lane.role == LaneRole::Serving && is_in_share(number, shadow.share));
        let shadow = shadow.and_then(|shadow| {
            let permit = shadow.permits.clone().try_acquire_owned();
            if permit.is_err() {
                self.count_outcome(LaneRole::Shadow, "left_out");
            }
            Some((shadow.lane.clone(), permit.ok()?))
        });
        let sampled = SampledAnswer::new(lane, question, answer);
        let Some((shadow, permit)) = shadow else {
            if is_sampled {
                self.sink.take(sampled);
            }
            return;
        };
        let dispatcher = self.clone();
        tokio::spawn(async move {
            let answer = dispatcher.ask_shadow(&shadow, &sampled.question).await;
            drop(permit);
            let shadow = answer.map(|answer| (shadow.pipeline.clone(), answer));
            if is_sampled || shadow.is_some() {
                dispatcher.sink.take(SampledAnswer { is_sampled, shadow, ..sampled });
            }
        });
    }

    async fn ask_shadow(&self, lane: &Lane<P>, question: &UserQuestion) -> Option<Arc<SourcedAnswer>> {
        let (deadline, sent) = (Deadline::after(self.deadline), SentText::default());
        let attempt = LaneAttempt { lane, question, delivery: Delivery::Whole, deadline, lanes_left: 0, sent };
        let answer = self.attempt(&attempt, &|_| {}).await;
        answer.inspect_err(|failure| self.log.record_hidden(&failure.error, &question.id, lane.role.name())).ok()
    }

    fn count_outcome(&self, role: LaneRole, outcome: &'static str) {
        self.metrics.answers.get_or_create(&RoleOutcomeLabels { role: role.name(), outcome }).inc();
    }

    /// Runs an attempt in its span, and records its outcome.
    async fn attempt(
        &self,
        attempt: &LaneAttempt<'_, P>,
        send: &(dyn Fn(AnswerEvent<P>) + Send + Sync),
    ) -> Result<Arc<SourcedAnswer>, LaneFailure> {
        let (started, role) = (Instant::now(), attempt.lane.role);
        let span = attempt.lane.pipeline.span();
        let work = AssertUnwindSafe(self.run_attempt(attempt, send)).catch_unwind();
        let work = async { work.await.unwrap_or_else(|panic| Err(ApiError::panicked(&*panic).into())) };
        let outcome = in_span(span.clone(), work).await;
        match &outcome {
            Ok(sourced) => {
                record_texts(&span, &attempt.question.text, &sourced.answer.text);
                self.count_outcome(role, "answered");
            }
            Err(failure) => self.count_outcome(role, failure.error.failure_kind()),
        }
        let role = role.name();
        self.metrics.answer_seconds.get_or_create(&RoleLabel { role }).observe(started.elapsed().as_secs_f64());
        outcome
    }

    async fn run_attempt(
        &self,
        attempt: &LaneAttempt<'_, P>,
        send: &(dyn Fn(AnswerEvent<P>) + Send + Sync),
    ) -> Result<Arc<SourcedAnswer>, LaneFailure> {
        let LaneAttempt { lane, question, sent, .. } = attempt;
        let begun = Instant::now();
        let progress = Mutex::new(AttemptProgress { begun, found: None, wrote: None });
        let progress = || progress.lock().unwrap_or_else(PoisonError::into_inner);
        let (found, has_diverged) = (Notify::new(), AtomicBool::new(false));
        let whole = Mutex::new(QueryResult::default());
        let so_far = || whole.lock().unwrap_or_else(PoisonError::into_inner);
        let note_output = || {
            lane.note_output();
            // A shadow's answer is not measured, because no client reads it.
            if progress().wrote.replace(Instant::now()).is_none() && lane.role != LaneRole::Shadow {
                self.metrics.first_token.observe(begun.elapsed().as_secs_f64());
            }
        };
        let on_event = |event: PipelineEvent| match event {
            // This fallback is no lane: the query component left the question unchanged, or wrote fewer queries.
            PipelineEvent::Fallback(reason) | PipelineEvent::Remark(reason) => so_far().remarks.push(reason),
            PipelineEvent::PassagesFound(passages) => {
                progress().found = Some(Instant::now());
                found.notify_one();
                so_far().passages.clone_from(&passages);
                let remarks = so_far().remarks.clone();
                // Each lane sends its passages once: the last ones that a client gets belong to the answer.
                sent.send_passages_once(|| {
                    let found = FoundPassages { served: lane.pipeline.clone(), passages, remarks };
                    send(AnswerEvent::Passages(Box::new(found)));
                });
            }
            PipelineEvent::Piece(piece) => {
                note_output();
                if attempt.delivery == Delivery::Whole {
                    // Nothing is sent before the end, so a retry may begin in other words.
                    return;
                }
                match sent.add(piece) {
                    Ok(Some(text)) => send(AnswerEvent::Text(text)),
                    Ok(None) => {}
                    Err(Divergence) => has_diverged.store(true, Relaxed),
                }
            }
            PipelineEvent::Answered(answer) => {
                // A pipeline may complete an answer without sending pieces.
                progress().wrote.get_or_insert_with(Instant::now);
                self.measure(&answer, begun.elapsed());
                so_far().answer = Some(answer.clone());
                if attempt.delivery == Delivery::Whole {
                    return send(AnswerEvent::Done(answer));
                }
                match sent.complete(&answer.text) {
                    Ok(rest) => {
                        rest.into_iter().for_each(|text| send(AnswerEvent::Text(text)));
                        send(AnswerEvent::Done(answer));
                    }
                    Err(Divergence) => has_diverged.store(true, Relaxed),
                }
            }
        };
        let share_ends = attempt.deadline.end_of_share(attempt.lanes_left + 1);
        let due = || attempt.due(&progress(), share_ends, self.first_token);
        let timed_out = async {
            loop {
                tokio::select! {
                    // From now on, `first_token` limits the time.
                    () = found.notified() => {}
                    () = sleep_until(due()) => if due() <= Instant::now() { break },
                }
            }
        };
        tokio::select! {
            // An answer that is complete at the deadline is in time.
            biased;
            outcome = lane.pipeline.ask(question, &on_event) => outcome.map_err(ApiError::from)?,
            () = timed_out => return Err(attempt.timeout_failure(&progress(), self.deadline, self.first_token)),
        }
        if has_diverged.load(Relaxed) {
            let reason = "the model restarted its answer in other words after the beginning was sent; ask again, or without `stream`";
            return Err(ApiError::upstream(reason).into());
        }
        let QueryResult { passages, remarks, answer, .. } = std::mem::take(&mut *so_far());
        let answer = answer.ok_or_else(|| ApiError::internal("the pipeline wrote no answer"))?;
        Ok(Arc::new(SourcedAnswer { passages, remarks, answer }))
    }

    /// Records the time and the tokens of an answer.
    fn measure(&self, answer: &Answer, took: Duration) {
        self.metrics.overhead.observe((took.as_secs_f64() - answer.seconds).max(0.0));
        for (kind, tokens) in [
            ("prompt", answer.usage.prompt_tokens),
            ("cached", answer.usage.cached_tokens),
            ("completion", answer.usage.completion_tokens),
        ] {
            self.metrics.tokens.get_or_create(&KindLabel { kind }).inc_by(tokens);
        }
    }
}

impl SpanError for LaneFailure {
    fn error_type(&self) -> Cow<'static, str> {
        self.error.error_type()
    }
}

/// One question to one lane.
struct LaneAttempt<'a, P> {
    lane: &'a Lane<P>,
    question: &'a UserQuestion,
    delivery: Delivery,
    deadline: Deadline,
    /// How many lanes may be asked after this one.
    lanes_left: usize,
    sent: SentText,
}

impl<P: AnswerPipeline> LaneAttempt<'_, P> {
    /// When the attempt times out if it makes no more progress.
    fn due(&self, progress: &AttemptProgress, share_ends: Instant, first_token: Duration) -> Instant {
        let due = match (progress.found, progress.wrote) {
            (None, None) => share_ends,
            (Some(found), None) => share_ends.min(found + first_token),
            // The client has seen nothing yet, so another lane may still answer. `first_token` is also the longest
            // pause after a piece: a model that works is not expected to pause longer than that.
            (_, Some(wrote)) if self.lanes_left > 0 && self.delivery == Delivery::Whole => wrote + first_token,
            (_, Some(_)) => self.deadline.ends,
        };
        due.min(self.deadline.ends)
    }

    /// The failure of an attempt that timed out.
    fn timeout_failure(&self, progress: &AttemptProgress, deadline: Duration, first_token: Duration) -> LaneFailure {
        let now = Instant::now();
        let (error, is_model_failure) = match (progress.found, progress.wrote) {
            (None, None) => {
                let took = now - progress.begun;
                (ApiError::search_timeout(format!("the search was not done within {took:?}")), false)
            }
            (Some(found), None) => {
                let waited = now - found;
                if self.lane.has_written_within(waited) {
                    let reason = "the chat model is busy with other questions; try again later";
                    (ApiError::overloaded(reason, Duration::from_secs(5)), false)
                } else {
                    (ApiError::timeout(format!("the chat model wrote nothing for {waited:?}")), true)
                }
            }
            (_, Some(wrote)) => {
                // A model that still writes is slow, but has not failed. It counts as silent after the longest pause
                // that `due` allows, or after half of the deadline if that is shorter.
                let is_silent = now - wrote >= first_token.min(deadline / 2);
                (ApiError::timeout(format!("the answer was not done within {deadline:?}")), is_silent)
            }
        };
        LaneFailure { error, is_model_failure, may_try_next: true }
    }
}

/// The error if no pipeline was asked, because the breakers of all are open.
fn all_breakers_open(wait: Duration) -> ApiError {
    ApiError::overloaded("a model failed several times in a row and is not asked for a while; try again later", wait)
}

/// Sends an answer from the cache.
fn send_cached<P>(served: &Arc<P>, cached: &SourcedAnswer, send: &(dyn Fn(AnswerEvent<P>) + Send + Sync)) {
    let SourcedAnswer { passages, mut remarks, answer } = cached.clone();
    remarks.push("the answer comes from the cache: the same question was asked before".to_owned());
    send(AnswerEvent::Passages(Box::new(FoundPassages { served: served.clone(), passages, remarks })));
    send(AnswerEvent::Text(answer.text.clone()));
    // No model was called for it this time.
    send(AnswerEvent::Done(Answer { usage: Usage::default(), seconds: 0.0, calls: 0, ..answer }));
}

#[cfg(test)]
#[path = "dispatcher_tests.rs"]
mod tests;
