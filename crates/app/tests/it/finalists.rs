//! The best pipelines of one experiment are the space of the next.

use crate::{endpoint, workspace::Workspace};
use std::{collections::BTreeSet, time::Duration};

const SPACES: &str = "chunker = [{ sentence = { chunk_size = 32, chunk_overlap = 0 } }]\nretriever = [{ bm25 = { top_k = 1 } }, { bm25 = { top_k = 3 } }]\n\n[[space]]\nchunker = [\"sentence_window\"]\nembedder = [\"tiny\"]\nretriever = [\"dense\", \"hybrid\"]";

/// An experiment with several tables `[[space]]`.
fn experiment(workspace: &Workspace, rest: &str) {
    workspace.experiment(SPACES, rest);
    let text = std::fs::read_to_string(workspace.file("experiment.toml")).unwrap();
    workspace.write("experiment.toml", text.replace("\n[space]\n", "\n[[space]]\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_best_pipelines_answer_in_an_experiment_of_their_own_and_nothing_is_computed_again() {
    let server = endpoint::start(Duration::ZERO).await;
    let workspace = Workspace::new();
    experiment(&workspace, "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\", \"ndcg\"]");
    let found = workspace.run(&["run", "--json"]).succeeds().json();
    assert_eq!(found["trials"].as_array().unwrap().len(), 4);
    let space = workspace
        .run(&["finalists", "--best", "2", "--with", "generator={ compact = { model = \"gpt\" } }"])
        .succeeds();
    assert_eq!(space.out.matches("[[space]]").count(), 2, "{}", space.out);

    let text = std::fs::read_to_string(workspace.file("experiment.toml")).unwrap();
    let (head, _) = text.split_once("[[space]]").unwrap();
    let model = format!("[models.gpt]\nchat.openai = {{ model = \"m\", base_url = \"{}/v1\" }}\n", server.uri());
    let evaluate = "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\", \"token_f1\"]\n";
    let head = head.replace("name = \"animals\"", "name = \"answers\"");
    workspace.write("answers.toml", format!("{head}{model}{evaluate}{}", space.out));
    let planned = workspace.run(&["plan", "-f", "answers.toml"]).succeeds();
    let answered = workspace.run(&["run", "-f", "answers.toml", "--json"]).succeeds().json();
    let pipeline = |results: &serde_json::Value, i: usize, axis: &str| results["trials"][i]["trial"][axis].clone();
    let found_pipelines: Vec<_> =
        (0..2).map(|i| (pipeline(&found, i, "chunker"), pipeline(&found, i, "retriever"))).collect();
    for i in 0..2 {
        let of_answers = (pipeline(&answered, i, "chunker"), pipeline(&answered, i, "retriever"));
        assert!(
            found_pipelines.contains(&of_answers),
            "{of_answers:?} is none of {found_pipelines:?}\n{}",
            planned.out
        );
        assert!(answered["trials"][i]["questions"][0]["answer"]["text"].is_string());
    }
    // What retrieval found is there already: only answers and their scores are new.
    let folder = std::fs::read_dir(workspace.file("store/runs")).unwrap();
    let folder = folder.map(|entry| entry.unwrap().path());
    let run = folder
        .filter(|path| path.is_dir())
        .find(|path| path.file_name().unwrap().to_string_lossy().starts_with("answers-"));
    let events = std::fs::read_to_string(run.unwrap().join("events.jsonl")).unwrap();
    let done: BTreeSet<String> = events
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter(|event| event["kind"] == "task_finished")
        .map(|event| event["operator"].as_str().unwrap().to_owned())
        .collect();
    assert!(done.contains("generate"), "{done:?}");
    assert!(
        ["load", "chunk", "embed", "index", "retrieve"].iter().all(|operator| !done.contains(*operator)),
        "{done:?}"
    );
}

#[test]
fn an_axis_or_a_value_that_is_none_is_refused_before_anything_is_read() {
    let workspace = Workspace::new();
    workspace.run(&["finalists", "--with", "generatr=1"]).refused_with(&["generator"]);
    workspace.run(&["finalists", "--with", "generator={"]).refused_with(&["no value in TOML"]);
    workspace.run(&["finalists", "--best", "0"]).refused_with(&["--best"]);
}
