//! Where golden questions come from: a file, or a chat model that writes them
//! once; and whether their evidence stands in the corpus.

use super::{
    corpus_summary::{CorpusSummary, read_corpus},
    parsed_corpora,
};
use crate::{
    Error, Session,
    action::Action,
    corpus::{CorpusSurvey, LoadedCorpus},
    golden::{Documents, generate_golden},
    plan::QuestionViews,
    spec::{DatasetSpec, Experiment},
};
use eval::{
    Dataset, Question,
    dataset::{DatasetFile, DatasetReport, IgnoredColumn},
};
use rag::Axis;
use std::collections::BTreeSet;
use store::{ArtifactStore, NoLayout};

/// The content of the dataset's file.
pub(crate) struct ImportedDataset {
    /// The questions; none if they are to be generated.
    pub(crate) dataset: Option<Dataset>,
    /// The columns of the file that are not used.
    pub(crate) ignored: Vec<IgnoredColumn>,
}

impl ImportedDataset {
    /// No questions: there is no dataset, or it has mistakes.
    fn nothing() -> Self {
        Self { dataset: Some(Dataset::default()), ignored: Vec::new() }
    }
}

/// What a run asks, and the documents that it asks about.
pub(super) struct DatasetQuestions {
    pub(super) questions: Vec<Question>,
    /// The questions for each parser after the first.
    pub(super) views: QuestionViews,
    /// What the dataset holds, and which of its file's columns are not used.
    pub(super) report: DatasetReport,
    pub(super) corpus: CorpusSummary,
}

/// Reads the dataset, if there is one: the first questions, if they are limited.
pub(crate) async fn import(session: &Session, mistakes: &mut Vec<String>) -> Result<ImportedDataset, Error> {
    let Some(spec) = &session.experiment.dataset else { return Ok(ImportedDataset::nothing()) };
    let mut imported = match spec.inline() {
        Some(Ok(rows)) => ImportedDataset { dataset: Some(rows.dataset), ignored: rows.ignored },
        Some(Err(errors)) => {
            mistakes.extend(errors);
            ImportedDataset::nothing()
        }
        None => import_file(session, spec, mistakes).await?,
    };
    if let (Some(dataset), Some(limit)) = (&mut imported.dataset, spec.limit) {
        dataset.questions.truncate(limit);
    }
    Ok(imported)
}

/// Reads the dataset's file.
async fn import_file(
    session: &Session,
    spec: &DatasetSpec,
    mistakes: &mut Vec<String>,
) -> Result<ImportedDataset, Error> {
    let is_url = store::is_url(&spec.path);
    let shown = if is_url { spec.path.clone() } else { session.experiment.path(&spec.path).display().to_string() };
    let Some(bytes) = dataset_bytes(session, &spec.path).await? else {
        match &spec.generate {
            Some(_) if !is_url => return Ok(ImportedDataset { dataset: None, ignored: Vec::new() }),
            Some(_) => mistakes.push(format!(
                "dataset.path: there is no {shown}, and questions are generated into local files only: give a local path, then {}",
                Action::ExportGolden(&shown)
            )),
            None => mistakes.push(format!(
                "dataset.path: {shown} does not exist; write golden questions there, or add `generate = {{ size = 20, model = \"…\" }}` under [dataset]"
            )),
        }
        return Ok(ImportedDataset::nothing());
    };
    match DatasetFile::read(&spec.path, &bytes) {
        Ok(file) if file.dataset.questions.is_empty() => {
            mistakes.push(format!("dataset.path: {shown} holds no question"));
            Ok(ImportedDataset::nothing())
        }
        Ok(DatasetFile { dataset, ignored, .. }) => Ok(ImportedDataset { dataset: Some(dataset), ignored }),
        Err(errors) => {
            mistakes.extend(errors.iter().map(|error| format!("{shown}: {error}")));
            Ok(ImportedDataset::nothing())
        }
    }
}

/// The bytes of a dataset, from this machine or an object store.
async fn dataset_bytes(session: &Session, path: &str) -> Result<Option<Vec<u8>>, Error> {
    if let Some((folder, name)) = path.rsplit_once('/').filter(|_| store::is_url(path)) {
        let found = ArtifactStore::open(folder, &session.setup().store_options, &NoLayout)?.get(name).await?;
        return Ok(found.map(Vec::from));
    }
    let path = session.experiment.path(path);
    Error::allow_missing(&path, std::fs::read(&path))
}

