//! Everything is said in one way: flags that mean the same in every verb, what
//! earlier versions called otherwise, help, colours, and errors for programs.

use crate::{endpoint, workspace::Workspace};
use serde_json::Value;
use std::time::Duration;

const SPACE: &str = "chunker = [{ sentence = { chunk_size = 32, chunk_overlap = 0 } }]\nembedder = [\"tiny\"]\nretriever = [{ dense = { top_k = 2 } }, { bm25 = { top_k = 2 } }]";
const GOLDEN: &str = "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\", \"ndcg\"]";

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.experiment(SPACE, GOLDEN);
    workspace
}

/// The one record of a run with these many questions.
fn frozen(workspace: &Workspace, results: &Value) -> String {
    let run = results["run"].as_str().unwrap();
    std::fs::read_to_string(workspace.file("store/runs").join(run).join("frozen.json")).unwrap()
}

#[test]
fn the_experiment_file_has_one_flag_and_stands_nowhere_else() {
    let workspace = workspace();
    std::fs::rename(workspace.file("experiment.toml"), workspace.file("my.toml")).unwrap();
    for verb in [
        &["plan"][..],
        &["run"],
        &["leaderboard"],
        &["track"],
        &["judge"],
        &["golden", "anchor"],
        &["golden", "generate"],
        &["journal", "stats"],
        &["journal", "gc", "--yes"],
        &["compare", "t01", "t02"],
        &["query", "Why?"],
    ] {
        let line = [verb, &["my.toml"]].concat();
        let named = format!("-f: reverie {} -f my.toml", verb.join(" "));
        workspace.run(&line).refused_with(&["`my.toml`: pass the experiment file with -f", &named]);
    }
    for verb in ["stats", "verify"] {
        workspace.run(&["store", verb, "my.toml"]).refused_with(&["pass the experiment file with -f"]);
    }
    workspace.run(&["store", "copy", "my.toml", "there"]).refused_with(&["pass the experiment file with -f"]);
    workspace.run(&["plan"]).refused_with(&["experiment.toml", "with -f", "reverie init"]);
    workspace.run(&["plan", "-f", "my.toml"]).succeeds();
    workspace.run(&["run", "--experiment", "my.toml"]).succeeds();
    workspace.run(&["store", "stats", "-f", "my.toml"]).succeeds();
    workspace.run(&["store", "stats", "store", "-f", "my.toml"]).refused_with(&["cannot be used with"]);
}

#[test]
fn a_flag_of_an_earlier_version_is_refused_with_the_one_of_today() {
    let workspace = workspace();
    for (line, now) in [
        (&["score", "a.csv", "--plan"][..], "use --dry-run"),
        (&["score", "a.csv", "--config=experiment.toml"], "use -f/--experiment FILE"),
        (&["score", "a.csv", "--force"], "use --yes"),
        (&["golden", "import", "a.csv", "--force"], "use --yes"),
        (&["golden", "export", "golden.jsonl", "--to", "a.csv"], "use --output FILE"),
    ] {
        workspace.run(line).refused_with(&["any more", now]);
    }
    workspace.run(&["run", "--sett", "a=b"]).refused_with(&["--sett", "--set"]);
}

#[test]
fn a_dry_run_shows_the_plan_and_writes_nothing_into_the_store() {
    let workspace = workspace();
    let plan = workspace.run(&["plan"]).succeeds().out;
    assert_eq!(workspace.run(&["run", "--dry-run"]).succeeds().out, plan);
    assert!(!workspace.file("store/runs/animals.latest").exists());
    workspace.experiment(
        SPACE,
        "[dataset]\npath = \"made.jsonl\"\ngenerate = { size = 2, model = \"gpt\" }\n[models.gpt]\nchat.openai = { model = \"m\", base_url = \"http://127.0.0.1:9/v1\" }",
    );
    for verb in [&["plan"][..], &["run", "--dry-run"]] {
        workspace.run(verb).refused_with(&["made.jsonl", "golden generate --dry-run"]);
    }
}

