//! Rerank models: the trait.

use super::{Error, Model, Usage};
use crate::tokens::estimate_tokens;
use async_trait::async_trait;

/// A model that says how well passages answer a query.
#[async_trait]
pub trait RerankModel: Model {
    /// How many tokens a query or a passage is. A quick count for budgets: an estimate, unless the tokenizer is
    /// known.
    fn estimate_tokens(&self, text: &str) -> usize {
        estimate_tokens(text)
    }
    /// Price per million tokens, in dollars.
    fn price(&self) -> f64 {
        0.0
    }
    /// The most tokens that the model reads of a query and a passage together;
    /// `None` if that is not known.
    fn max_tokens(&self) -> Option<usize> {
        None
    }
    /// One score per passage, in order; higher is better.
    async fn rerank(&self, query: &str, passages: &[String]) -> Result<(Vec<f32>, Usage), Error>;
}
