//! A workspace on a folder, and on a store that is elsewhere.

use super::*;
use crate::{
    clock::now_ms,
    layout::RunFileName,
    results::{Results, fixture},
    run_summary::summary_json,
};
use models::ModelDirectory;

type TestResult = Result<(), Box<dyn std::error::Error>>;

fn experiment(folder: &Path, store: &str) -> Experiment {
    let text = format!(
        "name = \"x\"\nstore = \"{store}\"\n[corpus]\nsource = \"d\"\n[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n"
    );
    Experiment::parse(&text, folder).unwrap()
}

fn setup(folder: &Path) -> Setup {
    Setup::new(ModelDirectory::new(folder.join("models"), Vec::new()), Arc::new(|_| None))
}

fn open(folder: &Path, store: &str) -> Result<Workspace, Error> {
    Workspace::open(&experiment(folder, store), &setup(folder))
}

/// Writes what a finished run leaves, as far as others read it.
async fn finish(workspace: &Workspace, run: &str, time_ms: i64) -> Result<(), Error> {
    workspace.write_run_file(run, RunFileName::Frozen, "{}").await?;
    workspace.write_run_file(run, RunFileName::Results, format!("{{\"time_ms\":{time_ms}}}")).await?;
    workspace.point_to("x", run).await
}

#[tokio::test]
async fn the_last_run_is_the_one_that_was_pointed_to() -> TestResult {
    let folder = tempfile::tempdir()?;
    let workspace = open(folder.path(), "store")?;
    assert!(matches!(workspace.latest_run("x").await, Err(Error::NoRun { what: "finished run", .. })));
    finish(&workspace, "x-1", 1).await?;
    finish(&workspace, "x-2", 2).await?;
    assert_eq!(workspace.latest_run("x").await?, "x-2");
    assert!(workspace.latest_run("y").await.is_err(), "each experiment has its own");
    assert_eq!(workspace.run_folder("x-2"), folder.path().join("store/runs/x-2"));
    Ok(())
}

#[tokio::test]
async fn a_run_file_that_is_not_what_was_written_is_refused() -> TestResult {
    let folder = tempfile::tempdir()?;
    let workspace = open(folder.path(), "store")?;
    finish(&workspace, "x-1", 1).await?;
    std::fs::write(RunFileName::Results.within(&workspace.run_folder("x-1")), "{\"time_ms\":9}")?;
    let checked = workspace.check_run_file("x-1", RunFileName::Results).await;
    assert!(matches!(checked, Err(Error::Store(store::Error::Damaged { .. }))), "{checked:?}");
    workspace.write_run_file("x-1", RunFileName::Frozen, "{}").await?;
    assert_eq!(workspace.latest_run("x").await?, "x-1");
    std::fs::write(RunFileName::Frozen.within(&workspace.run_folder("x-1")), "[]")?;
    assert!(matches!(workspace.latest_run("x").await, Err(Error::Store(store::Error::Damaged { .. }))));
    Ok(())
}

#[tokio::test]
async fn who_only_reads_makes_nothing_in_the_store() -> TestResult {
    let folder = tempfile::tempdir()?;
    let (experiment, setup) = (experiment(folder.path(), "store"), setup(folder.path()));
    let scratch = folder.path().join("scratch");
    let missing = Workspace::open_to_read(&experiment, &setup, &scratch);
    assert!(matches!(missing, Err(Error::NoRun { .. })), "there is no store, and none is made");
    finish(&Workspace::open(&experiment, &setup)?, "x-1", 1).await?;

    let reading = Workspace::open_to_read(&experiment, &setup, &scratch)?;
    assert!(reading.is_reading());
    assert_eq!(reading.latest_run("x").await?, "x-1");
    reading.event_log("loading")?;
    assert!(scratch.join("runs/loading").is_dir() && !folder.path().join("store/runs/loading").exists());
    let mut claimed = ClaimedArtifacts::new(&reading);
    claimed.add("x-1", ["artifacts/ab/x.parquet".to_owned()].into_iter()).await?;
    assert!(!folder.path().join("store/leases").exists(), "it claims nothing");
    Ok(())
}

