//! `token`: chunks of about the same number of tokens, cut between words.
//!
//! Pays no heed to sentences, so chunks are fuller than those of `sentence`;
//! for text without sentences (tables, logs, lists of names).
//! Source: LlamaIndex 0.14 `TokenTextSplitter`, its algorithm and defaults, with two
//! differences: LlamaIndex keeps two tokens of each chunk free for metadata even if
//! there is none, and it cuts grapheme clusters.

use super::{
    Chunker,
    split::{Cut, Splitter, check_separator, check_sizes, cut_by_size, not_set, overlap_follows_size},
};
use crate::{Component, Context, Error, component::settings};

pub(super) const VERSION: u32 = 3;

settings! {
    /// Settings of `token`.
    // `overlap_follows_size!` below implements serde's traits; `sentence.rs` says how.
    #[serde(remote = "Self")]
    pub struct Config {
        /// The size of a chunk, in tokens of `cl100k_base`. Default 1024.
        pub chunk_size: u32 = 1024,
        /// The most that a chunk repeats of the one before, in tokens.
        /// Default: a fifth of `chunk_size`, at most 20.
        // Only a mark: `overlap_follows_size!` replaces it by the default that the text above names.
        #[serde(default = "not_set")]
        #[schemars(with = "Option<u32>", extend("default" = null))]
        pub chunk_overlap: u32 = 20,
        /// What separates words: text is cut there, else at line ends, else between
        /// characters. Default one space.
        pub separator: String = " ".to_owned(),
    }
}

overlap_follows_size!(|config| config.chunk_size);

impl Component for Config {
    cut_by_size!(|size| size);
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn Chunker>, Error> {
        const COMPONENT: &str = "chunker token";
        check_sizes(COMPONENT, "chunk_size", self.chunk_size, Self::default().chunk_size, self.chunk_overlap)?;
        check_separator(COMPONENT, "separator", &self.separator)?;
        let cuts = vec![Cut::Before(self.separator.clone()), Cut::Before("\n".to_owned()), Cut::Characters];
        Ok(Box::new(Splitter::by_tokens(cuts, self.chunk_size, self.chunk_overlap)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::conformance_tests::text_document;

    #[test]
    fn chunks_are_cut_between_words_and_repeat_the_last_ones() {
        let config = Config { chunk_size: 4, chunk_overlap: 1, ..Config::default() };
        let document = text_document("one two three four five six seven");
        let chunks = config.build(&Context::default()).unwrap().chunk_now(&document).unwrap();
        let texts: Vec<&str> = chunks.iter().map(|chunk| chunk.text.as_str()).collect();
        assert_eq!(texts, ["one two three four", "four five six seven"]);
    }
}
