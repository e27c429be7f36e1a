//! One question, from the door to the last word: its turn, its deadlines, the
//! breaker and the fallback, and what is told on the way.

use crate::{
    Service,
    error::ApiError,
    lanes::{Lane, Role},
    metrics::{Label, RoleName, RoleOutcome},
    served::Served,
    stream::seconds,
    trace,
    traffic::Kept,
};
use futures::{Stream, StreamExt, channel::mpsc, future, stream};
use models::{
    Message, Piece, Usage,
    trace::{Fails, told, within},
};
use rag::{Answer, Passage, pipeline::Event};
use serde_json::json;
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;
use tracing::{Instrument, Span};

/// A question that was checked.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// The id of the request.
    pub(crate) id: Arc<str>,
    pub(crate) question: String,
    /// What was said before it, oldest first.
    pub(crate) history: Vec<Message>,
    /// The most passages.
    pub(crate) at_most: usize,
}

/// What is told of an answer, in this order.
#[derive(Debug)]
pub(crate) enum Told {
    /// What was found, and by which pipeline.
    Found(Box<Found>),
    /// The next part of the text. All parts together are the text of the answer.
    Text(String),
    /// The answer.
    Answered(Answer),
}

/// What the reader of an answer wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// The text while it is written.
    Text,
    /// The answer when it is done.
    Answer,
}

/// What was found for a question.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) served: Arc<Served>,
    pub(crate) passages: Vec<Passage>,
    /// What there is to tell about the search.
    pub(crate) remarks: Vec<String>,
}

/// What a pipeline answered, whole.
#[derive(Debug, Clone)]
pub(crate) struct Done {
    pub(crate) passages: Vec<Passage>,
    pub(crate) remarks: Vec<String>,
    pub(crate) answer: Answer,
}

/// A whole answer.
pub(crate) struct Whole {
    pub(crate) found: Found,
    pub(crate) answer: Answer,
}

/// Answers a question. The work goes on whether the stream is read or not, so
/// that deadlines hold for a client that does not read; it ends when the stream
/// is dropped.
fn answer(
    service: Arc<Service>,
    asked: Asked,
    reads: Reads,
) -> impl Stream<Item = Result<Told, ApiError>> + Send + 'static {
    let (sender, told) = mpsc::unbounded();
    let work = async move {
        // If nobody listens any more, it is dropped.
        let tell = |told: Result<Told, ApiError>| match told {
            // Each would wake the reader, who has no use for it.
            Ok(Told::Text(_)) if reads == Reads::Answer => {}
            told => drop(sender.unbounded_send(told)),
        };
        if let Err(error) = in_turn(&service, &asked, &|told| tell(Ok(told))).await {
            let kind = failure(&error);
            service.metrics.failures.get_or_create(&Label { kind }).inc();
            if error.status.is_server_error() {
                // A stream that has begun has told its client that all is well.
                models::trace::fail(&Span::current(), &error.error_type());
            }
            if let Some(detail) = error.detail() {
                (service.audit)(&json!({ "time": seconds(), "failed": kind, "detail": detail }));
            }
            tell(Err(error));
        }
    };
    let work = AbortOnDropHandle::new(tokio::spawn(work.in_current_span()));
    // The handle lives as long as the stream.
    told.map(move |told| {
        let _ = &work;
        told
    })
}

/// The same, once something was told: a question that is refused before that is
/// an error, and no stream.
pub(crate) async fn begun(
    service: Arc<Service>,
    asked: Asked,
) -> Result<impl Stream<Item = Result<Told, ApiError>> + Send + 'static, ApiError> {
    let mut told = Box::pin(answer(service, asked, Reads::Text));
    let first = told.next().await.transpose()?;
    Ok(stream::iter(first.map(Ok)).chain(told))
}

/// The same as a whole.
pub(crate) async fn whole(service: Arc<Service>, asked: Asked) -> Result<Whole, ApiError> {
    let mut told = std::pin::pin!(answer(service, asked, Reads::Answer));
    let mut found = None;
    while let Some(told) = told.next().await {
        match told? {
            Told::Found(now) => found = Some(*now),
            Told::Text(_) => {}
            Told::Answered(answer) => {
                let found = found.ok_or_else(|| ApiError::internal("an answer came before its passages"))?;
                return Ok(Whole { found, answer });
            }
        }
    }
    Err(ApiError::internal("the pipeline wrote no answer"))
}

