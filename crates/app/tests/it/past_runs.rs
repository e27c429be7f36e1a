//! Which run the verbs look at: the last one, and what is said where that was a
//! try, or where another experiment file made it. And the text of documents.

use crate::workspace::Workspace;

const SPACE: &str = "chunker = [{ sentence = { chunk_size = 32, chunk_overlap = 0 } }]\nretriever = [{ bm25 = { top_k = 1 } }, { bm25 = { top_k = 3 } }]";
const GOLDEN: &str = "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\", \"ndcg\"]";

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.experiment(SPACE, GOLDEN);
    workspace
}

fn run_of(workspace: &Workspace, arguments: &[&str]) -> String {
    workspace.run(arguments).succeeds().json()["run"].as_str().unwrap().to_owned()
}

#[test]
fn that_the_last_run_was_a_try_is_said_and_another_run_can_be_chosen() {
    let workspace = workspace();
    let whole = run_of(&workspace, &["run", "--json"]);
    assert!(!workspace.run(&["leaderboard"]).succeeds().err.contains("was started with"));
    let tried = run_of(&workspace, &["run", "--limit", "1", "--json"]);
    assert_ne!(whole, tried);
    let told = format!(
        "run {tried} was started with --limit 1; the last run without overrides is {whole}; show it with \
         `--run {whole}`"
    );
    for verb in [
        &["leaderboard"][..],
        &["show", "t01"],
        &["compare", "t01", "t02"],
        &["finalists"],
        &["query", "What do owls eat?"],
    ] {
        let last = workspace.run(verb).succeeds();
        assert!(last.err.contains(&told), "{verb:?}: {}", last.err);
        let chosen = workspace.run(&[verb, &["--run", &whole]].concat()).succeeds();
        assert!(!chosen.err.contains("was started with"), "{verb:?}: {}", chosen.err);
    }
    let short = whole.strip_prefix("animals-").unwrap();
    for id in [&whole, short, &short[..6]] {
        assert_eq!(run_of(&workspace, &["leaderboard", "--json", "--run", id]), whole, "{id}");
    }
    let several = workspace.run(&["leaderboard", "--run", "animals"]).ends_with(1);
    assert!(
        several.err.contains("several runs begin with `animals`") && several.err.contains(&tried),
        "{}",
        several.err
    );
    let none = workspace.run(&["leaderboard", "--run", "zebra"]).ends_with(1);
    assert!(none.err.contains("no finished run `zebra`; there are") && none.err.contains(&whole), "{}", none.err);

    let listed = workspace.run(&["runs", "--json"]).succeeds().json();
    assert_eq!(listed[0]["run"], tried.as_str());
    assert_eq!(listed[0]["overrides"], serde_json::json!(["--limit 1"]));
    assert_eq!((&listed[0]["questions"], &listed[1]["overrides"]), (&1.into(), &serde_json::json!([])));
    let shown = workspace.run(&["runs"]).succeeds().out;
    assert!(shown.contains(&whole) && shown.contains("--limit 1"), "{shown}");
}

#[test]
fn the_file_s_own_run_is_no_try_although_a_flag_asks_for_the_same() {
    let workspace = workspace();
    run_of(&workspace, &["run", "--json"]);
    run_of(&workspace, &["run", "--limit", "9999", "--json"]);
    let listed = workspace.run(&["runs", "--json"]).succeeds().json();
    assert_eq!(listed.as_array().unwrap().len(), 1, "the same plan is the same run: {listed}");
    assert_eq!(listed[0]["overrides"], serde_json::json!([]));
}

#[test]
fn two_files_of_one_name_are_told() {
    let workspace = workspace();
    let first = run_of(&workspace, &["run", "--json"]);
    let other = std::fs::read_to_string(workspace.file("experiment.toml")).unwrap().replace("top_k = 3", "top_k = 2");
    workspace.write("other.toml", other);
    let run = workspace.run(&["run", "-f", "other.toml", "--json"]).succeeds();
    assert!(
        run.err.contains("experiment.toml has the same `name` (animals)") && run.err.contains(&first),
        "{}",
        run.err
    );
    let looked = workspace.run(&["leaderboard"]).succeeds();
    assert!(
        looked.err.contains("came from other.toml, which has the same `name` as experiment.toml"),
        "{}",
        looked.err
    );
    assert!(!workspace.run(&["leaderboard", "-f", "other.toml"]).succeeds().err.contains("came from"));
}

#[test]
fn the_leaderboard_as_json_is_what_the_board_says_without_passages() {
    let workspace = workspace();
    let results = workspace.run(&["run", "--json"]).succeeds().json();
    let board = workspace.run(&["leaderboard", "--json"]).succeeds();
    assert!(!board.out.contains("\"passages\""), "{}", board.out);
    let board = board.json();
    let winners = board["rows"].as_array().unwrap().iter().filter(|row| row["standing"] == "winner");
    let named = winners.map(|row| row["id"].clone()).next().unwrap_or_default();
    assert_eq!(board["winner"], named, "the key and the rows say the same");
    assert_eq!(board["leads"], results["trials"][0]["trial"]["id"]);
    assert_eq!(board["winner"].is_null(), board["no_winner"].is_string());
}

#[test]
fn a_document_is_printed_as_it_is_parsed() {
    let workspace = workspace();
    let shown = workspace.run(&["document", "owls.txt"]).succeeds().out;
    let file = std::fs::read_to_string(workspace.file("documents/owls.txt")).unwrap();
    assert_eq!(shown.trim(), file.trim());
    let read = workspace.run(&["document", "owls.txt", "--json"]).succeeds().json();
    assert_eq!((&read["path"], read["text"].as_str().unwrap().trim()), (&"owls.txt".into(), file.trim()));
    let near = workspace.run(&["document", "owl.txt"]).ends_with(1);
    assert!(near.err.contains("the corpus has no file `owl.txt`; did you mean `owls.txt`?"), "{}", near.err);
}