#[test]
fn what_removes_or_replaces_needs_a_yes_and_can_be_asked_what_it_would_do() {
    let workspace = workspace();
    workspace.run(&["run"]).succeeds();
    for verb in [&["store", "gc"][..], &["journal", "gc"], &["golden", "anchor"]] {
        let with = |flags: &[&str]| workspace.run(&[verb, flags].concat());
        with(&[]).refused_with(&["--dry-run", "--yes"]);
        with(&["--dry-run"]).succeeds();
        with(&["--dry-run", "--yes"]).refused_with(&["cannot be used with"]);
        with(&["--yes"]).succeeds();
    }
    let golden = || std::fs::read_to_string(workspace.file("golden.jsonl")).unwrap();
    let before = golden();
    workspace.run(&["golden", "split", "golden.jsonl", "--dry-run"]).succeeds();
    assert_eq!(golden(), before);
    workspace.run(&["golden", "import", "golden.jsonl", "--output", "new.csv", "--dry-run"]).succeeds();
    assert!(!workspace.file("new.csv").exists());
    let told = workspace.run(&["store", "copy", "there", "--dry-run"]).succeeds();
    assert!(told.out.contains("would write") && !workspace.file("there").exists(), "{}", told.out);
    workspace.run(&["store", "copy", "there"]).succeeds();
    let told = workspace.run(&["store", "copy", "store", "there", "--dry-run", "--json"]).succeeds().json();
    assert_eq!(told["missing"]["objects"], 0, "{told}");
}

#[tokio::test]
async fn judges_and_noise_are_priced_before_they_are_asked() {
    let server = endpoint::start(Duration::ZERO).await;
    let workspace = Workspace::new();
    let space = format!("{SPACE}\ngenerator = [{{ compact = {{ model = \"gpt\" }} }}]");
    let rest = format!(
        "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"token_f1\"]\n{}",
        endpoint::model(&server)
    );
    workspace.experiment(&space, &rest);
    workspace.run(&["run"]).succeeds();
    let paid = endpoint::asked(&server).await.len();
    let noise = ["noise", "t01", "--metric", "token_f1", "--questions", "4", "--answers", "3", "--dry-run"];
    let told = workspace.run(&noise).succeeds().out;
    assert!(told.contains("gpt: 12 calls"), "{told}");
    let judge = workspace.run(&["judge", "gpt", "--planted", "2", "--dry-run", "--json"]).succeeds().json();
    assert_eq!(judge["cost"]["calls"], judge["cases"], "{judge}");
    assert_eq!(endpoint::asked(&server).await.len(), paid, "nobody was asked");
    workspace
        .run(&["golden", "generate", "--model", "tiny", "--dry-run"])
        .refused_with(&["`tiny`", "only a chat model"]);
}

#[test]
fn a_limit_holds_for_questions_in_the_experiment_file_too() {
    let workspace = Workspace::new();
    let row = |question: &str| format!("[[dataset.rows]]\nquestion = \"{question}\"\nreference = \"mice\"\n");
    let rows = ["What do owls eat?", "Who eats mice?", "What hunts at night?"].map(row).concat();
    workspace.experiment(
        "chunker = [\"sentence\"]\nretriever = [\"bm25\"]",
        &format!("{rows}[evaluate]\nmetrics = [\"context_tokens\"]"),
    );
    let questions =
        |arguments: &[&str]| workspace.run(arguments).succeeds().json()["dataset"]["questions"].as_u64().unwrap();
    assert_eq!(questions(&["plan", "--json"]), 3);
    assert_eq!(questions(&["plan", "--limit", "2", "--json"]), 2);
}

