//! What a record says of its run, and which records cannot be read.

use super::{
    fixture::{finish, provenance, record, session, session_with, text},
    *,
};
use crate::results::fixture as planted;
use serde_json::json;

const SPACE: &str = "chunker = \"sentence\"\nretriever = [\"bm25\", { bm25 = { top_k = 3 } }]";
const METRICS: &str = "metrics = [\"recall\"]";

#[test]
fn a_record_is_readable_if_each_of_its_formats_is_whatever_their_order() {
    let readable = |formats| serde_json::from_value::<ArtifactFormats>(formats).unwrap().are_readable();
    let version = |name: &str| ArtifactFormats::current().0[name];
    let (tables, dense, bm25) = (version("tables"), version("dense"), version("bm25"));
    assert!(readable(json!({ "bm25": bm25, "dense": dense, "tables": tables })));
    assert!(!readable(json!({ "bm25": bm25 + 1, "dense": dense, "tables": tables })));
    assert!(!readable(json!({ "graph": 1, "tables": tables })), "a kind of index that is not known here");
    assert!(readable(json!([tables, dense, bm25])), "a record of an earlier version");
    assert!(!readable(json!([tables, dense, bm25 + 1])));
    let written = serde_json::to_value(ArtifactFormats::current()).unwrap();
    assert_eq!(written["tokens"], version("tokens"));
}

fn zoo(run: &str, time_ms: i64) -> Results {
    Results { run: run.to_owned(), time_ms, ..planted::results(2) }
}

#[test]
fn a_list_of_formats_is_read_in_the_order_of_earlier_versions() {
    let read = |formats| serde_json::from_value::<ArtifactFormats>(formats).unwrap().0;
    let named = |formats: &[(&str, u32)]| {
        formats.iter().map(|(name, version)| ((*name).to_owned(), *version)).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(read(json!([7, 8, 9])), named(&[("tables", 7), ("dense", 8), ("bm25", 9)]));
    assert_eq!(read(json!([7, 8, 9, 10])), named(&[("tables", 7), ("dense", 8), ("bm25", 9), ("tokens", 10)]));
    assert_eq!(read(json!([])), named(&[]));
    assert!(ArtifactFormats::current().are_readable() && ArtifactFormats(named(&[])).are_readable());
}

#[test]
fn a_record_that_is_not_there_is_none_and_a_damaged_one_names_its_file() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(RunProvenance::read(folder.path()).unwrap(), None);
    let path = RunFileName::Frozen.within(folder.path());
    for text in ["", "{}", "{\"version\": 1", "[]"] {
        std::fs::write(&path, text).unwrap();
        let error = RunProvenance::read(folder.path()).unwrap_err();
        assert!(matches!(error, Error::Table(_)), "{text}");
        let error = error.to_string();
        assert!(error.contains(&path.display().to_string()) && error.ends_with("run again to make it anew"), "{error}");
    }
    // This version's record that lacks something is damage too.
    std::fs::write(&path, json!({ "version": VERSION, "formats": {} }).to_string()).unwrap();
    assert!(RunProvenance::read(folder.path()).is_err());
}

#[test]
fn of_a_record_of_another_version_only_the_formats_are_known() {
    let of_other_formats = json!({ "version": VERSION, "formats": { "tables": 99_999 }, "new": true });
    for bytes in [json!({ "version": VERSION + 1, "formats": {}, "new": 1 }), of_other_formats] {
        let bytes = serde_json::to_vec(&bytes).unwrap();
        let found = RunProvenance::parse(&bytes).unwrap();
        assert_eq!((found.experiment.as_str(), found.documents.len()), ("", 0));
        let record = record(&planted::results(1), "", |provenance| *provenance = found.clone());
        assert!(record.readable_provenance().is_none());
        let title = "run zoo-1 of 2026-11-22 10:07 UTC: another version of reverie wrote it in another format: ";
        let error = record.provenance().unwrap_err().to_string();
        assert!(error.starts_with(title) && error.contains("the next run makes it anew"), "{error}");
        assert!(record.documents().is_err() && record.trial_inputs("t01").is_err());
        assert!(record.overrides().is_empty());
    }
}

