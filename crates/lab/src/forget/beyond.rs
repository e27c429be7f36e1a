//! What may hold text of the documents and is out of reach: it is listed with what to do about it.

use super::{bundles::BundleOfDocument, certificate::BeyondReach, findings::DocumentSigns};
use crate::{
    Error, Session,
    labels::labels_path,
    layout::{self, NamedObject},
    prepare::questions,
    review::reviewers_files,
    session::used_databases::database_access,
    spec::{Experiment, TrackerConfig},
};
use eval::{Question, dataset::import_metadata};
use models::Identity;
use rag::index::FilledCollection;
use serde_json::Value;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};
use store::ArtifactStore;

/// Questions of a file that are named.
const NAMED: usize = 20;
/// The most bytes of an object of unknown origin that are searched for text.
const MOST_BYTES: u64 = 64 << 20;

fn beyond(what: impl Into<String>, action: impl Into<String>) -> BeyondReach {
    BeyondReach { what: what.into(), action: action.into() }
}

/// What is out of reach of every removal.
pub(super) fn always(session: &Session) -> Vec<BeyondReach> {
    let mut found = vec![beyond(
        "backups and copies of the store, bundles elsewhere, exported reports and answers, and blocks of the disk that were \
         freed",
        "remove the document from them by your own means",
    )];
    if session.workspace().store().is_remote() {
        found.push(beyond(
            "on other machines that used this store: the folder .reverie beside the experiment, with copies of answers, \
             runs and indexes",
            "remove that folder there; everything that ended is in the store",
        ));
        found.push(beyond(
            "earlier versions of objects, if the bucket keeps versions or is replicated",
            "remove them by the rules of the bucket",
        ));
    }
    found
}

/// The services to which the experiment sends texts.
pub(super) fn services(session: &Session, models: &[Identity]) -> Vec<BeyondReach> {
    let experiment = &session.experiment;
    let trackers = experiment.track.iter().filter_map(|tracker| match tracker {
        TrackerConfig::Mlflow(config) => Some(beyond(
            format!("the runs on the MLflow server {}", store::without_secrets(&config.uri)),
            "delete the runs of this experiment there, with their files, and let MLflow clean up (`mlflow gc`)",
        )),
        // They get settings and scores.
        TrackerConfig::Wandb(_) | TrackerConfig::Trackio(_) => None,
    });
    let databases: BTreeSet<String> =
        database_access(experiment).into_iter().map(|access| store::without_secrets(&access.address)).collect();
    let databases = databases.into_iter().map(|address| {
        beyond(
            format!("the database {address}, which the experiment fills or searches"),
            "remove the collections that hold the document, or its records, there",
        )
    });
    let systems = experiment
        .systems
        .keys()
        .map(|name| beyond(format!("the system `{name}`, which has an index of its own"), "remove the document there"));
    let endpoints: BTreeSet<String> = models
        .iter()
        .filter(|model| model.is_remote())
        .map(|model| format!("{} at {}", model.model, store::without_secrets(&model.revision)))
        .collect();
    let endpoints = endpoints.into_iter().map(|model| {
        beyond(
            format!("the model {model}, to which passages may have been sent"),
            "its provider's rules say how long requests are kept; files of batches stay in your account until you delete them",
        )
    });
    trackers.chain(databases).chain(systems).chain(endpoints).collect()
}

/// The collections in databases that were filled with the documents, by the artifacts that name them.
pub(super) async fn collections(
    store: &ArtifactStore,
    names: &[String],
    holds: impl Fn(&str) -> bool,
    bundles: &[BundleOfDocument],
) -> Result<Vec<BeyondReach>, Error> {
    let mut found = BTreeSet::new();
    for name in names.iter().filter(|name| layout::is_of_database(name) && layout::is_artifact(name) && holds(name)) {
        if let Some(filled) = store.get(name).await?.and_then(|bytes| FilledCollection::read(&bytes).ok()) {
            found.insert(format!("{} of {}", filled.collection, filled.address));
        }
    }
    found.extend(bundles.iter().filter_map(|bundle| bundle.collection.clone()));
    let of_one = |collection: String| {
        beyond(
            format!("the collection {collection}"),
            "point its aliases to a collection without the document, and remove it",
        )
    };
    Ok(found.into_iter().map(of_one).collect())
}

/// Golden questions of the user's own file that quote the documents, and rows of the table of metadata.
pub(super) async fn files_of_user(session: &Session, signs: &DocumentSigns) -> Vec<BeyondReach> {
    let experiment = &session.experiment;
    let mut found = Vec::new();
    // A file that cannot be read is named by the next run.
    let imported = questions::import(session, &mut Vec::new()).await.ok().and_then(|imported| imported.dataset);
    let quoting: Vec<String> = imported
        .iter()
        .flat_map(|dataset| &dataset.questions)
        .filter(|question| quotes(question, signs))
        .map(|question| question.id.clone())
        .collect();
    if let (Some(spec), false) = (&experiment.dataset, quoting.is_empty()) {
        let more = quoting.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let named = quoting.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        found.push(beyond(
            format!("golden questions in {} that quote the document: {named}{more}", spec.source()),
            "remove these questions, or give them other evidence: the next run would not find it",
        ));
    }
    for path in files_of_reviewers(experiment).into_iter().filter(|path| quotes_in_lines(path, signs)) {
        found.push(beyond(
            format!("lines of {} that quote the document: what reviewers have written", path.display()),
            "remove these lines",
        ));
    }
    if let Some(written) = &experiment.corpus.metadata {
        let bytes = std::fs::read(experiment.path(written)).unwrap_or_default();
        let rows = import_metadata(written, &bytes).unwrap_or_default();
        if rows.keys().any(|path| signs.is_path(path)) {
            found.push(beyond(
                format!("the row of the document in the table of metadata {written}"),
                "remove it: the next run would not find the document",
            ));
        }
    }
    found
}

