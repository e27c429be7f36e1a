//! A budget ends a run cleanly, and a larger one goes on where it ended.

use crate::{endpoint, workspace::Workspace};
use serde_json::{Value, json};
use simulator::{LatencyModel, RunningSimulator, SimulatorSettings};
use std::{collections::HashSet, process::Stdio, time::Duration};
use wiremock::{MockServer, Request, Respond, ResponseTemplate};

const SPACE: &str = "chunker = [{ sentence = { chunk_size = 32, chunk_overlap = 0 } }, { sentence_window = { window_size = 1 } }]\nembedder = [\"tiny\"]\nretriever = [{ dense = { top_k = 2 } }, { bm25 = { top_k = 2 } }]\ngenerator = [{ compact = { model = \"gpt\", max_tokens = 16 } }]";
const CONCURRENCY: usize = 4;
/// Dollars per million tokens.
const PRICE: (f64, f64) = (40.0, 300.0);
const WRITTEN: u64 = 16;

/// Counts one token for every three bytes of a prompt. The estimate of English text has more than four
/// bytes in a token, so calls cost more than was reserved for them.
struct Metered;

fn tokens_read(body: &Value) -> u64 {
    let messages = body["messages"].as_array().unwrap().iter();
    messages.map(|message| message["content"].as_str().unwrap().len() as u64).sum::<u64>() / 3
}

fn cost(body: &str) -> f64 {
    let read = tokens_read(&serde_json::from_str(body).unwrap());
    (read as f64 * PRICE.0 + WRITTEN as f64 * PRICE.1) / 1e6
}

impl Respond for Metered {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        ResponseTemplate::new(200).set_delay(Duration::from_millis(5)).set_body_json(json!({
            "choices": [{ "message": { "role": "assistant", "content": "So it is [1]." }, "finish_reason": "stop" }],
            "usage": { "prompt_tokens": tokens_read(&body), "completion_tokens": WRITTEN },
        }))
    }
}

fn experiment(workspace: &Workspace, server: &MockServer, budget: &str) {
    let (input, output) = PRICE;
    let model = format!(
        "[models.gpt]\nchat.openai = {{ model = \"m\", base_url = \"{}/v1\", concurrency = {CONCURRENCY}, price = {{ input = {input}, output = {output} }} }}\n",
        server.uri()
    );
    let evaluate = format!("[evaluate]\nmetrics = [\"recall\", \"token_f1\"]\n{budget}\n");
    workspace.experiment(SPACE, &format!("[dataset]\npath = \"golden.jsonl\"\n{evaluate}{model}"));
}

