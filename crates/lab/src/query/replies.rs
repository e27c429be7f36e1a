//! Answers requests of other parts.

use super::{PartReply, PartRequest};
use crate::{
    Error, RunPipeline,
    parts::{WireMatrix, wire::PartFailure},
    task::CallTurn,
};
use futures::{
    FutureExt, Stream, StreamExt,
    channel::mpsc,
    future,
    stream::{self, BoxStream},
};
use models::ChatRequest;
use rag::{Models as _, Query, pipeline::AskedQuestion, python::on_behalf_of};
use serde::Serialize;
use std::sync::Arc;

/// The most replies in one message. Replies that are ready at the same time are sent together; none
/// waits.
const TOGETHER: usize = 256;

impl RunPipeline {
    /// Answers a request of another part: with one message, or with several if the reply is a
    /// stream. The work ends when the stream is dropped.
    pub fn reply(self: Arc<Self>, request: &[u8]) -> BoxStream<'static, Vec<u8>> {
        let request: PartRequest = match serde_json::from_slice(request) {
            Ok(request) => request,
            Err(error) => return reply_once(future::ready(Err::<(), _>(PartFailure::unreadable(&error).into()))),
        };
        match request {
            PartRequest::Chat { model, request } => reply_in_batches(self.stream_chat(model, request)),
            PartRequest::Answer { question, history, at_most } => {
                let (sender, replies) = mpsc::unbounded();
                let send = move |reply: PartReply| drop(sender.unbounded_send(reply));
                let work = async move {
                    let on_event = |event: rag::pipeline::PipelineEvent| send(event.into());
                    if let Err(error) = self.ask(&question, &history, at_most, on_event).await {
                        send(PartReply::Failed((&error).into()));
                    }
                };
                reply_in_batches(while_running(replies, work))
            }
            PartRequest::Embed { model, texts, kind } => reply_once(async move {
                let embedder = self.models().embedder(&model)?;
                Ok(WireMatrix::from(&embedder.embed(&texts, kind).await?))
            }),
            PartRequest::EmbedTokens { model, texts, kind } => reply_once(async move {
                let embedder = self.models().embedder(&model)?;
                let matrices = embedder.embed_tokens(&texts, kind).await?;
                Ok(matrices.iter().map(WireMatrix::from).collect::<Vec<_>>())
            }),
            PartRequest::CountTokens { model, texts, kind } => reply_once(async move {
                let embedder = self.models().embedder(&model)?;
                let counts = embedder.count_tokens(&texts, kind).await?;
                Ok(counts.map(|counts| (counts, embedder.max_tokens())))
            }),
            PartRequest::Score { model, query, passages } => reply_once(async move {
                let reranker = self.models().reranker(&model)?;
                Ok(reranker.rerank(&query, &passages).await?)
            }),
            PartRequest::Find { searches, vectors } => reply_once(async move {
                let vectors = vectors.map(|vectors| vectors.matrix()).transpose()?;
                let found = async { Ok(self.pipeline().await?.find(searches, vectors).await?) };
                on_behalf_of(self.caller(), found).await
            }),
            PartRequest::Step { step, text, vector, filter, passages } => reply_once(async move {
                let vector = vector.map(|vector| vector.matrix()).transpose()?;
                let embedding = vector.as_ref().map(|vector| vector.data.as_slice());
                let query = Query { text: &text, embedding, tokens: None, filter: filter.as_ref() };
                let made = async { Ok(self.pipeline().await?.step(step, query, passages).await?) };
                on_behalf_of(self.caller(), made).await
            }),
            PartRequest::Excerpt { document, span } => reply_once(async move { self.excerpt(&document, span).await }),
            PartRequest::ChunkAt { document, byte } => reply_once(async move { self.chunk_at(&document, byte).await }),
            PartRequest::Order { question, texts } => reply_once(async move { self.rerank(&question, &texts).await }),
            PartRequest::Retrieve { question, history, filter, at_most } => reply_once(async move {
                let asked = AskedQuestion { text: &question, history: &history, filter: filter.as_ref() };
                let found = async { Ok(self.pipeline().await?.retrieve_question(asked, at_most).await?) };
                on_behalf_of(self.caller(), found).await
            }),
        }
    }

    fn stream_chat(
        self: Arc<Self>,
        model: String,
        request: ChatRequest,
    ) -> impl Stream<Item = PartReply> + Send + 'static {
        let (sender, replies) = mpsc::unbounded();
        let send = move |reply: PartReply| drop(sender.unbounded_send(reply));
        let work = async move {
            let written = async {
                let chat = self.models().chat(&model)?;
                let mut answer = chat.stream(&request);
                while let Some(piece) = answer.next().await {
                    send(piece?.into());
                }
                Ok::<_, Error>(answer.finish().await?)
            };
            send(match written.await {
                Ok(response) => PartReply::Replied(Box::new(response)),
                Err(error) => PartReply::Failed((&error).into()),
            });
        };
        while_running(replies, work)
    }

    fn models(&self) -> crate::task::TurnModels<'_> {
        self.run_context().models().in_turn(CallTurn::default())
    }
}

/// The replies that `work` sends, while it runs.
fn while_running(
    replies: mpsc::UnboundedReceiver<PartReply>,
    work: impl Future<Output = ()> + Send + 'static,
) -> impl Stream<Item = PartReply> + Send + 'static {
    stream::select(replies, work.into_stream().filter_map(|()| future::ready(None)))
}

fn reply_once<T: Serialize>(
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> BoxStream<'static, Vec<u8>> {
    work.map(|outcome| encode(&outcome.map_err(|error| PartFailure::from(&error)))).into_stream().boxed()
}

fn reply_in_batches(replies: impl Stream<Item = PartReply> + Send + 'static) -> BoxStream<'static, Vec<u8>> {
    replies.ready_chunks(TOGETHER).map(|replies| encode(&replies)).boxed()
}

fn encode(message: &impl Serialize) -> Vec<u8> {
    // JSON can express all values of these types.
    serde_json::to_vec(message).unwrap_or_default()
}
