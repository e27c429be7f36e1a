//! Embedding models: the trait, and what is embedded.

use super::{BatchEndpoint, Error, Matrix, Model, Usage};
use crate::tokens::estimate_tokens;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{ops::Range, sync::Arc};

/// The kind of a text to embed: some models embed a query and a document differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputKind {
    /// A question.
    Query,
    /// A passage to be found.
    Document,
}

/// A model that maps texts to vectors of length 1.
#[async_trait]
pub trait EmbeddingModel: Model {
    /// The length of a vector; 0 until a remote model has sent one.
    fn dimensions(&self) -> usize;
    /// The most tokens of a text that the model reads; `usize::MAX` if it reads
    /// long texts in windows.
    fn max_tokens(&self) -> usize;
    /// The most texts of one call. A handle splits longer lists, so that a
    /// batch that was paid is kept if the next one fails.
    fn batch_size(&self) -> usize {
        usize::MAX
    }
    /// How many tokens each text has, special tokens and prefix included, also
    /// beyond [`EmbeddingModel::max_tokens`]. `None` if the model's tokenizer is
    /// not here.
    async fn count_tokens(&self, _texts: &[String], _kind: InputKind) -> Result<Option<Vec<usize>>, Error> {
        Ok(None)
    }
    /// Fails with [`Error::TextTooLong`] if a text is longer than the model
    /// reads and its settings refuse such texts ([`LongTexts::Refuse`](super::LongTexts::Refuse)).
    /// [`EmbeddingModel::embed`] fails with the same error; this check only
    /// counts tokens, so all texts can be checked before the first is embedded.
    async fn check_lengths(&self, _texts: &[String], _kind: InputKind) -> Result<(), Error> {
        Ok(())
    }
    /// How many tokens a text is, without prefix and special tokens. A quick count for budgets: an
    /// estimate, unless the model can count without waiting.
    fn estimate_tokens(&self, text: &str) -> usize {
        estimate_tokens(text)
    }
    /// The tokens that the model's prefix adds to each text of a kind; 0 if it has none, or counts them itself.
    fn prefix_tokens(&self, _kind: InputKind) -> usize {
        0
    }
    /// Price per million tokens, in dollars.
    fn price(&self) -> f64 {
        0.0
    }
    /// Where the model's calls can be sent in batches; none if its settings do not ask for that.
    fn batches(&self) -> Option<Arc<dyn BatchEndpoint>> {
        None
    }
    /// A call as it is sent in a batch.
    fn batch_body(&self, _texts: &[String], _kind: InputKind) -> Value {
        Value::Null
    }
    /// Reads the answer to a call that was sent in a batch.
    fn read_batched(&self, _texts: &[String], _kind: InputKind, _answer: &Value) -> Result<(Matrix, Usage), Error> {
        Err(Error::Unsupported { model: self.identity().model.clone(), what: "batches" })
    }
    /// One row per text, in order, each of length 1.
    async fn embed(&self, texts: &[String], kind: InputKind) -> Result<(Matrix, Usage), Error>;
    /// One matrix per text with a row per token, each row of length 1.
    async fn embed_tokens(&self, _texts: &[String], _kind: InputKind) -> Result<(Vec<Matrix>, Usage), Error> {
        Err(Error::Unsupported {
            model: self.identity().model.clone(),
            what: "token vectors (late interaction needs an embedder that runs in this process)",
        })
    }
    /// How many tokens of a text it reads together, special ones included, if
    /// it can embed parts of a text.
    ///
    /// # Errors
    /// Why it cannot.
    fn window(&self) -> Result<usize, Error> {
        let what = "vectors of parts of a text: an endpoint gives one vector for a whole text";
        Err(Error::Unsupported { model: self.identity().model.clone(), what })
    }
    /// One vector of length 1 per part of a document's text, the parts given in
    /// bytes: the mean of the vectors that the part's tokens have in the whole
    /// text, so that it depends on the surrounding text. A text that is longer than
    /// the window is read in windows that share `overlap` tokens. A part has
    /// none if no token lies in it.
    async fn embed_parts(
        &self,
        _text: &str,
        _parts: &[Range<usize>],
        _overlap: usize,
    ) -> Result<(Vec<Option<Vec<f32>>>, Usage), Error> {
        self.window()?;
        let what = "vectors of parts of a text";
        Err(Error::Unsupported { model: self.identity().model.clone(), what })
    }
}
