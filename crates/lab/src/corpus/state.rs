//! Which state of a corpus was read.

use super::CorpusFiles;
use rag::Metadata;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use store::KeyBuilder;

/// The state of a corpus at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorpusState {
    /// The digest of the names and contents of its files, and of what its table of metadata says.
    pub version: String,
    /// How many files it has.
    pub files: usize,
    /// When it was read, in milliseconds since 1970.
    pub read_ms: i64,
}

impl CorpusState {
    pub(super) fn of(files: &CorpusFiles, metadata: &BTreeMap<String, Metadata>, read_ms: i64) -> Self {
        let contents = files.files.iter().map(|(file, key)| (file.path.as_str(), key));
        let key = KeyBuilder::new("corpus files").named_keys("files", contents);
        let key = if metadata.is_empty() { key } else { key.field("metadata", metadata) };
        Self { version: key.finish().short(), files: files.files.len(), read_ms }
    }
}
