//! Cuts a text into pieces that fit a size, then joins neighbours into chunks
//! that overlap.
//!
//! This is the shape that LlamaIndex's sentence and token splitters share:
//! try a list of cuts, coarse ones first, on every piece that is too large;
//! then fill chunks with whole pieces and start the next chunk with the last
//! pieces of the one before. Sizes of pieces are counted one by one and added
//! up, as LlamaIndex does, so a chunk's own count may differ a little. Unlike in
//! LlamaIndex, a grapheme cluster is only cut if it does not fit into a chunk.
//! Source: LlamaIndex 0.14 `SentenceSplitter` and `TokenTextSplitter`.

use super::{Chunker, classes::is_blank, outline::Outline, sentences::SentenceFinder, tokens::TokenCounter};
use crate::{
    Chunk, Document, Error, Span,
    analysis::{LanguageChoice, cluster_starts, may_cut, tiles},
    component::ensure,
};
use async_trait::async_trait;
use std::collections::VecDeque;

/// The most tokens that one character can need: a chunk must hold that many.
const SMALLEST_SIZE: usize = 4;

/// How often a piece is cut into sentences anew. A sentence cut out of its
/// surroundings may fall into more sentences; some texts (`!?.!?.` for pages)
/// lose one mark each time, and LlamaIndex ends with a recursion error.
const MOST_SENTENCE_CUTS: u32 = 32;

/// A way to cut a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cut {
    /// Before each place where this stands, so that it opens the next piece.
    Before(String),
    /// Into sentences, by the rules of this language or of the detected one.
    Sentences(LanguageChoice),
    /// After each comma, semicolon and full stop, and after the corresponding marks of other scripts.
    Clauses,
    /// Into grapheme clusters. A text that is a single cluster, such as a letter with hundreds of
    /// accents, is cut into its characters.
    Characters,
}

impl Cut {
    /// The cuts of LlamaIndex's sentence splitter.
    pub(super) fn of_sentences(language: LanguageChoice, paragraph_separator: &str, separator: &str) -> Vec<Self> {
        vec![
            Self::Before(paragraph_separator.to_owned()),
            Self::Sentences(language),
            Self::Clauses,
            Self::Before(separator.to_owned()),
            Self::Characters,
        ]
    }

    /// The pieces, in order and without gaps, or one or none if there is
    /// nothing to cut. A grapheme cluster is only cut by [`Cut::Characters`], and only if it is the whole text.
    fn pieces(&self, text: &str, finder: SentenceFinder) -> Vec<Span> {
        let may_cut = |at: &usize| may_cut(text, *at);
        match self {
            Self::Before(separator) => {
                tiles(text, text.match_indices(separator.as_str()).map(|(at, _)| at).filter(may_cut))
            }
            Self::Sentences(_) => finder.sentences(text),
            Self::Clauses => {
                let ends = text.char_indices().filter(|(_, c)| finder.ends_clause(*c)).map(|(at, c)| at + c.len_utf8());
                tiles(text, ends.filter(may_cut))
            }
            Self::Characters => match tiles(text, cluster_starts(text)) {
                clusters if clusters.len() > 1 => clusters,
                _ => tiles(text, text.char_indices().map(|(at, _)| at)),
            },
        }
    }
}

/// Cuts and joins by one size and one list of cuts.
#[derive(Debug, Clone)]
pub(super) struct Splitter {
    cuts: Vec<Cut>,
    pub(super) size: usize,
    pub(super) overlap: usize,
    /// How many units the text has; none if it has more than the limit.
    count: fn(&str, usize) -> Option<usize>,
}

impl Splitter {
    pub(super) fn by_tokens(cuts: Vec<Cut>, size: u32, overlap: u32) -> Self {
        let count = |text: &str, limit: usize| TokenCounter::shared().count_up_to(text, limit);
        Self { cuts, size: size as usize, overlap: overlap as usize, count }
    }

    /// The size of a text; none if it does not fit into a chunk.
    pub(super) fn count(&self, text: &str) -> Option<usize> {
        (self.count)(text, self.size)
    }

