//! The sizes of an experiment's texts before a run. Calls and tokens are estimated from them.
//!
//! The unit is a token of `cl100k_base`, in which chunkers count. A model's own tokens are more or fewer, by a ratio
//! that is measured on the same texts.

use rag::{Component, InputSize, chunk::ChunkerConfig};
use std::collections::BTreeMap;

/// The sizes of documents, chunks and questions.
#[derive(Debug, Clone, Default)]
pub(crate) struct TextSizes {
    /// Tokens of all documents.
    pub(crate) document_tokens: u64,
    /// How each model counts tokens, by its name in the experiment.
    pub(crate) models: BTreeMap<String, TokenRatio>,
    /// The chunks of each chunker that could be run on the sample of the documents.
    pub(crate) chunks: Vec<(ChunkerConfig, ChunkSizes)>,
}

/// How a model counts tokens, compared with `cl100k_base`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TokenRatio {
    /// The model's tokens for each `cl100k_base` token of the documents.
    pub(crate) documents: f64,
    /// The model's tokens for each `cl100k_base` token of the questions.
    pub(crate) questions: f64,
    /// The tokens that the model adds to each text or pair that it reads.
    pub(crate) added: u64,
    /// The most tokens that the model reads of one text or pair.
    pub(crate) longest: u64,
}

impl Default for TokenRatio {
    fn default() -> Self {
        Self { documents: 1.0, questions: 1.0, added: 0, longest: u64::MAX }
    }
}

impl TokenRatio {
    /// Converts a question and its passages from `cl100k_base` tokens into the model's tokens.
    pub(super) fn question(&self, item: InputSize) -> InputSize {
        let InputSize { text_tokens, passage_tokens, passages } = item;
        let (text_tokens, passage_tokens) = (scale(text_tokens, self.questions), scale(passage_tokens, self.documents));
        InputSize { text_tokens, passage_tokens, passages }
    }

    /// Converts documents or their chunks from `cl100k_base` tokens into the model's tokens.
    pub(super) fn document(&self, item: InputSize) -> InputSize {
        let InputSize { text_tokens, passage_tokens, passages } = item;
        let (text_tokens, passage_tokens) = (scale(text_tokens, self.documents), scale(passage_tokens, self.documents));
        InputSize { text_tokens, passage_tokens, passages }
    }

    /// The tokens that the model reads when it embeds a text of the documents that has this many `cl100k_base` tokens.
    fn read(&self, tokens: f64) -> f64 {
        (tokens * self.documents + self.added as f64).min(self.longest as f64)
    }
}

/// Tokens times a ratio, rounded up.
pub(super) fn scale(tokens: u64, ratio: f64) -> u64 {
    (tokens as f64 * ratio).ceil() as u64
}

/// The sizes of a chunker's searchable chunks, estimated from a sample of the documents.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ChunkSizes {
    /// The tokens of each chunk of the sample, and how many chunks of the corpus it stands for.
    pub(crate) sample: Vec<(u32, f64)>,
}

impl ChunkSizes {
    /// The number of chunks in the corpus.
    pub(super) fn count(&self) -> f64 {
        self.sample.iter().map(|(_, weight)| weight).sum()
    }

    /// The tokens of all chunks in the corpus.
    pub(super) fn tokens(&self) -> f64 {
        self.sample.iter().map(|(tokens, weight)| f64::from(*tokens) * weight).sum()
    }

    /// The size of a typical chunk that a search finds, in tokens: that of the chunk that holds a random token. It is
    /// more than the mean, because a search finds long chunks more often than short ones.
    fn typical(&self) -> f64 {
        let squares: f64 = self.sample.iter().map(|(tokens, weight)| f64::from(*tokens).powi(2) * weight).sum();
        squares / self.tokens().max(1.0)
    }

    /// The tokens that a model reads of all chunks, if an enricher has added `more` tokens to each of them.
    pub(super) fn read_by(&self, model: &TokenRatio, more: f64) -> f64 {
        self.sample.iter().map(|(tokens, weight)| model.read(f64::from(*tokens) + more) * weight).sum()
    }
}

impl TextSizes {
    /// Sizes of which only the tokens of all documents are known.
    #[cfg(test)]
    pub(crate) fn of_tokens(document_tokens: u64) -> Self {
        Self { document_tokens, ..Self::default() }
    }

    /// How a model counts tokens. A model that is not known counts as `cl100k_base` does.
    pub(super) fn model(&self, name: &str) -> TokenRatio {
        self.models.get(name).copied().unwrap_or_default()
    }

