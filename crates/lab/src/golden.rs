//! Golden questions from a corpus: generated, stored with their origin, and anchored again after
//! documents changed.
//!
//! A dataset is a file of questions. Beside `golden.jsonl` stand
//! `golden.manifest.json` (the version, model, options and corpus that it was
//! made from, and how many drafts each filter rejected) and
//! `golden.rejected.jsonl` (every rejection with its reason), so that a person
//! can see what was thrown away.

use crate::{
    Error, Session,
    clock::now_ms,
    corpus::LoadedCorpus,
    files::{write_new, write_whole},
    session::used_models::priced_and_ready,
    settlement::settle,
    spec::GenerateSpec,
};
use eval::{
    Dataset, GenerateEstimate, GenerateOptions, GenerateProgress, GeneratedQuestions, Persona, QuestionKind,
    dataset::{AnchorError, ChangedQuestion, ColumnSet, DatasetDifference, DatasetFormat},
};
use models::Identity;
use rag::{Chunk, Context, Document, chunk::ChunkerConfig};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};
use store::{Key, KeyBuilder};

/// The size of passages for questions, in tokens: long enough for an idea, short enough for a small
/// model. They do not depend on the chunkers that are compared.
const PASSAGE_TOKENS: u32 = 256;

/// The most passages that questions are made of. A corpus of a million documents has more, of which few are ever used; the
/// search for pairs of passages compares each with many others.
const MOST_PASSAGES: usize = 1 << 14;

/// Passages at equal distances in a corpus. If one is added to a full sample, every second is dropped, and from then on half
/// as many are kept.
struct PassageSample {
    kept: Vec<Chunk>,
    most: usize,
    /// One passage of so many is kept.
    step: usize,
    seen: usize,
}

impl PassageSample {
    fn new(most: usize) -> Self {
        Self { kept: Vec::new(), most, step: 1, seen: 0 }
    }

    fn add(&mut self, passage: Chunk) {
        let place = self.seen;
        self.seen += 1;
        if !place.is_multiple_of(self.step) {
            return;
        }
        if self.kept.len() == self.most {
            self.step *= 2;
            let mut places = 0..;
            self.kept.retain(|_| places.next().is_some_and(|place: usize| place.is_multiple_of(2)));
            if !place.is_multiple_of(self.step) {
                return;
            }
        }
        self.kept.push(passage);
    }
}

/// The documents that questions are about.
pub enum Documents<'a> {
    /// Those of an experiment's corpus.
    Corpus(&'a LoadedCorpus),
    /// Those that a program holds.
    Held(&'a [Document]),
}

impl Documents<'_> {
    async fn visit(&self, mut each: impl FnMut(&Document)) -> Result<(), Error> {
        match self {
            Self::Corpus(corpus) => corpus.visit(each).await,
            Self::Held(documents) => {
                documents.iter().for_each(&mut each);
                Ok(())
            }
        }
    }

    /// Which of these words stand somewhere in the documents, and the first
    /// document that has each, whatever the case.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn find_words(&self, words: &[String]) -> Result<Vec<(String, String)>, Error> {
        let mut found: BTreeMap<String, String> = BTreeMap::new();
        let lower: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
        self.visit(|document| {
            let text = document.text.to_lowercase();
            let held = words.iter().zip(&lower).filter(|(_, lower)| text.contains(lower.as_str()));
            for (word, _) in held {
                found.entry(word.clone()).or_insert_with(|| document.path.clone());
            }
        })
        .await?;
        Ok(found.into_iter().collect())
    }

    /// Passages that questions can be made of: all of them, or at most 16,384 at equal distances in a larger corpus.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn passages(&self) -> Result<Vec<Chunk>, Error> {
        let config = json!({ "sentence": { "chunk_size": PASSAGE_TOKENS, "chunk_overlap": 0 } });
        let chunker =
            serde_json::from_value::<ChunkerConfig>(config).map_err(Error::table)?.build(&Context::default())?;
        let mut passages = PassageSample::new(MOST_PASSAGES);
        let mut failed = None;
        self.visit(|document| match chunker.chunk_now(document) {
            Ok(more) => more.into_iter().for_each(|passage| passages.add(passage)),
            Err(error) => failed = Some(error),
        })
        .await?;
        failed.map_or(Ok(passages.kept), |error| Err(error.into()))
    }

    /// Finds a dataset's evidence in the documents as they are now. Evidence
    /// that is not found keeps the place that it had: that is all that is known
    /// of it.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn anchor(&self, dataset: &mut Dataset) -> Result<AnchoredQuestions, Error> {
        let before = dataset.clone();
        let mut anchoring = dataset.anchoring();
        self.visit(|document| anchoring.visit(&document.path, &document.text)).await?;
        let lost = anchoring.finish();
        for (now, before) in dataset.questions.iter_mut().zip(&before.questions) {
            for (now, before) in now.evidence.iter_mut().zip(&before.evidence) {
                if now.span.is_none() {
                    now.clone_from(before);
                }
            }
        }
        let evidence = dataset.questions.iter().map(|question| question.evidence.len()).sum();
        Ok(AnchoredQuestions { lost, evidence, difference: DatasetDifference::between(&before, dataset) })
    }
}

