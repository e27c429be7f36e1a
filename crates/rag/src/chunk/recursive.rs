//! `recursive`: paragraphs first, then lines, sentences, words and characters.
//!
//! What is too large is cut at the coarsest separator that it has, and only
//! its own pieces are joined again: a chunk never mixes the end of a long
//! paragraph with the next one. For text whose structure is in its blank lines.
//! Source: the recursive character splitter known from LangChain, with sizes in
//! tokens and each separator kept at the end of the piece that it closes.

use super::{
    Chunker,
    outline::Outline,
    split::{Joiner, check_sizes, cut_by_size, not_set, overlap_follows_size},
    tokens::TokenCounter,
};
use crate::{
    Chunk, Component, Context, Document, Error, Span,
    analysis::{cluster_starts, may_cut, tiles},
    component::{ensure, settings},
};
use async_trait::async_trait;

pub(super) const VERSION: u32 = 3;

settings! {
    /// Settings of `recursive`.
    // `overlap_follows_size!` below implements serde's traits; `sentence.rs` says how.
    #[serde(remote = "Self")]
    pub struct Config {
        /// The size of a chunk, in tokens of `cl100k_base`. Default 512.
        pub chunk_size: u32 = 512,
        /// The most that a chunk repeats of the one before, in tokens.
        /// Default: a fifth of `chunk_size`, at most 50.
        // Only a mark: `overlap_follows_size!` replaces it by the default that the text above names.
        #[serde(default = "not_set")]
        #[schemars(with = "Option<u32>", extend("default" = null))]
        pub chunk_overlap: u32 = 50,
        /// Where to cut, coarse first; an empty string cuts between grapheme clusters and
        /// must come last. Default blank line, line end, the ends of sentences of several
        /// scripts (`. `, `。`, `！`, `？`, `؟`, `۔`, `।`), space, Chinese and Japanese commas, empty.
        pub separators: Vec<String> =
            ["\n\n", "\n", ". ", "。", "！", "？", "؟", "۔", "।", " ", "，", "、", ""].map(str::to_owned).to_vec(),
    }
}

overlap_follows_size!(|config| config.chunk_size);

impl Component for Config {
    // A chunk ends before the piece that is too long for it, so in prose about a tenth more stays empty than the
    // estimate assumes for every chunker.
    cut_by_size!(|size| size * 9 / 10);
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn Chunker>, Error> {
        const COMPONENT: &str = "chunker recursive";
        check_sizes(COMPONENT, "chunk_size", self.chunk_size, Self::default().chunk_size, self.chunk_overlap)?;
        let empty = self.separators.iter().position(String::is_empty);
        let reason = "`separators` must end with one empty string, so that every text can be cut";
        ensure(COMPONENT, empty.is_some_and(|at| at + 1 == self.separators.len()), reason)?;
        Ok(Box::new(self.clone()))
    }

    /// How many tokens a text has; none if it does not fit into a chunk.
    fn count(&self, text: &str) -> Option<usize> {
        TokenCounter::shared().count_up_to(text, self.chunk_size as usize)
    }

    /// Cuts a stretch that is too large at the first of the separators from
    /// `level` on that it has. Goes no deeper than there are separators.
    fn cut(&self, text: &str, span: Span, level: usize, joiner: &mut Joiner<'_>) {
        let stretch = &text[span.start..span.end];
        let Some(offset) = self.separators.iter().skip(level).position(|separator| cuts(stretch, separator)) else {
            self.cut_cluster(text, span, joiner);
            return;
        };
        let level = level + offset;
        // What is cut stands alone: joined neither with what comes before it
        // nor with what comes after.
        joiner.flush();
        for piece in tiles(stretch, cut_places(stretch, &self.separators[level])) {
            let piece = Span { start: span.start + piece.start, end: span.start + piece.end };
            match self.count(&text[piece.start..piece.end]) {
                Some(count) => joiner.push(piece, count),
                None => self.cut(text, piece, level + 1, joiner),
            }
        }
        joiner.flush();
    }
}

