//! What a person sees, as files in `snapshots/`. When one differs, look at the
//! difference; if it is what was wanted, `make snapshots` writes it anew.

use crate::workspace::{Outcome, Workspace};

const SPACE: &str = "chunker = [{ sentence = { chunk_size = 16, chunk_overlap = 0 } }, { sentence = { chunk_size = 32, chunk_overlap = 0 } }, \"sentence_window\"]\nembedder = [\"tiny\"]\nretriever = [{ bm25 = { top_k = 1 } }, { bm25 = { top_k = 3 } }, { dense = { top_k = 1 } }, { hybrid = { top_k = 3 } }]";
const GOLDEN: &str = "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\", \"precision\", \"ndcg\", \"mrr\", \"hit_rate\"]\nobjective = [\"ndcg\"]";

/// Checks a text against its file, without what differs from run to run.
fn check(name: &str, workspace: &Workspace, text: &str) {
    let folder = workspace.path().display().to_string();
    let text = text.replace(&std::fs::canonicalize(workspace.path()).unwrap().display().to_string(), "FOLDER");
    let text = text.replace(&folder, "FOLDER");
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_snapshot_path("../snapshots");
    settings.bind(|| insta::assert_snapshot!(name, redact(&text)));
}

/// Run ids, times and dates as words.
fn redact(text: &str) -> String {
    let marks = [
        (r"animals-[0-9a-f]{12}", "animals-RUN"),
        (r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}(:\d{2})?( UTC)?", "TIME"),
        (r"\b\d+(\.\d+)? (ms|s)\b", "SECONDS"),
        (r"(?m)[ \t]+$", ""),
    ];
    marks.iter().fold(text.to_owned(), |text, (pattern, word)| {
        regex::Regex::new(pattern).unwrap().replace_all(&text, *word).into_owned()
    })
}

fn both(outcome: &Outcome) -> String {
    let code = outcome.code.map_or_else(|| "-".to_owned(), |code| code.to_string());
    format!("{}--- standard error, exit code {code} ---\n{}", outcome.out, outcome.err)
}

/// Runs in a terminal of so many columns.
fn at_width(workspace: &Workspace, arguments: &[&str], columns: usize) -> Outcome {
    Outcome::of(workspace.command(arguments).env("COLUMNS", columns.to_string()).output().unwrap())
}

#[test]
fn the_leaderboard_of_a_run_at_three_widths_and_its_trials() {
    let workspace = Workspace::new();
    workspace.multiply_questions(8);
    workspace.experiment(SPACE, GOLDEN);
    check("plan", &workspace, &workspace.run(&["plan"]).succeeds().out);
    workspace.run(&["run"]).succeeds();
    for width in [80, 120, 200] {
        let shown = at_width(&workspace, &["leaderboard"], width).succeeds();
        let widest =
            shown.out.lines().filter(|line| !line.starts_with("report: ")).map(|line| line.chars().count()).max();
        assert!(widest <= Some(width), "{widest:?} columns of {width}\n{}", shown.out);
        check(&format!("leaderboard_{width}"), &workspace, &shown.out);
    }
    check("show_question", &workspace, &workspace.run(&["show", "t02", "owl-0"]).succeeds().out);
    check("compare", &workspace, &workspace.run(&["compare", "t01", "t04"]).succeeds().out);
    check("finalists", &workspace, &workspace.run(&["finalists", "--best", "2"]).succeeds().out);
}

#[test]
fn every_mistake_of_an_experiment_file() {
    let workspace = Workspace::new();
    workspace.write(
        "experiment.toml",
        r#"name = "two words"
colour = "red"

[corpus]
source = "documents"
includ = ["*.md"]

[dataset]
path = "golden.jsonl"
limit = 0

[models.tiny]
embedding.static = { model = "tiny" }

[models.gpt]
chat.openai = { model = 7 }

[space]
chunker = ["sentense", { sentence = { chunk_size = 40, chunk_overlap = 60 } }, { token = { chunk_size = "many" } }]
embedder = ["tinny"]
retriever = [{ dense = { top_k = [3, 5] } }, { mmr = { lambda = 1.5 } }]
reranker = []
generator = [{ compact = { model = "gtp" } }, { refine = { model = "tiny" } }]

[search]
race = { share = 2.0 }

[evaluate]
metrics = ["recal", "faithfulness"]
objective = ["ndcg"]
budget = { usd = -1 }
"#,
    );
    check("mistakes", &workspace, &both(&workspace.run(&["plan"]).ends_with(2)));
    workspace.write(
        "experiment.toml",
        "name = \"x\"\n[corpus]\nsource = [\n\"documents\"\n[space]\nchunker = \"sentence\"\n",
    );
    check("mistakes_of_syntax", &workspace, &both(&workspace.run(&["plan"]).ends_with(2)));
    workspace.write("experiment.toml", "");
    check("mistakes_of_an_empty_file", &workspace, &both(&workspace.run(&["plan"]).ends_with(2)));
    std::fs::remove_file(workspace.file("experiment.toml")).unwrap();
    check("no_file", &workspace, &both(&workspace.run(&["run"]).ends_with(2)));
    workspace.experiment(SPACE, GOLDEN);
    workspace.write("golden.jsonl", "{\"id\": \"a\", \"question\": \"Why?\"}\n{\"id\": \"a\", \"question\": \"Why\"\n");
    check("mistakes_of_questions", &workspace, &both(&workspace.run(&["plan"]).ends_with(2)));
    let flags: [&[&str]; 6] = [
        &["run", "experiment.toml"],
        &["plan", "--config", "x"],
        &["leaderbord"],
        &["run", "--limit", "0"],
        &["run", "--set", "space.retriever.bm25.top_k=three"],
        &["store", "gc"],
    ];
    let told: Vec<String> =
        flags.iter().map(|flags| format!("$ reverie {}\n{}", flags.join(" "), both(&workspace.run(flags)))).collect();
    check("refused_flags", &workspace, &told.join("\n"));
}

#[test]
fn the_help_of_every_verb() {
    let workspace = Workspace::new();
    let mut todo: Vec<Vec<String>> = vec![Vec::new()];
    let mut told = String::new();
    // Verbs stand in lines of two spaces, a word, and what it does.
    let verbs = regex::Regex::new(r"(?m)^  ([a-z]+) {2,}\S").unwrap();
    while let Some(verb) = todo.pop() {
        let arguments: Vec<&str> = verb.iter().map(String::as_str).chain(["--help"]).collect();
        let help = at_width(&workspace, &arguments, 100).succeeds().out;
        told += &format!("$ reverie {}\n{help}\n", arguments.join(" "));
        let listed = help.split("Options").next().unwrap_or_default();
        let inner = verbs.captures_iter(listed).map(|found| found[1].to_owned()).filter(|word| word != "help");
        let mut inner: Vec<Vec<String>> = inner.map(|word| [verb.clone(), vec![word]].concat()).collect();
        inner.reverse();
        todo.extend(inner);
    }
    assert!(told.matches("$ reverie").count() > 30, "{told}");
    check("help", &workspace, &told);
}

#[test]
fn what_doctor_says_of_a_machine_without_models() {
    let workspace = Workspace::new();
    let mut command = workspace.command(&["doctor"]);
    let told = Outcome::of(command.env_remove("REVERIE_LIBRARIES").output().unwrap());
    // What differs between machines: processors, memory, versions, libraries found on the system.
    let machine = regex::Regex::new(r"\d[\d.,]*|/\S+").unwrap();
    check("doctor", &workspace, &machine.replace_all(&told.out, "…"));
}
