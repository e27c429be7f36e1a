//! Chunks to vectors.

use super::{DoWork, TaskContext, TaskOutput};
use crate::{
    Error,
    artifact::{self, EnrichedRow, encode_vectors},
    plan::{graph::TaskId, work::EmbedWork},
    task::checkpoint,
};
use async_trait::async_trait;
use models::InputKind;

#[async_trait]
impl DoWork for EmbedWork {
    async fn run(&self, cx: &TaskContext<'_>) -> Result<TaskOutput, Error> {
        let texts = searchable(cx, self.chunks, self.enriched).await?;
        let embedder = cx.run_context.models().embedder(&self.model)?;
        let (task, kind) = (cx.checkpoint_key(), InputKind::Document);
        // Checks all texts first, so that a text that is too long fails the task now and not after
        // an hour.
        embedder.check_lengths(&texts, kind).await?;
        let (begun, rows) = (|count| cx.expect_rows(count), |count| cx.report_rows(count));
        let made = checkpoint::embed(cx.run_context, task, &embedder, &texts, kind, begun, rows).await?;
        let bytes = texts[made.resumed..].iter().map(|text| text.len() as u64).sum();
        let (resumed, has_parts) = (made.resumed, made.has_parts);
        Ok(TaskOutput { resumed, has_parts, bytes, ..TaskOutput::of(encode_vectors(&made.matrix)?, texts.len()) })
    }
}

/// A text for each searchable chunk of a shard: its own, or what an enricher wrote in its place.
pub(super) async fn searchable(
    cx: &TaskContext<'_>,
    chunks: TaskId,
    enriched: Option<TaskId>,
) -> Result<Vec<String>, Error> {
    if let Some(enriched) = enriched {
        let rows: Vec<EnrichedRow> = artifact::decode(cx.read(enriched).await?)?;
        return Ok(rows.into_iter().map(|row| row.text).collect());
    }
    let chunks: Vec<rag::Chunk> = artifact::decode(cx.read(chunks).await?)?;
    Ok(chunks.into_iter().filter(|chunk| chunk.searchable).map(|chunk| chunk.text).collect())
}
