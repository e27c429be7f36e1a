//! Chunks to what is searched in place of their texts.

use super::{DoWork, TaskContext, TaskOutput, document_of, group_failures};
use crate::{
    Error,
    artifact::{self, EnrichedRow},
    plan::work::EnrichWork,
};
use async_trait::async_trait;
use futures::{StreamExt, stream};
use rag::enrich::EnrichedText;

#[async_trait]
impl DoWork for EnrichWork {
    async fn run(&self, cx: &TaskContext<'_>) -> Result<TaskOutput, Error> {
        let documents = cx.documents(self.documents).await?;
        let chunks: Vec<rag::Chunk> = artifact::decode(cx.read(self.chunks).await?)?;
        let searchable: Vec<&rag::Chunk> = chunks.iter().filter(|chunk| chunk.searchable).collect();
        cx.expect_rows(searchable.len());
        let models = cx.models();
        let enricher = self.enricher.build(&models.context(self.embedder.as_deref()))?;
        let one = async |chunks: &[&rag::Chunk]| {
            let path = chunks.first().map_or("", |chunk| chunk.document.as_str());
            let document = document_of(&documents, path)?;
            let enriched =
                cx.note_calls(path, enricher.enrich_watched(document, chunks, &|| cx.report_rows(1))).await?;
            if enriched.len() != chunks.len() {
                let reason = format!("{path}: {} texts for {} chunks", enriched.len(), chunks.len());
                return Err(Error::table(reason));
            }
            Ok::<_, Error>(enriched)
        };
        let of_documents: Vec<_> = searchable.chunk_by(|a, b| a.document == b.document).map(one).collect();
        let tasks = cx.run_context.experiment.engine.local.tasks;
        // All calls are waited for, because they may have been paid.
        let made: Vec<Result<Vec<_>, Error>> = stream::iter(of_documents).buffered(tasks).collect().await;
        let made = made.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
        let has_failed = |one: &&EnrichedText| one.fallback.as_ref().is_some_and(|fallback| fallback.failed);
        let errors = made.iter().filter(has_failed).count();
        let failures = group_failures(
            searchable
                .iter()
                .zip(&made)
                .filter(|(_, one)| has_failed(one))
                .filter_map(|(chunk, one)| Some((chunk.document.as_str(), one.fallback.as_ref()?.reason.clone()))),
        );
        let row = |(chunk, one): (&&rag::Chunk, EnrichedText)| EnrichedRow {
            document: chunk.document.clone(),
            number: chunk.number,
            text: one.text,
            fallback: one.fallback.map(|fallback| fallback.reason),
        };
        let rows: Vec<EnrichedRow> = searchable.iter().zip(made).map(row).collect();
        Ok(TaskOutput { errors, failures, ..TaskOutput::of(artifact::encode(&rows)?, rows.len()) })
    }
}
