//! Chunks to a BM25 index.

use super::{Keys, Kind, Made, MadeOf, Making};
use crate::{
    Error,
    layout::Format,
    operator::Operator,
    plan::TaskId,
    task::{chunk_table, compute},
};
use async_trait::async_trait;
use rag::index::{BM25_VERSION, Bm25Index};
use serde::{Deserialize, Serialize};
use store::Key;

/// Puts chunks into a BM25 index.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct IndexBm25 {
    pub(crate) chunks: Vec<TaskId>,
}

#[async_trait]
impl Kind for IndexBm25 {
    fn operator(&self) -> Operator {
        Operator::Index
    }

    fn inputs(&self) -> Vec<TaskId> {
        self.chunks.clone()
    }

    fn key(&self, cx: &Keys<'_>) -> Key {
        cx.builder("index_bm25", &self.chunks).field("version", &BM25_VERSION).finish()
    }

    fn format(&self) -> Format {
        Format::Bm25
    }

    fn made_of(&self) -> MadeOf<'_> {
        MadeOf { words: "bm25".to_owned(), ..MadeOf::default() }
    }

    async fn make(&self, making: &Making<'_>) -> Result<Made, Error> {
        let table = chunk_table(making.cx, making.inputs, &self.chunks).await?;
        making.expect(table.searchable().len());
        let (bytes, count) = compute(move || {
            let texts: Vec<&str> = table.searchable().iter().map(|&row| table.chunk(row).text.as_str()).collect();
            (Bm25Index::build(&texts).to_bytes(), texts.len())
        })
        .await?;
        making.made(count);
        Ok(Made::of(bytes, count))
    }
}