    /// The sentence finder for a document, in the language of [`Cut::Sentences`].
    pub(super) fn finder(&self, document: &str) -> SentenceFinder {
        let language = self.cuts.iter().find_map(|cut| match cut {
            Cut::Sentences(language) => Some(*language),
            _ => None,
        });
        language.map_or(SentenceFinder::Punkt, |language| SentenceFinder::new(language, document))
    }

    /// The chunks of one stretch of a text: spans in the text, without white
    /// space at either end, none of them empty.
    pub(super) fn split(&self, text: &str, within: Span, finder: SentenceFinder) -> Vec<Span> {
        let mut joiner = Joiner::new(text, self.size, self.overlap);
        self.cut(text, within, finder, &mut joiner);
        joiner.finish()
    }

    /// Cuts a stretch into pieces that fit and hands them to the joiner.
    pub(super) fn cut(&self, text: &str, within: Span, finder: SentenceFinder, joiner: &mut Joiner<'_>) {
        // A stack of its own, so that no text can overflow the thread's stack.
        let mut stack = vec![(within, 0)];
        while let Some((span, depth)) = stack.pop() {
            let piece = &text[span.start..span.end];
            if let Some(count) = self.count(piece) {
                joiner.push(span, count);
                continue;
            }
            let cuts = self.cuts.iter().filter(|cut| depth < MOST_SENTENCE_CUTS || !matches!(cut, Cut::Sentences(_)));
            match cuts.map(|cut| cut.pieces(piece, finder)).find(|pieces| pieces.len() > 1) {
                Some(pieces) => {
                    let below = |part: Span| Span { start: span.start + part.start, end: span.start + part.end };
                    stack.extend(pieces.into_iter().rev().map(|part| (below(part), depth + 1)));
                }
                // A single character over the size: it cannot be cut.
                None => joiner.push(span, self.size),
            }
        }
    }
}

/// The chunks of a whole document in a row.
#[async_trait]
impl Chunker for Splitter {
    async fn chunk(&self, document: &Document) -> Result<Vec<Chunk>, Error> {
        let within = Span { start: 0, end: document.text.len() };
        let finder = self.finder(&document.text);
        Ok(Outline::new(document).linked_chunks(self.split(&document.text, within, finder)))
    }
}

pub(super) struct Joiner<'a> {
    text: &'a str,
    size: usize,
    overlap: usize,
    /// The pieces of the open chunk and their counts.
    open: VecDeque<(Span, usize)>,
    open_count: usize,
    chunks: Vec<Span>,
}

impl<'a> Joiner<'a> {
    pub(super) fn new(text: &'a str, size: usize, overlap: usize) -> Self {
        Self { text, size, overlap, open: VecDeque::new(), open_count: 0, chunks: Vec::new() }
    }

    /// Adds the next piece, which starts where the last one ended.
    pub(super) fn push(&mut self, span: Span, count: usize) {
        if self.open_count + count > self.size {
            self.emit();
            // The last pieces open the next chunk, as many as the overlap
            // holds, fewer if the new piece would not fit otherwise.
            while self.open_count > self.overlap || self.open_count + count > self.size {
                let Some((_, dropped)) = self.open.pop_front() else { break };
                self.open_count -= dropped;
            }
        }
        self.open.push_back((span, count));
        self.open_count += count;
    }

    /// Ends the open chunk; what comes next does not overlap with it.
    pub(super) fn flush(&mut self) {
        self.emit();
        self.open.clear();
        self.open_count = 0;
    }

    pub(super) fn finish(mut self) -> Vec<Span> {
        self.flush();
        self.chunks
    }

    fn emit(&mut self) {
        let (Some((first, _)), Some((last, _))) = (self.open.front(), self.open.back()) else { return };
        self.chunks.extend(trim(self.text, Span { start: first.start, end: last.end }));
    }
}

/// The span without white space at either end; none if nothing is left.
pub(super) fn trim(text: &str, span: Span) -> Option<Span> {
    let inner = text[span.start..span.end].trim_start_matches(is_blank);
    let start = span.end - inner.len();
    let end = start + inner.trim_end_matches(is_blank).len();
    (start < end).then_some(Span { start, end })
}

