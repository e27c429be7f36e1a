//! Chunks to what is searched in place of their texts.

use super::{Keys, Kind, Made, MadeOf, Making, component};
use crate::{
    Error,
    artifact::{self, EnrichedRow},
    estimate::{Load, Sizes},
    operator::Operator,
    plan::TaskId,
};
use async_trait::async_trait;
use futures::{StreamExt, stream};
use rag::{
    Axis, Component, Item,
    enrich::{EnrichConfig, Enriched},
};
use serde::{Deserialize, Serialize};
use store::Key;

/// Writes what is searched in place of the texts of one shard of chunks.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Enrich {
    pub(crate) enricher: EnrichConfig,
    /// The trial's embedder, if the enricher needs it.
    pub(crate) embedder: Option<String>,
    /// The documents that the chunks were cut from.
    pub(crate) documents: TaskId,
    pub(crate) chunks: TaskId,
}

#[async_trait]
impl Kind for Enrich {
    fn operator(&self) -> Operator {
        Operator::Stage(Axis::Enrich)
    }

    fn inputs(&self) -> Vec<TaskId> {
        vec![self.documents, self.chunks]
    }

    fn key(&self, cx: &Keys<'_>) -> Key {
        let builder = component(cx.builder("enrich", &self.inputs()), &self.enricher);
        cx.with_models(builder, &self.enricher, self.embedder.as_deref()).finish()
    }

    fn runs_function(&self) -> bool {
        self.enricher.runs_function()
    }

    fn made_of(&self) -> MadeOf<'_> {
        MadeOf::component(&self.enricher, self.embedder.as_deref())
    }

    fn asks<'a>(&'a self, sizes: &Sizes<'a>) -> Vec<(&'a str, Load)> {
        let chunks = sizes.given(self.chunks);
        self.enricher.asks(chunks).into_iter().map(|ask| (ask.model, Load::of(&ask))).collect()
    }

    fn gives(&self, sizes: &Sizes<'_>) -> Item {
        let chunks = sizes.given(self.chunks);
        let written: u64 = self.enricher.asks(chunks).iter().map(|ask| ask.completion_tokens).sum();
        Item { passage_tokens: chunks.passage_tokens + written, ..chunks }
    }

    async fn make(&self, making: &Making<'_>) -> Result<Made, Error> {
        let documents = making.documents(self.documents).await?;
        let chunks: Vec<rag::Chunk> = artifact::decode(making.read(self.chunks).await?)?;
        let searchable: Vec<&rag::Chunk> = chunks.iter().filter(|chunk| chunk.searchable).collect();
        making.expect(searchable.len());
        let models = making.models();
        let enricher = self.enricher.build(&models.context(self.embedder.as_deref()))?;
        let one = async |chunks: &[&rag::Chunk]| {
            let path = chunks.first().map_or("", |chunk| chunk.document.as_str());
            let document = documents
                .get(path)
                .ok_or_else(|| Error::table(format!("{path}: the document of its chunks is missing")))?;
            let enriched = enricher.enrich_watched(document, chunks, &|| making.made(1)).await?;
            if enriched.len() != chunks.len() {
                let reason = format!("{path}: {} texts for {} chunks", enriched.len(), chunks.len());
                return Err(Error::table(reason));
            }
            Ok::<_, Error>(enriched)
        };
        let of_documents: Vec<_> = searchable.chunk_by(|a, b| a.document == b.document).map(one).collect();
        let tasks = making.cx.experiment.engine.local.tasks;
        // All calls are waited for, because they may have been paid.
        let made: Vec<Result<Vec<_>, Error>> = stream::iter(of_documents).buffered(tasks).collect().await;
        let made = made.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
        let has_failed = |one: &&Enriched| one.fallback.as_ref().is_some_and(|fallback| fallback.failed);
        let errors = made.iter().filter(has_failed).count();
        let row = |(chunk, one): (&&rag::Chunk, Enriched)| EnrichedRow {
            document: chunk.document.clone(),
            number: chunk.number,
            text: one.text,
            fallback: one.fallback.map(|fallback| fallback.reason),
        };
        let rows: Vec<EnrichedRow> = searchable.iter().zip(made).map(row).collect();
        Ok(Made { errors, ..Made::of(artifact::encode(&rows)?, rows.len()) })
    }
}
