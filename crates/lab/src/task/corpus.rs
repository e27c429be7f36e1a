//! Opens indexes together with the chunks that they index.

use super::{Execution, compute, decode_matrix, tokens::open_tokens};
use crate::{
    Error, artifact,
    engine::Outputs,
    plan::{CorpusInputs, TaskId},
};
use models::Matrix;
use rag::{
    Chunk, ChunkTable,
    index::{Bm25Index, DenseIndex},
    pipeline::OpenCorpus,
};
use std::sync::Arc;

/// Opens the inputs of a retrieval, with the questions' vectors.
pub(crate) async fn open_corpus(
    cx: &Execution,
    inputs: &Outputs,
    corpus: &CorpusInputs,
) -> Result<(OpenCorpus, Option<Matrix>), Error> {
    let name = |id: TaskId| inputs.get(&id).cloned().unwrap_or_default();
    let table = chunk_table(cx, inputs, &corpus.chunks).await?;
    let dense = match corpus.dense {
        Some(id) => {
            let load = || async {
                let name = name(id);
                let file = cx.store.local_file(&name, &cx.scratch).await?;
                if file.is_checked {
                    return Ok(DenseIndex::open(&file.content)?);
                }
                // An older version wrote no checksum for it, but the file holds its own.
                let opened =
                    compute(move || DenseIndex::open(&file.content).and_then(|index| index.verify().map(|()| index)));
                match opened.await? {
                    Ok(index) => Ok(index),
                    Err(error) => Err(cx.store.set_aside(&name, &crate::error_chain(&error)).await.into()),
                }
            };
            Some(cx.dense.get(vec![name(id)], load).await?)
        }
        None => None,
    };
    let bm25 = match corpus.bm25 {
        Some(id) => {
            let load = || async {
                let bytes = cx.read(inputs, id).await?;
                Ok(Bm25Index::from_bytes(&bytes)?)
            };
            Some(cx.bm25.get(vec![name(id)], load).await?)
        }
        None => None,
    };
    let tokens = match corpus.tokens.as_slice() {
        [] => None,
        shards => Some(open_tokens(cx, shards.iter().map(|&id| name(id)).collect()).await?),
    };
    let queries = decode_matrix(cx, inputs, corpus.queries.filter(|id| inputs.contains_key(id))).await?;
    Ok((OpenCorpus { table, dense, bm25, tokens }, queries))
}

pub(crate) async fn chunk_table(cx: &Execution, inputs: &Outputs, chunks: &[TaskId]) -> Result<Arc<ChunkTable>, Error> {
    let names = chunks.iter().map(|id| inputs.get(id).cloned().unwrap_or_default()).collect();
    let load = || async {
        let mut all = Vec::new();
        for &shard in chunks {
            all.extend(artifact::decode::<Chunk>(cx.read(inputs, shard).await?)?);
        }
        Ok(ChunkTable::new(all))
    };
    cx.tables.get(names, load).await
}