async fn in_turn(service: &Arc<Service>, asked: &Asked, tell: &(dyn Fn(Told) + Send + Sync)) -> Result<(), ApiError> {
    let order = service.lanes().order(asked);
    if let Some(first) = order.first()
        && let Some(known) = service.known(&first.served, asked)
    {
        tell_again(&first.served, &known, tell);
        told(&Span::current(), &asked.question, &known.answer.text);
        return Ok(());
    }
    let came = Instant::now();
    let place = service.answers.enter(service.settings.deadline).await;
    Span::current().record("reverie.queue.duration", came.elapsed().as_secs_f64());
    service.note_load();
    let _place = place?;
    let _noted = Noted(service);
    let (mut failed, mut rest) = (None, Duration::ZERO);
    for (at, lane) in order.iter().enumerate() {
        if !lane.served.answers() {
            return Err(ApiError::invalid(
                "the pipeline that is served has no generator: it finds passages and writes no answers; ask /rag/retrieve",
            ));
        }
        if let Err(wait) = lane.breaker.allows(Instant::now()) {
            rest = rest.max(wait);
            continue;
        }
        let spoken = Spoken::default();
        match attempt(service, lane, asked, &spoken, tell).await {
            Ok(done) => {
                lane.breaker.succeeded();
                told(&Span::current(), &asked.question, &done.answer.text);
                after(service, lane, asked, done);
                return Ok(());
            }
            Err(error) => {
                if error.is_upstream() {
                    lane.breaker.failed(Instant::now());
                }
                // Whatever is wrong with a canary, nobody is to notice. What is wrong
                // with a question says nothing about a model.
                let passes_on = error.is_upstream() || (lane.role == Role::Canary && error.status.is_server_error());
                if !passes_on || spoken.has_begun() || at + 1 == order.len() {
                    return Err(error);
                }
                failed = Some(error);
            }
        }
    }
    let reason = "the chat model failed several times in a row and is not asked for a while; try again later";
    Err(failed.unwrap_or_else(|| ApiError::overloaded(reason, rest)))
}

/// Tells an answer that was given before.
fn tell_again(served: &Arc<Served>, known: &Done, tell: &(dyn Fn(Told) + Send + Sync)) {
    let Done { passages, mut remarks, answer } = known.clone();
    remarks.push("the answer was given before to the same question".to_owned());
    tell(Told::Found(Box::new(Found { served: served.clone(), passages, remarks })));
    tell(Told::Text(answer.text.clone()));
    // Nothing was asked of a model for it.
    tell(Told::Answered(Answer { usage: Usage::default(), seconds: 0.0, calls: 0, ..answer }));
}

/// What becomes of an answer once it was given.
fn after(service: &Arc<Service>, lane: &Arc<Lane>, asked: &Asked, done: Arc<Done>) {
    if lane.role != Role::Fallback {
        service.keep_known(&lane.served, asked, &done);
    }
    let lanes = service.lanes();
    let shadow = if lane.role == Role::Serving { lanes.shadow() } else { None };
    let is_sampled = service.sampling.takes();
    let Some(shadow) = shadow else {
        if is_sampled {
            let (role, served) = (lane.role, lane.served.clone());
            service.sampling.keep(Kept { role, served, asked: asked.clone(), done, shadow: None });
        }
        return;
    };
    let outcome = |outcome| service.metrics.answers.get_or_create(&RoleOutcome { role: Role::Shadow.name(), outcome });
    let Ok(place) = shadow.places.clone().try_acquire_owned() else {
        outcome("left_out").inc();
        return;
    };
    let (service, lane, shadow, asked) = (service.clone(), lane.clone(), shadow.lane.clone(), asked.clone());
    tokio::spawn(async move {
        let _place = place;
        let answered = attempt(&service, &shadow, &asked, &Spoken::default(), &|_| {}).await.ok();
        let shadow = answered.map(|answered| (shadow.served.clone(), answered));
        service.sampling.keep(Kept { role: lane.role, served: lane.served.clone(), asked, done, shadow });
    });
}

