//! Opens indexes together with the chunks that they index.

use super::{Cache, RunContext, decode_matrix, kept_tables::decode_shard};
use crate::{
    Error,
    action::Action,
    artifact::{ArtifactTable, EnrichedRow, SHARDS_AT_ONCE},
    blocking::compute,
    plan::{CorpusInputs, Outputs, TaskId},
};
use databases::retrying;
use futures::{StreamExt, TryStreamExt, stream};
use models::Matrix;
use rag::{
    Chunk, ChunkTable, ChunkTableWriter, Context, VectorSearch,
    index::{DatabaseIndex, IndexKind, OpenIndex, SEARCH_RETRIES},
    pipeline::OpenCorpus,
    vector_index::VectorIndexConfig,
};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Chunks of at most so many shards are held in memory. Those of more are in a file, which is mapped.
pub(crate) const SHARDS_IN_MEMORY: usize = 32;

/// Opened indexes of each kind.
pub(super) struct IndexCache(BTreeMap<IndexKind, Cache<OpenIndex>>);

impl Default for IndexCache {
    /// Four corpora stay open, and for each the vectors of two embedders, because trials of both run
    /// one after the other.
    fn default() -> Self {
        let size = |kind: IndexKind| if kind.embeds() { 8 } else { 4 };
        Self(IndexKind::ALL.iter().map(|&kind| (kind, Cache::new(size(kind)))).collect())
    }
}

/// Opens the inputs of a retrieval, with the questions' vectors. Vectors are searched exactly if no index is given.
pub(crate) async fn open_corpus(
    cx: &RunContext,
    inputs: &Outputs,
    corpus: &CorpusInputs,
    index: Option<&VectorIndexConfig>,
) -> Result<(OpenCorpus, Option<Matrix>), Error> {
    let vector_search = index.map_or(Ok(VectorSearch::Exact), |index| index.build(&Context::default()))?;
    let table = chunk_table(cx, inputs, &corpus.chunks).await?;
    let indexes = open_indexes(cx, inputs, &corpus.indexes).await?;
    if let Some(index) = index {
        connect(cx, inputs, &corpus.indexes, (index, &indexes)).await?;
    }
    let queries = decode_matrix(cx, inputs, corpus.question_vectors.filter(|id| inputs.contains_key(id))).await?;
    Ok((OpenCorpus { table, indexes, vector_search }, queries))
}

/// Opens indexes without the table of chunks.
pub(crate) async fn open_indexes(
    cx: &RunContext,
    inputs: &Outputs,
    files: &BTreeMap<IndexKind, Vec<TaskId>>,
) -> Result<Vec<Arc<OpenIndex>>, Error> {
    let mut indexes = Vec::new();
    for (&kind, files) in files {
        let names: Vec<String> = files.iter().map(|id| inputs.get(id).cloned().unwrap_or_default()).collect();
        let Some(cache) = cx.indexes.0.get(&kind) else { continue };
        indexes.push(cache.get(names.clone(), || open_index(cx, kind, names)).await?);
    }
    Ok(indexes)
}

/// Opens the connection of an index that is in a database. If its collection is missing or differs from what was written,
/// the index is set aside, and the next task fills it again.
pub(crate) async fn connect(
    cx: &RunContext,
    inputs: &Outputs,
    files: &BTreeMap<IndexKind, Vec<TaskId>>,
    (config, indexes): (&VectorIndexConfig, &[Arc<OpenIndex>]),
) -> Result<(), Error> {
    let Some(index) = indexes.iter().find_map(|index| index.get::<DatabaseIndex>()) else { return Ok(()) };
    if index.database().is_ok() {
        return Ok(());
    }
    let environment = &cx.models().model_context().environment;
    let Some(database) = config.open_database(environment)? else { return Ok(()) };
    let filled = index.filled();
    let found = retrying(SEARCH_RETRIES, || database.describe(index.place())).await.map_err(rag::Error::from)?;
    if let Some(problem) = filled.problem(found) {
        let problem = format!("{}, `{}` {problem}", filled.address, filled.collection);
        if cx.store.is_read_only() {
            return Err(Error::Unusable(format!(
                "{problem}; {} fills it again if it was promoted, otherwise {}",
                Action::Promote(None),
                Action::Run
            )));
        }
        let artifact = files.get(&IndexKind::Database).and_then(|files| inputs.get(files.first()?));
        return Err(cx.store.set_aside(artifact.map_or("", String::as_str), &problem).await.into());
    }
    index.connect(database);
    Ok(())
}

