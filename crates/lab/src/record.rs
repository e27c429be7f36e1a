//! The record of a finished run ([`RunRecord`]), stored with its results. It holds what
//! the leaderboard says, and the run's provenance ([`RunProvenance`]): the resolved
//! experiment, the state of the corpus, and where each trial's chunks and indexes are. Commands
//! that query or show a run read this record and never the experiment file, which may
//! have changed since.

mod changes;
mod documents;
#[cfg(test)]
pub(crate) mod fixture;

pub use changes::changed_since;
pub use documents::IndexedDocument;
pub(crate) use {
    changes::what_differs,
    documents::{parse_documents, visit_documents, write_documents},
};

use crate::{
    Board, Error, PreparedRun, Session,
    action::Action,
    artifact,
    blocking::compute,
    board::{Cell, ColumnKind},
    corpus::CorpusState,
    detectable::DetectableDifferences,
    engine::PlanOutcome,
    layout::RunFileName,
    plan::{
        CorpusInputs, TaskId, Trial, TrialKind, TrialTasks,
        trial::{SYSTEM, identity_name, not_run},
    },
    results::{Answering, MetricComparison, Results, ScoreTable},
    run_summary::{RunSummary, results_bytes},
    spec::{Experiment, NONE},
    workspace::RunStart,
};
use eval::{Question, statistics::Summary as MeanScore};
use models::Identity;
use rag::{PipelineConfig, index::IndexKind, vector_index::VectorIndexConfig};
use serde::{Deserialize, Serialize};
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{BufReader, BufWriter},
    path::{Path, PathBuf},
};
use store::StagedFile;

/// The format of [`RunProvenance`].
const VERSION: u32 = 1;

/// The provenance of a run, which is what it was made from: `frozen.json` in its folder.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunProvenance {
    /// The format of this structure.
    version: u32,
    /// The formats of tables and of each kind of index in the artifacts.
    formats: ArtifactFormats,
    /// The resolved experiment as an experiment file, without values that may
    /// be secrets.
    pub experiment: String,
    /// Each model's identity, by the model's name.
    pub identities: BTreeMap<String, Identity>,
    /// Which state of the corpus was read. Older versions did not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corpus: Option<CorpusState>,
    /// The documents' files in records of earlier versions. Now they have a file of their own: [`RunRecord::documents`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) documents: Vec<IndexedDocument>,
    /// When the documents were read, in milliseconds since 1970; no document is newer.
    pub read_ms: i64,
    /// The trials, in the order of the grid.
    trials: Vec<ProvenanceTrial>,
    /// The artifacts that `trials` search, by the task ids in their inputs.
    artifacts: BTreeMap<TaskId, String>,
    /// What the command line replaced in the experiment file; empty for a run
    /// of what the file says.
    #[serde(default)]
    overrides: Vec<String>,
    /// The experiment file, relative to the folder of the store if it is below it.
    #[serde(default)]
    file: Option<String>,
}

/// A trial, and the artifacts that it searches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct ProvenanceTrial {
    trial: Trial,
    inputs: CorpusInputs,
}

/// The index in a database in which a promoted trial searches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PromotedSearch<'a> {
    pub(crate) index: &'a VectorIndexConfig,
    /// The name of the artifact that says where its records are.
    pub(crate) artifact: &'a str,
}

/// What a trial searches in one state of the corpus.
pub(crate) struct SearchedCorpus {
    pub(crate) state: CorpusState,
    pub(crate) documents: Vec<IndexedDocument>,
    /// The tasks of its chunks and indexes.
    pub(crate) inputs: CorpusInputs,
    /// The names of their artifacts.
    pub(crate) artifacts: BTreeMap<TaskId, String>,
}

impl ProvenanceTrial {
    /// Makes it a trial that searches in a database.
    fn search_in(&mut self, promoted: PromotedSearch<'_>, artifacts: &mut BTreeMap<TaskId, String>) {
        let TrialKind::Pipeline(pipeline) = &mut self.trial.kind else { return };
        pipeline.index = promoted.index.clone();
        let needed = pipeline.indexes_for_answers();
        self.inputs.indexes.retain(|kind, _| *kind != IndexKind::Database && needed.contains(kind));
        let id = artifacts.keys().last().map_or(0, |last| last + 1);
        self.inputs.indexes.insert(IndexKind::Database, vec![id]);
        artifacts.insert(id, promoted.artifact.to_owned());
    }
}

