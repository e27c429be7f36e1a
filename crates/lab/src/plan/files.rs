//! The files of a corpus in a plan: one list for all tasks, because there may be a million files.

use rag::load::SourceFile;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::sync::Arc;
use store::Key;

/// All files of a corpus, with the keys of their contents. Clones share the list.
pub(crate) type FileList = Arc<Vec<(SourceFile, Key)>>;

/// Some files of a corpus. As JSON, it is the list of these files alone.
#[derive(Debug, Clone, Default)]
pub(crate) struct PlannedFiles {
    list: FileList,
    /// The places of these files in the list.
    places: Box<[u32]>,
}

impl PlannedFiles {
    /// The files at these places of a list.
    pub(crate) fn new(list: &FileList, places: Box<[u32]>) -> Self {
        Self { list: list.clone(), places }
    }

    /// The files and the keys of their contents, in order.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &(SourceFile, Key)> {
        self.places.iter().map(|&place| &self.list[place as usize])
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }
}

impl From<Vec<(SourceFile, Key)>> for PlannedFiles {
    fn from(files: Vec<(SourceFile, Key)>) -> Self {
        Self { places: (0..).take(files.len()).collect(), list: Arc::new(files) }
    }
}

impl Serialize for PlannedFiles {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for PlannedFiles {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_files_of_a_list_are_written_without_the_others() {
        let file = |name: &str| -> (SourceFile, Key) {
            let file = serde_json::json!({ "path": name, "bytes": 7 });
            (serde_json::from_value(file).unwrap(), Key::of_bytes(name.as_bytes()))
        };
        let list = Arc::new(["a", "b", "c"].map(file).to_vec());
        let some = PlannedFiles::new(&list, [2, 0].into());
        let written = serde_json::to_string(&some).unwrap();
        assert_eq!(written, serde_json::to_string(&[file("c"), file("a")]).unwrap());
        let read: PlannedFiles = serde_json::from_str(&written).unwrap();
        assert_eq!((read.iter().collect::<Vec<_>>(), read.len()), (some.iter().collect(), 2));
    }
}
