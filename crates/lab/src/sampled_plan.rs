//! What a run would cost, estimated from a sample of the corpus' files before everything was read.
//!
//! The corpus is listed, and a sample of its files is read and parsed in memory. Nothing is stored, and what the store
//! holds is not looked at, so all numbers are those of a first run. The evidence of questions is not looked for.
//!
//! Files are drawn at random, by the endings of their names and by classes of their sizes, with a fixed seed
//! ([`eval::statistics::StratifiedSample`]). The bytes of text, tokens and chunks of the corpus are ratio estimates by
//! the size of files, and the number of documents is estimated by the number of files. The cost comes from the code
//! that estimates any plan (`plan/estimate.rs`): the sizes of texts are measured on the sample, and weighted once more
//! for each of 200 resamples. So the interval of a cost includes everything that depends on the documents, but none of
//! the coarseness of the estimate itself, such as how long answers are.
//!
//! In a plan, all shards of the documents have the same estimated size. So the plan here has one shard, whose tasks
//! count as often as the corpus has shards.

mod cost;
mod estimate;
mod files;
mod totals;

pub use cost::{SampledCost, SampledModelCost};
pub use estimate::Estimate;
pub use files::SampledEnding;

use crate::{
    Error,
    blocking::compute,
    corpus::{CorpusFiles, CorpusSurvey, ListedCorpus, list},
    engine::tasks_to_run,
    error_chain,
    plan::{QuestionViews, Trial, file_blocks, trial::grid, work::Work},
    prepare::{
        ModelsAndCorpus, check_models, facts,
        questions::{ImportedDataset, import},
        searched::check_search,
        systems,
    },
    session::{Session, used_models::used_models},
    warning::{self, CorpusFacts, Warning},
};
use eval::dataset::DatasetReport;
use files::{SampledFiles, read_sample};
use rag::{
    Axis,
    chunk::ChunkerConfig,
    load::{LoadError, Rejected, Unread},
};
use serde::Serialize;
use std::{mem::discriminant, sync::Arc};
use store::Key;
use totals::{CorpusEstimates, Estimator};

/// The fewest files of a sample. Fewer do not show how much files differ.
pub const FEWEST_SAMPLED_FILES: usize = 10;

/// What a first run would cost, estimated from a sample of the files.
#[derive(Debug, Clone, Serialize)]
pub struct SampledPlan {
    /// Trials.
    pub trials: usize,
    /// The name of the search, which asks for a part of the trials; none for a grid.
    pub search: Option<String>,
    /// Files of the corpus.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Files that were read.
    pub sampled_files: usize,
    /// Their bytes.
    pub sampled_bytes: u64,
    /// Whether every file was read, so that the estimates have no sampling error.
    pub is_whole: bool,
    /// The files by the ending of their names, those with the most bytes first.
    pub endings: Vec<SampledEnding>,
    /// Documents.
    pub documents: Estimate<u64>,
    /// Files that give no document.
    pub rejected: SampledRejections,
    /// Bytes of text.
    pub text_bytes: Estimate<u64>,
    /// Tokens of the text, as chunkers count them (`cl100k_base`).
    pub tokens: Estimate<u64>,
    /// The chunks of each chunker.
    pub chunks: Vec<ChunkEstimate>,
    /// Seconds in which this machine should parse all files.
    pub parse_seconds: Estimate<f64>,
    /// The calls, and what they should cost.
    pub cost: SampledCost,
    /// Counts of the questions, and the columns of their file that are not used.
    pub dataset: Option<DatasetReport>,
    /// Files of the sample, and folders, that cannot be read now.
    pub unread: Vec<Unread>,
    /// The warnings that are known from the settings and the list of files.
    pub warnings: Vec<Warning>,
}

/// The files of a corpus that give no document.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SampledRejections {
    /// Their number in the corpus.
    pub files: Estimate<u64>,
    /// Their share of all files.
    pub share: Estimate<f64>,
    /// The reasons that were seen, the most frequent first.
    pub reasons: Vec<SampledRejection>,
}

/// A kind of reason why files give no document.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SampledRejection {
    /// The files for which it was seen.
    pub files: usize,
    /// The first of them.
    pub path: String,
    /// Why this one gives no document.
    pub reason: String,
}