/// A run's record, cut to one of its trials.
pub(crate) struct OneTrial {
    /// Its provenance: the content of [`RunFileName::Frozen`].
    pub(crate) provenance: Vec<u8>,
    /// The content of [`RunFileName::Summary`].
    pub(crate) summary: Vec<u8>,
    /// The names of the models that the trial asks, and of its embedder.
    pub(crate) models: BTreeSet<String>,
}

/// The record of a finished run: what its leaderboard says, and its provenance. The
/// results themselves hold every passage; [`RunRecord::results`] reads them.
#[derive(Debug, Clone)]
pub struct RunRecord {
    summary: RunSummary,
    provenance: Option<RunProvenance>,
    /// The run's folder, which holds the list of its documents; none if the list is in the provenance.
    folder: Option<PathBuf>,
}

impl RunProvenance {
    /// The pipelines of the trials.
    pub(crate) fn pipelines(&self) -> impl Iterator<Item = &PipelineConfig> {
        self.trials.iter().filter_map(|found| found.trial.pipeline())
    }

    /// The names of the artifacts that the trials search.
    pub(crate) fn artifacts(&self) -> impl Iterator<Item = &str> {
        self.artifacts.values().map(String::as_str)
    }

    pub(crate) fn of(session: &Session, prepared: &PreparedRun, outcome: &PlanOutcome) -> Self {
        let (plan, sources) = (&prepared.plan, &prepared.sources);
        // A partial output has another name than its task's artifact, so names
        // come from the outcome. The outcome of a search has the task ids of
        // its last step's plan, not of this one.
        let is_exhaustive = session.experiment.search.is_exhaustive();
        let made = |id: &TaskId| outcome.outputs.get(id).filter(|_| is_exhaustive).cloned();
        let mut artifacts = BTreeMap::new();
        let mut trials = Vec::new();
        for (trial, tasks) in prepared.trials.iter().zip(&plan.trials) {
            let inputs = search_inputs(tasks);
            artifacts.extend(
                inputs.all().into_iter().map(|id| (id, made(&id).unwrap_or_else(|| plan.tasks[id].artifact()))),
            );
            trials.push(ProvenanceTrial { trial: trial.clone(), inputs });
        }
        // Runs are identified by their plan. If this plan has already run without overrides, it stays recorded as such.
        let before = RunStart::read(&session.workspace().run_folder(&prepared.run)).map(|start| start.overrides);
        let overrides = before.filter(Vec::is_empty).unwrap_or_else(|| session.experiment.overrides.clone());
        Self {
            version: VERSION,
            formats: ArtifactFormats::current(),
            experiment: session.experiment.text_without_secrets(),
            identities: sources.identities.clone(),
            corpus: Some(sources.corpus.state().clone()),
            documents: Vec::new(),
            read_ms: sources.corpus.read_ms,
            trials,
            artifacts,
            overrides,
            file: file_of(session),
        }
    }

    /// The same for other trials, without the list of documents, which may be a million.
    fn with_trials(&self, trials: Vec<ProvenanceTrial>, artifacts: BTreeMap<TaskId, String>) -> Self {
        Self {
            version: self.version,
            formats: self.formats.clone(),
            experiment: self.experiment.clone(),
            identities: self.identities.clone(),
            corpus: self.corpus.clone(),
            documents: Vec::new(),
            read_ms: self.read_ms,
            trials,
            artifacts,
            overrides: self.overrides.clone(),
            file: self.file.clone(),
        }
    }

    /// The content of its file.
    pub(crate) fn to_json(&self) -> Result<Vec<u8>, Error> {
        serde_json::to_vec(self).map_err(Error::table)
    }

    /// Reads the provenance in a run's folder; none if there is none.
    fn read(folder: &Path) -> Result<Option<Self>, Error> {
        let path = RunFileName::Frozen.within(folder);
        let Some(bytes) = Error::allow_missing(&path, std::fs::read(&path))? else { return Ok(None) };
        let damaged = |error| Error::table(format!("{}: {error}; run again to make it anew", path.display()));
        Self::parse(&bytes).map(Some).map_err(damaged)
    }

