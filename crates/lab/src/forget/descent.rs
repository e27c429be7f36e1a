//! Which artifacts were made from the documents.
//!
//! A table that names documents is decided by its rows. Other artifacts are decided by the lineage of the runs: what was made
//! from an artifact that goes, goes too. An artifact that no lineage lists, such as one of an earlier version of this
//! program, stays only if its rows show that it is about other documents. What was removed without need is computed again,
//! from answers that the journal still has.

use super::findings::TableFinding;
use crate::{
    artifact::TableSubject,
    layout::{self, NamedObject},
    lineage::Lineage,
};
use std::collections::{BTreeMap, BTreeSet};
use store::Key;

/// When an artifact is removed: what shows which documents there are goes last, so that a removal that was killed can be
/// repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RemovalStage {
    /// First.
    Anything,
    /// Pieces of documents, of which the keys of embedding calls are made.
    Pieces,
    /// The documents.
    Documents,
}

/// The objects of a store that a removal looks at.
pub(super) struct StoredNames<'a> {
    /// All names.
    pub(super) names: &'a [String],
    pub(super) findings: &'a BTreeMap<String, TableFinding>,
    pub(super) lineages: &'a [Lineage],
}

/// The objects that were made from the documents, with the stage in which each is removed.
pub(super) fn descendants(stored: &StoredNames<'_>) -> BTreeMap<String, RemovalStage> {
    let (artifacts, keys) = stored.of_lineages();
    let known: BTreeSet<&str> = stored.names.iter().map(String::as_str).collect();
    let goes = |name: &str| match NamedObject::of(name) {
        NamedObject::Artifact => stored.artifact_goes(name, artifacts.get(name).copied()),
        NamedObject::Partial(key) => {
            let holds = stored.findings.get(name).is_some_and(|finding| finding.holds);
            holds || key.and_then(|key| keys.get(&key).copied()).unwrap_or(true)
        }
        _ => false,
    };
    let mut found = BTreeMap::new();
    for name in stored.names {
        let goes = match NamedObject::of(name) {
            NamedObject::Measurement(of) => !known.contains(of.as_str()) || goes(&of),
            _ => goes(name),
        };
        // A database is out of reach, and without this file nobody would find the collection in it.
        if goes && !(layout::is_of_database(name) && layout::is_artifact(name)) {
            found.insert(name.clone(), stored.stage(name));
        }
    }
    found
}

