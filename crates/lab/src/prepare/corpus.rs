//! The corpus of an experiment: what is at its address, and the documents in
//! it, which are parsed once.

use super::{LoadedCorpus, metadata};
use crate::{
    Error, Session,
    artifact::DocumentRow,
    error_chain,
    plan::{Inputs, Plan},
    run::{execute, execution},
    task::{now_ms, read},
    workspace::Claimed,
};
use futures::{StreamExt, stream};
use models::{Library, ModelDirectory};
use rag::{
    Metadata,
    load::{self, Rejected, Source, SourceFile, Unread},
};
use std::{collections::BTreeMap, path::Path, sync::Arc};
use store::Key;

/// Files of a corpus that are read at once to learn their keys.
const READS: usize = 16;

/// The identity of a PDF library that is not there.
pub(crate) const NO_LIBRARY: &str = "none";

/// What is at a corpus' address, and what reads it.
pub(super) struct Found {
    /// The corpus; none if its address is a mistake.
    pub(super) source: Option<Source>,
    /// When the files were looked at, in milliseconds since 1970.
    pub(super) read_ms: i64,
    pub(super) files: CorpusFiles,
    /// What the table of metadata says, by document.
    pub(super) metadata: BTreeMap<String, Metadata>,
    /// The identity of the PDF library.
    pub(super) pdf_library: String,
}

/// The files at a corpus' address.
#[derive(Default)]
pub(super) struct CorpusFiles {
    /// The files, with the keys of their contents.
    pub(super) files: Vec<(SourceFile, Key)>,
    /// Links that leave the corpus, and the like.
    pub(super) rejected: Vec<Rejected>,
    /// What could not be read or listed now.
    pub(super) unread: Vec<Unread>,
    /// The files among them.
    pub(super) absent: Vec<SourceFile>,
}

/// Reads and parses a session's corpus; what was parsed before is taken from
/// the store.
///
/// # Errors
/// [`Error::Refused`] if it cannot be read.
pub async fn load_corpus(session: &Session) -> Result<LoadedCorpus, Error> {
    let mut mistakes = Vec::new();
    let found = find(session, &mut mistakes).await?;
    let Some(source) = found.source.clone().filter(|_| mistakes.is_empty()) else {
        return Err(Error::Refused(mistakes));
    };
    let mut claimed = Claimed::new(session.workspace());
    let loaded = load(session, &mut claimed, source, &found).await?;
    let mut rejected = found.files.rejected;
    loaded
        .rows(|row| {
            if let DocumentRow::Rejected(reason) = row {
                rejected.push(reason);
            }
        })
        .await?;
    Ok(LoadedCorpus { rejected, claimed: Some(claimed), ..loaded })
}

/// Looks at a session's corpus.
pub(super) async fn find(session: &Session, mistakes: &mut Vec<String>) -> Result<Found, Error> {
    let source = source(session, mistakes);
    let read_ms = now_ms();
    let files = match &source {
        Some(source) => files(session, source, mistakes).await,
        None => CorpusFiles::default(),
    };
    let pdf_library = bind_pdf_library(
        &session.context().directory,
        files.files.iter().map(|(file, _)| file.path.as_str()),
        mistakes,
    )?;
    let metadata = metadata::read(session, &files, mistakes)?;
    Ok(Found { source, read_ms, files, metadata, pdf_library })
}

/// Where a session's corpus is; none if its address is a mistake.
pub(crate) fn source(session: &Session, mistakes: &mut Vec<String>) -> Option<Source> {
    let corpus = &session.experiment.corpus;
    let address = if store::is_url(&corpus.source) {
        corpus.source.clone()
    } else {
        session.experiment.path(&corpus.source).display().to_string()
    };
    match Source::parse(&address, &corpus.include, &corpus.exclude, &session.setup().store_options) {
        Ok(source) => Some(source.with_links(corpus.links)),
        Err(error) => {
            mistakes.push(error_chain(&error));
            None
        }
    }
}

/// The corpus' files with the keys of their contents. A file that cannot be
/// read is no part of this run's plan.
async fn files(session: &Session, source: &Source, mistakes: &mut Vec<String>) -> CorpusFiles {
    let limits = &session.experiment.corpus.limits;
    let listing = match source.survey().await {
        Ok(listing) => listing,
        Err(error) => {
            mistakes.push(error_chain(&error));
            return CorpusFiles::default();
        }
    };
    let reads = listing.files.into_iter().map(|file| {
        let (source, limits) = (source.clone(), limits.clone());
        async move {
            let key = read::content(&source, &file, &limits).await.map(|content| read::key(&content));
            (file, key)
        }
    });
    let mut found = CorpusFiles { rejected: listing.rejected, unread: listing.unread, ..CorpusFiles::default() };
    for (file, key) in stream::iter(reads).buffered(READS).collect::<Vec<_>>().await {
        match key {
            Ok(key) => found.files.push((file, key)),
            Err(unread) => {
                found.unread.push(unread);
                found.absent.push(file);
            }
        }
    }
    found
}

/// Makes the PDF library ready, and returns its identity. That it is not there
/// is a mistake if one of these files needs it.
pub(crate) fn bind_pdf_library<'a>(
    directory: &ModelDirectory,
    paths: impl IntoIterator<Item = &'a str>,
    mistakes: &mut Vec<String>,
) -> Result<String, Error> {
    let is_pdf =
        |path: &str| Path::new(path).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("pdf"));
    match directory.library(Library::Pdfium) {
        Ok(path) => {
            if let Err(error) = load::bind_pdfium(&path) {
                mistakes.push(error.to_string());
            }
            let bytes = std::fs::read(&path).map_err(|source| Error::file("read", &path, source))?;
            Ok(Key::of_bytes(&bytes).hex())
        }
        Err(error) => {
            if paths.into_iter().any(is_pdf) {
                mistakes.push(format!("the corpus holds PDF files: {}", error_chain(&error)));
            }
            Ok(NO_LIBRARY.to_owned())
        }
    }
}

/// Parses files; what was parsed before is taken from the store.
pub(super) async fn load(
    session: &Session,
    claimed: &mut Claimed,
    source: Source,
    found: &Found,
) -> Result<LoadedCorpus, Error> {
    let plan = Arc::new(Plan::loading(&Inputs {
        experiment: &session.experiment,
        trials: &[],
        identities: &BTreeMap::new(),
        files: &found.files.files,
        unread: &found.files.absent,
        metadata: &found.metadata,
        pdf_library: &found.pdf_library,
        questions: &[],
        asked: None,
    }));
    let execution = Arc::new(execution(session, source, Vec::new(), "loading")?);
    let outcome = execute(session, claimed, &plan, &execution).await?;
    if let Some(reason) = outcome.failed.into_values().next() {
        return Err(Error::Task { label: "loading the corpus".to_owned(), reason });
    }
    let mut unread = found.files.unread.clone();
    unread.extend(outcome.unread);
    Ok(LoadedCorpus { execution, plan, outputs: outcome.outputs, rejected: Vec::new(), unread, claimed: None })
}
