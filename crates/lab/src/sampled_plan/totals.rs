//! What a sample of files says of the whole corpus: totals for the weights of its files, and their intervals from many
//! resamples of the weights.
//!
//! Resamples cannot show what is not in the sample: if no file of it was rejected, they say that none is. If fewer than
//! five were, the low ends of intervals are therefore at most the totals with the lowest share of documents that the
//! interval of that share allows.

use super::{
    cost::{ResampledCost, SampledCost},
    estimate::Estimate,
    files::{SEED, SampledFile, SampledFiles},
};
use crate::{
    plan::{CostEstimate, Plan, TaskId, work::Sizes},
    prepare::text_sample::TextMeasurements,
    spec::Experiment,
};
use eval::{
    Question,
    statistics::{RESAMPLES_OF_TOTAL, SampleWeights},
};
use models::{Caps, ModelTokenizer, TotalSpending};
use rag::chunk::ChunkerConfig;
use rayon::prelude::*;
use std::sync::Arc;

/// With fewer rejected files, the sample does not show how many there are.
const FEW: usize = 5;

/// What totals are estimated from.
pub(super) struct Estimator<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) questions: &'a [Question],
    pub(super) sampled: &'a SampledFiles,
    /// A plan whose documents are one shard.
    pub(super) plan: &'a Plan,
    pub(super) to_run: &'a [TaskId],
    /// The number of shards that the shard stands for.
    pub(super) shards: u64,
    /// The chunkers of the plan.
    pub(super) chunkers: &'a [ChunkerConfig],
    /// The models that are used, each with its tokenizer.
    pub(super) tokenizers: &'a [(String, Arc<ModelTokenizer>)],
    /// The cores on which files are parsed.
    pub(super) cores: usize,
    pub(super) budget: Caps,
    pub(super) total: Option<TotalSpending>,
}

/// The totals of a corpus, with intervals.
pub(super) struct CorpusEstimates {
    pub(super) documents: Estimate<f64>,
    /// The files that give at least one document.
    pub(super) files_with_documents: Estimate<f64>,
    pub(super) text_bytes: Estimate<u64>,
    pub(super) tokens: Estimate<u64>,
    pub(super) parse_seconds: Estimate<f64>,
    /// The chunks of each chunker.
    pub(super) chunks: Vec<Estimate<u64>>,
    pub(super) cost: SampledCost,
}

/// The totals for some weights of the sampled files.
struct Totals {
    /// The share of files that give a document.
    with_documents: f64,
    /// The documents: several of a mail with attachments, or of a mailbox.
    documents: f64,
    text_bytes: f64,
    tokens: f64,
    parse_seconds: f64,
    chunks: Vec<f64>,
    cost: CostEstimate,
}

