//! RAG systems that are not ours, as trials: behind HTTP and as a file of answers, beside pipelines.

use crate::workspace::Workspace;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};
use wiremock::{
    Mock, MockServer, Request, Respond, ResponseTemplate,
    matchers::{method, path},
};

/// What the application knows: words of a question, its answer, and the passage that holds it.
const KNOWN: [(&str, &str, &str, &str); 4] = [
    (
        "owl",
        "By up to 270 degrees.",
        "An owl cannot move its eyes, and turns its head by up to 270 degrees instead.",
        "owls",
    ),
    ("dams", "From branches and mud.", "Beavers build dams from branches and mud.", "otters.md"),
    ("weigh", "As much as a small car.", "Its heart weighs as much as a small car.", "whales.html"),
    ("songs", "Twenty minutes.", "Humpback whales sing songs that last for twenty minutes.", "nowhere.pdf"),
];

/// How the application behaves.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Behaviour {
    #[default]
    Right,
    /// It loses every passage of the document with this name.
    Loses(&'static str),
    /// Another name for the answer.
    Renamed,
    /// Its text is not that of any document.
    Invents,
    /// It repeats another question than it was asked.
    OtherQuestion,
    /// It fails on the question about songs.
    FailsOnce,
    /// It shows a page for people.
    Page,
}

/// A RAG application behind HTTP.
#[derive(Clone, Default)]
struct Application {
    behaviour: Arc<Mutex<Behaviour>>,
    calls: Arc<AtomicUsize>,
}

impl Respond for Application {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        self.calls.fetch_add(1, SeqCst);
        let behaviour = *self.behaviour.lock().unwrap();
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let question = body["q"].as_str().unwrap().to_owned();
        let Some((_, answer, text, document)) = KNOWN.into_iter().find(|(word, ..)| question.contains(word)) else {
            return ResponseTemplate::new(422);
        };
        let text = if behaviour == Behaviour::Invents { "A sentence that stands in no document at all." } else { text };
        let other = "Otters live along rivers and coasts.";
        let mut passages = vec![json!({ "content": text, "source": document }), json!({ "content": other })];
        if matches!(behaviour, Behaviour::Loses(lost) if document.starts_with(lost)) {
            passages.remove(0);
        }
        passages.truncate(body["k"].as_u64().unwrap_or(2) as usize);
        match behaviour {
            Behaviour::Renamed => {
                ResponseTemplate::new(200).set_body_json(json!({ "output": answer, "docs": passages }))
            }
            Behaviour::OtherQuestion => {
                let echoed = json!({ "answer": answer, "passages": passages, "question": "What else?" });
                ResponseTemplate::new(200).set_body_json(echoed)
            }
            Behaviour::Page => ResponseTemplate::new(200).set_body_raw("<html>Please log in</html>", "text/html"),
            Behaviour::FailsOnce if question.contains("songs") => {
                ResponseTemplate::new(400).set_body_string("no songs")
            }
            _ => ResponseTemplate::new(200).set_body_json(
                json!({ "answer": answer, "passages": passages, "question": question, "trace": "tr-1" }),
            ),
        }
    }
}

async fn start(application: &Application) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(method("POST")).and(path("/ask")).respond_with(application.clone()).mount(&server).await;
    server
}

/// A workspace with an experiment that compares the application with a pipeline.
fn workspace(server: &MockServer, system: &str) -> Workspace {
    let workspace = Workspace::new();
    let http = format!(
        "http = {{ url = \"{}/ask\", body = {{ q = \"{{question}}\", k = \"{{k}}\" }}, passages = \"passages\", passage = {{ text = \
         \"content\", document = \"source\" }}, question = \"question\", trace = \"trace\" }}",
        server.uri()
    );
    workspace.experiment(
        "chunker = { sentence = { chunk_size = 32, chunk_overlap = 0 } }\nretriever = { bm25 = { top_k = 2 } }",
        &format!(
            "[dataset]\npath = \"golden.jsonl\"\n\n[systems.app]\n{http}\nparameters = {{ k = 2 }}\n{system}\n\n[evaluate]\nmetrics = \
             [\"recall\", \"ndcg\", \"token_f1\"]\nobjective = [\"recall\"]"
        ),
    );
    workspace
}

