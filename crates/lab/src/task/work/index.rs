//! Texts or vectors of chunks to an index of any kind.

use super::{DoWork, TaskContext, TaskOutput};
use crate::{
    Error,
    artifact::{SHARDS_AT_ONCE, decode_vectors},
    blocking::compute,
    layout,
    plan::work::IndexWork,
    task::{
        SHARDS_IN_MEMORY, chunk_table, enriched_table,
        kept_files::{RowSource, TakenRows, row_sources},
        kept_vectors::SimilarIndex,
    },
};
use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};
use models::Matrix;
use rag::index::{CreateVectors, DenseIndex, GraphIndex, Index, IndexKind, MadeFrom, WriteTexts};
use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The most vectors that are taken from another index at once.
const ROWS_AT_ONCE: u32 = 1 << 13;

/// Vectors of a part of an index.
enum ReadVectors {
    /// Those of another index.
    Taken(TakenRows<DenseIndex>),
    /// All vectors of a shard.
    Decoded(Matrix),
}

#[async_trait]
impl DoWork for IndexWork {
    async fn run(&self, cx: &TaskContext<'_>) -> Result<TaskOutput, Error> {
        match self.kind.made_from() {
            MadeFrom::Texts(write) => self.of_texts(cx, write).await,
            MadeFrom::Vectors(create) => self.of_vectors(cx, create).await,
            MadeFrom::DenseIndex => self.of_dense_index(cx).await,
            MadeFrom::TokenVectors | MadeFrom::Records => {
                Err(Error::table(format!("{} has nothing to do", cx.task.label)))
            }
        }
    }
}

impl IndexWork {
    async fn of_texts(&self, cx: &TaskContext<'_>, write: WriteTexts) -> Result<TaskOutput, Error> {
        let analysis = self.analysis.unwrap_or_default();
        let texts = match self.enriched {
            true => Arc::new(enriched_table(cx.run_context, cx.inputs, &self.from).await?),
            false => chunk_table(cx.run_context, cx.inputs, &self.from).await?,
        };
        let count = texts.searchable().len();
        cx.expect_rows(count);
        let path = scratch_file(cx)?;
        let (target, parts) = (path.clone(), cx.run_context.scratch.join(layout::INDEX_PARTS));
        compute(move || write(&*texts, &analysis, &target, &parts)).await??;
        cx.report_rows(count);
        keep(cx, &path, count).await
    }

    /// Writes the index shard by shard into a scratch file. Of many shards, those that an earlier index has are read there.
    async fn of_vectors(&self, cx: &TaskContext<'_>, create: CreateVectors) -> Result<TaskOutput, Error> {
        let path = scratch_file(cx)?;
        let names: Vec<String> = self.from.iter().map(|id| cx.inputs.get(id).cloned().unwrap_or_default()).collect();
        let is_kept = self.kind == IndexKind::Dense && names.len() > SHARDS_IN_MEMORY;
        let kept = &cx.run_context.kept_vectors;
        let mut earlier = if is_kept { kept.find_similar(&names).await? } else { None };
        let mut written = self.write_vectors(cx, create, &path, (&names, earlier.as_ref())).await;
        if written.is_err()
            && let Some(unfit) = earlier.take()
        {
            // Its vectors may be of another length, if the same model gave others then.
            unfit.remove();
            written = self.write_vectors(cx, create, &path, (&names, None)).await;
        }
        let of_shards = written?;
        let count = of_shards.iter().map(|count| *count as usize).sum();
        if is_kept {
            kept.keep(path.clone(), names.into_iter().zip(of_shards).collect(), earlier).await?;
        }
        keep(cx, &path, count).await
    }

