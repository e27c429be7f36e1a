//! A model that is ready to run: its tokenizer and its sessions.

use super::{
    files::RunnableModel,
    runtime::{BatchOutput, SessionPool, ShapeError},
    tokens::{TextTokenizer, TokenBatch, TokenSequence, jobs},
};
use crate::{CpuBudget, Error, Identity, local::on_one_core, provider::ModelContext};
use futures::{StreamExt, TryStreamExt, stream};
use std::{error::Error as StdError, sync::Arc};

/// Tokens of a batch, padding included. On a CPU, larger batches are no faster.
const BATCH_TOKENS: usize = 512;

/// A model with its tokenizer, as the components that use it share it.
pub(crate) struct OnnxModel {
    pub(crate) identity: Identity,
    pub(crate) pool: SessionPool,
    tokenizer: Arc<TextTokenizer>,
    batch_tokens: usize,
    cpu: CpuBudget,
}

impl OnnxModel {
    /// Opens a model whose files are here. For `ranks` see [`SessionPool::open`].
    pub(crate) fn open(
        located: &RunnableModel,
        identity: Identity,
        batch_tokens: Option<usize>,
        ranks: &[usize],
        cx: &ModelContext,
    ) -> Result<Self, Error> {
        let file = located.onnx(&cx.directory)?;
        let pool = SessionPool::open(&cx.directory, &cx.cpu, &identity.model, &file, ranks)?;
        let alone = located.runs_alone(&file)?;
        let batch_tokens = if alone { 1 } else { batch_tokens.unwrap_or(BATCH_TOKENS) };
        let tokenizer = Arc::new(located.tokenizer()?);
        Ok(Self { identity, pool, tokenizer, batch_tokens, cpu: cx.cpu.clone() })
    }

    /// Reads texts with the tokenizer on one core.
    pub(crate) async fn tokenize<T, E>(
        &self,
        read: impl FnOnce(&TextTokenizer) -> Result<T, E> + Send + 'static,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        let (tokenizer, model) = (self.tokenizer.clone(), self.identity.model.clone());
        let work = move || read(&tokenizer).map_err(|error| Error::runtime(&model, error));
        on_one_core(&self.cpu, &self.identity.model, work).await
    }

    /// Runs all texts and gives the result of `finish` for each batch, in any order.
    pub(crate) async fn run<T, F>(&self, tokens: &[TokenSequence], finish: F) -> Result<Vec<T>, Error>
    where
        T: Send + 'static,
        F: Fn(&TokenBatch, &BatchOutput<'_>) -> Result<T, ShapeError> + Clone + Send + 'static,
    {
        let n_sessions = self.pool.n_sessions;
        let jobs = jobs(tokens, self.batch_tokens, self.pool.masks(), n_sessions);
        let run = |job| self.pool.run(job, finish.clone());
        let results: Vec<Vec<T>> = stream::iter(jobs).map(run).buffer_unordered(n_sessions).try_collect().await?;
        Ok(results.into_iter().flatten().collect())
    }
}