/// The leaderboard of the last run.
fn leaderboard(workspace: &Workspace) -> Value {
    workspace.run(&["leaderboard", "--json"]).succeeds().json()
}

/// The rows of the leaderboard by the label `system`.
fn by_system(board: &Value) -> BTreeMap<String, Vec<Value>> {
    let mut rows: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for row in board["rows"].as_array().unwrap() {
        let system = row["labels"]["system"].as_str().unwrap_or("none").to_owned();
        rows.entry(system).or_default().push(row.clone());
    }
    rows
}

/// The mean of a column in a row.
fn mean(board: &Value, row: &Value, column: &str) -> Option<f64> {
    let place = board["columns"].as_array().unwrap().iter().position(|known| known["name"] == column).unwrap();
    let cell = &row["cells"][place];
    cell.as_f64().or_else(|| cell["mean"].as_f64())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_system_is_a_trial_whose_passages_are_found_by_their_text() {
    let application = Application::default();
    let server = start(&application).await;
    let workspace = workspace(&server, "");
    let board = {
        workspace.run(&["run"]).succeeds();
        leaderboard(&workspace)
    };
    let rows = by_system(&board);
    let (app, ours) = (&rows["app"][0], &rows["none"][0]);
    assert_eq!((rows["app"].len(), rows["none"].len()), (1, 1));
    // The document of one passage is not named as in the corpus, and one passage names none.
    assert_eq!(mean(&board, app, "recall"), Some(1.0), "{app:#}");
    assert!(mean(&board, app, "token_f1").unwrap() > 0.8, "{app:#}");
    assert_eq!(mean(&board, ours, "token_f1"), None, "the pipeline writes no answers");
    assert_eq!((mean(&board, app, "cost_usd"), mean(&board, app, "tokens")), (None, None), "unknown is not 0");
    assert_eq!(application.calls.load(SeqCst), 4, "the question that is asked before all else is asked once");
    // Nothing is asked again, in the next run or after the artifacts are gone.
    workspace.run(&["run"]).succeeds();
    workspace.forget_artifacts();
    workspace.run(&["run"]).succeeds();
    assert_eq!(application.calls.load(SeqCst), 4);
    let shown = workspace.run(&["show", app["id"].as_str().unwrap(), "--json"]).succeeds().out;
    assert!(shown.contains("tr-1"), "the trace is kept: {shown}");
    workspace.run(&["serve", "--trial", app["id"].as_str().unwrap()]).fails_with(&["does not run"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_are_axes_and_a_lost_passage_is_seen() {
    let application = Application::default();
    *application.behaviour.lock().unwrap() = Behaviour::Loses("whales");
    let server = start(&application).await;
    let workspace = workspace(&server, "price = { call = 0.5 }");
    let file = std::fs::read_to_string(workspace.file("experiment.toml")).unwrap();
    workspace.write("experiment.toml", file.replace("parameters = { k = 2 }", "parameters = { k = [1, 2] }"));
    let board = {
        workspace.run(&["run"]).succeeds();
        leaderboard(&workspace)
    };
    let rows = by_system(&board);
    let labels: Vec<&str> = rows["app"].iter().map(|row| row["labels"]["system.k"].as_str().unwrap()).collect();
    assert_eq!(labels.len(), 2);
    assert!(labels.contains(&"1") && labels.contains(&"2"), "{labels:?}");
    for row in &rows["app"] {
        assert_eq!(mean(&board, row, "recall"), Some(0.75), "{row:#}");
        assert_eq!(mean(&board, row, "cost_usd"), Some(2.0), "four calls at a stated price");
    }
    assert_eq!(application.calls.load(SeqCst), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_system_ends_the_run_before_anything_is_paid() {
    for (behaviour, parts) in [
        (Behaviour::Renamed, &["systems.app", "`answer`", "`output`", "nothing else was asked or paid"][..]),
        (Behaviour::OtherQuestion, &["What else?"]),
        (Behaviour::Page, &["systems.app", "HTML", "check `url`"]),
    ] {
        let application = Application::default();
        *application.behaviour.lock().unwrap() = behaviour;
        let server = start(&application).await;
        workspace(&server, "").run(&["run"]).refused_with(parts);
        assert_eq!(application.calls.load(SeqCst), 1, "the same call would be answered so again");
    }
    let server = start(&Application::default()).await;
    let workspace = workspace(&server, "");
    let file = std::fs::read_to_string(workspace.file("experiment.toml")).unwrap();
    for (from, to, parts) in [
        ("q = \"{question}\"", "q = \"ask\"", &["experiment.toml:", "question"][..]),
        ("\"{k}\"", "\"{depth}\"", &["experiment.toml:", "depth"]),
        ("parameters = { k = 2 }", "parameters = { k = 2, unused = 1 }", &["experiment.toml:", "unused"]),
        ("http = {", "htp = {", &["experiment.toml:", "htp"]),
        ("passages = \"passages\"", "passages = \"a[\"", &["experiment.toml:"]),
    ] {
        assert!(file.contains(from), "{from}");
        workspace.write("experiment.toml", file.replace(from, to));
        workspace.run(&["run"]).refused_with(parts);
    }
    workspace.write("experiment.toml", &file);
    let budget = file.replace("[evaluate]\n", "[evaluate]\nbudget = { usd = 1.0 }\n");
    workspace.write("experiment.toml", budget);
    workspace.run(&["run"]).refused_with(&["systems.app", "price"]);
    // A price that says nothing is none.
    let empty = file
        .replace("[evaluate]\n", "[evaluate]\nbudget = { usd = 1.0 }\n")
        .replace("parameters =", "price = {}\nparameters =");
    workspace.write("experiment.toml", empty);
    workspace.run(&["run"]).refused_with(&["systems.app", "price"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_fails_is_no_score_of_0_and_is_asked_again() {
    let application = Application::default();
    *application.behaviour.lock().unwrap() = Behaviour::FailsOnce;
    let server = start(&application).await;
    let workspace = workspace(&server, "");
    let board = {
        workspace.run(&["run"]);
        leaderboard(&workspace)
    };
    let app = by_system(&board)["app"][0].clone();
    assert_eq!(mean(&board, &app, "recall"), Some(1.0), "of three questions: {app:#}");
    let warnings = board["warnings"].to_string();
    assert!(warnings.contains("1 of 4 questions have no reply"), "{warnings}");
    *application.behaviour.lock().unwrap() = Behaviour::Right;
    let before = application.calls.load(SeqCst);
    let board = {
        workspace.run(&["run"]).succeeds();
        leaderboard(&workspace)
    };
    assert_eq!(mean(&board, &by_system(&board)["app"][0], "recall"), Some(1.0));
    assert_eq!(application.calls.load(SeqCst), before + 1, "only what failed is asked again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_system_is_the_baseline_of_its_later_versions() {
    let application = Application::default();
    let server = start(&application).await;
    let workspace = workspace(&server, "version = \"1\"");
    workspace.run(&["run"]).succeeds();
    let app = by_system(&leaderboard(&workspace))["app"][0]["id"].as_str().unwrap().to_owned();
    let made = workspace.run(&["promote", &app, "--output", "before"]).succeeds();
    assert!(made.out.contains("reverie check --against before"), "{}", made.out);
    workspace.run(&["serve", "before"]).fails_with(&["the system `app`, which Reverie does not run"]);
    let same = workspace.run(&["check", "--against", "before"]).succeeds();
    assert!(same.out.contains("nothing has changed"), "{}", same.out);

    *application.behaviour.lock().unwrap() = Behaviour::Loses("whales");
    let file = std::fs::read_to_string(workspace.file("experiment.toml")).unwrap();
    workspace.write("experiment.toml", file.replace("version = \"1\"", "version = \"2\""));
    workspace.run(&["run"]).succeeds();
    assert_eq!(application.calls.load(SeqCst), 8, "another version is asked anew");
    // Four questions prove nothing, and the loss is told.
    let checked = workspace.run(&["check", "--against", "before", "--json"]).ends_with(3).json();
    let recall = &checked["metrics"][0];
    assert_eq!(
        (recall["metric"].as_str(), recall["difference"].as_f64()),
        (Some("recall"), Some(-0.25)),
        "{checked:#}"
    );
    // A run without the system has nothing to compare.
    let without = file.replace("[systems.app]", "[systems.other]");
    workspace.write("experiment.toml", without);
    workspace.run(&["run"]).succeeds();
    workspace.run(&["check", "--against", "before"]).fails_with(&["the baseline is the system `app`", "--trial"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn passages_that_stand_in_no_document_are_irrelevant_and_told_or_unknown() {
    let application = Application::default();
    *application.behaviour.lock().unwrap() = Behaviour::Invents;
    let server = start(&application).await;
    let irrelevant = workspace(&server, "");
    let board = {
        irrelevant.run(&["run"]).succeeds();
        leaderboard(&irrelevant)
    };
    assert_eq!(mean(&board, &by_system(&board)["app"][0], "recall"), Some(0.0));
    assert!(board["warnings"].to_string().contains("4 of 8 passages are in no document"), "{}", board["warnings"]);
    let unknown = workspace(&server, "unanchored = \"unknown\"");
    let board = {
        unknown.run(&["run"]);
        leaderboard(&unknown)
    };
    assert_eq!(mean(&board, &by_system(&board)["app"][0], "recall"), None);
}

#[test]
fn answers_that_exist_already_are_a_trial_matched_by_question() {
    let workspace = Workspace::new();
    let answers = [
        ("By how many degrees does an owl turn its head?", "By up to 270 degrees.", KNOWN[0].2),
        ("What do beavers  build dams from?", "Stones.", "Otters live along rivers and coasts."),
        ("What is something else?", "No matter.", "No matter."),
        ("How long do songs of humpback whales last?", "Twenty minutes.", KNOWN[3].2),
    ];
    let rows = answers.map(|(question, answer, context)| {
        json!({ "user_input": question, "response": answer, "retrieved_contexts": [context] }).to_string()
    });
    workspace.write("ragas.jsonl", rows.join("\n"));
    workspace.write(
        "experiment.toml",
        "name = \"animals\"\nstore = \"store\"\n[corpus]\nsource = \"documents\"\n[dataset]\npath = \"golden.jsonl\"\n\
         [systems.ragas]\nanswers = { path = \"ragas.jsonl\" }\n[evaluate]\nmetrics = [\"recall\", \"exact_match\"]\n\
         objective = [\"recall\"]\n",
    );
    let found = workspace.run(&["run"]);
    assert!(found.err.contains("ragas.jsonl has 1 row about no question"), "{}", found.err);
    let board = leaderboard(&workspace);
    let row = &board["rows"][0];
    assert_eq!(row["labels"]["system"], "ragas");
    // Two of three answered questions; the fourth has no answer, which is not 0.
    let recall = mean(&board, row, "recall").unwrap();
    assert!((recall - 2.0 / 3.0).abs() < 1e-9, "{recall}");
    assert!(board["warnings"].to_string().contains("1 of 4 questions have no reply"));
    assert_eq!(mean(&board, row, "latency_p50"), None, "nobody knows how long they took");
}
