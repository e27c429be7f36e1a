//! `reverie score`: the answers of another system, from a file.

use crate::{endpoint, judge::Words, workspace::Workspace};
use arrow_array::{
    ArrayRef, RecordBatch, StringArray,
    builder::{ListBuilder, StringBuilder},
};
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};
use std::{
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};
use wiremock::{MockServer, Request, Respond, ResponseTemplate};

/// Three answers: one that its context supports, one that it supports by half,
/// and one that rightly declines.
fn rows() -> Vec<Value> {
    let owls = "Owls hunt at night. Barn owls swallow mice whole.";
    vec![
        json!({ "user_input": "When do owls hunt?", "response": "Owls hunt at night.", "retrieved_contexts": [owls], "reference": "Owls hunt at night." }),
        json!({ "user_input": "What do barn owls do?", "response": "Barn owls swallow mice whole. They also read newspapers.", "retrieved_contexts": [owls, "Beavers build dams."], "reference": "They swallow mice." }),
        json!({ "user_input": "Who wrote the report?", "response": "I don't know.", "retrieved_contexts": [owls], "answerable": false }),
    ]
}

fn jsonl(rows: &[Value]) -> String {
    rows.iter().map(|row| format!("{row}\n")).collect()
}

fn csv(rows: &[Value]) -> String {
    let columns = ["user_input", "response", "retrieved_contexts", "reference", "answerable"];
    let cell = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => format!("\"{text}\""),
        // As Python writes a list.
        other => format!("\"{}\"", other.to_string().replace('"', "'")),
    };
    let line = |row: &Value| columns.map(|column| cell(&row[column])).join(",") + "\n";
    columns.join(",") + "\n" + &rows.iter().map(line).collect::<String>()
}

fn parquet(rows: &[Value]) -> Vec<u8> {
    let texts =
        |column: &str| -> ArrayRef { Arc::new(rows.iter().map(|row| row[column].as_str()).collect::<StringArray>()) };
    let mut lists = ListBuilder::new(StringBuilder::new());
    for row in rows {
        for text in row["retrieved_contexts"].as_array().unwrap() {
            lists.values().append_value(text.as_str().unwrap());
        }
        lists.append(true);
    }
    let answerable = rows.iter().map(|row| row["answerable"].as_bool().unwrap_or(true)).collect::<Vec<_>>();
    let batch = RecordBatch::try_from_iter(vec![
        ("user_input", texts("user_input")),
        ("response", texts("response")),
        ("retrieved_contexts", Arc::new(lists.finish()) as ArrayRef),
        ("reference", texts("reference")),
        ("answerable", Arc::new(arrow_array::BooleanArray::from(answerable)) as ArrayRef),
    ]);
    let batch = batch.unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

/// The sections of three models at this server.
fn models(server: &MockServer) -> String {
    // This endpoint tells no probabilities; who knows that asks for none.
    let model = |name: &str| {
        format!(
            "[models.{name}]\nchat.openai = {{ model = \"{name}\", base_url = \"{}/v1\", omit = [\"logprobs\"], price = {{ input = 1.0, output = 10.0 }} }}\n",
            server.uri()
        )
    };
    ["gpt", "other", "third"].map(model).concat()
}

fn config(workspace: &Workspace, server: &MockServer, evaluate: &str) {
    let models = models(server);
    workspace.write("scoring.toml", format!("store = \"store\"\n{models}[evaluate]\n{evaluate}\n"));
}

const METRICS: &str = "metrics = [\"faithfulness\", \"token_f1\", { abstention = { judge = false } }]\njudge = \"gpt\"";

fn metric<'a>(results: &'a Value, name: &str) -> &'a Value {
    results["metrics"].as_array().unwrap().iter().find(|metric| metric["name"] == name).unwrap()
}