    /// The chunks of a chunker, if they were measured.
    pub(super) fn chunks_of(&self, chunker: &ChunkerConfig) -> Option<&ChunkSizes> {
        self.chunks.iter().find(|(known, _)| known == chunker).map(|(_, sizes)| sizes)
    }

    /// The size of passages of a chunker. If its chunks were measured, passages have their typical size instead of the
    /// largest that the settings allow.
    pub(super) fn passages_of(&self, chunker: &ChunkerConfig, item: InputSize) -> InputSize {
        let most = chunker.estimate_output(item);
        let limit = chunker.chunk_size().filter(|limit| *limit > 0);
        let share = limit.zip(self.chunks_of(chunker)).map(|(limit, sizes)| sizes.typical() / limit as f64);
        InputSize { passage_tokens: scale(most.passage_tokens, share.unwrap_or(1.0).min(1.0)), ..most }
    }

    /// The tokens that a model reads when it embeds chunks that were not measured one by one.
    pub(super) fn embedded(&self, model: &str, chunks: InputSize) -> f64 {
        let mean = chunks.passage_tokens as f64 / chunks.passages.max(1) as f64;
        self.model(model).read(mean) * chunks.passages.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn item(text_tokens: u64, passages: u64, passage_tokens: u64) -> InputSize {
        InputSize { text_tokens, passages, passage_tokens }
    }

    #[test]
    fn tokens_of_a_model_are_those_of_cl100k_times_its_ratio() {
        let ratio = TokenRatio { documents: 1.5, questions: 2.0, ..TokenRatio::default() };
        assert_eq!(ratio.question(item(3, 2, 101)), item(6, 2, 152), "rounded up");
        assert_eq!(ratio.document(item(3, 2, 101)), item(5, 2, 152));
        let same = TokenRatio::default();
        assert_eq!(same.question(item(3, 2, 101)), item(3, 2, 101));
        assert_eq!(TextSizes::default().model("m"), same, "a model that is not known counts like cl100k");
    }

    #[test]
    fn a_model_reads_no_more_of_a_chunk_than_it_can() {
        let sizes = ChunkSizes { sample: vec![(100, 2.0), (300, 1.0)] };
        assert_eq!((sizes.count(), sizes.tokens()), (3.0, 500.0));
        let model = TokenRatio { documents: 1.5, added: 2, longest: 256, ..TokenRatio::default() };
        // 100 tokens are 152 of the model, twice; 300 are 452, cut to 256.
        assert_eq!(sizes.read_by(&model, 0.0), 2.0 * 152.0 + 256.0);
        // With ten more tokens in each chunk, 110 are 167.
        assert_eq!(sizes.read_by(&model, 10.0), 2.0 * 167.0 + 256.0);
        assert_eq!(ChunkSizes::default().read_by(&model, 0.0), 0.0);
        let known = TextSizes { models: [("m".to_owned(), model)].into(), ..TextSizes::default() };
        assert_eq!(known.embedded("m", item(0, 4, 400)), 4.0 * 152.0);
        assert_eq!(known.embedded("m", item(0, 4, 4_000)), 4.0 * 256.0);
        assert_eq!(known.embedded("other", item(0, 4, 4_000)), 4_000.0);
        assert_eq!(known.embedded("other", item(0, 0, 0)), 0.0);
    }

    #[test]
    fn passages_are_as_large_as_the_chunk_that_holds_a_token_by_chance() {
        let chunker = |size: u32| -> ChunkerConfig {
            serde_json::from_value(json!({ "sentence": { "chunk_size": size, "chunk_overlap": 0 } })).unwrap()
        };
        let sample = vec![(100, 1.0), (300, 1.0)];
        let sizes = TextSizes { chunks: vec![(chunker(400), ChunkSizes { sample })], ..TextSizes::default() };
        // A random token is in the chunk of 300 tokens three times out of four: 250 on average.
        assert_eq!(sizes.passages_of(&chunker(400), item(0, 4, 0)), item(0, 4, 1_000));
        assert_eq!(sizes.passages_of(&chunker(200), item(0, 4, 0)), item(0, 4, 800), "not measured: the most");
        let empty = TextSizes { chunks: vec![(chunker(400), ChunkSizes::default())], ..TextSizes::default() };
        assert_eq!(empty.passages_of(&chunker(400), item(0, 4, 0)), item(0, 4, 0));
    }
}