#[tokio::test]
async fn a_claim_is_there_until_the_work_ends() -> TestResult {
    let folder = tempfile::tempdir()?;
    let workspace = open(folder.path(), "store")?;
    let leases = || std::fs::read_dir(folder.path().join("store/leases")).map_or(0, Iterator::count);
    let mut claimed = ClaimedArtifacts::new(&workspace);
    assert_eq!(leases(), 0, "nothing is claimed yet");
    claimed.add("x-1", ["artifacts/ab/x.parquet".to_owned()].into_iter()).await?;
    claimed.add("x-1", ["artifacts/cd/y.parquet".to_owned()].into_iter()).await?;
    assert_eq!(leases(), 1, "one claim with two lists");
    assert_eq!(claimed.others().await, 0, "runs of one folder wait for each other");
    claimed.end().await;
    assert_eq!(leases(), 0);
    Ok(())
}

/// A machine with nothing on its disk that uses the same store.
fn another_machine(folder: &Path, workspace: &Workspace) -> Result<Workspace, Box<dyn std::error::Error>> {
    let other = Workspace { root: folder.join("other"), ..open(folder, "memory:///prefix")? };
    let local = ArtifactStore::open(&other.root.to_string_lossy(), &[], LAYOUT)?;
    Ok(Workspace { local, store: workspace.store.clone(), ..other })
}

#[tokio::test]
async fn a_run_is_fetched_from_a_store_that_is_elsewhere_unless_ours_is_newer() -> TestResult {
    let folder = tempfile::tempdir()?;
    let workspace = open(folder.path(), "memory:///prefix")?;
    assert_eq!(workspace.root(), folder.path().join(".reverie"));
    finish(&workspace, "x-1", 1).await?;
    assert_eq!(workspace.send_calls().await?, (0, None));
    workspace.publish("x", "x-1").await?;

    let other = another_machine(folder.path(), &workspace)?;
    assert_eq!(other.latest_run("x").await?, "x-1");
    assert!(RunFileName::Results.within(&other.run_folder("x-1")).is_file());

    // A run of its own that could not be copied is the newer one.
    finish(&other, "x-2", 2).await?;
    assert_eq!(other.latest_run("x").await?, "x-2");
    assert_eq!(workspace.latest_run("x").await?, "x-1");
    Ok(())
}

#[tokio::test]
async fn the_results_of_a_run_are_fetched_once_and_its_time_is_read_from_its_summary() -> TestResult {
    let folder = tempfile::tempdir()?;
    let workspace = open(folder.path(), "memory:///prefix")?;
    let other = another_machine(folder.path(), &workspace)?;
    let summarize = async |run: &str, time_ms: i64, results: &str| -> TestResult {
        let board = serde_json::json!({ "experiment": "x", "run": run });
        let summary = serde_json::json!({ "results_bytes": results.len(), "time_ms": time_ms, "board": board });
        workspace.write_run_file(run, RunFileName::Results, results).await?;
        workspace.write_run_file(run, RunFileName::Summary, summary.to_string()).await?;
        workspace.point_to("x", run).await?;
        workspace.publish("x", run).await?;
        Ok(())
    };
    let kept = |run: &str| std::fs::read_to_string(RunFileName::Results.within(&other.run_folder(run)));
    // Results that cannot be parsed: only the summary says when the run finished.
    summarize("x-1", 1, "first results").await?;
    assert_eq!((other.latest_run("x").await?.as_str(), kept("x-1")?.as_str()), ("x-1", "first results"));
    workspace.store.replace(&layout::run_file("x-1", RunFileName::Results), "other results").await?;
    assert_eq!((other.latest_run("x").await?.as_str(), kept("x-1")?.as_str()), ("x-1", "first results"));
    // The same plan is the same run: it ran again elsewhere.
    summarize("x-1", 2, "second results").await?;
    assert_eq!((other.latest_run("x").await?.as_str(), kept("x-1")?.as_str()), ("x-1", "second results"));
    let past = other.past_runs()?;
    assert_eq!((past.len(), past[0].experiment.as_str(), past[0].run.as_str(), past[0].time_ms), (1, "x", "x-1", 2));
    Ok(())
}

