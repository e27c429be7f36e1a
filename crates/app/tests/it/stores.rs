//! Everything an experiment keeps on a real S3 server: shared by machines,
//! away for a while, and looked after by `reverie store`.

use crate::{
    corpus,
    services::{KEY, S3, SECRET},
    workspace::{Outcome, Workspace},
};
use lab::{Worker, engine::WorkerSetup};
use serde_json::Value;
use simulator::{LatencyModel, RunningSimulator, SimulatorSettings};
use std::{collections::BTreeMap, process::Stdio, sync::Arc, time::Duration};
use store::{ArtifactStore, Journal, JournalEntry, Key, SharedJournal};

const RETRIEVAL: &str = "chunker = [{ sentence = { chunk_size = 32, chunk_overlap = 0 } }, { sentence_window = { window_size = 1 } }]\nembedder = [\"tiny\"]\nretriever = [{ dense = { top_k = 2 } }, { bm25 = { top_k = 2 } }]";
const GENERATOR: &str = "generator = [{ compact = { model = \"gpt\", max_tokens = 16 } }]";
const STORE: &str = "s3://bucket/experiments";

/// An experiment whose store, corpus and golden questions are at addresses.
fn experiment(workspace: &Workspace, space: &str, [store, source, golden]: [&str; 3], rest: &str) {
    workspace.experiment(space, &format!("[dataset]\npath = \"{golden}\"\n{rest}"));
    let text = std::fs::read_to_string(workspace.file("experiment.toml")).unwrap();
    let text = text.replace("store = \"store\"", &format!("store = \"{store}\""));
    workspace.write("experiment.toml", text.replace("source = \"documents\"", &format!("source = \"{source}\"")));
}

/// A machine that answers with a simulated model and keeps all at `STORE`.
fn machine(provider: &RunningSimulator, questions: usize) -> Workspace {
    let workspace = Workspace::new();
    workspace.multiply_questions(questions);
    // A static model has the identity of its files, wherever they lie.
    let model = format!(
        "[models.gpt]\nchat.openai = {{ model = \"m\", base_url = \"{}/v1\", concurrency = 4 }}\n",
        provider.url
    );
    let evaluate = "[evaluate]\nmetrics = [\"recall\", \"token_f1\"]\n";
    let space = format!("{RETRIEVAL}\n{GENERATOR}");
    experiment(&workspace, &space, [STORE, "documents", "golden.jsonl"], &format!("{evaluate}{model}"));
    workspace
}

async fn provider() -> RunningSimulator {
    let latency = LatencyModel::Uniform { shortest: 0.01, longest: 0.03 };
    simulator::start(SimulatorSettings { latency, answer_tokens: 8, ..SimulatorSettings::default() }).await.unwrap()
}

fn run(server: &S3, workspace: &Workspace, arguments: &[&str]) -> Outcome {
    Outcome::of(server.known_to(workspace.command(arguments)).output().unwrap())
}

/// What the leaderboard says, without times.
fn leaderboard(results: &Value) -> Vec<Value> {
    let trials = results["trials"].as_array().unwrap().iter();
    let one = |trial: &Value| {
        let answers = trial["questions"].as_array().unwrap().iter().map(|question| question["answer"]["text"].clone());
        serde_json::json!([trial["trial"]["id"], trial["objective"], trial["metrics"], answers.collect::<Vec<_>>()])
    };
    trials.map(one).collect()
}

