//! Some of the questions with their answers: kept in a file, and scored by the
//! metrics that chose the pipeline. Nothing is kept or scored unless somebody
//! asks for it; addresses and numbers of people are replaced by what kind they
//! were before a file or a judge sees the texts.

use crate::{
    Audit,
    answer::{Asked, Done},
    lanes::{Lane, Role},
    log::LineLog,
    metrics::Metrics,
    quality::{Quality, Scores},
    served::Served,
    stream::seconds,
};
use eval::{Question, redacted};
use futures::{StreamExt, future, stream};
use lab::Scorer;
use models::Message;
use rag::{Answer, Passage};
use serde_json::{Value, json};
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering::Relaxed},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// So many answers may wait to be kept; more are left out, and counted.
const WAITING: usize = 256;
/// So many answers are scored at once.
const SCORED_AT_ONCE: usize = 2;

/// What becomes of some of the answers, and of how many.
#[derive(Clone, Default)]
pub struct Traffic {
    log: Option<LineLog>,
    scorer: Option<Arc<Scorer>>,
    share: f64,
}

impl std::fmt::Debug for Traffic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Traffic").field("log", &self.log).field("share", &self.share).finish_non_exhaustive()
    }
}

impl Traffic {
    /// Takes this share of the questions, from 0 to 1, spread evenly; keeps them in
    /// a file, scores them, or both.
    pub fn new(log: Option<LineLog>, scorer: Option<Arc<Scorer>>, share: f64) -> Self {
        Self { log, scorer, share }
    }
}

/// Whether a question, by its number, is one of a share that is spread evenly.
pub(crate) fn is_in_share(number: u64, share: f64) -> bool {
    let before = number as f64;
    ((before + 1.0) * share).floor() > (before * share).floor()
}

/// An answer of the sample.
pub(crate) struct Kept<P = Served> {
    pub(crate) role: Role,
    pub(crate) served: Arc<P>,
    pub(crate) asked: Asked,
    pub(crate) done: Arc<Done>,
    /// Whether it is one of the share that is written and scored. If it is not, it
    /// is only compared with the shadow's answer.
    pub(crate) is_sampled: bool,
    /// What a shadow answered to the same question.
    pub(crate) shadow: Option<(Arc<P>, Arc<Done>)>,
}

impl<P> Kept<P> {
    /// An answer of the share, without a shadow's.
    pub(crate) fn of(lane: &Lane<P>, asked: &Asked, done: Arc<Done>) -> Self {
        Self {
            role: lane.role,
            served: lane.served.clone(),
            asked: asked.clone(),
            done,
            is_sampled: true,
            shadow: None,
        }
    }
}

/// Where the sample of answers goes.
pub(crate) trait SampleSink<P>: Send + Sync {
    /// The share of the answers, from 0 to 1.
    fn share(&self) -> f64;

    /// Takes an answer, unless too many wait already.
    fn keep(&self, kept: Kept<P>);
}

/// The share of the answers on their way to the file.
pub(crate) struct Sampling {
    traffic: Traffic,
    sender: mpsc::Sender<Kept>,
    receiver: Mutex<Option<mpsc::Receiver<Kept>>>,
    pub(crate) quality: Option<Arc<Quality>>,
    metrics: Arc<Metrics>,
}

impl Sampling {
    pub(crate) fn new(traffic: Traffic, serving: &Served, metrics: &Arc<Metrics>) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING);
        let scored = traffic.scorer.as_ref().map(|scorer| scorer.metrics());
        let quality = scored.map(|scored| Arc::new(Quality::new(scored, serving, metrics.clone())));
        let receiver = Mutex::new(Some(receiver));
        Self { traffic, sender, receiver, quality, metrics: metrics.clone() }
    }

    /// What scores and writes the answers, once: it ends with the service, or when
    /// it is told to. What is not scored by then is written without scores.
    pub(crate) fn work(&self, audit: Audit, over: CancellationToken) -> impl Future<Output = ()> + Send + 'static {
        let receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (traffic, quality, metrics) = (self.traffic.clone(), self.quality.clone(), self.metrics.clone());
        let worker =
            Arc::new(Worker { traffic, quality, metrics, audit, over: over.clone(), unwritten: AtomicU64::new(0) });
        async move {
            let Some(mut receiver) = receiver else { return };
            {
                let waiting = stream::poll_fn(|cx| receiver.poll_recv(cx)).take_until(over.cancelled_owned());
                waiting.for_each_concurrent(SCORED_AT_ONCE, |kept| worker.handle(kept)).await;
            }
            while let Ok(kept) = receiver.try_recv() {
                worker.handle(kept).await;
            }
        }
    }
}

impl SampleSink<Served> for Sampling {
    fn share(&self) -> f64 {
        // Without a file and without a scorer nothing becomes of an answer.
        if self.traffic.log.is_some() || self.traffic.scorer.is_some() { self.traffic.share } else { 0.0 }
    }

    fn keep(&self, kept: Kept) {
        if self.sender.try_send(kept).is_err() {
            self.metrics.sample("left_out");
        }
    }
}

struct Worker {
    traffic: Traffic,
    quality: Option<Arc<Quality>>,
    metrics: Arc<Metrics>,
    audit: Audit,
    over: CancellationToken,
    /// Lines that could not be written since the last that was.
    unwritten: AtomicU64,
}

