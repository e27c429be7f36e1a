//! `late_chunking`: a chunk's vector is made of the vectors that its tokens
//! have in the whole document, so that it knows what stands around the chunk.
//!
//! The whole document is embedded first and cut afterwards: a chunk's vector
//! is the mean of its tokens' vectors, of length 1 like all others. So a chunk
//! that says "the city" is found by the name that stands a page before it. Only
//! vectors change: words are searched as they are, the token vectors of
//! `late_interaction` are those of the chunk alone, and what is shown and cited
//! stays the chunk's own text.
//!
//! When to use it: for running text whose chunks lean on each other (reports,
//! articles, transcripts), with an embedder of a long window. The paper saw
//! NDCG@10 rise by 1.5 to 1.9 points in the mean of four BEIR data sets, more
//! the longer the documents and the smaller the chunks. It does not pay for
//! documents as short as a chunk or two, nor for chunks of a thousand tokens and
//! more. It harms where a question asks for one place in a text about something
//! else, because chunks of a document come to look alike: a comparison found it
//! better for finding the document and worse for finding the place in it (Zhou
//! et al., 2026, arXiv 2602.16974). `contextual` brings back more of what is not
//! said nearby, for a call to a chat model for each chunk (Merola and Singh,
//! 2025, arXiv 2504.19754).
//!
//! Cost: the document's tokens are embedded once, and those that two windows
//! share twice; no call to a chat model. But a token in a window of 8,192 looks
//! at as many others, so that embedding takes several times as long as of small
//! chunks, and 3 GB of memory for twelve heads of attention, in each ONNX session;
//! the model's `max_tokens` makes the window shorter. An interrupted run begins
//! an unfinished document again.
//!
//! A document that is longer than the window is read in windows that share
//! `overlap` tokens, and each chunk is taken from the window in which most
//! stands around it. A chunk that lies in no window as a whole, since it is
//! longer than `overlap`, is read from two: each of its tokens once, from the
//! window in which it stands farther from the end. So `overlap` is best as large
//! as a chunk. The model's setting `long_texts` applies to questions only, because
//! documents are never cut.
//!
//! It needs an embedder of this process that pools by the mean and reads
//! much more than a chunk; `plan` and `run` refuse others: endpoints, which give
//! no vectors of tokens; `static` models, whose words know no surroundings; models
//! that pool by the first token; windows below `least_window`; chunks of more
//! than half the window. The embedding models that `reverie models` lists have
//! windows of 128 and 256 tokens, so name one of your own: a folder or a
//! repository (`hf:…`) with an ONNX file, such as jina-embeddings-v2 or
//! nomic-embed-text-v1.5 (with its `document_prefix`, which every window
//! repeats).
//!
//! A chunk that holds no token for the model (nothing but characters that it
//! drops) has the vector of its text alone, and the run's event log counts
//! such chunks. A chunk whose text is not the document's text at its place ends
//! its task with an error.
//! A trial that searches no vectors is the same with and without it.
//! Source: Günther et al., Late Chunking: Contextual Chunk Embeddings Using
//! Long-Context Embedding Models, 2024, arXiv 2409.04701, with its "long late
//! chunking" for documents beyond the window. Differences: special tokens and
//! prefixes count in no chunk; the last window is as long as the others.

use super::{ChunkVectors, EnrichedText, Enricher};
use crate::{
    Chunk, Component, Context, Document, Error,
    chunk::ChunkerConfig,
    component::{ensure, settings},
};
use async_trait::async_trait;
use models::{Embedder, InputKind, Matrix};
use std::ops::Range;

pub(super) const VERSION: u32 = 1;
const NAME: &str = "enrich late_chunking";
/// Advice if the embedder is refused.
const INSTEAD: &str = "take an embedder of this process that pools by the mean and reads long texts, such as an ONNX \
    file of jina-embeddings-v2 or nomic-embed-text-v1.5; or another enricher, such as `heading` or `contextual`";

settings! {
    /// Settings of `late_chunking`.
    pub struct Config {
        /// How many tokens two windows of a long document share, at most half of
        /// the embedder's window. Default 256.
        pub overlap: usize = 256,
        /// The least tokens that the embedder must read at a time; an embedder with
        /// a shorter window is refused. Default 1024.
        pub least_window: usize = 1024,
    }
}

impl Component for Config {
    fn needs_embedder(&self) -> bool {
        true
    }

    fn makes_vectors(&self) -> bool {
        true
    }

    fn settings_outside_key(&self) -> &'static [&'static str] {
        &["least_window"]
    }
}

