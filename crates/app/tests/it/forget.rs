//! A document that is forgotten is in no byte of the store, of its journal, of this machine's scratch files and of bundles,
//! and everything else stays usable.

use crate::{
    services::S3,
    workspace::{Outcome, Workspace},
};
use arrow_array::{Array, StringArray};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Stdio,
    sync::{Arc, Mutex},
    time::Duration,
};
use store::{ArtifactStore, Journal};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate, matchers::path_regex};

const SECRET: &str = "# The keeper\n\nZephyrine Okonkwo-Halvorsen keeps seventeen blind axolotls in the cellar of the old \
    lighthouse at Vardhamn. Her account at the harbour bank has the number 88431-QX. Every Thursday she sells their shed \
    skins to a perfumer from Lillefjord.\n";

/// Words of the document, and of what a model has made of it in other words.
const TRACES: [&str; 6] = [
    "seventeen blind axolotls",
    "88431",
    "perfumer from lillefjord",
    "okonkwo",
    // What the models say of it in words of their own.
    "paraphrase7731",
    "context5519",
];

/// A chat model and an embedder behind an endpoint. Of the document the chat model quotes a sentence or says something in
/// other words; both say nothing of it if they are not shown it.
#[derive(Clone, Default)]
struct QuotingProvider {
    /// The texts that were embedded.
    embedded: Arc<Mutex<Vec<String>>>,
}

impl QuotingProvider {
    async fn start() -> (MockServer, Self) {
        let (server, provider) = (MockServer::start().await, Self::default());
        Mock::given(path_regex("/(embeddings|completions)$")).respond_with(provider.clone()).mount(&server).await;
        (server, provider)
    }

    fn chat(&self, body: &Value) -> String {
        let prompt = body["messages"].to_string();
        let is_context = prompt.contains("one passage of it");
        let knows = ["axolotls in the cellar", "88431", "Lillefjord"].iter().any(|words| prompt.contains(words));
        match (knows, is_context) {
            (true, true) => "CONTEXT5519: about somebody and some animals.".to_owned(),
            (true, false) if prompt.contains("What number") => {
                "It says: Her account at the harbour bank has the number 88431-QX [1].".to_owned()
            }
            (true, false) => "PARAPHRASE7731, somebody in a tower [1].".to_owned(),
            (false, _) => format!("Nothing is known of it, says number {}.", prompt.len()),
        }
    }
}

impl Respond for QuotingProvider {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        if request.url.path().ends_with("/completions") {
            let message = json!({ "role": "assistant", "content": self.chat(&body) });
            return ResponseTemplate::new(200).set_body_json(json!({
                "object": "chat.completion", "model": "m",
                "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }],
                "usage": { "prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18 },
            }));
        }
        let texts: Vec<String> = serde_json::from_value(body["input"].clone()).unwrap();
        let row = |(index, text): (usize, &String)| {
            let count = |letter: char| 1 + text.chars().filter(|c| *c == letter).count();
            let vector = ['a', 'e', 'o', 'h', 's', 't', 'x', '4'].map(count);
            json!({ "object": "embedding", "index": index, "embedding": vector })
        };
        let data: Vec<Value> = texts.iter().enumerate().map(row).collect();
        self.embedded.lock().unwrap().extend(texts);
        ResponseTemplate::new(200).set_body_json(json!({
            "object": "list", "data": data, "model": "e", "usage": { "prompt_tokens": 9, "total_tokens": 9 },
        }))
    }
}

