//! Golden questions for Python programs: read, reviewed, anchored, divided,
//! written, and generated from documents.

use super::{
    remote::runtime,
    results::PyResults,
    rows, settings,
    stages::read_documents,
    stop::PyStop,
    work::{
        check_budget, function_failures, python_error, rejection_rows, remove_nulls, to_json, to_python, value_error,
        wait,
    },
};
use app::library::open_from_tables;
use eval::{
    Dataset, GenerateProgress, Question,
    attack::{AttackOptions, attack},
    dataset::{
        AttackKind, ColumnSet, DatasetDifference, DatasetFile, DatasetFormat, DatasetReport, DatasetStatistics,
        IgnoredColumn, RowError, SplitError, read_questions,
    },
};
use lab::{DetectableDifferences, Documents, Error, GenerateSpec, LoadedCorpus, Progress, Session};
use models::{ModelConfig, ModelKind};
use pyo3::{exceptions::PyFileExistsError, prelude::*, types::PyMapping};
use rag::Document;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json as value};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

/// Golden questions in a fixed order.
#[pyclass(frozen, module = "reverie._core", name = "Questions")]
pub(crate) struct PyQuestions {
    dataset: Dataset,
    /// Columns that are no part of the questions.
    ignored: Vec<IgnoredColumn>,
}

/// New words for a question.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct QuestionEdit {
    question: String,
    reference: String,
}

/// How questions are attacked. Without kinds, all kinds take turns.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AttackSettings {
    #[serde(default)]
    kinds: Vec<AttackKind>,
    size: Option<usize>,
    seed: u64,
    #[serde(default)]
    instructions: Vec<String>,
}

impl AttackSettings {
    fn options(self, dataset: &Dataset) -> PyResult<AttackOptions> {
        let Self { kinds, size, seed, instructions } = self;
        if size == Some(0) {
            return Err(value_error("size: must be at least 1; leave it out to attack all questions"));
        }
        if instructions.iter().any(|part| part.trim().is_empty()) {
            return Err(value_error("instructions: a text is empty, and every answer would hold it"));
        }
        if let Some(question) = dataset.questions.iter().find(|question| question.attack.is_some()) {
            return Err(value_error(format!(
                "question `{}` is attacked already: give the original questions",
                question.id
            )));
        }
        let kinds = if kinds.is_empty() { AttackKind::ALL.to_vec() } else { kinds };
        Ok(AttackOptions { kinds, seed, size, instructions })
    }
}

/// The result of `Questions.statistics`.
#[derive(Serialize)]
struct QuestionStatistics {
    #[serde(flatten)]
    counts: DatasetStatistics,
    detectable: DetectableDifferences,
}

fn mistakes_error(mistakes: Vec<String>) -> PyErr {
    value_error(mistakes.join("\n"))
}

impl PyQuestions {
    pub(crate) fn questions(&self) -> &[Question] {
        &self.dataset.questions
    }

    fn with(&self, questions: Vec<Question>) -> Self {
        Self { dataset: Dataset { questions }, ignored: self.ignored.clone() }
    }
}

#[pymethods]
impl PyQuestions {
    /// Reads and checks rows, or the file at a path.
    #[new]
    fn new(data: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(known) = data.cast::<Self>() {
            let Self { dataset, ignored } = known.get();
            return Ok(Self { dataset: dataset.clone(), ignored: ignored.clone() });
        }
        if let Some(path) = rows::path(data)? {
            let bytes = std::fs::read(&path)?;
            let read = DatasetFile::read(&path.display().to_string(), &bytes);
            let read = read.map_err(|errors| mistakes_error(errors.iter().map(ToString::to_string).collect()))?;
            return Ok(Self { dataset: read.dataset, ignored: read.ignored });
        }
        let fault = |error: RowError| format!("questions, row {} (from 0): {error}", error.number);
        let read = read_questions(&rows::rows(data, "questions")?);
        let read = read.map_err(|faults| mistakes_error(faults.into_iter().map(fault).collect()))?;
        Ok(Self { dataset: read.dataset, ignored: read.ignored })
    }

    fn __len__(&self) -> usize {
        self.dataset.questions.len()
    }

    /// The questions, as a JSON list.
    fn text(&self) -> PyResult<String> {
        to_json(&self.dataset.questions)
    }

    /// Counts of questions, kinds and documents, columns that are not used, and the smallest
    /// differences between trials that the questions can show. `results` is a run that asked them.
    #[pyo3(signature = (results=None, trials=None))]
    fn statistics(&self, py: Python<'_>, results: Option<&PyResults>, trials: Option<usize>) -> PyResult<Py<PyAny>> {
        let mut counts = self.dataset.statistics();
        counts.report = DatasetReport::of(&self.dataset, self.ignored.clone());
        let detectable = match results.map(|results| results.all(py)).transpose()? {
            None => DetectableDifferences::stated(&self.dataset.questions, trials),
            Some(found) => {
                let trials = trials.unwrap_or(found.trials.len());
                DetectableDifferences::of_results(&self.dataset.questions, Some(trials), found)
            }
        };
        to_python(py, &QuestionStatistics { counts, detectable })
    }

