//! Indexes: made, and opened again with the chunks that they are of.

use super::{Execution, compute, tokens::open_tokens};
use crate::{
    Error,
    artifact::{self, decode_vectors},
    engine::Outputs,
    plan::{CorpusInputs, TaskId},
};
use models::Matrix;
use rag::{
    Chunk, ChunkTable,
    index::{Bm25Index, DenseIndex, TokenIndex},
    retrieve::Corpus,
};
use std::sync::Arc;

/// Writes a dense index shard by shard into a scratch file, which is moved
/// into the store where that is a folder, and else sent there.
pub(super) async fn index_dense(
    cx: &Execution,
    inputs: &Outputs,
    vectors: &[TaskId],
    name: &str,
    rows: impl Fn(usize),
) -> Result<usize, Error> {
    let is_local = cx.store.local_path(name).is_some();
    // Where the store is elsewhere, the file is what would be fetched later.
    let path = cx.scratch.join(name);
    let path = if is_local { store::staged_path(&path) } else { path };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|source| Error::file("create", folder, source))?;
    }
    let mut writer = None;
    let mut count = 0;
    for &shard in vectors {
        let matrix = decode_vectors(cx.read(inputs, shard).await?)?;
        if matrix.rows() == 0 {
            continue;
        }
        count += matrix.rows();
        if writer.is_none() {
            writer = Some(rag::index::DenseWriter::create(&path, matrix.columns)?);
        }
        if let Some(writer) = &mut writer {
            writer.push(&matrix)?;
        }
        rows(matrix.rows());
    }
    match writer {
        Some(writer) => writer.finish()?,
        None => rag::index::DenseWriter::create(&path, 1)?.finish()?,
    }
    match is_local {
        true => cx.store.take_file(name, &path).await?,
        false => cx.store.put_file(name, &path).await?,
    };
    Ok(count)
}

/// Everything that can be searched, opened.
pub(crate) struct OpenCorpus {
    pub(crate) table: Arc<ChunkTable>,
    pub(crate) dense: Option<Arc<DenseIndex>>,
    pub(crate) bm25: Option<Arc<Bm25Index>>,
    pub(crate) tokens: Option<Arc<TokenIndex>>,
    pub(crate) queries: Option<Matrix>,
}

impl OpenCorpus {
    pub(crate) fn corpus(&self) -> Corpus<'_> {
        let Self { table, dense, bm25, tokens, .. } = self;
        Corpus { table, dense: dense.as_deref(), bm25: bm25.as_deref(), tokens: tokens.as_deref() }
    }
}

pub(crate) async fn open_corpus(cx: &Execution, inputs: &Outputs, corpus: &CorpusInputs) -> Result<OpenCorpus, Error> {
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
                // Of a version that noted no checksum: the file has one of its own.
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
    let queries = match corpus.queries {
        Some(id) if inputs.contains_key(&id) => Some(decode_vectors(cx.read(inputs, id).await?)?),
        _ => None,
    };
    Ok(OpenCorpus { table, dense, bm25, tokens, queries })
}

pub(super) async fn chunk_table(cx: &Execution, inputs: &Outputs, chunks: &[TaskId]) -> Result<Arc<ChunkTable>, Error> {
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