    /// Reads a provenance. Another version may write what this one does not know; that
    /// is not damage, and only the formats of such a provenance are kept.
    fn parse(bytes: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(bytes).or_else(|error| match serde_json::from_slice(bytes) {
            Ok(ProvenanceHeader { version, formats }) if !is_readable(version, &formats) => {
                Ok(Self { version, formats, ..Self::default() })
            }
            _ => Err(error),
        })
    }
}

/// Writes which documents a run is made from into its folder, unless they stand there already.
pub(crate) async fn write_run_documents(session: &Session, prepared: &PreparedRun) -> Result<(), Error> {
    let (workspace, corpus) = (session.workspace(), &prepared.sources.corpus);
    let folder = workspace.run_folder(&prepared.run);
    let before = RunStart::read(&folder).and_then(|start| start.corpus);
    let is_same = before.is_some_and(|before| before.version == corpus.state().version);
    if is_same && RunFileName::Documents.within(&folder).is_file() {
        return Ok(());
    }
    let (path, files) = (RunFileName::Documents.within(&folder), corpus.files.files.clone());
    // Not in memory: there may be a million lines.
    let staged = compute(move || {
        let staged = StagedFile::beside(&path)?;
        let write = || {
            let file = File::create(staged.path())?;
            write_documents(
                BufWriter::new(&file),
                files.iter().map(|(file, key)| (file.path.as_str(), file.bytes, key)),
            )?;
            file.sync_data()
        };
        write().map_err(|source| Error::file("write", &path, source))?;
        Ok::<_, Error>(staged)
    })
    .await??;
    workspace.replace_run_file(&prepared.run, RunFileName::Documents, staged.path()).await
}

/// The part of a provenance that every version reads.
#[derive(Deserialize)]
struct ProvenanceHeader {
    version: u32,
    formats: ArtifactFormats,
}

/// Whether this version of the program reads a provenance and all artifacts that it names. To read
/// only the JSON of the provenance, see [`RunRecord::readable_provenance`].
fn is_readable(version: u32, formats: &ArtifactFormats) -> bool {
    version == VERSION && formats.are_readable()
}

/// A session's experiment file, relative to the folder of its store if it is
/// below it, so that a workspace can be moved.
fn file_of(session: &Session) -> Option<String> {
    let file = session.experiment.file.as_ref()?.canonicalize().ok()?;
    let root = session.workspace().root().canonicalize().ok();
    let near = root.as_deref().and_then(Path::parent).and_then(|folder| file.strip_prefix(folder).ok());
    Some(near.unwrap_or(&file).display().to_string())
}

/// The versions of the formats of artifacts, by name: tables, and each kind of
/// index.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredFormats")]
struct ArtifactFormats(BTreeMap<String, u32>);

impl ArtifactFormats {
    /// The name of the format of tables.
    const TABLES: &'static str = "tables";
    /// The order in which a provenance of an earlier version lists them.
    const LISTED: [&'static str; 4] = [Self::TABLES, "dense", "bm25", "tokens"];

    /// The formats that this version of the program writes.
    fn current() -> Self {
        let indexes = IndexKind::ALL.iter().map(|kind| (kind.name().to_owned(), kind.version()));
        Self(indexes.chain([(Self::TABLES.to_owned(), artifact::VERSION)]).collect())
    }

    /// Whether this version of the program reads all of them.
    fn are_readable(&self) -> bool {
        let is_read = |(name, version): (&String, &u32)| {
            let kind = IndexKind::ALL.iter().find(|kind| kind.name() == name);
            match kind {
                Some(kind) => (kind.oldest_read()..=kind.version()).contains(version),
                None => name == Self::TABLES && *version == artifact::VERSION,
            }
        };
        self.0.iter().all(is_read)
    }
}

/// The formats as a provenance holds them.
#[derive(Deserialize)]
#[serde(untagged)]
enum StoredFormats {
    ByName(BTreeMap<String, u32>),
    Listed(Vec<u32>),
}

impl From<StoredFormats> for ArtifactFormats {
    fn from(stored: StoredFormats) -> Self {
        Self(match stored {
            StoredFormats::ByName(formats) => formats,
            StoredFormats::Listed(versions) => {
                Self::LISTED.iter().map(|name| (*name).to_owned()).zip(versions).collect()
            }
        })
    }
}

/// The inputs of the retrieval behind a trial's passages, without the golden questions.
fn search_inputs(tasks: &TrialTasks) -> CorpusInputs {
    CorpusInputs { question_vectors: None, ..tasks.corpus.clone() }
}

impl RunRecord {
    /// The record that these two files of a run hold.
    ///
    /// # Errors
    /// If another version of this program wrote them in another format.
    pub(crate) fn of_files(summary: &[u8], provenance: &[u8]) -> Result<Self, Error> {
        let of_other = || Error::Unusable("another version of reverie wrote its scores in another format".to_owned());
        let summary = RunSummary::read(summary).ok_or_else(of_other)?;
        let provenance = Some(RunProvenance::parse(provenance).map_err(Error::table)?);
        Ok(Self { summary, provenance, folder: None })
    }

