//! Which versions of its data a run is made from: what the event log and
//! trackers say of its lineage.

use crate::{PreparedRun, Session, track::DataVersion};
use eval::Dataset;
use store::{Key, KeyBuilder};

/// Which version of the golden questions a run is made from.
pub(super) fn dataset_version(session: &Session, prepared: &PreparedRun) -> Option<DataVersion> {
    let spec = session.experiment.dataset.as_ref()?;
    let dataset = Dataset { questions: prepared.questions.clone() };
    let (version, rows) = (dataset.version(), dataset.questions.len());
    Some(DataVersion { version, source: spec.source().to_owned(), rows, bytes: None })
}

/// The version of the corpus: the digest of its files' names and bytes.
pub(super) fn corpus_version(session: &Session, prepared: &PreparedRun) -> DataVersion {
    let files: Vec<(&str, &Key)> = prepared.sources.files.iter().map(|(file, key)| (file.path.as_str(), key)).collect();
    DataVersion {
        version: KeyBuilder::new("corpus files").field("files", &files).finish().short(),
        source: session.experiment.corpus.source.clone(),
        rows: prepared.documents,
        bytes: Some(prepared.text_bytes),
    }
}
