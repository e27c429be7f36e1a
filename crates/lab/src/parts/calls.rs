//! Calls other parts of a trial.

use super::{
    PartReply, PartRequest, PartTransport, PartUnavailable,
    wire::{PartFailure, WireMatrix},
};
use async_trait::async_trait;
use futures::{Stream, StreamExt, stream};
use models::Matrix;
use rag::{
    Error, Passage, PassagesWithRemarks, Query,
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
    async fn find(&self, searches: &[SearchQuery], vectors: Option<&Matrix>) -> Result<PassagesWithRemarks, Error> {
        Ok(self.ask(&PartRequest::Find { searches: searches.to_vec(), vectors: vectors.map(WireMatrix::from) }).await?)
    }

    async fn step(&self, step: usize, query: Query<'_>, passages: Vec<Passage>) -> Result<PassagesWithRemarks, Error> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::Part;
    use futures::stream::BoxStream;
    use std::{
        collections::VecDeque,
        sync::{Mutex, PoisonError},
    };

    type Replies = Vec<Result<Vec<u8>, PartUnavailable>>;

    /// Gives these replies, a list for each call, and none when they are used up.
    #[derive(Default)]
    struct Script {
        replies: Mutex<VecDeque<Replies>>,
        /// The part of each call, and whether it was to stream.
        calls: Mutex<Vec<(Part, bool)>>,
    }

    impl PartTransport for Script {
        fn call(
            &self,
            part: Part,
            streams: bool,
            _request: Vec<u8>,
        ) -> BoxStream<'static, Result<Vec<u8>, PartUnavailable>> {
            self.calls.lock().unwrap_or_else(PoisonError::into_inner).push((part, streams));
            let replies = self.replies.lock().unwrap().pop_front().unwrap_or_default();
            stream::iter(replies).boxed()
        }
    }

    fn of(replies: Vec<Replies>) -> (PartClient, Arc<Script>) {
        let script = Arc::new(Script { replies: Mutex::new(replies.into()), ..Script::default() });
        (PartClient(script.clone()), script)
    }

    fn said(reply: &Result<Vec<f32>, PartFailure>) -> Result<Vec<u8>, PartUnavailable> {
        Ok(serde_json::to_vec(reply).unwrap())
    }

    fn died(reason: &str) -> Result<Vec<u8>, PartUnavailable> {
        Err(PartUnavailable::Died(reason.to_owned()))
    }

    fn request() -> PartRequest {
        PartRequest::Score { model: "m".to_owned(), query: "q".to_owned(), passages: vec!["p".to_owned()] }
    }

    #[tokio::test]
    async fn a_request_is_repeated_once_and_only_if_its_replica_died() {
        let busy = Err(PartUnavailable::Busy("full".to_owned()));
        let odd = Err(PartUnavailable::Failed("odd".to_owned()));
        let refused = Err(PartFailure::Reason("no such model".to_owned()));
        let of_part = |lost| PartFailure::of(Part::Reranker, lost);
        let nothing = of_part(PartUnavailable::Failed("it said nothing".to_owned()));
        let good = || said(&Ok(vec![0.5]));
        type Case = (Vec<Replies>, Result<Vec<f32>, PartFailure>, usize);
        let table: [Case; 8] = [
            (vec![vec![good()]], Ok(vec![0.5]), 1),
            (vec![vec![died("one")], vec![good()]], Ok(vec![0.5]), 2),
            (
                vec![vec![died("one")], vec![died("two")], vec![good()]],
                Err(of_part(PartUnavailable::Died("two".to_owned()))),
                2,
            ),
            (vec![vec![busy], vec![good()]], Err(of_part(PartUnavailable::Busy("full".to_owned()))), 1),
            (vec![vec![odd], vec![good()]], Err(of_part(PartUnavailable::Failed("odd".to_owned()))), 1),
            (vec![vec![], vec![good()]], Err(nothing.clone()), 1),
            (vec![vec![died("one")], vec![]], Err(nothing), 2),
            (vec![vec![said(&refused)], vec![good()]], refused, 1),
        ];
        for (i, (replies, expected, calls)) in table.into_iter().enumerate() {
            let (client, script) = of(replies);
            assert_eq!(client.ask::<Vec<f32>>(&request()).await, expected, "{i}");
            assert_eq!(*script.calls.lock().unwrap(), vec![(Part::Reranker, false); calls], "{i}");
        }
    }

    #[tokio::test]
    async fn a_reply_of_another_version_is_not_asked_for_again() {
        let (client, script) = of(vec![vec![Ok(b"{}".to_vec())], vec![said(&Ok(vec![0.5]))]]);
        let Err(PartFailure::Reason(reason)) = client.ask::<Vec<f32>>(&request()).await else { panic!("it was read") };
        assert!(reason.ends_with("is it the same version of reverie everywhere?"), "{reason}");
        assert_eq!(script.calls.lock().unwrap().len(), 1);
    }

    /// The replies to a request whose answer is a stream, in a word or two.
    async fn streamed(replies: Replies) -> Vec<String> {
        let (client, script) = of(vec![replies]);
        let request = PartRequest::Answer { question: "Why?".to_owned(), history: Vec::new(), at_most: 3 };
        let told = |reply: PartReply| match reply {
            PartReply::Text(text) => text,
            PartReply::Restart => "restart".to_owned(),
            PartReply::Failed(PartFailure::Unavailable { reason, .. } | PartFailure::Reason(reason)) => {
                format!("failed: {reason}")
            }
            other => format!("{other:?}"),
        };
        let told = client.stream_replies(&request).map(told).collect().await;
        assert_eq!(*script.calls.lock().unwrap(), [(Part::Qa, true)]);
        told
    }

    #[tokio::test]
    async fn a_stream_is_told_piece_by_piece_with_what_ended_it() {
        let pieces = |replies: &[PartReply]| Ok(serde_json::to_vec(replies).unwrap());
        let text = |text: &str| PartReply::Text(text.to_owned());
        let some = pieces(&[text("oats"), PartReply::Restart]);
        assert_eq!(
            streamed(vec![some.clone(), pieces(&[]), pieces(&[text("grain")])]).await,
            ["oats", "restart", "grain"]
        );
        assert_eq!(streamed(vec![]).await, [""; 0]);
        let lost = streamed(vec![some, died("killed")]).await;
        assert_eq!(
            lost,
            ["oats", "restart", "failed: the qa ended while it was asked: killed"],
            "what came before is kept"
        );
        let odd = streamed(vec![Ok(b"[7]".to_vec())]).await;
        assert!(
            odd.len() == 1 && odd[0].starts_with("failed: parts of the graph do not understand each other"),
            "{odd:?}"
        );
    }
}
