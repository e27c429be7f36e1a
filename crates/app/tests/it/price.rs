//! The board's price of a trial, compared with what its provider counted.

use crate::workspace::Workspace;
use serde_json::Value;
use simulator::{LatencyModel, RunningSimulator, SimulatorSettings};

/// Dollars per million tokens read and written by chat models, and read by embedders.
const CHAT: (f64, f64) = (2.0, 8.0);
const EMBEDDING: f64 = 0.5;

/// The seconds of each call.
const CALL: f64 = 0.1;

/// What is on the axes besides chunker, embedder, retriever and generator; `M` is the trial's chat model.
const TRIALS: [(&str, &str); 5] = [
    ("plain", ""),
    ("multi_query", "query = [{ multi_query = { model = \"M\" } }]"),
    ("contextual", "enrich = [{ contextual = { model = \"M\" } }]"),
    ("agentic", "refine = [{ agentic = { model = \"M\" } }]"),
    ("pointwise", "reranker = [{ pointwise = { model = \"M\", candidates = 4 } }]"),
];

/// How many calls follow each other between a question and its answer. The first candidate of `pointwise` is asked
/// about alone, the others together.
const CHAINS: [f64; 5] = [2.0, 3.0, 2.0, 3.0, 4.0];

struct Trial {
    name: &'static str,
    chat: RunningSimulator,
    embedder: RunningSimulator,
}

/// A trial for each component, each with providers of its own, so that each provider counts one trial.
async fn experiment(workspace: &Workspace) -> Vec<Trial> {
    let (mut spaces, mut models, mut trials) = (String::new(), String::new(), Vec::new());
    for (name, axis) in TRIALS {
        let latency = LatencyModel::Constant { seconds: CALL };
        let settings = || SimulatorSettings { answer_tokens: 8, latency, ..SimulatorSettings::default() };
        let (chat, embedder) =
            (simulator::start(settings()).await.unwrap(), simulator::start(settings()).await.unwrap());
        let model = format!("chat_{name}");
        spaces += &format!(
            "[[space]]\nchunker = [{{ sentence = {{ chunk_size = 40, chunk_overlap = 0 }} }}]\nembedder = [\"embedder_{name}\"]\n\
             retriever = [{{ dense = {{ top_k = 3 }} }}]\n{}\ngenerator = [{{ compact = {{ model = \"{model}\" }} }}]\n\n",
            axis.replace('M', &model)
        );
        models += &format!(
            "[models.{model}]\nchat.openai = {{ model = \"{model}\", base_url = \"{}/v1\", price = {{ input = {}, output = {} }} }}\n\
             [models.embedder_{name}]\nembedding.openai = {{ model = \"embedder_{name}\", base_url = \"{}/v1\", price = {EMBEDDING} }}\n",
            chat.url, CHAT.0, CHAT.1, embedder.url
        );
        trials.push(Trial { name, chat, embedder });
    }
    workspace.write(
        "experiment.toml",
        format!(
            "name = \"animals\"\nstore = \"store\"\n\n[corpus]\nsource = \"documents\"\n\n{spaces}[dataset]\npath = \"golden.jsonl\"\n\n\
             [evaluate]\nmetrics = [\"recall\"]\n\n{models}"
        ),
    );
    trials
}

fn number(board: &Value, row: &Value, name: &str) -> f64 {
    let at = board["columns"].as_array().unwrap().iter().position(|column| column["name"] == name).unwrap();
    row["cells"][at].as_f64().unwrap()
}

/// Compares each row with the log of its providers, and gives the rows as text.
fn compare(board: &Value, trials: &[Trial]) -> String {
    let questions = 4.0;
    let mut table =
        "trial        tokens logged   on the board   $ logged      on the board  s logged  s p50\n".to_owned();
    for (trial, calls) in trials.iter().zip(CHAINS) {
        let row = board["rows"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["labels"]["embedder"] == format!("embedder_{}", trial.name));
        let row = row.unwrap();
        let (chat, embedder) = (trial.chat.stats(), trial.embedder.stats());
        let logged = chat.prompt_tokens + chat.completion_tokens + embedder.prompt_tokens;
        let paid = (chat.prompt_tokens as f64 * CHAT.0
            + chat.completion_tokens as f64 * CHAT.1
            + embedder.prompt_tokens as f64 * EMBEDDING)
            / 1e6;
        let shown = number(board, row, "tokens") * questions + number(board, row, "index_tokens");
        let dollars = number(board, row, "cost_usd") + number(board, row, "index_cost_usd");
        let (waited, p50) = (calls * CALL, number(board, row, "latency_p50"));
        table += &format!(
            "{:<12} {logged:>13} {shown:>14.0} {paid:>12.7} {dollars:>15.7} {waited:>9.3} {p50:>6.3}\n",
            trial.name,
        );
        assert!((shown - logged as f64).abs() < 1e-6, "tokens of {}: {shown} and {logged}", trial.name);
        // What it is above this is work on this machine, however busy it is.
        assert!(p50 >= waited, "seconds of {}: {p50} and {waited}", trial.name);
        assert!((dollars - paid).abs() < 1e-12, "dollars of {}: {dollars} and {paid}", trial.name);
    }
    table
}

