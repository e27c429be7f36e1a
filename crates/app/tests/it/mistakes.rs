//! Bad input is an error before work or money is spent, with what to do.

use crate::workspace::Workspace;

const SPACE: &str = "chunker = [\"sentence\"]\nembedder = [\"tiny\"]\nretriever = [\"dense\"]";

#[test]
fn all_mistakes_of_a_file_are_reported_with_place_and_suggestion() {
    let workspace = Workspace::new();
    workspace.write(
        "experiment.toml",
        "name = \"x\"\n[corpus]\nsource = \"documents\"\nincluse = []\n[space]\nchunker = [{ sentense = {} }, { sentence = { chunk_size = \"big\" } }]\nembedder = [\"minilm\"]\nretriever = [{ dense = { top_k = 2 } }]\n[evaluate]\nmetrics = [\"faithfulness\"]\n",
    );
    workspace.run(&["run"]).refused_with(&[
        "experiment.toml:4:1: corpus: unknown field `incluse`",
        "did you mean `include`?",
        "unknown variant `sentense`",
        "did you mean `sentence`?",
        "experiment.toml:6:",
        "there is no model `minilm`",
        "`faithfulness` needs a judge",
        "nothing was run",
    ]);
}

#[test]
fn settings_that_cannot_work_together_are_refused() {
    let workspace = Workspace::new();
    workspace.experiment("chunker = [{ sentence = { chunk_size = 10, chunk_overlap = 20 } }]\nembedder = [\"tiny\"]\nretriever = [\"dense\"]", "");
    workspace.run(&["plan"]).refused_with(&["space.chunker", "chunk_overlap"]);
    workspace.experiment("chunker = [\"sentence\"]\nretriever = [\"dense\"]", "");
    workspace.run(&["plan"]).refused_with(&["a retriever searches vectors, but the axis `embedder` is missing"]);
}

#[test]
fn a_judge_that_is_not_qualified_cannot_choose() {
    let workspace = Workspace::new();
    let rest = "[dataset]\npath = \"golden.jsonl\"\n[models.gpt]\nchat.openai = { model = \"m\", base_url = \"http://127.0.0.1:1/v1\" }\n[evaluate]\nmetrics = [\"faithfulness\"]\njudge = \"gpt\"\nobjective = [\"faithfulness\"]\n";
    workspace.experiment(&format!("{SPACE}\ngenerator = [{{ compact = {{ model = \"gpt\" }} }}]"), rest);
    workspace.run(&["plan"]).refused_with(&["cannot choose a winner"]);
}

#[test]
fn evidence_that_is_not_in_its_document_is_refused() {
    let workspace = Workspace::new();
    workspace.write(
        "golden.jsonl",
        r#"{"id": "q", "question": "Why?", "evidence": [{"document": "owls.txt", "quote": "Owls read newspapers."}]}"#,
    );
    workspace.experiment(SPACE, "[dataset]\npath = \"golden.jsonl\"\n");
    workspace.run(&["run"]).refused_with(&["question `q`", "owls.txt", "Owls read newspapers."]);
    assert!(!workspace.file("store/runs/animals.latest").exists());
}

#[test]
fn a_missing_key_an_unreachable_endpoint_and_a_missing_model_are_refused_together() {
    let workspace = Workspace::new();
    let rest = "[models.far]\nchat.openai = { model = \"m\", base_url = \"http://127.0.0.1:9/v1\" }\n[models.locked]\nchat.openai = { model = \"m\", base_url = \"http://127.0.0.1:9/v1\", api_key_env = \"REVERIE_NO_SUCH_KEY\" }\n[models.gone]\nembedding.local = { model = \"all-minilm-l6-v2\" }\n";
    let space = "chunker = [\"sentence\"]\nembedder = [\"tiny\", \"gone\"]\nretriever = [\"dense\"]\ngenerator = [{ compact = { model = \"far\" } }, { refine = { model = \"locked\" } }]";
    workspace.experiment(space, rest);
    workspace.run(&["run"]).refused_with(&[
        "models.far",
        "cannot be reached",
        "REVERIE_NO_SUCH_KEY",
        "models.gone",
        "reverie models pull",
    ]);
}

#[tokio::test]
async fn a_budget_of_money_without_a_price_is_refused_before_anything_is_asked() {
    let server = crate::endpoint::start(std::time::Duration::ZERO).await;
    let workspace = Workspace::new();
    let space = format!("{SPACE}\ngenerator = [{{ compact = {{ model = \"gpt\" }} }}]");
    let rest = |budget: &str, price: &str| {
        let model = format!("chat.openai = {{ model = \"m\", base_url = \"{}/v1\"{price} }}", server.uri());
        format!(
            "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\"]\n{budget}\n[models.gpt]\n{model}\n"
        )
    };
    workspace.experiment(&space, &rest("budget = { usd = 0.5 }", ", price = { input = 1.0 }"));
    let parts = ["models.gpt", "$0.50", "`price = { input = …, output = … }`", "`chat.openai`", "0 where it is free"];
    for verb in ["plan", "run"] {
        workspace.run(&[verb]).refused_with(&parts);
    }
    workspace.experiment(&space, &rest("", ""));
    workspace.run(&["run", "--budget-usd", "0.5"]).refused_with(&parts);
    workspace.run(&["run", "--budget-usd=-1"]).refused_with(&["--budget-usd", "no amount of dollars"]);
    let requests = server.received_requests().await.unwrap();
    assert!(requests.iter().all(|request| request.url.path().ends_with("/models")), "only signs of life");
    workspace.experiment(&space, &rest("budget = { usd = 0 }", ", price = { input = 0, output = 0 }"));
    workspace.run(&["run"]).succeeds();
}

#[test]
fn an_empty_corpus_is_refused() {
    let workspace = Workspace::new();
    for name in ["otters.md", "owls.txt", "whales.html"] {
        std::fs::remove_file(workspace.file("documents").join(name)).unwrap();
    }
    workspace.write("documents/picture.png", b"\x89PNG");
    workspace.experiment(SPACE, "");
    workspace.run(&["run"]).refused_with(&["png"]);
}

#[test]
fn an_unknown_experiment_file_says_how_to_make_one() {
    let workspace = Workspace::new();
    workspace.run(&["run", "-f", "none.toml"]).refused_with(&["none.toml", "reverie init"]);
}
