//! What a removal of documents leaves behind: a note while it is at work, and a certificate when it has ended. Neither holds
//! text of the documents.

use super::{bundles::BundleOfDocument, documents::ForgottenDocument, kept_lines::RemovedLines};
use crate::{Error, clock::utc, layout};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use store::{ArtifactStore, Key};

/// Raise when the fields or their meaning change.
const VERSION: u32 = 1;

/// Something that may hold text of the documents and cannot be removed from here.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BeyondReach {
    /// What it is, and where.
    pub what: String,
    /// What to do about it.
    pub action: String,
}

/// What was, or would be, removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedObjects {
    /// The objects by kind: their names.
    pub objects: BTreeMap<String, BTreeSet<String>>,
    /// The keys of the journal's entries.
    pub calls: BTreeSet<Key>,
    /// The files of runs that were rewritten without the documents, by run.
    pub rewritten: BTreeMap<String, BTreeSet<String>>,
    /// Bundles, which were removed whole.
    pub bundles: BTreeSet<BundleOfDocument>,
    /// Lines of files with kept answers and feedback.
    pub lines: BTreeSet<RemovedLines>,
}

impl RemovedObjects {
    /// Adds an object of a kind.
    pub(super) fn add(&mut self, kind: &str, name: impl Into<String>) {
        self.objects.entry(kind.to_owned()).or_default().insert(name.into());
    }

    /// Adds what another removal of the same documents has removed from the store.
    pub(super) fn merge(&mut self, other: Self) {
        for (kind, names) in other.objects {
            self.objects.entry(kind).or_default().extend(names);
        }
        self.calls.extend(other.calls);
        for (run, files) in other.rewritten {
            self.rewritten.entry(run).or_default().extend(files);
        }
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The note of a removal that has not ended. It says what to forget, so that the next command can finish it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingRemoval {
    version: u32,
    /// When it began, in milliseconds since 1970.
    pub begun_ms: i64,
    /// The documents.
    pub documents: Vec<ForgottenDocument>,
    /// The questions with passages or evidence of the documents, by id. They are known by tables that are removed.
    pub(super) questions: BTreeSet<String>,
    /// What it set out to remove.
    pub(super) removed: RemovedObjects,
}

impl PendingRemoval {
    pub(super) fn new(
        begun_ms: i64,
        documents: Vec<ForgottenDocument>,
        questions: BTreeSet<String>,
        removed: RemovedObjects,
    ) -> Self {
        Self { version: VERSION, begun_ms, documents, questions, removed }
    }

    /// The removal in a sentence.
    pub fn sentence(&self) -> String {
        let paths: Vec<&str> = self.documents.iter().map(|document| document.path.as_str()).collect();
        let paths = match paths.as_slice() {
            [first, second, third, rest @ ..] if !rest.is_empty() => {
                format!("{first}, {second}, {third} and {} more", rest.len())
            }
            few => few.join(", "),
        };
        format!("the removal of {paths}, begun at {}, has not ended", utc(self.begun_ms))
    }
}

/// The removals in a store that have not ended, with the names of their notes.
///
/// # Errors
/// If the store cannot be read.
pub(super) async fn pending_notes(store: &ArtifactStore) -> Result<Vec<(String, PendingRemoval)>, Error> {
    let mut found = Vec::new();
    for name in store.list(layout::forgotten_folder()).await? {
        if layout::is_pending_removal(&name)
            && let Some(bytes) = store.get(&name).await?
        {
            let damaged = |error| Error::table(format!("{name}: {error}"));
            found.push((name.clone(), serde_json::from_slice(&bytes).map_err(damaged)?));
        }
    }
    Ok(found)
}

/// The removals in a store that have not ended. They are finished by the next removal.
///
/// # Errors
/// If the store cannot be read.
pub async fn pending_removals(store: &ArtifactStore) -> Result<Vec<PendingRemoval>, Error> {
    Ok(pending_notes(store).await?.into_iter().map(|(_, note)| note).collect())
}

/// The certificate of documents that were forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgetCertificate {
    version: u32,
    /// The version of Reverie.
    pub reverie: String,
    /// When the removal ended, in milliseconds since 1970.
    pub time_ms: i64,
    /// The same in words.
    pub time: String,
    /// The experiment from which the store was named.
    pub experiment: String,
    /// The store.
    pub store: String,
    /// The documents.
    pub documents: Vec<ForgottenDocument>,
    /// How much was removed, by kind.
    pub counts: BTreeMap<String, usize>,
    /// What was removed, by name.
    pub removed: RemovedObjects,
    /// What may hold text of the documents and was out of reach.
    pub beyond_reach: Vec<BeyondReach>,
    /// The digest of all of the above.
    pub digest: String,
}

/// For whom and when a certificate is made.
pub(super) struct CertificateHead {
    pub(super) time_ms: i64,
    pub(super) experiment: String,
    pub(super) store: String,
}

impl ForgetCertificate {
    pub(super) fn new(
        head: CertificateHead,
        documents: Vec<ForgottenDocument>,
        removed: RemovedObjects,
        beyond_reach: Vec<BeyondReach>,
    ) -> Result<Self, Error> {
        let mut certificate = Self {
            version: VERSION,
            reverie: env!("CARGO_PKG_VERSION").to_owned(),
            time_ms: head.time_ms,
            time: utc(head.time_ms),
            experiment: head.experiment,
            store: head.store,
            documents,
            counts: counts(&removed),
            removed,
            beyond_reach,
            digest: String::new(),
        };
        certificate.digest = certificate.digest_of()?;
        Ok(certificate)
    }