/// Stands for an overlap that is not set while settings are read.
pub(super) const fn not_set() -> u32 {
    u32::MAX
}

/// Implements reading and writing of a chunker's settings. An overlap that is not
/// set becomes a fifth of the size, at most the default overlap. This number is
/// then part of the settings, so keys and leaderboards contain it.
/// The derives of `Config` are those of `#[serde(remote = "Self")]`.
macro_rules! overlap_follows_size {
    ($size:expr) => {
        impl<'de> serde::Deserialize<'de> for Config {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let mut config = Self::deserialize(deserializer)?;
                if config.chunk_overlap == super::split::not_set() {
                    let size: fn(&Self) -> u32 = $size;
                    config.chunk_overlap = (size(&config) / 5).min(Self::default().chunk_overlap);
                }
                Ok(config)
            }
        }

        impl serde::Serialize for Config {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                Self::serialize(self, serializer)
            }
        }
    };
}
pub(super) use overlap_follows_size;

/// The methods of [`Component`](crate::Component) that follow from `chunk_size` and
/// `chunk_overlap`, inside their `impl`. For estimates, the function turns `chunk_size`
/// into the size that this chunker can use of it; `cut_into_chunks` then assumes for every
/// chunker that 75 % of this size is filled.
macro_rules! cut_by_size {
    ($usable:expr) => {
        fn chunk_size(&self) -> Option<usize> {
            usize::try_from(self.chunk_size).ok()
        }
        fn estimate_chunks(&self, item: $crate::InputSize) -> $crate::InputSize {
            let usable: fn(u64) -> u64 = $usable;
            item.cut_into_chunks(usable(self.chunk_size.into()), self.chunk_overlap.into())
        }
        fn estimate_output(&self, item: $crate::InputSize) -> $crate::InputSize {
            item.with_passage_size(self.chunk_size.into())
        }
    };
}
pub(super) use cut_by_size;

/// Refuses sizes that cannot work together. `default_size` is the size where none is set.
pub(super) fn check_sizes(
    component: &'static str,
    size_key: &str,
    size: u32,
    default_size: u32,
    overlap: u32,
) -> Result<(), Error> {
    let reason =
        format!("`{size_key}` is {size}, but must be at least {SMALLEST_SIZE}: one character may need so many tokens");
    ensure(component, size as usize >= SMALLEST_SIZE, reason)?;
    let default = if size == default_size { ", the default" } else { "" };
    let reason = format!(
        "`chunk_overlap` ({overlap}) is larger than `{size_key}` ({size}{default}); make it smaller, or leave it out: \
         then it follows `{size_key}`"
    );
    ensure(component, overlap <= size, reason)
}

