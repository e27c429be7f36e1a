//! The list of the documents that a run was made from: `documents.jsonl` in its folder and in bundles, with a line for each
//! file of the corpus.

use crate::Error;
use rag::load::SourceFile;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use store::Key;

/// A file of a run's corpus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexedDocument {
    /// Its path below the corpus' root.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// The digest of its bytes.
    pub key: Key,
}

impl IndexedDocument {
    /// What is written of it.
    pub(crate) fn row(&self) -> (&str, u64, &Key) {
        (&self.path, self.bytes, &self.key)
    }

    /// A file with the digest of its bytes.
    pub(crate) fn of((file, key): &(SourceFile, Key)) -> Self {
        Self { path: file.path.clone(), bytes: file.bytes, key: *key }
    }
}

/// Writes a line for each document: its path, its size and the key of its bytes.
pub(crate) fn write_documents<'a>(
    mut file: impl Write,
    documents: impl IntoIterator<Item = (&'a str, u64, &'a Key)>,
) -> std::io::Result<()> {
    let mut line = Vec::new();
    for (path, bytes, key) in documents {
        // What serde would write for an `IndexedDocument`, in a third of the time: there may be millions.
        line.clear();
        line.extend_from_slice(b"{\"path\":");
        serde_json::to_writer(&mut line, path)?;
        writeln!(line, ",\"bytes\":{bytes},\"key\":\"{key}\"}}")?;
        file.write_all(&line)?;
    }
    file.flush()
}

/// The documents of a list.
///
/// # Errors
/// As [`visit_documents`].
pub(crate) fn parse_documents(lines: impl BufRead) -> Result<Vec<IndexedDocument>, Error> {
    let mut documents = Vec::new();
    visit_documents(lines, |document| documents.push(document))?;
    Ok(documents)
}

/// Calls `each` with every document of a list, one in memory at a time.
///
/// # Errors
/// If it cannot be read, or a line is not that of a document.
pub(crate) fn visit_documents(mut lines: impl BufRead, mut each: impl FnMut(IndexedDocument)) -> Result<(), Error> {
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).map_err(Error::table)? > 0 {
        each(serde_json::from_slice(&line).map_err(Error::table)?);
        line.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_a_line_for_each_document() {
        let of = |path: &str| IndexedDocument { path: path.to_owned(), bytes: 3, key: Key::of_bytes(path.as_bytes()) };
        let documents = vec![of("a/b.md"), of("a \"new\nline\".txt"), of("ä.txt")];
        let mut lines = Vec::new();
        write_documents(&mut lines, documents.iter().map(IndexedDocument::row)).unwrap();
        let line = |document| serde_json::to_string(document).unwrap() + "\n";
        assert_eq!(String::from_utf8_lossy(&lines), documents.iter().map(line).collect::<String>());
        assert_eq!(lines.iter().filter(|byte| **byte == b'\n').count(), 3);
        assert_eq!(parse_documents(lines.as_slice()).unwrap(), documents);
        assert_eq!(parse_documents(&b""[..]).unwrap(), []);
        assert!(parse_documents(&lines[..lines.len() - 5]).is_err());
    }
}
