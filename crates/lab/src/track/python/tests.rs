//! What a package is sent, and how its process is used: tried with a real `python3` and a program in place of a
//! package.

use super::*;
use crate::{
    results::fixture,
    spec::Experiment,
    track::{DataVersion, ScorePoint, UsagePoint},
};
use std::path::Path;

/// Writes each call into a file of the run's folder.
const RECORDER: &str = "
class Recorder:
    def show(self, run, rows, end):
        print('noise')
        with open(run['folder'] + '/calls.jsonl', 'a') as file:
            print(json.dumps({'steps': [row['step'] for row in rows], 'end': end and end['step'], 'process': os.getpid()}), file=file)
        if os.path.exists(run['folder'] + '/ends'):
            os._exit(7)
        for name, error in (('away', OSError('away')), ('refuses', ValueError('no'))):
            if os.path.exists(run['folder'] + '/' + name):
                raise error
        return [run['project']]

answer(Recorder, lambda error: False)
";
/// Needs a package that does not exist.
const MISSING: &str = "
class Missing:
    def show(self, run, rows, end):
        import nothing_of_this_name

answer(Missing, lambda error: False)
";

fn view(folder: &Path) -> RunView {
    let text = "name = \"mills\"\n[corpus]\nsource = \"d\"\n[space]\nchunker = \"sentence\"\nretriever = [{ bm25 = { top_k = 1 } }, { bm25 = { top_k = 2 } }]\n\
        [models.gpt]\nchat.openai = { model = \"m\", base_url = \"http://127.0.0.1:1/v1\", headers = { x-plain = \"hush\" } }\n";
    let experiment = Arc::new(Experiment::parse(text, ".").unwrap_or_else(|errors| panic!("{errors:?}")));
    let version =
        |version: &str| DataVersion { version: version.to_owned(), source: "d".to_owned(), rows: 7, bytes: None };
    let used = |step, cost_usd| UsagePoint { step, time_ms: 1_500, tasks: 3, calls: 5, tokens: 70, cost_usd };
    let scored = |mean, low| ScorePoint {
        trial: "t02".to_owned(),
        metric: "recall@10".to_owned(),
        questions: 4,
        mean,
        low,
        high: None,
        time_ms: 2_500,
    };
    RunView {
        folder: folder.to_owned(),
        started_ms: 1_000,
        dataset: Some(version("q1")),
        corpus: Some(version("c1")),
        usage: vec![used(0, -0.0), used(1, 0.5)],
        scores: vec![scored(0.5, Some(0.25)), scored(f64::NAN, None)],
        points: vec![RunPoint::Start, RunPoint::Usage(0), RunPoint::Score(0), RunPoint::Score(1), RunPoint::Usage(1)],
        ..RunView::new("mills-1", experiment)
    }
}

/// The run with its results.
fn finished(view: &RunView) -> RunView {
    let mut results = fixture::results(2);
    fixture::score(&mut results, "recall@10", &[vec![Some(0.5); 5], vec![Some(0.25); 5]]);
    fixture::choose(&mut results, "recall@10", &[1, 2]);
    RunView {
        state: RunState::Finished,
        is_last: true,
        ended_ms: Some(9_000),
        board: Some(Arc::new(Board::of(&results))),
        results: Some(Arc::new(results)),
        ..view.clone()
    }
}

fn settings(package: &'static str, program: &'static str) -> PackageSettings {
    let second = Duration::from_secs(1);
    PackageSettings {
        package,
        program,
        secrets: Vec::new(),
        place: "a place".to_owned(),
        pace: Pace { every: second, wait: second },
        project: None,
        fields: Map::from_iter([("mode".to_owned(), json!("offline"))]),
    }
}

#[test]
fn a_run_is_its_settings_without_secrets_and_the_versions_of_its_data() {
    let folder = tempfile::tempdir().unwrap();
    let view = view(folder.path());
    let sent = run(&view, &settings("json", RECORDER));
    assert_eq!((&sent["id"], &sent["project"], &sent["mode"]), (&json!("mills-1"), &json!("mills"), &json!("offline")));
    let config = &sent["config"];
    assert_eq!((&config["dataset"]["version"], &config["corpus"]["version"]), (&json!("q1"), &json!("c1")));
    assert_eq!(config["experiment"]["models"]["gpt"]["chat"]["openai"]["model"], "m");
    assert_eq!(config["trials"]["t02"]["retriever"], "bm25(top_k=2)");
    assert!(!sent.to_string().contains("hush"), "{sent}");
    let mut with_rows = crate::Experiment::clone(&view.experiment);
    let row = json!({ "question": "Who may know this?", "reference": "nobody" });
    with_rows.dataset =
        Some(crate::spec::DatasetSpec { rows: vec![row.as_object().unwrap().clone()], ..Default::default() });
    let view = RunView { experiment: with_rows.into(), ..view };
    assert!(!run(&view, &settings("json", RECORDER)).to_string().contains("nobody"), "questions stay here");
    let named = PackageSettings { project: Some("manuals".to_owned()), ..settings("json", RECORDER) };
    assert_eq!(run(&view, &named)["project"], "manuals");
}

