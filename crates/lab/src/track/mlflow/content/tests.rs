//! What an MLflow run and its trials hold, by the state of a run.

use super::*;
use crate::{
    board::Board,
    results::fixture,
    spec::Experiment,
    track::{ScorePoint, UsagePoint},
};
use std::sync::Arc;

const TWO_CHUNKERS: &str =
    "chunker = [{ sentence = { chunk_size = 256 } }, { token = { chunk_size = 512 } }]\nretriever = \"bm25\"\n";

/// A run of this space that has begun.
fn view(space: &str) -> RunView {
    let text = format!("name = \"mills\"\n[corpus]\nsource = \"d\"\n[space]\n{space}");
    let experiment = Arc::new(Experiment::parse(&text, ".").unwrap_or_else(|errors| panic!("{errors:?}")));
    RunView { started_ms: 1_000, ..RunView::new("mills-1", experiment) }
}

/// A run that has ended with these results.
fn finished(results: Results) -> RunView {
    let retrievers: Vec<String> =
        (1..=results.trials.len()).map(|k| format!("{{ bm25 = {{ top_k = {k} }} }}")).collect();
    let view = view(&format!("chunker = \"sentence\"\nretriever = [{}]\n", retrievers.join(", ")));
    RunView {
        state: RunState::Finished,
        ended_ms: Some(9_000),
        board: Some(Arc::new(Board::of(&results))),
        results: Some(Arc::new(results)),
        ..view
    }
}

fn scored() -> Results {
    let mut results = fixture::results(2);
    fixture::score(
        &mut results,
        "recall@10",
        &[vec![Some(0.5); 5], vec![Some(0.25), None, None, Some(0.25), Some(1.0)]],
    );
    fixture::choose(&mut results, "recall@10", &[1, 1]);
    results
}

fn point(wanted: &WantedRun, key: &str) -> Option<(i64, f64)> {
    let (step, (value, _)) = wanted.metrics.get(key)?.last_key_value()?;
    Some((*step, *value))
}

#[test]
fn a_run_is_going_on_or_has_ended_in_one_of_three_ways() {
    let table = [
        (RunState::Running, "RUNNING", None),
        (RunState::Finished, "FINISHED", Some(9_000)),
        (RunState::Interrupted, "KILLED", Some(9_000)),
        (RunState::Failed, "FAILED", Some(9_000)),
    ];
    for (state, status, end_ms) in table {
        let view = RunView { state, ended_ms: Some(9_000), ..view(TWO_CHUNKERS) };
        let wanted = parent(&view, &BTreeMap::new(), None);
        assert_eq!((wanted.status, wanted.end_ms, wanted.start_ms), (status, end_ms, 1_000));
        assert!(!wanted.complete, "there are no results");
    }
}

#[test]
fn a_run_is_found_by_its_tag_and_has_the_tags_of_its_user() {
    let tags = [("team".to_owned(), "search".to_owned()), ("note".to_owned(), "ü".repeat(LONGEST_TAG + 1))].into();
    let view = view(TWO_CHUNKERS);
    let wanted = parent(&view, &tags, Some("monk"));
    for (key, value) in [
        (RUN, "mills-1"),
        ("team", "search"),
        ("mlflow.user", "monk"),
        ("mlflow.source.name", "reverie"),
        ("reverie.experiment", "mills"),
        ("reverie.search", "grid"),
    ] {
        assert_eq!(wanted.tags.get(key).map(String::as_str), Some(value), "{key}");
    }
    assert_eq!(wanted.tags["note"].chars().count(), LONGEST_TAG, "a server takes no more characters");
    assert_eq!((wanted.name.as_str(), wanted.user.as_str()), ("mills-1", "monk"));
    let nobody = parent(&view, &BTreeMap::new(), None);
    assert!(!nobody.tags.contains_key("mlflow.user") && nobody.user.is_empty());
    let of_trial = trial(&view, &view.trials[1], "p1", &tags, None);
    assert_eq!(of_trial.identifying_tags[TRIAL], "t02");
    assert_eq!((of_trial.tags["mlflow.parentRunId"].as_str(), of_trial.tags[RUN].as_str()), ("p1", "mills-1"));
    assert_eq!(of_trial.name, "t02 token");
}

#[test]
fn usage_is_a_point_for_each_step_and_only_finite_numbers_are_sent() {
    let used = |step, calls, cost_usd| UsagePoint { step, time_ms: 50 + step, tasks: 3, calls, tokens: 70, cost_usd };
    let usage = vec![used(0, 1, -0.0), used(1, 2, f64::NAN), used(2, 4, 0.5)];
    let wanted = parent(&RunView { usage, ..view(TWO_CHUNKERS) }, &BTreeMap::new(), None);
    assert_eq!(wanted.metrics["calls"], [(0, (1.0, 50)), (1, (2.0, 51)), (2, (4.0, 52))].into());
    assert_eq!(wanted.metrics["cost_usd"].keys().copied().collect::<Vec<_>>(), [0, 2]);
    assert!(wanted.metrics["cost_usd"][&0].0.is_sign_positive(), "nothing is 0, and not -0");
    assert_eq!(point(&wanted, "tasks_finished"), Some((2, 3.0)));
}