    /// The same record with the documents that a file of their own lists.
    pub(crate) fn with_documents(mut self, documents: Option<Vec<IndexedDocument>>) -> Self {
        if let (Some(provenance), Some(documents)) = (&mut self.provenance, documents) {
            provenance.documents = documents;
        }
        self
    }

    /// A record of these results, by an experiment of this text.
    #[cfg(test)]
    pub(crate) fn of_results(results: &Results, experiment: &str) -> Self {
        let (experiment, formats) = (experiment.to_owned(), ArtifactFormats::current());
        let provenance = RunProvenance { version: VERSION, formats, experiment, ..RunProvenance::default() };
        Self { summary: RunSummary::of(results, 0), provenance: Some(provenance), folder: None }
    }

    /// The results, with every passage of every trial.
    ///
    /// # Errors
    /// If they are not what was written, or cannot be read.
    pub async fn results(&self, session: &Session) -> Result<Results, Error> {
        session.workspace().results(self.id()).await
    }

    /// The results with the rows of one trial, if there is such a trial: the rows of the others are not read.
    ///
    /// # Errors
    /// As [`RunRecord::results`].
    pub async fn results_with_rows_of(&self, session: &Session, trial: &str) -> Result<Results, Error> {
        session.workspace().results_with_rows_of(self.id(), trial).await
    }

    /// The results with the scores of all trials, but without passages and long texts
    /// ([`TrialResult::rows`](crate::TrialResult::rows)).
    ///
    /// # Errors
    /// As [`RunRecord::results`].
    pub async fn results_outline(&self, session: &Session) -> Result<Results, Error> {
        session.workspace().results_outline(self.id()).await
    }

    /// The results without the rows of questions: the trials with their mean scores, costs and failures.
    ///
    /// # Errors
    /// As [`RunRecord::results`].
    pub async fn results_head(&self, session: &Session) -> Result<Results, Error> {
        session.workspace().results_head(self.id()).await
    }

    /// The run's folder on this machine; none for the record in a bundle.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The run in words: its id and when it finished.
    pub fn title(&self) -> String {
        self.summary.title()
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.summary.board.run
    }

    /// When it finished, in milliseconds since 1970.
    pub fn time_ms(&self) -> i64 {
        self.summary.time_ms
    }

    /// What its leaderboard says.
    pub fn board(&self) -> &Board {
        &self.summary.board
    }

    /// A trial's mean scores by metric, as its leaderboard has them.
    pub fn mean_scores(&self, trial: &str) -> BTreeMap<String, MeanScore> {
        let board = self.board();
        let cells = board.row(trial).map(|row| row.cells.as_slice()).unwrap_or_default();
        let scored = board.columns.iter().zip(cells).filter_map(|(column, cell)| match (column.kind, cell) {
            (ColumnKind::Metric, Cell::Scores(scores)) => Some((column.name.clone(), scores.summary.clone())),
            _ => None,
        });
        scored.collect()
    }

