//! `sentence`: chunks of whole sentences that overlap.
//!
//! The usual first choice: chunks of an even size that seldom cut a sentence.
//! Gives the same chunks as LlamaIndex's `SentenceSplitter` for an English document
//! without metadata (metadata is not counted as part of a chunk here). Sentences in
//! other languages are found by the rules of the language, and no grapheme cluster is cut.
//! Source: LlamaIndex 0.14 `SentenceSplitter`, its algorithm and defaults.

use super::{
    Chunker,
    split::{Cut, Splitter, check_separator, check_sizes, cut_by_size, not_set, overlap_follows_size},
};
use crate::{
    Component, Context, Error,
    analysis::{Language, LanguageChoice},
    component::settings,
};

pub(super) const VERSION: u32 = 3;

settings! {
    /// Settings of `sentence`.
    // serde writes functions instead of its traits; `overlap_follows_size!` below implements the traits with them.
    #[serde(remote = "Self")]
    pub struct Config {
        /// The size of a chunk, in tokens of `cl100k_base`. Default 1024.
        pub chunk_size: u32 = 1024,
        /// The most that a chunk repeats of the one before, in tokens; whole
        /// sentences only. Default: a fifth of `chunk_size`, at most 200.
        // Only marks that the settings have none: `overlap_follows_size!` then computes it.
        #[serde(default = "not_set")]
        #[schemars(with = "Option<u32>", extend("default" = null))]
        pub chunk_overlap: u32 = 200,
        /// What separates paragraphs; text is cut there before it is cut into
        /// sentences. Default three line ends.
        pub paragraph_separator: String = "\n\n\n".to_owned(),
        /// What separates words; a sentence that is too long is cut there. Default one
        /// space.
        pub separator: String = " ".to_owned(),
        /// The language whose rules find sentences, by its English name in small letters, such
        /// as `german`. Default `auto`: the language of each document, if it is recognised, else English.
        pub language: LanguageChoice = LanguageChoice::Auto,
    }
}

// Implements reading and writing of the settings: an overlap that is not set becomes a fifth of this size.
overlap_follows_size!(|config| config.chunk_size);

impl Component for Config {
    fn named_language(&self) -> Option<Language> {
        self.language.language()
    }

    // The methods that estimate chunks from the two sizes. Chunks can use the whole size; the estimate itself then
    // assumes that 75 % of it is filled.
    cut_by_size!(|size| size);
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn Chunker>, Error> {
        const COMPONENT: &str = "chunker sentence";
        check_sizes(COMPONENT, "chunk_size", self.chunk_size, Self::default().chunk_size, self.chunk_overlap)?;
        check_separator(COMPONENT, "paragraph_separator", &self.paragraph_separator)?;
        check_separator(COMPONENT, "separator", &self.separator)?;
        let cuts = Cut::of_sentences(self.language, &self.paragraph_separator, &self.separator);
        Ok(Box::new(Splitter::by_tokens(cuts, self.chunk_size, self.chunk_overlap)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::conformance_tests::text_document;

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
