//! Documents to chunks.

use super::{DoWork, TaskContext, TaskOutput};
use crate::{
    Error,
    artifact::{self, DocumentRow},
    blocking::compute,
    plan::work::{ChunkWork, DescribeWork},
};
use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};
use rag::{
    Document,
    python::{caller, on_behalf_of_blocking},
};
use rayon::prelude::*;

#[async_trait]
impl DoWork for ChunkWork {
    async fn run(&self, cx: &TaskContext<'_>) -> Result<TaskOutput, Error> {
        let rows: Vec<DocumentRow> = artifact::decode(cx.read(self.documents).await?)?;
        let documents: Vec<Document> = rows.into_iter().filter_map(DocumentRow::into_document).collect();
        let bytes = documents.iter().map(|document| document.text.len() as u64).sum();
        let models = cx.models();
        let chunker = self.chunker.build(&models.context(self.embedder.as_deref()))?;
        let (progress, operator) = (cx.progress.clone(), cx.task.operator());
        // `counts_in_price` is true if the chunker calls models.
        let chunks: Vec<rag::Chunk> = if self.counts_in_price() {
            let cut: Vec<_> =
                documents.iter().map(|document| cx.note_calls(&document.path, chunker.chunk(document))).collect();
            let tasks = cx.run_context.experiment.engine.local.tasks;
            let each = stream::iter(cut).buffered(tasks).inspect_ok(|chunks| progress.rows(operator, chunks.len()));
            // All calls are waited for, because they may have been paid.
            let cut: Vec<Result<Vec<rag::Chunk>, rag::Error>> = each.collect().await;
            let mut cut = cut.into_iter().collect::<Result<Vec<_>, _>>()?;
            // `take_space` copies the white space after each chunk from the document's text.
            for (chunks, document) in cut.iter_mut().zip(&documents) {
                chunks.iter_mut().for_each(|chunk| chunk.take_space(&document.text));
            }
            cut.concat()
        } else {
            let caller = caller();
            compute(move || {
                let per_document = documents.par_iter().map(|document| {
                    let mut chunks = on_behalf_of_blocking(&caller, || chunker.chunk_now(document))?;
                    chunks.iter_mut().for_each(|chunk| chunk.take_space(&document.text));
                    progress.rows(operator, chunks.len());
                    Ok::<_, rag::Error>(chunks)
                });
                let per_document = per_document.collect::<Result<Vec<_>, _>>();
                // The chunks are moved and not copied: those of a large book take most of
                // the task's memory.
                per_document.map(|chunks| chunks.into_iter().flatten().collect())
            })
            .await??
        };
        Ok(TaskOutput { bytes, ..TaskOutput::of(artifact::encode(&chunks)?, chunks.len()) })
    }
}
