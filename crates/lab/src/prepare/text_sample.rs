//! A sample of the documents, from which a plan estimates tokens and chunks without reading everything twice.
//!
//! The sample has at most 64 documents at equal distances, and the first 16 KiB of each: 1 MiB in all. A corpus within
//! these limits is measured as a whole. Each chunker that needs no model and no function cuts the sample once. Each
//! model's tokenizer counts 2 KiB of each document.
//!
//! Measuring is apart from weighting: [`TextMeasurements`] say what was measured of each document, and give the sizes
//! of the texts for any weights of the documents. A sample that was drawn by chance is weighted many times.

use super::even_sample::sample_step;
use crate::plan::text_sizes::{ChunkSizes, TextSizes, TokenRatio};
use models::ModelTokenizer;
use rag::{
    Component, Context, Document,
    chunk::{Chunker, ChunkerConfig, TokenCounter},
};
use rayon::prelude::*;
use std::collections::BTreeMap;

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
pub(crate) struct SampledDocument {
    /// The document with the beginning of its text.
    beginning: Document,
    /// The bytes of its whole text.
    pub(crate) bytes: usize,
}

impl SampledDocument {
    pub(crate) fn of(document: &Document) -> Self {
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

    /// How many times as long the document is as a part of it.
    fn extent(&self, part: usize) -> f64 {
        if part == 0 { 0.0 } else { self.bytes as f64 / part as f64 }
    }

    /// For each searchable chunk its tokens, and how many chunks of the document it stands for. None
    /// if the chunker fails, or if a chunk is as long as the kept text.
    fn chunk_sizes(&self, chunker: &dyn Chunker) -> Option<Vec<(u32, f64)>> {
        if self.bytes == 0 {
            return Some(Vec::new());
        }
        let mut chunks = chunker.chunk_now(&self.beginning).ok()?;
        chunks.retain(|chunk| chunk.searchable);
        let mut covered = self.bytes;
        if self.is_cut() {
            // The last chunk was cut short with the text, and does not count. The others stand for the whole document.
            covered = chunks.pop()?.span.start;
            if chunks.is_empty() || covered == 0 {
                return None;
            }
        }
        let tokens = |text: &str| u32::try_from(TokenCounter::shared().count(text)).unwrap_or(u32::MAX);
        Some(chunks.iter().map(|chunk| (tokens(&chunk.text), self.extent(covered))).collect())
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
        let measured = TextMeasurements::of(&self.documents, chunkers, questions, models);
        let sampled: usize = self.documents.iter().map(|document| document.bytes).sum();
        measured.sizes(&vec![self.bytes as f64 / sampled.max(1) as f64; self.documents.len()])
    }
}

/// What was measured of each document of a sample.
pub(crate) struct TextMeasurements {
    documents: Vec<DocumentMeasurements>,
    /// Each model with its tokens for the questions; `documents` is not known before the documents are weighted.
    models: Vec<(String, TokenRatio)>,
    /// The chunkers that could cut every document.
    chunkers: Vec<ChunkerConfig>,
}

/// What was measured of a document.
struct DocumentMeasurements {
    /// Tokens of `cl100k_base`.
    tokens: f64,
    /// Tokens of `cl100k_base`, as they are counted beside a model's own.
    compared_tokens: f64,
    /// The tokens of each model.
    model_tokens: Vec<f64>,
    /// For each chunker the tokens of chunks, and how many chunks of the document each stands for; none if the chunker
    /// could not be run.
    chunks: Vec<Option<Vec<(u32, f64)>>>,
}

impl TextMeasurements {
    /// Measures documents, the chunks of these chunkers, and how these models count tokens.
    pub(crate) fn of<'a>(
        documents: &[SampledDocument],
        chunkers: impl IntoIterator<Item = &'a ChunkerConfig>,
        questions: &[String],
        models: impl IntoIterator<Item = (String, &'a ModelTokenizer)>,
    ) -> Self {
        let questions = CountedTexts::new(questions.iter().take(QUESTIONS).map(|text| middle(text)));
        let (names, tokenizers): (Vec<String>, Vec<&ModelTokenizer>) = models.into_iter().unzip();
        let of_questions = |model: &ModelTokenizer| TokenRatio {
            documents: 1.0,
            questions: questions.ratio(model),
            added: model.added as u64,
            longest: u64::try_from(model.max_tokens).unwrap_or(u64::MAX),
        };
        let ratios: Vec<TokenRatio> = tokenizers.iter().map(|model| of_questions(model)).collect();
        let (chunkers, built): (Vec<ChunkerConfig>, Vec<_>) =
            chunkers.into_iter().filter_map(|chunker| Some((chunker.clone(), build(chunker)?))).unzip();
        let measure = |document: &SampledDocument| {
            let text = &document.beginning.text;
            let counter = TokenCounter::shared();
            let middle = middle(text);
            let of_document = |count: usize, part: &str| count as f64 * document.extent(part.len());
            DocumentMeasurements {
                tokens: of_document(counter.count(text), text),
                compared_tokens: of_document(counter.count(middle), middle),
                model_tokens: tokenizers.iter().map(|model| of_document(model.count(middle), middle)).collect(),
                chunks: built.iter().map(|chunker| document.chunk_sizes(chunker.as_ref())).collect(),
            }
        };
        let mut measured: Vec<DocumentMeasurements> = documents.par_iter().map(measure).collect();
        let is_measured: Vec<bool> = (0..chunkers.len())
            .map(|i| measured.iter().all(|document| document.chunks.get(i).is_some_and(Option::is_some)))
            .collect();
        let mut kept = is_measured.iter();
        for document in &mut measured {
            let mut kept = is_measured.iter();
            document.chunks.retain(|_| kept.next().copied().unwrap_or_default());
        }
        let chunkers = chunkers.into_iter().filter(|_| kept.next().copied().unwrap_or_default()).collect();
        Self { documents: measured, models: names.into_iter().zip(ratios).collect(), chunkers }
    }

