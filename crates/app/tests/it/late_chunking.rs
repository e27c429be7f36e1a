//! Chunks and the embedder's token limit. With late chunking: which embedders can
//! do it, and which tasks trials share. Without late chunking: chunks that are longer
//! than the limit are cut and counted, refused, or read in windows.

use crate::{corpus, workspace::Workspace};

const DATASET: &str = "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\", \"mrr\"]\n";

/// The space that compares chunks with and without their documents.
fn space(embedder: &str, late: &str) -> String {
    format!(
        "chunker = [{{ sentence = {{ chunk_size = 16, chunk_overlap = 0 }} }}]\nembedder = [\"{embedder}\"]\n\
         enrich = [\"none\", {{ late_chunking = {{ {late} }} }}]\nretriever = [\"bm25\", {{ dense = {{ top_k = 3 }} }}]"
    )
}

/// A folder with a model that reads 40 tokens at a time; none where nothing can run it.
fn workspace() -> Option<(Workspace, String)> {
    if std::env::var_os("REVERIE_TEST_LIBRARIES").is_none() {
        skips::skip("REVERIE_TEST_LIBRARIES is not set");
        return None;
    }
    let workspace = Workspace::new();
    models::testing::write_small_bert(&workspace.file("bert"), &corpus::words()).unwrap();
    let model = serde_json::Value::String(workspace.file("bert").display().to_string());
    let rest = format!("[models.bert]\nembedding.local = {{ model = {model} }}\n{DATASET}");
    Some((workspace, rest))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_embedder_that_cannot_do_it_is_refused_before_anything_is_done() {
    let workspace = Workspace::new();
    workspace.experiment(&space("tiny", ""), DATASET);
    for verb in ["plan", "run"] {
        let refused = workspace.run(&[verb]);
        refused.refused_with(&["late_chunking", "`tiny`", "the same vector in every text", "pools by the mean"]);
    }
    let server = wiremock::MockServer::start().await;
    let endpoint =
        format!("[models.far]\nembedding.openai = {{ model = \"m\", base_url = \"{}/v1\" }}\n", server.uri());
    workspace.experiment(&space("far", ""), &format!("{endpoint}{DATASET}"));
    workspace.run(&["run"]).refused_with(&["late_chunking", "`far`", "one vector for a whole text", "`heading`"]);
    let Some((workspace, rest)) = self::workspace() else { return };
    workspace.experiment(&space("bert", ""), &rest);
    for verb in ["plan", "run"] {
        let refused = workspace.run(&[verb]);
        refused.refused_with(&["late_chunking", "`bert`", "reads 40 tokens at a time", "lower `least_window`"]);
    }
    assert!(!workspace.file("store/artifacts").exists(), "nothing was computed");
}

#[test]
fn a_run_makes_its_vectors_once_and_shares_everything_else() {
    let Some((workspace, rest)) = self::workspace() else { return };
    workspace.experiment(&space("bert", "overlap = 8, least_window = 16"), &rest);
    let first = workspace.run(&["run", "--json"]).succeeds().json();
    let trials = first["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 3, "words alone are one trial");
    let passages = |i: usize| {
        let questions = trials[i]["questions"].as_array().unwrap().iter();
        questions.flat_map(|one| one["passages"].as_array().unwrap().clone()).collect::<Vec<_>>()
    };
    let scores = |i: usize| passages(i).iter().map(|one| one["score"].clone()).collect::<Vec<_>>();
    let late = (0..3).find(|&i| trials[i]["trial"]["labels"]["enrich"] == "late_chunking").unwrap();
    let dense = (0..3).find(|&i| i != late && trials[i]["trial"]["labels"]["retriever"] == "dense").unwrap();
    assert_ne!(scores(late), scores(dense), "other vectors");
    for passage in passages(late) {
        let text = passage["text"].as_str().unwrap();
        assert!(
            [corpus::OTTERS, corpus::OWLS, corpus::WHALES]
                .iter()
                .any(|document| { document.contains(text.lines().last().unwrap()) })
        );
    }
    let plan = workspace.run(&["plan"]).succeeds();
    assert!(plan.out.contains("embed bert on sentence with late_chunking"), "{}", plan.out);
    let second = workspace.run(&["run", "--json"]).succeeds().json();
    assert_eq!(second["executed"], 0);
    assert_eq!(second["trials"][late]["questions"], trials[late]["questions"]);
    // A new question is answered from the same vectors.
    let id = trials[late]["trial"]["id"].as_str().unwrap();
    let asked = workspace.run(&["query", "What do beavers build dams from?", "--trial", id, "--json"]);
    let found = asked.succeeds().json()["passages"][0]["text"].clone();
    let dam = trials[late]["questions"].as_array().unwrap().iter().find(|one| one["question"] == "dam").unwrap();
    assert_eq!(found, dam["passages"][0]["text"]);
}

#[test]
fn chunks_that_are_longer_than_the_embedder_reads_are_counted_under_the_board() {
    let Some((workspace, rest)) = self::workspace() else { return };
    let long = "[models.bert]\nembedding.local = { max_tokens = 8, ";
    let rest = rest.replace("[models.bert]\nembedding.local = { ", long);
    let space = "chunker = [{ sentence = { chunk_size = 24, chunk_overlap = 0 } }, { sentence = { chunk_size = 6, \
                 chunk_overlap = 0 } }]\nembedder = [\"bert\"]\nretriever = [\"bm25\", \"dense\"]";
    workspace.experiment(space, &rest);
    let run = workspace.run(&["run"]).succeeds();
    // The output may wrap a long line, so runs of white space become one space first.
    let told =
        |out: &str| out.split_whitespace().collect::<Vec<_>>().join(" ").contains("longer than the 8 tokens that");
    assert!(told(&run.out) && run.out.contains("[long-texts]"), "{}", run.out);
    let results = workspace.run(&["run", "--json"]).succeeds().json();
    for trial in results["trials"].as_array().unwrap() {
        let index = trial["usage"]["index"].as_object().unwrap();
        let sum = |field: &str| index.values().filter_map(|used| used[field].as_u64()).sum::<u64>();
        let cut = sum("cut_texts");
        assert!((sum("cut_tokens") > 0) == (cut > 0) && cut <= sum("texts"), "{index:?}");
        let labels = &trial["trial"]["labels"];
        let is_long = labels["retriever"] == "dense" && labels["chunker"].as_str().unwrap().contains("24");
        assert_eq!(cut > 0, is_long, "{labels}: {cut}");
    }
    // The warning also appears when the vectors come from the store.
    assert!(told(&workspace.run(&["run"]).succeeds().out));
}

#[test]
fn chunks_that_are_too_long_are_cut_refused_or_read_in_windows_as_the_model_is_set() {
    let workspace = Workspace::new();
    let space = "chunker = [{ sentence = { chunk_size = 24, chunk_overlap = 0 } }]\nembedder = [\"tiny\", \"other\"]\n\
                 retriever = [\"dense\"]";
    let other = serde_json::Value::String(workspace.file("tiny").display().to_string());
    let run = |long_texts: &str| {
        let models = format!(
            "[models.other]\nembedding.static = {{ model = {other}, max_tokens = 4, long_texts = \"{long_texts}\" }}\n"
        );
        workspace.experiment(space, &format!("{models}{DATASET}"));
        workspace.run(&["run", "--json"])
    };
    let trial = |results: &serde_json::Value, embedder: &str| {
        let mut trials = results["trials"].as_array().unwrap().iter();
        trials.find(|trial| trial["trial"]["labels"]["embedder"] == embedder).unwrap().clone()
    };
    let counts = |trial: &serde_json::Value| {
        let index = trial["usage"]["index"].as_object().unwrap();
        ["cut_texts", "cut_tokens", "windowed_texts"]
            .map(|field| index.values().filter_map(|used| used[field].as_u64()).sum::<u64>())
    };
    let cut = run("cut").succeeds().json();
    let [texts, tokens, windowed] = counts(&trial(&cut, "other"));
    assert!(texts > 0 && tokens > texts && windowed == 0);
    assert_eq!(counts(&trial(&cut, "tiny")), [0, 0, 0]);
    let windows = run("windows").succeeds().json();
    let [still_cut, lost, windowed] = counts(&trial(&windows, "other"));
    assert_eq!((still_cut, lost, windowed), (0, 0, texts));
    // A static model with `windows` reads the whole text, so its scores are those of the model without a limit.
    let metrics = |embedder: &str| trial(&windows, embedder)["metrics"].clone();
    assert_eq!(metrics("other"), metrics("tiny"));
    let refused = run("refuse").ends_with(3).json();
    let failures = trial(&refused, "other")["failures"].to_string();
    for part in ["reads 4 tokens of a text", "texts are longer: the first", "`chunk_size`", "`long_texts`"] {
        assert!(failures.contains(part), "{part}: {failures}");
    }
    assert_eq!(trial(&refused, "tiny")["failures"], serde_json::json!([]), "another trial goes on");
    assert_eq!(run("cut").succeeds().json()["executed"], 0, "the vectors are there");
}
