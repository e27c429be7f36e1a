//! Documents to chunks.

use super::{Keys, Kind, Made, MadeOf, Making, component};
use crate::{
    Error,
    artifact::{self, DocumentRow},
    estimate::{Load, Sizes},
    operator::Operator,
    plan::TaskId,
    task::compute,
};
use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};
use rag::{
    Component, Document, Item,
    chunk::ChunkerConfig,
    python::{caller, computing_for},
};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use store::Key;

/// Cuts one shard of documents.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Chunk {
    pub(crate) chunker: ChunkerConfig,
    /// The trial's embedder, if the chunker needs it.
    pub(crate) embedder: Option<String>,
    pub(crate) documents: TaskId,
}

impl Chunk {
    /// Whether cutting a document waits for a model.
    fn waits(&self) -> bool {
        self.embedder.is_some() || !self.chunker.models().is_empty()
    }
}

#[async_trait]
impl Kind for Chunk {
    fn operator(&self) -> Operator {
        Operator::CHUNK
    }

    fn inputs(&self) -> Vec<TaskId> {
        vec![self.documents]
    }

    fn key(&self, cx: &Keys<'_>) -> Key {
        let builder = component(cx.builder("chunk", &[self.documents]), &self.chunker);
        cx.with_models(builder, &self.chunker, self.embedder.as_deref()).finish()
    }

    fn runs_function(&self) -> bool {
        self.chunker.runs_function()
    }

    fn calls_models(&self) -> bool {
        self.embedder.is_some() || !self.chunker.models().is_empty()
    }

    fn made_of(&self) -> MadeOf<'_> {
        MadeOf::component(&self.chunker, self.embedder.as_deref())
    }

    fn asks<'a>(&'a self, sizes: &Sizes<'a>) -> Vec<(&'a str, Load)> {
        self.chunker.asks(sizes.shard()).into_iter().map(|ask| (ask.model, Load::of(&ask))).collect()
    }

    fn gives(&self, sizes: &Sizes<'_>) -> Item {
        self.chunker.cuts(sizes.shard())
    }

    async fn make(&self, making: &Making<'_>) -> Result<Made, Error> {
        let rows: Vec<DocumentRow> = artifact::decode(making.read(self.documents).await?)?;
        let documents: Vec<Document> = rows
            .into_iter()
            .filter_map(|row| match row {
                DocumentRow::Document(document) => Some(document),
                DocumentRow::Rejected(_) => None,
            })
            .collect();
        let bytes = documents.iter().map(|document| document.text.len() as u64).sum();
        let models = making.models();
        let chunker = self.chunker.build(&models.context(self.embedder.as_deref()))?;
        let (progress, operator) = (making.progress.clone(), self.operator());
        let chunks: Vec<rag::Chunk> = if self.waits() {
            let cut: Vec<_> = documents.iter().map(|document| chunker.chunk(document)).collect();
            let tasks = making.cx.experiment.engine.local.tasks;
            let each = stream::iter(cut).buffered(tasks).inspect_ok(|chunks| progress.rows(operator, chunks.len()));
            // All calls are waited for, because they may have been paid.
            let cut: Vec<Result<Vec<rag::Chunk>, rag::Error>> = each.collect().await;
            let mut cut = cut.into_iter().collect::<Result<Vec<_>, _>>()?;
            for (chunks, document) in cut.iter_mut().zip(&documents) {
                chunks.iter_mut().for_each(|chunk| chunk.take_space(&document.text));
            }
            cut.concat()
        } else {
            let caller = caller();
            compute(move || {
                let per_document = documents.par_iter().map(|document| {
                    let mut chunks = computing_for(&caller, || chunker.chunk_now(document))?;
                    chunks.iter_mut().for_each(|chunk| chunk.take_space(&document.text));
                    progress.rows(operator, chunks.len());
                    Ok::<_, rag::Error>(chunks)
                });
                let per_document = per_document.collect::<Result<Vec<_>, _>>();
                // The chunks are moved and not copied: those of a large book take most of
                // its memory.
                per_document.map(|chunks| chunks.into_iter().flatten().collect())
            })
            .await??
        };
        Ok(Made { bytes, ..Made::of(artifact::encode(&chunks)?, chunks.len()) })
    }
}
