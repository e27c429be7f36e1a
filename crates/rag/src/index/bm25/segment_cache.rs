//! The segments of indexes that were written before, by the texts that are in them.
//!
//! A file is written whole, is compared with its checksum when it is used again, and may be removed at any time.

use super::Bm25Index;
use crate::{
    Error,
    analysis::{DocumentLanguages, Language, TextAnalysis},
    index::{EntryTexts, Index, header::bad},
};
use std::{
    fs, io,
    ops::Range,
    path::{Path, PathBuf},
};
use store::{Key, KeyBuilder, UsedFiles};

/// The segments in a folder.
pub(super) struct SegmentCache<'a> {
    folder: &'a Path,
    /// What says how texts are cut.
    analysis: String,
    used: UsedFiles,
}

impl<'a> SegmentCache<'a> {
    pub(super) fn open(folder: &'a Path, analysis: &TextAnalysis) -> Result<Self, Error> {
        fs::create_dir_all(folder).map_err(|error| bad(&folder.display().to_string(), error))?;
        let analysis = serde_json::to_string(analysis).unwrap_or_default();
        Ok(Self { folder, analysis, used: UsedFiles::default() })
    }

    /// The key of some texts and of the borders of their documents.
    pub(super) fn key(&self, texts: &dyn EntryTexts, entries: Range<usize>) -> Key {
        let mut hasher = blake3::Hasher::new();
        let mut before = None;
        for entry in entries {
            let document = texts.document(entry);
            let is_new = before.replace(document) != Some(document);
            let text = texts.text(entry);
            hasher.update(&[u8::from(is_new)]).update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        }
        Key::of_bytes(hasher.finalize().as_bytes())
    }

    /// The languages of the documents of some texts.
    pub(super) fn languages(
        &self,
        texts: &Key,
        detect: impl FnOnce() -> DocumentLanguages,
    ) -> Result<DocumentLanguages, Error> {
        let path = self.path(texts, "languages", "");
        if let Ok(bytes) = fs::read(&path)
            && let Ok(known) = serde_json::from_slice(&bytes)
        {
            self.used.note(&path);
            return Ok(known);
        }
        let languages = detect();
        let bytes = serde_json::to_vec(&languages).map_err(|error| bad(&path.display().to_string(), error))?;
        self.write(&path, &bytes)?;
        Ok(languages)
    }

    /// The file of the segment of some texts. `other` is the language of documents whose language is not clear, if there are
    /// any.
    pub(super) fn segment(
        &self,
        texts: &Key,
        other: Option<Language>,
        make: impl FnOnce() -> Bm25Index,
    ) -> Result<PathBuf, Error> {
        let path = self.path(texts, "bm25", other.map_or("", Language::name));
        let known = Bm25Index::open_files(std::slice::from_ref(&path));
        if known.is_ok_and(|known| known.verify_checksums().is_ok()) {
            self.used.note(&path);
        } else {
            self.write(&path, &make().to_bytes())?;
        }
        Ok(path)
    }

    /// Removes files that were not used for long, if they take much more space than those that were.
    pub(super) fn remove_old(&self) {
        self.used.remove_unused(self.folder);
    }

    fn path(&self, texts: &Key, ending: &str, other: &str) -> PathBuf {
        let key = KeyBuilder::new("bm25 segment").field("version", &Bm25Index::VERSION).key("texts", texts);
        let key = key.field("analysis", self.analysis.as_str()).field("other", other).finish();
        self.folder.join(format!("{}.{ending}", key.hex()))
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), Error> {
        let draft = store::staged_path(path);
        let written: io::Result<()> = fs::write(&draft, bytes).and_then(|()| fs::rename(&draft, path));
        if let Err(error) = written {
            let _ = fs::remove_file(&draft);
            return Err(bad(&path.display().to_string(), error));
        }
        self.used.note(path);
        Ok(())
    }
}