#[tokio::test]
async fn with_corpus_questions_and_store_on_s3_nothing_else_is_different() {
    let Some(server) = S3::start().await else { return };
    // One machine, since a model that is named by its path has it in its keys.
    let workspace = Workspace::new();
    workspace.experiment(RETRIEVAL, "[dataset]\npath = \"golden.jsonl\"");
    let expected = workspace.run(&["run", "--json"]).succeeds().json();
    let folder =
        store::ArtifactStore::open(&workspace.file("store").to_string_lossy(), &[], lab::layout::LAYOUT).unwrap();

    let bucket = server.store("s3://bucket/");
    for (name, text) in [("otters.md", corpus::OTTERS), ("owls.txt", corpus::OWLS), ("whales.html", corpus::WHALES)] {
        bucket.put(&format!("documents/{name}"), text).await.unwrap();
    }
    let golden = "s3://bucket/golden/golden.csv";
    let told = run(&server, &workspace, &["golden", "export", "golden.jsonl", "--output", golden]).succeeds();
    assert!(told.out.contains("4 questions"), "{}", told.out);
    let again = run(&server, &workspace, &["golden", "export", "golden.jsonl", "--output", golden]).ends_with(1);
    assert!(again.err.contains("is there already"), "{}", again.err);
    bucket.put("golden/golden.jsonl", std::fs::read(workspace.file("golden.jsonl")).unwrap()).await.unwrap();
    for file in ["documents/otters.md", "documents/owls.txt", "documents/whales.html", "golden.jsonl"] {
        std::fs::remove_file(workspace.file(file)).unwrap();
    }
    for (kept, golden) in [("s3://bucket/of-csv", golden), (STORE, "s3://bucket/golden/golden.jsonl")] {
        experiment(&workspace, RETRIEVAL, [kept, "s3://bucket/documents", golden], "");
        let results = run(&server, &workspace, &["run", "--json"]).succeeds().json();
        assert_eq!(leaderboard(&results), leaderboard(&expected), "{golden}");
        assert_eq!(results["winner"], expected["winner"]);
    }
    // Another command that read the corpus is over, and so is what it held.
    let model = "[models.gpt]\nchat.openai = { model = \"gpt\", base_url = \"http://127.0.0.1:9/v1\" }";
    experiment(&workspace, RETRIEVAL, [STORE, "s3://bucket/documents", "s3://bucket/golden/golden.jsonl"], model);
    let estimate = ["golden", "generate", "--dry-run", "--model", "gpt", "--output", "asked.jsonl"];
    run(&server, &workspace, &estimate).succeeds();
    let planned = run(&server, &workspace, &["plan"]).succeeds();
    assert!(!format!("{}{}", planned.out, planned.err).contains("uses this store now"), "{}", planned.out);
    let sampled = run(&server, &workspace, &["plan", "--sample", "--json"]).succeeds().json();
    let three = serde_json::json!({ "estimate": 3, "low": 3, "high": 3 });
    assert_eq!((&sampled["documents"], &sampled["is_whole"]), (&three, &serde_json::json!(true)), "{sampled}");
    experiment(&workspace, RETRIEVAL, [STORE, "s3://bucket/documents", "s3://bucket/golden/golden.jsonl"], "");
    let second = run(&server, &workspace, &["run", "--json"]).succeeds().json();
    assert_eq!(second["executed"], 0, "what is in the store is not done again");
    assert_eq!(server.store(STORE).list("artifacts").await.unwrap(), folder.list("artifacts").await.unwrap());
    experiment(&workspace, RETRIEVAL, [STORE, "s3://bucket/documents", "s3://bucket/golden/none.jsonl"], "");
    run(&server, &workspace, &["run"]).refused_with(&["s3://bucket/golden/none.jsonl does not exist"]);
    let generate = format!("generate = {{ model = \"gpt\" }}\n{model}");
    experiment(&workspace, RETRIEVAL, [STORE, "s3://bucket/documents", "s3://bucket/golden/none.jsonl"], &generate);
    run(&server, &workspace, &["run"]).refused_with(&["questions are generated into local files only"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_machine_pays_nothing_again_and_shows_the_leaderboard() {
    let Some(server) = S3::start().await else { return };
    let provider = provider().await;
    let first = machine(&provider, 4);
    let expected = run(&server, &first, &["run", "--json"]).succeeds().json();
    let paid = provider.stats().answered;
    assert!(paid >= 16, "{paid}");

    let looker = machine(&provider, 4);
    let shown = run(&server, &looker, &["leaderboard", "--json"]).succeeds().json();
    let (ids, expected_ids) = (&shown["rows"], &expected["trials"]);
    let ids: Vec<&Value> = ids.as_array().unwrap().iter().map(|row| &row["id"]).collect();
    let expected_ids: Vec<&Value> =
        expected_ids.as_array().unwrap().iter().map(|trial| &trial["trial"]["id"]).collect();
    assert_eq!(ids, expected_ids);
    let trial = expected["trials"][0]["trial"]["id"].as_str().unwrap();
    let other = expected["trials"][1]["trial"]["id"].as_str().unwrap();
    assert!(run(&server, &looker, &["show", trial, "owl-0"]).succeeds().out.contains("evidence: owls.txt"));
    assert!(run(&server, &looker, &["compare", trial, other]).succeeds().out.contains("recall"));
    assert!(run(&server, &looker, &["leaderboard"]).succeeds().out.contains("report: "));

    // Without what was computed, every answer is asked for again.
    let kept = server.store(STORE);
    for name in kept.list("artifacts").await.unwrap() {
        kept.remove(&name).await.unwrap();
    }
    let second = machine(&provider, 4);
    let results = run(&server, &second, &["run", "--json"]).succeeds().json();
    assert_eq!(leaderboard(&results), leaderboard(&expected));
    assert_eq!(provider.stats().answered, paid, "no call was paid again");
    let queried = run(&server, &looker, &["query", "What do barn owls swallow?", "--json"]).succeeds().json();
    assert_eq!(queried["passages"][0]["document"], "owls.txt");
    for file in ["experiment.toml", "results.json", "events.jsonl", "report.html", "artifacts.json"] {
        let name = format!("runs/{}/{file}", results["run"].as_str().unwrap());
        assert!(kept.exists(&name).await.unwrap(), "{name}");
    }
    let rows = kept.list(&format!("runs/{}/trials", results["run"].as_str().unwrap())).await.unwrap();
    assert_eq!(rows.len(), results["trials"].as_array().unwrap().len(), "{rows:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_runs_at_once_share_a_store_and_agree() {
    let Some(server) = S3::start().await else { return };
    let provider = provider().await;
    let machines = [machine(&provider, 6), machine(&provider, 6)];
    let runs = machines.each_ref().map(|machine| {
        let mut command = server.known_to(machine.command(&["run", "--json"]));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    });
    let [one, other] = runs.map(|run| Outcome::of(run.wait_with_output().unwrap()).succeeds().json());
    assert_eq!(leaderboard(&one), leaderboard(&other), "of two answers to one call the first is everyone's");
    let calls = server.store(STORE).list("journal").await.unwrap().len() as u64;
    assert_eq!(calls, provider.stats().unique_answered);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_survives_a_store_that_is_away_for_a_while() {
    let Some(mut server) = S3::start().await else { return };
    let provider = provider().await;
    let workspace = machine(&provider, 40);
    let mut command = server.known_to(workspace.command(&["run", "--json"]));
    let mut run_now = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while provider.stats().answered < 30 {
        assert!(run_now.try_wait().unwrap().is_none(), "it ended before the store went away");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.kill();
    tokio::time::sleep(Duration::from_secs(4)).await;
    server.start_again().await;
    let results = Outcome::of(run_now.wait_with_output().unwrap()).succeeds().json();
    assert_eq!(results["provider_errors"], 0);
    let stats = provider.stats();
    assert_eq!(stats.answered, stats.unique_answered, "nothing was paid twice");
    let calls = server.store(STORE).list("journal").await.unwrap().len() as u64;
    assert_eq!(calls, stats.unique_answered, "and nothing was lost");
    let journal = run(&server, &workspace, &["journal", "stats", "--json"]).succeeds().json();
    assert_eq!(journal["unsent"], 0, "{journal}");
    run(&server, &workspace, &["store", "verify"]).succeeds();
}

#[tokio::test]
async fn a_wrong_secret_or_bucket_is_told_at_once_and_no_secret_is_shown() {
    let Some(server) = S3::start().await else { return };
    let workspace = Workspace::new();
    experiment(&workspace, RETRIEVAL, [STORE, "documents", "golden.jsonl"], "");
    let with = |name: &str, value: &str, arguments: &[&str]| {
        let mut command = server.known_to(workspace.command(arguments));
        command.env(name, value);
        let outcome = Outcome::of(command.output().unwrap());
        assert!(!outcome.err.contains(SECRET) && !outcome.err.contains(value), "{}", outcome.err);
        outcome
    };
    let wrong = "wrong-planted-0123456789";
    with("AWS_SECRET_ACCESS_KEY", wrong, &["run"]).refused_with(&["check AWS_SECRET_ACCESS_KEY", STORE]);
    with("AWS_ACCESS_KEY_ID", wrong, &["run"]).refused_with(&["check AWS_ACCESS_KEY_ID"]);
    let told = with("AWS_SECRET_ACCESS_KEY", wrong, &["leaderboard"]).ends_with(1);
    assert!(told.err.contains("check AWS_SECRET_ACCESS_KEY"), "{}", told.err);
    let told = with("AWS_SECRET_ACCESS_KEY", wrong, &["store", "stats"]).ends_with(1);
    assert!(told.err.contains("check AWS_SECRET_ACCESS_KEY"), "{}", told.err);
    experiment(&workspace, RETRIEVAL, ["s3://missing-bucket/x", "documents", "golden.jsonl"], "");
    run(&server, &workspace, &["run"]).refused_with(&["there is no bucket `missing-bucket`: create it"]);

    // The same keys, out of the file that the AWS tools share.
    experiment(&workspace, RETRIEVAL, [STORE, "documents", "golden.jsonl"], "");
    let profile = format!("[work]\naws_access_key_id = {}\naws_secret_access_key = {SECRET}\n", crate::services::KEY);
    workspace.write("credentials", profile);
    let mut command = server.known_to(workspace.command(&["run"]));
    command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY").env("AWS_PROFILE", "work");
    command.env("AWS_SHARED_CREDENTIALS_FILE", workspace.file("credentials"));
    Outcome::of(command.output().unwrap()).succeeds();
}

#[tokio::test]
async fn a_store_is_counted_checked_swept_and_copied() {
    let Some(server) = S3::start().await else { return };
    let workspace = Workspace::new();
    experiment(&workspace, RETRIEVAL, [STORE, "documents", "golden.jsonl"], "");
    let results = run(&server, &workspace, &["run", "--json"]).succeeds().json();
    let run_id = results["run"].as_str().unwrap();
    let verb = |arguments: &[&str]| run(&server, &workspace, &[&["store"], arguments].concat());
    let stats = verb(&["stats", "--json"]).succeeds().json();
    let count = |kind: &str| stats["kinds"][kind]["objects"].as_u64().unwrap();
    // Checksums are not read for themselves, and noted again where they are copied to. How the run was doing stays here.
    assert_eq!(count("files of one machine"), 1);
    let all = stats["all"]["objects"].as_u64().unwrap() - count("checksums") - 1;
    assert_eq!((&stats["runs"][0]["run"], &stats["runs"][0]["missing"]), (&run_id.into(), &0.into()), "{stats}");
    assert_eq!(
        stats["runs"][0]["artifacts"]["objects"],
        stats["kinds"]["artifacts .parquet"]["objects"].as_u64().unwrap() + 4
    );
    assert!(verb(&["stats", STORE]).succeeds().out.contains(run_id));
    assert_eq!(verb(&["verify", "--json"]).succeeds().json()["read"]["objects"], all);

    let to_folder = verb(&["copy", STORE, "copied"]).succeeds();
    assert!(to_folder.out.contains(&format!("{all} objects")), "{}", to_folder.out);
    verb(&["copy", "copied", "s3://bucket/back", "--json"]).succeeds();
    let again = verb(&["copy", "copied", "s3://bucket/back", "--json"]).succeeds().json();
    assert_eq!((&again["written"]["objects"], &again["there"]["objects"]), (&0.into(), &all.into()));
    let (there, back) = (server.store(STORE), server.store("s3://bucket/back"));
    let objects = |store: store::ArtifactStore| async move {
        let found = store.objects("").await.unwrap();
        let found = found.into_iter().filter(|object| !object.name.starts_with("scratch/"));
        found.map(|object| (object.name, object.bytes)).collect::<Vec<_>>()
    };
    assert_eq!(objects(there.clone()).await, objects(back.clone()).await);
    verb(&["verify", "s3://bucket/back"]).succeeds();

    let name = back.list("artifacts").await.unwrap().remove(0);
    // By another way in, which knows of no checksum.
    let raw = server.store("s3://bucket/back/artifacts");
    raw.replace(name.strip_prefix("artifacts/").unwrap(), "damaged").await.unwrap();
    assert!(verb(&["verify", "s3://bucket/back", "--dry-run"]).ends_with(1).out.contains(&format!("damaged: {name}")));
    let found = verb(&["verify", "s3://bucket/back", "--json"]).ends_with(1).json();
    assert_eq!(found["damaged"][0]["name"], name.as_str(), "{found}");
    let told = verb(&["verify", "s3://bucket/back"]).succeeds();
    assert!(told.out.contains("set aside as damaged: 1 objects") && !back.exists(&name).await.unwrap(), "{}", told.out);

    let names = async |store: &store::ArtifactStore| store.list("").await.unwrap();
    let before = names(&there).await;
    there.put("artifacts/aa/nobody.parquet", "PAR1").await.unwrap();
    there.put("partial/old/1-x.parquet", "PAR1").await.unwrap();
    assert!(
        verb(&["gc", "--dry-run"]).succeeds().out.contains("there is nothing to remove"),
        "nothing is older than a week"
    );
    let dry = verb(&["gc", "--unused", "--older-than", "0s", "--dry-run"]).succeeds();
    assert!(dry.out.contains("would remove 2 objects") && dry.out.contains("--yes"), "{}", dry.out);
    let swept = verb(&["gc", "--unused", "--keep-plan", "experiment.toml", "--older-than", "0s", "--yes", "--json"]);
    let swept = swept.succeeds().json();
    assert_eq!((&swept["unused"][0], &swept["removed"]), (&"artifacts/aa/nobody.parquet".into(), &true.into()));
    assert_eq!(names(&there).await, before);
    let told = verb(&["gc", "--keep", "another", "--older-than", "0s", "--dry-run"]).ends_with(1);
    assert!(told.err.contains("no such finished run"), "{}", told.err);
    assert_eq!(run(&server, &workspace, &["run", "--json"]).succeeds().json()["executed"], 0);
    verb(&["stats", "nothing-here"]).refused_with(&["there is no store at nothing-here"]);
}

#[test]
fn an_index_whose_artifact_was_removed_takes_no_space_under_its_second_name() {
    let workspace = Workspace::new();
    // Only indexes of many shards stay. A file of this size is a shard.
    let page = "A line about the animals of the forest. ".repeat(7000);
    (0..34).for_each(|number| workspace.write(&format!("documents/large{number}.md"), &page));
    let space = "chunker = [\"sentence\"]\nembedder = [\"tiny\"]\nretriever = [\"dense\"]";
    workspace.experiment(space, "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\"]");
    workspace.run(&["run", "--quiet"]).succeeds();
    let kept = || {
        let files = std::fs::read_dir(workspace.file("store/scratch/dense-indexes")).unwrap();
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    let both = kept();
    assert!(both.iter().any(|name| name.ends_with(".dense")) && both.iter().any(|name| name.ends_with(".content")));
    let gc = ["store", "gc", "--unused", "--older-than", "0s", "--yes", "--quiet"];
    workspace.run(&gc).succeeds();
    assert_eq!(kept(), both, "the run uses the index");
    std::fs::remove_dir_all(workspace.file("store/runs")).unwrap();
    workspace.run(&gc).succeeds();
    assert_eq!(kept(), [""; 0]);
    assert!(workspace.run(&["run", "--json"]).succeeds().json()["executed"].as_u64() > Some(0));
}

#[tokio::test]
async fn a_large_object_goes_in_parts_and_is_written_once() {
    let Some(server) = S3::start().await else { return };
    let store = server.store("s3://bucket/large");
    let bytes: Vec<u8> = (0..40usize << 20).map(|i| (i * 7 % 253) as u8).collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, &bytes).unwrap();
    assert!(store.put("a/memory", bytes.clone()).await.unwrap());
    assert!(!store.put("a/memory", bytes.clone()).await.unwrap());
    assert!(store.put_file("a/file", &file).await.unwrap());
    assert!(!store.put_file("a/memory", &file).await.unwrap());
    for name in ["a/memory", "a/file"] {
        let copy = store.local_copy(name, folder.path()).await.unwrap();
        assert!(std::fs::read(copy).unwrap() == bytes, "{name}");
    }
}

#[tokio::test]
async fn a_worker_begins_by_sending_paid_answers_that_were_left_on_its_node() {
    let Some(server) = S3::start().await else { return };
    let workspace = Workspace::new();
    experiment(
        &workspace,
        "retriever = [{ bm25 = { top_k = 2 } }]\nchunker = [\"sentence\"]",
        [STORE, "documents", "golden.jsonl"],
        "",
    );
    // A call that was paid while the store was away: here, no folder any more.
    let folder = workspace.file("away");
    let away = ArtifactStore::open(&folder.to_string_lossy(), &[], lab::layout::LAYOUT).unwrap();
    std::fs::remove_dir(&folder).unwrap();
    std::fs::write(&folder, "no folder").unwrap();
    let left = Journal::open(workspace.file("node").join(Journal::FILE)).unwrap();
    let journal = SharedJournal::new(Arc::new(left), away);
    let entry = JournalEntry {
        model: "m".to_owned(),
        kind: "chat".to_owned(),
        response: "paid".to_owned(),
        prompt_tokens: 3,
        completion_tokens: 2,
        cost_usd: 0.5,
        seconds: 1.5,
        created_unix_ms: 7,
    };
    let key = Key::of_bytes(b"call");
    journal.put(&key, &entry).await.unwrap();
    assert_eq!(journal.n_unsent().unwrap(), 1);
    drop(journal);

    let there = server.store(STORE);
    there.put("probes/1", "seen").await.unwrap();
    let told = WorkerSetup {
        experiment: std::fs::read_to_string(workspace.file("experiment.toml")).unwrap(),
        base: workspace.path().to_owned(),
        store: STORE.to_owned(),
        source: workspace.file("documents").display().to_string(),
        probe: "probes/1".to_owned(),
        pdf_library: "none".to_owned(),
        identities: BTreeMap::new(),
        budget: None,
        cores: 1,
    };
    let option = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let setup = lab::Setup {
        store_options: vec![
            option("aws_access_key_id", KEY),
            option("aws_secret_access_key", SECRET),
            option("aws_endpoint_url", &server.endpoint()),
        ],
        cluster: lab::ClusterSetup { local_folder: Some(workspace.file("node")), ..lab::ClusterSetup::default() },
        ..lab::Setup::new(models::ModelDirectory::new(workspace.file("models"), Vec::new()), Arc::new(|_| None))
    };
    Worker::open(&told, setup).await.unwrap();
    let hex = key.hex();
    assert_eq!(there.list("journal").await.unwrap(), [format!("journal/{}/{hex}.json", &hex[..2])]);
}