#[tokio::test]
async fn answers_of_another_system_are_scored_and_paid_once_whatever_the_format() {
    let server = endpoint::start_with(Words).await;
    let workspace = Workspace::new();
    config(&workspace, &server, METRICS);
    workspace.write("a.jsonl", jsonl(&rows()));
    workspace.write("a.csv", csv(&rows()));
    workspace.write("a.parquet", parquet(&rows()));

    let plan = workspace.run(&["score", "a.jsonl", "-f", "scoring.toml", "--dry-run"]).succeeds();
    assert!(plan.out.contains("3 answers, scored by faithfulness, token_f1 (2 of 3 rows), abstention"), "{}", plan.out);
    assert!(plan.out.contains("estimated cost: about $"), "{}", plan.out);
    assert!(endpoint::asked(&server).await.is_empty(), "a plan spends nothing");

    let first =
        workspace.run(&["score", "a.jsonl", "-f", "scoring.toml", "--json", "--output", "scores.jsonl"]).succeeds();
    assert!(first.err.contains("estimated cost: about $"), "{}", first.err);
    let results = first.json();
    let faithfulness = metric(&results, "faithfulness");
    assert_eq!(
        (&faithfulness["mean"], &faithfulness["n_scored"], &faithfulness["n_total"]),
        (&json!(0.75), &json!(2), &json!(3))
    );
    assert!(faithfulness["low"].as_f64().unwrap() <= 0.75 && faithfulness["high"].as_f64().unwrap() >= 0.75);
    assert_eq!(faithfulness["n_failed"], 0, "an answer that rightly declines is no failure");
    assert_eq!(metric(&results, "token_f1")["missing"], json!({ "not_applicable": 1 }));
    assert_eq!(metric(&results, "abstention")["mean"], 1.0);
    let calls = endpoint::asked(&server).await.len();
    assert_eq!(calls, 5, "statements and verdicts of two answers, statements of a third");

    let lines = std::fs::read_to_string(workspace.file("scores.jsonl")).unwrap();
    let second: Value = serde_json::from_str(lines.lines().nth(1).unwrap()).unwrap();
    assert_eq!(second["scores"]["faithfulness"]["value"], 0.5);
    assert_eq!(second["scores"]["faithfulness"]["detail"]["statements"][1]["verdict"], false);
    let third: Value = serde_json::from_str(lines.lines().nth(2).unwrap()).unwrap();
    assert!(third["scores"]["token_f1"]["reason"].as_str().unwrap().contains("unanswerable"), "{third}");

    for file in ["a.csv", "a.parquet"] {
        let again = workspace.run(&["score", file, "-f", "scoring.toml", "--json"]).succeeds().json();
        assert_eq!(again["metrics"], results["metrics"], "{file}");
    }
    assert_eq!(endpoint::asked(&server).await.len(), calls, "what is in the journal is not paid again");

    let table = workspace.run(&["score", "a.csv", "-f", "scoring.toml", "--output", "scores.csv"]).succeeds();
    for part in ["faithfulness*", "0.750 [", "2 of 3", "1 not applicable", "judged by gpt, not qualified"] {
        assert!(table.out.contains(part), "`{part}` is not in {}", table.out);
    }
    let written = std::fs::read_to_string(workspace.file("scores.csv")).unwrap();
    assert!(written.starts_with("line,id,question,faithfulness,faithfulness_missing,token_f1,"), "{written}");
    assert_eq!(written.lines().count(), 4);
}

#[tokio::test]
async fn all_bad_rows_are_told_with_their_lines_before_any_call() {
    let server = endpoint::start_with(Words).await;
    let workspace = Workspace::new();
    config(&workspace, &server, METRICS);
    let score = |file: &str| workspace.run(&["score", file, "-f", "scoring.toml"]);
    workspace.write(
        "bad.jsonl",
        "{\"question\": \"Why?\", \"answer\": \"So.\", \"contexts\": [\"a\"]}\n{\"question\": \"\", \"answer\": \"So.\"}\n{broken\n{\"question\": \"Who?\", \"answer\": [\"He\"]}\n",
    );
    score("bad.jsonl").refused_with(&["bad.jsonl:2: has an empty question", "bad.jsonl:3:", "bad.jsonl:4: `answer`"]);
    workspace.write("bad.csv", "question,anwser,contexts\nWhy?,So.,['a']\n");
    score("bad.csv").refused_with(&["bad.csv:1: has a column `anwser`: write `answer`"]);
    let mut rows = rows();
    rows[1]["user_input"] = json!("");
    workspace.write("bad.parquet", parquet(&rows));
    score("bad.parquet").refused_with(&["bad.parquet: row 2: has an empty question"]);
    workspace.write("bare.csv", "question,answer\nWhy?,So.\n");
    score("bare.csv").refused_with(&["`faithfulness` applies to no row", "`contexts` or `retrieved_contexts`"]);
    score("none.csv").refused_with(&["none.csv cannot be read"]);
    assert!(endpoint::asked(&server).await.is_empty());
}

