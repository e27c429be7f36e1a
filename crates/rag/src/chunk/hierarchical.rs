//! `hierarchical`: small chunks are searched, and merged into the larger ones
//! that they are part of when enough of them are found.
//!
//! For long texts where an answer may need a sentence or a whole section: the
//! small chunks that are found decide which. Every level is cut like `sentence`; only the
//! smallest chunks are searchable.
//! Source: LlamaIndex 0.14 `HierarchicalNodeParser` and `AutoMergingRetriever`,
//! and how they work: gaps are filled only between hits that stand next to each
//! other in the list, and a parent's score is the mean of its children's.
//! A chunk that ends up in the list twice is kept once, with its best score. The
//! passage of a filled-in chunk lists the chunk itself as its hit.
//! Difference: LlamaIndex 0.14.25's parser leaves out the link to the next chunk
//! below the first level, so that its retriever never fills a gap there. Here
//! gaps are filled, as its retriever does once the links are there.

use super::{
    Chunker,
    outline::{Outline, link},
    sentences::SentenceFinder,
    split::{Cut, Splitter, check_sizes, not_set, overlap_follows_size},
};
use crate::{
    Chunk, ChunkTable, Component, Context, Document, Error, Hit, InputSize, Passage, Span, TableChunk,
    analysis::{Language, LanguageChoice},
    component::{ensure, settings},
};
use async_trait::async_trait;
use std::collections::HashSet;

pub(super) const VERSION: u32 = 3;

/// More rounds than any list needs, since a hit can rise only as often as there
/// are levels. The bound excludes an endless loop.
const MOST_ROUNDS: usize = 1000;

settings! {
    /// Settings of `hierarchical`.
    // `overlap_follows_size!` below implements serde's traits; `sentence.rs` says how.
    #[serde(remote = "Self")]
    pub struct Config {
        /// The size of a chunk at each level, largest first, in tokens of
        /// `cl100k_base`. Default 2048, 512, 128.
        pub chunk_sizes: Vec<u32> = vec![2048, 512, 128],
        /// The most that a chunk repeats of the one before, at every level, in
        /// tokens; whole sentences only. Default: a fifth of the smallest size, at
        /// most 20.
        // Only a mark: `overlap_follows_size!` replaces it by the default that the text above names.
        #[serde(default = "not_set")]
        #[schemars(with = "Option<u32>", extend("default" = null))]
        pub chunk_overlap: u32 = 20,
        /// A parent replaces its children if more than this share of them was
        /// found. From 0 to 1. Default 0.5.
        pub merge_threshold: f64 = 0.5,
        /// The language whose rules find sentences, by its English name in small letters, such
        /// as `german`. Default `auto`: the language of each document, if it is recognised, else English.
        pub language: LanguageChoice = LanguageChoice::Auto,
    }
}

overlap_follows_size!(|config| config.leaf());

impl Component for Config {
    fn named_language(&self) -> Option<Language> {
        self.language.language()
    }

    fn chunk_size(&self) -> Option<usize> {
        usize::try_from(self.leaf()).ok()
    }

    fn estimate_output(&self, item: InputSize) -> InputSize {
        // The children that a parent replaces hold at least `merge_threshold` of its size.
        let larger = self.chunk_sizes.len().saturating_sub(1) as i32;
        let times = (1.0 / self.merge_threshold.clamp(0.05, 1.0)).powi(larger).ceil() as u64;
        let most = self.chunk_sizes.iter().copied().max().unwrap_or_default();
        item.with_passage_size((u64::from(self.leaf()) * times).min(most.into()))
    }

    fn estimate_chunks(&self, item: InputSize) -> InputSize {
        item.cut_into_chunks(self.leaf().into(), self.chunk_overlap.into())
    }
}

impl Config {
    fn leaf(&self) -> u32 {
        self.chunk_sizes.iter().copied().min().unwrap_or_default()
    }

    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn Chunker>, Error> {
        const COMPONENT: &str = "chunker hierarchical";
        let levels = self.chunk_sizes.len();
        ensure(COMPONENT, (1..=16).contains(&levels), format!("`chunk_sizes` has {levels} levels; give 1 to 16"))?;
        let falls = self.chunk_sizes.is_sorted_by(|larger, smaller| larger > smaller);
        ensure(COMPONENT, falls, format!("`chunk_sizes` {:?} must fall from level to level", self.chunk_sizes))?;
        let reason = format!("`merge_threshold` is {}, but a share lies between 0 and 1", self.merge_threshold);
        ensure(COMPONENT, (0.0..=1.0).contains(&self.merge_threshold), reason)?;
        let default_size = Self::default().chunk_sizes.into_iter().min().unwrap_or_default();
        for &size in &self.chunk_sizes {
            check_sizes(COMPONENT, "chunk_sizes", size, default_size, self.chunk_overlap)?;
        }
        let splitter = |&size: &u32| {
            Splitter::by_tokens(Cut::of_sentences(self.language, "\n\n\n", " "), size, self.chunk_overlap)
        };
        Ok(Box::new(Hierarchical {
            levels: self.chunk_sizes.iter().map(splitter).collect(),
            merge_threshold: self.merge_threshold,
        }))
    }
}