/// Notes at its end that there is more room.
struct Noted<'a>(&'a Service);

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        self.0.note_load();
    }
}

/// Asks one pipeline, within its deadlines, and counts what came of it.
async fn attempt(
    service: &Service,
    lane: &Lane,
    asked: &Asked,
    spoken: &Spoken,
    tell: &(dyn Fn(Told) + Send + Sync),
) -> Result<Arc<Done>, ApiError> {
    let (started, role) = (Instant::now(), lane.role.name());
    let span = trace::pipeline(&lane.served);
    let done = within(span.clone(), answered(service, lane, asked, spoken, tell)).await;
    if let Ok(done) = &done {
        told(&span, &asked.question, &done.answer.text);
    }
    let outcome = match &done {
        Ok(_) => "answered",
        Err(error) => failure(error),
    };
    service.metrics.answers.get_or_create(&RoleOutcome { role, outcome }).inc();
    service.metrics.answer_seconds.get_or_create(&RoleName { role }).observe(started.elapsed().as_secs_f64());
    done
}

async fn answered(
    service: &Service,
    lane: &Lane,
    asked: &Asked,
    spoken: &Spoken,
    tell: &(dyn Fn(Told) + Send + Sync),
) -> Result<Arc<Done>, ApiError> {
    let (started, served) = (Instant::now(), &lane.served);
    let (found, begun) = (Notify::new(), AtomicBool::new(false));
    let broken = AtomicBool::new(false);
    // What is shown to nobody says nothing of how soon people read.
    let is_shown = lane.role != Role::Shadow;
    let whole = Mutex::new(rag::pipeline::Whole::default());
    let so_far = || whole.lock().unwrap_or_else(PoisonError::into_inner);
    let on_event = |event: Event| match event {
        Event::Fallback(reason) | Event::Remark(reason) => so_far().remarks.push(reason),
        Event::Found(passages) => {
            found.notify_one();
            so_far().passages.clone_from(&passages);
            let remarks = so_far().remarks.clone();
            // After an attempt that failed before its first word, those of the next one count.
            spoken.find(|| tell(Told::Found(Box::new(Found { served: served.clone(), passages, remarks }))));
        }
        Event::Piece(piece) => {
            service.spoke();
            if !begun.swap(true, Relaxed) && is_shown {
                service.metrics.first_token.observe(started.elapsed().as_secs_f64());
            }
            match spoken.piece(piece) {
                Ok(Some(text)) => tell(Told::Text(text)),
                Ok(None) => {}
                Err(Diverged) => broken.store(true, Relaxed),
            }
        }
        Event::Answered(answer) => {
            // A pipeline may answer without a word before.
            begun.store(true, Relaxed);
            count(service, &answer, started.elapsed());
            so_far().answer = Some(answer.clone());
            match spoken.rest(&answer.text) {
                Ok(rest) => {
                    rest.into_iter().for_each(|text| tell(Told::Text(text)));
                    tell(Told::Answered(answer));
                }
                Err(Diverged) => broken.store(true, Relaxed),
            }
        }
    };
    let work = served.pipeline.ask(&asked.question, &asked.history, asked.at_most, on_event);
    let silent = async {
        found.notified().await;
        tokio::time::sleep(service.settings.first_token).await;
        if begun.load(Relaxed) {
            future::pending::<()>().await;
        }
    };
    let deadline = service.settings.deadline;
    tokio::select! {
        done = tokio::time::timeout(deadline, work) => match done {
            Ok(done) => done.map_err(ApiError::from)?,
            Err(_) => return Err(ApiError::timeout(format!("the answer was not done within {deadline:?}"))),
        },
        () = silent => {
            let waited = service.settings.first_token;
            if service.spoke_within(waited) {
                // It is not the model that failed: it had no time for this question.
                let reason = "the chat model answers others and had no time for this question; try again later";
                return Err(ApiError::overloaded(reason, Duration::from_secs(5)));
            }
            return Err(ApiError::timeout(format!("the chat model wrote nothing for {waited:?}")));
        }
    }
    if broken.load(Relaxed) {
        return Err(ApiError::upstream(
            "the answer was begun anew in other words after its beginning had been sent; ask again, or without `stream`",
        ));
    }
    let rag::pipeline::Whole { passages, remarks, answer, .. } =
        whole.into_inner().unwrap_or_else(PoisonError::into_inner);
    let answer = answer.ok_or_else(|| ApiError::internal("the pipeline wrote no answer"))?;
    Ok(Arc::new(Done { passages, remarks, answer }))
}