    /// The questions after a person's review, and a list of the rejected ones.
    /// Questions are named by their ids; edits are `question` and `reference` by id.
    fn review(
        &self,
        py: Python<'_>,
        accept: Vec<String>,
        reject: Vec<String>,
        edit: &Bound<'_, PyAny>,
    ) -> PyResult<(Self, Py<PyAny>)> {
        let edits: BTreeMap<String, QuestionEdit> = settings::read("edit", settings::value_of(edit, "edit")?)?;
        let known: BTreeSet<&str> = self.dataset.questions.iter().map(|question| question.id.as_str()).collect();
        let (accepts, rejects): (BTreeSet<&str>, BTreeSet<&str>) =
            (accept.iter().map(String::as_str).collect(), reject.iter().map(String::as_str).collect());
        let named = accepts.iter().chain(&rejects).copied().chain(edits.keys().map(String::as_str));
        let unknown: BTreeSet<&str> = named.filter(|id| !known.contains(id)).collect();
        let mut mistakes: Vec<String> = unknown.iter().map(|id| format!("there is no question `{id}`")).collect();
        let twice = rejects.iter().filter(|id| accepts.contains(*id) || edits.contains_key(**id));
        mistakes.extend(twice.map(|id| format!("`{id}` is rejected, and accepted or edited: keep one")));
        if !mistakes.is_empty() {
            return Err(mistakes_error(mistakes));
        }
        let (mut kept, mut rejected) = (Vec::new(), Vec::new());
        for question in &self.dataset.questions {
            let (id, mut question) = (question.id.as_str(), question.clone());
            if rejects.contains(id) {
                rejected.push(question.rejection());
                continue;
            }
            match edits.get(id) {
                Some(QuestionEdit { question: words, reference }) => question.edit(words, reference),
                None if accepts.contains(id) => question.accept(),
                None => {}
            }
            kept.push(question);
        }
        Ok((self.with(kept), to_python(py, &rejected)?))
    }

    /// The questions, split by document into `tune` and `test`.
    fn split(&self, test_share: f64, seed: u64) -> PyResult<Self> {
        let mut dataset = self.dataset.clone();
        dataset.split(test_share, seed).map_err(|error| {
            value_error(match error {
                SplitError::Unnamed(_) => {
                    format!("{error}: `reverie.golden.anchor(documents, questions).questions`")
                }
                error => error.to_string(),
            })
        })?;
        Ok(self.with(dataset.questions))
    }

    /// What changed since an older version.
    fn difference(&self, py: Python<'_>, older: &Self) -> PyResult<Py<PyAny>> {
        to_python(py, &DatasetDifference::between(&older.dataset, &self.dataset))
    }

    /// The questions with the present locations of their evidence, and what was
    /// not found.
    #[pyo3(signature = (documents, tables, base, stop=None))]
    fn anchor(
        &self,
        py: Python<'_>,
        documents: &Bound<'_, PyAny>,
        tables: &Bound<'_, PyAny>,
        base: PathBuf,
        stop: Option<&PyStop>,
    ) -> PyResult<(Self, Py<PyAny>)> {
        let work = DocumentSession::open(documents, tables, base, None, stop)?;
        let mut dataset = self.dataset.clone();
        let anchor = || async move {
            let opened = work.documents().await?;
            let anchored = opened.as_documents().anchor(&mut dataset).await;
            let unread = opened.end().await;
            Ok((dataset, anchored?, unread))
        };
        let (dataset, anchored, unread) = wait(py, &PyStop::token(stop), anchor, |_| Ok(()))?;
        let lost = anchored.lost.iter().map(|lost| {
            value!({
                "question": lost.question, "document": lost.document, "quote": lost.quote,
                "reason": lost.reason.to_string(),
            })
        });
        let summary = value!({
            "evidence": anchored.evidence, "moved": anchored.moved(), "lost": lost.collect::<Vec<_>>(),
            "unread": unread,
        });
        Ok((self.with(dataset.questions), to_python(py, &summary)?))
    }