struct Hierarchical {
    levels: Vec<Splitter>,
    merge_threshold: f64,
}

#[async_trait]
impl Chunker for Hierarchical {
    async fn chunk(&self, document: &Document) -> Result<Vec<Chunk>, Error> {
        let outline = Outline::new(document);
        let finder = self.levels.first().map_or(SentenceFinder::Punkt, |level| level.finder(&document.text));
        let mut chunks: Vec<Chunk> = Vec::new();
        // The chunks of the level above, by number; the document at first.
        let mut above = vec![(None, Span { start: 0, end: document.text.len() })];
        for (level, splitter) in (0u8..).zip(&self.levels) {
            let level_start = chunks.len();
            for (parent, within) in above {
                let family_start = chunks.len();
                for span in splitter.split(&document.text, within, finder) {
                    let number = u32::try_from(chunks.len()).unwrap_or(u32::MAX);
                    let searchable = usize::from(level) + 1 == self.levels.len();
                    chunks.push(Chunk { searchable, level, parent, ..outline.chunk(number, span) });
                }
                link(&mut chunks[family_start..]);
            }
            above = chunks[level_start..].iter().map(|chunk| (Some(chunk.number), chunk.span)).collect();
        }
        Ok(chunks)
    }

    fn context(&self, hits: Vec<Hit>, table: &ChunkTable) -> Vec<Passage> {
        let found = |hit: Hit| RankedChunk { row: hit.row, score: f64::from(hit.score), rows: vec![hit.row] };
        let mut list: Vec<RankedChunk> = hits.into_iter().map(found).collect();
        for _ in 0..MOST_ROUNDS {
            let before = list.len();
            list = fill(list, table);
            let filled = list.len() > before;
            let merged = self.merge(&mut list, table);
            if !filled && !merged {
                break;
            }
        }
        list.sort_by(|a, b| b.score.total_cmp(&a.score));
        let mut seen = HashSet::new();
        list.retain(|found| seen.insert(found.row));
        let passage = |RankedChunk { row, score, rows }: RankedChunk| {
            let passage = table.passage(Hit { row, score: score as f32 });
            if rows.is_empty() { passage } else { Passage { rows, ..passage } }
        };
        list.into_iter().map(passage).collect()
    }
}

/// A hit, a parent, or a filled-in chunk.
#[derive(Debug, Clone)]
struct RankedChunk {
    row: u32,
    score: f64,
    /// The hits below it, best first; none if it was filled in.
    rows: Vec<u32>,
}

impl Hierarchical {
    /// Replaces children by their parent where enough of them were found. Returns
    /// whether it replaced any.
    fn merge(&self, list: &mut Vec<RankedChunk>, table: &ChunkTable) -> bool {
        let mut siblings_by_parent: Vec<(u32, Vec<RankedChunk>)> = Vec::new();
        for found in list.iter() {
            let Some(parent) = table.chunk(found.row).parent else { continue };
            let parent = table.sibling(found.row, parent);
            match siblings_by_parent.iter_mut().find(|(row, _)| *row == parent) {
                Some((_, children)) => children.push(found.clone()),
                None => siblings_by_parent.push((parent, vec![found.clone()])),
            }
        }
        siblings_by_parent.retain(|(_, children)| {
            let share = children.len() as f64 / child_count(children[0].row, table) as f64;
            share > self.merge_threshold
        });
        let gone: HashSet<u32> =
            siblings_by_parent.iter().flat_map(|(_, children)| children).map(|child| child.row).collect();
        list.retain(|found| !gone.contains(&found.row));
        list.extend(siblings_by_parent.into_iter().map(|(row, mut children)| {
            let score = children.iter().map(|child| child.score).sum::<f64>() / children.len() as f64;
            children.sort_by(|a, b| b.score.total_cmp(&a.score));
            let mut seen = HashSet::new();
            let rows = children.into_iter().flat_map(|child| child.rows).filter(|&row| seen.insert(row)).collect();
            RankedChunk { row, score, rows }
        }));
        !gone.is_empty()
    }
}

/// If a single chunk lies between two hits that follow each other in the list,
/// inserts it between them with the mean of their scores.
fn fill(list: Vec<RankedChunk>, table: &ChunkTable) -> Vec<RankedChunk> {
    let mut filled: Vec<RankedChunk> = Vec::with_capacity(list.len());
    for found in list {
        if let Some(last) = filled.last() {
            let next = table.chunk(last.row).next.map(|number| table.sibling(last.row, number));
            let previous = table.chunk(found.row).previous.map(|number| table.sibling(found.row, number));
            if let Some(row) = next.filter(|_| next == previous) {
                let score = (last.score + found.score) / 2.0;
                filled.push(RankedChunk { row, score, rows: Vec::new() });
            }
        }
        filled.push(found);
    }
    filled
}