impl Config {
    pub(super) fn build(&self, cx: &Context<'_>) -> Result<Box<dyn Enricher>, Error> {
        let least = self.least_window;
        ensure(NAME, least >= 16, format!("`least_window` is {least}, but must be at least 16"))?;
        let embedder = cx.embedder(NAME)?;
        let refused = |error: models::Error| Error::Config { component: NAME, reason: format!("{error}; {INSTEAD}") };
        let window = embedder.window().map_err(refused)?;
        let model = &embedder.identity().model;
        let reason = format!(
            "{model} reads {window} tokens at a time, so a chunk's vector could know no more of its document than \
             that, and `least_window` is {least}: {INSTEAD}; or lower `least_window`"
        );
        ensure(NAME, window >= least, reason)?;
        let (overlap, half) = (self.overlap, window / 2);
        let reason =
            format!("`overlap` is {overlap}, but windows of {model} have {window} tokens: make it at most {half}");
        ensure(NAME, overlap <= half, reason)?;
        Ok(Box::new(LateChunking { embedder, window, overlap }))
    }
}

struct LateChunking {
    embedder: Embedder,
    window: usize,
    overlap: usize,
}

#[async_trait]
impl Enricher for LateChunking {
    async fn enrich(&self, _: &Document, chunks: &[&Chunk]) -> Result<Vec<EnrichedText>, Error> {
        Ok(chunks.iter().map(|chunk| chunk.text.clone().into()).collect())
    }

    fn suits(&self, chunker: &ChunkerConfig) -> Result<(), Error> {
        let (name, model, window) = (chunker.name(), &self.embedder.identity().model, self.window);
        let (size, half) = (chunker.chunk_size().unwrap_or_default(), window / 2);
        let reason = format!(
            "chunks of `{name}` have up to {size} tokens, and {model} reads {window} at a time, so little would stand \
             around a chunk: make chunks of at most {half} tokens, or take an embedder with a longer window"
        );
        ensure(NAME, size <= half, reason)
    }

    async fn vectors(&self, document: &Document, chunks: &[&Chunk]) -> Result<ChunkVectors, Error> {
        let parts = chunks.iter().map(|chunk| place(document, chunk)).collect::<Result<Vec<_>, _>>()?;
        let found = self.embedder.embed_parts(&document.text, &parts, self.overlap).await?;
        let without = chunks.iter().zip(&found).filter(|(_, vector)| vector.is_none());
        let without: Vec<String> = without.map(|(chunk, _)| chunk.text.clone()).collect();
        let alone = self.embedder.embed(&without, InputKind::Document).await?;
        let mut rest = alone.iter();
        let data = found.iter().flat_map(|vector| match vector {
            Some(vector) => vector.as_slice(),
            None => rest.next().unwrap_or_default(),
        });
        let matrix = Matrix { columns: self.embedder.dimensions(), data: data.copied().collect() };
        Ok(ChunkVectors { matrix, alone: without.len() })
    }
}