#[test]
fn a_value_of_the_file_is_replaced_for_one_command_and_the_record_says_so() {
    let workspace = workspace();
    let set = ["--set", "space.retriever.bm25.top_k=3", "--set", "evaluate.metrics=[\"recall\"]", "--limit", "3"];
    let plan = workspace.run(&[&["plan", "--json"][..], &set].concat()).succeeds().json();
    assert_eq!((&plan["trials"], &plan["dataset"]["questions"]), (&2.into(), &3.into()), "{plan}");
    let quick = workspace.run(&[&["run", "--json"][..], &set].concat()).succeeds().json();
    assert_eq!(quick["questions"].as_array().unwrap().len(), 3);
    let record = frozen(&workspace, &quick);
    assert!(record.contains("top_k = 3") && record.contains("limit = 3") && !record.contains("ndcg"), "{record}");
    let kept = workspace.file("store/runs").join(quick["run"].as_str().unwrap()).join("experiment.toml");
    assert!(std::fs::read_to_string(kept).unwrap().contains("limit = 3"));
    let shown = workspace.run(&["leaderboard"]).succeeds();
    assert!(shown.err.contains("since that run: ") && shown.err.contains("[dataset]"), "{}", shown.err);
    let whole = workspace.run(&["run", "--json"]).succeeds().json();
    assert_ne!(whole["run"], quick["run"]);
    assert!(!frozen(&workspace, &whole).contains("limit = 3"), "the file is as it was");
}

#[test]
fn mistakes_in_what_replaces_a_value_are_told_like_those_of_the_file() {
    let workspace = workspace();
    let told = |set: &str| workspace.run(&["run", "--set", set]);
    told("space.retriever.bm25.top_k=three").refused_with(&[
        "--set space.retriever.bm25.top_k: space.retriever[1]: invalid type: string \"three\", expected a whole number",
        "    space.retriever.bm25.top_k=three\n                               ^",
    ]);
    told("corpus.incluse=x").refused_with(&["--set corpus.incluse: ", "did you mean `include`?"]);
    told("nonsense").refused_with(&["--set: `nonsense` names no key"]);
    workspace.run(&["run", "--limit", "0"]).refused_with(&["--limit"]);
    workspace.experiment(SPACE, "");
    workspace.run(&["plan", "--limit", "3"]).refused_with(&["--limit: there are no golden questions"]);
}

#[test]
fn quiet_leaves_results_and_errors() {
    let workspace = workspace();
    let run = workspace.run(&["run", "--quiet"]).succeeds();
    assert_eq!(run.err, "");
    assert!(run.out.contains("report: "));
    workspace.write("documents/new.txt", "Something new.");
    assert_eq!(workspace.run(&["leaderboard", "--quiet"]).succeeds().err, "");
    assert!(workspace.run(&["leaderboard"]).succeeds().err.contains("since that run"));
    assert!(workspace.run(&["show", "t99", "--quiet"]).err.contains("error: "));
}

#[test]
fn colours_are_chosen_by_a_flag_and_by_the_environment() {
    let workspace = workspace();
    let is_coloured = |line: &[&str]| {
        let done = workspace.run(line);
        format!("{}{}", done.out, done.err).contains("\x1b[")
    };
    for line in [&["--help"][..], &["show", "t99"], &["nonsense"]] {
        assert!(!is_coloured(line), "{line:?}: a pipe has no colours");
        assert!(is_coloured(&[&["--color", "always"], line].concat()), "{line:?}");
        assert!(!is_coloured(&[&["--color=never"], line].concat()), "{line:?}");
    }
    workspace.run(&["plan", "--color", "red"]).refused_with(&["always", "never"]);
}