/// The result of anchoring a dataset's evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct AnchoredQuestions {
    /// What was not found.
    pub lost: Vec<AnchorError>,
    /// How many pieces of evidence there are.
    pub evidence: usize,
    /// What changed in the dataset.
    pub difference: DatasetDifference,
}

impl AnchoredQuestions {
    /// Questions of which all evidence has a place, some of it a new one.
    pub fn moved(&self) -> usize {
        let placed = |question: &&ChangedQuestion| question.after.evidence.iter().all(|item| item.span.is_some());
        self.difference.changed.iter().filter(placed).count()
    }
}

/// Where a dataset came from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GoldenManifest {
    /// The digest of the questions.
    pub version: String,
    /// The digest of the questions that were in the file before.
    pub previous: Option<String>,
    /// When, in milliseconds since 1970.
    pub created_ms: i64,
    /// The model that wrote and checked.
    pub model: Identity,
    /// The options of the generation.
    pub options: GenerateOptions,
    /// The digest of the corpus: paths and texts.
    pub corpus: Key,
    /// Passages worth a question.
    pub passages: usize,
    /// Names and terms that join passages.
    pub entities: usize,
    /// Scenarios that were tried.
    pub attempts: usize,
    /// Questions by kind.
    pub kinds: BTreeMap<String, usize>,
    /// How many questions each kind lacks of its share.
    pub lacking: BTreeMap<QuestionKind, usize>,
    /// Rejections by reason.
    pub rejected: BTreeMap<String, usize>,
    /// Who asks.
    pub personas: Vec<Persona>,
}

/// A dataset that was generated.
pub struct Golden {
    /// The questions and the rejections.
    pub generated: GeneratedQuestions,
    /// Where they came from.
    pub manifest: GoldenManifest,
}

impl Golden {
    /// Writes questions, manifest and rejections; each file is whole or not there. Returns the
    /// paths. Existing questions, and a file in the manifest's place that is no manifest, are
    /// replaced only if `replace` is set.
    ///
    /// # Errors
    /// If a file is there or cannot be written.
    pub fn write(&mut self, path: &Path, replace: bool) -> Result<[PathBuf; 3], Error> {
        self.manifest.previous = std::fs::read(path).ok().and_then(|bytes| {
            let name = path.file_name()?.to_str()?;
            Some(eval::dataset::import(name, &bytes).ok()?.version())
        });
        // A person's rejections are kept: unlike the others, they cannot be made again.
        let mut rejections = rejected_by_a_person(&path.with_extension("rejected.jsonl"))?;
        for rejection in &self.generated.rejected {
            serde_json::to_writer(&mut rejections, rejection).map_err(Error::table)?;
            rejections.push(b'\n');
        }
        let name = path.display().to_string();
        let Some(format) = DatasetFormat::of_editable_name(&name) else {
            let editable = DatasetFormat::editable();
            return Err(Error::Refused(vec![format!(
                "{name}: questions that are generated are written as {}: let the name end in {}",
                editable.titles(),
                editable.endings()
            )]));
        };
        let questions = self.generated.dataset.export(format, ColumnSet::Reverie).map_err(Error::table)?;
        let manifest = serde_json::to_vec_pretty(&self.manifest).map_err(Error::table)?;
        let paths = [path.to_owned(), path.with_extension("manifest.json"), path.with_extension("rejected.jsonl")];
        if !replace {
            let other =
                std::fs::read(&paths[1]).is_ok_and(|bytes| serde_json::from_slice::<GoldenManifest>(&bytes).is_err());
            if other {
                let reason = "it is there already, and is no manifest of generated questions";
                let taken = std::io::Error::new(std::io::ErrorKind::AlreadyExists, reason);
                return Err(Error::file("write", &paths[1], taken));
            }
            write_new(&paths[0], &questions)?;
        }
        for (path, bytes) in paths.iter().zip([&questions, &manifest, &rejections]).skip(usize::from(!replace)) {
            write_whole(path, bytes)?;
        }
        Ok(paths)
    }
}

