//! `semantic`: chunks end where the meaning of the text changes.
//!
//! Each sentence is embedded together with its neighbours, by the trial's
//! embedder; a chunk ends where two sentences that follow each other are
//! farther apart than most of the document are. It can pay for long documents
//! that change their subject without headings, such as transcripts. It seldom
//! pays elsewhere: in a comparison over retrieval, evidence and answers, chunks
//! of a fixed size did as well (Qu, Tu and Bao, Is Semantic Chunking Worth the
//! Computational Cost?, 2024, arXiv 2410.13070), while this embeds each sentence
//! `2 · buffer_size + 1` times over, before the chunks themselves are embedded.
//! The threshold is relative to the document, so a text of one subject is cut
//! as often as one of many.
//! Source: LlamaIndex 0.14 `SemanticSplitterNodeParser`, its algorithm and
//! defaults. Differences: sentences are joined as they stand in the text; chunks
//! have no white space at their ends; `least_size` joins a chunk that is too
//! small with the next one (the last with the one before), and `most_size` cuts
//! one that is too large as the chunker `sentence` does. With 0 and a very large
//! number the cuts are LlamaIndex's.

use super::{
    Chunker,
    outline::Outline,
    split::{Cut, Splitter, check_sizes, trim},
    tokens::TokenCounter,
};
use crate::{
    Chunk, Component, Context, Document, Error, InputSize, Span,
    analysis::{Language, LanguageChoice},
    component::{ensure, settings},
};
use async_trait::async_trait;
use models::{Embedder, InputKind, Matrix};

pub(super) const VERSION: u32 = 2;
const NAME: &str = "chunker semantic";

settings! {
    /// Settings of `semantic`.
    pub struct Config {
        /// How many sentences before and after a sentence are embedded with it.
        /// Default 1.
        pub buffer_size: usize = 1,
        /// A chunk ends where the distance of two sentences is larger than this
        /// percentile of all distances of the document, from 0 to 100: 95 (the
        /// default) cuts one border of sentences in twenty.
        pub breakpoint_percentile: f64 = 95.0,
        /// A chunk of fewer tokens of `cl100k_base` is joined with the next one, if
        /// both fit into `most_size`. Default 32.
        pub least_size: u32 = 32,
        /// A chunk of more tokens is cut. Default 1024.
        pub most_size: u32 = 1024,
        /// The language whose rules find sentences, by its English name in small letters, such
        /// as `german`. Default `auto`: the language of each document, if it is recognised, else English.
        pub language: LanguageChoice = LanguageChoice::Auto,
    }
}

impl Component for Config {
    fn named_language(&self) -> Option<Language> {
        self.language.language()
    }

    fn chunk_size(&self) -> Option<usize> {
        usize::try_from(self.most_size).ok()
    }

    fn estimate_output(&self, item: InputSize) -> InputSize {
        item.with_passage_size(self.most_size.into())
    }

    fn needs_embedder(&self) -> bool {
        true
    }
}

impl Config {
    pub(super) fn build(&self, cx: &Context<'_>) -> Result<Box<dyn Chunker>, Error> {
        let Self { breakpoint_percentile: percentile, least_size: least, most_size: most, .. } = *self;
        let reason = format!("`breakpoint_percentile` is {percentile}, but must lie between 0 and 100");
        ensure(NAME, (0.0..=100.0).contains(&percentile), reason)?;
        check_sizes(NAME, "most_size", most, most, 0)?;
        let reason = format!("`least_size` ({least}) is larger than `most_size` ({most}); make it smaller");
        ensure(NAME, least <= most, reason)?;
        let splitter = Splitter::by_tokens(Cut::of_sentences(self.language, "\n\n\n", " "), self.most_size, 0);
        Ok(Box::new(Semantic { config: self.clone(), splitter, embedder: cx.embedder(NAME)? }))
    }
}

struct Semantic {
    config: Config,
    /// Cuts what is too large.
    splitter: Splitter,
    embedder: Embedder,
}

#[async_trait]
impl Chunker for Semantic {
    async fn chunk(&self, document: &Document) -> Result<Vec<Chunk>, Error> {
        let text = &document.text;
        let finder = self.splitter.finder(text);
        let sentences = finder.sentences(text);
        let groups = match sentences.len() {
            0 | 1 => sentences,
            _ => {
                let vectors = self.embedder.embed(&self.with_neighbours(text, &sentences), InputKind::Document).await?;
                groups(&sentences, &distances(&vectors), self.config.breakpoint_percentile)
            }
        };
        let cut = self.join_small(text, &groups).into_iter().flat_map(|group| self.splitter.split(text, group, finder));
        Ok(Outline::new(document).linked_chunks(cut))
    }
}

impl Semantic {
    fn with_neighbours(&self, text: &str, sentences: &[Span]) -> Vec<String> {
        let last = sentences.len() - 1;
        let reach = self.config.buffer_size;
        let with_neighbours = |i: usize| {
            let (from, to) = (i.saturating_sub(reach), i.saturating_add(reach).min(last));
            text[sentences[from].start..sentences[to].end].trim().to_owned()
        };
        (0..=last).map(with_neighbours).collect()
    }