/// An error in a word, for counting.
fn failure(error: &ApiError) -> &'static str {
    match error.status.as_u16() {
        502 => "upstream",
        503 if error.is_upstream() => "upstream",
        504 => "timeout",
        503 => "shed",
        _ => "other",
    }
}

fn count(service: &Service, answer: &Answer, took: Duration) {
    service.metrics.overhead.observe((took.as_secs_f64() - answer.seconds).max(0.0));
    for (kind, tokens) in [
        ("prompt", answer.usage.prompt_tokens),
        ("cached", answer.usage.cached_tokens),
        ("completion", answer.usage.completion_tokens),
    ] {
        service.metrics.tokens.get_or_create(&Label { kind }).inc_by(tokens);
    }
}

/// What was sent cannot be taken back, but a model may begin its answer anew. As
/// long as it says the same again, nobody need know.
#[derive(Debug, Default)]
struct Spoken(Mutex<Words>);

#[derive(Debug, Default)]
struct Words {
    found: bool,
    sent: String,
    /// What the answer says since it last began.
    now: String,
    diverged: bool,
}

/// The answer no longer begins with what was sent.
#[derive(Debug, PartialEq)]
struct Diverged;

impl Spoken {
    fn has_begun(&self) -> bool {
        !self.words().sent.is_empty()
    }

    fn find(&self, tell: impl FnOnce()) {
        if !std::mem::replace(&mut self.words().found, true) {
            tell();
        }
    }

    /// What is to be sent after this piece.
    fn piece(&self, piece: Piece) -> Result<Option<String>, Diverged> {
        let mut words = self.words();
        match piece {
            Piece::Restart => {
                words.now.clear();
                Ok(None)
            }
            Piece::Text(text) => {
                words.now += &text;
                words.next()
            }
        }
    }

    /// What is to be sent so that all of the text was.
    fn rest(&self, text: &str) -> Result<Option<String>, Diverged> {
        let mut words = self.words();
        text.clone_into(&mut words.now);
        match words.next() {
            _ if words.sent != text => Err(Diverged),
            next => next,
        }
    }

    fn words(&self) -> std::sync::MutexGuard<'_, Words> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Words {
    fn next(&mut self) -> Result<Option<String>, Diverged> {
        match self.now.strip_prefix(&self.sent) {
            _ if self.diverged => Err(Diverged),
            Some("") => Ok(None),
            Some(more) => {
                let more = more.to_owned();
                self.sent += &more;
                Ok(Some(more))
            }
            // It may still become the same.
            None if self.sent.starts_with(&self.now) => Ok(None),
            None => {
                self.diverged = true;
                Err(Diverged)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Piece {
        Piece::Text(text.to_owned())
    }

    #[test]
    fn an_answer_that_begins_anew_in_the_same_words_goes_on_where_it_was() {
        let spoken = Spoken::default();
        assert_eq!(spoken.piece(text("The mill ")), Ok(Some("The mill ".into())));
        assert_eq!(spoken.piece(Piece::Restart), Ok(None));
        assert_eq!(spoken.piece(text("The ")), Ok(None));
        assert_eq!(spoken.piece(text("mill is old")), Ok(Some("is old".into())));
        assert_eq!(spoken.rest("The mill is old [1]."), Ok(Some(" [1].".into())));
    }

    #[test]
    fn an_answer_in_other_words_than_were_sent_is_never_passed_off_as_one() {
        let spoken = Spoken::default();
        assert_eq!(spoken.piece(text("The mill ")), Ok(Some("The mill ".into())));
        assert_eq!(spoken.piece(Piece::Restart), Ok(None));
        assert_eq!(spoken.piece(text("A mill ")), Err(Diverged));
        assert_eq!(spoken.rest("A mill "), Err(Diverged));
        let shorter = Spoken::default();
        assert_eq!(shorter.piece(text("The mill is")), Ok(Some("The mill is".into())));
        assert_eq!(shorter.rest("The mill"), Err(Diverged));
    }
}
