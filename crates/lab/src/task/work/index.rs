//! Texts or vectors of chunks to an index of any kind.

use super::{DoWork, TaskContext, TaskOutput};
use crate::{
    Error,
    artifact::{self, EnrichedRow, decode_vectors},
    blocking::compute,
    plan::work::IndexWork,
    task::chunk_table,
};
use async_trait::async_trait;
use rag::index::{CreateVectors, IndexedTexts, MadeFrom, document_starts};

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
    async fn of_texts(
        &self,
        cx: &TaskContext<'_>,
        build: fn(&IndexedTexts<'_>) -> Vec<u8>,
    ) -> Result<TaskOutput, Error> {
        let analysis = self.analysis.unwrap_or_default();
        let build = move |rows: &[(&str, &str)]| {
            let texts: Vec<&str> = rows.iter().map(|(_, text)| *text).collect();
            let documents = document_starts(rows.iter().map(|(document, _)| *document));
            (build(&IndexedTexts { texts: &texts, documents: &documents, analysis: &analysis }), texts.len())
        };
        let (bytes, count) = if self.enriched {
            let mut enriched: Vec<EnrichedRow> = Vec::new();
            for &shard in &self.from {
                enriched.extend(artifact::decode::<EnrichedRow>(cx.read(shard).await?)?);
            }
            compute(move || {
                let rows = enriched.iter().map(|row| (row.document.as_str(), row.text.as_str()));
                build(&rows.collect::<Vec<_>>())
            })
            .await?
        } else {
            let table = chunk_table(cx.run_context, cx.inputs, &self.from).await?;
            cx.expect_rows(table.searchable().len());
            compute(move || {
                let chunks = table.searchable().iter().map(|&row| table.chunk(row));
                build(&chunks.map(|chunk| (chunk.document.as_str(), chunk.text.as_str())).collect::<Vec<_>>())
            })
            .await?
        };
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