    /// What it was made from.
    ///
    /// # Errors
    /// If the run is from a version of this program that did not write the
    /// provenance, or wrote it in another format.
    pub fn provenance(&self) -> Result<&RunProvenance, Error> {
        let again = format!("{} makes it anew; what is in the store is not done again", Action::Run);
        let refuse = |reason: &str| Error::Unusable(format!("{}: {reason}: {again}", self.title()));
        let provenance = self.provenance.as_ref();
        let provenance =
            provenance.ok_or_else(|| refuse("an earlier version of reverie kept no record of its pipelines"))?;
        // Kinds of index that were added later do not matter.
        if !is_readable(provenance.version, &provenance.formats) {
            return Err(refuse("another version of reverie wrote it in another format"));
        }
        Ok(provenance)
    }

    /// The provenance if its JSON could be read, whatever the format of the artifacts, for callers that
    /// read no artifact. [`Self::provenance`] needs readable artifacts too.
    pub(crate) fn readable_provenance(&self) -> Option<&RunProvenance> {
        // Of a provenance that cannot be read only the formats are known.
        self.provenance.as_ref().filter(|provenance| !provenance.experiment.is_empty())
    }

    /// What the command line replaced in the experiment file for this run, as it
    /// was typed; empty for a run of what the file says.
    pub fn overrides(&self) -> &[String] {
        self.provenance.as_ref().map_or(&[], |provenance| &provenance.overrides)
    }

    /// Reasons why this run may not be that of the user's experiment file: it had overrides, or
    /// another file made it. `by_id` says that the user chose it by its id.
    pub fn remarks(&self, session: &Session, by_id: bool) -> Vec<String> {
        let mut remarks = Vec::new();
        if !self.overrides().is_empty() {
            let mut remark = format!("run {} was started with {}", self.id(), self.overrides().join(" "));
            let past = session.workspace().past_runs().unwrap_or_default();
            let whole = past.iter().find(|run| run.experiment == self.board().experiment && run.overrides.is_empty());
            if let Some(whole) = whole.filter(|_| !by_id) {
                remark += &format!("; the last run without overrides is {0}; show it with `--run {0}`", whole.run);
            }
            remarks.push(remark);
        }
        let of_run = self.provenance.as_ref().and_then(|provenance| provenance.file.clone());
        if let (Some(of_run), Some(file)) = (of_run, file_of(session))
            && of_run != file
        {
            remarks.push(format!(
                "run {} came from {of_run}, which has the same `name` as {file}: another `name` keeps their runs apart",
                self.id()
            ));
        }
        remarks
    }

    /// Compares two trials, as [`Results::compare`] does.
    ///
    /// # Errors
    /// If there is no such trial.
    pub fn compare(&self, first: &str, second: &str) -> Result<Vec<MetricComparison>, Error> {
        self.summary.scores.compare(first, second)
    }

    /// The scores of all trials.
    pub(crate) fn scores(&self) -> &ScoreTable {
        &self.summary.scores
    }

    /// The golden questions that were asked.
    pub fn questions(&self) -> &[Question] {
        &self.summary.questions
    }

    /// A golden question, with the places of its evidence in the documents that a trial reads.
    pub fn question_of(&self, trial: &str, id: &str) -> Option<Question> {
        let question = self.questions().iter().find(|question| question.id == id)?.clone();
        let places = self.summary.parser_places.iter().find(|places| places.is_of(trial));
        Some(places.map_or_else(|| question.clone(), |places| places.in_question(question.clone())))
    }

    /// The differences that these questions can show, by the spread of this run's scores. `trials` is the size of the
    /// experiment's grid.
    pub fn detectable_differences(&self, questions: &[Question], trials: Option<usize>) -> DetectableDifferences {
        DetectableDifferences::of_summary(questions, trials, &self.summary)
    }

    /// The documents that were read.
    ///
    /// # Errors
    /// As [`RunRecord::provenance`].
    pub fn documents(&self) -> Result<Cow<'_, [IndexedDocument]>, Error> {
        self.documents_of(self.provenance()?)
    }

    /// Calls `each` with every document that was read, one in memory at a time.
    fn visit_documents(&self, mut each: impl FnMut(IndexedDocument)) -> Result<(), Error> {
        let provenance = self.provenance()?;
        let Some(folder) = self.folder.as_ref().filter(|_| provenance.documents.is_empty()) else {
            provenance.documents.iter().cloned().for_each(each);
            return Ok(());
        };
        let path = RunFileName::Documents.within(folder);
        match Error::allow_missing(&path, File::open(&path))? {
            Some(file) => visit_documents(BufReader::new(file), &mut each),
            None => Ok(()),
        }
    }

