//! What goes into a run: files that cannot be read, links that leave the
//! corpus, columns that nobody understands, and files that a person wrote.

use crate::workspace::Workspace;
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Read, Write},
    process::Stdio,
    time::Duration,
};

const SPACE: &str =
    "chunker = [{ sentence = { chunk_size = 32, chunk_overlap = 0 } }]\nretriever = [{ bm25 = { top_k = 2 } }]";
const REST: &str = "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\"]\n";

const CSV: &str = "id,difficulty,question,document,quote,source_url\n\
    dam,easy,What do beavers build dams from?,otters.md,\"Beavers build dams from branches and mud.\",x\n\
    owl,hard,\"By how many degrees, then?\",owls.txt,turns its head by up to 270 degrees,\n\
    why,,Why?,,,\n";

#[test]
fn a_csv_of_questions_stays_one_and_its_columns_are_named_before_anything_runs() {
    let workspace = Workspace::new();
    workspace.write("golden.csv", CSV);
    workspace.experiment(SPACE, &REST.replace("golden.jsonl", "golden.csv"));
    let statistics = workspace.run(&["golden", "stats", "golden.csv", "--json"]).succeeds().json();
    assert_eq!((statistics["with_evidence"].as_u64(), statistics["without_evidence"].as_u64()), (Some(2), Some(1)));
    let names: Vec<&str> = statistics["ignored_columns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| column["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["difficulty", "source_url"]);

    let plan = workspace.run(&["plan"]).succeeds().out;
    assert!(plan.contains("3 questions: 2 with evidence") && plan.contains("`difficulty` (2 rows)"), "{plan}");
    let plan = workspace.run(&["plan", "--json"]).succeeds().json();
    assert_eq!(plan["dataset"]["without_evidence"], 1, "{plan}");
    let run = workspace.run(&["run", "--json"]).succeeds();
    assert!(run.err.contains("column not used: `source_url`"), "{}", run.err);
    assert_eq!(run.json()["dataset"]["ignored_columns"][0]["name"], "difficulty");

    let told = workspace.run(&["golden", "split", "golden.csv", "--test-share", "0.5"]).succeeds();
    assert!(told.err.contains("`difficulty`"), "{}", told.err);
    let split = std::fs::read_to_string(workspace.file("golden.csv")).unwrap();
    assert!(split.starts_with("id,difficulty,question,document,quote,source_url,split\ndam,easy,"), "{split}");
    workspace.run(&["golden", "anchor", "--yes"]).succeeds();
    let anchored = std::fs::read_to_string(workspace.file("golden.csv")).unwrap();
    assert!(anchored.starts_with("id,difficulty,question,document,quote,source_url,split,evidence\n"), "{anchored}");
    workspace.run(&["run"]).succeeds();

    workspace.run(&["golden", "import", "golden.csv", "--output", "other.csv"]).succeeds();
    let other = std::fs::read_to_string(workspace.file("other.csv")).unwrap();
    assert!(other.starts_with("id,question,"), "a name that ends in .csv holds CSV: {other}");
    workspace
        .run(&["golden", "import", "golden.csv", "--output", "other.parquet"])
        .refused_with(&["other.parquet", ".jsonl or .csv"]);
    workspace
        .run(&["golden", "export", "golden.csv", "--output", "other.csv"])
        .refused_with(&["other.csv is there already"]);
}

