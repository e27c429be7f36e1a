//! How fast a client gets its tasks done at a provider with limits: our side
//! of `benches/goodput`. All calls are begun at once; the limiter of the
//! client holds them back. Prints one line of JSON.
//!
//! `goodput URL [--calls 600] [--timeout 2] [--concurrency N] [--hedge SHARE]`
//!
//! URL is that of a running `simulator`. `--concurrency` is the setting of the
//! model; without it, it has its default.
#![expect(clippy::print_stdout, reason = "a benchmark prints its numbers")]
#![expect(clippy::expect_used, reason = "a benchmark that cannot run should say so and end")]

use models::{ChatConfig, ChatRequest, Client, CpuBudget, Message, ModelDirectory, provider::ModelContext};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, sync::Arc, time::Instant};

const MAX_TOKENS: u32 = 64;
/// Refusals are counted apart from here on: until then a client may learn.
const LEARNED_AFTER: usize = 5;

/// The same request as the peers of `benches/goodput` make.
fn request(number: usize) -> ChatRequest {
    let question = format!("Question {number:06}: what does the manual say about this?");
    ChatRequest::new(vec![Message::user(question)], MAX_TOKENS)
}

struct Arguments {
    url: String,
    calls: usize,
    settings: Map<String, Value>,
}

fn arguments() -> Arguments {
    let (mut url, mut calls) = (None, 600);
    let mut settings = Map::from_iter([("timeout_seconds".to_owned(), json!(2.0))]);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|text| text.parse::<f64>().ok()).expect("a number after a flag");
        match argument.as_str() {
            "--calls" => calls = number() as usize,
            "--timeout" => drop(settings.insert("timeout_seconds".to_owned(), json!(number()))),
            "--hedge" => drop(settings.insert("limits".to_owned(), json!({ "hedge": number() }))),
            "--concurrency" => drop(settings.insert("concurrency".to_owned(), json!(number() as usize))),
            _ => url = Some(argument.trim_end_matches('/').to_owned()),
        }
    }
    Arguments {
        url: url.expect("usage: goodput URL [--calls N] [--timeout SECONDS] [--concurrency N] [--hedge SHARE]"),
        calls,
        settings,
    }
}

#[tokio::main]
async fn main() {
    let Arguments { url, calls, mut settings } = arguments();
    settings.insert("model".to_owned(), json!("simulated"));
    settings.insert("base_url".to_owned(), json!(format!("{url}/v1")));
    let config: ChatConfig = serde_json::from_value(json!({ "openai": settings })).expect("settings");
    let cx = ModelContext {
        directory: ModelDirectory::new(std::env::temp_dir(), Vec::new()),
        cpu: CpuBudget::machine(),
        environment: Arc::new(|_| None),
    };
    let chat = Client::new(None).chat(config.build(&cx).expect("a model"));
    let requests: Vec<ChatRequest> = (0..calls).map(request).collect();

    let started = Instant::now();
    let answers = futures::future::join_all(requests.iter().map(|request| chat.chat(request))).await;
    let wall_seconds = started.elapsed().as_secs_f64();

    let mut errors: BTreeMap<String, usize> = BTreeMap::new();
    for error in answers.iter().filter_map(|answer| answer.as_ref().err()) {
        *errors.entry(error.to_string().chars().take(120).collect()).or_default() += 1;
    }
    let failed: usize = errors.values().sum();
    let stats = reqwest::get(format!("{url}/stats")).await.expect("counts").json::<Value>().await.expect("counts");
    let seconds = stats["seconds"].as_array().cloned().unwrap_or_default();
    let from = |first: usize, name: &str| seconds.iter().skip(first).filter_map(|second| second[name].as_u64()).sum();
    let (requests, rejected): (u64, u64) = (from(0, "requests"), from(0, "rejected"));
    let (late_requests, late_rejected): (u64, u64) = (from(LEARNED_AFTER, "requests"), from(LEARNED_AFTER, "rejected"));
    let report = json!({
        "wall_seconds": wall_seconds,
        "completed": calls - failed,
        "failed": failed,
        "errors": errors,
        "requests": requests,
        "rejected": rejected,
        "requests_after_5_s": late_requests,
        "rejected_after_5_s": late_rejected,
        "answered_twice": stats["answered_twice"],
    });
    println!("{report}");
}