#[test]
fn places_are_checked_against_the_documents_that_are_given() {
    let workspace = Workspace::new();
    std::fs::create_dir(workspace.file("manuals")).unwrap();
    workspace.write("manuals/mill.txt", "Mühle: the mill was built in 1700 and burned in 1820.\n");
    workspace.write("manuals/broken.epub", "no EPUB");
    let row = |place: Value| {
        let mut context = json!({ "document": "mill.txt", "text": "the mill was built in 1700" });
        context.as_object_mut().unwrap().extend(place.as_object().unwrap().clone());
        let evidence = json!([{ "document": "mill.txt", "quote": "built in 1700" }]);
        jsonl(&[json!({ "question": "When was it built?", "contexts": [context], "evidence": evidence })])
    };
    let score = ["score", "answers.jsonl", "--metric", "recall", "--json", "--documents", "manuals"];
    // In characters, by the name that files have for bytes.
    workspace.write("answers.jsonl", row(json!({ "span": { "start": 7, "end": 33 } })));
    workspace.run(&score).refused_with(&["answers.jsonl:1", "does not stand at bytes 7 to 33"]);
    for place in [json!({ "span": { "start": 8, "end": 34 } }), json!({ "start": 7, "end": 33 })] {
        workspace.write("answers.jsonl", row(place));
        let scored = workspace.run(&score).succeeds();
        assert_eq!(metric(&scored.json(), "recall")["mean"], 1.0, "{}", scored.out);
        assert!(scored.err.contains("broken.epub gives no document"), "{}", scored.err);
    }
    workspace.write("answers.jsonl", row(json!({ "span": { "start": 8, "end": 34 } })));
    // Without the documents evidence needs a place of its own.
    let text = std::fs::read_to_string(workspace.file("answers.jsonl")).unwrap();
    let quote = "\"quote\":\"built in 1700\"";
    workspace.write("answers.jsonl", text.replace(quote, &format!("{quote},\"span\":{{\"start\":21,\"end\":34}}")));
    let (told, recall) = ("`recall`: the places were not checked", ["score", "answers.jsonl", "--metric", "recall"]);
    let without = workspace.run(&recall).succeeds().out;
    assert!(without.contains(told), "{without}");
    let with = workspace.run(&[&recall[..], &["--documents", "manuals"]].concat()).succeeds().out;
    assert!(!with.contains(told), "{with}");
    workspace
        .run(&["score", "answers.jsonl", "--metric", "recall", "--documents", "nowhere"])
        .refused_with(&["nowhere"]);
}

#[tokio::test]
async fn of_three_judges_the_majority_decides_and_each_is_paid() {
    let server = endpoint::start_with(Words).await;
    let workspace = Workspace::new();
    config(&workspace, &server, METRICS);
    workspace.write("a.jsonl", jsonl(&rows()[..2]));
    let one = ["score", "a.jsonl", "-f", "scoring.toml", "--metric", "faithfulness", "--json"];
    let three = [&one[..], &["--judge", "gpt", "--judge", "other", "--judge", "third"]].concat();
    let estimate = |arguments: &[&str]| {
        let plan = workspace.run(&[arguments, &["--dry-run"]].concat()).succeeds().json();
        plan["cost"]["calls"].as_u64().unwrap()
    };
    assert_eq!((estimate(&one), estimate(&three)), (10, 26), "one writes the statements, three vote on four");
    let results = workspace.run(&three).succeeds().json();
    assert_eq!(metric(&results, "faithfulness")["mean"], 0.75);
    assert_eq!(results["spending"].as_object().unwrap().len(), 3);
}

#[tokio::test]
async fn a_budget_ends_scoring_with_what_was_paid_and_more_money_goes_on() {
    let server = endpoint::start_with(Words).await;
    let workspace = Workspace::new();
    config(&workspace, &server, METRICS);
    let rows: Vec<Value> = (0..20)
        .map(|i| json!({ "question": format!("What of {i}?"), "answer": format!("Item {i} is red."), "contexts": ["Item 3 is red."] }))
        .collect();
    workspace.write("a.jsonl", jsonl(&rows));
    let score = |usd: &str| {
        workspace.run(&[
            "score",
            "a.jsonl",
            "-f",
            "scoring.toml",
            "--metric",
            "faithfulness",
            "--budget-usd",
            usd,
            "--json",
        ])
    };
    let first = score("0.01").ends_with(4);
    assert!(first.err.contains("a run would end there"), "{}", first.err);
    let first = first.json();
    let partial = first["partial"].as_str().unwrap();
    assert!(partial.starts_with("the budget of $0.01 was reached"), "{partial}");
    let paid = endpoint::asked(&server).await.len();
    let scored = |results: &Value| metric(results, "faithfulness")["n_scored"].as_u64().unwrap();
    assert!(paid > 0 && scored(&first) < 20, "{paid}");
    assert_eq!(metric(&first, "faithfulness")["missing"], json!({ "budget": 20 - scored(&first) }));
    let second = score("5").succeeds().json();
    assert_eq!((scored(&second), &metric(&second, "faithfulness")["mean"]), (20, &json!(0.05)));
    let asked = endpoint::asked(&server).await;
    let different: std::collections::HashSet<&String> = asked.iter().collect();
    assert_eq!(asked.len(), different.len(), "nothing is paid twice");
}

