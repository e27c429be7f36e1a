//! `enrich`: something is written beside each chunk, to be searched with it.
//!
//! The result feeds the indexes, vectors and words alike; `late_chunking` writes
//! nothing and changes how vectors are made. The passage that is shown and cited
//! stays the chunk's own text.

mod asking;

use crate::{
    AxisValue, Chunk, Component, Context, Document, Error, Models, PipelineConfig, chunk::ChunkerConfig,
    component::components, query::Fallback,
};
use async_trait::async_trait;
use models::Matrix;

components! {
    /// What is written beside chunks, and its settings.
    #[derive(schemars::JsonSchema)]
    pub enum EnrichConfig builds Box<dyn Enricher>, each crate::Component {
        None => none,
        Heading => heading,
        Contextual => contextual,
        Questions => questions,
        LateChunking => late_chunking,
    }
}

impl AxisValue for EnrichConfig {
    fn unlisted() -> Option<Self> {
        Self::nothing()
    }
}

/// What is searched in place of a chunk's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnrichedText {
    /// The text, the chunk's own included.
    pub text: String,
    /// Why it holds only the chunk, if the enricher should have added text.
    pub fallback: Option<Fallback>,
}

impl EnrichedText {
    /// The chunk alone, because its model wrote nothing that can be used.
    fn unchanged(chunk: &Chunk, reason: &str) -> Self {
        let fallback = Some(Fallback { reason: reason.to_owned(), failed: false });
        Self { text: chunk.text.clone(), fallback }
    }

    /// The chunk alone, because a model failed. Fails if the run is
    /// ending, which the kind of error says ([`models::Error::ends_work`]).
    fn after_failure(chunk: &Chunk, error: &models::Error) -> Result<Self, Error> {
        let fallback = Some(Fallback::after(error)?);
        Ok(Self { text: chunk.text.clone(), fallback })
    }
}

impl From<String> for EnrichedText {
    fn from(text: String) -> Self {
        Self { text, fallback: None }
    }
}

/// Vectors of chunks that are not those of their texts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChunkVectors {
    /// One row for each chunk, of length 1.
    pub matrix: Matrix,
    /// How many of them are vectors of the chunk's text alone, because the
    /// enricher had no other.
    pub alone: usize,
}

/// Checks whether a pipeline's enricher can make vectors with its embedder and
/// for its chunker, as far as that is possible before there are chunks.
///
/// # Errors
/// What is missing and what to do, or a model that cannot be made.
pub fn check(pipeline: &PipelineConfig, models: &dyn Models) -> Result<(), Error> {
    if !pipeline.enrich.makes_vectors() {
        return Ok(());
    }
    let cx = Context { models: Some(models), embedder: pipeline.embedder.as_deref(), ..Context::default() };
    pipeline.enrich.build(&cx)?.suits(&pipeline.chunker)
}

/// Writes what is searched in place of chunks' texts. An enricher implements one of
/// the methods [`enrich`](Self::enrich) and [`enrich_watched`](Self::enrich_watched).
///
/// An enricher whose settings name no model never waits: its future is ready
/// when it is polled first.
#[async_trait]
pub trait Enricher: Send + Sync {
    /// One text for each of these chunks of a document, in their order. Where a
    /// model fails for one chunk, that chunk keeps its own text, and the result
    /// says why.
    ///
    /// # Errors
    /// If the run is ending: a model error of the kinds of [`models::Error::ends_work`].
    async fn enrich(&self, document: &Document, chunks: &[&Chunk]) -> Result<Vec<EnrichedText>, Error> {
        self.enrich_watched(document, chunks, &|| {}).await
    }

    /// [`Enricher::enrich`] that calls `done` after each chunk. By default it is
    /// called at the end, which is soon if no model is asked.
    ///
    /// # Errors
    /// As of [`Enricher::enrich`].
    async fn enrich_watched(
        &self,
        document: &Document,
        chunks: &[&Chunk],
        done: &(dyn Fn() + Send + Sync),
    ) -> Result<Vec<EnrichedText>, Error> {
        let enriched = self.enrich(document, chunks).await?;
        enriched.iter().for_each(|_| done());
        Ok(enriched)
    }

    /// The vectors of these chunks of a document, in their order, of an enricher
    /// that [makes them](Component::makes_vectors).
    ///
    /// # Errors
    /// If the model fails, or a chunk is no part of the document's text.
    async fn vectors(&self, _: &Document, _: &[&Chunk]) -> Result<ChunkVectors, Error> {
        Err(Error::Failed { component: "enrich", reason: "it makes no vectors".to_owned() })
    }

    /// Checks that it works with the chunks of a chunker with these settings.
    ///
    /// # Errors
    /// Why not, and what to do.
    fn suits(&self, _: &ChunkerConfig) -> Result<(), Error> {
        Ok(())
    }
}

/// A chunk's text with what is written for it above.
fn above_chunk(written: &str, chunk: &Chunk) -> String {
    match written.trim() {
        "" => chunk.text.clone(),
        written => format!("{written}\n\n{}", chunk.text),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Context, chunk::ChunkerConfig, load::Format};
    use futures::FutureExt;
    use store::Key;

    /// A document with two chapters, and its chunks.
    pub(crate) fn book() -> (Document, Vec<Chunk>) {
        book_of("")
    }

    /// The same with more text in each chapter.
    pub(super) fn book_of(more: &str) -> (Document, Vec<Chunk>) {
        let text =
            format!("# Mills\n\n{more}A mill stands by the river. It is old.\n\n# Rivers\n\n{more}The river is wide.");
        let document = Document {
            path: "book.md".to_owned(),
            content: Key::of_bytes(b"book"),
            format: Format::Markdown,
            title: Some("A Book of Places".to_owned()),
            author: None,
            headings: crate::load::markdown_headings(&text),
            text,
            pages: Vec::new(),
            metadata: Default::default(),
            tables: Vec::new(),
            problems: Vec::new(),
        };
        let config: ChunkerConfig =
            serde_json::from_value(serde_json::json!({ "markdown": { "chunk_size": 64 } })).unwrap();
        let chunks = config.build(&Context::default()).unwrap().chunk_now(&document).unwrap();
        (document, chunks)
    }

    #[test]
    fn what_asks_no_model_gives_one_text_for_each_chunk_that_holds_the_chunk() {
        let (document, chunks) = book();
        let chunks: Vec<&Chunk> = chunks.iter().collect();
        assert!(chunks.len() > 1);
        for config in EnrichConfig::defaults() {
            let Ok(enricher) = config.build(&Context::default()) else { continue };
            let written = enricher.enrich(&document, &chunks).now_or_never().unwrap().unwrap();
            assert_eq!(written.len(), chunks.len(), "{}", config.name());
            for (written, chunk) in written.iter().zip(&chunks) {
                assert!(written.text.ends_with(&chunk.text), "{}: {written:?}", config.name());
            }
            assert!(enricher.enrich(&document, &[]).now_or_never().unwrap().unwrap().is_empty(), "{}", config.name());
        }
    }
}