#[test]
fn errors_are_json_where_results_would_be() {
    let workspace = workspace();
    let error = |line: &[&str], code: i32| -> Value {
        let done = workspace.run(line).ends_with(code);
        assert_eq!(done.out, "");
        let error: Value = serde_json::from_str(&done.err).unwrap();
        assert_eq!(error["error"]["exit_code"], code, "{error}");
        error["error"].clone()
    };
    let missing = error(&["leaderboard", "--json"], 1);
    assert!(missing["message"].as_str().unwrap().contains("has no finished run"), "{missing}");
    assert_eq!(missing["mistakes"], serde_json::json!([]));
    let flag = error(&["run", "--json", "--plan"], 2);
    assert!(flag["message"].as_str().unwrap().contains("use --dry-run"), "{flag}");
    workspace.experiment("chunker = [\"sentence\", { sentence = { chunk_sise = 3 } }]\nretriever = \"bm25\"", "");
    let told = error(&["plan", "--json", "--set", "store=3"], 2);
    let mistakes = told["mistakes"].as_array().unwrap();
    assert_eq!(mistakes.len(), 2, "{told}");
    assert_eq!(mistakes[0]["file"], "experiment.toml");
    assert_eq!(mistakes[0]["line"], 11, "{told}");
    assert_eq!(mistakes[0]["key"], "space.chunker[1].sentence.chunk_sise", "{told}");
    assert_eq!((&mistakes[1]["file"], &mistakes[1]["key"]), (&Value::Null, &"store".into()), "{told}");
    workspace.write("bad.jsonl", "{\"id\": \"a\", \"question\": \"Why?\"}\nnonsense\n");
    let rows = error(&["golden", "stats", "bad.jsonl", "--json"], 2);
    assert_eq!(rows["mistakes"][0]["line"], 2, "{rows}");
    assert_eq!(rows["mistakes"][0]["file"], "bad.jsonl", "{rows}");
}

#[test]
fn help_shows_the_verbs_in_groups_and_shells_complete_them() {
    let workspace = workspace();
    let help = workspace.run(&["--help"]).succeeds().out;
    for part in ["\nRun:\n  demo ", "\nLook:\n  ui ", "\nJudges:\n", "\nOptions:\n", "Exit codes:"] {
        assert!(help.contains(part), "{part}: {help}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = workspace.run(&["completions", shell]).succeeds().out;
        assert!(script.contains("leaderboard") && script.contains("dry-run"), "{script}");
    }
    workspace.run(&["completions", "tcsh"]).refused_with(&["bash", "zsh", "fish"]);
}

#[test]
fn a_trial_is_not_compared_with_itself() {
    let workspace = workspace();
    workspace.run(&["compare", "t02", "t02"]).refused_with(&["`t02` is named twice"]);
}

#[test]
fn messages_name_what_is_there_and_no_types_of_the_program() {
    let workspace = workspace();
    workspace.experiment("chunker = \"sentence\"\nembedder = [\"\"]\nretriever = [\"dense\"]", "");
    workspace.run(&["plan"]).refused_with(&["no model is named; there are tiny"]);
    let text = std::fs::read_to_string(workspace.file("experiment.toml")).unwrap();
    workspace.write("experiment.toml", text.replace("retriever = [\"dense\"]", "retriever = [\"dense\""));
    workspace.run(&["plan"]).refused_with(&["this bracket is never closed", "\n1 mistake in the experiment"]);
    workspace.write("answers.csv", format!("%PDF-1.7\n{}", "\u{1}\"x\n".repeat(3000)));
    let told = workspace.run(&["score", "answers.csv", "--metric", "token_f1"]).ends_with(2);
    assert!(told.err.lines().count() < 60, "{}", told.err.lines().count());
}

#[test]
fn a_key_that_crosses_a_network_without_tls_is_told() {
    let workspace = workspace();
    // Nothing listens there, and it is no address of this machine alone.
    for (url, is_told) in [("http://0.0.0.0:1", true), ("http://127.0.0.1:1", false), ("https://0.0.0.0:1", false)] {
        let mut command = workspace.command(&["query", "Why?", "--url", url]);
        let outcome = crate::workspace::Outcome::of(command.env("REVERIE_KEY", "secret-key").output().unwrap());
        assert_ne!(outcome.code, Some(0));
        assert_eq!(outcome.err.contains("without TLS"), is_told, "{}", outcome.err);
        assert!(!outcome.err.contains("secret-key"), "{}", outcome.err);
    }
}