/// Results with rows that say this.
fn saying(text: &str, time_ms: i64) -> Results {
    let mut results = Results { run: "x-1".to_owned(), time_ms, ..fixture::results(2) };
    for trial in &mut results.trials {
        trial.questions[0].passages = vec![rag::Passage::of_text("a.md".to_owned(), text.to_owned())];
    }
    // The second trial is the same whatever the text.
    results.trials[1].questions[0].passages.clear();
    results
}

/// Writes results as a run does: the rows of trials first, and `results.json` last.
async fn write_results(workspace: &Workspace, whole: &Results) -> TestResult {
    let mut results = Results { trials: Vec::new(), ..whole.clone() };
    for trial in whole.trials.clone() {
        results.trials.push(workspace.keep_rows("x-1", trial).await?);
    }
    let written = results.stored_json()?;
    workspace.write_run_file("x-1", RunFileName::Frozen, "{}").await?;
    workspace.write_run_file("x-1", RunFileName::Summary, summary_json(&results, written.len())?).await?;
    workspace.write_run_file("x-1", RunFileName::Results, written).await?;
    workspace.remove_other_rows("x-1", &results.row_files()).await?;
    workspace.point_to("x", "x-1").await?;
    Ok(())
}

/// Removes the files of rows that the results do not name, as if an hour had passed.
async fn remove_an_hour_later(workspace: &Workspace, store: &ArtifactStore) -> TestResult {
    let files = workspace.results_head("x-1").await?.row_files();
    Ok(trial_rows::remove_unnamed(store, "x-1", &files, now_ms() + 3_600_001).await?)
}

#[tokio::test]
async fn the_rows_of_trials_go_where_the_results_go_and_those_of_before_are_removed_an_hour_later() -> TestResult {
    let folder = tempfile::tempdir()?;
    let workspace = open(folder.path(), "memory:///prefix")?;
    let other = another_machine(folder.path(), &workspace)?;
    let listed = async |store: &ArtifactStore| store.list("runs/x-1/trials").await;
    let mut before: Vec<String> = Vec::new();
    for (text, time_ms) in [("oats", 1), ("rye", 2)] {
        write_results(&workspace, &saying(text, time_ms)).await?;
        workspace.publish("x", "x-1").await?;
        assert_eq!(other.latest_run("x").await?, "x-1");
        let names = workspace.results_head("x-1").await?.row_files();
        let names: Vec<String> = names.iter().map(|file| layout::trial_rows("x-1", file)).collect();
        for store in [&workspace.local, &workspace.store, &other.local] {
            let kept = listed(store).await?;
            assert!(before.iter().chain(&names).all(|name| kept.contains(name)), "{text}: {kept:?}");
            remove_an_hour_later(&workspace, store).await?;
            assert_eq!(listed(store).await?, names, "{text}");
        }
        assert_eq!((names.len(), before.iter().filter(|name| names.contains(name)).count()), (2, before.len() / 2));
        for place in [&workspace, &other] {
            assert_eq!(place.results("x-1").await?, saying(text, time_ms));
        }
        before = names;
    }
    // Rows that were not brought along are fetched when somebody looks at them.
    for name in &before {
        other.local.remove(name).await?;
    }
    assert_eq!(other.results_with_rows_of("x-1", "t01").await?.trials[0], saying("rye", 2).trials[0]);
    assert_eq!(listed(&other.local).await?, before);
    // A run that is asked for by its id.
    std::fs::remove_dir_all(other.run_folder("x-1"))?;
    assert_eq!(other.find_run("x", "x-1").await?, "x-1");
    assert_eq!(other.results("x-1").await?, saying("rye", 2));
    Ok(())
}

