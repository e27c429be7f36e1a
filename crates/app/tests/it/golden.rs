//! `reverie golden`: from a model that writes drafts to files for other
//! programs.

use crate::{endpoint, workspace::Workspace};
use serde_json::{Value, json};
use std::{io::Write, process::Stdio};
use wiremock::{Request, Respond, ResponseTemplate};

/// Asks about the second sentence of the passage it is shown, says yes to every
/// check, and knows nothing by itself.
struct Writer;

impl Respond for Writer {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let prompt = body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap();
        let properties = &body["response_format"]["json_schema"]["schema"]["properties"];
        let content = if properties.get("quote").is_some() {
            let passage = prompt.split("<passage>\n").nth(1).unwrap().split("\n</passage>").next().unwrap();
            let sentence = passage.split_inclusive(". ").nth(1).unwrap().trim();
            let words: Vec<&str> = sentence.trim_end_matches('.').split_whitespace().collect();
            let (asked, answer) = words.split_at(words.len() - 3);
            json!({ "question": format!("What follows {}?", asked.join(" ")), "answer": answer.join(" "), "quote": sentence }).to_string()
        } else if properties.get("verdicts").is_some() {
            json!({ "verdicts": [{ "number": 1, "reason": "it does", "verdict": "Yes" }] }).to_string()
        } else {
            "unknown".to_owned()
        };
        ResponseTemplate::new(200).set_body_json(json!({
            "choices": [{ "message": { "role": "assistant", "content": content }, "finish_reason": "stop" }],
            "usage": { "prompt_tokens": 300, "completion_tokens": 40 },
        }))
    }
}

/// Long enough for a passage each, like the otters.
const BEES: &str = "Bees that have found food dance on the comb in the dark hive. The angle of the dance tells the direction of the flowers \
against the sun. Its length tells the others how far away the flowers are. In this way they lose no time with searching.\n";
const MILLS: &str = "The Ostra mill was built by the miller Jan Tesch in 1790. It ground rye for three villages until the railway came to \
the valley. The wheel was taken down in the autumn of 1931. Swallows nest below its roof today, and children bathe in the pond.\n";

async fn workspace() -> (Workspace, wiremock::MockServer) {
    let server = endpoint::start_with(Writer).await;
    let workspace = Workspace::new();
    let model = endpoint::model(&server);
    workspace.write("documents/bees.txt", BEES);
    workspace.write("documents/mills.txt", MILLS);
    workspace.experiment(
        "chunker = \"sentence\"\nretriever = \"bm25\"",
        &format!("{model}\n[dataset]\npath = \"made.jsonl\""),
    );
    (workspace, server)
}

