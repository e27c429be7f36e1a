//! The segments of indexes that were written before, by the texts that are in them.
//!
//! A file is written whole, is verified when it is used again, and may be removed at any time.

use super::Bm25Index;
use crate::{
    Error,
    analysis::{DocumentLanguages, Language, TextAnalysis},
    index::{EntryTexts, Index, header::bad},
};
use std::{
    collections::HashSet,
    fs, io,
    ops::Range,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::SystemTime,
};
use store::{Key, KeyBuilder};

/// Files that were not used may take so many times the space of those that were, and this many bytes more.
const MOST_UNUSED: u64 = 2;
const ALLOWED_BYTES: u64 = 64 << 20;

/// The segments in a folder.
pub(super) struct SegmentCache<'a> {
    folder: &'a Path,
    /// What says how texts are cut.
    analysis: String,
    /// The files that were used.
    used: Mutex<HashSet<PathBuf>>,
}

impl<'a> SegmentCache<'a> {
    pub(super) fn open(folder: &'a Path, analysis: &TextAnalysis) -> Result<Self, Error> {
        fs::create_dir_all(folder).map_err(|error| bad(&folder.display().to_string(), error))?;
        let analysis = serde_json::to_string(analysis).unwrap_or_default();
        Ok(Self { folder, analysis, used: Mutex::default() })
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
            self.note(&path);
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
        if known.is_ok_and(|known| known.verify().is_ok()) {
            self.note(&path);
        } else {
            self.write(&path, &make().to_bytes())?;
        }
        Ok(path)
    }

    /// Removes the files that were not used for the longest time, if they take much more space than those that were.
    pub(super) fn remove_old(&self) {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut bytes_used, mut others) = (0, Vec::new());
        for entry in fs::read_dir(self.folder).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            match used.contains(&entry.path()) {
                true => bytes_used += metadata.len(),
                false => {
                    let when = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                    others.push((when, metadata.len(), entry.path()));
                }
            }
        }
        others.sort_unstable();
        let mut bytes: u64 = others.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, size, path) in others {
            if bytes <= bytes_used * MOST_UNUSED + ALLOWED_BYTES {
                break;
            }
            // Another process may have removed it.
            let _ = fs::remove_file(path);
            bytes -= size;
        }
    }

    fn path(&self, texts: &Key, ending: &str, other: &str) -> PathBuf {
        let key = KeyBuilder::new("bm25 segment").field("version", &Bm25Index::VERSION).key("texts", texts);
        let key = key.field("analysis", self.analysis.as_str()).field("other", other).finish();
        self.folder.join(format!("{}.{ending}", key.hex()))
    }

    /// Notes that a file was used.
    fn note(&self, path: &Path) {
        // The time is only for `remove_old`.
        let _ = fs::File::open(path).and_then(|file| file.set_modified(SystemTime::now()));
        self.used.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned());
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), Error> {
        let draft = store::staged_path(path);
        let written: io::Result<()> = fs::write(&draft, bytes).and_then(|()| fs::rename(&draft, path));
        if let Err(error) = written {
            let _ = fs::remove_file(&draft);
            return Err(bad(&path.display().to_string(), error));
        }
        self.used.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned());
        Ok(())
    }
}