    /// Questions with an attack each, and the poisoned documents as names and texts.
    #[pyo3(signature = (documents, tables, base, options, stop=None))]
    fn attack(
        &self,
        py: Python<'_>,
        documents: &Bound<'_, PyAny>,
        tables: &Bound<'_, PyAny>,
        base: PathBuf,
        options: &Bound<'_, PyAny>,
        stop: Option<&PyStop>,
    ) -> PyResult<(Self, Vec<(String, String)>)> {
        let options: AttackSettings = settings::read("attack", settings::value(options)?)?;
        let options = options.options(&self.dataset)?;
        let work = DocumentSession::open(documents, tables, base, None, stop)?;
        let attacked = attack(&self.dataset, &options);
        let words = attacked.code_words.clone();
        let find = || async move {
            let opened = work.documents().await?;
            let found = opened.as_documents().find_words(&words).await;
            opened.end().await;
            found
        };
        if let Some((word, path)) = wait(py, &PyStop::token(stop), find, |_| Ok(()))?.first() {
            return Err(value_error(format!(
                "the code word {word} stands in the documents already, in {path}: choose another `seed`, or take the \
                 documents of an earlier attack away"
            )));
        }
        Ok((self.with(attacked.dataset.questions), attacked.documents))
    }

    /// Writes the questions in these columns; the name's ending decides the format.
    fn write(&self, path: PathBuf, columns: &str, replace: bool) -> PyResult<()> {
        let columns: ColumnSet = settings::read("columns", columns.into())?;
        let name = path.display().to_string();
        let Some(format) = DatasetFormat::of_name(&name).filter(|_| !store::is_url(&name)) else {
            let endings = DatasetFormat::all().endings();
            return Err(value_error(format!("{name}: give the path of a file that ends in {endings}")));
        };
        let bytes = self.dataset.export(format, columns);
        let bytes = bytes.map_err(|error| value_error(lab::error_chain(&error)))?;
        if replace {
            return lab::write_whole(&path, &bytes).map_err(python_error);
        }
        lab::write_new(&path, &bytes).map_err(|failed| match path.exists() {
            true => PyFileExistsError::new_err(format!("{name} is there already: choose another name, or `replace`")),
            false => python_error(failed),
        })
    }
}

/// A session and the documents that a program names or holds.
struct DocumentSession {
    session: Session,
    held: Option<Vec<Document>>,
}

/// Documents that were read.
enum OpenDocuments {
    Corpus(Box<LoadedCorpus>),
    Held(Vec<Document>),
}

impl DocumentSession {
    fn open(
        documents: &Bound<'_, PyAny>,
        tables: &Bound<'_, PyAny>,
        base: PathBuf,
        budget_usd: Option<f64>,
        stop: Option<&PyStop>,
    ) -> PyResult<Self> {
        let mut tables = settings::value(tables)?;
        let held = match rows::path(documents)? {
            Some(path) => {
                tables["corpus"] = value!({ "source": path.display().to_string() });
                None
            }
            None if documents.is_instance_of::<PyMapping>() => {
                tables["corpus"] = settings::value_of(documents, "documents")?;
                None
            }
            None => Some(read_documents(documents)?),
        };
        let model = tables["dataset"]["generate"]["model"].as_str().map(str::to_owned);
        Ok(Self { session: session(tables, model.as_slice(), base, budget_usd, stop)?, held })
    }

    async fn documents(&self) -> Result<OpenDocuments, Error> {
        match &self.held {
            Some(documents) => Ok(OpenDocuments::Held(documents.clone())),
            None => Ok(OpenDocuments::Corpus(Box::new(lab::load_corpus(&self.session).await?))),
        }
    }

    fn spec(&self) -> PyResult<&GenerateSpec> {
        let dataset = self.session.experiment.dataset.as_ref();
        dataset.and_then(|dataset| dataset.generate.as_ref()).ok_or_else(|| value_error("no model is named"))
    }
}

impl OpenDocuments {
    fn as_documents(&self) -> Documents<'_> {
        match self {
            Self::Corpus(corpus) => Documents::Corpus(corpus),
            Self::Held(documents) => Documents::Held(documents),
        }
    }

    /// Releases the documents. Returns the files that gave no document, each with the
    /// reason.
    async fn end(self) -> Vec<Value> {
        let Self::Corpus(corpus) = self else { return Vec::new() };
        let rejected = corpus.rejected.iter().map(|file| (&file.path, lab::error_chain(&file.reason)));
        let unread = corpus.unread.iter().map(|file| (&file.path, file.reason.to_string()));
        let files = rejected.chain(unread).map(|(path, reason)| value!({ "path": path, "reason": reason })).collect();
        corpus.end().await;
        files
    }
}

