//! One question over the pipelines that may answer it: its place, its one clock,
//! the breakers, and which pipeline is asked next if one fails.
//!
//! A question has one deadline, from its arrival to its last word, through the
//! queue and all pipelines. A pipeline that others can stand in for gets an equal
//! share of the time that is left, so that one that hangs leaves enough for them.
//! Time is tokio's, so that the tests run it as a virtual clock.

use crate::{
    admission::Admission,
    answer::{Asked, Done, Found, Reads, Told, failure},
    cache::AnswerCache,
    error::ApiError,
    lanes::{Candidate, Lane, Lanes, Pipeline, Role},
    metrics::{Label, Metrics, RoleName, RoleOutcome},
    operator_log::OperatorLog,
    sent_text::{Diverged, SentText},
    served::Served,
    settings::Settings,
    traffic::{Kept, SampleSink, is_in_share},
};
use futures::FutureExt;
use models::{
    Usage,
    trace::{Fails, told, within},
};
use rag::{Answer, pipeline::AnswerEvent};
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

/// When a question, or a search, has to be done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    ends: Instant,
    deadline: Duration,
}

impl Clock {
    /// A clock that runs from now on.
    pub(crate) fn begin(deadline: Duration) -> Self {
        Self { ends: Instant::now() + deadline, deadline }
    }

    /// The time until the deadline.
    pub(crate) fn left(&self) -> Duration {
        self.ends.saturating_duration_since(Instant::now())
    }

    /// The end of an equal share of the time that is left, for so many pipelines.
    fn end_of_share(&self, pipelines: usize) -> Instant {
        Instant::now() + self.left().div_f64(pipelines.max(1) as f64)
    }

    /// The result of work, unless the deadline comes first.
    ///
    /// # Errors
    /// The work's own, or 504.
    pub(crate) async fn in_time<T>(&self, work: impl Future<Output = Result<T, lab::Error>>) -> Result<T, ApiError> {
        let done = tokio::time::timeout_at(self.ends, work).await;
        Ok(done.map_err(|_| ApiError::search_timeout(format!("it was not done within {:?}", self.deadline)))??)
    }
}

/// What questions are answered with.
pub(crate) struct Answering<P = Served> {
    lanes: RwLock<Arc<Lanes<P>>>,
    /// The places of answers that are being written.
    pub(crate) places: Admission,
    cache: Option<AnswerCache>,
    sink: Arc<dyn SampleSink<P>>,
    metrics: Arc<Metrics>,
    log: Arc<OperatorLog>,
    deadline: Duration,
    first_token: Duration,
    /// Questions that the served pipeline, or what stands in for it, has answered.
    answered: AtomicU64,
}

/// Why an attempt gave no answer, and what follows from it.
struct Failure {
    error: ApiError,
    /// Whether one of the pipeline's models is at fault (the chat model, the
    /// embedder or the reranker), so that the pipeline's breaker counts it.
    blames_model: bool,
    /// Whether another pipeline may do better.
    passes_on: bool,
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        // What is wrong with one question says nothing about a model.
        let (blames_model, passes_on) =
            (error.is_upstream(), error.status.is_server_error() && !error.is_of_question());
        Self { error, blames_model, passes_on }
    }
}

impl Failure {
    /// Whether the next pipeline is asked after one in this role. A canary's faults
    /// are its own: the served pipeline is asked whatever they are.
    fn passes_on_from(&self, role: Role) -> bool {
        self.passes_on || role == Role::Canary && self.error.status.is_server_error()
    }
}

/// How far an attempt has come.
struct Progress {
    begun: Instant,
    found: Option<Instant>,
    wrote: Option<Instant>,
}

impl<P: Pipeline> Answering<P> {
    pub(crate) fn new(
        lanes: Lanes<P>,
        sink: Arc<dyn SampleSink<P>>,
        metrics: Arc<Metrics>,
        log: Arc<OperatorLog>,
        settings: &Settings,
    ) -> Self {
        Self {
            lanes: RwLock::new(Arc::new(lanes)),
            places: Admission::new(settings.answers_at_once, settings.queue),
            cache: Some(settings.cache_bytes).filter(|bytes| *bytes > 0).map(AnswerCache::new),
            sink,
            metrics,
            log,
            deadline: settings.deadline,
            first_token: settings.first_token,
            answered: AtomicU64::new(0),
        }
    }