    fn digest_of(&self) -> Result<String, Error> {
        let bare = Self { digest: String::new(), ..self.clone() };
        Ok(Key::of_bytes(&serde_json::to_vec(&bare).map_err(Error::table)?).hex())
    }

    /// Whether it is what was written.
    pub fn is_intact(&self) -> bool {
        self.digest_of().is_ok_and(|digest| digest == self.digest)
    }

    /// The content of its file.
    ///
    /// # Errors
    /// If it cannot be written as JSON.
    pub fn to_json(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = serde_json::to_vec_pretty(self).map_err(Error::table)?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}

/// How much was removed, by kind.
pub fn counts(removed: &RemovedObjects) -> BTreeMap<String, usize> {
    let own = [
        ("answers in the journal", removed.calls.len()),
        ("files of runs, rewritten", removed.rewritten.values().map(BTreeSet::len).sum()),
        ("bundles", removed.bundles.len()),
        ("lines of kept answers and feedback", removed.lines.iter().map(|lines| lines.lines).sum()),
    ];
    let objects = removed.objects.iter().map(|(kind, names)| (kind.clone(), names.len()));
    objects.chain(own.map(|(kind, n)| (kind.to_owned(), n))).filter(|(_, n)| *n > 0).collect()
}

/// The documents of the certificates in a store: when each was forgotten last, by path.
pub(super) async fn forgotten_before(store: &ArtifactStore) -> Result<BTreeMap<String, ForgottenBefore>, Error> {
    let mut found: BTreeMap<String, ForgottenBefore> = BTreeMap::new();
    for name in store.list(layout::forgotten_folder()).await? {
        if layout::is_pending_removal(&name) {
            continue;
        }
        let bytes = store.get(&name).await?;
        let certificate: Option<ForgetCertificate> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let Some(certificate) = certificate else { continue };
        for ForgottenDocument { path, .. } in certificate.documents {
            let before = ForgottenBefore { path, time_ms: certificate.time_ms, certificate: name.clone() };
            let kept = found.entry(before.path.clone()).or_insert_with(|| before.clone());
            if kept.time_ms < before.time_ms {
                *kept = before;
            }
        }
    }
    Ok(found)
}

/// A document that an earlier removal has forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ForgottenBefore {
    /// Its path.
    pub path: String,
    /// When, in milliseconds since 1970.
    pub time_ms: i64,
    /// The name of the certificate in the store.
    pub certificate: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn removed() -> RemovedObjects {
        let mut removed = RemovedObjects::default();
        removed.add("artifacts", "artifacts/ab/x.parquet");
        removed.calls.insert(Key::of_bytes(b"call"));
        removed.rewritten.entry("r-1".to_owned()).or_default().insert("results.json".to_owned());
        removed
    }

    fn document() -> ForgottenDocument {
        ForgottenDocument { path: "a.md".to_owned(), digests: BTreeSet::from([Key::of_bytes(b"one")]) }
    }

    #[test]
    fn a_certificate_shows_that_it_was_not_changed() {
        let head = CertificateHead { time_ms: 0, experiment: "x".to_owned(), store: "store".to_owned() };
        let certificate = ForgetCertificate::new(head, vec![document()], removed(), Vec::new()).unwrap();
        let read: ForgetCertificate = serde_json::from_slice(&certificate.to_json().unwrap()).unwrap();
        assert!(read.is_intact() && read == certificate);
        let changed = ForgetCertificate { time_ms: 1, ..read };
        assert!(!changed.is_intact());
        let counts: Vec<(&str, usize)> = certificate.counts.iter().map(|(kind, n)| (kind.as_str(), *n)).collect();
        assert_eq!(counts, [("answers in the journal", 1), ("artifacts", 1), ("files of runs, rewritten", 1)]);
    }

    #[tokio::test]
    async fn notes_and_certificates_are_told_apart() {
        let store = ArtifactStore::open("memory:///x", &[], layout::LAYOUT).unwrap();
        assert!(pending_removals(&store).await.unwrap().is_empty());
        let note = PendingRemoval::new(7, vec![document()], BTreeSet::new(), removed());
        store.put(&layout::pending_removal("ab-1"), serde_json::to_vec(&note).unwrap()).await.unwrap();
        assert_eq!(pending_removals(&store).await.unwrap(), std::slice::from_ref(&note));
        assert_eq!(note.sentence(), "the removal of a.md, begun at 1970-01-01 00:00 UTC, has not ended");
        assert!(forgotten_before(&store).await.unwrap().is_empty());
        for time_ms in [9, 8] {
            let head = CertificateHead { time_ms, experiment: "x".to_owned(), store: "store".to_owned() };
            let certificate = ForgetCertificate::new(head, vec![document()], removed(), Vec::new()).unwrap();
            let name = layout::certificate(time_ms, &certificate.digest[..12]);
            store.put(&name, certificate.to_json().unwrap()).await.unwrap();
        }
        let before = forgotten_before(&store).await.unwrap();
        assert_eq!(before["a.md"].time_ms, 9);
        assert!(before["a.md"].certificate.starts_with("forgotten/9-"));
    }
}