pub(super) fn check_separator(component: &'static str, key: &str, separator: &str) -> Result<(), Error> {
    ensure(component, !separator.is_empty(), format!("`{key}` is empty; give at least one character"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentences(text: &str, size: usize, overlap: usize) -> Vec<&str> {
        // The golden values were made with words.
        let count = |text: &str, limit: usize| Some(text.split_whitespace().count()).filter(|count| *count <= limit);
        let cuts = Cut::of_sentences(LanguageChoice::Auto, "\n\n\n", " ");
        let splitter = Splitter { cuts, size, overlap, count };
        let within = Span { start: 0, end: text.len() };
        splitter
            .split(text, within, splitter.finder(text))
            .into_iter()
            .map(|span| &text[span.start..span.end])
            .collect()
    }

    #[test]
    fn whole_sentences_overlap_as_in_llama_index() {
        let text = "One two three. Four five six. Seven eight nine ten. Eleven twelve.";
        let first = "One two three. Four five six.";
        assert_eq!(sentences(text, 6, 0), [first, "Seven eight nine ten. Eleven twelve."]);
        assert_eq!(sentences(text, 6, 3), [first, "Seven eight nine ten. Eleven twelve."]);
        assert_eq!(sentences(text, 7, 3), [first, "Four five six. Seven eight nine ten.", "Eleven twelve."]);
        assert_eq!(
            sentences(text, 8, 4),
            [first, "Four five six. Seven eight nine ten.", "Seven eight nine ten. Eleven twelve."]
        );
    }

    #[test]
    fn paragraphs_are_cut_first() {
        let text = "P one a.\n\n\nP two b c. Next d.\n\n\nP three.";
        assert_eq!(sentences(text, 6, 0), ["P one a.", "P two b c. Next d.", "P three."]);
    }

    #[test]
    fn long_sentences_are_cut_into_clauses_and_words() {
        let text = "alpha beta, gamma delta epsilon; zeta eta theta iota kappa lambda mu.";
        let first = ["alpha beta,", "gamma delta epsilon; zeta"];
        assert_eq!(sentences(text, 4, 0), [&first[..], &["eta theta iota kappa", "lambda mu."]].concat());
        assert_eq!(
            sentences(text, 4, 2),
            [&first[..], &["zeta eta theta iota", "theta iota kappa lambda", "kappa lambda mu."]].concat()
        );
    }

    #[test]
    fn no_grapheme_cluster_is_cut_unless_it_is_too_large_itself() {
        let count = |text: &str, limit: usize| Some(text.chars().count()).filter(|count| *count <= limit);
        let cut = |text: &'static str, size: usize| -> Vec<&str> {
            let splitter = Splitter {
                cuts: vec![Cut::Before(" ".to_owned()), Cut::Clauses, Cut::Characters],
                size,
                overlap: 0,
                count,
            };
            let within = Span { start: 0, end: text.len() };
            splitter
                .split(text, within, SentenceFinder::PunktAndScripts)
                .into_iter()
                .map(|span| &text[span.start..span.end])
                .collect()
        };
        assert_eq!(cut("e\u{301}e\u{301}e\u{301}", 3), ["e\u{301}", "e\u{301}", "e\u{301}"]);
        assert_eq!(cut("👩‍👩‍👧👩‍👩‍👧🇩🇪", 6), ["👩‍👩‍👧", "👩‍👩‍👧", "🇩🇪"]);
        assert_eq!(cut("a,\u{301}b", 3), ["a,\u{301}", "b"]);
        let zalgo = "e\u{301}\u{301}\u{301}\u{301}";
        assert_eq!(cut(zalgo, 3), ["e\u{301}\u{301}", "\u{301}\u{301}"]);
    }

    #[test]
    fn a_long_chinese_sentence_is_cut_at_its_commas() {
        let count = |text: &str, limit: usize| Some(text.chars().count()).filter(|count| *count <= limit);
        let text = "第一部分，第二部分，第三部分。第四部分。";
        let cut = |language| -> Vec<&str> {
            let splitter = Splitter { cuts: Cut::of_sentences(language, "\n\n\n", " "), size: 10, overlap: 0, count };
            let within = Span { start: 0, end: text.len() };
            splitter
                .split(text, within, splitter.finder(text))
                .into_iter()
                .map(|span| &text[span.start..span.end])
                .collect()
        };
        assert_eq!(cut(LanguageChoice::Auto), ["第一部分，第二部分，", "第三部分。第四部分。"]);
    }

    #[test]
    fn nothing_comes_of_nothing() {
        assert!(sentences("", 4, 0).is_empty());
        assert!(sentences(" \n\u{a0}\u{1c}", 4, 0).is_empty());
    }

    #[test]
    fn sizes_that_cannot_work_are_named() {
        let error = check_sizes("chunker sentence", "chunk_size", 10, 1024, 11).unwrap_err().to_string();
        assert!(error.contains("chunk_overlap") && error.contains("11") && !error.contains("default"), "{error}");
        let error = check_sizes("chunker sentence", "chunk_size", 1024, 1024, 1100).unwrap_err().to_string();
        assert!(error.contains("`chunk_size` (1024, the default)"), "{error}");
        assert!(check_sizes("chunker sentence", "chunk_size", 3, 1024, 0).is_err());
        assert!(check_sizes("chunker sentence", "chunk_size", 4, 1024, 4).is_ok());
    }
}