    pub(crate) fn lanes(&self) -> Arc<Lanes<P>> {
        self.lanes.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Questions that have begun keep the lanes with which they began.
    pub(crate) fn change_lanes<T>(&self, change: impl FnOnce(&mut Lanes<P>) -> T) -> T {
        let mut lanes = self.lanes.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut lanes))
    }

    pub(crate) fn note_load(&self) {
        self.metrics.in_flight.set(self.places.busy() as i64);
        self.metrics.waiting.set(self.places.waiting() as i64);
    }

    /// Answers a question: sends what comes of it to `tell`.
    ///
    /// # Errors
    /// If no pipeline answers. A stream that has begun is not begun again.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        asked: &Asked,
        reads: Reads,
        tell: &(dyn Fn(Told<P>) + Send + Sync),
    ) -> Result<(), ApiError> {
        let (clock, came) = (Clock::begin(self.deadline), Instant::now());
        let order = self.lanes().order(asked);
        if let Some(known) = order.first().and_then(|first| Some((first, self.cached(&first.served, asked)?))) {
            let (first, known) = known;
            tell_again(&first.served, &known, tell);
            told(&Span::current(), &asked.question, &known.answer.text);
            return Ok(());
        }
        let place = self.places.enter(clock.left()).await;
        Span::current().record("reverie.queue.duration", came.elapsed().as_secs_f64());
        self.note_load();
        let _place = place?;
        let _noted = NoteLoad(self);
        if clock.left().is_zero() {
            return Err(self.places.waited_too_long());
        }
        let (mut failures, mut breaker_wait) = (Vec::new(), Duration::ZERO);
        for (at, lane) in order.iter().enumerate() {
            if !lane.served.writes_answers() {
                self.note_hidden(&failures, asked);
                return Err(ApiError::invalid(
                    "the pipeline that is served has no generator: it finds passages and writes no answers; ask /rag/retrieve",
                ));
            }
            if let Err(wait) = lane.breaker.allows(Instant::now()) {
                breaker_wait = breaker_wait.max(wait);
                continue;
            }
            let attempt =
                Attempt { lane, asked, reads, clock, others: order.len() - at - 1, sent: SentText::default() };
            match self.attempt(&attempt, tell).await {
                Ok(done) => {
                    lane.breaker.succeeded();
                    self.note_hidden(&failures, asked);
                    told(&Span::current(), &asked.question, &done.answer.text);
                    self.follow_up(lane, asked, done);
                    return Ok(());
                }
                Err(failure) => {
                    if failure.blames_model {
                        lane.breaker.failed(Instant::now());
                    }
                    let has_begun = attempt.sent.has_begun();
                    let passes_on = failure.passes_on_from(lane.role);
                    failures.push((failure.error, lane.role));
                    if !passes_on || has_begun {
                        break;
                    }
                }
            }
        }
        Err(self.last_failure(failures, asked, breaker_wait))
    }

    /// Finds the passages for a question: in the pipeline that would answer it, and
    /// if that one fails, in the next.
    ///
    /// # Errors
    /// If no pipeline finds any.
    pub(crate) async fn find(
        &self,
        asked: &Asked,
        clock: Clock,
    ) -> Result<(Arc<P>, rag::pipeline::QueryResult), ApiError> {
        let order = self.lanes().order(asked);
        let mut failures = Vec::new();
        for (at, lane) in order.iter().enumerate() {
            let others = order.len() - at - 1;
            if others > 0 && lane.search_breaker.allows(Instant::now()).is_err() {
                continue;
            }
            let begun = Instant::now();
            let search = tokio::time::timeout_at(clock.end_of_share(others + 1), lane.served.find(asked)).await;
            let late = || ApiError::search_timeout(format!("the search was not done within {:?}", begun.elapsed()));
            match search.map_err(|_| late()).and_then(|found| found.map_err(ApiError::from)) {
                Ok(found) => {
                    lane.search_breaker.succeeded();
                    self.note_hidden(&failures, asked);
                    return Ok((lane.served.clone(), found));
                }
                Err(error) => {
                    let failure = Failure::from(error);
                    if failure.passes_on {
                        lane.search_breaker.failed(Instant::now());
                    }
                    let passes_on = failure.passes_on_from(lane.role);
                    failures.push((failure.error, lane.role));
                    if !passes_on {
                        break;
                    }
                }
            }
        }
        Err(self.last_failure(failures, asked, Duration::ZERO))
    }

    /// Notes failures that the client does not see, because another pipeline was
    /// asked afterwards.
    fn note_hidden(&self, failures: &[(ApiError, Role)], asked: &Asked) {
        for (error, role) in failures {
            self.log.note_hidden(error, &asked.id, role.name());
        }
    }

    /// Returns the error for the client: the last failure. If no pipeline was asked,
    /// the error says how long to wait for the breakers.
    fn last_failure(&self, mut failures: Vec<(ApiError, Role)>, asked: &Asked, breaker_wait: Duration) -> ApiError {
        let last = failures.pop();
        self.note_hidden(&failures, asked);
        let reason = "a model failed several times in a row and is not asked for a while; try again later";
        last.map_or_else(|| ApiError::overloaded(reason, breaker_wait), |(error, _)| error)
    }

    fn cached(&self, served: &P, asked: &Asked) -> Option<Arc<Done>> {
        let known = self.cache.as_ref()?.get(served.version(), asked);
        let kind = if known.is_some() { "hit" } else { "miss" };
        self.metrics.cache.get_or_create(&Label { kind }).inc();
        known
    }

    /// Keeps an answer for the next such question, takes the sample, and asks the
    /// shadow. One number decides for both, so that what is sampled and what a
    /// shadow is asked are the same questions as far as their shares allow.
    fn follow_up(self: &Arc<Self>, lane: &Arc<Lane<P>>, asked: &Asked, done: Arc<Done>) {
        if lane.role != Role::Fallback
            && let Some(cache) = &self.cache
        {
            cache.keep(lane.served.version(), asked, done.clone());
        }
        let number = self.answered.fetch_add(1, Relaxed);
        let is_sampled = is_in_share(number, self.sink.share());
        let lanes = self.lanes();
        let shadow = lanes.shadow().filter(|_| lane.role == Role::Serving);
        let Some(shadow) = shadow.filter(|shadow| is_in_share(number, shadow.share)) else {
            if is_sampled {
                self.sink.keep(Kept::of(lane, asked, done));
            }
            return;
        };
        let place = shadow.places.clone().try_acquire_owned();
        if place.is_err() {
            let left_out = RoleOutcome { role: Role::Shadow.name(), outcome: "left_out" };
            self.metrics.answers.get_or_create(&left_out).inc();
        }
        let (answering, lane, shadow, asked) = (self.clone(), lane.clone(), shadow.lane.clone(), asked.clone());
        let Ok(place) = place else {
            if is_sampled {
                self.sink.keep(Kept::of(&lane, &asked, done));
            }
            return;
        };
        tokio::spawn(async move {
            let answered = answering.ask_shadow(&shadow, &asked).await;
            drop(place);
            let shadow = answered.map(|answered| (shadow.served.clone(), answered));
            if is_sampled || shadow.is_some() {
                answering.sink.keep(Kept { is_sampled, shadow, ..Kept::of(&lane, &asked, done) });
            }
        });
    }

    async fn ask_shadow(&self, lane: &Lane<P>, asked: &Asked) -> Option<Arc<Done>> {
        let (clock, sent) = (Clock::begin(self.deadline), SentText::default());
        let attempt = Attempt { lane, asked, reads: Reads::Answer, clock, others: 0, sent };
        let answered = self.attempt(&attempt, &|_| {}).await;
        answered.inspect_err(|failure| self.log.note_hidden(&failure.error, &asked.id, lane.role.name())).ok()
    }

    /// Asks one pipeline within its time, and counts the outcome.
    async fn attempt(
        &self,
        attempt: &Attempt<'_, P>,
        tell: &(dyn Fn(Told<P>) + Send + Sync),
    ) -> Result<Arc<Done>, Failure> {
        let (started, role) = (Instant::now(), attempt.lane.role.name());
        let span = attempt.lane.served.span();
        let work = AssertUnwindSafe(self.answered(attempt, tell)).catch_unwind();
        let done =
            within(span.clone(), async { work.await.unwrap_or_else(|panic| Err(ApiError::panicked(&*panic).into())) });
        let done = done.await;
        if let Ok(done) = &done {
            told(&span, &attempt.asked.question, &done.answer.text);
        }
        let outcome = match &done {
            Ok(_) => "answered",
            Err(failed) => failure(&failed.error),
        };
        self.metrics.answers.get_or_create(&RoleOutcome { role, outcome }).inc();
        self.metrics.answer_seconds.get_or_create(&RoleName { role }).observe(started.elapsed().as_secs_f64());
        done
    }

    async fn answered(
        &self,
        attempt: &Attempt<'_, P>,
        tell: &(dyn Fn(Told<P>) + Send + Sync),
    ) -> Result<Arc<Done>, Failure> {
        let Attempt { lane, asked, sent, .. } = attempt;
        let begun = Instant::now();
        let progress = Mutex::new(Progress { begun, found: None, wrote: None });
        let progress = || progress.lock().unwrap_or_else(PoisonError::into_inner);
        let (found, has_diverged) = (Notify::new(), AtomicBool::new(false));
        let whole = Mutex::new(rag::pipeline::QueryResult::default());
        let so_far = || whole.lock().unwrap_or_else(PoisonError::into_inner);
        let wrote = || {
            lane.last_output.note();
            // A shadow's answer is not measured, because no client reads it.
            if progress().wrote.replace(Instant::now()).is_none() && lane.role != Role::Shadow {
                self.metrics.first_token.observe(begun.elapsed().as_secs_f64());
            }
        };
        let on_event = |event: AnswerEvent| match event {
            AnswerEvent::Fallback(reason) | AnswerEvent::Remark(reason) => so_far().remarks.push(reason),
            AnswerEvent::Found(passages) => {
                progress().found = Some(Instant::now());
                found.notify_one();
                so_far().passages.clone_from(&passages);
                let remarks = so_far().remarks.clone();
                // After an attempt that failed before its first word, the passages of the next one count.
                sent.passages(|| tell(Told::Found(Box::new(Found { served: lane.served.clone(), passages, remarks }))));
            }
            AnswerEvent::Piece(piece) => {
                wrote();
                if attempt.reads == Reads::Answer {
                    // Its reader sees the end alone, so it may begin anew in other words.
                    return;
                }
                match sent.piece(piece) {
                    Ok(Some(text)) => tell(Told::Text(text)),
                    Ok(None) => {}
                    Err(Diverged) => has_diverged.store(true, Relaxed),
                }
            }
            AnswerEvent::Answered(answer) => {
                // A pipeline may answer without a word before.
                progress().wrote.get_or_insert_with(Instant::now);
                self.count(&answer, begun.elapsed());
                so_far().answer = Some(answer.clone());
                if attempt.reads == Reads::Answer {
                    return tell(Told::Answered(answer));
                }
                match sent.rest(&answer.text) {
                    Ok(rest) => {
                        rest.into_iter().for_each(|text| tell(Told::Text(text)));
                        tell(Told::Answered(answer));
                    }
                    Err(Diverged) => has_diverged.store(true, Relaxed),
                }
            }
        };
        let share_ends = attempt.clock.end_of_share(attempt.others + 1);
        let due = || attempt.due(&progress(), share_ends, self.first_token);
        let late = async {
            loop {
                tokio::select! {
                    // What was found may be due sooner than the search was.
                    () = found.notified() => {}
                    () = sleep_until(due()) => if due() <= Instant::now() { break },
                }
            }
        };
        tokio::select! {
            // What is done in the moment of the deadline is done.
            biased;
            done = lane.served.ask(asked, &on_event) => done.map_err(ApiError::from)?,
            () = late => return Err(attempt.late(&progress(), self.deadline, self.first_token)),
        }
        if has_diverged.load(Relaxed) {
            let error = ApiError::upstream(
                "the answer was begun anew in other words after its beginning had been sent; ask again, or without `stream`",
            );
            return Err(error.into());
        }
        let rag::pipeline::QueryResult { passages, remarks, answer, .. } = std::mem::take(&mut *so_far());
        let answer = answer.ok_or_else(|| ApiError::internal("the pipeline wrote no answer"))?;
        Ok(Arc::new(Done { passages, remarks, answer }))
    }

    fn count(&self, answer: &Answer, took: Duration) {
        self.metrics.overhead.observe((took.as_secs_f64() - answer.seconds).max(0.0));
        for (kind, tokens) in [
            ("prompt", answer.usage.prompt_tokens),
            ("cached", answer.usage.cached_tokens),
            ("completion", answer.usage.completion_tokens),
        ] {
            self.metrics.tokens.get_or_create(&Label { kind }).inc_by(tokens);
        }
    }
}