/// The lines of a file of rejections that a person's review wrote.
fn rejected_by_a_person(path: &Path) -> Result<Vec<u8>, Error> {
    let text = Error::allow_missing(path, std::fs::read_to_string(path))?.unwrap_or_default();
    let is_kept =
        |line: &&str| serde_json::from_str::<serde_json::Value>(line).is_ok_and(|line| line["reason"] == "review");
    Ok(text.lines().filter(is_kept).flat_map(|line| [line, "\n"]).collect::<String>().into_bytes())
}

/// What generating golden questions from these passages should cost, in the tokens of the
/// model that writes them. No model is asked.
pub fn estimate_golden(session: &Session, passages: &[Chunk], spec: &GenerateSpec) -> GenerateEstimate {
    let tokenizer = session.models().tokenizer(&spec.model);
    GenerateEstimate::of(&spec.options, passages, &|text| tokenizer.count(text))
}

/// Generates golden questions from the passages of documents.
///
/// # Errors
/// The model is not there or cannot be used, the budget does not know its
/// price, or it wrote no usable question. What it answered is kept in the
/// journal.
pub async fn generate_golden(
    session: &Session,
    documents: &Documents<'_>,
    passages: &[Chunk],
    spec: &GenerateSpec,
    on_progress: impl FnMut(GenerateProgress),
) -> Result<Golden, Error> {
    priced_and_ready(session, &session.experiment, &BTreeSet::from([spec.model.clone()])).await?;
    let models = session.models();
    let chat = models.chat(&spec.model)?;
    let options = GenerateOptions { concurrency: chat.concurrency().max(1), ..spec.options.clone() };
    let generated = eval::generate(&options, passages, &chat, on_progress).await;
    let generated = generated.map_err(|error| match error {
        models::Error::Function(failed) => {
            let failure = Box::new(rag::python::Failure::of_model("writer", *failed));
            Error::Function { reason: failure.to_string(), failure }
        }
        other => other.into(),
    });
    let generated = settle(models.client(), &session.setup().control.progress, generated).await?;
    if let Documents::Corpus(corpus) = documents {
        for (reason, count) in generated.counts() {
            corpus.run_context.log("question_rejected", json!({ "reason": reason, "count": count }));
        }
    }
    if generated.dataset.questions.is_empty() {
        return Err(Error::NoQuestions { model: spec.model.clone(), generated: Box::new(generated) });
    }
    let mut digest = KeyBuilder::new("corpus");
    documents
        .visit(|document| {
            let builder = std::mem::replace(&mut digest, KeyBuilder::new(""));
            digest = builder.field("path", &document.path).key("text", &Key::of_bytes(document.text.as_bytes()));
        })
        .await?;
    let statistics = generated.dataset.statistics();
    let manifest = GoldenManifest {
        version: statistics.version,
        previous: None,
        created_ms: now_ms(),
        model: chat.identity().clone(),
        options: spec.options.clone(),
        corpus: digest.finish(),
        passages: generated.n_passages,
        entities: generated.n_entities,
        attempts: generated.attempts,
        kinds: statistics.kinds,
        lacking: generated.lacking.clone(),
        rejected: generated.counts().into_iter().map(|(name, count)| (name.to_owned(), count)).collect(),
        personas: generated.personas.clone(),
    };
    Ok(Golden { generated, manifest })
}

#[cfg(test)]
mod tests;
