//! Every refusal of a broken experiment file, as a person reads it: what is wrong, where, and what to do.

use crate::{Experiment, spec::Override};

/// The beginning of a file: five lines, with everything that must be there but `[space]`.
const HEAD: &str = "name = \"x\"\n[corpus]\nsource = \"d\"\n[dataset]\npath = \"g.jsonl\"\n";
const SPACE: &str = "[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n";
const MODELS: &str = "[models.gpt]\nchat.openai = { model = \"m\", base_url = \"http://127.0.0.1:1/v1\" }\n\
                      [models.small]\nembedding.static = { model = \"small\" }\n\
                      [models.ranker]\nrerank.local = { model = \"ranker\" }\n";

/// The mistakes of a file, as they are shown.
fn mistakes(text: &str) -> Vec<String> {
    match Experiment::parse(text, ".") {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

/// Checks that a file has this mistake, and no other.
fn check(text: &str, expected: &str) {
    assert_eq!(mistakes(text), [expected], "{text}");
}

#[test]
fn what_must_be_there_is_named_where_it_is_missing() {
    check(&format!("[corpus]\nsource = \"d\"\n{SPACE}"), "1:1: `name` is missing");
    check(&format!("name = \"x\"\n{SPACE}"), "1:1: `corpus` is missing");
    check(
        "name = \"x\"\n[corpus]\nsource = \"d\"\n",
        "1:1: `[space]` is missing: it lists the chunkers, embedders and retrievers to compare",
    );
    check(
        &format!("name = \"x\"\n[corpus]\n{SPACE}"),
        "2:2: corpus: `source` is missing: a folder, a glob, a file or an object-store URL",
    );
    let all = mistakes("");
    assert_eq!(all.len(), 3, "all that is missing at once: {all:?}");
}

#[test]
fn the_name_of_an_experiment_is_that_of_a_folder() {
    let named = |name: &str| format!("{}{SPACE}", HEAD.replace("\"x\"", name));
    let refused = "name: use letters, digits, `-` and `_` only: it becomes a folder's name";
    for name in ["", "a b", "a/b", "../a", "ü", "a.b"] {
        check(&named(&format!("\"{name}\"")), &format!("1:1: {refused}"));
    }
    for name in ["x", "X-1_y", "-", "0"] {
        assert_eq!(mistakes(&named(&format!("\"{name}\""))), [""; 0], "{name}");
    }
    check(&named("7"), "1:8: name: invalid type: integer `7`, expected a string");
}

#[test]
fn a_key_that_is_not_known_is_told_with_the_one_that_may_be_meant_or_with_all() {
    check(&format!("nmae = \"y\"\n{HEAD}{SPACE}"), "1:1: the experiment: unknown key `nmae`; did you mean `name`?");
    check(
        &format!("zzz = 1\n{HEAD}{SPACE}"),
        "1:1: the experiment: unknown key `zzz`; known keys: name, store, corpus, dataset, models, space, systems, \
         search, evaluate, engine, track, warnings",
    );
    check(
        &format!("{HEAD}{SPACE}retreiver = \"bm25\"\n"),
        "9:1: space: unknown key `retreiver`; did you mean `retriever`?",
    );
    check(
        &format!("{HEAD}{SPACE}[evaluate]\nmetric = [\"recall\"]\n"),
        "10:1: evaluate: unknown key `metric`; did you mean `metrics`?",
    );
    check(&format!("{HEAD}{SPACE}[engine]\nlocl = {{}}\n"), "10:1: engine: unknown key `locl`; did you mean `local`?");
    check(&format!("{HEAD}{SPACE}[search]\nrase = {{}}\n"), "10:1: search: unknown key `rase`; did you mean `race`?");
}

#[test]
fn a_section_that_is_no_table_is_told_what_it_should_be() {
    let table = [
        ("models = 3\n", "1:10: models: expected a table such as [models.NAME]"),
        ("evaluate = 3\n", "1:12: evaluate: expected a table"),
        ("engine = 3\n", "1:10: engine: expected `local = {}` or `ray = {}`"),
        ("track = 3\n", "1:9: track: expected a table such as `mlflow = { uri = \"http://127.0.0.1:5000\" }`"),
    ];
    for (line, expected) in table {
        check(&format!("{line}{HEAD}{SPACE}"), expected);
    }
    check(&format!("space = 3\n{HEAD}"), "1:9: space: expected a table of axes");
    check(&format!("space = []\n{HEAD}"), "1:9: space: the list is empty, so there would be no trial");
}

#[test]
fn questions_come_from_one_place_and_there_are_some() {
    let dataset = |lines: &str| format!("name = \"x\"\n[corpus]\nsource = \"d\"\n[dataset]\n{lines}\n{MODELS}{SPACE}");
    let row = "rows = [{ id = \"a\", question = \"Why?\", reference = \"So.\" }]";
    check(&dataset(""), "4:2: dataset: `path` is missing: a file of golden questions");
    check(&dataset(&format!("path = \"g\"\n{row}")), "4:2: dataset: `path` and `rows` are both there: keep one");
    check(
        &dataset(&format!("{row}\ngenerate = {{ model = \"gpt\" }}")),
        "4:2: dataset: `generate` writes questions into a file, and here are `rows`: keep one",
    );
    check(
        &dataset("path = \"g\"\nlimit = 0"),
        "6:1: dataset.limit: must be at least 1; leave it out to ask all questions",
    );
    assert_eq!(mistakes(&dataset("path = \"g\"\nlimit = 1")), [""; 0]);
    assert_eq!(mistakes(&dataset(row)), [""; 0]);
    let generate = |settings: &str| dataset(&format!("path = \"g\"\ngenerate = {{ {settings} }}"));
    assert_eq!(mistakes(&generate("model = \"gpt\"")), [""; 0]);
    let missing = mistakes(&generate("size = 5"));
    assert_eq!(missing, ["6:12: dataset: missing field `model`"]);
    let unknown = mistakes(&generate("model = \"gpt\", sise = 5"));
    assert!(unknown[0].contains("unknown field `sise`") && unknown[0].contains("did you mean `size`?"), "{unknown:?}");
}

#[test]
fn rows_of_the_experiment_are_told_by_their_numbers_from_zero() {
    let rows = "rows = [{ id = \"a\", question = \"Why?\" }, { id = \"b\" }, { id = \"a\", question = \"How?\" }]";
    let text = format!("name = \"x\"\n[corpus]\nsource = \"d\"\n[dataset]\n{rows}\n{SPACE}");
    let told = mistakes(&text);
    assert!(told.len() == 2 && told.iter().all(|told| told.starts_with("4:2: dataset, row ")), "{told:?}");
    assert!(told[0].contains("row 1 (from 0): ") && told[1].contains("row 2 (from 0): "), "{told:?}");
}

#[test]
fn a_model_is_one_of_its_kind_that_the_file_or_the_catalogue_has() {
    let with = |axis: &str| format!("{HEAD}{MODELS}{SPACE}{axis}\n");
    let kind = |place: &str, name: &str, found: &str, needed: &str| {
        format!("{place}: model `{name}` is of kind {found}, but a model of kind {needed} is needed")
    };
    check(&with("embedder = \"gpt\""), &format!("15:12: {}", kind("space.embedder", "gpt", "chat", "embedding")));
    check(
        &with("generator = { compact = { model = \"small\" } }"),
        &format!("15:13: {}", kind("space.generator", "small", "embedding", "chat")),
    );
    check(
        &with("reranker = { cross_encoder = { model = \"gpt\" } }"),
        &format!("15:12: {}", kind("space.reranker", "gpt", "chat", "rerank")),
    );
    check(&with("embedder = \"smal\""), "15:12: space.embedder: there is no model `smal`; did you mean `small`?");
    check(
        &with("[evaluate]\njudge = \"gtp\"\nmetrics = [\"recall\"]"),
        "16:1: evaluate.judge: there is no model `gtp`; did you mean `gpt`?",
    );
    check(
        &with("[evaluate]\nembedder = \"gpt\"\nmetrics = [\"recall\"]"),
        &format!("16:1: {}", kind("evaluate.embedder", "gpt", "chat", "embedding")),
    );
    check(&with("reranker = { cross_encoder = {} }"), "15:12: space.reranker: no model is named; there are ranker");
    let without = format!("{HEAD}{SPACE}generator = {{ compact = {{}} }}\n");
    check(&without, "9:13: space.generator: no model is named; add one of kind chat under [models], and name it here");
}

#[test]
fn a_model_with_a_mistake_is_told_once_and_its_uses_are_not() {
    let model = "[models.gpt]\nchat.openai = { model = 7 }\n";
    let told = mistakes(&format!("{HEAD}{model}{SPACE}generator = {{ compact = {{ model = \"gpt\" }} }}\n"));
    assert_eq!(told, ["7:25: models.gpt: invalid type: integer `7`, expected a string"]);
    let told = mistakes(&format!("{HEAD}[models.gpt]\nchat.opnai = {{}}\n{SPACE}"));
    assert!(told.len() == 1 && told[0].starts_with("7:6: models.gpt: unknown variant `opnai`"), "{told:?}");
}

#[test]
fn an_axis_that_is_missing_empty_or_without_its_embedder_leaves_no_trial() {
    let space = |lines: &str| format!("{HEAD}[space]\n{lines}\n");
    check(&space("chunker = \"sentence\""), "6:2: space: the axis `retriever` is missing");
    check(&space("retriever = \"bm25\""), "6:2: space: the axis `chunker` is missing");
    check(
        &space("chunker = []\nretriever = \"bm25\""),
        "7:11: space.chunker: the list is empty, so there would be no trial",
    );
    check(
        &space("chunker = \"sentence\"\nretriever = \"dense\""),
        "6:2: space: a retriever searches vectors, but the axis `embedder` is missing",
    );
    check(&space("chunker = \"semantic\"\nretriever = \"bm25\""), "6:2: space: `semantic` needs the axis `embedder`");
    let two = mistakes(&space("chunker = \"sentence\"\nretriever = [\"bm25\", \"dens\"]"));
    assert!(two.len() == 1 && two[0].starts_with("8:22: space.retriever[1]: unknown variant `dens`"), "{two:?}");
    assert!(two[0].ends_with("did you mean `dense`?"), "{two:?}");
}

#[test]
fn a_setting_of_a_component_is_told_with_the_place_in_its_list() {
    let chunker = |value: &str| format!("{HEAD}[space]\nchunker = {value}\nretriever = \"bm25\"\n");
    check(
        &chunker("[\"token\", { sentence = { chunk_size = -1 } }]"),
        "7:49: space.chunker[1]: invalid value: integer `-1`, expected a whole number that is not below 0",
    );
    check(
        &chunker("{ sentence = { chunk_size = \"big\" } }"),
        "7:39: space.chunker[0]: invalid type: string \"big\", expected a whole number that is not below 0",
    );
    check(
        &chunker("{ sentence = {}, token = {} }"),
        "7:11: space.chunker[0]: expected a table with one name in it, found several",
    );
    check(&chunker("{}"), "7:11: space.chunker[0]: expected a table with one name in it, found none");
}

#[test]
fn a_metric_is_told_what_it_lacks() {
    let evaluate = |lines: &str| format!("{HEAD}{MODELS}{SPACE}[evaluate]\n{lines}\n");
    let table = [
        ("faithfulness", "needs a judge: add `judge = \"MODEL\"` under [evaluate]"),
        ("answer_similarity", "needs an embedder: add `embedder = \"MODEL\"` under [evaluate]"),
        ("token_f1", "scores answers, but [space] has no `generator`"),
    ];
    for (metric, expected) in table {
        let told = mistakes(&evaluate(&format!("metrics = [\"{metric}\"]")));
        let expected = format!("16:12: evaluate.metrics: `{metric}` {expected}");
        assert!(told.contains(&expected), "{expected}: {told:?}");
    }
    check(
        &evaluate("metrics = [\"recall\", \"recall\"]"),
        "16:22: evaluate.metrics: `recall` is listed twice; give each a `name` of its own",
    );
    check(&evaluate("metrics = []"), "16:11: evaluate.metrics: the list is empty, so nothing would be scored");
    check(
        &evaluate("metrics = [\"recall\"]\nobjective = []"),
        "17:1: evaluate.objective: the list is empty, so nothing would choose a winner",
    );
    check(
        &evaluate("metrics = [\"recall\"]\nobjective = [\"recal\"]"),
        "17:1: evaluate.objective: `recal` is not among the metrics; did you mean `recall`?",
    );
    check(
        &evaluate("metrics = [\"recall\"]\nobjective = [\"token_f1\"]"),
        "17:1: evaluate.objective: `token_f1` is not among the metrics; add it to `metrics`",
    );
    check(
        &evaluate("metrics = [\"recall\"]\nanswered = 0"),
        "17:1: evaluate.answered: must be at least 1; leave it out to answer all questions",
    );
    check(
        &format!("name = \"x\"\n[corpus]\nsource = \"d\"\n{SPACE}[evaluate]\nmetrics = [\"recall\"]\n"),
        "7:2: evaluate: metrics need questions: add [dataset] with `path = \"golden.jsonl\"`",
    );
}

#[test]
fn the_engine_has_a_thread_and_a_place_for_a_task_at_least() {
    let engine = |lines: &str| format!("{HEAD}{SPACE}[engine]\n{lines}\n");
    let at_least = "9:1: engine.local: `cores` and `tasks` must be at least 1";
    check(&engine("local = { cores = 0 }"), at_least);
    check(&engine("local = { tasks = 0 }"), at_least);
    let seconds = "9:1: engine.local: `checkpoint_seconds` must be from 0 to 3600";
    for wrong in ["-0.1", "3600.1", "nan", "inf"] {
        check(&engine(&format!("local = {{ checkpoint_seconds = {wrong} }}")), seconds);
    }
    for right in ["0", "3600", "0.5"] {
        assert_eq!(mistakes(&engine(&format!("local = {{ checkpoint_seconds = {right} }}"))), [""; 0]);
    }
    let stage = |settings: &str| engine(&format!("ray = {{ stages = {{ embed = {{ {settings} }} }} }}"));
    let numbers = "9:1: engine.ray.stages.embed: CPUs, GPUs and resources must be numbers that are not below 0";
    let most = "9:1: engine.ray.stages.embed: `max` must be at least 1 and at least `min`";
    for (settings, expected) in [
        ("cpus = -0.5", numbers),
        ("gpus = nan", numbers),
        ("resources = { disk = -1 }", numbers),
        ("max = 0", most),
        ("min = 3, max = 2", most),
    ] {
        check(&stage(settings), expected);
    }
    for right in ["cpus = 0", "min = 2, max = 2", "min = 0, max = 1"] {
        assert_eq!(mistakes(&stage(right)), [""; 0], "{right}");
    }
}

#[test]
fn all_mistakes_are_told_at_once_in_the_order_of_the_file() {
    let text = "nam = \"x\"\nname = \"a b\"\n[corpus]\nsource = 5\n[space]\nchunker = \"sentense\"\nretriever = \"bm25\"\n\
                [evaluate]\nmetrics = [\"recal\"]\n";
    let told = mistakes(text);
    let places: Vec<&str> = told.iter().map(|told| &told[..told.find(": ").unwrap()]).collect();
    assert_eq!(places, ["1:1", "2:1", "4:10", "6:11", "9:12"], "{told:#?}");
    let again = mistakes(text);
    assert_eq!(told, again);
}

#[test]
fn a_file_that_is_no_toml_is_told_by_its_place_and_nothing_else_is() {
    let told = mistakes("name = \"x\n[corpus]\nsource = \"d\"\n");
    assert!(told[0].starts_with("1:") && !told.iter().any(|told| told.contains("missing")), "{told:?}");
    let twice = mistakes(&format!("name = \"x\"\n{HEAD}{SPACE}"));
    assert!(twice.len() == 1 && twice[0].starts_with("2:1: "), "{twice:?}");
}

#[test]
fn a_replacement_is_refused_as_the_file_would_be() {
    let told = |given: Override| match Experiment::parse_with(&format!("{HEAD}{SPACE}"), ".", &[given]) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
    };
    let table = [
        ("name=a b", "--set name: name: use letters, digits, `-` and `_` only: it becomes a folder's name"),
        (
            "dataset.limit=0",
            "--set dataset.limit: dataset.limit: must be at least 1; leave it out to ask all questions",
        ),
        ("spcae.chunker=token", "--set spcae.chunker: the experiment: unknown key `spcae`; did you mean `space`?"),
        ("engine.local.tasks=0", "--set engine.local.tasks: engine.local: `cores` and `tasks` must be at least 1"),
    ];
    for (given, expected) in table {
        assert_eq!(told(Override::set(given)), [expected]);
    }
    assert_eq!(told(Override::set("dataset.limit=1")), [""; 0]);
    assert_eq!(
        told(Override::limit(0)),
        ["--limit: dataset.limit: must be at least 1; leave it out to ask all questions"]
    );
}

#[test]
fn a_value_is_one_value_of_toml() {
    let value = |text: &str| Experiment::parse_value(text).map_err(|error| error.to_string());
    assert_eq!(value("3"), Ok(3.into()));
    assert_eq!(value("[1, 2]"), Ok(serde_json::json!([1, 2])));
    assert_eq!(value("{ bm25 = { top_k = 3 } }"), Ok(serde_json::json!({ "bm25": { "top_k": 3 } })));
    assert_eq!(value(" 1\nother = 2 ").unwrap_err(), "`1\nother = 2` is more than one value");
    assert!(value(" three ").unwrap_err().starts_with("`three` is no value in TOML: "));
}

#[test]
fn answers_that_nothing_scores_are_remarked_and_not_refused() {
    let remarks = |generator: &str, metrics: &str, dataset: bool| {
        let head = if dataset { HEAD } else { "name = \"x\"\n[corpus]\nsource = \"d\"\n" };
        let evaluate = if metrics.is_empty() { String::new() } else { format!("[evaluate]\nmetrics = [{metrics}]\n") };
        Experiment::parse(&format!("{head}{MODELS}{SPACE}{generator}\n{evaluate}"), ".").unwrap().remarks()
    };
    let compact = "generator = { compact = { model = \"gpt\" } }";
    let expected = "answers are made, but no metric scores them, so they choose no winner: add `token_f1`, `rouge_l` or \
                    `answer_similarity` to evaluate.metrics";
    assert_eq!(remarks(compact, "\"recall\"", true), [expected]);
    assert_eq!(remarks(compact, "\"recall\", \"token_f1\"", true), [""; 0]);
    assert_eq!(remarks("", "\"recall\"", true), [""; 0], "there are no answers");
    assert_eq!(remarks(compact, "", false), [""; 0], "there are no questions");
}