#[tokio::test]
async fn rows_of_a_run_that_was_killed_before_its_results_are_written_change_nothing() -> TestResult {
    let folder = tempfile::tempdir()?;
    let workspace = open(folder.path(), "store")?;
    write_results(&workspace, &saying("oats", 1)).await?;
    for trial in saying("rye", 2).trials {
        workspace.keep_rows("x-1", trial).await?;
    }
    assert_eq!(workspace.local.list("runs/x-1/trials").await?.len(), 3);
    assert_eq!(workspace.results("x-1").await?, saying("oats", 1));
    let head = workspace.results_head("x-1").await?;
    assert!(head.trials.iter().all(|trial| trial.questions.is_empty()));
    write_results(&workspace, &saying("rye", 2)).await?;
    remove_an_hour_later(&workspace, &workspace.local).await?;
    assert_eq!(workspace.local.list("runs/x-1/trials").await?.len(), 2);
    assert_eq!(workspace.results("x-1").await?, saying("rye", 2));
    Ok(())
}

#[tokio::test]
async fn two_runs_of_one_plan_at_once_leave_each_other_their_rows() -> TestResult {
    let folder = tempfile::tempdir()?;
    let workspace = open(folder.path(), "store")?;
    // One has written its rows when the other writes all, and the other still reads its rows when the one is done.
    for trial in saying("oats", 1).trials {
        workspace.keep_rows("x-1", trial).await?;
    }
    write_results(&workspace, &saying("rye", 2)).await?;
    let read_by_the_other = workspace.results_head("x-1").await?;
    write_results(&workspace, &saying("oats", 1)).await?;
    assert_eq!(workspace.results("x-1").await?, saying("oats", 1));
    assert_eq!(read_by_the_other.with_rows(&workspace.run_folder("x-1"))?, saying("rye", 2));
    Ok(())
}

#[test]
fn the_folder_of_this_machine_is_beside_the_experiment_where_the_store_is_elsewhere() {
    let folder = Path::new("/e");
    assert_eq!(Workspace::address(&experiment(folder, "s")), "/e/s");
    assert_eq!(Workspace::address(&experiment(folder, "s3://b/p")), "s3://b/p");
    assert_eq!(Workspace::journal_path(&experiment(folder, "s")), Path::new("/e/s").join(Journal::FILE));
    assert_eq!(Workspace::journal_path(&experiment(folder, "s3://b/p")), Path::new("/e/.reverie").join(Journal::FILE));
}

#[tokio::test]
async fn a_report_takes_the_place_of_an_earlier_one_with_all_its_parts() -> TestResult {
    let folder = tempfile::tempdir()?;
    let workspace = open(folder.path(), "memory:///prefix")?;
    let part = |name: &str| (name.to_owned(), format!("of {name}"));
    let names = ["runs/x-1/report-parts/a.js", "runs/x-1/report-parts/b.js"];
    workspace.write_report("x-1", "page".to_owned(), vec![part("a.js"), part("b.js")]).await?;
    workspace.publish_report("x-1").await?;
    for store in [&workspace.local, &workspace.store] {
        assert_eq!(store.list("runs/x-1/report-parts").await?, names);
        assert_eq!(store.get(names[1]).await?.as_deref(), Some(b"of b.js".as_slice()));
        assert!(store.exists("runs/x-1/report.html").await?);
    }
    workspace.write_report("x-1", "page".to_owned(), vec![part("b.js")]).await?;
    workspace.publish_report("x-1").await?;
    for store in [&workspace.local, &workspace.store] {
        assert_eq!(store.list("runs/x-1/report-parts").await?, names[1..]);
    }
    workspace.write_report("x-1", "page".to_owned(), Vec::new()).await?;
    workspace.publish("x", "x-1").await?;
    assert_eq!(workspace.store.list("runs/x-1/report-parts").await?, [""; 0], "a small report is one file");
    Ok(())
}
