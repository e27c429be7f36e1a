//! A soak: very many different calls at a provider that fails in every way,
//! and then the question whether each is in the journal exactly once. Prints
//! one line of JSON, and fails if a call is missing.
//!
//! `soak URL JOURNAL [--calls 1000000] [--timeout 2] [--ahead 1024]`
//!
//! URL is that of a running `simulator`, JOURNAL a file that does not exist yet.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its numbers")]
#![expect(clippy::expect_used, reason = "a benchmark that cannot run should say so and end")]

use executor::RetryPolicy;
use futures::{StreamExt, stream};
use models::{ChatConfig, ChatRequest, Client, CpuBudget, Message, ModelDirectory, provider::ModelContext};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};
use store::Journal;

fn request(number: usize) -> ChatRequest {
    ChatRequest::new(vec![Message::user(format!("Question {number}: what does the manual say?"))], 16)
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let flag = |name: &str, default: f64| {
        let at = arguments.iter().position(|argument| argument == name);
        at.map_or(default, |at| {
            arguments.get(at + 1).and_then(|text| text.parse().ok()).expect("a number after a flag")
        })
    };
    let [url, journal] =
        arguments.first_chunk().expect("usage: soak URL JOURNAL [--calls N] [--timeout S] [--ahead N]");
    let (calls, ahead) = (flag("--calls", 1e6) as usize, flag("--ahead", 1024.0) as usize);
    let config: ChatConfig = serde_json::from_value(json!({ "openai": {
        "model": "simulated", "base_url": format!("{url}/v1"), "timeout_seconds": flag("--timeout", 2.0),
    } }))
    .expect("settings");
    let cx = ModelContext {
        directory: ModelDirectory::new(std::env::temp_dir(), Vec::new()),
        cpu: CpuBudget::machine(),
        environment: Arc::new(|_| None),
    };
    let journal = Arc::new(Journal::open(journal).expect("a journal"));
    let patient = RetryPolicy { max_attempts: 30, max_delay: Duration::from_secs(2), ..RetryPolicy::default() };
    let client = Client::new(Some(journal.clone())).with_retry(patient);
    let chat = client.chat(config.build(&cx).expect("a model"));

    let started = Instant::now();
    let (mut completed, mut errors) = (0usize, BTreeMap::<String, usize>::new());
    let mut answers = stream::iter(0..calls)
        .map(|number| {
            let chat = chat.clone();
            async move { chat.chat(&request(number)).await }
        })
        .buffer_unordered(ahead);
    while let Some(answer) = answers.next().await {
        match answer {
            Ok(_) => completed += 1,
            Err(error) => *errors.entry(error.to_string().chars().take(120).collect()).or_default() += 1,
        }
        if (completed + errors.len()).is_multiple_of(50_000) {
            eprintln!("{completed} of {calls} after {:.0} s", started.elapsed().as_secs_f64());
        }
    }
    let wall_seconds = started.elapsed().as_secs_f64();
    let kept = journal.statistics().expect("counts").entries;
    let verified = journal.verify().expect("a look at every entry").len();
    let stats = reqwest::get(format!("{url}/stats")).await.expect("counts").json::<Value>().await.expect("counts");
    let report = json!({
        "calls": calls,
        "completed": completed,
        "errors": errors,
        "journal_entries": kept,
        "damaged_entries": verified,
        "wall_seconds": wall_seconds,
        "calls_per_second": completed as f64 / wall_seconds,
        "provider": stats.as_object().map(|stats| {
            stats.iter().filter(|(name, _)| *name != "seconds").collect::<BTreeMap<_, _>>()
        }),
    });
    println!("{report}");
    assert!(completed == calls && kept as usize == calls, "a call is lost");
}
