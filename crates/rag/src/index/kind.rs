//! What the rest of the system knows about a kind of index.

use super::{IndexKind, VectorWriter, header::bad};
use crate::{
    Error,
    analysis::{Language, TextAnalysis},
};
use std::{
    any::Any,
    path::{Path, PathBuf},
};

/// A kind of index over the searchable chunks of a corpus: entry `i` of the
/// index is the `i`-th searchable chunk.
pub trait Index: Sized + Send + Sync + 'static {
    /// The ending of its files' names, and a part of its tasks' keys.
    const NAME: &'static str;
    /// How people call it, such as `BM25 index`.
    const TITLE: &'static str;
    /// Raise when the file or scores change.
    const VERSION: u32;
    /// The oldest version whose files are still read.
    const OLDEST_READ: u32 = Self::VERSION;
    /// What it is made from.
    const MADE_FROM: MadeFrom;

    /// Opens its files.
    ///
    /// # Errors
    /// A file that is missing, or is not a complete index of this version.
    fn open_files(files: &[PathBuf]) -> Result<Self, Error>;

    /// Compares everything with the checksums that the files themselves hold.
    ///
    /// # Errors
    /// If a byte is not what was written.
    fn verify(&self) -> Result<(), Error>;

    /// Whether these bytes are one of its files, undamaged.
    ///
    /// # Errors
    /// What is wrong with them.
    fn verify_bytes(bytes: &[u8]) -> Result<(), Error>;

    /// How many entries it has.
    fn entries(&self) -> usize;
}

/// The texts that an index is made from, by its entries. They may lie in a mapped file.
pub trait EntryTexts: Sync {
    /// How many entries there are.
    fn entries(&self) -> usize;

    /// The text of an entry.
    fn text(&self, entry: usize) -> &str;

    /// The document of an entry. The entries of a document follow each other.
    fn document(&self, entry: usize) -> &str;
}

/// The texts of one document are entries too.
impl<T: AsRef<str> + Sync> EntryTexts for &[T] {
    fn entries(&self) -> usize {
        self.len()
    }

    fn text(&self, entry: usize) -> &str {
        self[entry].as_ref()
    }

    fn document(&self, _: usize) -> &str {
        ""
    }
}

/// Texts in memory that an index is made from.
#[derive(Debug, Clone, Copy)]
pub struct IndexedTexts<'a> {
    /// A text for each searchable chunk.
    pub texts: &'a [&'a str],
    /// For each document, the place of its first text in `texts`, ascending. The first is 0 if there are texts.
    pub documents: &'a [usize],
    /// How the texts are cut into terms.
    pub analysis: &'a TextAnalysis,
    /// The language of each document, if it is known already.
    pub languages: Option<&'a [Language]>,
}

/// The places where another document begins. `documents` names the document of each chunk, in the order of the chunks.
pub fn document_starts<'a>(documents: impl Iterator<Item = &'a str>) -> Vec<usize> {
    let mut before = None;
    let mut starts = Vec::new();
    for (place, document) in documents.enumerate() {
        if before.replace(document) != Some(document) {
            starts.push(place);
        }
    }
    starts
}

/// What a kind of index is made from, and how.
#[derive(Debug, Clone, Copy)]
pub enum MadeFrom {
    /// The texts of the searchable chunks. The function writes the index' one file.
    Texts(WriteTexts),
    /// A vector for each searchable chunk. The function begins the index' one file.
    Vectors(CreateVectors),
    /// A vector for each token of each chunk. A [`TokenWriter`] wrote its files, one for each shard of chunks.
    TokenVectors,
    /// The dense index over the same chunks. [`GraphIndex`](super::GraphIndex) makes it.
    DenseIndex,
    /// The chunks and the dense index over them, which are written into a database.
    Records,
}

/// Writes the file of an index of texts, which are cut into terms by these settings. The last path is a folder of parts
/// that are used again by the next index of nearly the same texts; it may be removed at any time.
pub type WriteTexts = fn(&dyn EntryTexts, &TextAnalysis, &Path, &Path) -> Result<(), Error>;

/// Begins the file of an index for vectors with this number of dimensions.
pub type CreateVectors = fn(&Path, usize) -> Result<Box<dyn VectorWriter>, Error>;

/// An opened index of any kind.
#[derive(Debug)]
pub struct OpenIndex(Box<dyn Any + Send + Sync>);

impl OpenIndex {
    /// Wraps an opened index.
    pub fn new(index: impl Index) -> Self {
        Self(Box::new(index))
    }