impl Config {
    /// Cuts a grapheme cluster that does not fit into a chunk between its characters.
    fn cut_cluster(&self, text: &str, span: Span, joiner: &mut Joiner<'_>) {
        joiner.flush();
        for (offset, c) in text[span.start..span.end].char_indices() {
            let piece = Span { start: span.start + offset, end: span.start + offset + c.len_utf8() };
            let count = self.count(&text[piece.start..piece.end]).unwrap_or(self.chunk_size as usize);
            joiner.push(piece, count);
        }
        joiner.flush();
    }
}

#[async_trait]
impl Chunker for Config {
    async fn chunk(&self, document: &Document) -> Result<Vec<Chunk>, Error> {
        let text = &document.text;
        let mut joiner = Joiner::new(text, self.chunk_size as usize, self.chunk_overlap as usize);
        let whole = Span { start: 0, end: text.len() };
        match self.count(text) {
            Some(count) => joiner.push(whole, count),
            None => self.cut(text, whole, 0, &mut joiner),
        }
        Ok(Outline::new(document).linked_chunks(joiner.finish()))
    }
}

/// Whether the separator cuts the text into more than one piece.
fn cuts(text: &str, separator: &str) -> bool {
    cut_places(text, separator).next().is_some()
}

/// The byte offsets where a separator cuts a text: after each of its occurrences, but not within a grapheme cluster.
fn cut_places<'a>(text: &'a str, separator: &'a str) -> Box<dyn Iterator<Item = usize> + 'a> {
    if separator.is_empty() {
        return Box::new(cluster_starts(text).skip(1));
    }
    let ends = text.match_indices(separator).map(|(at, found)| at + found.len());
    Box::new(ends.filter(move |&end| end < text.len() && may_cut(text, end)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::conformance_tests::text_document;

    fn texts(config: &Config, text: &str) -> Vec<String> {
        let chunks = config.build(&Context::default()).unwrap().chunk_now(&text_document(text)).unwrap();
        chunks.into_iter().map(|chunk| chunk.text).collect()
    }

    #[test]
    fn a_long_paragraph_is_cut_alone() {
        let config = Config { chunk_size: 8, chunk_overlap: 0, ..Config::default() };
        let text = "Short one.\n\nA first sentence here. A second sentence here. A third one here.\n\nShort two.";
        assert_eq!(
            texts(&config, text),
            ["Short one.", "A first sentence here.", "A second sentence here.", "A third one here.", "Short two."]
        );
    }

    #[test]
    fn short_paragraphs_are_joined() {
        let config = Config { chunk_size: 8, chunk_overlap: 0, ..Config::default() };
        assert_eq!(
            texts(&config, "One.\n\nTwo.\n\nThree four five six seven."),
            ["One.\n\nTwo.", "Three four five six seven."]
        );
    }

    #[test]
    fn sentences_of_other_scripts_are_cut_before_characters_and_no_cluster_is_cut() {
        let config = Config { chunk_size: 10, chunk_overlap: 0, ..Config::default() };
        assert_eq!(
            texts(&config, "第一句话说明。第二句话说明！第三句？"),
            ["第一句话说明。", "第二句话说明！", "第三句？"]
        );
        let family = "👩‍👩‍👧";
        let config = Config { chunk_size: 32, chunk_overlap: 0, ..Config::default() };
        assert!(texts(&config, &family.repeat(20)).iter().all(|chunk| chunk.replace(family, "").is_empty()));
        // A letter with too many accents for one chunk is cut between the accents.
        let zalgo = format!("e{}", "\u{301}".repeat(200));
        let cut = texts(&config, &zalgo);
        assert!(cut.len() > 1 && cut.concat() == zalgo);
    }

    #[test]
    fn separators_must_be_able_to_cut_everything() {
        for separators in [vec![], vec![" ".to_owned()], vec![String::new(), String::new()]] {
            let error =
                Config { separators, ..Config::default() }.build(&Context::default()).err().unwrap().to_string();
            assert!(error.contains("separators"), "{error}");
        }
    }
}
