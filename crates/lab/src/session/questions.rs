//! Where a session's golden questions come from: a file, or a chat model that
//! writes them once; and whether their evidence stands in the corpus.

use super::{Session, golden::LoadedCorpus};
use crate::{Error, artifact::DocumentRow};
use eval::{
    Dataset, Question,
    dataset::{DatasetFile, IgnoredColumn, Unanchored},
};
use rag::load::{Rejected, Unread};
use std::collections::BTreeSet;
use store::{ArtifactStore, NoLayout};

impl Session {
    /// The questions of the dataset's file, none if they are to be generated,
    /// and the columns of the file that are not used.
    pub(crate) async fn import(
        &self,
        mistakes: &mut Vec<String>,
    ) -> Result<(Option<Dataset>, Vec<IgnoredColumn>), Error> {
        let nothing = || (Some(Dataset::default()), Vec::new());
        let Some(spec) = &self.experiment.dataset else { return Ok(nothing()) };
        let is_url = spec.path.contains("://");
        let shown = if is_url { spec.path.clone() } else { self.experiment.path(&spec.path).display().to_string() };
        let Some(bytes) = self.dataset_bytes(&spec.path).await? else {
            match &spec.generate {
                Some(_) if !is_url => return Ok((None, Vec::new())),
                Some(_) => mistakes.push(format!(
                    "dataset.path: there is no {shown}, and questions are generated into files only: give a path, then \
                     `reverie golden export FILE --to {shown}`"
                )),
                None => mistakes.push(format!(
                    "dataset.path: {shown} does not exist; write golden questions there, or add `generate = {{ size = 20, model = \"…\" }}` under [dataset]"
                )),
            }
            return Ok(nothing());
        };
        match DatasetFile::read(&spec.path, &bytes) {
            Ok(file) if file.dataset.questions.is_empty() => {
                mistakes.push(format!("dataset.path: {shown} holds no question"));
                Ok(nothing())
            }
            Ok(file) => Ok((Some(file.dataset), file.ignored)),
            Err(errors) => {
                mistakes.extend(errors.iter().map(|error| format!("{shown}: {error}")));
                Ok(nothing())
            }
        }
    }

    /// The bytes of a dataset, from this machine or an object store.
    async fn dataset_bytes(&self, path: &str) -> Result<Option<Vec<u8>>, Error> {
        if let Some((folder, name)) = path.rsplit_once('/').filter(|_| path.contains("://")) {
            let found = ArtifactStore::open(folder, &self.setup.store_options, &NoLayout)?.get(name).await?;
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
        golden.write(&self.experiment.path(&spec.path), false)?;
        Ok(golden.generated.dataset.questions)
    }
}

/// What the documents are, in numbers.
pub(super) struct Corpus {
    pub(super) documents: usize,
    pub(super) text_bytes: usize,
    pub(super) rejected: Vec<Rejected>,
    /// Questions that were taken out of the dataset, by id.
    pub(super) left_out: Vec<String>,
}

/// Looks through the parsed corpus, one shard at a time: counts it, and
/// anchors the questions' evidence in it.
pub(super) async fn read_corpus(
    loaded: &LoadedCorpus,
    dataset: &mut Dataset,
    mistakes: &mut Vec<String>,
) -> Result<Corpus, Error> {
    let mut corpus = Corpus { documents: 0, text_bytes: 0, rejected: Vec::new(), left_out: Vec::new() };
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
    // Evidence in a file that could not be read is not wrong: its questions
    // wait for the next run.
    let mut waiting = BTreeSet::new();
    for unanchored in anchoring.finish() {
        if may_be_unread(&unanchored, &loaded.unread) {
            waiting.insert(unanchored.question);
        } else {
            mistakes.push(unanchored.to_string());
        }
    }
    dataset.questions.retain(|question| !waiting.contains(&question.id));
    corpus.left_out.extend(waiting);
    Ok(corpus)
}

/// Whether evidence that was not found may stand in what could not be read: a
/// file, or all that is in a folder.
fn may_be_unread(unanchored: &Unanchored, unread: &[Unread]) -> bool {
    let document = unanchored.document.as_str();
    unread.iter().any(|unread| {
        let path = unread.path.as_str();
        let is_below = document.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        document.is_empty() || path.is_empty() || is_below
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use eval::dataset::Unfound;

    #[test]
    fn only_evidence_that_may_stand_in_an_unread_file_waits() {
        let evidence = |document: &str| Unanchored {
            question: "q".into(),
            document: document.into(),
            quote: "words".into(),
            reason: Unfound::Nowhere,
        };
        let unread =
            [Unread { path: "a/b.txt".into(), reason: "x".into() }, Unread { path: "deep".into(), reason: "x".into() }];
        let waits = |document: &str| may_be_unread(&evidence(document), &unread);
        assert!(waits("a/b.txt") && waits("deep/c.txt") && waits(""));
        assert!(!waits("a/b.txt2") && !waits("deeper/c.txt") && !waits("c.txt"));
        assert!(!may_be_unread(&evidence(""), &[]));
    }
}