#[tokio::test]
async fn a_judge_that_labelled_cases_qualify_is_said_to_be_qualified() {
    let server = endpoint::start_with(Words).await;
    let workspace = Workspace::new();
    config(&workspace, &server, METRICS);
    let space = "chunker = [\"sentence\"]\nretriever = [\"bm25\"]\ngenerator = { compact = { model = \"gpt\" } }";
    let evaluate = "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"faithfulness\", \"hit_rate\"]\n\
                    judge = \"gpt\"\nobjective = [\"faithfulness\"]";
    workspace.experiment(space, &format!("{}{evaluate}", models(&server)));
    let case = |i: usize| {
        let item = if i.is_multiple_of(2) { format!("Owl {i} hunts") } else { format!("Owl {i} reads") };
        let against = format!("Owl {i} hunts.");
        json!({ "kind": "supported", "against": against, "item": item, "label": i.is_multiple_of(2) })
    };
    workspace.write("cases.jsonl", jsonl(&(0..80).map(case).collect::<Vec<_>>()));
    workspace.write("a.jsonl", jsonl(&rows()));

    let score =
        || workspace.run(&["score", "a.jsonl", "-f", "scoring.toml", "--metric", "faithfulness"]).succeeds().out;
    let before = score();
    assert!(before.contains("judged by gpt, not qualified on labelled data"), "{before}");
    let tried = workspace.run(&["judge", "gpt", "--cases", "cases.jsonl", "--json"]).succeeds().json();
    assert_eq!(tried[0]["kinds"][0]["qualified"], true, "{tried}");
    let after = score();
    assert!(after.contains("judged by gpt, qualified on labelled data"), "{after}");
}

/// A judge who takes his time.
struct Slow(Words);

impl Respond for Slow {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        self.0.respond(request).set_delay(Duration::from_millis(60))
    }
}

#[tokio::test]
async fn after_ctrl_c_what_is_scored_is_shown_and_paid_once() {
    let server = endpoint::start_with(Slow(Words)).await;
    let workspace = Workspace::new();
    config(&workspace, &server, METRICS);
    let rows: Vec<Value> = (0..400)
        .map(|i| json!({ "question": format!("What of {i}?"), "answer": format!("Item {i} is red."), "contexts": ["Item 3 is red."] }))
        .collect();
    workspace.write("a.jsonl", jsonl(&rows));
    let score = ["score", "a.jsonl", "-f", "scoring.toml", "--metric", "faithfulness"];
    let mut child = workspace.command(&score).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while endpoint::asked(&server).await.len() < 30 {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was to be stopped");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let ended = child.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert_eq!(ended.status.code(), Some(130), "{err}");
    assert!(out.contains("PARTIAL: it was interrupted: ") && out.contains("of 400 scores are there"), "{out}{err}");
    workspace.run(&score).succeeds();
    let asked = endpoint::asked(&server).await;
    let different: std::collections::HashSet<&String> = asked.iter().collect();
    assert_eq!(asked.len(), different.len(), "a call under way when it was stopped is finished and kept");
}

#[test]
fn what_it_is_to_be_scored_by_is_checked_with_a_suggestion() {
    let workspace = Workspace::new();
    workspace.write("a.jsonl", jsonl(&rows()));
    workspace.run(&["score", "a.jsonl"]).refused_with(&["give `--metric NAME`"]);
    workspace.run(&["score", "a.jsonl", "--metric", "tokn_f1"]).refused_with(&["did you mean `token_f1`?"]);
    workspace.run(&["score", "a.jsonl", "--metric", "faithfulness"]).refused_with(&["give `--judge MODEL`"]);
    let output = ["score", "a.jsonl", "--metric", "token_f1", "--output", "scores.txt"];
    workspace.run(&output).refused_with(&["name it .jsonl or .csv"]);
    let alone = workspace.run(&["score", "a.jsonl", "--metric", "token_f1"]).succeeds();
    assert!(alone.out.contains("2 of 3"), "{}", alone.out);
}