#[cfg(unix)]
#[test]
fn links_that_leave_the_corpus_are_named_by_plan_and_run_and_followed_when_asked_for() {
    use std::os::unix::fs::symlink;
    let workspace = Workspace::new();
    workspace.experiment(SPACE, REST);
    std::fs::create_dir(workspace.file("private")).unwrap();
    workspace.write("private/secret.txt", "The password of the otters is swordfish.");
    symlink("../private/secret.txt", workspace.file("documents/link.txt")).unwrap();
    symlink("owls.txt", workspace.file("documents/again.txt")).unwrap();
    let told = "link.txt: a link that leaves the corpus";
    let plan = workspace.run(&["plan"]).succeeds().out;
    assert!(plan.contains(told) && plan.contains("4 documents"), "{plan}");
    let run = workspace.run(&["run"]).succeeds();
    assert!(run.err.contains(told), "{}", run.err);
    let asked = workspace.run(&["query", "What is the password of the otters?", "--json"]).succeeds().out;
    assert!(!asked.contains("swordfish"), "{asked}");
    let text = std::fs::read_to_string(workspace.file("experiment.toml")).unwrap();
    workspace.write("experiment.toml", text.replace("[corpus]\n", "[corpus]\nlinks = \"anywhere\"\n"));
    let plan = workspace.run(&["plan"]).succeeds().out;
    assert!(plan.contains("5 documents") && !plan.contains("not read"), "{plan}");
}

/// A file whose reads fail with an I/O error, whoever reads it.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_cannot_be_read_makes_a_run_partial_and_the_next_run_whole() {
    use std::os::unix::fs::symlink;
    let workspace = Workspace::new();
    workspace.experiment(SPACE, REST);
    let text = std::fs::read_to_string(workspace.file("experiment.toml")).unwrap();
    workspace.write("experiment.toml", text.replace("[corpus]\n", "[corpus]\nlinks = \"anywhere\"\n"));
    std::fs::rename(workspace.file("documents/owls.txt"), workspace.file("owls.txt")).unwrap();
    symlink("/proc/self/mem", workspace.file("documents/owls.txt")).unwrap();

    let plan = workspace.run(&["plan", "--json"]).succeeds().json();
    assert_eq!((plan["unread"][0]["path"].as_str(), plan["left_out"][0].as_str()), (Some("owls.txt"), Some("owl")));
    let run = workspace.run(&["run", "--json"]).ends_with(3);
    assert!(run.err.contains("owls.txt") && run.err.contains("left out"), "{}", run.err);
    let results = run.json();
    assert_eq!(results["unread"][0]["path"], "owls.txt", "{results}");
    assert_eq!(
        (results["rejected"].as_array().map(Vec::len), results["questions"].as_array().map(Vec::len)),
        (Some(0), Some(3))
    );
    assert!(workspace.events().iter().any(|event| event["kind"] == "document_unread"));

    std::fs::remove_file(workspace.file("documents/owls.txt")).unwrap();
    std::fs::rename(workspace.file("owls.txt"), workspace.file("documents/owls.txt")).unwrap();
    let results = workspace.run(&["run", "--json"]).succeeds().json();
    assert_eq!(
        (results["unread"].as_array().map(Vec::len), results["questions"].as_array().map(Vec::len)),
        (Some(0), Some(4))
    );
}

#[test]
fn what_a_document_says_cannot_speak_to_the_terminal() {
    let workspace = Workspace::new();
    workspace.experiment(SPACE, REST);
    workspace.write(
        "documents/evil.html",
        "<h1>Evil&#27;]0;owned&#7; otters</h1><p>Evil otters &#27;[2J hide &#x202e;sdrow&#x202c; and &#155;31m colours.</p>",
    );
    workspace.run(&["run"]).succeeds();
    let told = workspace.run(&["query", "What do evil otters hide?"]).succeeds().out;
    assert!(told.contains("\\x1b[2J hide \\u{202e}sdrow") && told.contains("Evil\\x1b]0;owned\\x07"), "{told}");
    let is_obeyed = |character: char| character.is_control() && character != '\n' || character == '\u{202e}';
    assert!(!told.contains(is_obeyed), "{told:?}");
    let raw = workspace.run(&["query", "What do evil otters hide?", "--json"]).succeeds();
    assert!(!raw.out.contains(is_obeyed), "{}", raw.out);
    assert!(raw.json()["passages"][0]["text"].as_str().unwrap().contains('\u{1b}'));
}

