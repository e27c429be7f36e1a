//! The sample of answers: written to a file, and scored by the metrics that selected
//! the pipeline. Nothing is sampled by default. Personal data is replaced by its kind,
//! such as `[e-mail]`, before a file or a judge gets the texts.

mod quality;

use crate::{
    answering::{LaneRole, SampleSink, SampledAnswer, ServedPipeline, SourcedAnswer, UserQuestion},
    settings::SampleSettings,
    telemetry::{Metrics, OperatorSink, unix_seconds},
};
use eval::{Question, redact};
use futures::{StreamExt, future, stream};
use models::Message;
use quality::{AnswerScores, Quality};
use rag::{Answer, Passage};
use serde_json::{Value, json};
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering::Relaxed},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The most answers that wait to be handled; further ones are left out, and counted.
const MAX_WAITING: usize = 256;
/// How many answers are scored at once.
const SCORED_AT_ONCE: usize = 2;

/// Queues sampled answers for its worker.
pub(crate) struct AnswerSampler {
    settings: SampleSettings,
    sender: mpsc::Sender<SampledAnswer>,
    receiver: Mutex<Option<mpsc::Receiver<SampledAnswer>>>,
    pub(crate) quality: Option<Arc<Quality>>,
    metrics: Arc<Metrics>,
}

impl AnswerSampler {
    pub(crate) fn new(settings: SampleSettings, serving: &ServedPipeline, metrics: &Arc<Metrics>) -> Self {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        let scored = settings.scorer.as_ref().map(|scorer| scorer.metrics());
        let quality = scored.map(|scored| Arc::new(Quality::new(scored, serving, metrics.clone())));
        let receiver = Mutex::new(Some(receiver));
        Self { settings, sender, receiver, quality, metrics: metrics.clone() }
    }

    /// Runs the worker that scores and writes answers; only the first call starts one.
    /// It ends with the sampler, or when it is stopped. Answers that are not scored by
    /// then are written without scores.
    pub(crate) fn work(
        &self,
        sink: OperatorSink,
        stop: CancellationToken,
    ) -> impl Future<Output = ()> + Send + 'static {
        let receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (settings, quality, metrics) = (self.settings.clone(), self.quality.clone(), self.metrics.clone());
        let (stopped, unwritten) = (stop.clone(), AtomicU64::new(0));
        let worker = Arc::new(SampleWorker { settings, quality, metrics, sink, stop, unwritten });
        async move {
            let Some(mut receiver) = receiver else { return };
            {
                let waiting = stream::poll_fn(|cx| receiver.poll_recv(cx)).take_until(stopped.cancelled_owned());
                waiting.for_each_concurrent(SCORED_AT_ONCE, |sampled| worker.handle(sampled)).await;
            }
            while let Ok(sampled) = receiver.try_recv() {
                worker.handle(sampled).await;
            }
        }
    }
}

impl SampleSink<ServedPipeline> for AnswerSampler {
    fn share(&self) -> f64 {
        let is_used = self.settings.log.is_some() || self.settings.scorer.is_some();
        if is_used { self.settings.share } else { 0.0 }
    }

    fn take(&self, sampled: SampledAnswer) {
        if self.sender.try_send(sampled).is_err() {
            self.metrics.count_sample("left_out");
        }
    }
}

/// Scores and writes sampled answers.
struct SampleWorker {
    settings: SampleSettings,
    quality: Option<Arc<Quality>>,
    metrics: Arc<Metrics>,
    sink: OperatorSink,
    stop: CancellationToken,
    /// How many lines could not be written since the last one that was.
    unwritten: AtomicU64,
}

impl SampleWorker {
    async fn handle(&self, sampled: SampledAnswer) {
        let SampledAnswer { role, served, question, answer, is_sampled, shadow } = sampled;
        let own = self.record(role, &served, &question, &answer, is_sampled).await;
        let Some((candidate, answer)) = shadow else { return };
        let other = self.record(LaneRole::Shadow, &candidate, &question, &answer, is_sampled).await;
        if let (Some(quality), Some(own), Some(other)) = (&self.quality, own, other) {
            quality.compare((&served.version, &own), (&candidate.version, &other));
        }
    }

