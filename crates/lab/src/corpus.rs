//! The corpus of an experiment: what is at its address, and the documents in
//! it, which are parsed once. A corpus can also be listed alone, without reading its files.

mod known_contents;
mod loaded;
mod state;

pub use loaded::LoadedCorpus;
pub(crate) use loaded::LoadedShard;
pub use state::CorpusState;

use crate::{
    Error,
    artifact::DocumentRow,
    blocking::compute,
    clock::now_ms,
    error_chain,
    healing::{execute, run_context},
    layout,
    parser_needs::{check_models_of_parsers, prepare_parsers},
    plan::{FileList, GivenReplies, Plan, PlanInputs, QuestionViews},
    session::Session,
    spec::Experiment,
    task::read,
    workspace::ClaimedArtifacts,
};
use eval::dataset::import_metadata;
use futures::{StreamExt, stream};
use known_contents::KnownContents;
use models::Identity;
use rag::{
    Metadata,
    load::{Listing, ParseLimits, Rejected, Source, SourceFile, Unread},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
};
use store::Key;

/// Files of a corpus that are read at once to learn their keys.
const READS: usize = 16;
/// Small files that are read one after the other by one thread.
const SMALL_FILES: usize = 256;
/// The most unknown documents of a table of metadata that are named; the others are counted.
const NAMED: usize = 3;

/// The files at a corpus' address, with their metadata and the library that reads PDF files.
#[derive(Debug, Default)]
pub(crate) struct CorpusSurvey {
    /// The corpus; none if its address is a mistake.
    pub(crate) source: Option<Source>,
    /// When the files were looked at, in milliseconds since 1970.
    pub(crate) read_ms: i64,
    pub(crate) files: CorpusFiles,
    /// What the table of metadata says, by document.
    pub(crate) metadata: BTreeMap<String, Metadata>,
    /// The identity of the PDF library.
    pub(crate) pdf_library: String,
    /// The plan that parses the files, once it is made.
    pub(crate) loading: OnceLock<Arc<Plan>>,
    /// Which state of the corpus this is, once somebody has asked.
    pub(crate) state: OnceLock<CorpusState>,
}

/// The files at a corpus' address.
#[derive(Debug, Default)]
pub(crate) struct CorpusFiles {
    /// The files, with the keys of their contents.
    pub(crate) files: FileList,
    /// Links that leave the corpus, and the like.
    pub(crate) rejected: Vec<Rejected>,
    /// What could not be read or listed now.
    pub(crate) unread: Vec<Unread>,
    /// The files that were listed and could not be read; `unread` says why.
    pub(crate) absent: Vec<SourceFile>,
    /// The number of files that are left out because no reader knows their type, by the ending of their names.
    pub(crate) unread_types: BTreeMap<String, u64>,
}

impl CorpusFiles {
    /// The paths that the corpus has, whether its files could be read or not.
    fn known_paths(&self) -> BTreeSet<&str> {
        let listed = self.files.iter().map(|(file, _)| file).chain(&self.absent);
        known_paths(listed.map(|file| file.path.as_str()), &self.rejected, &self.unread)
    }
}

impl CorpusSurvey {
    /// Which state of the corpus this is.
    pub(crate) fn state(&self) -> &CorpusState {
        self.state.get_or_init(|| CorpusState::of(&self.files, &self.metadata, self.read_ms))
    }

    /// The plan that parses the files. It is the first part of the plan of a run, and is made once.
    pub(crate) fn loading(&self, experiment: &Experiment) -> &Arc<Plan> {
        self.loading.get_or_init(|| Arc::new(Plan::loading(&self.plan_inputs(experiment))))
    }

    /// The inputs of a plan that only parses the files.
    pub(crate) fn plan_inputs<'a>(&'a self, experiment: &'a Experiment) -> PlanInputs<'a> {
        const NO_MODELS: &BTreeMap<String, Identity> = &BTreeMap::new();
        const NO_ANSWERS: &BTreeMap<String, GivenReplies> = &BTreeMap::new();
        static NO_VIEWS: &QuestionViews = &QuestionViews::NONE;
        PlanInputs {
            experiment,
            trials: &[],
            identities: NO_MODELS,
            given: NO_ANSWERS,
            files: &self.files.files,
            loading: self.loading.get().map(Arc::as_ref),
            // The plan needs the files themselves; `files.unread` holds the reasons.
            unread: &self.files.absent,
            metadata: &self.metadata,
            pdf_library: &self.pdf_library,
            questions: &[],
            views: NO_VIEWS,
            asked: None,
        }
    }
}