    /// The documents, also of a run whose artifacts are in another format; none if they cannot be read.
    pub(crate) fn readable_documents(&self) -> Cow<'_, [IndexedDocument]> {
        self.readable_provenance().and_then(|provenance| self.documents_of(provenance).ok()).unwrap_or_default()
    }

    fn documents_of<'a>(&self, provenance: &'a RunProvenance) -> Result<Cow<'a, [IndexedDocument]>, Error> {
        let Some(folder) = self.folder.as_ref().filter(|_| provenance.documents.is_empty()) else {
            return Ok(Cow::Borrowed(&provenance.documents));
        };
        let path = RunFileName::Documents.within(folder);
        match Error::allow_missing(&path, File::open(&path))? {
            Some(file) => parse_documents(BufReader::new(file)).map(Cow::Owned),
            None => Ok(Cow::Owned(Vec::new())),
        }
    }

    /// The trial that answers ([`Results::answering`]).
    ///
    /// # Errors
    /// If there is no such trial, or none at all.
    pub fn answering(&self, asked: Option<&str>) -> Result<Answering, Error> {
        self.summary.answering(asked)
    }

    /// The run's files as if it had only this trial, and the names of the trial's artifacts. If its vectors were promoted
    /// into a database, the trial is one that searches there.
    pub(crate) fn of_one_trial(
        &self,
        id: &str,
        promoted: Option<PromotedSearch<'_>>,
    ) -> Result<(OneTrial, Vec<String>), Error> {
        let provenance = self.provenance()?;
        let summary = serde_json::to_vec(&self.summary.of_one_trial(id)).map_err(Error::table)?;
        if let Some(system) = self.system_of(id) {
            let provenance = provenance.with_trials(Vec::new(), BTreeMap::new());
            let models = BTreeSet::from([identity_name(system)]);
            return Ok((OneTrial { provenance: provenance.to_json()?, summary, models }, Vec::new()));
        }
        let (trial, inputs, artifacts) = self.trial_inputs(id)?;
        let (mut alone, mut artifacts) =
            (ProvenanceTrial { trial: trial.clone(), inputs: inputs.clone() }, artifacts.clone());
        if let Some(promoted) = promoted {
            alone.search_in(promoted, &mut artifacts);
        }
        let used: BTreeSet<TaskId> = alone.inputs.all().into_iter().collect();
        artifacts.retain(|id, _| used.contains(id));
        let names = artifacts.values().cloned().collect();
        let models = trial.models().map(str::to_owned).collect();
        let provenance = provenance.with_trials(vec![alone], artifacts);
        Ok((OneTrial { provenance: provenance.to_json()?, summary, models }, names))
    }

    /// The same record with a trial that searches another state of the corpus.
    ///
    /// # Errors
    /// If there is no such trial, or it is a system.
    pub(crate) fn on_corpus(&self, id: &str, searched: SearchedCorpus) -> Result<Self, Error> {
        let (trial, ..) = self.trial_inputs(id)?;
        let SearchedCorpus { state, documents, inputs, artifacts } = searched;
        let provenance = self.provenance()?;
        let provenance = RunProvenance {
            formats: ArtifactFormats::current(),
            read_ms: state.read_ms,
            corpus: Some(state),
            documents,
            ..provenance.with_trials(vec![ProvenanceTrial { trial: trial.clone(), inputs }], artifacts)
        };
        Ok(Self { summary: self.summary.clone(), provenance: Some(provenance), folder: None })
    }

    /// The system that a trial asked, if it is no pipeline.
    pub fn system_of(&self, id: &str) -> Option<&str> {
        let row = self.board().row(id)?;
        row.labels.get(SYSTEM).map(String::as_str).filter(|&system| system != NONE)
    }

    /// The trial of this run that asked the same system as a trial of an earlier run: with the same parameters, or the
    /// only one. `None` if the earlier trial is a pipeline.
    ///
    /// # Errors
    /// If no trial asked that system, or several did with other parameters.
    pub fn trial_of_same_system(&self, earlier: &Self, trial: &str) -> Result<Option<String>, Error> {
        let Some(system) = earlier.system_of(trial) else { return Ok(None) };
        let settings = earlier.board().row(trial).map(|row| &row.settings);
        let asked: Vec<_> = self.board().rows.iter().filter(|row| self.system_of(&row.id) == Some(system)).collect();
        let same = asked.iter().find(|row| Some(&row.settings) == settings);
        match (same, asked.as_slice()) {
            (Some(row), _) | (None, [row]) => Ok(Some(row.id.clone())),
            (None, []) => Err(Error::Unusable(format!(
                "the baseline is the system `{system}`, and no trial of {} asked it: name a trial with --trial",
                self.title()
            ))),
            (None, several) => Err(Error::Unusable(format!(
                "the baseline is the system `{system}`, and {} trials of {} asked it with other parameters: name one with \
                 --trial",
                several.len(),
                self.title()
            ))),
        }
    }

    /// A trial, the artifacts that it searches, and their names.
    pub(crate) fn trial_inputs(&self, id: &str) -> Result<(&Trial, &CorpusInputs, &BTreeMap<TaskId, String>), Error> {
        let provenance = self.provenance()?;
        self.summary.check_trial(id)?;
        if let Some(system) = self.system_of(id) {
            return Err(not_run(id, system));
        }
        let found = provenance.trials.iter().find(|found| found.trial.id == id);
        let found =
            found.ok_or_else(|| Error::Unusable(format!("trial `{id}` of {} retrieves nothing", self.title())))?;
        Ok((&found.trial, &found.inputs, &provenance.artifacts))
    }
}

