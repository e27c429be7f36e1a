//! Chunks to vectors.

use super::{Keys, Kind, Made, MadeOf, Making};
use crate::{
    Error,
    artifact::{self, EnrichedRow, encode_vectors},
    estimate::{Load, Sizes},
    operator::Operator,
    plan::TaskId,
    task::checkpoint,
};
use async_trait::async_trait;
use models::InputKind;
use serde::{Deserialize, Serialize};
use store::Key;

/// Embeds one shard of chunks with the named model.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Embed {
    pub(crate) model: String,
    pub(crate) chunks: TaskId,
    /// What is searched in place of the chunks' texts.
    #[serde(default)]
    pub(crate) enriched: Option<TaskId>,
}

#[async_trait]
impl Kind for Embed {
    fn operator(&self) -> Operator {
        Operator::EMBED
    }

    fn inputs(&self) -> Vec<TaskId> {
        vec![self.enriched.unwrap_or(self.chunks)]
    }

    fn key(&self, cx: &Keys<'_>) -> Key {
        cx.builder("embed", &self.inputs()).field("model", cx.identity(&self.model)).finish()
    }

    fn made_of(&self) -> MadeOf<'_> {
        MadeOf::model(&self.model)
    }

    fn asks<'a>(&'a self, sizes: &Sizes<'a>) -> Vec<(&'a str, Load)> {
        vec![(&self.model, Load::embedding(sizes.given(self.enriched.unwrap_or(self.chunks)).passage_tokens + 1))]
    }

    async fn make(&self, making: &Making<'_>) -> Result<Made, Error> {
        let texts = searchable(making, self.chunks, self.enriched).await?;
        let embedder = making.cx.models().embedder(&self.model)?;
        let begun = |count| making.expect(count);
        let rows = |count| making.made(count);
        let made =
            checkpoint::embed(making.cx, making.kept(), &embedder, &texts, InputKind::Document, begun, rows).await?;
        let bytes = texts[made.resumed..].iter().map(|text| text.len() as u64).sum();
        let (resumed, has_parts) = (made.resumed, made.has_parts);
        Ok(Made { resumed, has_parts, bytes, ..Made::of(encode_vectors(&made.matrix)?, texts.len()) })
    }
}

/// What is searched of the searchable chunks of a shard.
pub(super) async fn searchable(
    making: &Making<'_>,
    chunks: TaskId,
    enriched: Option<TaskId>,
) -> Result<Vec<String>, Error> {
    if let Some(enriched) = enriched {
        let rows: Vec<EnrichedRow> = artifact::decode(making.read(enriched).await?)?;
        return Ok(rows.into_iter().map(|row| row.text).collect());
    }
    let chunks: Vec<rag::Chunk> = artifact::decode(making.read(chunks).await?)?;
    Ok(chunks.into_iter().filter(|chunk| chunk.searchable).map(|chunk| chunk.text).collect())
}