#[test]
fn a_record_whose_artifacts_have_another_format_is_readable_but_not_usable() {
    let record = record(&planted::results(1), "name = \"x\"", |provenance| {
        provenance.formats.0.insert("tables".to_owned(), 99_999);
    });
    assert_eq!(record.readable_provenance().map(|provenance| provenance.experiment.as_str()), Some("name = \"x\""));
    assert!(matches!(record.provenance(), Err(Error::Unusable(_))));
}

#[test]
fn a_run_of_an_earlier_version_has_no_record_of_its_pipelines() {
    let mut record = record(&planted::results(1), "name = \"x\"", |_| {});
    record.provenance = None;
    let error = record.provenance().unwrap_err().to_string();
    assert!(error.contains("an earlier version of reverie kept no record of its pipelines"), "{error}");
    assert!(record.readable_provenance().is_none() && record.overrides().is_empty());
    assert_eq!((record.id(), record.time_ms()), ("zoo-1", 1_795_342_062_000), "the results are known");
}

#[test]
fn two_files_are_a_record_if_this_version_reads_both() {
    let results = planted::results(2);
    let summary = crate::run_summary::summary_json(&results, 5).unwrap();
    let whole = record(&results, "name = \"x\"", |_| {});
    let provenance = whole.provenance().unwrap().to_json().unwrap();
    let read = RunRecord::of_files(&summary, &provenance).unwrap();
    assert_eq!((read.id(), read.provenance().unwrap()), ("zoo-1", whole.provenance().unwrap()));
    let error = RunRecord::of_files(b"{}", &provenance).unwrap_err().to_string();
    assert_eq!(error, "another version of reverie wrote its scores in another format");
    assert!(matches!(RunRecord::of_files(&summary, b"cut"), Err(Error::Table(_))));
}

#[test]
fn mean_scores_are_those_of_the_metrics_on_the_board() {
    let mut results = planted::results(2);
    planted::score(&mut results, "recall", &[vec![Some(1.0); 5], vec![Some(0.5), None, None, None, None]]);
    planted::score(&mut results, "ndcg", &[vec![Some(0.25); 5], vec![None; 5]]);
    let record = record(&results, "", |_| {});
    let means = |trial: &str| {
        let scores = record.mean_scores(trial).into_iter();
        scores.map(|(name, summary)| (name, summary.mean, summary.n_scored)).collect::<Vec<_>>()
    };
    assert_eq!(means("t01"), [("ndcg".to_owned(), Some(0.25), 5), ("recall".to_owned(), Some(1.0), 5)]);
    assert_eq!(means("t02"), [("ndcg".to_owned(), None, 0), ("recall".to_owned(), Some(0.5), 1)]);
    assert_eq!(means("t09"), []);
}

#[test]
fn comparisons_and_the_trial_that_answers_are_those_of_the_results() {
    let mut results = planted::results(2);
    planted::score(&mut results, "recall", &[vec![Some(1.0); 5], vec![Some(0.5); 5]]);
    let record = record(&results, "", |_| {});
    assert_eq!(record.compare("t02", "t01").unwrap(), results.compare("t02", "t01").unwrap());
    assert_eq!(record.compare("t01", "t01").unwrap()[0].comparison.mean_difference, Some(0.0));
    assert!(matches!(record.compare("t01", "t09"), Err(Error::NotFound(_))));
    assert_eq!(record.answering(None).unwrap().trial, "t01");
    assert_eq!(record.answering(Some("t02")).unwrap().trial, "t02");
    assert_eq!(record.questions().iter().map(|question| question.id.as_str()).collect::<String>(), "abcde");
    assert_eq!(record.scores().metrics().collect::<Vec<_>>(), ["recall"]);
}

