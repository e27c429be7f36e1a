//! The files of runs, without the documents: results, what the leaderboard says, logs, reports.

use super::{
    findings::DocumentSigns,
    redaction::{redact_documents, redact_experiment, redact_json, redact_lines, redact_provenance, redact_rows},
};
use crate::{
    Error,
    layout::{self, NamedObject, RunFileName},
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use store::ArtifactStore;

/// The files of a store's runs that hold something of the documents.
#[derive(Debug, Default)]
pub(super) struct StoredRunFiles {
    /// The files that are rewritten, by run.
    pub(super) files: BTreeMap<String, BTreeSet<String>>,
    /// The runs whose report is removed.
    pub(super) reports: BTreeSet<String>,
    /// The files of the reports.
    pub(super) of_reports: BTreeSet<String>,
    /// Golden questions with evidence in the documents, by id.
    pub(super) questions: BTreeSet<String>,
}

/// The label under which logs of workers are listed: they belong to no run's folder.
const OF_WORKERS: &str = "workers";

/// Finds the files that hold something of the documents.
pub(super) async fn changed_files(
    store: &ArtifactStore,
    names: &[String],
    signs: &DocumentSigns,
) -> Result<StoredRunFiles, Error> {
    let mut found = StoredRunFiles::default();
    if signs.versions.is_empty() {
        return Ok(found);
    }
    for name in names {
        let run = match NamedObject::of(name) {
            NamedObject::RunFile { run, .. } | NamedObject::TrialRows { run, .. } => run,
            NamedObject::WorkerLog => OF_WORKERS,
            _ => continue,
        };
        let Some(bytes) = store.get(name).await? else { continue };
        if name.ends_with(RunFileName::Summary.name()) || name.ends_with(RunFileName::Results.name()) {
            let content: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            found.questions.extend(questions_with_evidence(&content["questions"], signs));
        }
        if changed(name, &bytes, signs).is_some() {
            found.files.entry(run.to_owned()).or_default().insert(name.clone());
        }
    }
    // The names of changed rows stand in the results, their size in the summary, and what they say in the report.
    let has = |name: &String| names.contains(name);
    for (run, files) in &mut found.files {
        let [results, summary] = [RunFileName::Results, RunFileName::Summary].map(|file| layout::run_file(run, file));
        if files.iter().any(|name| row_file(name).is_some()) && has(&results) {
            files.insert(results.clone());
        }
        if files.contains(&results) && has(&summary) {
            files.insert(summary);
        }
    }
    for name in names {
        let run = match NamedObject::of(name) {
            NamedObject::RunFile { run, file: Some(RunFileName::Report) } | NamedObject::ReportPart { run } => run,
            _ => continue,
        };
        let is_of_changed = found.files.contains_key(run);
        let holds = match is_of_changed {
            true => true,
            false => {
                let page = store.get(name).await?.unwrap_or_default();
                signs.fingerprint.is_in(&String::from_utf8_lossy(&page))
            }
        };
        if holds {
            found.reports.insert(run.to_owned());
        }
    }
    let of_report = |name: &&String| match NamedObject::of(name) {
        NamedObject::RunFile { run, file: Some(RunFileName::Report) } | NamedObject::ReportPart { run } => {
            found.reports.contains(run)
        }
        _ => false,
    };
    found.of_reports = names.iter().filter(of_report).cloned().collect();
    Ok(found)
}

/// The name of a file of rows in its folder; none if the object is another one.
fn row_file(name: &str) -> Option<&str> {
    match NamedObject::of(name) {
        NamedObject::TrialRows { file, .. } => Some(file),
        _ => None,
    }
}

/// Golden questions with evidence in the documents.
fn questions_with_evidence<'a>(questions: &'a Value, signs: &'a DocumentSigns) -> impl Iterator<Item = String> + 'a {
    let is_of = |evidence: &Value| {
        evidence["document"].as_str().is_some_and(|path| signs.is_path(path))
            || evidence["quote"].as_str().is_some_and(|quote| signs.fingerprint.is_in(quote))
    };
    let has_evidence =
        move |question: &&Value| question["evidence"].as_array().is_some_and(|evidence| evidence.iter().any(is_of));
    let questions = questions.as_array().into_iter().flatten().filter(has_evidence);
    questions.filter_map(|question| question["id"].as_str().map(str::to_owned))
}

/// The changed content of a file of a run; none if it holds nothing of the documents.
fn changed(name: &str, bytes: &[u8], signs: &DocumentSigns) -> Option<Vec<u8>> {
    let json = |value: Value| value.to_string().into_bytes();
    match NamedObject::of(name) {
        // They hold names of artifacts.
        NamedObject::RunFile {
            file: Some(RunFileName::Artifacts | RunFileName::Lineage | RunFileName::Report),
            ..
        } => None,
        NamedObject::RunFile { file: Some(RunFileName::Experiment), .. } => {
            redact_experiment(str::from_utf8(bytes).ok()?, signs).map(|(text, _)| text.into_bytes())
        }
        NamedObject::RunFile { file: Some(RunFileName::Frozen), .. } => {
            redact_provenance(bytes, signs).map(|(value, _)| json(value))
        }
        NamedObject::RunFile { file: Some(RunFileName::Documents), .. } => {
            redact_documents(bytes, signs).map(|(lines, _)| lines)
        }
        NamedObject::TrialRows { .. } => redact_rows(bytes, signs).map(|(rows, _)| rows.to_vec()),
        _ if name.ends_with(".jsonl") => redact_lines(bytes, signs).map(|(lines, _)| lines),
        _ => redact_json(bytes, signs).map(|(value, _)| json(value)),
    }
}

/// The results without the documents, which name the files that took the place of others; none if nothing changes.
fn changed_results(
    name: &str,
    bytes: &[u8],
    signs: &DocumentSigns,
    renamed: &BTreeMap<String, String>,
) -> Option<Vec<u8>> {
    let redacted = changed(name, bytes, signs);
    if renamed.is_empty() {
        return redacted;
    }
    let mut value: Value = serde_json::from_slice(redacted.as_deref().unwrap_or(bytes)).ok()?;
    for trial in value.get_mut("trials").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(file) = trial.pointer_mut("/rows/file") else { continue };
        if let Some(new) = file.as_str().and_then(|file| renamed.get(file)) {
            *file = new.as_str().into();
        }
    }
    Some(value.to_string().into_bytes())
}

