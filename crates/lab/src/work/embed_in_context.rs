//! Chunks to vectors that an enricher makes of their documents.

use super::{Keys, Kind, Made, MadeOf, Making, component};
use crate::{
    Error,
    artifact::{self, encode_vectors},
    estimate::{Load, Sizes},
    operator::Operator,
    plan::TaskId,
    task::checkpoint,
};
use async_trait::async_trait;
use rag::{Choice, Document, enrich::EnrichConfig};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicUsize, Ordering};
use store::Key;

/// Embeds one shard of chunks with the named model, as the enricher does it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct EmbedInContext {
    pub(crate) enricher: EnrichConfig,
    pub(crate) model: String,
    /// The documents that the chunks were cut from.
    pub(crate) documents: TaskId,
    pub(crate) chunks: TaskId,
}

#[async_trait]
impl Kind for EmbedInContext {
    fn operator(&self) -> Operator {
        Operator::EMBED
    }

    fn inputs(&self) -> Vec<TaskId> {
        vec![self.documents, self.chunks]
    }

    fn key(&self, cx: &Keys<'_>) -> Key {
        let builder = component(cx.builder("embed_in_context", &self.inputs()), &self.enricher);
        builder.field("model", cx.identity(&self.model)).finish()
    }

    fn made_of(&self) -> MadeOf<'_> {
        let words = format!("{} with {}", self.model, self.enricher.name());
        MadeOf { words, settings: self.enricher.value(), ..MadeOf::model(&self.model) }
    }

    fn asks<'a>(&'a self, sizes: &Sizes<'a>) -> Vec<(&'a str, Load)> {
        vec![(&self.model, Load::embedding(sizes.given(self.chunks).passage_tokens + 1))]
    }

    async fn make(&self, making: &Making<'_>) -> Result<Made, Error> {
        let documents = making.documents(self.documents).await?;
        let chunks: Vec<rag::Chunk> = artifact::decode(making.read(self.chunks).await?)?;
        let searchable: Vec<&rag::Chunk> = chunks.iter().filter(|chunk| chunk.searchable).collect();
        let mut shard: Vec<(&Document, &[&rag::Chunk])> = Vec::new();
        for chunks in searchable.chunk_by(|a, b| a.document == b.document) {
            let path = chunks[0].document.as_str();
            let document = documents.get(path);
            shard.push((
                document.ok_or_else(|| Error::table(format!("{path}: the document of its chunks is missing")))?,
                chunks,
            ));
        }
        let models = making.models();
        let enricher = self.enricher.build(&models.context(Some(&self.model)))?;
        let embedder = making.cx.models().embedder(&self.model)?;
        let alone = AtomicUsize::new(0);
        let embed = async |i: usize| {
            let (document, chunks) = shard[i];
            let made = enricher.vectors(document, chunks).await?;
            alone.fetch_add(made.alone, Ordering::Relaxed);
            Ok(made.matrix)
        };
        let sizes: Vec<usize> = shard.iter().map(|(_, chunks)| chunks.len()).collect();
        let begun = |count| making.expect(count);
        let rows = |count| making.made(count);
        let each = (sizes.as_slice(), embedder.concurrency());
        let mut made = checkpoint::embed_documents(making.cx, making.kept(), each, embed, begun, rows).await?;
        if made.matrix.columns == 0 {
            made.matrix.columns = embedder.dimensions();
        }
        match alone.into_inner() {
            0 => {}
            alone => {
                let enricher = self.enricher.name();
                let fields = serde_json::json!({ "task": making.task.key, "enrich": enricher, "chunks": alone });
                making.cx.log("embedded_alone", fields);
            }
        }
        let mut before = 0;
        let left = shard.iter().filter(|(_, chunks)| {
            before += chunks.len();
            before > made.resumed
        });
        let bytes = left.map(|(document, _)| document.text.len() as u64).sum();
        let (resumed, has_parts) = (made.resumed, made.has_parts);
        Ok(Made { resumed, has_parts, bytes, ..Made::of(encode_vectors(&made.matrix)?, searchable.len()) })
    }
}
