//! The corpus' table of metadata, checked against its files.

use super::CorpusFiles;
use crate::{Error, session::Session};
use eval::dataset::read_metadata;
use rag::Metadata;
use std::collections::{BTreeMap, BTreeSet};

/// Names of documents told in one mistake.
const NAMED: usize = 3;

/// What the table says of each document; nothing without a table. Its mistakes
/// are added to the others.
///
/// # Errors
/// If the file cannot be read.
pub(super) fn read(
    session: &Session,
    files: &CorpusFiles,
    mistakes: &mut Vec<String>,
) -> Result<BTreeMap<String, Metadata>, Error> {
    let Some(written) = &session.experiment.corpus.metadata else { return Ok(BTreeMap::new()) };
    let path = session.experiment.path(written);
    let bytes = std::fs::read(&path).map_err(|source| Error::file("read", &path, source))?;
    let rows = match read_metadata(written, &bytes) {
        Ok(rows) => rows,
        Err(faults) => {
            mistakes.extend(faults.iter().map(ToString::to_string));
            return Ok(BTreeMap::new());
        }
    };
    let known: BTreeSet<&str> = (files.files.iter().map(|(file, _)| file))
        .chain(&files.absent)
        .map(|file| file.path.as_str())
        .chain(files.rejected.iter().map(|file| file.path.as_str()))
        .chain(files.unread.iter().map(|file| file.path.as_str()))
        .collect();
    let mut unknown = rows.iter().filter(|(path, _)| !known.contains(path.as_str()));
    for (path, row) in unknown.by_ref().take(NAMED) {
        let line = row.line;
        mistakes.push(format!(
            "{written}:{line}: the corpus has no document `{path}`: correct the path, or remove the row"
        ));
    }
    let more = unknown.count();
    if more > 0 {
        mistakes.push(format!("{written}: {more} more rows name documents that the corpus does not have"));
    }
    Ok(rows.into_iter().map(|(path, row)| (path, row.metadata)).collect())
}