#[tokio::test]
async fn a_budget_of_fifty_cents_on_a_sweep_of_two_dollars() {
    let server = endpoint::start_with(Metered).await;
    let workspace = Workspace::new();
    workspace.multiply_questions(10);
    experiment(&workspace, &server, "budget = { usd = 0.5 }");

    let plan = workspace.run(&["plan"]).succeeds();
    assert!(plan.out.contains("estimated cost: about $"), "{}", plan.out);
    assert!(plan.out.contains("the budget is $0.50: a run would end there"), "{}", plan.out);
    let estimate = workspace.run(&["plan", "--json"]).succeeds().json()["cost"].clone();
    assert_eq!(estimate["exceeds"], json!(["usd"]));
    assert!(endpoint::asked(&server).await.is_empty(), "a plan spends nothing");

    let first = workspace.run(&["run", "--json"]).ends_with(4).json();
    let asked = endpoint::asked(&server).await;
    let paid: f64 = asked.iter().map(|body| cost(body)).sum();
    let dearest = asked.iter().map(|body| cost(body)).fold(0.0, f64::max);
    let overshoot = (paid - 0.5).max(0.0);
    assert!(overshoot <= CONCURRENCY as f64 * dearest, "{overshoot} is more than the calls in flight cost");
    assert!(paid > 0.5 - 2.0 * dearest, "the budget is used: {paid}");
    let told = first["budget"]["spent"]["usd"].as_f64().unwrap();
    assert!((told - paid).abs() < 1e-9, "{told} is told, {paid} was paid");
    assert_eq!(first["budget"]["spent"]["paid_calls"], asked.len());
    assert_eq!(first["budget"]["reached"], "usd");
    let partial = first["partial"].as_str().unwrap();
    assert!(partial.starts_with("the budget of $0.50 was reached: "), "{partial}");
    assert!(partial.contains(&format!("{} of at least ", asked.len())), "{partial}");
    let scored: u64 = scores(&first, "n_scored");
    assert!(scored > 0, "what was paid for is scored");
    assert!(scored < scores(&first, "n_total"));

    let board = workspace.run(&["leaderboard"]).succeeds();
    assert!(board.out.contains(&format!("PARTIAL: {partial}")), "{}", board.out);
    let report = board.out.lines().find_map(|line| line.strip_prefix("report: ")).unwrap();
    assert!(std::fs::read_to_string(report).unwrap().contains(partial));
    let events = workspace.events();
    assert!(events.iter().any(|event| event["kind"] == "budget_reached" && event["reached"] == "usd"));

    let second = workspace.run(&["run", "--budget-usd", "10", "--json"]).succeeds().json();
    assert_eq!((&second["partial"], &second["budget"]["reached"]), (&Value::Null, &Value::Null));
    assert_eq!(scores(&second, "n_scored"), scores(&second, "n_total"));
    let all = endpoint::asked(&server).await;
    let different: HashSet<&String> = all.iter().collect();
    assert_eq!(different.len(), all.len(), "no call was paid twice");
    let whole: f64 = all.iter().map(|body| cost(body)).sum();
    assert!((1.0..4.0).contains(&whole), "a sweep of about $2: {whole}");
    println!(
        "a sweep of ${whole:.4} ({} calls) with a budget of $0.50: spent ${paid:.4} ({} calls), overshoot ${overshoot:.4}; \
         the dearest call cost ${dearest:.4}, {CONCURRENCY} in flight; estimated ${:.4}",
        all.len(),
        asked.len(),
        estimate["cost_usd"].as_f64().unwrap()
    );
}

/// A count of all trials' answers that have a score.
fn scores(results: &Value, count: &str) -> u64 {
    let trials = results["trials"].as_array().unwrap().iter();
    trials.map(|trial| trial["metrics"]["token_f1"][count].as_u64().unwrap()).sum()
}

#[test]
fn a_cap_on_calls_counts_models_of_this_process_too() {
    let workspace = Workspace::new();
    let space = "chunker = [\"sentence\"]\nembedder = [\"tiny\"]\nretriever = [\"dense\", \"bm25\"]";
    let rest = "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\"]\n";
    workspace.experiment(space, &format!("{rest}budget = {{ calls = 1 }}\n"));
    let first = workspace.run(&["run", "--json"]).ends_with(4).json();
    let partial = first["partial"].as_str().unwrap();
    assert!(partial.starts_with("the budget of 1 calls was reached: 1 of at least 2 calls"), "{partial}");
    let complete = |results: &Value| {
        let trials = results["trials"].as_array().unwrap().iter();
        trials.filter(|trial| trial["metrics"]["recall"]["n_scored"] == 4).count()
    };
    assert_eq!(complete(&first), 1, "what needs no model is done");
    workspace.experiment(space, &format!("{rest}budget = {{ calls = 100, minutes = 60 }}\n"));
    let second = workspace.run(&["run", "--json"]).succeeds().json();
    assert_eq!(complete(&second), 2);
    assert_eq!(second["budget"]["spent"]["calls"], 1, "one batch was embedded by the first run");
}

