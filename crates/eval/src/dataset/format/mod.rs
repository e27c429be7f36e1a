//! Formats of files of questions: one file each, and one line below.
//!
//! A format recognises its files by name or content, and reads and writes
//! records. It knows nothing about questions.

use super::fault::RowError;
use super::rows::{BYTE_ORDER_MARK, FileRecord, TableHeader, without_mark};
use crate::words;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A format of files of records.
pub(super) struct RecordFormat {
    /// Its name in messages.
    pub(super) title: &'static str,
    /// File name extensions that are written in this format, in lower case; the
    /// first is the default.
    pub(super) written_as: &'static [&'static str],
    /// File name extensions that are read in this format.
    pub(super) read_as: &'static [&'static str],
    /// The first bytes that belong to this format alone, if there are any. The file's
    /// name is then ignored.
    signature: Option<&'static [u8]>,
    /// The characters, apart from white space, with which a file with an unknown
    /// extension begins if it is of this format.
    begins_with: &'static [u8],
    /// Reads all records of a file without its byte order mark, and all errors.
    pub(super) read: ReadRecords,
    /// Reads the header; `None` if files of the format have none.
    header: Option<fn(name: &str, bytes: &[u8]) -> TableHeader>,
    /// Writes records with these columns. Missing fields are left out, or empty in
    /// a table.
    pub(super) write: WriteRecords,
    /// Changes records of a file and leaves the rest as it is; `None` if files of
    /// this format cannot be changed in place.
    pub(super) rewrite: Option<Rewrite>,
}

/// What a file is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileContent {
    /// Golden questions.
    Questions,
    /// Answers of a system, or metadata of documents.
    Other,
}

/// Why records cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// A line that was read is no JSON object.
    #[error("a line is no JSON object")]
    NoObject,
    /// JSON cannot hold a value.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// CSV cannot hold a value.
    #[error(transparent)]
    Csv(#[from] ::csv::Error),
    /// Parquet cannot hold a value.
    #[error(transparent)]
    Parquet(#[from] ::parquet::errors::ParquetError),
}

/// Reads a file of this name and these bytes.
pub(super) type ReadRecords = fn(&str, &[u8], FileContent) -> (Vec<FileRecord>, Vec<RowError>);

/// Makes the bytes of a file with these records and columns.
pub(super) type WriteRecords = fn(&[Map<String, Value>], &[&str]) -> Result<Vec<u8>, WriteError>;

/// Makes the bytes of a changed file.
pub(super) type Rewrite = fn(&OriginalFile<'_>, &[ChangedRecord]) -> Result<Vec<u8>, WriteError>;

/// A file as it was read.
pub(super) struct OriginalFile<'a> {
    pub(super) rows: &'a [FileRecord],
    pub(super) layout: &'a FileLayout,
}

/// How a file is written, apart from its records.
#[derive(Debug)]
pub(super) struct FileLayout {
    pub(super) format: DatasetFormat,
    /// Whether it begins with a byte order mark.
    has_mark: bool,
    pub(super) line_end: &'static str,
    pub(super) header: TableHeader,
}

impl FileLayout {
    /// The byte order mark, if there is one.
    pub(super) fn mark(&self) -> &'static [u8] {
        if self.has_mark { BYTE_ORDER_MARK } else { b"" }
    }
}

/// A question to be written: the index of its record in the file, if it has one,
/// and the fields that changed.
pub(super) type ChangedRecord = (Option<usize>, Vec<(String, Value)>);

macro_rules! formats {
    ($( $Variant:ident => $module:ident ),+ $(,)?) => {
        $( mod $module; )+

        /// A format of files of questions.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum DatasetFormat {
            $( #[doc = concat!("`", stringify!($module), "`: see its file.")] $Variant, )+
        }

        impl DatasetFormat {
            /// All formats.
            pub const ALL: &'static [Self] = &[$( Self::$Variant ),+];

            /// What the format can do.
            pub(super) fn file(self) -> &'static RecordFormat {
                match self { $( Self::$Variant => &self::$module::FORMAT, )+ }
            }
        }
    };
}

formats! {
    Jsonl => jsonl,
    Csv => csv,
    Parquet => parquet,
}

impl DatasetFormat {
    /// The format in which a file of this name is written, by its extension.
    pub fn of_name(name: &str) -> Option<Self> {
        let (_, extension) = name.rsplit_once('.')?;
        let extension = extension.to_ascii_lowercase();
        Self::ALL.iter().copied().find(|format| format.file().written_as.contains(&extension.as_str()))
    }

    /// The same, if files of this format can be changed in place, as a review does.
    pub fn of_editable_name(name: &str) -> Option<Self> {
        Self::of_name(name).filter(|format| format.can_be_changed_in_place())
    }

    /// Whether files of this format can be changed in place.
    pub(crate) fn can_be_changed_in_place(self) -> bool {
        self.file().rewrite.is_some()
    }

    /// All formats.
    pub fn all() -> DatasetFormats {
        DatasetFormats(Self::ALL.to_vec())
    }

    /// The formats that can be changed in place.
    pub fn editable() -> DatasetFormats {
        DatasetFormats(Self::ALL.iter().copied().filter(|format| format.can_be_changed_in_place()).collect())
    }

    /// The format of a file: by first bytes that only one format has, else by its
    /// name, else by its first character.
    pub(super) fn of_file(name: &str, bytes: &[u8]) -> Self {
        let find = |is: &dyn Fn(&RecordFormat) -> bool| Self::ALL.iter().copied().find(|format| is(format.file()));
        let extension = name.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
        let first = without_mark(bytes).iter().find(|byte| !byte.is_ascii_whitespace());
        find(&|format| format.signature.is_some_and(|signature| bytes.starts_with(signature)))
            .or_else(|| find(&|format| format.read_as.contains(&extension.as_str())))
            .or_else(|| first.and_then(|first| find(&|format| format.begins_with.contains(first))))
            .unwrap_or(Self::Csv)
    }
}

/// The layout of a file.
pub(super) fn layout(name: &str, bytes: &[u8]) -> FileLayout {
    let format = DatasetFormat::of_file(name, bytes);
    let content = without_mark(bytes);
    let first_line = content.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line_end = if first_line.ends_with(b"\r") { "\r\n" } else { "\n" };
    let header = format.file().header.map(|header| header(name, content)).unwrap_or_default();
    FileLayout { format, has_mark: content.len() < bytes.len(), line_end, header }
}

/// Reads all records; the file may begin with a byte order mark.
pub(super) fn read(name: &str, bytes: &[u8], holds: FileContent) -> (Vec<FileRecord>, Vec<RowError>) {
    (DatasetFormat::of_file(name, bytes).file().read)(name, without_mark(bytes), holds)
}

/// Whether all records have the columns of one header.
pub(super) fn has_header(name: &str, bytes: &[u8]) -> bool {
    DatasetFormat::of_file(name, bytes).file().header.is_some()
}

/// A list of formats, for messages.
#[derive(Debug, Clone)]
pub struct DatasetFormats(Vec<DatasetFormat>);

impl DatasetFormats {
    /// Their names: `JSONL or CSV`.
    pub fn titles(&self) -> String {
        let titles: Vec<String> = self.0.iter().map(|format| format.file().title.to_owned()).collect();
        words::alternatives(&titles)
    }

    /// Their extensions: `.jsonl or .csv`.
    pub fn endings(&self) -> String {
        let first = |format: &DatasetFormat| Some(format!(".{}", format.file().written_as.first()?));
        words::alternatives(&self.0.iter().filter_map(first).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests;
