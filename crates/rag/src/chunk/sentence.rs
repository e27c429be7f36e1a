//! `sentence`: chunks of whole sentences that overlap.
//!
//! The usual first choice: chunks of an even size that seldom cut a sentence.
//! Gives the same chunks as LlamaIndex's `SentenceSplitter` for a document
//! without metadata (metadata is not counted as part of a chunk here).
//! Source: LlamaIndex 0.14 `SentenceSplitter`, its algorithm and defaults.

use super::{
    Chunker,
    split::{Cut, Splitter, check_separator, check_sizes, not_set, overlap_follows_size},
};
use crate::{Component, Context, Error, Item};
use serde::{Deserialize, Serialize};

pub(super) const VERSION: u32 = 2;

/// The overlap of chunks of the usual size, and the most that is chosen for others.
const USUAL_OVERLAP: u32 = 200;

/// Settings of `sentence`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields, remote = "Self")]
pub struct Config {
    /// The size of a chunk, in tokens of `cl100k_base`. Default 1024.
    pub chunk_size: u32,
    /// The most that a chunk repeats of the one before, in tokens; whole
    /// sentences only. Default: a fifth of `chunk_size`, at most 200.
    #[serde(default = "not_set")]
    #[schemars(with = "Option<u32>", extend("default" = null))]
    pub chunk_overlap: u32,
    /// Where paragraphs are cut, tried before sentences. Default three line ends.
    pub paragraph_separator: String,
    /// Where words are cut, if a sentence is too long. Default one space.
    pub separator: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            chunk_size: 1024,
            chunk_overlap: USUAL_OVERLAP,
            paragraph_separator: "\n\n\n".to_owned(),
            separator: " ".to_owned(),
        }
    }
}

overlap_follows_size!(|config| config.chunk_size, USUAL_OVERLAP);

impl Component for Config {
    fn chunk_size(&self) -> Option<usize> {
        usize::try_from(self.chunk_size).ok()
    }

    fn estimate_chunks(&self, item: Item) -> Item {
        item.cut_into_chunks(self.chunk_size.into(), self.chunk_overlap.into())
    }

    fn estimate_output(&self, item: Item) -> Item {
        item.with_passage_size(self.chunk_size.into())
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn Chunker>, Error> {
        const COMPONENT: &str = "chunker sentence";
        check_sizes(COMPONENT, "chunk_size", self.chunk_size, Self::default().chunk_size, self.chunk_overlap)?;
        check_separator(COMPONENT, "paragraph_separator", &self.paragraph_separator)?;
        check_separator(COMPONENT, "separator", &self.separator)?;
        let cuts = Cut::of_sentences(&self.paragraph_separator, &self.separator);
        Ok(Box::new(Splitter::by_tokens(cuts, self.chunk_size, self.chunk_overlap)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::conformance::text_document;

    #[test]
    fn chunks_are_neighbours_and_overlap() {
        let config = Config { chunk_size: 12, chunk_overlap: 5, ..Config::default() };
        let document = text_document("One two three. Four five six. Seven eight nine ten. Eleven twelve.");
        let chunks = config.build(&Context::default()).unwrap().chunk_now(&document).unwrap();
        let texts: Vec<&str> = chunks.iter().map(|chunk| chunk.text.as_str()).collect();
        assert_eq!(texts, ["One two three. Four five six.", "Four five six. Seven eight nine ten.", "Eleven twelve."]);
        assert_eq!((chunks[1].previous, chunks[1].next, chunks[2].next), (Some(0), Some(2), None));
    }

    #[test]
    fn an_overlap_larger_than_the_chunk_is_refused() {
        let config = Config { chunk_size: 100, chunk_overlap: 101, ..Config::default() };
        let error = config.build(&Context::default()).err().unwrap().to_string();
        assert!(error.contains("chunker sentence") && error.contains("chunk_overlap"), "{error}");
        let config = Config { separator: String::new(), ..Config::default() };
        assert!(config.build(&Context::default()).err().unwrap().to_string().contains("separator"));
    }
}