#[tokio::test]
async fn a_plan_tells_no_less_than_what_a_run_reads_and_writes() {
    let server = endpoint::start_with(Metered).await;
    let workspace = Workspace::new();
    // A document that fills what is found, whatever is asked.
    let page: String = (0..400).map(|i| format!("The {i}th mill ground corn for owls that turn their head, beavers that build dams and whales whose songs last. ")).collect();
    // The endpoint counts one token for every three bytes, the plan estimates tokens. This number converts
    // between the two.
    let bytes_per_token = page.len() as f64 / models::estimate_tokens(&page) as f64;
    workspace.write("documents/valley.txt", page);
    let (input, output) = PRICE;
    for (space, more) in [
        (
            "chunker = [{ sentence = { chunk_size = 256 } }]\nretriever = [{ bm25 = { top_k = 2 } }, { bm25 = { top_k = 12 } }]",
            "",
        ),
        ("chunker = [{ sentence_window = { window_size = 3 } }]\nretriever = [{ bm25 = { top_k = 4 } }]", ""),
        ("chunker = [{ hierarchical = { chunk_sizes = [512, 64] } }]\nretriever = [{ bm25 = { top_k = 8 } }]", ""),
        (
            "chunker = [{ token = { chunk_size = 64 } }]\nretriever = [{ bm25 = { top_k = 4 } }]",
            "refine = [{ long_context = { scope = \"corpus\" } }]\n",
        ),
        (
            "chunker = [{ token = { chunk_size = 64 } }]\nretriever = [{ bm25 = { top_k = 4 } }]",
            "refine = [{ neighbours = { chunks = 2 } }]\n",
        ),
        (
            "chunker = [{ token = { chunk_size = 64 } }]\nenrich = [{ contextual = { model = \"gpt\" } }]\nretriever = [{ bm25 = { top_k = 4 } }]",
            "",
        ),
    ] {
        let model = format!(
            "[models.gpt]\nchat.openai = {{ model = \"m\", base_url = \"{}/v1\", price = {{ input = {input}, output = {output} }} }}\n",
            server.uri()
        );
        let space = format!("{space}\n{more}generator = [{{ compact = {{ model = \"gpt\", max_tokens = 16 }} }}]");
        workspace.experiment(&space, &format!("[dataset]\npath = \"golden.jsonl\"\n{model}"));
        let told = workspace.run(&["plan", "--json"]).succeeds().json()["cost"]["models"][0].clone();
        let spent = workspace.run(&["run", "--json"]).succeeds().json()["spending"]["m"].clone();
        println!("{space}\n  told {told}\n  spent {spent}");
        let number = |value: &Value| value.as_u64().unwrap();
        let read = number(&told["prompt_tokens"]) as f64 * bytes_per_token / 3.0;
        let (counted, paid) = (number(&spent["prompt_tokens"]) as f64, number(&spent["calls"]));
        assert!(paid > 0 && number(&told["calls"]) >= paid, "{space}: {told} {spent}");
        assert!(number(&told["calls"]) <= 3 * paid, "{space}: {told} {spent}");
        // The plan samples only the beginning of the long document, where numbers have fewer digits, so its
        // estimate may be a little too low.
        assert!(read * 1.05 >= counted, "{space}: {told} {spent}");
        assert!(read <= 6.0 * counted, "{space}: far too much: {told} {spent}");
    }
}