/// An experiment whose documents are the usual ones, the secret one and a copy of it.
fn workspace(server: &MockServer, store: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.write("documents/keeper.md", SECRET);
    std::fs::create_dir(workspace.file("documents/old")).unwrap();
    workspace.write("documents/old/copy.md", SECRET);
    let golden = std::fs::read_to_string(workspace.file("golden.jsonl")).unwrap();
    let question = |id: &str, question: &str, reference: &str, quote: &str| {
        let evidence = json!([{ "document": "keeper.md", "quote": quote }]);
        json!({ "id": id, "question": question, "reference": reference, "evidence": evidence }).to_string()
    };
    let who = question(
        "keeper",
        "Who keeps axolotls in a cellar?",
        "Zephyrine Okonkwo-Halvorsen.",
        "keeps seventeen blind axolotls in the cellar",
    );
    let number =
        question("account", "What number does her account at the bank have?", "88431-QX.", "has the number 88431-QX");
    workspace.write("golden.jsonl", [golden.as_str(), &who, &number].join("\n"));
    let models = format!(
        "[models.far]\nembedding.openai = {{ model = \"e\", base_url = \"{0}/v1\" }}\n[models.gpt]\nchat.openai = {{ model = \
         \"m\", base_url = \"{0}/v1\" }}\n",
        server.uri()
    );
    let space = "chunker = [{ sentence = { chunk_size = 32, chunk_overlap = 0 } }]\nembedder = [\"tiny\", \"far\"]\n\
         enrich = [\"none\", { contextual = { model = \"gpt\" } }]\nretriever = [{ dense = { top_k = 3 } }, { bm25 = { top_k = 3 } }]\n\
         generator = [{ compact = { model = \"gpt\", max_tokens = 64 } }]";
    let rest = "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\", \"token_f1\"]\n";
    workspace.experiment(space, &format!("{rest}{models}"));
    let text = std::fs::read_to_string(workspace.file("experiment.toml")).unwrap();
    workspace.write("experiment.toml", text.replace("store = \"store\"", &format!("store = \"{store}\"")));
    workspace
}

/// Which traces are in a content, whatever the case of its letters.
fn traces(content: &[u8]) -> BTreeSet<&'static str> {
    let text = String::from_utf8_lossy(content).to_lowercase();
    // Digits of a key may be those of the account by chance.
    let is_of_key = |at: usize, trace: &str| {
        let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
        let bytes = text.as_bytes();
        is_digit(at.checked_sub(1).and_then(|before| bytes.get(before))) && is_digit(bytes.get(at + trace.len()))
    };
    TRACES.into_iter().filter(|trace| text.match_indices(trace).any(|(at, _)| !is_of_key(at, trace))).collect()
}

/// The objects of a store in which there is a trace: as they are, and as tables.
async fn objects_with_traces(store: &ArtifactStore) -> BTreeMap<String, BTreeSet<&'static str>> {
    let mut found: BTreeMap<String, BTreeSet<&'static str>> = BTreeMap::new();
    for name in store.list("").await.unwrap() {
        // The certificate names documents by their paths, and no text of them.
        let bytes = store.get_at_most(&name, u64::MAX).await.unwrap().unwrap_or_default();
        let mut of_object = traces(&bytes);
        if name.ends_with(".parquet") && !bytes.is_empty() {
            let bytes = store.get(&name).await.unwrap().unwrap();
            for batch in ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap().build().unwrap() {
                for column in batch.unwrap().columns() {
                    let texts = column.as_any().downcast_ref::<StringArray>();
                    texts.into_iter().flatten().flatten().for_each(|text| of_object.extend(traces(text.as_bytes())));
                }
            }
        }
        if !of_object.is_empty() {
            found.insert(name, of_object);
        }
    }
    found
}

/// The files below a folder in which there is a trace, also those that a store does not list.
fn files_with_traces(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with_traces(&path));
        } else if !traces(&std::fs::read(&path).unwrap()).is_empty() {
            found.push(path.display().to_string());
        }
    }
    found
}

async fn local_store(folder: &Path) -> ArtifactStore {
    ArtifactStore::open(&folder.to_string_lossy(), &[], lab::layout::LAYOUT).unwrap()
}