/// A record of two trials that share their chunks and have an index each.
fn searched() -> RunRecord {
    let results = planted::results(2);
    record(&results, "name = \"x\"", |provenance| {
        let inputs = |index: TaskId| CorpusInputs {
            chunks: vec![0, 1],
            indexes: BTreeMap::from([(IndexKind::Bm25, vec![index])]),
            question_vectors: None,
        };
        let trials = results.trials.iter().zip([2, 3]);
        provenance.trials = trials
            .map(|(found, index)| ProvenanceTrial { trial: found.trial.clone(), inputs: inputs(index) })
            .collect();
        provenance.artifacts = (0..4).map(|id| (id, format!("artifacts/aa/{id}.parquet"))).collect();
    })
}

#[test]
fn a_trial_alone_keeps_the_artifacts_that_it_searches() {
    let record = searched();
    let (alone, names) = record.of_one_trial("t02", None).unwrap();
    assert_eq!(names, ["artifacts/aa/0.parquet", "artifacts/aa/1.parquet", "artifacts/aa/3.parquet"]);
    assert!(alone.models.is_empty(), "it asks no model");
    let read = RunRecord::of_files(&alone.summary, &alone.provenance).unwrap();
    let provenance = read.provenance().unwrap();
    assert_eq!(provenance.artifacts().collect::<Vec<_>>(), names);
    assert_eq!(provenance.trials.iter().map(|found| found.trial.id.as_str()).collect::<Vec<_>>(), ["t02"]);
    assert_eq!(read.answering(None).unwrap().trial, "t02");
    let (trial, inputs, _) = read.trial_inputs("t02").unwrap();
    assert_eq!((trial.id.as_str(), inputs.all()), ("t02", vec![0, 1, 3]));
    let gone = read.trial_inputs("t01").unwrap_err().to_string();
    assert_eq!(gone, "trial `t01` of run zoo-1 of 2026-11-22 10:07 UTC retrieves nothing");
}

#[test]
fn an_unknown_trial_has_no_inputs() {
    let record = searched();
    assert_eq!(record.trial_inputs("t01").unwrap().1.all(), [0, 1, 2]);
    let error = record.trial_inputs("t7").unwrap_err().to_string();
    assert_eq!(error, "there is no trial `t7`; there are t01, t02");
    assert!(record.of_one_trial("t7", None).is_err());
}

#[tokio::test]
async fn the_last_run_and_any_chosen_one_are_read_from_their_folders() {
    let folder = tempfile::tempdir().unwrap();
    let session = session(folder.path(), &text(SPACE, METRICS));
    assert!(matches!(latest_record(&session).await, Err(Error::NoRun { .. })));
    let kept = provenance(&session);
    for (run, time_ms) in [("zoo-aa1", 1_000), ("zoo-ab2", 2_000), ("zoo-b", 3_000)] {
        finish(&session, &zoo(run, time_ms), &kept).await;
    }
    let id = async |run: Option<&str>| chosen_record(&session, run).await.map(|record| record.id().to_owned());
    assert_eq!(latest_record(&session).await.unwrap().id(), "zoo-b");
    // What was asked for, and the run or a part of the refusal.
    for (asked, expected) in [
        (None, Ok("zoo-b")),
        (Some("zoo-ab2"), Ok("zoo-ab2")),
        (Some("aa"), Ok("zoo-aa1")),
        (Some("b"), Ok("zoo-b")),
        (Some("zoo-aa"), Ok("zoo-aa1")),
        (Some("a"), Err("several runs begin with `a`: ")),
        (Some("c"), Err("`zoo` has no finished run `c`; there are ")),
        (Some(""), Err("`zoo` has no finished run ``; there are ")),
    ] {
        match (id(asked).await, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{asked:?}"),
            (Err(error), Err(expected)) => assert!(error.to_string().starts_with(expected), "{asked:?}: {error}"),
            (found, _) => panic!("{asked:?}: {found:?}"),
        }
    }
    let record = record_of(&session, "zoo-aa1").await.unwrap();
    assert_eq!((record.time_ms(), record.provenance().unwrap()), (1_000, &kept));
    assert_eq!(record.results(&session).await.unwrap(), zoo("zoo-aa1", 1_000));
}