/// Looks for the evidence of imported questions in the documents, or generates questions, if there
/// are no mistakes.
pub(super) async fn read_questions(
    session: &Session,
    loaded: &LoadedCorpus,
    imported: ImportedDataset,
    found: &CorpusSurvey,
    mistakes: &mut Vec<String>,
) -> Result<DatasetQuestions, Error> {
    let ImportedDataset { dataset, ignored } = imported;
    let to_generate = dataset.is_none();
    let mut dataset = dataset.unwrap_or_default();
    let report = DatasetReport::of(&dataset, ignored);
    let mut corpus = read_corpus(session, loaded, &mut dataset, mistakes).await?;
    corpus.facts.unread_types.clone_from(&found.files.unread_types);
    if corpus.documents == 0 {
        let rejected = corpus.rejected.iter().chain(&found.files.rejected);
        let mut reasons: Vec<String> =
            rejected.map(|rejected| format!("  {}: {}", rejected.path, crate::error_chain(&rejected.reason))).collect();
        let unread = loaded.unread.iter();
        reasons.extend(unread.map(|unread| format!("  {}: cannot be read: {}", unread.path, unread.reason)));
        let (source, list) = (&session.experiment.corpus.source, reasons.join("\n"));
        mistakes.push(format!("the corpus `{source}` holds no readable document:\n{list}"));
    }
    // A file that could not be read may have any field.
    if corpus.documents > 0 && loaded.unread.is_empty() {
        mistakes.extend(unknown_fields(&session.experiment, &dataset.questions, &corpus.fields));
    }
    if to_generate && mistakes.is_empty() {
        let questions = generate(session, loaded).await?;
        let report = DatasetReport::of(&Dataset { questions: questions.clone() }, Vec::new());
        let views = parsed_corpora::views(session, loaded, &questions).await?;
        return Ok(DatasetQuestions { questions, views, report, corpus });
    }
    let views = std::mem::take(&mut corpus.views);
    Ok(DatasetQuestions { questions: dataset.questions, views, report, corpus })
}

/// The mistakes for metadata fields that components or questions use and no document has.
fn unknown_fields(experiment: &Experiment, questions: &[Question], known: &BTreeSet<String>) -> Vec<String> {
    let list = known.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let missing = |field: &str| format!("no document has the field `{field}`; there are {list}");
    let mut mistakes = Vec::new();
    for &axis in Axis::ALL {
        for value in experiment.space.on(axis) {
            let unknown = value.fields().into_iter().filter(|field| !known.contains(*field));
            mistakes.extend(unknown.map(|field| format!("{}: {}: {}", axis.place(), value.name(), missing(field))));
        }
    }
    for question in questions {
        let fields = question.filter.iter().flat_map(rag::Filter::fields);
        let unknown = fields.filter(|field| !known.contains(*field));
        mistakes.extend(unknown.map(|field| format!("question `{}`: filter: {}", question.id, missing(field))));
    }
    mistakes.dedup();
    mistakes
}

/// Generates the golden questions and keeps them at the dataset's path.
async fn generate(session: &Session, corpus: &LoadedCorpus) -> Result<Vec<Question>, Error> {
    let Some((spec, generate)) =
        session.experiment.dataset.as_ref().and_then(|spec| Some((spec, spec.generate.as_ref()?)))
    else {
        return Ok(Vec::new());
    };
    let documents = Documents::Corpus(corpus);
    let passages = documents.passages().await?;
    let mut golden = generate_golden(session, &documents, &passages, generate, |_| {}).await?;
    golden.write(&session.experiment.path(&spec.path), false)?;
    let mut questions = golden.generated.dataset.questions;
    questions.truncate(spec.limit.unwrap_or(usize::MAX));
    Ok(questions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_no_document_has_is_told_with_those_that_there_are() {
        let text = "name = \"x\"\n[corpus]\nsource = \"d\"\n[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n\
                    query = [{ filter = { where = { year = 1700, author = \"Monks\" } } }, \"none\"]\n";
        let experiment = Experiment::parse(text, ".").unwrap_or_else(|errors| panic!("{errors:?}"));
        let question = |id: &str, filter: serde_json::Value| Question {
            id: id.to_owned(),
            filter: serde_json::from_value(filter).unwrap(),
            ..Question::default()
        };
        let questions = [
            question("q1", serde_json::json!({ "yaer": 1700 })),
            question("q2", serde_json::json!(null)),
            question("q3", serde_json::json!({ "year": 1700 })),
        ];
        let known = |fields: &[&str]| fields.iter().map(|field| (*field).to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(unknown_fields(&experiment, &questions[1..], &known(&["author", "year"])), [""; 0]);
        assert_eq!(
            unknown_fields(&experiment, &questions, &known(&["title", "year"])),
            [
                "space.query: filter: no document has the field `author`; there are title, year",
                "question `q1`: filter: no document has the field `yaer`; there are title, year",
            ]
        );
    }
}