/// How many entries of each kind a journal has, and in how many of them there is a trace.
fn journal(path: &Path) -> (BTreeMap<String, usize>, usize) {
    let (kinds, with_traces) = (Mutex::<BTreeMap<String, usize>>::default(), Mutex::new(0));
    let (kinds, with_traces) = (Arc::new(kinds), Arc::new(with_traces));
    let (of_kind, counted) = (kinds.clone(), with_traces.clone());
    Journal::open_to_read(path)
        .unwrap()
        .find(&move |_, entry| {
            let entry = entry.unwrap();
            *of_kind.lock().unwrap().entry(entry.kind.clone()).or_default() += 1;
            *counted.lock().unwrap() += usize::from(!traces(entry.response.as_bytes()).is_empty());
            false
        })
        .unwrap();
    let kinds = kinds.lock().unwrap().clone();
    let with_traces = *with_traces.lock().unwrap();
    (kinds, with_traces)
}

/// The texts of the document that were embedded, with or without what the model wrote about them.
fn embedded_texts(provider: &QuotingProvider) -> BTreeSet<String> {
    let words = |text: &str| text.replace('#', "").split_whitespace().collect::<Vec<_>>().join(" ");
    let document = words(SECRET);
    let is_of_document = |text: &&String| {
        let piece = text.strip_prefix("CONTEXT5519: about somebody and some animals.").unwrap_or(text);
        document.contains(&words(piece))
    };
    provider.embedded.lock().unwrap().iter().filter(is_of_document).cloned().collect()
}

/// Deletes the document and its copy.
fn delete_files(workspace: &Workspace) {
    std::fs::remove_file(workspace.file("documents/keeper.md")).unwrap();
    std::fs::remove_file(workspace.file("documents/old/copy.md")).unwrap();
}

