//! Chunks to vectors that an enricher makes from their documents.

use super::{DoWork, TaskContext, TaskOutput, document_of};
use crate::{
    Error,
    artifact::{self, encode_vectors},
    plan::work::EmbedInContextWork,
    task::checkpoint,
};
use async_trait::async_trait;
use rag::Document;
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};

#[async_trait]
impl DoWork for EmbedInContextWork {
    async fn run(&self, cx: &TaskContext<'_>) -> Result<TaskOutput, Error> {
        let documents = cx.documents(self.documents).await?;
        let chunks: Vec<rag::Chunk> = artifact::decode(cx.read(self.chunks).await?)?;
        let searchable: Vec<&rag::Chunk> = chunks.iter().filter(|chunk| chunk.searchable).collect();
        let mut shard: Vec<(&Document, &[&rag::Chunk])> = Vec::new();
        for chunks in searchable.chunk_by(|a, b| a.document == b.document) {
            let path = chunks[0].document.as_str();
            shard.push((document_of(&documents, path)?, chunks));
        }
        let models = cx.models();
        let enricher = self.enricher.build(&models.context(Some(&self.model)))?;
        let embedder = cx.run_context.models().embedder(&self.model)?;
        // Chunks with the vector of their text alone, because the enricher made none in context.
        let without_context = AtomicUsize::new(0);
        let embed = async |i: usize| {
            let (document, chunks) = shard[i];
            let made = enricher.vectors(document, chunks).await?;
            without_context.fetch_add(made.alone, Ordering::Relaxed);
            Ok(made.matrix)
        };
        let sizes: Vec<usize> = shard.iter().map(|(_, chunks)| chunks.len()).collect();
        let (begun, rows) = (|count| cx.expect_rows(count), |count| cx.report_rows(count));
        let each = (sizes.as_slice(), embedder.concurrency());
        let mut made =
            checkpoint::embed_documents(cx.run_context, cx.checkpoint_key(), each, embed, begun, rows).await?;
        if made.matrix.columns == 0 {
            made.matrix.columns = embedder.dimensions();
        }
        let without_context = without_context.into_inner();
        if without_context > 0 {
            let enricher = self.enricher.name();
            cx.run_context
                .log("embedded_alone", json!({ "task": cx.task.key, "enrich": enricher, "chunks": without_context }));
        }
        let mut before = 0;
        let left = shard.iter().filter(|(_, chunks)| {
            before += chunks.len();
            before > made.resumed
        });
        let bytes = left.map(|(document, _)| document.text.len() as u64).sum();
        let (resumed, has_parts) = (made.resumed, made.has_parts);
        Ok(TaskOutput { resumed, has_parts, bytes, ..TaskOutput::of(encode_vectors(&made.matrix)?, searchable.len()) })
    }
}