#[test]
fn files_that_a_person_wrote_are_never_replaced_unasked() {
    let workspace = Workspace::new();
    workspace.write("experiment.toml", "mine");
    workspace.run(&["demo", "--folder", "."]).refused_with(&["experiment.toml", "golden.jsonl", "--folder"]);
    workspace.run(&["init", "documents"]).refused_with(&["experiment.toml"]);
    workspace.write("answers.csv", "question,answer,reference\nWhy?,So,So\n");
    let score = ["score", "answers.csv", "--metric", "token_f1", "--output", "experiment.csv"];
    workspace.run(&score).succeeds();
    workspace.run(&score).refused_with(&["experiment.csv is there already"]);
    assert_eq!(std::fs::read_to_string(workspace.file("experiment.toml")).unwrap(), "mine");
}

/// How often a review is killed; `REVERIE_TEST_KILLS` says otherwise.
const KILLS: u64 = 40;

#[test]
fn a_review_that_is_killed_loses_no_decision() {
    let workspace = Workspace::new();
    let kills = std::env::var("REVERIE_TEST_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let ids: Vec<String> = (0..10 * kills).map(|i| format!("q{i:03}")).collect();
    let rows: String = ids.iter().map(|id| format!("{id},Is it {id}?,note of {id}\n")).collect();
    workspace.write("golden.csv", format!("id,question,note\n{rows}"));
    let state = || -> (BTreeSet<String>, BTreeSet<String>, BTreeSet<String>) {
        let text = std::fs::read_to_string(workspace.file("golden.csv")).unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let review = reader.headers().unwrap().iter().position(|name| name == "review");
        let (mut open, mut decided) = (BTreeSet::new(), BTreeSet::new());
        for record in reader.records().map(Result::unwrap) {
            assert_eq!(&record[2], format!("note of {}", &record[0]), "every column is kept");
            let is_decided = review.is_some_and(|review| !record[review].is_empty());
            if is_decided { &mut decided } else { &mut open }.insert(record[0].to_owned());
        }
        let rejected = std::fs::read_to_string(workspace.file("golden.rejected.jsonl")).unwrap_or_default();
        let rejected = rejected.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        (open, decided, rejected.map(|line| line["removed"]["id"].as_str().unwrap().to_owned()).collect())
    };
    let keys: String = (0..400).map(|i| ["a\n", "r\n", "e\nIs it new?\n\n"][i % 3]).collect();
    let (mut killed, mut before) = (0, BTreeSet::new());
    for kill in 0..kills {
        let mut command = workspace.command(&["golden", "review", "golden.csv"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let text = keys.clone();
        let writer = std::thread::spawn(move || _ = input.write_all(text.as_bytes()));
        // At no regular moment after some questions.
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut shown = String::new();
        while shown.matches("── ").count() as u64 <= 1 + kill * 7919 % 7 && output.read_line(&mut shown).unwrap() > 0
        {
        }
        let (_open, wait) = std::sync::mpsc::channel::<()>();
        wait.recv_timeout(Duration::from_micros(kill * 104_729 % 5000)).unwrap_err();
        killed += u64::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        output.read_to_string(&mut shown).unwrap();
        child.wait().unwrap();
        writer.join().unwrap();
        // Who was shown the next question has seen the one before decided.
        let seen: Vec<&str> =
            shown.lines().filter(|line| line.starts_with("── ")).filter_map(|line| line.rsplit(" · ").next()).collect();
        before.extend(seen.iter().rev().skip(1).map(|id| (*id).to_owned()));
        let (open, decided, rejected) = state();
        for id in &ids {
            assert!(open.contains(id) || decided.contains(id) || rejected.contains(id), "{id} is lost at kill {kill}");
        }
        for id in &before {
            assert!(decided.contains(id) || rejected.contains(id), "the decision on {id} is lost at kill {kill}");
        }
    }
    println!("{killed} of {kills} were killed at work; {} decisions were kept", before.len());
    assert!(killed > kills / 2 && before.len() > 80, "{killed} kills, {} decisions", before.len());
    let left: Vec<_> = std::fs::read_dir(workspace.path())
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .collect();
    println!("{} drafts of killed writers lie beside it", left.iter().filter(|name| name.ends_with(".part")).count());
    assert_eq!(json!(left.iter().filter(|name| *name == "golden.csv").count()), json!(1));
}