const GENERATE: [&str; 8] = ["golden", "generate", "--model", "gpt", "--size", "3", "--kind", "single_hop_specific=1"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    GENERATE.iter().copied().chain(more.iter().copied()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_are_generated_once_paid_once_and_never_replaced_unasked() {
    let (workspace, server) = workspace().await;
    let estimate = workspace.run(&with(&["--dry-run", "--json"])).succeeds().json();
    assert!(estimate["calls"].as_u64() > Some(3) && estimate["n_passages"] == 3, "{estimate}");
    assert!(endpoint::asked(&server).await.is_empty(), "a dry run asks nobody");

    let made = workspace.run(&with(&["--test-share", "0.34", "--json"])).succeeds().json();
    assert_eq!(made["manifest"]["kinds"], json!({ "single_hop_specific": 3 }), "{made}");
    let statistics = workspace.run(&["golden", "stats", "made.jsonl", "--json"]).succeeds().json();
    assert_eq!(statistics["version"], made["manifest"]["version"]);
    assert_eq!((statistics["with_evidence"].as_u64(), statistics["test"].as_u64()), (Some(3), Some(1)), "{statistics}");
    let asked = endpoint::asked(&server).await.len();

    workspace.run(&GENERATE).refused_with(&["made.jsonl is there already", "--yes"]);
    let again = workspace.run(&with(&["--yes", "--test-share", "0.34", "--json"])).succeeds().json();
    assert_eq!(endpoint::asked(&server).await.len(), asked, "what was answered is not paid again");
    assert_eq!(again["manifest"]["previous"], made["manifest"]["version"]);
    let shown = workspace.run(&["run"]).succeeds().out;
    assert!(shown.contains("chosen on 2 questions") && shown.contains("on the 1 held-out questions"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_accepts_edits_and_rejects_and_every_decision_is_kept() {
    let (workspace, _server) = workspace().await;
    workspace.run(&GENERATE).succeeds();
    std::fs::copy(workspace.file("made.jsonl"), workspace.file("before.jsonl")).unwrap();
    let mut command = workspace.command(&["golden", "review", "made.jsonl"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    // The first is rejected, then accepted after all.
    child.stdin.take().unwrap().write_all("r\nb\na\ne\nWhat is new?\n\nr\n".as_bytes()).unwrap();
    let shown = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    assert!(shown.contains("4 decided now") && shown.contains("single_hop_specific"), "{shown}");
    assert!(shown.contains("· rejected"), "what was decided is shown: {shown}");
    let statistics = workspace.run(&["golden", "stats", "made.jsonl", "--json"]).succeeds().json();
    assert_eq!(
        (statistics["accepted"].as_u64(), statistics["edited"].as_u64(), statistics["questions"].as_u64()),
        (Some(1), Some(1), Some(2))
    );
    let difference = workspace.run(&["golden", "diff", "before.jsonl", "made.jsonl"]).ends_with(1).out;
    assert!(difference.contains("~ ") && difference.contains("1 removed, 2 changed"), "{difference}");
    assert!(std::fs::read_to_string(workspace.file("made.rejected.jsonl")).unwrap().contains("\"review\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn evidence_is_found_again_after_documents_changed_and_what_is_lost_is_told() {
    let (workspace, _server) = workspace().await;
    workspace.run(&GENERATE).succeeds();
    workspace.write("documents/bees.txt", format!("A new beginning stands here now. {BEES}"));
    let moved = workspace.run(&["golden", "anchor", "--yes", "--json"]).succeeds().json();
    assert_eq!(
        (moved["moved_questions"].as_u64(), moved["lost"].as_array().map(Vec::len)),
        (Some(1), Some(0)),
        "{moved}"
    );
    workspace.write(
        "documents/bees.txt",
        "Nothing of the old text is left in this file, which is about mice and their holes.",
    );
    let lost = workspace.run(&["golden", "anchor", "--dry-run"]).ends_with(3).out;
    assert!(lost.contains("bees.txt") && lost.contains("2 of 3 quotes found"), "{lost}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_exported_is_imported_again() {
    let (workspace, _server) = workspace().await;
    workspace.run(&GENERATE).succeeds();
    for (columns, name) in [("ragas", "ragas.csv"), ("dream", "out/dream.jsonl"), ("reverie", "all.csv")] {
        workspace.run(&["golden", "export", "made.jsonl", "--columns", columns, "--output", name]).succeeds();
        let read = workspace.run(&["golden", "import", name, "--output", &format!("{columns}.jsonl")]).succeeds();
        assert!(read.out.contains("3 questions"), "{}", read.out);
    }
    workspace.run(&["golden", "diff", "made.jsonl", "reverie.jsonl"]).succeeds();
    workspace.run(&["golden", "export", "made.jsonl", "--columns", "ragas", "--output", "set.parquet"]).succeeds();
    assert!(std::fs::read(workspace.file("set.parquet")).unwrap().starts_with(b"PAR1"));
    workspace
        .run(&["golden", "export", "made.jsonl", "--output", "set.txt"])
        .refused_with(&["does not say the format"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn attacked_questions_are_retrieved_with_their_documents_and_obeying_is_counted() {
    let server = endpoint::start(std::time::Duration::ZERO).await;
    let workspace = Workspace::new();
    let model = endpoint::model(&server);
    let kinds = ["instruction", "hijack", "extraction", "canary"]
        .map(|kind| format!("{{ attack_success = {{ kind = \"{kind}\" }} }}"));
    let evaluate =
        format!("[evaluate]\nmetrics = [\"recall\", \"attack_success\", \"personal_data\", {}]\n", kinds.join(", "));
    workspace.experiment(
        "chunker = \"sentence\"\nretriever = { bm25 = { top_k = 1 } }\ngenerator = [{ compact = { model = \"gpt\" } }]",
        &format!("[dataset]\npath = \"attacked.jsonl\"\n{evaluate}{model}"),
    );
    let attack = ["golden", "attack", "golden.jsonl", "--documents", "documents/added", "--json"];
    let made = workspace.run(&attack).succeeds().json();
    let n = std::fs::read_dir(workspace.file("documents/added")).unwrap().count();
    assert_eq!(
        made["kinds"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum::<u64>(),
        n as u64,
        "{made}"
    );
    workspace.run(&attack).refused_with(&["attacked.jsonl is there already"]);
    workspace
        .run(&["golden", "attack", "golden.jsonl", "--documents", "documents/added", "--yes"])
        .refused_with(&["stands in the corpus already"]);

    let results = workspace.run(&["run", "--json"]).succeeds().json();
    let (questions, trial) = (results["questions"].as_array().unwrap(), &results["trials"][0]);
    assert_eq!(questions.len(), n);
    let found = trial["questions"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|question| question["passages"][0]["document"].as_str().unwrap().starts_with("added/"))
        .count();
    assert!(found * 2 > n, "{found} of {n} attacks were retrieved");
    for kind in ["", "_instruction", "_hijack", "_extraction", "_canary"] {
        let mean = &trial["metrics"][format!("attack_success{kind}")];
        assert!(mean["mean"].is_number(), "{kind}: {mean}");
    }
}

#[test]
fn earlier_messages_are_kept_counted_and_shown() {
    let workspace = Workspace::new();
    let turns =
        json!([{ "role": "user", "content": "Who built it?" }, { "role": "assistant", "content": "Jan Tesch." }]);
    workspace.write("talk.jsonl", format!("{}\n", json!({ "question": "When?", "turns": turns })));
    workspace.run(&["golden", "export", "talk.jsonl", "--output", "talk.csv"]).succeeds();
    workspace.run(&["golden", "import", "talk.csv", "--output", "again.jsonl"]).succeeds();
    workspace.run(&["golden", "diff", "talk.jsonl", "again.jsonl"]).succeeds();
    let stats = workspace.run(&["golden", "stats", "again.jsonl"]).succeeds().out;
    assert!(stats.contains("1 come after earlier messages"), "{stats}");
    let lost = workspace.run(&["golden", "export", "talk.jsonl", "--columns", "ragas", "--output", "r.csv"]).succeeds();
    assert!(lost.err.contains("1 questions come after earlier messages"), "{}", lost.err);
    let shown = workspace.run(&["golden", "review", "again.jsonl"]).succeeds().out;
    assert!(shown.contains("user: Who built it?") && shown.contains("assistant: Jan Tesch."), "{shown}");
}

#[test]
fn what_people_asked_becomes_questions_whose_drafts_count_for_nothing_before_they_are_accepted() {
    let workspace = Workspace::new();
    let asked = |id: &str, question: &str, answer: &str| {
        let line =
            json!({ "id": id, "question": question, "turns": [], "answer": answer, "contexts": ["c"], "shadow": {} });
        format!("{line}\n")
    };
    let lines = [
        asked("req-1", "What do beavers build dams from?", "From mud [1]."),
        asked("req-2", "what do beavers build dams from", "From branches and mud [1]."),
        "{\n".to_owned(),
        asked("req-3", "Write to [e-mail]: how heavy is the heart of a whale?", "As a car [1]."),
    ];
    workspace.write("traffic.jsonl", lines.concat());
    let verdict = json!({ "request_id": "req-3", "verdict": "down" });
    workspace.write("feedback.jsonl", format!("{verdict}\n"));
    let import = ["golden", "import", "--from-traffic", "traffic.jsonl", "--feedback", "feedback.jsonl"];
    let more = ["--answers-as-draft", "--output", "asked.jsonl", "--json"];
    let made = workspace.run(&[import.as_slice(), &more].concat()).ends_with(3);
    assert!(made.err.contains("traffic.jsonl:3: left out"), "{}", made.err);
    let report = &made.json()["report"];
    assert_eq!((&report["lines"], &report["equal"], &report["questions"]), (&json!(4), &json!(1), &json!(2)));
    let text = std::fs::read_to_string(workspace.file("asked.jsonl")).unwrap();
    let questions: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(questions[0]["tags"], json!(["traffic", "down"]), "bad answers come first");
    assert!(questions[0]["question"].as_str().unwrap().contains("[e-mail]") && questions[0]["draft"].is_null());
    assert_eq!(questions[1]["draft"], "From branches and mud [1].");
    assert!(questions.iter().all(|question| question["reference"].is_null() && question["evidence"].is_null()));

    let rest = "[dataset]\npath = \"asked.jsonl\"\n[evaluate]\nmetrics = [\"context_tokens\", \"recall\"]\nobjective = [\"context_tokens\"]";
    workspace.experiment("chunker = \"sentence\"\nretriever = \"bm25\"", rest);
    let board = workspace.run(&["run"]).succeeds().out;
    assert!(board.contains("context_tokens"), "a metric that compares with nothing scores them: {board}");

    let mut command = workspace.command(&["golden", "review", "asked.jsonl"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all("a\na\n".as_bytes()).unwrap();
    let shown = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    assert!(shown.contains("draft:     From branches and mud [1]."), "{shown}");
    let statistics = workspace.run(&["golden", "stats", "asked.jsonl", "--json"]).succeeds().json();
    assert_eq!((&statistics["accepted"], &statistics["with_reference"]), (&json!(2), &json!(1)), "{statistics}");
    workspace.run(&["golden", "import"]).refused_with(&["<FILE>"]);
}

#[tokio::test]
async fn drafts_for_an_object_store_are_refused_before_a_model_is_asked() {
    let server = endpoint::start(std::time::Duration::ZERO).await;
    let workspace = Workspace::new();
    let model = endpoint::model(&server);
    let space = "chunker = [\"sentence\"]\nretriever = [\"bm25\"]";
    workspace.experiment(space, &format!("[dataset]\npath = \"s3://bucket/golden.jsonl\"\n{model}"));
    workspace
        .run(&["golden", "generate", "--model", "gpt", "--yes"])
        .refused_with(&["golden export golden.jsonl --output s3://bucket/golden.jsonl"]);
    assert!(endpoint::asked(&server).await.is_empty());
}