    /// Writes the vectors of shards with these names. Returns how many each shard has.
    async fn write_vectors(
        &self,
        cx: &TaskContext<'_>,
        create: CreateVectors,
        path: &Path,
        (names, earlier): (&[String], Option<&SimilarIndex>),
    ) -> Result<Vec<u32>, Error> {
        let read = async |source: RowSource<DenseIndex>| -> Result<ReadVectors, Error> {
            Ok(match source {
                RowSource::Taken(taken) => ReadVectors::Taken(taken),
                RowSource::Read(place) => {
                    let bytes = cx.read(self.from[place]).await?;
                    ReadVectors::Decoded(compute(move || decode_vectors(bytes)).await??)
                }
            })
        };
        let mut vectors = stream::iter(row_sources(names, earlier, ROWS_AT_ONCE)).map(read).buffered(SHARDS_AT_ONCE);
        let (mut writer, mut of_shards) = (None, Vec::with_capacity(names.len()));
        while let Some(some) = vectors.try_next().await? {
            let (columns, rows) = match &some {
                ReadVectors::Decoded(matrix) => (matrix.columns, matrix.rows()),
                ReadVectors::Taken(taken) => (taken.file.dimensions(), taken.rows.len()),
            };
            if rows > 0 && writer.is_none() {
                writer = Some(create(path, columns)?);
            }
            match (some, writer.as_mut().filter(|_| rows > 0)) {
                (ReadVectors::Decoded(matrix), writer) => {
                    of_shards.push(u32::try_from(rows).map_err(Error::table)?);
                    writer.map_or(Ok(()), |writer| writer.push(&matrix))?;
                }
                (ReadVectors::Taken(taken), writer) => {
                    of_shards.extend(taken.of_shards);
                    writer.map_or(Ok(()), |writer| writer.push_from(&taken.file, taken.rows))?;
                }
            }
            cx.report_rows(rows);
        }
        match writer {
            Some(writer) => writer.finish()?,
            None => create(path, 1)?.finish()?,
        }
        Ok(of_shards)
    }

    /// Builds a graph over the vectors of the dense index.
    async fn of_dense_index(&self, cx: &TaskContext<'_>) -> Result<TaskOutput, Error> {
        let Some(settings) = self.graph else {
            return Err(Error::table(format!("{} has no settings", cx.task.label)));
        };
        let mut files = Vec::with_capacity(self.from.len());
        for dense in &self.from {
            let name = cx.inputs.get(dense).cloned().unwrap_or_default();
            files.push(cx.run_context.store.local_file(&name, &cx.run_context.scratch).await?.content);
        }
        let path = scratch_file(cx)?;
        let (progress, operator) = (cx.progress.clone(), cx.task.operator());
        // The task may be dropped, and the thread must not go on then.
        let is_wanted = Arc::new(());
        let wanted = Arc::downgrade(&is_wanted);
        let target = path.clone();
        let built = compute(move || {
            let vectors = Arc::new(DenseIndex::open_files(&files)?);
            let mut reported = 0;
            let mut report = |done: usize| {
                progress.rows(operator, done.saturating_sub(reported));
                reported = done;
                if wanted.strong_count() == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            let built = GraphIndex::build(&vectors, settings, &target, &mut report)?;
            Ok::<_, Error>(built.map(|_| vectors.entries()))
        })
        .await??;
        drop(is_wanted);
        match built {
            Some(count) => keep(cx, &path, count).await,
            None => Err(models::Error::Cancelled.into()),
        }
    }
}

/// Where the index is written: beside its artifact if the store is a folder; otherwise where a copy of the artifact would
/// be kept.
fn scratch_file(cx: &TaskContext<'_>) -> Result<PathBuf, Error> {
    let name = cx.artifact_name();
    let path = cx.run_context.scratch.join(&name);
    let path = match cx.run_context.store.local_path(&name) {
        Some(_) => store::staged_path(&path),
        None => path,
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|source| Error::file("create", folder, source))?;
    }
    Ok(path)
}

/// Moves a written file into the store, or sends it there.
async fn keep(cx: &TaskContext<'_>, path: &Path, count: usize) -> Result<TaskOutput, Error> {
    let name = cx.artifact_name();
    match cx.run_context.store.local_path(&name) {
        Some(_) => cx.run_context.store.take_file(&name, path).await?,
        None => cx.run_context.store.put_file(&name, path).await?,
    };
    Ok(TaskOutput::written(name, count))
}

#[cfg(test)]
mod tests;