#[test]
fn parameters_are_the_labels_and_the_settings_that_all_trials_have_with_one_type() {
    let of = |space: &str| {
        let view = view(space);
        view.trials.iter().map(|trial| params(trial, &view.trials)).collect::<Vec<_>>()
    };
    let two = of(TWO_CHUNKERS);
    assert_eq!((two[0]["chunker"].as_str(), two[1]["chunker"].as_str()), ("sentence", "token"));
    assert_eq!((two[0]["chunker.chunk_size"].as_str(), two[1]["chunker.chunk_size"].as_str()), ("256", "512"));
    assert!(!two[0].contains_key("chunker.paragraph_separator"), "only the sentence chunker has it");
    assert_eq!(two[0]["retriever.top_k"], two[1]["retriever.top_k"]);
    // One key for all axes, also those that are not used.
    assert_eq!(two[0]["reranker"], "none");
    let keys = |params: &BTreeMap<String, String>| params.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&two[0]), keys(&two[1]), "MLflow leaves out runs that lack one");
    // A setting without a value in one trial and a number in another has two types.
    let mixed = of("chunker = \"sentence\"\nretriever = \"bm25\"\nreranker = [\"none\", { none = { top_n = 2 } }]\n");
    assert!(mixed.iter().all(|params| !params.contains_key("reranker.top_n")), "{mixed:?}");
}

#[test]
fn a_trial_is_shown_as_soon_as_something_is_known_of_it() {
    let shown = |view: &RunView| shown_trials(view).map(|trial| trial.id.clone()).collect::<Vec<_>>();
    let mut view = view(TWO_CHUNKERS);
    assert_eq!(shown(&view), [""; 0]);
    let scored = |trial: &str, metric: &str, questions, mean| ScorePoint {
        trial: trial.to_owned(),
        metric: metric.to_owned(),
        questions,
        mean,
        low: None,
        high: None,
        time_ms: 77,
    };
    view.scores =
        vec![scored("t02", "recall@10", 4, 0.5), scored("t02", "recall@10", 8, 0.25), scored("t02", "a/b", 4, 1.0)];
    assert_eq!(shown(&view), ["t02"]);
    let wanted = trial(&view, &view.trials[1], "p1", &BTreeMap::new(), None);
    assert_eq!(
        wanted.metrics["recall_at_10"],
        [(4, (0.5, 77)), (8, (0.25, 77))].into(),
        "over the number of questions"
    );
    assert_eq!(point(&wanted, "a_b"), Some((4, 1.0)), "a slash would begin a group");
    assert_eq!(shown(&finished(self::scored())), ["t01", "t02"]);
}

#[test]
fn the_results_of_a_trial_are_its_means_ranks_and_costs() {
    let mut results = scored();
    let first = &mut results.trials[0];
    (first.cost_usd, first.index_cost_usd, first.latency_p50) = (Some(0.5), None, Some(0.25));
    results.trials[1].failures = vec!["embed: down".to_owned(), "index: down".to_owned()];
    let view = finished(results);
    let of = |place: usize| trial(&view, &view.trials[place], "p1", &BTreeMap::new(), None);
    let (first, second) = (of(0), of(1));
    assert_eq!((point(&first, "rank"), point(&second, "rank")), (Some((0, 1.0)), Some((0, 2.0))));
    assert_eq!((point(&first, "recall_at_10"), point(&first, "n/recall_at_10")), (Some((5, 0.5)), Some((5, 5.0))));
    assert_eq!((point(&second, "recall_at_10"), point(&second, "n/recall_at_10")), (Some((5, 0.5)), Some((5, 3.0))));
    assert_eq!((point(&first, "cost_usd"), point(&first, "index_cost_usd")), (Some((0, 0.5)), None));
    assert_eq!((point(&first, "latency_p50"), point(&first, "latency_p95")), (Some((0, 0.25)), None));
    assert_eq!((first.tags["reverie.verdict"].as_str(), second.tags["reverie.verdict"].as_str()), ("leads", "tied"));
    let missing = "questions without a score: provider_error 2";
    assert_eq!(second.tags["reverie.missing.recall_at_10"], missing);
    assert!(!first.tags.contains_key("reverie.missing.recall_at_10"));
    assert_eq!((first.status, second.status), ("FINISHED", "FAILED"));
    assert_eq!(second.tags["reverie.failures"], "embed: down\nindex: down");
    assert!(first.complete);
}