/// Opens the artifacts that form an index, from files on this machine.
async fn open_index(cx: &RunContext, kind: IndexKind, names: Vec<String>) -> Result<OpenIndex, Error> {
    let mut files: Vec<PathBuf> = Vec::with_capacity(names.len());
    for name in &names {
        let file = cx.store.local_file(name, &cx.scratch).await?;
        if !file.is_checked {
            // An older version wrote no checksum for it, but the file holds its own.
            let path = file.content.clone();
            if let Err(error) = compute(move || kind.verify(path)).await? {
                return Err(cx.store.set_aside(name, &crate::error_chain(&error)).await.into());
            }
        }
        files.push(file.content);
    }
    Ok(compute(move || kind.open(&files)).await??)
}

pub(crate) async fn chunk_table(
    cx: &RunContext,
    inputs: &Outputs,
    chunks: &[TaskId],
) -> Result<Arc<ChunkTable>, Error> {
    let names: Vec<String> = chunks.iter().map(|id| inputs.get(id).cloned().unwrap_or_default()).collect();
    let load = || async {
        if chunks.len() > SHARDS_IN_MEMORY {
            return cx.kept_tables.open(cx, inputs, chunks, &names).await;
        }
        let writer = ChunkTableWriter::checked(Vec::new());
        Ok(ChunkTable::from_bytes(write_rows::<Chunk, _>(cx, inputs, chunks, writer).await?)?)
    };
    cx.tables.get(names.clone(), load).await
}

/// What is searched in place of the chunks' texts, as a table.
pub(crate) async fn enriched_table(cx: &RunContext, inputs: &Outputs, shards: &[TaskId]) -> Result<ChunkTable, Error> {
    if shards.len() <= SHARDS_IN_MEMORY {
        let writer = ChunkTableWriter::new(Vec::new());
        return Ok(ChunkTable::from_bytes(write_rows::<EnrichedRow, _>(cx, inputs, shards, writer).await?)?);
    }
    let writer = ChunkTableWriter::new(BufWriter::new(temporary_file(&cx.scratch)?));
    let file = write_rows::<EnrichedRow, _>(cx, inputs, shards, writer).await?;
    let file = file.into_inner().map_err(|error| Error::file("write", &cx.scratch, error.into_error()))?;
    Ok(ChunkTable::map(&file)?)
}

/// Writes the rows of these shards one after the other, so that few of them are in memory at once.
async fn write_rows<R: ArtifactTable + Into<Chunk> + Send + 'static, W: Write + Send + 'static>(
    cx: &RunContext,
    inputs: &Outputs,
    shards: &[TaskId],
    mut writer: ChunkTableWriter<W>,
) -> Result<W, Error> {
    let decode = |&shard: &TaskId| decode_shard::<R>(cx, inputs, shard);
    let mut shards = stream::iter(shards).map(decode).buffered(SHARDS_AT_ONCE);
    while let Some(chunks) = shards.try_next().await? {
        let push = move || chunks.iter().try_for_each(|chunk| writer.push(chunk)).map(|()| writer);
        writer = compute(push).await??;
    }
    Ok(compute(move || writer.finish()).await??)
}

/// A file without a name, which is gone when this process ends, however it ends.
fn temporary_file(folder: &Path) -> Result<File, Error> {
    std::fs::create_dir_all(folder).map_err(|source| Error::file("create", folder, source))?;
    let path = folder.join(store::unique_token());
    let file = File::options().read(true).write(true).create_new(true).open(&path);
    let file = file.map_err(|source| Error::file("create", &path, source))?;
    std::fs::remove_file(&path).map_err(|source| Error::file("remove", &path, source))?;
    Ok(file)
}
