//! How much time of a run is ours, and how much waits for models.
//!
//!     cargo run --release --example eval_share [-- SAMPLES]
//!
//! Scores samples with judged metrics whose judge answers every call after
//! 200 ms, 16 samples at once, and compares the processor time of the whole
//! process (metrics, prompts, client, limiter) with the wall time. The judge's
//! own answer costs next to nothing.

#![allow(clippy::print_stdout)]

use async_trait::async_trait;
use eval::{MetricConfig, Question, Sample, metric::MetricContext, statistics::Summary};
use futures::{StreamExt, stream};
use models::{ChatModel, ChatRequest, ChatResponse, Client, Error, Finish, Identity, Model, Usage};
use rag::{Answer, NamedModels, Passage, Span};
use serde_json::{Value, json};
use std::{
    sync::Arc,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

const METRICS: [&str; 5] =
    ["faithfulness", "context_precision", "context_recall", "factual_correctness", "noise_sensitivity"];
const AT_ONCE: usize = 16;
const DELAY: Duration = Duration::from_millis(200);

/// Says yes to everything, after a while.
struct SlowJudge(Identity, AtomicUsize);

impl Model for SlowJudge {
    fn identity(&self) -> &Identity {
        &self.0
    }

    fn concurrency(&self) -> usize {
        1_000
    }
}

#[async_trait]
impl ChatModel for SlowJudge {
    fn context_length(&self) -> usize {
        1 << 20
    }

    fn count_tokens(&self, text: &str) -> usize {
        text.len() / 4
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, Error> {
        self.1.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(DELAY).await;
        let text = request.schema.as_ref().map_or_else(|| "Yes".to_owned(), |schema| filled(schema).to_string());
        let choices = if request.choices.is_empty() { Vec::new() } else { vec![0.9, 0.1] };
        Ok(ChatResponse { text, finish: Finish::Stop, usage: Usage::default(), choices, seconds: 0.2 })
    }
}

/// The least that a schema accepts, with five entries where it leaves that open.
fn filled(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("object") => {
            let fields = schema["properties"].as_object().into_iter().flatten();
            Value::Object(fields.map(|(name, field)| (name.clone(), filled(field))).collect())
        }
        Some("array") => {
            let n = schema["minItems"].as_u64().unwrap_or(5).max(1);
            let entries = (1..=n).map(|number| {
                let mut entry = filled(&schema["items"]);
                if let Some(text) = entry.as_str().map(|text| format!("{text} {number}")) {
                    entry = json!(text);
                }
                if entry.get("number").is_some() {
                    entry["number"] = json!(number);
                }
                entry
            });
            Value::Array(entries.collect())
        }
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(true),
        _ => schema["enum"].get(0).cloned().unwrap_or_else(|| json!("It is so")),
    }
}

/// Seconds that the processor worked for this process.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name may hold spaces; times are the 12th and 13th field after it, in hundredths.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |i: usize| fields.get(i).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
    (ticks(11) + ticks(12)) / 100.0
}

/// A question, five passages and an answer of five statements.
fn sample(i: usize) -> (Question, Vec<Passage>, Answer) {
    let passage = |k: usize| Passage {
        document: format!("{k}.txt"),
        span: Span { start: 0, end: 900 },
        text: format!("Passage {k} of question {i}. ").repeat(40),
        score: 1.0,
        ..Passage::default()
    };
    let question = Question {
        id: i.to_string(),
        question: format!("What is said of thing {i}?"),
        reference: Some(format!("Thing {i} is large. It is red. It was made in 1990. It is old. It is dear.")),
        ..Question::default()
    };
    let answer = Answer {
        text: format!("Thing {i} is large. It is blue. It was made in 1991. It is old. It is cheap."),
        calls: 1,
        seconds: 1.0,
        ..Answer::default()
    };
    (question, (0..5).map(passage).collect(), answer)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let n = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(200);
    let identity =
        Identity { provider: "bench".into(), model: "slow".into(), revision: String::new(), parameters: Value::Null };
    let judge = Arc::new(SlowJudge(identity, AtomicUsize::new(0)));
    let chat = Client::new(None).chat(judge.clone());
    let models = NamedModels { chats: [("judge".to_owned(), chat)].into(), ..NamedModels::default() };
    let context = MetricContext { models: Some(&models), embedder: None, judges: &["judge".to_owned()] };
    let configs: Vec<MetricConfig> = METRICS.iter().filter_map(|name| MetricConfig::with_defaults(name)).collect();
    let metrics = configs.iter().map(|config| config.build(&context)).collect::<Result<Vec<_>, _>>()?;
    let samples: Vec<(Question, Vec<Passage>, Answer)> = (0..n).map(sample).collect();
    let (start, before) = (Instant::now(), processor_seconds());
    let scored = stream::iter(&samples)
        .map(|(question, passages, answer)| {
            let sample = Sample { question, passages, answer: Some(answer), columns: None };
            let (configs, metrics) = (&configs, &metrics);
            async move {
                futures::future::join_all(
                    configs.iter().zip(metrics).map(|(config, metric)| config.score(metric.as_ref(), &sample)),
                )
                .await
            }
        })
        .buffered(AT_ONCE)
        .collect::<Vec<_>>()
        .await;
    for (i, config) in configs.iter().enumerate() {
        let scores: Vec<_> = scored.iter().map(|row| row[i].score.clone()).collect();
        let summary = Summary::of(&scores, config.range(), 1);
        println!(
            "{:<22} mean {:>5.3}, {} of {} scored",
            config.name(),
            summary.mean.unwrap_or(f64::NAN),
            summary.n_scored,
            summary.n_total
        );
    }
    let (wall, cpu) = (start.elapsed().as_secs_f64(), processor_seconds() - before);
    let calls = judge.1.load(Ordering::Relaxed);
    println!(
        "{n} samples, {calls} calls of 200 ms, {AT_ONCE} samples at once: {wall:.2} s; the processor worked for {cpu:.2} s, {:.2} % of it",
        100.0 * cpu / wall
    );
    Ok(())
}
