//! A run that is killed again and again pays for each call once, but for
//! those in flight when it was killed.

use crate::workspace::Workspace;
use simulator::{LatencyModel, RunningSimulator, SimulatorSettings};
use std::{
    process::{Child, Stdio},
    time::Duration,
};

const SPACE: &str = "chunker = [{ sentence = { chunk_size = 32, chunk_overlap = 0 } }, { sentence_window = { window_size = 1 } }]\nembedder = [\"tiny\"]\nretriever = [{ dense = { top_k = 2 } }, { bm25 = { top_k = 2 } }]\ngenerator = [{ compact = { model = \"gpt\", max_tokens = 16 } }]";
const KILLS: u64 = 20;
const CONCURRENCY: u64 = 8;

/// Waits until so many calls were answered; whether the run has ended before.
async fn answered(provider: &RunningSimulator, run: &mut Child, calls: u64) -> bool {
    while provider.stats().answered < calls {
        if run.try_wait().unwrap().is_some() {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    true
}

// The provider needs a thread while the last run is waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_kills_pay_no_call_twice_but_those_in_flight() {
    let latency = LatencyModel::Uniform { shortest: 0.01, longest: 0.04 };
    let provider = simulator::start(SimulatorSettings { latency, answer_tokens: 8, ..SimulatorSettings::default() })
        .await
        .unwrap();
    let workspace = Workspace::new();
    workspace.multiply_questions(160);
    let model = format!(
        "[models.gpt]\nchat.openai = {{ model = \"m\", base_url = \"{}/v1\", concurrency = {CONCURRENCY} }}\n",
        provider.url
    );
    let evaluate = "[evaluate]\nmetrics = [\"recall\", \"token_f1\"]\n";
    workspace.experiment(SPACE, &format!("[dataset]\npath = \"golden.jsonl\"\n{evaluate}{model}"));

    let (mut in_flight, mut kills) = (0, 0);
    for kill in 0..KILLS {
        let mut run = workspace.command(&["run"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // At no regular time, but each time a little further.
        let further = 40 + (kill * 7919) % 97;
        let going = answered(&provider, &mut run, provider.stats().answered + further).await;
        in_flight += provider.stats().in_flight;
        run.kill().unwrap();
        run.wait().unwrap();
        kills += u64::from(going);
    }
    assert_eq!(kills, KILLS, "each time it was at work");
    let results = workspace.run(&["run", "--json"]).succeeds().json();
    assert!(results["winner"].is_object());

    let stats = provider.stats();
    // A provider also charges for an answer that nobody waited for.
    let paid = stats.answered + stats.abandoned;
    let twice = paid - stats.unique_answered;
    println!("{paid} calls paid, {} of them different, {in_flight} in flight at {kills} kills", stats.unique_answered);
    assert!(stats.unique_answered >= 2000, "{} calls are too few", stats.unique_answered);
    // The provider was asked a moment before each kill, so the bound is what
    // can be in flight, not what it saw.
    assert!(twice <= KILLS * CONCURRENCY, "{twice} calls were paid twice");
}