/// The files at a corpus' address, which were listed and not read.
#[derive(Debug, Default)]
pub(crate) struct ListedCorpus {
    /// The corpus; none if its address is a mistake.
    pub(crate) source: Option<Source>,
    pub(crate) listing: Listing,
    /// What the table of metadata says, by document.
    pub(crate) metadata: BTreeMap<String, Metadata>,
    /// The identity of the PDF library.
    pub(crate) pdf_library: String,
}

/// Lists the files of a session's corpus, without reading them.
pub(crate) async fn list(session: &Session, mistakes: &mut Vec<String>) -> Result<ListedCorpus, Error> {
    let source = session.corpus_source(mistakes);
    let listing = match &source {
        Some(source) => list_files(source, mistakes).await.unwrap_or_default(),
        None => Listing::default(),
    };
    let paths = || listing.files.iter().map(|file| file.path.as_str());
    let directory = &session.context().directory;
    // A sample is read by default, whatever the parsers are.
    let pdf_library = prepare_parsers(directory, &[], paths(), mistakes)?;
    check_models_of_parsers(&session.experiment.space.parsers(), directory, mistakes);
    let known = || known_paths(paths(), &listing.rejected, &listing.unread);
    let metadata = read_table(session, known, mistakes)?;
    Ok(ListedCorpus { source, listing, metadata, pdf_library })
}

/// What is at the address of a corpus; none if it cannot be listed.
async fn list_files(source: &Source, mistakes: &mut Vec<String>) -> Option<Listing> {
    match source.survey().await {
        Ok(found) => Some(found),
        Err(error) => {
            mistakes.push(error_chain(&error));
            None
        }
    }
}

