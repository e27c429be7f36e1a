//! `check`: what was promoted holds the gate against what is worse.

use crate::workspace::Workspace;
use quick_xml::{Reader, events::Event};
use std::collections::BTreeMap;

const GOLDEN: &str = "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\", \"ndcg\", \"mrr\"]\nobjective = [\"recall\", \"ndcg\"]";
const GOOD: &str =
    "chunker = [{ sentence = { chunk_size = 32, chunk_overlap = 0 } }]\nretriever = [{ bm25 = { top_k = 3 } }]";
const WORSE: &str =
    "chunker = [{ sentence = { chunk_size = 8, chunk_overlap = 0 } }]\nretriever = [{ bm25 = { top_k = 1 } }]";
const CHECK: [&str; 3] = ["check", "--against", "bundles/good"];

/// A workspace with a run, of which the trial was promoted.
fn promoted() -> Workspace {
    let workspace = Workspace::new();
    workspace.multiply_questions(6);
    workspace.experiment(GOOD, GOLDEN);
    workspace.run(&["run"]).succeeds();
    workspace.run(&["promote", "--output", "bundles/good"]).succeeds();
    workspace
}

/// How many elements of each name a file of XML has.
fn elements(workspace: &Workspace, file: &str) -> BTreeMap<String, usize> {
    let text = std::fs::read_to_string(workspace.file(file)).unwrap();
    let (mut reader, mut counts) = (Reader::from_str(&text), BTreeMap::new());
    loop {
        match reader.read_event().unwrap() {
            Event::Start(element) | Event::Empty(element) => {
                *counts.entry(element.name().as_ref().to_owned()).or_default() += 1;
            }
            Event::Eof => return counts,
            _ => {}
        }
    }
}

#[test]
fn what_is_unchanged_passes_and_a_worse_pipeline_ends_with_code_6() {
    let workspace = promoted();
    for _ in 0..3 {
        let passed = workspace.run(&CHECK).succeeds();
        assert!(passed.out.starts_with("PASS: t01 is not proven worse"), "{}", passed.out);
        assert!(passed.out.contains("all 24 scores are equal"), "{}", passed.out);
    }
    // Neither the run's store nor the indexes of the bundle are needed to compare scores.
    std::fs::remove_dir_all(workspace.file("bundles/good/store/artifacts")).unwrap();
    workspace.experiment(WORSE, GOLDEN);
    let stale = workspace.run(&CHECK).succeeds();
    assert!(stale.out.contains("note: since that run: chunker `sentence"), "{}", stale.out);

    workspace.run(&["run"]).succeeds();
    let failed =
        workspace.run(&[&CHECK[..], &["--junit", "check.xml", "--markdown", "check.md"]].concat()).ends_with(6);
    assert!(failed.out.starts_with("FAIL: t01 is worse than t01 of the bundle, by recall"), "{}", failed.out);
    assert!(!failed.out.contains("the documents are not those of the bundle"), "{}", failed.out);
    for side in [
        "chunker sentence(chunk_size=32), retriever bm25(top_k=3)\n",
        "sentence(chunk_size=8), retriever bm25(top_k=1)\n",
    ] {
        assert!(failed.out.contains(side), "{side} is not in {}", failed.out);
    }
    let counts = elements(&workspace, "check.xml");
    assert_eq!((counts["testcase"], counts.contains_key("failure")), (2, true), "{counts:?}");
    let markdown = std::fs::read_to_string(workspace.file("check.md")).unwrap();
    assert!(markdown.contains("### reverie check: FAIL") && markdown.contains("| recall |"), "{markdown}");

    let json = workspace.run(&[&CHECK[..], &["--json"]].concat()).ends_with(6).json();
    assert_eq!((&json["verdict"], &json["metrics"][0]["outcome"]), (&"fail".into(), &"worse".into()));
    assert_eq!(json["metrics"][2]["outcome"], "shown", "mrr is not in the objective");
    workspace.run(&[&CHECK[..], &["--margin", "0.99"]].concat()).succeeds();

    // The worse one as the bundle: an improvement passes.
    workspace.run(&["promote", "--output", "bundles/worse"]).succeeds();
    workspace.experiment(GOOD, GOLDEN);
    workspace.run(&["run"]).succeeds();
    let better = workspace.run(&["check", "--against", "bundles/worse"]).succeeds();
    assert!(better.out.starts_with("PASS"), "{}", better.out);
}

#[test]
fn documents_that_are_not_those_of_the_bundle_are_counted() {
    let workspace = promoted();
    workspace.write("documents/newts.md", "Newts live in the pond behind the mill.\n");
    workspace.run(&["run"]).succeeds();
    let told = workspace.run(&CHECK).succeeds();
    assert!(told.out.contains("the documents are not those of the bundle (1 added)"), "{}", told.out);
}

#[test]
fn what_cannot_be_compared_is_refused_or_inconclusive() {
    let workspace = promoted();
    // A metric of the bundle's objective that is no longer measured judges nothing, and is missed.
    workspace.experiment(GOOD, &GOLDEN.replace("\"ndcg\", ", "").replace(", \"ndcg\"", ""));
    workspace.run(&["run"]).succeeds();
    let open = workspace.run(&[&CHECK[..], &["--junit", "check.xml"]].concat()).ends_with(3);
    assert!(open.out.contains("ndcg: the run has no scores by it"), "{}", open.out);
    assert_eq!(elements(&workspace, "check.xml")["skipped"], 1);

    let golden = std::fs::read_to_string(workspace.file("golden.jsonl")).unwrap();
    let fewer: Vec<&str> = golden.lines().skip(1).collect();
    workspace.write("golden.jsonl", fewer.join("\n"));
    workspace.experiment(GOOD, GOLDEN);
    workspace.run(&["run"]).succeeds();
    let fewer = workspace.run(&CHECK).succeeds();
    assert!(fewer.out.contains("23 questions are compared; 1 are only in the bundle"), "{}", fewer.out);

    workspace.write("golden.jsonl", golden.replacen("an owl turn its head? (0)", "an owl turn? (0)", 1));
    workspace.run(&["run"]).succeeds();
    workspace.run(&CHECK).refused_with(&["question `owl-0`", "its text was changed", "reverie promote"]);
    workspace.run(&[&CHECK[..], &["--margin", "2"]].concat()).refused_with(&["--margin"]);

    let none = workspace.run(&["check", "--against", "bundles/none"]).ends_with(1);
    assert!(none.err.contains("bundles/none holds no bundle"), "{}", none.err);
    let unknown = workspace.run(&[&CHECK[..], &["--trial", "t77"]].concat()).ends_with(1);
    assert!(unknown.err.contains("there is no trial `t77`"), "{}", unknown.err);
    let summary = std::fs::read_dir(workspace.file("bundles/good/store/runs")).unwrap();
    let summary = summary.map(|entry| entry.unwrap().path().join("summary.json")).find(|path| path.is_file()).unwrap();
    std::fs::write(&summary, std::fs::read_to_string(&summary).unwrap().replace("1.0", "0.5")).unwrap();
    let damaged = workspace.run(&CHECK).ends_with(1);
    assert!(damaged.err.contains("summary.json is not what was written"), "{}", damaged.err);
}