impl Fails for Failure {
    fn error_type(&self) -> Cow<'static, str> {
        self.error.error_type()
    }
}

/// One pipeline that is asked one question.
struct Attempt<'a, P> {
    lane: &'a Lane<P>,
    asked: &'a Asked,
    reads: Reads,
    clock: Clock,
    /// How many pipelines may be asked after this one.
    others: usize,
    sent: SentText,
}

impl<P: Pipeline> Attempt<'_, P> {
    /// When the attempt is given up, if nothing more comes of it.
    fn due(&self, progress: &Progress, share_ends: Instant, first_token: Duration) -> Instant {
        let due = match (progress.found, progress.wrote) {
            (None, None) => share_ends,
            (Some(found), None) => share_ends.min(found + first_token),
            // What no client has seen yet may still come from another pipeline.
            (_, Some(wrote)) if self.others > 0 && self.reads == Reads::Answer => wrote + first_token,
            (_, Some(_)) => self.clock.ends,
        };
        due.min(self.clock.ends)
    }

    /// What is said of an attempt that was given up.
    fn late(&self, progress: &Progress, deadline: Duration, first_token: Duration) -> Failure {
        let now = Instant::now();
        let (error, blames_model) = match (progress.found, progress.wrote) {
            (None, None) => {
                let took = now - progress.begun;
                (ApiError::search_timeout(format!("the search was not done within {took:?}")), false)
            }
            (Some(found), None) => {
                let waited = now - found;
                if self.lane.last_output.is_within(waited) {
                    // It is not the model that failed: it had no time for this question.
                    let reason = "the chat model answers others and had no time for this question; try again later";
                    (ApiError::overloaded(reason, Duration::from_secs(5)), false)
                } else {
                    (ApiError::timeout(format!("the chat model wrote nothing for {waited:?}")), true)
                }
            }
            (_, Some(wrote)) => {
                // A model that still writes is slow, and has not failed.
                let is_silent = now - wrote >= first_token.min(deadline / 2);
                (ApiError::timeout(format!("the answer was not done within {deadline:?}")), is_silent)
            }
        };
        Failure { error, blames_model, passes_on: true }
    }
}

