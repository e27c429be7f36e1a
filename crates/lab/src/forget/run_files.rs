//! The files of runs, without the documents: results, what the leaderboard says, logs, reports.

use super::{
    findings::DocumentSigns,
    redaction::{redact_documents, redact_experiment, redact_json, redact_lines, redact_provenance},
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
            NamedObject::RunFile { run, .. } => run,
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
    // The size of the results stands in the summary, and what they say in the report.
    let has = |name: &String| names.contains(name);
    for (run, files) in &mut found.files {
        let [results, summary] = [RunFileName::Results, RunFileName::Summary].map(|file| layout::run_file(run, file));
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
        _ if name.ends_with(".jsonl") => redact_lines(bytes, signs).map(|(lines, _)| lines),
        _ => redact_json(bytes, signs).map(|(value, _)| json(value)),
    }
}

/// Writes the files of runs anew, each whole. Reports go first, because they are made from results; and a summary is written
/// before the results whose size it holds, so that it never belongs to other results than those beside it.
pub(super) async fn rewrite(store: &ArtifactStore, found: &StoredRunFiles, signs: &DocumentSigns) -> Result<(), Error> {
    for name in &found.of_reports {
        store.remove(name).await?;
    }
    for (run, files) in &found.files {
        let [results, summary] = [RunFileName::Results, RunFileName::Summary].map(|file| layout::run_file(run, file));
        let new_results = match store.get(&results).await? {
            Some(bytes) if files.contains(&results) => changed(&results, &bytes, signs),
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
        for name in files.iter().filter(|name| **name != results && **name != summary) {
            if let Some(new) = store.get(name).await?.and_then(|bytes| changed(name, &bytes, signs)) {
                store.replace(name, new).await?;
            }
        }
    }
    Ok(())
}
