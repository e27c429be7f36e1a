//! A sample of the documents, from which a plan estimates tokens and chunks without reading everything twice.
//!
//! The sample has at most 64 documents at equal distances, and the first 16 KiB of each: 1 MiB in all. A corpus within
//! these limits is measured as a whole. Each chunker that needs no model and no function cuts the sample once. Each
//! model's tokenizer counts 2 KiB of each document.

use super::even_sample::sample_step;
use crate::plan::text_sizes::{ChunkSizes, TextSizes, TokenRatio};
use models::ModelTokenizer;
use rag::{
    Component, Context, Document,
    chunk::{ChunkerConfig, TokenCounter},
};

/// The most documents of a sample.
const DOCUMENTS: usize = 64;
/// The most bytes of a document that are kept.
const BEGINNING: usize = 16 << 10;
/// The most bytes of a document or a question that each tokenizer counts.
const COUNTED: usize = 2 << 10;
/// The most questions that each tokenizer counts.
const QUESTIONS: usize = 64;

/// A sample of the documents of a corpus.
#[derive(Debug, Default)]
pub(crate) struct TextSample {
    documents: Vec<SampledDocument>,
    /// One document of so many is in the sample.
    step: usize,
    /// The bytes of all documents, inside and outside the sample.
    bytes: usize,
}

/// A document of the sample.
#[derive(Debug)]
struct SampledDocument {
    /// The document with the beginning of its text.
    beginning: Document,
    /// The bytes of its whole text.
    bytes: usize,
}

impl SampledDocument {
    fn of(document: &Document) -> Self {
        let end = document.text.floor_char_boundary(BEGINNING);
        let mut beginning = document.clone();
        beginning.text.truncate(end);
        beginning.text.shrink_to_fit();
        beginning.pages.retain(|page| page.span.end <= end);
        beginning.headings.retain(|heading| heading.start < end);
        Self { beginning, bytes: document.text.len() }
    }

    fn is_cut(&self) -> bool {
        self.beginning.text.len() < self.bytes
    }
}

impl TextSample {
    /// An empty sample for a corpus of so many documents and bytes of text.
    pub(crate) fn new(documents: usize, bytes: usize) -> Self {
        Self { documents: Vec::new(), step: sample_step(documents, DOCUMENTS), bytes }
    }

    /// Whether the document at a place in the corpus is in the sample.
    pub(crate) fn takes(&self, place: usize) -> bool {
        place.is_multiple_of(self.step)
    }

    /// Looks at the document at a place in the corpus. Those of the sample are looked at in their order.
    pub(crate) fn visit(&mut self, place: usize, document: &Document) {
        if self.takes(place) {
            self.documents.push(SampledDocument::of(document));
        }
    }

    /// Measures the documents, the chunks of these chunkers, and how these models count tokens.
    pub(crate) fn measure<'a>(
        &self,
        chunkers: impl IntoIterator<Item = &'a ChunkerConfig>,
        questions: &[String],
        models: impl IntoIterator<Item = (String, &'a ModelTokenizer)>,
    ) -> TextSizes {
        let counter = TokenCounter::shared();
        let counted: usize = self.documents.iter().map(|document| counter.count(&document.beginning.text)).sum();
        let read: usize = self.documents.iter().map(|document| document.beginning.text.len()).sum();
        let density = counted as f64 / read.max(1) as f64;
        let chunks = chunkers.into_iter().filter_map(|chunker| Some((chunker.clone(), self.chunk_sizes(chunker)?)));
        let texts = self.documents.iter().map(|document| middle(&document.beginning.text));
        let (documents, questions) =
            (CountedTexts::new(texts), CountedTexts::new(questions.iter().take(QUESTIONS).map(|text| middle(text))));
        let ratio = |model: &ModelTokenizer| TokenRatio {
            documents: documents.ratio(model),
            questions: questions.ratio(model),
            added: model.added as u64,
            longest: u64::try_from(model.max_tokens).unwrap_or(u64::MAX),
        };
        TextSizes {
            document_tokens: (density * self.bytes as f64).round() as u64,
            models: models.into_iter().map(|(name, model)| (name, ratio(model))).collect(),
            chunks: chunks.collect(),
        }
    }

