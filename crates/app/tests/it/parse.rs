//! The axis `parse`: parsers of one's own beside ours, in one experiment.

use crate::workspace::Workspace;
use serde_json::{Value, json};

const RECALL: &str = "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\", \"ndcg\"]";

/// An experiment whose files are read by default and by a shell script, which gets the path of the file as `$1`.
fn experiment(workspace: &Workspace, pattern: &str, script: &str) {
    let args = json!(["-c", script, "parse", "{file}"]);
    let parser =
        format!("{{ {pattern} = {{ command = {{ program = \"/bin/sh\", args = {args} }} }}, default = \"text\" }}");
    let space = format!(
        "parse = [\"text\", {parser}]\nchunker = [{{ sentence = {{ chunk_size = 32, chunk_overlap = 0 }} }}]\nretriever = [{{ \
         bm25 = {{ top_k = 3 }} }}]"
    );
    workspace.experiment(&space, RECALL);
}

fn trial<'a>(run: &'a Value, id: &str) -> &'a Value {
    run["trials"].as_array().unwrap().iter().find(|trial| trial["trial"]["id"] == id).unwrap()
}

fn recall(run: &Value, id: &str) -> f64 {
    trial(run, id)["metrics"]["recall"]["mean"].as_f64().unwrap()
}

fn warnings<'a>(run: &'a Value, code: &str) -> Vec<&'a Value> {
    run["warnings"].as_array().unwrap().iter().filter(|warning| warning["code"] == code).collect()
}

#[test]
fn a_parser_that_reads_the_same_words_scores_the_same() {
    let workspace = Workspace::new();
    // It adds a heading, so every place is another one.
    experiment(&workspace, "text", "printf '# Read by a script\\n\\n'; cat \"$1\"");
    let run = workspace.run(&["run", "--json"]).succeeds().json();
    assert_eq!(run["trials"].as_array().unwrap().len(), 2, "{run}");
    assert_eq!((recall(&run, "t01"), recall(&run, "t02")), (1.0, 1.0), "{run}");
    assert!(warnings(&run, "lost-by-parser").is_empty(), "{run}");
    assert_eq!(trial(&run, "t02")["trial"]["labels"]["parse"], "text=command default=text");
    let again = workspace.run(&["run", "--json"]).succeeds().json();
    assert_eq!(again["executed"], 0, "nothing is parsed again: {again}");
}

#[test]
fn evidence_that_only_one_parser_reads_counts_against_the_other_and_is_told() {
    let workspace = Workspace::new();
    experiment(&workspace, "text", "tr a-z A-Z < \"$1\"");
    let plan = workspace.run(&["plan", "--json"]).succeeds().json();
    let told = warnings(&plan, "lost-by-parser");
    assert_eq!((told.len(), &told[0]["trials"]), (1, &json!(["t02"])), "{plan}");
    let run = workspace.run(&["run", "--json"]).succeeds().json();
    assert_eq!((recall(&run, "t01"), recall(&run, "t02")), (1.0, 0.75), "{run}");
    let show = workspace.run(&["show", "t02", "owl"]).succeeds();
    assert!(show.out.contains("lost: not read (text=command default=text)"), "{}", show.out);
    assert!(show.out.contains("not in the text that the trial's parser reads"), "{}", show.out);
    // The first parser may be the one that does not read it.
    let file = std::fs::read_to_string(workspace.file("experiment.toml")).unwrap();
    let (first, second) = (file.find("\"text\", {").unwrap(), file.find("} }]\nretriever").unwrap());
    let parser = &file[first + "\"text\", ".len()..file[..second].rfind("]\nchunker").unwrap()];
    workspace.write("experiment.toml", file.replace(&format!("\"text\", {parser}"), &format!("{parser}, \"text\"")));
    let turned = workspace.run(&["run", "--json"]).succeeds().json();
    assert_eq!((recall(&turned, "t01"), recall(&turned, "t02")), (0.75, 1.0), "{turned}");
}

#[test]
fn a_file_that_one_parser_refuses_is_a_document_of_the_other() {
    let workspace = Workspace::new();
    experiment(&workspace, "html", "echo 'no such font' >&2; exit 4");
    let run = workspace.run(&["run", "--json"]).succeeds().json();
    assert_eq!((recall(&run, "t01"), recall(&run, "t02")), (1.0, 0.5), "{run}");
    let told = warnings(&run, "lost-by-parser")[0]["text"].as_str().unwrap();
    assert!(
        told.contains("2 of 4 questions") && told.contains("whales.html") && told.contains("no such font"),
        "{told}"
    );
}

#[test]
fn a_parser_that_reads_nothing_is_refused_before_the_run() {
    let workspace = Workspace::new();
    experiment(&workspace, "\"**\"", "exit 1");
    workspace.run(&["run"]).refused_with(&["space.parse: `**=command default=text` gives no document of any file"]);
    experiment(&workspace, "pfd", "cat \"$1\"");
    workspace.run(&["plan"]).refused_with(&["`pfd` is no format"]);
    let space =
        "parse = { command = { program = \"/no/such/program\" } }\nchunker = \"sentence\"\nretriever = \"bm25\"";
    workspace.experiment(space, RECALL);
    let failed = workspace.run(&["run"]).ends_with(1);
    assert!(failed.err.contains("parse command: `/no/such/program` cannot be started"), "{}", failed.err);
}

#[test]
fn a_document_is_shown_as_each_parser_reads_it() {
    let workspace = Workspace::new();
    experiment(&workspace, "text", "tr a-z A-Z < \"$1\"");
    let first = workspace.run(&["document", "owls.txt"]).succeeds();
    assert!(first.out.starts_with("Owls hunt at night."), "{}", first.out);
    let second = workspace.run(&["document", "owls.txt", "--parser", "2"]).succeeds();
    assert!(second.out.starts_with("OWLS HUNT AT NIGHT."), "{}", second.out);
    let third = workspace.run(&["document", "owls.txt", "--parser", "3"]).ends_with(1);
    assert!(third.err.contains("there are 2 parsers: 1 text, 2 text=command default=text"), "{}", third.err);
}
