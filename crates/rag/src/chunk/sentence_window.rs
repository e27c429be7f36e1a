//! `sentence_window`: each sentence is searched, its neighbourhood is read.
//!
//! A single sentence matches a question sharply but says too little to answer
//! from, so a hit is replaced by its window of sentences. For texts of flowing
//! prose. Sentences are not limited in size: an embedder may cut a long one.
//! Source: LlamaIndex 0.14 `SentenceWindowNodeParser` with
//! `MetadataReplacementPostProcessor`. Differences: a window is the text as it
//! stands (LlamaIndex joins sentences by one more space), sentences in other
//! languages than English are found by the rules of the language, and windows of
//! exactly the same sentences are kept once, with the best score. Windows that
//! merely overlap are kept, as in LlamaIndex.

use super::{
    Chunker,
    outline::{Outline, merge_headings},
    sentences::SentenceFinder,
    split::trim,
};
use crate::{
    Chunk, ChunkTable, Component, Context, Document, Error, Hit, InputSize, Passage, Span, TableChunk,
    analysis::{Language, LanguageChoice},
    component::{ensure, settings},
};
use async_trait::async_trait;
use std::collections::HashMap;

pub(super) const VERSION: u32 = 3;

/// Tokens of a sentence, for estimates: a short one means more chunks, a long one larger passages.
const SHORT_SENTENCE: u64 = 16;
const LONG_SENTENCE: u64 = 48;

settings! {
    /// Settings of `sentence_window`.
    pub struct Config {
        /// How many sentences before and after the one found. Default 3, so at
        /// most seven in all.
        pub window_size: u32 = 3,
        /// The language whose rules find sentences, by its English name in small letters, such
        /// as `german`. Default `auto`: the language of each document, if it is recognised, else English.
        pub language: LanguageChoice = LanguageChoice::Auto,
    }
}

impl Component for Config {
    fn named_language(&self) -> Option<Language> {
        self.language.language()
    }

    fn estimate_chunks(&self, item: InputSize) -> InputSize {
        item.cut_into_chunks(SHORT_SENTENCE, 0)
    }

    fn estimate_output(&self, item: InputSize) -> InputSize {
        item.with_passage_size((1 + 2 * u64::from(self.window_size)) * LONG_SENTENCE)
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn Chunker>, Error> {
        let reason = "`window_size` is 0; give at least 1, or use the chunker `sentence`";
        ensure("chunker sentence_window", self.window_size > 0, reason)?;
        Ok(Box::new(self.clone()))
    }

    /// The first and last row of the window around a row.
    fn window(&self, row: u32, table: &ChunkTable) -> (u32, u32) {
        let reach = |step: fn(TableChunk<'_>) -> Option<u32>| {
            let next = |&at: &u32| step(table.chunk(at)).map(|number| table.sibling(row, number));
            std::iter::successors(Some(row), next).take(self.window_size as usize + 1).last().unwrap_or(row)
        };
        (reach(|chunk| chunk.previous), reach(|chunk| chunk.next))
    }
}

#[async_trait]
impl Chunker for Config {
    async fn chunk(&self, document: &Document) -> Result<Vec<Chunk>, Error> {
        // White space after a sentence stays with it, so that windows can be
        // put together from the sentences alone.
        let sentences = SentenceFinder::new(self.language, &document.text).sentences(&document.text);
        Ok(Outline::new(document).linked_chunks(sentences))
    }

    fn context(&self, hits: Vec<Hit>, table: &ChunkTable) -> Vec<Passage> {
        let mut passages: Vec<Passage> = Vec::with_capacity(hits.len());
        let mut by_window: HashMap<(u32, u32), usize> = HashMap::new();
        for hit in hits {
            let (from, to) = self.window(hit.row, table);
            if let Some(&known) = by_window.get(&(from, to)) {
                passages[known].rows.push(hit.row);
                continue;
            }
            by_window.insert((from, to), passages.len());
            let (text, span) = table.join(from, to);
            let inner = trim(&text, Span { start: 0, end: text.len() }).unwrap_or(Span { start: 0, end: text.len() });
            // It begins on the page of its first sentence, and names the
            // headings of all of them.
            let first = table.passage(Hit { row: from, score: hit.score });
            let headings: Vec<&str> = (from..=to).filter_map(|row| table.chunk(row).heading).collect();
            passages.push(Passage {
                heading: merge_headings(&headings),
                span: Span { start: span.start + inner.start, end: span.start + inner.end },
                text: text[inner.start..inner.end].to_owned(),
                rows: vec![hit.row],
                ..first
            });
        }
        passages
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::conformance_tests::text_document;

    fn table(documents: &[&str]) -> ChunkTable {
        let chunker = Config::default().build(&Context::default()).unwrap();
        ChunkTable::new(documents.iter().flat_map(|text| chunker.chunk_now(&text_document(text)).unwrap()).collect())
    }

    fn context(rows: &[u32], table: &ChunkTable) -> Vec<Passage> {
        let hits = rows.iter().map(|&row| Hit { row, score: 1.0 - row as f32 / 10.0 }).collect();
        Config::default().build(&Context::default()).unwrap().context(hits, table)
    }

    #[test]
    fn the_window_reaches_three_sentences_to_both_sides() {
        let sentences: Vec<String> = (0..8).map(|i| format!("This is s{i}.")).collect();
        let table = table(&[&sentences.join(" ")]);
        assert_eq!(table.len(), 8);
        for (row, from, to) in [(0, 0, 3), (4, 1, 7), (7, 4, 7)] {
            let passage = context(&[row], &table).remove(0);
            assert_eq!(passage.text, sentences[from..=to].join(" "), "row {row}");
            assert_eq!(passage.rows, [row]);
        }
    }

    #[test]
    fn windows_do_not_cross_documents() {
        let table = table(&["One is here. Two is here.", "Three is here. Four is here."]);
        assert_eq!(context(&[1], &table)[0].text, "One is here. Two is here.");
        assert_eq!(context(&[2], &table)[0].text, "Three is here. Four is here.");
    }

    #[test]
    fn equal_windows_are_kept_once_with_the_best_score() {
        let table = table(&["One is here. Two is here.", "Other."]);
        let passages = context(&[1, 2, 0], &table);
        assert_eq!(passages.len(), 2);
        assert_eq!((passages[0].rows.as_slice(), passages[0].score), (&[1, 0][..], 0.9));
    }

    #[test]
    fn a_window_of_nothing_is_refused() {
        assert!(
            Config { window_size: 0, ..Config::default() }
                .build(&Context::default())
                .err()
                .unwrap()
                .to_string()
                .contains("window_size")
        );
    }
}
