//! What a part replies.

use super::{Request, Said};
use crate::{Error, RunPipeline, task::Turn};
use crate::{parts::Embedded, parts::wire::Failure};
use futures::{FutureExt, Stream, StreamExt, channel::mpsc, future, stream, stream::BoxStream};
use models::ChatRequest;
use rag::{Models as _, Query, pipeline::AskedQuestion, python::on_behalf_of};
use serde::Serialize;
use std::sync::Arc;

/// The most things that are said in one message: what is ready at the same time
/// goes together, and nothing waits.
const TOGETHER: usize = 256;

impl RunPipeline {
    /// What a part says to a request of another: one message, or several if the
    /// request is of a kind that is answered bit by bit. The work ends when the
    /// stream is dropped.
    pub fn reply(self: Arc<Self>, request: &[u8]) -> BoxStream<'static, Vec<u8>> {
        let request: Request = match serde_json::from_slice(request) {
            Ok(request) => request,
            Err(error) => return once(future::ready(Err::<(), _>(Failure::unreadable(&error)))),
        };
        match request {
            Request::Chat { model, request } => together(self.chatting(model, request)),
            Request::Answer { question, history, at_most } => {
                let (sender, said) = mpsc::unbounded();
                let tell = move |said: Said| drop(sender.unbounded_send(said));
                let work = async move {
                    let on_event = |event: rag::pipeline::AnswerEvent| tell(event.into());
                    if let Err(error) = self.ask(&question, &history, at_most, on_event).await {
                        tell(Said::Failed((&error).into()));
                    }
                };
                together(beside(said, work))
            }
            Request::Embed { model, texts, kind } => once(
                async move {
                    let embedder = self.models().embedder(&model)?;
                    Ok::<_, Error>(Embedded::from(&embedder.embed(&texts, kind).await?))
                }
                .map(failure),
            ),
            Request::EmbedTokens { model, texts, kind } => once(
                async move {
                    let embedder = self.models().embedder(&model)?;
                    let matrices = embedder.embed_tokens(&texts, kind).await?;
                    Ok::<_, Error>(matrices.iter().map(Embedded::from).collect::<Vec<_>>())
                }
                .map(failure),
            ),
            Request::CountTokens { model, texts, kind } => once(
                async move {
                    let embedder = self.models().embedder(&model)?;
                    let counts = embedder.count_tokens(&texts, kind).await?;
                    Ok::<_, Error>(counts.map(|counts| (counts, embedder.max_tokens())))
                }
                .map(failure),
            ),
            Request::Score { model, query, passages } => once(
                async move {
                    let reranker = self.models().reranker(&model)?;
                    Ok::<_, Error>(reranker.rerank(&query, &passages).await?)
                }
                .map(failure),
            ),
            Request::Find { searches, vectors } => once(async move {
                let vectors = vectors.map(|vectors| vectors.matrix()).transpose()?;
                let found = async { Ok::<_, Error>(self.stage().await?.find(searches, vectors).await?) };
                on_behalf_of(self.caller(), found).map(failure).await
            }),
            Request::Step { step, text, vector, filter, passages } => once(async move {
                let vector = vector.map(|vector| vector.matrix()).transpose()?;
                let embedding = vector.as_ref().map(|vector| vector.data.as_slice());
                let query = Query { text: &text, embedding, tokens: None, filter: filter.as_ref() };
                let made = async { Ok::<_, Error>(self.stage().await?.step(step, query, passages).await?) };
                on_behalf_of(self.caller(), made).map(failure).await
            }),
            Request::Excerpt { document, span } => {
                once(async move { self.excerpt(&document, span).await }.map(failure))
            }
            Request::ChunkAt { document, byte } => {
                once(async move { self.chunk_at(&document, byte).await }.map(failure))
            }
            Request::Order { question, texts } => {
                once(async move { self.rerank(&question, &texts).await }.map(failure))
            }
            Request::Retrieve { question, history, filter, at_most } => once(async move {
                let asked = AskedQuestion { text: &question, history: &history, filter: filter.as_ref() };
                let found = async { Ok::<_, Error>(self.stage().await?.found(asked, at_most).await?) };
                on_behalf_of(self.caller(), found).map(failure).await
            }),
        }
    }

    fn chatting(self: Arc<Self>, model: String, request: ChatRequest) -> impl Stream<Item = Said> + Send + 'static {
        let (sender, said) = mpsc::unbounded();
        let tell = move |said: Said| drop(sender.unbounded_send(said));
        let work = async move {
            let written = async {
                let chat = self.models().chat(&model)?;
                let mut answer = chat.stream(&request);
                while let Some(piece) = answer.next().await {
                    tell(piece?.into());
                }
                Ok::<_, Error>(answer.finish().await?)
            };
            tell(match written.await {
                Ok(response) => Said::Replied(Box::new(response)),
                Err(error) => Said::Failed((&error).into()),
            });
        };
        beside(said, work)
    }

    fn models(&self) -> crate::task::InTurn<'_> {
        self.execution().models().in_turn(Turn::default())
    }
}

fn failure<T>(outcome: Result<T, Error>) -> Result<T, Failure> {
    outcome.map_err(|error| Failure::from(&error))
}

/// What is said, while the work is done that says it.
fn beside(
    said: mpsc::UnboundedReceiver<Said>,
    work: impl Future<Output = ()> + Send + 'static,
) -> impl Stream<Item = Said> + Send + 'static {
    stream::select(said, work.into_stream().filter_map(|()| future::ready(None)))
}

fn once<T: Serialize>(work: impl Future<Output = Result<T, Failure>> + Send + 'static) -> BoxStream<'static, Vec<u8>> {
    work.map(|outcome| written(&outcome)).into_stream().boxed()
}

fn together(said: impl Stream<Item = Said> + Send + 'static) -> BoxStream<'static, Vec<u8>> {
    said.ready_chunks(TOGETHER).map(|said| written(&said)).boxed()
}

fn written(message: &impl Serialize) -> Vec<u8> {
    // These types have no keys and no numbers that JSON lacks.
    serde_json::to_vec(message).unwrap_or_default()
}