    /// The groups, small ones joined with the next.
    fn join_small(&self, text: &str, groups: &[Span]) -> Vec<Span> {
        let (least, most) = (self.config.least_size as usize, self.config.most_size as usize);
        let counter = TokenCounter::shared();
        let of = |span: Span| trim(text, span).map_or("", |span| &text[span.start..span.end]);
        let is_small = |span: Span| least > 0 && counter.count_up_to(of(span), least - 1).is_some();
        let mut sized: Vec<Span> = Vec::with_capacity(groups.len());
        for (i, &group) in groups.iter().enumerate() {
            let is_last = i + 1 == groups.len();
            let joined = sized.last().map(|before| Span { start: before.start, end: group.end });
            let wanted = |before: &Span| is_small(*before) || (is_last && is_small(group));
            match (sized.last_mut(), joined) {
                (Some(before), Some(joined)) if wanted(before) && counter.count_up_to(of(joined), most).is_some() => {
                    *before = joined;
                }
                _ => sized.push(group),
            }
        }
        sized
    }
}

/// The cosine distance of each row and the next.
fn distances(vectors: &Matrix) -> Vec<f64> {
    let cosine = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    (1..vectors.rows()).map(|i| 1.0 - cosine(vectors.row(i - 1), vectors.row(i))).collect()
}

/// Sentences side by side, cut where the distance is above the percentile.
fn groups(sentences: &[Span], distances: &[f64], percentile: f64) -> Vec<Span> {
    let threshold = self::percentile(distances, percentile);
    let mut groups: Vec<Span> = Vec::new();
    for (i, &sentence) in sentences.iter().enumerate() {
        let is_cut = i.checked_sub(1).is_none_or(|before| distances.get(before).is_some_and(|far| *far > threshold));
        match groups.last_mut() {
            Some(group) if !is_cut => group.end = sentence.end,
            _ => groups.push(sentence),
        }
    }
    groups
}

/// The percentile with linear interpolation, as NumPy computes it.
fn percentile(values: &[f64], percentile: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let at = percentile / 100.0 * last as f64;
    let below = (at.floor() as usize).min(last);
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (at - below as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chunk::conformance_tests::{check, nasty_texts, text_document},
        rerank::tests::Fixture,
    };

    async fn chunks(config: Config, text: &str) -> Vec<Chunk> {
        let fixture = Fixture::new();
        let chunker = config.build(&fixture.context()).unwrap();
        chunker.chunk(&text_document(text)).await.unwrap()
    }

    fn sized(least_size: u32, most_size: u32) -> Config {
        Config { buffer_size: 0, breakpoint_percentile: 80.0, least_size, most_size, ..Config::default() }
    }

    // The vectors of the test's model count letters.
    const TEXT: &str = "Aaa aa. Aa aaa. A aa aaaa. Zzz zz. Zz zzzz. Zzz z zz.";

    #[tokio::test]
    async fn a_chunk_ends_where_the_meaning_changes() {
        let texts: Vec<String> = chunks(sized(0, 1024), TEXT).await.into_iter().map(|chunk| chunk.text).collect();
        assert_eq!(texts, ["Aaa aa. Aa aaa. A aa aaaa.", "Zzz zz. Zz zzzz. Zzz z zz."]);
        assert_eq!(chunks(sized(1000, 1024), TEXT).await.len(), 1, "both are too small");
        let cut = chunks(sized(0, 8), TEXT).await;
        assert!(cut.len() > 2 && cut.iter().all(|chunk| TokenCounter::shared().count(&chunk.text) <= 8), "{cut:?}");
        assert_eq!(chunks(sized(0, 1024), "One sentence.").await.len(), 1);
        assert!(chunks(sized(0, 1024), " ").await.is_empty());
    }

    #[tokio::test]
    async fn chunks_of_any_text_are_sound() {
        for mut text in nasty_texts() {
            text = text.chars().take(20_000).collect();
            for (config, size) in [(Config::default(), None), (sized(4, 16), Some(16))] {
                let document = text_document(&text);
                check(&document, &chunks(config, &text).await, size, "semantic");
            }
        }
    }

    #[test]
    fn percentiles_are_those_of_numpy() {
        assert_eq!(percentile(&[3.0, 1.0, 2.0, 4.0], 95.0), 3.8499999999999996);
        assert_eq!(percentile(&[1.0, 2.0, 3.0], 50.0), 2.0);
        assert_eq!((percentile(&[7.0], 95.0), percentile(&[1.0, 2.0], 100.0)), (7.0, 2.0));
    }

    #[test]
    fn settings_that_cannot_work_are_named_and_an_embedder_is_needed() {
        for (config, key) in [
            (Config { breakpoint_percentile: 101.0, ..Config::default() }, "breakpoint_percentile"),
            (Config { most_size: 3, ..Config::default() }, "most_size"),
            (Config { least_size: 2000, ..Config::default() }, "least_size"),
        ] {
            let error = config.build(&Context::default()).err().unwrap().to_string();
            assert!(error.contains(key), "{error}");
        }
        assert!(matches!(Config::default().build(&Context::default()).err(), Some(Error::Needs { .. })));
        assert!(Config::default().needs_embedder());
    }
}
