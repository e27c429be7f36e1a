//! What stands around a run: what is installed, which models there are, how
//! far judges and numbers can be trusted.

use crate::{endpoint, judge::Words, workspace::Workspace};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use wiremock::{Request, Respond, ResponseTemplate};

#[test]
fn doctor_says_what_is_missing_and_the_command_that_gets_it() {
    let workspace = Workspace::new();
    let doctor = |json: bool| {
        let mut command = workspace.command(if json { &["doctor", "--json"] } else { &["doctor"] });
        crate::workspace::Outcome::of(command.env_remove("REVERIE_LIBRARIES").output().unwrap()).succeeds()
    };
    let told = doctor(false).out;
    let line = |what: &str| told.lines().find(|line| line[4..].starts_with(what)).unwrap().to_owned();
    assert!(line("home").starts_with("ok") && line("home").ends_with("home"), "{told}");
    for missing in ["ONNX Runtime", "PDFium", "all-minilm-l6-v2", "qwen2.5-coder-0.5b-instruct"] {
        let line = line(missing);
        assert!(line.starts_with("--") && line.contains("reverie models pull "), "{line}");
    }
    let checks = doctor(true).json();
    assert_eq!(checks.as_array().unwrap().len(), told.lines().count());
    let of = |what: &str| checks.as_array().unwrap().iter().find(|check| check["what"] == what).unwrap().clone();
    assert_eq!((&of("home")["ok"], &of("PDFium")["ok"]), (&true.into(), &false.into()));
}

#[test]
fn models_are_listed_and_described_and_an_unknown_one_is_refused() {
    let workspace = Workspace::new();
    let all = workspace.run(&["models", "--json"]).succeeds().json();
    let listed = workspace.run(&["models"]).succeeds().out;
    for entry in all.as_array().unwrap() {
        let name = entry["name"].as_str().unwrap();
        assert!(listed.contains(name), "{name}");
        let shown = workspace.run(&["models", "show", name]).succeeds().out;
        assert!(shown.starts_with(name) && shown.contains("licence: ") && shown.contains("here: no"), "{shown}");
    }
    workspace.run(&["models", "show", "gpt-9"]).refused_with(&["no model `gpt-9`", "`reverie models` lists it"]);
}

/// Judges by words; two of four answers say what stands nowhere.
struct Moody(AtomicUsize);

impl Respond for Moody {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        if body.get("response_format").is_some() {
            return Words.respond(request);
        }
        let content = match self.0.fetch_add(1, Ordering::SeqCst) % 4 {
            0 | 1 => "Zebras vote on Tuesdays.",
            _ => "Barn owls swallow mice whole.",
        };
        ResponseTemplate::new(200).set_body_json(json!({
            "choices": [{ "message": { "role": "assistant", "content": content }, "finish_reason": "stop" }],
            "usage": { "prompt_tokens": 40, "completion_tokens": 10 },
        }))
    }
}

/// A finished run of two trials, and its questions' ids.
async fn judged() -> (wiremock::MockServer, Workspace, Vec<String>) {
    let server = endpoint::start_with(Moody(AtomicUsize::new(0))).await;
    let workspace = Workspace::new();
    workspace.multiply_questions(3);
    workspace.experiment(
        "chunker = [\"sentence\", { sentence = { chunk_size = 64, chunk_overlap = 0 } }]\nretriever = { bm25 = { top_k = 1 } }\ngenerator = { compact = { model = \"gpt\", max_tokens = 40 } }",
        &format!(
            "[models.gpt]\nchat.openai = {{ model = \"m\", base_url = \"{}/v1\", concurrency = 1 }}\n\n[dataset]\npath = \"golden.jsonl\"\n\n[evaluate]\nmetrics = [\"faithfulness\", \"token_f1\"]\njudge = \"gpt\"\nobjective = [\"token_f1\"]",
            server.uri()
        ),
    );
    workspace.run(&["run"]).succeeds();
    let golden = std::fs::read_to_string(workspace.file("golden.jsonl")).unwrap();
    let id = |line: &str| serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned();
    let ids = golden.lines().map(id).collect();
    (server, workspace, ids)
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_of_people_correct_a_judge_and_mistakes_in_them_are_named() {
    let (_server, workspace, ids) = judged().await;
    let label = |id: &String| json!({ "trial": "t01", "question": id, "label": false }).to_string();
    let labels: Vec<String> = ids.iter().take(6).map(label).collect();
    workspace.write("labels.jsonl", labels.join("\n"));
    let found = workspace.run(&["calibrate", "labels.jsonl", "--metric", "faithfulness", "--json"]).succeeds().json();
    assert_eq!(found["n_labels"], 6, "{found}");
    let trial = found["trials"].as_array().unwrap().iter().find(|trial| trial["trial"] == "t01").unwrap();
    assert_eq!((&trial["n_labels"], &trial["n_judged"]), (&6.into(), &(ids.len() - 6).into()), "{found}");
    // People hold nothing for supported: the corrected mean is below the judge's.
    let (judged, corrected) = (&trial["judged_mean"], &trial["corrected"]["mean"]);
    assert!(corrected.as_f64().unwrap() < judged.as_f64().unwrap(), "{trial}");
    let told = workspace.run(&["calibrate", "labels.jsonl", "--metric", "faithfulness"]).succeeds().out;
    assert!(told.contains("t01") && told.contains("6"), "{told}");

    let calibrate = |metric: &str| workspace.run(&["calibrate", "labels.jsonl", "--metric", metric]);
    let told = calibrate("flattery");
    assert!(told.code != Some(0) && told.err.contains("flattery"), "{told:?}");
    workspace.write("labels.jsonl", json!({ "trial": "t01", "question": "nobody", "label": true }).to_string());
    let told = calibrate("faithfulness");
    assert!(told.code != Some(0) && told.err.contains("nobody"), "{told:?}");
    workspace.write("labels.jsonl", "{\"trial\": \"t01\"");
    let told = calibrate("faithfulness");
    assert!(told.code != Some(0) && told.err.contains("labels.jsonl") && told.err.contains("line 1"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn noise_of_answers_that_differ_is_told_from_that_of_a_judge_that_does_not() {
    let (_server, workspace, _) = judged().await;
    let noise = ["noise", "t01", "--metric", "faithfulness", "--questions", "6", "--answers", "3"];
    let found = workspace.run(&[&noise[..], &["--judgements", "2", "--json"]].concat()).succeeds().json();
    assert_eq!(found["noise"]["design"], json!([6, 3, 2]), "{found}");
    assert_eq!(found["noise"]["judge"], 0.0, "{found}");
    assert!(found["noise"]["generation"].as_f64().unwrap() > 0.0, "{found}");
    let told = workspace.run(&[&noise[..], &["--judgements", "2"]].concat()).succeeds().out;
    assert!(told.contains("from 6 questions × 3 answers × 2 judgements"), "{told}");
    assert!(told.contains("judge        0 % of the variance"), "{told}");
    let refused = workspace.run(&["noise", "t01", "--metric", "faithfulness", "--questions", "1"]);
    refused.refused_with(&["at least 2 questions"]);
    let told = workspace.run(&["noise", "t77", "--metric", "faithfulness"]);
    assert!(told.code != Some(0) && told.err.contains("t77"), "{told:?}");
}
