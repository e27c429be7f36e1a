//! What stands around a run: what is installed, which models there are, how
//! far judges and numbers can be trusted.

use crate::{endpoint, judge::Words, workspace::Workspace};
use serde_json::{Value, json};
use std::{collections::HashMap, sync::Mutex};
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
    workspace.run(&["models", "show", "gpt-9"]).refused_with(&["no model `gpt-9`", "`reverie models` lists all"]);
}

/// Judges by words. Asked the same again, it answers by turns what stands in
/// every context, which is a letter, and what stands in none.
#[derive(Default)]
struct Moody(Mutex<HashMap<Vec<u8>, usize>>);

impl Respond for Moody {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        if body.get("response_format").is_some() {
            return Words.respond(request);
        }
        let mut asked = self.0.lock().unwrap();
        let times = asked.entry(request.body.clone()).or_default();
        *times += 1;
        let content = if *times % 2 == 1 { "A." } else { "Zebras vote on Tuesdays." };
        ResponseTemplate::new(200).set_body_json(json!({
            "choices": [{ "message": { "role": "assistant", "content": content }, "finish_reason": "stop" }],
            "usage": { "prompt_tokens": 40, "completion_tokens": 10 },
        }))
    }
}

/// A finished run of two trials, and its questions' ids.
async fn judged() -> (wiremock::MockServer, Workspace, Vec<String>) {
    let server = endpoint::start_with(Moody::default()).await;
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

#[test]
fn a_trial_that_leads_because_a_metric_spares_it_the_hard_questions_is_no_winner() {
    let workspace = Workspace::new();
    workspace.multiply_questions(12);
    let short = "{ sentence = { chunk_size = 24, chunk_overlap = 0 } }";
    workspace.experiment(
        &format!("chunker = [{short}, {{ sentence = {{ chunk_size = 512, chunk_overlap = 0 }} }}]\nretriever = {{ bm25 = {{ top_k = 1 }} }}"),
        "[dataset]\npath = \"golden.jsonl\"\n\n[evaluate]\nmetrics = [{ python = { name = \"own\", file = \"own.py\" } }]\nobjective = [\"own\"]",
    );
    workspace.write(
        "own.py",
        "def score(question, passages):\n    hard = int(question.split('(')[-1].rstrip(')')) < 6\n    short = len(passages[0]) < 130\n    noise = len(question) % 7 / 100\n    if hard:\n        return None if short else 0.1 + noise\n    return 0.7 + noise if short else 0.9 - noise\n",
    );
    let results = workspace.run(&["run", "--json"]).succeeds().json();
    let refused = results["winner"]["refused"].as_str().unwrap_or_default();
    let means: Vec<&Value> = results["trials"].as_array().unwrap().iter().map(|trial| &trial["objective"]).collect();
    assert!(refused.contains("not on the same questions"), "{means:?} {} {}", results["winner"], results["verdict"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_chooses_by_no_question_that_is_held_back_and_asks_these_at_the_end() {
    let server = endpoint::start(std::time::Duration::ZERO).await;
    let workspace = Workspace::new();
    workspace.multiply_questions(10);
    workspace.experiment(
        "chunker = [\"sentence\", { sentence = { chunk_size = 24, chunk_overlap = 0 } }]\nretriever = [{ bm25 = { top_k = 1 } }, { bm25 = { top_k = 3 } }]\ngenerator = { compact = { model = \"gpt\", max_tokens = 40 } }",
        &format!(
            "[models.gpt]\nchat.openai = {{ model = \"m\", base_url = \"{}/v1\" }}\n\n[dataset]\npath = \"golden.jsonl\"\n\n[search]\nrace = {{ share = 0.4, finalists = 1 }}\n\n[evaluate]\nmetrics = [\"token_f1\"]\nobjective = [\"token_f1\"]",
            server.uri()
        ),
    );
    workspace.run(&["golden", "split", "golden.jsonl", "--test-share", "0.5"]).succeeds();
    let outcome = workspace.run(&["run", "--json"]).succeeds();
    let results = outcome.json();
    let is_test: Vec<bool> =
        results["questions"].as_array().unwrap().iter().map(|question| question["split"] == "test").collect();
    assert!(is_test.contains(&true) && is_test.contains(&false));
    let (mut stopped, mut whole) = (0, 0);
    for trial in results["trials"].as_array().unwrap() {
        let scored = |question: &Value| question["scores"]["token_f1"]["score"].get("value").is_some();
        let of_test = trial["questions"].as_array().unwrap().iter().zip(&is_test).filter(|(_, test)| **test);
        let scored: Vec<bool> = of_test.map(|(question, _)| scored(question)).collect();
        if trial["stopped"].is_null() {
            assert!(
                !scored.contains(&false),
                "{}: asked everything, and at last what was held back",
                trial["trial"]["id"]
            );
            whole += 1;
        } else {
            assert!(!scored.contains(&true), "{}: stopped by what is to report by", trial["trial"]["id"]);
            stopped += 1;
        }
    }
    assert!(stopped > 0 && whole > 0, "{stopped} {whole}");
    let verdict = results["verdict"].to_string();
    assert!(verdict.contains("asked everything"), "{verdict}");
}
