//! `load::format`: what the module of a format declares: how files of the format
//! are recognized and read.

use super::{LoadError, ParseFunction, ParseLimits};
use std::borrow::Cow;
use std::io::{Cursor, Read};
use zip::ZipArchive;
use zip::result::ZipError;

/// A format of files that documents are made of.
pub(super) struct FileFormat {
    /// How the names of such files end, in lower case.
    pub(super) extensions: &'static [&'static str],
    pub(super) signature: Signature,
    pub(super) parse: ParseFunction,
    /// The files in such a file that are documents of their own.
    pub(super) inner_files: Option<InnerFiles>,
    /// Whether its text has its headings as Markdown. In other texts a `#` is
    /// a comment or a number sign.
    pub(super) keeps_headings: bool,
    /// The message for a file without text; mostly [`NO_TEXT`].
    pub(super) without_text: &'static str,
    /// The native library without which no such file can be read.
    pub(super) library: Option<&'static str>,
    /// A file with every feature of the format; its document is pinned.
    #[cfg(test)]
    pub(super) sample: fn() -> sample::Sample,
}

/// Calls its last argument with each file until that says that it is enough.
pub(super) type FilesFunction = fn(&[u8], &ParseLimits, &mut dyn FnMut(InnerFile<'_>) -> bool) -> Result<(), LoadError>;

/// Which files are in a file of a format.
pub(super) enum InnerFiles {
    /// Some beside the text of the file.
    Beside(FilesFunction),
    /// The file is nothing but what is in it.
    Only(FilesFunction),
}

/// A file in a file.
#[derive(Debug)]
pub(super) struct InnerFile<'a> {
    pub(super) name: String,
    pub(super) bytes: Cow<'a, [u8]>,
    /// Whether some of it could not be decoded.
    pub(super) is_damaged: bool,
}

/// The message for a file without text, unless its format has a better one.
pub(super) const NO_TEXT: &str = "the file holds only white space or pictures";

/// How a format is recognized.
pub(super) enum Signature {
    /// Bytes of its own. The function is given the file, and whether its name
    /// says that it is of this format.
    Bytes(fn(&[u8], bool) -> bool),
    /// The entries of a ZIP archive.
    Archive(fn(&Entries<'_>) -> bool),
    /// The beginning of its text, or else the ending of its name.
    Text {
        /// Whether a text that begins so is of this format.
        begins: fn(&str) -> bool,
        /// What such a file is called in messages, such as `a web page`.
        called: &'static str,
    },
    /// The ending of its name alone, because any text could be of this format.
    Name,
}

impl Signature {
    /// Whether such a file is text that a person could write.
    pub(super) fn is_text(&self) -> bool {
        matches!(self, Self::Text { .. } | Self::Name)
    }
}

/// What a ZIP archive holds.
pub(super) struct Entries<'a> {
    bytes: &'a [u8],
    archive: ZipArchive<Cursor<&'a [u8]>>,
}

impl<'a> Entries<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, ZipError> {
        Ok(Self { bytes, archive: ZipArchive::new(Cursor::new(bytes))? })
    }

    /// Whether there is an entry of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.archive.index_for_name(name).is_some()
    }

    /// Whether there is an entry below this folder, which ends in `/`.
    pub(super) fn has_folder(&self, folder: &str) -> bool {
        self.archive.file_names_raw().any(|name| name.starts_with(folder.as_bytes()))
    }

    /// Whether the entry `mimetype` begins with this text. It should be the first one and stored, so that its text stands
    /// at byte 38, but programs that pack a document again compress it.
    pub(super) fn has_type(&self, text: &str) -> bool {
        if let Some(rest) = self.bytes.get(30..).and_then(|rest| rest.strip_prefix(b"mimetype"))
            && rest.starts_with(text.as_bytes())
        {
            return true;
        }
        let mut archive = self.archive.clone();
        let mut begin = vec![0; text.len()];
        archive.by_name("mimetype").is_ok_and(|mut entry| entry.read_exact(&mut begin).is_ok())
            && begin == text.as_bytes()
    }
}

/// Declares the formats: a module for each, and the enum of their names.
macro_rules! formats {
    ($( $Variant:ident => $module:ident ),+ $(,)?) => {
        $( mod $module; )+

        /// What a file really is, whatever its name says.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Format {
            $( #[doc = concat!("`", stringify!($module), "`: see its file.")] $Variant, )+
        }

        impl Format {
            /// All, in the order in which they are tried.
            pub const ALL: &'static [Self] = &[$( Self::$Variant ),+];

            /// The definition of the format.
            fn definition(self) -> &'static FileFormat {
                match self { $( Self::$Variant => &$module::FORMAT, )+ }
            }
        }
    };
}
pub(super) use formats;

#[cfg(test)]
pub(super) mod sample {
    use crate::load::archive::tests::zipped;
    use serde_json::{Value, json};
    use store::Key;

    /// A file to try a format with.
    pub(in crate::load) struct Sample {
        pub(in crate::load) path: &'static str,
        pub(in crate::load) bytes: Vec<u8>,
        /// What it was made of.
        pub(in crate::load) source: Value,
    }

    impl Sample {
        pub(in crate::load) fn plain(path: &'static str, bytes: &[u8]) -> Self {
            Self { path, bytes: bytes.to_vec(), source: json!(Key::of_bytes(bytes)) }
        }

        /// The source is the content of the archive, because its packing may change.
        pub(in crate::load) fn archive(path: &'static str, entries: &[(&str, &str)]) -> Self {
            Self { path, bytes: zipped(entries), source: json!(entries) }
        }
    }
}