    /// The searchable chunks of a chunker, each with the number of chunks of the corpus that it stands for. None if the
    /// chunker needs a model or a function, if it fails, or if a chunk is as long as the kept text of its document.
    fn chunk_sizes(&self, chunker: &ChunkerConfig) -> Option<ChunkSizes> {
        if chunker.runs_function() || chunker.needs_embedder() || !chunker.models().is_empty() {
            return None;
        }
        let chunker = chunker.build(&Context::default()).ok()?;
        let sampled: usize = self.documents.iter().map(|document| document.bytes).sum();
        let weight = self.bytes as f64 / sampled.max(1) as f64;
        let mut sample = Vec::new();
        for document in self.documents.iter().filter(|document| document.bytes > 0) {
            let mut chunks = chunker.chunk_now(&document.beginning).ok()?;
            chunks.retain(|chunk| chunk.searchable);
            let mut covered = document.bytes;
            if document.is_cut() {
                // The last chunk is cut short, so it is left out. The chunks before it stand for the rest of the
                // document too.
                covered = chunks.pop()?.span.start;
                if chunks.is_empty() || covered == 0 {
                    return None;
                }
            }
            let weight = weight * document.bytes as f64 / covered as f64;
            let tokens = |text: &str| u32::try_from(TokenCounter::shared().count(text)).unwrap_or(u32::MAX);
            sample.extend(chunks.iter().map(|chunk| (tokens(&chunk.text), weight)));
        }
        Some(ChunkSizes { sample })
    }
}

/// Texts that each model's tokenizer counts.
struct CountedTexts<'a> {
    texts: Vec<&'a str>,
    /// Their tokens of `cl100k_base`.
    tokens: usize,
}

impl<'a> CountedTexts<'a> {
    fn new(texts: impl Iterator<Item = &'a str>) -> Self {
        let texts: Vec<&str> = texts.collect();
        let tokens = texts.iter().map(|text| TokenCounter::shared().count(text)).sum();
        Self { texts, tokens }
    }

    /// A model's tokens for each token of `cl100k_base`; 1 if there is no text.
    fn ratio(&self, model: &ModelTokenizer) -> f64 {
        let own: usize = self.texts.iter().map(|text| model.count(text)).sum();
        if own == 0 || self.tokens == 0 { 1.0 } else { own as f64 / self.tokens as f64 }
    }
}

