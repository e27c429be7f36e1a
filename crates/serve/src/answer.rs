//! One question, from the door to the last word: its turn, its deadlines, the
//! breaker and the fallback, and what is told on the way.

use crate::{Service, error::ApiError, metrics::Label, served::Served, stream::seconds, trace};
use futures::{Stream, StreamExt, channel::mpsc, future, stream};
use models::{Message, Piece, trace::within};
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

/// What was found for a question.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) served: Arc<Served>,
    pub(crate) passages: Vec<Passage>,
    /// What there is to tell about the search.
    pub(crate) remarks: Vec<String>,
}

/// A whole answer.
pub(crate) struct Whole {
    pub(crate) found: Found,
    pub(crate) answer: Answer,
}

/// Answers a question. The work goes on whether the stream is read or not, so
/// that deadlines hold for a client that does not read; it ends when the stream
/// is dropped.
pub(crate) fn answer(
    service: Arc<Service>,
    asked: Asked,
) -> impl Stream<Item = Result<Told, ApiError>> + Send + 'static {
    let (sender, told) = mpsc::unbounded();
    let work = async move {
        // If nobody listens any more, it is dropped.
        let tell = |told: Result<Told, ApiError>| drop(sender.unbounded_send(told));
        if let Err(error) = in_turn(&service, &asked, &|told| tell(Ok(told))).await {
            let kind = match error.status.as_u16() {
                502 => "upstream",
                504 => "timeout",
                503 => "shed",
                _ => "other",
            };
            service.metrics.failures.get_or_create(&Label { kind }).inc();
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
    let mut told = Box::pin(answer(service, asked));
    let first = told.next().await.transpose()?;
    Ok(stream::iter(first.map(Ok)).chain(told))
}

/// The same as a whole.
pub(crate) async fn whole(service: Arc<Service>, asked: Asked) -> Result<Whole, ApiError> {
    let mut told = std::pin::pin!(answer(service, asked));
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

async fn in_turn(service: &Service, asked: &Asked, tell: &(dyn Fn(Told) + Send + Sync)) -> Result<(), ApiError> {
    let came = Instant::now();
    let place = service.answers.enter(service.settings.deadline).await;
    Span::current().record("reverie.queue.duration", came.elapsed().as_secs_f64());
    service.note_load();
    let _place = place?;
    let _noted = Noted(service);
    let served = service.served();
    if !served.pipeline.answers() {
        return Err(ApiError::invalid(
            "the pipeline that is served has no generator: it finds passages and writes no answers; ask /rag/retrieve",
        ));
    }
    let fallback = service.fallback.clone();
    match (service.breaker.allows(Instant::now()), fallback) {
        (Err(_), Some(fallback)) => attempt(service, &fallback, asked, &Spoken::default(), tell).await,
        (Err(rest), None) => {
            let reason = "the chat model failed several times in a row and is not asked for a while; try again later";
            Err(ApiError::overloaded(reason, rest))
        }
        (Ok(()), fallback) => {
            let spoken = Spoken::default();
            let outcome = attempt(service, &served, asked, &spoken, tell).await;
            match &outcome {
                Err(error) if error.is_upstream() => service.breaker.failed(Instant::now()),
                // What is wrong with a question says nothing about the model.
                Err(_) => {}
                Ok(()) => service.breaker.succeeded(),
            }
            match (outcome, fallback) {
                (Err(error), Some(fallback)) if error.is_upstream() && !spoken.has_begun() => {
                    attempt(service, &fallback, asked, &Spoken::default(), tell).await
                }
                (outcome, _) => outcome,
            }
        }
    }
}

/// Notes at its end that there is more room.
struct Noted<'a>(&'a Service);

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        self.0.note_load();
    }
}

/// Asks one pipeline, within its deadlines.
async fn attempt(
    service: &Service,
    served: &Arc<Served>,
    asked: &Asked,
    spoken: &Spoken,
    tell: &(dyn Fn(Told) + Send + Sync),
) -> Result<(), ApiError> {
    within(trace::pipeline(served), asking(service, served, asked, spoken, tell)).await
}

async fn asking(
    service: &Service,
    served: &Arc<Served>,
    asked: &Asked,
    spoken: &Spoken,
    tell: &(dyn Fn(Told) + Send + Sync),
) -> Result<(), ApiError> {
    let started = Instant::now();
    let (found, begun) = (Notify::new(), AtomicBool::new(false));
    let remarks = Mutex::new(Vec::new());
    let broken = AtomicBool::new(false);
    let sampled = service.settings.traffic.as_ref().filter(|traffic| traffic.takes());
    let contexts = Mutex::new(Vec::new());
    let on_event = |event: Event| match event {
        Event::Fallback(reason) | Event::Remark(reason) => {
            remarks.lock().unwrap_or_else(PoisonError::into_inner).push(reason);
        }
        Event::Found(passages) => {
            found.notify_one();
            if sampled.is_some() {
                let texts = passages.iter().map(|passage| passage.text.clone()).collect();
                *contexts.lock().unwrap_or_else(PoisonError::into_inner) = texts;
            }
            let remarks = std::mem::take(&mut *remarks.lock().unwrap_or_else(PoisonError::into_inner));
            // After an attempt that failed before its first word, those of the next one count.
            spoken.find(|| tell(Told::Found(Box::new(Found { served: served.clone(), passages, remarks }))));
        }
        Event::Piece(piece) => {
            service.spoke();
            if !begun.swap(true, Relaxed) {
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
            if let Some(traffic) = sampled {
                let contexts = std::mem::take(&mut *contexts.lock().unwrap_or_else(PoisonError::into_inner));
                traffic.keep(&served.version, asked, &contexts, &answer);
            }
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
    Ok(())
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