#[test]
fn a_finished_run_tells_who_leads_and_why_nobody_won() {
    let view = finished(scored());
    let wanted = parent(&view, &BTreeMap::new(), None);
    assert_eq!((wanted.tags["reverie.leads"].as_str(), wanted.tags.get("reverie.winner")), ("t01", None));
    assert!(wanted.tags.contains_key("reverie.no_winner"));
    assert_eq!((point(&wanted, "trials"), point(&wanted, "questions")), (Some((0, 2.0)), Some((0, 5.0))));
    assert_eq!(point(&wanted, "objective"), Some((0, 0.5)), "that of the trial that answers");
    let mut won = scored();
    fixture::choose(&mut won, "recall@10", &[1, 2]);
    won.partial = Some("the budget was reached".to_owned());
    let wanted = parent(&finished(won), &BTreeMap::new(), None);
    assert_eq!(wanted.tags["reverie.winner"], "t01");
    assert_eq!(wanted.tags["reverie.winner.pipeline"], "bm25(top_k=1)", "what distinguishes it");
    assert_eq!(wanted.tags["reverie.partial"], "the budget was reached");
    assert!(!wanted.tags.contains_key("reverie.no_winner"));
}

#[test]
fn the_note_of_a_run_is_a_table_of_its_first_twenty_trials() {
    let mut results = fixture::results(21);
    fixture::score(&mut results, "recall", &vec![vec![Some(0.5); 5]; 20]);
    fixture::choose(&mut results, "recall", &[1; 20]);
    results.verdict = vec!["t01 is best or tied".to_owned()];
    let view = finished(results);
    let text = note(&view, view.board.as_ref().unwrap());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..2], ["**t01** bm25(top_k=1)", "t01 is best or tied."]);
    assert_eq!(lines[3..5], ["| trial | pipeline | objective | recall |", "|---|---|---|---|"]);
    assert_eq!(lines[5], "| t01 | bm25(top_k=1) | 0.500 | 0.500 |");
    assert_eq!((lines.len(), lines[24]), (25, "| t20 | bm25(top_k=20) | 0.500 | 0.500 |"));
}

#[test]
fn data_is_named_by_the_last_part_of_its_place() {
    let data =
        |source: &str| DataVersion { version: "0123456789".repeat(5), source: source.to_owned(), rows: 7, bytes: None };
    let table = [
        ("golden.jsonl", "golden.jsonl", "local"),
        ("/data/books/", "books", "local"),
        ("s3://bucket/books", "books", "s3"),
        (".", "corpus", "local"),
        ("", "corpus", "local"),
        ("/", "corpus", "local"),
    ];
    for (source, name, kind) in table {
        let view = RunView { corpus: Some(data(source)), ..view(TWO_CHUNKERS) };
        let inputs = inputs(&view);
        let dataset = &inputs[0]["dataset"];
        assert_eq!((dataset["name"].as_str(), dataset["source_type"].as_str()), (Some(name), Some(kind)), "{source}");
        assert_eq!(dataset["digest"].as_str().unwrap().len(), 36, "MLflow takes no more");
        assert_eq!(dataset["profile"], "{\"num_rows\":7,\"text_bytes\":null}");
    }
    let both = RunView { dataset: Some(data("g.jsonl")), corpus: Some(data("d")), ..view(TWO_CHUNKERS) };
    let contexts: Vec<_> = inputs(&both).iter().map(|input| input["tags"][0]["value"].clone()).collect();
    assert_eq!(contexts, ["eval", "corpus"], "the questions first");
    assert_eq!(inputs(&view(TWO_CHUNKERS)), Vec::<Value>::new());
}

#[test]
fn warnings_are_a_tag_of_the_run_and_of_each_trial_that_they_name() {
    let warning = |code, trials: &[&str], text: &str| Warning {
        code,
        trials: trials.iter().map(|&id| id.to_owned()).collect(),
        text: text.to_owned(),
        count: None,
        total: None,
        action: String::new(),
    };
    let mut results = scored();
    let none = finished(results.clone());
    assert_eq!(parent(&none, &BTreeMap::new(), None).tags.get("reverie.warnings"), None);
    results.warnings = vec![
        warning(crate::WarningCode::LongTexts, &["t02"], "t02: cut"),
        warning(crate::WarningCode::UnreadTypes, &[], "1 file was not read"),
    ];
    let view = finished(results);
    let tag = |wanted: &WantedRun| wanted.tags.get("reverie.warnings").cloned();
    let of_run = tag(&parent(&view, &BTreeMap::new(), None));
    assert_eq!(of_run.as_deref(), Some("long-texts: t02: cut\nunread-types: 1 file was not read"));
    let of_trial = |number: usize| tag(&trial(&view, &view.trials[number], "run", &BTreeMap::new(), None));
    assert_eq!((of_trial(0), of_trial(1).as_deref()), (None, Some("long-texts: t02: cut")));
}