    /// The sizes of all texts of a corpus, if each document stands for so many documents like it.
    pub(crate) fn sizes(&self, weights: &[f64]) -> TextSizes {
        let sum = |amount: &dyn Fn(&DocumentMeasurements) -> f64| -> f64 {
            self.documents.iter().zip(weights).map(|(document, weight)| amount(document) * weight).sum()
        };
        let compared = sum(&|document| document.compared_tokens);
        let models = self.models.iter().enumerate().map(|(i, (name, ratio))| {
            let own = sum(&|document| document.model_tokens.get(i).copied().unwrap_or_default());
            let documents = if own > 0.0 && compared > 0.0 { own / compared } else { 1.0 };
            (name.clone(), TokenRatio { documents, ..*ratio })
        });
        let chunks = self.chunkers.iter().enumerate().map(|(i, chunker)| (chunker.clone(), self.chunks_of(i, weights)));
        TextSizes {
            document_tokens: sum(&|document| document.tokens).round() as u64,
            models: models.collect(),
            chunks: chunks.collect(),
        }
    }

    /// The chunks of a chunker in the corpus. Chunks of one size are one entry.
    fn chunks_of(&self, chunker: usize, weights: &[f64]) -> ChunkSizes {
        let mut by_tokens: BTreeMap<u32, f64> = BTreeMap::new();
        for (document, weight) in self.documents.iter().zip(weights) {
            for (tokens, chunks) in document.chunks.get(chunker).into_iter().flatten().flatten() {
                *by_tokens.entry(*tokens).or_default() += chunks * weight;
            }
        }
        ChunkSizes { sample: by_tokens.into_iter().collect() }
    }
}

/// Makes a chunker that needs no model and no function. None if it needs one, or if it cannot be made.
fn build(chunker: &ChunkerConfig) -> Option<Box<dyn Chunker>> {
    if chunker.runs_function() || chunker.needs_embedder() || !chunker.models().is_empty() {
        return None;
    }
    chunker.build(&Context::default()).ok()
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
            tables: Vec::new(),
            problems: Vec::new(),
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
            let total: f64 = sizes.sample.iter().map(|(tokens, chunks)| f64::from(*tokens) * chunks).sum();
            let chunks: f64 = sizes.sample.iter().map(|(_, chunks)| chunks).sum();
            assert_eq!((chunks, total), real(chunker, &texts));
        }
    }

    #[test]
    fn documents_count_as_often_as_their_weights_say() {
        let texts = [SENTENCE.repeat(20), CHINESE.repeat(40), SENTENCE.repeat(3)];
        let chunkers = [chunker(64, 0)];
        let model = ModelTokenizer::estimate();
        let measure = |texts: &[String]| {
            let documents: Vec<SampledDocument> =
                texts.iter().map(|text| SampledDocument::of(&document(text.clone()))).collect();
            TextMeasurements::of(&documents, &chunkers, &[], [("m".to_owned(), &model)])
        };
        let found = measure(&texts).sizes(&[2.0, 0.0, 3.0]);
        let repeated = [&texts[0], &texts[0], &texts[2], &texts[2], &texts[2]].map(String::clone);
        let expected = measure(&repeated).sizes(&[1.0; 5]);
        assert_eq!(found.document_tokens, expected.document_tokens);
        assert!((found.models["m"].documents - expected.models["m"].documents).abs() < 1e-12);
        // The document that counts nothing leaves entries without chunks.
        let chunks: Vec<_> = found.chunks[0].1.sample.iter().copied().filter(|(_, chunks)| *chunks > 0.0).collect();
        assert_eq!(chunks, expected.chunks[0].1.sample);
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
        let semantic: ChunkerConfig = serde_json::from_value(json!({ "semantic": {} })).unwrap();
        let chunkers = [chunker(20_000, 0), semantic, chunker(256, 0)];
        let measured: Vec<_> =
            long.measure(&chunkers, &[], []).chunks.into_iter().map(|(measured, _)| measured).collect();
        assert_eq!(measured, [chunker(256, 0)]);
        let nothing = sample([String::new()]).measure(&[chunker(256, 0)], &[], []);
        assert!(nothing.chunks[0].1.sample.is_empty());
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