#[tokio::test]
async fn a_run_without_a_summary_is_read_from_its_results() {
    let folder = tempfile::tempdir().unwrap();
    let session = session(folder.path(), &text(SPACE, METRICS));
    finish(&session, &zoo("zoo-1", 1_000), &provenance(&session)).await;
    let path = RunFileName::Summary.within(&session.workspace().run_folder("zoo-1"));
    let with = record_of(&session, "zoo-1").await.unwrap();
    std::fs::remove_file(path).unwrap();
    let without = record_of(&session, "zoo-1").await.unwrap();
    assert_eq!((with.board(), with.scores()), (without.board(), without.scores()));
}

#[tokio::test]
async fn results_that_were_changed_afterwards_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let session = session(folder.path(), &text(SPACE, METRICS));
    finish(&session, &zoo("zoo-1", 1_000), &provenance(&session)).await;
    let record = record_of(&session, "zoo-1").await.unwrap();
    let path = RunFileName::Results.within(&session.workspace().run_folder("zoo-1"));
    std::fs::write(&path, serde_json::to_vec(&zoo("zoo-1", 9)).unwrap()).unwrap();
    let found = record.results(&session).await;
    assert!(matches!(found, Err(Error::Store(store::Error::Damaged { .. }))), "{found:?}");
}

#[tokio::test]
async fn the_file_of_an_experiment_is_told_from_the_folder_of_its_store() {
    let folder = tempfile::tempdir().unwrap();
    let session = session(folder.path(), &text(SPACE, METRICS));
    assert_eq!(file_of(&session).as_deref(), Some("zoo.toml"));
    std::fs::create_dir(folder.path().join("inner")).unwrap();
    let inner =
        fixture::session(&folder.path().join("inner"), &text(SPACE, METRICS).replace("\"store\"", "\"../store\""));
    assert_eq!(file_of(&inner).as_deref(), Some("inner/zoo.toml"), "below the folder that holds the store");
    let away =
        fixture::session(&folder.path().join("inner"), &text(SPACE, METRICS).replace("\"store\"", "\"store/deeper\""));
    let whole = folder.path().join("inner/zoo.toml").canonicalize().unwrap();
    assert_eq!(file_of(&away), Some(whole.display().to_string()), "beside it the whole path");
}

#[tokio::test]
async fn another_file_of_the_same_name_is_warned_of_before_its_run_is_no_longer_the_last() {
    let folder = tempfile::tempdir().unwrap();
    let ours = session(folder.path(), &text(SPACE, METRICS));
    assert_eq!(same_name_warning(&ours).await, None, "no run yet");
    finish(&ours, &zoo("zoo-1", 1_000), &provenance(&ours)).await;
    assert_eq!(same_name_warning(&ours).await, None, "it is the same file");
    let theirs = RunProvenance { file: Some("other.toml".to_owned()), ..provenance(&ours) };
    finish(&ours, &zoo("zoo-2", 2_000), &theirs).await;
    assert_eq!(
        same_name_warning(&ours).await.unwrap(),
        "other.toml has the same `name` (zoo): its run zoo-2 is no longer the last one after this; `--run zoo-2` still \
         shows it, and another `name` keeps them apart"
    );
    finish(&ours, &zoo("zoo-3", 3_000), &RunProvenance { file: None, ..provenance(&ours) }).await;
    assert_eq!(same_name_warning(&ours).await, None, "a program made it");
}