#[test]
fn a_point_of_the_log_is_a_step_and_only_finite_numbers_are_sent() {
    let folder = tempfile::tempdir().unwrap();
    let view = view(folder.path());
    let sent = rows(&view, 0);
    let steps: Vec<i64> = sent.iter().map(|row| row["step"].as_i64().unwrap()).collect();
    assert_eq!(steps, [1, 2, 4]);
    let usage = json!({ "usage/tasks": 3, "usage/calls": 5, "usage/tokens": 70, "usage/dollars": 0.0 });
    assert_eq!(sent[0], json!({ "step": 1, "seconds": 1.5, "values": usage }));
    let scores = json!({ "t02/recall_at_10": 0.5, "t02/recall_at_10_low": 0.25, "questions": 4 });
    assert_eq!(sent[1], json!({ "step": 2, "seconds": 2.5, "values": scores, "trial": "t02" }));
    assert_eq!(rows(&view, 4), sent[2..]);
}

#[test]
fn the_end_of_a_run_has_its_state_and_its_results() {
    let folder = tempfile::tempdir().unwrap();
    let view = view(folder.path());
    let end = |view: &RunView| end(view, &run(view, &settings("json", RECORDER)));
    assert!(end(&view).is_none(), "it goes on");
    assert!(end(&RunView { state: RunState::Finished, ..view.clone() }).is_none(), "more may be written");
    let (_, killed) = end(&RunView { is_last: true, ..view.clone() }).unwrap();
    assert_eq!((&killed["summary"]["state"], &killed["has_ended"]), (&json!("running"), &json!(false)));
    for (state, name, code) in [(RunState::Failed, "failed", 1), (RunState::Interrupted, "killed", 255)] {
        let (_, end) = end(&RunView { state, is_last: true, ended_ms: Some(9_000), ..view.clone() }).unwrap();
        assert_eq!((&end["summary"], &end["exit_code"]), (&json!({ "state": name }), &json!(code)));
        assert_eq!((&end["step"], &end["seconds"], &end["table"]), (&json!(5), &json!(9.0), &Value::Null));
        assert_eq!(end["values"]["usage/dollars"], 0.5, "what was used in all");
    }
    let finished = finished(&view);
    let (digest, told) = end(&finished).unwrap();
    assert_eq!((&told["summary"]["state"], &told["summary"]["winner"]), (&json!("finished"), &json!("t01")));
    assert_eq!(told["summary"]["winner_pipeline"], "bm25(top_k=1)");
    assert_eq!((&told["values"]["results/objective"], &told["exit_code"]), (&json!(0.5), &json!(0)));
    assert_eq!(told["table"]["columns"][0], "trial");
    assert_eq!(told["table"]["data"][1][0], "t02");

    // The same run again adds a start to the log, and nothing else.
    let mut again = RunView { ended_ms: Some(19_000), ..finished.clone() };
    again.points.push(RunPoint::Start);
    assert_eq!(end(&again).unwrap().0, digest);
    again.points.push(RunPoint::Usage(0));
    assert_ne!(end(&again).unwrap().0, digest);
}

/// The calls that were recorded.
fn calls(folder: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join("calls.jsonl")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn each_call_has_the_new_steps_and_the_end_is_shown_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut tracker = PackageTracker::new(settings("json", RECORDER));
    let mut view = view(folder.path());
    let unknown = RunView { started_ms: 0, ..view.clone() };
    assert_eq!((tracker.sync(&unknown).await, calls(folder.path())), (Ok(Vec::new()), Vec::new()));
    assert_eq!(tracker.sync(&view).await, Ok(vec!["mills".to_owned()]), "with the notes of the program");
    view.points.push(RunPoint::Usage(0));
    tracker.sync(&view).await.unwrap();
    let finished = finished(&view);
    tracker.sync(&finished).await.unwrap();
    tracker.sync(&finished).await.unwrap();
    let calls = calls(folder.path());
    let shown: Vec<_> = calls.iter().map(|call| (call["steps"].clone(), call["end"].clone())).collect();
    assert_eq!(shown, [(json!([1, 2, 4]), Value::Null), (json!([5]), Value::Null), (json!([]), json!(6))]);
    assert!(calls.iter().all(|call| call["process"] == calls[0]["process"]));
}

#[tokio::test]
async fn a_new_process_is_given_everything_after_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let view = view(folder.path());
    let mut tracker = PackageTracker::new(settings("json", RECORDER));
    tracker.sync(&view).await.unwrap();
    let mut texts = Vec::new();
    for name in ["ends", "away", "refuses"] {
        std::fs::write(folder.path().join(name), "").unwrap();
        let failure = tracker.sync(&view).await.unwrap_err();
        std::fs::remove_file(folder.path().join(name)).unwrap();
        texts.push((failure.is_away(), failure.to_string()));
        tracker.sync(&view).await.unwrap();
    }
    assert!(texts[0].0 && texts[0].1.contains("exit status: 7"), "{texts:?}");
    assert_eq!(texts[1..], [(true, "OSError: away".to_owned()), (false, "ValueError: no".to_owned())]);
    let calls = calls(folder.path());
    assert_eq!(calls.len(), 7);
    assert!(calls.iter().skip(2).step_by(2).all(|call| call["steps"] == json!([1, 2, 4])), "{calls:?}");
    assert_ne!(calls[1]["process"], calls[2]["process"]);
}

#[tokio::test]
async fn a_missing_package_is_no_outage() {
    let folder = tempfile::tempdir().unwrap();
    let mut tracker = PackageTracker::new(settings("nothing_of_this_name", MISSING));
    let failure = tracker.sync(&view(folder.path())).await.unwrap_err();
    assert!(!failure.is_away() && failure.to_string().ends_with("pip install nothing_of_this_name"), "{failure}");
}