/// A session for work that needs no trials. A model that `tables` do not have is
/// one of the catalogue. Mistakes name the caller's parameters.
pub(crate) fn session(
    mut tables: Value,
    chat_models: &[String],
    base: PathBuf,
    budget_usd: Option<f64>,
    stop: Option<&PyStop>,
) -> PyResult<Session> {
    for name in chat_models.iter().filter(|name| !name.is_empty()) {
        if tables["models"][name].is_null() {
            tables["models"][name] = remove_nulls(value!(ModelConfig::local_default(ModelKind::Chat, name)));
        }
    }
    let setup = app::library::setup(None, budget_usd, Progress::default(), PyStop::token(stop));
    // Opening a store may start work on the runtime's threads.
    let _guard = runtime()?.enter();
    open_from_tables(&tables, base, setup).map_err(|failed| match failed {
        Error::Refused(mistakes) => {
            let own = |message: &String| {
                let tables = ["dataset.generate.", "dataset.generate: ", "dataset.", "corpus."];
                let message = tables.iter().find_map(|table| message.strip_prefix(table)).unwrap_or(message);
                message.to_owned()
            };
            mistakes_error(mistakes.iter().map(own).collect())
        }
        other => python_error(other),
    })
}

/// The expected cost of generating questions. No model is asked.
#[pyfunction]
#[pyo3(signature = (documents, tables, base, stop=None))]
pub(crate) fn golden_estimate(
    py: Python<'_>,
    documents: &Bound<'_, PyAny>,
    tables: &Bound<'_, PyAny>,
    base: PathBuf,
    stop: Option<&PyStop>,
) -> PyResult<Py<PyAny>> {
    let work = DocumentSession::open(documents, tables, base, None, stop)?;
    let spec = work.spec()?.clone();
    let estimate = || async move {
        let opened = work.documents().await?;
        let passages = opened.as_documents().passages().await?;
        let estimate = lab::estimate_golden(&work.session, &passages, &spec);
        let prices = work.session.experiment.models.get(&spec.model).and_then(ModelConfig::prices);
        let mut summary = value!(estimate);
        summary["cost_usd"] = value!(prices.map(|prices| estimate.cost_usd(prices)));
        summary["model"] = value!(spec.model);
        summary["size"] = value!(spec.options.size);
        summary["unread"] = value!(opened.end().await);
        Ok(summary)
    };
    to_python(py, &wait(py, &PyStop::token(stop), estimate, |_| Ok(()))?)
}

/// Generates questions. Returns them, and where they came from and what was
/// rejected.
#[pyfunction]
#[pyo3(signature = (documents, tables, base, budget_usd=None, test_share=None, on_progress=None, stop=None))]
pub(crate) fn golden_generate(
    py: Python<'_>,
    documents: &Bound<'_, PyAny>,
    tables: &Bound<'_, PyAny>,
    base: PathBuf,
    budget_usd: Option<f64>,
    test_share: Option<f64>,
    on_progress: Option<Py<PyAny>>,
    stop: Option<&PyStop>,
) -> PyResult<(PyQuestions, Py<PyAny>)> {
    let work = DocumentSession::open(documents, tables, base, check_budget(budget_usd)?, stop)?;
    let spec = work.spec()?.clone();
    // A wrong share is reported before anything is paid.
    if let Some(share) = test_share.filter(|share| !(*share > 0.0 && *share < 1.0)) {
        return Err(value_error(format!("test_share: {}", SplitError::InvalidShare(share))));
    }
    let latest: Arc<Mutex<Option<GenerateProgress>>> = Arc::default();
    let written = latest.clone();
    let generate = || async move {
        let opened = work.documents().await?;
        let documents = opened.as_documents();
        let passages = documents.passages().await?;
        let on_progress = |progress| *written.lock().unwrap_or_else(PoisonError::into_inner) = Some(progress);
        let golden = lab::generate_golden(&work.session, &documents, &passages, &spec, on_progress).await;
        let unread = opened.end().await;
        let mut golden = golden?;
        // Questions that were paid for are returned, split or not.
        let split = test_share.map(|share| golden.generated.dataset.split(share, spec.options.seed));
        golden.manifest.version = golden.generated.dataset.version();
        Ok((golden, split.and_then(Result::err), unread))
    };
    let mut shown = None;
    let mut tick = move |py: Python<'_>| {
        let now = *latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(on_progress), Some(now)) = (&on_progress, now.filter(|now| Some(*now) != shown)) {
            let GenerateProgress { accepted, size, attempted, attempts } = now;
            let counts = value!({ "accepted": accepted, "size": size, "attempted": attempted, "attempts": attempts });
            on_progress.call1(py, (to_python(py, &counts)?,))?;
            shown = Some(now);
        }
        PyResult::Ok(())
    };
    let (golden, not_split, unread) = wait(py, &PyStop::token(stop), generate, &mut tick)?;
    // The progress since the last tick.
    tick(py)?;
    let failures = function_failures(&golden.generated);
    let summary = value!({
        "manifest": golden.manifest, "rejected": rejection_rows(&golden.generated), "unread": unread,
        "not_split": not_split.map(|reason| reason.to_string()),
        "failed_functions": app::library::format_function_failures(&failures), "failures": failures,
    });
    Ok((PyQuestions { dataset: golden.generated.dataset, ignored: Vec::new() }, to_python(py, &summary)?))
}