/// Where a chunk lies in its document's text.
fn place(document: &Document, chunk: &Chunk) -> Result<Range<usize>, Error> {
    let place = chunk.span.start..chunk.span.end;
    if document.text.get(place.clone()) == Some(chunk.text.as_str()) {
        return Ok(place);
    }
    let reason = format!(
        "{}: the text of chunk {} is not what stands at its place in the document ({} to {}), so it has no tokens \
         there: take a chunker that cuts the document's text, or another enricher",
        document.path, chunk.number, place.start, place.end
    );
    Err(Error::Failed { component: NAME, reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        NamedModels,
        enrich::{
            check,
            tests::{book, book_of},
        },
    };
    use futures::FutureExt;
    use models::{Client, CpuBudget, EmbeddingConfig, ModelDirectory, provider, testing::write_small_bert};
    use serde_json::json;
    use std::{path::PathBuf, sync::Arc};

    const WORDS: [&str; 9] = ["mills", "a", "mill", "stands", "by", "the", "river", "is", "old"];

    /// A small BERT with a window of 40 tokens and these settings, and its folder.
    fn models(settings: serde_json::Value) -> Option<(NamedModels, tempfile::TempDir)> {
        let folder = tempfile::tempdir().unwrap();
        write_small_bert(folder.path(), &WORDS).unwrap();
        let libraries = std::env::var_os("REVERIE_TEST_LIBRARIES").map(PathBuf::from);
        let directory = ModelDirectory::new(folder.path().join("models"), libraries.into_iter().collect());
        let cx = provider::ModelContext { directory, cpu: CpuBudget::new(2), environment: Arc::new(|_| None) };
        let mut local = json!({ "model": folder.path() });
        local.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        let config: EmbeddingConfig = serde_json::from_value(json!({ "local": local })).unwrap();
        match config.build(&cx) {
            Ok(model) => {
                let embedder = Client::new(None).embedder(model);
                let embedders = [("bert".to_owned(), embedder)].into();
                Some((NamedModels { embedders, ..NamedModels::default() }, folder))
            }
            Err(models::Error::NotHere { model, .. }) => {
                skips::skip(&format!("{model} is not here"));
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn built(models: &NamedModels, config: &Config) -> Result<Box<dyn Enricher>, Error> {
        config.build(&Context { models: Some(models), embedder: Some("bert"), ..Context::default() })
    }

    const SMALL: Config = Config { overlap: 8, least_window: 16 };

    #[tokio::test]
    async fn a_vector_depends_on_the_document_and_the_text_stays_as_it_is() {
        let Some((models, _folder)) = models(json!({ "quantization": "none" })) else { return };
        let enricher = built(&models, &SMALL).unwrap();
        let (document, chunks) = book();
        let chunks: Vec<&Chunk> = chunks.iter().collect();
        let made = enricher.vectors(&document, &chunks).await.unwrap();
        assert_eq!((made.matrix.rows(), made.alone), (chunks.len(), 0));
        assert!(made.matrix.iter().all(|row| (row.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-5));
        let texts: Vec<String> = chunks.iter().map(|chunk| chunk.text.clone()).collect();
        let enriched = enricher.enrich(&document, &chunks).now_or_never().unwrap().unwrap();
        assert_eq!(enriched.iter().map(|one| &one.text).collect::<Vec<_>>(), texts.iter().collect::<Vec<_>>());
        // The same chunk behind other words.
        let before = "River by river. ";
        let moved = Document { text: format!("{before}{}", document.text), ..document.clone() };
        let mut last = (*chunks.last().unwrap()).clone();
        (last.span.start, last.span.end) = (last.span.start + before.len(), last.span.end + before.len());
        let other = enricher.vectors(&moved, &[&last]).await.unwrap();
        let same = made.matrix.row(chunks.len() - 1);
        assert!(other.matrix.row(0).iter().zip(same).any(|(a, b)| (a - b).abs() > 1e-4));
    }

    #[tokio::test]
    async fn a_chunk_without_tokens_has_the_vector_of_its_text_and_one_of_another_text_is_an_error() {
        let Some((models, _folder)) = models(json!({})) else { return };
        let enricher = built(&models, &SMALL).unwrap();
        let (document, chunks) = book_of(&"The river is old. ".repeat(6));
        let document = Document { text: format!("{}\u{2003}\u{2003}", document.text), ..document };
        let mut blank = chunks[0].clone();
        blank.span = crate::Span { start: document.text.len() - 6, end: document.text.len() };
        blank.text = "\u{2003}\u{2003}".to_owned();
        let made = enricher.vectors(&document, &[&chunks[0], &blank]).await.unwrap();
        assert_eq!((made.matrix.rows(), made.alone), (2, 1));
        let alone = models.embedders["bert"].embed(&[blank.text.clone()], InputKind::Document).await.unwrap();
        assert_eq!(made.matrix.row(1), alone.row(0));
        let other = Chunk { text: "Something else.".to_owned(), ..chunks[0].clone() };
        let error = enricher.vectors(&document, &[&other]).await.unwrap_err().to_string();
        assert!(error.contains("book.md") && error.contains("another enricher"), "{error}");
    }

    #[test]
    fn an_embedder_that_cannot_do_it_is_refused_with_the_reason() {
        let refused = |settings: serde_json::Value, config: &Config| {
            let (models, _folder) = models(settings)?;
            Some(built(&models, config).err().unwrap().to_string())
        };
        let Some(short) = refused(json!({}), &Config::default()) else { return };
        assert!(short.contains("reads 40 tokens at a time") && short.contains("lower `least_window`"), "{short}");
        let first = refused(json!({ "pooling": "cls" }), &SMALL).unwrap();
        assert!(first.contains("pools by the first token") && first.contains("pools by the mean"), "{first}");
        let wide = refused(json!({}), &Config { overlap: 21, ..SMALL }).unwrap();
        assert!(wide.contains("at most 20"), "{wide}");
        assert!(matches!(Config { least_window: 0, ..SMALL }.build(&Context::default()), Err(Error::Config { .. })));
    }

    #[test]
    fn chunks_of_more_than_half_the_window_are_refused() {
        let Some((models, _folder)) = models(json!({})) else { return };
        let checked = |chunker: serde_json::Value| {
            let pipeline = json!({
                "chunker": chunker, "enrich": { "late_chunking": SMALL }, "embedder": "bert", "retriever": { "dense": {} },
            });
            check(&serde_json::from_value(pipeline).unwrap(), &models)
        };
        let error = checked(json!({ "sentence": { "chunk_size": 21 } })).unwrap_err().to_string();
        assert!(error.contains("up to 21 tokens") && error.contains("at most 20"), "{error}");
        checked(json!({ "sentence": { "chunk_size": 20 } })).unwrap();
        checked(json!({ "hierarchical": { "chunk_sizes": [256, 16] } })).unwrap();
        assert!(checked(json!({ "semantic": {} })).is_err());
        checked(json!({ "sentence_window": {} })).unwrap();
    }
}