/// The chunks of a chunker.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChunkEstimate {
    /// The chunker, as trials label it.
    pub chunker: String,
    /// Its searchable chunks.
    pub chunks: Estimate<u64>,
}

/// Estimates what a first run would cost, from at most so many files of the corpus. Nothing is stored.
///
/// # Errors
/// [`Error::Refused`] with all mistakes of the experiment that can be known without reading all files, or if no sampled
/// file gives a document.
pub async fn sample_plan(session: &Session, most_files: usize) -> Result<SampledPlan, Error> {
    let experiment = &session.experiment;
    let mut mistakes = Vec::new();
    let identities = check_models(session, &mut mistakes).await?;
    let ListedCorpus { source, listing, metadata, pdf_library } = list(session, &mut mistakes).await?;
    let ImportedDataset { dataset, ignored } = import(session, &mut mistakes).await?;
    if dataset.is_none() {
        mistakes.push("dataset: its questions are to be generated, and what they cost is not known before".to_owned());
    }
    let dataset = dataset.unwrap_or_default();
    let Some(source) = source.filter(|_| mistakes.is_empty()) else { return Err(Error::Refused(mistakes)) };
    mistakes.extend(check_search(experiment, &dataset.questions));
    let given = systems::given(session, &dataset.questions, &mut mistakes).await;
    Error::refuse(mistakes)?;

    let report = experiment.dataset.as_ref().map(|_| DatasetReport::of(&dataset, ignored));
    let questions = dataset.questions;
    let sampled = read_sample(session, &source, &listing.files, &metadata, most_files).await?;
    refuse_without_documents(session, &sampled, &listing.rejected)?;
    let trials = grid(experiment);
    // Keys of a plan decide nothing here, so any content will do.
    let shard = listing.files.iter().take(1).map(|file| (file.clone(), Key::of_bytes(file.path.as_bytes())));
    let files = CorpusFiles { files: Arc::new(shard.collect()), ..CorpusFiles::default() };
    let corpus = CorpusSurvey { files, pdf_library, ..CorpusSurvey::default() };
    let sources = ModelsAndCorpus { identities, given, corpus, views: QuestionViews::NONE };
    let plan = sources.plan(session, &trials, &questions, None);
    let corpus_facts = CorpusFacts {
        documents: listing.files.len(),
        unread_types: listing.unread_types.clone(),
        ..CorpusFacts::default()
    };
    let facts = facts::planned(experiment, &trials, &sources.identities, corpus_facts, &questions);

    let blocks = file_blocks(listing.files.iter().map(|file| (file.path.as_str(), file.bytes)));
    let (shards, labelled) = (blocks.len().max(1) as u64, labelled_chunkers(&trials));
    let chunked = |chunker: &ChunkerConfig| {
        let of_task = |task: &crate::plan::Task| matches!(&task.work, Work::Chunk(work) if work.chunker == *chunker);
        plan.tasks.iter().any(of_task)
    };
    let (labels, chunkers): (Vec<String>, Vec<ChunkerConfig>) =
        labelled.into_iter().filter(|(_, chunker)| chunked(chunker)).unzip();
    let (names, models, shared) = (used_models(experiment), session.models(), experiment.clone());
    let (cores, budget) = (session.context().cpu.cores().max(1), session.budget());
    let (caps, total) = (budget.caps(), budget.total());
    let (sampled, estimates) = compute(move || {
        let tokenizers: Vec<_> = names.into_iter().map(|name| (name.clone(), models.tokenizer(&name))).collect();
        let (to_run, _) = tasks_to_run(&plan, &vec![false; plan.tasks.len()], &[]);
        let estimator = Estimator {
            experiment: &shared,
            questions: &questions,
            sampled: &sampled,
            plan: &plan,
            to_run: &to_run,
            shards,
            chunkers: &chunkers,
            tokenizers: &tokenizers,
            cores,
            budget: caps,
            total,
        };
        let estimates = estimator.estimate();
        (sampled, estimates)
    })
    .await?;

    let CorpusEstimates { documents, files_with_documents, text_bytes, tokens, parse_seconds, chunks, cost } =
        estimates;
    let search = &experiment.search;
    Ok(SampledPlan {
        trials: trials.len(),
        search: (!search.is_exhaustive()).then(|| search.name().to_owned()),
        files: listing.files.len(),
        bytes: listing.files.iter().map(|file| file.bytes).sum(),
        sampled_files: sampled.files.len(),
        sampled_bytes: sampled.bytes,
        is_whole: sampled.sample.is_whole(),
        rejected: rejections(&sampled, files_with_documents, listing.files.len(), &listing.rejected),
        documents: documents.whole(),
        text_bytes,
        tokens,
        chunks: labels.into_iter().zip(chunks).map(|(chunker, chunks)| ChunkEstimate { chunker, chunks }).collect(),
        parse_seconds,
        cost,
        dataset: report,
        unread: listing.unread.into_iter().chain(sampled.unread).collect(),
        warnings: warning::find(&facts, &experiment.warnings.ignore),
        endings: sampled.endings,
    })
}