    /// The index, if it is of this kind.
    pub fn get<T: Index>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl IndexKind {
    /// Whether it is made from vectors of the trial's embedder.
    pub fn embeds(self) -> bool {
        matches!(self.made_from(), MadeFrom::Vectors(_) | MadeFrom::TokenVectors)
    }

    /// Whether a question's vector is compared with its entries.
    pub fn compares_vectors(self) -> bool {
        matches!(self.made_from(), MadeFrom::Vectors(_))
    }

    /// Whether it is made from the dense index.
    pub fn is_of_dense_index(self) -> bool {
        matches!(self.made_from(), MadeFrom::DenseIndex | MadeFrom::Records)
    }

    /// Whether the vectors of a question's tokens are compared with its
    /// entries. Such an index has a file for each shard of chunks; others have one file.
    pub fn compares_tokens(self) -> bool {
        matches!(self.made_from(), MadeFrom::TokenVectors)
    }
}

/// The file of an index that has only one.
pub(super) fn only(files: &[PathBuf]) -> Result<&Path, Error> {
    match files {
        [file] => Ok(file),
        _ => Err(bad("index", format!("{} files, but this kind of index has one", files.len()))),
    }
}

/// Declares the kinds of index: for each a module, whose index it exports, and [`IndexKind`].
macro_rules! kinds {
    ($( $(#[$doc:meta])* $Kind:ident => $module:ident::$Index:ident ),+ $(,)?) => {
        $( mod $module; pub use $module::$Index; )+

        /// A kind of index.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
        )]
        #[serde(rename_all = "snake_case")]
        pub enum IndexKind {
            $( $(#[$doc])* $Kind, )+
        }

        impl IndexKind {
            /// All, in the order of registration.
            pub const ALL: &'static [Self] = &[$( Self::$Kind ),+];

            /// The ending of its files' names, and a part of its tasks' keys.
            pub fn name(self) -> &'static str {
                match self { $( Self::$Kind => <$module::$Index as $crate::index::Index>::NAME, )+ }
            }

            /// How people call it, such as `BM25 index`.
            pub fn title(self) -> &'static str {
                match self { $( Self::$Kind => <$module::$Index as $crate::index::Index>::TITLE, )+ }
            }

            /// The version of its file and its scores.
            pub fn version(self) -> u32 {
                match self { $( Self::$Kind => <$module::$Index as $crate::index::Index>::VERSION, )+ }
            }

            /// The oldest version whose files are still read.
            pub fn oldest_read(self) -> u32 {
                match self { $( Self::$Kind => <$module::$Index as $crate::index::Index>::OLDEST_READ, )+ }
            }

            /// What it is made from, and how.
            pub fn made_from(self) -> $crate::index::MadeFrom {
                match self { $( Self::$Kind => <$module::$Index as $crate::index::Index>::MADE_FROM, )+ }
            }

            /// Opens its files.
            ///
            /// # Errors
            /// A file that is missing, or is not a complete index of this version.
            pub fn open(self, files: &[std::path::PathBuf]) -> Result<$crate::index::OpenIndex, $crate::Error> {
                match self { $( Self::$Kind => Ok($crate::index::OpenIndex::new(<$module::$Index as $crate::index::Index>::open_files(files)?)), )+ }
            }

            /// Opens a file and compares everything with the checksums that the file itself holds.
            ///
            /// # Errors
            /// If it cannot be opened, or a byte is not what was written.
            pub fn verify(self, file: std::path::PathBuf) -> Result<(), $crate::Error> {
                match self { $( Self::$Kind => <$module::$Index as $crate::index::Index>::open_files(&[file])?.verify(), )+ }
            }

            /// Whether these bytes are a file of this kind, undamaged.
            ///
            /// # Errors
            /// What is wrong with them.
            pub fn verify_bytes(self, bytes: &[u8]) -> Result<(), $crate::Error> {
                match self { $( Self::$Kind => <$module::$Index as $crate::index::Index>::verify_bytes(bytes), )+ }
            }
        }
    };
}
pub(super) use kinds;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{Bm25Index, DenseIndex};

    #[test]
    fn every_kind_reads_its_name_and_refuses_what_is_no_file_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x");
        std::fs::write(&file, b"no index").unwrap();
        for &kind in IndexKind::ALL {
            assert_eq!(serde_json::from_value::<IndexKind>(kind.name().into()).unwrap(), kind);
            assert!(
                kind.open(std::slice::from_ref(&file)).is_err() && kind.open(&[folder.path().join("none")]).is_err()
            );
            assert!(kind.verify(file.clone()).is_err() && kind.verify_bytes(b"no index").is_err());
        }
    }

    #[test]
    fn an_opened_index_is_found_by_its_type() {
        let index = OpenIndex::new(Bm25Index::build(&["a mill", "a fox"]));
        assert_eq!(index.get::<Bm25Index>().map(Index::entries), Some(2));
        assert!(index.get::<DenseIndex>().is_none());
    }
}