/// The files that people write on pages, beside the golden questions.
fn files_of_reviewers(experiment: &Experiment) -> Vec<PathBuf> {
    let dataset = experiment.dataset.as_ref().map(|dataset| dataset.path.as_str());
    let local = dataset.filter(|path| !path.is_empty() && !store::is_url(path)).map(|path| experiment.path(path));
    let beside = local.iter().flat_map(|path| reviewers_files(path));
    beside.chain([labels_path(experiment)]).filter(|path| path.is_file()).collect()
}

/// Whether a text in a file of JSON lines is the path of a document, or holds its words.
fn quotes_in_lines(path: &Path, signs: &DocumentSigns) -> bool {
    let bytes = std::fs::read(path).unwrap_or_default();
    bytes.split(|byte| *byte == b'\n').any(|line| match serde_json::from_slice(line) {
        Ok(value) => holds_sign(&value, signs),
        // The line is incomplete, or is no JSON.
        Err(_) => signs.fingerprint.is_in(&String::from_utf8_lossy(line)),
    })
}

fn holds_sign(value: &Value, signs: &DocumentSigns) -> bool {
    match value {
        Value::String(text) => signs.is_path(text) || signs.fingerprint.is_in(text),
        Value::Array(values) => values.iter().any(|value| holds_sign(value, signs)),
        Value::Object(fields) => fields.values().any(|value| holds_sign(value, signs)),
        _ => false,
    }
}

fn quotes(question: &Question, signs: &DocumentSigns) -> bool {
    let fields = [Some(&question.question), question.reference.as_ref(), question.draft.as_ref()];
    let holds = |text: &String| signs.fingerprint.is_in(text);
    let evidence = question.evidence.iter().any(|one| signs.is_path(&one.document) || holds(&one.quote));
    evidence || fields.into_iter().flatten().any(holds) || question.turns.iter().any(|turn| holds(&turn.content))
}

/// Objects of a store that Reverie has not written, and that hold text of the documents.
pub(super) async fn unknown_objects(
    store: &ArtifactStore,
    names: &[String],
    signs: &DocumentSigns,
) -> Result<Vec<BeyondReach>, Error> {
    let mut found = Vec::new();
    for name in names.iter().filter(|name| NamedObject::of(name) == NamedObject::Unknown) {
        let Some(bytes) = store.get_at_most(name, MOST_BYTES).await? else { continue };
        if signs.fingerprint.is_in(&String::from_utf8_lossy(&bytes)) {
            found.push(beyond(
                format!(
                    "{name} in {}, which Reverie has not written and which holds text of the document",
                    store.location()
                ),
                "remove it yourself",
            ));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use eval::Evidence;

    #[test]
    fn what_reviewers_have_written_is_searched_line_by_line() {
        const TEXT: &str = "She breeds black swans in a pond\nthat nobody else may enter.";
        let mut signs = DocumentSigns::default();
        signs.versions.insert("a.md".to_owned(), BTreeSet::new());
        signs.fingerprint.add(TEXT);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("golden.reviews.jsonl");
        let line = |text: &str| serde_json::json!({ "decision": { "evidence": [{ "quote": text }] } }).to_string();
        for (lines, expected) in [
            (line("Who breeds swans?"), false),
            (format!("{}\n{}", line("x"), line(TEXT)), true),
            (line("a.md"), true),
            (format!("{}\n{{\"half\": \"She breeds black swans in a pond that nobody else may ent", line("x")), true),
            (String::new(), false),
        ] {
            std::fs::write(&path, &lines).unwrap();
            assert_eq!(quotes_in_lines(&path, &signs), expected, "{lines}");
        }
        assert!(!quotes_in_lines(&folder.path().join("absent"), &signs));
    }

    #[test]
    fn a_question_quotes_a_document_by_its_evidence_or_by_its_words() {
        const TEXT: &str = "She breeds black swans in a pond that nobody else may enter.";
        let mut signs = DocumentSigns::default();
        signs.versions.insert("a.md".to_owned(), BTreeSet::new());
        signs.fingerprint.add(TEXT);
        let evidence = |document: &str, quote: &str| Question {
            evidence: vec![Evidence { document: document.to_owned(), quote: quote.to_owned(), span: None }],
            ..Question::default()
        };
        let reference = Question { reference: Some(TEXT.to_owned()), ..Question::default() };
        for (question, expected) in [
            (evidence("a.md", "short"), true),
            (evidence("", TEXT), true),
            (evidence("b.md", "short"), false),
            (reference, true),
            (Question { question: "Who breeds swans?".to_owned(), ..Question::default() }, false),
        ] {
            assert_eq!(quotes(&question, &signs), expected, "{question:?}");
        }
    }
}
