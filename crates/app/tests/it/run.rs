//! `init`, `plan`, `run`, `leaderboard`, `show`, `query`.

use crate::{endpoint, workspace::Workspace};
use std::time::Duration;

const SPACE: &str = "chunker = [{ sentence = { chunk_size = 32, chunk_overlap = 0 } }, { sentence_window = { window_size = 1 } }]\nembedder = [\"tiny\"]\nretriever = [{ dense = { top_k = 2 } }, { hybrid = { top_k = 2 } }]";
const DATASET: &str = "[dataset]\npath = \"golden.jsonl\"\n";

#[test]
fn trials_share_their_prefixes_and_a_second_run_does_nothing() {
    let workspace = Workspace::new();
    workspace.experiment(SPACE, DATASET);
    let plan = workspace.run(&["plan", "--json"]).succeeds().json();
    let embed =
        plan["operators"].as_array().unwrap().iter().find(|operator| operator["operator"] == "embed").unwrap().clone();
    assert_eq!(
        (embed["planned"].as_u64(), embed["unique"].as_u64()),
        (Some(4), Some(2)),
        "two chunkers share one embedder"
    );

    let first = workspace.run(&["run", "--json"]).succeeds().json();
    assert_eq!(first["trials"].as_array().unwrap().len(), 4);
    assert!(first["winner"]["refused"].is_null(), "{}", first["winner"]);
    let best = &first["trials"][0]["metrics"];
    assert!(best["recall"]["mean"].as_f64().unwrap() > 0.7, "{best}");

    let second = workspace.run(&["run", "--json"]).succeeds().json();
    assert_eq!(second["executed"], 0);
    for field in ["trials", "winner", "questions"] {
        assert_eq!(first[field], second[field], "{field}");
    }
}

#[test]
fn a_broken_file_is_named_and_the_others_are_indexed() {
    let workspace = Workspace::new();
    workspace.write("documents/broken.epub", b"PK\x03\x04 this is no archive");
    workspace.write("documents/empty.txt", b"");
    workspace.experiment(SPACE, "");
    let outcome = workspace.run(&["run"]).succeeds();
    assert!(outcome.err.contains("not read: broken.epub: "), "{}", outcome.err);
    assert!(outcome.err.contains("not read: empty.txt: "), "{}", outcome.err);
    assert!(outcome.out.contains("3 documents"), "{}", outcome.out);
    assert!(outcome.out.contains("not read: 2"), "{}", outcome.out);
    let found = workspace.run(&["query", "How do beavers build dams?", "--trial", "t01", "--json"]).succeeds().json();
    assert_eq!(found["passages"][0]["document"], "otters.md");
    assert!(found["passages"][0]["text"].as_str().unwrap().contains("Beavers build dams"));
}

#[tokio::test]
async fn answers_are_scored_shown_and_reported() {
    let server = endpoint::start(Duration::ZERO).await;
    let workspace = Workspace::new();
    let evaluate = "[evaluate]\nmetrics = [\"recall\", \"ndcg\", \"token_f1\", \"answer_similarity\"]\nembedder = \"tiny\"\nanswered = 2\n";
    let space = format!("{SPACE}\ngenerator = [{{ compact = {{ model = \"gpt\" }} }}]");
    workspace.experiment(&space, &format!("{DATASET}\n{evaluate}\n{}", endpoint::model(&server)));
    let results = workspace.run(&["run", "--json"]).succeeds().json();
    let best = &results["trials"][0];
    assert_eq!(best["metrics"]["token_f1"]["n_scored"], 2);
    assert_eq!(best["questions"][0]["answer"]["citations"][0], 1);
    assert_eq!(best["questions"][3]["scores"]["token_f1"]["score"]["missing"]["reason"], "not_asked");

    let id = best["trial"]["id"].as_str().unwrap();
    let shown = workspace.run(&["show", id, "owl"]).succeeds();
    assert!(shown.out.contains("evidence: owls.txt") && shown.out.contains("answer: "), "{}", shown.out);
    let board = workspace.run(&["leaderboard"]).succeeds();
    let verdict = results["verdict"][0].as_str().unwrap();
    assert!(verdict.contains(id) && board.out.contains(verdict), "{verdict} in {}", board.out);
    let report = board.out.lines().find_map(|line| line.strip_prefix("report: ")).unwrap();
    let page = std::fs::read_to_string(report).unwrap();
    let inside = |id: &str| -> serde_json::Value {
        let (_, data) =
            page.split_once(&format!("<script type=\"application/json\" id=\"{id}\">")).expect("it is in the page");
        serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap()
    };
    let data = inside("data");
    assert_eq!(data["board"]["verdict"], results["verdict"]);
    let place = data["board"]["rows"].as_array().unwrap().iter().position(|row| row["id"] == id).unwrap();
    let scores = inside(&format!("part-trial-{place}"))["scores"][0].clone();
    assert_eq!(scores.as_array().unwrap().len(), results["questions"].as_array().unwrap().len());
    let outside = ["src=\"http", "href=\"http", "src='http", "href='http", "@import", "url(http"];
    assert!(!outside.iter().any(|part| page.contains(part)), "one file without outside parts");
    let answered = workspace.run(&["query", "What do barn owls swallow?"]).succeeds();
    assert!(answered.out.contains("sources (trial ") && answered.out.contains("owls.txt"), "{}", answered.out);
}

#[test]
fn init_writes_a_file_that_the_planner_reads() {
    let workspace = Workspace::new();
    workspace.run(&["init", "documents", "--output", "new.toml"]).succeeds();
    // The written file names a model that is not pulled here, and nothing else is wrong.
    workspace.run(&["plan", "-f", "new.toml"]).refused_with(&["models.all-minilm-l6-v2", "reverie models pull"]);
    workspace.run(&["init", "documents", "--output", "new.toml"]).refused_with(&["is there already"]);
}
