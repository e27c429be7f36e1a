//! Checkpoints for vectors that are made document by document: parts end where documents do.

use super::{Checkpoint, EmbeddedTexts};
use crate::{Error, task::RunContext};
use futures::{StreamExt, stream::FuturesOrdered};
use models::{Matrix, ledger};
use store::Key;

/// Makes the vectors of documents, `at_once` documents at a time, and stores finished parts under
/// the key `task`; without a key nothing is stored. `chunks` says how many vectors each document
/// has, and `embed` makes those of one. Calls `begun` once with the number of chunks that are left,
/// and `rows` each time with the number of chunks that were embedded.
pub(crate) async fn embed_documents<F: Future<Output = Result<Matrix, Error>>>(
    cx: &RunContext,
    task: Option<&Key>,
    (chunks, at_once): (&[usize], usize),
    embed: impl Fn(usize) -> F,
    begun: impl FnOnce(usize),
    rows: impl Fn(usize),
) -> Result<EmbeddedTexts, Error> {
    let total: usize = chunks.iter().sum();
    let mut next = 0;
    let whole_documents = |vectors: usize| {
        let mut whole = 0;
        while next < chunks.len() && whole + chunks[next] <= vectors {
            whole += chunks[next];
            next += 1;
        }
        whole
    };
    // A document that is not whole is made anew.
    let mut made = Checkpoint::resume(cx, task, total, 1, whole_documents).await;
    begun(total - made.resumed);
    let mut calls = FuturesOrdered::new();
    let mut failure = None;
    loop {
        while failure.is_none() && calls.len() < at_once.max(1) && next < chunks.len() {
            let (call, wanted) = (embed(next), chunks[next]);
            calls.push_back(async move { (ledger::measure(call).await, wanted) });
            next += 1;
        }
        let Some(((embedded, used), wanted)) = calls.next().await else { break };
        let columns = made.matrix.columns;
        match embedded {
            Ok(_) if failure.is_some() => {}
            Ok(matrix) if matrix.rows() == wanted && (made.matrix.rows() == 0 || columns == matrix.columns) => {
                made.add(&matrix, &used);
                rows(wanted);
            }
            Ok(matrix) => {
                let reason = format!("{} vectors of {} numbers for {wanted} chunks", matrix.rows(), matrix.columns);
                failure = Some(Error::table(reason));
            }
            Err(error) => _ = failure.get_or_insert(error),
        }
        made.keep_if_due(failure.is_some()).await;
    }
    failure.map_or_else(|| Ok(made.finish()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::checkpoint::tests::bench;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A document's number, and the place of each of its chunks.
    fn of_document(document: usize, chunks: usize) -> Matrix {
        let data = (0..chunks).flat_map(|i| [document as f32 + 1.0, i as f32]).collect();
        Matrix { columns: 2, data }
    }

    #[tokio::test]
    async fn an_interrupted_task_goes_on_behind_the_last_whole_document() {
        let bench = bench();
        let key = Key::of_bytes(b"documents");
        let chunks: Vec<usize> = (0..40).map(|i| 1 + i % 3).collect();
        let whole: Vec<f32> = chunks.iter().enumerate().flat_map(|(i, n)| of_document(i, *n).data).collect();
        let (mut embedded, mut tries) = (0, 0);
        let made = loop {
            let asked = AtomicUsize::new(0);
            let embed = async |document: usize| match asked.fetch_add(1, Ordering::SeqCst) {
                0..7 => Ok(of_document(document, chunks[document])),
                _ => Err(models::Error::Cancelled.into()),
            };
            let made = embed_documents(&bench.cx, Some(&key), (&chunks, 2), embed, |_| {}, |_| {}).await;
            embedded += asked.load(Ordering::SeqCst).min(7);
            tries += 1;
            match made {
                Ok(made) => break made,
                Err(error) => assert!(tries < 9, "{error}"),
            }
        };
        assert_eq!(made.matrix.data, whole);
        assert_eq!((embedded, tries), (40, 6), "no document twice");
        assert!(made.resumed > 0 && made.has_parts);
    }

    #[tokio::test]
    async fn vectors_that_do_not_fit_their_chunks_are_an_error_and_no_chunks_are_none() {
        let bench = bench();
        let embed = async |_| Ok(of_document(0, 3));
        let made = embed_documents(&bench.cx, None, (&[2], 1), embed, |_| {}, |_| {}).await;
        assert!(made.err().unwrap().to_string().contains("3 vectors of 2 numbers for 2 chunks"));
        let made = embed_documents(&bench.cx, None, (&[], 1), embed, |_| {}, |_| {}).await.unwrap();
        assert_eq!(made.matrix.rows(), 0);
    }
}
