//! Functions of the user's own, as the command line runs them.

use crate::workspace::Workspace;
use serde_json::Value;

fn workspace(source: &str, settings: &str) -> Workspace {
    let workspace = Workspace::new();
    let rest = format!(
        "[dataset]\npath = \"golden.jsonl\"\n\n[evaluate]\nmetrics = [\"recall\", {{ python = {{ name = \"own\", file = \
         \"own.py\"{settings} }} }}]\nobjective = [\"recall\"]"
    );
    workspace.experiment("chunker = \"sentence\"\nretriever = \"bm25\"", &rest);
    workspace.write("own.py", source);
    workspace
}

#[test]
fn one_that_raises_ends_the_run_with_a_code_and_its_traceback() {
    let workspace = workspace("def score(passages):\n    print('so many:', len(passages))\n    return 1 / 0\n", "");
    let run = workspace.run(&["run", "--json"]);
    assert_eq!(run.code, Some(5), "{}{}", run.out, run.err);
    assert!(run.err.contains("[score, t01] so many: "), "{}", run.err);
    assert!(run.err.contains("the function `score` of own.py: ZeroDivisionError: division by zero (line 3)"));
    assert!(run.err.contains("    return 1 / 0"), "{}", run.err);
    let results: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(results["provider_errors"], 0);
    let questions = results["questions"].as_array().unwrap().len();
    assert_eq!(results["function_errors"], questions);
    let missing = &results["trials"][0]["questions"][0]["scores"]["own"]["score"]["missing"];
    assert_eq!((&missing["reason"], &missing["detail"]["kind"]), (&"function_error".into(), &"raised".into()));
    // What a mended function gives is asked for again.
    workspace.write("own.py", "def score(passages):\n    return 1\n");
    workspace.run(&["run"]).succeeds();
}

#[test]
fn one_that_never_returns_costs_no_more_than_three_of_its_limits() {
    let folder = tempfile::tempdir().unwrap();
    let calls = folder.path().join("calls");
    let source = format!(
        "def score(passages):\n    with open({calls:?}, 'a') as file:\n        print('called', file=file)\n    while True:\n        pass\n"
    );
    let workspace = workspace(&source, ", timeout_seconds = 3.0");
    let run = workspace.run(&["run"]);
    assert_eq!(run.code, Some(5), "{}", run.err);
    assert!(run.err.contains("did not return within 3 s for t01"), "{}", run.err);
    let called = std::fs::read_to_string(&calls).unwrap().lines().count();
    assert!(called <= 3, "it was called {called} times");
}

#[test]
fn it_runs_in_the_virtual_environment_that_is_active() {
    let workspace = workspace("import sys\n\ndef score(passages):\n    print('in', sys.prefix)\n    return 1\n", "");
    let folder = workspace.file("environment");
    let made = std::process::Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(&folder).status();
    assert!(made.unwrap().success());
    let run = workspace.command(&["run"]).env("VIRTUAL_ENV", &folder).output().unwrap();
    let told = String::from_utf8(run.stderr).unwrap();
    assert!(told.contains(&format!("[score, t01] in {}", folder.display())), "{told}");
}
