//! Texts or vectors of chunks to an index of any kind.

use super::{DoWork, TaskContext, TaskOutput, embed::searchable};
use crate::{Error, artifact::decode_vectors, blocking::compute, plan::work::IndexWork, task::chunk_table};
use async_trait::async_trait;
use rag::index::{CreateVectors, MadeFrom};

#[async_trait]
impl DoWork for IndexWork {
    async fn run(&self, cx: &TaskContext<'_>) -> Result<TaskOutput, Error> {
        match self.kind.made_from() {
            MadeFrom::Texts(build) => self.of_texts(cx, build).await,
            MadeFrom::Vectors(create) => self.of_vectors(cx, create).await,
            MadeFrom::TokenVectors => Err(Error::table(format!("{} has nothing to do", cx.task.label))),
        }
    }
}

impl IndexWork {
    async fn of_texts(&self, cx: &TaskContext<'_>, build: fn(&[&str]) -> Vec<u8>) -> Result<TaskOutput, Error> {
        if self.enriched {
            let mut texts = Vec::new();
            for &shard in &self.from {
                texts.extend(searchable(cx, shard, Some(shard)).await?);
            }
            let count = texts.len();
            let bytes = compute(move || build(&texts.iter().map(String::as_str).collect::<Vec<_>>())).await?;
            cx.report_rows(count);
            return Ok(TaskOutput::of(bytes, count));
        }
        let table = chunk_table(cx.run_context, cx.inputs, &self.from).await?;
        cx.expect_rows(table.searchable().len());
        let (bytes, count) = compute(move || {
            let texts: Vec<&str> = table.searchable().iter().map(|&row| table.chunk(row).text.as_str()).collect();
            (build(&texts), texts.len())
        })
        .await?;
        cx.report_rows(count);
        Ok(TaskOutput::of(bytes, count))
    }

    /// Writes the index shard by shard into a scratch file. If the store is a
    /// folder, the file is moved there; otherwise it is sent there.
    async fn of_vectors(&self, cx: &TaskContext<'_>, create: CreateVectors) -> Result<TaskOutput, Error> {
        let name = cx.artifact_name();
        let is_local = cx.run_context.store.local_path(&name).is_some();
        // If the store is not a folder, this file is also the local copy that
        // would be fetched later.
        let path = cx.run_context.scratch.join(&name);
        let path = if is_local { store::staged_path(&path) } else { path };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|source| Error::file("create", folder, source))?;
        }
        let mut writer = None;
        let mut count = 0;
        for &shard in &self.from {
            let matrix = decode_vectors(cx.read(shard).await?)?;
            if matrix.rows() == 0 {
                continue;
            }
            count += matrix.rows();
            if writer.is_none() {
                writer = Some(create(&path, matrix.columns)?);
            }
            if let Some(writer) = &mut writer {
                writer.push(&matrix)?;
            }
            cx.report_rows(matrix.rows());
        }
        match writer {
            Some(writer) => writer.finish()?,
            None => create(&path, 1)?.finish()?,
        }
        match is_local {
            true => cx.run_context.store.take_file(&name, &path).await?,
            false => cx.run_context.store.put_file(&name, &path).await?,
        };
        Ok(TaskOutput::written(name, count))
    }
}
