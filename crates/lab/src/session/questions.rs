//! Where a session's golden questions come from: a file, or a chat model that
//! writes them once; and whether their evidence stands in the corpus.

use super::{Session, golden::LoadedCorpus};
use crate::{Error, artifact::DocumentRow};
use eval::{Dataset, Question, dataset};
use rag::load::Rejected;
use store::ArtifactStore;

impl Session {
    /// The questions of the dataset's file; none if they are to be generated.
    pub(super) async fn import(&self, mistakes: &mut Vec<String>) -> Result<Option<Dataset>, Error> {
        let Some(spec) = &self.experiment.dataset else { return Ok(Some(Dataset::default())) };
        let is_url = spec.path.contains("://");
        let shown = if is_url { spec.path.clone() } else { self.experiment.path(&spec.path).display().to_string() };
        let Some(bytes) = self.dataset_bytes(&spec.path).await? else {
            match &spec.generate {
                Some(_) if !is_url => return Ok(None),
                Some(_) => mistakes.push(format!(
                    "dataset.path: there is no {shown}, and questions are generated into files only: give a path, then \
                     `reverie golden export FILE --to {shown}`"
                )),
                None => mistakes.push(format!(
                    "dataset.path: {shown} does not exist; write golden questions there, or add `generate = {{ size = 20, model = \"…\" }}` under [dataset]"
                )),
            }
            return Ok(Some(Dataset::default()));
        };
        match dataset::import(&spec.path, &bytes) {
            Ok(dataset) if dataset.questions.is_empty() => {
                mistakes.push(format!("dataset.path: {shown} holds no question"));
                Ok(Some(Dataset::default()))
            }
            Ok(dataset) => Ok(Some(dataset)),
            Err(errors) => {
                mistakes.extend(errors.iter().map(|error| format!("{shown}: {error}")));
                Ok(Some(Dataset::default()))
            }
        }
    }

    /// The bytes of a dataset, from this machine or an object store.
    async fn dataset_bytes(&self, path: &str) -> Result<Option<Vec<u8>>, Error> {
        if let Some((folder, name)) = path.rsplit_once('/').filter(|_| path.contains("://")) {
            let found = ArtifactStore::open(folder, &self.setup.store_options)?.get(name).await?;
            return Ok(found.map(Vec::from));
        }
        let path = self.experiment.path(path);
        match std::fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::file("read", &path, source)),
        }
    }

    /// Generates the golden questions and keeps them at the dataset's path.
    pub(super) async fn generate(&self, corpus: &LoadedCorpus) -> Result<Vec<Question>, Error> {
        let Some((spec, generate)) =
            self.experiment.dataset.as_ref().and_then(|spec| Some((spec, spec.generate.as_ref()?)))
        else {
            return Ok(Vec::new());
        };
        let passages = corpus.passages().await?;
        let mut golden = self.golden(corpus, &passages, generate, |_| {}).await?;
        golden.write(&self.experiment.path(&spec.path))?;
        Ok(golden.generated.dataset.questions)
    }
}

/// What the documents are, in numbers.
pub(super) struct Corpus {
    pub(super) documents: usize,
    pub(super) text_bytes: usize,
    pub(super) rejected: Vec<Rejected>,
}

/// Looks through the parsed corpus, one shard at a time: counts it, and
/// anchors the questions' evidence in it.
pub(super) async fn read_corpus(
    loaded: &LoadedCorpus,
    dataset: &mut Dataset,
    mistakes: &mut Vec<String>,
) -> Result<Corpus, Error> {
    let mut corpus = Corpus { documents: 0, text_bytes: 0, rejected: Vec::new() };
    let mut anchoring = dataset.anchoring();
    loaded
        .rows(|row| match row {
            DocumentRow::Document(document) => {
                corpus.documents += 1;
                corpus.text_bytes += document.text.len();
                anchoring.visit(&document.path, &document.text);
            }
            DocumentRow::Rejected(rejected) => corpus.rejected.push(rejected),
        })
        .await?;
    mistakes.extend(anchoring.finish().iter().map(ToString::to_string));
    Ok(corpus)
}