impl Worker {
    async fn handle(&self, kept: Kept) {
        let Kept { role, served, asked, done, is_sampled, shadow } = kept;
        let own = self.keep(role, &served, &asked, &done, is_sampled).await;
        let Some((candidate, done)) = shadow else { return };
        let other = self.keep(Role::Shadow, &candidate, &asked, &done, is_sampled).await;
        if let (Some(quality), Some(own), Some(other)) = (&self.quality, own, other) {
            quality.compare((&served.version, &own), (&candidate.version, &other));
        }
    }

    /// Scores an answer, and writes its line if it is one of the share; gives the
    /// scores.
    async fn keep(&self, role: Role, served: &Served, asked: &Asked, done: &Done, is_sampled: bool) -> Option<Scores> {
        let line = Line::of(role, served, asked, done);
        let scores = self.scored(&line, asked, done).await;
        if is_sampled {
            self.write(&line, scores.as_ref()).await;
        }
        scores
    }

    /// The scores of an answer; none if nothing scores or the service ends.
    async fn scored(&self, line: &Line, asked: &Asked, done: &Done) -> Option<Scores> {
        let (scorer, quality) = (self.traffic.scorer.as_ref()?, self.quality.as_ref()?);
        if self.over.is_cancelled() {
            return None;
        }
        let (question, passages, answer) = (&line.question, &line.passages, &line.answer);
        let judged = scorer.score(true, question, passages, answer);
        // What stays in this process is scored as it was said: whether an answer
        // passes on personal data can be seen no other way.
        let said = Question { question: asked.question.clone(), turns: asked.history.clone(), ..question.clone() };
        let computed = scorer.score(false, &said, &done.passages, &done.answer);
        let (mut scores, computed) = tokio::select! {
            scores = future::join(judged, computed) => scores,
            () = self.over.cancelled() => return None,
        };
        scores.extend(computed);
        self.metrics.sample("scored");
        for fallen in quality.add(line.role, &line.version, &scores) {
            (self.audit)(&json!({ "time": seconds(), "drift": fallen, "version": line.version }));
        }
        Some(scores)
    }

    async fn write(&self, line: &Line, scores: Option<&Scores>) {
        let Some(log) = self.traffic.log.clone() else { return };
        let text = line.told(scores).to_string();
        let written = tokio::task::spawn_blocking(move || log.append(&text)).await;
        let reason = match written {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        self.metrics.sample(if reason.is_none() { "kept" } else { "not_written" });
        self.tell_writing(reason);
    }
}

impl Worker {
    /// Tells the operator once that lines cannot be written, and once that they can again.
    fn tell_writing(&self, reason: Option<String>) {
        match reason {
            Some(reason) => {
                if self.unwritten.fetch_add(1, Relaxed) == 0 {
                    let words = format!("the file of --traffic cannot be written, answers go on: {reason}");
                    (self.audit)(&json!({ "time": seconds(), "traffic": words }));
                }
            }
            None => {
                let missing = self.unwritten.swap(0, Relaxed);
                if missing > 0 {
                    let words = format!("the file of --traffic is written again; {missing} answers are missing in it");
                    (self.audit)(&json!({ "time": seconds(), "traffic": words }));
                }
            }
        }
    }
}

/// An answer without what points to people.
struct Line {
    role: Role,
    version: String,
    id: Arc<str>,
    question: Question,
    passages: Vec<Passage>,
    answer: Answer,
}

impl Line {
    fn of(role: Role, served: &Served, asked: &Asked, done: &Done) -> Self {
        let turn = |message: &Message| Message { role: message.role, content: redacted(&message.content) };
        let passage = |passage: &Passage| Passage { text: redacted(&passage.text), ..passage.clone() };
        Self {
            role,
            version: served.version.clone(),
            id: asked.id.clone(),
            question: Question {
                id: asked.id.to_string(),
                question: redacted(&asked.question),
                turns: asked.history.iter().map(turn).collect(),
                ..Question::default()
            },
            passages: done.passages.iter().map(passage).collect(),
            answer: Answer { text: redacted(&done.answer.text), ..done.answer.clone() },
        }
    }

    /// The line of the file: `reverie score` reads its columns.
    fn told(&self, scores: Option<&Scores>) -> Value {
        let mut line = json!({
            "time": seconds(), "id": self.id, "version": self.version, "role": self.role.name(),
            "question": self.question.question, "turns": self.question.turns,
            "answer": self.answer.text,
            "contexts": self.passages.iter().map(|passage| &passage.text).collect::<Vec<_>>(),
        });
        if let Some(scores) = scores {
            let value = |(name, scored): (&String, &eval::Scored)| (name.clone(), json!(scored.score.value()));
            line["scores"] = Value::Object(scores.iter().map(value).collect());
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_met_and_spread() {
        for (share, expected) in [(0.0, 0), (0.1, 10), (0.5, 50), (1.0, 100)] {
            let taken: Vec<bool> = (0..100).map(|number| is_in_share(number, share)).collect();
            assert_eq!(taken.iter().filter(|taken| **taken).count(), expected, "{share}");
            let longest = taken.split(|taken| *taken).map(<[bool]>::len).max().unwrap_or(0);
            assert!(share == 0.0 || longest as f64 <= 1.0 / share, "{share}: {longest} in a row were left out");
        }
    }
}