// The providers need a thread while the command is waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_board_shows_the_tokens_dollars_and_seconds_that_the_providers_counted() {
    let workspace = Workspace::new();
    let trials = experiment(&workspace).await;
    workspace.run(&["run"]).succeeds();
    let board = workspace.run(&["leaderboard", "--json"]).succeeds().json();
    println!("{}", compare(&board, &trials));
    let cost = |name: &str, column: &str| {
        let row = board["rows"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["labels"]["embedder"] == format!("embedder_{name}"));
        number(&board, row.unwrap(), column)
    };
    for more in ["multi_query", "agentic", "pointwise"] {
        assert!(cost(more, "cost_usd") > cost("plain", "cost_usd"), "{more}");
    }
    assert!(cost("contextual", "index_cost_usd") > cost("plain", "index_cost_usd"));

    // What the journal answers costs the same, and nothing is paid.
    let before: Vec<u64> =
        trials.iter().map(|trial| trial.chat.stats().requests + trial.embedder.stats().requests).collect();
    workspace.forget_artifacts();
    std::fs::remove_dir_all(workspace.file("store/usage")).unwrap();
    workspace.run(&["run"]).succeeds();
    let again = workspace.run(&["leaderboard", "--json"]).succeeds().json();
    compare(&again, &trials);
    let after: Vec<u64> =
        trials.iter().map(|trial| trial.chat.stats().requests + trial.embedder.stats().requests).collect();
    assert_eq!(after, before);
}

// The providers need a thread while the command is waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trial_whose_model_has_no_price_has_no_cost_and_is_not_taken_for_the_cheapest() {
    let workspace = Workspace::new();
    // The model without a price is slower, so that only its cost could put it on the front.
    let provider = |seconds| {
        let latency = LatencyModel::Constant { seconds };
        simulator::start(SimulatorSettings { answer_tokens: 8, latency, ..SimulatorSettings::default() })
    };
    let (priced, unpriced) = (provider(0.1).await.unwrap(), provider(1.0).await.unwrap());
    let model = |name: &str, provider: &RunningSimulator, price: &str| {
        let url = &provider.url;
        format!("[models.{name}]\nchat.openai = {{ model = \"{name}\", base_url = \"{url}/v1\"{price} }}\n")
    };
    workspace.experiment(
        "chunker = [\"sentence\"]\nretriever = [\"bm25\"]\n\
         generator = [{ compact = { model = \"priced\" } }, { compact = { model = \"unpriced\" } }]",
        &format!(
            "{}{}[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\"]\nobjective = [\"recall\"]\n",
            model("priced", &priced, ", price = { input = 2, output = 8 }"),
            model("unpriced", &unpriced, ""),
        ),
    );
    let results = workspace.run(&["run", "--json"]).succeeds().json();
    let trial = |model: &str| {
        let mut trials = results["trials"].as_array().unwrap().iter();
        trials.find(|found| found["trial"]["generator"]["compact"]["model"] == model).unwrap()
    };
    assert!(trial("priced")["cost_usd"].as_f64().unwrap() > 0.0, "{results}");
    assert!(trial("unpriced")["cost_usd"].is_null(), "{results}");
    assert!(trial("priced")["usage"]["unpriced"].is_null(), "{results}");
    assert_eq!(trial("unpriced")["usage"]["unpriced"], serde_json::json!(["unpriced"]));
    assert_eq!(trial("unpriced")["index_cost_usd"], 0.0, "words are indexed without a model");

    let board = workspace.run(&["leaderboard", "--json"]).succeeds().json();
    let id = |model: &str| trial(model)["trial"]["id"].as_str().unwrap();
    let row = |model: &str| board["rows"].as_array().unwrap().iter().find(|row| row["id"] == id(model)).unwrap();
    // A busy machine may measure the slower model as the quicker one; then its latency puts it on the front.
    let hundredths = |model: &str| (trial(model)["latency_p50"].as_f64().unwrap() * 100.0).round();
    let is_quicker = hundredths("unpriced") < hundredths("priced");
    assert!(row("priced")["front"] == true && row("unpriced")["front"] == is_quicker, "{board}");
    let place = board["columns"].as_array().unwrap().iter().position(|column| column["name"] == "cost_usd").unwrap();
    let cell = |model: &str| &row(model)["cells"][place];
    assert!(cell("priced").is_number() && cell("unpriced").is_null(), "{board}");
    let table = workspace.run(&["leaderboard"]).succeeds().out;
    let line = table.lines().find(|line| line.contains(&format!(" {} ", id("unpriced")))).unwrap();
    assert!(line.trim_end().ends_with('–'), "{table}");
    let note =
        format!("{}: the cost is unknown and counts as the highest, because `unpriced` has no price", id("unpriced"));
    assert!(table.contains(&note) && table.contains("give its `price` under [models.unpriced]"), "{table}");
}

#[test]
fn a_trial_without_a_generator_has_the_latency_of_its_retrieval_and_a_later_run_shows_the_same() {
    let workspace = Workspace::new();
    workspace.experiment(
        "chunker = [\"sentence\"]\nembedder = [\"tiny\"]\nretriever = [\"bm25\", \"dense\"]",
        "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\"]\n",
    );
    let latencies = || {
        workspace.run(&["run"]).succeeds();
        let board = workspace.run(&["leaderboard", "--json"]).succeeds().json();
        let rows = board["rows"].as_array().unwrap().clone();
        let of = |row: &Value| {
            (
                row["id"].as_str().unwrap().to_owned(),
                number(&board, row, "latency_p50"),
                number(&board, row, "latency_p95"),
            )
        };
        rows.iter().map(of).collect::<Vec<_>>()
    };
    let first = latencies();
    assert_eq!(first.len(), 2);
    assert!(first.iter().all(|(_, p50, p95)| *p50 > 0.0 && p95 >= p50), "{first:?}");
    assert_eq!(latencies(), first);
}