#[tokio::test]
async fn a_run_with_overrides_or_of_another_file_is_remarked_on() {
    let folder = tempfile::tempdir().unwrap();
    let session = session(folder.path(), &text(SPACE, METRICS));
    let tried = RunProvenance { overrides: vec!["--limit".to_owned(), "3".to_owned()], ..provenance(&session) };
    finish(&session, &zoo("zoo-2", 2_000), &tried).await;
    let record = record_of(&session, "zoo-2").await.unwrap();
    assert_eq!(record.overrides(), ["--limit", "3"]);
    assert_eq!(record.remarks(&session, false), ["run zoo-2 was started with --limit 3"], "there is no whole run");

    finish(&session, &zoo("zoo-1", 1_000), &provenance(&session)).await;
    let said =
        "run zoo-2 was started with --limit 3; the last run without overrides is zoo-1; show it with `--run zoo-1`";
    assert_eq!(record.remarks(&session, false), [said]);
    assert_eq!(record.remarks(&session, true), ["run zoo-2 was started with --limit 3"], "it was chosen by its id");
    let whole = record_of(&session, "zoo-1").await.unwrap();
    assert!(whole.remarks(&session, false).is_empty());

    let theirs = RunProvenance { file: Some("other.toml".to_owned()), ..provenance(&session) };
    finish(&session, &zoo("zoo-3", 3_000), &theirs).await;
    let other = record_of(&session, "zoo-3").await.unwrap();
    let said = "run zoo-3 came from other.toml, which has the same `name` as zoo.toml: another `name` keeps their runs \
                apart";
    assert_eq!(other.remarks(&session, true), [said]);
}

#[tokio::test]
async fn the_experiment_of_a_run_is_what_it_was_and_secrets_are_those_of_today() {
    let folder = tempfile::tempdir().unwrap();
    let with = |top_k: usize, key: &str| {
        let space = format!("chunker = \"sentence\"\nretriever = {{ bm25 = {{ top_k = {top_k} }} }}");
        text(&space, METRICS).replacen("price =", &format!("headers = {{ x-key = \"{key}\" }}, price ="), 1)
    };
    let then = session(folder.path(), &with(3, "s3cret-then"));
    let kept = provenance(&then);
    assert!(!kept.experiment.contains("s3cret"), "{}", kept.experiment);
    finish(&then, &zoo("zoo-1", 1_000), &kept).await;
    let now = session(folder.path(), &with(9, "s3cret-now"));
    let record = latest_record(&now).await.unwrap();
    let found = experiment_of(&now.experiment, &record).unwrap();
    assert_eq!((found.space == then.experiment.space, found.space == now.experiment.space), (true, false));
    assert_eq!(found.models, now.experiment.models, "with the secret of today");

    let without = session(folder.path(), &text(SPACE, METRICS));
    let error = experiment_of(&without.experiment, &record).unwrap_err().to_string();
    assert!(error.contains("models.gpt.chat.openai.headers.x-key may be secret"), "{error}");
}

#[tokio::test]
async fn an_experiment_that_this_version_does_not_understand_is_refused_with_the_reasons() {
    let folder = tempfile::tempdir().unwrap();
    let session = session_with(folder.path(), &text(SPACE, METRICS), |_| {});
    for (experiment, part) in [
        ("name = ", "run zoo-1 of 1970-01-01 00:00 UTC: "),
        (
            "name = \"zoo\"\n[corpus]\nsource = \"d\"\n[space]\nchunker = \"of_tomorrow\"\n",
            "does not understand its experiment (",
        ),
    ] {
        let kept = RunProvenance { experiment: experiment.to_owned(), ..provenance(&session) };
        finish(&session, &zoo("zoo-1", 1_000), &kept).await;
        let record = latest_record(&session).await.unwrap();
        let error = experiment_of(&session.experiment, &record).unwrap_err();
        assert!(matches!(error, Error::Unusable(_)), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
}