#[tokio::test]
async fn starts_together_keep_to_the_total_and_the_last_one_pays_nothing() {
    let server = endpoint::start_with(Metered).await;
    let workspace = Workspace::new();
    workspace.multiply_questions(10);
    let total = "budget = { usd = 0.3, total = { usd = 0.5 } }";
    experiment(&workspace, &server, total);
    let paid = async || endpoint::asked(&server).await.iter().map(|body| cost(body)).sum::<f64>();

    let first = workspace.run(&["run", "--json"]).ends_with(4).json();
    let paid_first = paid().await;
    assert!(first["partial"].as_str().unwrap().starts_with("the budget of $0.30 was reached: "), "{first}");
    let told = &first["budget"]["total"];
    assert_eq!(told["caps"], json!({ "usd": 0.5 }));
    assert!((told["here"]["usd"].as_f64().unwrap() - paid_first).abs() < 1e-9, "{told}");

    let plan = workspace.run(&["plan"]).succeeds();
    let line = plan.out.lines().find(|line| line.starts_with("the total budget of all starts is $0.50")).unwrap();
    assert!(line.ends_with("are left: a run would end there, with partial results"), "{line}");

    let second = workspace.run(&["run", "--json"]).ends_with(4).json();
    let paid_both = paid().await;
    let dearest = endpoint::asked(&server).await.iter().map(|body| cost(body)).fold(0.0, f64::max);
    assert!(paid_both > paid_first && paid_both <= 0.5 + CONCURRENCY as f64 * dearest, "{paid_first} {paid_both}");
    let partial = second["partial"].as_str().unwrap();
    assert!(
        partial.starts_with("the total budget of $0.50 for all starts was reached: other starts spent $0."),
        "{partial}"
    );
    assert!(partial.contains("raise `total` of the budget to go on"), "{partial}");
    let told = &second["budget"]["total"];
    let (earlier, here) = (told["earlier"]["usd"].as_f64().unwrap(), told["here"]["usd"].as_f64().unwrap());
    assert!((earlier - paid_first).abs() < 1e-9 && (earlier + here - paid_both).abs() < 1e-9, "{told}");

    let third = workspace.run(&["run"]).ends_with(4);
    assert!((paid().await - paid_both).abs() < dearest, "the rest of a call's price at most");
    assert!(
        third.err.contains("the total budget of $0.50") || third.out.contains("the total budget of $0.50"),
        "{}",
        third.err
    );

    let raised = ["run", "--json", "--budget-usd", "10", "--set", "evaluate.budget.total.usd=20"];
    let last = workspace.run(&raised).succeeds().json();
    assert_eq!(scores(&last, "n_scored"), scores(&last, "n_total"));
    let all = endpoint::asked(&server).await;
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len(), "no call was paid twice");
}

/// A sweep of about 320 calls, of which all starts together may make 200.
async fn capped_calls(workspace: &Workspace) -> RunningSimulator {
    let latency = LatencyModel::Uniform { shortest: 0.01, longest: 0.04 };
    let settings = SimulatorSettings { latency, answer_tokens: 8, ..SimulatorSettings::default() };
    let provider = simulator::start(settings).await.unwrap();
    workspace.multiply_questions(20);
    let model = format!(
        "[models.gpt]\nchat.openai = {{ model = \"m\", base_url = \"{}/v1\", concurrency = {CONCURRENCY} }}\n",
        provider.url
    );
    let evaluate = "[evaluate]\nmetrics = [\"recall\", \"token_f1\"]\nbudget = { total = { calls = 200 } }\n";
    workspace.experiment(SPACE, &format!("[dataset]\npath = \"golden.jsonl\"\n{evaluate}{model}"));
    provider
}

/// The calls that the provider charges for, also those whose answers nobody waited for.
fn billed(provider: &RunningSimulator) -> u64 {
    provider.stats().answered + provider.stats().abandoned
}

// The provider needs a thread while a run is waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_leave_no_paid_call_out_of_the_total() {
    let workspace = Workspace::new();
    let provider = capped_calls(&workspace).await;
    for kill in 1..=3 {
        let mut run = workspace.command(&["run"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while provider.stats().answered < kill * 50 {
            assert!(run.try_wait().unwrap().is_none(), "it is at work");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        run.kill().unwrap();
        run.wait().unwrap();
    }
    let last = workspace.run(&["run", "--json"]).ends_with(4).json();
    assert_eq!(last["budget"]["total"]["reached"], "calls");
    let billed = billed(&provider);
    println!("{billed} calls were billed in four starts, three of them killed, under a total of 200");
    assert!((160..=200).contains(&billed), "{billed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_runs_at_once_share_the_total() {
    let workspace = Workspace::new();
    let provider = capped_calls(&workspace).await;
    let start = || workspace.command(&["run"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    for mut run in [start(), start()] {
        assert_eq!(run.wait().unwrap().code(), Some(4));
    }
    assert_eq!(billed(&provider), 200);
}