impl StoredNames<'_> {
    /// Tells of an artifact whether it was made from the documents, or may have been.
    pub(super) fn of_lineage_or_unknown(&self) -> impl Fn(&str) -> bool + use<> {
        let known: BTreeMap<String, bool> =
            self.of_lineages().0.into_iter().map(|(name, goes)| (name.to_owned(), goes)).collect();
        move |name| known.get(name).copied().unwrap_or(true)
    }

    /// Whether each artifact of a lineage was made from the documents, by name and by key.
    fn of_lineages(&self) -> (BTreeMap<&str, bool>, BTreeMap<Key, bool>) {
        let known: BTreeSet<&str> = self.names.iter().map(String::as_str).collect();
        let mut artifacts: BTreeMap<&str, bool> = BTreeMap::new();
        for lineage in self.lineages {
            let roots: BTreeSet<&str> = lineage.roots().collect();
            let holds = |name: &str| match self.findings.get(name) {
                Some(TableFinding { subject: None, .. }) => true,
                Some(finding) => finding.holds,
                // What it was is not known any more.
                None => !known.contains(name) && roots.contains(name),
            };
            for (name, inherits) in lineage.inherited(holds) {
                *artifacts.entry(name).or_default() |= inherits;
            }
        }
        let keys = artifacts.iter().filter_map(|(name, goes)| Some((layout::artifact_key(name)?, *goes))).collect();
        (artifacts, keys)
    }

    fn artifact_goes(&self, name: &str, of_lineage: Option<bool>) -> bool {
        let finding = self.findings.get(name);
        let names_documents =
            |finding: &&TableFinding| matches!(finding.subject, Some(TableSubject::Documents | TableSubject::Pieces));
        match (of_lineage, finding.filter(names_documents)) {
            (_, Some(finding)) => finding.holds,
            (Some(goes), None) => goes || finding.is_some_and(|finding| finding.holds || finding.subject.is_none()),
            (None, None) => true,
        }
    }

    fn stage(&self, name: &str) -> RemovalStage {
        match self.findings.get(name).and_then(|finding| finding.subject) {
            Some(TableSubject::Documents) => RemovalStage::Documents,
            Some(TableSubject::Pieces) => RemovalStage::Pieces,
            _ => RemovalStage::Anything,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lineage::tests::lineage;

    fn artifact(name: &str, ending: &str) -> String {
        let hex = Key::of_bytes(name.as_bytes()).hex();
        format!("artifacts/{}/{hex}.{ending}", &hex[..2])
    }

    fn finding(subject: TableSubject, holds: bool) -> TableFinding {
        TableFinding { subject: Some(subject), holds, ..TableFinding::default() }
    }

    #[test]
    fn what_was_made_from_the_document_goes_and_the_rest_stays() {
        let [load, other, chunks, other_chunks] =
            ["load", "other", "chunks", "other chunks"].map(|name| artifact(name, "parquet"));
        let [vectors, other_vectors, answers] =
            ["vectors", "other vectors", "answers"].map(|name| artifact(name, "parquet"));
        let [index, questions, database] =
            [artifact("index", "dense"), artifact("questions", "parquet"), artifact("filled", "database")];
        let lineages = [lineage(&[
            (&load, &[]),
            (&other, &[]),
            (&chunks, &[0]),
            (&other_chunks, &[1]),
            (&vectors, &[2]),
            (&other_vectors, &[3]),
            (&index, &[4, 5]),
            (&questions, &[]),
            (&answers, &[6, 7]),
            (&database, &[6]),
        ])];
        let findings = BTreeMap::from([
            (load.clone(), finding(TableSubject::Documents, true)),
            (other.clone(), finding(TableSubject::Documents, false)),
            (chunks.clone(), finding(TableSubject::Pieces, true)),
            (other_chunks.clone(), finding(TableSubject::Pieces, false)),
            (vectors.clone(), finding(TableSubject::Numbers, false)),
            (other_vectors.clone(), finding(TableSubject::Numbers, false)),
            (questions.clone(), finding(TableSubject::Numbers, false)),
            (answers.clone(), finding(TableSubject::Questions, false)),
        ]);
        let partial = format!("partial/parts/{}/0-1-ab.parquet", Key::of_bytes(b"vectors").hex());
        let other_partial = format!("partial/parts/{}/0-1-ab.parquet", Key::of_bytes(b"other vectors").hex());
        let [usage, other_usage] = [layout::usage(&answers), layout::usage(&other_vectors)];
        let mut names: Vec<String> = [&load, &other, &chunks, &other_chunks, &vectors, &other_vectors, &index]
            .into_iter()
            .chain([&questions, &answers, &database, &partial, &other_partial, &usage, &other_usage])
            .cloned()
            .collect();
        names.push("runs/r/results.json".to_owned());
        let stored = StoredNames { names: &names, findings: &findings, lineages: &lineages };
        let found = descendants(&stored);
        let expected: BTreeSet<&String> = [&load, &chunks, &vectors, &index, &answers, &partial, &usage].into();
        assert_eq!(found.keys().collect::<BTreeSet<_>>(), expected);
        assert_eq!((found[&load], found[&chunks]), (RemovalStage::Documents, RemovalStage::Pieces));
        assert_eq!(found[&vectors], RemovalStage::Anything);

        // Of a run without a lineage nothing is kept that does not name its documents.
        let stored = StoredNames { lineages: &[], ..stored };
        let found = descendants(&stored);
        let kept: BTreeSet<&String> = names.iter().filter(|name| !found.contains_key(*name)).collect();
        assert_eq!(kept, [&other, &other_chunks, &database, &"runs/r/results.json".to_owned()].into());
    }

    #[test]
    fn an_artifact_whose_origin_is_gone_goes_and_so_does_a_damaged_one() {
        let [load, vectors, damaged] = ["load", "vectors", "damaged"].map(|name| artifact(name, "parquet"));
        let lineages = [lineage(&[(&load, &[]), (&vectors, &[0]), (&damaged, &[])])];
        let findings = BTreeMap::from([
            (vectors.clone(), finding(TableSubject::Numbers, false)),
            (damaged.clone(), TableFinding::default()),
        ]);
        let names = [vectors.clone(), damaged.clone()];
        let found = descendants(&StoredNames { names: &names, findings: &findings, lineages: &lineages });
        assert_eq!(found.keys().collect::<Vec<_>>(), {
            let mut both = vec![&vectors, &damaged];
            both.sort();
            both
        });
    }
}
