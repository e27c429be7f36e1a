//! Reranking in this process with a cross-encoder: query and passage are read
//! together, which is slower and more exact than comparing their vectors.
//! A local ONNX file or folder, or a BERT with a classification head in
//! safetensors, which is converted.

use super::onnx::{
    BatchOutput, ModelHead, OnnxModel, OnnxSettings, Quantization, RunnableModel, ShapeError, TextTokenizer,
    TokenBatch, TokenSequence, ready,
};
use crate::{
    Error, Identity, Model, ModelKind, RerankModel, Usage,
    provider::{ModelContext, ModelSettings},
    tokens::ModelTokenizer,
};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub(crate) const VERSION: u32 = 1;

/// How a local cross-encoder is run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// A file, a folder, or `hf:owner/repository`. Default
    /// `hf:cross-encoder/ms-marco-MiniLM-L6-v2`.
    pub model: String,
    /// The most tokens of query and passage together; beyond this, the longer
    /// of the two is cut. Default: what the model was published with.
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
        OnnxSettings {
            model: &self.model,
            kind: ModelKind::Rerank,
            head: ModelHead::Classifier,
            quantization: self.quantization,
            max_tokens: self.max_tokens,
        }
        .locate(cx)
    }
}

impl ModelSettings for Config {
    type Model = dyn RerankModel;

    fn base_identity(&self, cx: &ModelContext) -> Result<Identity, Error> {
        Ok(self.locate(cx)?.identity([("sigmoid", self.sigmoid.into())]))
    }

    fn build(&self, cx: &ModelContext) -> Result<Arc<Self::Model>, Error> {
        let located = self.locate(cx)?;
        let identity = Self::versioned(located.identity([("sigmoid", self.sigmoid.into())]));
        let model = OnnxModel::open(&located, identity, self.batch_tokens, &[2, 1], cx)?;
        if let Some(n_labels) = model.pool.columns().filter(|n_labels| *n_labels > 2) {
            let reason = format!("has {n_labels} labels; a reranker has 1, or 2 of which the second says relevant");
            return Err(Error::bad_file(&located.onnx(&cx.directory)?, reason));
        }
        Ok(Arc::new(OnnxReranker { model, sigmoid: self.sigmoid, max_tokens: located.max_tokens }))
    }

    fn tokenizer(&self, cx: &ModelContext) -> Result<ModelTokenizer, Error> {
        self.locate(cx)?.model_tokenizer("")
    }

    async fn ready(&self, cx: &ModelContext) -> Result<(), Error> {
        self.locate(cx)?;
        ready(&cx.directory)
    }
}

struct OnnxReranker {
    model: OnnxModel,
    sigmoid: bool,
    /// The most tokens of a query and a passage together.
    max_tokens: usize,
}

impl Model for OnnxReranker {
    fn identity(&self) -> &Identity {
        &self.model.identity
    }

    fn concurrency(&self) -> usize {
        self.model.pool.n_sessions
    }
}

#[async_trait]
impl RerankModel for OnnxReranker {
    fn max_tokens(&self) -> Option<usize> {
        Some(self.max_tokens)
    }

    async fn rerank(&self, query: &str, passages: &[String]) -> Result<(Vec<f32>, Usage), Error> {
        let (query, owned) = (query.to_owned(), passages.to_vec());
        let encode = move |tokenizer: &TextTokenizer| {
            owned.iter().map(|passage| tokenizer.encode((query.as_str(), passage.as_str()))).collect()
        };
        let tokens: Vec<TokenSequence> = self.model.tokenize::<_, tokenizers::Error>(encode).await?;
        let mut scores = vec![0.0; passages.len()];
        for (place, score) in self.model.run(&tokens, batch_scores).await?.into_iter().flatten() {
            scores[place] = if self.sigmoid { 1.0 / (1.0 + (-score).exp()) } else { score };
        }
        Ok((scores, TokenSequence::usage(&tokens)))
    }
}

/// The score of each pair of a batch, and where it belongs. Of two labels
/// (irrelevant, relevant) the score is their difference.
fn batch_scores(batch: &TokenBatch, output: &BatchOutput<'_>) -> Result<Vec<(usize, f32)>, ShapeError> {
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
