//! Warnings are shown before a run, after it and by a check, unless the experiment ignores them.

use crate::workspace::Workspace;
use serde_json::{Value, json};

const BM25: &str = "chunker = [{ sentence = { chunk_size = 32, chunk_overlap = 0 } }]\nretriever = [{ bm25 = { top_k = 1 } }, { bm25 = { top_k = 3 } }]";
const RECALL: &str = "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\", \"ndcg\"]";

/// Writes `golden.jsonl`: a question with evidence for each (question, document, quote).
fn golden(workspace: &Workspace, questions: &[(&str, &str, &str)]) {
    let line = |(number, (question, document, quote)): (usize, &(&str, &str, &str))| {
        let evidence = json!([{ "document": document, "quote": quote }]);
        json!({ "id": format!("q{number}"), "question": question, "evidence": evidence }).to_string()
    };
    let lines: Vec<String> = questions.iter().enumerate().map(line).collect();
    workspace.write("golden.jsonl", lines.join("\n"));
}

fn warnings<'a>(found: &'a Value, code: &str) -> Vec<&'a Value> {
    let all = found["warnings"].as_array().unwrap();
    all.iter().filter(|warning| warning["code"] == code).collect()
}

#[test]
fn trials_that_find_nothing_are_told_and_none_of_them_leads() {
    let workspace = Workspace::new();
    golden(
        &workspace,
        &[
            ("フクロウは頭を何度まで回すことができますか", "owls.txt", "turns its head by up to 270 degrees"),
            ("ビーバーは何を使ってダムを作りますか", "otters.md", "Beavers build dams from branches and mud."),
        ],
    );
    workspace.experiment(BM25, RECALL);
    let run = workspace.run(&["run", "--json"]).succeeds().json();
    assert!(run["winner"]["refused"].as_str().unwrap().starts_with("every trial has the worst score"), "{run}");
    let found = warnings(&run, "retrieves-nothing");
    assert_eq!((&found[0]["count"], &found[0]["total"]), (&json!(2), &json!(2)), "{run}");
    assert_eq!(found[0]["trials"], json!(["t01", "t02"]));
    let board = workspace.run(&["leaderboard"]).succeeds();
    assert!(!board.out.contains("leads"), "{}", board.out);
    let told = "all trials: nothing was retrieved for 2 of 2 questions, which share no word with any chunk";
    assert!(board.out.replace("\n  ", " ").contains(told), "{}", board.out);
}

#[test]
fn files_of_other_types_are_told_before_a_run_and_can_be_ignored() {
    let workspace = Workspace::new();
    workspace.write("documents/stock.dat", "PK");
    workspace.write("documents/prices.log", "a,b\n");
    workspace.write("documents/more.log", "a,b\n");
    workspace.experiment(BM25, RECALL);
    let told = "3 files were not read because of the type: 2 .log, 1 .dat";
    let plan = workspace.run(&["plan"]).succeeds();
    assert!(plan.out.contains(&format!("warning: {told} [unread-types]")), "{}", plan.out);
    let plan = workspace.run(&["plan", "--json"]).succeeds().json();
    assert_eq!(warnings(&plan, "unread-types")[0]["text"], told);
    let ignored = workspace.run(&["plan", "--json", "--set", "warnings.ignore=[\"unread-types\"]"]).succeeds().json();
    assert!(warnings(&ignored, "unread-types").is_empty());
    let misspelt = ["plan", "--set", "warnings.ignore=[\"unread-type\"]"];
    workspace.run(&misspelt).refused_with(&["unknown variant `unread-type`", "did you mean `unread-types`?"]);
    let run = workspace.run(&["run"]).succeeds();
    assert!(run.err.contains(told) && run.out.contains(told), "{run:?}");
}

#[test]
fn a_check_tells_warnings_and_fails_only_by_those_that_are_asked_for() {
    let workspace = Workspace::new();
    workspace.write("documents/prices.log", "a,b\n");
    workspace.experiment(BM25, RECALL);
    workspace.run(&["run", "--quiet"]).succeeds();
    workspace.run(&["promote", "t01", "--output", "bundle"]).succeeds();
    let check = ["check", "--against", "bundle", "--trial", "t01"];
    let passed = workspace.run(&check).succeeds();
    assert!(passed.out.starts_with("PASS") && passed.out.contains("[unread-types]"), "{}", passed.out);
    workspace.experiment(BM25, &format!("{RECALL}\n[warnings]\nfail_check = [\"retrieves-nothing\"]"));
    workspace.run(&check).succeeds();
    workspace.experiment(BM25, &format!("{RECALL}\n[warnings]\nfail_check = [\"unread-types\"]"));
    let failed = workspace.run(&check).ends_with(6);
    assert!(failed.out.starts_with("FAIL: t01 has a warning that fails a check: `unread-types`"), "{}", failed.out);
}

#[test]
fn an_enricher_that_adds_nothing_is_told_once_and_its_trials_count_as_one() {
    let workspace = Workspace::new();
    for other in ["otters.md", "whales.html"] {
        std::fs::remove_file(workspace.file("documents").join(other)).unwrap();
    }
    golden(
        &workspace,
        &[
            ("By how many degrees does an owl turn its head?", "owls.txt", "turns its head by up to 270 degrees"),
            ("What do barn owls swallow?", "owls.txt", "Barn owls swallow mice whole."),
        ],
    );
    workspace.experiment(&format!("{BM25}\nenrich = [\"none\", \"heading\"]"), RECALL);
    let run = workspace.run(&["run", "--json"]).succeeds().json();
    let found = warnings(&run, "setting-without-effect");
    let told = "enrich `heading` and `none` made no difference: all 2 pairs of trials that differ only in this gave the \
                same passages: no document has a title or headings";
    assert_eq!(found.iter().map(|warning| &warning["text"]).collect::<Vec<_>>(), [told], "{run}");
    let equal = run["trials"].as_array().unwrap().iter().filter(|trial| trial["equal_to"]["same_output"] == true);
    assert_eq!(equal.count(), 2, "{run}");
}

#[test]
fn every_warning_is_explained_and_a_misspelt_code_is_suggested() {
    let workspace = Workspace::new();
    let all = workspace.run(&["warnings", "--json"]).succeeds().json();
    for warning in all.as_array().unwrap() {
        let code = warning["code"].as_str().unwrap();
        let text = workspace.run(&["warnings", code]).succeeds().out;
        assert!(text.starts_with(&format!("{code}: ")) && text.contains("What to do: "), "{text}");
    }
    workspace.run(&["warnings", "long-text"]).refused_with(&["did you mean `long-texts`?"]);
}