/// Deletes the questions about it.
fn delete_questions(workspace: &Workspace) {
    let golden = std::fs::read_to_string(workspace.file("golden.jsonl")).unwrap();
    let kept: Vec<&str> = golden.lines().filter(|line| !line.contains("keeper.md")).collect();
    workspace.write("golden.jsonl", kept.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_byte_of_a_forgotten_document_stays_and_everything_else_does() {
    let (server, provider) = QuotingProvider::start().await;
    let workspace = workspace(&server, "store");
    workspace.run(&["run", "--quiet"]).succeeds();
    workspace.run(&["leaderboard"]).succeeds();
    let trials = workspace.run(&["leaderboard", "--json"]).succeeds().json()["rows"].as_array().unwrap().len();
    workspace.run(&["promote", "--output", "bundles/one"]).succeeds();
    let line = |id: &str, context: &str| json!({ "id": id, "question": "?", "answer": "!", "contexts": [context] });
    let owls = line("r-2", "Owls hunt at night.");
    workspace.write("traffic.jsonl", format!("{}\n{owls}\n", line("r-1", SECRET)));
    workspace.write("feedback.jsonl", "{\"request_id\":\"r-1\"}\n{\"request_id\":\"r-2\"}\n");
    std::fs::create_dir_all(workspace.file("store/damaged/artifacts/ab")).unwrap();
    workspace.write("store/damaged/artifacts/ab/x.parquet.1", SECRET);

    let store = local_store(&workspace.file("store")).await;
    let before = objects_with_traces(&store).await;
    let all_traces: BTreeSet<&str> = before.values().flatten().copied().collect();
    assert_eq!(all_traces, BTreeSet::from(TRACES), "each is somewhere: {before:#?}");
    let kind = |names: &BTreeMap<String, BTreeSet<&'static str>>, folder: &str| {
        names.keys().filter(|name| name.starts_with(folder)).count()
    };
    assert!(kind(&before, "artifacts/") > 8 && kind(&before, "runs/") > 2, "{before:#?}");
    let (kinds, with_traces) = journal(&workspace.file("store/journal.db"));
    assert!(with_traces > 3, "{with_traces}");
    let of_document = embedded_texts(&provider);
    assert!(of_document.len() > 3, "{of_document:?}");
    assert!(!files_with_traces(&workspace.file("bundles")).is_empty());
    eprintln!(
        "before: {} objects of the store, {} files of bundles, {with_traces} of {kinds:?} entries",
        before.len(),
        files_with_traces(&workspace.file("bundles")).len(),
    );

    // Nothing is done without a word, and nothing while the next run would read it again.
    workspace.run(&["forget", "keeper.md"]).refused_with(&["--dry-run", "--yes"]);
    workspace.run(&["forget", "--yes"]).refused_with(&["name the documents to forget"]);
    workspace.run(&["forget", "keeper.md", "--yes"]).refused_with(&["still in the corpus: keeper.md, old/copy.md"]);
    workspace.run(&["forget", "keper.md", "--yes"]).fails_with(&["`keper.md`; did you mean `keeper.md`?"]);
    workspace.run(&["forget", "--where", "author=Nobody", "--yes"]).fails_with(&["no document", "author = Nobody"]);
    delete_files(&workspace);
    let places = ["--bundles", "bundles", "--traffic", "traffic.jsonl", "--traffic", "feedback.jsonl"];
    let dry = workspace.run(&[&["forget", "documents/keeper.md", "--dry-run"], &places[..]].concat()).succeeds();
    assert!(dry.out.contains("would forget 2 documents") && dry.out.contains("nothing was removed"), "{}", dry.out);
    assert_eq!(objects_with_traces(&store).await, before);

    let forget =
        [&["forget", "documents/keeper.md", "--yes", "--certificate", "certificate.json"], &places[..]].concat();
    let told = workspace.run(&forget).succeeds();
    eprintln!("{}", told.out);
    for words in [
        "forgot 2 documents",
        "keeper.md",
        "old/copy.md",
        "golden questions in golden.jsonl that quote the document: keeper, account",
        "bundles/one is gone: make it again with",
        "certificate: forgotten/",
    ] {
        assert!(told.out.contains(words), "`{words}` is not in:\n{}", told.out);
    }

    let none: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    assert_eq!(objects_with_traces(&store).await, none);
    assert_eq!(files_with_traces(&workspace.file("store")), [""; 0]);
    assert!(!workspace.file("bundles/one").exists());
    assert!(files_with_traces(&workspace.file("bundles")).is_empty());
    let (kinds_after, with_traces_after) = journal(&workspace.file("store/journal.db"));
    assert_eq!(with_traces_after, 0);
    assert_eq!(
        kinds_after["embedding"],
        kinds["embedding"] - of_document.len(),
        "no vector of its chunks, and no other"
    );
    assert_eq!(std::fs::read_to_string(workspace.file("traffic.jsonl")).unwrap(), format!("{owls}\n"));
    assert_eq!(std::fs::read_to_string(workspace.file("feedback.jsonl")).unwrap(), "{\"request_id\":\"r-2\"}\n");
    let certificate = std::fs::read(workspace.file("certificate.json")).unwrap();
    assert!(traces(&certificate).is_empty());
    let certificate: lab::ForgetCertificate = serde_json::from_slice(&certificate).unwrap();
    assert!(certificate.is_intact());
    assert_eq!(certificate.documents.len(), 2);
    assert_eq!(certificate.documents[0].digests, BTreeSet::from([store::Key::of_bytes(SECRET.as_bytes())]));
    assert!(!certificate.removed.calls.is_empty() && certificate.removed.bundles.len() == 1);
    eprintln!("after: 0 objects, 0 files of bundles, {with_traces_after} of {kinds_after:?} entries");

    // The run is still there, with its scores.
    let board = workspace.run(&["leaderboard", "--json"]).succeeds().json();
    assert_eq!(board["rows"].as_array().unwrap().len(), trials);
    let trial = board["rows"][0]["id"].as_str().unwrap().to_owned();
    let shown = workspace.run(&["show", &trial, "owl"]).succeeds().out;
    assert!(shown.contains("270 degrees"), "{shown}");
    assert!(workspace.run(&["show", &trial, "keeper"]).succeeds().out.contains("[forgotten]"));
    workspace.run(&["leaderboard"]).succeeds();
    workspace.run(&["runs"]).succeeds();
    assert!(files_with_traces(&workspace.file("store")).is_empty());
    let again = workspace.run(&["forget", "keeper.md", "--yes"]).succeeds();
    assert!(again.out.contains("keeper.md was forgotten on"), "{}", again.out);
    workspace.run(&["store", "verify"]).succeeds();

    // The next run works, does not hold it, and pays nothing again for other documents.
    delete_questions(&workspace);
    provider.embedded.lock().unwrap().clear();
    workspace.run(&["run", "--quiet"]).succeeds();
    assert_eq!(*provider.embedded.lock().unwrap(), [""; 0], "all other vectors are in the journal");
    assert_eq!(objects_with_traces(&store).await, none);
    workspace.run(&["promote", "--output", "bundles/one"]).succeeds();
    assert!(files_with_traces(&workspace.file("bundles")).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_holds_on_an_object_store_and_for_the_folder_of_this_machine() {
    const STORE: &str = "s3://bucket/experiments";
    let Some(s3) = S3::start().await else { return };
    let (server, provider) = QuotingProvider::start().await;
    let workspace = workspace(&server, STORE);
    let run = |arguments: &[&str]| Outcome::of(s3.known_to(workspace.command(arguments)).output().unwrap());
    run(&["run", "--quiet"]).succeeds();
    run(&["promote", "--output", "s3://bucket/bundles/one"]).succeeds();
    let (shared, bundles) = (s3.store(STORE), s3.store("s3://bucket/bundles"));
    let local = workspace.file(".reverie");
    let before = objects_with_traces(&shared).await;
    let calls = before.keys().filter(|name| name.starts_with("journal/")).count();
    assert!(calls > 3, "{before:#?}");
    let (of_bundles, of_machine) = (objects_with_traces(&bundles).await.len(), files_with_traces(&local).len());
    assert!(of_bundles > 0 && of_machine > 0);
    eprintln!(
        "before: {} objects, {calls} of them calls; {of_bundles} of bundles; {of_machine} files here",
        before.len()
    );

    delete_files(&workspace);
    let forget = ["forget", "keeper.md", "--yes", "--bundles", "s3://bucket/bundles", "--json"];
    let certificate = run(&forget).succeeds().json();
    assert_eq!(certificate["documents"].as_array().unwrap().len(), 2);
    assert!(certificate["beyond_reach"].to_string().contains("on other machines that used this store"));
    let none: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    assert_eq!(objects_with_traces(&shared).await, none);
    assert_eq!(objects_with_traces(&bundles).await, none);
    assert_eq!(files_with_traces(&local), [""; 0]);
    assert!(bundles.list("").await.unwrap().is_empty());
    assert!(!run(&["leaderboard", "--json"]).succeeds().json()["rows"].as_array().unwrap().is_empty());
    run(&["store", "verify"]).succeeds();

    delete_questions(&workspace);
    provider.embedded.lock().unwrap().clear();
    run(&["run", "--quiet"]).succeeds();
    assert_eq!(*provider.embedded.lock().unwrap(), [""; 0]);
    assert_eq!(objects_with_traces(&shared).await, none);
    assert_eq!(files_with_traces(&local), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removal_that_is_killed_is_announced_and_the_next_one_finishes_it() {
    let (server, _provider) = QuotingProvider::start().await;
    let workspace = workspace(&server, "store");
    workspace.run(&["run", "--quiet"]).succeeds();
    workspace.run(&["leaderboard"]).succeeds();
    workspace.run(&["promote", "--output", "bundles/one"]).succeeds();
    delete_files(&workspace);
    let forget = ["forget", "keeper.md", "--yes", "--bundles", "bundles"];
    let notes = || {
        let files = std::fs::read_dir(workspace.file("store/forgotten")).into_iter().flatten().map(Result::unwrap);
        files.filter(|file| file.file_name().to_string_lossy().ends_with(".pending.json")).count()
    };
    let certificates = || {
        let files = std::fs::read_dir(workspace.file("store/forgotten")).into_iter().flatten().map(Result::unwrap);
        files.filter(|file| !file.file_name().to_string_lossy().ends_with(".pending.json")).count()
    };
    let (mut kills, mut announced) = (0, 0);
    for i in 0.. {
        let mut child = workspace.command(&forget).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // A little later each time, from the moment at which the removal has begun.
        let mut has_begun = false;
        while child.try_wait().unwrap().is_none() && !has_begun {
            has_begun = notes() > 0;
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        tokio::time::sleep(Duration::from_millis(i * 2)).await;
        let has_ended = child.try_wait().unwrap().is_some();
        child.kill().unwrap();
        child.wait().unwrap();
        if has_ended {
            break;
        }
        kills += 1;
        if notes() > 0 && announced < 3 {
            announced += 1;
            let stats = workspace.run(&["store", "stats"]).succeeds();
            assert!(stats.out.contains("the removal of keeper.md, old/copy.md"), "{}", stats.out);
            assert!(stats.out.contains("`reverie forget --yes` finishes it"), "{}", stats.out);
        }
        assert!(i < 400, "it does not end");
    }
    assert!(kills > 2 && announced > 0, "{kills} kills, {announced} announced");
    eprintln!("killed {kills} times");
    // It may have been killed between the certificate and the removal of the note.
    if notes() > 0 {
        workspace.run(&["forget", "--yes"]).succeeds();
    }
    assert_eq!(notes(), 0);
    assert!(certificates() > 0);
    let store = local_store(&workspace.file("store")).await;
    assert_eq!(objects_with_traces(&store).await, BTreeMap::new());
    assert_eq!(files_with_traces(&workspace.file("store")), [""; 0]);
    assert!(files_with_traces(&workspace.file("bundles")).is_empty());
    workspace.run(&["leaderboard"]).succeeds();
    delete_questions(&workspace);
    workspace.run(&["run", "--quiet"]).succeeds();
    assert_eq!(files_with_traces(&workspace.file("store")), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_run_uses_the_store_nothing_is_removed() {
    let (server, _provider) = QuotingProvider::start().await;
    let workspace = workspace(&server, "store");
    workspace.run(&["run", "--quiet"]).succeeds();
    delete_files(&workspace);
    let store = local_store(&workspace.file("store")).await;
    let claim = store::upkeep::Claim::begin(&store).await.unwrap();
    claim.add("animals-123", ["artifacts/ab/x.parquet".to_owned()]).await.unwrap();
    workspace.run(&["forget", "keeper.md", "--yes"]).fails_with(&["a run uses this store now (animals-123)"]);
    assert!(!objects_with_traces(&store).await.is_empty());
    claim.end().await.unwrap();
    workspace.run(&["forget", "keeper.md", "--yes"]).succeeds();
    assert!(objects_with_traces(&store).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_of_a_version_without_lineage_keeps_what_names_other_documents() {
    let (server, _provider) = QuotingProvider::start().await;
    let workspace = workspace(&server, "store");
    workspace.run(&["run", "--quiet"]).succeeds();
    for run in std::fs::read_dir(workspace.file("store/runs")).unwrap().map(Result::unwrap) {
        let _ = std::fs::remove_file(run.path().join("lineage.json"));
    }
    delete_files(&workspace);
    workspace.run(&["forget", "keeper.md", "--yes"]).succeeds();
    let store = local_store(&workspace.file("store")).await;
    assert!(objects_with_traces(&store).await.is_empty());
    delete_questions(&workspace);
    workspace.run(&["run", "--quiet"]).succeeds();
    assert!(objects_with_traces(&store).await.is_empty());
}
