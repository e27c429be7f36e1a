//! Calls other parts of a trial.

use super::{
    PartReply, PartRequest, PartTransport, PartUnavailable,
    wire::{PartFailure, WireMatrix},
};
use async_trait::async_trait;
use futures::{Stream, StreamExt, stream};
use models::Matrix;
use rag::{
    Error, Passage, Query, RefinedPassages,
    pipeline::{AskedQuestion, RemoteChunks, RemoteRetrieval, Retrieval},
    query::SearchQuery,
};
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// A client of the other parts.
#[derive(Clone)]
pub(crate) struct PartClient(pub(crate) Arc<dyn PartTransport>);

impl PartClient {
    /// The reply to a request that has exactly one.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, request: &PartRequest) -> Result<T, PartFailure> {
        let (part, bytes) = (request.part(), encode(request)?);
        let mut again = true;
        loop {
            let reply = self.0.call(part, false, bytes.clone()).next().await;
            let lost = match reply {
                Some(Ok(reply)) => {
                    let reply: Result<T, PartFailure> =
                        serde_json::from_slice(&reply).map_err(|error| PartFailure::unreadable(&error))?;
                    return reply;
                }
                Some(Err(lost)) => lost,
                None => PartUnavailable::Failed("it said nothing".into()),
            };
            // Another replica is asked: at worst a call that rewrites a question is paid once more.
            if !(matches!(lost, PartUnavailable::Died(_)) && std::mem::take(&mut again)) {
                return Err(PartFailure::of(part, lost));
            }
        }
    }

    /// The replies to a request whose answer is a stream. It ends after a failure.
    pub(crate) fn stream_replies(&self, request: &PartRequest) -> impl Stream<Item = PartReply> + Send + 'static {
        let part = request.part();
        let replies = match encode(request) {
            Ok(bytes) => self
                .0
                .call(part, true, bytes)
                .map(move |reply| match reply {
                    Ok(reply) => serde_json::from_slice::<Vec<PartReply>>(&reply)
                        .unwrap_or_else(|error| vec![PartReply::Failed(PartFailure::unreadable(&error))]),
                    Err(lost) => vec![PartReply::Failed(PartFailure::of(part, lost))],
                })
                .boxed(),
            Err(failure) => stream::iter([vec![PartReply::Failed(failure)]]).boxed(),
        };
        replies.flat_map(stream::iter)
    }
}

fn encode(request: &PartRequest) -> Result<Vec<u8>, PartFailure> {
    serde_json::to_vec(request).map_err(|error| PartFailure::unreadable(&error))
}

#[async_trait]
impl RemoteChunks for PartClient {
    async fn find(&self, searches: &[SearchQuery], vectors: Option<&Matrix>) -> Result<RefinedPassages, Error> {
        Ok(self.ask(&PartRequest::Find { searches: searches.to_vec(), vectors: vectors.map(WireMatrix::from) }).await?)
    }

    async fn step(&self, step: usize, query: Query<'_>, passages: Vec<Passage>) -> Result<RefinedPassages, Error> {
        let (text, filter) = (query.text.to_owned(), query.filter.cloned());
        let vector = query.embedding.map(WireMatrix::vector);
        Ok(self.ask(&PartRequest::Step { step, text, vector, filter, passages }).await?)
    }
}

#[async_trait]
impl RemoteRetrieval for PartClient {
    async fn retrieve_question(&self, question: AskedQuestion<'_>, at_most: usize) -> Result<Retrieval, Error> {
        let AskedQuestion { text, history, filter } = question;
        let (question, history, filter) = (text.to_owned(), history.to_vec(), filter.cloned());
        Ok(self.ask(&PartRequest::Retrieve { question, history, filter, at_most }).await?)
    }
}
