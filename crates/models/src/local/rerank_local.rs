//! Reranking in this process with a cross-encoder: query and passage are read
//! together, which is slower and more exact than comparing their vectors.
//! A local ONNX file or folder, or a BERT with a classification head in
//! safetensors, which is converted.

use super::onnx::{
    BatchOutput, ModelHead, OnnxSettings, Quantization, RunnableModel, SessionPool, ShapeError, TextTokenizer,
    TokenBatch, TokenSequence, jobs, ready,
};
use crate::{
    Error, Identity, Model, ModelKind, RerankModel, Usage,
    provider::{ModelContext, ModelSettings},
};
use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub(crate) const VERSION: u32 = 1;

/// Padded tokens of a batch.
const BATCH_TOKENS: usize = 512;

/// How a local cross-encoder is run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// A file, a folder, or `hf:owner/repository`. Default
    /// `hf:cross-encoder/ms-marco-MiniLM-L6-v2`.
    pub model: String,
    /// Tokens of query and passage together; of what is beyond this, the
    /// longer one is cut. Default: what the model was published with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<usize>,
    /// How weights are kept. Default: `int8` where the model is converted from
    /// safetensors; an ONNX file runs as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantization: Option<Quantization>,
    /// Whether scores are mapped to 0..1. The order stays the same.
    pub sigmoid: bool,
    /// The size of a batch in tokens. Changes speed and memory, never scores
    /// beyond rounding; models that must run one text at a time ignore it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_tokens: Option<usize>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            model: "hf:cross-encoder/ms-marco-MiniLM-L6-v2".to_owned(),
            max_tokens: None,
            quantization: None,
            sigmoid: false,
            batch_tokens: None,
        }
    }
}

impl Config {
    fn locate(&self, cx: &ModelContext) -> Result<RunnableModel, Error> {
        let settings = OnnxSettings {
            model: &self.model,
            kind: ModelKind::Rerank,
            head: ModelHead::Classifier,
            quantization: self.quantization,
            max_tokens: self.max_tokens,
        };
        settings.locate(cx)
    }

    fn identity_of(&self, located: &RunnableModel) -> Identity {
        let mut parameters = located.parameters();
        parameters.insert("sigmoid".to_owned(), self.sigmoid.into());
        Identity {
            provider: "onnx".to_owned(),
            model: self.model.clone(),
            revision: located.files.sha256.clone(),
            parameters: parameters.into(),
        }
    }
}

impl ModelSettings for Config {
    type Model = dyn RerankModel;

    fn describe(&self, cx: &ModelContext) -> Result<Identity, Error> {
        Ok(self.identity_of(&self.locate(cx)?))
    }

    fn build(&self, cx: &ModelContext) -> Result<Arc<Self::Model>, Error> {
        let located = self.locate(cx)?;
        let file = located.onnx(&cx.directory)?;
        let pool = SessionPool::open(&cx.directory, &cx.cpu, &self.model, &file, &[2, 1])?;
        if let Some(n_labels) = pool.width().filter(|n_labels| *n_labels > 2) {
            let reason = format!("has {n_labels} labels; a reranker has 1, or 2 of which the second says relevant");
            return Err(Error::bad_file(&file, reason));
        }
        let alone = located.runs_alone(&file)?;
        Ok(Arc::new(OnnxReranker {
            identity: Self::versioned(self.identity_of(&located)),
            sigmoid: self.sigmoid,
            batch_tokens: if alone { 1 } else { self.batch_tokens.unwrap_or(BATCH_TOKENS) },
            tokenizer: Arc::new(located.tokenizer()?),
            pool,
        }))
    }

    async fn ready(&self, cx: &ModelContext) -> Result<(), Error> {
        self.locate(cx)?;
        ready(&cx.directory)
    }
}

struct OnnxReranker {
    identity: Identity,
    sigmoid: bool,
    batch_tokens: usize,
    tokenizer: Arc<TextTokenizer>,
    pool: SessionPool,
}

impl Model for OnnxReranker {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn concurrency(&self) -> usize {
        self.pool.n_sessions()
    }
}

#[async_trait]
impl RerankModel for OnnxReranker {
    async fn rerank(&self, query: &str, passages: &[String]) -> Result<(Vec<f32>, Usage), Error> {
        let (tokenizer, model) = (self.tokenizer.clone(), self.identity.model.clone());
        let (query, owned) = (query.to_owned(), passages.to_vec());
        let tokenize = move || {
            let tokens = owned.iter().map(|passage| tokenizer.encode((query.as_str(), passage.as_str())));
            tokens
                .collect::<Result<Vec<TokenSequence>, tokenizers::Error>>()
                .map_err(|error| Error::runtime(&model, error))
        };
        let tokens = self.pool.compute(tokenize).await?;
        let n_sessions = self.pool.n_sessions();
        let jobs = jobs(&tokens, self.batch_tokens, self.pool.masks(), n_sessions);
        let run = |job| self.pool.run(job, scores);
        let found: Vec<Vec<_>> = stream::iter(jobs).map(run).buffer_unordered(n_sessions).try_collect().await?;
        let mut scores = vec![0.0; passages.len()];
        for (place, score) in found.into_iter().flatten().flatten() {
            scores[place] = if self.sigmoid { 1.0 / (1.0 + (-score).exp()) } else { score };
        }
        Ok((scores, TokenSequence::usage(&tokens)))
    }
}

/// The score of each pair of a batch, and where it belongs. Of two labels
/// (irrelevant, relevant) the score is their difference.
fn scores(batch: &TokenBatch, output: &BatchOutput<'_>) -> Result<Vec<(usize, f32)>, ShapeError> {
    let score: fn(&[f32]) -> f32 = match *output.shape {
        [rows] | [rows, 1] if rows == batch.rows() => |labels| labels[0],
        [rows, 2] if rows == batch.rows() => |labels| labels[1] - labels[0],
        ref other => {
            return Err(ShapeError {
                shape: other.to_vec(),
                expected: format!("1 or 2 numbers for each of {} pairs", batch.rows()),
            });
        }
    };
    let n_labels = output.values.len() / batch.rows().max(1);
    Ok(batch.texts.iter().copied().zip(output.values.chunks_exact(n_labels.max(1)).map(score)).collect())
}

#[cfg(test)]
#[path = "rerank_local_tests.rs"]
mod tests;