/// How many children the parent of this chunk has.
fn child_count(row: u32, table: &ChunkTable) -> usize {
    let walk = |step: fn(TableChunk<'_>) -> Option<u32>| {
        std::iter::successors(Some(row), |&at| step(table.chunk(at)).map(|number| table.sibling(at, number))).count()
    };
    // Both walks count the chunk itself.
    walk(|chunk| chunk.previous) + walk(|chunk| chunk.next) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::conformance_tests::text_document;

    fn sentences(n: usize) -> String {
        (0..n).map(|i| format!("Sentence number {i} is here. ")).collect()
    }

    fn small() -> Config {
        Config { chunk_sizes: vec![32, 8], chunk_overlap: 0, merge_threshold: 0.5, ..Config::default() }
    }

    /// One parent (row 0) with four children (rows 1 to 4).
    fn family() -> ChunkTable {
        let table = ChunkTable::new(
            small().build(&Context::default()).unwrap().chunk_now(&text_document(&sentences(4))).unwrap(),
        );
        assert_eq!((table.len(), table.searchable()), (5, &[1, 2, 3, 4][..]));
        table
    }

    /// What children and scores become; the parent is 9 in the answer.
    fn merged(threshold: f64, hits: &[(u32, f32)]) -> Vec<(u32, f32)> {
        let table = family();
        let chunker = Config { merge_threshold: threshold, ..small() }.build(&Context::default()).unwrap();
        let hits = hits.iter().map(|&(child, score)| Hit { row: child + 1, score }).collect();
        let name = |passage: &Passage| {
            let row = table.chunks().position(|chunk| chunk.text == passage.text).unwrap();
            row.checked_sub(1).map_or(9, |child| child as u32)
        };
        chunker.context(hits, &table).iter().map(|passage| (name(passage), passage.score)).collect()
    }

    #[test]
    fn merging_is_that_of_llama_index() {
        assert_eq!(merged(0.5, &[(0, 0.9), (1, 0.5)]), [(0, 0.9), (1, 0.5)]);
        assert_eq!(merged(0.5, &[(0, 0.9), (2, 0.5)]), [(9, 0.7)]);
        assert_eq!(merged(0.5, &[(2, 0.9), (0, 0.5)]), [(2, 0.9), (0, 0.5)]);
        assert_eq!(merged(0.5, &[(0, 0.9), (1, 0.6), (3, 0.3)]), [(9, 0.5625)]);
        assert_eq!(merged(0.49, &[(0, 0.9), (1, 0.5)]), [(9, 0.7)]);
        assert_eq!(merged(0.9, &[(0, 0.9), (2, 0.5)]), [(0, 0.9), (1, 0.7), (2, 0.5)]);
        assert_eq!(merged(0.5, &[]), []);
    }

    #[test]
    fn a_merged_passage_names_the_hits_below_it() {
        let hits = vec![Hit { row: 1, score: 0.5 }, Hit { row: 3, score: 0.9 }];
        let passages = small().build(&Context::default()).unwrap().context(hits, &family());
        assert_eq!(passages.len(), 1);
        assert_eq!(passages[0].rows, [3, 1]);
    }

    #[test]
    fn levels_come_one_after_another_and_only_the_last_is_searched() {
        let config =
            Config { chunk_sizes: vec![64, 32, 8], chunk_overlap: 0, merge_threshold: 0.5, ..Config::default() };
        let document = text_document(&sentences(20));
        let chunks = config.build(&Context::default()).unwrap().chunk_now(&document).unwrap();
        assert!(chunks.is_sorted_by_key(|chunk| chunk.level));
        for chunk in &chunks {
            assert_eq!(chunk.searchable, chunk.level == 2);
            assert_eq!(chunk.parent.is_none(), chunk.level == 0);
            let Some(parent) = chunk.parent.map(|number| &chunks[number as usize]) else { continue };
            assert_eq!(parent.level + 1, chunk.level);
            assert!(parent.span.start <= chunk.span.start && chunk.span.end <= parent.span.end);
            if let Some(next) = chunk.next.map(|number| &chunks[number as usize]) {
                assert_eq!((next.parent, next.previous), (chunk.parent, Some(chunk.number)));
            }
        }
    }

    #[test]
    fn a_parent_that_fits_has_one_equal_child() {
        let chunks =
            Config::default().build(&Context::default()).unwrap().chunk_now(&text_document(" A short text. ")).unwrap();
        let texts: Vec<&str> = chunks.iter().map(|chunk| chunk.text.as_str()).collect();
        assert_eq!(texts, ["A short text."; 3]);
    }

    #[test]
    fn settings_that_cannot_work_are_named() {
        for (config, key) in [
            (Config { chunk_sizes: vec![], ..Config::default() }, "chunk_sizes"),
            (Config { chunk_sizes: vec![128, 512], ..Config::default() }, "chunk_sizes"),
            (Config { chunk_overlap: 129, ..Config::default() }, "chunk_overlap"),
            (Config { merge_threshold: 1.5, ..Config::default() }, "merge_threshold"),
            (Config { merge_threshold: f64::NAN, ..Config::default() }, "merge_threshold"),
        ] {
            assert!(config.build(&Context::default()).err().unwrap().to_string().contains(key), "{config:?}");
        }
    }
}
