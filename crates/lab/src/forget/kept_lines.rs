//! Files of kept answers and feedback: lines of JSON. Lines with text of the documents are removed, and so is the feedback
//! on these answers.

use super::findings::DocumentSigns;
use crate::{Error, files::write_whole};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeSet, path::PathBuf};

/// Lines that were, or would be, removed from a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RemovedLines {
    /// The file.
    pub file: PathBuf,
    /// How many lines.
    pub lines: usize,
}

/// A file with the lines that stay.
pub(super) struct KeptLines {
    file: PathBuf,
    removed: usize,
    kept: Vec<u8>,
}

impl KeptLines {
    pub(super) fn removed(&self) -> RemovedLines {
        RemovedLines { file: self.file.clone(), lines: self.removed }
    }

    /// Writes the lines that stay in place of the file.
    pub(super) fn write(&self) -> Result<(), Error> {
        write_whole(&self.file, &self.kept)
    }
}

/// Reads files, and returns those that lose a line. The feedback on an answer may be in another file than the answer.
pub(super) fn read_files(files: &[PathBuf], signs: &DocumentSigns) -> Result<Vec<KeptLines>, Error> {
    let read = |file: &PathBuf| {
        let text = std::fs::read(file).map_err(|source| Error::file("read", file, source))?;
        Ok::<_, Error>((file.clone(), String::from_utf8_lossy(&text).into_owned()))
    };
    let texts = files.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let answers: BTreeSet<String> = texts
        .iter()
        .flat_map(|(_, text)| text.lines())
        .filter(|line| signs.fingerprint.is_in(line))
        .filter_map(|line| serde_json::from_str::<Value>(line).ok()?["id"].as_str().map(str::to_owned))
        .collect();
    let is_of_answer = |line: &str| {
        let line: Option<Value> = serde_json::from_str(line).ok();
        line.is_some_and(|line| line["request_id"].as_str().is_some_and(|id| answers.contains(id)))
    };
    let of_file = |(file, text): (PathBuf, String)| {
        let goes = |line: &&str| signs.fingerprint.is_in(line) || !answers.is_empty() && is_of_answer(line);
        let (removed, kept): (Vec<&str>, Vec<&str>) = text.lines().partition(goes);
        let kept: String = kept.into_iter().flat_map(|line| [line, "\n"]).collect();
        KeptLines { file, removed: removed.len(), kept: kept.into_bytes() }
    };
    Ok(texts.into_iter().map(of_file).filter(|file| file.removed > 0).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answers_with_text_of_a_document_go_and_so_does_the_feedback_on_them() {
        let mut signs = DocumentSigns::default();
        signs.fingerprint.add("She breeds black swans in a pond that nobody else may enter.");
        let folder = tempfile::tempdir().unwrap();
        let (traffic, feedback) = (folder.path().join("traffic.jsonl"), folder.path().join("feedback.jsonl"));
        let line = |id: &str, context: &str| json!({ "id": id, "answer": "Yes.", "contexts": [context] });
        let of_pond = line("r-1", "breeds black swans in a pond that nobody else");
        let of_owls = line("r-2", "Owls hunt at night.");
        std::fs::write(&traffic, format!("{of_pond}\n{of_owls}\n")).unwrap();
        std::fs::write(&feedback, "{\"request_id\":\"r-1\"}\n{\"request_id\":\"r-2\"}\nno json\n").unwrap();
        let files = [traffic.clone(), feedback.clone()];
        let kept = read_files(&files, &signs).unwrap();
        assert_eq!(kept.iter().map(|file| file.removed().lines).collect::<Vec<_>>(), [1, 1]);
        kept.iter().for_each(|file| file.write().unwrap());
        assert_eq!(std::fs::read_to_string(&traffic).unwrap(), format!("{of_owls}\n"));
        assert_eq!(std::fs::read_to_string(&feedback).unwrap(), "{\"request_id\":\"r-2\"}\nno json\n");
        assert!(read_files(&files, &signs).unwrap().is_empty());
        assert!(read_files(&[folder.path().join("none")], &signs).is_err());
    }
}