/// Reads and parses a session's corpus; what was parsed before is taken from
/// the store.
///
/// # Errors
/// [`Error::Refused`] if it cannot be read.
pub async fn load_corpus(session: &Session) -> Result<LoadedCorpus, Error> {
    let mut mistakes = Vec::new();
    let found = survey(session, &mut mistakes).await?;
    let Some(source) = found.source.clone().filter(|_| mistakes.is_empty()) else {
        return Err(Error::Refused(mistakes));
    };
    let mut claimed = ClaimedArtifacts::new(session.workspace());
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
pub(crate) async fn survey(session: &Session, mistakes: &mut Vec<String>) -> Result<CorpusSurvey, Error> {
    let source = session.corpus_source(mistakes);
    let read_ms = now_ms();
    let files = match &source {
        Some(source) => files(session, source, mistakes).await,
        None => CorpusFiles::default(),
    };
    let (parsers, directory) = (session.experiment.space.parsers(), &session.context().directory);
    let paths = files.files.iter().map(|(file, _)| file.path.as_str());
    let pdf_library = prepare_parsers(directory, &parsers, paths, mistakes)?;
    check_models_of_parsers(&parsers, directory, mistakes);
    let metadata = read_table(session, || files.known_paths(), mistakes)?;
    Ok(CorpusSurvey { source, read_ms, files, metadata, pdf_library, ..CorpusSurvey::default() })
}

/// The corpus' files with the keys of their contents. A file that cannot be
/// read is no part of this run's plan.
async fn files(session: &Session, source: &Source, mistakes: &mut Vec<String>) -> CorpusFiles {
    let limits = &session.experiment.corpus.limits;
    let listed_ms = now_ms();
    let Some(listing) = list_files(source, mistakes).await else { return CorpusFiles::default() };
    let folder = layout::scratch_folder(session.workspace().root());
    let known = Arc::new(KnownContents::read(&folder, &session.corpus_address()));
    let listed = Arc::new(listing.files);
    let keys = read_small_files(source, limits, &known, &listed).await;
    let unknown = listed.iter().enumerate().filter(|(place, _)| keys[*place].is_none());
    let reads = unknown.map(|(place, file)| async move {
        let content = read::content(source, file, limits).await;
        (place, content.map(|it| (read::key(&it), it.is_ok())))
    });
    let contents: BTreeMap<usize, _> = stream::iter(reads).buffer_unordered(READS).collect().await;
    let mut found = CorpusFiles {
        rejected: listing.rejected,
        unread: listing.unread,
        unread_types: listing.unread_types,
        ..CorpusFiles::default()
    };
    let mut files = Vec::with_capacity(listed.len());
    // What has no readable content is looked at again.
    let mut unreadable = BTreeSet::new();
    let mut contents = contents.into_values();
    for (file, key) in Arc::unwrap_or_clone(listed).into_iter().zip(keys) {
        match key.map(|key| Ok((key, true))).or_else(|| contents.next()) {
            Some(Ok((key, is_readable))) => {
                if !is_readable {
                    unreadable.insert(files.len());
                }
                files.push((file, key));
            }
            Some(Err(unread)) => {
                found.unread.push(unread);
                found.absent.push(file);
            }
            None => {}
        }
    }
    if !session.workspace().is_reading() {
        let readable = files.iter().enumerate().filter(|(place, _)| !unreadable.contains(place));
        known.keep(readable.map(|(_, (file, key))| (file, key)), listed_ms);
    }
    found.files = Arc::new(files);
    found
}

/// The keys of files that are known, and of small files on a local disk, which are read many at a time. None for a file that
/// has to be read by itself.
async fn read_small_files(
    source: &Source,
    limits: &ParseLimits,
    known: &Arc<KnownContents>,
    files: &Arc<Vec<SourceFile>>,
) -> Vec<Option<Key>> {
    let batches = (0..files.len()).step_by(SMALL_FILES).map(|first| {
        let (source, limits, known, files) = (source.clone(), limits.clone(), known.clone(), files.clone());
        let end = files.len().min(first + SMALL_FILES);
        let keys = move || {
            let mut known = known.cursor(first);
            let key = |file: &SourceFile| {
                let content = || source.read_now(file, &limits)?.ok().map(|bytes| Key::of_bytes(&bytes));
                let is_known = file.bytes <= limits.file_bytes;
                let known = known.key(file).filter(|_| is_known);
                known.or_else(|| if file.bytes <= read::SMALL_FILE { content() } else { None })
            };
            files[first..end].iter().map(key).collect::<Vec<_>>()
        };
        async move { compute(keys).await.unwrap_or_else(|_| vec![None; end - first]) }
    });
    stream::iter(batches).buffered(READS).collect::<Vec<_>>().await.concat()
}

/// Parses files; what was parsed before is taken from the store.
pub(crate) async fn load(
    session: &Session,
    claimed: &mut ClaimedArtifacts,
    source: Source,
    found: &CorpusSurvey,
) -> Result<LoadedCorpus, Error> {
    let plan = found.loading(&session.experiment).clone();
    let run_context = Arc::new(run_context(session, source, Default::default(), "loading")?);
    let outcome = execute(session, claimed, &plan, &run_context).await?;
    if let Some(reason) = outcome.failed.into_values().next() {
        return Err(Error::Task { label: "loading the corpus".to_owned(), reason });
    }
    let mut unread = found.files.unread.clone();
    unread.extend(outcome.unread);
    Ok(LoadedCorpus { run_context, plan, outputs: outcome.outputs, rejected: Vec::new(), unread, claimed: None })
}

/// The paths that the corpus has: of listed files, and of what gives no document or cannot be read now.
fn known_paths<'a>(
    listed: impl Iterator<Item = &'a str>,
    rejected: &'a [Rejected],
    unread: &'a [Unread],
) -> BTreeSet<&'a str> {
    let rejected = rejected.iter().map(|file| file.path.as_str());
    listed.chain(rejected).chain(unread.iter().map(|file| file.path.as_str())).collect()
}

/// Reads the corpus' table of metadata, by document; nothing without a table. Its mistakes are added to the others.
/// `known` gives the paths that the corpus has.
///
/// # Errors
/// If the file cannot be read.
fn read_table<'a>(
    session: &Session,
    known: impl FnOnce() -> BTreeSet<&'a str>,
    mistakes: &mut Vec<String>,
) -> Result<BTreeMap<String, Metadata>, Error> {
    let Some(written) = &session.experiment.corpus.metadata else { return Ok(BTreeMap::new()) };
    let path = session.experiment.path(written);
    let bytes = std::fs::read(&path).map_err(|source| Error::file("read", &path, source))?;
    let rows = match import_metadata(written, &bytes) {
        Ok(rows) => rows,
        Err(faults) => {
            mistakes.extend(faults.iter().map(ToString::to_string));
            return Ok(BTreeMap::new());
        }
    };
    let known = known();
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

#[cfg(test)]
mod tests;