/// Tells an answer that was given before.
fn tell_again<P>(served: &Arc<P>, known: &Done, tell: &(dyn Fn(Told<P>) + Send + Sync)) {
    let Done { passages, mut remarks, answer } = known.clone();
    remarks.push("the answer was given before to the same question".to_owned());
    tell(Told::Found(Box::new(Found { served: served.clone(), passages, remarks })));
    tell(Told::Text(answer.text.clone()));
    // Nothing was asked of a model for it.
    tell(Told::Answered(Answer { usage: Usage::default(), seconds: 0.0, calls: 0, ..answer }));
}

/// Notes at its end that there is more room.
struct NoteLoad<'a, P: Pipeline>(&'a Answering<P>);

impl<P: Pipeline> Drop for NoteLoad<'_, P> {
    fn drop(&mut self) {
        self.0.note_load();
    }
}

impl Answering {
    /// Serves another pipeline from now on; gives the one of before.
    pub(crate) fn swap(&self, next: Arc<Lane>) -> Arc<Served> {
        self.change_lanes(|lanes| std::mem::replace(&mut lanes.serving, next)).served.clone()
    }

    /// Tries another candidate, or none any more; gives the one of before.
    pub(crate) fn try_candidate(&self, candidate: Option<Candidate>) -> Option<Candidate> {
        self.change_lanes(|lanes| std::mem::replace(&mut lanes.candidate, candidate))
    }
}

#[cfg(test)]
#[path = "turn_tests.rs"]
mod tests;