/// The middle of a text. Its beginning is not typical: it may be a title or a menu.
fn middle(text: &str) -> &str {
    let start = text.ceil_char_boundary(text.len().saturating_sub(COUNTED) / 2);
    &text[start..text.floor_char_boundary(start + COUNTED)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use rag::Format;
    use serde_json::json;
    use store::Key;

    const SENTENCE: &str = "The old mill stands by the river. ";
    const CHINESE: &str = "水车在河边，已经有两百年的历史了。";

    fn document(text: String) -> Document {
        let (path, content) = ("a.txt".to_owned(), Key::of_bytes(text.as_bytes()));
        let (pages, headings) = (Vec::new(), Vec::new());
        let format = serde_json::from_value::<Format>(json!("text")).unwrap();
        Document {
            path,
            content,
            format,
            title: None,
            author: None,
            text,
            pages,
            headings,
            metadata: Default::default(),
        }
    }

    fn sample(texts: impl IntoIterator<Item = String>) -> TextSample {
        let documents: Vec<Document> = texts.into_iter().map(document).collect();
        let mut sample = TextSample::new(documents.len(), documents.iter().map(|it| it.text.len()).sum());
        documents.iter().enumerate().for_each(|(place, document)| sample.visit(place, document));
        sample
    }

    fn chunker(size: u32, overlap: u32) -> ChunkerConfig {
        serde_json::from_value(json!({ "sentence": { "chunk_size": size, "chunk_overlap": overlap } })).unwrap()
    }

    /// The number of chunks that the chunker makes of all texts, and their tokens.
    fn real(chunker: &ChunkerConfig, texts: &[String]) -> (f64, f64) {
        let built = chunker.build(&Context::default()).unwrap();
        let chunks = texts.iter().flat_map(|text| built.chunk_now(&document(text.clone())).unwrap());
        let sizes: Vec<usize> = chunks.map(|chunk| TokenCounter::shared().count(&chunk.text)).collect();
        (sizes.len() as f64, sizes.iter().sum::<usize>() as f64)
    }

    fn is_close(found: f64, expected: f64, share: f64) -> bool {
        (found - expected).abs() <= share * expected
    }

    #[test]
    fn documents_at_equal_distances_are_kept_however_many_there_are() {
        for (documents, kept) in [(0, 0), (1, 1), (64, 64), (65, 33), (128, 64), (129, 33), (1_000, 63)] {
            let sample = sample((0..documents).map(|i| format!("{i}")));
            let sampled = &sample.documents;
            assert_eq!(sampled.len(), kept, "{documents}");
            let places: Vec<usize> = sampled.iter().map(|it| it.beginning.text.parse().unwrap()).collect();
            let step = places.get(1).copied().unwrap_or(1);
            assert!(places.iter().enumerate().all(|(at, place)| *place == at * step), "{places:?}");
        }
    }

    #[test]
    fn a_small_corpus_is_counted_as_a_whole() {
        let texts: Vec<String> = (1..9).map(|n| SENTENCE.repeat(n * 7)).collect();
        let chunkers = [chunker(64, 0), chunker(64, 16), chunker(1_024, 0)];
        let found = sample(texts.clone()).measure(&chunkers, &[], []);
        let tokens: usize = texts.iter().map(|text| TokenCounter::shared().count(text)).sum();
        assert_eq!(found.document_tokens, tokens as u64);
        assert_eq!(found.chunks.len(), 3);
        for (chunker, sizes) in &found.chunks {
            let total: f64 = sizes.sample.iter().map(|(tokens, _)| f64::from(*tokens)).sum();
            assert_eq!((sizes.sample.len() as f64, total), real(chunker, &texts));
            assert!(sizes.sample.iter().all(|(_, weight)| *weight == 1.0));
        }
    }

    #[test]
    fn long_documents_and_many_are_estimated_within_a_tenth_in_english_and_chinese() {
        for sentence in [SENTENCE, CHINESE] {
            let texts: Vec<String> = (0..150).map(|i| sentence.repeat(300 + (i * 37) % 2_000)).collect();
            let found = sample(texts.clone()).measure(&[chunker(256, 0), chunker(256, 50)], &[], []);
            let tokens: usize = texts.iter().map(|text| TokenCounter::shared().count(text)).sum();
            assert!(is_close(found.document_tokens as f64, tokens as f64, 0.1), "{} {tokens}", found.document_tokens);
            for (chunker, sizes) in &found.chunks {
                let (count, tokens) = real(chunker, &texts);
                let total: f64 = sizes.sample.iter().map(|(tokens, weight)| f64::from(*tokens) * weight).sum();
                let chunks: f64 = sizes.sample.iter().map(|(_, weight)| weight).sum();
                assert!(
                    is_close(chunks, count, 0.1) && is_close(total, tokens, 0.1),
                    "{chunks} {count} {total} {tokens}"
                );
            }
        }
    }

    #[test]
    fn a_chunk_as_long_as_what_is_kept_is_not_measured_nor_a_chunker_that_asks_a_model() {
        let long = sample([SENTENCE.repeat(2_000)]);
        assert!(long.chunk_sizes(&chunker(20_000, 0)).is_none());
        assert!(long.chunk_sizes(&chunker(256, 0)).is_some());
        let semantic: ChunkerConfig = serde_json::from_value(json!({ "semantic": {} })).unwrap();
        assert!(long.chunk_sizes(&semantic).is_none());
        let nothing = sample([String::new()]).chunk_sizes(&chunker(256, 0)).unwrap();
        assert!(nothing.sample.is_empty());
    }

    #[test]
    fn a_model_s_tokens_are_measured_on_documents_and_on_questions() {
        let sample = sample([CHINESE.repeat(200)]);
        let model = ModelTokenizer::estimate();
        let questions = vec!["Where does the mill stand?".to_owned()];
        let found = sample.measure([], &questions, [("m".to_owned(), &model)]);
        let expected = |text: &str| model.count(text) as f64 / TokenCounter::shared().count(text) as f64;
        let ratio = found.models["m"];
        assert!(is_close(ratio.documents, expected(&CHINESE.repeat(40)), 0.05), "{ratio:?}");
        assert_eq!((ratio.questions, ratio.added, ratio.longest), (expected(&questions[0]), 0, u64::MAX));
        let nothing = TextSample::default().measure([], &[], [("m".to_owned(), &model)]);
        assert_eq!((nothing.document_tokens, nothing.models["m"]), (0, TokenRatio::default()));
    }

    #[test]
    fn the_middle_of_a_text_is_cut_between_characters() {
        assert_eq!(middle("short"), "short");
        let text = format!("{}{}{}", "a".repeat(3_000), "水".repeat(1_000), "b".repeat(3_000));
        assert!(middle(&text).chars().all(|character| character == '水') && middle(&text).len() <= COUNTED);
        assert!(text.contains(middle(&text)));
    }
}