/// The last finished run of a session's experiment; in an object store, also
/// that of another machine.
///
/// # Errors
/// If there is none, or it cannot be read.
pub async fn latest_record(session: &Session) -> Result<RunRecord, Error> {
    let run = session.workspace().latest_run(&session.experiment.name).await?;
    record_of(session, &run).await
}

/// A finished run of a session's experiment: the last one, or the one whose id begins with `run`.
///
/// # Errors
/// If there is none, several match, or it cannot be read.
pub async fn chosen_record(session: &Session, run: Option<&str>) -> Result<RunRecord, Error> {
    let Some(asked) = run else { return latest_record(session).await };
    let run = session.workspace().find_run(&session.experiment.name, asked).await?;
    record_of(session, &run).await
}

/// Warns if another experiment file has the same name, so that the next run of this session
/// replaces that file's run as the last one.
pub async fn same_name_warning(session: &Session) -> Option<String> {
    let run = session.workspace().last_here(&session.experiment.name)?;
    let theirs = RunStart::read(&session.workspace().run_folder(&run))?.file?;
    let ours = file_of(session)?;
    (theirs != ours).then(|| {
        format!(
            "{theirs} has the same `name` ({}): its run {run} is no longer the last one after this; `--run {run}` still \
             shows it, and another `name` keeps them apart",
            session.experiment.name
        )
    })
}

/// A finished run whose folder is on this machine.
///
/// # Errors
/// If it is not what was written, or cannot be read.
pub async fn record_of(session: &Session, run: &str) -> Result<RunRecord, Error> {
    let workspace = session.workspace();
    let folder = workspace.run_folder(run);
    let summary = match RunSummary::of_folder(&folder) {
        Some(kept) => kept,
        None => RunSummary::of(&workspace.results_outline(run).await?, results_bytes(&folder)),
    };
    Ok(RunRecord { summary, provenance: RunProvenance::read(&folder)?, folder: Some(folder) })
}

/// The experiment of a run as it was. Withheld secrets are taken from the experiment file as it is
/// now.
pub(crate) fn experiment_of(experiment: &Experiment, record: &RunRecord) -> Result<Experiment, Error> {
    let again = |reason: &dyn std::fmt::Display| Error::Unusable(format!("{}: {reason}", record.title()));
    let text = experiment.restore_secrets(&record.provenance()?.experiment).map_err(|error| again(&error))?;
    Experiment::parse(&text, experiment.base.clone()).map_err(|errors| {
        let reasons: Vec<String> = errors.into_iter().map(|error| error.message).collect();
        again(&format_args!(
            "this version of reverie does not understand its experiment ({}): {} makes it anew",
            reasons.join("; "),
            Action::Run
        ))
    })
}

#[cfg(test)]
mod tests;