impl Estimator<'_> {
    /// Estimates all totals.
    pub(super) fn estimate(&self) -> CorpusEstimates {
        let sample = &self.sampled.sample;
        let questions: Vec<String> = self.questions.iter().map(|question| question.question.clone()).collect();
        let tokenizers = self.tokenizers.iter().map(|(name, tokenizer)| (name.clone(), tokenizer.as_ref()));
        let measured = TextMeasurements::of(&self.sampled.documents, self.chunkers, &questions, tokenizers);
        let weights = sample.weights();
        let texts = measured.sizes(&self.document_weights(&weights));
        let sizes = Sizes::new(self.experiment, self.questions, &self.plan.tasks, &texts).of_shards(self.shards);
        let totals = |weights: &SampleWeights| {
            let texts = measured.sizes(&self.document_weights(weights));
            self.totals(weights, &sizes.with_texts(&texts))
        };
        let estimate = totals(&weights);
        let resamples = if sample.is_whole() { 0 } else { RESAMPLES_OF_TOTAL };
        let resample = |i: usize| totals(&sample.resampled_weights(SEED, i));
        let resampled: Vec<Totals> = (0..resamples).into_par_iter().map(resample).collect();

        let with_documents = self.files_with_documents(estimate.with_documents);
        let least = self.least_share(&with_documents).map(|share| totals(&scaled(&weights, share)));
        let text_bytes = self.sampled.files.iter().map(|file| file.text_bytes.unwrap_or_default() as f64);
        let freedom = sample.freedom(&text_bytes.collect::<Vec<_>>());
        let interval = |estimate: f64, resampled: &[f64], least: Option<f64>| {
            let found = sample.interval(estimate, resampled, freedom);
            Estimate { estimate, low: least.unwrap_or(found.low).min(found.low), high: found.high }
        };
        let of = |total: &dyn Fn(&Totals) -> f64| {
            interval(total(&estimate), &resampled.iter().map(total).collect::<Vec<_>>(), least.as_ref().map(total))
        };
        let chunks = |i: usize| of(&|totals| totals.chunks.get(i).copied().unwrap_or_default()).whole();
        let costs: Vec<&CostEstimate> = resampled.iter().map(|totals| &totals.cost).collect();
        let least = least.as_ref().map(|totals| &totals.cost);
        let cost = ResampledCost { estimate: &estimate.cost, resampled: &costs, least, interval: &interval };
        CorpusEstimates {
            documents: self.documents(&with_documents, of(&|totals| totals.documents)),
            files_with_documents: with_documents,
            text_bytes: of(&|totals| totals.text_bytes).whole(),
            tokens: of(&|totals| totals.tokens).whole(),
            parse_seconds: of(&|totals| totals.parse_seconds),
            chunks: (0..self.chunkers.len()).map(chunks).collect(),
            cost: cost.with_intervals(self.total),
        }
    }

    /// The number of files that give a document, from their share. It is never less than what was seen.
    fn files_with_documents(&self, share: f64) -> Estimate<f64> {
        let all = self.sampled.population as f64;
        let found = self.sampled.sample.share_interval(share);
        let least = self.sampled.files_with_documents() as f64;
        let most = all - (self.sampled.files.len() as f64 - least);
        let end = |share: f64| (share * all).clamp(least, most.max(least));
        Estimate { estimate: end(share), low: end(found.low), high: end(found.high) }
    }

    /// The number of documents. If each file gives one document, this is the number of files with documents. Otherwise a few
    /// mailboxes may hold most documents, so the resampled interval is used. It is at least the number in the sample.
    fn documents(&self, with_documents: &Estimate<f64>, found: Estimate<f64>) -> Estimate<f64> {
        let seen = self.sampled.documents.len();
        if seen == self.sampled.files_with_documents() {
            return *with_documents;
        }
        let least = seen as f64;
        let Estimate { estimate, low, high } = found;
        Estimate { estimate: estimate.max(least), low: low.max(least), high: high.max(with_documents.high) }
    }

    /// The lowest share of the files with documents that there may be, if the sample has too few rejected files to show it; none
    /// otherwise.
    fn least_share(&self, documents: &Estimate<f64>) -> Option<f64> {
        let rejected = self.sampled.files.len() - self.sampled.files_with_documents();
        let is_few = rejected < FEW && !documents.is_exact() && documents.estimate > 0.0;
        is_few.then(|| documents.low / documents.estimate)
    }

    /// The weights of the documents, which are those of their files.
    fn document_weights(&self, weights: &SampleWeights) -> Vec<f64> {
        self.sampled.file_of_document.iter().filter_map(|&file| weights.sizes.get(file).copied()).collect()
    }

    fn totals(&self, weights: &SampleWeights, sizes: &Sizes<'_>) -> Totals {
        let files = &self.sampled.files;
        let with_documents: f64 = files
            .iter()
            .zip(&weights.items)
            .filter(|(file, _)| file.text_bytes.is_some())
            .map(|(_, weight)| weight)
            .sum();
        let by_size = |amount: &dyn Fn(&SampledFile) -> f64| -> f64 {
            files.iter().zip(&weights.sizes).map(|(file, weight)| amount(file) * weight).sum()
        };
        let documents = self.sampled.file_of_document.iter().filter_map(|&file| weights.items.get(file)).sum::<f64>();
        let tasks = self.to_run.iter().filter_map(|&id| self.plan.tasks.get(id));
        let times = |of_shard: bool| if of_shard { self.shards } else { 1 };
        Totals {
            with_documents: with_documents / self.sampled.population.max(1) as f64,
            documents,
            text_bytes: by_size(&|file| file.text_bytes.unwrap_or_default() as f64),
            tokens: sizes.document_tokens() as f64,
            parse_seconds: by_size(&|file| file.seconds) / self.cores as f64,
            chunks: self.chunkers.iter().map(|chunker| sizes.all_chunks_of(chunker)).collect(),
            cost: CostEstimate::of_tasks(sizes, self.budget, tasks.map(|task| (task, times(task.is_of_shard())))),
        }
    }
}

/// Weights of which each is a share of what it was.
fn scaled(weights: &SampleWeights, share: f64) -> SampleWeights {
    let scale = |weights: &[f64]| weights.iter().map(|weight| weight * share).collect();
    SampleWeights { items: scale(&weights.items), sizes: scale(&weights.sizes) }
}