/// Writes the changed rows of a run's trials into files beside those that hold the documents. Returns the names of the
/// new files by the names of the old ones.
async fn write_changed_rows(
    store: &ArtifactStore,
    run: &str,
    files: &BTreeSet<String>,
    signs: &DocumentSigns,
) -> Result<BTreeMap<String, String>, Error> {
    let mut renamed = BTreeMap::new();
    for name in files {
        let Some(file) = row_file(name) else { continue };
        let Some(new) = store.get(name).await?.and_then(|bytes| changed(name, &bytes, signs)) else { continue };
        // A name is `<trial>-<digest>.parquet`.
        let new_file = layout::rows_file(file.rsplit_once('-').map_or(file, |(trial, _)| trial), &new);
        store.replace(&layout::trial_rows(run, &new_file), new).await?;
        renamed.insert(file.to_owned(), new_file);
    }
    Ok(renamed)
}

/// Writes the files of runs anew, each whole. Reports go first, because they are made from results; and a summary is written
/// before the results whose size it holds, so that it never belongs to other results than those beside it. Rows of
/// trials are written before the results that name them, and those of before go when nothing names them any more.
pub(super) async fn rewrite(store: &ArtifactStore, found: &StoredRunFiles, signs: &DocumentSigns) -> Result<(), Error> {
    for name in &found.of_reports {
        store.remove(name).await?;
    }
    for (run, files) in &found.files {
        let [results, summary] = [RunFileName::Results, RunFileName::Summary].map(|file| layout::run_file(run, file));
        let renamed = write_changed_rows(store, run, files, signs).await?;
        let new_results = match store.get(&results).await? {
            Some(bytes) if files.contains(&results) => changed_results(&results, &bytes, signs, &renamed),
            _ => None,
        };
        if files.contains(&summary)
            && let Some(bytes) = store.get(&summary).await?
        {
            let new = changed(&summary, &bytes, signs).unwrap_or_else(|| bytes.to_vec());
            let mut value: Value = serde_json::from_slice(&new).unwrap_or_default();
            if let (Some(size), Some(results)) = (value.get_mut("results_bytes"), &new_results) {
                *size = results.len().into();
            }
            store.replace(&summary, value.to_string()).await?;
        }
        if let Some(results_bytes) = new_results {
            store.replace(&results, results_bytes).await?;
        }
        for old in renamed.keys() {
            store.remove(&layout::trial_rows(run, old)).await?;
        }
        let is_other = |name: &&String| **name != results && **name != summary && row_file(name).is_none();
        for name in files.iter().filter(is_other) {
            if let Some(new) = store.get(name).await?.and_then(|bytes| changed(name, &bytes, signs)) {
                store.replace(name, new).await?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        layout::LAYOUT,
        results::{Results, fixture},
    };
    use rag::Passage;

    const TEXT: &str = "She breeds black swans in a pond that nobody else may enter.";

    #[tokio::test]
    async fn rows_with_the_document_get_another_name_in_the_results_and_their_file_goes() {
        let folder = tempfile::tempdir().unwrap();
        let store = ArtifactStore::open(&folder.path().to_string_lossy(), &[], LAYOUT).unwrap();
        let mut signs = DocumentSigns::default();
        signs.versions.insert("swans.md".to_owned(), BTreeSet::new());
        signs.fingerprint.add(TEXT);
        let mut results = fixture::results(2);
        let run = results.run.clone();
        results.trials[1].questions[2].passages = vec![Passage::of_text("swans.md".to_owned(), TEXT.to_owned())];
        let whole = results.clone();
        let mut kept = Vec::new();
        for trial in results.trials {
            let (trial, bytes) = trial.into_file().unwrap();
            store.replace(&layout::trial_rows(&run, &trial.rows.as_ref().unwrap().file), bytes).await.unwrap();
            kept.push(trial);
        }
        results.trials = kept;
        let files = results.row_files();
        let written = results.stored_json().unwrap();
        let summary = serde_json::json!({ "results_bytes": written.len(), "questions": [] }).to_string();
        store.replace(&layout::run_file(&run, RunFileName::Summary), summary).await.unwrap();
        store.replace(&layout::run_file(&run, RunFileName::Results), written).await.unwrap();

        let names = store.list("runs").await.unwrap();
        let found = changed_files(&store, &names, &signs).await.unwrap();
        assert_eq!(
            found.files[&run].len(),
            3,
            "the rows, the results that name them, their summary: {:?}",
            found.files
        );
        rewrite(&store, &found, &signs).await.unwrap();

        let place = layout::run_folder(folder.path(), &run);
        let now = Results::read_head(&place).unwrap().row_files();
        assert_eq!((now.len(), now.intersection(&files).count()), (2, 1), "the other trial's file stays");
        let listed = store.list(&layout::trial_rows_of(&run)).await.unwrap();
        assert_eq!(listed, now.iter().map(|file| layout::trial_rows(&run, file)).collect::<Vec<_>>());
        let read = Results::read(&place).unwrap();
        let passage = &read.trials[1].questions[2].passages[0];
        assert_eq!((passage.document.as_str(), passage.text.as_str()), ("[forgotten]", "[forgotten]"));
        assert_eq!(read.trials[0], whole.trials[0]);
        let summary = store.get(&layout::run_file(&run, RunFileName::Summary)).await.unwrap().unwrap();
        let summary: Value = serde_json::from_slice(&summary).unwrap();
        let bytes = store.size(&layout::run_file(&run, RunFileName::Results)).await.unwrap();
        assert_eq!(summary["results_bytes"].as_u64(), bytes);
        let names = store.list("runs").await.unwrap();
        assert!(changed_files(&store, &names, &signs).await.unwrap().files.is_empty());
    }
}
