//! Indexes: made, and opened again with the chunks that they are of.

use super::Execution;
use crate::{
    Error,
    artifact::{self, decode_vectors},
    engine::Outputs,
    plan::{CorpusInputs, TaskId},
};
use models::Matrix;
use rag::{
    Chunk, ChunkTable,
    index::{Bm25Index, DenseIndex},
    retrieve::Corpus,
};
use std::sync::Arc;

/// Writes a dense index shard by shard: into the store's folder where it is
/// one, else by way of a scratch file.
pub(super) async fn index_dense(
    cx: &Execution,
    inputs: &Outputs,
    vectors: &[TaskId],
    name: &str,
) -> Result<usize, Error> {
    let target = cx.store.local_path(name);
    let direct = target.is_some();
    let path = target.unwrap_or_else(|| cx.scratch.join(name));
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
    }
    match writer {
        Some(writer) => writer.finish()?,
        None => rag::index::DenseWriter::create(&path, 1)?.finish()?,
    }
    if !direct {
        cx.store.put_file(name, &path).await?;
    }
    Ok(count)
}

/// Everything that can be searched, opened.
pub(crate) struct OpenCorpus {
    pub(crate) table: Arc<ChunkTable>,
    pub(crate) dense: Option<Arc<DenseIndex>>,
    pub(crate) bm25: Option<Arc<Bm25Index>>,
    pub(crate) queries: Option<Matrix>,
}

impl OpenCorpus {
    pub(crate) fn corpus(&self) -> Corpus<'_> {
        Corpus { table: &self.table, dense: self.dense.as_deref(), bm25: self.bm25.as_deref() }
    }
}

pub(crate) async fn open_corpus(cx: &Execution, inputs: &Outputs, corpus: &CorpusInputs) -> Result<OpenCorpus, Error> {
    let name = |id: TaskId| inputs.get(&id).cloned().unwrap_or_default();
    let table = chunk_table(cx, inputs, &corpus.chunks).await?;
    let dense = match corpus.dense {
        Some(id) => {
            let load = || async {
                let path = cx.store.local_copy(&name(id), &cx.scratch).await?;
                Ok(DenseIndex::open(&path)?)
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
    let queries = match corpus.queries {
        Some(id) if inputs.contains_key(&id) => Some(decode_vectors(cx.read(inputs, id).await?)?),
        _ => None,
    };
    Ok(OpenCorpus { table, dense, bm25, queries })
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
