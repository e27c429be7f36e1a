//! Models that another part holds. That part limits and retries the calls, so this process does
//! neither.

use super::{PartClient, PartReply, PartRequest, WireMatrix, wire::PartFailure};
use async_trait::async_trait;
use futures::StreamExt;
use models::{
    Chat, ChatModel, ChatRequest, ChatResponse, Client, Embedder, EmbeddingModel, Error, Identity, InputKind, Matrix,
    Model, OnPiece, OnRestart, RerankModel, Reranker, RetryPolicy, Usage, provider::Limits,
};
use serde::de::DeserializeOwned;
use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// The most calls in flight, in effect no limit: the part with the model limits them.
const CALLS: usize = 4096;
/// The concurrency that components see, which decides how they split their work.
const AT_ONCE: usize = 8;

fn client(client: &Client) -> Client {
    client.without_journal().with_retry(RetryPolicy::never())
}

/// A handle to a chat model elsewhere. `model` only counts tokens and knows the length of the
/// context; it is never called, so its weights are not loaded.
pub(crate) fn chat(shared: &Client, name: &str, model: Arc<dyn ChatModel>, others: PartClient) -> Chat {
    client(shared).chat(Arc::new(ChatElsewhere { name: name.to_owned(), model, others }))
}

/// A handle to an embedding model elsewhere.
pub(crate) fn embedder(shared: &Client, name: &str, identity: Identity, others: PartClient) -> Embedder {
    client(shared).embedder(Arc::new(ModelElsewhere::new(name, identity, others)))
}

/// A handle to a rerank model elsewhere.
pub(crate) fn reranker(shared: &Client, name: &str, identity: Identity, others: PartClient) -> Reranker {
    client(shared).reranker(Arc::new(ModelElsewhere::new(name, identity, others)))
}

struct ChatElsewhere {
    name: String,
    model: Arc<dyn ChatModel>,
    others: PartClient,
}

impl Model for ChatElsewhere {
    fn identity(&self) -> &Identity {
        self.model.identity()
    }
    fn concurrency(&self) -> usize {
        self.model.concurrency()
    }
    fn limits(&self) -> Limits {
        Limits::Fixed(CALLS)
    }
}

#[async_trait]
impl ChatModel for ChatElsewhere {
    fn context_length(&self) -> usize {
        self.model.context_length()
    }
    fn count_tokens(&self, text: &str) -> usize {
        self.model.count_tokens(text)
    }
    fn price(&self) -> (f64, f64) {
        self.model.price()
    }
    fn tells_probabilities(&self) -> bool {
        self.model.tells_probabilities()
    }
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, Error> {
        self.stream_chat(request, &|_| {}, &|| {}).await
    }
    async fn chat_with_restarts(
        &self,
        request: &ChatRequest,
        on_piece: &OnPiece,
        on_restart: &OnRestart,
    ) -> Result<ChatResponse, Error> {
        self.stream_chat(request, &**on_piece, &**on_restart).await
    }
}

impl ChatElsewhere {
    async fn stream_chat(
        &self,
        request: &ChatRequest,
        on_piece: &(dyn Fn(&str) + Send + Sync),
        on_restart: &(dyn Fn() + Send + Sync),
    ) -> Result<ChatResponse, Error> {
        let request = PartRequest::Chat { model: self.name.clone(), request: request.clone() };
        let mut replies = pin!(self.others.stream_replies(&request));
        while let Some(reply) = replies.next().await {
            match reply {
                PartReply::Text(text) => on_piece(&text),
                PartReply::Restart => on_restart(),
                PartReply::Replied(response) => return Ok(*response),
                PartReply::Failed(failure) => return Err(failure.of_model(&self.name)),
                PartReply::Fallback(_) | PartReply::Remark(_) | PartReply::Found(_) | PartReply::Answered(_) => {}
            }
        }
        Err(PartFailure::Reason("the llm stopped in the middle of its answer".into()).of_model(&self.name))
    }
}

/// An embedding or a rerank model.
struct ModelElsewhere {
    name: String,
    identity: Identity,
    others: PartClient,
    /// The length of a vector, once there was one.
    columns: AtomicUsize,
    /// How many tokens of a text it reads, once it has counted some.
    max_tokens: AtomicUsize,
}

impl ModelElsewhere {
    fn new(name: &str, identity: Identity, others: PartClient) -> Self {
        let (name, columns, max_tokens) = (name.to_owned(), AtomicUsize::default(), AtomicUsize::new(usize::MAX));
        Self { name, identity, others, columns, max_tokens }
    }

    async fn ask<T: DeserializeOwned>(&self, request: &PartRequest) -> Result<T, Error> {
        self.others.ask(request).await.map_err(|failure| failure.of_model(&self.name))
    }
}

impl Model for ModelElsewhere {
    fn identity(&self) -> &Identity {
        &self.identity
    }
    fn concurrency(&self) -> usize {
        AT_ONCE
    }
    fn limits(&self) -> Limits {
        Limits::Fixed(CALLS)
    }
}

#[async_trait]
impl EmbeddingModel for ModelElsewhere {
    fn dimensions(&self) -> usize {
        self.columns.load(Relaxed)
    }
    fn max_tokens(&self) -> usize {
        // Before tokens are counted, the limit matters only for documents, which were embedded
        // before the bundle was made.
        self.max_tokens.load(Relaxed)
    }
    async fn count_tokens(&self, texts: &[String], kind: InputKind) -> Result<Option<Vec<usize>>, Error> {
        let request = PartRequest::CountTokens { model: self.name.clone(), texts: texts.to_vec(), kind };
        Ok(self.ask::<Option<(Vec<usize>, usize)>>(&request).await?.map(|(counts, max_tokens)| {
            self.max_tokens.store(max_tokens, Relaxed);
            counts
        }))
    }
    async fn embed(&self, texts: &[String], kind: InputKind) -> Result<(Matrix, Usage), Error> {
        let request = PartRequest::Embed { model: self.name.clone(), texts: texts.to_vec(), kind };
        let embedded = self.ask::<WireMatrix>(&request).await?.matrix();
        let matrix = embedded.map_err(|failure| failure.of_model(&self.name))?;
        self.columns.store(matrix.columns, Relaxed);
        Ok((matrix, Usage::default()))
    }
    async fn embed_tokens(&self, texts: &[String], kind: InputKind) -> Result<(Vec<Matrix>, Usage), Error> {
        let request = PartRequest::EmbedTokens { model: self.name.clone(), texts: texts.to_vec(), kind };
        let embedded = self.ask::<Vec<WireMatrix>>(&request).await?;
        let matrices: Result<Vec<Matrix>, PartFailure> = embedded.iter().map(WireMatrix::matrix).collect();
        let matrices = matrices.map_err(|failure| failure.of_model(&self.name))?;
        // A matrix has one row for each token of its text.
        let prompt_tokens = matrices.iter().map(|matrix| matrix.rows() as u64).sum();
        Ok((matrices, Usage { prompt_tokens, ..Usage::default() }))
    }
}

#[async_trait]
impl RerankModel for ModelElsewhere {
    async fn rerank(&self, query: &str, passages: &[String]) -> Result<(Vec<f32>, Usage), Error> {
        let (model, query, passages) = (self.name.clone(), query.to_owned(), passages.to_vec());
        Ok((self.ask(&PartRequest::Score { model, query, passages }).await?, Usage::default()))
    }
}
