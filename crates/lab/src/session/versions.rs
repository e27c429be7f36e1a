//! Which versions of its data a run is made from: what the event log and
//! trackers say of its lineage.

use super::{Prepared, Session};
use crate::track::DataVersion;
use eval::Dataset;
use store::{Key, KeyBuilder};

impl Session {
    /// Which version of the golden questions a run is made from.
    pub(super) fn dataset_version(&self, prepared: &Prepared) -> Option<DataVersion> {
        let spec = self.experiment.dataset.as_ref()?;
        let dataset = Dataset { questions: prepared.questions.clone() };
        let (version, rows) = (dataset.version(), dataset.questions.len());
        Some(DataVersion { version, source: spec.path.clone(), rows, bytes: None })
    }

    /// The same of the corpus: its files' names and bytes.
    pub(super) fn corpus_version(&self, prepared: &Prepared) -> DataVersion {
        let files: Vec<(&str, &Key)> =
            prepared.sources.files.iter().map(|(file, key)| (file.path.as_str(), key)).collect();
        DataVersion {
            version: KeyBuilder::new("corpus files").field("files", &files).finish().short(),
            source: self.experiment.corpus.source.clone(),
            rows: prepared.documents,
            bytes: Some(prepared.text_bytes),
        }
    }
}