/// The chunkers of trials that are pipelines, each once with its label.
fn labelled_chunkers(trials: &[Trial]) -> Vec<(String, ChunkerConfig)> {
    let mut found: Vec<(String, ChunkerConfig)> = Vec::new();
    for (trial, pipeline) in trials.iter().filter_map(|trial| Some((trial, trial.pipeline()?))) {
        if found.iter().all(|(_, chunker)| *chunker != pipeline.chunker) {
            found.push((trial.label(Axis::Chunker).to_owned(), pipeline.chunker.clone()));
        }
    }
    found
}

/// Refuses a corpus of which no sampled file gives a document.
fn refuse_without_documents(session: &Session, sampled: &SampledFiles, rejected: &[Rejected]) -> Result<(), Error> {
    if !sampled.documents.is_empty() {
        return Ok(());
    }
    let reasons = count_reasons(sampled.rejected.iter().chain(rejected)).into_iter();
    let reasons = reasons.map(|SampledRejection { files, path, reason }| match files {
        1 => format!("  {path}: {reason}"),
        _ => format!("  {path} (and {} more): {reason}", files - 1),
    });
    let unread = sampled.unread.iter().map(|unread| format!("  {}: cannot be read: {}", unread.path, unread.reason));
    let (source, list) = (&session.experiment.corpus.source, reasons.chain(unread).collect::<Vec<_>>().join("\n"));
    let of_which = match sampled.sample.is_whole() && sampled.unread.is_empty() {
        true => "holds no readable document".to_owned(),
        false => format!("gives no document for any of the {} files that were sampled", sampled.files.len()),
    };
    Err(Error::Refused(vec![format!("the corpus `{source}` {of_which}:\n{list}")]))
}

/// The files that give no document. `listed` files belong to the corpus by their names, and `rejected` ones do not.
fn rejections(
    sampled: &SampledFiles,
    files_with_documents: Estimate<f64>,
    listed: usize,
    rejected: &[Rejected],
) -> SampledRejections {
    let all = (listed + rejected.len()) as f64;
    let known = all - sampled.population as f64;
    // More files with documents are fewer of these files.
    let Estimate { estimate, low, high } = files_with_documents;
    let of_population = Estimate { estimate: -estimate, low: -high, high: -low }.plus(sampled.population as f64);
    let files = of_population.plus(known);
    SampledRejections {
        files: files.whole(),
        share: files.times(1.0 / all.max(1.0)),
        reasons: count_reasons(sampled.rejected.iter().chain(rejected)),
    }
}

/// The kinds of reasons, the most frequent first, each with the first file.
fn count_reasons<'a>(rejected: impl Iterator<Item = &'a Rejected>) -> Vec<SampledRejection> {
    let mut kinds: Vec<(&LoadError, SampledRejection)> = Vec::new();
    for Rejected { path, reason } in rejected {
        match kinds.iter_mut().find(|(kind, _)| discriminant(*kind) == discriminant(reason)) {
            Some((_, seen)) => seen.files += 1,
            None => {
                kinds.push((reason, SampledRejection { files: 1, path: path.clone(), reason: error_chain(reason) }));
            }
        }
    }
    let mut kinds: Vec<SampledRejection> = kinds.into_iter().map(|(_, seen)| seen).collect();
    kinds.sort_by_key(|seen| std::cmp::Reverse(seen.files));
    kinds
}

#[cfg(test)]
mod tests;