    /// Scores an answer, and writes it if it is in the sample. Returns the scores.
    async fn record(
        &self,
        role: LaneRole,
        served: &ServedPipeline,
        question: &UserQuestion,
        sourced: &SourcedAnswer,
        is_sampled: bool,
    ) -> Option<AnswerScores> {
        let record = TrafficRecord::new(role, served, question, sourced);
        let scores = self.score(&record, question, sourced).await;
        if is_sampled {
            self.write(&record, scores.as_ref()).await;
        }
        scores
    }

    /// Scores an answer; `None` without a scorer, or if the worker is stopped.
    async fn score(
        &self,
        record: &TrafficRecord,
        original: &UserQuestion,
        sourced: &SourcedAnswer,
    ) -> Option<AnswerScores> {
        let (scorer, quality) = (self.settings.scorer.as_ref()?, self.quality.as_ref()?);
        if self.stop.is_cancelled() {
            return None;
        }
        let (question, passages, answer) = (&record.question, &record.passages, &record.answer);
        let judged = scorer.score_judged(question, passages, answer);
        // Metrics without a judge run in this process and get the original texts, which a metric of personal data needs.
        let original =
            Question { question: original.text.clone(), turns: original.history.clone(), ..question.clone() };
        let computed = scorer.score_computed(&original, &sourced.passages, &sourced.answer);
        let (mut scores, computed) = tokio::select! {
            scores = future::join(judged, computed) => scores,
            () = self.stop.cancelled() => return None,
        };
        scores.extend(computed);
        self.metrics.count_sample("scored");
        for drift in quality.add(record.role, &record.version, &scores) {
            (self.sink)(&json!({ "time": unix_seconds(), "drift": drift, "version": record.version }));
        }
        Some(scores)
    }

    async fn write(&self, record: &TrafficRecord, scores: Option<&AnswerScores>) {
        let Some(log) = self.settings.log.clone() else { return };
        let text = record.to_json(scores).to_string();
        let written = tokio::task::spawn_blocking(move || log.append(&text)).await;
        let reason = match written {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        self.metrics.count_sample(if reason.is_none() { "kept" } else { "not_written" });
        self.report_write_result(reason);
    }

    /// Tells the operator once that lines cannot be written, and once that they can be
    /// again.
    fn report_write_result(&self, reason: Option<String>) {
        let words = match reason {
            Some(reason) if self.unwritten.fetch_add(1, Relaxed) == 0 => {
                format!("the file of --traffic cannot be written, answers go on: {reason}")
            }
            Some(_) => return,
            None => match self.unwritten.swap(0, Relaxed) {
                0 => return,
                missing => format!("the file of --traffic is written again; {missing} answers are missing in it"),
            },
        };
        (self.sink)(&json!({ "time": unix_seconds(), "traffic": words }));
    }
}

/// A line of the traffic file: an answer whose texts are redacted.
struct TrafficRecord {
    role: LaneRole,
    version: String,
    id: Arc<str>,
    question: Question,
    passages: Vec<Passage>,
    answer: Answer,
}

impl TrafficRecord {
    fn new(role: LaneRole, served: &ServedPipeline, question: &UserQuestion, sourced: &SourcedAnswer) -> Self {
        let turn = |message: &Message| Message { role: message.role, content: redact(&message.content) };
        let passage = |passage: &Passage| Passage { text: redact(&passage.text), ..passage.clone() };
        Self {
            role,
            version: served.version.clone(),
            id: question.id.clone(),
            question: Question {
                id: question.id.to_string(),
                question: redact(&question.text),
                turns: question.history.iter().map(turn).collect(),
                ..Question::default()
            },
            passages: sourced.passages.iter().map(passage).collect(),
            answer: Answer { text: redact(&sourced.answer.text), ..sourced.answer.clone() },
        }
    }

    /// The line as JSON. `reverie score` reads these fields from the file.
    fn to_json(&self, scores: Option<&AnswerScores>) -> Value {
        let mut line = json!({
            "time": unix_seconds(), "id": self.id, "version": self.version, "role": self.role.name(),
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
